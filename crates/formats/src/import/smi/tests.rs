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
    let said = diagnostics.iter().map(Diagnostic::to_string);
    let is_usual = |said: &String| said.contains("lists NICs, not the states");
    (topology, said.filter(|said| !is_usual(said)).collect())
}

fn refusal(text: &str) -> String {
    match read(text, Provenance::File("test".to_string())) {
        Err(bad) => bad.to_string(),
        Ok((_, diagnostics)) => panic!("loads, with {diagnostics:?}\n{text}"),
    }
}

#[track_caller]
fn only(findings: &[String]) -> &str {
    assert_eq!(findings.len(), 1, "{findings:?}");
    &findings[0]
}

/// `0: mlx5_4=PIX ibp9s0=SYS; 1: …`
fn paths_of(topology: &Topology) -> String {
    let of_gpu = |gpu: &Gpu| {
        let nics = topology.nics.iter().map(|nic| {
            let kind = topology.stated_paths[&(gpu.address, nic.address.unwrap())];
            format!("{}={kind}", nic.name)
        });
        let nics: Vec<String> = nics.collect();
        format!("{}: {}", gpu.address.bus, nics.join(" "))
    };
    let gpus: Vec<String> = topology.gpus.iter().map(of_gpu).collect();
    gpus.join("; ")
}

/// `0: 0-3; 1: …`: NUMA nodes with their CPUs.
fn nodes_of(topology: &Topology) -> String {
    let nodes = topology.numa_nodes.iter();
    let nodes = nodes.map(|node| format!("{}: {}", node.os_index, node.cpus));
    nodes.collect::<Vec<_>>().join("; ")
}

const PLAIN_PATHS: &str = "0: mlx5_4=PIX ibp9s0=SYS; 1: mlx5_4=SYS ibp9s0=NODE";

fn set(list: &str) -> CpuSet {
    CpuSet::from_list(list).unwrap()
}

#[test]
fn a_plain_matrix_says_who_is_near_to_whom_and_its_invented_addresses_relate_no_two_devices() {
    let (topology, findings) = load(PLAIN);
    assert_eq!(findings, [""; 0]);
    assert_eq!(paths_of(&topology), PLAIN_PATHS);
    assert_eq!(nodes_of(&topology), "0: 0-7,16-23; 1: 8-15,24-31");
    for (place, (gpu, nic)) in topology.gpus.iter().zip(&topology.nics).enumerate() {
        let nodes = [gpu.address, nic.address.unwrap()].map(|at| topology.numa_node_of(at));
        assert_eq!(nodes, [Some(place as u32); 2]);
        assert!(gpu.address.is_invented() && gpu.vendor == GpuVendor::Nvidia);
    }
    let port = Port::new(1, PortState::Active, LinkLayer::Unknown, None);
    assert!(topology.nics.iter().all(|nic| nic.ports == [port.clone()]));
    assert!(!"10000:e1:00.0".parse::<PciAddress>().unwrap().is_invented());
    let (mut topology, _) = load(PLAIN);
    topology.stated_paths.clear();
    topology.numa_nodes.clear();
    for mut function in Vec::from_iter(topology.pci.iter().cloned()) {
        function.numa_node = None;
        topology.pci.insert(function);
    }
    let addresses = Vec::from_iter(topology.pci.iter().map(|function| function.address));
    for (at, &a) in addresses.iter().enumerate() {
        for &b in &addresses[at + 1..] {
            assert_eq!(topology.path_type(a, b), PathType::Sys);
        }
    }
}

