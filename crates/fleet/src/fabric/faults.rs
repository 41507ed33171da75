//! Cables that are not where those of most nodes are: exchanged, on another rail's switch, without a link.

use super::kinds::{CableKind, CableLayout, Rails, SlotCable};
use super::names::natural;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Several cables that one exchange of plugs puts right, each where another belongs; or one on a wrong switch or without a link.
pub type CableFault = Vec<FabricCable>;

#[derive(Debug, PartialEq, Serialize)]
pub struct FabricCable {
    pub node: String,
    /// the NIC, with its port where it has several
    pub nic: String,
    /// `null` without a link, and where the sources name several switches
    pub on: Option<String>,
    pub on_port: Option<String>,
    pub on_rail: Option<usize>,
    /// the switch that most nodes beside it have there
    pub belongs: Option<String>,
    pub rail: Option<usize>,
}

impl FabricCable {
    pub(super) fn of(rails: &Rails, kind: &CableKind, cable: &SlotCable) -> FabricCable {
        let end = cable.node.ends.get(&kind.slots[cable.slot]);
        FabricCable {
            node: cable.node.name.to_string(),
            nic: kind.nic(cable.slot),
            on: cable.at.map(String::from),
            on_port: end.and_then(|end| Some((*end)?.1.to_string())),
            on_rail: rails.rail(cable.at),
            belongs: cable.belongs.map(String::from),
            rail: rails.rail(cable.belongs),
        }
    }
}

const FEW_NODES: usize = 4;

type Stray<'a> = (&'a CableKind<'a>, &'a SlotCable<'a>);

#[derive(Default)]
pub(super) struct Faults<'a> {
    pub(super) faults: Vec<CableFault>,
    /// NICs, and the nodes on which it is not known whether their cables are right
    pub(super) unclear: BTreeMap<String, BTreeSet<&'a str>>,
    /// nodes whose NICs are in this order of rails: a permutation of the usual one
    pub(super) orders: BTreeMap<String, BTreeSet<&'a str>>,
}

impl<'a> Faults<'a> {
    pub(super) fn of(rails: &'a Rails<'a>) -> Faults<'a> {
        let mut faults = Faults::default();
        let mut left: Vec<Stray> = Vec::new();
        let kinds = rails.kinds.iter();
        for kind in kinds.filter(|kind| kind.layout != CableLayout::NotRecognised) {
            for row in kind.cables.chunk_by(|a, b| a.node.name == b.node.name) {
                let (mut strays, mut unclear) = (Vec::new(), Vec::new());
                for cable in row {
                    let is_fabrics = kind.classes.keys().any(|slots| slots.contains(&cable.slot));
                    if cable.is_elsewhere() {
                        let mut switches = kind.classes.values().flatten();
                        if is_fabrics || switches.any(|switch| cable.at == Some(switch)) {
                            strays.push((kind, cable));
                        }
                    } else if !cable.is_linked && is_fabrics {
                        faults.add(rails, &[(kind, cable)]);
                    } else if cable.is_linked
                        && cable.belongs.is_none()
                        // few nodes may tie; NICs without an order on many are for storage
                        && (is_fabrics || kind.nodes.len() <= FEW_NODES)
                    {
                        unclear.push(kind.nic(cable.slot));
                    }
                }
                let node = row[0].node.name;
                if !unclear.is_empty() {
                    faults
                        .unclear
                        .entry(unclear.join(" "))
                        .or_default()
                        .insert(node);
                }
                let (mut at, mut belongs): (Vec<_>, Vec<_>) = strays
                    .iter()
                    .map(|(_, stray)| (stray.at, stray.belongs))
                    .unzip();
                at.sort_unstable();
                belongs.sort_unstable();
                if strays.len() > 1 && at == belongs {
                    let slots = row.iter().filter(|of| kind.rail_of[of.slot].is_some());
                    let slots = slots.map(|of| Some((rails.rail(of.at)?, of.slot)));
                    let slots: Option<Vec<_>> = slots.collect();
                    if let Some(order) = slots.and_then(|slots| kind.order(slots)) {
                        faults.orders.entry(order).or_default().insert(node);
                    }
                    faults.add(rails, &strays);
                } else {
                    left.extend(strays);
                }
            }
        }
        faults.between_nodes(rails, left);
        faults.faults.sort_by_cached_key(|cables| {
            let of = &cables[0];
            (
                cables.len() == 1,
                of.on.is_none(),
                natural(&of.node),
                natural(&of.nic),
            )
        });
        faults
    }

    fn add(&mut self, rails: &Rails, strays: &[Stray]) {
        let cable = |(kind, cable): &Stray| FabricCable::of(rails, kind, cable);
        self.faults.push(strays.iter().map(cable).collect());
    }

    /// Strays are exchanged if each is where the other belongs; any such pair will do, since a switch's ports are alike. One on
    /// another leaf of the same rail is where placement expects it.
    fn between_nodes(&mut self, rails: &Rails, left: Vec<Stray<'a>>) {
        let mut open: BTreeMap<_, Vec<Stray>> = BTreeMap::new();
        for stray in left {
            let (_, SlotCable { at, belongs, .. }) = stray;
            match open.get_mut(&(belongs, at)).and_then(Vec::pop) {
                Some(other) => self.add(rails, &[other, stray]),
                None => open.entry((at, belongs)).or_default().push(stray),
            }
        }
        for ((at, belongs), strays) in open {
            let rail = rails.rail(*at);
            if rail.is_none() || rail != rails.rail(*belongs) {
                for stray in strays {
                    self.add(rails, &[stray]);
                }
            }
        }
    }
}
