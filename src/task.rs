//! In each task, as its user, just before its program starts: plans, applies and checks placement.
#![forbid(unsafe_code)]

use crate::active::{
    Active, CONTAINER_LATER, STEP, STRICT, StepState, is_normal, is_program_of_job,
};
use crate::environment::{self, Environment, variable};
use crate::log::say;
use crate::program;
use nic_placement_core::config::{ALREADY_REPORTED, components, cpu_bind};
use nic_placement_core::libraries::{self, Evidence, Present, marker};
use nic_placement_core::order::Order;
use nic_placement_core::step::{GPU_BIND, NODE_NAME, Task};
use nic_placement_process::files::UsersFiles;
use nic_placement_process::memory;
use nic_placement_process::session::{Session, carry_out, report};
use nic_placement_sys as sys;
use slurm_spank::SpankHandle;

/// Removes an outer step's [`GPU_BIND`] in slurmstepd, before it forks the tasks. Slurm sets the
/// variable in tasks of a step with `--gpu-bind`, but never removes it
/// (src/slurmd/slurmstepd/task.c, `exec_task`, since 22.05).
pub(crate) fn forget_an_outer_rule(spank: &SpankHandle) {
    let Some(StepState::Placed(Active {
        session: Ok(session),
        ..
    })) = STEP.get()
    else {
        return;
    };
    if !session.plan.wish.dry_run && variable(spank, GPU_BIND).is_some() {
        remove(spank, GPU_BIND);
    }
}

fn remove(spank: &SpankHandle, name: &str) {
    if let Err(error) = spank.unsetenv(name) {
        log::debug!("{name}: {error}");
    }
}

pub(crate) fn init(spank: &SpankHandle) {
    let step = STEP.get();
    let environment = match step {
        Some(StepState::Placed(active)) => environment::read(spank, &active.names),
        _ => environment::read(spank, &READ),
    };
    let present = &environment.present;
    let global_id = global_id(spank, present);
    let failure = match step {
        Some(StepState::Placed(active)) => match &active.session {
            Ok(session) => place(spank, active, session, &environment, global_id),
            Err(problem) => {
                if active.reports {
                    say(&format!("task {global_id}: nothing is set: {problem}"));
                }
                problem.clone()
            }
        },
        None if STRICT.get().is_some() => "the step's map was not made".to_string(),
        _ => {
            tell_the_user(spank, present);
            withdraw(spank, present);
            String::new()
        }
    };
    // removes srun's variables for slurmstepd: sruns that the program starts would inherit them
    for name in OF_SRUN
        .into_iter()
        .filter(|name| present.contains_key(*name))
    {
        remove(spank, name);
    }
    if !failure.is_empty() {
        fail_if_strict(global_id, &failure);
    }
}

/// The task's number in the step: SLURM_PROCID, which Slurm overwrites if the user set it. SPANK's
/// number starts from 0 in each component of a heterogeneous step (src/slurmd/slurmstepd/task.c,
/// `exec_task`).
fn global_id(spank: &SpankHandle, present: &Present) -> u32 {
    let is_number = |text: &&String| text.bytes().all(|byte| byte.is_ascii_digit());
    let procid = present.get(PROCID).filter(is_number);
    procid
        .and_then(|text| text.parse().ok())
        .or_else(|| spank.task_global_id().ok())
        .unwrap_or(0)
}

/// In the step's first task: prints why the requested placement is refused, unless srun has done
/// so.
fn tell_the_user(spank: &SpankHandle, present: &Present) {
    let Some(StepState::NotPlaced(_, Some(refusal))) = STEP.get() else {
        return;
    };
    // 0 in each component's first task: one component may be refused, another placed
    let is_first = spank.task_global_id().is_ok_and(|id| id == 0);
    if is_first && !present.contains_key(ALREADY_REPORTED) {
        say(refusal);
    }
}

/// Ends the task if [`STRICT`] is set, since Slurm ignores an optional plugin's return value.
/// The step's other tasks may then wait for this task, unless `srun -K` or the site's
/// KillOnBadExit=1 ends them.
pub(crate) fn fail_if_strict(task: u32, failure: &str) {
    if let Some(word) = STRICT.get() {
        say(&format!(
            "task {task} fails, as `{word}` asks: {failure}; `srun -K` ends the other tasks too"
        ));
        sys::exit_now(1);
    }
}

