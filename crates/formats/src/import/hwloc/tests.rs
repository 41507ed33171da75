//! Reading hwloc's XML, with small machines that were invented for these tests, one for each version, and with bad texts.

mod bad;

use super::*;
use crate::way::Between;
use nic_placement_core::topology::{
    Gpu, GpuVendor, HostBridge, Nic, NicKind, NumaNode, PathType, PciAddress, PciParent, Port, Pu,
    SubnetPrefix,
};
use nic_placement_testing::synthesise::modalias;

/// Two packages of two cores.  The first has a GPU with memory of its own, a switch with a GPU and a NIC, and a second NIC on
/// the same host bridge; the second a partitioned GPU next to a Slingshot NIC.  An EFA has no package near it.
const VERSION_2: &str = include_str!("tests/version_2.xml");

/// Types as bits, the machine's infos beside it, and the class's third byte.
const VERSION_3: &str = include_str!("tests/version_3.xml");

fn provenance() -> Provenance {
    Provenance::File("test.xml".to_string())
}

fn good(text: &str) -> (Topology, Vec<String>) {
    let (topology, diagnostics) = super::read(text, provenance()).unwrap();
    let said = diagnostics.iter().map(Diagnostic::to_string).collect();
    (topology, said)
}

fn at(address: &str) -> PciAddress {
    address.parse().unwrap()
}

fn nic<'t>(topology: &'t Topology, name: &str) -> &'t Nic {
    topology.nics.iter().find(|nic| nic.name == name).unwrap()
}

fn kind(topology: &Topology, gpu: &str, name: &str) -> PathType {
    topology.path_type(at(gpu), nic(topology, name).address.unwrap())
}

/// `0: 0-3 10 22; 1: …`: each NUMA node's CPUs and distances.
fn cpus(topology: &Topology) -> String {
    let node = |node: &NumaNode| {
        let words = node.distances.iter().map(|far| format!(" {far}"));
        let distances: String = words.collect();
        format!("{}: {}{distances}", node.os_index, node.cpus)
    };
    Vec::from_iter(topology.numa_nodes.iter().map(node)).join("; ")
}

#[test]
fn the_tree_holds_gpus_nics_and_the_bridges_above_them_and_no_disk_controller_of_a_nics_address() {
    let disk = "<object type=\"PCIDev\" pci_busid=\"0000:14:00.0\" pci_type=\"0107 [1000:00ac] [1000:4000] 01\"/>";
    let whole = good(VERSION_2).0;
    for card in [28, 37].map(|index| format!("<object type=\"PCIDev\" gp_index=\"{index}\"")) {
        let topology = good(&VERSION_2.replace(&card, &format!("{disk}{card}"))).0;
        assert_eq!((&topology.nics, &topology.pci), (&whole.nics, &whole.pci));
    }
    let (topology, _) = good(VERSION_2);
    let functions = topology.pci.iter().map(|function| function.address);
    let wanted = "10:01.0 10:05.0 11:00.0 12:00.0 12:01.0 13:00.0 14:00.0 20:00.0 20:00.1 \
                  1:00:01.0 1:01:00.0 1:80:00.0 2:00:06.0";
    assert!(functions.eq(wanted.split(' ').map(at)));
    let gpu = topology.pci.get(at("13:00.0")).unwrap();
    assert_eq!(gpu.parent, PciParent::Bridge(at("12:00.0")));
    let ids = (gpu.class, gpu.vendor, gpu.device);
    assert_eq!(ids, (Some(0x030200), Some(0x10de), Some(0x2330)));
    assert_eq!(gpu.link.current.unwrap().to_string(), "32.0 GT/s x16");
    let (domain, bus) = (0, 0x10);
    let root = topology.pci.get(at("10:01.0")).unwrap();
    assert_eq!(root.parent, PciParent::Host(HostBridge { domain, bus }));
}

