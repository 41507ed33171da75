//! In slurmstepd, once for each step and node, as root: reads the node and makes the plan that its tasks look up.
//!
//! A crash here would hang srun until its time limit, so everything is bounded and every failure is a line in the log.
#![forbid(unsafe_code)]

use crate::active::{
    ACTIVE, Active, CONTAINER_LATER, NOT_PLACED, NotPlaced, STRICT, is_normal, is_program_of_job,
};
use crate::environment::{self, variable};
use crate::log::{in_observer, tell_admin};
use crate::task::NODE_NAME;
use crate::{option, program, task};
use nic_placement_core::config::rollout::Rollout;
use nic_placement_core::config::{ENVIRONMENT, Settings, Words, components, cpu_bind, settle};
use nic_placement_core::diagnostic::{Diagnostic, summary};
use nic_placement_core::node::NoTopology;
use nic_placement_core::order::Order;
use nic_placement_core::placement::{NodePlacement, Policy, Strictness};
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::policy::Reasons;
use nic_placement_core::step::{Counted, Starter, Step};
use nic_placement_core::topology::{CpuSet, Topology};
use nic_placement_process::admin::{Found, Off};
use nic_placement_process::nics::{self, Devices};
use nic_placement_process::{admin, files, maps, node};
use nic_placement_sys as sys;
use slurm_spank::SpankHandle;
use std::sync::atomic::Ordering;

/// The file name of pyxis, the plugin that brings tasks into containers.  It gives every task of the node the environment of
/// the container, which the first task started, over what earlier plugins set (NVIDIA/pyxis, pyxis_slurmstepd.c,
/// `spank_import_container_env`).
const CONTAINER_PLUGIN: &str = "spank_pyxis.so";

/// Why this step gets no placement.
enum Inactive {
    NotAsked,
    NotAStep,
}

pub(crate) fn init_post_opt(spank: &SpankHandle) {
    match ACTIVE.get_or_try_init(|| activate(spank)) {
        Ok(active) => report(active),
        Err(Inactive::NotAsked) => log::trace!("off in this step"),
        Err(Inactive::NotAStep) => log::trace!("not a step of tasks"),
    }
}

fn activate(spank: &SpankHandle) -> Result<Active, Inactive> {
    let is_normal = is_normal(spank);
    if !is_normal && !is_program_of_job(spank) {
        return Err(Inactive::NotAStep);
    }
    let (wish, off) = wish(spank);
    let Settings { enabled, asked, observe, strictness, dry_run, verbose, .. } = wish.settings;
    let is_meant = is_normal && enabled && !observe && off.is_none();
    let beside_mpirun = if is_meant { program::is_beside_mpirun(spank) } else { None };
    let is_placed = is_meant && beside_mpirun.is_none();
    STRICT.store(is_placed && strictness > Strictness::BestEffort && !dry_run, Ordering::Relaxed);
    if !is_placed {
        if is_normal && observe && off.is_none() {
            tell_admin(&observed(spank, wish.clone()));
        }
        let why = off.map(|off| off.to_string()).or(beside_mpirun.map(str::to_string));
        let refusal = why.filter(|_| is_normal && enabled && asked && !observe);
        let refusal = refusal.map(|why| format!("this step runs without placement: {why}"));
        let _ = NOT_PLACED.set(NotPlaced { wish, refusal });
        return Err(Inactive::NotAsked);
    }
    let container_later = sys::is_loaded_after_us(CONTAINER_PLUGIN);
    if container_later {
        log::warn!("{CONTAINER_LATER}");
    }
    let devices = Devices::open();
    let plan = plan(spank, wish, &devices).map_err(|error| error.to_string());
    if let Ok((_, diagnostics)) = &plan {
        warn(diagnostics);
    }
    let plan = plan.map(|(plan, _)| plan);
    let names = plan.as_ref().map(names).unwrap_or_default();
    Ok(Active { plan, reports: verbose || dry_run, devices, names, container_later })
}

/// What would be, in one line for the step on this node.
fn observed(spank: &SpankHandle, wish: Wish) -> String {
    in_observer();
    let (job, step) = (spank.job_id().unwrap_or(0), spank.job_stepid().unwrap_or(0));
    let found = match plan(spank, wish, &Devices::open()) {
        Ok((plan, findings)) => {
            let findings = summary(&findings);
            let more = if findings.is_empty() { String::new() } else { format!("; {}", findings.join("; ")) };
            format!("{}{more}", plan.observed())
        }
        Err(problem) => format!("nothing would be set: {problem}"),
    };
    format!("observe: step {job}.{step}: {found}")
}

/// Mistakes of the admin's that a step tells, at most: a file of them would fill the log with each step.
const MISTAKES: usize = 8;

/// What plugstack.conf, the configuration file, the user's environment and the option say, and what turns placement off.
fn wish(spank: &SpankHandle) -> (Wish, Option<Off>) {
    // the user's word for it: no more than that user may choose hangs on it
    let partition = || variable(spank, "SLURM_JOB_PARTITION");
    let Found { admin, findings, off, .. } = admin::find(option::arguments(spank), partition, node::author());
    for finding in findings.iter().take(MISTAKES) {
        log::error!("{finding}");
    }
    if let Some(more @ 1..) = findings.len().checked_sub(MISTAKES) {
        log::error!("and {more} more of the admin's mistakes: `nic-placement check` names them all");
    }
    match &off {
        Some(why @ Off::Refused(_)) => log::error!("{why}"),
        Some(why) => log::debug!("{why}"),
        None => {}
    }
    let environment = variable(spank, ENVIRONMENT).filter(|text| !text.is_empty());
    let environment = environment.and_then(|text| match Words::parse(&text) {
        Ok(words) => Some(words),
        Err(bad) => {
            log::warn!("{ENVIRONMENT}: {bad}; ignored");
            None
        }
    });
    let default = match admin.rollout == Rollout::default() {
        true => admin.default.clone(),
        false => {
            let job = components::leader(spank.job_id().unwrap_or(0), |name| variable(spank, name));
            admin.rollout.default_of(job, &admin.default)
        }
    };
    let settings = settle(&default, environment.as_ref(), option::of_this_component(spank).as_ref());
    let are_read = settings.verbose || settings.dry_run || log::log_enabled!(log::Level::Debug);
    (Wish { admin, settings, reasons: Reasons::if_read(are_read) }, off)
}

