//! `nic-placement show`: the node as placement sees it.
#![forbid(unsafe_code)]

mod tree;

use super::drawing::{self, Drawing};
use super::page::{Page, Table, Text};
use super::request::NodeOptions;
use super::{Failure, shortfalls};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::policy;
use nic_placement_core::topology::{Nic, PciAddress, Topology};
use nic_placement_core::wish::Wish;
use nic_placement_fleet::doctor::gpus;
use nic_placement_formats::file;

/// the node: NUMA nodes, GPUs, NICs, and how far each is from each
///
/// A tree of what stands where, with the NICs that each GPU would get; below it the distances, in the words of nvidia-smi
/// topo -m: PIX, PXB, PHB, NODE, SYS; and which NICs are left out, and why. Or a picture of it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement show
  nic-placement show --machine dgx-h100 --json > node.json
  nic-placement show -o node.svg")]
pub(super) struct ShowOptions {
    #[command(flatten)]
    node: NodeOptions,
    /// the topology as JSON, to edit and give to --topology or to the plugin's topology=
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    drawing: Drawing,
}

pub(super) fn run(options: &ShowOptions, page: &mut Page) -> Result<(), Failure> {
    let (topology, diagnostics) = options.node.read()?;
    if options.json {
        page.exact(&file::to_json(&topology));
        return Ok(());
    }
    let placement = policy::map(&topology, &Wish::default());
    if options.drawing.is_wanted() {
        return options
            .drawing
            .draw(&drawing::of_node(&topology, &placement), page);
    }
    show(&topology, &placement, &diagnostics, page);
    Ok(())
}

fn show(
    topology: &Topology,
    placement: &NodePlacement,
    diagnostics: &[Diagnostic],
    page: &mut Page,
) {
    page.line(format_args!("{} ({})", topology.name, topology.provenance));
    tree::print(topology, placement, page);
    matrix(topology, page);
    let lints = gpus::lint(topology);
    let notes: Vec<&Diagnostic> = diagnostics
        .iter()
        .chain(&placement.diagnostics)
        .chain(&lints)
        .collect();
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
    /// GPUs beside each other: `GPU 255` and `NODE*` take 7 columns, and a gap
    const ABREAST: usize = 9;
    let nics: Vec<(&Nic, PciAddress)> = topology
        .nics
        .iter()
        .filter_map(|nic| Some((nic, nic.address?)))
        .collect();
    if nics.is_empty() {
        return;
    }
    let gpus: Vec<(usize, PciAddress)> = topology
        .gpus
        .iter()
        .map(|gpu| gpu.address)
        .enumerate()
        .collect();
    for gpus in gpus.chunks(ABREAST) {
        let headings = gpus.iter().map(|(index, _)| format!("GPU {index}"));
        let mut table = Table::headed([String::new()].into_iter().chain(headings));
        for &(nic, address) in &nics {
            let paths = gpus.iter().map(|&(_, gpu)| path(topology, gpu, address));
            table.row([Text::from(&nic.name)].into_iter().chain(paths));
        }
        page.blank();
        page.table(&table);
    }
    let pairs = gpus
        .iter()
        .flat_map(|(_, gpu)| nics.iter().map(|(_, nic)| topology.path_type(*gpu, *nic)));
    page.legend(pairs);
}

fn path(topology: &Topology, gpu: PciAddress, nic: PciAddress) -> Text {
    let is_supplied =
        topology.supplied_by.is_some() && topology.stated_paths.contains_key(&(gpu, nic));
    Text::of_path(topology.path_type(gpu, nic)).then(if is_supplied { "*" } else { "" })
}
