//! Places this process as the plugin places a task: looks, decides, applies, reads back, tells.
#![forbid(unsafe_code)]

use super::launcher::Launcher;
use super::rank::{self, Found};
use super::variables::{Environment, Values};
use super::voice::{self, say};
use super::{Options, Wanted};
use crate::commands::Failure;
use crate::describe;
use nic_placement_core::config::{Admin, NodeSource, cpu_bind};
use nic_placement_core::diagnostic::{Diagnostic, Shown};
use nic_placement_core::discover::Scope;
use nic_placement_core::gpus::rank::{claimed, seen};
use nic_placement_core::gpus::slurms_numbers;
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::policy::{Pattern, Reasons};
use nic_placement_core::render::marker::{self, Marker};
use nic_placement_core::render::{Evidence, FileText};
use nic_placement_core::step::program::{self, program_name};
use nic_placement_core::step::{Claim, GpuGrant, Starter, Step, Task};
use nic_placement_core::topology::{CpuSet, Provenance, Topology};
use nic_placement_process::doubts::doubts;
use nic_placement_process::files::UsersFiles;
use nic_placement_process::memory::memory;
use nic_placement_process::nics::{self, Devices};
use nic_placement_process::{bind, files, gpus, maps, node};
use nic_placement_sys as sys;

/// Slurm's word on how it dealt the step's GPUs, which a task's environment has.
const GPU_BIND: &str = "SLURMD_TRES_BIND";
const STEP_GPUS: &str = "SLURM_STEP_GPUS";
const NODE_NAME: &str = "SLURMD_NODENAME";
/// The node's lists, which a placed step makes from the node alone: they name the NICs that it uses.
const LISTS_OF_THE_NODE: [&str; 2] = ["NCCL_IB_HCA", "NVSHMEM_HCA_LIST"];

/// Places this process; returns what could not be had.
pub(super) fn place(
    options: &Options,
    wanted: Wanted,
    environment: &mut Environment,
) -> Result<Vec<String>, Failure> {
    let values = environment.values();
    let found = rank::find(&values, options.local_rank, options.local_size);
    let Wanted { settings, admin, knows_admin, .. } = wanted;
    let reports = settings.verbose || settings.dry_run;
    voice::listen(reports || found.is_first());
    let wish = Wish { settings, admin, reasons: Reasons::if_read(reports) };
    let plan = match plan(options, wish, knows_admin, &values, &found) {
        Ok(plan) => plan,
        Err(failure) => {
            // told by the failure itself where a strict word makes it one
            log::warn!("{failure}; nothing is set");
            return Ok(vec![failure.to_string()]);
        }
    };
    let Placed { plan, task, notes } = plan;
    notes.iter().for_each(|note| log::warn!("{note}"));
    Ok(carry_out(&plan, &task, reports, found.is_first(), &values, environment))
}

/// Without plugstack.conf, as in a container, the lists of the step around tell which NICs the admin lets be used.  A list
/// with NICs that are not here is another node's.
fn as_the_step_did(admin: &mut Admin, values: &Values, topology: &Topology) {
    let Some(text) = values.get(marker::NAME) else { return };
    let published = Marker::parse(text, |name| LISTS_OF_THE_NODE.contains(&name));
    let ours = LISTS_OF_THE_NODE.iter().find_map(|name| {
        let list = values.get(*name)?;
        published.is_ours(name, list).then_some(list)
    });
    let names = ours.into_iter().flat_map(|list| list.trim_start_matches('=').split(','));
    let names: Vec<&str> = names.map(|entry| entry.split(':').next().unwrap_or_default()).collect();
    if names.iter().all(|name| topology.nic_index(name).is_some()) {
        admin.selection.include.extend(names.iter().filter_map(|name| Pattern::parse(name).ok()));
    }
}

/// A plan for the launcher's processes on this node, and this one of them.
struct Placed {
    plan: Plan,
    task: Task,
    notes: Vec<String>,
}

