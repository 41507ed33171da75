//! `closest`: each GPU the rails that give it the most bandwidth, then the nearest, evenly used.
#![forbid(unsafe_code)]

use super::explain::why_this;
use super::solve::{Budget, Kept, MOST_RAILS, Score, Solution, most_for_the_worst, solve, solve_around};
use super::ways::Others;
use super::{Reasons, Request, Ways, parts};
use crate::diagnostic::Diagnostic;
use crate::order::Order;
use crate::placement::{GpuPlacement, NicsEach, NodePlacement, Policy, Rail};
use crate::topology::Topology;

pub(super) fn map_gpus(
    topology: &Topology,
    node: &mut NodePlacement,
    request: &Request,
) -> Vec<GpuPlacement> {
    let (ways, solution) = steady(topology, node, request);
    if !solution.exact {
        node.diagnostics.push(Diagnostic::new(
            "closest",
            "too many GPUs share too few NICs: good, but not proven the best",
        ));
    }
    placements(topology, node, &ways, &solution.rails_of, request)
}

/// The best answer.  Where NICs of the node are broken, GPUs whose NICs work keep those that they have when all work,
/// unless the worst-off GPU would get more if they moved: a node that lost a NIC then still pairs like the others.
pub(super) fn steady(topology: &Topology, node: &NodePlacement, request: &Request) -> (Ways, Solution) {
    steady_within(topology, node, request, &mut request.effort.budget())
}

fn steady_within(
    topology: &Topology,
    node: &NodePlacement,
    request: &Request,
    budget: &mut Budget,
) -> (Ways, Solution) {
    let healthy = in_order(node);
    if node.broken.is_empty() || node.rails.is_empty() || healthy.len() > MOST_RAILS {
        return best(topology, &node.rails, request, budget);
    }
    let whole = known(&healthy, request);
    let whole = whole.unwrap_or_else(|| best(topology, &healthy, request, budget).1.rails_of);
    let usable: Vec<Option<usize>> = healthy.iter().map(|rail| Some(node.rail_at(rail.at())?.0)).collect();
    let left: Vec<Vec<usize>> =
        whole.iter().map(|rails| rails.iter().filter_map(|&rail| usable[rail]).collect()).collect();
    // a GPU's part is what works of the part that it has when all work
    let wants: Vec<usize> = match request.nics_each {
        NicsEach::Auto => left.iter().map(Vec::len).collect(),
        NicsEach::Number(number) => vec![number.into(); topology.gpus.len()],
    };
    let keeps = |(left, want): (Vec<usize>, &usize)| {
        let want = (*want).clamp(1, node.rails.len());
        Some(left).filter(|left| left.len() == want)
    };
    let kept: Vec<Option<Vec<usize>>> = left.into_iter().zip(&wants).map(keeps).collect();
    let looks = Ways::looks(topology, &node.rails);
    let keeping: &Kept = if looks > budget.left() { &kept } else { &[] };
    let is_worded = request.reasons == Reasons::Worded;
    // reasons compare all ways, and `spread` looks for the nearest GPU of each idle NIC
    let others = if is_worded || request.policy == Policy::Spread { Others::Told } else { Others::Untold };
    // all of it, even where GPUs that keep their rails get no other ways: the rest of the budget would end before a search
    // finds anything
    budget.spend(looks);
    let ways = Ways::around(topology, &node.rails, &request.through, &wants, (keeping, others));
    let parts = match request.nics_each == NicsEach::Auto && is_worded {
        true => parts::of_nearest(&ways.problem),
        false => Vec::new(),
    };
    let ways = ways.with_parts(parts);
    let solution = around(&ways, &kept, budget);
    (ways, solution)
}

/// The best answer for these rails.
fn best(topology: &Topology, rails: &[Rail], request: &Request, budget: &mut Budget) -> (Ways, Solution) {
    let NicsEach::Number(number) = request.nics_each else {
        return parts::solved(topology, rails, &request.through, budget);
    };
    let ways = Ways::new(topology, rails, &request.through, &vec![number.into(); topology.gpus.len()]);
    budget.spend(Ways::looks(topology, rails));
    let solution = solve(&ways.problem, budget);
    (ways, solution)
}

