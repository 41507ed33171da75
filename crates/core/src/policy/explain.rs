//! Why each GPU got its NICs, and why none of the others: one true sentence for each pair.
//!
//! Under `closest` and `spread` a sentence about a NIC that was not chosen says what the node would lose if this GPU alone
//! moved there, in the first respect that the solver compares.  Under the other policies it names the rule that leaves the
//! NIC out.
#![forbid(unsafe_code)]

use super::Ways;
use super::solve::{Answer, Loss, Part, RailSet};
use crate::placement::{NodePlacement, Pair, Policy, RailIndex, RailUse};
use crate::topology::{GpuIndex, PathType, Topology};
use crate::wish::Wish;

/// All pairs of one GPU: its own NICs, then the others in rail order, then those that may not be chosen.
pub(crate) fn pairs(
    topology: &Topology,
    node: &NodePlacement,
    wish: &Wish,
    gpu: GpuIndex,
) -> Vec<Pair> {
    let ways = Ways::for_answer(topology, &node.rails, &wish.admin.through, &rails_of(node));
    let mut answer = Answer::new(&ways.problem, rails_of(node));
    let own = &node.gpu(gpu).choices;
    let mut pairs: Vec<Pair> = own
        .iter()
        .map(|choice| Pair {
            share_mbps: choice.share_mbps,
            chosen: true,
            why: node.gpu(gpu).reason.clone(),
            ..pair(node, &ways, &answer, gpu, choice.rail)
        })
        .collect();
    let is_own = |rail: RailIndex| own.iter().any(|choice| choice.rail == rail);
    pairs.extend(
        node.rail_indices()
            .filter(|&rail| !is_own(rail))
            .map(|rail| Pair {
                why: why_not(node, &ways, &mut answer, gpu, rail),
                ..pair(node, &ways, &answer, gpu, rail)
            }),
    );
    pairs.extend(node.excluded.iter().map(|excluded| {
        let nic = topology.nics.iter().find(|nic| nic.name == excluded.name);
        let address = nic.and_then(|nic| nic.address);
        Pair {
            gpu,
            nic: excluded.name.to_string(),
            port: excluded.port,
            path: address.map(|address| topology.path_type(topology.gpu(gpu).address, address)),
            alone_mbps: None,
            share_mbps: None,
            users: 0,
            chosen: false,
            why: excluded.why.clone(),
        }
    }));
    pairs
}

fn pair(
    node: &NodePlacement,
    ways: &Ways,
    answer: &Answer,
    gpu: GpuIndex,
    rail: RailIndex,
) -> Pair {
    Pair {
        gpu,
        nic: node.rail(rail).name.to_string(),
        port: Some(node.rail(rail).port),
        path: Some(ways.kind(gpu, rail)),
        alone_mbps: ways.alone_mbps(gpu, rail),
        share_mbps: None,
        users: answer.users(rail.0),
        chosen: false,
        why: String::new(),
    }
}

fn rails_of(node: &NodePlacement) -> Vec<RailSet> {
    node.gpus
        .iter()
        .map(|gpu| gpu.choices.iter().map(|choice| choice.rail.0).collect())
        .collect()
}

