//! Reading hwloc's XML, with small machines written for these tests and with bad texts.

mod bad;
mod machines;
mod properties;

use super::*;
use crate::way::Between;
use machines::{VERSION_1, VERSION_2, VERSION_3};
use nic_placement_core::topology::{
    Gpu, GpuVendor, HostBridge, LinkLayer, Nic, NicKind, PathType, PciAddress, PciParent,
    PortState, Pu, SubnetPrefix,
};

fn provenance() -> Provenance {
    Provenance::File("test.xml".to_string())
}

fn good(text: &str) -> (Topology, Vec<String>) {
    let (topology, diagnostics) = super::read(text, provenance()).unwrap();
    (
        topology,
        diagnostics.iter().map(Diagnostic::to_string).collect(),
    )
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

fn cpus(topology: &Topology) -> Vec<(u32, String, Vec<u32>)> {
    let nodes = topology.numa_nodes.iter();
    nodes
        .map(|node| (node.os_index, node.cpus.to_string(), node.distances.clone()))
        .collect()
}

#[test]
fn a_disk_controller_with_the_address_of_a_nic_is_left_out() {
    let disk = "<object type=\"PCIDev\" pci_busid=\"0000:14:00.0\" pci_type=\"0107 [1000:00ac] [1000:4000] 01\"/>";
    let card = "<object type=\"PCIDev\" gp_index=\"28\"";
    let (whole, said) = good(VERSION_2);
    for text in [
        VERSION_2.replace(card, &format!("{disk}{card}")),
        VERSION_2.replace(
            "<object type=\"PCIDev\" gp_index=\"37\"",
            &format!("{disk}<object type=\"PCIDev\" gp_index=\"37\""),
        ),
    ] {
        let (topology, findings) = good(&text);
        assert_eq!((&topology.nics, &topology.pci), (&whole.nics, &whole.pci));
        let finding =
            "`0000:14:00.0`: also the address of a device of another kind, which is left out"
                .to_string();
        assert!(
            findings.contains(&finding) && findings.len() == said.len() + 1,
            "{findings:?}"
        );
    }
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
        super::read(&text, Provenance::File("test".to_string()))
            .unwrap()
            .0
            .processor
            .map(|processor| nic_placement_testing::synthesise::modalias(&processor))
    };
    let info = |name: &str, value: &str| format!("<info name=\"{name}\" value=\"{value}\"/>");
    let intel = [
        ("CPUVendor", "GenuineIntel"),
        ("CPUFamilyNumber", "6"),
        ("CPUModelNumber", "143"),
    ];
    let intel: String = intel
        .iter()
        .map(|(name, value)| info(name, value))
        .collect();
    let known = Some("cpu:type:x86,ven0000fam0006mod008F:feature:".to_string());
    assert_eq!(read(&intel, ""), known);
    assert_eq!(read("", &intel), known);
    assert_eq!(
        read("", &info("Architecture", "aarch64")).as_deref(),
        Some("cpu:type:aarch64:feature:")
    );
    assert_eq!(read("", &info("Architecture", "x86_64")), None);
}

#[test]
fn numa_nodes_have_the_cpus_and_distances_that_the_kernel_would_show() {
    let row =
        |index, cpus: &str, distances: [u32; 3]| (index, cpus.to_string(), distances.to_vec());
    // the matrix is in another order, and hwloc gives the GPU's memory the CPUs of its package
    let wanted = [
        row(0, "0-3", [10, 22, 30]),
        row(1, "4-7", [21, 10, 40]),
        row(2, "", [31, 41, 10]),
    ];
    assert_eq!(cpus(&good(VERSION_2).0), wanted);
    let wanted = [
        row(0, "0-3", [10, 21, 40]),
        row(1, "64-67", [22, 10, 41]),
        row(4, "", [40, 41, 10]),
    ];
    assert_eq!(cpus(&good(VERSION_1).0), wanted);
}

