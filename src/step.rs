//! In slurmstepd, as root, once for each step and node: reads the node and makes the plan.
//!
//! All work is bounded, and failures are logged: a crash here would hang srun until its time limit.
#![forbid(unsafe_code)]

use crate::active::{
    Active, CONTAINER_LATER, STEP, STRICT, StepState, is_normal, is_program_of_job,
};
use crate::environment::{self, variable};
use crate::log::{in_observer, tell_admin};
use crate::{option, program, task};
use nic_placement_core::config::{ENVIRONMENT, components, cpu_bind};
use nic_placement_core::diagnostic::{self, Diagnostic, summary};
use nic_placement_core::order::Order;
use nic_placement_core::placement::{NodePlacement, Policy, Strictness};
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::step::{
    Counted, SRUN, STEP_GPUS, Starter, Step,
    program::{READ, binder},
};
use nic_placement_core::topology::{CpuSet, Pu, Topology};
use nic_placement_node::NoTopology;
use nic_placement_process::{
    admin::{self, Found, Off},
    files, node,
    session::Session,
};
use nic_placement_sys as sys;
use slurm_spank::SpankHandle;
use std::borrow::Cow;

/// The library of pyxis, which runs tasks in containers. pyxis gives all tasks of a node the first
/// task's container environment, overriding variables that earlier plugins set (NVIDIA/pyxis,
/// pyxis_slurmstepd.c, `spank_import_container_env`).
const CONTAINER_PLUGIN: &str = "spank_pyxis.so";

pub(crate) fn init_post_opt(spank: &SpankHandle) {
    match STEP.get_or_init(|| step(spank)) {
        StepState::Placed(active) => report(active),
        StepState::NotPlaced(..) => log::trace!("off in this step"),
        StepState::Foreign => log::trace!("not a step of tasks"),
    }
}

/// When slurmd starts: logs if this node has RDMA devices but no node file. Slurm calls
/// `slurm_spank_init` in slurmd too (src/common/spank.c, `spank_stack_plugin_valid_for_context`).
pub(crate) fn tell_of_no_node_file() {
    if let Some(line) = node::without_file(option::arguments().iter().map(String::as_str)) {
        tell_admin(&line);
    }
}

fn step(spank: &SpankHandle) -> StepState {
    let is_normal = is_normal(spank);
    if !is_normal && !is_program_of_job(spank) {
        return StepState::Foreign;
    }
    let (wish, off) = wish(spank);
    let is_meant = is_normal && wish.places() && off.is_none();
    let of_ranks = is_meant.then(|| program::why_not_placed(spank)).flatten();
    let is_placed = is_meant && of_ranks.is_none();
    // strict words never fail a launcher's daemon, for which the launcher would wait
    let is_strict = wish.strictness > Strictness::BestEffort && !wish.dry_run;
    if is_placed && is_strict && !program::starts_ranks() {
        let _ = STRICT.set(wish.strictness);
    }
    if !is_placed {
        if is_normal && wish.observe && off.is_none() {
            in_observer();
            tell_admin(&observed(spank, wish.clone()));
        }
        let refusal = off
            .map(|off| off.to_string())
            .or(of_ranks.map(str::to_string))
            .filter(|_| is_normal && wish.places() && wish.by_user)
            .map(|why| format!("this step runs without placement: {why}"));
        return StepState::NotPlaced(wish, refusal);
    }
    let reports = wish.reports();
    let container_later = sys::is_loaded_after_us(CONTAINER_PLUGIN);
    if container_later {
        log::warn!("{CONTAINER_LATER}");
    }
    let session = session(spank, wish).map_err(|error| error.to_string());
    let (mut names, mut threads_per_core) = (task::READ.map(Cow::from).to_vec(), None);
    if let Ok(session) = &session {
        warn(&session.findings(&session.plan));
        names = session.plan.evidence_variables(&task::READ);
        threads_per_core = self::threads_per_core(&session.plan.node);
    }
    StepState::Placed(Active {
        reports,
        names,
        threads_per_core,
        container_later,
        session,
    })
}

