//! What we write, and what NCCL's format cannot hold.

use super::super::*;
use super::properties::facts;
use super::{address, nic, parse, rules, sample};
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
    assert_eq!(said.len(), 1, "NICs are known by their addresses");
    assert_eq!(facts(&again), facts(&sample()));
}

fn model(name: &str) -> Topology {
    nic_placement_node::platform::model(name).unwrap()
}

#[test]
fn nccl_reads_the_file_of_every_model_on_the_machine_and_off_it() {
    for model in nic_placement_node::platform::MODELS {
        let (name, topology) = (model.name, model.topology().unwrap());
        let text = write(&topology).unwrap();
        let has = |part: &str| text.contains(part);
        assert!(!has("<nic") && !has("<net") && !has("<gpu"), "{name}");
        let is_empty = |mask: &str| mask.trim_start_matches(['0', ',']).starts_with('"');
        assert!(!text.split("affinity=\"").skip(1).any(is_empty), "{name}");
        for bus in [Some(&rules::bus(&topology)), None] {
            let kinds = rules::kinds(&text, &topology, bus);
            for ((rank, name), kind) in kinds.unwrap_or_else(|bad| panic!("{name}: {bad}\n{text}"))
            {
                let address = nic(&topology, &name).address.unwrap();
                let expected = match topology.path_type(topology.gpus[rank].address, address) {
                    PathType::Node => PathType::Phb,
                    kind => kind,
                };
                assert_eq!(kind, expected, "GPU {rank} and {name}\n{text}");
            }
        }
    }
}

#[test]
fn nics_in_the_file_are_what_nccl_stumbles_over() {
    let topology = model("dgx-h100");
    let text = write(&topology).unwrap();
    let rank = |text: &str, bus: &Topology| rules::kinds(text, &topology, Some(bus));
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
    let mut anonymous = topology.clone();
    anonymous.processor = None;
    let before = named(write(&anonymous).unwrap());
    assert_eq!(rank(&before, &topology).unwrap_err(), "arch of cpu");
    let mut with_ids = topology.clone();
    for function in topology.pci.iter() {
        let mut function = function.clone();
        function.subsystem = Some((0x15b3, 0x0001));
        with_ids.pci.insert(function);
    }
    // a copy for each switch that ranks do not agree on
    let bad = rank(&named(text), &with_ids).unwrap_err();
    assert_eq!(bad, "2 `<net name=\"mlx5_0\">`");
}

#[test]
fn a_nic_without_a_function_comes_to_a_cpu_that_has_an_identity() {
    let mut topology = model("azure-nd96isr-h100-v5");
    let mut soft = Nic::new("rxe0".parse().unwrap(), NicKind::Verbs);
    let port = Port::new(1, PortState::Active, LinkLayer::Ethernet, Some(10_000));
    soft.ports.push(port);
    topology.nics.push(soft);
    for processor in [topology.processor, None] {
        topology.processor = processor;
        let text = write(&topology).unwrap();
        assert!(!text.contains("rxe0"));
        rules::kinds(&text, &topology, Some(&rules::bus(&topology))).unwrap();
    }
}

#[test]
fn stated_pairs_stand_below_a_switch_each_and_those_of_a_matrix_below_addresses_of_no_machine() {
    let topology = model("azure-nd96isr-h100-v5");
    let text = write(&topology).unwrap();
    assert_eq!(text.matches("<pci busid=\"ffff:ff:").count(), 8);
    let lines = text.lines().skip_while(|line| !line.contains("ffff:ff:"));
    let words = lines.take(4).flat_map(|line| line.trim().split(' '));
    let link = "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"";
    let words: Vec<&str> = words.collect();
    let expected = format!(
        "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\" {link}> \
             <pci busid=\"0001:00:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" {link}/> \
             <pci busid=\"0101:00:00.0\" class=\"0x020700\" vendor=\"0x15b3\" device=\"0x101e\" {link}/> \
             </pci>"
    );
    assert_eq!(words.join(" "), expected);
    // a virtual machine often shows no rate, and NCCL then counts with generation 3
    let mut silent = topology.clone();
    for function in topology.pci.iter() {
        let mut function = function.clone();
        function.link = PcieLink::default();
        silent.pci.insert(function);
    }
    assert_eq!(write(&silent).unwrap().matches(link).count(), 24);
    let matrix = "\tGPU0\tGPU1\tmlx5_0\tmlx5_1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\tPIX\tPXB\t0-3\t0\nGPU1\tNV4\t X \tSYS\tPIX\t4-7\t1\n";
    let (topology, _) = crate::import::smi::read(matrix, Provenance::ThisSystem).unwrap();
    let text = write(&topology).unwrap();
    assert!(!text.contains("ffffffff") && text.contains("busid=\"ffff:ff:"));
    let (again, _) = parse(&text).unwrap();
    // one path of four that no tree has with the others
    let facts = facts(&again);
    let pix = facts.iter().filter(|fact| fact.ends_with("PIX"));
    assert_eq!(pix.count(), 2, "{text}");
}

