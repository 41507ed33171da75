//! Text for users and admins: a table row with reasons for each task, and one line for a step.

use super::{Plan, TaskPlan};
use crate::diagnostic::counted;
use crate::libraries::{Evidence, Present, marker};
use crate::placement::{Bind, Change, RailIndex, Variable};
use crate::step::{Task, TaskGpus};
use crate::topology::{Bitmap, GpuIndex, Topology};
use crate::{bind, gpus};

impl TaskPlan<'_> {
    /// The task's lines under `verbose`: placement, variables set, reasons. `others` names
    /// libraries that use other NICs than planned, for the NIC column.
    ///
    /// Each line begins with task and node, since srun interleaves the lines of tasks.
    pub fn lines(&self, node_name: &str, others: &str) -> Vec<String> {
        let digits = self
            .plan
            .step
            .total_tasks
            .saturating_sub(1)
            .to_string()
            .len();
        let head = format!("task {:>digits$} {node_name}", self.placement.global_id);
        let set = format!("set {}", or(self.names_set().join(" "), "nothing"));
        let below = [set]
            .into_iter()
            .chain(self.reasons())
            .map(|line| format!("{head}    {line}"));
        [format!("{head}  {}", self.row(others))]
            .into_iter()
            .chain(below)
            .collect()
    }

    fn names_set(&self) -> Vec<String> {
        let set = self
            .variables
            .iter()
            .filter(|variable| matches!(variable.change, Change::Set(_)));
        set.map(|variable| variable.name.to_string()).collect()
    }

    /// Column widths depend on the node alone, so that rows printed by separate tasks align.
    fn row(&self, others: &str) -> String {
        let Plan {
            node: topology,
            map,
            ..
        } = self.plan;
        let task = &self.placement;
        let gpus = match task.gpus.as_slice() {
            [] => "no gpu".to_string(),
            [gpu] => gpu_cell(topology, *gpu),
            many => format!(
                "gpus {}",
                many.iter()
                    .filter_map(|gpu| u32::try_from(gpu.0).ok())
                    .collect::<Bitmap>()
            ),
        };
        let rail = |&(rail, path): &(RailIndex, _)| format!("{} {path}", map.rail(rail));
        let mut rails = match task.rails.as_slice() {
            [] => no_nic(topology).to_string(),
            [one] => format!("nic {}", rail(one)),
            many => format!(
                "nics {}",
                many.iter().map(rail).collect::<Vec<_>>().join(" ")
            ),
        };
        rails += others;
        let gpu_width = topology
            .gpu_indices()
            .map(|gpu| gpu_cell(topology, gpu).len());
        let best = map.gpus.iter().flat_map(|gpu| gpu.choices.first());
        let rail_width = best.map(|choice| "nic ".len() + rail(&(choice.rail, choice.path)).len());
        let cpu_width = topology
            .numa_nodes
            .iter()
            .map(|node| node.cpus.to_string().len());
        let mems = match task.notes.memory_stays {
            true => "any".to_string(),
            false => or(task.mems.to_string(), "any"),
        };
        let cpus = or(task.cpus.to_string(), "unknown");
        format!(
            "{gpus:<gpu_width$}  {rails:<rail_width$}  cpus {cpus:<cpu_width$}  mem {mems}",
            gpu_width = gpu_width.max().unwrap_or(0),
            rail_width = rail_width.max().unwrap_or(0),
            cpu_width = cpu_width.max().unwrap_or(0),
        )
    }

    pub fn reasons(&self) -> Vec<String> {
        let not_set = self
            .variables
            .iter()
            .filter_map(|variable| match variable.change {
                Change::Set(_) => None,
                Change::KeepUsers(_) => Some(format!("{}: {}", variable.name, variable.why)),
                _ => Some(format!("{} not set: {}", variable.name, variable.why)),
            });
        let reasons = self.placement.notes.reasons.iter();
        reasons.cloned().chain(not_set).collect()
    }

    /// A line with the variables that keep the user's values, and the command that checks them;
    /// `None` without such variables.
    pub fn judge(&self) -> Option<String> {
        let is_users =
            |of: &&Variable| matches!(of.change, Change::KeepUsers(_)) && of.name != marker::NAME;
        let names: Vec<&str> = self
            .variables
            .iter()
            .filter(is_users)
            .map(|of| of.name.as_ref())
            .collect();
        let names = Some(names.join(" ")).filter(|names| !names.is_empty())?;
        Some(format!(
            "the user's own {names}: `nic-placement check --only variable` in the program's place judges it"
        ))
    }
}

impl Plan {
    /// The admin's line under `observe`, for the GPUs in `SLURM_STEP_GPUS`. `present`: the user's
    /// variables.
    pub fn observed(&self, present: &Present) -> String {
        let Plan {
            node,
            step,
            map,
            wish,
            ..
        } = self;
        let gpus = gpus::of_the_step(node, step);
        let pair = |gpu: &GpuIndex| {
            let choices = map.gpu(*gpu).choices.iter();
            let nics = choices.map(|choice| format!("{} {}", map.rail(choice.rail), choice.path));
            let nics = nics.collect::<Vec<_>>().join(" ");
            format!("gpu {gpu} {}", or(nics, no_nic(node)))
        };
        let pairs: Vec<String> = gpus.iter().map(pair).collect();
        let mut left_out: Vec<&str> = map.excluded.iter().map(|of| of.name.as_ref()).collect();
        left_out.dedup();
        let binds = step.cpu_bind.is_none() && step.binder.is_none() && wish.bind != Bind::None;
        let near = bind::nodes_of(node, &gpus).filter(|nodes| binds && !nodes.is_empty());
        let near = near.map_or(String::new(), |nodes| bind::numa_nodes(&nodes));
        let first = gpus.into_iter().take(1).collect();
        let task = Task {
            known: Some(TaskGpus::new(first, "")),
            ..Task::default()
        };
        let read = &|_: &str| None;
        let mut names = self.task(&task, Evidence { present, read }).names_set();
        names.retain(|name| name != marker::NAME);
        format!(
            "{}: {}; of the node {}, {}, policy `{}`, left out: {}; bind: {}; env: {}",
            counted(step.tasks as usize, "task"),
            or(pairs.join(", "), "no gpu"),
            counted(node.gpus.len(), "GPU"),
            counted(map.rails.len(), "rail"),
            map.policy,
            or(left_out.join(" "), "none"),
            or(near, "nothing"),
            or(names.join(" "), "nothing"),
        )
    }
}

fn no_nic(topology: &Topology) -> &'static str {
    if topology.is_left_to_libfabric() {
        "nic by libfabric"
    } else {
        "no nic"
    }
}

fn gpu_cell(topology: &Topology, gpu: GpuIndex) -> String {
    match topology.gpu(gpu).address {
        invented if invented.is_invented() => format!("gpu {gpu}"),
        address => format!("gpu {gpu} {address}"),
    }
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() {
        otherwise.to_string()
    } else {
        text
    }
}
