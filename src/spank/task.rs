//! In each task, as its user, just before its program starts: looks the task up in the map, applies, reads back.
#![forbid(unsafe_code)]

use super::bind;
use super::environment::{self, Values};
use super::nics::{self, Closed};
use super::step::{ACTIVE, Active, CONTAINER_LATER, DRY_RUN, Map, STRICT, is_normal, variable};
use crate::config::Admin;
use crate::discover::root::{self, Root};
use crate::pipeline;
use crate::placement::{NodePlacement, Strictness, TaskPlacement};
use crate::policy::{self, identity};
use crate::render::lint::{Subject, lint};
use crate::render::{self, Evidence, Prepared, text};
use crate::step::{Access, GpuGrant, Task};
use crate::sys;
use crate::topology::{CpuSet, Topology};
use slurm_spank::{SpankHandle, slurm_spank_log};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

pub(super) fn init(spank: &SpankHandle) {
    let failures = match ACTIVE.get() {
        None if STRICT.load(Ordering::Relaxed) => vec!["the step's map was not made".to_string()],
        None => return withdraw(spank),
        Some(active) => match &active.map {
            Ok(map) => place(spank, active, map),
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
fn place(spank: &SpankHandle, active: &Active, map: &Map) -> Vec<String> {
    let Map { topology, node, prepared, names } = map;
    let values = environment::values(spank, names);
    let cpus = sys::affinity().unwrap_or_default();
    let closed = nics::closed(active, topology, node);
    let local_id = spank.task_id().ok().and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
    // this process is the user's by now, and what the user may not read the program could not read either
    let read = |path: &str| root::read_configuration(Path::new(path), Root::MAX_FILE);
    // what the user may not open the kernel refuses to every task of the job alike, so each makes the same map
    let remade = (!closed.to_the_job.is_empty()).then(|| remake(active, topology, &closed, local_id, &read));
    let (node, prepared) = remade.as_ref().map_or((node, prepared), |(node, prepared)| (node, prepared));
    let masks = masks(&values);
    let task = Task {
        local_id,
        global_id: spank.task_global_id().unwrap_or(0),
        gpus: grant(&values, topology, active.devices.as_ref()),
        denied_nics: closed.to_this_task,
        step_cpus: masks.iter().fold(cpus.clone(), |all, mask| all.union(mask)),
        cpus,
        masks,
        gpu_bind: values.get(GPU_BIND).cloned(),
    };
    let settings = &active.settings;
    let mut placement = pipeline::place_task(topology, node, &active.admin, settings, &active.step, &task);
    bind::settle_memory(&mut placement);
    warn_of_denied(topology, node, &task, &mut placement);
    let evidence = Evidence { present: &values, read: &read };
    let variables = render::environment(prepared, topology, node, &placement, evidence);

    let mut failures = policy::strictness::shortfalls(topology, node, &placement, settings.strictness);
    if !settings.dry_run {
        failures.extend(bind::apply(&mut placement));
        failures.extend(environment::change(spank, &variables));
    }
    for failure in &failures {
        // without `strict` a node without NICs is a fact, told once for the step
        if placement.rails.is_empty() && settings.strictness == Strictness::BestEffort {
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
        // what the user set is the same in all tasks: said once for each node
        if task.local_id == 0 {
            let interfaces = interfaces();
            let tasks = active.step.tasks;
            let subject = Subject { present: &values, topology, task: &task, tasks, interfaces: &interfaces };
            for finding in lint(&subject) {
                slurm_spank_log(&format!("nic-placement: {name}: {finding}"));
            }
        }
    }
    failures
}

/// The map without NICs that nobody of the job may open; told once for the node.
fn remake(
    active: &Active,
    topology: &Topology,
    closed: &Closed,
    local_id: u32,
    read: &dyn Fn(&str) -> Option<String>,
) -> (NodePlacement, Prepared) {
    if local_id == 0 {
        for (nic, why) in &closed.to_the_job {
            log::warn!("`{}` is not used: {why}", topology.nics[*nic].name);
        }
    }
    let Active { admin, settings, step, .. } = active;
    let node = pipeline::place_node_without(topology, admin, settings, step, closed.to_the_job.clone());
    let prepared = pipeline::prepare(topology, &node, admin, settings, read);
    (node, prepared)
}

/// NCCL numbers NICs by their place in one list for all tasks of a node, so that list must not follow one task's rights.
fn warn_of_denied(topology: &Topology, node: &NodePlacement, task: &Task, placement: &mut TaskPlacement) {
    let is_rail = |nic: &&usize| node.rails.iter().any(|rail| rail.nic == **nic);
    let denied = task.denied_nics.iter().filter(is_rail);
    let denied: Vec<&str> = denied.map(|&nic| topology.nics[nic].name.as_str()).collect();
    if !denied.is_empty() {
        let finding = format!(
            "it may not open {}: NCCL passes over what it cannot open, and then numbers the NICs otherwise than in tasks \
             of this node that may",
            denied.join(" ")
        );
        log::warn!("task {}: {finding}", task.global_id);
        placement.reasons.push(finding);
    }
}

/// The network interfaces that the task sees (the kernel's net/core/net-procfs.c: two lines of headings, then `name:`).
fn interfaces() -> Vec<String> {
    let devices = root::read_configuration(Path::new("/proc/net/dev"), Root::MAX_FILE).unwrap_or_default();
    let names = devices.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_string()));
    names.collect()
}

/// Where this step wants no placement, values that an outer step of ours left are wrong: they name the NIC of one task of
/// that step.
fn withdraw(spank: &SpankHandle) {
    let marked = || variable(spank, render::marker::NAME).is_some();
    if !DRY_RUN.load(Ordering::Relaxed) && marked() && is_normal(spank) {
        let (admin, _) = Admin::parse(spank.plugin_argv().unwrap_or_default());
        let mut names: Vec<&str> = render::variables().chain([render::marker::NAME]).collect();
        names.extend(admin.templates.iter().map(|template| template.name()));
        names.sort_unstable();
        names.dedup();
        let present = environment::values(spank, &names);
        for failure in environment::change(spank, &render::withdrawal(&names, &present)) {
            log::warn!("{failure}");
        }
    }
}

/// The evidence about the task's GPUs.
fn grant(values: &Values, topology: &Topology, devices: Option<&File>) -> GpuGrant {
    let variables =
        identity::VARIABLES.into_iter().filter_map(|name| Some((name, values.get(name)?.clone()))).collect();
    let access = topology.gpus.iter().map(|gpu| match (devices, gpu.device_node()) {
        (Some(devices), Some(node)) => match sys::may_open(devices, &node) {
            Ok(()) => Access::Allowed,
            // EPERM is the device cgroup's answer, EACCES that of the file's mode
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Access::Denied,
            Err(_) => Access::Unknown,
        },
        _ => Access::Unknown,
    });
    GpuGrant { variables, access: access.collect() }
}

/// The masks of the step's tasks on this node, as slurmd lists them (`SLURM_CPU_BIND_LIST`) where it bound them.
fn masks(values: &Values) -> Vec<CpuSet> {
    let list = values.get(CPU_BIND_LIST).map_or("", String::as_str).split(',');
    let masks: Option<Vec<CpuSet>> = match values.get(CPU_BIND_TYPE).map_or("", String::as_str) {
        how if how.starts_with("mask_cpu") => list.map(|mask| CpuSet::from_mask(mask).ok()).collect(),
        how if how.starts_with("map_cpu") => list.map(|cpu| CpuSet::from_list(cpu).ok()).collect(),
        _ => None,
    };
    // a list that is understood in part tells of nobody
    masks.unwrap_or_default()
}

const CPU_BIND_TYPE: &str = "SLURM_CPU_BIND_TYPE";
const CPU_BIND_LIST: &str = "SLURM_CPU_BIND_LIST";
const GPU_BIND: &str = "SLURMD_TRES_BIND";
const NODE_NAME: &str = "SLURMD_NODENAME";

/// Variables that are looked at here, beside those of the libraries and the lists of GPUs.
pub(super) const READ: [&str; 4] = [CPU_BIND_TYPE, CPU_BIND_LIST, GPU_BIND, NODE_NAME];
