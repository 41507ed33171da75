//! `nic-placement map`: which NICs each GPU has, as engines and launchers want it that drive all GPUs of a node.
#![forbid(unsafe_code)]

use super::node::Node;
use super::page::Page;
use super::request::Request;
use super::{Failure, gpu_list, plan, tell};
use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use nic_placement_core::maps::{self, FORMATS, Format, Subject};
use nic_placement_core::placement::Bind;
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::policy::identity;
use nic_placement_core::render::{Evidence, FileText, Present};
use nic_placement_core::step::{Step, Task};
use nic_placement_core::topology::{CpuSet, GpuIndex, Topology};
use std::fs;
use std::path::{Path, PathBuf};

/// which NICs each GPU has, for an engine that drives all of them
///
/// One process that drives all GPUs of a node (SGLang, vLLM, Mooncake) wants one text that names the NICs of each. GPUs are
/// counted from 0 in the order that the program sees. A launcher (Open MPI, MPICH, Intel MPI) gets a process for each GPU, on
/// cores of its own near it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement map --format sglang
  nic-placement map --machine dgx-h100 --gpus 4-7 --format vllm
  nic-placement map --format mooncake -o /run/nic-placement/mooncake.json")]
pub(super) struct Options {
    #[command(flatten)]
    node: Node,
    /// what to write (default: json)
    #[arg(
        long,
        value_name = "WORD",
        value_parser = PossibleValuesParser::new(FORMATS.map(|(word, ..)| word)),
        default_value = "json",
        hide_possible_values = true,
        hide_default_value = true,
        long_help = formats_help(),
        help_heading = "Output"
    )]
    format: String,
    /// the GPUs that the program sees, in its order: positions in PCI order (0-3,5) or PCI addresses (default: all)
    #[arg(long, value_name = "LIST", help_heading = "What is asked for")]
    gpus: Option<String>,
    /// the node's name in a rankfile (default: localhost)
    #[arg(
        long,
        value_name = "NAME",
        default_value = "localhost",
        hide_default_value = true,
        help_heading = "Output"
    )]
    host: String,
    /// where to write it (default: standard output)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    output: Option<PathBuf>,
    #[command(flatten)]
    request: Request,
}

fn formats_help() -> String {
    let formats: String = FORMATS.iter().map(|(word, _, what)| format!("\n  {word:<10}  {what}")).collect();
    format!("what to write (default: json){formats}")
}

pub(super) fn run(options: &Options, page: &mut Page) -> Result<(), Failure> {
    let (wish, doubts) = options.request.wish(&[])?;
    let (topology, diagnostics) = options.node.read()?;
    for diagnostic in diagnostics.iter().chain(&doubts) {
        tell(&format!("note: {diagnostic}"));
    }
    let gpus = gpu_list::several("--gpus", options.gpus.as_deref(), &topology)?;
    if gpus.is_empty() {
        return Err(format!("`{}` has no GPU", topology.name).into());
    }
    // the parser knows no other words
    let format =
        FORMATS.iter().find(|(word, ..)| *word == options.format).map_or(Format::Json, |known| known.1);
    let is_launchers = matches!(format, Format::OpenMpi | Format::Mpich | Format::IntelMpi);
    let (plan, cpus) = planned(topology, wish, &gpus, is_launchers);
    let Plan { node: topology, map: node, .. } = &plan;
    let subject = Subject { topology, node, gpus: &gpus, cpus: &cpus, host: &options.host };
    let text = maps::write(format, subject).map_err(|why| format!("map: {why}"))?;
    let Some(destination) = &options.output else {
        page.exact(&text);
        return Ok(());
    };
    Ok(whole(destination, &text)
        .map_err(|error| format!("cannot write `{}`: {error}", destination.display()))?)
}

/// Whole or not at all: an engine may be reading the file that this one replaces.
fn whole(destination: &Path, text: &str) -> std::io::Result<()> {
    let beside = destination.with_extension("new");
    fs::write(&beside, text).and_then(|()| fs::rename(&beside, destination))
}

/// The map, and for a launcher the CPUs of a process for each GPU.
fn planned(topology: Topology, mut wish: Wish, gpus: &[GpuIndex], with_cpus: bool) -> (Plan, Vec<CpuSet>) {
    wish.settings.bind = Bind::Core;
    let step = Step {
        node: topology.name.clone(),
        tasks: gpus.len() as u32,
        total_tasks: gpus.len() as u32,
        gpus: Some(identity::slurms_numbers(&topology, gpus)),
        alone_on_node: true,
        ..Step::default()
    };
    let read = |_: &str| Some(FileText::default());
    let plan = Plan::new(topology, wish, step, &read);
    let cpus = plan.node.cpus();
    let process = |(id, &gpu): (u32, &GpuIndex)| {
        let task = Task {
            local_id: id,
            global_id: id,
            gpus: plan::grant(&plan.node, &[gpu]),
            cpus: cpus.clone(),
            step_cpus: cpus.clone(),
            promised: Some(gpus.to_vec()),
            ..Task::default()
        };
        let evidence = Evidence { present: &Present::new(), read: &read };
        plan.task(&task, evidence).placement.cpus.cpus().clone()
    };
    let cpus = if with_cpus { (0..).zip(gpus).map(process).collect() } else { Vec::new() };
    (plan, cpus)
}
