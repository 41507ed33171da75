//! One task as lines, for programs without a reader of JSON.
#![forbid(unsafe_code)]

use nic_placement_core::placement::{Change, Variable};
use nic_placement_core::plan::{Plan, TaskPlan};

/// `name=value` for each fact.
pub(crate) fn task(plan: &Plan, task: &TaskPlan) -> String {
    let placement = &task.placement;
    let joined = |words: Vec<String>| words.join(",");
    let gpus = placement.gpus.iter().map(ToString::to_string).collect();
    let nics = placement
        .rails
        .iter()
        .map(|(rail, _)| plan.map.rail(*rail).to_string())
        .collect();
    let mems = &placement.mems;
    format!(
        "gpus={}\nnics={}\ncpus={}\nmems={mems}\nfails={}\n",
        joined(gpus),
        joined(nics),
        placement.cpus,
        task.fails()
    )
}

/// `NAME=VALUE` for what is set, `NAME` for what is to go.
pub(crate) fn environment(task: &TaskPlan) -> String {
    let line = |variable: &Variable| match &variable.change {
        // none of ours has a line's end in it, and half a value would be wrong
        Change::Set(value) if value.contains('\n') => None,
        Change::Set(value) => Some(format!("{}={value}\n", variable.name)),
        Change::Remove => Some(format!("{}\n", variable.name)),
        Change::KeepUsers(_) | Change::Leave => None,
    };
    task.variables.iter().filter_map(line).collect()
}
