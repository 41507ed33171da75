//! The reason why each GPU has its NICs, and none of the others: one sentence for each pair.
//!
//! Under `closest` and `spread` a sentence about a NIC that was not chosen says what the node would
//! lose if this GPU alone moved there, in the first respect that the solver compares.  Under the
//! other policies it names the rule that leaves the NIC out.
#![forbid(unsafe_code)]

use super::Ways;
use super::parts::Part;
use super::solve::{Answer, Loss, RailSet};
use crate::placement::{GpuPlacement, NodePlacement, Pair, RailIndex, RailUse};
use crate::topology::{GpuIndex, PathType, Topology};
use crate::wish::{Policy, Wish};

/// All pairs of one GPU: its own NICs, then the others in rail order, then those that may not be
/// chosen.
pub(crate) fn pairs(node: &Topology, map: &NodePlacement, wish: &Wish, gpu: GpuIndex) -> Vec<Pair> {
    let rails_of = |gpu: &GpuPlacement| gpu.choices.iter().map(|choice| choice.rail.0).collect();
    let rails_of: Vec<RailSet> = map.gpus.iter().map(rails_of).collect();
    let ways = Ways::for_answer(node, &map.rails, &wish.admin.through, &rails_of);
    let own = &map.gpu(gpu).choices;
    let others = RailSet::first(map.rails.len()).minus(rails_of[gpu.0]);
    let mut answer = Answer::new(&ways.problem, rails_of);
    let mut pair = |rail: RailIndex, choice: Option<&RailUse>| Pair {
        gpu,
        nic: map.rail(rail).name.to_string(),
        port: Some(map.rail(rail).port),
        path: Some(ways.kind(gpu, rail)),
        alone_mbps: ways.alone_mbps(gpu, rail),
        share_mbps: choice.and_then(|choice| choice.share_mbps),
        users: answer.users(rail.0),
        chosen: choice.is_some(),
        why: match map.policy {
            _ if choice.is_some() => map.gpu(gpu).reason.clone(),
            Policy::Closest | Policy::Spread if own.is_empty() => {
                "the job does not have this GPU".to_string()
            }
            Policy::Closest | Policy::Spread => loss(map, &ways, &mut answer, gpu, rail),
            Policy::Rail if answer.users(rail.0) == 0 => "it is no GPU's rail".to_string(),
            Policy::Rail => "it is another GPU's rail".to_string(),
            Policy::Numa => "it is on another NUMA node".to_string(),
            Policy::All => "it is not on this node".to_string(),
        },
    };
    let mut pairs: Vec<Pair> = own
        .iter()
        .map(|choice| pair(choice.rail, Some(choice)))
        .collect();
    pairs.extend(others.iter().map(|rail| pair(RailIndex(rail), None)));
    pairs.extend(map.excluded.iter().map(|excluded| {
        let nic = node.nic_index(&excluded.name);
        let address = nic.and_then(|nic| node.nic(nic).address);
        Pair {
            gpu,
            nic: excluded.name.to_string(),
            port: excluded.port,
            path: address.map(|address| node.path_type(node.gpu(gpu).address, address)),
            alone_mbps: None,
            share_mbps: None,
            users: 0,
            chosen: false,
            why: excluded.why.clone(),
        }
    }));
    pairs
}

