//! The node as a tree: what stands on which NUMA node and below which switch, a line for each device.

use crate::commands::devices;
use crate::commands::page::Page;
use crate::commands::shortfalls::no_nic;
use nic_placement_core::placement::{Excluded, NodePlacement};
use nic_placement_core::policy::gbps;
use nic_placement_core::topology::{
    GpuIndex, LinkLayer, NicIndex, PciAddress, Port, PortState, Topology,
};
use nic_placement_formats::picture::outline::{NodePlace, PlaceKind, memory_only, outline};
use std::fmt::Display;

pub(super) fn print(topology: &Topology, placement: &NodePlacement, page: &mut Page) {
    let node = Node {
        topology,
        placement,
    };
    let mut branches = node.contents(&outline(topology));
    let memory = memory_only(topology);
    if !memory.is_empty() {
        let line = format!("NUMA nodes {memory}  no CPUs: memory only");
        branches.push(Branch(line, Vec::new()));
    }
    lay_out(&branches, "", page);
}

/// A line, and the lines below it.
struct Branch(String, Vec<Branch>);

fn lay_out(branches: &[Branch], guide: &str, page: &mut Page) {
    for (at, Branch(line, inner)) in branches.iter().enumerate() {
        let (before, beside) = match at + 1 == branches.len() {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        let below = format!("{guide}{beside}");
        // a long line goes on under its name
        let rest = if inner.is_empty() { "  " } else { "│    " };
        page.behind(&(guide.to_string() + before), &(below.clone() + rest), line);
        lay_out(inner, &below, page);
    }
}

/// A name, and what is known.
fn described(name: impl Display, facts: impl IntoIterator<Item = String>) -> String {
    let mut line = format!("{name:<8}");
    for fact in facts.into_iter().filter(|fact| !fact.is_empty()) {
        line += &format!("  {fact}");
    }
    line
}

struct Node<'a> {
    topology: &'a Topology,
    placement: &'a NodePlacement,
}

impl Node<'_> {
    /// Smaller places and the place's devices: with GPUs in the GPUs' order, then NICs alone.
    fn contents(&self, place: &NodePlace) -> Vec<Branch> {
        let order = |place: &NodePlace| match place.kind {
            // sockets and NUMA nodes stay in the order of their numbers
            PlaceKind::Socket(_) | PlaceKind::NumaNode(_) | PlaceKind::Software => {
                (None, None, None)
            }
            _ => {
                let gpu = place.first_gpu();
                (Some(gpu.is_none()), gpu, place.first_nic())
            }
        };
        let places = place.places.iter().map(|inner| {
            let line = described(inner.kind.to_string(), inner.facts(self.topology));
            (order(inner), Branch(line, self.contents(inner)))
        });
        let gpus = place.gpus.iter();
        let gpus = gpus.map(|&gpu| ((Some(false), Some(gpu), None), self.gpu(gpu)));
        let nics = place.nics.iter().flat_map(|&nic| {
            let ports = self.ports(nic).into_iter();
            ports.map(move |port| ((Some(true), None, Some(nic)), port))
        });
        let mut branches: Vec<_> = places.chain(gpus).chain(nics).collect();
        branches.sort_by_key(|(order, _)| *order);
        branches.into_iter().map(|(_, branch)| branch).collect()
    }

    fn gpu(&self, index: GpuIndex) -> Branch {
        let gpu = self.topology.gpu(index);
        let part = gpu.partition.map(|part| format!(", part {part}"));
        let choices = self.placement.gpu(index).choices.iter();
        let choices: Vec<String> = choices
            .map(|choice| format!("{} {}", self.placement.rail(choice.rail), choice.path))
            .collect();
        let choices = match choices.is_empty() {
            true => no_nic(self.topology).to_string(),
            false => choices.join(", "),
        };
        let model = devices::gpu_model(self.topology, gpu).unwrap_or("model unknown");
        let facts = [
            gpu.address.described().unwrap_or_default(),
            model.to_string() + &part.unwrap_or_default(),
            format!("-> {choices}"),
        ];
        Branch(described(format!("GPU {index}"), facts), Vec::new())
    }

    /// A line for each port, also for a NIC without one.
    fn ports(&self, index: NicIndex) -> Vec<Branch> {
        let ports = &self.topology.nic(index).ports;
        match ports.is_empty() {
            true => vec![self.port(index, None)],
            false => ports
                .iter()
                .map(|port| self.port(index, Some(port)))
                .collect(),
        }
    }

    fn port(&self, index: NicIndex, port: Option<&Port>) -> Branch {
        let (topology, placement) = (self.topology, self.placement);
        let nic = topology.nic(index);
        let number = port.map(|port| port.number);
        let is_it =
            |out: &Excluded| out.name == nic.name && (out.port.is_none() || out.port == number);
        let is_out = placement.excluded.iter().any(is_it);
        let left_out = match placement.is_left_to_libfabric(topology, &nic.name) {
            true => "left alone",
            false => "left out",
        };
        let mark = if topology.supplied_by.is_some() {
            "*"
        } else {
            ""
        };
        let role = nic.role.map(|role| format!("{role}{mark}"));
        let left_out = is_out.then(|| left_out.to_string());
        let used: Vec<String> = role.into_iter().chain(left_out).collect();
        let (name, interfaces) = match port {
            Some(port) if nic.ports.len() > 1 => (
                format!("{}:{}", nic.name, port.number),
                port.netdev.clone().unwrap_or_default(),
            ),
            _ => (nic.name.to_string(), nic.netdevs.join(",")),
        };
        let [rate, link, state] = match port {
            Some(port) => [
                port.rate_mbps.map_or("rate unknown".to_string(), gbps),
                match port.link_layer {
                    LinkLayer::Unknown => String::new(),
                    known => known.to_string(),
                },
                match port.state {
                    PortState::Unknown => "state unknown".to_string(),
                    known => known.to_string(),
                },
            ],
            None => ["no port".to_string(), String::new(), String::new()],
        };
        let address = nic.address.and_then(PciAddress::described);
        let facts = [
            address.unwrap_or_default(),
            rate,
            link,
            state,
            interfaces,
            used.join(", "),
        ];
        Branch(described(name, facts), Vec::new())
    }
}
