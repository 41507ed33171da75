//! The table of checks: the function that judges each. `checks.txt` says what a check reads, its levels, why it matters
//! and what to do.

use super::{Examined, Judged, gpudirect, host, installation, links, ports, redirect};
use std::sync::LazyLock;

/// Its `fail` drains no node: all nodes may share the admin's arguments.
pub const CONFIGURATION: &str = "configuration";

pub(super) const PAGE: &str = include_str!("checks.txt");

type Judge = fn(&Examined) -> Judged;

/// The function of each check, in the order in which checks are printed.
const JUDGES: [(&str, Judge); 25] = [
    (Check::RELEASE, installation::slurm),
    ("plugstack", installation::plugstack),
    ("plugstack-order", installation::plugstack_order),
    ("plugin-file", installation::plugin_file),
    ("config-owner", installation::owner),
    (CONFIGURATION, installation::configuration),
    ("node-file", installation::node_file),
    ("node", host::node),
    ("machine", host::machine),
    ("nic-broken", ports::nic_broken),
    ("nic-slower", ports::nic_slower),
    ("port-interface", ports::port_interface),
    ("roce-gid", ports::roce_gid),
    ("roce-mtu", ports::roce_mtu),
    ("device-node", ports::device_node),
    ("pcie-link", links::pcie_link),
    ("gpudirect", gpudirect::gpudirect),
    ("acs", redirect::acs),
    ("iommu", redirect::iommu),
    ("relaxed-ordering", redirect::relaxed_ordering),
    ("numa-balancing", host::numa_balancing),
    ("uverbs-access", host::uverbs_access),
    ("memlock", host::memlock),
    ("variable", host::variable),
    ("odd", host::odd),
];

pub static CHECKS: LazyLock<Vec<Check>> = LazyLock::new(|| {
    JUDGES
        .iter()
        .map(|&(code, judge)| Check::new(code, judge))
        .collect()
});

pub struct Check {
    /// its name in commands, scripts and reports: it does not change
    pub code: &'static str,
    /// the question, in a few words
    pub title: &'static str,
    /// words and their texts: `reads`, each level, `why`, `do`, `source`
    pub rows: Vec<(&'static str, &'static str)>,
    pub(super) judge: Judge,
}

impl Check {
    pub const RELEASE: &str = "slurm";

    fn new(code: &'static str, judge: Judge) -> Check {
        let mut lines = PAGE
            .split("\n### ")
            .find_map(|section| section.strip_prefix(code)?.strip_prefix('\n'))
            .unwrap_or_default()
            .trim_start()
            .lines();
        Check {
            code,
            title: lines.next().unwrap_or_default(),
            rows: lines
                .filter_map(|line| line.strip_prefix("- **")?.split_once("** "))
                .collect(),
            judge,
        }
    }

    pub fn of(code: &str) -> Option<&'static Check> {
        CHECKS.iter().find(|check| check.code == code)
    }

    pub fn says(&self, word: &str) -> Option<&'static str> {
        self.rows
            .iter()
            .find(|(row, _)| *row == word)
            .map(|(_, text)| *text)
    }
}

pub fn codes() -> impl Iterator<Item = &'static str> {
    JUDGES.iter().map(|(code, _)| *code)
}

pub fn widest_code() -> usize {
    codes().map(str::len).max().unwrap_or_default()
}
