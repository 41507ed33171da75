//! Every refusal by its message, and what is read and written by example.

mod properties;

use super::write::{to_json, to_json_with_sources};
use super::*;
use crate::{Bitmap, DeviceName, LinkLayer, PathType, PciAddress, PciTree, Port, PortState, Pu};

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
    let entries: Vec<String> = (0..count).map(entry).collect();
    format!(
        r#"{{"format": "{FORMAT}", "version": 1, "name": "x", "{list}": [{}]}}"#,
        entries.join(",")
    )
}

#[test]
fn a_file_is_read_and_written_back_byte_for_byte() {
    let topology = read(SAMPLE).unwrap();
    assert_eq!(to_json(&topology), WRITTEN);
    assert_eq!(read(WRITTEN).unwrap(), topology);
    let gpu: PciAddress = "1b:00.0".parse().unwrap();
    assert_eq!(
        topology.path_type(gpu, "18:00.0".parse().unwrap()),
        PathType::Pix
    );
    assert_eq!(
        topology.pus.iter().map(|pu| pu.core).collect::<Vec<_>>(),
        [0, 0, 0, 0, 1, 1]
    );
    assert_eq!(topology.numa_nodes[2].cpus, Bitmap::new());
    let unknown = Port::new(2, PortState::Unknown, LinkLayer::Unknown, None);
    assert_eq!(
        topology.nics[0].ports[1],
        Port {
            routes_elsewhere: true,
            other_namespace: true,
            ..unknown
        }
    );
    assert_eq!(
        topology.provenance,
        Provenance::File("sample.json".to_string())
    );
}

