//! A node's facts in `check --json`, which `audit` compares.

use nic_placement_core::placement::agreement::Agreement;
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{
    Arch, Gpu, GpuIndex, LinkLayer, Nic, PciAddress, PciFunction, Port, Processor, Topology, X86,
};
use nic_placement_fleet::audit::report::{
    FORMAT, Finding, GpuReport, Level, LinkReport, NicReport, NumaReport, PortReport, Report,
    SaidAgreement, VERSION,
};
use nic_placement_node::discover::Root;
use std::collections::BTreeMap;

/// Modules of GPUs and NICs that may state a version; the kernel's own state none.
const MODULES: &str =
    "nvidia nvidia_peermem gdrdrv amdgpu mlx5_core ib_core bnxt_re irdma efa cxi_ss1 nvidia_fs";

/// `root` has the facts that [`Topology`] lacks.
pub(super) fn report(
    plan: &Plan,
    root: Option<&Root>,
    slurms_name: Option<String>,
    default: Option<String>,
    findings: Vec<Finding>,
) -> Report {
    let topology = &*plan.node;
    let read = |path: &str| {
        root.and_then(|root| root.read(path))
            .filter(|text| !text.is_empty())
    };
    let hosts_name = || {
        let name = read("proc/sys/kernel/hostname")?;
        Some(name.split('.').next().unwrap_or_default().to_string())
    };
    let word = Agreement::of(topology, &plan.map);
    Report {
        format: FORMAT.to_string(),
        version: VERSION,
        host: slurms_name.or_else(hosts_name),
        machine: topology.name.clone(),
        source: topology.provenance.to_string(),
        fail: findings
            .iter()
            .filter(|finding| finding.level == Level::Fail)
            .count(),
        warn: findings
            .iter()
            .filter(|finding| finding.level == Level::Warn)
            .count(),
        findings,
        versions: versions(root.is_some_and(Root::is_live), &read),
        default,
        processor: topology.processor.as_ref().map(processor),
        agreement: Some(SaidAgreement {
            digest: word.digest(),
            word,
        }),
        numa_nodes: topology
            .numa_nodes
            .iter()
            .map(|node| NumaReport {
                node: node.os_index,
                cpus: node.cpus.to_string(),
            })
            .collect(),
        gpus: topology
            .gpu_indices()
            .map(|index| gpu(plan, index, &read))
            .collect(),
        nics: topology
            .nics
            .iter()
            .map(|of| nic(topology, of, &read))
            .collect(),
    }
}

/// Of programs on the node, this one among them if it runs there.
fn versions(is_live: bool, read: &impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let of_the_node = [
        ("kernel", "proc/sys/kernel/osrelease"),
        ("BIOS", "sys/devices/virtual/dmi/id/bios_version"),
    ];
    let files = of_the_node
        .map(|(name, path)| (name, path.to_string()))
        .into_iter();
    let modules = MODULES
        .split(' ')
        .map(|name| (name, format!("sys/module/{name}/version")));
    let ours = is_live.then(|| {
        (
            "nic-placement".to_string(),
            env!("CARGO_PKG_VERSION").to_string(),
        )
    });
    let read = files
        .chain(modules)
        .filter_map(|(name, path)| Some((name.to_string(), read(&path)?)));
    ours.into_iter().chain(read).collect()
}

fn processor(processor: &Processor) -> String {
    match (processor.arch, processor.x86) {
        (
            _,
            Some(X86 {
                vendor,
                family,
                model,
            }),
        ) => {
            format!("x86 {vendor} family {family} model {model}")
        }
        (Arch::X86, None) => "x86".to_string(),
        (Arch::Arm, None) => "Arm".to_string(),
        (Arch::Power, None) => "POWER".to_string(),
    }
}