#[test]
fn cpus_know_their_package_and_a_core_number_that_is_unique_in_it() {
    let pu = |os_index, package, core| Pu {
        os_index,
        package,
        core,
    };
    let (topology, diagnostics) = good(VERSION_2);
    let first = [pu(0, 0, 0), pu(1, 0, 0), pu(2, 0, 4), pu(3, 0, 4)];
    // both cores of the second package have the number 0
    let second = [pu(4, 1, 0), pu(5, 1, 0), pu(6, 1, 1), pu(7, 1, 1)];
    assert_eq!(topology.pus, [first, second].concat());
    assert!(diagnostics[0].starts_with("`Core of package 1`: numbers are missing or there twice"));
    // CPU 3 is offline
    let pus = [
        pu(0, 0, 0),
        pu(1, 0, 0),
        pu(2, 0, 1),
        pu(64, 1, 0),
        pu(65, 1, 0),
    ];
    assert_eq!(good(VERSION_1).0.pus, pus);
    assert_eq!(
        good(VERSION_3).0.pus,
        [pu(0, 0, 0), pu(1, 0, 1)],
        "without cores each CPU is one"
    );
    // so do their NUMA nodes, and a file without packages has none
    let packages = |text: &str| -> Vec<Option<u32>> {
        good(text)
            .0
            .numa_nodes
            .iter()
            .map(|node| node.package)
            .collect()
    };
    assert_eq!(packages(VERSION_2), [Some(0), Some(1), None]);
    assert_eq!(packages(VERSION_1), [Some(0), Some(1), None]);
    assert_eq!(
        packages(&VERSION_2.replace("type=\"Package\"", "type=\"Group\"")),
        [None, None, None]
    );
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
    // the file gives nothing for this one, not even the vendor's name
    assert_eq!(
        good(VERSION_1).0.gpus,
        [Gpu::new(at("05:00.0"), GpuVendor::Nvidia)]
    );
    // an FPGA (Intel's PAC D5005) has the class of AMD's newer GPUs
    let fpga = VERSION_2.replace(
        "0302 [10de:2330] [10de:16c1] a1",
        "1200 [8086:0b2b] [8086:0000] a1",
    );
    let fpga = fpga
        .replace("\"cuda0\"", "\"dfl0\"")
        .replace("\"nvml0\"", "\"dfl1\"");
    assert_eq!(good(&fpga).0.gpus, [part(0), part(1)]);
    // its class is not a GPU's either, but CUDA found it
    assert_eq!(
        good(VERSION_3).0.gpus,
        [Gpu::new(at("02:00.0"), GpuVendor::Nvidia)]
    );
}

#[test]
fn an_amd_gpu_that_is_whole_has_its_serial_number_and_its_render_node() {
    let whole = VERSION_2.replace("name=\"rsmi1\"", "name=\"opencl0d0\"");
    let (topology, _) = good(&whole);
    assert_eq!(topology.gpus.len(), 2);
    assert_eq!(
        topology.gpus[1].uuid.as_deref(),
        Some("GPU-000abcdef0123456")
    );
    assert_eq!(
        topology.gpus[1].device_node().as_deref(),
        Some("dri/renderD128")
    );
}

#[test]
fn nics_have_their_kind_their_card_and_their_interfaces() {
    let (topology, _) = good(VERSION_2);
    let kinds: Vec<(&str, NicKind, &[String])> = topology
        .nics
        .iter()
        .map(|nic| (nic.name.as_str(), nic.kind, nic.netdevs.as_slice()))
        .collect();
    assert_eq!(
        kinds,
        [
            ("mlx5_0", NicKind::Verbs, &["ibp20s0".to_string()][..]),
            ("mlx5_1", NicKind::Verbs, &["ens1f0".to_string()]),
            ("eno1", NicKind::Ethernet, &["eno1".to_string()]),
            ("hsn0", NicKind::Slingshot, &["hsn0".to_string()]),
            ("rdmap0s6", NicKind::Efa, &[]),
            ("rxe0", NicKind::Verbs, &[]),
        ]
    );
    assert_eq!(
        nic(&topology, "mlx5_0").card.as_deref(),
        Some("0c42:a103:00aa:0001")
    );
    assert_eq!(
        nic(&topology, "mlx5_1").card,
        None,
        "zeros are no card's number"
    );
    assert_eq!(nic(&topology, "rxe0").address, None);
    let named = VERSION_2.replace(
        "name=\"hsn0\" osdev_type=\"2\"",
        "name=\"cxi0\" osdev_type=\"3\"",
    );
    assert_eq!(nic(&good(&named).0, "cxi0").kind, NicKind::Slingshot);
}

