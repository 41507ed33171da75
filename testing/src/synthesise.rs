//! A topology written as the `/sys` and `/proc` that discovery would have read it from: the inverse of [`discover`].
//!
//! [`discover`]: nic_placement_node::discover::discover
//!
//! So real programs can be shown every model and topology file, and discovery is tested with generated topologies.  Facts that sysfs
//! lacks (roles of NICs, stated paths) are kept beside it (`described`).

use nic_placement_core::topology::{
    Arch, CpuVendor, Gpu, GpuVendor, LinkLayer, LinkRate, Nic, NicKind, PciAddress, PciFunction,
    PciParent, PciTree, PortState, Processor, Topology, package_of,
};
use nic_placement_node::discover::described;
use nic_placement_node::discover::manifest::{Entry, Manifest};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// GPUs and NICs whose PCI function is not described are left out.
pub fn synthesise(topology: &Topology) -> Manifest {
    let mut tree = Tree::default();
    tree.file("sys/devices/virtual/dmi/id", "product_name", &topology.name);
    tree.known(
        "sys/devices/system/cpu",
        "modalias",
        topology.processor.as_ref().map(modalias),
    );
    for node in &topology.numa_nodes {
        let directory = format!("sys/devices/system/node/node{}", node.os_index);
        tree.file(&directory, "cpulist", &node.cpus);
        tree.list(
            &directory,
            "distance",
            node.distances.iter().map(u32::to_string),
            " ",
        );
    }
    let topology_of = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/topology");
    for pu in &topology.pus {
        let directory = topology_of(pu.os_index);
        tree.file(&directory, "physical_package_id", pu.package);
        tree.file(&directory, "core_id", pu.core);
    }
    for node in &topology.numa_nodes {
        let told = package_of(&topology.pus, &node.cpus);
        // a kernel that knows no packages has none to tell, and its CPUs count as of package 0
        if node.package != told && (node.package.is_some() || told == Some(0)) {
            let package = node.package.map_or(-1, i64::from);
            if let Some(first) = node.cpus.first().map(topology_of) {
                tree.file(&first, "physical_package_id", package);
            }
        }
    }
    let directory = |address| directory(&topology.pci, address);
    for function in topology.pci.iter() {
        let Some(own) = directory(function.address) else {
            continue;
        };
        pci(&mut tree, &own, function);
        if let Some(physfn) = function.physfn.and_then(directory) {
            tree.link(&own, "physfn", &physfn);
        }
    }
    for gpu in &topology.gpus {
        if let Some(own) = directory(gpu.address) {
            self::gpu(&mut tree, &own, gpu);
        }
    }
    compute_nodes(&mut tree, topology);
    for nic in &topology.nics {
        match nic.address.map(directory) {
            Some(Some(parent)) => self::nic(&mut tree, &parent, nic),
            Some(None) => {}
            None => self::nic(&mut tree, "sys/devices/virtual", nic),
        }
    }
    routes(&mut tree, topology);
    describe(topology, &mut tree);
    tree.0
}

/// The inverse of [`Processor::from_modalias`], without the features.
pub fn modalias(processor: &Processor) -> String {
    let numbers = processor.x86.map(|of| {
        let vendor = CpuVendor::ALL
            .iter()
            .find(|(known, _)| *known == of.vendor)
            .map_or(0, |(_, number)| *number);
        format!(",ven{vendor:04X}fam{:04X}mod{:04X}", of.family, of.model)
    });
    let arch = match processor.arch {
        Arch::X86 => "x86",
        Arch::Arm => "aarch64",
        Arch::Power => "ppc64le",
    };
    format!("cpu:type:{arch}{}:feature:", numbers.unwrap_or_default())
}

#[derive(Default)]
struct Tree(Manifest);

impl Tree {
    fn file(&mut self, directory: &str, name: &str, text: impl ToString) {
        let path = format!("{directory}/{name}");
        self.0.insert(&path, Entry::File(text.to_string()));
    }

    fn known(&mut self, directory: &str, name: &str, text: Option<impl ToString>) {
        if let Some(text) = text {
            self.file(directory, name, text);
        }
    }

    /// None without items.
    fn list(
        &mut self,
        directory: &str,
        name: &str,
        items: impl Iterator<Item = String>,
        between: &str,
    ) {
        let items: Vec<String> = items.collect();
        self.known(
            directory,
            name,
            (!items.is_empty()).then(|| items.join(between)),
        );
    }

    fn link(&mut self, directory: &str, name: &str, to: &str) {
        let up = "../".repeat(directory.split('/').count() - 1);
        let to = to.strip_prefix("sys/").unwrap_or(to);
        let path = format!("{directory}/{name}");
        self.0.insert(&path, Entry::Link(format!("{up}{to}")));
    }

    fn directory(&mut self, path: &str) {
        self.0.insert(path, Entry::Directory);
    }
}

