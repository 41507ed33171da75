//! `nic-placement show`: the node as placement sees it, and why a GPU got its NICs.

mod pairs;
mod tree;

use super::drawing::{self, Drawing};
use super::page::{Page, Table, Text};
use super::request::{self, NodeOrMachine, PlanOptions};
use super::{Failure, shortfalls};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::Topology;
use nic_placement_fleet::doctor::gpus;
use nic_placement_formats::file;

/// the node: NUMA nodes, GPUs, NICs, the paths between, and why a GPU got its NICs
///
/// A tree with the NICs that each GPU would get, the paths between GPUs and NICs as in nvidia-smi topo -m, and which NICs are
/// left out, and why. Or a picture.
///
/// With --gpu, for this GPU and each NIC: the path, what it lets through if no other GPU shares it, the GPUs that use the NIC,
/// and why the GPU got it, or what the node would lose if this GPU alone moved there. Ends with 1 where a strict word would
/// fail a task with that GPU.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement show
  nic-placement show --gpu 3
  nic-placement show --machine dgx-h100 --gpu 3 --argument exclude=mlx5_5
  nic-placement show --machine dgx-h100 --json > node.json
  nic-placement show -o node.svg")]
pub(super) struct ShowOptions {
    #[command(flatten)]
    node: NodeOrMachine,
    /// why these GPUs got their NICs: positions in PCI order (0-3,5), PCI addresses, or all
    #[arg(long, value_name = "LIST", conflicts_with_all = ["svg", "output"], help_heading = "What is asked for")]
    gpu: Option<String>,
    #[command(flatten)]
    request: PlanOptions,
    /// the topology as JSON, to edit and give to --topology or to the plugin's topology=; with --gpu the reasons
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    drawing: Drawing,
}

pub(super) fn run(options: &ShowOptions, page: &mut Page) -> Result<(), Failure> {
    let (wish, topology, diagnostics) = options.request.asked(&options.node)?;
    let gpus = options.gpu.as_deref().map(|list| {
        let list = Some(list).filter(|list| *list != "all");
        request::gpus("--gpu", list, &topology)
    });
    let gpus = gpus.transpose()?;
    let plan = request::plan_here(topology, wish);
    match gpus {
        Some(gpus) => return pairs::explain(&plan, &gpus, options.json, &diagnostics, page),
        None if options.json => page.exact(&file::to_json(&plan.node)),
        None if options.drawing.is_wanted() => {
            let scene = drawing::of_node(&plan.node, &plan.map);
            options.drawing.draw(&scene, page)?;
        }
        None => show(&plan, &diagnostics, page),
    }
    Ok(())
}

fn show(plan: &Plan, diagnostics: &[Diagnostic], page: &mut Page) {
    let (topology, placement) = (&*plan.node, &plan.map);
    page.line(format_args!("{} ({})", topology.name, topology.provenance));
    tree::print(topology, placement, page);
    matrix(topology, page);
    let lints = gpus::lint(topology);
    let notes = diagnostics.iter().chain(&placement.diagnostics);
    let notes: Vec<&Diagnostic> = notes.chain(&lints).collect();
    if !placement.excluded.is_empty() || topology.supplied_by.is_some() || !notes.is_empty() {
        page.blank();
    }
    shortfalls::left_out(topology, placement, page);
    if let Some(model) = &topology.supplied_by {
        page.line(format_args!(
            "* stated by the model `{model}`; the live bus does not show it"
        ));
    }
    page.notes(notes);
}

/// `nvidia-smi topo -m` with a row for each NIC and a column for each GPU, in as many blocks as it takes.
fn matrix(topology: &Topology, page: &mut Page) {
    /// `GPU255` and `NODE*` take 6 columns, and a gap.
    const ABREAST: usize = 9;
    let gpus: Vec<_> = topology.numbered_gpus().collect();
    let nics = topology.nics.iter();
    let nics: Vec<_> = nics.filter_map(|nic| Some((nic, nic.address?))).collect();
    if nics.is_empty() {
        return;
    }
    let mut shown = Vec::new();
    for gpus in gpus.chunks(ABREAST) {
        let headings = gpus.iter().map(|(index, _)| format!("GPU{index}"));
        let mut table = Table::headed([String::new()].into_iter().chain(headings));
        for (nic, address) in &nics {
            let cells = gpus.iter().map(|(_, gpu)| {
                let pair = (gpu.address, *address);
                let path = topology.path_type(pair.0, pair.1);
                let is_supplied =
                    topology.supplied_by.is_some() && topology.stated_paths.contains_key(&pair);
                shown.push(path);
                format!("{path}{}", if is_supplied { "*" } else { "" })
            });
            table.row(
                [nic.name.to_string()]
                    .into_iter()
                    .chain(cells)
                    .map(Text::from),
            );
        }
        page.blank();
        page.table(&table);
    }
    page.legend(shown);
}
