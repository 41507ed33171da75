//! The number of CPUs that a step's tasks can use at once: a maximal flow from tasks to CPUs of their masks.
#![forbid(unsafe_code)]

use crate::order::Order;
use crate::topology::CpuSet;
use std::collections::BTreeMap;

/// The most CPUs that the tasks can get if task `i` wants `wanted[i]` CPUs of `masks[i]` and no two tasks
/// share one.
pub(super) fn served<'m>(masks: impl IntoIterator<Item = &'m CpuSet>, wanted: &[usize]) -> usize {
    // tasks with the same mask are as good as one that wants what all of them want
    let mut of_mask: BTreeMap<&CpuSet, usize> = BTreeMap::new();
    for (mask, wanted) in masks.into_iter().zip(wanted) {
        *of_mask.entry(mask).or_default() += wanted;
    }
    let masks: Vec<&CpuSet> = of_mask.keys().copied().collect();
    let mut flow = Flow::new(&masks);
    of_mask.into_values().enumerate().map(|(task, wanted)| flow.serve(task, wanted)).sum()
}

/// CPUs that the same tasks may use form one class; a node has few classes, however many CPUs it has.
struct Flow {
    /// `[task]`: the classes in its mask
    classes: Vec<Vec<usize>>,
    /// `[class]`: unused CPUs
    free: Vec<usize>,
    /// `[class][task]`: CPUs that the task uses
    used: Vec<BTreeMap<usize, usize>>,
}

impl Flow {
    fn new(masks: &[&CpuSet]) -> Flow {
        // for each CPU its tasks, a bit for each
        let each = masks.len().div_ceil(64).max(1);
        let words = masks.iter().map(|mask| mask.words().len()).max().unwrap_or(0);
        let mut tasks_of = vec![0u64; 64 * words * each];
        for (task, mask) in masks.iter().enumerate() {
            let (word, bit) = (task / 64, 1 << (task % 64));
            mask.iter().for_each(|cpu| tasks_of[cpu as usize * each + word] |= bit);
        }
        let mut users: Vec<&[u64]> =
            tasks_of.chunks_exact(each).filter(|tasks| tasks.iter().any(|word| *word != 0)).collect();
        users.order();
        let mut flow = Flow { classes: vec![Vec::new(); masks.len()], free: Vec::new(), used: Vec::new() };
        for same in users.chunk_by(|one, other| one == other) {
            let is_one = |task: &usize| same[0][task / 64] >> (task % 64) & 1 == 1;
            (0..masks.len()).filter(is_one).for_each(|task| flow.classes[task].push(flow.free.len()));
            flow.free.push(same.len());
            flow.used.push(BTreeMap::new());
        }
        flow
    }

    /// Gives the task up to `wanted` CPUs; other tasks move to other CPUs of their masks if that frees some.
    fn serve(&mut self, task: usize, wanted: usize) -> usize {
        let mut got = 0;
        while got < wanted {
            match self.augment(task, wanted - got) {
                0 => break,
                more => got += more,
            }
        }
        got
    }

    /// One shortest augmenting path (Edmonds and Karp).
    fn augment(&mut self, from: usize, wanted: usize) -> usize {
        // how we reached a class: by which task, and which class that task gives up
        let mut reached: BTreeMap<usize, (usize, Option<usize>)> = BTreeMap::new();
        let mut queue = std::collections::VecDeque::from([(from, None)]);
        while let Some((task, left)) = queue.pop_front() {
            for &class in &self.classes[task] {
                if reached.contains_key(&class) {
                    continue;
                }
                reached.insert(class, (task, left));
                if self.free[class] > 0 {
                    return self.apply(class, &reached, wanted);
                }
                queue.extend(self.used[class].keys().map(|&user| (user, Some(class))));
            }
        }
        0
    }

    fn apply(
        &mut self,
        end: usize,
        reached: &BTreeMap<usize, (usize, Option<usize>)>,
        wanted: usize,
    ) -> usize {
        let mut amount = wanted.min(self.free[end]);
        let mut at = end;
        while let (task, Some(left)) = reached[&at] {
            amount = amount.min(self.used[left][&task]);
            at = left;
        }
        self.free[end] -= amount;
        let mut at = end;
        loop {
            let (task, left) = reached[&at];
            *self.used[at].entry(task).or_default() += amount;
            let Some(left) = left else { return amount };
            if let Some(used) = self.used[left].get_mut(&task) {
                *used -= amount;
                if *used == 0 {
                    self.used[left].remove(&task);
                }
            }
            at = left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sets(lists: &[&str]) -> Vec<CpuSet> {
        lists.iter().map(|list| CpuSet::from_list(list).unwrap()).collect()
    }

    #[test]
    fn cpus_are_used_once_and_tasks_make_room_for_each_other() {
        assert_eq!(served(&sets(&["0-3", "0-3"]), &[2, 2]), 4);
        assert_eq!(served(&sets(&["0-3", "0-3"]), &[3, 3]), 4);
        assert_eq!(served(&sets(&["0-3", "0-1"]), &[2, 2]), 4, "the first moves to 2-3");
        assert_eq!(served(&sets(&["55", "55", "55", "55"]), &[4; 4]), 1);
        assert_eq!(served(&sets(&["0-1", "1-2", "2-3"]), &[1, 2, 1]), 4);
        assert_eq!(served(&sets(&["", "0"]), &[1, 1]), 1);
        // rooms that are made twice, by the same tasks, and by one that wants none
        assert_eq!(served(&sets(&["1,3,4", "2,4", "0,2,3", "0-2"]), &[0, 2, 1, 1]), 4);
        assert_eq!(served(&sets(&["2,5", "1,3,5", "0-3"]), &[3, 0, 2]), 4);
        assert_eq!(served(&sets(&["2,4-5", "0,2-3", "0-1,3-4", "3-4", "0-1,4"]), &[0, 1, 1, 0, 3]), 5);
    }

    /// The CPUs that the best assignment serves, found by trying every CPU with every task.
    fn best(masks: &[CpuSet], wanted: &mut [usize], cpu: u32) -> usize {
        if cpu == 6 {
            return 0;
        }
        let mut most = best(masks, wanted, cpu + 1);
        for task in 0..masks.len() {
            if masks[task].contains(cpu) && wanted[task] > 0 {
                wanted[task] -= 1;
                most = most.max(1 + best(masks, wanted, cpu + 1));
                wanted[task] += 1;
            }
        }
        most
    }

    proptest! {
        #[test]
        fn no_assignment_serves_more(tasks in prop::collection::vec((0u64..64, 0usize..4), 1..6)) {
            let masks: Vec<CpuSet> = tasks.iter().map(|task| CpuSet::from_words(vec![task.0])).collect();
            let mut wanted: Vec<usize> = tasks.iter().map(|task| task.1).collect();
            prop_assert_eq!(served(&masks, &wanted), best(&masks, &mut wanted, 0));
        }
    }
}
