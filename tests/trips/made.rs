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
    (
        any::<bool>(),
        0usize..3,
        prop::option::of(0u32..2),
        prop::sample::select(role.to_vec()),
        prop::sample::select(state.to_vec()),
        prop::sample::select(rate.to_vec()),
        prop::sample::select(PathType::ALL.to_vec()),
    )
        .prop_map(
            |(is_gpu, switch, numa_node, role, state, rate_mbps, kind)| Device {
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
        let intel = X86 {
            vendor: CpuVendor::Intel,
            family: 6,
            model: 143,
        };
        topology.processor = is_intel.then_some(Processor {
            arch: Arch::X86,
            x86: Some(intel),
        });
        for os_index in 0..2u32 {
            let cpus = (os_index * 8..os_index * 8 + 8).collect();
            let distances = (0..2)
                .map(|other| if other == os_index { 10 } else { 21 })
                .collect();
            topology.numa_nodes.push(NumaNode {
                os_index,
                cpus,
                distances,
                package: Some(os_index),
            });
            topology
                .pus
                .extend((os_index * 8..os_index * 8 + 8).map(|cpu| Pu {
                    os_index: cpu,
                    package: os_index,
                    core: cpu % 8,
                }));
        }
        for (index, device) in devices.iter().enumerate() {
            add(&mut topology, index as u32, device);
        }
        for (gpu, gpus_kind) in topology
            .gpus
            .iter()
            .zip(devices.iter().map(|device| device.kind))
        {
            for (nic, device) in topology.nics.iter().zip(&devices).filter(|_| states) {
                let kind = gpus_kind.max(device.kind);
                topology
                    .stated_paths
                    .extend(nic.address.map(|nic| ((gpu.address, nic), kind)));
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
    let mut insert = |address: PciAddress, parent: PciParent, class: u32, vendor: u16| {
        topology.pci.insert(PciFunction {
            class: Some(class),
            vendor: Some(vendor),
            device: Some(0x1021),
            subsystem: Some((vendor, 1)),
            numa_node: device.numa_node,
            link: PcieLink {
                current: rate,
                max: rate,
            },
            ..PciFunction::new(address, parent)
        });
    };
    let at = |domain: u32, bus: u8, device: u8| PciAddress {
        domain,
        bus,
        device,
        function: 0,
    };
    let (address, parent) = match device.switch {
        0 => (
            at(index + 1, 0, 0),
            PciParent::Host(HostBridge {
                domain: index + 1,
                bus: 0,
            }),
        ),
        switch => {
            let bus = switch as u8 * 0x40;
            let host = PciParent::Host(HostBridge { domain: 0, bus });
            insert(at(0, bus, 1), host, 0x06_0400, 0x8086);
            insert(
                at(0, bus + 1, 0),
                PciParent::Bridge(at(0, bus, 1)),
                0x06_0400,
                0x1000,
            );
            let port = at(0, bus + 2, index as u8);
            insert(
                port,
                PciParent::Bridge(at(0, bus + 1, 0)),
                0x06_0400,
                0x1000,
            );
            (at(0, bus + 3 + index as u8, 0), PciParent::Bridge(port))
        }
    };
    if device.is_gpu {
        insert(address, parent, 0x03_0200, 0x10de);
        topology.gpus.push(Gpu {
            minor: Some(index),
            ..Gpu::new(address, GpuVendor::Nvidia)
        });
        return;
    }
    insert(address, parent, 0x02_0700, 0x15b3);
    topology.nics.push(Nic {
        address: Some(address),
        role: device.role,
        ports: vec![Port::new(
            1,
            device.state,
            LinkLayer::InfiniBand,
            device.rate_mbps,
        )],
        ..Nic::new(format!("mlx5_{index}").parse().unwrap(), NicKind::Verbs)
    });
}
