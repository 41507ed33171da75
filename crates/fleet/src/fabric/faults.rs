//! Cables that are not where those of most nodes are: exchanged, in another order, on another rail's switch, without a link.

use super::kinds::{CableKind, CableLayout, CablePlace, Rails, SlotCable};
use super::names::{PortKey, natural};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    Exchanged,
    /// three or more NICs of a node are on each other's switches
    Reordered,
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

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FaultyCable {
    pub node: String,
    /// the NIC, with its port where it has several
    pub nic: String,
    pub on: Option<String>,
    pub on_rail: Option<usize>,
    /// the switch that most nodes beside it have there
    pub belongs: Option<String>,
    pub rail: Option<usize>,
}

/// Nodes among which a tie is noted for any NIC.
const FEW_NODES: usize = 4;

#[derive(Clone, Copy)]
struct Stray<'a> {
    kind: &'a CableKind<'a>,
    cable: &'a SlotCable<'a>,
}

#[derive(Default)]
pub(super) struct Faults<'a> {
    pub(super) faults: Vec<CableFault>,
    pub(super) doubts: BTreeMap<String, BTreeSet<&'a str>>,
    /// nodes whose NICs are in this order of rails: a permutation of the usual one
    pub(super) orders: BTreeMap<String, BTreeSet<&'a str>>,
}

impl<'a> Faults<'a> {
    pub(super) fn of(rails: &'a Rails<'a>) -> Faults<'a> {
        let mut faults = Faults::default();
        let mut left: Vec<Stray> = Vec::new();
        for kind in rails
            .kinds
            .iter()
            .filter(|kind| kind.layout != CableLayout::NotRecognised)
        {
            let of_gpus: BTreeSet<&PortKey> =
                kind.nodes.iter().flat_map(|node| &node.rails).collect();
            // few nodes may tie; NICs without an order on many are for storage
            let may_tie = |slot: usize| {
                if of_gpus.is_empty() {
                    kind.nodes.len() <= FEW_NODES
                } else {
                    of_gpus.contains(&kind.slots[slot])
                }
            };
            for row in kind.cables.chunks(kind.slots.len().max(1)) {
                let (mut strays, mut unclear) = (Vec::new(), Vec::new());
                for cable in row {
                    let is_fabrics = kind.is_fabrics[cable.slot];
                    let stray = Stray { kind, cable };
                    match cable.place {
                        CablePlace::Elsewhere { at, .. }
                            if is_fabrics || kind.switches.contains(at) =>
                        {
                            strays.push(stray);
                        }
                        CablePlace::NoLink { .. } if is_fabrics => {
                            faults.add(rails, FaultKind::NoLink, &[stray]);
                        }
                        CablePlace::Unclear { .. } if is_fabrics || may_tie(cable.slot) => {
                            unclear.push(kind.nic(cable.slot));
                        }
                        _ => {}
                    }
                }
                if !unclear.is_empty() {
                    let nics = unclear.join(" ");
                    faults.doubt(row[0].node.name, format!(
                        "{nics}: the nodes on the same switches do not agree, so it is not known which cables are right"
                    ));
                }
                let sorted = |switch: fn(&SlotCable<'a>) -> Option<&'a str>| {
                    let mut all: Vec<_> = strays.iter().map(|stray| switch(stray.cable)).collect();
                    all.sort_unstable();
                    all
                };
                let fault = match strays.len() {
                    2 => FaultKind::Exchanged,
                    _ => FaultKind::Reordered,
                };
                if strays.len() > 1 && sorted(SlotCable::at) == sorted(SlotCable::belongs) {
                    if let Some(order) = order(rails, &strays) {
                        faults
                            .orders
                            .entry(order)
                            .or_default()
                            .insert(row[0].node.name);
                    }
                    faults.add(rails, fault, &strays);
                } else {
                    left.extend(strays);
                }
            }
        }
        faults.between_nodes(rails, left);
        faults.faults.sort_by_cached_key(|fault| {
            let first = fault.cables.first();
            (
                fault.kind,
                first.map(|cable| (natural(&cable.node), natural(&cable.nic))),
            )
        });
        faults
    }

    fn add(&mut self, rails: &Rails, kind: FaultKind, strays: &[Stray]) {
        let rail = |switch: Option<&str>| rails.of_switch.get(switch?).copied();
        let cables = strays
            .iter()
            .map(|Stray { kind, cable }: &Stray| FaultyCable {
                node: cable.node.name.to_string(),
                nic: kind.nic(cable.slot),
                on: cable.at().map(String::from),
                on_rail: rail(cable.at()),
                belongs: cable.belongs().map(String::from),
                rail: rail(cable.belongs()),
            })
            .collect();
        self.faults.push(CableFault { kind, cables });
    }

    fn doubt(&mut self, node: &'a str, text: String) {
        self.doubts.entry(text).or_default().insert(node);
    }

    /// Strays are exchanged if each is where the other belongs, those of one node before those of
    /// two; any such pair will do, since a switch's ports are alike.
    fn between_nodes(&mut self, rails: &Rails, mut left: Vec<Stray<'a>>) {
        for is_in_node in [true, false] {
            let mut open: BTreeMap<_, Vec<Stray>> = BTreeMap::new();
            for stray in left {
                let node = is_in_node.then_some(stray.cable.node.name);
                let (at, belongs) = (stray.cable.at(), stray.cable.belongs());
                match open.get_mut(&(node, belongs, at)).and_then(Vec::pop) {
                    Some(other) => self.add(rails, FaultKind::Exchanged, &[other, stray]),
                    None => open.entry((node, at, belongs)).or_default().push(stray),
                }
            }
            left = open.into_values().flatten().collect();
        }
        for stray @ Stray { kind, cable } in left {
            let (at, belongs) = (
                cable.at().unwrap_or_default(),
                cable.belongs().unwrap_or_default(),
            );
            let rail = rails.of_switch.get(at);
            let is_same_rail = rail.is_some() && rail == rails.of_switch.get(belongs);
            if is_same_rail && kind.layout != CableLayout::OneLeaf {
                let nic = kind.nic(cable.slot);
                self.doubt(cable.node.name, format!(
                    "{nic} is on {at}, and its neighbours' on {belongs}: another leaf of the same rail"
                ));
            } else {
                self.add(rails, FaultKind::WrongSwitch, &[stray]);
            }
        }
    }
}

/// A node's NICs in the order of the rails that they are on, for `rails=`.
fn order(rails: &Rails, strays: &[Stray]) -> Option<String> {
    let Stray { kind, cable } = strays.first()?;
    let usual = &kind.rail_of;
    let on = |slot: &usize| match strays.iter().find(|stray| stray.cable.slot == *slot) {
        Some(stray) => rails.rail(stray.cable),
        None => usual[*slot],
    };
    let rails: Option<Vec<_>> = (0..usual.len())
        .filter(|slot| usual[*slot].is_some())
        .map(|slot| Some((on(&slot)?, slot)))
        .collect();
    kind.order(rails?, &[cable.node])
}
