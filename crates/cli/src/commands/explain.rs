//! `nic-placement explain`: for each GPU and NIC what stands between them, what the GPU would get, and why it got or did
//! not get that NIC.
#![forbid(unsafe_code)]

use super::plan::{self, Asked};
use super::{Failure, Node};
use nic_placement_core::placement::{NodePlacement, Pair};
use nic_placement_core::plan::{Plan, json};
use nic_placement_core::policy::gbps;
use nic_placement_core::step::Step;
use nic_placement_core::topology::{GpuIndex, PciAddress, Topology};
use std::io::Write;

pub(super) fn run(mut arguments: lexopt::Parser, output: &mut Vec<u8>) -> Result<(), Failure> {
    use lexopt::prelude::*;
    let mut node = Node::default();
    let mut asked = Asked::default();
    let mut gpu = None;
    let mut as_json = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long(name @ ("machine" | "topology")) => {
                let name = name.to_string();
                node.take(&name, arguments.value()?.string()?)?;
            }
            Long("gpu") => gpu = Some(arguments.value()?.string()?),
            Long("json") => as_json = true,
            Long(name @ ("words" | "include" | "exclude" | "rails")) => {
                let name = name.to_string();
                asked.take(&name, &arguments.value()?.string()?)?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let (topology, diagnostics) = node.read()?;
    let gpus: Vec<GpuIndex> = match gpu {
        Some(word) => vec![one(&word, &topology)?],
        None => topology.gpu_indices().collect(),
    };
    let plan = Plan::new(topology, asked.wish, Step::default(), &|_| Some(String::new()));
    let Plan { node: topology, map: placement, .. } = &plan;
    let explained: Vec<(GpuIndex, Vec<Pair>)> = gpus.iter().map(|&gpu| (gpu, plan.explain(gpu))).collect();
    if as_json {
        return Ok(output.write_all(json::explanation(&plan, &explained).as_bytes())?);
    }
    if explained.is_empty() {
        writeln!(output, "{} ({}) has no GPU", topology.name, topology.provenance)?;
    }
    for (gpu, pairs) in &explained {
        text(topology, placement, *gpu, pairs, output)?;
    }
    for diagnostic in diagnostics.iter().chain(&placement.diagnostics) {
        writeln!(output, "note: {diagnostic}")?;
    }
    Ok(())
}

/// A GPU by index or PCI address.
fn one(word: &str, topology: &Topology) -> Result<GpuIndex, Failure> {
    let found = match (word.parse::<usize>(), word.parse::<PciAddress>()) {
        (Ok(index), _) => (index < topology.gpus.len()).then_some(GpuIndex(index)),
        (_, Ok(address)) => topology.gpu_index(address),
        _ => {
            return Err(
                lexopt::Error::from(format!("`--gpu {word}`: expected an index or a PCI address")).into()
            );
        }
    };
    let count = topology.gpus.len();
    found.ok_or_else(|| {
        format!("`--gpu {word}`: no such GPU, `{}` has {}", topology.name, plan::counted(count)).into()
    })
}

fn text(
    topology: &Topology,
    node: &NodePlacement,
    gpu: GpuIndex,
    pairs: &[Pair],
    output: &mut Vec<u8>,
) -> Result<(), Failure> {
    let address = topology.gpu(gpu).address;
    let address = if address.is_invented() { String::new() } else { format!(" {address}") };
    let own: Vec<String> =
        node.gpu(gpu).choices.iter().map(|choice| node.rail(choice.rail).to_string()).collect();
    let own = if own.is_empty() { "no NIC".to_string() } else { own.join(" ") };
    let numa_node = node
        .gpu(gpu)
        .numa_node
        .map_or("an unknown NUMA node".to_string(), |node| format!("NUMA node {node}"));
    writeln!(output, "GPU {gpu}{address} on {numa_node}: {own}")?;
    let name = |pair: &Pair| match pair.port {
        Some(port) => format!("{}:{port}", pair.nic),
        None => pair.nic.clone(),
    };
    let rate = |pair: &Pair| pair.alone_mbps.map_or("-".to_string(), gbps);
    let name_width = pairs.iter().map(|pair| name(pair).len()).max().unwrap_or(0);
    let rate_width = pairs.iter().map(|pair| rate(pair).len()).max().unwrap_or(0);
    for pair in pairs {
        let path = pair.path.map_or("-".to_string(), |path| path.to_string());
        let users = match pair.users {
            0 => "unused".to_string(),
            1 => "1 GPU".to_string(),
            more => format!("{more} GPUs"),
        };
        let verdict = match (
            pair.chosen,
            pair.alone_mbps.is_some() || node.rails.iter().any(|rail| name(pair) == rail.to_string()),
        ) {
            (true, _) => "chosen",
            (false, true) => "not chosen",
            (false, false) => "left out",
        };
        writeln!(
            output,
            "  {:<name_width$}  {path:<4}  {:<rate_width$}  {users:<6}  {verdict}: {}",
            name(pair),
            rate(pair),
            pair.why
        )?;
    }
    Ok(())
}
