//! The reader on matrices: a plain one, each repair, and each refusal.

mod properties;
mod rocm;
mod unknown;

use super::*;
use nic_placement_core::topology::{CpuSet, LinkLayer, PathType};

/// A GPU and a NIC on each of two sockets, with every column.
const PLAIN: &str = "\
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV6\tPIX\tSYS\t0-7,16-23\t0\t\tN/A
GPU1\tNV6\t X \tSYS\tNODE\t8-15,24-31\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tNODE\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  PIX  = Connection traversing at most a single PCIe bridge

NIC Legend:

  NIC0: mlx5_4
  NIC1: ibp9s0
";

fn load(text: &str) -> (Topology, Vec<String>) {
    let (topology, diagnostics) = read(text, Provenance::File("test".to_string()))
        .unwrap_or_else(|bad| panic!("{bad}\n{text}"));
    let usual = |finding: &String| !finding.contains("lists NICs, not the states");
    (
        topology,
        diagnostics
            .iter()
            .map(Diagnostic::to_string)
            .filter(usual)
            .collect(),
    )
}

fn refusal(text: &str) -> String {
    match read(text, Provenance::File("test".to_string())) {
        Err(bad) => bad.to_string(),
        Ok((_, diagnostics)) => panic!("loads, with {diagnostics:?}\n{text}"),
    }
}

/// `0: mlx5_4=PIX ibp9s0=SYS; 1: …`
fn paths_of(topology: &Topology) -> String {
    let of_gpu = |gpu: &Gpu| {
        let nics = topology.nics.iter().map(|nic| {
            let kind = topology.stated_paths[&(gpu.address, nic.address.unwrap())];
            format!("{}={kind}", nic.name)
        });
        format!(
            "{}: {}",
            gpu.address.bus,
            nics.collect::<Vec<_>>().join(" ")
        )
    };
    topology
        .gpus
        .iter()
        .map(of_gpu)
        .collect::<Vec<_>>()
        .join("; ")
}

const PLAIN_PATHS: &str = "0: mlx5_4=PIX ibp9s0=SYS; 1: mlx5_4=SYS ibp9s0=NODE";

fn set(list: &str) -> CpuSet {
    CpuSet::from_list(list).unwrap()
}

#[test]
fn a_plain_matrix_says_who_is_near_to_whom_and_where() {
    let (topology, findings) = load(PLAIN);
    assert_eq!(findings, [""; 0]);
    assert_eq!(paths_of(&topology), PLAIN_PATHS);
    let nodes: Vec<(u32, &CpuSet)> = topology
        .numa_nodes
        .iter()
        .map(|node| (node.os_index, &node.cpus))
        .collect();
    assert_eq!(nodes, [(0, &set("0-7,16-23")), (1, &set("8-15,24-31"))]);
    let node = |address: Option<PciAddress>| topology.numa_node_of(address.unwrap());
    assert_eq!(
        topology
            .gpus
            .iter()
            .map(|gpu| node(Some(gpu.address)))
            .collect::<Vec<_>>(),
        [Some(0), Some(1)]
    );
    assert_eq!(
        topology
            .nics
            .iter()
            .map(|nic| node(nic.address))
            .collect::<Vec<_>>(),
        [Some(0), Some(1)]
    );
    assert!(
        topology
            .gpus
            .iter()
            .all(|gpu| gpu.address.is_invented() && gpu.vendor == GpuVendor::Nvidia)
    );
    let port = Port::new(1, PortState::Active, LinkLayer::Unknown, None);
    assert!(topology.nics.iter().all(|nic| nic.ports == [port.clone()]));
    assert!(!"10000:e1:00.0".parse::<PciAddress>().unwrap().is_invented());
}

#[test]
fn that_the_matrix_knows_no_states_of_ports_is_said_once_and_only_where_there_are_nics() {
    let count = |text: &str| read(text, Provenance::ThisSystem).unwrap().1.len();
    assert_eq!(count(PLAIN), 1);
    assert_eq!(count("GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0-3 0\n"), 0);
}

