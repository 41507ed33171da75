//! Policy `rail`: GPU k gets rail k on every node, whatever the node's paths.
//!
//! Rails are the good and the broken NICs in PCI order, or those of the admin's `rails=`. With
//! fewer rails than GPUs, neighbouring GPUs share a rail; with several times as many, GPU k gets
//! the k-th group. If one of a GPU's rails is broken (under `NicsEach::Auto`: if all are), the GPU
//! gets rails as under `closest`.

use super::Paths;
use super::closest::{explained, in_order};
use super::solve::{RailSet, solve};
use crate::diagnostic::Diagnostic;
use crate::placement::{Excluded, GpuPlacement, NicsEach, NodePlacement, Rail, RailIndex};
use crate::topology::{Gpu, PciAddress, Topology};
use crate::wish::Wish;

struct Numbered {
    name: String,
    usable: Option<RailIndex>,
}

pub(super) fn map_gpus(node: &Topology, map: &mut NodePlacement, wish: &Wish) -> Vec<GpuPlacement> {
    let rails = rail_order(node, map, wish);
    for (number, Numbered { name, usable }) in rails.iter().enumerate() {
        if usable.is_none() {
            let finding = format!("rail {number} is broken: {}", why_broken(map, name));
            map.diagnostics.push(Diagnostic::new(name, finding));
        }
    }
    let asked = numbers(node, rails.len(), wish.nics_per_task);
    let is_auto = wish.nics_per_task == NicsEach::Auto;
    let keep = |numbers: &Vec<usize>| {
        let usable = numbers.iter().filter_map(|&number| rails[number].usable);
        let usable: Vec<usize> = usable.map(|rail| rail.0).collect();
        let is_enough = !usable.is_empty() && (is_auto || usable.len() == numbers.len());
        is_enough.then(|| usable.into_iter().collect())
    };
    let kept: Vec<Option<RailSet>> = asked.iter().map(keep).collect();
    let want = |(kept, asked): (&Option<RailSet>, &Vec<usize>)| match kept {
        Some(kept) => kept.len(),
        None if is_auto => 1,
        None => asked.len(),
    };
    let wants: Vec<usize> = kept.iter().zip(&asked).map(want).collect();
    let mut paths = Paths::new(node, &map.rails, &wish.admin.through, &wants);
    paths.problem.keep(&kept);
    let rails_of = solve(&paths.problem).rails_of;
    let mut gpus = explained(node, map, &paths, &rails_of, wish);
    if rails.is_empty() {
        return gpus;
    }
    for (index, gpu) in gpus.iter_mut().enumerate() {
        let list = |is_usable: bool| {
            let mut numbers = asked[index].clone();
            numbers.retain(|&number| rails[number].usable.is_some() == is_usable);
            let named = |number: usize| format!("rail {number} ({})", rails[number].name);
            numbers
                .into_iter()
                .map(named)
                .collect::<Vec<_>>()
                .join(" and ")
        };
        let (working, broken) = (list(true), list(false));
        gpu.reason = match (kept[index], broken.is_empty()) {
            (Some(_), true) => format!("{working} is GPU {index}'s"),
            (Some(_), false) => format!("{working} is GPU {index}'s; {broken} is broken"),
            (None, _) => format!("{broken} is broken; in its place {}", gpu.reason),
        };
        gpu.shortfall = (!broken.is_empty()).then(|| format!("GPU {index}: {broken} is broken"));
    }
    gpus
}

/// Each GPU's rail numbers. The rails form one group per GPU; GPU k gets the first `each` rails of
/// group k, under `auto` the whole group, at most [`NicsEach::MOST`]. If a group is too small,
/// neighbouring GPUs share.
fn numbers(node: &Topology, rails: usize, each: NicsEach) -> Vec<Vec<usize>> {
    // a GPU's partitions have one address, and count as one GPU
    let mut addresses: Vec<PciAddress> = node.gpus.iter().map(|gpu| gpu.address).collect();
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
    node.gpus.iter().map(of_gpu).collect()
}

fn rail_order(node: &Topology, map: &NodePlacement, wish: &Wish) -> Vec<Numbered> {
    let rail = |rail: &Rail| Numbered {
        name: rail.to_string(),
        usable: map.rail_at(rail.at()),
    };
    if wish.admin.rails.is_empty() {
        return in_order(map).iter().map(rail).collect();
    }
    let mut rails = Vec::new();
    for pattern in &wish.admin.rails {
        let before = rails.len();
        let matches = |rail: &&Rail| pattern.matches(node.nic(rail.nic));
        rails.extend(map.rails.iter().filter(matches).map(rail));
        if rails.len() == before {
            rails.push(Numbered {
                name: pattern.to_string(),
                usable: None,
            });
        }
    }
    rails
}

/// For [`NodePlacement::numbered_by_admin`].
pub(super) fn numbered_by_admin(
    node: &Topology,
    map: &NodePlacement,
    wish: &Wish,
) -> Vec<RailIndex> {
    if wish.admin.rails.is_empty() {
        return Vec::new();
    }
    let numbered = rail_order(node, map, wish);
    let named = numbered.into_iter().filter_map(|rail| rail.usable);
    let mut order = Vec::new();
    for rail in named.chain(map.rail_indices()) {
        if !order.contains(&rail) {
            order.push(rail);
        }
    }
    order
}

fn why_broken(map: &NodePlacement, name: &str) -> String {
    let is_it = |excluded: &&Excluded| match excluded.port {
        _ if excluded.name == name => true,
        Some(port) => format!("{}:{port}", excluded.name) == name,
        None => false,
    };
    match map.excluded.iter().find(is_it) {
        Some(excluded) => excluded.why.clone(),
        None => "this node has no such NIC".to_string(),
    }
}
