//! The part of the CPUs that each task of a step has when all of them run: the max-min fair one.
//!
//! A task is worse off if this becomes less, however many CPUs its mask has: eight tasks on one mask of eight CPUs have one each.
#![forbid(unsafe_code)]

use crate::topology::CpuSet;
use std::collections::{BTreeMap, BTreeSet};

/// A share of one CPU.  Shares are quotients of at most some hundred CPUs and tasks: two different ones differ by more
/// than 1.
pub(super) const ONE: u64 = 1 << 20;

/// `[task]`: its share, in parts of [`ONE`].
pub(super) fn fair(masks: &[&CpuSet]) -> Vec<u64> {
    // tasks with the same mask have the same share
    let mut tasks_with: BTreeMap<&CpuSet, usize> = BTreeMap::new();
    masks
        .iter()
        .for_each(|mask| *tasks_with.entry(mask).or_default() += 1);
    let groups: Vec<(&CpuSet, usize)> = tasks_with.into_iter().collect();
    let shares = of_groups(&groups);
    masks
        .iter()
        .map(|mask| shares[groups.partition_point(|(other, _)| other < mask)])
        .collect()
}

/// `[group]`: the share of each of its tasks; a group is a mask and the number of tasks that have it.
fn of_groups(groups: &[(&CpuSet, usize)]) -> Vec<u64> {
    let share = |cpus: usize, tasks: usize| cpus as u64 * ONE / tasks as u64;
    let all = groups
        .iter()
        .fold(CpuSet::new(), |all, (mask, _)| all.union(mask));
    if groups.iter().map(|(mask, _)| mask.len()).sum::<usize>() == all.len() {
        return groups
            .iter()
            .map(|&(mask, tasks)| share(mask.len(), tasks))
            .collect();
    }
    let mut classes = classes(groups, &all);
    let mut shares: Vec<Option<u64>> = vec![None; groups.len()];
    loop {
        let open: Vec<usize> = (0..groups.len())
            .filter(|&group| shares[group].is_none())
            .collect();
        if open.is_empty() {
            return shares.into_iter().map(Option::unwrap_or_default).collect();
        }
        // the groups that have least together: those that starve if all have as much as these (Dinkelbach's iteration)
        let mut poorest = open.clone();
        let (cpus, tasks) = loop {
            let is_theirs =
                |class: &&Class| class.groups.iter().any(|group| poorest.contains(group));
            let cpus = classes
                .iter()
                .filter(is_theirs)
                .map(|class| class.cpus)
                .sum();
            let tasks = poorest.iter().map(|&group| groups[group].1).sum();
            let starved = starved(&classes, &open, groups, cpus, tasks);
            if starved.is_empty() {
                break (cpus, tasks);
            }
            poorest = starved;
        };
        for class in classes
            .iter_mut()
            .filter(|class| class.groups.iter().any(|group| poorest.contains(group)))
        {
            class.cpus = 0;
        }
        poorest
            .iter()
            .for_each(|&group| shares[group] = Some(share(cpus, tasks)));
    }
}

/// CPUs that the same groups have; a node has few such classes, however many CPUs it has.
struct Class {
    groups: Vec<usize>,
    /// CPUs that no group has yet
    cpus: usize,
}

fn classes(groups: &[(&CpuSet, usize)], all: &CpuSet) -> Vec<Class> {
    let mut cpus_of: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    for cpu in all.iter() {
        let users = (0..groups.len())
            .filter(|&group| groups[group].0.contains(cpu))
            .collect();
        *cpus_of.entry(users).or_default() += 1;
    }
    cpus_of
        .into_iter()
        .map(|(groups, cpus)| Class { groups, cpus })
        .collect()
}

/// The open groups that cannot all have `cpus / tasks` CPUs for each task: those from which a maximal flow finds no way
/// to a free CPU.
fn starved(
    classes: &[Class],
    open: &[usize],
    groups: &[(&CpuSet, usize)],
    cpus: usize,
    tasks: usize,
) -> Vec<usize> {
    let mut flow = Flow {
        classes,
        // a CPU counts as `tasks` parts, so that what a group wants is a whole number of them
        free: classes.iter().map(|class| class.cpus * tasks).collect(),
        used: vec![BTreeMap::new(); classes.len()],
    };
    let mut starved = BTreeSet::new();
    for &group in open {
        let mut wanted = groups[group].1 * cpus;
        while wanted > 0 {
            match flow.give(group, wanted) {
                Ok(got) => wanted -= got,
                Err(asked) => {
                    starved.extend(asked);
                    break;
                }
            }
        }
    }
    starved.into_iter().collect()
}

