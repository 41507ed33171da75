//! Cores and masks of a step's tasks on an idle node, as Slurm 22.05.8, 24.11.5 and 26.05.5 choose
//! them.
//!
//! select/cons_tres with CR_Core chooses the job's cores, slurmctld the step's (`_pick_step_cores`), and task/affinity binds
//! tasks to these (dist_tasks.c, `lllp_distribution`).

use nic_placement_core::topology::{CpuSet, Topology};
use std::collections::BTreeMap;

/// `[socket][core][thread]`: a CPU; all sockets and cores are alike.
pub(super) struct Sockets(pub Vec<Vec<Vec<u32>>>);

impl Sockets {
    pub fn of(node: &Topology) -> Option<Sockets> {
        let mut packages: BTreeMap<u32, Vec<Vec<u32>>> = BTreeMap::new();
        for core in node.cores() {
            let pu = node.pus.iter().find(|pu| core.contains(pu.os_index))?;
            let cores = packages.entry(pu.package).or_default();
            cores.push(core.iter().collect());
        }
        let sockets: Vec<Vec<Vec<u32>>> = packages.into_values().collect();
        let (size, threads) = (sockets.first()?.len(), sockets[0][0].len());
        let is_alike = |cores: &Vec<Vec<u32>>| {
            cores.len() == size && cores.iter().all(|core| core.len() == threads)
        };
        sockets.iter().all(is_alike).then_some(Sockets(sockets))
    }

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
    pub each: usize,
    /// CPUs of a core that Slurm counts
    pub threads: usize,
    pub by_block: bool,
    pub is_later: bool,
}

impl Layout<'_> {
    pub fn cores_of(&self, tasks: usize) -> usize {
        (tasks * self.each).div_ceil(self.threads)
    }

    /// The step's cores by socket if the job has all: first on sockets of its GPUs.
    pub fn picked(&self, gpus: &[usize]) -> Vec<usize> {
        let (size, tasks) = (self.sockets.size(), self.tasks);
        // before 23.11 a task of several cores has whole ones, and less than a core a task takes all from one socket
        let (mut left, each) = match self.is_later {
            true => (self.cores_of(tasks), self.cores_of(tasks).div_ceil(tasks)),
            false if self.each > self.threads => (tasks * self.cores_of(1), self.cores_of(1)),
            false => (self.cores_of(tasks), self.cores_of(tasks) / tasks),
        };
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
        let threads = self.sockets.0[0][0].len();
        let (wanted, cores) = (self.tasks * self.each, counts.iter().sum::<usize>());
        // slurmd binds if the CPUs are as many as the step's cores, which then count as one each, or as its threads
        let unit = match self.threads == threads {
            true if wanted == cores => threads,
            true if wanted != all.len() => return vec![all; self.tasks],
            _ => 1,
        };
        let free = self.sockets.0.iter().zip(counts).map(|(cores, count)| {
            let cores = cores[..*count].iter();
            cores.flat_map(|core| core.chunks(unit).take(self.threads))
        });
        let (mut free, mut at): (Vec<_>, usize) = (free.collect(), 0);
        let mut next_task = |_| {
            let mut mask = Vec::new();
            for _ in 0..self.each {
                let mut turns = (at..counts.len()).chain(0..at);
                let next = turns.find_map(|at| Some((at, free[at].next()?)));
                let (from, cpus) = next.unwrap_or_default();
                at = from;
                mask.extend(cpus.iter().copied());
            }
            at = (at + usize::from(!self.by_block)) % counts.len();
            mask.into_iter().collect()
        };
        (0..self.tasks).map(&mut next_task).collect()
    }
}
