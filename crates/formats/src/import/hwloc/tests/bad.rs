//! Contradictions, unbounded values, and repairs with a diagnostic.

use super::*;

/// The refusal of a text.
fn refusal(text: &str) -> String {
    super::super::read(text, provenance())
        .expect_err("it was read")
        .to_string()
}

#[test]
fn what_contradicts_itself_is_refused_with_its_line() {
    for (from, to, message) in [
        (
            "<topology version=\"2.0\">",
            "<topology version=\"4.0\">",
            "line 3: version `4.0` of hwloc's XML: expected 1, 2 or 3",
        ),
        (
            "type=\"Machine\"",
            "type=\"Rack\"",
            "line 3: no object of type `Machine`",
        ),
        (
            "type=\"L3Cache\"",
            "type=\"Machine\"",
            "line 10: a second object of type `Machine`: expected one machine",
        ),
        (
            "os_index=\"1\" cpuset=\"0x000000f0\" nodeset=\"0x00000002\"",
            "cpuset=\"0x000000f0\"",
            "line 74: a NUMA node without os_index",
        ),
        (
            "type=\"PU\" os_index=\"7\"",
            "type=\"PU\" os_index=\"6\"",
            "line 103: PU `6` is there twice",
        ),
        (
            "type=\"PU\" os_index=\"7\"",
            "type=\"PU\" os_index=\"8192\"",
            "line 103: PU `8192`: expected a number below 8192",
        ),
        (
            "type=\"PU\" os_index=\"7\"",
            "type=\"PU\" os_index=\"-7\"",
            "line 103: os_index `-7`: expected a number",
        ),
        (
            "type=\"PU\" os_index=\"7\"",
            "type=\"PU\"",
            "line 103: a PU without os_index",
        ),
        (
            "type=\"NUMANode\" os_index=\"2\"",
            "type=\"NUMANode\" os_index=\"0\"",
            "line 9: NUMA node `0` is there twice",
        ),
        (
            "type=\"NUMANode\" os_index=\"2\"",
            "type=\"NUMANode\" os_index=\"1024\"",
            "line 9: NUMA node `1024`: expected a number below 1024",
        ),
        (
            "pci_busid=\"0000:20:00.1\"",
            "pci_busid=\"0000:20:00.0\"",
            "line 62: `0000:20:00.0` is there twice, first in line 53",
        ),
        (
            "pci_busid=\"0000:20:00.1\"",
            "pci_busid=\"0000:20:00\"",
            "line 62: `0000:20:00` is not a PCI address: expected `domain:bus:device.function` such as `0000:1b:00.0`",
        ),
        (
            "0302 [10de:2330]",
            "0302 10de:2330",
            "line 24: pci_type `0302 10de:2330 [10de:16c1] a1`: expected `class [vendor:device] …` such as `0302 [10de:2330]`",
        ),
        (
            "\"0000:[10-20]\"",
            "\"0000:10-20\"",
            "line 20: bridge_pci `0000:10-20`: expected a domain and buses such as `0000:[15-1f]`",
        ),
        (
            " bridge_pci=\"0000:[10-20]\"",
            "",
            "line 20: a host bridge without bridge_pci",
        ),
        (
            "type=\"Bridge\" gp_index=\"23\"",
            "type=\"PCIDev\" gp_index=\"23\"",
            "line 24: `0000:13:00.0` is inside the PCI device of line 23",
        ),
    ] {
        assert!(VERSION_2.contains(from), "{from}");
        let text = VERSION_2.replacen(from, to, 1);
        assert_eq!(refusal(&text), message);
    }
}

#[test]
fn a_set_has_words_of_32_bits_and_an_end() {
    let machine = |set: &str| {
        VERSION_3.replacen(
            "cpuset=\"0x00000003\" nodeset",
            &format!("cpuset=\"{set}\" nodeset"),
            1,
        )
    };
    for (set, cpus) in [
        ("0x1,,0x3", "0-1,64"),
        ("3", "0-1"),
        (&format!("0x80000000{}", ",0x0".repeat(255)), "8191"),
    ] {
        assert_eq!(good(&machine(set)).0.numa_nodes[0].cpus.to_string(), cpus);
    }
    for set in [
        "0xf...f",
        "0x100000000",
        "0x+1",
        "0-3",
        &format!("0x1{}", ",0x0".repeat(256)),
    ] {
        let said = refusal(&machine(set));
        assert!(said.starts_with("line 6: cpuset `0"), "{said}");
        assert!(
            said.ends_with("expected words such as `0x0000ffff,,0x0` of at most 8192 bits"),
            "{said}"
        );
    }
}

