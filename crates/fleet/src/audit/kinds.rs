//! Kinds of nodes, and the differences of each node from its kind.

use super::Audit;
use super::facts::{Class, Inventory, Key};
use super::hostlist::compressed;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A node is of a kind if it differs by one device, or by one in so many.
pub(crate) const PART: usize = 4;
/// Kinds to which nodes with other devices are added, at most: the time must not grow with the square of the input.
const MOST_CENTRES: usize = 64;

#[derive(Debug, Serialize)]
pub struct Audited {
    format: &'static str,
    version: u32,
    pub nodes: usize,
    pub kinds: Vec<NodeKind>,
    /// nodes that reported more than once: the least report counts
    pub duplicates: Vec<String>,
    pub bad_count: usize,
    /// the first of the pieces of the input that are no reports
    pub bad: Vec<Bad>,
}

const VERSION: u32 = 2;

#[derive(Debug, Serialize)]
pub struct NodeKind {
    #[serde(flatten)]
    pub inventory: Inventory,
    pub nodes: String,
    pub count: usize,
    pub differing: Vec<Differing>,
}

#[derive(Debug, Serialize)]
pub struct Differing {
    pub nodes: String,
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

#[derive(Debug, Clone, Serialize)]
pub struct Bad {
    /// `-` for standard input
    pub input: String,
    /// `null` where the file cannot be read
    pub line: Option<u64>,
    pub why: String,
}

impl Audited {
    /// A single node has none that it could differ from.
    pub fn are_alike(&self) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.all(|kind| kind.differing.is_empty() && (kind.count > 1 || self.nodes == 1))
    }
}

type Members<'a> = Vec<(&'a str, &'a [u32])>;

/// Of each fact of a kind the most common value, `None` for nothing, and the number of nodes with it.
type Usual<'a> = BTreeMap<&'a Key, (Option<&'a str>, usize)>;

impl Audit {
    pub fn finish(&self) -> Audited {
        let mut duplicates = Vec::new();
        let mut groups: BTreeMap<&Inventory, Members> = BTreeMap::new();
        for (host, rows) in &self.nodes {
            if rows.values().sum::<usize>() > 1 {
                duplicates.push(host.clone());
            }
            // by facts, whose order unlike that of numbers does not depend on the order of reports
            let named =
                |numbers: &[u32]| BTreeSet::from_iter(numbers.iter().map(|of| self.fact(*of)));
            let least = rows.keys().min_by(|(a, facts), (b, others)| {
                a.cmp(b).then_with(|| named(facts).cmp(&named(others)))
            });
            if let Some((inventory, facts)) = least {
                groups.entry(inventory).or_default().push((host, facts));
            }
        }
        let few = |of: &&Inventory, centre: &&Inventory| {
            let distance = (of.machine == centre.machine).then(|| of.distance(centre))?;
            (distance <= (centre.count() / PART).max(1)).then_some(distance)
        };
        let mut kinds: Vec<NodeKind> = kinds(groups, few)
            .into_iter()
            .map(|(inventory, members)| self.kind(inventory, members))
            .collect();
        kinds.sort_by(|a, b| (b.count, &a.inventory).cmp(&(a.count, &b.inventory)));
        Audited {
            format: "nic-placement audit",
            version: VERSION,
            nodes: self.nodes.len(),
            kinds,
            duplicates,
            bad_count: 0,
            bad: Vec::new(),
        }
    }

    fn kind(&self, inventory: &Inventory, members: Members) -> NodeKind {
        let mut rows: BTreeMap<&[u32], Vec<&str>> = BTreeMap::new();
        for (host, facts) in &members {
            rows.entry(facts).or_default().push(host);
        }
        let usual = self.usual(&rows, members.len());
        let mut differing: BTreeMap<Vec<Difference>, Vec<&str>> = BTreeMap::new();
        for (row, hosts) in rows {
            let differences = self.differences(row, &usual);
            if !differences.is_empty() {
                differing.entry(differences).or_default().extend(hosts);
            }
        }
        let mut differing: Vec<Differing> = differing
            .into_iter()
            .map(|(differences, nodes)| Differing {
                count: nodes.len(),
                nodes: compressed(nodes),
                differences,
            })
            .collect();
        differing.sort_by(|a, b| a.nodes.cmp(&b.nodes));
        NodeKind {
            inventory: inventory.clone(),
            count: members.len(),
            nodes: compressed(members.into_iter().map(|(host, _)| host)),
            differing,
        }
    }

    /// Of two values as common the one that sorts first counts.
    fn usual(&self, rows: &BTreeMap<&[u32], Vec<&str>>, count: usize) -> Usual<'_> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for (row, hosts) in rows {
            row.iter()
                .for_each(|number| *counts.entry(*number).or_default() += hosts.len());
        }
        let mut values: BTreeMap<&Key, Vec<_>> = BTreeMap::new();
        for (number, count) in counts {
            let (key, value) = self.fact(number);
            let values = values.entry(key).or_default();
            values.push((Reverse(count), Some(value.as_str())));
        }
        let mut usual = Usual::new();
        for (key, mut values) in values {
            let told: usize = values
                .iter()
                .map(|(nodes, _): &(Reverse<usize>, _)| nodes.0)
                .sum();
            if told < count && key.is_presence() {
                values.push((Reverse(count - told), None));
            }
            let most = values.into_iter().min();
            usual.extend(most.map(|(nodes, value)| (key, (value, nodes.0))));
        }
        usual
    }

    fn differences(&self, row: &[u32], usual: &Usual) -> Vec<Difference> {
        let facts = row.iter().map(|number| self.fact(*number));
        let here: BTreeMap<&Key, &str> = facts.map(|(key, value)| (key, value.as_str())).collect();
        // a node without a finding of its kind is no fault
        let must_be = |key: &&&Key| key.is_presence() && key.class != Class::Finding;
        let keys = here.keys().chain(usual.keys().filter(must_be)).copied();
        let difference = |key: &Key| {
            let told = here.get(key).copied();
            let (kind, shared_by) = usual.get(key).copied().unwrap_or_default();
            // texts of one finding differ in ages and other figures that change by the hour
            let is_same_finding = key.class == Class::Finding && told.is_some() && kind.is_some();
            (told != kind && !is_same_finding).then(|| Difference {
                class: key.class,
                subject: subject(key, &here, usual),
                what: key.what.clone(),
                here: told.map(String::from),
                kind: kind.map(String::from),
                shared_by,
            })
        };
        BTreeSet::from_iter(keys)
            .into_iter()
            .filter_map(difference)
            .collect()
    }
}