fn session(spank: &SpankHandle, wish: Wish) -> Result<Session, NoTopology> {
    let scope = wish.scope();
    let step =
        |wish: &mut Wish, node: &Topology, _: Option<&_>| Ok((granted(spank, wish, node), ()));
    Session::of_this_node(wish, scope, node::author(), step).map(|(session, ())| session)
}

fn observed(spank: &SpankHandle, wish: Wish) -> String {
    let (job, step) = (spank.job_id().unwrap_or(0), spank.job_stepid().unwrap_or(0));
    let found = match session(spank, wish) {
        Ok(session) => {
            let findings = summary(&session.findings(&session.plan));
            let present = environment::read(spank, &session.plan.evidence_variables(&[])).present;
            [vec![session.plan.observed(&present)], findings]
                .concat()
                .join("; ")
        }
        Err(problem) => format!("nothing would be set: {problem}"),
    };
    format!("observe: step {job}.{step}: {found}")
}

/// Most findings that a step logs about the admin's settings.
const DOUBTS: usize = 8;

/// The settings of admin and user, and the reason if placement is off.
fn wish(spank: &SpankHandle) -> (Wish, Option<Off>) {
    // a user can change this variable, so no admin-only argument depends on it
    let partition = || variable(spank, "SLURM_JOB_PARTITION");
    let arguments = option::arguments();
    let arguments = arguments.iter().map(String::as_str);
    let Found {
        admin,
        findings,
        off,
        ..
    } = admin::find(arguments, partition, node::author());
    match &off {
        Some(why @ Off::Refused(_)) => log::error!("{why}"),
        Some(why) => log::debug!("{why}"),
        None => findings
            .iter()
            .take(DOUBTS)
            .for_each(|doubt| log::error!("{doubt}")),
    }
    let read = |name: &str| variable(spank, name);
    let job = || Some(components::leader(spank.job_id().unwrap_or(0), read));
    let environment = admin::words_of_variable(read(ENVIRONMENT).as_deref());
    let option = option::of_job(spank);
    let mut wish = admin::wish(admin, job, environment.as_ref(), option.as_ref());
    wish.wordless = !(wish.reports() || log::log_enabled!(log::Level::Debug));
    (wish, off)
}

const CPUS_PER_TASK: &str = "SLURM_CPUS_PER_TASK";
const MEM_BIND: &str = "SLURM_MEM_BIND_TYPE";

/// Slurm's grant to the step. The step's variables hold `--cpu-bind` and `--mem-bind` as given to
/// srun; Slurm overwrites these variables in each task.
fn granted(spank: &SpankHandle, wish: &Wish, node: &Topology) -> Step {
    let mut names = [
        &cpu_bind::READ[..],
        &READ,
        &[CPUS_PER_TASK, MEM_BIND, STEP_GPUS, SRUN],
    ]
    .concat();
    names.order();
    let values = environment::read(spank, &names).present;
    let read = |name: &str| values.get(name).cloned();
    let tasks = spank.job_local_task_count().unwrap_or(0);
    let cpus_per_task = requested_cpus(spank, read(CPUS_PER_TASK), tasks);
    let job_cores = spank.job_alloc_cores().ok().and_then(cores);
    Step {
        starter: Starter::Slurm,
        tasks,
        uncounted: false,
        total_tasks: spank.job_total_task_count().unwrap_or(0),
        cpus_per_task,
        counted: counted(spank),
        cpu_bind: cpu_bind::chosen(read),
        mem_bind: read(MEM_BIND).filter(|how| !how.is_empty()),
        binder: binder(program::words(), read),
        words: program::words().to_vec(),
        gpus: read(STEP_GPUS),
        srun: read(SRUN),
        job_cores,
        // a job with all cores of a node shares the node with no other job
        alone_on_node: wish.policy == Policy::Spread && job_cores == Some(node.cores().len()),
    }
}

