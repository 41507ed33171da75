//! The part of the CPUs that each task of a step has when all of them run: the max-min fair one.
//!
//! A task is worse off if this becomes less, however many CPUs its mask has: eight tasks on one mask of eight CPUs have one each.
#![forbid(unsafe_code)]

use crate::order::Order;
use crate::topology::CpuSet;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A share of one CPU.  Shares are quotients of at most some hundred CPUs and tasks, so two different ones differ by more than
/// one of these parts.
pub(super) const ONE: u64 = 1 << 20;

/// `[task]`: its share, in parts of [`ONE`].
pub(super) fn fair(masks: &[&CpuSet]) -> Vec<u64> {
    // tasks with the same mask have the same share
    let mut group_of: BTreeMap<&CpuSet, usize> = BTreeMap::new();
    let mut groups: Vec<(&CpuSet, usize)> = Vec::new();
    let mut place = |mask| {
        let group = *group_of.entry(mask).or_insert(groups.len());
        if group == groups.len() {
            groups.push((mask, 0));
        }
        groups[group].1 += 1;
        group
    };
    let group: Vec<usize> = masks.iter().map(|mask| place(*mask)).collect();
    let of_group = of_groups(&groups);
    group.into_iter().map(|group| of_group[group]).collect()
}

/// `[group]`: the share of each task of it; a group is a mask and the number of its tasks.
fn of_groups(groups: &[(&CpuSet, usize)]) -> Vec<u64> {
    let all = groups.iter().fold(CpuSet::new(), |all, (mask, _)| all.union(mask));
    if groups.iter().map(|(mask, _)| mask.len()).sum::<usize>() == all.len() {
        return groups.iter().map(|&(mask, tasks)| share(mask.len(), tasks)).collect();
    }
    let mut classes = Classes::new(groups);
    let mut shares: Vec<Option<u64>> = vec![None; groups.len()];
    loop {
        let open: Vec<usize> = (0..groups.len()).filter(|&group| shares[group].is_none()).collect();
        if open.is_empty() {
            return shares.into_iter().map(Option::unwrap_or_default).collect();
        }
        // the groups that have least together: those that starve if all have as much as these
        let mut poorest = open.clone();
        let (cpus, tasks) = loop {
            let tasks: usize = poorest.iter().map(|&group| groups[group].1).sum();
            let cpus = classes.cpus_of(&poorest);
            let starved = classes.starved(&open, groups, cpus, tasks);
            if starved.is_empty() {
                break (cpus, tasks);
            }
            poorest = starved;
        };
        poorest.iter().for_each(|&group| shares[group] = Some(share(cpus, tasks)));
        classes.take_from_others(&poorest);
    }
}

fn share(cpus: usize, tasks: usize) -> u64 {
    cpus as u64 * ONE / tasks.max(1) as u64
}

/// CPUs that the same groups have are one class; a node has few classes, however many CPUs it has.
struct Classes {
    /// `[group]`: the classes in its mask
    of_group: Vec<Vec<usize>>,
    /// `[class]`: its CPUs
    cpus: Vec<usize>,
}

impl Classes {
    fn new(groups: &[(&CpuSet, usize)]) -> Classes {
        // for each CPU its groups, a bit for each
        let each = groups.len().div_ceil(64).max(1);
        let words = groups.iter().map(|(mask, _)| mask.words().len()).max().unwrap_or(0);
        let mut groups_of = vec![0u64; 64 * words * each];
        for (group, (mask, _)) in groups.iter().enumerate() {
            let (word, bit) = (group / 64, 1 << (group % 64));
            mask.iter().for_each(|cpu| groups_of[cpu as usize * each + word] |= bit);
        }
        let mut users: Vec<&[u64]> =
            groups_of.chunks_exact(each).filter(|groups| groups.iter().any(|word| *word != 0)).collect();
        users.order();
        let mut classes = Classes { of_group: vec![Vec::new(); groups.len()], cpus: Vec::new() };
        for same in users.chunk_by(|one, other| one == other) {
            let is_one = |group: &usize| same[0][group / 64] >> (group % 64) & 1 == 1;
            (0..groups.len())
                .filter(is_one)
                .for_each(|group| classes.of_group[group].push(classes.cpus.len()));
            classes.cpus.push(same.len());
        }
        classes
    }

