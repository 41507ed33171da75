//! `nic-placement plan`: what the tasks of a step would get, by the same plan as the plugin's.
#![forbid(unsafe_code)]

use super::evidence::Evidence;
use super::{Failure, Node};
use nic_placement_core::config::{Admin, Words, settle};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::placement::{Change, Variable};
use nic_placement_core::plan::{Plan, TaskPlan, Wish, json};
use nic_placement_core::policy::identity;
use nic_placement_core::render::{self, Present};
use nic_placement_core::step::{Access, GpuGrant, Memory, Step, Task};
use nic_placement_core::topology::{Bitmap, GpuIndex, GpuVendor, PciAddress, Topology};
use std::collections::BTreeMap;
use std::io::Write;

/// Tasks on one node, at most: Slurm's own bound is the number of CPUs times `MaxTasksPerNode` (512 by default).
const MAX_TASKS: u32 = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    Env,
}

struct Request {
    node: Node,
    tasks: Option<u32>,
    gpus_per_task: Option<u32>,
    gpus: Option<String>,
    evidence: Evidence,
    asked: Asked,
    /// variables that the tasks have
    present: Present,
    format: Format,
}

/// What a plan is asked for beside its tasks: the words of the option, and the admin's arguments that change a map.
pub(super) struct Asked {
    pub(super) wish: Wish,
    /// what is odd about the admin's arguments
    doubts: Vec<Diagnostic>,
}

impl Default for Asked {
    fn default() -> Asked {
        Asked {
            wish: Wish {
                settings: settle(&Words::default(), None, Some(&Words::default())),
                // a plan binds nobody, so it may say what it would bind on any machine
                admin: Admin { trust_topology: true, ..Admin::default() },
            },
            doubts: Vec::new(),
        }
    }
}

impl Asked {
    /// `--words`, and the admin's arguments.
    pub(super) fn take(&mut self, name: &str, value: &str) -> Result<(), lexopt::Error> {
        if name == "words" {
            let words = Words::parse(value).map_err(|bad| lexopt::Error::from(bad.to_string()))?;
            self.wish.settings = settle(&Words::default(), None, Some(&words));
            if !self.wish.settings.enabled || words.help || words.verbose || words.dry_run {
                let expected = "expected a policy, strictness or binding, as `rail,strict`";
                return Err(lexopt::Error::from(format!("`--words {value}` plans nothing: {expected}")));
            }
            return Ok(());
        }
        let doubts = self.wish.admin.add(&format!("{name}={value}")).map_err(lexopt::Error::from)?;
        self.doubts.extend(doubts);
        Ok(())
    }
}

/// `1 GPU`, `8 GPUs`
pub(super) fn counted(gpus: usize) -> String {
    if gpus == 1 { "1 GPU".to_string() } else { format!("{gpus} GPUs") }
}

pub(super) fn run(arguments: lexopt::Parser, output: &mut Vec<u8>) -> Result<(), Failure> {
    let request = parse(arguments)?;
    let (topology, mut diagnostics) = request.node.read()?;
    let tasks = tasks(&request, &topology)?;
    let count = tasks.len() as u32;
    let step = Step {
        node: topology.name.clone(),
        tasks: count,
        total_tasks: count,
        gpus: match request.evidence.step_gpus.clone() {
            Some(list) => Some(list),
            None => {
                let gpus = allocation("--gpus", request.gpus.as_deref(), &topology)?;
                (!gpus.is_empty()).then(|| identity::slurms_numbers(&topology, &gpus))
            }
        },
        // a plan is for a node that nobody else uses
        alone_on_node: true,
        ..Step::default()
    };
    // files of this node say nothing about another one: every configuration is empty, every file of a `set=` is there
    let read = |_: &str| Some(String::new());
    let plan = Plan::new(topology, request.asked.wish, step, &read);
    let evidence = render::Evidence { present: &request.present, read: &read };
    diagnostics.extend(request.asked.doubts.into_iter().chain(plan.diagnostics()));
    let placed: Vec<TaskPlan> = tasks.iter().map(|task| plan.task(task, evidence)).collect();
    match request.format {
        Format::Json => output.write_all(json::plan(&plan, &placed, &diagnostics).as_bytes())?,
        Format::Env => exports(&placed, output)?,
        Format::Text => {
            report(&plan, &placed, output)?;
            for diagnostic in diagnostics.iter().chain(&identity::lint(&plan.node)) {
                writeln!(output, "note: {diagnostic}")?;
            }
        }
    }
    Ok(())
}