/// `-c` of this step; `None` if SLURM_CPUS_PER_TASK comes from elsewhere, such as sbatch.
fn requested_cpus(spank: &SpankHandle, variable: Option<String>, tasks: u32) -> Option<u32> {
    let requested: u32 = variable?.parse().ok()?;
    if program::starts_ranks() {
        return None;
    }
    // from 22.05 to 23.02 srun passes on sbatch's `-c` without applying it: SPANK's number is then
    // 1
    if spank
        .step_cpus_per_task()
        .is_ok_and(|slurms| slurms != u64::from(requested))
    {
        return None;
    }
    // `sbatch -c1` leaves a 1 that looks like srun's; a step of `srun -c1` has no more cores than
    // tasks
    let is_left_over =
        requested == 1 && counted(spank).is_some_and(|counted| counted.cores > tasks);
    (!is_left_over).then_some(requested)
}

fn counted(spank: &SpankHandle) -> Option<Counted> {
    let cores = u32::try_from(cores(spank.step_alloc_cores().ok()?)?).ok()?;
    Some(Counted {
        cpus: spank.job_ncpus().ok()?.into(),
        cores,
    })
}

/// Threads of the first core. They stand for all cores, since Slurm has one number for a node
/// (slurm.conf(5), `ThreadsPerCore`).
fn threads_per_core(node: &Topology) -> Option<usize> {
    if let Some(first) = node.pus.first() {
        let is_there = |pu: &&Pu| (pu.package, pu.core) == (first.package, first.core);
        return Some(node.pus.iter().filter(is_there).count());
    }
    // below `Scope::Cores` discovery reads no cores
    if !node.provenance.is_this_system() {
        return None;
    }
    let siblings = files::read("/sys/devices/system/cpu/cpu0/topology/thread_siblings")?;
    count(CpuSet::from_mask(&siblings.text).ok())
}

fn count(set: Option<CpuSet>) -> Option<usize> {
    set.map(|set| set.len()).filter(|count| *count > 0)
}

/// The number of cores in Slurm's list; Slurm's core numbers are not the kernel's.
fn cores(list: &str) -> Option<usize> {
    count(CpuSet::from_list(list).ok())
}

fn warn(diagnostics: &[Diagnostic]) {
    let lines = summary(diagnostics);
    lines.iter().for_each(|line| log::warn!("{line}"));
    if lines.len() < diagnostics.len() {
        diagnostics
            .iter()
            .for_each(|diagnostic| log::debug!("{diagnostic}"));
    }
}

/// Logs the plan's counts; at debug level also the reason for each GPU's NICs.
fn report(active: &Active) {
    let Plan { node, map, .. } = match &active.session {
        Err(problem) => return log::error!("{problem}; nothing is set"),
        Ok(session) => &session.plan,
    };
    let source = &node.provenance;
    if node.gpus.is_empty() && node.nics.is_empty() {
        return log::debug!("nothing is set: {source} shows neither GPU nor RDMA device");
    }
    if map.rails.is_empty() {
        match node.nics.is_empty() {
            true => log::debug!("no NIC is set: {source} shows no RDMA device"),
            false => log::debug!("no NIC is set: no NIC may be chosen"),
        }
        return exclusions(map);
    }
    if node.gpus.is_empty() {
        return log::debug!("no NIC is set: {source} shows no GPU");
    }
    log::info!(
        "{}, {} of {} NICs, policy `{}`, from {source}",
        diagnostic::counted(node.gpus.len(), "GPU"),
        map.rails.len(),
        node.nics.len(),
        map.policy
    );
    exclusions(map);
    for (index, gpu) in map.numbered_gpus() {
        log::debug!("GPU {index}: {}", gpu.reason);
    }
}

fn exclusions(map: &NodePlacement) {
    for excluded in &map.excluded {
        log::debug!("`{}` is not used: {}", excluded.name, excluded.why);
    }
}
