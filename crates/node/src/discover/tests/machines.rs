//! Generated machines, as discovery would find them on the live bus.

use nic_placement_topology::{
    CpuSet, Gpu, GpuVendor, LinkLayer, Nic, NicKind, PciAddress, PciFunction, PciParent, PciTree,
    Port, PortState, Provenance, SubnetPrefix, Topology,
};
use proptest::prelude::*;

/// What is below one host bridge: a switch, a GPU or none, and up to three NICs.
struct Slot {
    index: usize,
    nics: usize,
    gpu: Option<GpuVendor>,
    state: PortState,
    numa_node: Option<u32>,
    width: u32,
}

const STATES: [PortState; 4] = {
    use PortState::*;
    [Active, Down, Init, Unknown]
};

/// A bus: host bridges, each with a switch of a GPU and up to three NICs.
pub(super) fn machines() -> impl Strategy<Value = Topology> {
    let slot = (
        0usize..4,
        any::<bool>(),
        0usize..3,
        0usize..4,
        prop::option::of(0u32..3),
        prop::sample::select(vec![1u32, 4, 8, 16]),
    );
    (prop::collection::vec(slot, 0..9), any::<bool>()).prop_map(|(slots, backwards)| {
        let slots = slots.into_iter().enumerate();
        let slots = slots.map(
            |(index, (nics, has_gpu, vendor, state, numa_node, width))| Slot {
                index,
                nics,
                gpu: has_gpu.then(|| [GpuVendor::Nvidia, GpuVendor::Amd, GpuVendor::Intel][vendor]),
                state: STATES[state],
                numa_node,
                width,
            },
        );
        machine(slots, backwards)
    })
}

fn cpus(node: u32) -> CpuSet {
    (node * 8..node * 8 + 8).collect()
}

fn machine(slots: impl Iterator<Item = Slot>, backwards: bool) -> Topology {
    let mut topology = Topology::empty("generated", Provenance::ThisSystem);
    for os_index in 0..3u32 {
        let cpus = cpus(os_index);
        let pu = |cpu| super::pu(cpu, os_index, cpu % 8);
        topology.pus.extend(cpus.iter().map(pu));
        let distance = |other| if other == os_index { 10 } else { 21 };
        let distances = (0..3).map(distance).collect();
        let node = super::numa_node(os_index, cpus, distances, Some(os_index));
        topology.numa_nodes.push(node);
    }
    slots.for_each(|slot| slot.fill(&mut topology));
    // SR-IOV is looked at where it says something: on verbs devices
    for nic in topology.nics.iter().filter(|nic| nic.ports.len() == 2) {
        let mut function = topology.pci.get(nic.address.unwrap()).unwrap().clone();
        function.vfs = Some(8);
        topology.pci.insert(function);
    }
    topology.sort();
    // the compute driver may count its GPUs in another order
    let gpus = topology.gpus.iter_mut();
    let amd: Vec<_> = gpus.filter(|gpu| gpu.vendor == GpuVendor::Amd).collect();
    if backwards && amd.len() > 1 {
        let numbered = amd.into_iter().rev().zip(0..);
        numbered.for_each(|(gpu, index)| gpu.runtime_index = Some(index));
    }
    drop_bridges_above_nothing(&mut topology);
    topology
}

/// They are not read.
fn drop_bridges_above_nothing(topology: &mut Topology) {
    let gpus = topology.gpus.iter().map(|gpu| gpu.address);
    let mut kept = PciTree::default();
    for address in gpus.chain(topology.nics.iter().filter_map(|nic| nic.address)) {
        let above = topology.pci.ancestors(address).0.into_iter();
        for address in above.chain([address]) {
            kept.insert(topology.pci.get(address).unwrap().clone());
        }
    }
    topology.pci = kept;
}

impl Slot {
    fn fill(&self, topology: &mut Topology) {
        let bus = self.bus();
        let host = PciParent::Host(format!("pci0000:{bus:02x}").parse().unwrap());
        let root = self.add(topology, format!("{bus:02x}:01.0"), host, 0x060400, 0x8086);
        let up = format!("{:02x}:00.0", bus + 1);
        let up = self.add(topology, up, PciParent::Bridge(root), 0x060400, 0x1000);
        if let Some(vendor) = self.gpu {
            self.add_gpu(topology, up, vendor);
        }
        (0..self.nics).for_each(|nic| self.add_nic(topology, up, nic));
    }

    fn bus(&self) -> u32 {
        self.index as u32 * 0x10
    }