#[test]
fn ports_have_their_state_and_the_link_layer_that_the_file_betrays() {
    let ports = |text: &str, name: &str| -> Vec<(u8, PortState, LinkLayer, Option<String>)> {
        let ports = nic(&good(text).0, name).ports.clone();
        ports
            .into_iter()
            .map(|port| (port.number, port.state, port.link_layer, port.netdev))
            .collect()
    };
    let netdev = |name: &str| Some(name.to_string());
    let (active, down) = (PortState::Active, PortState::Down);
    let (infiniband, ethernet, unknown) = (
        LinkLayer::InfiniBand,
        LinkLayer::Ethernet,
        LinkLayer::Unknown,
    );
    assert_eq!(
        ports(VERSION_2, "mlx5_0"),
        [(1, active, infiniband, netdev("ibp20s0"))]
    );
    assert_eq!(
        ports(VERSION_2, "mlx5_1"),
        [(1, down, ethernet, netdev("ens1f0"))]
    );
    assert_eq!(
        ports(VERSION_2, "rdmap0s6"),
        [(1, PortState::Unknown, unknown, None)]
    );
    assert_eq!(
        ports(VERSION_1, "mlx4_0"),
        [
            (1, PortState::Init, infiniband, netdev("ib0")),
            (2, active, ethernet, netdev("eth2"))
        ]
    );
    assert_eq!(
        ports(VERSION_3, "mlx4_0"),
        [(1, active, infiniband, netdev("ib0"))]
    );
    assert_eq!(
        nic(&good(VERSION_2).0, "mlx5_0").ports[0].subnet,
        Some(SubnetPrefix(0xfec0_0000_0000_0007))
    );
    // without an interface the LID tells, except the 1 that iWARP drivers invent
    let alone = VERSION_2.replace(
        "name=\"ibp20s0\" osdev_type=\"2\"",
        "name=\"sda\" osdev_type=\"0\"",
    );
    assert_eq!(ports(&alone, "mlx5_0"), [(1, active, infiniband, None)]);
    let iwarp = alone.replace(
        "fec0:0000:0000:0007:0c42:a103:00aa:0001",
        "0c42:a1aa:0001:0000:0000:0000:0000:0000",
    );
    assert_eq!(ports(&iwarp, "mlx5_0"), [(1, active, unknown, None)]);
}

#[test]
fn what_nobody_says_of_a_port_is_unknown_and_named_once() {
    let (_, diagnostics) = good(VERSION_2);
    let wanted = "`rdmap0s6`: the file does not say whether its ports are active, and only active ones are used";
    assert_eq!(diagnostics.last().map(String::as_str), Some(wanted));
}

#[test]
fn paths_are_of_the_kind_that_the_tree_shows() {
    let (topology, _) = good(VERSION_2);
    assert_eq!(kind(&topology, "13:00.0", "mlx5_0"), PathType::Pix);
    assert_eq!(kind(&topology, "13:00.0", "mlx5_1"), PathType::Phb);
    assert_eq!(kind(&topology, "13:00.0", "hsn0"), PathType::Sys);
    assert_eq!(kind(&topology, "1:01:00.0", "hsn0"), PathType::Node);
    assert_eq!(
        kind(&topology, "1:01:00.0", "rdmap0s6"),
        PathType::Sys,
        "above it is the whole machine"
    );
    let way = topology.way(at("13:00.0"), at("14:00.0"));
    assert_eq!(
        way.links.iter().map(|link| link.mbps).min(),
        Some(252_061),
        "the NIC's 16 GT/s x16"
    );
    assert_eq!(kind(&good(VERSION_1).0, "05:00.0", "mlx4_0"), PathType::Phb);
}