/// The reason for these rails, in one sentence.  `part` is the GPU's part of its nearest rails by
/// `NicsEach::Auto`.
pub(super) fn why_this(
    map: &NodePlacement,
    ways: &Ways,
    answer: &mut Answer,
    gpu: GpuIndex,
    choices: &[RailUse],
    part: Option<&Part>,
) -> String {
    let farthest = choices.iter().map(|choice| choice.path).max();
    let farthest = farthest.unwrap_or(PathType::Sys);
    let kind = |rail: RailIndex| ways.kind(gpu, rail);
    let as_near = map
        .rail_indices()
        .filter(|&rail| kind(rail) <= farthest)
        .count();
    let own = answer.rails_of[gpu.0];
    let nearer = map
        .rail_indices()
        .filter(|&rail| !own.contains(rail.0) && kind(rail) < farthest);
    let distance = match (nearer.min_by_key(|&rail| (kind(rail), rail)), choices.len()) {
        (Some(nearer), _) => {
            let why = loss(map, ways, answer, gpu, nearer);
            let (name, path) = (map.rail(nearer), kind(nearer));
            format!("at {farthest}, for {name} is {path} but {why}")
        }
        (None, 1) if as_near == 1 => format!("the only NIC at {farthest}"),
        (None, 1) => format!("one of {as_near} NICs at {farthest}, the nearest there are"),
        (None, count) => match part.filter(|part| own.minus(part.nearest).is_empty()) {
            Some(part) => part_of_nearest(part, count, farthest),
            None if as_near == count => format!("the only {as_near} NICs up to {farthest}"),
            None => format!("{count} of {as_near} NICs up to {farthest}, the nearest there are"),
        },
    };
    let shares = choices.iter().map(|choice| choice.share_mbps);
    let share = shares
        .sum::<Option<u64>>()
        .and_then(|share| ways.rate(share));
    let use_of_it = match (choices, share) {
        ([RailUse { users: 0 | 1, .. }], Some(share)) => format!("{share} to itself"),
        ([RailUse { users: 0 | 1, .. }], _) => "no other GPU uses it".to_string(),
        ([own], Some(share)) => format!("{share} as one of {} GPUs that share it", own.users),
        ([own], None) => format!("{} GPUs share it", own.users),
        (several, share) => {
            let shared = several.iter().filter(|choice| choice.users > 1);
            let shared = shared
                .map(|choice| format!("{} serves {} GPUs", map.rail(choice.rail), choice.users));
            let together = share.map(|share| format!("{share} together"));
            let facts: Vec<String> = together.into_iter().chain(shared).collect();
            match facts.is_empty() {
                true => "no other GPU uses them".to_string(),
                false => facts.join(", "),
            }
        }
    };
    let names = choices
        .iter()
        .map(|choice| map.rail(choice.rail).to_string());
    let names = names.collect::<Vec<_>>().join(" and ");
    let verb = if choices.len() == 1 { "is" } else { "are" };
    format!("{names} {verb} {distance}; {use_of_it}")
}

/// The number of its nearest rails that a GPU has under `NicsEach::Auto`, and the reason.
fn part_of_nearest(part: &Part, rails: usize, path: PathType) -> String {
    let of_all = part.nearest.len();
    let why = match rails < part.rails {
        _ if of_all == rails * part.sharers => "as NCCL uses them",
        true => "and more would help nobody",
        false => "its even part",
    };
    format!("{rails} of its {of_all} nearest NICs ({path}), {why}")
}

/// The node's loss if this GPU took that rail instead of the one of its own that it would miss
/// least.
fn loss(
    map: &NodePlacement,
    ways: &Ways,
    answer: &mut Answer,
    gpu: GpuIndex,
    rail: RailIndex,
) -> String {
    let kind = ways.kind(gpu, rail);
    let own = answer.rails_of[gpu.0].iter();
    let farthest = own.map(|rail| ways.kind(gpu, RailIndex(rail))).max();
    let farthest = farthest.unwrap_or(kind);
    let why = match answer.loss(gpu.0, rail.0) {
        None => "it has no NIC to give up",
        Some(Loss::Less {
            gpu: other,
            there,
            here,
        }) => {
            let who = match other == gpu.0 {
                true => "it".to_string(),
                false => format!("GPU {other}"),
            };
            return match (ways.rate(there), ways.rate(here)) {
                (Some(there), Some(here)) => {
                    format!("there {who} would get {there} instead of {here}")
                }
                _ => format!("there {who} would get less"),
            };
        }
        Some(Loss::Path) if kind == farthest => {
            return format!("it is as near ({kind}) by name, but between NUMA nodes farther apart");
        }
        Some(Loss::Path) => return format!("it is farther: {kind} instead of {farthest}"),
        Some(Loss::Users) => "more GPUs would share a NIC there",
        Some(Loss::Order) => "it is as good, and comes later in rail order",
        Some(Loss::Gain) if map.broken.is_empty() => {
            "the search for the best ended before it was looked at"
        }
        Some(Loss::Gain) => {
            "this GPU stays where it is when all NICs work, so that nodes pair alike"
        }
    };
    why.to_string()
}
