//! `nic-placement plan`: what the tasks of a step would get, by the same pipeline as the plugin's.
#![forbid(unsafe_code)]

use super::{Failure, Node};
use crate::config::words::Choice;
use crate::config::{Admin, Words, plugstack, settle};
use crate::diagnostic::Diagnostic;
use crate::pipeline;
use crate::placement::{Change, NodePlacement, TaskPlacement, Variable};
use crate::render::{self, Evidence, Present, json, text};
use crate::step::{Access, GpuGrant, Step, Task};
use crate::topology::{Bitmap, GpuVendor, PciAddress, Topology};
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
    policy: Option<Words>,
    /// words of the plugin's option
    words: Words,
    admin: Admin,
    /// what is odd about the admin's arguments
    doubts: Vec<Diagnostic>,
    /// variables that the tasks have
    present: Present,
    format: Format,
}

pub(super) fn run(arguments: lexopt::Parser, output: &mut Vec<u8>) -> Result<(), Failure> {
    let request = parse(arguments)?;
    let (topology, mut diagnostics) = request.node.read()?;
    diagnostics.extend(request.doubts.iter().cloned());
    let tasks = tasks(&request, &topology)?;
    let settings = settle(&Words::default(), request.policy.as_ref(), Some(&request.words));
    if !settings.enabled {
        return Err(lexopt::Error::from(
            "`off` plans nothing: expected closest, numa or all, or other words",
        )
        .into());
    }
    let admin = &request.admin;
    let node = pipeline::place_node(&topology, admin, &settings);
    // files of this node say nothing about another one: every configuration is empty, every file of a `set=` is there
    let read = |_: &str| Some(String::new());
    let prepared = pipeline::prepare(&topology, &node, admin, &settings, &read);
    let evidence = Evidence { present: &request.present, read: &read };
    diagnostics.extend(prepared.diagnostics());
    let count = tasks.len() as u32;
    let step = Step { node: topology.name.clone(), tasks: count, total_tasks: count, ..Step::default() };
    let placed: Vec<(TaskPlacement, Vec<Variable>)> = tasks
        .iter()
        .map(|task| {
            let placement = pipeline::place_task(&topology, &node, admin, &settings, &step, task);
            let variables = render::environment(&prepared, &topology, &node, &placement, evidence);
            (placement, variables)
        })
        .collect();
    match request.format {
        Format::Json => output.write_all(json::plan(&topology, &node, &placed, &diagnostics).as_bytes())?,
        Format::Env => exports(&placed, output)?,
        Format::Text => {
            report(&topology, &node, &step, &placed, output)?;
            for diagnostic in diagnostics.iter().chain(&node.diagnostics) {
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
        policy: None,
        words: Words::default(),
        // a plan binds nobody, so it may say what it would bind on any machine
        admin: Admin { trust_topology: true, ..Admin::default() },
        doubts: Vec::new(),
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
            Long("policy") => {
                let word = arguments.value()?.string()?;
                let words = Words::parse(&word).map_err(|bad| lexopt::Error::from(bad.to_string()))?;
                if words.policy.is_none() || words != (Words { policy: words.policy, ..Words::default() }) {
                    return Err(lexopt::Error::from(format!(
                        "`--policy {word}`: expected closest, numa or all"
                    ))
                    .into());
                }
                if words.policy == Some(Choice::Off) {
                    return Err(lexopt::Error::from(
                        "`--policy off` plans nothing: expected closest, numa or all",
                    )
                    .into());
                }
                request.policy = Some(words);
            }
            Long("words") => {
                let words = Words::parse(&arguments.value()?.string()?);
                request.words = words.map_err(|bad| lexopt::Error::from(bad.to_string()))?;
            }
            Long(name @ ("set" | "fabric")) => {
                let name = name.to_string();
                let argument = format!("{name}={}", arguments.value()?.string()?);
                let diagnostics = request.admin.add(&argument).map_err(lexopt::Error::from)?;
                request.doubts.extend(diagnostics);
            }
            Long("variable") => {
                let text = arguments.value()?.string()?;
                let Some((name, value)) = text.split_once('=') else {
                    return Err(
                        lexopt::Error::from(format!("`--variable {text}`: expected NAME=VALUE")).into()
                    );
                };
                request.present.insert(name.to_string(), value.to_string());
            }
            Long(name @ ("include" | "exclude")) => {
                let name = name.to_string();
                let list = arguments.value()?.string()?;
                let patterns = plugstack::patterns(&list).map_err(lexopt::Error::from)?;
                match name.as_str() {
                    "include" => request.admin.selection.include.extend(patterns),
                    _ => request.admin.selection.exclude.extend(patterns),
                }
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
    let gpus = allocation(request.gpus.as_deref(), topology)?;
    let default = match request.gpus_per_task {
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
            let mine: Vec<usize> = match request.gpus_per_task {
                Some(each) => gpus.iter().copied().skip((id * each) as usize).take(each as usize).collect(),
                None => gpus.clone(),
            };
            Task {
                local_id: id,
                global_id: id,
                gpus: grant(topology, &mine),
                cpus: cpus.clone(),
                step_cpus: cpus.clone(),
            }
        })
        .collect())
}

/// Evidence that says: exactly these GPUs.
fn grant(topology: &Topology, gpus: &[usize]) -> GpuGrant {
    let index_of = |vendor: GpuVendor, gpu: usize| {
        topology.gpus[..gpu].iter().filter(|other| other.vendor == vendor).count()
    };
    let mut listed: Vec<(GpuVendor, String)> = Vec::new();
    for &gpu in gpus {
        let vendor = topology.gpus[gpu].vendor;
        let index = index_of(vendor, gpu).to_string();
        match listed.iter_mut().find(|(known, _)| *known == vendor) {
            Some((_, list)) => *list = format!("{list},{index}"),
            None => listed.push((vendor, index)),
        }
    }
    GpuGrant { listed, access: vec![Access::Unknown; topology.gpus.len()] }
}

/// `0-3,5`, or PCI addresses; in the order given.
fn allocation(list: Option<&str>, topology: &Topology) -> Result<Vec<usize>, Failure> {
    let Some(list) = list else { return Ok((0..topology.gpus.len()).collect()) };
    let mut gpus: Vec<usize> = Vec::new();
    for word in list.split(',').map(str::trim) {
        let found: Vec<usize> = if let Ok(address) = word.parse::<PciAddress>() {
            let gpu = topology.gpu_index(address);
            vec![
                gpu.ok_or_else(|| {
                    format!("`--gpus`: no GPU of `{}` has the address `{word}`", topology.name)
                })?,
            ]
        } else {
            let set = Bitmap::from_list(word).map_err(|bad| format!("`--gpus`: {bad}, or PCI addresses"))?;
            set.iter().map(|index| index as usize).collect()
        };
        for gpu in found {
            if gpu >= topology.gpus.len() {
                return Err(format!(
                    "`--gpus`: no GPU {gpu}, `{}` has {}",
                    topology.name,
                    topology.gpus.len()
                )
                .into());
            }
            if gpus.contains(&gpu) {
                return Err(format!("`--gpus`: GPU {gpu} is named twice").into());
            }
            gpus.push(gpu);
        }
    }
    Ok(gpus)
}

fn report(
    topology: &Topology,
    node: &NodePlacement,
    step: &Step,
    placed: &[(TaskPlacement, Vec<Variable>)],
    output: &mut Vec<u8>,
) -> Result<(), Failure> {
    writeln!(output, "{} ({}), policy {}", topology.name, topology.provenance, node.policy)?;
    for (task, variables) in placed {
        writeln!(output, "{}", text::task_line(topology, node, "", step.tasks, task, variables))?;
    }
    let list = placed.iter().find_map(|(_, variables)| value(variables, "NCCL_IB_HCA"));
    if let Some(list) = list {
        writeln!(output, "every task: NCCL_IB_HCA={list}")?;
    }
    for excluded in &node.excluded {
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
fn exports(placed: &[(TaskPlacement, Vec<Variable>)], output: &mut Vec<u8>) -> Result<(), Failure> {
    writeln!(output, "case $SLURM_LOCALID in")?;
    for (task, variables) in placed {
        write!(output, "{})", task.local_id)?;
        for variable in variables {
            if let Change::Set(value) = &variable.change {
                write!(output, " export {}='{}';", variable.name, value.replace('\'', r"'\''"))?;
            }
        }
        writeln!(output, ";")?;
    }
    Ok(writeln!(output, "esac")?)
}