#[test]
fn a_function_is_next_to_the_cpus_of_what_is_around_its_bridges() {
    let (topology, _) = good(VERSION_2);
    let local = |address: &str| {
        let function = topology.pci.get(at(address)).unwrap();
        (
            function.numa_node,
            function
                .local_cpus
                .as_ref()
                .map(CpuSetText::to_string)
                .unwrap_or_default(),
        )
    };
    assert_eq!(local("13:00.0"), (Some(0), "0-3".to_string()));
    assert_eq!(
        local("10:01.0"),
        (Some(0), "0-3".to_string()),
        "bridges too"
    );
    assert_eq!(
        local("1:01:00.0"),
        (Some(1), "4-5".to_string()),
        "part of a node's CPUs"
    );
    assert_eq!(
        local("2:00:06.0"),
        (None, "0-7".to_string()),
        "all nodes are none in particular"
    );
}

/// `local_cpus` in the kernel's spelling.
type CpuSetText = nic_placement_core::topology::CpuSet;

#[test]
fn the_tree_holds_gpus_nics_and_the_bridges_above_them_only() {
    let (topology, _) = good(VERSION_2);
    let functions: Vec<String> = topology
        .pci
        .iter()
        .map(|function| function.address.to_string())
        .collect();
    assert_eq!(
        functions,
        [
            "0000:10:01.0",
            "0000:10:05.0",
            "0000:11:00.0",
            "0000:12:00.0",
            "0000:12:01.0",
            "0000:13:00.0",
            "0000:14:00.0",
            "0000:20:00.0",
            "0000:20:00.1",
            "0001:00:01.0",
            "0001:01:00.0",
            "0001:80:00.0",
            "0002:00:06.0"
        ]
    );
    let gpu = topology.pci.get(at("13:00.0")).unwrap();
    assert_eq!(gpu.parent, PciParent::Bridge(at("12:00.0")));
    assert_eq!(
        (gpu.class, gpu.vendor, gpu.device),
        (Some(0x030200), Some(0x10de), Some(0x2330))
    );
    assert_eq!(
        gpu.link.current.map(|rate| rate.to_string()).as_deref(),
        Some("32.0 GT/s x16")
    );
    let host = HostBridge {
        domain: 0,
        bus: 0x10,
    };
    assert_eq!(
        topology.pci.get(at("10:01.0")).unwrap().parent,
        PciParent::Host(host)
    );
    // version 3 has the third byte of the class
    assert_eq!(
        good(VERSION_3).0.pci.get(at("02:00.0")).unwrap().class,
        Some(0x0b4002)
    );
}

#[test]
fn a_machine_is_called_by_its_host_else_by_its_product_in_plain_letters() {
    assert_eq!(good(VERSION_1).0.name, "old1");
    assert_eq!(good(VERSION_2).0.name, "Box-9000--rev.-A-");
    assert_eq!(good(VERSION_3).0.name, "new1");
    assert_eq!(
        good(&VERSION_3.replace("new1", "-rf")).0.name,
        "hwloc-machine"
    );
}

#[test]
fn a_machine_without_numa_nodes_counts_as_one_node() {
    let without = VERSION_3.replace("type=\"NUMANode\"", "type=\"Group\"");
    let (topology, diagnostics) = good(&without);
    assert_eq!(cpus(&topology), [(0, "0-1".to_string(), vec![])]);
    assert_eq!(
        diagnostics,
        ["`NUMANode`: none in the file: the machine counts as one, number 0"]
    );
    assert_eq!(topology.numa_node_of(at("02:00.0")), Some(0));
}

#[test]
fn what_is_read_is_consistent_and_can_be_kept_as_a_topology_file() {
    for text in [VERSION_1, VERSION_2, VERSION_3] {
        let (topology, _) = good(text);
        let kept = crate::file::to_json(&topology);
        assert_eq!(crate::file::from_json(&kept, provenance()), Ok(topology));
    }
}
