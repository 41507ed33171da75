//! The plan as versioned JSON, for programs.
#![warn(missing_docs)]

use crate::explain::{Explain, Pair};
use crate::judge::uses::{Use, Whose};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::libraries::marker::Devices;
use nic_placement_core::placement::{Change, RailIndex, TaskPlacement, Variable};
use nic_placement_core::plan::{Plan, TaskPlan};
use nic_placement_core::policy::strictness::shortfalls;
use nic_placement_core::topology::{CpuSet, GpuIndex, PathType, PciAddress};
use serde::Serialize;
use std::collections::BTreeMap;

/// Grows when a field changes its meaning or goes, not with new fields.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
struct Head<'a> {
    format: &'static str,
    version: u32,
    machine: &'a str,
    source: String,
    policy: String,
}

impl Head<'_> {
    fn new<'a>(format: &'static str, plan: &'a Plan) -> Head<'a> {
        Head {
            format,
            version: VERSION,
            machine: &plan.node.name,
            source: plan.node.provenance.to_string(),
            policy: plan.map.policy.to_string(),
        }
    }
}

fn text(document: &impl Serialize) -> String {
    // JSON can hold all of these structures
    serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
}

#[derive(Serialize)]
struct PlanFile<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    gpus: Vec<NodeGpu<'a>>,
    excluded: Vec<Excluded<'a>>,
    tasks: Vec<Task<'a>>,
    diagnostics: Vec<String>,
}

#[derive(Serialize)]
struct NodeGpu<'a> {
    index: usize,
    address: Option<String>,
    numa_node: Option<u32>,
    nics: Vec<Nic<'a>>,
    reason: &'a str,
    pairs: Vec<PairOf<'a>>,
}

#[derive(Serialize)]
struct PairOf<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u8>,
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alone_mbps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_mbps: Option<u64>,
    users: usize,
    chosen: bool,
    reason: &'a str,
}

#[derive(Serialize)]
struct Explanation<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    gpus: Vec<ExplainedGpu<'a>>,
}

#[derive(Serialize)]
struct ExplainedGpu<'a> {
    index: usize,
    address: Option<String>,
    pairs: Vec<PairOf<'a>>,
    /// of a task with this GPU alone
    shortfalls: Vec<String>,
    fails: bool,
}

fn pair_of(pair: &Pair) -> PairOf<'_> {
    PairOf {
        name: &pair.nic,
        port: pair.port,
        path: pair.path.map(|path| path.to_string()),
        alone_mbps: pair.alone_mbps,
        share_mbps: pair.share_mbps,
        users: pair.users,
        chosen: pair.chosen,
        reason: &pair.why,
    }
}

/// The shortfalls of a task with this GPU alone, its CPUs aside.
pub fn shortfalls_of(plan: &Plan, gpu: GpuIndex) -> Vec<String> {
    let Plan {
        node, wish, map, ..
    } = plan;
    let task = TaskPlacement {
        gpus: vec![gpu],
        rails: map
            .gpu(gpu)
            .choices
            .iter()
            .map(|choice| (choice.rail, choice.path))
            .collect(),
        ..TaskPlacement::default()
    };
    shortfalls(node, map, &task, true, wish.strictness)
}

/// The reasons why these GPUs got their NICs and no others.
pub fn explanation(plan: &Plan, gpus: &[(GpuIndex, Vec<Pair>)]) -> String {
    text(&Explanation {
        head: Head::new("nic-placement explanation", plan),
        gpus: gpus
            .iter()
            .map(|(gpu, pairs)| {
                let shortfalls = shortfalls_of(plan, *gpu);
                ExplainedGpu {
                    index: gpu.0,
                    address: plan.node.gpu(*gpu).address.described(),
                    pairs: pairs.iter().map(pair_of).collect(),
                    fails: plan.is_strict() && !shortfalls.is_empty(),
                    shortfalls,
                }
            })
            .collect(),
    })
}

#[derive(Serialize)]
struct Excluded<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u8>,
    reason: &'a str,
}