/// One for each NUMA node, then one for each AMD GPU or partition.
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
    let cpus = topology
        .numa_nodes
        .iter()
        .map(|_| "cpu_cores_count 1\nsimd_count 0".to_string());
    let gpus = gpus.into_iter().map(|gpu| {
        let at = gpu.address;
        let location = u32::from(at.bus) << 8 | u32::from(at.device) << 3 | u32::from(at.function);
        let location = gpu.partition.unwrap_or(0) << 28 | location;
        let minor = gpu.minor.map(|minor| format!("\ndrm_render_minor {minor}"));
        let id = gpu
            .uuid
            .as_ref()
            .and_then(|uuid| uuid.strip_prefix("GPU-"))
            .and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let id = id.map(|id| format!("\nunique_id {id}"));
        format!("simd_count 4\nlocation_id {location}\ndomain {}", at.domain)
            + &minor.unwrap_or_default()
            + &id.unwrap_or_default()
    });
    for (index, text) in cpus.chain(gpus).enumerate() {
        let directory = format!("sys/devices/virtual/kfd/kfd/topology/nodes/{index}");
        tree.file(&directory, "properties", text);
    }
}

/// Default route and networks of verbs devices, below a bond where the route is not the
/// interface's own.
fn routes(tree: &mut Tree, topology: &Topology) {
    let mut rows = String::new();
    for nic in topology
        .nics
        .iter()
        .filter(|nic| matches!(nic.kind, NicKind::Verbs | NicKind::Efa))
    {
        let parent = nic
            .address
            .and_then(|address| directory(&topology.pci, address));
        let Some(parent) = parent else {
            continue;
        };
        // an interface for each port, in their order
        for (port, own) in nic.ports.iter().zip(&nic.netdevs) {
            if port.default_route.is_none() && port.networks.is_empty() {
                continue;
            }
            let interface = format!("{parent}/net/{own}");
            tree.link("sys/class/net", own, &interface);
            tree.file(&interface, "dev_port", port.number.saturating_sub(1));
            if let Some(route) = &port.default_route {
                if route != own {
                    let above = format!("sys/devices/virtual/net/{route}");
                    tree.link("sys/class/net", route, &above);
                    tree.link(&above, &format!("lower_{own}"), &interface);
                }
                rows += &format!("\n{route} 00000000 00000001 0003 0 0 0 00000000 0 0 0");
            }
            for network in &port.networks {
                // a network of all addresses would be a default route
                if !network.mask().is_unspecified() {
                    let [address, mask] = [network.address(), network.mask()].map(as_printed);
                    rows += &format!("\n{own} {address:08X} 00000000 0001 0 0 0 {mask:08X} 0 0 0");
                }
            }
        }
    }
    let mut ports = topology.nics.iter().flat_map(|nic| &nic.ports);
    if !rows.is_empty() || ports.any(|port| port.routes_elsewhere || port.other_namespace) {
        let head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT";
        tree.file("proc/net", "route", head.to_string() + &rows);
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
    let hex = |id: u16| format!("0x{id:04x}");
    let [vendor, device] = [function.vendor, function.device].map(|id| id.map(hex));
    let subsystem = function.subsystem;
    tree.file(
        directory,
        "numa_node",
        function.numa_node.map_or(-1, i64::from),
    );
    for (name, value) in [
        (
            "class",
            function.class.map(|class| format!("0x{class:06x}")),
        ),
        ("vendor", vendor),
        ("device", device),
        ("subsystem_vendor", subsystem.map(|(vendor, _)| hex(vendor))),
        ("subsystem_device", subsystem.map(|(_, device)| hex(device))),
    ] {
        tree.known(directory, name, value);
    }
    tree.known(directory, "local_cpulist", function.local_cpus.as_ref());
    tree.known(directory, "sriov_numvfs", function.vfs);
    let link = &function.link;
    for (which, rate) in [("current", link.current), ("max", link.max)] {
        if let Some(LinkRate { tenths_gt, width }) = rate {
            tree.file(
                directory,
                &format!("{which}_link_speed"),
                format!("{}.{} GT/s PCIe", tenths_gt / 10, tenths_gt % 10),
            );
            tree.file(directory, &format!("{which}_link_width"), width);
        }
    }
    if let Some(kind) = &function.iommu {
        let group = format!("sys/kernel/iommu_groups/{}", function.address);
        tree.file(&group, "type", kind);
        tree.link(directory, "iommu_group", &group);
    }
    let is_bridge = matches!(function.class, Some(class) if class >> 8 == 0x0604);
    if !is_bridge || matches!(function.parent, PciParent::Host(_)) {
        let address = function.address.to_string();
        tree.link("sys/bus/pci/devices", &address, directory);
    }
}

fn gpu(tree: &mut Tree, directory: &str, gpu: &Gpu) {
    let address = gpu.address.to_string();
    tree.link("sys/bus/pci/devices", &address, directory);
    let driver = match gpu.vendor {
        GpuVendor::Nvidia => {
            let lines = [
                ("Model", gpu.model.clone()),
                ("GPU UUID", gpu.uuid.clone()),
                ("Bus Location", Some(address.clone())),
                ("Device Minor", gpu.minor.map(|minor| minor.to_string())),
            ]
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .map(|(key, value)| format!("{key}: \t {value}"));
            let place = format!("proc/driver/nvidia/gpus/{address}");
            tree.list(&place, "information", lines, "\n");
            for instance in 0..gpu.mig_instances.unwrap_or(0) {
                if let Some(minor) = gpu.minor {
                    let place = format!("proc/driver/nvidia/capabilities/gpu{minor}/mig");
                    tree.directory(&format!("{place}/gi{instance}"));
                }
            }
            return;
        }
        GpuVendor::Amd => "amdgpu",
        GpuVendor::Intel => "xe",
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

fn nic(tree: &mut Tree, parent: &str, nic: &Nic) {
    for netdev in nic.netdevs.iter().filter(|_| nic.address.is_some()) {
        tree.directory(&format!("{parent}/net/{netdev}"));
    }
    // a Slingshot device that is known by its interface only is told beside the tree
    let class = match nic.kind {
        NicKind::Verbs | NicKind::Efa => return verbs(tree, parent, nic),
        NicKind::Slingshot if nic.name.starts_with("cxi") => "cxi",
        NicKind::Slingshot | NicKind::Ethernet => "net",
    };
    let device = format!("{parent}/{class}/{}", nic.name);
    tree.link(&format!("sys/class/{class}"), &nic.name, &device);
    tree.directory(&device);
    if let (Some(netdev), Some(port)) = (nic.netdevs.first(), nic.ports.first()) {
        let interface = format!("{parent}/net/{netdev}");
        let state = match port.state {
            PortState::Active => Some("up"),
            PortState::Down => Some("down"),
            PortState::Init | PortState::Armed | PortState::Unknown => None,
        };
        tree.known(&interface, "operstate", state);
        tree.known(&interface, "speed", port.rate_mbps);
    }
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
    if nic.address.is_none() {
        tree.known(&device, "parent", nic.netdevs.first());
    } else if let Some(uverbs) = &nic.uverbs {
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
        tree.known(
            &directory,
            "rate",
            port.rate_mbps.map(|mbps| match mbps % 1000 / 100 {
                0 => format!("{} Gb/sec", mbps / 1000),
                tenth => format!("{}.{tenth} Gb/sec", mbps / 1000),
            }),
        );
        let layer = Some(port.link_layer).filter(|layer| *layer != LinkLayer::Unknown);
        tree.known(&directory, "link_layer", layer);
        let physical = port.phys_state.as_ref().map(|state| format!("5: {state}"));
        tree.known(&directory, "phys_state", physical);
        tree.known(
            &format!("{directory}/gid_attrs/ndevs"),
            "0",
            port.netdev
                .as_deref()
                .or(port.other_namespace.then_some("away")),
        );
        let types = format!("{directory}/gid_attrs/types");
        tree.known(&types, "0", port.gid_type.as_ref());
        let gids = format!("{directory}/gids");
        let first = port
            .subnet
            .map(|subnet| format!("{subnet}:0000:0000:0000:0001"));
        tree.known(&gids, "0", first);
        tree.known(
            &gids,
            "1",
            port.routes_elsewhere
                .then_some("fd00:0000:0000:0000:0000:0000:0000:0001"),
        );
    }
}

/// Facts that sysfs cannot show, below [`described::PLACE`].
fn describe(topology: &Topology, tree: &mut Tree) {
    let mut list = |name: &str, lines: Vec<String>| {
        tree.list(described::PLACE, name, lines.into_iter(), "\n");
    };
    // always there: discovery looks for no known machine in a described node
    list(
        "supplied_by",
        vec![topology.supplied_by.clone().unwrap_or_default()],
    );
    let nics = topology.nics.iter();
    let roles = nics
        .clone()
        .filter_map(|nic| Some(format!("{} {}", nic.name, nic.role?)));
    list("roles", roles.collect());
    let slingshot = nics
        .filter(|nic| nic.kind == NicKind::Slingshot && !nic.name.starts_with("cxi"))
        .map(|nic| nic.name.to_string());
    list("slingshot", slingshot.collect());
    // NVIDIA's driver tells its own
    let models = topology
        .gpus
        .iter()
        .filter(|gpu| gpu.vendor != GpuVendor::Nvidia)
        .filter_map(|gpu| Some(format!("{} {}", gpu.address, gpu.model.as_ref()?)));
    list("models", models.collect());
    let mut paths: BTreeMap<PciAddress, Vec<String>> = BTreeMap::new();
    for ((gpu, nic), kind) in &topology.stated_paths {
        paths.entry(*gpu).or_default().push(format!("{nic} {kind}"));
    }
    for (gpu, lines) in paths {
        list(&format!("paths/{gpu}"), lines);
    }
}
