//! `nic-placement plan`: the placement of a step's tasks, by the plugin's plan.

mod table;

use super::check;
use super::drawing::{self, Drawing};
use super::misunderstood::misunderstood;
use super::page::Page;
use super::request::{self, NodeOrMachine, PlanOptions};
use super::{Failure, shortfalls, tell};
use clap::ArgAction::Append;
use nic_placement_core::config::releases::Release;
use nic_placement_core::diagnostic::{Diagnostic, counted};
use nic_placement_core::gpus::VARIABLES;
use nic_placement_core::libraries::wanted::is_variable_name;
use nic_placement_core::libraries::{self, Present};
use nic_placement_core::placement::{Change, GpuUse};
use nic_placement_core::plan::{TaskPlan, Wish};
use nic_placement_core::step::{Access, GpuGrant, STEP_GPUS, Starter, Step, Task};
use nic_placement_core::topology::Topology;
use nic_placement_fleet::doctor::{
    gpus,
    releases::{name, of_version},
};
use nic_placement_launch::answers;
use nic_placement_launch::judge::uses::{self, Use};
use nic_placement_launch::srun::{self, SrunLine};
use nic_placement_launch::step::{GpuSplit, MAX_TASKS, StepRequest};
use nic_placement_process::session::Session;
use std::collections::BTreeMap;

/// what the tasks of a step would get
///
/// GPUs, NICs, CPUs, memory, and the variables that are set, for each task on one node without other jobs. The plugin
/// decides by the same code. Ends with 1, as srun would, where a strict word fails a task.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement plan dgx-h100 -c 14
  nic-placement plan -- srun -N2 -n16 -c14 --gpus-per-task=1 --exclusive ./train
  nic-placement plan --topology node.json --gpus 0-3 --gpus-per-task 2 --why
  nic-placement plan dgx-h100 -o plan.svg")]
pub(super) struct PlanCommandOptions {
    #[command(flatten)]
    node: NodeOrMachine,
    #[command(flatten)]
    step: Box<StepOptions>,
    #[command(flatten)]
    request: PlanOptions,
    #[command(flatten)]
    output: Output,
    /// a line of srun, for its step on idle nodes, by select/cons_tres with CR_Core and task/affinity
    ///
    /// Options that change GPUs, CPUs or tasks in a way that is not modelled are refused. Variables of srun are not read.
    #[arg(last = true, value_name = "SRUN", conflicts_with_all = NOT_BESIDE_A_LINE)]
    line: Vec<String>,
}

const NOT_BESIDE_A_LINE: [&str; 5] = ["ntasks", "gpus_per_task", "cpus_per_task", "gpus", "words"];

/// The largest `CONFIG_NR_CPUS` of Linux.
const MOST_CPUS: u32 = 8192;

