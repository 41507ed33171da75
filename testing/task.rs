//! Reads the lines in which a task describes itself (`tests/slurm/report.c`, and in guests `tests/vm_slurm/task.rs`).

#![allow(dead_code, reason = "each program uses a part")]

use std::collections::{BTreeMap, BTreeSet};

/// Numbers of CPUs, of NUMA nodes, of devices.
pub type Set = BTreeSet<usize>;

/// The variables that every task is asked for.
pub const VARIABLES: &str = "CUDA_VISIBLE_DEVICES UCX_NET_DEVICES UCX_SOCKADDR_TLS_PRIORITY NCCL_IB_HCA \
                             NVSHMEM_HCA_LIST NIC_PLACEMENT SLURM_STEP_GPUS SITE_NIC SITE_NODE SITE_FILE";

/// One task's line: words `name=value` with tabs between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    words: BTreeMap<String, String>,
}

impl Task {
    /// The tasks in `stdout`, by rank, or by node and number there; other lines are skipped.
    pub fn all_in(stdout: &str) -> Vec<Task> {
        let is_task = |line: &&str| {
            ["rank=", "cpus=", "task "]
                .iter()
                .any(|at| line.starts_with(at))
        };
        let task = |line: &str| {
            let between = if line.starts_with("task ") { ' ' } else { '\t' };
            let words = line.split(between).flat_map(|word| word.split_once('='));
            let words = words.map(|(name, value)| (name.to_string(), value.to_string()));
            Task {
                words: words.collect(),
            }
        };
        let mut tasks: Vec<Task> = stdout.lines().filter(is_task).map(task).collect();
        let number = |task: &Task, name| task.said(name).parse::<usize>().unwrap_or(0);
        tasks.sort_by_key(|task| {
            let rank = number(task, "rank") + number(task, "SLURM_PROCID");
            (rank, task.said("node").to_string(), number(task, "local"))
        });
        tasks
    }

    /// The first of these words that it says.
    fn of(&self, names: &[&str]) -> &str {
        let said = names.iter().find_map(|name| self.words.get(*name));
        said.unwrap_or_else(|| panic!("the task did not report {names:?}"))
    }

    /// A word that it may say.
    pub fn said(&self, name: &str) -> &str {
        self.words.get(name).map_or("-", String::as_str)
    }

    pub fn word(&self, name: &str) -> &str {
        self.of(&[name])
    }

    /// Its environment variable; `None` where unset.
    pub fn env(&self, name: &str) -> Option<&str> {
        Some(self.word(name)).filter(|value| *value != "-")
    }

    pub fn node(&self) -> &str {
        self.word("node")
    }

    /// Its number among the tasks of its step on its node.
    pub fn local(&self) -> usize {
        self.of(&["local", "SLURM_LOCALID"])
            .parse()
            .expect("a number")
    }

    /// Its memory policy, like `preferred:0`.
    pub fn mem(&self) -> &str {
        self.of(&["mem", "policy"])
    }

    /// The policy's name and its NUMA nodes, none of them where it names none.
    pub fn policy(&self) -> (&str, Set) {
        let (mode, nodes) = self.mem().split_once(':').unwrap_or((self.mem(), ""));
        (mode, numbers(nodes))
    }

    /// Is its memory preferred on these?
    pub fn prefers(&self, nodes: Set) -> bool {
        self.mem().starts_with("preferred") && self.policy().1 == nodes
    }

    /// The CPUs it may run on.
    pub fn cpus(&self) -> Set {
        numbers(self.word("cpus"))
    }

    /// The N of the /dev/nvidiaN that it can open.
    pub fn open(&self) -> Set {
        numbers(self.word("open"))
    }

    /// The numbers of the vendor's variable.
    pub fn gpus(&self) -> Vec<usize> {
        let list = self.env("CUDA_VISIBLE_DEVICES").unwrap_or_default();
        numbers(list).into_iter().collect()
    }

    /// The NICs in `UCX_NET_DEVICES`, each with its port.
    pub fn ucx(&self) -> Vec<&str> {
        self.devices().filter(|name| name.contains(':')).collect()
    }

    /// The IP interfaces in `UCX_NET_DEVICES`.
    pub fn interfaces(&self) -> Vec<&str> {
        self.devices().filter(|name| !name.contains(':')).collect()
    }

    fn devices(&self) -> impl Iterator<Item = &str> {
        let list = self.env("UCX_NET_DEVICES").into_iter();
        list.flat_map(|list| list.split(','))
    }

    /// Are all of these variables unset?
    pub fn lacks(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.env(name).is_none())
    }

    /// Has the plugin left its environment alone?
    pub fn is_untouched(&self) -> bool {
        self.lacks(&[
            "UCX_NET_DEVICES",
            "UCX_SOCKADDR_TLS_PRIORITY",
            "NCCL_IB_HCA",
        ]) && self.lacks(&["NVSHMEM_HCA_LIST", "NIC_PLACEMENT"])
    }

    /// Touched pages on each NUMA node that has some, in a guest.
    pub fn pages(&self) -> BTreeMap<usize, u64> {
        let pairs = self.word("pages").split(',');
        let pairs = pairs.filter_map(|pair| pair.split_once(':'));
        let parsed = pairs.map(|(node, pages)| (node.parse(), pages.parse()));
        parsed
            .map(|(node, pages)| (node.expect("a node"), pages.expect("pages")))
            .collect()
    }

    /// The one NUMA node that has all its pages.
    pub fn node_of_its_pages(&self) -> Option<usize> {
        let pages = self.pages();
        (pages.len() == 1).then(|| *pages.keys().next().expect("one"))
    }
}

/// Each task is so.
#[track_caller]
pub fn all(tasks: &[Task], is: impl Fn(&Task) -> bool) {
    tasks.iter().for_each(|task| assert!(is(task), "{task:?}"));
}

/// Each task of the second is so, beside its like of the first.
#[track_caller]
pub fn each(bare: &[Task], tasks: &[Task], is: impl Fn(&Task, &Task) -> bool) {
    assert_eq!(bare.len(), tasks.len());
    let pairs = bare.iter().zip(tasks);
    pairs.for_each(|(bare, task)| assert!(is(bare, task), "{task:?} had {bare:?}"));
}

/// `0-2,8` as numbers.
pub fn numbers(list: &str) -> Set {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}