#[test]
fn what_the_processors_are_is_told_by_the_packages() {
    let read = |infos: &str, machine: &str| {
        let text = format!(
            "<topology version=\"2.0\"><object type=\"Machine\" cpuset=\"0x1\" nodeset=\"0x1\">{machine}
             <object type=\"Package\" os_index=\"0\" cpuset=\"0x1\">{infos}
             <object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\" nodeset=\"0x1\"/>
             <object type=\"Core\" os_index=\"0\" cpuset=\"0x1\"><object type=\"PU\" os_index=\"0\" cpuset=\"0x1\"/></object>
             </object></object></topology>"
        );
        let processor = good(&text).0.processor;
        processor.map_or(String::new(), |of| modalias(&of))
    };
    let info = |name: &str, value: &str| format!("<info name=\"{name}\" value=\"{value}\"/>");
    let vendor = info("CPUVendor", "GenuineIntel");
    let numbers = [("CPUFamilyNumber", "6"), ("CPUModelNumber", "143")];
    let intel = vendor + &numbers.map(|(name, value)| info(name, value)).concat();
    let known = "cpu:type:x86,ven0000fam0006mod008F:feature:";
    assert_eq!(read(&intel, ""), known);
    assert_eq!(read("", &intel), known);
    let arch = |arch: &str| read("", &info("Architecture", arch));
    assert_eq!(arch("aarch64"), "cpu:type:aarch64:feature:");
    assert_eq!(arch("x86_64"), "");
}

#[test]
fn numa_nodes_have_the_kernels_cpus_and_distances_and_cpus_know_their_package_and_core() {
    // the matrix is in another order, and hwloc gives the GPU's memory the CPUs of its package
    let wanted = "0: 0-3 10 22 30; 1: 4-7 21 10 40; 2:  31 41 10";
    assert_eq!(cpus(&good(VERSION_2).0), wanted);
    // of two nodes with the same CPUs one keeps them
    let text = VERSION_2.replace(" subtype=\"GPUMemory\"", "");
    assert_eq!(cpus(&good(&text).0), wanted);
    /// `0/0.4`: a CPU with its package and its core
    fn pus(text: &str) -> String {
        let pu = |pu: &Pu| format!("{}/{}.{}", pu.os_index, pu.package, pu.core);
        Vec::from_iter(good(text).0.pus.iter().map(pu)).join(" ")
    }
    // both cores of the second package have the number 0 in the file
    let wanted = "0/0.0 1/0.0 2/0.1 3/0.1 4/1.2 5/1.2 6/1.3 7/1.3";
    assert_eq!(pus(VERSION_2), wanted);
    // without cores each CPU is one
    assert_eq!(pus(VERSION_3), "0/0.0 1/0.1");
    // so do their NUMA nodes, and a file without packages has none
    let packages = |text: &str| {
        let nodes = good(text).0.numa_nodes;
        [0, 1, 2].map(|node| nodes[node].package)
    };
    assert_eq!(packages(VERSION_2), [Some(0), Some(1), None]);
    let without = VERSION_2.replace("type=\"Package\"", "type=\"Group\"");
    assert_eq!(packages(&without), [None; 3]);
}

#[test]
fn gpus_are_what_tasks_compute_on_and_nothing_that_drives_a_console() {
    let (topology, _) = good(VERSION_2);
    let nvidia = Gpu {
        uuid: Some("GPU-11111111-2222-3333-4444-555555555555".to_string()),
        model: Some("Accelerator".to_string()),
        ..Gpu::new(at("13:00.0"), GpuVendor::Nvidia)
    };
    let part = |partition| Gpu {
        partition: Some(partition),
        model: Some("Instinct".to_string()),
        ..Gpu::new(at("1:01:00.0"), GpuVendor::Amd)
    };
    assert_eq!(topology.gpus, [nvidia, part(0), part(1)]);
    let plain = |address: &str| [Gpu::new(at(address), GpuVendor::Nvidia)];
    // an FPGA (Intel's PAC D5005) has the class of AMD's newer GPUs
    let (class, cuda, nvml) = ("0302 [10de:2330] [10de:16c1]", "\"cuda0\"", "\"nvml0\"");
    let fpga = VERSION_2.replace(class, "1200 [8086:0b2b] [8086:0000]");
    let fpga = fpga.replace(cuda, "\"dfl0\"").replace(nvml, "\"dfl1\"");
    assert_eq!(good(&fpga).0.gpus, [part(0), part(1)]);
    // its class is not a GPU's either, but CUDA found it
    assert_eq!(good(VERSION_3).0.gpus, plain("02:00.0"));
    // an AMD GPU that is whole has its serial number and its render node
    let whole = VERSION_2.replace("name=\"rsmi1\"", "name=\"opencl0d0\"");
    let gpus = good(&whole).0.gpus;
    assert_eq!(gpus.len(), 2);
    assert_eq!(gpus[1].uuid.as_deref(), Some("GPU-000abcdef0123456"));
    assert_eq!(gpus[1].device_node().as_deref(), Some("dri/renderD128"));
}