#[derive(clap::Args)]
#[command(next_help_heading = "Which step")]
struct StepOptions {
    /// tasks on the node (default: one for each GPU, or for each group of --gpus-per-task)
    ///
    /// As Slurm, the plan refuses tasks that together ask for more GPUs or CPUs than there are.
    #[arg(short = 'n', long, value_name = "N", value_parser = request::number(1, MAX_TASKS))]
    ntasks: Option<u32>,
    /// GPUs of each task, in PCI order, or all: every task sees all of the allocation (default: 1; with gpu=local-id all)
    #[arg(long, value_name = "M", value_parser = gpus_per_task)]
    gpus_per_task: Option<GpuSplit>,
    /// CPUs that each task asks for, as srun's -c: it is bound near its GPUs only where so many are there for every task
    /// (default: an even share of the node's)
    #[arg(short = 'c', long, value_name = "N")]
    #[arg(value_parser = request::number(1, MOST_CPUS))]
    cpus_per_task: Option<u32>,
    /// the allocation: positions in PCI order (0-3,5) or PCI addresses (default: all GPUs)
    #[arg(long, value_name = "LIST")]
    gpus: Option<String>,
    /// the release of Slurm by which a line of srun is judged (default: this node's, else 23.11 or later)
    #[arg(long, value_name = "RELEASE", requires = "line", value_parser = release)]
    slurm: Option<&'static Release>,
    /// a variable that the tasks have already; again for more
    ///
    /// Variables that choose a task's GPUs count: CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, ROCR_VISIBLE_DEVICES,
    /// HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK, ZE_FLAT_DEVICE_HIERARCHY and SLURM_STEP_GPUS.
    #[arg(long, value_name = "NAME=VALUE", action = Append)]
    variable: Vec<String>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
struct Output {
    /// the reasons too, below the table
    #[arg(short = 'v', long, conflicts_with_all = ["json", "env", "svg", "output"])]
    why: bool,
    /// the plan as versioned JSON, with all reasons
    #[arg(long, conflicts_with = "env")]
    json: bool,
    /// the plan as lines for a shell: a case for each local id
    #[arg(long, conflicts_with_all = ["svg", "output"])]
    env: bool,
    /// the variable that holds the local id in --env, as LOCAL_RANK of torchrun (default: SLURM_LOCALID)
    #[arg(long, value_name = "NAME", requires = "env", value_parser = variable_name)]
    by: Option<String>,
    #[command(flatten)]
    drawing: Drawing,
}

pub(super) fn run(options: &PlanCommandOptions, page: &mut Page) -> Result<(), Failure> {
    let PlanCommandOptions {
        node,
        step: of_step,
        request,
        output,
        line,
    } = options;
    let present = request::variables(&of_step.variable)?;
    let line = match line.is_empty() {
        true => None,
        false => Some(SrunLine::parse(line).map_err(misunderstood)?),
    };
    let mut request = request.clone();
    if let Some(line) = &line {
        let words = line.words().unwrap_or_default().split(',');
        let only_report = ["verbose", "dry-run"];
        let words = words.filter(|word| !only_report.contains(word));
        request.words = Some(words.collect::<Vec<_>>().join(","));
    }
    let (wish, topology, mut diagnostics) = request.asked(node)?;
    let (session, tasks) =
        Session::new(
            wish,
            (topology, Vec::new()),
            None,
            |wish, node, _| match &line {
                Some(line) => step_of_line(line, of_step.slurm, node, &mut diagnostics),
                None => step_of(of_step, &present, wish, node),
            },
        )?;
    let plan = &session.plan;
    let had = libraries::Evidence {
        present: &present,
        read: session.reader(),
    };
    diagnostics.extend(plan.diagnostics());
    let placed = tasks.iter().map(|task| {
        let mut placed = plan.task(task, had);
        let uses = uses::tell(plan, &mut placed, &present);
        (placed, uses)
    });
    let (placed, uses): (Vec<TaskPlan>, Vec<Vec<Use>>) = placed.unzip();
    let lacking = placed.iter().map(|TaskPlan { placement, .. }| {
        let shortfalls = placement.notes.shortfalls.clone();
        (placement.global_id, shortfalls)
    });
    let lacking: shortfalls::Shortfalls = lacking.collect();
    match output {
        Output { json: true, .. } => {
            let tasks = placed.iter().zip(&uses);
            let tasks = tasks.map(|(task, uses)| answers::task_of(plan, task, uses));
            page.exact(&answers::plan(plan, tasks.collect(), &diagnostics))
        }
        Output { drawing, .. } if drawing.is_wanted() => {
            drawing.draw(&drawing::of_plan(plan, &placed), page)?
        }
        Output { env: true, by, .. } => {
            let exports = exports(&placed, by.as_deref().unwrap_or("SLURM_LOCALID"));
            if exports.contains(" export UCX_NET_DEVICES=")
                && !plan.node.provenance.is_this_system()
            {
                tell(WITHOUT_INTERFACES);
            }
            page.exact(&exports);
        }
        Output { why, .. } => {
            table::print(plan, &placed, &uses, page);
            shortfalls::lines("task", &lacking, page);
            page.notes(diagnostics.iter().chain(&gpus::lint(&plan.node)));
            if *why {
                table::reasons(&placed, page);
            }
        }
    }
    shortfalls::verdict("plan", "task", plan, &lacking)
}

fn step_of_line(
    line: &SrunLine,
    release: Option<&Release>,
    node: &Topology,
    notes: &mut Vec<Diagnostic>,
) -> Result<(Step, Vec<Task>), Failure> {
    let here = || check::release().and_then(|text| of_version(&text));
    let release = release.or_else(here);
    let is_later = release.is_none_or(|of| (of.major, of.minor) >= (23, 11));
    let (step, tasks) = srun::plan(line, node, is_later)?;
    let nodes = counted((step.total_tasks / step.tasks) as usize, "node");
    let release = release.map_or("23.11 or later".to_string(), name);
    let mut said =
        format!("as by Slurm {release}, cons_tres, CR_Core and task/affinity on {nodes} alone");
    if line.words().is_none() {
        said += ", if `--nic-placement` were in the line";
    }
    notes.push(Diagnostic::new("srun", said));
    Ok((step, tasks))
}

fn release(text: &str) -> Result<&'static Release, &'static str> {
    of_version(text).ok_or("expected a release of Slurm, as 24.11")
}

fn step_of(
    of_step: &StepOptions,
    present: &Present,
    wish: &Wish,
    topology: &Topology,
) -> Result<(Step, Vec<Task>), Failure> {
    let named = |name| Some((name, present.get(name)?.clone()));
    let step_gpus = present.get(STEP_GPUS).cloned();
    let variables: BTreeMap<_, _> = VARIABLES.into_iter().filter_map(named).collect();
    let played = (step_gpus.is_some() || !variables.is_empty()).then(|| GpuGrant {
        variables,
        access: vec![Access::Unknown; topology.gpus.len()],
    });
    if played.is_some() && (of_step.gpus.is_some() || of_step.gpus_per_task.is_some()) {
        return Err(misunderstood(
            "`--variable` says whose the GPUs are: leave out `--gpus` and `--gpus-per-task`",
        ));
    }
    let gpus = request::gpus("--gpus", of_step.gpus.as_deref(), topology)?;
    let split = match &of_step.gpus_per_task {
        Some(split) => split.clone(),
        None if gpus.is_empty() || played.is_some() || wish.gpu == GpuUse::LocalId => GpuSplit::All,
        None => GpuSplit::Each(1),
    };
    let request = StepRequest {
        starter: Starter::Slurm,
        gpus,
        split,
        tasks: of_step.ntasks.or(played.as_ref().map(|_| 1)),
        cpus_per_task: of_step.cpus_per_task,
        cpus: topology.cpus(),
        // a plan is for a node without other jobs' tasks
        alone_on_node: true,
    };
    let (mut step, mut tasks) = request.step(topology).map_err(|bad| {
        match of_step.gpus_per_task.is_none() && bad.contains("GPU") {
            true => format!("{bad}: with `--gpus-per-task all` every task sees all"),
            false => bad,
        }
    })?;
    step.gpus = step_gpus.or(step.gpus);
    if let Some(played) = played {
        tasks.iter_mut().for_each(|task| task.gpus = played.clone());
    }
    Ok((step, tasks))
}

/// With a list of RDMA devices alone UCX fails for peers' IP addresses, and in a container without these devices (UCX 1.23; NIXL
/// 1.5.1).
const WITHOUT_INTERFACES: &str = "note: `UCX_NET_DEVICES` lacks the node's IP interfaces, which are known there alone: run this \
                                  on the node, or add them, as `,eth0,lo`";

fn gpus_per_task(text: &str) -> Result<GpuSplit, String> {
    if text == "all" {
        return Ok(GpuSplit::All);
    }
    let each = request::number(1, MAX_TASKS)(text).map(GpuSplit::Each);
    each.map_err(|expected| expected + ", or all")
}

fn variable_name(text: &str) -> Result<String, &'static str> {
    is_variable_name(text)
        .then(|| text.to_string())
        .ok_or("expected the name of a variable")
}

/// `case $SLURM_LOCALID in 0) export …`
fn exports(placed: &[TaskPlan], local_id: &str) -> String {
    let mut text = format!("case ${local_id} in\n");
    for task in placed {
        text += &format!("{})", task.placement.local_id);
        for variable in &task.variables {
            if let Change::Set(value) = &variable.change {
                let value = value.replace('\'', r"'\''");
                text += &format!(" export {}='{value}';", variable.name);
            }
        }
        text += ";\n";
    }
    text + "esac\n"
}
