//! `nic-placement map`: the NICs of each GPU, for engines that drive all GPUs of a node.

use super::page::Page;
use super::request::{self, NodeOrMachine, PlanOptions};
use super::{Failure, output, tell};
use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use nic_placement_core::libraries::FileText;
use nic_placement_core::maps::Subject;
use nic_placement_core::plan::Plan;
use nic_placement_launch::formats::{self, FORMATS};
use nic_placement_launch::step;
use std::path::PathBuf;

/// which NICs each GPU has, for an engine that drives all of them
///
/// One process that drives all GPUs of a node (SGLang, vLLM, Mooncake) wants one text that names the NICs of each. The
/// ranks of mpirun or mpiexec are placed by `nic-placement exec`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement map --format sglang
  nic-placement map --machine dgx-h100 --gpus 4-7 --format vllm
  nic-placement map --format mooncake -o /run/nic-placement/mooncake.json")]
pub(super) struct MapOptions {
    #[command(flatten)]
    node: NodeOrMachine,
    /// what to write (default: json)
    #[arg(long, value_name = "WORD")]
    #[arg(value_parser = PossibleValuesParser::new(FORMATS.map(|(word, ..)| word)), default_value = "json")]
    #[arg(hide_default_value = true, long_help = formats_help(), help_heading = "Output")]
    format: String,
    /// the GPUs that the program sees, in its order: positions in PCI order (0-3,5) or PCI addresses (default: all)
    #[arg(long, value_name = "LIST", help_heading = "What is asked for")]
    gpus: Option<String>,
    /// where to write it (default: standard output)
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    output: Option<PathBuf>,
    #[command(flatten)]
    request: PlanOptions,
}

fn formats_help() -> String {
    let formats: String = FORMATS
        .iter()
        .map(|(word, _, what)| format!("\n  {word:<10}  {what}"))
        .collect();
    format!("what to write (default: json){formats}")
}

pub(super) fn run(options: &MapOptions, page: &mut Page) -> Result<(), Failure> {
    let (wish, topology, diagnostics) = options.request.asked(&options.node)?;
    for diagnostic in &diagnostics {
        tell(&format!("note: {diagnostic}"));
    }
    let gpus = request::gpus("--gpus", options.gpus.as_deref(), &topology)?;
    if gpus.is_empty() {
        return Err(format!("`{}` has no GPU", topology.name).into());
    }
    let write = formats::named(&options.format).unwrap_or(FORMATS[0].1);
    let read = |_: &str| Some(FileText::default());
    let step = step::for_engines(&topology, &gpus);
    let plan = Plan::new(topology, wish, step, &read);
    let Plan {
        node: topology,
        map: node,
        ..
    } = &plan;
    let subject = Subject {
        topology,
        node,
        gpus: &gpus,
    };
    let text = write(subject).map_err(|why| format!("map: {why}"))?;
    output::deliver(&text, options.output.as_deref(), page)
}
