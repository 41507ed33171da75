//! Every refusal by its message, and what is read and written by example.

mod properties;

use super::write::{to_json, to_json_with_sources};
use super::*;
use crate::{Bitmap, DeviceName, LinkLayer, PathType, PciTree, Port, PortState, Pu};

/// Three NUMA nodes, a GPU and a NIC below one switch, and a software NIC; every field is there at least
/// once.
const SAMPLE: &str = include_str!("tests/sample.json");
/// The same as it is written: PCI functions as lines.
const WRITTEN: &str = include_str!("tests/written.json");
/// Blocks of three lines: what is replaced in the sample, by what, and the message.
const REFUSALS: &str = include_str!("tests/refusals.txt");

fn read(text: &str) -> Result<Topology, BadTopology> {
    from_json(text, Provenance::File("sample.json".to_string()))
}

/// The message for the sample with its first `from` replaced.
fn refusal(from: &str, to: &str) -> String {
    assert!(SAMPLE.contains(from), "`{from}` is not in the sample");
    match read(&SAMPLE.replacen(from, to, 1)) {
        Ok(_) => panic!("`{to}` instead of `{from}` was read"),
        Err(bad) => bad.to_string(),
    }
}

/// A sample with one list of `count` entries.
fn with_list(list: &str, count: usize, entry: impl Fn(usize) -> String) -> String {
    let entries = (0..count).map(entry).collect::<Vec<_>>().join(",");
    format!(r#"{{"format": "{FORMAT}", "version": 1, "name": "x", "{list}": [{entries}]}}"#)
}

#[test]
fn a_file_is_read_and_written_back_byte_for_byte() {
    let topology = read(SAMPLE).unwrap();
    assert_eq!(to_json(&topology), WRITTEN);
    assert_eq!(read(WRITTEN).unwrap(), topology);
    let [gpu, nic] = ["1b:00.0", "18:00.0"].map(|at| at.parse().unwrap());
    assert_eq!(topology.path_type(gpu, nic), PathType::Pix);
    let cores: Vec<u32> = topology.pus.iter().map(|pu| pu.core).collect();
    assert_eq!(cores, [0, 0, 0, 0, 1, 1]);
    assert_eq!(topology.numa_nodes[2].cpus, Bitmap::new());
    let mut unknown = Port::new(2, PortState::Unknown, LinkLayer::Unknown, None);
    (unknown.routes_elsewhere, unknown.other_namespace) = (true, true);
    assert_eq!(topology.nics[0].ports[1], unknown);
    let provenance = Provenance::File("sample.json".to_string());
    assert_eq!(topology.provenance, provenance);
    // a topology of which no fact is known
    let empty = Topology::empty("x", provenance);
    assert_eq!(read(&to_json(&empty)).unwrap(), empty);
}

fn pu(os_index: u32, package: u32, core: u32) -> Pu {
    Pu {
        os_index,
        package,
        core,
    }
}

#[test]
fn cores_in_a_row_that_differ_by_a_number_take_one_line() {
    // each core and its CPUs, and the lines
    for row in [
        // an Intel or AMD node
        r#"0:0,4 1:1,5 2:2,6 3:3,7 | "core": 0, "pus": "0,4", "cores": 4"#,
        // a POWER9
        r#"0:0-3 1:4-7 | "core": 0, "pus": "0-3", "cores": 2, "step": 4"#,
        // its firmware left out core 2
        r#"0:0 1:1 3:2 4:3 | "core": 0, "pus": "0", "cores": 2 | "core": 3, "pus": "2", "cores": 2"#,
        // cores of two kinds
        r#"0:0-1 1:2-3 2:4 3:5 | "core": 0, "pus": "0-1", "cores": 2, "step": 2 | "core": 2, "pus": "4", "cores": 2"#,
    ] {
        let (cores, expected) = row.split_once(" | ").unwrap();
        let mut topology = Topology::empty("x", Provenance::File(String::new()));
        for (core, pus) in cores.split(' ').map(|core| core.split_once(':').unwrap()) {
            let core = core.parse().unwrap();
            let pus = Bitmap::from_list(pus).unwrap();
            topology.pus.extend(pus.iter().map(|cpu| pu(cpu, 0, core)));
        }
        let json = to_json(&topology);
        let lines = json
            .lines()
            .map(|line| line.trim().trim_end_matches([',', '}']));
        let lines = lines.filter_map(|line| line.strip_prefix(r#"{"package": 0, "#));
        assert_eq!(lines.collect::<Vec<_>>().join(" | "), expected);
    }
    // a core of the largest number before another package's (found by the fuzzer)
    let mut topology = Topology::empty("x", Provenance::File(String::new()));
    topology.pus = vec![pu(0, 0, u32::MAX), pu(1, 1, 0)];
    assert!(to_json(&topology).contains(r#"{"package": 0, "core": 4294967295, "pus": "0"}"#));
}

#[test]
fn a_file_written_by_hand_is_read_whatever_its_order_and_spelling() {
    let text = r#"{"version": 1, "name": "hand", "format": "nic-placement topology",
        "nics": [{"name": "b", "netdevs": ["z", "a"], "ports": [{"number": 2}, {"number": 1}]},
                 {"name": "a"}, {"name": "c", "address": "02:00.0"}],
        "pci": [{"address": "02:00.0", "parent": "01:00.0", "class": "0x20700", "link": {"max": "8 GT/s x1"}},
                {"address": "00000000:01:00.0", "parent": "pci0000:00", "link": {}}],
        "numa_nodes": [{"cpus": "3,2", "os_index": 1}, {"os_index": 0, "cpus": "0-1"}]}"#;
    let canonical = r#"{
  "format": "nic-placement topology",
  "version": 1,
  "name": "hand",
  "numa_nodes": [
    {"os_index": 0, "cpus": "0-1"},
    {"os_index": 1, "cpus": "2-3"}
  ],
  "pus": [],
  "pci": [
    "0000:01:00.0 below pci0000:00",
    "0000:02:00.0 below 0000:01:00.0; class 0x020700; link.max 8.0 GT/s x1"
  ],
  "gpus": [],
  "nics": [
    {"name": "c", "address": "0000:02:00.0", "ports": []},
    {"name": "a", "ports": []},
    {"name": "b", "netdevs": ["a", "z"], "ports": [{"number": 1}, {"number": 2}]}
  ]
}
"#;
    assert_eq!(to_json(&read(text).unwrap()), canonical);
}

#[test]
fn the_package_of_a_numa_node_is_written_where_its_cores_do_not_tell_it() {
    // an older file, and the three that `pus` do not tell
    let (second, third) = (r#""cpus": "2-3","#, "[40, 40, 10]");
    for (from, to, packages) in rows! {
        "", "", [Some(0), Some(1)];
        second, r#""cpus": "2-3", "package": 1,"#, [Some(0), Some(1)];
        second, r#""cpus": "2-3", "package": -1,"#, [Some(0), None];
        third, r#"[40, 40, 10], "package": 7"#, [Some(0), Some(1)];
    } {
        let topology = read(&SAMPLE.replace(from, to)).unwrap();
        let written = to_json(&topology);
        for topology in [&topology, &read(&written).unwrap()] {
            let nodes = topology.numa_nodes.iter();
            let found: Vec<_> = nodes.map(|node| node.package).collect();
            assert_eq!(found[..2], packages, "{to}");
            assert!(from != third || found[2] == Some(7), "{to}");
        }
        let is_written = written.contains(r#""distances": [40, 40, 10], "package": 7}"#);
        assert_eq!(is_written, from == third, "{to}");
    }
}

#[test]
fn a_functions_line_has_each_field_once_and_no_other() {
    let read = |line: &str| {
        let text = with_list("pci", 1, |_| serde_json::to_string(line).unwrap());
        read(&text).map(|topology| topology.pci.iter().next().cloned().unwrap())
    };
    for (more, start) in rows! {
        "; color red", "`color` is no field of";
        "; class 0x020700; class 0x020700", "`class` stands twice";
        "; link 8.0 GT/s x1; link.max 8.0 GT/s x1", "`link.max` stands twice";
        "; vfs 1; vfs 1", "`vfs` stands twice";
        "; numa_node -1", "`numa_node`: `-1` is no number";
        ";", "`` is no field of";
        "; class", "found ``, expected a class of";
        "; link 8.0 GT/s", "found `8.0 GT/s`, expected speed and";
    } {
        let line = format!("0000:01:00.0 below pci0000:00{more}");
        let message = read(&line).unwrap_err().to_string();
        let (_, message) = message.split_once(": ").unwrap();
        assert!(message.starts_with(start), "{message}");
    }
    let bad = "|0000:01:00.0|0000:01:00.0 pci0000:00|0000:01:00.0 below|below pci0000:00";
    for line in bad.split('|') {
        let message = read(line).unwrap_err().to_string();
        let begins = format!("`{line}` does not begin like `");
        assert!(message.contains(&begins), "{message}");
    }
    // an escape takes nothing from a line, and spaces around its parts mean nothing
    let line = r#""0000:01:00.0 below pci0000:00;  vfs\u00203;vendor 0x15b3""#;
    let text = with_list("pci", 1, |_| line.to_string());
    let topology = super::from_json(&text, Provenance::ThisSystem).unwrap();
    let function = topology.pci.iter().next().unwrap();
    assert_eq!((function.vfs, function.vendor), (Some(3), Some(0x15b3)));
}

#[test]
fn sources_are_kept_in_the_file_and_are_no_part_of_the_topology() {
    let topology = read(SAMPLE).unwrap();
    let notes = ["a guide".to_string(), "assumed: `the rest`".to_string()];
    let text = to_json_with_sources(&topology, &notes);
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["sources"], serde_json::json!(notes));
    assert_eq!(read(&text).unwrap(), topology);
    assert!(!WRITTEN.contains("sources"));
    assert!(read(&text.replace("a guide", "a\\nguide")).is_err());
}

#[test]
fn text_that_is_not_such_a_file_is_refused_with_line_and_column() {
    let message = |text: &str| read(text).unwrap_err().to_string();
    for (text, start) in rows! {
        "", "line 1 column 0: EOF";
        "{\n\n  \"version\": }", "line 3 column 14: expected value";
        "{}", "`format`: missing, expected `nic-placement topology`";
        &"[".repeat(100_000), "line 1 column ";
        &" ".repeat(MAX_BYTES + 1), "found `4194305` bytes, expected at";
    } {
        assert!(message(text).starts_with(start), "{}", message(text));
    }
    let negative = refusal("\"minor\": 0", "\"minor\": -1");
    assert!(negative.starts_with("line 24 column 63: "), "{negative}");
    let twice = refusal("\"minor\": 0, ", "\"minor\": 0, \"minor\": 0, ");
    assert!(twice.ends_with(": duplicate field `minor`"), "{twice}");
}

#[test]
fn a_machine_keeps_the_name_that_its_vendor_wrote() {
    let named = |name: &str| {
        let mut topology = read(SAMPLE).unwrap();
        topology.name = name.to_string();
        read(&to_json(&topology)).unwrap().name
    };
    for name in "PowerEdge XE9680|Virtual Machine|G593-SD0-AAX1/X (rev. 2)|a,b".split('|') {
        assert_eq!(named(name), name);
    }
    for (broken, kept) in [("", "node"), ("a\u{1b}[2Jb\n", "a[2Jb")] {
        assert_eq!(named(broken), kept);
    }
    let control = refusal("\"sample-1\"", "\"a\\n\"");
    let is_right = control.starts_with("`name`: found `a\\n`, expected at most");
    assert!(is_right, "{control}");
}

#[test]
fn a_processor_is_kept_and_half_of_one_is_refused() {
    let with = |words: &str| {
        let both = format!("\"processor\": {{{words}}},\n  \"numa_nodes\"");
        read(&SAMPLE.replacen("\"numa_nodes\"", &both, 1))
    };
    let intel = r#""arch": "x86_64", "vendor": "GenuineIntel", "family": 6, "model": 143"#;
    for good in [intel, r#""arch": "arm64""#, r#""arch": "x86_64""#] {
        let topology = with(good).unwrap();
        assert!(topology.processor.is_some());
        assert_eq!(read(&to_json(&topology)).unwrap(), topology);
    }
    let together = ": expected `vendor`, `family` and `model`";
    for (from, to, part) in rows! {
        "143", "65536", ": expected `family` and `model` below `65536`";
        "Genuine", "", ": unknown variant `Intel`, expected one";
        "x86_64", "arm64", together;
        ", \"model\": 143", "", together;
        "x86_64", "i386", ": unknown variant `i386`, expected one";
    } {
        let message = with(&intel.replace(from, to)).unwrap_err().to_string();
        assert!(message.starts_with("line 5 column "), "{message}");
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn names_that_a_variable_or_a_path_would_misread_are_refused() {
    let long = "n".repeat(DeviceName::MAX + 1);
    for bad in [
        "", "mlx5_0:1", "a,b", "^mlx5", "=a", "a b", "../x", ".", "-a", "é", "a\\u0000", "a\\n",
        &long,
    ] {
        for good in ["GPU-0", "mlx5_0", "uverbs0", "ib1"] {
            let message = refusal(&format!("\"{good}\""), &format!("\"{bad}\""));
            assert!(message.contains("expected 1 to 63 of"), "{message}");
        }
    }
    assert!(read(&SAMPLE.replace("rxe0", &long[1..])).is_ok());
}

#[test]
fn each_of_the_listed_mistakes_is_refused_with_its_message() {
    let is_comment = |line: &&str| line.is_empty() || line.starts_with('#');
    let lines: Vec<&str> = REFUSALS.lines().filter(|line| !is_comment(line)).collect();
    let mut wrong = Vec::new();
    for block in lines.chunks(3) {
        let part = |i: usize, mark: &str| block[i].strip_prefix(mark).expect(block[i]);
        let message = refusal(part(0, "- "), part(1, "+ "));
        if message != part(2, "= ") {
            wrong.push(format!("{}\n= {message}", block.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
}

#[test]
fn a_link_rate_without_speed_or_lanes_or_beyond_any_link_is_refused() {
    let no_rates = "|2.5|2.5 GT/s|2.5 GT/s PCIe|2.55 GT/s x4|-2.5 GT/s x4|2.5 GT/s x64|2.5 GT/s x0|\
                    0.0 GT/s x1|1001.0 GT/s x1|99999999999 GT/s x1|.5 GT/s x1|2. GT/s x1";
    for bad in no_rates.split('|') {
        let place = format!("line 18 column {}", 77 + bad.len());
        let start = format!("{place}: found `{bad}`, expected speed and");
        let message = refusal("2.5 GT/s x4", bad);
        assert!(message.starts_with(&start), "{message}");
    }
}

#[test]
fn chains_and_lists_longer_than_a_machine_can_be_are_refused() {
    let chain = |count| {
        with_list("pci", count, |i| {
            let above = i.checked_sub(1).map(|i| format!("{i:02x}:00.0"));
            let parent = above.unwrap_or("pci0000:00".to_string());
            format!(r#"{{"address": "{i:02x}:00.0", "parent": "{parent}"}}"#)
        })
    };
    let nodes = |i| format!(r#"{{"os_index": {i}, "cpus": ""}}"#);
    let cores = |i: usize| format!(r#"{{"package": 0, "core": {i}, "pus": "{}"}}"#, i.min(8191));
    let pci = |i| format!(r#"{{"address": "{i:x}:00:00.0", "parent": "pci{i:x}:00"}}"#);
    let gpu = |_| r#"{"address": "1:0.0", "vendor": "amd"}"#.to_string();
    let nic = |i| format!(r#"{{"name": "n{i}"}}"#);
    let ports = |count| {
        with_list("nics", 1, |_| {
            let port = |i| format!(r#"{{"number": {i}}}"#);
            let ports: Vec<String> = (1..=count).map(port).collect();
            format!(r#"{{"name": "n", "ports": [{}]}}"#, ports.join(","))
        })
    };
    let refused = |text: String, start: &str| {
        let message = read(&text).unwrap_err().to_string();
        assert!(message.starts_with(start), "{message}");
    };
    let at_most = |list: &str, most, entry: &dyn Fn(usize) -> String| {
        // GPUs at one address are refused for another reason
        let is_right = list == "gpus" || read(&with_list(list, most, entry)).is_ok();
        assert!(is_right, "{list}");
        let start = format!("`{list}`: found `{}`", most + 1);
        refused(with_list(list, most + 1, entry), &start);
    };
    at_most("numa_nodes", 1024, &nodes);
    at_most("pus", 8192, &cores);
    at_most("pci", 4096, &pci);
    at_most("gpus", 256, &gpu);
    at_most("nics", 256, &nic);
    let deepest = PciTree::MAX_DEPTH + 1;
    assert!(read(&chain(deepest)).is_ok() && read(&ports(16)).is_ok());
    refused(chain(deepest + 1), "`pci[33].parent`: found `33 bridges");
    refused(ports(17), "`nics[0].ports`: found `17`");
}
