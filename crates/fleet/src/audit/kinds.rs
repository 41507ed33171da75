//! Kinds of nodes, and the differences of each node from its kind.

use super::facts::{Class, Inventory, Key};
use super::hostlist::compressed;
use super::report::to_json;
use super::{Audit, Shape};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A node is of a kind if it differs by one device, or by one in so many.
const PART: usize = 4;
/// Common kinds of a machine, to which nodes with other devices are added, at most: the time must
/// not grow with the square of the input.
const MOST_CENTRES: usize = 64;

struct Usual {
    /// for each fact that any of them has: its value, `None` for nothing, and the number of nodes with it
    values: BTreeMap<u32, (Option<u32>, usize)>,
    expected: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audited {
    pub nodes: usize,
    pub kinds: Vec<NodeKind>,
    pub duplicates: Vec<Duplicate>,
    /// wrong cables, as `fabric` has them; `None` where no source tells cables
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cables: Option<serde_json::Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeKind {
    #[serde(flatten)]
    pub inventory: Inventory,
    pub nodes: String,
    pub count: usize,
    pub differing: Vec<Differing>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Differing {
    pub nodes: String,
    #[serde(skip)]
    pub hosts: Vec<String>,
    pub count: usize,
    pub differences: Vec<Difference>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    #[serde(rename = "of")]
    pub class: Class,
    /// such as `mlx5_3 (0000:5e:00.0)`
    pub subject: String,
    pub what: String,
    /// the node's value; `None` for nothing
    pub here: Option<String>,
    /// the value of most nodes of the kind
    pub kind: Option<String>,
    /// the number of nodes with that value
    pub shared_by: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Duplicate {
    pub host: String,
    pub(crate) reports: usize,
    /// else the least report counts
    pub alike: bool,
}

#[derive(Serialize)]
pub struct Bad {
    /// `-` for standard input
    pub input: String,
    /// `null` where the file cannot be read
    pub line: Option<u64>,
    pub why: String,
}

impl Audited {
    /// `bad` are the first of `bad_count` pieces of the input that are no reports.
    pub fn to_json(&self, bad_count: usize, bad: &[Bad]) -> String {
        /// Grows when a field changes its meaning or goes, not with new fields.
        const VERSION: u32 = 1;
        #[derive(Serialize)]
        struct Answer<'a> {
            format: &'static str,
            version: u32,
            #[serde(flatten)]
            audited: &'a Audited,
            bad_count: usize,
            bad: &'a [Bad],
        }
        let answer = Answer {
            format: "nic-placement audit",
            version: VERSION,
            audited: self,
            bad_count,
            bad,
        };
        to_json(&answer)
    }

    pub fn is_clean(&self) -> bool {
        self.duplicates.is_empty() && self.are_alike()
    }

    /// A single node has none that it could differ from.
    pub fn are_alike(&self) -> bool {
        let lone = |kind: &NodeKind| kind.count == 1 && self.nodes > 1;
        !self
            .kinds
            .iter()
            .any(|kind| lone(kind) || !kind.differing.is_empty())
    }
}

impl Audit {
    pub fn finish(&self) -> Audited {
        let (mut of_shape, mut duplicates): (BTreeMap<u32, Vec<&str>>, _) =
            (BTreeMap::new(), Vec::new());
        for (host, shapes) in &self.nodes {
            let reports = shapes.values().map(|count| *count as usize).sum();
            if reports > 1 {
                duplicates.push(Duplicate {
                    host: host.clone(),
                    reports,
                    alike: shapes.len() == 1,
                });
            }
            let first = match shapes.len() {
                1 => shapes.keys().next(),
                _ => shapes.keys().min_by_key(|shape| self.named(**shape)),
            };
            of_shape.entry(*first.unwrap_or(&0)).or_default().push(host);
        }
        let mut kinds: Vec<NodeKind> = self
            .centres(&of_shape)
            .into_iter()
            .map(|(of, shapes)| self.kind(of, &shapes, &of_shape))
            .collect();
        kinds.sort_by(|a, b| {
            b.count
                .cmp(&a.count)
                .then_with(|| a.inventory.cmp(&b.inventory))
        });
        Audited {
            nodes: self.nodes.len(),
            kinds,
            duplicates,
            cables: None,
        }
    }

    /// The inventory of each kind, with the shapes of its nodes.
    ///
    /// An inventory is of a common kind of the same machine, with at least twice the nodes, if it
    /// has all but a few of that kind's devices: its nodes lack them.
    fn centres(&self, of_shape: &BTreeMap<u32, Vec<&str>>) -> BTreeMap<u32, Vec<u32>> {
        let mut counts: BTreeMap<u32, (usize, Vec<u32>)> = BTreeMap::new();
        for (&shape, hosts) in of_shape {
            let of = counts
                .entry(self.shapes[shape as usize].inventory)
                .or_default();
            of.0 += hosts.len();
            of.1.push(shape);
        }
        let mut common: Vec<(u32, usize, Vec<u32>)> = counts
            .into_iter()
            .map(|(number, (count, shapes))| (number, count, shapes))
            .collect();
        let inventory = |number: u32| &self.inventories[number as usize];
        common.sort_by(|a, b| {
            b.1.cmp(&a.1)
                .then_with(|| inventory(a.0).cmp(inventory(b.0)))
        });
        let mut centres: BTreeMap<&str, Vec<(u32, usize)>> = BTreeMap::new();
        let mut kinds: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (number, count, shapes) in common {
            let of = inventory(number);
            let of_machine = centres.entry(&of.machine).or_default();
            let near = of_machine
                .iter()
                .enumerate()
                .filter_map(|(order, &(centre, nodes))| {
                    let centre_of = inventory(centre);
                    let distance = of.distance(centre_of);
                    (count * 2 <= nodes && distance <= (centre_of.devices() / PART).max(1))
                        .then_some((distance, order, centre))
                });
            match near.min() {
                Some((_, _, centre)) => kinds.entry(centre).or_default().extend(shapes),
                None => {
                    if count > 1 && of_machine.len() < MOST_CENTRES {
                        of_machine.push((number, count));
                    }
                    kinds.insert(number, shapes);
                }
            }
        }
        kinds
    }

    fn kind(
        &self,
        inventory: u32,
        shapes: &[u32],
        of_shape: &BTreeMap<u32, Vec<&str>>,
    ) -> NodeKind {
        let hosts = |shape: &u32| of_shape.get(shape).map(Vec::as_slice).unwrap_or_default();
        let count = shapes.iter().map(|shape| hosts(shape).len()).sum();
        let usual = self.usual(shapes, of_shape, count);
        let mut differing: BTreeMap<Vec<Difference>, Vec<&str>> = BTreeMap::new();
        for shape in shapes {
            let differences = self.differences(&self.shapes[*shape as usize], &usual);
            if !differences.is_empty() {
                differing
                    .entry(differences)
                    .or_default()
                    .extend(hosts(shape));
            }
        }
        let mut differing: Vec<Differing> = differing
            .into_iter()
            .map(
                |(differences, nodes): (Vec<Difference>, Vec<&str>)| Differing {
                    count: nodes.len(),
                    hosts: nodes.iter().map(ToString::to_string).collect(),
                    nodes: compressed(nodes),
                    differences,
                },
            )
            .collect();
        differing.sort_by(|a, b| a.nodes.cmp(&b.nodes));
        let nodes = compressed(shapes.iter().flat_map(hosts).copied());
        NodeKind {
            inventory: self.inventories[inventory as usize].clone(),
            nodes,
            count,
            differing,
        }
    }

    /// The most common value of each fact; of two as common the one that sorts first.
    fn usual(&self, shapes: &[u32], of_shape: &BTreeMap<u32, Vec<&str>>, count: usize) -> Usual {
        let mut values: BTreeMap<u32, BTreeMap<u32, usize>> = BTreeMap::new();
        for shape in shapes {
            let hosts = of_shape.get(shape).map_or(0, Vec::len);
            for &(key, value) in &self.shapes[*shape as usize].facts {
                *values.entry(key).or_default().entry(value).or_default() += hosts;
            }
        }
        let values: BTreeMap<u32, (Option<u32>, usize)> = values
            .into_iter()
            .map(|(key, values)| {
                let told: usize = values.values().sum();
                let absent = Some((None, count - told)).filter(|(_, nodes)| {
                    *nodes > 0 && self.keys[key as usize].counts_where_absent()
                });
                let present = values
                    .into_iter()
                    .map(|(value, nodes)| (Some(value), nodes));
                let name =
                    |value: Option<u32>| value.map(|value| self.values[value as usize].as_str());
                let usual = present
                    .chain(absent)
                    .min_by_key(|(value, nodes)| (usize::MAX - nodes, name(*value)));
                (key, usual.unwrap_or((None, 0)))
            })
            .collect();
        let must_be = |key: &u32| {
            let key = &self.keys[*key as usize];
            // a node without a finding of its kind is no fault
            key.counts_where_absent() && key.class != Class::Finding
        };
        let expected = values
            .iter()
            .filter(|(_, (value, _))| value.is_some())
            .map(|(key, _)| *key);
        Usual {
            expected: expected.filter(must_be).collect(),
            values,
        }
    }

    fn differences(&self, shape: &Shape, usual: &Usual) -> Vec<Difference> {
        let here: BTreeMap<u32, u32> = shape.facts.iter().copied().collect();
        let mut found: BTreeSet<(&Key, Difference)> = BTreeSet::new();
        let keys: BTreeSet<u32> = here.keys().chain(&usual.expected).copied().collect();
        for key in keys {
            let (name, here) = (&self.keys[key as usize], here.get(&key).copied());
            let (kind, shared_by) = usual.values.get(&key).copied().unwrap_or((None, 0));
            // texts of one finding differ in ages and other figures that change by the hour
            let is_same_finding = name.class == Class::Finding && here.is_some() && kind.is_some();
            if here == kind || is_same_finding {
                continue;
            }
            let text = |value: Option<u32>| value.map(|value| self.values[value as usize].clone());
            let difference = Difference {
                class: name.class,
                subject: self.subject(name, shape, usual),
                what: name.what.clone(),
                here: text(here),
                kind: text(kind),
                shared_by,
            };
            found.insert((name, difference));
        }
        found
            .into_iter()
            .map(|(_, difference)| difference)
            .collect()
    }

    /// With the NIC's name on most nodes of the kind, else on the node.
    fn subject(&self, key: &Key, shape: &Shape, usual: &Usual) -> String {
        let name = || {
            let key = Key {
                what: "name".to_string(),
                ..key.clone()
            };
            let key = self.keys.get_index_of(&key)? as u32;
            let own = shape
                .facts
                .iter()
                .find(|(own, _)| *own == key)
                .map(|(_, value)| *value);
            let kinds = usual.values.get(&key).and_then(|(value, _)| *value);
            Some(&self.values[kinds.or(own)? as usize])
        };
        match (key.class, name()) {
            (Class::Nic, Some(name)) if *name != key.subject => format!("{name} ({})", key.subject),
            _ => key.subject.clone(),
        }
    }
}

pub(crate) fn majority<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values = Vec::from_iter(values);
    values.sort_unstable();
    // more than half of a sorted list hold its middle
    let middle = *values.get(values.len() / 2)?;
    let count = values.iter().filter(|value| **value == middle).count();
    (count * 2 > values.len()).then_some(middle)
}
