//! In slurmstepd, once for each step and node, as root: reads the node and makes the map that its tasks look up.
//!
//! A crash here would hang srun until its time limit, so everything is bounded and every failure is a line in the log.
#![forbid(unsafe_code)]

use super::option;
use crate::config::{Admin, ENVIRONMENT, Settings, Source, Words, settle};
use crate::discover::{Root, Scope, discover, root};
use crate::pipeline;
use crate::placement::NodePlacement;
use crate::policy::Selection;
use crate::render::nccl;
use crate::step::Step;
use crate::sys;
use crate::topology::{Provenance, Topology};
use once_cell::sync::OnceCell;
use slurm_spank::SpankHandle;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the step's tasks inherit by fork.
pub(super) struct Active {
    pub(super) admin: Admin,
    pub(super) settings: Settings,
    pub(super) step: Step,
    /// the node and its map; or why there is none
    pub(super) map: Result<(Topology, NodePlacement), String>,
    /// `/dev` as it is here: a container's or a job's private one may hide it from the tasks
    pub(super) devices: Option<File>,
    /// does pyxis stand after us in plugstack.conf?
    pub(super) container_later: bool,
}

/// The file name of pyxis, the plugin that brings tasks into containers.  It gives every task of the node the environment of
/// the container, which the first task started, over what earlier plugins set (NVIDIA/pyxis, pyxis_slurmstepd.c,
/// `spank_import_container_env`).
const CONTAINER_PLUGIN: &str = "spank_pyxis.so";

pub(super) const CONTAINER_LATER: &str = "`spank_pyxis.so` stands after this plugin in plugstack.conf: what is set here may \
    give way to a container's environment, the same for all tasks; list nic-placement after pyxis, as `90-nic-placement.conf`";

/// Set where this step wants placement.
pub(super) static ACTIVE: OnceCell<Active> = OnceCell::new();

/// Set where this step wants nothing changed, not even our own earlier values withdrawn.
pub(super) static DRY_RUN: AtomicBool = AtomicBool::new(false);

/// Set where this step's tasks are to fail without their placement, also if making the map fails in a way that nobody
/// thought of.
pub(super) static STRICT: AtomicBool = AtomicBool::new(false);

/// Why this step gets no placement.
enum Inactive {
    NotAsked,
    NotAStep,
}

/// Step ids above this are not steps of tasks: the batch script, the interactive shell, the step that adopts foreign
/// processes (slurm/slurm.h, `SLURM_MAX_NORMAL_STEP_ID`).  What we set in a batch script its sruns would inherit as if the
/// user had set it.
const MAX_NORMAL_STEP_ID: u32 = 0xffff_fff0;

/// Is this a step that runs a user's tasks?
pub(super) fn is_normal(spank: &SpankHandle) -> bool {
    spank.job_stepid().is_ok_and(|id| id <= MAX_NORMAL_STEP_ID)
}

pub(super) fn init_post_opt(spank: &SpankHandle) {
    match ACTIVE.get_or_try_init(|| prepare(spank)) {
        Ok(active) => report(active),
        Err(Inactive::NotAsked) => log::trace!("off in this step"),
        Err(Inactive::NotAStep) => log::trace!("not a step of tasks"),
    }
}