#[test]
fn cores_in_a_row_that_differ_by_a_number_take_one_line() {
    let written = |cores: &[(u32, &str)]| {
        let mut topology = Topology::empty("x", Provenance::File(String::new()));
        for &(core, pus) in cores {
            let pus = Bitmap::from_list(pus).unwrap();
            topology.pus.extend(pus.iter().map(|os_index| Pu {
                os_index,
                package: 0,
                core,
            }));
        }
        let json = to_json(&topology);
        let lines = json
            .lines()
            .filter_map(|line| line.trim().strip_prefix(r#"{"package": 0, "#));
        lines
            .map(|line| line.trim_end_matches([',', '}']).to_string())
            .collect::<Vec<_>>()
    };
    // an Intel or AMD node, a POWER9, one whose firmware left out core 2, and cores of two kinds
    assert_eq!(
        written(&[(0, "0,4"), (1, "1,5"), (2, "2,6"), (3, "3,7")]),
        [r#""core": 0, "pus": "0,4", "cores": 4"#]
    );
    assert_eq!(
        written(&[(0, "0-3"), (1, "4-7")]),
        [r#""core": 0, "pus": "0-3", "cores": 2, "step": 4"#]
    );
    assert_eq!(
        written(&[(0, "0"), (1, "1"), (3, "2"), (4, "3")]),
        [
            r#""core": 0, "pus": "0", "cores": 2"#,
            r#""core": 3, "pus": "2", "cores": 2"#
        ]
    );
    assert_eq!(
        written(&[(0, "0-1"), (1, "2-3"), (2, "4"), (3, "5")]),
        [
            r#""core": 0, "pus": "0-1", "cores": 2, "step": 2"#,
            r#""core": 2, "pus": "4", "cores": 2"#
        ]
    );
    // a core of the largest number before another package's (found by the fuzzer)
    let mut topology = Topology::empty("x", Provenance::File(String::new()));
    topology.pus = [(0, 0, u32::MAX), (1, 1, 0)]
        .map(|(os_index, package, core)| Pu {
            os_index,
            package,
            core,
        })
        .into();
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
    let with = |field: &str| {
        let text = SAMPLE.replace(r#""cpus": "2-3","#, &format!(r#""cpus": "2-3", {field}"#));
        let package = |topology: Topology| topology.numa_nodes[1].package;
        let known = read(&text).map(package)?;
        assert_eq!(
            read(&to_json(&read(&text)?)).map(package).unwrap(),
            known,
            "written and read"
        );
        Ok::<_, BadTopology>(known)
    };
    // an older file, and the three that `pus` do not tell
    assert_eq!(with("").unwrap(), Some(1));
    assert_eq!(with(r#""package": 1,"#).unwrap(), Some(1));
    let read = read(&SAMPLE.replace(r#"[40, 40, 10]"#, r#"[40, 40, 10], "package": 7"#)).unwrap();
    assert_eq!(
        read.numa_nodes
            .iter()
            .map(|node| node.package)
            .collect::<Vec<_>>(),
        [Some(0), Some(1), Some(7)]
    );
    assert!(
        to_json(&read)
            .contains(r#"{"os_index": 8, "cpus": "", "distances": [40, 40, 10], "package": 7}"#)
    );
    assert_eq!(with(r#""package": -1,"#).unwrap(), None);
    assert_eq!(
        with(r#""package": -2,"#).unwrap_err().to_string(),
        "`numa_nodes[1].package`: found `-2`, expected the number of a package, or `-1` where it is unknown"
    );
}

#[test]
fn a_functions_line_has_each_field_once_and_no_other() {
    let read = |line: &str| {
        let text = with_list("pci", 1, |_| serde_json::to_string(line).unwrap());
        read(&text).map(|topology| topology.pci.iter().next().cloned().unwrap())
    };
    let why = |more: &str| {
        let message = read(&format!("0000:01:00.0 below pci0000:00{more}"))
            .unwrap_err()
            .to_string();
        message.split_once(": ").unwrap().1.to_string()
    };
    assert_eq!(why("; color red"), "`color` is no field of a PCI function");
    assert_eq!(
        why("; class 0x020700; class 0x020700"),
        "`class` stands twice"
    );
    assert_eq!(
        why("; link 8.0 GT/s x1; link.max 8.0 GT/s x1"),
        "`link.max` stands twice"
    );
    assert_eq!(why("; vfs 1; vfs 1"), "`vfs` stands twice");
    assert_eq!(why("; numa_node -1"), "`numa_node`: `-1` is no number");
    assert_eq!(why(";"), "`` is no field of a PCI function");
    assert_eq!(
        why("; class"),
        "found ``, expected a class of three bytes such as `0x030200`"
    );
    assert_eq!(
        why("; link 8.0 GT/s"),
        "found `8.0 GT/s`, expected speed and lanes such as `32.0 GT/s x16`"
    );
    for line in [
        "",
        "0000:01:00.0",
        "0000:01:00.0 pci0000:00",
        "0000:01:00.0 below",
        "below pci0000:00",
    ] {
        let message = read(line).unwrap_err().to_string();
        let begins = format!("`{line}` does not begin like `0000:18:00.0 below 0000:17:00.0`");
        assert!(message.ends_with(&begins), "{message}");
    }
    // an escape takes nothing from a line, and spaces around its parts mean nothing
    let text = with_list("pci", 1, |_| {
        r#""0000:01:00.0 below pci0000:00;  vfs\u00203;vendor 0x15b3""#.to_string()
    });
    let function = super::from_json(&text, Provenance::ThisSystem)
        .unwrap()
        .pci
        .iter()
        .next()
        .cloned()
        .unwrap();
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
fn a_topology_about_which_nothing_is_known_is_read_back() {
    let empty = Topology::empty("x", Provenance::File("sample.json".to_string()));
    assert_eq!(read(&to_json(&empty)).unwrap(), empty);
}

#[test]
fn text_that_is_not_such_a_file_is_refused_with_line_and_column() {
    let message = |text: &str| read(text).unwrap_err().to_string();
    assert_eq!(message(""), "line 1 column 0: EOF while parsing a value");
    assert_eq!(
        message("{\n\n  \"version\": }"),
        "line 3 column 14: expected value"
    );
    assert_eq!(
        refusal("\"minor\": 0", "\"minor\": -1")
            .split_once(": ")
            .unwrap()
            .0,
        "line 24 column 63"
    );
    assert_eq!(
        refusal("\"device\": \"0xc030\"", "\"device_id\": \"0xc030\""),
        "line 16 column 89: unknown field `device_id`, expected one of `address`, `parent`, `class`, \
         `vendor`, `device`, `subsystem`, `numa_node`, `local_cpus`, `link`, `physfn`, `vfs`, `iommu`"
    );
    assert_eq!(
        refusal("\"os_index\": 8, ", ""),
        "line 8 column 43: missing field `os_index`"
    );
    assert_eq!(
        refusal("\"minor\": 0, ", "\"minor\": 0, \"minor\": 0, ")
            .split_once(": ")
            .unwrap()
            .1,
        "duplicate field `minor`"
    );
    assert!(message(&"[".repeat(100_000)).starts_with("line 1 column "));
    let spaces = " ".repeat(MAX_BYTES + 1);
    assert_eq!(
        message(&spaces),
        "found `4194305` bytes, expected at most `4194304`"
    );
}

#[test]
fn another_format_or_version_is_named_before_anything_else_is_judged() {
    assert_eq!(
        refusal("nic-placement topology", "plan"),
        "`format`: found `plan`, expected `nic-placement topology`"
    );
    assert_eq!(
        refusal("\"version\": 1", "\"version\": 2, \"new\": 0"),
        "`version`: found `2`, expected `1`"
    );
    assert_eq!(
        read("{}").unwrap_err().to_string(),
        "`format`: missing, expected `nic-placement topology`"
    );
    assert_eq!(
        refusal("\"version\": 1,", ""),
        "`version`: missing, expected `1`"
    );
}

#[test]
fn a_machine_keeps_the_name_that_its_vendor_wrote() {
    for name in [
        "PowerEdge XE9680",
        "Virtual Machine",
        "G593-SD0-AAX1/X (rev. 2)",
        "a,b",
    ] {
        let topology = Topology {
            name: name.to_string(),
            ..read(SAMPLE).unwrap()
        };
        assert_eq!(read(&to_json(&topology)).unwrap(), topology, "`{name}`");
    }
    for (broken, kept) in [("", "node"), ("a\u{1b}[2Jb\n", "a[2Jb")] {
        let topology = Topology {
            name: broken.to_string(),
            ..read(SAMPLE).unwrap()
        };
        assert_eq!(read(&to_json(&topology)).unwrap().name, kept);
    }
    assert_eq!(
        refusal("\"sample-1\"", "\"\""),
        "`name`: found ``, expected the machine's name"
    );
    assert!(
        refusal("\"sample-1\"", "\"a\\n\"")
            .starts_with("`name`: found `a\\n`, expected at most 1024")
    );
}

#[test]
fn a_processor_is_kept_and_half_of_one_is_refused() {
    let with = |words: &str| {
        let text = SAMPLE.replacen(
            "\"numa_nodes\"",
            &format!("\"processor\": {{{words}}},\n  \"numa_nodes\""),
            1,
        );
        read(&text)
    };
    let intel = "\"arch\": \"x86_64\", \"vendor\": \"GenuineIntel\", \"family\": 6, \"model\": 143";
    for good in [intel, "\"arch\": \"arm64\"", "\"arch\": \"x86_64\""] {
        let topology = with(good).unwrap();
        assert!(topology.processor.is_some());
        assert_eq!(read(&to_json(&topology)).unwrap(), topology);
    }
    for (bad, expected) in [
        (
            intel.replace("143", "65536"),
            ": expected `family` and `model` below `65536`",
        ),
        (
            intel.replace("Genuine", ""),
            ": unknown variant `Intel`, expected one of `GenuineIntel`",
        ),
        (
            intel.replace("x86_64", "arm64"),
            ": expected `vendor`, `family` and `model` together, on `x86_64`",
        ),
        (
            intel.replace(", \"model\": 143", ""),
            ": expected `vendor`, `family` and `model` together",
        ),
        (
            intel.replace("x86_64", "i386"),
            ": unknown variant `i386`, expected one of `x86_64`",
        ),
    ] {
        let message = with(&bad).unwrap_err().to_string();
        assert!(
            message.starts_with("line 5 column ") && message.contains(expected),
            "{message}"
        );
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
            let end = "expected 1 to 63 of the characters `A-Za-z0-9_.-`, the first a letter, a digit or `_`";
            assert!(message.ends_with(end), "{message}");
        }
    }
    assert!(
        refusal("\"mlx5_0\"", "\"a:1\"")
            .starts_with("line 28 column 18: found `a:1`, expected 1 to 63")
    );
    assert!(
        refusal("\"ib1\"", "\"\\u001b[2J\"")
            .starts_with("`nics[0].netdevs[1]`: found `\\u{1b}[2J`, expected")
    );
    assert!(read(&SAMPLE.replace("rxe0", &long[1..])).is_ok());
    assert_eq!(
        refusal("NVIDIA H100", "NVIDIA\\tH100"),
        "`gpus[0].model`: found `NVIDIA\\tH100 80GB HBM3`, expected at most 1024 characters, none of them a \
         control character"
    );
}

#[test]
fn each_of_the_listed_mistakes_is_refused_with_its_message() {
    let lines: Vec<&str> = REFUSALS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let wrong: Vec<String> = lines
        .chunks(3)
        .filter_map(|block| {
            let part = |i: usize, mark: &str| {
                block[i]
                    .strip_prefix(mark)
                    .unwrap_or_else(|| panic!("`{}`", block[i]))
            };
            let message = refusal(part(0, "- "), part(1, "+ "));
            (message != part(2, "= ")).then(|| format!("{}\n= {message}", block.join("\n")))
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
}

#[test]
fn a_link_rate_without_speed_or_lanes_or_beyond_any_link_is_refused() {
    let no_rates = "|2.5|2.5 GT/s|2.5 GT/s PCIe|2.55 GT/s x4|-2.5 GT/s x4|2.5 GT/s x64|2.5 GT/s x0|\
                    0.0 GT/s x1|1001.0 GT/s x1|99999999999 GT/s x1|.5 GT/s x1|2. GT/s x1";
    for bad in no_rates.split('|') {
        let place = format!("line 18 column {}", 77 + bad.len());
        let message = format!("found `{bad}`, expected speed and lanes such as `32.0 GT/s x16`");
        assert_eq!(
            refusal("2.5 GT/s x4", bad).split_once(": ").unwrap(),
            (&*place, &*message)
        );
    }
}

#[test]
fn parents_must_end_at_a_host_bridge() {
    let message = "`pci[0].parent`: the bridges above `0000:15:01.0` form a circle, expected a host bridge above";
    assert_eq!(refusal("pci0000:15", "0000:15:01.0"), message);
    assert_eq!(refusal("pci0000:15", "0000:17:02.0"), message);
    let chain = |count| {
        with_list("pci", count, |i| {
            let parent = if i == 0 {
                "pci0000:00".to_string()
            } else {
                format!("{:02x}:00.0", i - 1)
            };
            format!(r#"{{"address": "{i:02x}:00.0", "parent": "{parent}"}}"#)
        })
    };
    assert!(read(&chain(PciTree::MAX_DEPTH + 1)).is_ok());
    assert_eq!(
        read(&chain(PciTree::MAX_DEPTH + 2))
            .unwrap_err()
            .to_string(),
        "`pci[33].parent`: found `33 bridges or more`, expected at most `32` above `0000:21:00.0`"
    );
}

#[test]
fn lists_longer_than_a_machine_can_be_are_refused() {
    let nodes = |count| {
        with_list("numa_nodes", count, |i| {
            format!(r#"{{"os_index": {i}, "cpus": ""}}"#)
        })
    };
    let cores = |count| {
        with_list("pus", count, |i| {
            format!(r#"{{"package": 0, "core": {i}, "pus": "{}"}}"#, i.min(8191))
        })
    };
    let pci = |count| {
        with_list("pci", count, |i| {
            format!(r#"{{"address": "{i:x}:00:00.0", "parent": "pci{i:x}:00"}}"#)
        })
    };
    let gpus = |count| {
        with_list("gpus", count, |_| {
            r#"{"address": "1:0.0", "vendor": "amd"}"#.to_string()
        })
    };
    let nics = |count| with_list("nics", count, |i| format!(r#"{{"name": "n{i}"}}"#));
    let ports = |count| {
        with_list("nics", 1, |_| {
            let ports: Vec<String> = (1..=count)
                .map(|i| format!(r#"{{"number": {i}}}"#))
                .collect();
            format!(r#"{{"name": "n", "ports": [{}]}}"#, ports.join(","))
        })
    };
    let refused = |text: String| read(&text).unwrap_err().to_string();
    assert!(read(&nodes(1024)).is_ok() && read(&cores(8192)).is_ok() && read(&pci(4096)).is_ok());
    assert!(read(&nics(256)).is_ok() && read(&ports(16)).is_ok());
    assert_eq!(
        refused(nodes(1025)),
        "`numa_nodes`: found `1025` entries, expected at most `1024`"
    );
    assert_eq!(
        refused(cores(8193)),
        "`pus`: found `8193` entries, expected at most `8192`"
    );
    assert_eq!(
        refused(pci(4097)),
        "`pci`: found `4097` entries, expected at most `4096`"
    );
    assert_eq!(
        refused(gpus(257)),
        "`gpus`: found `257` entries, expected at most `256`"
    );
    assert_eq!(
        refused(nics(257)),
        "`nics`: found `257` entries, expected at most `256`"
    );
    assert_eq!(
        refused(ports(17)),
        "`nics[0].ports`: found `17` entries, expected at most `16`"
    );
}
