//! `nic-placement show`: the node as placement sees it, and why a GPU got its NICs.

mod pairs;
mod tree;

use super::drawing::{self, Drawing};
use super::page::{Page, Table, Text};
use super::request::{self, NodeOrMachine, PlanOptions};
use super::{Failure, shortfalls};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{PciAddress, Topology};
use nic_placement_fleet::doctor::gpus;
use nic_placement_formats::file;

/// the node: NUMA nodes, GPUs, NICs, the paths between, and why a GPU got its NICs
///
/// A tree with the NICs that each GPU would get, the matrix of nvidia-smi topo -m with the distances of NUMA nodes, and which
/// NICs are left out, and why. Or a picture.
///
/// With --gpu, for this GPU and each NIC: the path, what it lets through if no other GPU shares it, the GPUs that use the NIC,
/// and why the GPU got it, or what the node would lose if this GPU alone moved there. A last line tells if the choice hangs on
/// an estimate of what a kind of path lets through. Ends with 1 where a strict word would fail a task with that GPU.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement show
  nic-placement show --gpu 3
  nic-placement show --machine dgx-h100 --gpu 3 --exclude mlx5_5
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
    let (wish, doubts) = options.request.wish(&[])?;
    let (topology, mut diagnostics) = options.node.read()?;
    diagnostics.extend(doubts);
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

/// The paths of `nvidia-smi topo -m` with a row for each NIC and a column for each GPU, in as many blocks as it takes.
fn matrix(topology: &Topology, page: &mut Page) {
    /// `GPU255` and `NODE*` take 6 columns, and a gap.
    const ABREAST: usize = 9;
    let gpus: Vec<PciAddress> = topology.gpus.iter().map(|gpu| gpu.address).collect();
    let nics = topology.nics.iter();
    let nics: Vec<_> = nics
        .filter_map(|nic| Some((&nic.name, nic.address?)))
        .collect();
    let columns: Vec<usize> = (0..gpus.len()).filter(|_| !nics.is_empty()).collect();
    let mut shown = Vec::new();
    for columns in columns.chunks(ABREAST) {
        let headings = columns.iter().map(|gpu| format!("GPU{gpu}"));
        let mut table = Table::headed([String::new()].into_iter().chain(headings));
        for (name, nic) in &nics {
            let cells = columns.iter().map(|&gpu| {
                shown.push(topology.path_type(gpus[gpu], *nic));
                path(topology, gpus[gpu], *nic)
            });
            table.row([Text::from(*name)].into_iter().chain(cells));
        }
        page.blank();
        page.table(&table);
    }
    page.legend(shown);
    distances(topology, page);
}

/// As `numactl --hardware` prints them, of the NUMA nodes with CPUs.
fn distances(topology: &Topology, page: &mut Page) {
    let nodes = topology
        .numa_nodes
        .iter()
        .filter(|node| !node.cpus.is_empty());
    let nodes: Vec<u32> = nodes.map(|node| node.os_index).collect();
    let row = |from: &u32| {
        nodes
            .iter()
            .map(|to| topology.distance(*from, *to))
            .collect()
    };
    let rows: Option<Vec<Vec<u32>>> = nodes.iter().map(row).collect();
    if let Some(rows) = rows.filter(|rows| rows.len() > 1) {
        let headings = nodes.iter().map(u32::to_string);
        let mut table = Table::headed(["NUMA".to_string()].into_iter().chain(headings));
        for (node, row) in nodes.iter().zip(rows) {
            table.row([*node].into_iter().chain(row).map(Text::from));
        }
        page.blank();
        page.table(&table);
    }
}

fn path(topology: &Topology, gpu: PciAddress, nic: PciAddress) -> Text {
    let is_supplied =
        topology.supplied_by.is_some() && topology.stated_paths.contains_key(&(gpu, nic));
    Text::of_path(topology.path_type(gpu, nic)).then(if is_supplied { "*" } else { "" })
}
