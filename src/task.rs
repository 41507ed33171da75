//! In each task, as its user, just before its program starts: looks the task up in the map, applies, reads back.
#![forbid(unsafe_code)]

use crate::active::{Active, CONTAINER_LATER, OfTasks, STEP, STRICT, is_normal, is_program_of_job};
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

/// In slurmstepd, before it makes the tasks: takes away the rule by which an outer step dealt its GPUs.  slurmd sets this
/// step's for each task if there is one, and removes none (src/slurmd/slurmstepd/task.c, `exec_task`, since 22.05).
pub(crate) fn forget_an_outer_rule(spank: &SpankHandle) {
    let Some(OfTasks::Placed(Active {
        session: Ok(session),
        ..
    })) = STEP.get()
    else {
        return;
    };
    // a dry run changes nothing, and reads what is there
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
        Some(OfTasks::Placed(active)) => environment::read(spank, &active.names),
        _ => environment::read(spank, &READ),
    };
    let present = &environment.present;
    let global_id = global_id(spank, present);
    let failure = match step {
        Some(OfTasks::Placed(active)) => match &active.session {
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
    // srun's words to slurmstepd are none to the program, nor to the sruns that it starts
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

/// The task's number in the step by its variable, which slurmd writes over the user's: Slurm's own item counts each
/// component of a heterogeneous step from 0 (src/slurmd/slurmstepd/task.c, `exec_task`).
fn global_id(spank: &SpankHandle, present: &Present) -> u32 {
    let is_number = |text: &&String| text.bytes().all(|byte| byte.is_ascii_digit());
    let procid = present.get(PROCID).filter(is_number);
    procid
        .and_then(|text| text.parse().ok())
        .or_else(|| spank.task_global_id().ok())
        .unwrap_or(0)
}

/// Tells the user, in the step's first task, why the placement that was asked for is refused, unless srun has said it.
fn tell_the_user(spank: &SpankHandle, present: &Present) {
    let Some(OfTasks::NotPlaced(_, Some(refusal))) = STEP.get() else {
        return;
    };
    // of each component the first one: another may well be placed
    let is_first = spank.task_global_id().is_ok_and(|id| id == 0);
    if is_first && !present.contains_key(ALREADY_REPORTED) {
        say(refusal);
    }
}

/// Ends the task where the user asked for that: Slurm ignores the answer of an optional plugin.  Without srun's `-K`, or the
/// site's KillOnBadExit=1, it lets the step's other tasks run on, which wait for this one.
pub(crate) fn fail_if_strict(task: u32, failure: &str) {
    if let Some(word) = STRICT.get() {
        say(&format!(
            "task {task} fails, as `{word}` asks: {failure}; `srun -K` ends the other tasks too"
        ));
        sys::exit_now(1);
    }
}

/// Places one task; returns what could not be had.
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
    // this process is the user's by now, and what the user may not read the program could not read either
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
    // without `strict` a node without NICs is a fact, told once for the step
    let level = if placed.misses_nothing_of_its_own() {
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
    // slurmd counts CPUs when it starts, and names one on that has been switched off since; no affinity has it
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

/// Removes values of an outer step of ours where this step wants no placement: they name the NIC of one task of that
/// step.  A batch script and an interactive shell have them from the step in which sbatch or salloc was called, perhaps
/// on another node, and their programs would take them for the user's own.
fn withdraw(spank: &SpankHandle, present: &Present) {
    if !present.contains_key(marker::NAME) || !(is_normal(spank) || is_program_of_job(spank)) {
        return;
    }
    let wish = match STEP.get() {
        Some(OfTasks::NotPlaced(wish, _)) => Some(wish),
        _ => None,
    };
    // `dry-run` changes nothing, and so takes nothing away
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

/// Variables that are read here, beside those of the libraries and the lists of GPUs; sorted.
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
/// srun's words to slurmstepd.
const OF_SRUN: [&str; 3] = [cpu_bind::VARIABLE, components::OFF, ALREADY_REPORTED];
