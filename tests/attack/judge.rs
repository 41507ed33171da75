//! Is a task of a step worse off with the plugin than without?
//!
//! Knows masks, memory policies and the node, and nothing of how the plugin decides.  The end-to-end attack and the properties
//! of the binding rules ask the same judge.

use std::collections::{BTreeMap, BTreeSet};

/// Numbers of CPUs or of NUMA nodes.
pub type Set = BTreeSet<u32>;

/// The hardware that a step runs on.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// the CPUs of each core; CPUs of no core count as a core each
    pub cores: Vec<Set>,
    /// the CPUs of each NUMA node
    pub numa: BTreeMap<u32, Set>,
    /// the distance of two NUMA nodes (ACPI SLIT); 10 and 20 where it is not known
    pub distances: BTreeMap<(u32, u32), u32>,
}

/// A memory policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Memory {
    /// the kernel's: where the thread runs
    #[default]
    Local,
    /// these NUMA nodes first
    Preferred(Set),
    /// these NUMA nodes alone
    Bound(Set),
}

/// What a task has.
#[derive(Debug, Clone, Default)]
pub struct Task {
    /// the CPUs that it may run on
    pub cpus: Set,
    /// its memory policy
    pub memory: Memory,
}

/// One step, without the plugin and with it.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// `[task]`: without the plugin
    pub without: Vec<Task>,
    /// `[task]`: with it
    pub with: Vec<Task>,
    /// `[task]`: the NUMA nodes of its GPUs; empty where it has none, or they are not known
    pub homes: Vec<Set>,
    /// the CPUs that each task asked for, as hardware threads; a larger share is a gift that nearness may take back
    pub asked: Option<u32>,
    /// CPUs that belong to other jobs
    pub foreign: Set,
    /// `bind=numa`: the user wants the NUMA node whatever it holds
    pub gives_up_share: bool,
    /// `mem=strict`: the user wants the GPU's memory whatever it costs
    pub gives_up_memory: bool,
}

/// Less than this is the arithmetic's.
const EPSILON: f64 = 1e-6;

/// In what the step is worse off, a sentence each; empty if in nothing.
pub fn worse(machine: &Machine, step: &Step) -> Vec<String> {
    let mut found = Vec::new();
    if step.without.len() != step.with.len() {
        return vec![format!(
            "{} tasks ran without, {} with",
            step.without.len(),
            step.with.len()
        )];
    }
    let masks = |tasks: &[Task]| {
        tasks
            .iter()
            .map(|task| task.cpus.clone())
            .collect::<Vec<Set>>()
    };
    let (without, with) = (masks(&step.without), masks(&step.with));
    let union = |masks: &[Set]| masks.iter().flatten().copied().collect::<Set>();
    let beyond: Set = union(&with).difference(&union(&without)).copied().collect();
    if !beyond.is_empty() {
        found.push(format!(
            "the step runs on CPUs {beyond:?} that it did not have"
        ));
    }
    if !step.gives_up_share {
        let asked = step.asked.map(f64::from);
        less(&mut found, "CPUs", &shares(&without), &shares(&with), asked);
        let (without, with) = (machine.in_cores(&without), machine.in_cores(&with));
        let threads = machine
            .cores
            .iter()
            .map(BTreeSet::len)
            .max()
            .unwrap_or(1)
            .max(1) as f64;
        less(
            &mut found,
            "cores",
            &shares(&without),
            &shares(&with),
            asked.map(|asked| (asked / threads).max(0.5)),
        );
    }
    for (id, (without, with)) in step.without.iter().zip(&step.with).enumerate() {
        if with.cpus.is_empty() {
            found.push(format!("task {id} has no CPU"));
            continue;
        }
        let part =
            |cpus: &Set| cpus.intersection(&step.foreign).count() as f64 / cpus.len().max(1) as f64;
        if part(&with.cpus) > part(&without.cpus) + EPSILON {
            found.push(format!("task {id} is confined to CPUs of other jobs"));
        }
        let home = step.homes.get(id).cloned().unwrap_or_default();
        let (before, after) = (
            machine.distance(&without.cpus, &home),
            machine.distance(&with.cpus, &home),
        );
        if after > before + EPSILON {
            found.push(format!(
                "task {id} is farther from its GPU: mean distance {before:.1} became {after:.1}"
            ));
        }
        let (Memory::Bound(nodes), false) = (&with.memory, step.gives_up_memory) else {
            continue;
        };
        // where the memory was bound before, the CPUs may stand as they stood; a new fence must hold all of them
        let before = match &without.memory {
            Memory::Bound(_) => machine.distance(&without.cpus, nodes),
            _ => 10.0,
        };
        let after = machine.distance(&with.cpus, nodes);
        if after > before + EPSILON {
            found.push(format!(
                "task {id} is fenced to memory of NUMA nodes {nodes:?} at mean distance {after:.1}, {before:.1} before"
            ));
        }
    }
    found
}