/// With the NIC's name on most nodes of the kind, else on the node.
fn subject(key: &Key, here: &BTreeMap<&Key, &str>, usual: &Usual) -> String {
    let named = Key {
        what: "name".to_string(),
        ..key.clone()
    };
    let usual = usual.get(&named).and_then(|(value, _)| *value);
    match usual.or(here.get(&named).copied()) {
        Some(name) if key.class == Class::Nic && name != key.subject => {
            format!("{name} ({})", key.subject)
        }
        _ => key.subject.clone(),
    }
}

/// Groups that differ by little from a common one, with at least twice the members, join the nearest such. The most common
/// come first.
pub(crate) fn kinds<S, M>(
    groups: BTreeMap<S, Vec<M>>,
    distance: impl Fn(&S, &S) -> Option<usize>,
) -> Vec<(S, Vec<M>)> {
    let mut groups = Vec::from_iter(groups);
    groups.sort_by_key(|(_, members)| Reverse(members.len()));
    let mut kinds: Vec<(S, Vec<M>, usize)> = Vec::new();
    for (of, members) in groups {
        let count = members.len();
        let centres = kinds.iter_mut().take(MOST_CENTRES);
        let near = centres
            .filter(|(_, _, whole)| count * 2 <= *whole)
            .filter_map(|(centre, members, _)| Some((distance(&of, centre)?, members)));
        match near.min_by_key(|(distance, _)| *distance) {
            Some((_, of)) => of.extend(members),
            None => kinds.push((of, members, count)),
        }
    }
    let kinds = kinds.into_iter();
    kinds.map(|(of, members, _)| (of, members)).collect()
}

pub(crate) fn majority<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values = Vec::from_iter(values);
    values.sort_unstable();
    // more than half of a sorted list hold its middle
    let middle = *values.get(values.len() / 2)?;
    let count = values.iter().filter(|value| **value == middle).count();
    (count * 2 > values.len()).then_some(middle)
}
