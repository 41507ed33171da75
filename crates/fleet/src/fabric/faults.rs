//! Cables that are not where those of most nodes are: exchanged, in another order, on another rail's switch, without a link.
#![forbid(unsafe_code)]

use super::layout::{CableLayout, RailNumbers};
use super::names::{NodeCables, PortKey, are_names, natural, nic_name};
use super::votes::{CableKind, CablePlace};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with some cables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// each of two cables is where the other belongs
    Exchanged,
    /// three or more NICs of a node are on each other's switches
    Reordered,
    /// a cable is on another switch
    WrongSwitch,
    /// most nodes have a link there
    NoLink,
}

/// Cables that one exchange of plugs, or one new cable, puts right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CableFault {
    pub kind: FaultKind,
    pub cables: Vec<FaultyCable>,
}

/// A cable that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FaultyCable {
    pub node: String,
    /// the NIC, with its port where it has several
    pub nic: String,
    /// the switch that it is on; `null` without a link
    pub on: Option<String>,
    /// that switch's rail
    pub on_rail: Option<usize>,
    /// the switch that most nodes beside it have there
    pub belongs: Option<String>,
    pub rail: Option<usize>,
}

/// What is not as on most nodes, and need not be wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    /// it is on another switch of its rail than the cables of its neighbours: the switches' names
    OtherLeaf(String, String, String),
    /// neighbours do not agree
    Unclear(Vec<String>),
}

/// Nodes among which a tie is told of any NIC.
const FEW_NODES: usize = 4;

/// A cable that is elsewhere, by numbers.
#[derive(Debug, Clone, Copy)]
struct Stray {
    kind: usize,
    row: usize,
    slot: usize,
    at: u32,
    belongs: u32,
}

/// All there is to say about cables by number.
pub(super) struct Faults<'a> {
    pub(super) nodes: &'a [NodeCables],
    pub(super) kinds: &'a [CableKind],
    pub(super) numbers: &'a RailNumbers,
    /// the name of each switch
    pub(super) switches: &'a [String],
}

/// The nodes' NICs in the order of their rails: a permutation of the usual one.
pub(super) type NodeOrders = BTreeMap<Vec<String>, BTreeSet<String>>;