    /// The CPUs that these groups have together.
    fn cpus_of(&self, groups: &[usize]) -> usize {
        let held: BTreeSet<usize> = groups.iter().flat_map(|&group| &self.of_group[group]).copied().collect();
        held.into_iter().map(|class| self.cpus[class]).sum()
    }

    /// What these groups have is no other's any more.
    fn take_from_others(&mut self, groups: &[usize]) {
        for &group in groups {
            self.of_group[group].iter().for_each(|&class| self.cpus[class] = 0);
        }
    }

    /// The groups, of the open ones, that cannot all have `cpus / tasks` CPUs for each of their tasks: those from which a
    /// maximal flow finds no way to a free CPU.
    fn starved(&self, open: &[usize], groups: &[(&CpuSet, usize)], cpus: usize, tasks: usize) -> Vec<usize> {
        // a CPU counts as `tasks` parts, so that what a group wants is a whole number of them
        let mut free: Vec<usize> = self.cpus.iter().map(|cpus| cpus * tasks).collect();
        let mut used: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); free.len()];
        let mut starved = BTreeSet::new();
        for &group in open {
            let mut wanted = groups[group].1 * cpus;
            while wanted > 0 {
                match self.augment(group, wanted, &mut free, &mut used) {
                    Ok(got) => wanted -= got,
                    Err(seen) => {
                        starved.extend(seen);
                        break;
                    }
                }
            }
        }
        starved.into_iter().collect()
    }

    /// Gives the group more by one shortest path (Edmonds and Karp); else says which groups hold all that it could have.
    fn augment(
        &self,
        from: usize,
        wanted: usize,
        free: &mut [usize],
        used: &mut [BTreeMap<usize, usize>],
    ) -> Result<usize, BTreeSet<usize>> {
        // how a class was reached: by which group, and which class that one gives up
        let mut reached: BTreeMap<usize, (usize, Option<usize>)> = BTreeMap::new();
        let mut seen = BTreeSet::from([from]);
        let mut queue = VecDeque::from([(from, None)]);
        while let Some((group, left)) = queue.pop_front() {
            for &class in &self.of_group[group] {
                if reached.contains_key(&class) {
                    continue;
                }
                reached.insert(class, (group, left));
                if free[class] > 0 {
                    return Ok(apply(class, wanted, &reached, free, used));
                }
                for &user in used[class].keys() {
                    if seen.insert(user) {
                        queue.push_back((user, Some(class)));
                    }
                }
            }
        }
        Err(seen)
    }
}

fn apply(
    end: usize,
    wanted: usize,
    reached: &BTreeMap<usize, (usize, Option<usize>)>,
    free: &mut [usize],
    used: &mut [BTreeMap<usize, usize>],
) -> usize {
    let mut amount = wanted.min(free[end]);
    let mut at = end;
    while let (group, Some(left)) = reached[&at] {
        amount = amount.min(used[left][&group]);
        at = left;
    }
    free[end] -= amount;
    let mut at = end;
    loop {
        let (group, left) = reached[&at];
        *used[at].entry(group).or_default() += amount;
        let Some(left) = left else { return amount };
        if let Some(part) = used[left].get_mut(&group) {
            *part -= amount;
            if *part == 0 {
                used[left].remove(&group);
            }
        }
        at = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::judge;
    use proptest::prelude::*;

    fn shares(lists: &[&str]) -> Vec<f64> {
        let masks: Vec<CpuSet> = lists.iter().map(|list| CpuSet::from_list(list).unwrap()).collect();
        fair(&masks.iter().collect::<Vec<_>>()).into_iter().map(|share| share as f64 / ONE as f64).collect()
    }

    #[test]
    fn a_share_is_what_a_task_has_when_all_run() {
        assert_eq!(shares(&["0-3", "4-5"]), [4.0, 2.0]);
        assert_eq!(shares(&["0-3", "0-3"]), [2.0, 2.0]);
        assert_eq!(shares(&["0-3", "0-1"]), [2.0, 2.0], "the first has the others");
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
