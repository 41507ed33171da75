//! In each task, as its user, just before its program starts: looks the task up in the map, applies, reads back.
#![forbid(unsafe_code)]

use crate::active::{ACTIVE, Active, CONTAINER_LATER, NOT_PLACED, STRICT, is_normal, is_program_of_job};
use crate::environment::{self, Values, variable};
use crate::log::say;
use crate::program;
use nic_placement_core::config::{TOLD, components, cpu_bind};
use nic_placement_core::libraries::{self, Evidence};
use nic_placement_core::order::Order;
use nic_placement_core::plan::Plan;
use nic_placement_core::step::Task;
use nic_placement_core::topology::{CpuSet, NicIndex, Pu, Topology};
use nic_placement_process::doubts::doubts;
use nic_placement_process::files::UsersFiles;
use nic_placement_process::memory::memory;
use nic_placement_process::{bind, files, gpus, nics};
use nic_placement_sys as sys;
use slurm_spank::SpankHandle;
use std::sync::atomic::Ordering;

/// In slurmstepd, before it makes the tasks: takes away the rule by which an outer step dealt its GPUs.  slurmd sets this
/// step's for each task if there is one, and removes none (src/slurmd/slurmstepd/task.c, `exec_task`, since 22.05).
pub(crate) fn forget_an_outer_rule(spank: &SpankHandle) {
    let Some(Ok(plan)) = ACTIVE.get().map(|active| &active.plan) else { return };
    // a dry run changes nothing, and reads what is there
    if plan.wish.settings.dry_run || variable(spank, GPU_BIND).is_none() {
        return;
    }
    if let Err(error) = spank.unsetenv(GPU_BIND) {
        log::debug!("{GPU_BIND}: {error}");
    }
}

pub(crate) fn init(spank: &SpankHandle) {
    let failures = match ACTIVE.get() {
        None if STRICT.load(Ordering::Relaxed) => vec!["the step's map was not made".to_string()],
        None => {
            tell_who_asked(spank);
            withdraw(spank);
            return forget_what_srun_told(spank, |name| variable(spank, name).is_some());
        }
        Some(active) => match &active.plan {
            Ok(plan) => {
                let values = environment::values(spank, &active.names);
                let failures = place(spank, active, plan, &values);
                forget_what_srun_told(spank, |name| values.contains_key(name));
                return fail_for(spank, &failures);
            }
            Err(problem) => {
                if active.reports {
                    let task = global_id(spank, variable(spank, PROCID).as_deref());
                    say(&format!("task {task}: nothing is set: {problem}"));
                }
                vec![problem.clone()]
            }
        },
    };
    forget_what_srun_told(spank, |name| variable(spank, name).is_some());
    fail_for(spank, &failures);
}

fn fail_for(spank: &SpankHandle, failures: &[String]) {
    if !failures.is_empty() {
        fail_if_strict(global_id(spank, variable(spank, PROCID).as_deref()), &failures.join("; "));
    }
}

/// The task's number in the step as its program has it, which slurmd writes over whatever the user set: Slurm's own item
/// counts each component of a heterogeneous step from 0 (src/slurmd/slurmstepd/task.c, `exec_task`).
fn global_id(spank: &SpankHandle, procid: Option<&str>) -> u32 {
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let said = procid.filter(is_number).and_then(|text| text.parse().ok());
    said.or_else(|| spank.task_global_id().ok()).unwrap_or(0)
}

/// Tells a user's step that asked for placement and gets none here, once, in its first task, unless srun has told it.
fn tell_who_asked(spank: &SpankHandle) {
    let Some(refusal) = NOT_PLACED.get().and_then(|step| step.refusal.as_ref()) else { return };
    // of each component the first one: another may well be placed
    let is_first = spank.task_global_id().is_ok_and(|id| id == 0);
    if is_first && variable(spank, TOLD).is_none() {
        say(refusal);
    }
}

/// srun's words to slurmstepd, where they are set, are none to the program, nor to the sruns that it starts.
fn forget_what_srun_told(spank: &SpankHandle, is_set: impl Fn(&str) -> bool) {
    for name in TOLD_BY_SRUN.into_iter().filter(|name| is_set(name)) {
        if let Err(error) = spank.unsetenv(name) {
            log::debug!("{name}: {error}");
        }
    }
}

/// Ends the task where the user asked for that: Slurm ignores the answer of an optional plugin.  Without srun's `-K`, or the
/// site's KillOnBadExit=1, it lets the step's other tasks run on, which wait for this one.
pub(crate) fn fail_if_strict(task: u32, failure: &str) {
    if STRICT.load(Ordering::Relaxed) {
        say(&format!("task {task} fails, as `strict` asks: {failure}; `srun -K` ends the other tasks too"));
        sys::exit_now(1);
    }
}

