//! Which NUMA nodes are of one socket, in every reading of a node.

use super::*;
use crate::file::{from_json, to_json};

/// Distances of a Granite Rapids with three sub-NUMA clusters to a socket, as its firmware says them (the kernel's commit
/// 4d6dd05d07d0).
const CLUSTERS: [[u32; 6]; 6] = [
    [10, 15, 17, 21, 28, 26],
    [15, 10, 15, 23, 26, 23],
    [17, 15, 10, 26, 23, 21],
    [21, 28, 26, 10, 15, 17],
    [23, 26, 23, 15, 10, 15],
    [26, 23, 21, 17, 15, 10],
];

/// Two such sockets: two GPUs on the third cluster of each, and two NICs on the first.
fn clusters(packages: [Option<u32>; 6]) -> Topology {
    let mut topology = Topology::empty("clusters", Provenance::ThisSystem);
    for ((os_index, distances), package) in (0..).zip(CLUSTERS).zip(packages) {
        let cpus = (os_index * 8..os_index * 8 + 8).collect();
        let node = numa_node(os_index, cpus, distances.into(), package);
        topology.numa_nodes.push(node);
    }
    let mut insert = |node: u32, bus: u32, class: u32| {
        let at = |bus: u32, device: u32| format!("0000:{bus:02x}:{device:02x}.0").parse().unwrap();
        let host = PciParent::Host(format!("pci0000:{:02x}", bus & 0xf0).parse().unwrap());
        let port: PciAddress = at(bus & 0xf0, bus & 0xf);
        let link = pcie_link("32.0 GT/s x16");
        for (address, parent, class) in [
            (port, host, 0x06_0400),
            (at(bus, 0), PciParent::Bridge(port), class),
        ] {
            topology.pci.insert(PciFunction {
                class: Some(class),
                numa_node: Some(node),
                link,
                ..PciFunction::new(address, parent)
            });
        }
        at(bus, 0)
    };
    let gpus = [(2, 0x51), (2, 0x52), (5, 0xb1), (5, 0xb2)]
        .map(|(node, bus)| insert(node, bus, 0x03_0200));
    let nics = [(0, 0x11), (0, 0x12), (3, 0x71), (3, 0x72)]
        .map(|(node, bus)| insert(node, bus, 0x02_0700));
    let gpu = |address| Gpu::new(address, GpuVendor::Nvidia);
    topology.gpus = gpus.map(gpu).into();
    for (number, address) in nics.into_iter().enumerate() {
        let port = Port::new(1, PortState::Active, LinkLayer::InfiniBand, Some(400_000));
        let mut nic = Nic::new(format!("mlx5_{number}").parse().unwrap(), NicKind::Verbs);
        (nic.address, nic.ports) = (Some(address), vec![port]);
        topology.nics.push(nic);
    }
    topology.sort();
    topology
}

const TWO: [Option<u32>; 6] = [Some(0), Some(0), Some(0), Some(1), Some(1), Some(1)];

/// The NIC of each GPU.
fn nics(topology: &Topology) -> Vec<String> {
    let node = map(topology);
    let first = |gpu| node.gpu(gpu).choices.first();
    let firsts = topology.gpu_indices().filter_map(first);
    texts(firsts.map(|choice| &node.rail(choice.rail).name))
}

#[test]
fn clusters_of_one_socket_are_of_one_socket_however_far_apart_they_are() {
    let own = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"];
    let made = clusters(TWO);
    assert_eq!(nics(&made), own);
    for scope in SCOPES {
        let (found, _) = read(synthesise(&made), scope);
        assert_eq!(nics(&found), own, "{scope:?}");
        let again = from_json(&to_json(&found), Provenance::ThisSystem).unwrap();
        assert_eq!(again.numa_nodes, made.numa_nodes, "{scope:?}");
    }
}

fn sockets(topology: &Topology) -> Vec<u32> {
    let nodes = topology.numa_nodes.iter().map(|node| node.os_index);
    nodes.map(|node| topology.socket_of(node)).collect()
}

#[test]
fn sockets_that_are_near_each_other_are_two() {
    let mut eight = Topology::empty("eight sockets", Provenance::ThisSystem);
    for os_index in 0..8 {
        let far = |other: u32| match other == os_index {
            true => 10,
            false => 12 + (other ^ os_index),
        };
        let (cpus, distances) = ([os_index].into_iter().collect(), (0..8).map(far).collect());
        let node = numa_node(os_index, cpus, distances, Some(os_index / 2));
        eight.numa_nodes.push(node);
    }
    assert_eq!(sockets(&eight), [0, 0, 2, 2, 4, 4, 6, 6]);
    // without packages the distances tell as well as they can
    let nodes = &mut eight.numa_nodes;
    nodes.iter_mut().for_each(|node| node.package = None);
    assert_eq!(sockets(&eight), [0, 0, 0, 0, 4, 4, 4, 4]);
    let nodes = &mut eight.numa_nodes;
    nodes.iter_mut().for_each(|node| node.distances.clear());
    assert_eq!(sockets(&eight), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn memory_without_cpus_is_of_the_socket_that_is_nearest_and_of_none_if_two_are() {
    let mut topology = clusters([Some(0), Some(0), None, Some(1), Some(1), None]);
    for memory in [2, 5] {
        topology.numa_nodes[memory].cpus = Default::default();
    }
    assert_eq!(sockets(&topology), [0, 0, 0, 3, 3, 3]);
    topology.numa_nodes[5].distances = vec![21, 21, 17, 21, 21, 10];
    assert_eq!(sockets(&topology), [0, 0, 0, 3, 3, 5]);
}

#[test]
fn a_kernel_that_knows_no_packages_has_not_said_that_there_is_one_socket() {
    let mut made = clusters([None; 6]);
    made.pus = (0..48).map(|cpu| pu(cpu, 0, cpu)).collect();
    let tree = synthesise(&made);
    for scope in [Scope::Placement, Scope::Cores, Scope::Full] {
        let (found, _) = read(tree.clone(), scope);
        assert_eq!(found.numa_nodes, made.numa_nodes, "{scope:?}");
        let again = from_json(&to_json(&found), Provenance::ThisSystem).unwrap();
        let got = (again.numa_nodes, again.pus);
        assert_eq!(got, (found.numa_nodes, found.pus), "{scope:?}");
    }
}
