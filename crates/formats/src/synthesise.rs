//! A topology written as the `/sys` and `/proc` that discovery would have read it from: the inverse of [`discover`].
//!
//! [`discover`]: nic_placement_node::discover::discover
//!
//! So real programs can be shown every model and topology file, and discovery is tested with generated topologies.  Facts that sysfs
//! lacks (roles of NICs, stated paths) are kept beside it (`described`).
#![forbid(unsafe_code)]

use nic_placement_core::topology::{
    Arch, CpuVendor, Gpu, GpuVendor, LinkLayer, LinkRate, Nic, NicKind, PciAddress, PciFunction,
    PciParent, PciTree, PortState, Processor, Topology, X86, package_of,
};
use nic_placement_node::discover::described;
use nic_placement_node::discover::manifest::{Entry, Manifest};
use std::net::Ipv4Addr;

/// The tree that shows `topology`.  GPUs and NICs whose PCI function the topology does not describe are left out.
pub fn synthesise(topology: &Topology) -> Manifest {
    let mut tree = Tree::default();
    tree.file("sys/devices/virtual/dmi/id", "product_name", &topology.name);
    let processor = topology.processor.as_ref().map(modalias);
    tree.known("sys/devices/system/cpu", "modalias", processor);
    for node in &topology.numa_nodes {
        let directory = format!("sys/devices/system/node/node{}", node.os_index);
        tree.file(&directory, "cpulist", &node.cpus.to_string());
        let row: Vec<String> = node.distances.iter().map(u32::to_string).collect();
        tree.known(
            &directory,
            "distance",
            (!row.is_empty()).then(|| row.join(" ")),
        );
    }
    let topology_of = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/topology");
    for pu in &topology.pus {
        tree.file(
            &topology_of(pu.os_index),
            "physical_package_id",
            &pu.package.to_string(),
        );
        tree.file(&topology_of(pu.os_index), "core_id", &pu.core.to_string());
    }
    for node in &topology.numa_nodes {
        let Some(first) = node.cpus.first() else {
            continue;
        };
        match (node.package, package_of(&topology.pus, &node.cpus)) {
            (own, told) if own == told => {}
            // a kernel that knows no packages, where CPUs count as of package 0
            (None, told) if told != Some(0) => {}
            (own, _) => {
                let own = own.map_or("-1".to_string(), |package| package.to_string());
                tree.file(&topology_of(first), "physical_package_id", &own);
            }
        }
    }
    for function in topology.pci.iter() {
        if let Some(directory) = directory(&topology.pci, function.address) {
            pci(&mut tree, &directory, function);
            let physfn = function
                .physfn
                .and_then(|physfn| self::directory(&topology.pci, physfn));
            if let Some(physfn) = physfn {
                tree.link(&directory, "physfn", &physfn);
            }
        }
    }
    for gpu in &topology.gpus {
        if let Some(directory) = directory(&topology.pci, gpu.address) {
            self::gpu(&mut tree, &directory, gpu);
        }
    }
    compute_nodes(&mut tree, topology);
    for nic in &topology.nics {
        self::nic(&mut tree, topology, nic);
    }
    routes(&mut tree, topology);
    describe(topology, &mut tree.manifest);
    tree.manifest
}

/// The inverse of [`Processor::from_modalias`], without the features.
pub fn modalias(processor: &Processor) -> String {
    let numbers = processor.x86.map(
        |X86 {
             vendor,
             family,
             model,
         }| {
            let vendor = CpuVendor::ALL.iter().find(|(known, _)| *known == vendor);
            format!(
                ",ven{:04X}fam{family:04X}mod{model:04X}",
                vendor.map_or(0, |(_, number)| *number)
            )
        },
    );
    let arch = match processor.arch {
        Arch::X86 => "x86",
        Arch::Arm => "aarch64",
        Arch::Power => "ppc64le",
    };
    format!("cpu:type:{arch}{}:feature:", numbers.unwrap_or_default())
}

#[derive(Default)]
struct Tree {
    manifest: Manifest,
}

impl Tree {
    fn file(&mut self, directory: &str, name: &str, text: &str) {
        self.manifest.insert(
            &format!("{directory}/{name}"),
            Entry::File(text.to_string()),
        );
    }

    fn known(&mut self, directory: &str, name: &str, text: Option<impl ToString>) {
        text.into_iter()
            .for_each(|text| self.file(directory, name, &text.to_string()));
    }