#[test]
fn a_matrix_with_other_accelerators_keeps_its_gpus_and_nics() {
    // `PPU0` and `ICN2` as Alibaba's ppu-smi prints them, `MX` as MetaX's mx-smi does
    let text = "\
 \tGPU0\tPPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity
PPU0\tSYS\tX\tICN2\tPIX\tSYS\t0-7\t0
GPU0\tX\tSYS\tMX\tPIX\tSYS\t0-7\t0
GPU1\tMX\tICN2\tX\tSYS\tNODE\t8-15\t1
NIC0\tPIX\tPIX\tSYS\tX\tSYS
NIC1\tSYS\tSYS\tNODE\tSYS\tX

NIC0: mlx5_4
NIC1: ibp9s0
";
    let (topology, findings) = load(text);
    assert_eq!(paths_of(&topology), PLAIN_PATHS);
    assert_eq!(
        topology.numa_node_of(topology.nics[1].address.unwrap()),
        Some(1)
    );
    assert_eq!(
        findings,
        [
            "`header`: neither GPUs of NVIDIA nor NICs, so left out: `PPU0`",
            "`rows`: kinds of path that nvidia-smi does not have: `ICN2`, `MX`: another vendor's GPUs, taken for used \
             like NVIDIA's",
        ]
    );
    let (topology, findings) = load(&text.replace("GPU", "DCU"));
    assert_eq!((topology.gpus.len(), topology.nics.len()), (0, 2));
    assert!(
        findings[0].ends_with("left out: `DCU0`, `PPU0`, `DCU1`"),
        "{findings:?}"
    );
}

#[test]
fn names_that_udev_gives_tell_the_link_layer() {
    let layers = |first: &str, second: &str| {
        let (topology, _) = load(&PLAIN.replace("mlx5_4", first).replace("ibp9s0", second));
        [
            topology.nics[0].ports[0].link_layer,
            topology.nics[1].ports[0].link_layer,
        ]
    };
    let (ib, ethernet, unknown) = (
        LinkLayer::InfiniBand,
        LinkLayer::Ethernet,
        LinkLayer::Unknown,
    );
    assert_eq!(layers("ibP6p3s0", "rocep193s0f0v0S99"), [ib, ethernet]);
    assert_eq!(layers("ibs4f1", "roceo3"), [ib, ethernet]);
    assert_eq!(layers("ibx525400c0fe123455", "iwp3s0"), [ib, ethernet]);
    // an unknown link layer beside known ones would count as a third
    for kernels in ["mlx5_1", "rocep", "ib0", "ibn3", "rdmap3s0"] {
        assert_eq!(layers("ibp3s0", kernels), [unknown; 2], "{kernels}");
    }
}

#[test]
fn invented_addresses_relate_no_two_devices() {
    let (mut topology, _) = load(PLAIN);
    topology.stated_paths.clear();
    topology.numa_nodes.clear();
    for function in Vec::from_iter(topology.pci.iter().cloned()) {
        topology.pci.insert(PciFunction {
            numa_node: None,
            ..function
        });
    }
    let addresses = topology
        .pci
        .iter()
        .map(|function| function.address)
        .collect::<Vec<_>>();
    for (at, &a) in addresses.iter().enumerate() {
        assert!(
            addresses[at + 1..]
                .iter()
                .all(|&b| topology.path_type(a, b) == PathType::Sys)
        );
    }
}

#[test]
fn a_matrix_without_nics_and_one_without_gpus_load() {
    let (topology, _) = load("GPU0 GPU1 CPU Affinity\nGPU0 X NV4 0-3\nGPU1 NV4 X 0-3");
    assert_eq!((topology.gpus.len(), topology.nics.len()), (2, 0));
    let (topology, findings) = load("mlx5_0 mlx5_1\nmlx5_0 X PIX\nmlx5_1 PIX X");
    assert_eq!(
        (topology.gpus.len(), topology.nics.len(), findings.len()),
        (0, 2, 0)
    );
}