/// Places one task; returns what could not be had.
fn place(spank: &SpankHandle, active: &Active, plan: &Plan, values: &Values) -> Vec<String> {
    let closed = nics::closed(&active.devices, plan);
    let local_id = spank.task_id().ok().and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
    // what the user may not open the kernel refuses to every task of the job alike, so each makes the same plan
    let anew = nics::without_closed(plan, &closed, local_id == 0);
    let plan = anew.as_ref().unwrap_or(plan);
    let task = task(spank, active, plan, values, closed.to_this_task, local_id);
    // this process is the user's by now, and what the user may not read the program could not read either
    let files = UsersFiles::default();
    let read = |path: &str| files.read(path);
    let mut found = plan.task(&task, Evidence { present: values, read: &read });
    let warnings = found.warning.iter().map(|finding| format!("task {}: {finding}", task.global_id));
    warnings.for_each(|warning| log::warn!("{warning}"));

    let mut failures = found.shortfalls.clone();
    if let Some(why) = environment::keep_room(spank, &mut found.variables, values, program::size_of_words()) {
        failures.push(format!("no variable is set: {why}"));
    }
    if !plan.wish.settings.dry_run {
        failures.extend(bind::apply(&mut found.placement, &plan.node));
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
            doubts(plan, &task, values, &read).iter().for_each(|finding| say(&format!("{name}: {finding}")));
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
    let mut masks = cpu_bind::masks(|name| values.get(name).map(String::as_str));
    let online = plan.node.cpus();
    // slurmd counts CPUs when it starts, and names one on that has been switched off since; no affinity has it
    if cpus.is_subset(&online) {
        let wider = masks.iter_mut().filter(|mask| !mask.is_subset(&online));
        wider.for_each(|mask| *mask = mask.intersection(&online));
    }
    Task {
        local_id,
        global_id: global_id(spank, values.get(PROCID).map(String::as_str)),
        gpus: gpus::grant(values, &plan.node, active.devices.directory.as_ref()),
        claim: None,
        sees: None,
        denied_nics,
        step_cpus: masks.iter().fold(cpus.clone(), |all, mask| all.union(mask)),
        cpus,
        threads_per_core: if masks.is_empty() { threads_per_core(&plan.node) } else { None },
        masks,
        gpu_bind: values.get(GPU_BIND).cloned(),
        promised: None,
        memory: memory(false),
    }
}

/// The threads of a core; all cores of a node have as many, or Slurm counts none of them (slurm.conf(5), `ThreadsPerCore`).
fn threads_per_core(node: &Topology) -> Option<usize> {
    if let Some(first) = node.pus.first() {
        let is_there = |pu: &&Pu| (pu.package, pu.core) == (first.package, first.core);
        return Some(node.pus.iter().filter(is_there).count());
    }
    // a node is read without its cores where no word asks for them
    if !node.provenance.is_this_system() {
        return None;
    }
    let siblings = files::read("/sys/devices/system/cpu/cpu0/topology/thread_siblings")?;
    CpuSet::from_mask(&siblings.text).ok().map(|threads| threads.len()).filter(|threads| *threads > 0)
}

/// Where this step wants no placement, values that an outer step of ours left are wrong: they name the NIC of one task of
/// that step.  A batch script and an interactive shell have them from the step in which sbatch or salloc was called, perhaps
/// on another node, and every program in them would take them for the user's own.
fn withdraw(spank: &SpankHandle) {
    let marked = variable(spank, libraries::marker::NAME).is_some();
    if !marked || !(is_normal(spank) || is_program_of_job(spank)) {
        return;
    }
    let wish = NOT_PLACED.get().map(|step| &step.wish);
    // `dry-run` changes nothing, and so takes nothing away
    if wish.is_some_and(|wish| wish.settings.dry_run) {
        return;
    }
    let mut names: Vec<&str> = libraries::variables().chain([libraries::marker::NAME]).collect();
    names.extend(wish.into_iter().flat_map(|wish| &wish.admin.templates).map(|template| template.name()));
    names.order();
    names.dedup();
    let present = environment::values(spank, &names);
    for failure in environment::change(spank, &libraries::withdrawal(&names, &present)) {
        log::warn!("{failure}");
    }
}

const GPU_BIND: &str = "SLURMD_TRES_BIND";
const PROCID: &str = "SLURM_PROCID";
pub(crate) const NODE_NAME: &str = "SLURMD_NODENAME";

/// Variables that are looked at here, beside those of the libraries and the lists of GPUs.
pub(crate) const READ: [&str; 8] = [
    cpu_bind::TYPE,
    cpu_bind::LIST,
    GPU_BIND,
    PROCID,
    NODE_NAME,
    TOLD_BY_SRUN[0],
    TOLD_BY_SRUN[1],
    TOLD_BY_SRUN[2],
];
/// srun's words to slurmstepd.
const TOLD_BY_SRUN: [&str; 3] = [cpu_bind::VARIABLE, components::VARIABLE, TOLD];
