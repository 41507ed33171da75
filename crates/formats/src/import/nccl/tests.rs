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
    let said = diagnostics.iter().map(Diagnostic::to_string).collect();
    (topology, said)
}

fn address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

fn nic<'a>(topology: &'a Topology, name: &str) -> &'a Nic {
    topology.nics.iter().find(|nic| nic.name == name).unwrap()
}

/// The kind of path between a GPU and a NIC by their places.
fn path(topology: &Topology, gpu: usize, nic: usize) -> PathType {
    let nic = topology.nics[nic].address.unwrap();
    topology.path_type(topology.gpus[gpu].address, nic)
}

fn names(topology: &Topology) -> String {
    let names = topology.nics.iter().map(|nic| nic.name.as_str());
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_file_is_read_for_all_that_it_says_with_paths_of_the_kinds_that_nccl_makes_them() {
    let topology = sample();
    assert_eq!(topology.name, "sample-1");
    let nodes = topology.numa_nodes.iter();
    let nodes: Vec<_> = nodes.map(|node| node.cpus.to_string()).collect();
    assert_eq!(nodes, ["0-3,32-35", "4-7,36-39"]);
    let gpus = topology.gpus.iter().map(|gpu| (gpu.address, gpu.vendor));
    let wanted = ["14:00.0", "81:00.0"].map(|at| (address(at), GpuVendor::Nvidia));
    assert!(gpus.eq(wanted));
    assert_eq!(names(&topology), "mlx5_0 mlx5_1 mlx5_2 rdmap33s0 eth0");
    let first = nic(&topology, "mlx5_0");
    let kind = (first.kind, first.address);
    assert_eq!(kind, (NicKind::Verbs, Some(address("13:00.0"))));
    assert_eq!(first.ports[0].state, PortState::Active);
    assert_eq!(nic(&topology, "rdmap33s0").kind, NicKind::Efa);
    let (by_name, _) = parse(&SAMPLE.replace(" vendor=\"0x1d0f\"", "")).unwrap();
    assert_eq!(nic(&by_name, "rdmap33s0").kind, NicKind::Efa);
    let eth0 = nic(&topology, "eth0");
    assert_eq!((eth0.kind, eth0.address), (NicKind::Ethernet, None));
    assert_eq!(topology.numa_node_of(address("17:00.0")), Some(0));
    assert_eq!(topology.numa_node_of(address("81:00.0")), Some(1));
    // a card counts its ports, and a device its own: 2 and 4 of `mlx5_2`, less the ports listed before
    let ports = |name: &str| {
        let ports = nic(&topology, name).ports.iter();
        Vec::from_iter(ports.map(|port| (port.number, port.rate_mbps)))
    };
    assert_eq!(ports("mlx5_0"), [(1, Some(400_000))]);
    assert_eq!(ports("mlx5_1"), [(1, Some(200_000))]);
    assert_eq!(ports("mlx5_2"), [(1, Some(100_000)), (2, None)]);
    let path = |a: &str, b: &str| topology.way(address(a), address(b));
    for (a, b, kind) in [
        ("14:00.0", "13:00.0", PathType::Pix),
        ("14:00.0", "17:00.0", PathType::Pxb),
        ("14:00.0", "21:00.0", PathType::Phb),
        ("81:00.0", "13:00.0", PathType::Sys),
    ] {
        assert_eq!(path(a, b).kind, kind, "{a} {b}");
    }
    let links = path("14:00.0", "13:00.0").links;
    let least = links.iter().map(|link| link.mbps).min();
    assert_eq!(least, Some(252_061), "the NIC's eight lanes");
    let silent = topology.pci.get(address("21:00.0")).unwrap();
    assert_eq!(silent.link, PcieLink::default());
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
    let gpu = Gpu::new(address("0001:00:00.0"), GpuVendor::Nvidia);
    assert_eq!(topology.gpus, [gpu]);
    assert_eq!(names(&topology), "pci-0101-00-00.0 pci-0102-00-00.0");
    // so that no policy chooses it
    assert!(topology.nics[0].ports.is_empty());
    assert_eq!(path(&topology, 0, 0), PathType::Pix);
    assert!(said.len() == 1 && said[0].starts_with("`<pci>`: 2 NICs are known by address only"));
    let again = parse(&write(&topology).unwrap()).unwrap().0;
    assert_eq!(facts(&again), facts(&topology));
}

#[test]
fn the_maker_of_a_gpu_is_taken_from_what_the_file_says() {
    let (amd, intel, nvidia) = (GpuVendor::Amd, GpuVendor::Intel, GpuVendor::Nvidia);
    for (attributes, gpu, vendor, findings_of_it) in [
        (r#"vendor="0x8086" class="0x038000""#, "", intel, 0),
        (r#"class="0x030200""#, r#"<gpu sm="80"/>"#, nvidia, 0),
        (r#"class="0x120000""#, r#"<gpu dev="0"/>"#, amd, 0),
        (r#"class="0x038000""#, r#"<gpu sm="64" gcn="906"/>"#, amd, 0),
        ("", r#"<gpu dev="0" sm="64"><xgmi/></gpu>"#, amd, 0),
        (r#"vendor="0x1d94""#, r#"<gpu dev="0" gcn="906"/>"#, amd, 1),
    ] {
        let pci = format!("<pci busid=\"0000:01:00.0\" {attributes}>{gpu}</pci>");
        let (topology, said) = findings(&cpu(&pci));
        let found = (topology.gpus[0].vendor, said.len());
        assert_eq!(found, (vendor, findings_of_it), "{pci}");
    }
}

#[test]
fn ranks_that_share_a_gpu_are_one_gpu_and_parts_with_an_index_each_are_several() {
    let two = |attributes: [&str; 2]| {
        let [a, b] = attributes;
        let pci = "<pci busid=\"0000:01:00.0\" class=\"0x03\">";
        let (topology, _) = findings(&cpu(&format!("{pci}<gpu {a}/><gpu {b}/></pci>")));
        Vec::from_iter(topology.gpus.iter().map(|gpu| gpu.partition))
    };
    let ranks = ["dev=\"0\" rank=\"0\"", "dev=\"0\" rank=\"1\""];
    assert_eq!(two(ranks), [None]);
    assert_eq!(two(["dev=\"0\"", "dev=\"1\""]), [Some(0), Some(1)]);
}

/// The text inside of `<system>`, the finding's subject, and a part of it.
const REPAIRED: &str = r#"
<cpu numaid="0"><nic><net dev="3"/></nic></cpu> => ``: => this NIC is left out
<cpu numaid="0"><nic><net name="a,b"/></nic></cpu> => `a,b`: => this NIC is left out
<cpu numaid="0" affinity="ff"/><cpu numaid="1" affinity="f"/> => `numaid 1`: => CPUs of NUMA node 0 too
<cpu/> => `<system>`: => no GPU and no NIC"#;

#[test]
fn what_had_to_be_repaired_is_said() {
    for line in REPAIRED.lines().skip(1) {
        let [inside, subject, part] = line.splitn(3, " => ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let (_, said) = findings(&format!("<system version=\"2\">{inside}</system>"));
        let is_it = |of: &String| of.starts_with(subject) && of.contains(part);
        let is_right = said.len() <= 2 && said.iter().any(is_it);
        assert!(is_right, "{line}: {said:?}");
    }
}

#[test]
fn a_fused_nic_is_parted_into_its_members_and_an_interface_has_no_numbers_of_ports() {
    let text = cpu("<pci busid=\"0000:01:00.0\" class=\"0x020000\"><nic>
           <net name=\"mlx5_0\" dev=\"0\" speed=\"200000\" port=\"1\" net=\"0\"/>
           <net name=\"mlx5_0+mlx5_1\" dev=\"1\" speed=\"400000\" port=\"1\"/>
         </nic></pci>");
    let (topology, said) = findings(&text);
    assert_eq!(said, [""; 0]);
    assert_eq!(names(&topology), "mlx5_0 mlx5_1");
    for nic in &topology.nics {
        let found = (nic.address, nic.ports[0].rate_mbps);
        assert_eq!(found, (Some(address("01:00.0")), Some(200_000)));
    }
    let text = cpu("<nic><net name=\"eth0\" port=\"0\"/><net name=\"eth0\" port=\"8\"/></nic>");
    let nic = &parse(&text).unwrap().0.nics[0];
    assert_eq!(nic.kind, NicKind::Ethernet);
    assert_eq!((nic.ports[0].number, nic.ports[1].number), (1, 2));
}

#[test]
fn virtual_switches_of_one_address_and_of_a_nic_below_are_told_apart() {
    let group = |gpu: u32, nic: u32| {
        let function = |bus: u32, class: &str| {
            format!("<pci busid=\"0000:{bus:02x}:00.0\" class=\"{class}\">")
        };
        let (gpu, pci) = (function(gpu, "0x030200"), function(nic, "0x020000"));
        let nic = format!("{pci}<nic><net name=\"mlx5_{nic}\"/></nic></pci>");
        format!("<pci busid=\"0000:c5:00.0\">{gpu}</pci>{nic}</pci>")
    };
    let two = group(1, 2) + &group(3, 4);
    let two = format!("<pci busid=\"0000:c1:00.0\">{two}</pci>");
    let (topology, said) = findings(&cpu(&two));
    let is_told = |said: &[String]| {
        let [said] = said else { panic!("{said:?}") };
        said.starts_with("`0000:c5:00.0`: ") && said.contains("called `fffd0000:00:00.0`")
    };
    assert!(is_told(&said));
    let kinds = [(0, 0), (1, 1), (0, 1), (1, 0)].map(|(gpu, nic)| path(&topology, gpu, nic));
    let (pix, pxb) = (PathType::Pix, PathType::Pxb);
    assert_eq!(kinds, [pix, pix, pxb, pxb]);
    // the switch has the address of the NIC below it
    let (topology, said) = findings(&cpu(&group(1, 0xc5)));
    assert!(is_told(&said));
    let nic = topology.nics[0].address;
    assert_eq!(nic, Some(address("0000:c5:00.0")));
    assert_eq!(path(&topology, 0, 0), pix);
    let again = parse(&write(&topology).unwrap()).unwrap().0;
    assert_eq!(again.gpus, topology.gpus);
}

/// A file, or what stands inside of a `<cpu>` or of a `<pci>` there; the line; a part of the reason.
const REFUSED: &str = r#"
<graphs version="1"/> => 1 => `<graphs>`
<topology/> => 1 => expected `<system>`
<system/> => 1 => expected `<system>` of version
<system version="3"/> => 1 => expected `<system>` of version
<system => 1 => not well-formed XML
<system /\n> => 1 => not '\n'
<system version="1">\n<cpu numaid="x"/></system> => 2 => `numaid` `x`
<system version="1">\n<cpu numaid="1024"/></system> => 2 => `numaid` `1024`
<system version="1"><cpu numaid="0"/>\n<cpu numaid="0"/></system> => 0 => found `0`, which
<system version="1">\n<cpu numaid="0" affinity="f,,f"/></system> => 2 => `affinity` `f,,f`
<system version="1">\n<cpu numaid="0" affinity="+f"/></system> => 2 => `affinity` `+f`
cpu <pci/> => 3 => `busid` ``: expected a PCI address
cpu <pci busid="fffffff:ffff:ff"/> => 3 => expected a PCI address
cpu <pci busid="fffe0000:00:00.0"/> => 3 => expected a PCI address
pci <nic/>\n<gpu/> => 3 => a GPU and a NIC
pci <nic/>\n<pci busid="0:2:0.0"/> => 3 => is more than one of
cpu <pci busid="0000:01:00.0"/>\n<pci busid="0000:01:00.0"/> => 4 => a second time
cpu <pci busid="0:1:0.0"><nic><net name="a"/></nic></pci>\n<nic><net name="a"/></nic> => 0 => found `a`, which"#;

#[test]
fn what_is_no_topology_is_refused_with_its_line_and_its_reason() {
    let many =
        |count: u32, inside: &dyn Fn(u32) -> String| (0..count).map(inside).collect::<String>();
    let stub = |class: &'static str| {
        move |i| format!("<pci busid=\"{i:04x}:00:00.0\" class=\"{class}\"/>")
    };
    let deep = many(18, &|bus| format!("<pci busid=\"0:{bus:02x}:0.0\">"));
    let nets = "<net name=\"a\"/>".repeat(17);
    let plain = stub("0x060400");
    let plain = format!("<pci busid=\"ffff:00:00.0\">{}</pci>", many(2100, &plain));
    let (nets, deep) = (format!("<nic>{nets}</nic>"), deep + &"</pci>".repeat(18));
    let (nics, gpus) = (many(257, &stub("0x020000")), many(257, &stub("0x030200")));
    let two_hosts = SAMPLE.replacen("0x5a5a", "0x5a5b", 1);
    let large = [
        (cpu(&nets), "0", "found `17` entries"),
        (cpu(&deep), "3", "more than 17 `<pci>`"),
        (cpu(&nics), "0", "found `257` entries"),
        (cpu(&gpus), "0", "found `257` entries"),
        (cpu(&plain), "0", "expected at most `4096`"),
        (cpu(&plain.repeat(2)), "1", "more than 4096 elements"),
        (two_hosts, "34", "several hosts"),
    ];
    let small = REFUSED.lines().skip(1).map(|line| {
        let [text, at, reason] = line.splitn(3, " => ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let text = text.replace("\\n", "\n");
        let text = match text.split_once(' ') {
            Some(("cpu", inside)) => cpu(inside),
            Some(("pci", inside)) => cpu(&format!("<pci busid=\"0000:01:00.0\">{inside}</pci>")),
            _ => text,
        };
        (text, at, reason)
    });
    for (text, at, reason) in small.chain(large) {
        let bad = parse(&text).unwrap_err();
        let told = bad.to_string();
        assert_eq!(bad.line.to_string(), at, "{told}");
        assert!(told.contains(reason), "{told}\nexpected {reason}");
    }
    for length in 0..SAMPLE.len() - 2 {
        assert!(parse(&SAMPLE[..length]).is_err(), "cut at {length}");
    }
}

#[test]
fn values_are_read_in_every_spelling_seen() {
    for (speed, width, expected) in [
        ("16 GT/s", "16", "16.0 GT/s x16"),
        ("32.0 GT/s PCIe", "16", "32.0 GT/s x16"),
        ("2.5 GT/s PCIe", "16", "2.5 GT/s x16"),
        ("", "0", ""),
        ("Unknown", "16", ""),
        ("16 GT/s", "0", ""),
        ("+16 GT/s", "16", ""),
        ("1.25 GT/s", "16", ""),
    ] {
        let text = format!("<pci link_speed=\"{speed}\" link_width=\"{width}\"/>");
        let document = roxmltree::Document::parse(&text).unwrap();
        let found = rate(document.root_element());
        let found = found.map_or(String::new(), |rate| rate.to_string());
        assert_eq!(found, expected, "{speed} {width}");
    }
    let cpus = CpuSet::from_list("0-31,95").unwrap();
    let mask = "00000000,80000000,00000000,ffffffff";
    assert_eq!(values::mask(&cpus, 128), mask);
    assert_eq!(values::affinity("80000000,0,ffffffff"), Some(cpus));
    assert_eq!(values::affinity("123456789,0"), None);
    // AMD's Rome is family 0x17, and 143 in NCCL's files; no processor says the last two
    assert_eq!([0x17, 0x19, 6].map(values::family_of_nccl), [143, 175, 6]);
    let families = [143, 175, 6, 23, 25_000, 272].map(values::family);
    let known = [0x17, 0x19, 6, 23].map(Some);
    assert_eq!(families, [&known[..], &[None; 2]].concat()[..]);
    let classes = ["0x03", "0x030200"].map(values::class);
    assert_eq!(classes, [None, Some(0x03_0200)]);
    let ids = ["0x10de", "0x+1", "0x10de0"].map(values::id);
    assert_eq!(ids, [Some(0x10de), None, None]);
}