fn plan(
    options: &Options,
    mut wish: Wish,
    knows_admin: bool,
    values: &Values,
    found: &Found,
) -> Result<Placed, Failure> {
    let (topology, diagnostics) = topology(options, &wish)?;
    let in_a_placed_step = values.get(marker::NAME).is_some_and(|text| marker::is_published(text));
    if in_a_placed_step && !knows_admin {
        as_the_step_did(&mut wish.admin, values, &topology);
    }
    maps::find(&mut wish.admin, node::callers_author());
    diagnostics.iter().for_each(|diagnostic| log::warn!("{diagnostic}"));
    let devices = Devices::open();
    let grant = gpus::grant(values, &topology, devices.directory.as_ref());
    let grant = gpus::without_absent(grant, &topology);
    let of_slurm = Step { gpus: values.get(STEP_GPUS).cloned(), ..Step::default() };
    let seen = seen(&topology, &of_slurm, &grant);
    let (claim, note) = claimed(&topology, &grant, seen.clone(), found.rank.as_ref());
    let cpus = sys::affinity().unwrap_or_default();
    let launcher = launcher(values, found);
    let deal = deal(&topology, &seen, &claim, &grant, found, launcher.as_ref(), values);
    let program = options.command.first().and_then(|program| program.to_str());
    let step = Step {
        node: node_name(values),
        starter: Starter::Launcher,
        tasks: found.rank.as_ref().map_or(1, |rank| rank.of.unwrap_or(rank.number + 1)),
        uncounted: found.rank.as_ref().is_some_and(|rank| rank.of.is_none()),
        total_tasks: found.total,
        cpus_per_task: None,
        counted: None,
        cpu_bind: bound(&topology, &cpus, found, launcher.as_ref(), values),
        mem_bind: None,
        binder: program.map(program_name).and_then(program::binder).map(str::to_string),
        gpus: deal.step_gpus,
        job_cores: None,
        alone_on_node: false,
    };
    let plan = nics::without_missing(Plan::new(topology, wish, step, &files::read), &devices);
    let closed = nics::closed(&devices, &plan);
    let plan = nics::without_closed(&plan, &closed, true).unwrap_or(plan);
    plan.diagnostics().iter().for_each(|diagnostic| log::warn!("{diagnostic}"));
    let task = Task {
        local_id: found.rank.as_ref().map_or(0, |rank| rank.number),
        global_id: found.global,
        gpus: grant,
        claim: Some(claim),
        sees: Some(seen.gpus),
        denied_nics: closed.to_this_task,
        step_cpus: cpus.clone(),
        cpus,
        masks: Vec::new(),
        threads_per_core: None,
        gpu_bind: deal.rule,
        promised: None,
        memory: memory(in_a_placed_step),
    };
    let notes = found.doubt.iter().cloned().chain(note).collect();
    Ok(Placed { plan, task, notes })
}

fn topology(options: &Options, wish: &Wish) -> Result<(Topology, Vec<Diagnostic>), Failure> {
    let author = node::callers_author();
    let source = options.node.source();
    if source == NodeSource::Live {
        return Ok(node::read(&wish.admin, wish.scope(), author)?);
    }
    let (described, diagnostics) = describe::read_node(&source, Scope::Full)?;
    Ok(match described.provenance {
        Provenance::Model(_) | Provenance::File(_) => {
            node::confirmed(described, diagnostics, &wish.admin.node_file, author)
        }
        Provenance::ThisSystem | Provenance::Captured(_) => (described, diagnostics),
    })
}

fn node_name(values: &Values) -> String {
    let host =
        || files::read("/proc/sys/kernel/hostname").map(|FileText { text, .. }| text.trim().to_string());
    values.get(NODE_NAME).cloned().or_else(host).unwrap_or_default()
}

/// The launcher that started this process among others.  It is not sought where that was Slurm, whose variables tell how it
/// bound the process and dealt the GPUs.
fn launcher(values: &Values, found: &Found) -> Option<Launcher> {
    if found.rank.is_none() || found.is_slurms() {
        return None;
    }
    let numbered_by = found.numbered_by.and_then(|name| Some((name, values.get(name)?.as_str())));
    Launcher::find(numbered_by)
}