/// The best answer in which these GPUs keep their rails; the best of all where the worst-off GPU gets more in that, and all
/// ways are known.
fn around(ways: &Ways, kept: &Kept, budget: &mut Budget) -> Solution {
    let stay = solve_around(&ways.problem, kept, budget);
    if ways.are_kept() {
        return Solution { exact: false, ..stay };
    }
    let worst = |solution: &Solution| Score::of(&ways.problem, &solution.rails_of).worst_mbps();
    if budget.is_spent() || worst(&stay) >= most_for_the_worst(&ways.problem, budget) {
        return stay;
    }
    let anew = solve(&ways.problem, budget);
    if worst(&anew) > worst(&stay) { anew } else { stay }
}

/// The rails that each GPU has when all work, where a map of that node is at hand; or when all work that did when the map
/// was made.
fn known(healthy: &[Rail], request: &Request) -> Option<Vec<Vec<usize>>> {
    let map = request.known.filter(|map| in_order(map) == healthy)?;
    let number = |rail: &Rail| healthy.iter().position(|other| other.at() == rail.at()).unwrap_or(0);
    let numbers: Vec<usize> = map.rails.iter().map(number).collect();
    let rails_of = |gpu: &GpuPlacement| {
        let mut rails: Vec<usize> = gpu.choices.iter().map(|choice| numbers[choice.rail.0]).collect();
        rails.order();
        rails
    };
    (map.policy == Policy::Closest).then(|| map.gpus.iter().map(rails_of).collect())
}

/// Usable and broken rails together, in rail order.
pub(super) fn in_order(node: &NodePlacement) -> Vec<Rail> {
    let mut rails: Vec<Rail> = node.rails.iter().chain(&node.broken).cloned().collect();
    rails.order_by_key(Rail::at);
    rails
}

