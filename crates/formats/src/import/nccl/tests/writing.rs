//! What we write, and what NCCL's format cannot hold.

use super::super::*;
use super::properties::facts;
use super::{address, parse, rules, sample};
use nic_placement_core::topology::{
    CpuSet, Gpu, GpuVendor, LinkLayer, LinkRate, Nic, NicKind, NumaNode, PathType, Port, PortState,
};

const WRITTEN: &str = include_str!("written.xml");

#[test]
fn a_topology_is_written_without_what_nccl_finds_itself() {
    assert_eq!(write(&sample()).unwrap(), WRITTEN);
    assert!(rules::reader::load(WRITTEN).is_ok());
    for (from, to, why) in [
        (" class", "  class", "without a value"),
        ("<pci", "<disk/><pci", "Ignoring element disk"),
        ("version=\"1\"", "version=\"3\"", "wrong version"),
        ("0000:", "a&amp;", "entity"),
        ("</cpu>", "</pci>", "XML Mismatch"),
        ("</system>", "", "unterminated system"),
    ] {
        let bad = rules::reader::load(&WRITTEN.replacen(from, to, 1)).unwrap_err();
        assert!(bad.contains(why), "the judge can say no: {bad}");
    }
    let (again, said) = parse(WRITTEN).unwrap();
    assert_eq!(write(&again).unwrap(), WRITTEN);
    assert_eq!(said.len(), 1, "NICs are known by their addresses: {said:?}");
    assert_eq!(facts(&again), facts(&sample()));
}

/// As NCCL joins it where `bus` is what /sys shows.
fn joined(text: &str, topology: &Topology, bus: Option<&Topology>) -> Result<rules::Xml, String> {
    let all = rules::joined(text, topology, bus)?;
    all.check().map(|()| all)
}

/// What a virtual machine's bus shows of a model: no path that is only stated.
fn bus(topology: &Topology) -> Topology {
    Topology {
        stated_paths: BTreeMap::new(),
        ..topology.clone()
    }
}