    fn link(&mut self, directory: &str, name: &str, to: &str) {
        let up = "../".repeat(directory.split('/').count() - 1);
        let to = to.strip_prefix("sys/").unwrap_or(to);
        self.manifest.insert(
            &format!("{directory}/{name}"),
            Entry::Link(format!("{up}{to}")),
        );
    }

    fn directory(&mut self, path: &str) {
        self.manifest.insert(path, Entry::Directory);
    }
}

/// The compute driver's nodes: one for each NUMA node, then one for each AMD GPU or partition.
fn compute_nodes(tree: &mut Tree, topology: &Topology) {
    let mut gpus: Vec<&Gpu> = topology
        .gpus
        .iter()
        .filter(|gpu| gpu.vendor == GpuVendor::Amd)
        .collect();
    gpus.sort_by_key(|gpu| gpu.runtime_index);
    if gpus.is_empty() {
        return;
    }
    let directory = |index: usize| format!("sys/devices/virtual/kfd/kfd/topology/nodes/{index}");
    let cpus = topology.numa_nodes.len();
    for index in 0..cpus {
        tree.file(
            &directory(index),
            "properties",
            "cpu_cores_count 1\nsimd_count 0",
        );
    }
    for (index, gpu) in gpus.into_iter().enumerate() {
        let at = gpu.address;
        let location = u32::from(at.bus) << 8 | u32::from(at.device) << 3 | u32::from(at.function);
        let location = gpu.partition.unwrap_or(0) << 28 | location;
        let mut text = format!("simd_count 4\nlocation_id {location}\ndomain {}", at.domain);
        text.extend(gpu.minor.map(|minor| format!("\ndrm_render_minor {minor}")));
        let id = |uuid: &String| u64::from_str_radix(uuid.strip_prefix("GPU-")?, 16).ok();
        text.extend(
            gpu.uuid
                .as_ref()
                .and_then(id)
                .map(|id| format!("\nunique_id {id}")),
        );
        tree.file(&directory(cpus + index), "properties", &text);
    }
}

/// The routing table: the default route and the networks of verbs devices, a bond above the interface where the route is
/// not its own.
fn routes(tree: &mut Tree, topology: &Topology) {
    let mut table =
        "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT".to_string();
    let is_verbs = |nic: &&Nic| matches!(nic.kind, NicKind::Verbs | NicKind::Efa);
    for nic in topology.nics.iter().filter(is_verbs) {
        let Some(parent) = nic
            .address
            .and_then(|address| directory(&topology.pci, address))
        else {
            continue;
        };
        // an interface for each port, in their order
        for (port, own) in nic.ports.iter().zip(&nic.netdevs) {
            if port.default_route.is_none() && port.networks.is_empty() {
                continue;
            }
            let interface = format!("{parent}/net/{own}");
            tree.link("sys/class/net", own, &interface);
            tree.file(
                &interface,
                "dev_port",
                &port.number.saturating_sub(1).to_string(),
            );
            if let Some(route) = &port.default_route {
                if route != own {
                    let above = format!("sys/devices/virtual/net/{route}");
                    tree.link("sys/class/net", route, &above);
                    tree.link(&above, &format!("lower_{own}"), &interface);
                }
                table.push_str(&format!(
                    "\n{route} 00000000 00000001 0003 0 0 0 00000000 0 0 0"
                ));
            }
            // a network of all addresses would be a default route
            for network in port
                .networks
                .iter()
                .filter(|network| !network.mask().is_unspecified())
            {
                let [address, mask] = [network.address(), network.mask()].map(as_printed);
                table.push_str(&format!(
                    "\n{own} {address:08X} 00000000 0001 0 0 0 {mask:08X} 0 0 0"
                ));
            }
        }
    }
    let elsewhere = |nic: &Nic| {
        nic.ports
            .iter()
            .any(|port| port.routes_elsewhere || port.other_namespace)
    };
    if table.contains('\n') || topology.nics.iter().any(elsewhere) {
        tree.file("proc/net", "route", &table);
    }
}

