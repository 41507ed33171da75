//! Reports for people: one aligned line for each task.
#![forbid(unsafe_code)]

use crate::libraries::uses::Use;
use crate::placement::{Change, NodePlacement, RailIndex, TaskPlacement, Variable};
use crate::topology::{GpuIndex, Topology};

/// What is told of a task.
pub struct TaskFacts<'t> {
    /// its GPUs, NICs, CPUs and memory
    pub placement: &'t TaskPlacement,
    /// the changes to its variables
    pub variables: &'t [Variable<'t>],
    /// what libraries will use by lists that are not ours
    pub uses: &'t [Use],
}

/// A task's line under `verbose`, and in the tool's plans.
///
/// Columns are as wide as the widest entry that the node's map can give a task with one GPU, so lines from
/// separate tasks align.
pub(crate) fn task_line(
    topology: &Topology,
    node: &NodePlacement,
    node_name: &str,
    tasks: u32,
    TaskFacts { placement: task, variables, uses }: TaskFacts,
) -> String {
    let gpus = match task.gpus.as_slice() {
        [] => "no gpu".to_string(),
        [gpu] => gpu_cell(topology, *gpu),
        many => format!("gpus {}", ranges(many)),
    };
    let rail = |&(rail, path): &(RailIndex, _)| format!("{} {path}", node.rail(rail));
    let rails = match task.rails.as_slice() {
        [] => "no nic".to_string(),
        [one] => format!("nic {}", rail(one)),
        many => format!("nics {}", many.iter().map(rail).collect::<Vec<_>>().join(" ")),
    };
    let others = uses.iter().filter(|of| !of.is_as_planned());
    let rails = others.fold(rails, |rails, of| format!("{rails}, but {}: {of}", of.reader));
    let gpu_width = topology.gpu_indices().map(|gpu| gpu_cell(topology, gpu).len());
    let rail_width = node.gpus.iter().flat_map(|gpu| gpu.choices.first());
    let rail_width = rail_width.map(|choice| 4 + rail(&(choice.rail, choice.path)).len());
    let cpu_width = topology.numa_nodes.iter().map(|node| node.cpus.to_string().len());
    let mems = task.mems.nodes().map_or("any".to_string(), ToString::to_string);
    let cpus = match task.cpus.cpus() {
        unknown if unknown.is_empty() => "unknown".to_string(),
        cpus => cpus.to_string(),
    };
    let reasons = reasons(task, variables);
    let set = variables.iter().filter(|variable| matches!(variable.change, Change::Set(_)));
    let set: Vec<&str> = set.map(|variable| variable.name.as_ref()).collect();
    format!(
        "task {:>digits$} {node_name}  {gpus:<gpu_width$}  {rails:<rail_width$}  cpus {cpus:<cpu_width$}  mem {mems:<3}  set {}  ({})",
        task.global_id,
        if set.is_empty() { "nothing".to_string() } else { set.join(" ") },
        reasons.join("; "),
        digits = tasks.saturating_sub(1).to_string().len(),
        gpu_width = gpu_width.max().unwrap_or(0),
        rail_width = rail_width.max().unwrap_or(0),
        cpu_width = cpu_width.max().unwrap_or(0),
    )
}

/// What a step would get on its node: its GPUs, as far as Slurm names them, with their NICs, and the NICs left out.
pub(crate) fn step_line(topology: &Topology, node: &NodePlacement, tasks: u32, gpus: &[GpuIndex]) -> String {
    let pair = |gpu: &GpuIndex| {
        let choices = node.gpu(*gpu).choices.iter();
        let nics: Vec<String> =
            choices.map(|choice| format!("{} {}", node.rail(choice.rail), choice.path)).collect();
        format!("gpu {gpu} {}", if nics.is_empty() { "no nic".to_string() } else { nics.join(" ") })
    };
    let pairs: Vec<String> = gpus.iter().map(pair).collect();
    let pairs = if pairs.is_empty() { "no gpu".to_string() } else { pairs.join(", ") };
    let mut left_out: Vec<&str> = node.excluded.iter().map(|excluded| excluded.name.as_ref()).collect();
    left_out.dedup();
    let left_out = if left_out.is_empty() { "none".to_string() } else { left_out.join(" ") };
    format!(
        "{tasks} task{}: {pairs}; of the node {} GPUs, {} rails, policy `{}`, left out: {left_out}",
        if tasks == 1 { "" } else { "s" },
        topology.gpus.len(),
        node.rails.len(),
        node.policy
    )
}

/// The reasons for a task's placement, one sentence for each answer.
pub fn reasons(task: &TaskPlacement, variables: &[Variable]) -> Vec<String> {
    // only an unset variable needs a reason
    let not_set = variables.iter().filter(|variable| !matches!(variable.change, Change::Set(_)));
    let not_set = not_set.map(|variable| match variable.change {
        Change::KeepUsers(_) => format!("{}: {}", variable.name, variable.why),
        _ => format!("{} not set: {}", variable.name, variable.why),
    });
    task.reasons.iter().cloned().chain(not_set).collect()
}

/// `gpu 3 0000:61:00.0`
fn gpu_cell(topology: &Topology, gpu: GpuIndex) -> String {
    match topology.gpu(gpu).address {
        invented if invented.is_invented() => format!("gpu {gpu}"),
        address => format!("gpu {gpu} {address}"),
    }
}

/// `0-3,7`
fn ranges(gpus: &[GpuIndex]) -> String {
    gpus.iter().filter_map(|gpu| u32::try_from(gpu.0).ok()).collect::<crate::topology::Bitmap>().to_string()
}
