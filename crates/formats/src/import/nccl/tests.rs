//! Files that we read, repair or refuse; `writing` tests writing, by NCCL's own `rules`.

mod properties;
pub mod rules;
mod writing;

use super::*;
use crate::way::Between;
use nic_placement_core::topology::{CpuSet, Gpu, GpuVendor, Nic, NicKind, PathType, PortState};
use properties::facts;

pub const SAMPLE: &str = include_str!("tests/sample.xml");

pub fn parse(text: &str) -> Result<(Topology, Vec<Diagnostic>), BadText> {
    read(text, Provenance::File("test".to_string()))
}

fn sample() -> Topology {
    let (topology, diagnostics) = parse(SAMPLE).unwrap();
    assert_eq!(diagnostics, []);
    topology
}

/// One `<cpu>` with this content.
fn cpu(inside: &str) -> String {
    format!("<system version=\"1\">\n<cpu numaid=\"0\">\n{inside}\n</cpu>\n</system>\n")
}

fn findings(text: &str) -> (Topology, Vec<String>) {
    let (topology, diagnostics) = parse(text).unwrap();
    (
        topology,
        diagnostics.iter().map(Diagnostic::to_string).collect(),
    )
}

fn address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

fn nic<'a>(topology: &'a Topology, name: &str) -> &'a Nic {
    topology.nics.iter().find(|nic| nic.name == name).unwrap()
}

#[test]
fn a_file_is_read_for_all_that_it_says() {
    let topology = sample();
    assert_eq!(topology.name, "sample-1");
    let nodes: Vec<_> = topology
        .numa_nodes
        .iter()
        .map(|node| (node.os_index, node.cpus.to_string()))
        .collect();
    assert_eq!(
        nodes,
        [(0, "0-3,32-35".to_string()), (1, "4-7,36-39".to_string())]
    );
    let gpus: Vec<_> = topology
        .gpus
        .iter()
        .map(|gpu| (gpu.address.to_string(), gpu.vendor))
        .collect();
    let nvidia = GpuVendor::Nvidia;
    assert_eq!(
        gpus,
        [
            ("0000:14:00.0".to_string(), nvidia),
            ("0000:81:00.0".to_string(), nvidia)
        ]
    );
    let names: Vec<&str> = topology.nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["mlx5_0", "mlx5_1", "mlx5_2", "rdmap33s0", "eth0"]);
    let first = nic(&topology, "mlx5_0");
    assert_eq!(
        (first.kind, first.address),
        (NicKind::Verbs, Some(address("13:00.0")))
    );
    // 94:6d:ae is one of Mellanox's
    assert_eq!(first.card.as_deref(), Some("946d:ae03:001b:3f2a"));
    let port = &first.ports[0];
    assert_eq!(
        (port.number, port.state, port.rate_mbps),
        (1, PortState::Active, Some(400_000))
    );
    assert_eq!(nic(&topology, "rdmap33s0").kind, NicKind::Efa);
    let (nameless, _) = parse(&SAMPLE.replace(" vendor=\"0x1d0f\"", "")).unwrap();
    assert_eq!(
        nic(&nameless, "rdmap33s0").kind,
        NicKind::Efa,
        "by its name"
    );
    let eth0 = nic(&topology, "eth0");
    assert_eq!(
        (eth0.kind, eth0.address, &eth0.card),
        (NicKind::Ethernet, None, &None)
    );
    assert_eq!(topology.numa_node_of(address("17:00.0")), Some(0));
    assert_eq!(topology.numa_node_of(address("81:00.0")), Some(1));
}

#[test]
fn a_card_counts_its_ports_and_a_device_its_own() {
    let topology = sample();
    let ports = |name: &str| -> Vec<(u8, Option<u64>)> {
        nic(&topology, name)
            .ports
            .iter()
            .map(|port| (port.number, port.rate_mbps))
            .collect()
    };
    assert_eq!(ports("mlx5_1"), [(1, Some(200_000))]);
    assert_eq!(
        ports("mlx5_2"),
        [(1, Some(100_000)), (2, None)],
        "2 and 4, less the ports listed before"
    );
}

#[test]
fn an_interface_has_no_numbers_of_ports() {
    let text = cpu("<nic><net name=\"eth0\" port=\"0\"/><net name=\"eth0\" port=\"8\"/></nic>");
    let (topology, _) = parse(&text).unwrap();
    assert_eq!(topology.nics[0].kind, NicKind::Ethernet);
    assert_eq!(
        topology.nics[0]
            .ports
            .iter()
            .map(|port| port.number)
            .collect::<Vec<_>>(),
        [1, 2]
    );
}