fn prepare(spank: &SpankHandle) -> Result<Active, Inactive> {
    if !is_normal(spank) {
        return Err(Inactive::NotAStep);
    }
    let (admin, diagnostics) = Admin::parse(spank.plugin_argv().unwrap_or_default());
    for diagnostic in diagnostics {
        log::error!("{diagnostic}");
    }
    let environment = variable(spank, ENVIRONMENT).filter(|text| !text.is_empty());
    let environment = environment.and_then(|text| match Words::parse(&text) {
        Ok(words) => Some(words),
        Err(bad) => {
            log::warn!("{ENVIRONMENT}: {bad}; ignored");
            None
        }
    });
    let settings = settle(&admin.default, environment.as_ref(), option::value().as_ref());
    DRY_RUN.store(settings.dry_run, Ordering::Relaxed);
    STRICT.store(settings.enabled && settings.strict && !settings.dry_run, Ordering::Relaxed);
    if !settings.enabled {
        return Err(Inactive::NotAsked);
    }
    let container_later = sys::is_loaded_after_us(CONTAINER_PLUGIN);
    if container_later {
        log::warn!("{CONTAINER_LATER}");
    }
    let step = Step {
        node: variable(spank, "SLURMD_NODENAME").unwrap_or_default(),
        tasks: spank.job_local_task_count().unwrap_or(0),
        total_tasks: spank.job_total_task_count().unwrap_or(0),
        // here and only here they are what the user asked srun for: slurmd replaces them for each task
        cpu_bind: variable(spank, "SLURM_CPU_BIND_TYPE").filter(|how| !how.is_empty()),
        mem_bind: variable(spank, "SLURM_MEM_BIND_TYPE").filter(|how| !how.is_empty()),
        gpus: variable(spank, "SLURM_STEP_GPUS"),
    };
    let map = map(&admin, settings);
    let devices = match root::directory_descriptor(Path::new("/dev")) {
        Ok(devices) => Some(devices),
        Err(error) => {
            log::warn!("cannot look into `/dev`: {error}; the tasks' GPUs are told by their variables alone");
            None
        }
    };
    Ok(Active { admin, settings, step, map, devices, container_later })
}

fn map(admin: &Admin, settings: Settings) -> Result<(Topology, NodePlacement), String> {
    let selects = admin.selection != Selection::default();
    let scope = if selects { Scope::Selection } else { Scope::Placement };
    let (mut topology, mut diagnostics) =
        pipeline::read_node(&admin.source, scope).map_err(|error| error.to_string())?;
    if matches!(admin.source, Source::Machine(_) | Source::Topology(_)) {
        let (live, _) = discover(&Root::live(), Scope::Placement, Provenance::ThisSystem);
        diagnostics.extend(pipeline::confirm(&mut topology, &live));
    }
    let mut node = pipeline::place_node(&topology, admin, settings);
    let configuration = root::read_file(Path::new(nccl::CONFIGURATION), Root::MAX_FILE).ok();
    let configuration = configuration.and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(variable) = configuration.and_then(|text| nccl::configured(&text)) {
        node.configured.push((variable, nccl::CONFIGURATION.to_string()));
    }
    for diagnostic in diagnostics.iter().chain(&node.diagnostics) {
        log::warn!("{diagnostic}");
    }
    Ok((topology, node))
}

/// One line for the step; the reasons where somebody asks for them.
fn report(active: &Active) {
    match &active.map {
        Err(problem) => log::error!("{problem}; nothing is set"),
        Ok((topology, _)) if topology.gpus.is_empty() && topology.nics.is_empty() => {
            log::debug!("nothing is set: {} shows neither GPU nor RDMA device", topology.provenance);
        }
        Ok((topology, node)) if node.rails.is_empty() => {
            let why = match topology.nics.is_empty() {
                true => format!("{} shows no RDMA device", topology.provenance),
                false => "no NIC may be chosen".to_string(),
            };
            log::debug!("no NIC is set: {why}");
            exclusions(node);
        }
        Ok((topology, _)) if topology.gpus.is_empty() => {
            log::debug!("no NIC is set: {} shows no GPU", topology.provenance);
        }
        Ok((topology, node)) => {
            log::info!(
                "{} GPUs, {} of {} NICs, policy `{}`, from {}",
                topology.gpus.len(),
                node.rails.len(),
                topology.nics.len(),
                node.policy,
                topology.provenance
            );
            reasons(node);
        }
    }
}

fn reasons(node: &NodePlacement) {
    exclusions(node);
    for (index, gpu) in node.gpus.iter().enumerate() {
        log::debug!("GPU {index}: {}", gpu.reason);
    }
}

fn exclusions(node: &NodePlacement) {
    for excluded in &node.excluded {
        log::debug!("`{}` is not used: {}", excluded.name, excluded.why);
    }
}

/// A variable of the step or task; a value that is not UTF-8 is still somebody's value.
pub(super) fn variable(spank: &SpankHandle, name: &str) -> Option<String> {
    spank.getenv_lossy(name).ok().flatten()
}