#[derive(Serialize)]
struct Task<'a> {
    task: u32,
    gpus: Vec<Gpu>,
    nics: Vec<Nic<'a>>,
    cpus: String,
    mems: String,
    env: BTreeMap<&'a str, &'a str>,
    /// NICs that libraries will use by lists that are not ours
    uses: Vec<UseOf<'a>>,
    shortfalls: &'a [String],
    fails: bool,
    reasons: Vec<String>,
}

#[derive(Serialize)]
struct UseOf<'a> {
    library: &'a str,
    variable: &'a str,
    list_of: Whose,
    nics: Vec<UsedNic<'a>>,
}

#[derive(Serialize)]
struct UsedNic<'a> {
    name: &'a str,
    port: u8,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<&'a str>,
}

fn use_of(of: &Use) -> UseOf<'_> {
    let nics = of.ports.iter().map(|port| UsedNic {
        name: &port.rail.name,
        port: port.rail.port,
        path: port.path.to_string(),
        percent: port.percent,
        left_out: port.left_out.as_deref(),
    });
    UseOf {
        library: of.reader,
        variable: of.variable,
        list_of: of.whose,
        nics: nics.collect(),
    }
}

#[derive(Serialize)]
struct Gpu {
    index: usize,
    address: Option<String>,
}

#[derive(Serialize)]
struct Nic<'a> {
    name: &'a str,
    port: u8,
    address: Option<String>,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_mbps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    users: Option<usize>,
}

/// The plan of a node's tasks.  `cpus` and `mems` are kernel lists, empty if nothing is known or changed; `env` has the
/// variables that we set.
pub fn plan(
    plan: &Plan,
    tasks: &[TaskPlan],
    uses: &[Vec<Use>],
    diagnostics: &[Diagnostic],
) -> String {
    let Plan {
        node: topology,
        map: node,
        ..
    } = plan;
    let pairs: Vec<Vec<Pair>> = topology
        .gpu_indices()
        .map(|gpu| plan.explain(gpu))
        .collect();
    let gpus = node
        .numbered_gpus()
        .zip(&pairs)
        .map(|((gpu, placement), pairs)| NodeGpu {
            index: gpu.0,
            address: topology.gpu(gpu).address.described(),
            numa_node: placement.numa_node,
            nics: placement
                .choices
                .iter()
                .map(|choice| Nic {
                    share_mbps: choice.share_mbps,
                    users: Some(choice.users),
                    ..nic_of(plan, choice.rail, choice.path)
                })
                .collect(),
            reason: &placement.reason,
            pairs: pairs.iter().map(pair_of).collect(),
        });
    let tasks = tasks
        .iter()
        .zip(uses)
        .map(|(of, uses)| task_of(plan, of, uses));
    text(&PlanFile {
        head: Head::new("nic-placement plan", plan),
        gpus: gpus.collect(),
        excluded: node
            .excluded
            .iter()
            .map(|excluded| Excluded {
                name: &excluded.name,
                port: excluded.port,
                reason: &excluded.why,
            })
            .collect(),
        tasks: tasks.collect(),
        diagnostics: diagnostics.iter().map(ToString::to_string).collect(),
    })
}

fn nic_of(plan: &Plan, rail: RailIndex, path: PathType) -> Nic<'_> {
    let rail = plan.map.rail(rail);
    let address = plan
        .node
        .nic(rail.nic)
        .address
        .and_then(PciAddress::described);
    Nic {
        name: &rail.name,
        port: rail.port,
        address,
        path: path.to_string(),
        share_mbps: None,
        users: None,
    }
}

fn task_of<'a>(plan: &'a Plan, of: &'a TaskPlan, uses: &'a [Use]) -> Task<'a> {
    let TaskPlan {
        placement: task,
        variables,
        ..
    } = of;
    let gpu = |&gpu: &GpuIndex| Gpu {
        index: gpu.0,
        address: plan.node.gpu(gpu).address.described(),
    };
    let because = variables
        .iter()
        .map(|variable| format!("{}: {}", variable.name, variable.why));
    Task {
        task: task.global_id,
        gpus: task.gpus.iter().map(gpu).collect(),
        nics: task
            .rails
            .iter()
            .map(|(rail, path)| nic_of(plan, *rail, *path))
            .collect(),
        cpus: task.cpus.to_string(),
        mems: task.mems.to_string(),
        env: set_by(variables),
        uses: uses.iter().map(use_of).collect(),
        shortfalls: &task.notes.shortfalls,
        fails: of.fails(),
        reasons: task.notes.reasons.iter().cloned().chain(because).collect(),
    }
}