/// An address as the kernel prints it in a table of routes: a number of this processor's.
fn as_printed(address: Ipv4Addr) -> u32 {
    u32::from_ne_bytes(address.octets())
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
    for (name, value) in [
        (
            "numa_node",
            Some(
                function
                    .numa_node
                    .map_or("-1".to_string(), |node| node.to_string()),
            ),
        ),
        (
            "class",
            function.class.map(|class| format!("0x{class:06x}")),
        ),
        ("vendor", function.vendor.map(|id| format!("0x{id:04x}"))),
        ("device", function.device.map(|id| format!("0x{id:04x}"))),
        (
            "subsystem_vendor",
            function
                .subsystem
                .map(|(vendor, _)| format!("0x{vendor:04x}")),
        ),
        (
            "subsystem_device",
            function
                .subsystem
                .map(|(_, device)| format!("0x{device:04x}")),
        ),
        (
            "local_cpulist",
            function.local_cpus.as_ref().map(|cpus| cpus.to_string()),
        ),
        ("sriov_numvfs", function.vfs.map(|vfs| vfs.to_string())),
    ] {
        tree.known(directory, name, value);
    }
    for (which, rate) in [
        ("current", function.link.current),
        ("max", function.link.max),
    ] {
        if let Some(LinkRate { tenths_gt, width }) = rate {
            let speed = format!("{}.{} GT/s PCIe", tenths_gt / 10, tenths_gt % 10);
            tree.file(directory, &format!("{which}_link_speed"), &speed);
            tree.file(
                directory,
                &format!("{which}_link_width"),
                &width.to_string(),
            );
        }
    }
    if let Some(kind) = &function.iommu {
        let group = format!("sys/kernel/iommu_groups/{}", function.address);
        tree.file(&group, "type", kind);
        tree.link(directory, "iommu_group", &group);
    }
    let is_bridge = matches!(function.class, Some(class) if class >> 8 == 0x0604);
    if !is_bridge || matches!(function.parent, PciParent::Host(_)) {
        tree.link(
            "sys/bus/pci/devices",
            &function.address.to_string(),
            directory,
        );
    }
}

