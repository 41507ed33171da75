//! In each task, as its user, just before its program starts: looks the task up in the map, applies, reads back.
#![forbid(unsafe_code)]

use super::environment::{self, Values};
use super::step::{ACTIVE, Active, CONTAINER_LATER, DRY_RUN, STRICT, is_normal, variable};
use crate::pipeline;
use crate::placement::{CpuDecision, MemDecision, NodePlacement, TaskPlacement, Variable};
use crate::render::{self, Present, text};
use crate::step::{Access, GpuGrant, Task};
use crate::sys::{self, MemoryPolicy};
use crate::topology::{CpuSet, GpuVendor, Topology};
use slurm_spank::{SpankHandle, slurm_spank_log};
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

pub(super) fn init(spank: &SpankHandle) {
    let failures = match ACTIVE.get() {
        None if STRICT.load(Ordering::Relaxed) => vec!["the step's map was not made".to_string()],
        None => return withdraw(spank),
        Some(active) => match &active.map {
            Ok((topology, node)) => place(spank, active, topology, node),
            Err(problem) => {
                if active.settings.verbose || active.settings.dry_run {
                    let task = spank.task_global_id().unwrap_or(0);
                    slurm_spank_log(&format!("nic-placement: task {task}: nothing is set: {problem}"));
                }
                vec![problem.clone()]
            }
        },
    };
    if !failures.is_empty() {
        fail_if_strict(spank.task_global_id().unwrap_or(0), &failures.join("; "));
    }
}

/// Ends the task where the user asked for that: Slurm ignores the answer of an optional plugin.
pub(super) fn fail_if_strict(task: u32, failure: &str) {
    if STRICT.load(Ordering::Relaxed) {
        slurm_spank_log(&format!("nic-placement: task {task} fails, as `strict` asks: {failure}"));
        sys::exit_now(1);
    }
}

/// Places one task; returns what could not be had.
fn place(spank: &SpankHandle, active: &Active, topology: &Topology, node: &NodePlacement) -> Vec<String> {
    let values = environment::values(spank, &names());
    let cpus = sys::affinity().unwrap_or_default();
    let task = Task {
        local_id: spank.task_id().ok().and_then(|id| u32::try_from(id).ok()).unwrap_or(0),
        global_id: spank.task_global_id().unwrap_or(0),
        gpus: grant(&values, topology, active.devices.as_ref()),
        step_cpus: cpus.union(&step_cpus(&values)),
        cpus,
    };
    let present: Present =
        render::READ.into_iter().filter_map(|name| Some((name, values.get(name)?.clone()))).collect();
    let settings = active.settings;
    let (mut placement, variables) =
        pipeline::place_task(topology, node, &active.admin, settings, &active.step, &task, &present);
    leave_set_policy_alone(&mut placement);

    let mut failures = Vec::new();
    if !placement.gpus.is_empty() && placement.rails.is_empty() {
        failures.push("no NIC of this node may be chosen".to_string());
    }
    if let CpuDecision::OutOfReach { why, .. } = &placement.cpus {
        failures.push(why.clone());
    }
    if !settings.dry_run {
        failures.extend(apply(spank, &placement, &variables));
    }
    for failure in &failures {
        // without `strict` a node without NICs is a fact, told once for the step
        if placement.rails.is_empty() && !settings.strict {
            log::debug!("task {}: {failure}", task.global_id);
        } else {
            log::warn!("task {}: {failure}", task.global_id);
        }
    }
    if settings.verbose || settings.dry_run {
        let name = values.get(NODE_NAME).unwrap_or(&active.step.node);
        let line = text::task_line(topology, node, name, active.step.total_tasks, &placement, &variables);
        let would = if settings.dry_run { "dry run: " } else { "" };
        slurm_spank_log(&format!("nic-placement: {would}{line}"));
        if active.container_later && task.local_id == 0 {
            slurm_spank_log(&format!("nic-placement: {CONTAINER_LATER}"));
        }
        for failure in &failures {
            slurm_spank_log(&format!("nic-placement: task {}: {failure}", task.global_id));
        }
    }
    failures
}

