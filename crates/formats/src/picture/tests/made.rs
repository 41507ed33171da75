//! Generated nodes of all shapes and sizes, with names that a picture must survive.

use nic_placement_core::topology::{
    Gpu, GpuVendor, LinkLayer, Nic, NicKind, NicRole, NumaNode, PathType, PciAddress, PciFunction,
    PciParent, Port, PortState, Provenance, Topology,
};
use proptest::prelude::*;

/// What stands in models, interfaces and names of machines that were made to do harm.
pub(super) const HOSTILE: &str = "<script>&amp;]]>\"'`\0\u{1b}[2J\u{202e}\u{fffe}é漢🖧 </svg>";

#[derive(Debug, Clone)]
pub(super) struct NodeShape {
    pub(super) gpus: u8,
    pub(super) nics: u8,
    /// none at all where 0
    pub(super) numa_nodes: u32,
    pub(super) nodes_per_socket: u32,
    /// each of so many cards stands below one switch; none where 0
    pub(super) per_switch: u8,
    /// switches inside switches
    pub(super) levels: u8,
    pub(super) ports: u8,
    pub(super) is_hostile: bool,
    pub(super) is_stated: bool,
    /// decides the rest
    pub(super) seed: u32,
}

pub(super) fn shapes() -> impl Strategy<Value = NodeShape> {
    let counts = (0u8..20, 0u8..40, 0u32..9, 1u32..5);
    let ways = (0u8..5, 0u8..4, 0u8..4);
    let flags = (any::<bool>(), any::<bool>(), any::<u32>());
    (counts, ways, flags).prop_map(|(counts, ways, (is_hostile, is_stated, seed))| NodeShape {
        gpus: counts.0,
        nics: counts.1,
        numa_nodes: counts.2,
        nodes_per_socket: counts.3,
        per_switch: ways.0,
        levels: ways.1,
        ports: ways.2,
        is_hostile,
        is_stated: is_stated && seed % 3 == 0,
        seed,
    })
}

impl NodeShape {
    pub(super) fn node(&self) -> Topology {
        let hostile = HOSTILE.repeat(3);
        let name = if self.is_hostile { &hostile } else { "node17" };
        let mut topology = Topology::empty(name, Provenance::File("made".to_string()));
        for os_index in 0..self.numa_nodes {
            let socket = |node: u32| node / self.nodes_per_socket;
            let far = |other: u32| match () {
                () if other == os_index => 10,
                () if socket(other) == socket(os_index) => 12,
                () => 32,
            };
            // the last one is memory alone
            let is_memory = self.seed % 2 == 0 && os_index > 0 && os_index + 1 == self.numa_nodes;
            let cpus = if is_memory { 0 } else { 9 };
            topology.numa_nodes.push(NumaNode {
                os_index,
                cpus: (os_index * 16..os_index * 16 + cpus).collect(),
                distances: (0..self.numa_nodes).map(far).collect(),
                package: None,
            });
        }
        let cards = u32::from(self.gpus) + u32::from(self.nics);
        for card in 0..cards {
            // GPUs and NICs mixed, as on a bus
            let gpus_before = |card: u32| card * u32::from(self.gpus) / cards.max(1);
            let is_gpu = gpus_before(card) != gpus_before(card + 1);
            self.add(&mut topology, card, is_gpu);
        }
        if self.is_stated {
            for (row, gpu) in topology.gpus.iter().enumerate() {
                for (column, nic) in topology.nics.iter().enumerate() {
                    let kind = row * topology.nics.len() + column + self.seed as usize % 5;
                    let kind = PathType::ALL[kind * 7 % 5];
                    let pair = nic.address.map(|nic| ((gpu.address, nic), kind));
                    topology.stated_paths.extend(pair);
                }
            }
        }
        topology.sort();
        topology
    }

    fn add(&self, topology: &mut Topology, card: u32, is_gpu: bool) {
        let at = |bus: u32, device: u8| -> PciAddress {
            let text = format!("{:04x}:{:02x}:{device:02x}.0", bus / 256, bus % 256);
            text.parse().unwrap()
        };
        let luck = self.seed.wrapping_mul(2_654_435_761);
        let luck = luck.wrapping_add(card.wrapping_mul(40_503)) >> 8;
        let group = card / u32::from(self.per_switch.max(1));
        let numa_node = (self.numa_nodes > 0 && luck % 11 != 0).then(|| group % self.numa_nodes);
        let mut put = |address, parent| {
            topology.pci.insert(PciFunction {
                numa_node,
                ..PciFunction::new(address, parent)
            });
            address
        };
        let host = format!("pci{:04x}:{:02x}", group / 16, group * 16 % 256);
        let mut above = put(at(group * 16, 1), PciParent::Host(host.parse().unwrap()));
        // a card may stand at any level
        let levels = u32::from(self.levels) * u32::from(self.per_switch > 0);
        for level in 0..levels.saturating_sub(luck / 7 % levels.max(1)) {
            let upstream = put(at(group * 16 + level + 1, 0), PciParent::Bridge(above));
            let below = at(group * 16 + level + 1, 1 + (luck % 2) as u8);
            above = put(below, PciParent::Bridge(upstream));
        }
        let address = put(at(2048 + card, 0), PciParent::Bridge(above));
        let text = |plain: &str| if self.is_hostile { HOSTILE } else { plain }.to_string();
        if is_gpu {
            let model = (luck % 4 != 0).then(|| text("NVIDIA H100 80GB HBM3"));
            topology.gpus.push(Gpu {
                model,
                ..Gpu::new(address, GpuVendor::Nvidia)
            });
            return;
        }
        let name = match self.is_hostile {
            true => "W".repeat(50) + &card.to_string(),
            false => format!("mlx5_{card}"),
        };
        use PortState::{Active, Down, Unknown};
        let state = [Active, Active, Down, Unknown];
        let port = |number| {
            let state = state[(luck as usize + number as usize) % 4];
            Port::new(number, state, LinkLayer::InfiniBand, Some(400_000))
        };
        let (storage, management) = (Some(NicRole::Storage), Some(NicRole::Management));
        let role = [None, None, storage, management];
        topology.nics.push(Nic {
            address: (luck % 17 != 0).then_some(address),
            role: role[luck as usize % 4],
            ports: (1..=self.ports).map(port).collect(),
            netdevs: vec![text("ibp24s0"); luck as usize % 3],
            ..Nic::new(name.parse().unwrap(), NicKind::Verbs)
        });
    }
}
