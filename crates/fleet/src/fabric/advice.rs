//! The lines that a fabric's cables want in the configuration file: `rails=` and `fabric=`.
#![forbid(unsafe_code)]

use super::faults::NodeOrders;
use super::layout::{CableLayout, KindLayout, RailNumbers};
use super::names::{NodeCables, are_names, natural};
use super::reach::RailReach;
use super::votes::{CableKind, CablePlace};
use crate::audit::hostlist::compressed;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A line for the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct AdvisedLine {
    pub line: String,
    /// when it is right
    pub why: String,
}

impl AdvisedLine {
    fn new(line: impl ToString, why: &str) -> AdvisedLine {
        AdvisedLine {
            line: line.to_string(),
            why: why.to_string(),
        }
    }
}

pub(super) struct Advice<'a> {
    pub(super) kinds: &'a [CableKind],
    pub(super) nodes: &'a [NodeCables],
    pub(super) numbers: &'a RailNumbers,
    /// of each switch
    pub(super) names: &'a [String],
}

impl Advice<'_> {
    pub(super) fn lines(&self, orders: NodeOrders, reach: &RailReach) -> Vec<AdvisedLine> {
        let mut lines = Vec::new();
        for (order, nodes) in orders {
            let nodes = compressed(nodes.iter().map(String::as_str));
            let why = "only if its cables are meant to be so: then its NICs are numbered otherwise than on most nodes";
            lines.push(AdvisedLine::new(
                format!("NodeName={nodes} rails={}", order.join(",")),
                why,
            ));
        }
        lines.extend(self.by_switches());
        let first = self.kinds.first().map_or(0, |kind| kind.nodes.len());
        for (kind, of_kind) in self.of_kinds().filter(|(kind, _)| kind.nodes.len() < first) {
            let rails = |slot: usize| of_kind.rail_of[slot];
            let Some(nics) = self
                .in_order(kind, &rails)
                .filter(|_| !of_kind.rail_of.is_sorted())
            else {
                continue;
            };
            let nodes = compressed(
                kind.nodes
                    .iter()
                    .map(|node| self.nodes[*node].name.as_str()),
            );
            let why =
                "their NICs are on the rails' switches in another order than those of most nodes";
            lines.push(AdvisedLine::new(
                format!("NodeName={nodes} rails={nics}"),
                why,
            ));
        }
        let is_ethernet = self.nodes.iter().any(|node| node.is_ethernet);
        match reach {
            RailReach::Isolated => lines.push(AdvisedLine::new(
                "fabric=isolated-rails",
                "no switch connects two rails, and nodes see that only where each rail has a subnet of its own",
            )),
            RailReach::Together if is_ethernet => lines.push(AdvisedLine::new(
                "fabric=routed",
                "only if each rail has an IPv4 network of its own and the hosts route between these: the switches connect them",
            )),
            _ => {}
        }
        lines
    }

    /// The kinds whose NICs have a rail each.
    fn of_kinds(&self) -> impl Iterator<Item = (&CableKind, &KindLayout)> {
        let all = self.kinds.iter().zip(&self.numbers.kinds);
        all.filter(|(_, of_kind)| of_kind.layout == CableLayout::RailOptimised)
    }

    /// For all nodes, where the names of the rails' switches count otherwise than their NICs, and alike in each pod.
    fn by_switches(&self) -> Option<AdvisedLine> {
        let (kind, of_kind) = self.of_kinds().next()?;
        // for each node the rails of its slots in the order of the switches' names; all nodes must agree
        let mut orders: BTreeSet<Vec<usize>> = BTreeSet::new();
        for places in &kind.places {
            let mut on: Vec<(Vec<(String, u64)>, usize)> = Vec::new();
            for (slot, _) in of_kind
                .rail_of
                .iter()
                .enumerate()
                .filter(|(_, rail)| rail.is_some())
            {
                let CablePlace::Right { at } = places[slot] else {
                    continue;
                };
                let name = &self.names[at as usize];
                // a GUID or a MAC numbers no rails
                let is_name = name.len() < 12
                    || name
                        .bytes()
                        .any(|byte| !b"0123456789abcdefABCDEFx:".contains(&byte));
                on.push((natural(name), slot));
                is_name.then_some(())?;
            }
            if on.len() == of_kind.rail_of.iter().flatten().count() {
                on.sort_unstable();
                orders.insert(on.into_iter().map(|(_, slot)| slot).collect());
            }
        }
        let order = orders.pop_first().filter(|_| orders.is_empty())?;
        let places: BTreeMap<usize, usize> = order
            .iter()
            .enumerate()
            .map(|(at, slot)| (*slot, at))
            .collect();
        let nics = self
            .in_order(kind, &|slot| places.get(&slot).copied())
            .filter(|_| !order.is_sorted())?;
        let why = "only if rails are to be numbered as their switches are named, for the policy `rail`; most nodes \
            have their NICs in another order";
        Some(AdvisedLine::new(format!("rails={nics}"), why))
    }

    /// The names of a kind's NICs by their rails.  `None` where they are no names for the configuration file.
    fn in_order(&self, kind: &CableKind, rail: &dyn Fn(usize) -> Option<usize>) -> Option<String> {
        let mut rails: Vec<(usize, &str)> = (0..kind.slots.len())
            .filter_map(|slot| Some((rail(slot)?, kind.slots[slot].0.as_str())))
            .collect();
        rails.sort_unstable();
        let nics: Vec<&str> = rails.into_iter().map(|(_, nic)| nic).collect();
        let is_named = kind
            .nodes
            .iter()
            .all(|node| self.nodes[*node].has_own_names);
        (is_named && are_names(nics.iter().copied())).then(|| nics.join(","))
    }
}
