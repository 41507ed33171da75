//! `rail`: GPU k gets rail k, on every node, whatever this node's paths say.
//!
//! Rails are the good NICs in PCI order, with the broken ones counted, or those that the admin lists.  With fewer rails than GPUs
//! neighbours share one; with several times as many, GPU k's rails are the k-th group of them.  A GPU whose rail is broken gets
//! what `closest` leaves it, unless others of its group work.
#![forbid(unsafe_code)]

use super::Ways;
use super::closest::{explained, in_order};
use super::solve::{RailSet, solve};
use crate::diagnostic::Diagnostic;
use crate::placement::{Excluded, GpuPlacement, NicsEach, NodePlacement, Rail, RailIndex};
use crate::topology::{Gpu, PciAddress, Topology};
use crate::wish::Wish;

/// A rail in its order, and its index if it is usable.
struct Numbered {
    name: String,
    usable: Option<RailIndex>,
}

pub(super) fn map_gpus(
    topology: &Topology,
    node: &mut NodePlacement,
    wish: &Wish,
) -> Vec<GpuPlacement> {
    let rails = numbered(topology, node, wish);
    for (number, rail) in rails
        .iter()
        .enumerate()
        .filter(|(_, rail)| rail.usable.is_none())
    {
        let finding = format!("rail {number} is broken: {}", why_broken(node, &rail.name));
        node.diagnostics.push(Diagnostic::new(&rail.name, finding));
    }
    let asked = numbers(topology, rails.len(), wish.nics_per_task);
    let is_auto = wish.nics_per_task == NicsEach::Auto;
    let kept: Vec<Option<RailSet>> = asked
        .iter()
        .map(|numbers| working(&rails, numbers, is_auto))
        .collect();
    let wants = kept.iter().zip(&asked).map(|(kept, asked)| match kept {
        Some(kept) => kept.len(),
        None if is_auto => 1,
        None => asked.len(),
    });
    let wants: Vec<usize> = wants.collect();
    let mut ways = Ways::new(topology, &node.rails, &wish.admin.through, &wants);
    ways.problem.keep(&kept);
    let rails_of = solve(&ways.problem).rails_of;
    let mut gpus = explained(topology, node, &ways, &rails_of, wish);
    if rails.is_empty() {
        return gpus;
    }
    for (index, gpu) in gpus.iter_mut().enumerate() {
        let list = |numbers: &mut dyn Iterator<Item = &usize>| {
            let named = |number: &usize| format!("rail {number} ({})", rails[*number].name);
            numbers.map(named).collect::<Vec<_>>().join(" and ")
        };
        let is_broken = |number: &&usize| rails[**number].usable.is_none();
        let working = list(&mut asked[index].iter().filter(|number| !is_broken(number)));
        let broken = list(&mut asked[index].iter().filter(is_broken));
        let is_own = || format!("{working} is GPU {index}'s");
        gpu.reason = match (&kept[index], broken.is_empty()) {
            (Some(_), true) => is_own(),
            (Some(_), false) => format!("{}; {broken} is broken", is_own()),
            (None, _) => format!("{broken} is broken; in its place {}", gpu.reason),
        };
        gpu.shortfall = (!broken.is_empty()).then(|| format!("GPU {index}: {broken} is broken"));
    }
    gpus
}

/// Each GPU's rail numbers: `rails` make one group per GPU, and the k-th GPU gets `each` of the k-th group, by `auto`
/// all, at most [`NicsEach::MOST`].  If a group has too few rails, neighbours share.
fn numbers(topology: &Topology, rails: usize, each: NicsEach) -> Vec<Vec<usize>> {
    // partitions of one GPU count as one
    let mut addresses: Vec<PciAddress> = topology.gpus.iter().map(|gpu| gpu.address).collect();
    addresses.dedup();
    let group = rails / addresses.len().max(1);
    let wanted = match each {
        NicsEach::Auto => group.min(NicsEach::MOST.into()),
        NicsEach::Number(number) => number.into(),
    };
    let wanted = wanted.max(1).min(rails);
    let of_gpu = |gpu: &Gpu| {
        let index = addresses
            .iter()
            .position(|known| *known == gpu.address)
            .unwrap_or(0);
        let first = if group >= wanted {
            index * group
        } else {
            index * rails / addresses.len()
        };
        (first..first + wanted)
            .map(|number| number % rails.max(1))
            .collect()
    };
    topology.gpus.iter().map(of_gpu).collect()
}

/// The places of a GPU's rails among the usable ones.  `None` where one is broken, or where `some` are enough, if
/// all are.
fn working(rails: &[Numbered], numbers: &[usize], some: bool) -> Option<RailSet> {
    let usable: RailSet = numbers
        .iter()
        .filter_map(|&number| Some(rails[number].usable?.0))
        .collect();
    let is_usable = |number: &usize| rails[*number].usable.is_some();
    let is_enough = !usable.is_empty() && (some || numbers.iter().all(is_usable));
    is_enough.then_some(usable)
}

fn numbered(topology: &Topology, node: &NodePlacement, wish: &Wish) -> Vec<Numbered> {
    if wish.admin.rails.is_empty() {
        let numbered = |rail: Rail| Numbered {
            name: format!("{rail}"),
            usable: node.rail_at(rail.at()),
        };
        return in_order(node).into_iter().map(numbered).collect();
    }
    let mut rails = Vec::new();
    for pattern in &wish.admin.rails {
        let found = node
            .numbered_rails()
            .filter(|(_, rail)| pattern.matches(topology.nic(rail.nic)));
        let found: Vec<Numbered> = found
            .map(|(usable, rail)| Numbered {
                name: rail.to_string(),
                usable: Some(usable),
            })
            .collect();
        match found.is_empty() {
            true => rails.push(Numbered {
                name: pattern.to_string(),
                usable: None,
            }),
            false => rails.extend(found),
        }
    }
    rails
}

/// The usable rails as `rails=` numbers them, the others behind.
pub(super) fn numbered_by_admin(
    topology: &Topology,
    node: &NodePlacement,
    wish: &Wish,
) -> Vec<RailIndex> {
    if wish.admin.rails.is_empty() {
        return Vec::new();
    }
    let named = numbered(topology, node, wish)
        .into_iter()
        .filter_map(|rail| rail.usable);
    let mut order = Vec::new();
    for rail in named.chain(node.rail_indices()) {
        if !order.contains(&rail) {
            order.push(rail);
        }
    }
    order
}

fn why_broken(node: &NodePlacement, name: &str) -> String {
    let is_it = |excluded: &&Excluded| {
        excluded.name == name
            || excluded
                .port
                .is_some_and(|port| format!("{}:{port}", excluded.name) == name)
    };
    match node.excluded.iter().find(is_it) {
        Some(excluded) => excluded.why.clone(),
        None => "this node has no such NIC".to_string(),
    }
}
