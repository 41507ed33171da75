//! What looks wrong in the variables that the user set, with the network interfaces and files of this process in sight.
#![forbid(unsafe_code)]

use crate::files;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::plan::Plan;
use nic_placement_core::render::Evidence;
use nic_placement_core::render::lint::{Subject, lint};
use nic_placement_core::step::Task;

/// The findings.
pub(crate) fn doubts(plan: &Plan, task: &Task, evidence: Evidence) -> Vec<Diagnostic> {
    let interfaces = interfaces();
    lint(&Subject {
        present: evidence.present,
        topology: &plan.node,
        node: &plan.map,
        task,
        tasks: plan.step.tasks,
        fabric: plan.wish.admin.fabric,
        interfaces: &interfaces,
        read: evidence.read,
    })
}

/// The network interfaces that it sees (the kernel's net/core/net-procfs.c: two lines of headings, then `name:`).
fn interfaces() -> Vec<String> {
    let devices = files::read("/proc/net/dev").unwrap_or_default().text;
    let names = devices.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_string()));
    names.collect()
}