/// The answer with its reasons.
pub(super) fn placements(
    topology: &Topology,
    node: &NodePlacement,
    ways: &Ways,
    rails_of: &[Vec<usize>],
    request: &Request,
) -> Vec<GpuPlacement> {
    let mut budget = if ways.are_kept() { Budget::new(0) } else { request.effort.budget_of_reasons() };
    let mut answer = ways.answer(rails_of);
    let mut choices = ways.choices(&answer).into_iter();
    topology
        .numbered_gpus()
        .map(|(gpu, device)| {
            let choices = choices.next().unwrap_or_default();
            let reason = request.reasons.say(|| match choices.is_empty() {
                true => "no NIC of this node may be chosen".to_string(),
                false => why_this(node, ways, &mut answer, gpu, &choices, &mut budget),
            });
            GpuPlacement {
                choices,
                numa_node: topology.numa_node_of(device.address),
                reason,
                shortfall: None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::steady_within;
    use crate::placement::NicsEach;
    use crate::platform;
    use crate::policy::tests::{Parts, names};
    use crate::policy::{Effort, Request, Selection, map};
    use crate::topology::{NicIndex, PortState};

    // the looks of a whole step are counted, and a large machine's answer is what they allow
    #[test]
    fn the_work_of_a_decision_is_what_it_was() {
        let looks = |name: &str, nics_each, is_whole: bool| {
            let mut topology = platform::model(name).unwrap();
            if !is_whole {
                let nic = map(&topology, &Request::default()).rails[0].nic.0;
                topology.nics[nic].ports.iter_mut().for_each(|port| port.state = PortState::Down);
            }
            let request = Request { nics_each, ..Request::default() };
            let mut budget = Effort::Step.budget();
            let all = budget.left();
            let node = map(&topology, &request);
            steady_within(&topology, &node, &request, &mut budget);
            let looks = all - budget.left();
            // a map that is at hand saves the question what all had
            let whole = map(&platform::model(name).unwrap(), &request);
            let known = Request { known: Some(&whole), ..request };
            steady_within(&topology, &node, &known, &mut budget);
            let with_it = all - looks - budget.left();
            assert_eq!(with_it < looks, !is_whole, "{name}: {with_it} of {looks}");
            looks
        };
        let now = ["dgx-h100", "oci-bm-gpu-h100-8", "gb200-nvl72", "azure-nd96isr-h100-v5"].map(|name| {
            [
                (NicsEach::Auto, true),
                (NicsEach::Number(2), true),
                (NicsEach::Auto, false),
                (NicsEach::Number(1), false),
            ]
            .map(|(nics_each, is_whole)| looks(name, nics_each, is_whole))
        });
        let was = [
            [1280, 45224, 5390, 5390],
            [17666, 8392, 28846, 9720],
            [1278, 2040, 2270, 2270],
            [1280, 34502, 5378, 5378],
        ];
        assert_eq!(now, was, "if it was changed on purpose, and is no more work for less: the new figures");
    }

    // the ways between 180 GPUs and 59 NICs are more than a task may look at, and those between 8 and 7 are not
    #[test]
    fn in_a_task_of_a_large_node_only_those_who_lost_a_nic_choose_anew() {
        for (gpus, nics, is_large) in [(180usize, 60u8, true), (8, 8, false)] {
            let gpus = (0..gpus).map(|gpu| (gpu * 7 % 4) as u8).collect();
            let topology = Parts { gpus, nics: (0..nics).map(|nic| (nic % 4, 400)).collect() }.topology();
            let of_step = Request { nics_each: NicsEach::Number(2), ..Request::default() };
            let step = map(&topology, &of_step);
            let lost = step.rails[0].clone();
            let selection =
                Selection { unopenable: vec![(lost.nic, "closed".to_string())], ..Selection::default() };
            let (effort, selection) = (Effort::Task, Some(&selection));
            let request = Request { effort, selection, known: Some(&step), ..of_step };
            let task = map(&topology, &request);
            let mut budget = effort.budget();
            let (ways, solution) = steady_within(&topology, &task, &request, &mut budget);
            assert_eq!((ways.are_kept(), solution.exact), (is_large, !is_large));
            assert!(!is_large || budget.is_spent());
            let had_it = |gpu: &Vec<String>| gpu.contains(&lost.to_string());
            let sorted = |node| -> Vec<Vec<String>> {
                let mut names = names(node);
                names.iter_mut().for_each(|names| names.sort());
                names
            };
            for (before, after) in sorted(&step).iter().zip(&sorted(&task)) {
                assert!(after.len() == 2 && (had_it(before) || before == after), "{before:?} {after:?}");
            }
        }
    }

    #[test]
    fn a_gpu_whose_nic_works_moves_where_another_one_broke_if_the_worst_off_gains_by_it() {
        let parts = Parts { gpus: vec![0, 1, 0, 2], nics: [2, 1, 3, 1].map(|switch| (switch, 400)).to_vec() };
        let (whole, mut broken) = (parts.topology(), parts.topology());
        broken.nics[1].ports[0].state = PortState::Down;
        let request = Request { nics_each: NicsEach::Number(1), ..Request::default() };
        let first = |topology| names(&map(topology, &request)).concat();
        assert_eq!(first(&whole), ["mlx5_1:1", "mlx5_1:1", "mlx5_3:1", "mlx5_0:1"]);
        // the third GPU lost its own, and the second gives way to it
        assert_eq!(first(&broken), ["mlx5_1:1", "mlx5_2:1", "mlx5_1:1", "mlx5_0:1"]);
    }

    // each task of a job that may not open a NIC looks again, and starts from the step's map
    #[test]
    fn a_map_that_is_at_hand_saves_work_and_changes_nothing() {
        for topology in platform::names().filter_map(platform::model) {
            let whole = map(&topology, &Request::default());
            for rail in whole.rails.iter().take(3) {
                let unopenable: Vec<(NicIndex, String)> = vec![(rail.nic, "denied".to_string())];
                let selection = Selection { unopenable, ..Selection::default() };
                let request = Request { selection: Some(&selection), ..Request::default() };
                let known = Request { known: Some(&whole), ..request.clone() };
                assert_eq!(map(&topology, &known), map(&topology, &request), "{}, {rail}", topology.name);
            }
        }
    }
}