/// Returns the failures.
fn place(
    spank: &SpankHandle,
    active: &Active,
    session: &Session,
    environment: &Environment,
    global_id: u32,
) -> String {
    let local_id = spank
        .task_id()
        .ok()
        .and_then(|id| u32::try_from(id).ok())
        .unwrap_or(0);
    let (plan, denied_nics) = session.plan_here(local_id == 0);
    let task = Task {
        local_id,
        global_id,
        denied_nics,
        room: Some(environment.room(program::size_of_words())),
        ..task(active, session, &environment.present)
    };
    // the process has the user's rights: it can read the files that the program can read
    let files = UsersFiles::default();
    let read = |path: &str| files.read(path);
    let evidence = Evidence {
        present: &environment.present,
        read: &read,
    };
    let mut placed = plan.task(&task, evidence);
    if let Some(warning) = &placed.placement.notes.warning {
        log::warn!("task {global_id}: {warning}");
    }
    carry_out(&mut placed, |variables| {
        environment::change(spank, variables)
    });
    // the step logs once that a node has no NIC, so a task logs it only at debug level
    let level = if placed.accepts_no_nic() {
        log::Level::Debug
    } else {
        log::Level::Warn
    };
    let failures = placed.failures();
    failures
        .iter()
        .for_each(|failure| log::log!(level, "task {global_id}: {failure}"));
    if active.reports {
        report(&placed, &environment.present, "")
            .iter()
            .for_each(|line| say(line));
        if local_id == 0 {
            placed.judge().iter().for_each(|line| say(line));
            if active.container_later {
                say(CONTAINER_LATER);
            }
        }
    }
    failures.join("; ")
}

fn task(active: &Active, session: &Session, present: &Present) -> Task {
    let cpus = sys::affinity().unwrap_or_default();
    let mut masks = cpu_bind::masks(|name| present.get(name).map(String::as_str));
    let online = session.plan.node.cpus();
    // slurmd counts CPUs when it starts: unlike an affinity, its masks can name a CPU that is
    // offline now
    if cpus.is_subset(&online) {
        let wider = masks.iter_mut().filter(|mask| !mask.is_subset(&online));
        wider.for_each(|mask| *mask = mask.intersection(&online));
    }
    Task {
        gpus: session.gpus(present),
        step_cpus: masks.iter().fold(cpus.clone(), |all, mask| all.union(mask)),
        cpus,
        threads_per_core: active.threads_per_core,
        masks,
        gpu_bind: present.get(GPU_BIND).cloned(),
        memory: memory(false),
        ..Task::default()
    }
}

/// In a step that is not placed: removes an outer placed task's variables, since programs would use
/// that task's NIC. A batch script or interactive shell has inherited them if a placed task called
/// sbatch or salloc, perhaps on another node.
fn withdraw(spank: &SpankHandle, present: &Present) {
    if !present.contains_key(marker::NAME) || !(is_normal(spank) || is_program_of_job(spank)) {
        return;
    }
    let wish = match STEP.get() {
        Some(StepState::NotPlaced(wish, _)) => Some(wish),
        _ => None,
    };
    if wish.is_some_and(|wish| wish.dry_run) {
        return;
    }
    let mut names: Vec<&str> = libraries::variables().chain([marker::NAME]).collect();
    names.extend(
        wish.into_iter()
            .flat_map(|wish| &wish.admin.templates)
            .map(|template| template.name()),
    );
    names.order();
    names.dedup();
    let present = environment::read(spank, &names).present;
    for failure in environment::change(spank, &libraries::withdrawal(&names, &present)) {
        log::warn!("{failure}");
    }
}

const PROCID: &str = "SLURM_PROCID";

/// Sorted names of variables that a task reads, besides libraries' variables and lists of GPUs.
pub(crate) const READ: [&str; 9] = [
    marker::NAME,
    NODE_NAME,
    GPU_BIND,
    cpu_bind::LIST,
    cpu_bind::TYPE,
    cpu_bind::VARIABLE,
    components::OFF,
    ALREADY_REPORTED,
    PROCID,
];
/// Variables that srun sets for slurmstepd.
const OF_SRUN: [&str; 3] = [cpu_bind::VARIABLE, components::OFF, ALREADY_REPORTED];