#[test]
fn nccl_reads_the_file_of_every_model_on_the_machine_and_off_it() {
    for model in nic_placement_node::platform::MODELS {
        let (name, topology) = (model.name, model.topology().unwrap());
        let text = write(&topology).unwrap();
        assert!(
            !text.contains("<nic") && !text.contains("<net") && !text.contains("<gpu"),
            "{name}\n{text}"
        );
        let is_empty = |mask: &str| mask.chars().all(|letter| matches!(letter, '0' | ','));
        let masks = text
            .split("affinity=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next());
        assert!(!masks.into_iter().any(is_empty), "{name}\n{text}");
        for bus in [Some(&bus(&topology)), None] {
            let all =
                joined(&text, &topology, bus).unwrap_or_else(|bad| panic!("{name}: {bad}\n{text}"));
            for ((rank, nic), kind) in all
                .kinds(&topology)
                .unwrap_or_else(|bad| panic!("{name}: {bad}"))
            {
                let address = topology
                    .nics
                    .iter()
                    .find(|known| known.name == *nic)
                    .unwrap()
                    .address
                    .unwrap();
                let expected = match topology.path_type(topology.gpus[rank].address, address) {
                    PathType::Node => PathType::Phb,
                    kind => kind,
                };
                assert_eq!(kind, expected, "{name}: GPU {rank} and {nic}\n{text}");
            }
        }
    }
}

#[test]
fn nics_in_the_file_are_what_nccl_stumbles_over() {
    let topology = nic_placement_node::platform::model("dgx-h100").unwrap();
    let text = write(&topology).unwrap();
    let rank = |text: &str, bus: &Topology| {
        joined(text, &topology, Some(bus)).and_then(|all| all.kinds(&topology))
    };
    assert!(rank(&text, &topology).is_ok());
    // as the file was before: NICs by name, and no identity of the CPUs
    let named = |mut text: String| {
        for nic in rules::listed(&topology) {
            let busid = format!("<pci busid=\"{}\"", nic.address.unwrap());
            let at = text.find(&busid).unwrap();
            let end = at + text[at..].find("/>").unwrap();
            let net = format!("><nic><net name=\"{}\" dev=\"0\"/></nic></pci>", nic.name);
            text.replace_range(end..end + 2, &net);
        }
        text
    };
    let anonymous = Topology {
        processor: None,
        ..topology.clone()
    };
    let before = named(write(&anonymous).unwrap());
    assert_eq!(
        rank(&before, &topology).unwrap_err(),
        "Attribute arch of node cpu not found"
    );
    let mut with_ids = topology.clone();
    for function in topology.pci.iter() {
        let subsystem = Some((0x15b3, 0x0001));
        with_ids.pci.insert(PciFunction {
            subsystem,
            ..function.clone()
        });
    }
    let bad = rank(&named(text), &with_ids).unwrap_err();
    assert!(
        bad == "2 `<net name=\"mlx5_0\">`",
        "a copy for each switch that ranks do not agree on: {bad}"
    );
}

#[test]
fn a_nic_without_a_function_comes_to_a_cpu_that_has_an_identity() {
    let mut topology = nic_placement_node::platform::model("azure-nd96isr-h100-v5").unwrap();
    let mut soft = Nic::new("rxe0".parse().unwrap(), NicKind::Verbs);
    soft.ports.push(Port::new(
        1,
        PortState::Active,
        LinkLayer::Ethernet,
        Some(10_000),
    ));
    topology.nics.push(soft);
    let text = write(&topology).unwrap();
    assert!(!text.contains("rxe0"));
    joined(&text, &topology, Some(&bus(&topology)))
        .unwrap()
        .kinds(&topology)
        .unwrap();
    topology.processor = None;
    joined(&write(&topology).unwrap(), &topology, Some(&bus(&topology))).unwrap();
}

#[test]
fn stated_pairs_of_a_virtual_machine_stand_below_a_switch_each() {
    let topology = nic_placement_node::platform::model("azure-nd96isr-h100-v5").unwrap();
    let text = write(&topology).unwrap();
    assert_eq!(text.matches("<pci busid=\"ffff:ff:").count(), 8);
    let group = text
        .lines()
        .skip_while(|line| !line.contains("ffff:ff:01.0"))
        .take(4)
        .collect::<Vec<_>>();
    assert_eq!(
        group,
        [
            "    <pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">",
            "      <pci busid=\"0001:00:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>",
            "      <pci busid=\"0101:00:00.0\" class=\"0x020700\" vendor=\"0x15b3\" device=\"0x101e\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>",
            "    </pci>",
        ]
    );
    // a virtual machine often shows no rate, and NCCL then counts with generation 3
    let mut silent = topology.clone();
    for function in topology.pci.iter() {
        silent.pci.insert(PciFunction {
            link: PcieLink::default(),
            ..function.clone()
        });
    }
    assert_eq!(
        write(&silent)
            .unwrap()
            .matches("\"32.0 GT/s PCIe\" link_width=\"16\"")
            .count(),
        24
    );
}

#[test]
fn what_a_matrix_states_is_written_below_addresses_that_no_machine_has() {
    let matrix = "\tGPU0\tGPU1\tmlx5_0\tmlx5_1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\tPIX\tPXB\t0-3\t0\nGPU1\tNV4\t X \tSYS\tPIX\t4-7\t1\n";
    let (topology, _) =
        crate::import::smi::read(matrix, Provenance::File("matrix".to_string())).unwrap();
    let text = write(&topology).unwrap();
    assert!(
        !text.contains("ffffffff") && text.contains("busid=\"ffff:ff:"),
        "{text}"
    );
    let (again, _) = parse(&text).unwrap();
    let kinds: Vec<PathType> = again
        .gpus
        .iter()
        .flat_map(|gpu| {
            again
                .nics
                .iter()
                .map(|nic| again.path_type(gpu.address, nic.address.unwrap()))
        })
        .collect();
    // one path of four that no tree has with the others
    assert_eq!(
        kinds.iter().filter(|kind| **kind == PathType::Pix).count(),
        2,
        "{text}"
    );
}

#[test]
fn what_is_amds_is_written_for_rccl_and_what_nccl_cannot_hold_is_refused() {
    let amd = nic_placement_node::platform::model("mi300x-8").unwrap();
    assert!(write(&amd).unwrap().starts_with("<system version=\"2\""));
    let mut many = nic_placement_node::platform::model("dgx-h100").unwrap();
    let nics = many.nics.clone();
    for copy in 0..10 {
        many.nics.extend(nics.iter().map(|nic| {
            let name = format!("{}_{copy}", nic.name).parse().unwrap();
            Nic {
                name,
                ..nic.clone()
            }
        }));
    }
    let refusal = write(&many).unwrap_err().to_string();
    assert!(
        refusal.starts_with("NCCL reads `256` elements and needs `"),
        "{refusal}"
    );
}

#[test]
fn a_link_is_written_as_what_both_its_ends_could_do_and_a_function_below_the_node_of_its_cpus() {
    let mut topology = sample();
    topology.pci = PciTree::default();
    let rate = |tenths_gt, width| Some(LinkRate { tenths_gt, width });
    for (function, parent, current, max) in [
        ("80:01.0", None, None, rate(320, 8)),
        ("81:00.0", Some("80:01.0"), rate(25, 1), rate(160, 16)),
        ("14:00.0", None, rate(50, 2), None),
    ] {
        let parent = match parent {
            Some(bridge) => PciParent::Bridge(address(bridge)),
            None => PciParent::Host("pci0000:80".parse().unwrap()),
        };
        let cpus = if function == "14:00.0" { "4-5" } else { "0" };
        topology.pci.insert(PciFunction {
            local_cpus: CpuSet::from_list(cpus).ok(),
            link: PcieLink { current, max },
            ..PciFunction::new(address(function), parent)
        });
    }
    topology.nics.truncate(1);
    topology.nics[0].address = None;
    topology.nics[0].ports = vec![
        Port::new(1, PortState::Down, LinkLayer::InfiniBand, Some(1)),
        Port::new(2, PortState::Unknown, LinkLayer::InfiniBand, Some(100_000)),
    ];
    topology.nics[0].card = Some("a card of a name".to_string());
    let expected = "<system version=\"1\" name=\"sample-1\">
  <cpu numaid=\"0\" affinity=\"0000000f,0000000f\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">
    <pci busid=\"0000:81:00.0\" class=\"0x03\" vendor=\"0x10de\" link_speed=\"16.0 GT/s PCIe\" link_width=\"8\"/>
  </cpu>
  <cpu numaid=\"1\" affinity=\"000000f0,000000f0\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\">
    <pci busid=\"0000:14:00.0\" class=\"0x03\" vendor=\"0x10de\" link_speed=\"5.0 GT/s PCIe\" link_width=\"2\"/>
  </cpu>
</system>
";
    assert_eq!(write(&topology).unwrap(), expected);
}

#[test]
fn what_nccl_could_not_hold_is_left_for_it_to_find() {
    let mut topology = Topology::empty("a machine with \"quotes\"", Provenance::ThisSystem);
    topology.numa_nodes.push(NumaNode {
        os_index: 0,
        cpus: (0..900).collect(),
        distances: Vec::new(),
        package: None,
    });
    topology.numa_nodes.push(NumaNode {
        os_index: 1,
        cpus: CpuSet::new(),
        distances: Vec::new(),
        package: None,
    });
    topology
        .nics
        .push(Nic::new("rxe0".parse().unwrap(), NicKind::Verbs));
    let text = write(&topology).unwrap();
    assert_eq!(
        text,
        "<system version=\"1\">\n  <cpu numaid=\"0\"/>\n</system>\n"
    );
    // parents in a circle, which no reader accepts
    let circle = address("01:00.0");
    topology
        .pci
        .insert(PciFunction::new(circle, PciParent::Bridge(circle)));
    topology.gpus.push(Gpu::new(circle, GpuVendor::Amd));
    topology.numa_nodes.clear();
    let text = write(&topology).unwrap();
    assert!(text.contains("<cpu numaid=\"-1\">"), "{text}");
    assert!(
        text.contains("<pci busid=\"0000:01:00.0\" class=\"0x03\" vendor=\"0x1002\"/>"),
        "{text}"
    );
}
