//! Reads the lines in which a task describes itself (`tests/slurm/report.c`).

use std::collections::{BTreeMap, BTreeSet};

/// The variables that every task is asked for.
pub const VARIABLES: &str = "CUDA_VISIBLE_DEVICES UCX_NET_DEVICES UCX_SOCKADDR_TLS_PRIORITY NCCL_IB_HCA NVSHMEM_HCA_LIST \
                             NIC_PLACEMENT SLURM_STEP_GPUS SITE_NIC SITE_NODE SITE_FILE";

/// One task's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    words: BTreeMap<String, String>,
}

impl Task {
    /// The tasks in `stdout`, by rank; other lines are skipped.
    pub fn all_in(stdout: &str) -> Vec<Task> {
        let mut tasks: Vec<Task> = stdout
            .lines()
            .filter(|line| line.starts_with("rank="))
            .map(|line| Task {
                words: line
                    .split('\t')
                    .filter_map(|word| word.split_once('='))
                    .map(|(name, value)| (name.to_string(), value.to_string()))
                    .collect(),
            })
            .collect();
        tasks.sort_by_key(|task| task.number("rank"));
        tasks
    }

    fn word(&self, name: &str) -> &str {
        self.words
            .get(name)
            .unwrap_or_else(|| panic!("the task did not report `{name}`"))
    }

    fn number(&self, name: &str) -> usize {
        self.word(name)
            .parse()
            .unwrap_or_else(|_| panic!("`{name}={}` is no number", self.word(name)))
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
        self.number("local")
    }

    /// Its memory policy, like `preferred:0`.
    pub fn mem(&self) -> &str {
        self.word("mem")
    }

    /// The CPUs it may run on, as the kernel writes them.
    pub fn cpu_list(&self) -> &str {
        self.word("cpus")
    }

    /// The CPUs it may run on.
    pub fn cpus(&self) -> BTreeSet<usize> {
        numbers(self.word("cpus"))
    }

    /// The N of the /dev/nvidiaN that it can open.
    pub fn open(&self) -> BTreeSet<usize> {
        numbers(self.word("open"))
    }

    /// What the vendor variable lists.
    pub fn gpus(&self) -> Vec<usize> {
        numbers(self.env("CUDA_VISIBLE_DEVICES").unwrap_or_default())
            .into_iter()
            .collect()
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
        self.env("UCX_NET_DEVICES")
            .into_iter()
            .flat_map(|list| list.split(','))
    }

    /// Has the plugin left its environment alone?
    pub fn is_untouched(&self) -> bool {
        let ours = [
            "UCX_NET_DEVICES",
            "UCX_SOCKADDR_TLS_PRIORITY",
            "NCCL_IB_HCA",
            "NVSHMEM_HCA_LIST",
            "NIC_PLACEMENT",
        ];
        ours.iter().all(|name| self.env(name).is_none())
    }
}

/// `0-2,8` as numbers.
pub fn numbers(list: &str) -> BTreeSet<usize> {
    list.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect()
}
