//! In slurmstepd, once for each step and node, as root: reads the node and makes the map that its tasks look up.
//!
//! A crash here would hang srun until its time limit, so everything is bounded and every failure is a line in the log.
#![forbid(unsafe_code)]

use super::{nics, option};
use crate::config::{Admin, ENVIRONMENT, Settings, Source, Words, settle};
use crate::discover::{Root, Scope, discover, root};
use crate::pipeline;
use crate::placement::{Bind, NodePlacement, Policy, Strictness};
use crate::policy::{Selection, identity};
use crate::render::{Prepared, lint};
use crate::step::Step;
use crate::sys;
use crate::topology::{CpuSet, Provenance, Topology};
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
    pub(super) map: Result<Map, String>,
    /// `/dev` as it is here: a container's or a job's private one may hide it from the tasks
    pub(super) devices: Option<File>,
    /// does that `/dev` have nodes of RDMA devices?
    pub(super) uverbs: bool,
    /// does pyxis stand after us in plugstack.conf?
    pub(super) container_later: bool,
}

/// What the tasks look themselves up in.
pub(super) struct Map {
    pub(super) topology: Topology,
    pub(super) node: NodePlacement,
    pub(super) prepared: Prepared,
    /// all variables that a task looks at, sorted
    pub(super) names: Vec<String>,
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
    let strict = settings.strictness > Strictness::BestEffort;
    STRICT.store(settings.enabled && strict && !settings.dry_run, Ordering::Relaxed);
    if !settings.enabled {
        return Err(Inactive::NotAsked);
    }
    let container_later = sys::is_loaded_after_us(CONTAINER_PLUGIN);
    if container_later {
        log::warn!("{CONTAINER_LATER}");
    }
    let mut step = Step {
        node: variable(spank, "SLURMD_NODENAME").unwrap_or_default(),
        tasks: spank.job_local_task_count().unwrap_or(0),
        total_tasks: spank.job_total_task_count().unwrap_or(0),
        // here and only here they are what the user asked srun for: slurmd replaces them for each task
        cpu_bind: variable(spank, "SLURM_CPU_BIND_TYPE").filter(|how| !how.is_empty()),
        mem_bind: variable(spank, "SLURM_MEM_BIND_TYPE").filter(|how| !how.is_empty()),
        gpus: variable(spank, "SLURM_STEP_GPUS"),
        alone_on_node: false,
    };
    let devices = match root::directory_descriptor(Path::new("/dev")) {
        Ok(devices) => Some(devices),
        Err(error) => {
            log::warn!("cannot look into `/dev`: {error}; the tasks' GPUs are told by their variables alone");
            None
        }
    };
    let uverbs = devices.as_ref().is_some_and(nics::has_device_nodes);
    // numbers of Slurm's own, of which only the count means something here
    let cores = (settings.policy == Policy::Spread).then(|| spank.job_alloc_cores().ok()).flatten();
    let cores = cores.and_then(|list| CpuSet::from_list(list).ok());
    let map = map(&admin, &settings, &mut step, cores.map(|cores| cores.len()), uverbs || devices.is_none());
    Ok(Active { admin, settings, step, map, devices, uverbs, container_later })
}

fn map(
    admin: &Admin,
    settings: &Settings,
    step: &mut Step,
    job_cores: Option<usize>,
    uverbs: bool,
) -> Result<Map, String> {
    let selects = admin.selection != Selection::default();
    let cores_count = settings.bind == Bind::Core || settings.omp || settings.policy == Policy::Spread;
    let scope = match cores_count {
        true => Scope::Cores,
        false if selects => Scope::Selection,
        false => Scope::Placement,
    };
    let (mut topology, mut diagnostics) =
        pipeline::read_node(&admin.source, scope).map_err(|error| error.to_string())?;
    if matches!(admin.source, Source::Machine(_) | Source::Topology(_)) {
        let (live, _) = discover(&Root::live(), Scope::Placement, Provenance::ThisSystem);
        diagnostics.extend(pipeline::confirm(&mut topology, &live));
    }
    // who has every core of the node shares it with nobody
    step.alone_on_node = job_cores.is_some_and(|cores| cores > 0 && cores == topology.cores().len());
    let mut node = pipeline::place_node(&topology, admin, settings, step);
    if !uverbs && !node.rails.is_empty() {
        log::warn!("`/dev/{}` is missing: no RDMA device of this node can be opened", nics::DIRECTORY);
        // a list of NICs that nobody can open would hide the interfaces that work; another machine's NICs are not here
        if topology.provenance.is_this_system() {
            node =
                pipeline::place_node_without(&topology, admin, settings, step, nics::all_missing(&topology));
        }
    }
    // the paths are the libraries' own or the admin's
    let read = |path: &str| root::read_configuration(Path::new(path), Root::MAX_FILE);
    let prepared = pipeline::prepare(&topology, &node, admin, settings, &read);
    diagnostics.extend(prepared.diagnostics());
    for diagnostic in diagnostics.iter().chain(&node.diagnostics) {
        log::warn!("{diagnostic}");
    }
    let mut names: Vec<String> = prepared.names().into_iter().map(str::to_string).collect();
    names.extend(identity::VARIABLES.map(str::to_string));
    names.extend(super::task::READ.map(str::to_string));
    if settings.verbose || settings.dry_run {
        names.extend(lint::READ.map(str::to_string));
    }
    names.sort_unstable();
    names.dedup();
    Ok(Map { topology, node, prepared, names })
}

/// One line for the step; the reasons where somebody asks for them.
fn report(active: &Active) {
    match &active.map {
        Err(problem) => log::error!("{problem}; nothing is set"),
        Ok(Map { topology, .. }) if topology.gpus.is_empty() && topology.nics.is_empty() => {
            log::debug!("nothing is set: {} shows neither GPU nor RDMA device", topology.provenance);
        }
        Ok(Map { topology, node, .. }) if node.rails.is_empty() => {
            let why = match topology.nics.is_empty() {
                true => format!("{} shows no RDMA device", topology.provenance),
                false => "no NIC may be chosen".to_string(),
            };
            log::debug!("no NIC is set: {why}");
            exclusions(node);
        }
        Ok(Map { topology, .. }) if topology.gpus.is_empty() => {
            log::debug!("no NIC is set: {} shows no GPU", topology.provenance);
        }
        Ok(Map { topology, node, .. }) => {
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
