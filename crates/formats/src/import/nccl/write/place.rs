//! Puts each device of the file below its own switches, or below an invented one for a stated path.

use nic_placement_core::topology::{LinkRate, PathType, PciAddress, PciFunction, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// The PCI domain of the switches that we invent: below those of the readers, and no machine's.
const SWITCHES: u32 = 0xfffc_0000;
/// PCIe generations with 16 lanes, in tenths of GT/s: those that NCCL knows.
const GENERATIONS: [u32; 5] = [50, 80, 160, 320, 640];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Above {
    Cpu(Option<u32>),
    Switch(PciAddress),
}

#[derive(Default)]
pub struct Places {
    below: BTreeMap<Above, BTreeSet<PciAddress>>,
    cpus: Vec<Option<u32>>,
    names: BTreeMap<PciAddress, PciAddress>,
    /// rates that the topology does not tell: above invented switches and devices below them
    rates: BTreeMap<PciAddress, LinkRate>,
    joined: BTreeSet<PciAddress>,
}

impl Places {
    pub fn new(node: &Topology) -> Places {
        let mut places = Places::default();
        // NCCL puts a NIC without a PCI function at the first CPU.  A NIC whose link is down stays
        // beside its neighbours: it may come up
        let devices: BTreeSet<PciAddress> = node
            .gpus
            .iter()
            .map(|gpu| gpu.address)
            .chain(node.nics.iter().filter_map(|nic| nic.address))
            .collect();
        for (index, group) in groups(node, &devices).iter().enumerate() {
            places.join(node, group, index as u32);
        }
        for &device in devices.difference(&places.joined.clone()) {
            places.hang(node, device);
        }
        places.order_cpus(node);
        places.name(node);
        places
    }

    /// In PCI order, as NCCL keeps it (NVIDIA/nccl issue 820).
    pub fn below(&self, above: Above) -> Vec<PciAddress> {
        self.below
            .get(&above)
            .into_iter()
            .flatten()
            .copied()
            .collect()
    }

    pub fn cpus(&self) -> impl Iterator<Item = Option<u32>> {
        self.cpus.iter().copied()
    }

    pub fn elements(&self) -> usize {
        self.cpus.len() + self.below.values().map(BTreeSet::len).sum::<usize>()
    }

    pub fn most_inside(&self) -> usize {
        self.below
            .values()
            .map(BTreeSet::len)
            .fold(self.cpus.len(), usize::max)
    }

    /// `busid`: an address that no machine has is replaced by one of a domain that Azure's files
    /// use.
    pub fn bus_id(&self, address: PciAddress) -> String {
        let name = self.names.get(&address).copied();
        name.unwrap_or(address).to_string()
    }

    /// The rate that both ends of the link above a function support.
    pub fn rate(&self, node: &Topology, address: PciAddress) -> Option<LinkRate> {
        self.rates
            .get(&address)
            .copied()
            .or_else(|| rate(node, address))
    }

    fn put(&mut self, above: Above, here: PciAddress) {
        self.below.entry(above).or_default().insert(here);
    }

    fn hang(&mut self, node: &Topology, device: PciAddress) {
        let mut here = device;
        // a way that ends at a host bridge cannot be a circle
        if let (bridges, Some(_)) = node.pci.ancestors(device) {
            for &switch in bridges.iter().skip(1).step_by(2) {
                self.put(Above::Switch(switch), here);
                here = switch;
            }
        }
        // a switch has one place: its first device's
        let is_placed = |(above, below): (&Above, &BTreeSet<PciAddress>)| {
            matches!(above, Above::Cpu(_)) && below.contains(&here)
        };
        if !self.below.iter().any(is_placed) {
            self.put(Above::Cpu(numa_node(node, device)), here);
        }
    }

    fn join(&mut self, node: &Topology, group: &BTreeSet<PciAddress>, index: u32) {
        let is_gpu = |address: &PciAddress| node.gpu_index(*address).is_some();
        let switch = |inside: u32| PciAddress {
            domain: SWITCHES + index,
            bus: inside as u8,
            device: (inside >> 8) as u8,
            function: 0,
        };
        let numa_node = group
            .iter()
            .filter(|address| is_gpu(address))
            .chain(group)
            .find_map(|address| node.numa_node_of(*address));
        let outer = switch(0);
        self.put(Above::Cpu(numa_node), outer);
        let of_device = |&address| rate(node, address).or(need(node, address));
        // the switch's link holds back no device, and such GPUs are of generation 4 at least; NCCL
        // takes an unknown link for generation 3
        let least = LinkRate {
            tenths_gt: 160,
            width: 16,
        };
        let widest = group
            .iter()
            .filter_map(of_device)
            .chain([least])
            .max_by_key(|rate| rate.mbps())
            .unwrap_or(least);
        let parts = partition(group, |a, b| {
            node.path_type(a, b) == PathType::Pix && is_gpu(&a) != is_gpu(&b)
        });
        for (inside, part) in (1..).zip(&parts) {
            // a NIC alone stands outside, one switch farther from every GPU inside
            let is_alone = part.len() == 1 && !part.iter().any(is_gpu);
            let mut place = outer;
            if parts.len() > 1 && !is_alone {
                place = switch(inside);
                self.put(Above::Switch(outer), place);
                self.rates.insert(place, widest);
            }
            part.iter()
                .for_each(|&device| self.put(Above::Switch(place), device));
        }
        self.rates.insert(outer, widest);
        for &address in group {
            if rate(node, address).is_none() {
                self.rates
                    .insert(address, need(node, address).unwrap_or(widest));
            }
        }
        self.joined.extend(group);
    }

    fn order_cpus(&mut self, node: &Topology) {
        // memory alone has no CPUs for NCCL
        let with_cpus = node
            .numa_nodes
            .iter()
            .filter(|node| !node.cpus.is_empty())
            .map(|node| Some(node.os_index));
        let with_devices = self.below.keys().filter_map(|above| match above {
            Above::Cpu(node) => Some(*node),
            Above::Switch(_) => None,
        });
        let all: BTreeSet<Option<u32>> = with_cpus.chain(with_devices).collect();
        self.cpus = all.into_iter().collect();
        let below = &self.below;
        // NICs without a PCI function come to the first CPU, which NCCL identifies only on the way up from another
        let is_asked =
            |cpu: &Option<u32>| node.processor.is_some() || below.contains_key(&Above::Cpu(*cpu));
        self.cpus
            .sort_by_key(|cpu| (cpu.is_none(), !is_asked(cpu), *cpu));
    }

    /// Names for what has no address that NCCL could read or a machine could have.
    fn name(&mut self, node: &Topology) {
        let mut free = (1u32..0x10000).map(|count| PciAddress {
            domain: 0xffff,
            bus: 0xff - (count >> 8) as u8,
            device: (count & 0x1f) as u8,
            function: (count >> 5 & 7) as u8,
        });
        let all: BTreeSet<PciAddress> = self.below.values().flatten().copied().collect();
        for address in all {
            if address.domain >= SWITCHES {
                let name = free.find(|name| node.pci.get(*name).is_none());
                self.names.extend(name.map(|name| (address, name)));
            }
        }
    }
}

/// Devices that stated paths join otherwise than the tree, as many as belong together.
fn groups(node: &Topology, devices: &BTreeSet<PciAddress>) -> Vec<BTreeSet<PciAddress>> {
    if node.stated_paths.is_empty() {
        return Vec::new();
    }
    let bare = Topology {
        stated_paths: BTreeMap::new(),
        ..node.clone()
    };
    let is_near = |kind: PathType| kind <= PathType::Pxb;
    let mixed =
        |a: PciAddress, b: PciAddress| node.gpu_index(a).is_some() != node.gpu_index(b).is_some();
    let near = |a, b| mixed(a, b) && is_near(node.path_type(a, b));
    let differs = |a, b| {
        let (stated, shown) = (node.path_type(a, b), bare.path_type(a, b));
        mixed(a, b) && stated != shown && (is_near(stated) || is_near(shown))
    };
    let all = partition(devices, near);
    let is_touched = |&a: &PciAddress| devices.iter().any(|&b| differs(a, b));
    all.into_iter()
        .filter(|group| group.len() > 1 && group.iter().any(is_touched))
        .collect()
}

/// Parts whose members are joined by `is_joined`, in order of their first member.
fn partition(
    all: &BTreeSet<PciAddress>,
    is_joined: impl Fn(PciAddress, PciAddress) -> bool,
) -> Vec<BTreeSet<PciAddress>> {
    let mut rest = all.clone();
    let mut parts = Vec::new();
    while let Some(first) = rest.pop_first() {
        let mut part = BTreeSet::from([first]);
        let mut new = vec![first];
        while let Some(here) = new.pop() {
            let (near, far) = rest.into_iter().partition(|&other| is_joined(here, other));
            rest = far;
            part.extend(&near);
            new.extend::<BTreeSet<_>>(near);
        }
        parts.push(part);
    }
    parts
}

/// Its own, else that of the only devices to which its stated paths do not leave the node.
fn numa_node(node: &Topology, device: PciAddress) -> Option<u32> {
    node.numa_node_of(device).or_else(|| {
        let others: BTreeSet<u32> = node
            .stated_paths
            .iter()
            .filter_map(|(&(gpu, nic), &kind)| match kind {
                PathType::Sys => None,
                _ if gpu == device => node.numa_node_of(nic),
                _ if nic == device => node.numa_node_of(gpu),
                _ => None,
            })
            .collect();
        others.first().copied().filter(|_| others.len() == 1)
    })
}

fn rate(node: &Topology, address: PciAddress) -> Option<LinkRate> {
    let able = |function: &PciFunction| function.link.max.or(function.link.current);
    let own = node.pci.get(address).and_then(able);
    let port = node.pci.ancestors(address).0.first().copied();
    let other = port.and_then(|port| node.pci.get(port)).and_then(able);
    match (own, other) {
        (Some(own), Some(other)) => Some(LinkRate {
            tenths_gt: own.tenths_gt.min(other.tenths_gt),
            width: own.width.min(other.width),
        }),
        (own, other) => own.or(other),
    }
}

/// The slowest link that carries a NIC's ports: virtual machines often show none, and NCCL then counts with generation 3.
fn need(node: &Topology, address: PciAddress) -> Option<LinkRate> {
    let mbps: u64 = node
        .nics
        .iter()
        .filter(|nic| nic.address == Some(address))
        .flat_map(|nic| &nic.ports)
        .filter_map(|port| port.rate_mbps)
        .sum();
    let width = 16;
    GENERATIONS
        .into_iter()
        .map(|tenths_gt| LinkRate { tenths_gt, width })
        .find(|rate| mbps > 0 && rate.mbps() >= mbps)
}