#[test]
fn paths_are_of_the_kinds_that_nccl_makes_them() {
    let topology = sample();
    let path = |a: &str, b: &str| topology.way(address(a), address(b));
    assert_eq!(
        path("14:00.0", "13:00.0").kind,
        PathType::Pix,
        "right below one switch"
    );
    assert_eq!(
        path("14:00.0", "17:00.0").kind,
        PathType::Pxb,
        "one switch deeper"
    );
    assert_eq!(
        path("14:00.0", "21:00.0").kind,
        PathType::Phb,
        "joined by their CPU"
    );
    assert_eq!(
        path("81:00.0", "13:00.0").kind,
        PathType::Sys,
        "another CPU"
    );
    assert_eq!(
        path("14:00.0", "13:00.0")
            .links
            .iter()
            .map(|link| link.mbps)
            .min(),
        Some(252_061),
        "the NIC's eight lanes"
    );
    assert_eq!(
        topology.pci.get(address("21:00.0")).unwrap().link,
        PcieLink::default()
    );
}

#[test]
fn a_file_of_addresses_only_still_pairs_them() {
    let text = cpu("<pci busid=\"ffff:ff:01.0\" class=\"0x060400\">
           <pci busid=\"0001:00:00.0\" class=\"0x030200\"/>
           <pci busid=\"0101:00:00.0\" class=\"0x020700\"/>
           <pci busid=\"0102:00:00.0\" class=\"0x020000\"><nic/></pci>
           <pci busid=\"0003:00:00.0\" class=\"0x068000\"/>
           <pci busid=\"0004:00:00.0\" class=\"0x030000\" vendor=\"0x1a03\"/>
         </pci>");
    let (topology, said) = findings(&text);
    assert_eq!(
        topology.gpus,
        [Gpu::new(address("0001:00:00.0"), GpuVendor::Nvidia)]
    );
    let names: Vec<&str> = topology.nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["pci-0101-00-00.0", "pci-0102-00-00.0"]);
    let nic = &topology.nics[0];
    assert!(nic.ports.is_empty(), "so that no policy chooses it");
    assert_eq!(
        topology.path_type(topology.gpus[0].address, nic.address.unwrap()),
        PathType::Pix
    );
    assert_eq!(
        said,
        [
            "`0101:00:00.0`: the file names no device of this NIC, nor of 1 others: known by address only, and never chosen"
        ]
    );
    let again = parse(&write(&topology).unwrap()).unwrap().0;
    assert_eq!(facts(&again), facts(&topology));
}

#[test]
fn the_maker_of_a_gpu_is_taken_from_what_the_file_says() {
    let vendor = |attributes: &str, gpu: &str| {
        let text = cpu(&format!(
            "<pci busid=\"0000:01:00.0\" {attributes}>{gpu}</pci>"
        ));
        let (topology, said) = findings(&text);
        (topology.gpus[0].vendor, said.len())
    };
    assert_eq!(
        vendor("vendor=\"0x8086\" class=\"0x038000\"", ""),
        (GpuVendor::Intel, 0)
    );
    assert_eq!(
        vendor("class=\"0x030200\"", "<gpu dev=\"0\" sm=\"80\"/>"),
        (GpuVendor::Nvidia, 0)
    );
    assert_eq!(
        vendor("class=\"0x120000\"", "<gpu dev=\"0\"/>"),
        (GpuVendor::Amd, 0)
    );
    assert_eq!(
        vendor(
            "class=\"0x038000\"",
            "<gpu dev=\"0\" sm=\"64\" gcn=\"906\"/>"
        ),
        (GpuVendor::Amd, 0)
    );
    assert_eq!(
        vendor("", "<gpu dev=\"0\" sm=\"64\"><xgmi/></gpu>"),
        (GpuVendor::Amd, 0)
    );
    assert_eq!(
        vendor("vendor=\"0x1d94\"", "<gpu dev=\"0\" gcn=\"906\"/>"),
        (GpuVendor::Amd, 1)
    );
}

#[test]
fn ranks_that_share_a_gpu_are_one_gpu_and_parts_with_an_index_each_are_several() {
    let parts = |gpus: &str| -> Vec<Option<u32>> {
        let text = cpu(&format!(
            "<pci busid=\"0000:01:00.0\" class=\"0x03\">{gpus}</pci>"
        ));
        parse(&text)
            .unwrap()
            .0
            .gpus
            .iter()
            .map(|gpu| gpu.partition)
            .collect()
    };
    assert_eq!(
        parts("<gpu dev=\"0\" rank=\"0\"/><gpu dev=\"0\" rank=\"1\"/>"),
        [None]
    );
    assert_eq!(
        parts("<gpu dev=\"0\"/><gpu dev=\"1\"/>"),
        [Some(0), Some(1)]
    );
}