/// An earlier policy (of a site's wrapper around slurmd, or of a plugin before us) is somebody's choice.
fn leave_set_policy_alone(placement: &mut TaskPlacement) {
    if !matches!(placement.mems, MemDecision::Prefer { .. }) {
        return;
    }
    let why = match sys::memory_policy() {
        Ok(MemoryPolicy::Default) => return,
        Ok(_) => "a memory policy was set before".to_string(),
        Err(error) => format!("the memory policy cannot be read: {error}"),
    };
    placement.reasons.push(format!("memory: left alone, {why}"));
    placement.mems = MemDecision::Keep { why };
}

/// Does all of it, then reads back; returns what did not take.
fn apply(spank: &SpankHandle, placement: &TaskPlacement, variables: &[Variable]) -> Vec<String> {
    let mut failures = Vec::new();
    if let CpuDecision::Set { cpus, .. } = &placement.cpus {
        let wanted = || format!("CPUs {cpus} wanted");
        match sys::set_affinity(cpus).and_then(|()| sys::affinity()) {
            Ok(got) if got == *cpus => {}
            Ok(got) => failures.push(format!("{}, {got} got", wanted())),
            Err(error) => failures.push(format!("{}: {error}", wanted())),
        }
    }
    if let MemDecision::Prefer { nodes, .. } = &placement.mems {
        let wanted = || format!("memory of NUMA node {nodes} wanted");
        match sys::prefer_memory(nodes).and_then(|()| sys::memory_policy()) {
            // the kernel silently drops nodes that do not exist
            Ok(MemoryPolicy::Prefer(got)) if got == *nodes => {}
            Ok(got) => failures.push(format!("{}, {got:?} got", wanted())),
            Err(error) => failures.push(format!("{}: {error}", wanted())),
        }
    }
    failures.extend(environment::change(spank, &render::READ, variables));
    failures
}

/// Where this step wants no placement, values that an outer step of ours left are wrong: they name the NIC of one task of
/// that step.
fn withdraw(spank: &SpankHandle) {
    let marked = || variable(spank, render::marker::NAME).is_some();
    if !DRY_RUN.load(Ordering::Relaxed) && marked() && is_normal(spank) {
        let present = environment::values(spank, &render::READ);
        for failure in environment::change(spank, &render::READ, &render::withdrawal(&present)) {
            log::warn!("{failure}");
        }
    }
}

/// The evidence about the task's GPUs.
fn grant(values: &Values, topology: &Topology, devices: Option<&File>) -> GpuGrant {
    let listed = GpuVendor::ALL
        .into_iter()
        .filter_map(|vendor| Some((vendor, values.get(vendor.list_variable())?.clone())));
    let access = topology.gpus.iter().map(|gpu| match (devices, gpu.device_node()) {
        (Some(devices), Some(node)) => match sys::may_open(devices, &node) {
            Ok(()) => Access::Allowed,
            // EPERM is the device cgroup's answer, EACCES that of the file's mode
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Access::Denied,
            Err(_) => Access::Unknown,
        },
        _ => Access::Unknown,
    });
    GpuGrant { listed: listed.collect(), access: access.collect() }
}

/// CPUs of all tasks of the step on this node: slurmd lists each task's mask (`SLURM_CPU_BIND_LIST`) where it bound them.
fn step_cpus(values: &Values) -> CpuSet {
    let bound = values.get(CPU_BIND_TYPE).is_some_and(|how| how.starts_with("mask_cpu"));
    let list = values.get(CPU_BIND_LIST).filter(|_| bound).map_or("", String::as_str);
    let masks = list.split(',').filter_map(|mask| CpuSet::from_mask(mask).ok());
    masks.fold(CpuSet::new(), |all, mask| all.union(&mask))
}

const CPU_BIND_TYPE: &str = "SLURM_CPU_BIND_TYPE";
const CPU_BIND_LIST: &str = "SLURM_CPU_BIND_LIST";
const NODE_NAME: &str = "SLURMD_NODENAME";

/// All variables that are looked at.
fn names() -> Vec<&'static str> {
    let lists = GpuVendor::ALL.map(GpuVendor::list_variable);
    render::READ.into_iter().chain(lists).chain([CPU_BIND_TYPE, CPU_BIND_LIST, NODE_NAME]).collect()
}
