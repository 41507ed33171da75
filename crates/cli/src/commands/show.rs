//! `nic-placement show`: the node as placement sees it.
#![forbid(unsafe_code)]

use super::node::Node;
use super::page::{Page, Style, Table, Text};
use super::{Failure, left_out};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::policy::{self, Request, gbps, identity};
use nic_placement_core::topology::{LinkLayer, Nic, PciAddress, Port, PortState, Topology, file};

/// the node: NUMA nodes, GPUs, NICs, and how far each is from each
///
/// Also which NICs may be used and why the others may not. Distances are in the words of nvidia-smi topo -m: PIX, PXB, PHB,
/// NODE, SYS.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement show
  nic-placement show --machine dgx-h100 --json > node.json")]
pub(super) struct Options {
    #[command(flatten)]
    node: Node,
    /// the topology as JSON, to edit and give to --topology or to the plugin's topology=
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(super) fn run(options: &Options, page: &mut Page) -> Result<(), Failure> {
    let (topology, diagnostics) = options.node.read()?;
    if options.json {
        page.exact(&file::to_json(&topology));
        return Ok(());
    }
    let placement = policy::map(&topology, &Request::default());
    show(&topology, &placement, &diagnostics, page);
    Ok(())
}

fn show(topology: &Topology, placement: &NodePlacement, diagnostics: &[Diagnostic], page: &mut Page) {
    page.line(format_args!("{} ({})", topology.name, topology.provenance));
    for node in &topology.numa_nodes {
        let cpus = match &node.cpus {
            none if none.is_empty() => "no CPUs: memory only".to_string(),
            cpus => format!("cpus {cpus}"),
        };
        page.item(format_args!("NUMA node {}  ", node.os_index), cpus);
    }
    if !topology.gpus.is_empty() {
        page.blank();
        page.table(&gpus(topology, placement));
    }
    if !topology.nics.is_empty() {
        page.blank();
        page.table(&nics(topology, placement));
    }
    matrix(topology, page);
    let lints = identity::lint(topology);
    let notes: Vec<&Diagnostic> = diagnostics.iter().chain(&placement.diagnostics).chain(&lints).collect();
    if !placement.excluded.is_empty() || topology.supplied_by.is_some() || !notes.is_empty() {
        page.blank();
    }
    left_out::lines(&placement.excluded, page);
    if let Some(model) = &topology.supplied_by {
        page.line(format_args!("* stated by the model `{model}`; the live bus does not show it"));
    }
    for note in notes {
        page.item("note: ", note);
    }
}

fn gpus(topology: &Topology, placement: &NodePlacement) -> Table {
    let mut table = Table::headed(&["GPU", "address", "node", "model", "nearest NIC"]);
    for (index, gpu) in topology.numbered_gpus() {
        let partition = gpu.partition.map(|partition| format!(" part {partition}")).unwrap_or_default();
        let nearest = placement.gpu(index).choices.first().map_or("none".into(), |choice| {
            Text::from(format_args!("{} ", placement.rail(choice.rail))).then(Text::of_path(choice.path))
        });
        table.row([
            index.into(),
            format!("{}{partition}", stated(gpu.address)).into(),
            number(topology.numa_node_of(gpu.address)).into(),
            gpu.model.as_deref().unwrap_or("unknown").into(),
            nearest.unbroken(),
        ]);
    }
    table
}

/// A row for each port.
fn nics(topology: &Topology, placement: &NodePlacement) -> Table {
    let mut table = Table::headed(&[
        "NIC",
        "address",
        "node",
        "interface",
        "port",
        "state",
        "link",
        "rate",
        "role",
        "used",
    ]);
    let mark = if topology.supplied_by.is_some() { "*" } else { "" };
    for nic in &topology.nics {
        let address = nic.address.map_or("no PCI function".to_string(), stated);
        let mut of_nic = [
            Text::from(&nic.name),
            address.into(),
            number(nic.address.and_then(|address| topology.numa_node_of(address))).into(),
            if nic.netdevs.is_empty() { "-".into() } else { nic.netdevs.join(",").into() },
        ];
        let role = nic.role.map_or("-".to_string(), |role| format!("{role}{mark}"));
        if nic.ports.is_empty() {
            let none = ["-", "-", "-", "-", &role, used(nic, None, placement)];
            table.row(of_nic.into_iter().chain(none.map(Text::from)));
            continue;
        }
        for port in &nic.ports {
            let fails = matches!(port.state, PortState::Down | PortState::Init | PortState::Armed);
            let style = if fails { Style::Wrong } else { Style::Plain };
            let of_port = [
                port.number.into(),
                Text::styled(port.state, style),
                link(port.link_layer).into(),
                port.rate_mbps.map_or("unknown".into(), |rate| Text::from(gbps(rate)).unbroken()),
                Text::from(&role),
                used(nic, Some(port), placement).into(),
            ];
            table.row(of_nic.iter().cloned().chain(of_port));
            // said once
            of_nic = Default::default();
        }
    }
    table
}

fn link(layer: LinkLayer) -> String {
    match layer {
        LinkLayer::Unknown => "unknown".to_string(),
        known => known.to_string(),
    }
}

fn used(nic: &Nic, port: Option<&Port>, placement: &NodePlacement) -> &'static str {
    let number = port.map(|port| port.number);
    let against = placement.excluded.iter().filter(|excluded| excluded.name == nic.name);
    let is_out = against.into_iter().any(|excluded| excluded.port.is_none() || excluded.port == number);
    if is_out { "no" } else { "yes" }
}

/// The part of `nvidia-smi topo -m` with a row for each NIC and a column for each GPU, in as many blocks as it takes.
fn matrix(topology: &Topology, page: &mut Page) {
    /// GPUs beside each other: `GPU 255` and `NODE*` take 7 columns, and a gap
    const ABREAST: usize = 9;
    let nics: Vec<(&Nic, PciAddress)> =
        topology.nics.iter().filter_map(|nic| Some((nic, nic.address?))).collect();
    if nics.is_empty() {
        return;
    }
    let gpus: Vec<(usize, PciAddress)> = topology.gpus.iter().map(|gpu| gpu.address).enumerate().collect();
    for gpus in gpus.chunks(ABREAST) {
        let headings: Vec<String> = gpus.iter().map(|(index, _)| format!("GPU {index}")).collect();
        let mut table =
            Table::headed(&[&[""], &*headings.iter().map(String::as_str).collect::<Vec<_>>()].concat());
        for &(nic, address) in &nics {
            let paths = gpus.iter().map(|&(_, gpu)| path(topology, gpu, address));
            table.row([Text::from(&nic.name)].into_iter().chain(paths));
        }
        page.blank();
        page.table(&table);
    }
}

fn path(topology: &Topology, gpu: PciAddress, nic: PciAddress) -> Text {
    let is_supplied = topology.supplied_by.is_some() && topology.stated_paths.contains_key(&(gpu, nic));
    Text::of_path(topology.path_type(gpu, nic)).then(if is_supplied { "*" } else { "" })
}

fn number(node: Option<u32>) -> String {
    node.map_or("?".to_string(), |node| node.to_string())
}

/// An address, where the machine's description names one.
fn stated(address: PciAddress) -> String {
    if address.is_invented() { "-".to_string() } else { address.to_string() }
}