fn parse(mut arguments: lexopt::Parser) -> Result<Request, Failure> {
    use lexopt::prelude::*;
    let mut request = Request {
        node: Node::default(),
        tasks: None,
        gpus_per_task: None,
        gpus: None,
        evidence: Evidence::default(),
        asked: Asked::default(),
        present: Present::new(),
        format: Format::Text,
    };
    while let Some(argument) = arguments.next()? {
        match argument {
            Long(name @ ("machine" | "topology")) => {
                let name = name.to_string();
                request.node.take(&name, arguments.value()?.string()?)?;
            }
            Long("ntasks") => request.tasks = Some(arguments.value()?.parse()?),
            Long("gpus-per-task") => request.gpus_per_task = Some(arguments.value()?.parse()?),
            Long("gpus") => request.gpus = Some(arguments.value()?.string()?),
            Long("visible") => request.evidence.visible(&arguments.value()?.string()?)?,
            Long("may-open") => request.evidence.may_open = Some(arguments.value()?.string()?),
            Long("variable") => {
                let text = arguments.value()?.string()?;
                let Some((name, value)) = text.split_once('=') else {
                    return Err(
                        lexopt::Error::from(format!("`--variable {text}`: expected NAME=VALUE")).into()
                    );
                };
                request.present.insert(name.to_string(), value.to_string());
            }
            Long(name @ ("words" | "include" | "exclude" | "rails" | "set" | "fabric")) => {
                let name = name.to_string();
                request.asked.take(&name, &arguments.value()?.string()?)?;
            }
            Long("json") => request.format = Format::Json,
            Long("env") => request.format = Format::Env,
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(request)
}

/// The tasks as Slurm would start them: each with its own GPUs, or all with all.
fn tasks(request: &Request, topology: &Topology) -> Result<Vec<Task>, Failure> {
    let played = request.evidence.grant(topology)?;
    if played.is_some() && (request.gpus.is_some() || request.gpus_per_task.is_some()) {
        return Err(lexopt::Error::from(
            "`--visible` and `--may-open` say whose the GPUs are: leave out `--gpus` and `--gpus-per-task`",
        )
        .into());
    }
    let gpus = allocation("--gpus", request.gpus.as_deref(), topology)?;
    let default = match request.gpus_per_task {
        _ if played.is_some() => 1,
        Some(each @ 1..) => gpus.len() as u32 / each,
        _ => gpus.len() as u32,
    };
    let count = request.tasks.unwrap_or(default.max(1));
    if count == 0 || count > MAX_TASKS {
        return Err(format!("`--ntasks {count}`: expected 1 to {MAX_TASKS}").into());
    }
    if let Some(each) = request.gpus_per_task {
        let wanted = u64::from(count) * u64::from(each);
        if wanted > gpus.len() as u64 {
            return Err(format!(
                "{count} tasks of {each} GPUs need {wanted} GPUs, the allocation has {}",
                gpus.len()
            )
            .into());
        }
    }
    let cpus = topology.cpus();
    Ok((0..count)
        .map(|id| {
            let mine: Vec<GpuIndex> = match request.gpus_per_task {
                Some(each) => gpus.iter().copied().skip((id * each) as usize).take(each as usize).collect(),
                None => gpus.clone(),
            };
            Task {
                local_id: id,
                global_id: id,
                gpus: played.clone().unwrap_or_else(|| grant(topology, &mine)),
                denied_nics: Vec::new(),
                cpus: cpus.clone(),
                step_cpus: cpus.clone(),
                // no task has cores of its own before we look
                masks: Vec::new(),
                gpu_bind: request.gpus_per_task.map(|each| format!("gpu:per_task:{each}")),
                memory: Memory::default(),
            }
        })
        .collect())
}

/// Evidence that says: exactly these GPUs.
fn grant(topology: &Topology, gpus: &[GpuIndex]) -> GpuGrant {
    let number_of = |vendor: GpuVendor, gpu: GpuIndex| {
        let in_pci_order = topology.gpus[..gpu.0].iter().filter(|other| other.vendor == vendor).count();
        topology.gpu(gpu).runtime_index.map_or(in_pci_order, |index| index as usize)
    };
    let mut variables: BTreeMap<&'static str, String> = BTreeMap::new();
    for &gpu in gpus {
        let vendor = topology.gpu(gpu).vendor;
        let list = variables.entry(vendor.list_variable()).or_default();
        if !list.is_empty() {
            list.push(',');
        }
        list.push_str(&number_of(vendor, gpu).to_string());
    }
    GpuGrant { variables, access: vec![Access::Unknown; topology.gpus.len()] }
}

/// `0-3,5`, or PCI addresses; in the order given.
pub(super) fn allocation(
    option: &str,
    list: Option<&str>,
    topology: &Topology,
) -> Result<Vec<GpuIndex>, Failure> {
    let Some(list) = list else { return Ok(topology.gpu_indices().collect()) };
    let mut gpus: Vec<GpuIndex> = Vec::new();
    for word in list.split(',').map(str::trim) {
        let found: Vec<GpuIndex> = if let Ok(address) = word.parse::<PciAddress>() {
            let gpu = topology.gpu_index(address);
            vec![gpu.ok_or_else(|| {
                format!("`{option}`: no GPU of `{}` has the address `{word}`", topology.name)
            })?]
        } else {
            let set =
                Bitmap::from_list(word).map_err(|bad| format!("`{option}`: {bad}, or PCI addresses"))?;
            set.iter().map(|index| GpuIndex(index as usize)).collect()
        };
        for gpu in found {
            if gpu.0 >= topology.gpus.len() {
                return Err(format!(
                    "`{option}`: no GPU {gpu}, `{}` has {}",
                    topology.name,
                    topology.gpus.len()
                )
                .into());
            }
            if gpus.contains(&gpu) {
                return Err(format!("`{option}`: GPU {gpu} is named twice").into());
            }
            gpus.push(gpu);
        }
    }
    Ok(gpus)
}

fn report(plan: &Plan, placed: &[TaskPlan], output: &mut Vec<u8>) -> Result<(), Failure> {
    writeln!(output, "{} ({}), policy {}", plan.node.name, plan.node.provenance, plan.map.policy)?;
    for task in placed {
        writeln!(output, "{}", task.line(""))?;
    }
    let list = placed.iter().find_map(|task| value(&task.variables, "NCCL_IB_HCA"));
    if let Some(list) = list {
        writeln!(output, "every task: NCCL_IB_HCA={list}")?;
    }
    for excluded in &plan.map.excluded {
        let port = excluded.port.map(|port| format!(":{port}")).unwrap_or_default();
        writeln!(output, "left out: {}{port}: {}", excluded.name, excluded.why)?;
    }
    Ok(())
}

fn value<'a>(variables: &'a [Variable], name: &str) -> Option<&'a str> {
    variables.iter().find_map(|variable| match &variable.change {
        Change::Set(value) if variable.name == name => Some(value.as_str()),
        _ => None,
    })
}

/// Lines that a shell can evaluate: `case $SLURM_LOCALID in 0) export …`.
fn exports(placed: &[TaskPlan], output: &mut Vec<u8>) -> Result<(), Failure> {
    writeln!(output, "case $SLURM_LOCALID in")?;
    for task in placed {
        write!(output, "{})", task.placement.local_id)?;
        for variable in &task.variables {
            if let Change::Set(value) = &variable.change {
                write!(output, " export {}='{}';", variable.name, value.replace('\'', r"'\''"))?;
            }
        }
        writeln!(output, ";")?;
    }
    Ok(writeln!(output, "esac")?)
}