impl Faults<'_> {
    /// What is wrong, what is doubtful, and which nodes have their NICs in another order.
    pub(super) fn find(&self) -> (Vec<CableFault>, BTreeMap<Doubt, BTreeSet<&str>>, NodeOrders) {
        let (mut faults, mut doubts, mut orders) = (Vec::new(), BTreeMap::new(), NodeOrders::new());
        let mut left: Vec<Stray> = Vec::new();
        for (number, kind) in self
            .kinds
            .iter()
            .enumerate()
            .filter(|of| self.numbers.kinds[of.0].is_recognised())
        {
            let rails: BTreeSet<&PortKey> = kind
                .nodes
                .iter()
                .flat_map(|node| &self.nodes[*node].rails)
                .collect();
            // a few nodes may have as many for one order as for another; of many, NICs without an order are for storage
            let may_tie = |slot: usize| match rails.is_empty() {
                true => kind.nodes.len() <= FEW_NODES,
                false => rails.contains(&kind.slots[slot]),
            };
            for (row, places) in kind.places.iter().enumerate() {
                let mut strays = Vec::new();
                let mut unclear = Vec::new();
                let is_fabrics = &self.numbers.kinds[number].is_fabrics;
                for (slot, place) in places.iter().enumerate() {
                    let stray = |at, belongs| Stray {
                        kind: number,
                        row,
                        slot,
                        at,
                        belongs,
                    };
                    match *place {
                        CablePlace::Elsewhere { at, belongs }
                            if is_fabrics[slot]
                                || self.numbers.kinds[number].switches.contains(&at) =>
                        {
                            strays.push(stray(at, belongs));
                        }
                        CablePlace::NoLink { belongs } if is_fabrics[slot] => {
                            let cables = vec![self.cable((number, row, slot), None, belongs)];
                            faults.push(CableFault {
                                kind: FaultKind::NoLink,
                                cables,
                            });
                        }
                        CablePlace::Unclear { .. } if is_fabrics[slot] || may_tie(slot) => {
                            unclear.push(self.nic(kind, slot));
                        }
                        _ => {}
                    }
                }
                let node = self.nodes[kind.nodes[row]].name.as_str();
                if !unclear.is_empty() {
                    doubts
                        .entry(Doubt::Unclear(unclear))
                        .or_insert_with(BTreeSet::new)
                        .insert(node);
                }
                match self.of_node(&strays) {
                    Some(fault) => {
                        faults.push(fault);
                        if let Some(order) = self.order(&strays) {
                            orders.entry(order).or_default().insert(node.to_string());
                        }
                    }
                    None => left.extend(strays),
                }
            }
        }
        self.between_nodes(left, &mut faults, &mut doubts);
        faults.sort_by_cached_key(|fault| {
            let first = fault.cables.first();
            (
                fault.kind,
                first.map(|cable| (natural(&cable.node), natural(&cable.nic))),
            )
        });
        (faults, doubts, orders)
    }

    /// The strays of one node as one fault, if they are on each other's switches.
    fn of_node(&self, strays: &[Stray]) -> Option<CableFault> {
        let sorted = |of: fn(&Stray) -> u32| {
            let mut switches: Vec<u32> = strays.iter().map(of).collect();
            switches.sort_unstable();
            switches
        };
        let is_permutation =
            strays.len() > 1 && sorted(|stray| stray.at) == sorted(|stray| stray.belongs);
        let kind = if strays.len() == 2 {
            FaultKind::Exchanged
        } else {
            FaultKind::Reordered
        };
        let cables = || strays.iter().map(|stray| self.stray(*stray)).collect();
        is_permutation.then(|| CableFault {
            kind,
            cables: cables(),
        })
    }

    /// Two strays are exchanged if each is where the other belongs, those of one node before those of two; any such pair puts
    /// both right, since the ports of a switch are alike.
    fn between_nodes<'a>(
        &'a self,
        mut left: Vec<Stray>,
        faults: &mut Vec<CableFault>,
        doubts: &mut BTreeMap<Doubt, BTreeSet<&'a str>>,
    ) {
        for is_in_node in [true, false] {
            let node = |stray: &Stray| is_in_node.then_some((stray.kind, stray.row));
            // those that wait for their other half, by where that would be
            let mut open: BTreeMap<_, Vec<usize>> = BTreeMap::new();
            let mut paired = vec![false; left.len()];
            for (number, stray) in left.iter().enumerate() {
                if let Some(other) = open
                    .get_mut(&(node(stray), stray.belongs, stray.at))
                    .and_then(Vec::pop)
                {
                    (paired[number], paired[other]) = (true, true);
                    let mut cables = vec![self.stray(left[other]), self.stray(*stray)];
                    cables.sort();
                    faults.push(CableFault {
                        kind: FaultKind::Exchanged,
                        cables,
                    });
                } else {
                    open.entry((node(stray), stray.at, stray.belongs))
                        .or_default()
                        .push(number);
                }
            }
            let mut paired = paired.into_iter();
            left.retain(|_| !paired.next().unwrap_or(false));
        }
        for stray in left {
            let cable = self.stray(stray);
            let is_one_leaf = self.numbers.kinds[stray.kind].layout == CableLayout::OneLeaf;
            match (&cable.on, &cable.belongs) {
                (Some(on), Some(belongs))
                    if cable.rail.is_some() && cable.rail == cable.on_rail && !is_one_leaf =>
                {
                    let doubt = Doubt::OtherLeaf(cable.nic, on.clone(), belongs.clone());
                    let node = &self.nodes[self.kinds[stray.kind].nodes[stray.row]].name;
                    doubts.entry(doubt).or_default().insert(node);
                }
                _ => faults.push(CableFault {
                    kind: FaultKind::WrongSwitch,
                    cables: vec![cable],
                }),
            }
        }
    }

    /// A node's NICs in the order of the rails that they are on, in a layout where each NIC has a rail.
    fn order(&self, strays: &[Stray]) -> Option<Vec<String>> {
        let first = strays.first()?;
        let (kind, of_kind) = (&self.kinds[first.kind], &self.numbers.kinds[first.kind]);
        let on = |(slot, usual): (usize, &Option<usize>)| {
            let stray = strays.iter().find(|stray| stray.slot == slot);
            let rail = stray.map_or(*usual, |stray| {
                self.numbers.of_switch.get(&stray.at).copied()
            });
            Some((rail?, slot, &kind.slots[slot].0))
        };
        let mut rails: Vec<(usize, usize, &String)> = of_kind
            .rail_of
            .iter()
            .enumerate()
            .filter(|(_, rail)| rail.is_some())
            .map(on)
            .collect::<Option<_>>()?;
        rails.sort_unstable();
        let is_named = self.nodes[kind.nodes[first.row]].has_own_names
            && are_names(rails.iter().map(|(_, _, name)| name.as_str()));
        (is_named && of_kind.layout == CableLayout::RailOptimised)
            .then(|| rails.into_iter().map(|(_, _, name)| name.clone()).collect())
    }

    fn stray(
        &self,
        Stray {
            kind,
            row,
            slot,
            at,
            belongs,
        }: Stray,
    ) -> FaultyCable {
        self.cable((kind, row, slot), Some(at), Some(belongs))
    }

    fn cable(
        &self,
        (kind, row, slot): (usize, usize, usize),
        at: Option<u32>,
        belongs: Option<u32>,
    ) -> FaultyCable {
        let rail = |switch: Option<u32>| self.numbers.of_switch.get(&switch?).copied();
        let name = |switch: Option<u32>| self.switches.get(switch? as usize).cloned();
        let of = &self.kinds[kind];
        FaultyCable {
            node: self.nodes[of.nodes[row]].name.clone(),
            nic: self.nic(of, slot),
            on: name(at),
            on_rail: rail(at),
            belongs: name(belongs),
            rail: rail(belongs),
        }
    }

    fn nic(&self, kind: &CableKind, slot: usize) -> String {
        nic_name(&kind.slots, slot)
    }
}