#[test]
fn a_device_that_no_program_could_name_is_left_out_with_a_word() {
    let long = "m".repeat(64);
    for name in ["mlx5,0", "../mlx5", "", &long] {
        let text = VERSION_2.replace("name=\"mlx5_0\"", &format!("name=\"{name}\""));
        let (topology, diagnostics) = good(&text);
        assert!(
            topology
                .nics
                .iter()
                .all(|nic| nic.address != Some(at("14:00.0"))),
            "{name}"
        );
        let finding = "a name that no library's variable could hold: this NIC is left out";
        assert!(
            diagnostics.iter().any(|said| said.ends_with(finding)),
            "{name}: {diagnostics:?}"
        );
    }
    let (topology, diagnostics) = good(&VERSION_2.replace("name=\"mlx5_1\"", "name=\"mlx5_0\""));
    assert_eq!(nic(&topology, "mlx5_0").address, Some(at("14:00.0")));
    assert!(diagnostics.contains(&"`mlx5_0`: a second NIC of this name: left out".to_string()));
    let (topology, diagnostics) = good(&VERSION_2.replace("name=\"mlx5_0\"", "name=\"bxi0\""));
    assert_eq!(topology.nics.len(), 5);
    assert!(diagnostics.contains(
        &"`bxi0`: a Portals adapter, which no library here places: left out".to_string()
    ));
}

#[test]
fn more_nics_than_a_topology_holds_lose_the_plain_ones_first() {
    let plain =
        |index: usize| format!("<object type=\"OSDev\" name=\"eth{index}\" osdev_type=\"16\"/>\n");
    let many: String = (0..300).map(plain).collect();
    let at_the_front = VERSION_3.find("<object type=\"Package\"").unwrap();
    let text = format!(
        "{}{many}{}",
        &VERSION_3[..at_the_front],
        &VERSION_3[at_the_front..]
    );
    let (topology, diagnostics) = good(&text);
    assert_eq!(topology.nics.len(), 256);
    assert_eq!(nic(&topology, "mlx4_0").kind, NicKind::Verbs);
    assert_eq!(diagnostics.len(), 45, "one for each that is left out");
}

#[test]
fn findings_are_bounded() {
    let twin = "<object type=\"OSDev\" name=\"eth0\" osdev_type=\"16\"/>\n".repeat(1000);
    let text = VERSION_3.replacen(
        "<object type=\"Package\"",
        &format!("{twin}<object type=\"Package\""),
        1,
    );
    let (_, diagnostics) = good(&text);
    assert_eq!(diagnostics.len(), 101);
    assert_eq!(
        diagnostics[100],
        "`hwloc`: 899 more findings about this file"
    );
}

#[test]
fn bridges_that_the_file_leaves_out_are_not_made_up() {
    // as `lstopo --filter Bridge:none` writes it
    let mut text = String::new();
    for line in VERSION_3.lines() {
        match line.trim() {
            bridge if bridge.starts_with("<object type=\"Bridge\"") => {
                text.push_str("<object type=\"Misc\">\n");
            }
            line => text.extend([line, "\n"]),
        }
    }
    let (topology, diagnostics) = good(&text);
    assert_eq!(topology.pci.iter().count(), 2);
    assert_eq!(
        kind(&topology, "02:00.0", "mlx4_0"),
        PathType::Node,
        "one NUMA node is all that is known"
    );
    assert_eq!(diagnostics.len(), 2);
    assert!(
        diagnostics[0].ends_with(
            "no host bridge above it in the file: only what is on its bus counts as near"
        )
    );
}

#[test]
fn a_device_on_a_bus_that_its_bridge_does_not_lead_to_stays_with_a_word() {
    let text = VERSION_2.replace("bridge_pci=\"0000:[13-13]\"", "bridge_pci=\"0000:[33-33]\"");
    let (topology, diagnostics) = good(&text);
    assert_eq!(kind(&topology, "13:00.0", "mlx5_0"), PathType::Pix);
    let wanted =
        "`0000:13:00.0`: stands below `0000:12:00.0`, which leads to other buses: it is left there";
    assert!(
        diagnostics.iter().any(|said| said == wanted),
        "{diagnostics:?}"
    );
}

