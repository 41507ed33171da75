//! `rail`: GPU k gets rail k, on every node, whatever this node's paths say.
//!
//! Rails are the good NICs in PCI order, with the broken ones counted, or those that the admin lists.  With fewer rails
//! than GPUs neighbours share one.  A GPU whose rail is broken gets what `closest` leaves it.
#![forbid(unsafe_code)]

use super::closest::{in_order, placements};
use super::solve::solve_around;
use super::{Request, Ways};
use crate::diagnostic::Diagnostic;
use crate::placement::{Excluded, GpuPlacement, NodePlacement, Rail, RailIndex};
use crate::topology::{Gpu, PciAddress, Topology};

/// A rail in its order: its name, and where it stands among the usable ones.
struct Numbered {
    name: String,
    usable: Option<RailIndex>,
}

pub(super) fn map_gpus(
    topology: &Topology,
    node: &mut NodePlacement,
    ways: &Ways,
    request: &Request,
) -> Vec<GpuPlacement> {
    let rails = numbered(topology, node, request);
    for (number, rail) in rails.iter().enumerate().filter(|(_, rail)| rail.usable.is_none()) {
        let finding = format!("rail {number} is broken: {}", why_broken(node, &rail.name));
        node.diagnostics.push(Diagnostic::new(&rail.name, finding));
    }
    let mut addresses: Vec<PciAddress> = topology.gpus.iter().map(|gpu| gpu.address).collect();
    addresses.dedup();
    let wanted = request.nics_each.max(1).min(rails.len());
    let numbers = |gpu: &Gpu| -> Vec<usize> {
        let index = addresses.iter().position(|known| *known == gpu.address).unwrap_or(0);
        let first = match rails.len() >= addresses.len() * wanted {
            true => index * wanted,
            false => index * rails.len() / addresses.len(),
        };
        (first..first + wanted).map(|number| number % rails.len().max(1)).collect()
    };
    let asked: Vec<Vec<usize>> = topology.gpus.iter().map(numbers).collect();
    let kept: Vec<Option<Vec<usize>>> = asked
        .iter()
        .map(|numbers| numbers.iter().map(|&number| Some(rails[number].usable?.0)).collect())
        .map(|kept: Option<Vec<usize>>| {
            kept.map(|mut rails| {
                rails.sort_unstable();
                rails
            })
        })
        .map(|kept| kept.filter(|rails| !rails.is_empty()))
        .collect();
    let rails_of = match node.rails.is_empty() {
        true => Vec::new(),
        false => solve_around(&ways.problem, &kept, &mut request.effort.budget()).rails_of,
    };
    let mut gpus = placements(topology, node, ways, &rails_of);
    for (index, gpu) in gpus.iter_mut().enumerate() {
        let named = |number: &usize| format!("rail {number} ({})", rails[*number].name);
        let list = asked[index].iter().map(named).collect::<Vec<_>>().join(" and ");
        if kept[index].is_some() {
            gpu.reason = format!("{list} is GPU {index}'s");
            continue;
        }
        let broken = asked[index].iter().filter(|number| rails[**number].usable.is_none());
        let broken = broken.map(named).collect::<Vec<_>>().join(" and ");
        if rails.is_empty() {
            continue;
        }
        gpu.reason = format!("{broken} is broken; in its place {}", gpu.reason);
        gpu.shortfall = Some(format!("GPU {index}: {broken} is broken"));
    }
    gpus
}

/// The rails in the site's order.
fn numbered(topology: &Topology, node: &NodePlacement, request: &Request) -> Vec<Numbered> {
    if request.rails.is_empty() {
        let numbered = |rail: Rail| Numbered { name: format!("{rail}"), usable: node.rail_at(rail.at()) };
        return in_order(node).into_iter().map(numbered).collect();
    }
    let mut rails = Vec::new();
    for pattern in request.rails {
        let found = node.numbered_rails().filter(|(_, rail)| pattern.matches(topology.nic(rail.nic)));
        let found: Vec<Numbered> =
            found.map(|(usable, rail)| Numbered { name: rail.to_string(), usable: Some(usable) }).collect();
        match found.is_empty() {
            true => rails.push(Numbered { name: pattern.to_string(), usable: None }),
            false => rails.extend(found),
        }
    }
    rails
}

fn why_broken(node: &NodePlacement, name: &str) -> String {
    let is_it = |excluded: &&Excluded| {
        excluded.name == name || excluded.port.is_some_and(|port| format!("{}:{port}", excluded.name) == name)
    };
    match node.excluded.iter().find(is_it) {
        Some(excluded) => excluded.why.clone(),
        None => "this node has no such NIC".to_string(),
    }
}
