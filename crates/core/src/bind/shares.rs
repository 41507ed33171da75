//! Max-min fair shares: the CPUs that each task of a step has while all tasks run.

use super::tasks::union;
use crate::topology::CpuSet;
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

/// Parts of one CPU: enough that unequal shares of some hundred CPUs and tasks differ by more than
/// one part.
pub(super) const ONE: u64 = 1 << 20;

/// `[task]`: its fair share under `masks`, [`ONE`] for each CPU.
pub(super) fn fair<M: Borrow<CpuSet>>(masks: &[M]) -> Vec<u64> {
    let mut tasks_with: BTreeMap<&CpuSet, usize> = BTreeMap::new();
    for mask in masks {
        *tasks_with.entry(mask.borrow()).or_default() += 1;
    }
    let groups: Vec<(&CpuSet, usize)> = tasks_with.into_iter().collect();
    let shares = of_groups(&groups);
    let share = |mask: &M| shares[groups.partition_point(|(other, _)| *other < mask.borrow())];
    masks.iter().map(share).collect()
}

/// `[group]`: the share of each of its tasks; a group is a mask and the number of tasks with it.
fn of_groups(groups: &[(&CpuSet, usize)]) -> Vec<u64> {
    let share = |cpus: usize, tasks: usize| cpus as u64 * ONE / tasks as u64;
    let all = union(groups.iter().map(|(mask, _)| *mask));
    if groups.iter().map(|(mask, _)| mask.len()).sum::<usize>() == all.len() {
        let shares = groups.iter().map(|(mask, tasks)| share(mask.len(), *tasks));
        return shares.collect();
    }
    let mut classes = classes(groups, &all);
    let mut shares: Vec<Option<u64>> = vec![None; groups.len()];
    loop {
        let mut open = (0..groups.len()).collect::<Vec<_>>();
        open.retain(|&group| shares[group].is_none());
        if open.is_empty() {
            return shares.into_iter().flatten().collect();
        }
        // the groups with the least share, by Dinkelbach's iteration: `poorest` begins as all open
        // groups, then becomes the open groups that cannot get its average share
        let mut poorest = open.clone();
        let (cpus, tasks) = loop {
            let theirs = classes.iter().filter(|class| class.is_of(&poorest));
            let cpus = theirs.map(|class| class.cpus).sum();
            let tasks = poorest.iter().map(|&group| groups[group].1).sum();
            let starved = starved(&classes, &open, groups, cpus, tasks);
            if starved.is_empty() {
                break (cpus, tasks);
            }
            poorest = starved;
        };
        for class in &mut classes {
            if class.is_of(&poorest) {
                class.cpus = 0;
            }
        }
        for group in poorest {
            shares[group] = Some(share(cpus, tasks));
        }
    }
}

/// The CPUs in the masks of exactly these groups. Even many CPUs form few classes.
struct Class {
    groups: Vec<usize>,
    /// CPUs that no group has yet
    cpus: usize,
}

impl Class {
    fn is_of(&self, groups: &[usize]) -> bool {
        self.groups.iter().any(|group| groups.contains(group))
    }
}

fn classes(groups: &[(&CpuSet, usize)], all: &CpuSet) -> Vec<Class> {
    let mut cpus_of: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    for cpu in all.iter() {
        let mut users: Vec<usize> = (0..groups.len()).collect();
        users.retain(|&group| groups[group].0.contains(cpu));
        *cpus_of.entry(users).or_default() += 1;
    }
    let classes = cpus_of.into_iter();
    classes
        .map(|(groups, cpus)| Class { groups, cpus })
        .collect()
}