#[test]
fn distances_that_are_not_of_all_nodes_are_not_used() {
    for (from, to, finding) in [
        (
            "1 0 2 </indexes>",
            "1 0 </indexes>",
            "a matrix of 9 values between 2 nodes, where the file has 3: not used",
        ),
        (
            "30 41 31 10",
            "30 41 31",
            "a matrix of 8 values between 3 nodes, where the file has 3: not used",
        ),
        (
            "1 0 2 </indexes>",
            "1 0 7 </indexes>",
            "a matrix of 9 values between 3 nodes, where the file has 3: not used",
        ),
        (
            "30 41 31 10",
            "30 41 31 -1",
            "`-1` is not a distance: not used",
        ),
        (
            "30 41 31 10",
            "30 41 31 4000000000",
            "`4000000000` is not a distance: not used",
        ),
    ] {
        let (topology, diagnostics) = good(&VERSION_2.replace(from, to));
        assert!(
            topology
                .numa_nodes
                .iter()
                .all(|node| node.distances.is_empty()),
            "{to}"
        );
        assert!(
            diagnostics.contains(&format!("`distances`: {finding}")),
            "{to}: {diagnostics:?}"
        );
    }
    let by_gp = VERSION_2
        .replace("indexing=\"os\"", "indexing=\"gp\"")
        .replace("1 0 2 </indexes>", "51 3 4 </indexes>");
    assert_eq!(cpus(&good(&by_gp).0), cpus(&good(VERSION_2).0));
    let (old, diagnostics) = good(&VERSION_1.replace("value=\"4.100000\"", "value=\"NaN\""));
    assert!(old.numa_nodes.iter().all(|node| node.distances.is_empty()));
    assert!(diagnostics.contains(&"`distances`: `NaN` is not a distance: not used".to_string()));
}

#[test]
fn what_is_not_hwlocs_is_refused() {
    assert_eq!(
        refusal("<system version=\"1\"/>"),
        "line 1: an element `system`: expected hwloc's `topology`"
    );
    assert!(refusal("").starts_with("line 1: not well-formed XML: "));
    assert!(refusal("GPU0 NIC0").starts_with("line 1: not well-formed XML: "));
    let nul = refusal(&VERSION_3.replace("new1", "new\0"));
    assert!(nul.starts_with("line 27: not well-formed XML: "), "{nul}");
    assert_eq!(
        refusal(&" ".repeat(crate::import::MAX_BYTES + 1)),
        "longer than 16777216 bytes"
    );
}

#[test]
fn entities_are_refused_before_they_grow() {
    let mut laughs = String::from("<!DOCTYPE topology [\n<!ENTITY a0 \"ha\">\n");
    for level in 1..30 {
        let lower = format!("&a{};", level - 1).repeat(10);
        laughs.push_str(&format!("<!ENTITY a{level} \"{lower}\">\n"));
    }
    laughs.push_str("]>\n<topology>&a29;</topology>");
    assert_eq!(
        refusal(&laughs),
        "line 2: the file declares entities, which no topology needs"
    );
}

/// 2 MiB is what Rust gives a thread, and this is a build without optimisation: the deepest stack a caller can have.
fn on_a_small_stack(text: String) -> String {
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    thread
        .spawn(move || refusal(&text))
        .unwrap()
        .join()
        .unwrap()
}

#[test]
fn elements_inside_each_other_by_the_hundred_thousand_do_not_overflow_the_stack() {
    let nested = |open: &str, close: &str| {
        let (inside, outside) = (open.repeat(100_000), close.repeat(100_000));
        format!(
            "<topology version=\"2.0\">\n<object type=\"Machine\">{inside}{outside}</object></topology>"
        )
    };
    let objects = on_a_small_stack(nested("<object type=\"Group\">", "</object>"));
    assert_eq!(
        objects,
        "line 2: elements inside each other: expected at most 128"
    );
    // we parse unknown elements but do not follow them
    let (inside, outside) = ("<a>".repeat(127), "</a>".repeat(127));
    assert_eq!(
        on_a_small_stack(format!("<topology>{inside}{outside}</topology>")),
        "line 1: no object of type `Machine`"
    );
    let never_closed = on_a_small_stack("<object>".repeat(127));
    assert!(
        never_closed.starts_with("line 1: not well-formed XML: "),
        "{never_closed}"
    );
}

#[test]
fn of_two_nodes_with_the_same_cpus_one_keeps_them() {
    let text = VERSION_2.replace(" subtype=\"GPUMemory\"", "");
    let (topology, diagnostics) = good(&text);
    assert_eq!(cpus(&topology), cpus(&good(VERSION_2).0));
    assert_eq!(
        diagnostics[0],
        "`NUMANode 2`: CPUs of another node too: its own are taken to be none"
    );
}
