//! Contradictions, unbounded values, and repairs with a diagnostic.

use super::*;

/// The refusal of a text, which begins with its line.
fn refusal(text: &str) -> String {
    let bad = super::super::read(text, provenance()).expect_err("it was read");
    bad.to_string()
}

/// A part of `VERSION_2`, what stands in its place, the line and a part of the reason.
const REFUSED: &str = r#"
<topology version="2.0"> => <topology version="4.0"> => 3 => version `4.0`
type="Machine" => type="Rack" => 3 => no object of type `Machine`
type="L3Cache" => type="Machine" => 10 => a second object of type `Machine`
os_index="1" cpuset="0x000000f0" nodeset="0x00000002" => cpuset="0x000000f0" => 74 => a NUMA node without os_index
type="PU" os_index="7" => type="PU" os_index="6" => 103 => PU `6` is there twice
type="PU" os_index="7" => type="PU" os_index="8192" => 103 => expected a number below 8192
type="PU" os_index="7" => type="PU" os_index="-7" => 103 => os_index `-7`
type="PU" os_index="7" => type="PU" => 103 => a PU without os_index
type="NUMANode" os_index="2" => type="NUMANode" os_index="0" => 9 => NUMA node `0` is there twice
type="NUMANode" os_index="2" => type="NUMANode" os_index="1024" => 9 => expected a number below 1024
pci_busid="0000:20:00.1" => pci_busid="0000:20:00.0" => 62 => is there twice, first in line 53
pci_busid="0000:20:00.1" => pci_busid="0000:20:00" => 62 => `0000:20:00` is not a PCI address
0302 [10de:2330] => 0302 10de:2330 => 24 => pci_type `0302 10de:2330 [10de:16c1] a1`
"0000:[10-20]" => "0000:10-20" => 20 => bridge_pci `0000:10-20`
 bridge_pci="0000:[10-20]" =>  => 20 => a host bridge without bridge_pci
type="Bridge" gp_index="23" => type="PCIDev" gp_index="23" => 24 => the PCI device of line 23"#;