#[test]
fn old_words_and_every_family_of_names_are_known() {
    let names = "mlx4_0 hfi1_0 bnxt_re12 rocep3s0f1 roceP2p1s0 mlx5_bond_0 ibp1s0 rdmap16s27 irdma-a.1 qedr0";
    let cells = "PIX PXB PHB SOC SYS NODE SOC SOC SOC SOC";
    let (topology, findings) = load(&format!("GPU0 {names} CPU Affinity\nGPU0 X {cells} N/A"));
    assert_eq!(findings, [""; 0]);
    assert_eq!(
        topology
            .nics
            .iter()
            .map(|nic| nic.name.as_str())
            .collect::<Vec<_>>()
            .join(" "),
        names
    );
    let kinds = topology
        .stated_paths
        .values()
        .map(|kind| kind.to_string())
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(kinds, cells.replace("SOC", "SYS"));
}

#[test]
fn memory_of_gpus_is_a_node_without_cpus() {
    let (topology, _) = load(
        "GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X NV18 0-71 0,2-3 4\nGPU1 NV18 X 72-143 1 12\n",
    );
    let nodes: Vec<String> = topology
        .numa_nodes
        .iter()
        .map(|node| format!("{}:{}", node.os_index, node.cpus))
        .collect();
    assert_eq!(nodes, ["0:0-71", "1:72-143", "2:", "3:", "4:", "12:"]);
}

/// `(the oddity, the text, the diagnostic's words)`; the paths must be those of [`PLAIN`].
#[test]
fn what_is_unambiguous_is_repaired_and_named() {
    let without = |part: &str| PLAIN.replace(part, "");
    let cases: [(String, &str); 13] = [
        (
            format!(
                "\u{1b}[4m{}",
                PLAIN.replacen("\tGPU NUMA ID", "\tGPU NUMA ID\u{1b}[0m", 1)
            ),
            "",
        ),
        (
            format!("$ nvidia-smi topo -m\n```\n{PLAIN}```\nMon 1 Jan\n"),
            "",
        ),
        (
            PLAIN
                .lines()
                .map(|line| format!("> [host7] 12:30:01.5 {line}\r\n"))
                .collect(),
            "",
        ),
        (
            PLAIN
                .lines()
                .map(|line| format!("  3: {}\n", line.replace('\t', "     ")))
                .collect(),
            "",
        ),
        (
            PLAIN
                .replace("NIC0\tNIC1\tCPU", "NIC0NIC1CPU")
                .replace("AffinityNUMA", "Affinity\tNUMA"),
            "",
        ),
        (PLAIN.replace("PIX\tSYS\t0-7", "PIXSYS0-7"), ""),
        (PLAIN.replace("NIC0\tPIX\tSYS\t X ", "NIC0\tPIX\t X "), ""),
        (without("NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t\n"), ""),
        (
            PLAIN.replace("0-7,16-23\t0\t\tN/A", "0-7,16-23\tzero\tN/A"),
            "values touch or are missing, so none is used",
        ),
        (PLAIN.replace("0-7,16-23\t0\t\tN/A", "0-7,16-23\t0N/A"), ""),
        (
            PLAIN.replace("0-7,16-23\t0", "0,2,4,6,8,10\t0"),
            "may be the beginning of a longer list",
        ),
        (PLAIN.replace("ibp9s0", "ibp9s0  -> ens9 10.0.0.1/24"), ""),
        (
            format!("{PLAIN}\nGPU0 GPU1 NIC0\nGPU0 X SYS SYS\nNIC0: mlx5_9"),
            "one more matrix begins in line 17",
        ),
    ];
    for (text, said) in cases {
        let (topology, findings) = load(&text);
        assert_eq!(paths_of(&topology), PLAIN_PATHS, "{text}");
        match said {
            "" => assert_eq!(findings, [""; 0], "{text}"),
            said => {
                assert!(
                    findings.iter().any(|finding| finding.contains(said)),
                    "{said}: {findings:?}\n{text}"
                )
            }
        }
    }
}

