//! Orders the node into places inside places: sockets, NUMA nodes, host bridges, PCIe switches, with their GPUs and NICs.

use nic_placement_core::topology::{
    Gpu, GpuIndex, GpuVendor, HostBridge, NicIndex, NodeSet, PathType, PciAddress, Topology,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PlaceKind {
    Node,
    /// a processor package, counted from 0 in order of its first NUMA node
    Socket(usize),
    /// by its os index; `None` for devices of which no NUMA node is known
    NumaNode(Option<u32>),
    /// a host bridge that several cards stand below
    HostBridge(HostBridge),
    /// the package of two GPUs, by the first, with all below their host bridges
    Package(PciAddress),
    Switch(PciAddress),
    /// cards that stated paths join, at most this far, by the first: the bus hides their switch
    Stated(PathType, PciAddress),
    Software,
    /// a PCI device, by its function 0; a finished outline has none
    Card(PciAddress),
}

/// A place, its own devices in PCI order, and the places in it.
#[derive(Clone)]
pub struct NodePlace {
    pub kind: PlaceKind,
    /// GPUs that stand in no smaller place
    pub gpus: Vec<GpuIndex>,
    pub nics: Vec<NicIndex>,
    pub places: Vec<NodePlace>,
}

/// The whole node: every GPU and every NIC stands in exactly one place.
pub fn outline(topology: &Topology) -> NodePlace {
    let mut node = NodePlace::new(PlaceKind::Node);
    let sockets = sockets(topology);
    let memory = memory_only(topology);
    for numa in topology.numa_nodes.iter().map(|numa| numa.os_index) {
        if !memory.contains(numa) {
            node.at(&numa_chain(topology, &sockets, Some(numa)));
        }
    }
    let groups = groups(topology);
    let packages = packages(topology);
    let gpus = topology
        .numbered_gpus()
        .map(|(index, gpu)| (gpu.address, Device::Gpu(index)));
    let nics = topology
        .numbered_nics()
        .filter_map(|(index, nic)| Some((nic.address?, Device::Nic(index))));
    let mut devices: Vec<(PciAddress, Device)> = gpus.chain(nics).collect();
    devices.sort();
    for (address, device) in devices {
        let numa = topology
            .numa_node_of(address)
            .filter(|numa| topology.numa_node(*numa).is_some());
        let mut chain = numa_chain(topology, &sockets, numa);
        let host = topology.ascent(address).host();
        let package = packages.iter().find(|(of_one, _)| Some(*of_one) == host);
        chain.extend(package.map(|&(_, first)| PlaceKind::Package(first)));
        chain.extend(device_chain(topology, &groups, address));
        chain.push(PlaceKind::Card(address.card()));
        node.at(&chain).hold(device);
    }
    for (index, nic) in topology.numbered_nics() {
        if nic.address.is_none() {
            node.at(&[PlaceKind::Software]).hold(Device::Nic(index));
        }
    }
    // unknown places come last
    node.places.sort_by_key(|place| match place.kind {
        PlaceKind::NumaNode(None) => 1,
        PlaceKind::Software => 2,
        _ => 0,
    });
    node.without_idle_bridges()
}

/// NUMA nodes without CPUs and without devices, where others have CPUs: memory of GPUs, CXL.
pub fn memory_only(topology: &Topology) -> NodeSet {
    if topology.cpus().is_empty() {
        return NodeSet::new();
    }
    let with_devices: NodeSet = topology
        .gpus
        .iter()
        .map(|gpu| gpu.address)
        .chain(topology.nics.iter().filter_map(|nic| nic.address))
        .filter_map(|address| topology.numa_node_of(address))
        .collect();
    topology
        .numa_nodes
        .iter()
        .filter(|node| node.cpus.is_empty() && !with_devices.contains(node.os_index))
        .map(|node| node.os_index)
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Device {
    Gpu(GpuIndex),
    Nic(NicIndex),
}

/// The socket of each NUMA node; empty where nothing tells, or where each socket is one NUMA node.
fn sockets(topology: &Topology) -> BTreeMap<u32, usize> {
    let nodes = topology
        .numa_nodes
        .iter()
        .filter(|node| !node.cpus.is_empty());
    let first = |node: u32| (node, topology.socket_of(node));
    let of_node: BTreeMap<u32, u32> = nodes.map(|node| first(node.os_index)).collect();
    let firsts: BTreeSet<u32> = of_node.values().copied().collect();
    if firsts.len() == of_node.len() {
        return BTreeMap::new();
    }
    let number = |first: u32| firsts.range(..first).count();
    of_node
        .into_iter()
        .map(|(node, first)| (node, number(first)))
        .collect()
}

fn numa_chain(
    topology: &Topology,
    sockets: &BTreeMap<u32, usize>,
    numa: Option<u32>,
) -> Vec<PlaceKind> {
    let socket = numa.and_then(|numa| sockets.get(&numa));
    let socket = socket.map(|&socket| PlaceKind::Socket(socket));
    // a node of which no NUMA node is known has none to show
    let is_shown = numa.is_some() || !topology.numa_nodes.is_empty();
    socket
        .into_iter()
        .chain(is_shown.then_some(PlaceKind::NumaNode(numa)))
        .collect()
}

/// Each host bridge of an MI250X' GPUs, with the first of these.  The kernel shows its halves
/// (GCDs) as GPUs that follow each other, each below a host bridge with its NIC (OLCF, Frontier
/// User Guide).
fn packages(topology: &Topology) -> Vec<(HostBridge, PciAddress)> {
    let hosts: Vec<Option<HostBridge>> = topology
        .gpus
        .iter()
        .map(|gpu| topology.ascent(gpu.address).host())
        .collect();
    let is_half = |gpu: &Gpu| {
        let device = topology.pci.get(gpu.address).and_then(|pci| pci.device);
        gpu.vendor == GpuVendor::Amd && matches!(device, Some(0x7408 | 0x740c))
    };
    let mut packages = Vec::new();
    for (pair, of_pair) in topology.gpus.chunks(2).zip(hosts.chunks(2)) {
        let alone = |host| hosts.iter().filter(|other| **other == Some(host)).count() == 1;
        let numa = |gpu: &Gpu| topology.numa_node_of(gpu.address);
        if let ([a, b], &[Some(first), Some(second)]) = (pair, of_pair) {
            let are_halves = is_half(a) && is_half(b) && numa(a) == numa(b);
            if are_halves && alone(first) && alone(second) {
                packages.extend([(first, a.address), (second, a.address)]);
            }
        }
    }
    packages
}

/// For each kind of path the cards that stated paths join, by the first of their group.
type Groups = Vec<(PathType, BTreeMap<PciAddress, PciAddress>)>;

fn groups(topology: &Topology) -> Groups {
    [PathType::Pxb, PathType::Pix]
        .into_iter()
        .filter(|_| !topology.stated_paths.is_empty())
        .map(|most| (most, joined(topology, most)))
        .collect()
}

/// The places around a card, the largest first.
fn device_chain(topology: &Topology, groups: &Groups, address: PciAddress) -> Vec<PlaceKind> {
    if !groups.is_empty() {
        return groups
            .iter()
            .filter_map(|(most, firsts)| Some(PlaceKind::Stated(*most, *firsts.get(&address)?)))
            .collect();
    }
    let ascent = topology.ascent(address);
    let bridges: Vec<PciAddress> = ascent.bridges().collect();
    ascent
        .host()
        .map(PlaceKind::HostBridge)
        .into_iter()
        .chain(bridges.into_iter().rev().map(PlaceKind::Switch))
        .collect()
}

/// Devices that stated paths of at most this kind join, by the first of their group, on each NUMA
/// node.
fn joined(topology: &Topology, most: PathType) -> BTreeMap<PciAddress, PciAddress> {
    let stated = topology.stated_paths.iter();
    let near = stated.filter(|((a, b), kind)| {
        **kind <= most && topology.numa_node_of(*a) == topology.numa_node_of(*b)
    });
    let pairs: Vec<(PciAddress, PciAddress)> = near.map(|(pair, _)| *pair).collect();
    let own = pairs.iter().flat_map(|&(a, b)| [(a, a), (b, b)]);
    let mut firsts: BTreeMap<PciAddress, PciAddress> = own.collect();
    loop {
        let before = firsts.clone();
        for (a, b) in &pairs {
            let first = firsts[a].min(firsts[b]);
            firsts.extend([(*a, first), (*b, first)]);
        }
        if firsts == before {
            return firsts;
        }
    }
}

impl NodePlace {
    fn new(kind: PlaceKind) -> NodePlace {
        NodePlace {
            kind,
            gpus: Vec::new(),
            nics: Vec::new(),
            places: Vec::new(),
        }
    }

    /// The first GPU in it, smaller places included.
    pub fn first_gpu(&self) -> Option<GpuIndex> {
        self.gpus
            .iter()
            .copied()
            .chain(self.places.iter().filter_map(NodePlace::first_gpu))
            .min()
    }

    pub fn first_nic(&self) -> Option<NicIndex> {
        self.nics
            .iter()
            .copied()
            .chain(self.places.iter().filter_map(NodePlace::first_nic))
            .min()
    }

    /// A NUMA node's CPUs (`cpus 0-55,112-167`), unless no node's are known; the link of a bridge.
    pub fn facts(&self, topology: &Topology) -> Option<String> {
        match self.kind {
            PlaceKind::NumaNode(number) => match &topology.numa_node(number?)?.cpus {
                none if none.is_empty() => {
                    (!topology.cpus().is_empty()).then(|| "no CPUs".to_string())
                }
                cpus => Some(format!("cpus {cpus}")),
            },
            PlaceKind::Switch(bridge) => Some(topology.pci.get(bridge)?.link.current?.to_string()),
            _ => None,
        }
    }

    /// The place at the end of this way, made where there is none.
    fn at(&mut self, chain: &[PlaceKind]) -> &mut NodePlace {
        let Some((kind, rest)) = chain.split_first() else {
            return self;
        };
        let at = self
            .places
            .iter()
            .position(|place| place.kind == *kind)
            .unwrap_or_else(|| {
                self.places.push(NodePlace::new(*kind));
                self.places.len() - 1
            });
        self.places[at].at(rest)
    }

    fn hold(&mut self, device: Device) {
        match device {
            Device::Gpu(gpu) => self.gpus.push(gpu),
            Device::Nic(nic) => self.nics.push(nic),
        }
    }

    /// Without bridges that have only one card or place below them.
    fn without_idle_bridges(mut self) -> NodePlace {
        for inner in std::mem::take(&mut self.places) {
            let branches = inner.places.len();
            let inner = inner.without_idle_bridges();
            let stays = match inner.kind {
                PlaceKind::Card(_) => false,
                PlaceKind::HostBridge(_) | PlaceKind::Switch(_) | PlaceKind::Stated(..) => {
                    branches > 1
                }
                _ => true,
            };
            if stays {
                self.places.push(inner);
            } else {
                self.gpus.extend(inner.gpus);
                self.nics.extend(inner.nics);
                self.places.extend(inner.places);
            }
        }
        self
    }
}

impl fmt::Display for PlaceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceKind::Node => Ok(()),
            PlaceKind::Socket(number) => write!(f, "socket {number}"),
            PlaceKind::NumaNode(Some(number)) => write!(f, "NUMA node {number}"),
            PlaceKind::NumaNode(None) => f.write_str("on no known NUMA node"),
            PlaceKind::HostBridge(host) if host.domain >= PciAddress::INVENTED => {
                f.write_str("host bridge")
            }
            PlaceKind::HostBridge(host) => write!(f, "host bridge {host}"),
            PlaceKind::Switch(bridge) | PlaceKind::Card(bridge) if bridge.is_invented() => {
                f.write_str("PCIe switch")
            }
            PlaceKind::Switch(bridge) | PlaceKind::Card(bridge) => {
                write!(f, "PCIe switch {bridge}")
            }
            PlaceKind::Stated(PathType::Pix, _) => f.write_str("one PCIe switch"),
            PlaceKind::Stated(..) => f.write_str("several PCIe switches"),
            PlaceKind::Package(_) => f.write_str("one MI250X"),
            PlaceKind::Software => f.write_str("without a known PCI function"),
        }
    }
}
