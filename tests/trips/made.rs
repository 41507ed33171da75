//! Generated machines: what a reader of any format may have found, virtual buses and stated paths among it.
#![forbid(unsafe_code)]

use nic_placement_core::topology::{
    Arch, CpuVendor, Gpu, GpuVendor, HostBridge, LinkLayer, LinkRate, Nic, NicKind, NicRole,
    NumaNode, PathType, PciAddress, PciFunction, PciParent, PcieLink, Port, PortState, Processor,
    Provenance, Pu, Topology, X86,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Device {
    is_gpu: bool,
    /// its place on the bus: alone, or below one of two switches
    switch: usize,
    numa_node: Option<u32>,
    role: Option<NicRole>,
    state: PortState,
    rate_mbps: Option<u64>,
    kind: PathType,
}

fn device() -> impl Strategy<Value = Device> {
    use prop::sample::select;
    let role = [
        None,
        Some(NicRole::Compute),
        Some(NicRole::Storage),
        Some(NicRole::Management),
    ];
    let state = [
        PortState::Active,
        PortState::Active,
        PortState::Down,
        PortState::Unknown,
    ];
    let rate = [None, Some(100), Some(25_000), Some(400_000)];
    let numa = prop::option::of(0u32..2);
    let port = (select(state.to_vec()), select(rate.to_vec()));
    let place = (any::<bool>(), 0usize..3, numa, select(role.to_vec()));
    let all = (place, port, select(PathType::ALL.to_vec()));
    all.prop_map(
        |((is_gpu, switch, numa_node, role), (state, rate_mbps), kind)| Device {
            is_gpu,
            switch,
            numa_node,
            role,
            state,
            rate_mbps,
            kind,
        },
    )
}

pub fn machines() -> impl Strategy<Value = Topology> {
    let name = prop::sample::select(vec!["PowerEdge XE9680", "x", "a,b (rev. 2)"]);
    let devices = prop::collection::vec(device(), 0..14);
    (name, devices, any::<bool>(), any::<bool>()).prop_map(|(name, devices, states, is_intel)| {
        let mut topology = Topology::empty(name, Provenance::File("made".to_string()));
        let x86 = Some(X86 {
            vendor: CpuVendor::Intel,
            family: 6,
            model: 143,
        });
        let arch = Arch::X86;
        topology.processor = is_intel.then_some(Processor { arch, x86 });
        for os_index in 0..2u32 {
            let own = os_index * 8..os_index * 8 + 8;
            let distance = |other| if other == os_index { 10 } else { 21 };
            topology.numa_nodes.push(NumaNode {
                os_index,
                cpus: own.clone().collect(),
                distances: (0..2).map(distance).collect(),
                package: Some(os_index),
            });
            let pu = |cpu| Pu {
                os_index: cpu,
                package: os_index,
                core: cpu % 8,
            };
            topology.pus.extend(own.map(pu));
        }
        for (index, device) in devices.iter().enumerate() {
            add(&mut topology, index as u32, device);
        }
        for (gpu, of_gpu) in topology.gpus.iter().zip(&devices) {
            for (nic, device) in topology.nics.iter().zip(&devices).filter(|_| states) {
                let path = nic
                    .address
                    .map(|nic| ((gpu.address, nic), of_gpu.kind.max(device.kind)));
                topology.stated_paths.extend(path);
            }
        }
        topology.sort();
        topology
    })
}

fn add(topology: &mut Topology, index: u32, device: &Device) {
    let rate = Some(LinkRate {
        tenths_gt: 320,
        width: 16,
    });
    let link = PcieLink {
        current: rate,
        max: rate,
    };
    let mut insert = |address: PciAddress, parent: PciParent, class: u32, vendor: u16| {
        topology.pci.insert(PciFunction {
            class: Some(class),
            vendor: Some(vendor),
            device: Some(0x1021),
            subsystem: Some((vendor, 1)),
            numa_node: device.numa_node,
            link,
            ..PciFunction::new(address, parent)
        });
    };
    let at = |domain: u32, bus: u8, device: u8| PciAddress {
        domain,
        bus,
        device,
        function: 0,
    };
    let host = |domain: u32, bus: u8| PciParent::Host(HostBridge { domain, bus });
    let (address, parent) = match device.switch {
        0 => (at(index + 1, 0, 0), host(index + 1, 0)),
        switch => {
            let bus = switch as u8 * 0x40;
            let [root, upstream, port] = [
                at(0, bus, 1),
                at(0, bus + 1, 0),
                at(0, bus + 2, index as u8),
            ];
            insert(root, host(0, bus), 0x06_0400, 0x8086);
            insert(upstream, PciParent::Bridge(root), 0x06_0400, 0x1000);
            insert(port, PciParent::Bridge(upstream), 0x06_0400, 0x1000);
            (at(0, bus + 3 + index as u8, 0), PciParent::Bridge(port))
        }
    };
    if device.is_gpu {
        insert(address, parent, 0x03_0200, 0x10de);
        let gpu = Gpu::new(address, GpuVendor::Nvidia);
        return topology.gpus.push(Gpu {
            minor: Some(index),
            ..gpu
        });
    }
    insert(address, parent, 0x02_0700, 0x15b3);
    let port = Port::new(1, device.state, LinkLayer::InfiniBand, device.rate_mbps);
    let nic = Nic::new(format!("mlx5_{index}").parse().unwrap(), NicKind::Verbs);
    let (role, ports) = (device.role, vec![port]);
    topology.nics.push(Nic {
        address: Some(address),
        role,
        ports,
        ..nic
    });
}