#[test]
fn a_nic_whose_name_is_missing_or_overwritten_keeps_the_word_of_the_matrix() {
    for (text, said) in [
        (PLAIN.replace("  NIC1: ibp9s0\n", ""), "no name"),
        (
            PLAIN.replace("ibp9s0", "inity   GPU NUMA ID"),
            "overwritten",
        ),
        (PLAIN.replace("ibp9s0", "NIC7"), "overwritten"),
    ] {
        let (topology, findings) = load(&text);
        assert_eq!(paths_of(&topology), PLAIN_PATHS.replace("ibp9s0", "NIC1"));
        assert!(
            findings.len() == 1 && findings[0].contains(said) && findings[0].contains("`NIC1`"),
            "{findings:?}"
        );
    }
    let (_, findings) = load(&PLAIN.replace("ibp9s0", "ibp9s0\n  NIC5: mlx5_7"));
    assert!(
        findings[0].contains("names what the matrix does not show: `NIC5`"),
        "{findings:?}"
    );
    let (_, findings) = load(&PLAIN.replace("mlx5_4", "Aff").replace("ibp9s0", "NUMA ID"));
    assert!(
        findings[0].contains("`NIC0`, `NIC1`"),
        "no digit beside an overwritten name: {findings:?}"
    );
}

#[test]
fn some_gpus_only_are_counted_by_position_and_said() {
    let (topology, findings) =
        load("GPU2 GPU5 NIC0\nGPU2 X SYS PIX\nGPU5 SYS X SYS\nNIC0: mlx5_0\n");
    assert_eq!(paths_of(&topology), "2: mlx5_0=PIX; 5: mlx5_0=SYS");
    assert!(
        findings
            .iter()
            .any(|finding| finding.contains("only `GPU2`, `GPU5`")),
        "{findings:?}"
    );
}

#[test]
fn contradicting_nodes_are_unknown() {
    let text = "GPU0 GPU1 mlx5_0 CPU Affinity NUMA Affinity\nGPU0 X SYS NODE 0-7 0\nGPU1 SYS X NODE 4-11 1\n";
    let (topology, findings) = load(text);
    assert_eq!(
        topology.numa_node_of(topology.nics[0].address.unwrap()),
        None
    );
    assert!(
        findings
            .iter()
            .any(|finding| finding.contains("GPUs of NUMA nodes 0, 1")),
        "{findings:?}"
    );
    assert!(
        findings
            .iter()
            .any(|finding| finding.contains("CPUs 4-7 are near")),
        "{findings:?}"
    );
    assert_eq!(topology.cpus(), set("0-3,8-11"));
    let (topology, findings) = load(&text.replace(" 0-7 0", " 0-11 0-1"));
    assert_eq!(topology.numa_nodes.len(), 1);
    assert!(
        findings
            .iter()
            .any(|finding| finding.contains("several NUMA nodes with CPUs")),
        "{findings:?}"
    );
}