#[test]
fn what_had_to_be_repaired_is_said() {
    let net = |attributes: &str| {
        cpu(&format!(
            "<pci busid=\"0000:01:00.0\" class=\"0x020000\"><nic><net {attributes}/></nic></pci>"
        ))
    };
    let two = |first: &str, second: &str| {
        format!("<system version=\"2\"><cpu {first}/><cpu {second}/></system>")
    };
    let nothing = "`<system>`: no `<gpu>`, no `<net>`, and no class that tells either: no GPU and no NIC is known";
    for (text, expected) in [
        (
            net("dev=\"3\""),
            vec!["`net3`: a `<net>` without a name: this one is invented, and no library knows it"],
        ),
        (
            net("name=\"a,b\""),
            vec![
                "`a,b`: a name that no library's variable could hold: this NIC is left out",
                nothing,
            ],
        ),
        (
            cpu("<disk/>"),
            vec!["`<disk>`: not an element of NCCL's: left out", nothing],
        ),
        (
            two(
                "numaid=\"0\" affinity=\"ff\"",
                "numaid=\"1\" affinity=\"f\"",
            ),
            vec![
                "`numaid 1`: `affinity` names CPUs of NUMA node 0 too: its CPUs are not used",
                nothing,
            ],
        ),
        (
            two(
                "numaid=\"0\" affinity=\"ff\" affinity_offset=\"64\"",
                "numaid=\"1\" affinity=\"f\"",
            ),
            vec![
                "`numaid 0`: `affinity` has an offset: its CPUs are not used",
                nothing,
            ],
        ),
        (
            two("numaid=\"0\"", ""),
            vec![
                "`<cpu>`: no `numaid`: what is below it has no NUMA node",
                nothing,
            ],
        ),
    ] {
        assert_eq!(findings(&text).1, expected, "{text}");
    }
}