fn gpu(tree: &mut Tree, directory: &str, gpu: &Gpu) {
    let address = gpu.address.to_string();
    tree.link("sys/bus/pci/devices", &address, directory);
    match gpu.vendor {
        GpuVendor::Nvidia => {
            let lines = [
                ("Model", gpu.model.clone()),
                ("GPU UUID", gpu.uuid.clone()),
                ("Bus Location", Some(address.clone())),
                ("Device Minor", gpu.minor.map(|minor| minor.to_string())),
            ];
            let line =
                |(key, value): (&str, Option<String>)| Some(format!("{key}: \t {}\n", value?));
            let text: String = lines.into_iter().filter_map(line).collect();
            tree.file(
                &format!("proc/driver/nvidia/gpus/{address}"),
                "information",
                text.trim_end(),
            );
            if let (Some(minor), Some(count)) = (gpu.minor, gpu.mig_instances) {
                for instance in 0..count {
                    tree.directory(&format!(
                        "proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{instance}"
                    ));
                }
            }
        }
        GpuVendor::Amd | GpuVendor::Intel => {
            let driver = if gpu.vendor == GpuVendor::Amd {
                "amdgpu"
            } else {
                "xe"
            };
            tree.link(
                &format!("sys/bus/pci/drivers/{driver}"),
                &address,
                directory,
            );
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
    for netdev in nic.netdevs.iter().filter(|_| nic.address.is_some()) {
        tree.directory(&format!("{parent}/net/{netdev}"));
    }
    match nic.kind {
        NicKind::Verbs | NicKind::Efa => verbs(tree, &parent, nic),
        NicKind::Slingshot if nic.name.starts_with("cxi") => {
            let device = format!("{parent}/cxi/{}", nic.name);
            tree.link("sys/class/cxi", &nic.name, &device);
            tree.directory(&device);
            interface(tree, &parent, nic);
        }
        // a Slingshot device that is known by its interface only is told beside the tree
        NicKind::Slingshot | NicKind::Ethernet => {
            let own = format!("{parent}/net/{}", nic.name);
            tree.link("sys/class/net", &nic.name, &own);
            tree.directory(&own);
            interface(tree, &parent, nic);
        }
    }
}

/// State and speed of an Ethernet interface's port.
fn interface(tree: &mut Tree, parent: &str, nic: &Nic) {
    let (Some(netdev), Some(port)) = (nic.netdevs.first(), nic.ports.first()) else {
        return;
    };
    let directory = format!("{parent}/net/{netdev}");
    let state = match port.state {
        PortState::Active => Some("up"),
        PortState::Down => Some("down"),
        PortState::Init | PortState::Armed | PortState::Unknown => None,
    };
    tree.known(&directory, "operstate", state);
    tree.known(&directory, "speed", port.rate_mbps);
}

fn verbs(tree: &mut Tree, parent: &str, nic: &Nic) {
    let device = format!("{parent}/infiniband/{}", nic.name);
    tree.link("sys/class/infiniband", &nic.name, &device);
    tree.directory(&format!("{device}/ports"));
    if nic.kind == NicKind::Efa {
        tree.link(parent, "driver", "sys/bus/pci/drivers/efa");
    }
    tree.known(&device, "node_guid", nic.guid.as_ref());
    tree.known(&device, "sys_image_guid", nic.card.as_ref());
    tree.known(
        &device,
        "parent",
        nic.netdevs.first().filter(|_| nic.address.is_none()),
    );
    if let Some(uverbs) = nic.uverbs.as_ref().filter(|_| nic.address.is_some()) {
        let device = format!("{parent}/infiniband_verbs/{uverbs}");
        tree.link("sys/class/infiniband_verbs", uverbs, &device);
        tree.directory(&device);
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
        let gbps = |mbps: u64| match mbps % 1000 / 100 {
            0 => format!("{} Gb/sec", mbps / 1000),
            tenth => format!("{}.{tenth} Gb/sec", mbps / 1000),
        };
        tree.known(&directory, "rate", port.rate_mbps.map(gbps));
        let layer = Some(port.link_layer).filter(|layer| *layer != LinkLayer::Unknown);
        tree.known(&directory, "link_layer", layer);
        tree.known(
            &directory,
            "phys_state",
            port.phys_state.as_ref().map(|state| format!("5: {state}")),
        );
        let away = port.other_namespace.then_some("away");
        tree.known(
            &format!("{directory}/gid_attrs/ndevs"),
            "0",
            port.netdev.as_deref().or(away),
        );
        tree.known(
            &format!("{directory}/gid_attrs/types"),
            "0",
            port.gid_type.as_ref(),
        );
        let gids = format!("{directory}/gids");
        tree.known(
            &gids,
            "0",
            port.subnet
                .map(|subnet| format!("{subnet}:0000:0000:0000:0001")),
        );
        tree.known(
            &gids,
            "1",
            port.routes_elsewhere
                .then_some("fd00:0000:0000:0000:0000:0000:0000:0001"),
        );
    }
}

/// Adds the facts of `topology` that sysfs cannot show, as files below [`described::PLACE`].
fn describe(topology: &Topology, manifest: &mut Manifest) {
    let mut file = |name: &str, text: String| {
        manifest.insert(&format!("{}/{name}", described::PLACE), Entry::File(text))
    };
    // always there: discovery looks for no known machine in a described node
    file(
        "supplied_by",
        topology.supplied_by.clone().unwrap_or_default(),
    );
    let roles: Vec<String> = topology
        .nics
        .iter()
        .filter_map(|nic| Some(format!("{} {}", nic.name, nic.role?)))
        .collect();
    if !roles.is_empty() {
        file("roles", roles.join("\n"));
    }
    let by_interface = |nic: &&Nic| nic.kind == NicKind::Slingshot && !nic.name.starts_with("cxi");
    let slingshot: Vec<&str> = topology
        .nics
        .iter()
        .filter(by_interface)
        .map(|nic| nic.name.as_str())
        .collect();
    if !slingshot.is_empty() {
        file("slingshot", slingshot.join("\n"));
    }
    // NVIDIA's driver tells its own
    let others = topology
        .gpus
        .iter()
        .filter(|gpu| gpu.vendor != GpuVendor::Nvidia);
    let models: Vec<String> = others
        .filter_map(|gpu| Some(format!("{} {}", gpu.address, gpu.model.as_ref()?)))
        .collect();
    if !models.is_empty() {
        file("models", models.join("\n"));
    }
    let mut gpus: Vec<PciAddress> = topology.stated_paths.keys().map(|(gpu, _)| *gpu).collect();
    gpus.dedup();
    for gpu in gpus {
        let of_gpu = topology
            .stated_paths
            .iter()
            .filter(|((of, _), _)| *of == gpu);
        let lines: Vec<String> = of_gpu
            .map(|((_, nic), kind)| format!("{nic} {kind}"))
            .collect();
        file(&format!("paths/{gpu}"), lines.join("\n"));
    }
}