#[test]
fn what_is_amds_is_written_for_rccl_and_what_nccl_cannot_hold_is_refused_or_left_for_it_to_find() {
    let amd = model("mi300x-8");
    assert!(write(&amd).unwrap().starts_with("<system version=\"2\""));
    let mut many = model("dgx-h100");
    for nic in many.nics.clone() {
        many.nics.extend((0..10).map(|copy| Nic {
            name: format!("{}_{copy}", nic.name).parse().unwrap(),
            ..nic.clone()
        }));
    }
    let refusal = write(&many).unwrap_err().to_string();
    assert!(refusal.contains("`256` elements"), "{refusal}");
    let mut topology = Topology::empty("a machine with \"quotes\"", Provenance::ThisSystem);
    topology
        .numa_nodes
        .extend([0..900, 0..0].map(|cpus| NumaNode {
            os_index: u32::from(cpus.is_empty()),
            cpus: cpus.collect(),
            distances: Vec::new(),
            package: None,
        }));
    let soft = Nic::new("rxe0".parse().unwrap(), NicKind::Verbs);
    topology.nics.push(soft);
    let expected = "<system version=\"1\">\n  <cpu numaid=\"0\"/>\n</system>\n";
    assert_eq!(write(&topology).unwrap(), expected);
    // parents in a circle, which no reader accepts
    let circle = address("01:00.0");
    let function = PciFunction::new(circle, PciParent::Bridge(circle));
    topology.pci.insert(function);
    topology.gpus.push(Gpu::new(circle, GpuVendor::Amd));
    topology.numa_nodes.clear();
    let text = write(&topology).unwrap();
    let pci = "<pci busid=\"0000:01:00.0\"";
    for part in ["<cpu numaid=\"-1\">", pci, "\"0x1002\"/>"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_link_is_written_as_what_both_its_ends_could_do_and_a_function_below_the_node_of_its_cpus() {
    let mut topology = sample();
    topology.pci = PciTree::default();
    let rate = |tenths_gt, width| Some(LinkRate { tenths_gt, width });
    for (function, parent, current, max) in [
        ("80:01.0", None, None, rate(320, 8)),
        ("81:00.0", Some("0000:80:01.0"), rate(25, 1), rate(160, 16)),
        ("14:00.0", None, rate(50, 2), None),
    ] {
        let parent = parent.unwrap_or("pci0000:80").parse().unwrap();
        let cpus = if function == "14:00.0" { "4-5" } else { "0" };
        topology.pci.insert(PciFunction {
            local_cpus: CpuSet::from_list(cpus).ok(),
            link: PcieLink { current, max },
            ..PciFunction::new(address(function), parent)
        });
    }
    topology.nics.clear();
    let text = write(&topology).unwrap();
    let is_it = |line: &&str| line.contains("<pci") || line.contains("<cpu");
    let lines = text.lines().filter(is_it);
    let values = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    let values: Vec<&str> = values.collect();
    assert_eq!(
        values.join(" "),
        "0 0000000f,0000000f x86_64 GenuineIntel 6 143 0000:81:00.0 0x03 0x10de 16.0 GT/s PCIe 8 \
         1 000000f0,000000f0 x86_64 GenuineIntel 6 143 0000:14:00.0 0x03 0x10de 5.0 GT/s PCIe 2"
    );
}