#[test]
fn a_fused_nic_is_parted_into_its_members() {
    let text = cpu("<pci busid=\"0000:01:00.0\" class=\"0x020000\"><nic>
           <net name=\"mlx5_0\" dev=\"0\" speed=\"200000\" port=\"1\" net=\"0\"/>
           <net name=\"mlx5_0+mlx5_1\" dev=\"1\" speed=\"400000\" port=\"1\"/>
         </nic></pci>");
    let (topology, said) = findings(&text);
    assert_eq!(
        said,
        ["`mlx5_0+mlx5_1`: a NIC that NCCL made of several: its members are used"]
    );
    for name in ["mlx5_0", "mlx5_1"] {
        let nic = nic(&topology, name);
        assert_eq!(
            (nic.address, nic.ports[0].rate_mbps),
            (Some(address("01:00.0")), Some(200_000)),
            "{name}"
        );
    }
    assert_eq!(topology.nics.len(), 2);
}

#[test]
fn virtual_switches_of_one_address_are_told_apart() {
    let group = |gpu: u32, nic: u32| {
        format!(
            "<pci busid=\"0000:c5:00.0\"><pci busid=\"0000:{gpu:02x}:00.0\" class=\"0x030200\"/>
             <pci busid=\"0000:{nic:02x}:00.0\" class=\"0x020000\"><nic><net name=\"mlx5_{nic}\"/></nic></pci></pci>"
        )
    };
    let text = cpu(&format!(
        "<pci busid=\"0000:c1:00.0\">{}{}</pci>",
        group(1, 2),
        group(3, 4)
    ));
    let (topology, said) = findings(&text);
    assert_eq!(said.len(), 1);
    assert!(
        said[0].starts_with(
            "`0000:c5:00.0`: a second switch of this address: called `fffd0000:00:00.0` here"
        ),
        "{}",
        said[0]
    );
    let kind = |gpu: usize, nic: usize| {
        topology.path_type(
            topology.gpus[gpu].address,
            topology.nics[nic].address.unwrap(),
        )
    };
    assert_eq!([kind(0, 0), kind(1, 1)], [PathType::Pix; 2]);
    assert_eq!([kind(0, 1), kind(1, 0)], [PathType::Pxb; 2]);
}

#[test]
fn a_switch_with_the_address_of_a_nic_below_it_gives_the_address_to_the_nic() {
    let text = cpu("<pci busid=\"0000:c5:00.0\"><pci busid=\"0000:01:00.0\" class=\"0x030200\"/>
         <pci busid=\"0000:c5:00.0\" class=\"0x020000\"><nic><net name=\"mlx5_0\"/></nic></pci></pci>");
    let (topology, said) = findings(&text);
    assert_eq!(
        said,
        ["`0000:c5:00.0`: a switch with a device's address: called `fffd0000:00:00.0` here"]
    );
    let nic = topology.nics[0].address.unwrap();
    assert_eq!(nic, address("0000:c5:00.0"));
    assert_eq!(
        topology.path_type(topology.gpus[0].address, nic),
        PathType::Pix
    );
    assert_eq!(
        parse(&write(&topology).unwrap()).map(|read| read.0.gpus),
        Ok(topology.gpus)
    );
}

#[test]
fn what_is_no_topology_is_refused_with_its_line_and_its_reason() {
    let pci = |inside: &str| cpu(&format!("<pci busid=\"0000:01:00.0\">{inside}</pci>"));
    let deep = cpu(&(1..=18)
        .map(|bus| format!("<pci busid=\"0:{bus:02x}:0.0\">"))
        .collect::<String>());
    let deep = deep.replace("\n</cpu>", &format!("{}\n</cpu>", "</pci>".repeat(18)));
    let stubs: String = (0..257)
        .map(|i| format!("<pci busid=\"{i:04x}:00:00.0\" class=\"0x020000\"/>"))
        .collect();
    let gpus = stubs.replace("0x020000", "0x030200");
    let nets = "<net name=\"a\"/>".repeat(17);
    for (text, expected) in [
        (
            "<graphs version=\"1\"/>".to_string(),
            "line 1: `<graphs>` are the rings and trees that NCCL chose",
        ),
        (
            "<topology/>".to_string(),
            "line 1: the outermost element is `<topology>`: expected `<system>`",
        ),
        (
            "<system/>".to_string(),
            "line 1: `<system>` has no `version`",
        ),
        (
            "<system version=\"3\"/>".to_string(),
            "line 1: version `3`: expected `1` (NCCL) or `2` (RCCL)",
        ),
        ("<system".to_string(), "line 1: not well-formed XML"),
        (
            "<system /\n>".to_string(),
            "line 1: not well-formed XML: expected '>' not '\\n'",
        ),
        (
            cpu("").replace("\"0\"", "\"x\""),
            "line 2: `numaid` `x`: expected -1 or a number below 1024",
        ),
        (
            cpu("").replace("\"0\"", "\"1024\""),
            "line 2: `numaid` `1024`",
        ),
        (
            cpu("</cpu>\n<cpu numaid=\"0\">"),
            "line 4: `numaid` `0` a second time, the first is in line 2",
        ),
        (
            cpu("").replace("\"0\"", "\"0\" affinity=\"f,,f\""),
            "line 2: `affinity` `f,,f`: expected a mask",
        ),
        (
            cpu("").replace("\"0\"", "\"0\" affinity=\"+f\""),
            "line 2: `affinity` `+f`",
        ),
        (
            SAMPLE.replacen("0x5a5a", "0x5a5b", 1),
            "line 34: `host_hash` is `0x5a5a` here and `0x5a5b` before: the file describes several hosts",
        ),
        (cpu("<pci/>"), "line 3: `<pci>` has no `busid`"),
        (
            cpu("<pci busid=\"fffffff:ffff:ff\"/>"),
            "line 3: `busid` `fffffff:ffff:ff`: expected a PCI address",
        ),
        (
            cpu("<pci busid=\"fffe0000:00:00.0\"/>"),
            "line 3: `busid` `fffe0000:00:00.0`: expected a PCI domain",
        ),
        (
            pci("<nic/>\n<gpu/>"),
            "line 3: `0000:01:00.0` is more than one of a switch, a GPU and a NIC",
        ),
        (
            pci("<nic/>\n<pci busid=\"0:2:0.0\"/>"),
            "line 3: `0000:01:00.0` is more than one of",
        ),
        (
            cpu("<pci busid=\"0000:01:00.0\"/>\n<pci busid=\"0000:01:00.0\"/>"),
            "line 4: `busid` `0000:01:00.0` a second time, the first is in line 3",
        ),
        (
            cpu(
                "<pci busid=\"0:1:0.0\"><nic><net name=\"a\"/></nic></pci>\n<nic><net name=\"a\"/></nic>",
            ),
            "line 4: the name `a` a second time, the first is in line 3",
        ),
        (
            cpu(&format!("<nic>{nets}</nic>")),
            "line 3: more than 16 ports of `a`",
        ),
        (deep, "line 3: more than 17 `<pci>` inside each other"),
        (cpu(&stubs), "line 3: more than 256 NICs"),
        (cpu(&gpus), "line 3: more than 256 GPUs"),
    ] {
        let message = parse(&text).unwrap_err().to_string();
        assert!(
            message.starts_with(expected),
            "{message}\nexpected {expected}"
        );
    }
}

#[test]
fn more_functions_than_a_topology_may_hold_are_refused() {
    let many: String = (0..2100)
        .map(|i| format!("<pci busid=\"{i:04x}:00:00.0\"/>"))
        .collect();
    let text = cpu(&format!("<pci busid=\"ffff:00:00.0\">{many}</pci>"));
    assert!(
        parse(&text)
            .unwrap_err()
            .to_string()
            .starts_with("line 3: more than 4096 PCI functions")
    );
}

#[test]
fn mistakes_beyond_what_anybody_reads_are_counted() {
    let text = cpu(&format!("<nic>{}</nic>", "<net name=\"a,b\"/>".repeat(100)));
    let (_, said) = findings(&text);
    assert_eq!(said.len(), MAX_FINDINGS + 1);
    // one of the others is "no GPU and no NIC"
    assert_eq!(
        said[MAX_FINDINGS],
        "`<system>`: 37 more findings of these kinds"
    );
}

#[test]
fn elements_a_hundred_thousand_deep_are_refused() {
    let text = cpu(&format!(
        "{}{}",
        "<pci busid=\"0:1:0.0\">".repeat(100_000),
        "</pci>".repeat(100_000)
    ));
    assert!(parse(&text).is_err());
    let text = cpu(&format!(
        "{}{}",
        "<x>".repeat(100_000),
        "</x>".repeat(100_000)
    ));
    assert!(parse(&text).is_err());
    // as deep as allowed, with unknown elements only
    let text = cpu(&format!("{}{}", "<x>".repeat(126), "</x>".repeat(126)));
    assert_eq!(
        findings(&text).1[0],
        "`<x>`: not an element of NCCL's: left out"
    );
}

#[test]
fn values_are_read_in_every_spelling_seen() {
    let gt = |speed: &str, width: &str| {
        values::rate(Some(speed), Some(width)).map(|rate| rate.to_string())
    };
    for (speed, tenths) in [
        ("16 GT/s", "16.0"),
        ("32.0 GT/s PCIe", "32.0"),
        ("32 GT/s PCIe/s", "32.0"),
        ("2.5 GT/s PCIe", "2.5"),
    ] {
        assert_eq!(gt(speed, "16"), Some(format!("{tenths} GT/s x16")));
    }
    for (speed, width) in [
        ("", "0"),
        ("Unknown", "16"),
        ("Unknown speed", "255"),
        ("16 GT/s", "0"),
        ("16 GT/s", "64"),
        ("+16 GT/s", "16"),
        ("99999999999 GT/s", "16"),
        (" GT/s", "16"),
        ("1.25 GT/s", "16"),
    ] {
        assert_eq!(gt(speed, width), None, "{speed} {width}");
    }
    assert_eq!(values::rate(None, Some("16")), None);
    let cpus = CpuSet::from_list("0-31,95").unwrap();
    assert_eq!(
        values::mask(&cpus, 128),
        "00000000,80000000,00000000,ffffffff"
    );
    assert_eq!(values::affinity("80000000,0,ffffffff"), Some(cpus));
    assert_eq!(values::affinity("123456789,0"), None);
    assert_eq!(values::card("0x1"), None);
    assert_eq!(values::card("12"), None);
    // AMD's Rome is family 0x17, and 143 in NCCL's files
    assert_eq!([0x17, 0x19, 6].map(values::family_of_nccl), [143, 175, 6]);
    assert_eq!(
        [143, 175, 6, 23].map(values::family),
        [0x17, 0x19, 6, 23].map(Some)
    );
    assert_eq!(
        [25_000, 272].map(values::family),
        [None; 2],
        "no processor says that"
    );
    assert_eq!(
        (values::class("0x03"), values::class("0x030200")),
        (None, Some(0x03_0200))
    );
    assert_eq!(
        (
            values::id("0x10de"),
            values::id("0x+1"),
            values::id("0x10de0")
        ),
        (Some(0x10de), None, None)
    );
}
