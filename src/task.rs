//! In each task, as its user, just before its program starts: looks the task up in the map, applies, reads back.
#![forbid(unsafe_code)]

use crate::active::{ACTIVE, Active, CONTAINER_LATER, STRICT, is_normal, is_program_of_job};
use crate::environment::{self, Values, variable};
use crate::log::say;
use crate::nics::{self, Closed};
use crate::{bind, files, option};
use nic_placement_core::config::{Admin, ENVIRONMENT, Words, components, cpu_bind, settle};
use nic_placement_core::plan::Plan;
use nic_placement_core::policy::identity;
use nic_placement_core::render::lint::{Subject, lint};
use nic_placement_core::render::{self, Evidence};
use nic_placement_core::step::{Access, GpuGrant, Memory, Task};
use nic_placement_core::topology::{CpuSet, NicIndex, Topology};
use nic_placement_sys::{self as sys, MemoryPolicy};
use slurm_spank::SpankHandle;
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

pub(crate) fn init(spank: &SpankHandle) {
    let failures = match ACTIVE.get() {
        None if STRICT.load(Ordering::Relaxed) => vec!["the step's map was not made".to_string()],
        None => {
            withdraw(spank);
            forget_what_srun_told(spank);
            return;
        }
        Some(active) => match &active.plan {
            Ok(plan) => place(spank, active, plan),
            Err(problem) => {
                if active.reports {
                    let task = spank.task_global_id().unwrap_or(0);
                    say(&format!("task {task}: nothing is set: {problem}"));
                }
                vec![problem.clone()]
            }
        },
    };
    forget_what_srun_told(spank);
    if !failures.is_empty() {
        fail_if_strict(spank.task_global_id().unwrap_or(0), &failures.join("; "));
    }
}

/// srun's words to slurmstepd are none to the program, nor to the sruns that it starts.
fn forget_what_srun_told(spank: &SpankHandle) {
    for name in [cpu_bind::VARIABLE, components::VARIABLE] {
        if let Some(Err(error)) = variable(spank, name).map(|_| spank.unsetenv(name)) {
            log::debug!("{name}: {error}");
        }
    }
}

/// Ends the task where the user asked for that: Slurm ignores the answer of an optional plugin.
pub(crate) fn fail_if_strict(task: u32, failure: &str) {
    if STRICT.load(Ordering::Relaxed) {
        say(&format!("task {task} fails, as `strict` asks: {failure}"));
        sys::exit_now(1);
    }
}

/// Places one task; returns what could not be had.
fn place(spank: &SpankHandle, active: &Active, plan: &Plan) -> Vec<String> {
    let values = environment::values(spank, &active.names);
    let closed = nics::closed(&active.devices, plan);
    let local_id = spank.task_id().ok().and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
    // what the user may not open the kernel refuses to every task of the job alike, so each makes the same plan
    let anew = (!closed.to_the_job.is_empty()).then(|| without(plan, &closed, local_id));
    let plan = anew.as_ref().unwrap_or(plan);
    let task = task(spank, active, plan, &values, closed.to_this_task, local_id);
    // this process is the user's by now, and what the user may not read the program could not read either
    let mut found = plan.task(&task, Evidence { present: &values, read: &files::read });
    let warnings = found.warning.iter().map(|finding| format!("task {}: {finding}", task.global_id));
    warnings.for_each(|warning| log::warn!("{warning}"));

    let mut failures = found.shortfalls.clone();
    if !plan.wish.settings.dry_run {
        failures.extend(bind::apply(&mut found.placement));
        failures.extend(environment::change(spank, &found.variables));
    }
    for failure in &failures {
        match found.misses_nothing_of_its_own() {
            // without `strict` a node without NICs is a fact, told once for the step
            true => log::debug!("task {}: {failure}", task.global_id),
            false => log::warn!("task {}: {failure}", task.global_id),
        }
    }
    if active.reports {
        let name = values.get(NODE_NAME).unwrap_or(&plan.step.node);
        let would = if plan.wish.settings.dry_run { "dry run: " } else { "" };
        say(&format!("{would}{}", found.line(name)));
        if active.container_later && task.local_id == 0 {
            say(CONTAINER_LATER);
        }
        failures.iter().for_each(|failure| say(&format!("task {}: {failure}", task.global_id)));
        // what the user set is the same in all tasks: said once for each node
        if task.local_id == 0 {
            doubts(plan, &task, &values, name);
        }
    }
    failures
}

