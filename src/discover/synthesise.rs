//! A topology written as the `/sys` and `/proc` that discovery would have read it from: the inverse of [`discover`].
//!
//! [`discover`]: super::discover
//!
//! With it every model and every topology file is also a machine that real programs can be shown, and discovery is
//! tested against every topology that a generator can think of.  What sysfs does not say is lost: roles of NICs.
#![forbid(unsafe_code)]

use super::manifest::{Entry, Manifest};
use crate::topology::{
    Gpu, GpuVendor, LinkLayer, LinkRate, Nic, PciAddress, PciFunction, PciParent, PciTree, PortState,
    Topology,
};

/// The tree that shows `topology`.  GPUs and NICs whose PCI function the topology does not describe are left out.
pub fn synthesise(topology: &Topology) -> Manifest {
    let mut tree = Tree::default();
    tree.file("sys/devices/virtual/dmi/id", "product_name", &topology.name);
    for node in &topology.numa_nodes {
        let directory = format!("sys/devices/system/node/node{}", node.os_index);
        tree.file(&directory, "cpulist", &node.cpus.to_string());
        if !node.distances.is_empty() {
            let row: Vec<String> = node.distances.iter().map(u32::to_string).collect();
            tree.file(&directory, "distance", &row.join(" "));
        }
    }
    for pu in &topology.pus {
        let directory = format!("sys/devices/system/cpu/cpu{}/topology", pu.os_index);
        tree.file(&directory, "physical_package_id", &pu.package.to_string());
        tree.file(&directory, "core_id", &pu.core.to_string());
    }
    for function in topology.pci.iter() {
        if let Some(directory) = directory(&topology.pci, function.address) {
            pci(&mut tree, &directory, function);
        }
    }
    for gpu in &topology.gpus {
        if let Some(directory) = directory(&topology.pci, gpu.address) {
            self::gpu(&mut tree, &directory, gpu);
        }
    }
    for nic in &topology.nics {
        self::nic(&mut tree, topology, nic);
    }
    tree.manifest
}

#[derive(Default)]
struct Tree {
    manifest: Manifest,
}

impl Tree {
    fn file(&mut self, directory: &str, name: &str, text: &str) {
        self.manifest.insert(&format!("{directory}/{name}"), Entry::File(text.to_string()));
    }

    fn link(&mut self, directory: &str, name: &str, to: &str) {
        let up = "../".repeat(directory.split('/').count() - 1);
        let to = to.strip_prefix("sys/").unwrap_or(to);
        self.manifest.insert(&format!("{directory}/{name}"), Entry::Link(format!("{up}{to}")));
    }

    fn directory(&mut self, path: &str) {
        self.manifest.insert(path, Entry::Directory);
    }
}

/// `sys/devices/pci0000:15/0000:15:01.0/…`; `None` where the tree does not reach a host bridge
fn directory(pci: &PciTree, address: PciAddress) -> Option<String> {
    let (bridges, host) = pci.ancestors(address);
    let mut path = format!("sys/devices/{}", host?);
    for bridge in bridges.iter().rev() {
        path.push_str(&format!("/{bridge}"));
    }
    Some(format!("{path}/{address}"))
}

fn pci(tree: &mut Tree, directory: &str, function: &PciFunction) {
    let numa_node = function.numa_node.map_or("-1".to_string(), |node| node.to_string());
    tree.file(directory, "numa_node", &numa_node);
    for (name, value) in [
        ("class", function.class.map(|class| format!("0x{class:06x}"))),
        ("vendor", function.vendor.map(|id| format!("0x{id:04x}"))),
        ("device", function.device.map(|id| format!("0x{id:04x}"))),
        ("local_cpulist", function.local_cpus.as_ref().map(|cpus| cpus.to_string())),
    ] {
        if let Some(value) = value {
            tree.file(directory, name, &value);
        }
    }
    for (which, rate) in [("current", function.link.current), ("max", function.link.max)] {
        if let Some(LinkRate { tenths_gt, width }) = rate {
            let speed = format!("{}.{} GT/s PCIe", tenths_gt / 10, tenths_gt % 10);
            tree.file(directory, &format!("{which}_link_speed"), &speed);
            tree.file(directory, &format!("{which}_link_width"), &width.to_string());
        }
    }
    let is_bridge = matches!(function.class, Some(class) if class >> 8 == 0x0604);
    if !is_bridge || matches!(function.parent, PciParent::Host(_)) {
        tree.link("sys/bus/pci/devices", &function.address.to_string(), directory);
    }
}

fn gpu(tree: &mut Tree, directory: &str, gpu: &Gpu) {
    let address = gpu.address.to_string();
    tree.link("sys/bus/pci/devices", &address, directory);
    match gpu.vendor {
        GpuVendor::Nvidia => {
            let mut text = String::new();
            for (key, value) in [
                ("Model", gpu.model.clone()),
                ("GPU UUID", gpu.uuid.clone()),
                ("Bus Location", Some(address.clone())),
                ("Device Minor", gpu.minor.map(|minor| minor.to_string())),
            ] {
                if let Some(value) = value {
                    text.push_str(&format!("{key}: \t {value}\n"));
                }
            }
            tree.file(&format!("proc/driver/nvidia/gpus/{address}"), "information", text.trim_end());
        }
        GpuVendor::Amd | GpuVendor::Intel => {
            let driver = if gpu.vendor == GpuVendor::Amd { "amdgpu" } else { "xe" };
            tree.link(&format!("sys/bus/pci/drivers/{driver}"), &address, directory);
            if let Some(minor) = gpu.minor {
                tree.directory(&format!("{directory}/drm/renderD{minor}"));
            }
        }
    }
}

fn nic(tree: &mut Tree, topology: &Topology, nic: &Nic) {
    let parent = match nic.address.map(|address| directory(&topology.pci, address)) {
        Some(Some(parent)) => parent,
        Some(None) => return,
        None => "sys/devices/virtual".to_string(),
    };
    let device = format!("{parent}/infiniband/{}", nic.name);
    tree.link("sys/class/infiniband", &nic.name, &device);
    tree.directory(&format!("{device}/ports"));
    if nic.address.is_some() {
        if let Some(uverbs) = &nic.uverbs {
            tree.directory(&format!("{parent}/infiniband_verbs/{uverbs}"));
        }
        for netdev in &nic.netdevs {
            tree.directory(&format!("{parent}/net/{netdev}"));
        }
    }
    for port in &nic.ports {
        let directory = format!("{device}/ports/{}", port.number);
        let state = match port.state {
            PortState::Active => "4: ACTIVE",
            PortState::Down => "1: DOWN",
            PortState::Init => "2: INIT",
            PortState::Armed => "3: ARMED",
            PortState::Unknown => "0: NOP",
        };
        tree.file(&directory, "state", state);
        if let Some(mbps) = port.rate_mbps {
            let tenth = mbps % 1000 / 100;
            let fraction = if tenth == 0 { String::new() } else { format!(".{tenth}") };
            tree.file(&directory, "rate", &format!("{}{fraction} Gb/sec", mbps / 1000));
        }
        match port.link_layer {
            LinkLayer::InfiniBand => tree.file(&directory, "link_layer", "InfiniBand"),
            LinkLayer::Ethernet => tree.file(&directory, "link_layer", "Ethernet"),
            LinkLayer::Unknown => {}
        }
    }
}