/// Says whose share is less than it was, and less than asked for.
fn less(found: &mut Vec<String>, of: &str, without: &[f64], with: &[f64], asked: Option<f64>) {
    for (id, (before, after)) in without.iter().zip(with).enumerate() {
        let due = asked.map_or(*before, |asked| before.min(asked));
        if *after + EPSILON < due {
            found.push(format!(
                "task {id} has a share of {after:.2} {of} where it had {before:.2}"
            ));
        }
    }
}

impl Machine {
    /// Masks of cores in the place of masks of CPUs.
    fn in_cores(&self, masks: &[Set]) -> Vec<Set> {
        let core_of: BTreeMap<u32, u32> = self
            .cores
            .iter()
            .flat_map(|core| core.iter().map(|cpu| (*cpu, *core.first().unwrap_or(cpu))))
            .collect();
        let cores = |mask: &Set| {
            mask.iter()
                .map(|cpu| *core_of.get(cpu).unwrap_or(cpu))
                .collect()
        };
        masks.iter().map(cores).collect()
    }

    /// The mean distance of CPUs from the nearest of some NUMA nodes; 0 without CPUs or nodes.
    fn distance(&self, cpus: &Set, nodes: &Set) -> f64 {
        let of_cpu = |cpu: &u32| {
            let own = self
                .numa
                .iter()
                .find(|(_, cpus)| cpus.contains(cpu))
                .map(|(node, _)| *node)?;
            nodes
                .iter()
                .map(|node| self.between(own, *node))
                .min()
                .map(f64::from)
        };
        let known: Vec<f64> = cpus.iter().filter_map(of_cpu).collect();
        if known.is_empty() {
            0.0
        } else {
            known.iter().sum::<f64>() / known.len() as f64
        }
    }

    fn between(&self, one: u32, other: u32) -> u32 {
        let known = self.distances.get(&(one, other)).copied();
        known.unwrap_or(if one == other { 10 } else { 20 })
    }
}

/// Each task's part of what its mask holds when all tasks run on all of theirs: the max-min fair one.
pub fn shares(masks: &[Set]) -> Vec<f64> {
    let mut shares: Vec<Option<f64>> = vec![None; masks.len()];
    let mut left: Set = masks.iter().flatten().copied().collect();
    loop {
        let open: Vec<usize> = (0..masks.len())
            .filter(|id| shares[*id].is_none())
            .collect();
        if open.is_empty() {
            return shares
                .into_iter()
                .map(|share| share.unwrap_or(0.0))
                .collect();
        }
        let (level, tight) = bottleneck(masks, &open, &left);
        for id in tight {
            shares[id] = Some(level);
            left = left.difference(&masks[id]).copied().collect();
        }
    }
}