#[test]
fn what_is_ambiguous_is_refused_with_line_and_reason() {
    let wide: String = (0..300).map(|number| format!("NIC{number} ")).collect();
    let cases = [
        (String::new(), "no matrix of `nvidia-smi topo -m`"),
        ("one GPU0 word\nand another".to_string(), "no matrix of"),
        (
            "Failed to run topology matrix\n".to_string(),
            "line 1: nvidia-smi says `Failed to run topology matrix`",
        ),
        (
            "x\nNVIDIA-SMI has failed because".to_string(),
            "line 2: nvidia-smi says `NVIDIA-SMI has failed`",
        ),
        (
            PLAIN.lines().next().unwrap().to_string(),
            "line 1: the text ends after the header",
        ),
        (
            PLAIN[PLAIN.find('\n').unwrap()..].to_string(),
            "line 2: a row of `GPU0` without a header",
        ),
        (
            PLAIN.replace("NV6\tPIX\tSYS\t0", "NV6\tPIX\t0"),
            "line 2: 3 cells for 4 columns: cannot tell which",
        ),
        (
            PLAIN.replace("NV6\tPIX\tSYS\t0", "NV6\tPIX\tSYS\tSYS\t0"),
            "line 2: 5 cells for 4 columns",
        ),
        (
            PLAIN.replace("GPU1\tNV6\t X \t", "GPU1\t X \tNV6\t"),
            "line 3: the `X` of `GPU1` stands in the column of `GPU0`",
        ),
        (
            PLAIN.replace("GPU1\tNV6\t X \t", "GPU1\tNV6\tNV6\t"),
            "line 3: no `X` in the row of `GPU1`",
        ),
        (
            PLAIN.replace("NV6\tPIX", "NV6\tNV4"),
            "line 2: an NVLink between `GPU0` and `NIC0`",
        ),
        (
            PLAIN.replace("GPU1\tNV6", "GPU0\tNV6"),
            "line 3: a second row of `GPU0`: the first is in line 2",
        ),
        (
            PLAIN.replacen("GPU1", "GPU0", 1),
            "line 1: two columns are called `GPU0`",
        ),
        (
            PLAIN.replacen("GPU1", "GPU3", 1),
            "line 3: no column is called `GPU1`",
        ),
        (
            PLAIN.replace("GPU1", "GPU128"),
            "line 1: `GPU128`: expected a number below 128",
        ),
        (
            PLAIN.replace("GPU NUMA ID", "GPU NUMA HOME"),
            "line 2: a row of `GPU0` without a header such as",
        ),
        (
            PLAIN.replace("NUMA Affinity", "NUMA NUMA"),
            "line 1: `CPU Affinity NUMA NUMA GPU NUMA ID` after the devices",
        ),
        (
            PLAIN.lines().take(2).collect::<Vec<_>>().join("\n"),
            "line 2: the matrix ends before the row of `GPU1`",
        ),
        (
            PLAIN
                .lines()
                .take(3)
                .collect::<Vec<_>>()
                .join("\n")
                .replace("\tNODE\t8-15,24-31\t1\t\tN/A", "\tNO"),
            "line 3: `NO`, which no legend below explains, between `GPU1` and `NIC1`",
        ),
        (
            PLAIN.replace("NV6\tPIX\tSYS\t0-7,16-23\t0\t\tN/A", "NV6"),
            "line 2: the row of `GPU0` ends after 2 of 4 cells",
        ),
        (
            PLAIN.replace("NV6\tPIX", "NV6\nPIX"),
            "line 2: the row of `GPU0` ends after 2 of 4 cells",
        ),
        (
            PLAIN.replacen("\tGPU1\t", "\nGPU1\t", 1),
            "line 3: no column is called `GPU0`",
        ),
        (
            PLAIN.replace("PIX\tSYS\t0-7", "FAR\tSYS\t0-7"),
            "line 2: `FAR`, which no legend below explains, between `GPU0` and `NIC0`",
        ),
        (
            PLAIN.replace("NIC0\tPIX\tSYS", "NIC0\tPHB\tSYS"),
            "line 4: the row of `NIC0` says otherwise of `GPU0` than line 2",
        ),
        (
            PLAIN.replace("GPU1\tNV6\t X \tSYS\tNODE\t8-15,24-31\t1\t\tN/A\n", ""),
            "line 4: the matrix ends before the row of `GPU1`",
        ),
        (
            PLAIN.replace("ibp9s0", "mlx5_4"),
            "line 15: two NICs are called `mlx5_4`",
        ),
        (
            PLAIN.replace("ibp9s0", "ibp9s0\nNIC1: mlx5_1"),
            "line 16: `NIC1` is called `mlx5_1`, and before `ibp9s0`",
        ),
        (
            PLAIN.replace("ibp9s0", "a,b"),
            "line 15: `a,b` as the name of `NIC1`",
        ),
        (
            PLAIN.replace("ibp9s0", &"m".repeat(64)),
            "as the name of `NIC1`: expected 1 to 63",
        ),
        (
            PLAIN.replace("ibp9s0\n", ""),
            "line 15: `` as the name of `NIC1`",
        ),
        (
            "GPU0 mlx5_1\nGPU0 X PIX\nmlx5_10 PIX X".to_string(),
            "line 3: no column is called `mlx5_10`",
        ),
        (format!("{wide}\nNIC0 X"), "line 1: more than 256 devices"),
        (
            format!("GPU0 {}\nGPU0 X", &wide[..800]),
            "expected at most 128",
        ),
    ];
    for (text, reason) in cases {
        let refused = refusal(&text);
        assert!(
            refused.contains(reason),
            "expected: {reason}\nfound: {refused}\n{text}"
        );
    }
}