fn gpu(plan: &Plan, index: GpuIndex, read: &impl Fn(&str) -> Option<String>) -> GpuReport {
    let topology = &*plan.node;
    let Gpu {
        address,
        model,
        partition,
        mig_instances,
        ..
    } = topology.gpu(index);
    let information =
        read(&format!("proc/driver/nvidia/gpus/{address}/information")).unwrap_or_default();
    let version = |line: &str| {
        let (name, value) = line.split_once(':')?;
        // a driver that was never asked says `??.??.??.??.??`
        let (name, value) = (name.trim(), value.trim());
        let is_known = !value.is_empty() && !value.contains('?') && value != "N/A";
        (is_known && ["Video BIOS", "GPU Firmware"].contains(&name))
            .then(|| (name.to_string(), value.to_string()))
    };
    let choices = &plan.map.gpu(index).choices;
    GpuReport {
        address: address.described(),
        model: model.clone().or_else(|| model_of(topology, *address)),
        partition: *partition,
        mig_instances: *mig_instances,
        numa_node: topology.numa_node_of(*address),
        link: link(topology, *address),
        versions: information.lines().filter_map(version).collect(),
        nics: choices
            .iter()
            .map(|choice| plan.map.rail(choice.rail).to_string())
            .collect(),
    }
}

fn nic(topology: &Topology, nic: &Nic, read: &impl Fn(&str) -> Option<String>) -> NicReport {
    let address = nic.address;
    let nearest = |address| {
        topology
            .gpus
            .iter()
            .map(|gpu| topology.path_type(gpu.address, address))
            .min()
    };
    // neither file asks the card's firmware: the driver has both, or reads a register
    let of_the_device = |file: &str| read(&format!("sys/class/infiniband/{}/{file}", nic.name));
    NicReport {
        name: nic.name.to_string(),
        kind: nic.kind.to_string(),
        address: address.and_then(PciAddress::described),
        model: address.and_then(|address| model_of(topology, address)),
        board: of_the_device("board_id"),
        firmware: of_the_device("fw_ver"),
        numa_node: address.and_then(|address| topology.numa_node_of(address)),
        link: address.and_then(|address| link(topology, address)),
        nearest: address.and_then(nearest).map(|path| path.to_string()),
        guid: nic.guid.clone(),
        ports: nic
            .ports
            .iter()
            .map(|port| PortReport {
                number: port.number,
                state: port.state.to_string(),
                rate_mbps: port.rate_mbps,
                link_layer: port.link_layer.to_string(),
                subnet: port.subnet.map(|subnet| subnet.to_string()),
                guid: guid(nic, port, read),
                interface: interface(nic, port),
                neighbour: None,
            })
            .collect(),
    }
}

/// The second half of the port's first GID, which the kernel keeps without asking firmware (InfiniBand Architecture
/// Specification 1, 4.1.1).
fn guid(nic: &Nic, port: &Port, read: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let is_infiniband = port.link_layer == LinkLayer::InfiniBand;
    let gid = read(&format!(
        "sys/class/infiniband/{}/ports/{}/gids/0",
        nic.name, port.number
    ));
    Some(gid.filter(|_| is_infiniband)?.get(20..39)?.to_string())
}

/// Some drivers do not tell it; a NIC with one port and one interface uses that.
fn interface(nic: &Nic, port: &Port) -> Option<String> {
    let only = || match (nic.netdevs.as_slice(), nic.ports.len()) {
        ([only], 1) => Some(only.clone()),
        _ => None,
    };
    port.netdev.clone().or_else(only)
}

fn model_of(topology: &Topology, address: PciAddress) -> Option<String> {
    let PciFunction { vendor, device, .. } = topology.pci.get(address)?;
    Some(format!("{:04x}:{:04x}", (*vendor)?, (*device)?))
}

fn link(topology: &Topology, address: PciAddress) -> Option<LinkReport> {
    let now = topology.pci.get(address)?.link.current?;
    Some(LinkReport {
        speed: format!("{}.{} GT/s", now.tenths_gt / 10, now.tenths_gt % 10),
        width: now.width,
    })
}