#[test]
fn a_matrix_without_nics_and_one_without_gpus_load_and_unknown_states_of_ports_are_said_once() {
    let count = |text: &str| read(text, Provenance::ThisSystem).unwrap().1.len();
    assert_eq!(count(PLAIN), 1);
    assert_eq!(count("GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0-3 0\n"), 0);
    let no_nics = "GPU0 GPU1 CPU Affinity\nGPU0 X NV4 0-3\nGPU1 NV4 X 0-3\n";
    let no_gpus = "mlx5_0 mlx5_1\nmlx5_0 X PIX\nmlx5_1 PIX X\n";
    for (text, gpus, nics) in [(no_nics, 2, 0), (no_gpus, 0, 2)] {
        let (topology, _) = load(text);
        assert_eq!((topology.gpus.len(), topology.nics.len()), (gpus, nics));
    }
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
    let nic = topology.nics[1].address.unwrap();
    assert_eq!(topology.numa_node_of(nic), Some(1));
    assert_eq!(findings.len(), 2);
    assert!(findings[0].starts_with("`header`: ") && findings[0].ends_with("left out: `PPU0`"));
    assert!(findings[1].starts_with("`rows`: ") && findings[1].contains("`ICN2`, `MX`: "));
    let (topology, findings) = load(&text.replace("GPU", "DCU"));
    assert_eq!((topology.gpus.len(), topology.nics.len()), (0, 2));
    assert!(findings[0].ends_with("left out: `DCU0`, `PPU0`, `DCU1`"));
}

#[test]
fn names_that_udev_gives_tell_the_link_layer() {
    let layers = |first: &str, second: &str| {
        let (topology, _) = load(&PLAIN.replace("mlx5_4", first).replace("ibp9s0", second));
        [0, 1].map(|nic| topology.nics[nic].ports[0].link_layer)
    };
    let known = [LinkLayer::InfiniBand, LinkLayer::Ethernet];
    let other = "ibx525400c0fe123455";
    for (first, second) in [("ibs4f1", "roceo3"), (other, "iwp3s0")] {
        assert_eq!(layers(first, second), known);
    }
    assert_eq!(layers("ibP6p3s0", "rocep193s0f0v0S99"), known);
    // an unknown link layer beside known ones would count as a third
    for kernels in ["mlx5_1", "rocep", "ib0", "ibn3", "rdmap3s0"] {
        let unknown = [LinkLayer::Unknown; 2];
        assert_eq!(layers("ibp3s0", kernels), unknown, "{kernels}");
    }
}

#[test]
fn old_words_and_every_family_of_names_are_known() {
    let names = "mlx4_0 hfi1_0 bnxt_re12 rocep3s0f1 roceP2p1s0 mlx5_bond_0 ibp1s0 rdmap16s27 irdma-a.1 qedr0";
    let cells = "PIX PXB PHB SOC SYS NODE SOC SOC SOC SOC";
    let (topology, findings) = load(&format!("GPU0 {names} CPU Affinity\nGPU0 X {cells} N/A"));
    assert_eq!(findings, [""; 0]);
    let read = topology.nics.iter().map(|nic| nic.name.as_str());
    assert!(read.eq(names.split(' ')));
    let kinds = topology.stated_paths.values().map(ToString::to_string);
    let kinds: Vec<String> = kinds.collect();
    assert_eq!(kinds.join(" "), cells.replace("SOC", "SYS"));
}

#[test]
fn memory_of_gpus_is_a_node_without_cpus_and_some_gpus_only_are_counted_by_position() {
    let text = "GPU0 GPU1 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X NV18 0-71 0,2-3 4\nGPU1 NV18 X 72-143 1 12\n";
    let (topology, _) = load(text);
    let nodes = "0: 0-71; 1: 72-143; 2: ; 3: ; 4: ; 12: ";
    assert_eq!(nodes_of(&topology), nodes);
    // some GPUs only
    let text = "GPU2 GPU5 NIC0\nGPU2 X SYS PIX\nGPU5 SYS X SYS\nNIC0: mlx5_0\n";
    let (topology, findings) = load(text);
    assert_eq!(paths_of(&topology), "2: mlx5_0=PIX; 5: mlx5_0=SYS");
    let mut said = findings.iter();
    assert!(said.any(|of| of.contains("some GPUs only")));
}