#[test]
fn what_contradicts_itself_is_refused_with_its_line() {
    for case in REFUSED.lines().skip(1) {
        let [from, to, line, reason] = case.split(" => ").collect::<Vec<_>>()[..] else {
            panic!("{case}");
        };
        assert!(VERSION_2.contains(from), "{from}");
        let said = refusal(&VERSION_2.replacen(from, to, 1));
        let is_at_line = said.starts_with(&format!("line {line}: "));
        assert!(is_at_line && said.contains(reason), "{case}: {said}");
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    for text in [VERSION_1, VERSION_2, VERSION_3] {
        for length in (0..text.trim_end().len()).step_by(7) {
            refusal(&text[..length]);
        }
    }
}

#[test]
fn a_set_has_words_of_32_bits_and_an_end() {
    let machine = |set: &str| {
        let to = format!("cpuset=\"{set}\" nodeset");
        VERSION_3.replacen("cpuset=\"0x00000003\" nodeset", &to, 1)
    };
    for (set, cpus) in [
        ("0x1,,0x3", "0-1,64"),
        ("3", "0-1"),
        (&format!("0x80000000{}", ",0x0".repeat(255)), "8191"),
    ] {
        assert_eq!(good(&machine(set)).0.numa_nodes[0].cpus.to_string(), cpus);
    }
    let long = format!("0x1{}", ",0x0".repeat(256));
    for set in ["0xf...f", "0x100000000", "0x+1", "0-3", &long] {
        let said = refusal(&machine(set));
        assert!(said.starts_with("line 6: cpuset `0"), "{said}");
    }
}

#[test]
fn a_device_that_no_program_could_name_is_left_out_with_a_word() {
    let long = "m".repeat(64);
    for name in ["mlx5,0", "../mlx5", "", &long, "bxi0"] {
        let text = VERSION_2.replace("name=\"mlx5_0\"", &format!("name=\"{name}\""));
        let (topology, said) = good(&text);
        let mut nics = topology.nics.iter();
        let is_out = nics.all(|nic| nic.address != Some(at("14:00.0")));
        assert!(is_out && topology.nics.len() == 5, "{name}");
        let is_told = |said: &String| said.ends_with("left out");
        assert!(said.iter().any(is_told), "{name}: {said:?}");
    }
    let (topology, said) = good(&VERSION_2.replace("name=\"mlx5_1\"", "name=\"mlx5_0\""));
    assert_eq!(nic(&topology, "mlx5_0").address, Some(at("14:00.0")));
    let is_told = |said: &String| said.starts_with("`mlx5_0`: a second NIC");
    assert!(said.iter().any(is_told), "{said:?}");
}

#[test]
fn more_nics_than_a_topology_holds_lose_the_plain_ones_first_and_findings_are_bounded() {
    let with = |interfaces: &mut dyn Iterator<Item = String>| {
        let one = |name| format!("<object type=\"OSDev\" name=\"{name}\" osdev_type=\"16\"/>\n");
        let package = "<object type=\"Package\"";
        let many: String = interfaces.map(one).collect();
        good(&VERSION_3.replacen(package, &(many + package), 1))
    };
    let (topology, said) = with(&mut (0..300).map(|index| format!("eth{index}")));
    assert_eq!(topology.nics.len(), 256);
    assert_eq!(nic(&topology, "mlx4_0").kind, NicKind::Verbs);
    assert_eq!(said.len(), 45, "one for each that is left out");
    let (_, said) = with(&mut (0..1000).map(|_| "eth0".to_string()));
    assert_eq!(said.len(), 101);
    assert!(said[100].starts_with("`hwloc`: 899 more findings"));
}

#[test]
fn bridges_that_the_file_leaves_out_are_not_made_up() {
    // as `lstopo --filter Bridge:none` writes it
    let line = |line: &str| match line.trim().starts_with("<object type=\"Bridge\"") {
        true => "<object type=\"Misc\">\n".to_string(),
        false => format!("{line}\n"),
    };
    let (topology, said) = good(&VERSION_3.lines().map(line).collect::<String>());
    assert_eq!(topology.pci.iter().count(), 2);
    // one NUMA node is all that is known
    assert_eq!(kind(&topology, "02:00.0", "mlx4_0"), PathType::Node);
    assert!(said.len() == 2 && said[0].contains("no host bridge above it"));
}

#[test]
fn a_device_on_a_bus_that_its_bridge_does_not_lead_to_stays_with_a_word() {
    let text = VERSION_2.replace("bridge_pci=\"0000:[13-13]\"", "bridge_pci=\"0000:[33-33]\"");
    let (topology, diagnostics) = good(&text);
    assert_eq!(kind(&topology, "13:00.0", "mlx5_0"), PathType::Pix);
    let wanted = "`0000:13:00.0`: stands below `0000:12:00.0`";
    assert!(diagnostics.iter().any(|said| said.starts_with(wanted)));
}

#[test]
fn distances_that_are_not_of_all_nodes_are_not_used() {
    let row = "30 41 31 10";
    for (text, from, to, finding) in [
        (
            VERSION_2,
            "1 0 2 </indexes>",
            "1 0 </indexes>",
            "9 values between 2 nodes",
        ),
        (VERSION_2, row, "30 41 31", "8 values between 3 nodes"),
        (
            VERSION_2,
            "1 0 2 </indexes>",
            "1 0 7 </indexes>",
            "9 values between 3 nodes",
        ),
        (VERSION_2, row, "30 41 31 -1", "`-1`"),
        (VERSION_2, row, "30 41 31 4000000000", "`4000000000`"),
        (VERSION_1, "value=\"4.100000\"", "value=\"NaN\"", "`NaN`"),
    ] {
        let (topology, said) = good(&text.replace(from, to));
        let mut nodes = topology.numa_nodes.iter();
        assert!(nodes.all(|node| node.distances.is_empty()), "{to}");
        let is_told = |said: &String| said.starts_with("`distances`: ") && said.contains(finding);
        assert!(said.iter().any(is_told), "{to}: {said:?}");
    }
    let by_gp = VERSION_2.replace("indexing=\"os\"", "indexing=\"gp\"");
    let by_gp = by_gp.replace("1 0 2 </indexes>", "51 3 4 </indexes>");
    assert_eq!(cpus(&good(&by_gp).0), cpus(&good(VERSION_2).0));
}

#[test]
fn what_is_not_hwlocs_is_refused() {
    for (text, reason) in [
        ("<system version=\"1\"/>", "line 1: an element `system`"),
        ("", "line 1: not well-formed XML"),
        ("GPU0 NIC0", "line 1: not well-formed XML"),
        (
            &VERSION_3.replace("new1", "new\0"),
            "line 27: not well-formed XML",
        ),
        (
            &" ".repeat(crate::import::MAX_BYTES + 1),
            "longer than 16777216 bytes",
        ),
    ] {
        let said = refusal(text);
        assert!(said.starts_with(reason), "{said}");
    }
}

/// 2 MiB is what Rust gives a thread, and this is a build without optimisation: the deepest stack a caller can have.
fn on_a_small_stack(text: String) -> String {
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let thread = thread.spawn(move || refusal(&text));
    thread.unwrap().join().unwrap()
}

#[test]
fn elements_inside_each_other_by_the_hundred_thousand_do_not_overflow_the_stack() {
    let nested = |open: &str, close: &str| {
        let (inside, outside) = (open.repeat(100_000), close.repeat(100_000));
        format!(
            "<topology version=\"2.0\">\n<object type=\"Machine\">{inside}{outside}</object></topology>"
        )
    };
    let objects = nested("<object type=\"Group\">", "</object>");
    // unknown elements are parsed, and not followed
    let unknown = format!(
        "<topology>{}{}</topology>",
        "<a>".repeat(127),
        "</a>".repeat(127)
    );
    for (text, reason) in [
        (objects, "line 2: elements inside each other"),
        (unknown, "line 1: no object of type `Machine`"),
        ("<object>".repeat(127), "line 1: not well-formed XML"),
    ] {
        let said = on_a_small_stack(text);
        assert!(said.starts_with(reason), "{said}");
    }
}

#[test]
fn of_two_nodes_with_the_same_cpus_one_keeps_them() {
    let text = VERSION_2.replace(" subtype=\"GPUMemory\"", "");
    let (topology, diagnostics) = good(&text);
    assert_eq!(cpus(&topology), cpus(&good(VERSION_2).0));
    assert!(diagnostics[0].starts_with("`NUMANode 2`: CPUs of another node"));
}