/// The task as its process finds itself.
fn task(
    spank: &SpankHandle,
    active: &Active,
    plan: &Plan,
    values: &Values,
    denied_nics: Vec<NicIndex>,
    local_id: u32,
) -> Task {
    let cpus = sys::affinity().unwrap_or_default();
    let masks = masks(values);
    Task {
        local_id,
        global_id: spank.task_global_id().unwrap_or(0),
        gpus: grant(values, &plan.node, active.devices.directory.as_ref()),
        denied_nics,
        step_cpus: masks.iter().fold(cpus.clone(), |all, mask| all.union(mask)),
        cpus,
        masks,
        gpu_bind: values.get(GPU_BIND).cloned(),
        promised: None,
        memory: memory(),
    }
}

/// What the kernel says of the task's memory.
fn memory() -> Memory {
    let taken = match sys::memory_policy() {
        Ok(MemoryPolicy::Default) => None,
        Ok(_) => Some("a memory policy was set before".to_string()),
        Err(error) => Some(format!("the memory policy cannot be read: {error}")),
    };
    Memory { taken, allowed: sys::allowed_memory().ok() }
}

/// The plan without NICs that nobody of the job may open; told once for the node.
fn without(plan: &Plan, closed: &Closed, local_id: u32) -> Plan {
    if local_id == 0 {
        for (nic, why) in &closed.to_the_job {
            log::warn!("`{}` is not used: {why}", plan.node.nic(*nic).name);
        }
    }
    plan.without(closed.to_the_job.clone(), &files::read)
}

/// What is doubtful about the variables that the user set.
fn doubts(plan: &Plan, task: &Task, present: &Values, node_name: &str) {
    let interfaces = interfaces();
    let subject = Subject {
        present,
        topology: &plan.node,
        node: &plan.map,
        task,
        tasks: plan.step.tasks,
        interfaces: &interfaces,
        read: &files::read,
    };
    lint(&subject).iter().for_each(|finding| say(&format!("{node_name}: {finding}")));
}

/// The network interfaces that the task sees (the kernel's net/core/net-procfs.c: two lines of headings, then `name:`).
fn interfaces() -> Vec<String> {
    let devices = files::read("/proc/net/dev").unwrap_or_default().text;
    let names = devices.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_string()));
    names.collect()
}

/// Where this step wants no placement, values that an outer step of ours left are wrong: they name the NIC of one task of
/// that step.  A batch script and an interactive shell have them from the step in which sbatch or salloc was called, perhaps
/// on another node, and every program in them would take them for the user's own.
fn withdraw(spank: &SpankHandle) {
    let marked = variable(spank, render::marker::NAME).is_some();
    if !marked || !(is_normal(spank) || is_program_of_job(spank)) {
        return;
    }
    let (admin, _) = Admin::parse(option::arguments(spank));
    let words = variable(spank, ENVIRONMENT).and_then(|text| Words::parse(&text).ok());
    // who wants nothing changed wants this left too
    if settle(&admin.default, words.as_ref(), option::of_this_component(spank).as_ref()).dry_run {
        return;
    }
    let mut names: Vec<&str> = render::variables().chain([render::marker::NAME]).collect();
    names.extend(admin.templates.iter().map(|template| template.name()));
    names.sort_unstable();
    names.dedup();
    let present = environment::values(spank, &names);
    for failure in environment::change(spank, &render::withdrawal(&names, &present)) {
        log::warn!("{failure}");
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
pub(crate) const READ: [&str; 4] = [CPU_BIND_TYPE, CPU_BIND_LIST, GPU_BIND, NODE_NAME];
