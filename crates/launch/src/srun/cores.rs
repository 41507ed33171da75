//! Cores and masks of a step's tasks on an idle node, as Slurm 22.05.8 and 24.11.5 choose them.
//!
//! select/cons_tres with CR_Core chooses the job's cores (dist_tasks.c, `_cyclic_sync_core_bitmap`), slurmctld the step's
//! (`_pick_step_cores`), and task/affinity binds tasks to these (dist_tasks.c, `lllp_distribution`).
#![forbid(unsafe_code)]

use nic_placement_core::topology::{CpuSet, Topology};
use std::collections::BTreeMap;

/// `[socket][core][thread]`: a CPU; all sockets and cores are alike.
pub(super) struct Sockets(pub Vec<Vec<Vec<u32>>>);

impl Sockets {
    pub fn of(node: &Topology) -> Option<Sockets> {
        let mut packages: BTreeMap<u32, BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
        for pu in &node.pus {
            let cores = packages.entry(pu.package).or_default();
            cores.entry(pu.core).or_default().push(pu.os_index);
        }
        let cores = packages
            .into_values()
            .map(|cores| cores.into_values().collect());
        let mut sockets: Vec<Vec<Vec<u32>>> = cores.collect();
        for socket in &mut sockets {
            socket.iter_mut().for_each(|core| core.sort_unstable());
            socket.sort_unstable();
        }
        let first = sockets.first()?;
        let is_alike = |socket: &Vec<Vec<u32>>| {
            socket.len() == first.len() && socket.iter().all(|core| core.len() == first[0].len())
        };
        sockets.iter().all(is_alike).then(|| Sockets(sockets))
    }

    /// Cores of each.
    pub fn size(&self) -> usize {
        self.0[0].len()
    }

    /// The CPUs of the first cores of each.
    pub fn cpus(&self, counts: &[usize]) -> CpuSet {
        let sockets = self.0.iter().zip(counts);
        let cores = sockets.flat_map(|(cores, count)| &cores[..*count]);
        cores.flatten().copied().collect()
    }
}

pub(super) struct Layout<'a> {
    pub sockets: &'a Sockets,
    pub tasks: usize,
    /// CPUs of each
    pub each: usize,
    /// CPUs of a core that Slurm counts
    pub threads: usize,
    /// fill a socket before the next
    pub by_block: bool,
    pub is_later: bool,
}

impl Layout<'_> {
    pub fn cores_of(&self, tasks: usize) -> usize {
        (tasks * self.each).div_ceil(self.threads)
    }

    /// The step's cores by socket if the job has all: first on sockets of its GPUs.
    pub fn picked(&self, gpus: &[usize]) -> Vec<usize> {
        let cores = self.each.div_ceil(self.threads);
        let (mut left, each) = match self.is_later {
            true => (
                self.cores_of(self.tasks),
                self.cores_of(self.tasks).div_ceil(self.tasks),
            ),
            false if self.each > self.threads => (self.tasks * cores, cores),
            // before 23.11 less than a core a task takes all from one socket
            false => (
                self.cores_of(self.tasks),
                self.cores_of(self.tasks) / self.tasks,
            ),
        };
        let size = self.sockets.size();
        let each = if self.by_block || each == 0 {
            size
        } else {
            each
        };
        let mut counts = vec![0; gpus.len()];
        for is_wanted in [true, false] {
            // in turns of one task
            for _ in 0..size {
                for at in (0..gpus.len()).filter(|at| (gpus[*at] > 0) == is_wanted) {
                    let more = each.min(left).min(size - counts[at]);
                    counts[at] += more;
                    left -= more;
                }
            }
        }
        counts
    }

    /// `[task]`: its CPUs, on the first cores of each socket.
    pub fn masks(&self, counts: &[usize]) -> Vec<CpuSet> {
        let all = self.sockets.cpus(counts);
        let wanted = self.tasks * self.each;
        let threads = self.sockets.0[0][0].len();
        // a whole core counts as one CPU if there are as many
        let is_core = wanted == counts.iter().sum::<usize>() && self.threads == threads;
        if self.threads == threads && !is_core && wanted != all.len() {
            return vec![all; self.tasks];
        }
        let split = if is_core { 1 } else { self.threads };
        let units = |(cores, count): (&Vec<Vec<u32>>, &usize)| -> Vec<Vec<u32>> {
            let cores = cores[..*count].iter();
            let units =
                cores.flat_map(|core| core.chunks(if is_core { threads } else { 1 }).take(split));
            units.rev().map(<[u32]>::to_vec).collect()
        };
        let mut free: Vec<Vec<Vec<u32>>> = self.sockets.0.iter().zip(counts).map(units).collect();
        let mut at = 0;
        let mut next_task = |_| {
            let mut mask = Vec::new();
            for _ in 0..self.each {
                let turns = (at..free.len()).chain(0..at);
                at = turns
                    .into_iter()
                    .find(|at| !free[*at].is_empty())
                    .unwrap_or(at);
                mask.extend(free[at].pop().unwrap_or_default());
            }
            at = (at + usize::from(!self.by_block)) % free.len();
            mask.into_iter().collect()
        };
        (0..self.tasks).map(&mut next_task).collect()
    }
}
