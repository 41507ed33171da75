//! Reads, on the host, the lines that tasks printed.

use nic_placement_core::topology::{CpuSet, NodeSet};
use std::collections::BTreeMap;

/// One line of task.rs.
#[derive(Clone, Debug)]
pub struct Task {
    words: BTreeMap<String, String>,
}

impl Task {
    /// Lines of tasks among others, in the order of their ranks.
    pub fn all_in(text: &str) -> Vec<Task> {
        let lines = text.lines().filter(|line| line.starts_with("cpus="));
        let word = |word: &str| {
            word.split_once('=')
                .map(|(name, value)| (name.to_string(), value.to_string()))
        };
        let mut tasks: Vec<Task> = lines
            .map(|line| Task {
                words: line.split('\t').filter_map(word).collect(),
            })
            .collect();
        tasks.sort_by_key(|task| task.word("SLURM_PROCID").parse::<u32>().unwrap_or(0));
        tasks
    }

    /// A word of the line.
    pub fn word(&self, name: &str) -> &str {
        &self.words[name]
    }

    /// A variable, where it is set.
    pub fn env(&self, name: &str) -> Option<&str> {
        Some(self.word(name)).filter(|value| *value != "-")
    }

    /// The NICs in `UCX_NET_DEVICES`, each with its port.
    pub fn ucx(&self) -> Vec<&str> {
        let devices = self
            .env("UCX_NET_DEVICES")
            .into_iter()
            .flat_map(|list| list.split(','));
        devices.filter(|name| name.contains(':')).collect()
    }

    /// `Cpus_allowed_list`
    pub fn cpus(&self) -> CpuSet {
        CpuSet::from_list(self.word("cpus")).unwrap()
    }

    /// Numbers of the devices that it could open.
    pub fn open(&self) -> Vec<u32> {
        numbers(self.word("open"))
    }

    /// The policy's name and its NUMA nodes, none of them where it names none.
    pub fn policy(&self) -> (&str, NodeSet) {
        let (mode, nodes) = self
            .word("policy")
            .split_once(':')
            .unwrap_or((self.word("policy"), ""));
        (mode, NodeSet::from_list(nodes).unwrap())
    }

    /// Touched pages on each NUMA node that has some.
    pub fn pages(&self) -> BTreeMap<u32, u64> {
        let pages = self
            .word("pages")
            .split(',')
            .filter_map(|pair| pair.split_once(':'));
        pages
            .map(|(node, pages)| (node.parse().unwrap(), pages.parse().unwrap()))
            .collect()
    }

    /// The one NUMA node that has all its pages.
    pub fn node_of_its_pages(&self) -> Option<u32> {
        let pages = self.pages();
        (pages.len() == 1).then(|| *pages.keys().next().unwrap())
    }

    /// Is there memory of it on this NUMA node?
    pub fn has_pages_on(&self, node: u32) -> bool {
        self.pages().contains_key(&node)
    }
}

/// `0,2` as numbers.
pub fn numbers(list: &str) -> Vec<u32> {
    list.split(',')
        .filter_map(|number| number.parse().ok())
        .collect()
}
