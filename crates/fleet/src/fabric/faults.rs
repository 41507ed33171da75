//! Cables that are not where those of most nodes are: exchanged, in another order, on another rail's switch, without a link.
#![forbid(unsafe_code)]

use super::kinds::{CableKind, CablePlace, SlotCable};
use super::layout::CableLayout;
use super::names::{PortKey, natural};
use super::rails::Found;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

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

/// Nodes among which a tie is noted for any NIC.
const FEW_NODES: usize = 4;

/// A cable that is elsewhere.
struct Stray<'a> {
    kind: &'a CableKind<'a>,
    cable: &'a SlotCable<'a>,
    at: &'a str,
    belongs: &'a str,
}

/// Faults, and what need not be wrong.
#[derive(Default)]
pub(super) struct Faults<'a> {
    pub(super) faults: Vec<CableFault>,
    /// sentences about nodes
    pub(super) doubts: BTreeMap<String, BTreeSet<&'a str>>,
    /// nodes whose NICs are in this order of rails: a permutation of the usual one
    pub(super) orders: BTreeMap<String, BTreeSet<&'a str>>,
}

impl<'a> Faults<'a> {
    pub(super) fn of(found: &'a Found<'a>) -> Faults<'a> {
        let mut faults = Faults::default();
        let mut left: Vec<Stray> = Vec::new();
        let is_recognised = |kind: &&CableKind| kind.layout.layout != CableLayout::NotRecognised;
        for kind in found.kinds.iter().filter(is_recognised) {
            let rails: BTreeSet<&PortKey> =
                kind.nodes.iter().flat_map(|node| &node.rails).collect();
            // a few nodes may have as many for one order as for another; of many, NICs without an order are for storage
            let may_tie = |slot: usize| match rails.is_empty() {
                true => kind.nodes.len() <= FEW_NODES,
                false => rails.contains(&kind.slots[slot]),
            };
            for row in kind.cables.chunks(kind.slots.len().max(1)) {
                let (mut strays, mut unclear) = (Vec::new(), Vec::new());
                for cable in row {
                    let is_fabrics = kind.layout.is_fabrics[cable.slot];
                    match cable.place {
                        CablePlace::Elsewhere { at, belongs }
                            if is_fabrics || kind.layout.switches.contains(at) =>
                        {
                            strays.push(Stray {
                                kind,
                                cable,
                                at,
                                belongs,
                            });
                        }
                        CablePlace::NoLink { belongs } if is_fabrics => {
                            let cable = faulty(found, kind, cable, belongs);
                            faults.add(FaultKind::NoLink, vec![cable]);
                        }
                        CablePlace::Unclear { .. } if is_fabrics || may_tie(cable.slot) => {
                            unclear.push(kind.nic(cable.slot));
                        }
                        _ => {}
                    }
                }
                let node = row[0].node.name;
                if !unclear.is_empty() {
                    let nics = unclear.join(" ");
                    faults.doubts.entry(format!(
                        "{nics}: the nodes on the same switches do not agree, so it is not known which cables are right"
                    )).or_default().insert(node);
                }
                let switches = |of: fn(&Stray<'a>) -> &'a str| {
                    let mut switches: Vec<&str> = strays.iter().map(of).collect();
                    switches.sort_unstable();
                    switches
                };
                if strays.len() < 2 || switches(|stray| stray.at) != switches(|stray| stray.belongs)
                {
                    left.extend(strays);
                    continue;
                }
                if let Some(order) = order(found, &strays) {
                    faults.orders.entry(order).or_default().insert(node);
                }
                let is_pair = strays.len() == 2;
                let fault = if is_pair {
                    FaultKind::Exchanged
                } else {
                    FaultKind::Reordered
                };
                faults.add(
                    fault,
                    strays.iter().map(|stray| stray.faulty(found)).collect(),
                );
            }
        }
        faults.between_nodes(found, left);
        faults.faults.sort_by_cached_key(|fault| {
            let first = fault.cables.first();
            (
                fault.kind,
                first.map(|cable| (natural(&cable.node), natural(&cable.nic))),
            )
        });
        faults
    }

    fn add(&mut self, kind: FaultKind, cables: Vec<FaultyCable>) {
        self.faults.push(CableFault { kind, cables });
    }

    /// Two strays are exchanged if each is where the other belongs, those of one node before those of two; any such pair
    /// puts both right, since the ports of a switch are alike.
    fn between_nodes(&mut self, found: &Found, mut left: Vec<Stray<'a>>) {
        for is_in_node in [true, false] {
            // those without their other half so far
            let mut open: BTreeMap<_, Vec<Stray>> = BTreeMap::new();
            for stray in left {
                let node = is_in_node.then_some(stray.cable.node.name);
                let other = open
                    .get_mut(&(node, stray.belongs, stray.at))
                    .and_then(Vec::pop);
                if let Some(other) = other {
                    let mut cables = vec![other.faulty(found), stray.faulty(found)];
                    cables.sort();
                    self.add(FaultKind::Exchanged, cables);
                } else {
                    open.entry((node, stray.at, stray.belongs))
                        .or_default()
                        .push(stray);
                }
            }
            left = open.into_values().flatten().collect();
        }
        for stray in left {
            let cable = stray.faulty(found);
            let is_other_leaf = cable.rail.is_some() && cable.rail == cable.on_rail;
            if is_other_leaf && stray.kind.layout.layout != CableLayout::OneLeaf {
                let (nic, on, belongs) =
                    (cable.nic, found.name(stray.at), found.name(stray.belongs));
                self.doubts.entry(format!(
                    "{nic} is on {on}, and its neighbours' on {belongs}: another leaf of the same rail"
                )).or_default().insert(stray.cable.node.name);
            } else {
                self.add(FaultKind::WrongSwitch, vec![cable]);
            }
        }
    }
}

impl Stray<'_> {
    fn faulty(&self, found: &Found) -> FaultyCable {
        faulty(found, self.kind, self.cable, Some(self.belongs))
    }
}

fn faulty(
    found: &Found,
    kind: &CableKind,
    cable: &SlotCable,
    belongs: Option<&str>,
) -> FaultyCable {
    let rail = |switch: Option<&str>| found.numbers.of_switch.get(switch?).copied();
    FaultyCable {
        node: cable.node.name.to_string(),
        nic: kind.nic(cable.slot),
        on: cable.at().map(|at| found.name(at)),
        on_rail: rail(cable.at()),
        belongs: belongs.map(|at| found.name(at)),
        rail: rail(belongs),
    }
}

/// A node's NICs in the order of the rails that they are on, for `rails=`.
fn order(found: &Found, strays: &[Stray]) -> Option<String> {
    let kind = strays.first()?.kind;
    let on = |slot| match strays.iter().find(|stray| stray.cable.slot == slot) {
        Some(stray) => found.numbers.of_switch.get(stray.at).copied(),
        None => kind.layout.rail_of[slot],
    };
    let slots = (0..kind.slots.len()).filter(|slot| kind.layout.rail_of[*slot].is_some());
    let rails: Option<Vec<_>> = slots.map(|slot| Some((on(slot)?, slot))).collect();
    super::rails::order(kind, rails?, &[strays[0].cable.node])
}