/// Parts of CPUs on their way to groups.
struct Flow<'c> {
    classes: &'c [Class],
    /// `[class]`: parts that no group has
    free: Vec<usize>,
    /// `[class]`: the parts that each group has
    used: Vec<BTreeMap<usize, usize>>,
}

impl Flow<'_> {
    /// Gives a group up to `wanted` more parts by a shortest path to free ones (Edmonds and Karp), and returns how
    /// many; the error is the groups that hold every part it could have.
    fn give(&mut self, group: usize, wanted: usize) -> Result<usize, Vec<usize>> {
        // the groups in the order in which they are asked: each with the class of which it would give up parts, and the place
        // of the group that asks for these
        let mut asked: Vec<(usize, Option<(usize, usize)>)> = vec![(group, None)];
        let mut place = 0;
        while let Some(&(group, _)) = asked.get(place) {
            for (class, Class { groups, .. }) in self.classes.iter().enumerate() {
                if !groups.contains(&group) {
                    continue;
                }
                if self.free[class] > 0 {
                    return Ok(self.pass_on(&asked, place, class, wanted));
                }
                for (&user, _) in self.used[class].iter().filter(|(_, parts)| **parts > 0) {
                    if asked.iter().all(|(known, _)| *known != user) {
                        asked.push((user, Some((class, place))));
                    }
                }
            }
            place += 1;
        }
        Err(asked.into_iter().map(|(group, _)| group).collect())
    }

    /// Along the path that ends at `place`: that group takes free parts of `class`, and each gives as many to the one that asks.
    fn pass_on(
        &mut self,
        asked: &[(usize, Option<(usize, usize)>)],
        place: usize,
        class: usize,
        wanted: usize,
    ) -> usize {
        let mut parts = wanted.min(self.free[class]);
        let mut at = place;
        while let (group, Some((given, asker))) = asked[at] {
            parts = parts.min(self.used[given][&group]);
            at = asker;
        }
        self.free[class] -= parts;
        let (mut at, mut taken) = (place, class);
        loop {
            let (group, gives) = asked[at];
            *self.used[taken].entry(group).or_default() += parts;
            let Some((given, asker)) = gives else {
                return parts;
            };
            *self.used[given].entry(group).or_default() -= parts;
            (taken, at) = (given, asker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::judge;
    use proptest::prelude::*;

    fn shares(lists: &[&str]) -> Vec<f64> {
        let masks: Vec<CpuSet> = lists
            .iter()
            .map(|list| CpuSet::from_list(list).unwrap())
            .collect();
        fair(&masks.iter().collect::<Vec<_>>())
            .into_iter()
            .map(|share| share as f64 / ONE as f64)
            .collect()
    }

    #[test]
    fn a_share_is_what_a_task_has_when_all_run() {
        assert_eq!(shares(&["0-3", "4-5"]), [4.0, 2.0]);
        assert_eq!(shares(&["0-3", "0-3"]), [2.0, 2.0]);
        assert_eq!(
            shares(&["0-3", "0-1"]),
            [2.0, 2.0],
            "the first has the others"
        );
        assert_eq!(shares(&["55", "55", "55", "55"]), [0.25; 4]);
        assert_eq!(shares(&["0-1", "0-1", "0-5"]), [1.0, 1.0, 4.0]);
        assert_eq!(shares(&["0-2", "1-3", "2-5"]), [2.0; 3]);
        assert_eq!(shares(&["", "0"]), [0.0, 1.0]);
        assert!(shares(&[]).is_empty());
    }

    proptest! {
        // the judge of the end-to-end tests is written without our types, and by another way
        #[test]
        fn a_share_is_the_judges(tasks in prop::collection::vec(0u64..4096, 1..8)) {
            let masks: Vec<CpuSet> = tasks.iter().map(|mask| CpuSet::from_words(vec![*mask])).collect();
            let judged = judge::shares(&masks.iter().map(|mask| mask.iter().collect()).collect::<Vec<_>>());
            for (ours, theirs) in fair(&masks.iter().collect::<Vec<_>>()).into_iter().zip(judged) {
                prop_assert!((ours as f64 / ONE as f64 - theirs).abs() < 1e-5, "{ours} of {theirs}");
            }
        }
    }
}
