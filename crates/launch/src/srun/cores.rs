//! Cores and masks of a step's tasks on one idle node, as Slurm chooses them.
//!
//! slurmctld chooses the cores of job and step with select/cons_tres and CR_Core (src/plugins/select/cons_common/dist_tasks.c,
//! `_cyclic_sync_core_bitmap`; src/slurmctld/step_mgr.c and later src/stepmgr/stepmgr.c, `_pick_step_cores`). slurmd's
//! task/affinity lays tasks out on these cores (src/plugins/task/affinity/dist_tasks.c, `lllp_distribution`). Compared with 22.05.8
//! and 24.11.5.
#![forbid(unsafe_code)]

use super::Distribution;
use nic_placement_core::topology::{CpuSet, Topology};
use std::collections::BTreeMap;

/// The node's cores by socket, in the kernel's order of their first CPUs.
pub(super) struct Sockets {
    /// `[socket][core][thread]`: a CPU
    pub cores: Vec<Vec<Vec<u32>>>,
    pub threads: usize,
}

impl Sockets {
    /// `None` for a node without cores, or with sockets or cores that differ.
    pub fn of(node: &Topology) -> Option<Sockets> {
        let package: BTreeMap<u32, u32> = node
            .pus
            .iter()
            .map(|pu| (pu.os_index, pu.package))
            .collect();
        let mut packages: Vec<u32> = Vec::new();
        let mut cores: Vec<Vec<Vec<u32>>> = Vec::new();
        for core in node.cores() {
            let package = *package.get(&core.first()?)?;
            let known = packages.iter().position(|known| *known == package);
            let socket = known.unwrap_or_else(|| {
                packages.push(package);
                cores.push(Vec::new());
                cores.len() - 1
            });
            cores[socket].push(core.iter().collect());
        }
        let (count, threads) = (cores.first()?.len(), cores[0][0].len());
        let is_alike = |socket: &Vec<Vec<u32>>| {
            socket.len() == count && socket.iter().all(|core| core.len() == threads)
        };
        cores
            .iter()
            .all(is_alike)
            .then_some(Sockets { cores, threads })
    }

    /// The CPUs of the first cores of each socket.
    pub fn cpus(&self, counts: &[usize]) -> CpuSet {
        let sockets = self.cores.iter().zip(counts);
        sockets
            .flat_map(|(cores, count)| cores[..*count].iter().flatten().copied())
            .collect()
    }
}

/// What of a step decides the layout of its tasks.
pub(super) struct Layout<'a> {
    pub tasks: usize,
    /// CPUs of each task, or cores with `one_thread`
    pub each: usize,
    pub one_thread: bool,
    pub by: Distribution,
    /// `--cpu-bind`
    pub bind: Option<&'a str>,
}

impl Layout<'_> {
    fn threads(&self, sockets: &Sockets) -> usize {
        if self.one_thread { 1 } else { sockets.threads }
    }

    /// Cores of this many tasks.
    pub fn cores_of(&self, tasks: usize, sockets: &Sockets) -> usize {
        (tasks * self.each).div_ceil(self.threads(sockets))
    }

    /// The step's cores by socket, of a job that has all cores of the node: first on the sockets `near` all GPUs of the step.
    pub fn picked(&self, sockets: &Sockets, near: &[bool], is_later: bool) -> Vec<usize> {
        let size = sockets.cores[0].len();
        let threads = self.threads(sockets);
        let (mut left, each) = match is_later || self.each <= threads {
            true => (self.cores_of(self.tasks, sockets), None),
            false => (
                self.tasks * self.each.div_ceil(threads),
                Some(self.each.div_ceil(threads)),
            ),
        };
        // before 23.11 less than a core for each task takes all cores of one socket first
        let each = each.unwrap_or(match is_later {
            true => left.div_ceil(self.tasks),
            false => left / self.tasks,
        });
        let each = match self.by {
            Distribution::FullCyclic => 1,
            Distribution::Cyclic if each > 0 => each,
            _ => size,
        };
        let mut counts = vec![0; sockets.cores.len()];
        for is_wanted in [true, false] {
            loop {
                let before = left;
                for (count, _) in counts
                    .iter_mut()
                    .zip(near)
                    .filter(|(_, near)| **near == is_wanted)
                {
                    let more = each.min(left).min(size - *count);
                    *count += more;
                    left -= more;
                }
                if left == before {
                    break;
                }
            }
        }
        counts
    }

    /// `[task]`: the CPUs that slurmd binds it to, on the first cores of each socket.
    pub fn masks(&self, sockets: &Sockets, counts: &[usize]) -> Option<Vec<CpuSet>> {
        let all = sockets.cpus(counts);
        let whole = vec![all.clone(); self.tasks];
        let size = sockets.cores[0].len();
        let (wanted, cores): (usize, usize) = (self.tasks * self.each, counts.iter().sum());
        let used = counts.iter().filter(|count| **count > 0).count();
        let are_whole = counts.iter().all(|count| [0, size].contains(count));
        let bind = match self.bind {
            Some("none") => return Some(whole),
            Some(way) => way,
            None if self.one_thread => "thread",
            None if are_whole && wanted == used => "socket",
            None if wanted == cores => "core",
            None if wanted == all.len() => "thread",
            None => return Some(whole),
        };
        // a task that ends within a core leaves its rest to none with `core`, and to the next with `thread`
        if bind == "core" && self.bind.is_some() && self.each % sockets.threads != 0 {
            return None;
        }
        let per_core = match (self.one_thread, bind, self.each < sockets.threads) {
            (true, ..) | (_, "core", true) => 1,
            _ => sockets.threads,
        };
        let free = |socket: usize| {
            let cores = sockets.cores[socket][..counts[socket]].iter();
            cores.flat_map(move |core| core[..per_core].iter().copied())
        };
        let mut free: Vec<Vec<u32>> = (0..counts.len())
            .map(|socket| free(socket).rev().collect())
            .collect();
        if self.tasks * self.each > free.iter().map(Vec::len).sum() {
            return None;
        }
        let mut at = 0;
        let mut masks = Vec::new();
        for _ in 0..self.tasks {
            let mut mask = Vec::new();
            for _ in 0..self.each {
                while free[at].is_empty() {
                    at = (at + 1) % free.len();
                }
                mask.extend(free[at].pop());
                if self.by == Distribution::FullCyclic {
                    at = (at + 1) % free.len();
                }
            }
            if self.by == Distribution::Cyclic {
                at = (at + 1) % free.len();
            }
            masks.push(mask.into_iter().collect());
        }
        let expand = |mask: CpuSet| -> CpuSet {
            let sockets = sockets
                .cores
                .iter()
                .zip(counts)
                .map(|(cores, count)| &cores[..*count]);
            let groups: Vec<CpuSet> = match bind {
                "socket" => sockets
                    .map(|cores| cores.iter().flatten().copied().collect())
                    .collect(),
                "core" => sockets
                    .flatten()
                    .map(|core| core.iter().copied().collect())
                    .collect(),
                _ => return mask,
            };
            groups
                .iter()
                .filter(|group| group.intersects(&mask))
                .flat_map(CpuSet::iter)
                .collect()
        };
        Some(masks.into_iter().map(expand).collect())
    }
}