/// The reason for these rails, in one sentence.  `part` is the GPU's part of its nearest rails by `NicsEach::Auto`.
pub(super) fn why_this(
    node: &NodePlacement,
    ways: &Ways,
    answer: &mut Answer,
    gpu: GpuIndex,
    choices: &[RailUse],
    part: Option<&Part>,
) -> String {
    let names: Vec<String> = choices
        .iter()
        .map(|choice| node.rail(choice.rail).to_string())
        .collect();
    let farthest = choices
        .iter()
        .map(|choice| choice.path)
        .max()
        .unwrap_or(PathType::Sys);
    let kind = |rail: RailIndex| ways.kind(gpu, rail);
    let as_near = node
        .rail_indices()
        .filter(|&rail| kind(rail) <= farthest)
        .count();
    let is_own = |rail: &RailIndex| choices.iter().any(|choice| choice.rail == *rail);
    let nearer = node
        .rail_indices()
        .filter(|rail| !is_own(rail) && kind(*rail) < farthest);
    let is_of = |part: &&Part| {
        choices
            .iter()
            .all(|choice| part.nearest.contains(choice.rail.0))
    };
    let distance = match (nearer.min_by_key(|&rail| (kind(rail), rail)), choices.len()) {
        (Some(nearer), _) => {
            let why = loss(node, ways, answer, gpu, nearer);
            format!(
                "at {farthest}, for {} is {} but {why}",
                node.rail(nearer),
                kind(nearer)
            )
        }
        (None, 1) if as_near == 1 => format!("the only NIC at {farthest}"),
        (None, 1) => format!("one of {as_near} NICs at {farthest}, the nearest there are"),
        (None, count) => match part.filter(is_of) {
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
        ([RailUse { users: 0 | 1, .. }], None) => "no other GPU uses it".to_string(),
        ([RailUse { users, .. }], Some(share)) => {
            format!("{share} as one of {users} GPUs that share it")
        }
        ([RailUse { users, .. }], None) => format!("{users} GPUs share it"),
        (several, share) => {
            let shared = several.iter().filter(|choice| choice.users > 1);
            let shared = shared
                .map(|choice| format!("{} serves {} GPUs", node.rail(choice.rail), choice.users));
            let together = share.map(|share| format!("{share} together"));
            let facts: Vec<String> = together.into_iter().chain(shared).collect();
            if facts.is_empty() {
                "no other GPU uses them".to_string()
            } else {
                facts.join(", ")
            }
        }
    };
    let verb = if choices.len() == 1 { "is" } else { "are" };
    format!("{} {verb} {distance}; {use_of_it}", names.join(" and "))
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

/// The reason against this rail.
fn why_not(
    node: &NodePlacement,
    ways: &Ways,
    answer: &mut Answer,
    gpu: GpuIndex,
    rail: RailIndex,
) -> String {
    match node.policy {
        Policy::Closest | Policy::Spread if !answer.rails_of[gpu.0].is_empty() => {
            loss(node, ways, answer, gpu, rail)
        }
        Policy::Closest | Policy::Spread => "the job does not have this GPU".to_string(),
        Policy::Rail if answer.users(rail.0) == 0 => "it is no GPU's rail".to_string(),
        Policy::Rail => "it is another GPU's rail".to_string(),
        Policy::Numa => "it is on another NUMA node".to_string(),
        Policy::All => "it is not on this node".to_string(),
    }
}

/// What the node would lose if this GPU took that rail instead of the one of its own that it would miss least.
fn loss(
    node: &NodePlacement,
    ways: &Ways,
    answer: &mut Answer,
    gpu: GpuIndex,
    rail: RailIndex,
) -> String {
    let kind = ways.kind(gpu, rail);
    let own = answer.rails_of[gpu.0].iter();
    let farthest = own
        .map(|rail| ways.kind(gpu, RailIndex(rail)))
        .max()
        .unwrap_or(kind);
    match answer.loss(gpu.0, rail.0) {
        None => "it has no NIC to give up".to_string(),
        Some(Loss::Less {
            gpu: other,
            there,
            here,
        }) => {
            let who = if other == gpu.0 {
                "it".to_string()
            } else {
                format!("GPU {other}")
            };
            match (ways.rate(there), ways.rate(here)) {
                (Some(there), Some(here)) => {
                    format!("there {who} would get {there} instead of {here}")
                }
                _ => format!("there {who} would get less"),
            }
        }
        Some(Loss::Path) if kind == farthest => {
            format!("it is as near ({kind}) by name, but between NUMA nodes farther apart")
        }
        Some(Loss::Path) => format!("it is farther: {kind} instead of {farthest}"),
        Some(Loss::Users) => "more GPUs would share a NIC there".to_string(),
        Some(Loss::Order) => "it is as good, and comes later in rail order".to_string(),
        Some(Loss::Gain) if node.broken.is_empty() => {
            "the search for the best ended before it was looked at".to_string()
        }
        Some(Loss::Gain) => {
            "this GPU stays where it is when all NICs work, so that nodes pair alike".to_string()
        }
    }
}
