//! The table of checks: the function that judges each. `checks.txt` says what a check reads, its levels, why it matters
//! and what to do.

use super::{Examined, Verdicts, gpudirect, host, installation, links, ports, redirect};
use std::sync::LazyLock;

/// Its `fail` drains no node: all nodes may share the admin's arguments.
pub const CONFIGURATION: &str = "configuration";

pub(super) const PAGE: &str = include_str!("checks.txt");

type Judge = fn(&Examined) -> Verdicts;

/// The function of each check, in the order in which checks are printed.
const JUDGES: [(&str, Judge); 34] = [
    (Check::RELEASE, installation::slurm),
    ("plugstack", installation::plugstack),
    ("plugstack-order", installation::plugstack_order),
    ("plugin-file", installation::plugin_file),
    ("configless", installation::configless),
    ("config-owner", installation::owner),
    (CONFIGURATION, installation::configuration),
    ("node-file", installation::node_file),
    ("node", host::node),
    ("machine", host::machine),
    ("nic-broken", ports::nic_broken),
    ("nic-slower", ports::nic_slower),
    ("ports-per-card", ports::ports_per_card),
    ("port-interface", ports::port_interface),
    ("efa-carrier", ports::efa_carrier),
    ("roce-gid", ports::roce_gid),
    ("roce-mtu", ports::roce_mtu),
    (Check::NEIGHBOURS, ports::lldp),
    ("device-node", ports::device_node),
    ("pcie-link", links::pcie_link),
    ("gpudirect", gpudirect::gpudirect),
    ("acs", redirect::acs),
    ("ats", redirect::ats),
    ("iommu", redirect::iommu),
    ("iommu-group", redirect::iommu_group),
    ("relaxed-ordering", redirect::relaxed_ordering),
    ("read-request", redirect::read_request),
    ("numa-balancing", host::numa_balancing),
    ("port-range", host::port_range),
    ("uverbs-access", host::uverbs_access),
    ("memlock", host::memlock),
    ("nccl-conf", host::nccl_conf),
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
    pub title: String,
    /// words and their texts: `reads`, each level, `why`, `do`, `source`
    pub rows: Vec<(&'static str, &'static str)>,
    pub(super) judge: Judge,
}

impl Check {
    pub const RELEASE: &str = "slurm";
    pub const NEIGHBOURS: &str = "lldp";

    fn new(code: &'static str, judge: Judge) -> Check {
        let mut lines = PAGE
            .split("\n### ")
            .find_map(|section| section.strip_prefix(code)?.strip_prefix('\n'))
            .unwrap_or_default()
            .trim_start()
            .lines();
        let mut title = lines.next().unwrap_or_default().to_string();
        title
            .get_mut(..1)
            .into_iter()
            .for_each(str::make_ascii_lowercase);
        Check {
            code,
            title,
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
