//! The plan as versioned JSON, for programs.
#![warn(missing_docs)]

use crate::explain::pairs;
use crate::judge::uses::Use;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::libraries::marker::Devices;
use nic_placement_core::placement::{Change, RailIndex, TaskPlacement, Variable};
use nic_placement_core::plan::{Plan, TaskPlan};
use nic_placement_core::policy::strictness::shortfalls;
use nic_placement_core::topology::{CpuSet, GpuIndex, PathType, PciAddress};
use serde::Serialize;
use serde_json::{Value, json};

/// Grows when a field changes its meaning or goes, not with new fields.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
struct Answer {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    of_plan: Option<Value>,
    #[serde(flatten)]
    fields: Value,
}

fn text(format: &'static str, plan: Option<&Plan>, fields: Value) -> String {
    let answer = Answer {
        format,
        version: VERSION,
        of_plan: plan.map(|plan| {
            json!({
                "machine": plan.node.name,
                "source": plan.node.provenance.to_string(),
                "policy": plan.map.policy.to_string(),
            })
        }),
        fields,
    };
    // JSON can hold all of this
    serde_json::to_string_pretty(&answer).unwrap_or_default() + "\n"
}

/// The shortfalls of a task with this GPU alone, its CPUs aside.
pub fn shortfalls_of(plan: &Plan, gpu: GpuIndex) -> Vec<String> {
    let choices = plan.map.gpu(gpu).choices.iter();
    let task = TaskPlacement {
        gpus: vec![gpu],
        rails: choices.map(|choice| (choice.rail, choice.path)).collect(),
        ..TaskPlacement::default()
    };
    shortfalls(&plan.node, &plan.map, &task, true, plan.wish.strictness)
}

/// The reasons why these GPUs got their NICs and no others; `shortfalls` are those of a task with this GPU alone.
pub fn explanation(plan: &Plan, gpus: &[GpuIndex]) -> String {
    let of_gpu = |&gpu: &GpuIndex| {
        let shortfalls = shortfalls_of(plan, gpu);
        with(
            gpu_of(plan, gpu),
            json!({
                "pairs": pairs(&plan.node, &plan.map, &plan.wish, gpu),
                "fails": plan.is_strict() && !shortfalls.is_empty(),
                "shortfalls": shortfalls,
            }),
        )
    };
    let gpus: Vec<Value> = gpus.iter().map(of_gpu).collect();
    text(
        "nic-placement explanation",
        Some(plan),
        json!({ "gpus": gpus }),
    )
}

/// The plan of a node's tasks, each by [`task_of`].
pub fn plan(plan: &Plan, tasks: Value, diagnostics: &[Diagnostic]) -> String {
    let gpus = plan.map.numbered_gpus().map(|(gpu, placement)| {
        let nics = placement.choices.iter().map(|choice| {
            let nic = nic_of(plan, choice.rail, choice.path);
            let nic = with(nic, json!({ "users": choice.users }));
            with_some(nic, "share_mbps", choice.share_mbps)
        });
        with(
            gpu_of(plan, gpu),
            json!({
                "numa_node": placement.numa_node,
                "nics": nics.collect::<Value>(),
                "reason": placement.reason,
                "pairs": pairs(&plan.node, &plan.map, &plan.wish, gpu),
            }),
        )
    });
    let excluded = plan.map.excluded.iter().map(|of| {
        let nic = json!({ "name": of.name.as_str(), "reason": of.why });
        with_some(nic, "port", of.port)
    });
    let fields = json!({
        "gpus": gpus.collect::<Value>(),
        "excluded": excluded.collect::<Value>(),
        "tasks": tasks,
        "diagnostics": texts(diagnostics),
    });
    text("nic-placement plan", Some(plan), fields)
}

fn with(mut fields: Value, mut more: Value) -> Value {
    if let (Some(fields), Some(more)) = (fields.as_object_mut(), more.as_object_mut()) {
        fields.append(more);
    }
    fields
}

fn with_some(mut fields: Value, name: &str, value: Option<impl Into<Value>>) -> Value {
    if let Some(value) = value {
        fields[name] = value.into();
    }
    fields
}