/// The open groups that cannot get `cpus / tasks` CPUs for each task: a maximal flow leaves them no
/// path to a free CPU.
fn starved(
    classes: &[Class],
    open: &[usize],
    groups: &[(&CpuSet, usize)],
    cpus: usize,
    tasks: usize,
) -> Vec<usize> {
    let mut flow = Flow {
        classes,
        // each CPU is `tasks` parts, so that groups want whole numbers of parts
        free: classes.iter().map(|class| class.cpus * tasks).collect(),
        used: vec![BTreeMap::new(); classes.len()],
    };
    let mut starved = BTreeSet::new();
    for &group in open {
        let mut wanted = groups[group].1 * cpus;
        while wanted > 0 {
            match flow.give(group, wanted) {
                Ok(got) => wanted -= got,
                Err(reached) => {
                    starved.extend(reached);
                    break;
                }
            }
        }
    }
    starved.into_iter().collect()
}

struct Flow<'c> {
    classes: &'c [Class],
    /// `[class]`: parts that no group has
    free: Vec<usize>,
    /// `[class]`: the parts of its CPUs, by the group that has them
    used: Vec<BTreeMap<usize, usize>>,
}

/// A group; the class whose parts it would give up; the taker's index in `reached`.
type Reached = (usize, Option<(usize, usize)>);

impl Flow<'_> {
    /// Gives a group up to `wanted` more parts, on a shortest path to free parts (Edmonds and
    /// Karp), and returns the number given. The error: the groups that the search reached without
    /// finding a free part.
    fn give(&mut self, group: usize, wanted: usize) -> Result<usize, Vec<usize>> {
        let mut reached: Vec<Reached> = vec![(group, None)];
        let mut place = 0;
        while let Some(&(group, _)) = reached.get(place) {
            for (class, Class { groups, .. }) in self.classes.iter().enumerate() {
                if !groups.contains(&group) {
                    continue;
                }
                if self.free[class] > 0 {
                    return Ok(self.pass_on(&reached, place, class, wanted));
                }
                for (&user, &parts) in &self.used[class] {
                    if parts > 0 && reached.iter().all(|(known, _)| *known != user) {
                        reached.push((user, Some((class, place))));
                    }
                }
            }
            place += 1;
        }
        Err(reached.into_iter().map(|(group, _)| group).collect())
    }

    /// Moves parts along the path that ends at `place`, and returns their number: the group at
    /// `place` takes free parts of `class`, and each group on the path gives as many to its taker.
    fn pass_on(&mut self, reached: &[Reached], place: usize, class: usize, wanted: usize) -> usize {
        let mut parts = wanted.min(self.free[class]);
        let mut at = place;
        while let (group, Some((given, taker))) = reached[at] {
            parts = parts.min(self.used[given][&group]);
            at = taker;
        }
        self.free[class] -= parts;
        let (mut at, mut taken) = (place, class);
        loop {
            let (group, gives) = reached[at];
            *self.used[taken].entry(group).or_default() += parts;
            let Some((given, taker)) = gives else {
                return parts;
            };
            *self.used[given].entry(group).or_default() -= parts;
            (taken, at) = (given, taker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::judge;
    use crate::bind::tests::set;
    use proptest::prelude::*;

    #[test]
    fn a_share_is_what_a_task_has_when_all_run() {
        let cases: [(&[&str], &[f64]); 8] = rows! {
            &["0-3", "4-5"], &[4.0, 2.0]; &["0-3", "0-3"], &[2.0, 2.0];
            // the first has the others
            &["0-3", "0-1"], &[2.0, 2.0]; &["55", "55", "55", "55"], &[0.25; 4];
            &["0-1", "0-1", "0-5"], &[1.0, 1.0, 4.0]; &["0-2", "1-3", "2-5"], &[2.0; 3];
            &["", "0"], &[0.0, 1.0]; &[], &[];
        };
        for (masks, expected) in cases {
            let masks: Vec<CpuSet> = masks.iter().map(|mask| set(mask)).collect();
            let shares = fair(&masks.iter().collect::<Vec<_>>());
            let shares = shares.iter().map(|share| *share as f64 / ONE as f64);
            assert_eq!(shares.collect::<Vec<_>>(), expected, "{masks:?}");
        }
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