/// How this process was bound among others, in words; `None` if all of them share what it has.
fn bound(
    topology: &Topology,
    cpus: &CpuSet,
    found: &Found,
    launcher: Option<&Launcher>,
    values: &Values,
) -> Option<String> {
    found.rank.as_ref()?;
    if found.is_slurms() || found.repeats_slurm {
        let read = |name: &str| values.get(name).map(String::as_str);
        if cpu_bind::by_domain(read) || cpu_bind::masks(read).iter().any(|mask| mask != cpus) {
            return Some("Slurm bound it (`srun --cpu-bind=none` leaves that to `exec`)".to_string());
        }
    }
    if found.is_slurms() {
        return None;
    }
    // a launcher in Slurm's task may have bound it there; a shell has the task's CPUs
    match launcher {
        // no launcher stands between Slurm and this process, and Slurm's masks told of no binding; slurmstepd's own CPUs
        // tell nothing, since it is not held to the step's
        Some(launcher) if found.repeats_slurm && launcher.name == "slurmstepd" => None,
        Some(launcher) if launcher.cpus == *cpus => None,
        Some(launcher) => Some(format!(
            "`{}` bound it (`mpirun --bind-to none` leaves that to `exec`)",
            Shown::word(&launcher.name, 40)
        )),
        // a process that may run on all CPUs of the node was not bound
        None if topology.cpus().is_subset(cpus) => None,
        None => Some("its launcher is not to be seen, and may have bound it".to_string()),
    }
}

/// What is known of the GPUs of all processes, as Slurm would say it.
struct Deal {
    step_gpus: Option<String>,
    rule: Option<String>,
}

fn deal(
    topology: &Topology,
    seen: &Claim,
    claim: &Claim,
    grant: &GpuGrant,
    found: &Found,
    launcher: Option<&Launcher>,
    values: &Values,
) -> Deal {
    let all: Vec<_> = topology.gpu_indices().collect();
    // a process with a GPU must not be taken for one of a step without: those are dealt over the NUMA nodes
    let named = (!seen.gpus.is_empty()).then(|| slurms_numbers(topology, &seen.gpus));
    let nobody = Deal { step_gpus: values.get(STEP_GPUS).cloned().or(named), rule: None };
    let Some(rank) = &found.rank else { return nobody };
    match (seen.gpus.len(), claim.gpus.len()) {
        // the first takes the first of them, the next the next: Slurm 22.05's rule
        (2.., 1) => Deal {
            step_gpus: Some(slurms_numbers(topology, &seen.gpus)),
            rule: Some("gpu:per_task:1".to_string()),
        },
        (1, 1) if found.is_slurms() || found.repeats_slurm && values.contains_key(GPU_BIND) => {
            Deal { rule: values.get(GPU_BIND).cloned(), ..nobody }
        }
        // a list that the launcher had itself is the same for all its processes
        (1, 1) if rank.of.is_some_and(|of| of as usize <= all.len()) => {
            let lists: Vec<(&str, &str)> =
                grant.variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
            match launcher.and_then(|launcher| launcher.had(&lists)) {
                // each process has a GPU of its own, and no variable names the rule: that of later releases is taken
                Some(false) => Deal {
                    step_gpus: Some(slurms_numbers(topology, &all)),
                    rule: Some("gres/gpu:per_task:1".to_string()),
                },
                _ => nobody,
            }
        }
        _ => nobody,
    }
}

/// Applies the decision, unless it is a dry run, and tells it where that is asked for.
fn carry_out(
    plan: &Plan,
    task: &Task,
    reports: bool,
    is_first: bool,
    values: &Values,
    environment: &mut Environment,
) -> Vec<String> {
    let files = UsersFiles::default();
    let read = |path: &str| files.read(path);
    let mut placed = plan.task(task, Evidence { present: values, read: &read });
    if let Some(warning) = &placed.warning {
        say(&format!("task {}: {warning}", task.global_id));
    }
    let mut failures = placed.shortfalls.clone();
    if !plan.wish.settings.dry_run {
        failures.extend(bind::apply(&mut placed.placement, &plan.node));
        environment.change(&placed.variables);
    }
    let name = &plan.step.node;
    if reports {
        let would = if plan.wish.settings.dry_run { "dry run: " } else { "" };
        say(&format!("{would}{}", placed.line(name)));
    }
    // without a strict word a node without NICs is a fact
    if reports || !placed.misses_nothing_of_its_own() {
        failures.iter().for_each(|failure| say(&format!("task {}: {failure}", task.global_id)));
    }
    if reports && is_first {
        doubts(plan, task, values, &read).iter().for_each(|finding| say(&format!("{name}: {finding}")));
    }
    failures
}