    fn add(
        &self,
        topology: &mut Topology,
        address: String,
        parent: PciParent,
        class: u32,
        vendor: u16,
    ) -> PciAddress {
        let address: PciAddress = address.parse().unwrap();
        let link = super::pcie_link(&format!("16.0 GT/s x{}", self.width));
        topology.pci.insert(with! { PciFunction {
            class: Some(class), vendor: Some(vendor), device: Some(1), numa_node: self.numa_node,
            subsystem: (self.width > 4).then_some((0x1000, 0xa096)),
            iommu: (self.width == 8).then(|| "DMA-FQ".to_string()),
            local_cpus: self.numa_node.map(cpus), link
        } ..PciFunction::new(address, parent) });
        address
    }

    fn add_gpu(&self, topology: &mut Topology, up: PciAddress, vendor: GpuVendor) {
        let id = match vendor {
            GpuVendor::Nvidia => 0x10de,
            GpuVendor::Amd => 0x1002,
            GpuVendor::Intel => 0x8086,
        };
        let [down, gpu] = [2, 3].map(|below| format!("{:02x}:00.0", self.bus() + below));
        let down = self.add(topology, down, PciParent::Bridge(up), 0x060400, 0x1000);
        let address = self.add(topology, gpu, PciParent::Bridge(down), 0x038000, id);
        // an AMD GPU may be two partitions of one function
        let partitions = 1 + u32::from(vendor == GpuVendor::Amd && self.nics % 2 == 1);
        for partition in 0..partitions {
            let number = 2 * self.index as u32 + partition;
            let uuid = match vendor {
                GpuVendor::Amd => Some(format!("GPU-{:016x}", number + 1)),
                GpuVendor::Nvidia => Some(format!("GPU-{}", self.index)),
                GpuVendor::Intel => None,
            };
            let is_nvidia = vendor == GpuVendor::Nvidia;
            topology.gpus.push(with! { Gpu {
                partition: (partitions > 1).then_some(partition), minor: Some(128 + number), uuid,
                model: is_nvidia.then(|| "Model".to_string()),
                mig_instances: (is_nvidia && self.nics == 3).then_some(2)
            } ..Gpu::new(address, vendor) });
        }
    }

    fn add_nic(&self, topology: &mut Topology, up: PciAddress, nic: usize) {
        let down = format!("{:02x}:{:02x}.0", self.bus() + 2, nic + 1);
        let card = format!("{:02x}:00.0", self.bus() + 4 + nic as u32);
        let down = self.add(topology, down, PciParent::Bridge(up), 0x060400, 0x1000);
        let card = self.add(topology, card, PciParent::Bridge(down), 0x020700, 0x15b3);
        let kind = match (self.index + nic) % 4 {
            0 => NicKind::Verbs,
            1 => NicKind::Efa,
            2 => NicKind::Slingshot,
            _ => NicKind::Ethernet,
        };
        let is_verbs = matches!(kind, NicKind::Verbs | NicKind::Efa);
        let number = format!("{}{nic}", self.index);
        let (name, netdev) = match kind {
            NicKind::Slingshot => ("cxi", "eth"),
            NicKind::Ethernet => ("nic", "nic"),
            _ => ("nic", "eth"),
        };
        let [name, netdev] = [name, netdev].map(|kind| format!("{kind}{number}"));
        let state = match self.state {
            PortState::Init if !is_verbs => PortState::Down,
            state => state,
        };
        let port = |number| Port {
            phys_state: is_verbs.then(|| "LinkUp".to_string()),
            netdev: is_verbs.then(|| "eth".to_string()),
            subnet: is_verbs.then_some(SubnetPrefix(0xfe80_0000_0000_0000)),
            gid_type: is_verbs.then(|| "RoCE v2".to_string()),
            routes_elsewhere: kind == NicKind::Verbs
                && state == PortState::Active
                && self.width == 8,
            default_route: (is_verbs && self.width == 4 && nic == 0).then(|| "bond0".to_string()),
            ..Port::new(number, state, LinkLayer::Ethernet, Some(2500))
        };
        let count = if is_verbs { nic as u8 % 2 + 1 } else { 1 };
        topology.nics.push(with! { Nic {
            address: Some(card), ports: (1..=count).map(port).collect(),
            uverbs: is_verbs.then(|| format!("uverbs{number}")),
            guid: is_verbs.then(|| format!("guid{number}")),
            card: is_verbs.then(|| format!("card{}", self.index)), netdevs: vec![netdev]
        } ..Nic::new(name.parse().unwrap(), kind) });
    }
}