const CPUS_PER_TASK: &str = "SLURM_CPUS_PER_TASK";
const MEM_BIND: &str = "SLURM_MEM_BIND_TYPE";
const GPUS: &str = "SLURM_STEP_GPUS";

/// What Slurm granted; here and only here `--cpu-bind` and `--mem-bind` are what the user asked srun for: slurmd replaces
/// them for each task.
fn granted(spank: &SpankHandle, wish: &Wish, node: &Topology) -> Step {
    // numbers of Slurm's own, of which only the count means something here
    let list = spank.job_alloc_cores().ok().and_then(|list| CpuSet::from_list(list).ok());
    let job_cores = list.map(|cores| cores.len()).filter(|cores| *cores > 0);
    let mut names = [&cpu_bind::READ[..], &[NODE_NAME, CPUS_PER_TASK, MEM_BIND, GPUS]].concat();
    names.order();
    let values = environment::values(spank, &names);
    let read = |name: &str| values.get(name).cloned();
    // from 22.05 to 23.02 srun neither reads what sbatch was asked for nor takes it away; Slurm's own number is 1 where
    // neither the job nor the step asked for any
    let own = spank.step_cpus_per_task();
    let is_the_steps = |asked: &u32| own.as_ref().map_or(true, |own| *own == u64::from(*asked));
    let asked = read(CPUS_PER_TASK).and_then(|count| count.parse().ok()).filter(is_the_steps);
    let asked = asked.filter(|_| !program::starts_ranks());
    let counted = asked.and_then(|_| counted(spank));
    let tasks = spank.job_local_task_count().unwrap_or(0);
    // `sbatch -c1` leaves a 1 there that looks like srun's; a step that asked for one CPU each has no more cores than tasks
    let is_left_over = |counted: &Counted| asked == Some(1) && counted.cores > tasks;
    let asked = asked.filter(|_| !counted.as_ref().is_some_and(is_left_over));
    Step {
        node: read(NODE_NAME).unwrap_or_default(),
        starter: Starter::Slurm,
        tasks,
        uncounted: false,
        total_tasks: spank.job_total_task_count().unwrap_or(0),
        cpus_per_task: asked,
        counted: counted.filter(|_| asked.is_some()),
        cpu_bind: cpu_bind::chosen(|name| match name {
            cpu_bind::VARIABLE => option::told_by_srun(spank, read(name)?),
            _ => read(name),
        }),
        mem_bind: read(MEM_BIND).filter(|how| !how.is_empty()),
        binder: program::binder().map(str::to_string),
        gpus: read(GPUS),
        job_cores,
        // a job with every core of the node shares it with no other
        alone_on_node: wish.settings.policy == Policy::Spread && job_cores == Some(node.cores().len()),
    }
}

/// The step's CPUs and cores on this node in numbers of Slurm's own.
fn counted(spank: &SpankHandle) -> Option<Counted> {
    let cores = CpuSet::from_list(spank.step_alloc_cores().ok()?).ok()?.len();
    let cores = u32::try_from(cores).ok().filter(|cores| *cores > 0)?;
    Some(Counted { cpus: spank.job_ncpus().ok()?.into(), cores })
}

/// The plan, and what is odd about the node, the wish and the map.
fn plan(
    spank: &SpankHandle,
    mut wish: Wish,
    devices: &Devices,
) -> Result<(Plan, Vec<Diagnostic>), NoTopology> {
    let author = node::author();
    let (node, mut diagnostics) = node::read(&wish.admin, wish.scope(), author)?;
    maps::find(&mut wish.admin, author);
    let step = granted(spank, &wish, &node);
    // the paths are the libraries' own or the admin's
    let plan = nics::without_missing(Plan::new(node, wish, step, &files::read), devices);
    diagnostics.extend(plan.diagnostics());
    Ok((plan, diagnostics))
}

fn warn(diagnostics: &[Diagnostic]) {
    let lines = summary(diagnostics);
    lines.iter().for_each(|line| log::warn!("{line}"));
    if lines.len() < diagnostics.len() {
        diagnostics.iter().for_each(|diagnostic| log::debug!("{diagnostic}"));
    }
}

fn names(plan: &Plan) -> Vec<String> {
    plan.evidence_variables(&task::READ).into_iter().map(str::to_string).collect()
}

/// One line for the step; why each GPU has its NICs, in slurmd's debug log alone.
fn report(active: &Active) {
    let (node, map) = match &active.plan {
        Err(problem) => return log::error!("{problem}; nothing is set"),
        Ok(Plan { node, map, .. }) => (node, map),
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
    let (gpus, rails, nics, policy) = (node.gpus.len(), map.rails.len(), node.nics.len(), map.policy);
    log::info!("{gpus} GPUs, {rails} of {nics} NICs, policy `{policy}`, from {source}");
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