fn set_by<'a>(variables: &'a [Variable]) -> BTreeMap<&'a str, &'a str> {
    variables
        .iter()
        .filter_map(|variable| match &variable.change {
            Change::Set(value) => Some((variable.name.as_ref(), value.as_str())),
            Change::KeepUsers(_) | Change::Remove | Change::Leave => None,
        })
        .collect()
}

fn removed<'a>(variables: &'a [Variable]) -> Vec<&'a str> {
    variables
        .iter()
        .filter(|variable| variable.change == Change::Remove)
        .map(|variable| variable.name.as_ref())
        .collect()
}

#[derive(Serialize)]
struct OneTask<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    #[serde(flatten)]
    task: Task<'a>,
    diagnostics: Vec<String>,
}

/// One task of a plan, for its launcher: the fields of the plan's `tasks`.
pub fn task(plan: &Plan, task: &TaskPlan, uses: &[Use], diagnostics: &[Diagnostic]) -> String {
    text(&OneTask {
        head: Head::new("nic-placement task", plan),
        task: task_of(plan, task, uses),
        diagnostics: diagnostics.iter().map(ToString::to_string).collect(),
    })
}

#[derive(Serialize)]
struct Environment<'a> {
    format: &'static str,
    version: u32,
    task: u32,
    set: BTreeMap<&'a str, &'a str>,
    unset: Vec<&'a str>,
    reasons: BTreeMap<&'a str, &'a str>,
}

/// The changes to one task's variables; those that are in neither list stay as they are.
pub fn environment(task: &TaskPlan) -> String {
    let variables = &task.variables;
    text(&Environment {
        format: "nic-placement environment",
        version: VERSION,
        task: task.placement.global_id,
        set: set_by(variables),
        unset: removed(variables),
        reasons: variables
            .iter()
            .map(|of| (of.name.as_ref(), of.why.as_ref()))
            .collect(),
    })
}

#[derive(Serialize)]
struct Process<'a> {
    format: &'static str,
    version: u32,
    gpus: Vec<String>,
    nics: Vec<String>,
    cpus: String,
    /// NUMA nodes; empty if the memory policy stays
    mems: String,
    /// true if memory comes from these nodes alone, rather than with preference
    fence: bool,
    set: BTreeMap<&'a str, &'a str>,
    unset: Vec<&'a str>,
    shortfalls: &'a [String],
    /// true if a process that cannot have all of this fails
    strict: bool,
    fails: bool,
    reasons: Vec<String>,
}

/// The changes for the process that asks, with notes about how it was found.
pub fn process(plan: &Plan, of: &TaskPlan, notes: Vec<String>) -> String {
    let Task {
        gpus,
        nics,
        cpus,
        mems,
        shortfalls,
        fails,
        reasons,
        ..
    } = task_of(plan, of, &[]);
    text(&Process {
        format: "nic-placement process",
        version: VERSION,
        gpus: gpus
            .into_iter()
            .map(|gpu| gpu.address.unwrap_or(gpu.index.to_string()))
            .collect(),
        nics: nics
            .iter()
            .map(|nic| format!("{}:{}", nic.name, nic.port))
            .collect(),
        cpus,
        mems,
        fence: of.placement.fences && !of.placement.mems.is_empty(),
        set: set_by(&of.variables),
        unset: removed(&of.variables),
        shortfalls,
        strict: plan.is_strict(),
        fails,
        reasons: [notes, reasons].concat(),
    })
}

/// The answer for a process that stays as it is: what it has, and the reason.
pub fn unchanged(has: &Devices, cpus: &CpuSet, why: String) -> String {
    let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    text(&Process {
        format: "nic-placement process",
        version: VERSION,
        gpus: texts(&has.gpus),
        nics: texts(&has.nics),
        cpus: cpus.to_string(),
        mems: String::new(),
        fence: false,
        set: BTreeMap::new(),
        unset: Vec::new(),
        shortfalls: &[],
        strict: false,
        fails: false,
        reasons: vec![why],
    })
}