/// The tasks that, together, have least to share, and how much each gets: by Dinkelbach's iteration, which begins with all
/// tasks at their mean and asks a flow which of them cannot have it.
fn bottleneck(masks: &[Set], open: &[usize], left: &Set) -> (f64, Vec<usize>) {
    let mean = |tasks: &[usize]| {
        let held: Set = tasks
            .iter()
            .flat_map(|id| &masks[*id])
            .filter(|cpu| left.contains(cpu))
            .copied()
            .collect();
        held.len() as f64 / tasks.len() as f64
    };
    let mut tasks = open.to_vec();
    loop {
        let level = mean(&tasks);
        let starved = starved(masks, open, left, level);
        if starved.is_empty() || mean(&starved) + EPSILON >= level {
            return (level, tasks);
        }
        tasks = starved;
    }
}

/// The largest set of tasks that cannot all have `level`: those from which a flow that serves all finds no way to a free CPU.
fn starved(masks: &[Set], open: &[usize], left: &Set, level: f64) -> Vec<usize> {
    // CPUs that the same tasks have are one class
    let mut classes: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
    for cpu in left {
        let users: Vec<usize> = open
            .iter()
            .copied()
            .filter(|id| masks[*id].contains(cpu))
            .collect();
        if !users.is_empty() {
            *classes.entry(users).or_default() += 1.0;
        }
    }
    let users: Vec<Vec<usize>> = classes.keys().cloned().collect();
    let mut free: Vec<f64> = classes.into_values().collect();
    let mut used: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); free.len()];
    let mut starved = Set::new();
    for &task in open {
        let mut wants = level;
        while wants > EPSILON {
            let (path, seen) = way(&users, &free, &used, task);
            if path.is_empty() {
                starved.extend(seen.iter().map(|id| *id as u32));
                break;
            }
            // a way: (task, class that it takes) and then (task that gives a class up, class that it takes)
            let end = path[path.len() - 1].1;
            let given = path.windows(2).map(|pair| used[pair[0].1][&pair[1].0]);
            let amount = given.fold(wants.min(free[end]), f64::min);
            for pair in path.windows(2) {
                *used[pair[0].1].entry(pair[1].0).or_default() -= amount;
            }
            for (task, class) in &path {
                *used[*class].entry(*task).or_default() += amount;
            }
            free[end] -= amount;
            wants -= amount;
        }
    }
    starved.into_iter().map(|id| id as usize).collect()
}

