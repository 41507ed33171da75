//! `nic-placement show`: the node as placement sees it.
#![forbid(unsafe_code)]

use super::{Failure, Node};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::policy::{self, Request, gbps, identity};
use nic_placement_core::topology::{Nic, PciAddress, Topology, file};
use std::io::Write;

pub(super) fn run(mut arguments: lexopt::Parser, output: &mut Vec<u8>) -> Result<(), Failure> {
    use lexopt::prelude::*;
    let mut node = Node::default();
    let mut json = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("machine") => node.take("machine", arguments.value()?.string()?)?,
            Long("topology") => node.take("topology", arguments.value()?.string()?)?,
            Long("json") => json = true,
            other => return Err(other.unexpected().into()),
        }
    }
    let (topology, diagnostics) = node.read()?;
    if json {
        return Ok(output.write_all(file::to_json(&topology).as_bytes())?);
    }
    let placement = policy::map(&topology, &Request::default());
    show(&topology, &placement, &diagnostics, output)
}

fn show(
    topology: &Topology,
    placement: &NodePlacement,
    diagnostics: &[Diagnostic],
    output: &mut Vec<u8>,
) -> Result<(), Failure> {
    writeln!(output, "{} ({})", topology.name, topology.provenance)?;
    for node in &topology.numa_nodes {
        let cpus = if node.cpus.is_empty() {
            "no CPUs: memory only".to_string()
        } else {
            format!("cpus {}", node.cpus)
        };
        writeln!(output, "NUMA node {}  {cpus}", node.os_index)?;
    }
    writeln!(output)?;
    for (index, gpu) in topology.numbered_gpus() {
        let nic = placement.gpu(index).choices.first();
        let nic = nic.map_or("no nic".to_string(), |choice| {
            format!("{} {}", placement.rail(choice.rail), choice.path)
        });
        writeln!(
            output,
            "GPU {index:<2}  {}{}  node {}  {}  nearest {nic}",
            shown(gpu.address),
            gpu.partition.map(|partition| format!(" part {partition}")).unwrap_or_default(),
            node_number(topology.numa_node_of(gpu.address)),
            gpu.model.as_deref().unwrap_or("unknown model"),
        )?;
    }
    writeln!(output)?;
    nics(topology, placement, output)?;
    matrix(topology, output)?;
    if let Some(model) = &topology.supplied_by {
        writeln!(output, "* stated by the model `{model}`; the live bus does not show it")?;
    }
    for diagnostic in diagnostics.iter().chain(&placement.diagnostics).chain(&identity::lint(topology)) {
        writeln!(output, "note: {diagnostic}")?;
    }
    Ok(())
}

fn nics(topology: &Topology, placement: &NodePlacement, output: &mut Vec<u8>) -> Result<(), Failure> {
    let width = topology.nics.iter().map(|nic| nic.name.len()).max().unwrap_or(0);
    for nic in &topology.nics {
        let address = nic.address.map_or("no PCI function".to_string(), shown);
        let numa_node = node_number(nic.address.and_then(|address| topology.numa_node_of(address)));
        let facts = nic.ports.iter().map(|port| {
            let rate = port.rate_mbps.map_or("unknown rate".to_string(), gbps);
            format!("port {} {} {} {rate}", port.number, port.state, port.link_layer)
        });
        let facts: Vec<String> = facts.collect();
        let mark = if topology.supplied_by.is_some() { "*" } else { "" };
        let role = nic.role.map(|role| format!("  {role}{mark}")).unwrap_or_default();
        writeln!(
            output,
            "NIC {:<width$}  {address:<12}  node {numa_node}  {}  {}{role}  {}",
            nic.name,
            if nic.netdevs.is_empty() { "-".to_string() } else { nic.netdevs.join(",") },
            facts.join(", "),
            verdict(nic, placement),
        )?;
    }
    Ok(())
}

/// `used`, or the reasons against it.
fn verdict(nic: &Nic, placement: &NodePlacement) -> String {
    let against = placement.excluded.iter().filter(|excluded| excluded.name == nic.name);
    let against: Vec<String> = against
        .map(|excluded| match excluded.port {
            Some(port) if nic.ports.len() > 1 => format!("port {port}: {}", excluded.why),
            _ => excluded.why.clone(),
        })
        .collect();
    let is_used = placement.rails.iter().any(|rail| rail.name == nic.name);
    match (is_used, against.is_empty()) {
        (_, true) => "used".to_string(),
        (true, false) => format!("used, but not {}", against.join(", ")),
        (false, false) => format!("not used: {}", against.join(", ")),
    }
}

/// The matrix of `nvidia-smi topo -m`, GPUs against NICs.
fn matrix(topology: &Topology, output: &mut Vec<u8>) -> Result<(), Failure> {
    let nics: Vec<&Nic> = topology.nics.iter().filter(|nic| nic.address.is_some()).collect();
    if nics.is_empty() || topology.gpus.is_empty() {
        return Ok(());
    }
    let widths: Vec<usize> = nics.iter().map(|nic| nic.name.len().max(4)).collect();
    let mut header = format!("\n{:<6}", "");
    for (nic, width) in nics.iter().zip(&widths) {
        header.push_str(&format!("  {:<width$}", nic.name));
    }
    writeln!(output, "{}", header.trim_end())?;
    for (index, gpu) in topology.gpus.iter().enumerate() {
        let mut row = format!("GPU {index:<2}");
        for (nic, width) in nics.iter().zip(&widths) {
            let Some(address) = nic.address else { continue };
            let supplied =
                topology.supplied_by.is_some() && topology.stated_paths.contains_key(&(gpu.address, address));
            let kind = topology.path_type(gpu.address, address).to_string();
            let mark = if supplied { "*" } else { "" };
            row.push_str(&format!("  {:<width$}", format!("{kind}{mark}")));
        }
        writeln!(output, "{}", row.trim_end())?;
    }
    Ok(())
}

fn node_number(node: Option<u32>) -> String {
    node.map_or("?".to_string(), |node| node.to_string())
}

/// An address, where the machine's description names one.
fn shown(address: PciAddress) -> String {
    if address.is_invented() { "-".to_string() } else { address.to_string() }
}
