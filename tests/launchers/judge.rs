//! The ranks of a job, and all that is wrong with them.

use crate::jobs::{RANKS, Way};
use crate::slurm::bed::Ran;
use crate::slurm::machines::{cpus_near, numa_node_of, ucx_of, ucx_of_all};
use crate::slurm::task::Task;
use std::collections::BTreeSet;

/// The NICs of a rank's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nics {
    None,
    /// its GPU's
    Own,
    /// those of all GPUs of the node, all of which it sees
    All,
    /// the same, of which it sees one
    Node,
    Others,
}

struct Rank {
    /// its number on its node
    local: usize,
    task: Task,
}

impl Rank {
    fn of(task: &Task) -> Rank {
        let names = [
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "MPI_LOCALRANKID",
            "LOCAL_RANK",
        ];
        let local = names.iter().find_map(|name| task.env(name)?.parse().ok());
        Rank {
            local: local.unwrap_or_else(|| task.local()),
            task: task.clone(),
        }
    }

    /// The GPU that it computes on.
    fn gpu(&self) -> usize {
        let gpus = self.task.gpus();
        assert!(!gpus.is_empty(), "{:?}", self.task);
        gpus[self.local % gpus.len()]
    }

    fn nics(&self) -> Nics {
        let has = self.task.ucx();
        match has.len() {
            _ if self.task.is_untouched() => Nics::None,
            1 if has == [ucx_of(self.gpu())] => Nics::Own,
            8 if has == ucx_of_all(self.task.gpus()) => Nics::All,
            8 if has == ucx_of_all(0..8) => Nics::Node,
            _ => Nics::Others,
        }
    }

    fn is_near(&self) -> bool {
        self.task.cpus().is_subset(&cpus_near(self.gpu()))
    }

    fn is_far(&self) -> bool {
        self.task.cpus().is_disjoint(&cpus_near(self.gpu()))
    }

    /// The CPU to which oneCCL pins its worker thread.
    fn worker(&self) -> Option<usize> {
        self.task.env("WORKER")?.parse().ok()
    }

    /// The memory is its GPU's, that of its CPUs, or anywhere.
    fn has_good_memory(&self) -> bool {
        let (mode, nodes) = self.task.policy();
        mode == "default" || nodes.contains(&numa_node_of(self.gpu()))
    }
}

/// All of a job, by their numbers on their nodes.
#[derive(Default)]
pub struct Ranks {
    all: Vec<Rank>,
    ended: bool,
    told: usize,
}

impl Ranks {
    pub fn of(ran: &Ran) -> Ranks {
        let mut all: Vec<Rank> = ran.tasks.iter().map(Rank::of).collect();
        all.sort_by_key(|rank| rank.local);
        let told = "put `nic-placement exec --` before the ranks";
        Ranks {
            all,
            ended: ran.stdout.contains("ended: 0\n"),
            told: ran.stdout.matches(told).count(),
        }
    }

    /// In a few words: their CPUs, seen from their GPUs, and their NICs.
    pub fn told(&self) -> String {
        let count = |is: fn(&Rank) -> bool| self.all.iter().filter(|rank| is(rank)).count();
        if self.all.is_empty() {
            return "no rank".to_string();
        }
        let cpus = match (count(Rank::is_near), count(Rank::is_far)) {
            (near, _) if near == self.all.len() => "near".to_string(),
            (0, 0) => "both sockets".to_string(),
            (_, far) => format!("{far} of {} far", self.all.len()),
        };
        let nics = match self.all.first().map(Rank::nics) {
            Some(nics) if self.all.iter().all(|rank| rank.nics() == nics) => match nics {
                Nics::None => "",
                Nics::Own => ", own NIC",
                Nics::All | Nics::Node => ", NICs of all GPUs",
                Nics::Others => ", other NICs",
            },
            _ => ", NICs that differ",
        };
        let workers: BTreeSet<_> = self.all.iter().flat_map(Rank::worker).collect();
        let are_near = |rank: &Rank| {
            rank.worker()
                .is_some_and(|cpu| cpus_near(rank.gpu()).contains(&cpu))
        };
        let workers = match workers.len() {
            0 => "",
            1 => ", a node's workers on one CPU",
            _ if self.all.iter().all(are_near) => ", workers near",
            _ => ", workers not near",
        };
        cpus + nics + workers
    }
}

/// All that is worse than without placement, and all that is not as promised.
pub fn faults(way: &Way, without: &Ranks, ranks: &Ranks) -> Vec<String> {
    let mut found = Vec::new();
    let locals: Vec<usize> = ranks.all.iter().map(|rank| rank.local).collect();
    let all: Vec<usize> = (0..2 * RANKS).map(|number| number / 2).collect();
    if !ranks.ended || locals != all {
        return vec![format!("ended: {}, ranks {locals:?}", ranks.ended)];
    }
    if ranks.told != usize::from(way.told) {
        found.push(format!("told {} times of `exec`", ranks.told));
    }
    for (number, rank) in ranks.all.iter().enumerate() {
        let before = without.all.get(number).unwrap_or(rank);
        let (task, bare) = (&rank.task, &before.task);
        let (cpus, had) = (task.cpus(), bare.cpus());
        // the job has 14 for each rank
        let as_good = rank.is_near() && cpus.len() >= had.len().min(14);
        let same_gpus = (task.gpus(), task.open()) == (bare.gpus(), bare.open());
        // `exec` leaves none outside of the rank's CPUs
        let worker = match rank.worker() {
            Some(cpu) if way.near => cpus.contains(&cpu),
            cpu => cpu == before.worker(),
        };
        let may_bind = way.nics != Nics::None || task.mem() == bare.mem();
        for (what, holds) in [
            ("NICs", rank.nics() == way.nics),
            ("GPUs", same_gpus),
            ("CPUs", if way.near { as_good } else { cpus == had }),
            ("worker", worker),
            ("memory", rank.has_good_memory()),
            ("memory changed", may_bind),
        ] {
            if !holds {
                found.push(format!("rank {}: {what}: {task:?}", rank.local));
            }
        }
    }
    found
}