/// A shortest way from a task to a class with free CPUs, empty if there is none, and the tasks that were seen.
#[allow(
    clippy::type_complexity,
    reason = "a way and the tasks on the search's tree, used once"
)]
fn way(
    users: &[Vec<usize>],
    free: &[f64],
    used: &[BTreeMap<usize, f64>],
    from: usize,
) -> (Vec<(usize, usize)>, Vec<usize>) {
    let mut came: BTreeMap<usize, Option<usize>> = BTreeMap::from([(from, None)]);
    let mut taken_by: BTreeMap<usize, usize> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([from]);
    while let Some(task) = queue.pop_front() {
        for class in (0..users.len()).filter(|class| users[*class].contains(&task)) {
            if taken_by.contains_key(&class) {
                continue;
            }
            taken_by.insert(class, task);
            if free[class] > EPSILON {
                let mut path = vec![(task, class)];
                let mut at = task;
                while let Some(class) = came[&at] {
                    at = taken_by[&class];
                    path.push((at, class));
                }
                path.reverse();
                return (path, Vec::new());
            }
            for (&giver, &amount) in &used[class] {
                if amount > EPSILON && !came.contains_key(&giver) {
                    came.insert(giver, Some(class));
                    queue.push_back(giver);
                }
            }
        }
    }
    (Vec::new(), came.into_keys().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &[u32]) -> Set {
        list.iter().copied().collect()
    }

    /// `0-3 4,5`: a set for each word.
    fn masks(words: &str) -> Vec<Set> {
        let range = |part: &str| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            from.parse().unwrap()..=to.parse::<u32>().unwrap()
        };
        let mask = |word: &str| word.split(',').flat_map(range).collect();
        words.split(' ').map(mask).collect()
    }

    /// Two NUMA nodes of four cores of two threads.
    fn machine() -> Machine {
        let numa = ["0-3,8-11", "4-7,12-15"].map(|cpus| masks(cpus).remove(0));
        Machine {
            cores: (0..8).map(|core| set(&[core, core + 8])).collect(),
            numa: (0..2).zip(numa).collect(),
            distances: BTreeMap::new(),
        }
    }

    fn tasks(words: &str) -> Vec<Task> {
        let memory = || Memory::Local;
        let task = |cpus| Task {
            cpus,
            memory: memory(),
        };
        masks(words).into_iter().map(task).collect()
    }

    fn judged(without: &str, with: &str, change: impl Fn(&mut Step)) -> String {
        let (without, with) = (tasks(without), tasks(with));
        let mut step = Step {
            without,
            with,
            ..Step::default()
        };
        change(&mut step);
        worse(&machine(), &step).join("; ")
    }

    #[test]
    fn a_share_is_what_a_task_has_when_all_run() {
        // two of the third row share two, the third has the rest of its mask for itself
        for (words, expected) in [
            ("0-3 4-5", &[4.0, 2.0][..]),
            ("0-5 0-5 0-5 0-5", &[1.5; 4]),
            ("0-1 0-1 0-5", &[1.0, 1.0, 4.0]),
            ("0-2 1-3 2-5", &[2.0; 3]),
            ("0-3 0-3 3", &[1.5, 1.5, 1.0]),
        ] {
            let found = shares(&masks(words));
            let mut pairs = found.iter().zip(expected);
            let is_close = pairs.all(|(one, other)| (one - other).abs() < 1e-6);
            assert!(found.len() == expected.len() && is_close, "{found:?}");
        }
        assert_eq!(shares(&[set(&[]), set(&[0, 1])]), [0.0, 2.0]);
    }

    #[test]
    fn what_is_less_or_of_others_or_farther_is_worse_and_the_same_is_not() {
        let (own, stacked) = ("0-1 2-3", "0-1 0-1");
        let nothing = |_: &mut Step| ();
        assert_eq!(judged(own, own, nothing), "");
        let less = "share of 1.00 CPUs where it had 2.00";
        assert!(judged(own, stacked, nothing).contains(less));
        assert_eq!(judged(own, stacked, |step| step.gives_up_share = true), "");
        // two of two that were asked for remain
        assert_eq!(judged("0-3 0-3", own, |step| step.asked = Some(1)), "");
        // two threads of one core are less than two cores
        assert!(judged(own, "0,8 1,9", nothing).contains("cores"));
        assert_ne!(judged("0-1", "1-2", nothing), "");
        let foreign = judged("0-7", "0-3", |step| {
            step.foreign = (0..4).collect();
            step.gives_up_share = true;
        });
        assert!(foreign.contains("other jobs"), "{foreign}");
        let far = |home: u32| {
            judged("0-3 4-7", "4-7 0-3", |step| {
                step.homes = vec![set(&[home]), set(&[1 - home])];
            })
        };
        assert_eq!(far(0).matches("farther from its GPU").count(), 2);
        assert_eq!(far(1), "");
    }

    #[test]
    fn memory_that_is_fenced_away_from_the_cpus_is_worse() {
        let fenced = |without: Memory, nodes: u32| {
            judged("0-3", "0-3", |step| {
                step.without[0].memory = without.clone();
                step.with[0].memory = Memory::Bound(set(&[nodes]));
            })
        };
        assert!(fenced(Memory::Local, 1).contains("fenced"));
        assert_eq!(fenced(Memory::Local, 0), "");
        // as it was
        assert_eq!(fenced(Memory::Bound(set(&[1])), 1), "");
    }
}