/// A part of [`PLAIN`], what stands in its place, and a part of what is said of it.
const REPAIRED: &str = "
NIC0\tNIC1\tCPU => NIC0NIC1CPU =>
PIX\tSYS\t0-7 => PIXSYS0-7 =>
NIC0\tPIX\tSYS\t X  => NIC0\tPIX\t X  =>
NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t\\n =>  =>
0-7,16-23\t0\t\tN/A => 0-7,16-23\tzero\tN/A => values touch or are missing
0-7,16-23\t0\t\tN/A => 0-7,16-23\t0N/A =>
0-7,16-23\t0 => 0,2,4,6,8,10\t0 => beginning of a longer list
ibp9s0 => ibp9s0  -> ens9 10.0.0.1/24 =>";

/// The three parts of a row of `REPAIRED` or `REFUSED`.
fn row(line: &str) -> [String; 3] {
    let parts = line.split(" =>");
    let parts = parts.map(|part| part.strip_prefix(' ').unwrap_or(part));
    let parts: Vec<String> = parts.map(|part| part.replace("\\n", "\n")).collect();
    parts.try_into().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn what_is_unambiguous_is_repaired_and_named() {
    let lines = |form: &dyn Fn(&str) -> String| PLAIN.lines().map(form).collect::<String>();
    let twice = format!("{PLAIN}\nGPU0 GPU1 NIC0\nGPU0 X SYS SYS\nNIC0: mlx5_9");
    let title = "\tGPU NUMA ID";
    let ansi = PLAIN.replacen(title, &format!("{title}\u{1b}[0m"), 1);
    let fenced = format!("$ nvidia-smi topo -m\n```\n{PLAIN}```\nMon 1 Jan\n");
    let quoted = lines(&|line| format!("> [host7] 12:30:01.5 {line}\r\n"));
    let labelled = lines(&|line| format!("  3: {}\n", line.replace('\t', "     ")));
    let plain = [format!("\u{1b}[4m{ansi}"), fenced, quoted, labelled];
    let mut cases = plain.map(|text| (text, String::new())).to_vec();
    cases.push((twice, "begins in line 17".to_string()));
    for [from, to, said] in REPAIRED.lines().skip(1).map(row) {
        assert!(PLAIN.contains(&from), "{from}");
        cases.push((PLAIN.replace(&from, &to), said));
    }
    for (text, said) in cases {
        let (topology, findings) = load(&text);
        assert_eq!(paths_of(&topology), PLAIN_PATHS, "{text}");
        let is_said = findings.iter().any(|finding| finding.contains(&said));
        assert_eq!(is_said, !said.is_empty(), "{said}: {findings:?}\n{text}");
    }
}

#[test]
fn a_nic_whose_name_is_missing_or_overwritten_keeps_the_word_of_the_matrix() {
    for (from, to) in [
        ("  NIC1: ibp9s0\n", ""),
        ("ibp9s0", "inity   GPU NUMA ID"),
        ("ibp9s0", "NIC7"),
    ] {
        let (topology, findings) = load(&PLAIN.replace(from, to));
        assert_eq!(paths_of(&topology), PLAIN_PATHS.replace("ibp9s0", "NIC1"));
        let said = only(&findings);
        assert!(said.contains("no whole name") && said.ends_with("`NIC1`"));
    }
    let (_, findings) = load(&PLAIN.replace("mlx5_4", "Aff").replace("ibp9s0", "NUMA ID"));
    assert!(findings[0].contains("`NIC0`, `NIC1`"), "no digit beside it");
}

#[test]
fn contradicting_nodes_are_unknown() {
    let text = "GPU0 GPU1 mlx5_0 CPU Affinity NUMA Affinity\nGPU0 X SYS NODE 0-7 0\nGPU1 SYS X NODE 4-11 1\n";
    let is_said = |findings: &[String], part: &str| {
        assert!(findings.iter().any(|of| of.contains(part)), "{findings:?}");
    };
    let (topology, findings) = load(text);
    let nic = topology.nics[0].address.unwrap();
    assert_eq!(topology.numa_node_of(nic), None);
    is_said(&findings, "CPUs 4-7 are near");
    assert_eq!(topology.cpus(), set("0-3,8-11"));
    let (topology, findings) = load(&text.replace(" 0-7 0", " 0-11 0-1"));
    assert_eq!(topology.numa_nodes.len(), 1);
    is_said(&findings, "several NUMA nodes with CPUs");
}

/// A part of [`PLAIN`], what stands in its place, and the line with a part of the reason.
const REFUSED: &str = "
NV6\tPIX\tSYS\t0 => NV6\tPIX\t0 => line 2: the row of `GPU0` has 3 cells: expected 4
NV6\tPIX\tSYS\t0 => NV6\tPIX\tSYS\tSYS\t0 => line 2: the row of `GPU0` has 5 cells: expected 4
GPU1\tNV6\t X \t => GPU1\t X \tNV6\t => line 3: the row of `GPU1` has 4 cells: expected 4, and `X`
GPU1\tNV6\t X \t => GPU1\tNV6\tNV6\t => line 3: the row of `GPU1` has 4 cells: expected 4, and `X`
NV6\tPIX => NV6\tNV4 => line 2: `NV4`, which no legend below explains, between `GPU0` and `NIC0`
GPU1\tNV6 => GPU0\tNV6 => line 3: a second row of `GPU0`: the first is in line 2
\tGPU1\tNIC0 => \tGPU0\tNIC0 => line 3: no column is called `GPU1`
\tGPU1\tNIC0 => \tGPU3\tNIC0 => line 3: no column is called `GPU1`
GPU1 => GPU128 => line 1: `GPU128`: expected a number below 128
GPU NUMA ID => GPU NUMA HOME => no matrix of
NUMA Affinity => NUMA NUMA => line 1: `CPU Affinity NUMA NUMA GPU NUMA ID`
NV6\tPIX\tSYS\t0-7,16-23\t0\t\tN/A => NV6 => line 2: the row of `GPU0` has 2 cells: expected 4
NV6\tPIX => NV6\\nPIX => line 2: the row of `GPU0` has 2 cells: expected 4
\tGPU1\tNIC0 => \\nGPU1\tNIC0 => line 3: no column is called `GPU0`
PIX\tSYS\t0-7 => FAR\tSYS\t0-7 => line 2: `FAR`, which no legend below explains, between `GPU0` and `NIC0`
NIC0\tPIX\tSYS => NIC0\tPHB\tSYS => line 4: the row of `NIC0` says otherwise of `GPU0` than line 2
GPU1\tNV6\t X \tSYS\tNODE\t8-15,24-31\t1\t\tN/A\\n =>  => line 4: the matrix ends before the row of `GPU1`
ibp9s0 => mlx5_4 => found `mlx5_4`, which
ibp9s0 => ibp9s0\\nNIC1: mlx5_1 => line 16: `NIC1` is called `mlx5_1`, and before `ibp9s0`
ibp9s0 => a,b => line 15: `a,b` as the name of `NIC1`
ibp9s0\\n =>  => line 15: `` as the name of `NIC1`";

#[test]
fn what_is_ambiguous_is_refused_with_line_and_reason() {
    let wide: String = (0..300).map(|number| format!("NIC{number} ")).collect();
    let lines = |count| PLAIN.lines().take(count).collect::<Vec<_>>().join("\n");
    let cut = lines(3).replace("\tNODE\t8-15,24-31\t1\t\tN/A", "\tNO");
    let long = PLAIN.replace("ibp9s0", &"m".repeat(64));
    let headless = &PLAIN[PLAIN.find('\n').unwrap()..];
    let less = format!("GPU0 {}\nGPU0 X", &wide[..800]);
    let wide = format!("{wide}\nNIC0 X");
    let texts = [
        ("", "no matrix of"),
        ("one GPU0 word\nand another", "no matrix of"),
        ("Failed to run topology matrix\n", "no matrix of"),
        (&lines(1), "no matrix of"),
        (headless, "no matrix of"),
        (&lines(2), "line 2: the matrix ends before"),
        (&cut, "line 3: `NO`, which no legend"),
        (&long, "`NIC1`: expected 1 to 63"),
        ("GPU0 mlx5_1\nGPU0 X PIX\nmlx5_10 PIX X", "`mlx5_10`"),
        ("GPU0 GPU0 mlx5_1\nGPU0 X X PIX\n", "two columns"),
        (&wide, "line 1: more than 256 devices"),
        (&less, "expected at most 128"),
    ];
    let texts = texts.map(|(text, reason)| (text.to_string(), reason.to_string()));
    let edits = REFUSED.lines().skip(1).map(row).map(|[from, to, reason]| {
        assert!(PLAIN.contains(&from), "{from}");
        (PLAIN.replace(&from, &to), reason)
    });
    for (text, reason) in edits.chain(texts) {
        let refused = refusal(&text);
        assert!(refused.contains(&reason), "{reason}: {refused}\n{text}");
    }
}

/// Rows of a matrix in letters (`i`, `x`, `h`, `n`, `s`: PIX, PXB, PHB, NODE, SYS), the NIC of each GPU, and its source.
const STATED: &str = "
is is si si => 0 0 1 1 => H200 NVL, two GPUs on a switch with a NIC: NVIDIA/nccl issue 2345
inssn ninsn ssisn sssin => 0 1 2 3 => HGX H100 with a NIC for storage: NCCL's log of such a node
nnss nnss ssnn ssnn => 0 1 2 3 => Azure ND A100 v4, half of it: ndv4-topo.xml
nnnnssss nnnnssss nnnnssss nnnnssss ssssnnnn ssssnnnn ssssnnnn ssssnnnn => 0 1 2 3 4 5 6 7 => Azure ND H100 v5
hsss hsss shss shss sshs sshs sssh sssh => 0 0 1 1 2 2 3 3 => AWS p4d.24xlarge, an EFA on each host bridge
hsss hsss shss shss => 0 0 1 1 => LLNL's Tioga, two dies of MI250X for each Slingshot NIC
xxss xxss ssxx ssxx => 0 1 2 3 => DGX A100, half of it: two GPUs and two NICs below each switch
i n s s => 0 0 0 0 => a NIC on the first socket alone";

#[test]
fn each_gpu_of_a_stated_machine_has_the_nic_that_is_stated() {
    let kinds = ["PIX", "PXB", "PHB", "NODE", "SYS"];
    let kind = |letter: char| kinds["ixhns".find(letter).unwrap()];
    for [rows, stated, source] in STATED.lines().skip(1).map(row) {
        let rows: Vec<&str> = rows.split(' ').collect();
        let gpus = (0..rows.len()).map(|gpu| format!("GPU{gpu}"));
        let nics = (0..rows[0].len()).map(|nic| format!("mlx5_{nic}"));
        let mut text = gpus.chain(nics).collect::<Vec<_>>().join(" ");
        text += " CPU Affinity NUMA Affinity\n";
        for (gpu, row) in rows.iter().enumerate() {
            let near = (0..rows.len()).map(|other| if other == gpu { "X" } else { "NV4" });
            let words: Vec<&str> = near.chain(row.chars().map(kind)).collect();
            let node = gpu * 2 / rows.len();
            text += &format!("GPU{gpu} {} {gpu} {node}\n", words.join(" "));
        }
        let (topology, _) = load(&text);
        let map = nic_placement_core::policy::map(&topology, &Default::default());
        let rails = map.gpus.iter().map(|gpu| map.rail(gpu.choices[0].rail));
        let chosen: Vec<&str> = rails.map(|rail| &rail.name.as_str()[5..]).collect();
        assert_eq!(chosen.join(" "), stated, "{source}\n{text}");
    }
}