fn texts(of: &[impl ToString]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

fn gpu_of(plan: &Plan, gpu: GpuIndex) -> Value {
    json!({ "index": gpu.0, "address": plan.node.gpu(gpu).address.described() })
}

fn nic_of(plan: &Plan, rail: RailIndex, path: PathType) -> Value {
    let rail = plan.map.rail(rail);
    let address = plan.node.nic(rail.nic).address;
    json!({
        "name": rail.name.as_str(),
        "port": rail.port,
        "address": address.and_then(PciAddress::described),
        "path": path,
    })
}

/// `cpus` and `mems` are kernel lists, empty if nothing is known or changed; `env` has the variables that we set; `uses` the NICs
/// that libraries will use by lists that are not ours.
pub fn task_of(plan: &Plan, of: &TaskPlan, uses: &[Use]) -> Value {
    let task = &of.placement;
    let gpus = task.gpus.iter().map(|gpu| gpu_of(plan, *gpu));
    let nics = task.rails.iter();
    json!({
        "task": task.global_id,
        "gpus": gpus.collect::<Value>(),
        "nics": nics.map(|(rail, path)| nic_of(plan, *rail, *path)).collect::<Value>(),
        "cpus": task.cpus.to_string(),
        "mems": task.mems.to_string(),
        "env": set_by(&of.variables),
        "uses": uses,
        "shortfalls": task.notes.shortfalls,
        "fails": of.fails(),
        "reasons": reasons(of),
    })
}

fn reasons(of: &TaskPlan) -> Vec<String> {
    let because = of.variables.iter();
    let because = because.map(|variable| format!("{}: {}", variable.name, variable.why));
    let own = of.placement.notes.reasons.iter().cloned();
    own.chain(because).collect()
}

fn set_by(variables: &[Variable]) -> Value {
    let set = |of: &Variable| match &of.change {
        Change::Set(value) => Some((of.name.to_string(), value.clone())),
        Change::KeepUsers(_) | Change::Remove | Change::Leave => None,
    };
    variables.iter().filter_map(set).collect()
}

fn removed(variables: &[Variable]) -> Value {
    let removed = variables.iter().filter(|of| of.change == Change::Remove);
    removed.map(|variable| variable.name.as_ref()).collect()
}

/// One task of a plan, for its launcher: the fields of the plan's `tasks`.
pub fn task(plan: &Plan, task: &TaskPlan, uses: &[Use], diagnostics: &[Diagnostic]) -> String {
    let found = json!({ "diagnostics": texts(diagnostics) });
    text(
        "nic-placement task",
        Some(plan),
        with(task_of(plan, task, uses), found),
    )
}

/// The changes to one task's variables; those that are in neither list stay as they are.
pub fn environment(task: &TaskPlan) -> String {
    let reasons = task.variables.iter();
    let reasons = reasons.map(|of| (of.name.to_string(), of.why.as_ref()));
    let fields = json!({
        "task": task.placement.global_id,
        "set": set_by(&task.variables),
        "unset": removed(&task.variables),
        "reasons": reasons.collect::<Value>(),
    });
    text("nic-placement environment", None, fields)
}

/// The changes for the process that asks, with notes about how it was found.  `mems` is empty if the memory policy stays; with
/// `fence` memory comes from these nodes alone; a `strict` process fails if it cannot have all of this.
pub fn process(plan: &Plan, of: &TaskPlan, notes: Vec<String>) -> String {
    let task = &of.placement;
    let gpu = |gpu: &GpuIndex| {
        plan.node
            .gpu(*gpu)
            .address
            .described()
            .unwrap_or(gpu.to_string())
    };
    let nic = |(rail, _): &(RailIndex, PathType)| plan.map.rail(*rail).to_string();
    let fields = json!({
        "gpus": task.gpus.iter().map(gpu).collect::<Value>(),
        "nics": task.rails.iter().map(nic).collect::<Value>(),
        "cpus": task.cpus.to_string(),
        "mems": task.mems.to_string(),
        "fence": task.fences && !task.mems.is_empty(),
        "set": set_by(&of.variables),
        "unset": removed(&of.variables),
        "shortfalls": task.notes.shortfalls,
        "strict": plan.is_strict(),
        "fails": of.fails(),
        "reasons": notes.into_iter().chain(reasons(of)).collect::<Value>(),
    });
    text("nic-placement process", None, fields)
}

/// The answer for a process that stays as it is: what it has, and the reason.
pub fn unchanged(has: &Devices, cpus: &CpuSet, why: String) -> String {
    let fields = json!({
        "gpus": has.gpus,
        "nics": has.nics,
        "cpus": cpus.to_string(),
        "mems": "",
        "fence": false,
        "set": {},
        "unset": [],
        "shortfalls": [],
        "strict": false,
        "fails": false,
        "reasons": [why],
    });
    text("nic-placement process", None, fields)
}
