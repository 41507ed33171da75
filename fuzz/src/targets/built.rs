//! Machines made of bytes: hosts, switches, GPUs and NICs wherever the bytes put them.
#![forbid(unsafe_code)]

use nic_placement_core::topology::{
    Gpu, GpuVendor, HostBridge, LinkLayer, LinkRate, Nic, NicKind, NicRole, NumaNode, PathType,
    PciAddress, PciFunction, PciParent, PcieLink, Port, PortState, Provenance, Pu, Topology,
};

/// GPUs, and NICs, at most: as many as a topology file may have, and fewer where many inputs are to be tried.
const MOST: usize = if cfg!(lean) { 64 } else { 256 };

/// GPUs, and NICs, of most machines, by three bits of the head.  What a machine costs grows with the square, and a large one
/// costs as much as a hundred of these, so one input in 512 makes one.
const USUAL: [usize; 8] = [4, 8, 8, 8, 12, 16, 24, 24];

/// Bytes one after another; zeros behind the last.
pub struct Bytes<'d> {
    data: &'d [u8],
}

impl<'d> Bytes<'d> {
    pub fn new(data: &'d [u8]) -> Bytes<'d> {
        Bytes { data }
    }

    pub fn next(&mut self) -> u8 {
        match self.data.split_first() {
            Some((first, rest)) => {
                self.data = rest;
                *first
            }
            None => 0,
        }
    }

    /// Two bytes as one number.
    pub fn wide(&mut self) -> usize {
        usize::from(self.next()) << 8 | usize::from(self.next())
    }

    /// So many bytes, fewer at the end.
    pub fn take(&mut self, most: usize) -> &'d [u8] {
        let (taken, rest) = self.data.split_at(most.min(self.data.len()));
        self.data = rest;
        taken
    }

    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }
}

/// The machine that the bytes describe: the first says the number of NUMA nodes, then two or three bytes for each device.
pub fn topology(bytes: &mut Bytes) -> Topology {
    let mut topology = Topology::empty("made", Provenance::File("made".to_string()));
    let head = bytes.next();
    let nodes = u32::from(head % 8 + 1);
    let has_cores = head & 0x40 != 0;
    for os_index in 0..nodes {
        let cpus = (os_index * 16..os_index * 16 + 16).collect();
        let distances = (0..nodes).map(|other| {
            if other == os_index {
                10
            } else {
                12 + (other ^ os_index)
            }
        });
        topology.numa_nodes.push(NumaNode {
            os_index,
            cpus,
            distances: distances.collect(),
            package: has_cores.then_some(os_index / 2),
        });
        if has_cores {
            let cores = os_index * 16..os_index * 16 + 16;
            topology.pus.extend(cores.map(|cpu| Pu {
                os_index: cpu,
                package: os_index / 2,
                core: cpu / 2,
            }));
        }
    }
    let usual = USUAL[usize::from(head >> 3 & 7)];
    let most = if head & 0x38 == 0x38 && bytes.data.len() % 64 == 0 {
        MOST
    } else {
        usual
    };
    while !bytes.is_empty() && topology.gpus.len() < most && topology.nics.len() < most {
        let (kind, place) = (bytes.next(), bytes.next());
        // a run of devices that are alike: large machines of few bytes
        let again = if kind & 0x80 != 0 {
            bytes.next() % 64
        } else {
            0
        };
        for nth in 0..=again {
            device(
                &mut topology,
                most,
                kind,
                place.wrapping_add(nth * (kind >> 5 & 1)),
                nodes,
            );
        }
    }
    stated(&mut topology, head);
    topology.sort();
    topology
}

fn device(topology: &mut Topology, most: usize, kind: u8, place: u8, nodes: u32) {
    let count = (topology.gpus.len() + topology.nics.len()) as u32;
    if topology.gpus.len() >= most || topology.nics.len() >= most {
        return;
    }
    let node = u32::from(place) % nodes;
    let rate = LinkRate {
        tenths_gt: [25, 80, 160, 320][usize::from(place >> 6)],
        width: 16,
    };
    let link = PcieLink {
        current: Some(rate),
        max: Some(rate),
    };
    let at = |bus: u8, device: u8, function: u8| PciAddress {
        domain: node,
        bus,
        device,
        function,
    };
    let bridge = |topology: &mut Topology, address, parent| {
        let class = Some(0x06_0400);
        topology.pci.insert(PciFunction {
            class,
            link,
            ..PciFunction::new(address, parent)
        });
    };
    let host = PciParent::Host(HostBridge {
        domain: node,
        bus: 0,
    });
    // at the root, below one of eight switches, or below a second stage of them
    let switch = place >> 3 & 7;
    let mut parent = host;
    if place & 0x40 != 0 || switch > 0 {
        bridge(topology, at(0, 1 + switch, 0), host);
        parent = PciParent::Bridge(at(0, 1 + switch, 0));
    }
    if place & 0x80 != 0 {
        bridge(topology, at(1 + switch, 0, 0), parent);
        parent = PciParent::Bridge(at(1 + switch, 0, 0));
    }
    let address = at(0x20 + (count >> 5 & 0x7f) as u8, (count & 31) as u8, 0);
    let function = PciFunction {
        class: Some(if kind & 1 == 0 { 0x03_0200 } else { 0x02_0700 }),
        vendor: Some(if kind & 1 == 0 { 0x10de } else { 0x15b3 }),
        device: Some(0x1021 + u16::from(kind >> 4 & 1)),
        numa_node: (kind & 2 == 0).then_some(node),
        link,
        ..PciFunction::new(address, parent)
    };
    topology.pci.insert(function);
    match kind & 1 {
        0 => topology.gpus.push(Gpu {
            minor: Some(count),
            ..Gpu::new(address, GpuVendor::Nvidia)
        }),
        _ => {
            let state = if kind & 0x0c == 0x0c {
                PortState::Down
            } else {
                PortState::Active
            };
            let rates = [Some(400_000), Some(200_000), Some(100_000), None];
            let port = Port::new(
                1,
                state,
                LinkLayer::InfiniBand,
                rates[usize::from(kind >> 2 & 3)],
            );
            let mut ports = vec![port.clone()];
            if kind & 0x40 != 0 {
                ports.push(Port { number: 2, ..port });
            }
            let role = (kind & 0x1c == 0x14).then_some(NicRole::Storage);
            let name = format!("mlx5_{count}").parse().expect("a name");
            topology.nics.push(Nic {
                address: Some(address),
                role,
                ports,
                ..Nic::new(name, NicKind::Verbs)
            });
        }
    }
}

/// Paths that a matrix would have stated, where the head asks for them.
fn stated(topology: &mut Topology, head: u8) {
    if head & 0x80 == 0 {
        return;
    }
    let gpus: Vec<PciAddress> = topology.gpus.iter().map(|gpu| gpu.address).collect();
    let nics: Vec<PciAddress> = topology.nics.iter().filter_map(|nic| nic.address).collect();
    for (row, gpu) in gpus.iter().enumerate() {
        for (column, nic) in nics.iter().enumerate() {
            let kind = (row * 7 + column * usize::from(head) + row * column) % PathType::ALL.len();
            topology
                .stated_paths
                .insert((*gpu, *nic), PathType::ALL[kind]);
        }
    }
}