#[test]
fn nics_have_their_kind_their_interfaces_and_ports_with_the_link_layer_that_the_file_betrays() {
    let (topology, _) = good(VERSION_2);
    let nics = topology.nics.iter();
    let kinds = nics.map(|nic| format!("{} {:?} {}", nic.name, nic.kind, nic.netdevs.concat()));
    let wanted = "mlx5_0 Verbs ibp20s0, mlx5_1 Verbs ens1f0, eno1 Ethernet eno1, hsn0 Slingshot hsn0, \
                  rdmap0s6 Efa , rxe0 Verbs ";
    assert_eq!(kinds.collect::<Vec<_>>().join(", "), wanted);
    assert_eq!(nic(&topology, "rxe0").address, None);
    let hsn = "name=\"hsn0\" osdev_type=\"2\"";
    let cxi = "name=\"cxi0\" osdev_type=\"3\"";
    let named = VERSION_2.replace(hsn, cxi);
    assert_eq!(nic(&good(&named).0, "cxi0").kind, NicKind::Slingshot);
    /// `1 Active InfiniBand ibp20s0`
    fn ports(text: &str, name: &str) -> String {
        let port = |port: &Port| {
            let netdev = port.netdev.as_deref().unwrap_or("-");
            let (number, state, layer) = (port.number, port.state, port.link_layer);
            format!("{number} {state:?} {layer:?} {netdev}")
        };
        let (topology, _) = good(text);
        let ports = nic(&topology, name).ports.iter().map(port);
        ports.collect::<Vec<_>>().join(", ")
    }
    let of = |text, name: &str, wanted: &str| assert_eq!(ports(text, name), wanted);
    of(VERSION_2, "mlx5_0", "1 Active InfiniBand ibp20s0");
    of(VERSION_2, "mlx5_1", "1 Down Ethernet ens1f0");
    of(VERSION_2, "rdmap0s6", "1 Unknown Unknown -");
    of(VERSION_3, "mlx4_0", "1 Active InfiniBand ib0");
    let (topology, said) = good(VERSION_2);
    let subnet = nic(&topology, "mlx5_0").ports[0].subnet;
    assert_eq!(subnet, Some(SubnetPrefix(0xfec0_0000_0000_0007)));
    assert!(said.last().unwrap().starts_with("`rdmap0s6`: "));
    // without an interface the LID tells, except the 1 that iWARP drivers invent
    let netdev = "name=\"ibp20s0\" osdev_type=\"2\"";
    let disk = "name=\"sda\" osdev_type=\"0\"";
    let alone = VERSION_2.replace(netdev, disk);
    of(&alone, "mlx5_0", "1 Active InfiniBand -");
    let gid = "fec0:0000:0000:0007:0c42:a103:00aa:0001";
    let iwarp = alone.replace(gid, "0c42:a1aa:0001:0000:0000:0000:0000:0000");
    of(&iwarp, "mlx5_0", "1 Active Unknown -");
}

#[test]
fn paths_are_of_the_kind_that_the_tree_shows_and_a_function_has_the_cpus_around_its_bridges() {
    let (topology, _) = good(VERSION_2);
    for (gpu, name, wanted) in [
        ("13:00.0", "mlx5_0", PathType::Pix),
        ("13:00.0", "mlx5_1", PathType::Phb),
        ("13:00.0", "hsn0", PathType::Sys),
        ("1:01:00.0", "hsn0", PathType::Node),
        // above it is the whole machine
        ("1:01:00.0", "rdmap0s6", PathType::Sys),
    ] {
        assert_eq!(kind(&topology, gpu, name), wanted, "{gpu} {name}");
    }
    let links = topology.way(at("13:00.0"), at("14:00.0")).links;
    let least = links.iter().map(|link| link.mbps).min();
    assert_eq!(least, Some(252_061), "the NIC's 16 GT/s x16");
    let (topology, _) = good(VERSION_2);
    for (address, node, cpus) in [
        ("13:00.0", Some(0), "0-3"),
        ("10:01.0", Some(0), "0-3"),
        // part of a node's CPUs
        ("1:01:00.0", Some(1), "4-5"),
        // all nodes are none in particular
        ("2:00:06.0", None, "0-7"),
    ] {
        let function = topology.pci.get(at(address)).unwrap();
        let local = function.local_cpus.as_ref().unwrap().to_string();
        assert_eq!((function.numa_node, &*local), (node, cpus), "{address}");
    }
}

#[test]
fn a_machine_is_called_by_its_host_else_by_its_product_in_plain_letters() {
    let name = |text: &str| good(text).0.name;
    assert_eq!(name(VERSION_2), "Box-9000--rev.-A-");
    assert_eq!(name(VERSION_3), "new1");
    assert_eq!(name(&VERSION_3.replace("new1", "-rf")), "hwloc-machine");
}
