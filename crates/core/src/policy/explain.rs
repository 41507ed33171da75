//! Text: the reason why a GPU has its NICs, and why it lacks another NIC.

use super::Paths;
use super::parts::Part;
use super::solve::{Loss, Solved};
use crate::placement::{NodePlacement, RailIndex, RailUse};
use crate::topology::{GpuIndex, PathType};

/// The reason why the GPU has `choices`. `part` is `None` except under `NicsEach::Auto`.
pub(super) fn why_this(
    map: &NodePlacement,
    paths: &Paths,
    answer: &mut Solved,
    gpu: GpuIndex,
    choices: &[RailUse],
    part: Option<&Part>,
) -> String {
    let farthest = choices.iter().map(|choice| choice.path).max();
    let farthest = farthest.unwrap_or(PathType::Sys);
    let kind = |rail: RailIndex| paths.kind(gpu, rail);
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
            let why = loss(map, paths, answer, gpu, nearer);
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
        .and_then(|share| paths.rate(share));
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

fn part_of_nearest(part: &Part, rails: usize, path: PathType) -> String {
    let of_all = part.nearest.len();
    let why = match rails < part.rails {
        _ if (rails, of_all) == (2, 2) => {
            return format!("both its nearest NICs ({path}), and NCCL uses both");
        }
        _ if of_all == rails * part.sharers => "as NCCL uses them",
        true => "and more would help nobody",
        false => "its even part",
    };
    format!("{rails} of its {of_all} nearest NICs ({path}), {why}")
}

/// The reason why `gpu` lacks `rail`, as text: the `Loss` that would follow if `rail` replaced its
/// least useful rail.
pub fn loss(
    map: &NodePlacement,
    paths: &Paths,
    answer: &mut Solved,
    gpu: GpuIndex,
    rail: RailIndex,
) -> String {
    let kind = paths.kind(gpu, rail);
    let own = answer.rails_of[gpu.0].iter();
    let farthest = own.map(|rail| paths.kind(gpu, RailIndex(rail))).max();
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
            return match (paths.rate(there), paths.rate(here)) {
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
