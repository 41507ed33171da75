//! A node's facts in `check --json`, which `audit` compares.

use nic_placement_core::placement::agreement::Agreement;
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{
    Arch, GpuIndex, LinkLayer, Nic, PciAddress, Port, Processor, Topology, X86,
};
use nic_placement_fleet::audit::report::{
    FORMAT, GpuReport, LinkReport, NicReport, NumaReport, PortReport, Report, SaidAgreement,
    VERSION,
};
use nic_placement_node::discover::Root;
use std::collections::BTreeMap;

/// Modules of GPUs and NICs that may state a version; the kernel's own state none.
const MODULES: &str =
    "nvidia nvidia_peermem gdrdrv amdgpu mlx5_core ib_core bnxt_re irdma efa cxi_ss1 nvidia_fs";

/// Without findings; `root` has the facts that [`Topology`] lacks.
pub(super) fn report(plan: &Plan, root: Option<&Root>, slurms_name: Option<String>) -> Report {
    let topology = &*plan.node;
    let read = |path: &str| {
        let text = root.and_then(|root| root.read(path));
        text.filter(|text| !text.is_empty())
    };
    let hosts_name = || {
        let name = read("proc/sys/kernel/hostname")?;
        Some(name.split('.').next().unwrap_or_default().to_string())
    };
    let word = Agreement::of(topology, &plan.map);
    let numa_nodes = topology.numa_nodes.iter().map(|node| NumaReport {
        node: node.os_index,
        cpus: node.cpus.to_string(),
    });
    let nics = topology.nics.iter();
    Report {
        format: FORMAT.to_string(),
        version: VERSION,
        host: slurms_name.or_else(hosts_name),
        machine: topology.name.clone(),
        source: topology.provenance.to_string(),
        fail: 0,
        warn: 0,
        findings: Vec::new(),
        versions: versions(root.is_some_and(Root::is_live), &read),
        default: None,
        processor: topology.processor.as_ref().map(processor),
        agreement: Some(SaidAgreement {
            digest: word.digest(),
            word,
        }),
        numa_nodes: numa_nodes.collect(),
        gpus: topology
            .gpu_indices()
            .map(|index| gpu(plan, index, &read))
            .collect(),
        nics: nics.map(|of| nic(topology, of, &read)).collect(),
    }
}

/// Of programs on the node, this one among them if it runs there.
fn versions(is_live: bool, read: &impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let module = |name| (name, format!("sys/module/{name}/version"));
    let files = [
        ("kernel", "proc/sys/kernel/osrelease".to_string()),
        (
            "BIOS",
            "sys/devices/virtual/dmi/id/bios_version".to_string(),
        ),
    ];
    let files = files.into_iter().chain(MODULES.split(' ').map(module));
    let read = files.filter_map(|(name, path)| Some((name, read(&path)?)));
    let ours = is_live.then(|| ("nic-placement", env!("CARGO_PKG_VERSION").to_string()));
    let all = ours.into_iter().chain(read);
    all.map(|(name, version)| (name.to_string(), version))
        .collect()
}

fn processor(processor: &Processor) -> String {
    if let Some(X86 {
        vendor,
        family,
        model,
    }) = processor.x86
    {
        return format!("x86 {vendor} family {family} model {model}");
    }
    let arch = match processor.arch {
        Arch::X86 => "x86",
        Arch::Arm => "Arm",
        Arch::Power => "POWER",
    };
    arch.to_string()
}

fn gpu(plan: &Plan, index: GpuIndex, read: &impl Fn(&str) -> Option<String>) -> GpuReport {
    let topology = &*plan.node;
    let gpu = topology.gpu(index);
    let address = gpu.address;
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
    let choices = plan.map.gpu(index).choices.iter();
    let model = gpu.model.clone();
    GpuReport {
        address: address.described(),
        model: model.or_else(|| model_of(topology, address)),
        partition: gpu.partition,
        mig_instances: gpu.mig_instances,
        numa_node: topology.numa_node_of(address),
        link: link(topology, address),
        versions: information.lines().filter_map(version).collect(),
        nics: choices
            .map(|choice| plan.map.rail(choice.rail).to_string())
            .collect(),
    }
}

fn nic(topology: &Topology, nic: &Nic, read: &impl Fn(&str) -> Option<String>) -> NicReport {
    let address = nic.address;
    let nearest = |address| {
        let gpus = topology.gpus.iter();
        gpus.map(|gpu| topology.path_type(gpu.address, address))
            .min()
    };
    // no file of these asks the card's firmware: the driver has them, or reads a register
    let of_the_device = |file: &str| read(&format!("sys/class/infiniband/{}/{file}", nic.name));
    let port = |port: &Port| PortReport {
        number: port.number,
        state: port.state.to_string(),
        rate_mbps: port.rate_mbps,
        link_layer: port.link_layer.to_string(),
        subnet: port.subnet.map(|subnet| subnet.to_string()),
        // the second half of the port's first GID, which the kernel keeps (InfiniBand Architecture Specification 1, 4.1.1)
        guid: of_the_device(&format!("ports/{}/gids/0", port.number))
            .filter(|_| port.link_layer == LinkLayer::InfiniBand)
            .and_then(|gid| Some(gid.get(20..39)?.to_string())),
        interface: interface(nic, port),
        neighbour: None,
    };
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
        ports: nic.ports.iter().map(port).collect(),
    }
}

/// Some drivers do not tell it; a NIC with one port and one interface uses that.
fn interface(nic: &Nic, port: &Port) -> Option<String> {
    let only = match nic.netdevs.as_slice() {
        [only] if nic.ports.len() == 1 => Some(only),
        _ => None,
    };
    port.netdev.as_ref().or(only).cloned()
}

fn model_of(topology: &Topology, address: PciAddress) -> Option<String> {
    let function = topology.pci.get(address)?;
    Some(format!("{:04x}:{:04x}", function.vendor?, function.device?))
}

fn link(topology: &Topology, address: PciAddress) -> Option<LinkReport> {
    let now = topology.pci.get(address)?.link.current?;
    Some(LinkReport {
        speed: format!("{}.{} GT/s", now.tenths_gt / 10, now.tenths_gt % 10),
        width: now.width,
    })
}
