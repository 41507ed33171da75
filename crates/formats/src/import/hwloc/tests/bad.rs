//! Contradictions, unbounded values, and repairs with a diagnostic.

use super::*;
use proptest::prelude::*;

/// The refusal of a text, which begins with its line.
fn refusal(text: &str) -> String {
    let bad = super::super::read(text, provenance()).expect_err("it was read");
    bad.to_string()
}

/// A part of `VERSION_2`, what stands in its place, the line (0 for the whole file) and a part of the reason.
const REFUSED: &str = r#"
<topology version="2.0"> => <topology version="4.0"> => 1 => version `4.0`
<topology version="2.0"> => <topology version="1.0"> => 1 => expected `topology` of hwloc 2 or 3
type="Machine" => type="Rack" => 1 => 0 objects of type `Machine`
type="L3Cache" => type="Machine" => 1 => 2 objects of type `Machine`
os_index="1" cpuset="0x000000f0" nodeset="0x00000002" => cpuset="0x000000f0" => 74 => os_index `` of a NUMANode
type="PU" os_index="7" => type="PU" os_index="6" => 103 => PU `6` is there twice
type="PU" os_index="7" => type="PU" os_index="8192" => 103 => expected a number below 8192
type="PU" os_index="7" => type="PU" os_index="-7" => 103 => os_index `-7`
type="PU" os_index="7" => type="PU" => 103 => os_index `` of a PU
type="NUMANode" os_index="2" => type="NUMANode" os_index="0" => 9 => NUMA node `0` is there twice
type="NUMANode" os_index="2" => type="NUMANode" os_index="1024" => 9 => expected a number below 1024
pci_busid="0000:20:00.1" => pci_busid="0000:20:00.0" => 62 => is there twice
pci_busid="0000:20:00.1" => pci_busid="0000:20:00" => 62 => pci_busid `0000:20:00`
0302 [10de:2330] => 0302 10de:2330 => 24 => pci_type `0302 10de:2330 [10de:16c1] a1`
"0000:[10-20]" => "0000:10-20" => 20 => bridge_pci `0000:10-20`
 bridge_pci="0000:[10-20]" =>  => 20 => bridge_pci ``"#;

#[test]
fn what_contradicts_itself_is_refused_with_its_line() {
    for case in REFUSED.lines().skip(1) {
        let [from, to, line, reason] = case.split(" => ").collect::<Vec<_>>()[..] else {
            panic!("{case}");
        };
        assert!(VERSION_2.contains(from), "{from}");
        let said = refusal(&VERSION_2.replacen(from, to, 1));
        let is_at_line = line == "0" || said.starts_with(&format!("line {line}: "));
        assert!(is_at_line && said.contains(reason), "{case}: {said}");
    }
}

proptest! {
    #[test]
    fn no_text_of_a_value_makes_the_reader_panic(text in "[^<&\"]*") {
        for value in ["mlx4_0", "mlx5_0", "0000:04:00.0", "0x00000003", "Accelerator"] {
            for machine in [VERSION_2, VERSION_3] {
                drop(super::super::read(&machine.replace(value, &text), provenance()));
            }
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
fn a_device_that_no_program_could_name_is_left_out_and_too_many_are_refused_with_bounded_findings()
{
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
    let twice = VERSION_2.replace("name=\"mlx5_1\"", "name=\"mlx5_0\"");
    assert!(refusal(&twice).contains("found `mlx5_0`, which"));
    let with = |count, name: fn(usize) -> String| {
        let one = |name| format!("<object type=\"OSDev\" name=\"{name}\" osdev_type=\"32\"/>\n");
        let many: String = (0..count).map(name).map(one).collect();
        let package = "<object type=\"Package\"";
        VERSION_3.replacen(package, &(many + package), 1)
    };
    assert!(refusal(&with(256, |at| format!("mlx5_{at}"))).contains("expected at most `256`"));
    let (_, said) = good(&with(100, |_| "a,b".to_string()));
    assert_eq!(said.len(), 65);
    assert_eq!(said[64], "`file`: 36 more findings");
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
fn distances_that_are_not_of_all_nodes_are_not_used() {
    let row = "30 41 31 10";
    for (text, from, to, finding) in [
        (VERSION_2, "1 0 2 </", "1 0 </", "9 values between 2"),
        (VERSION_2, row, "30 41 31", "8 values between 3 nodes"),
        (VERSION_2, "1 0 2 </", "1 0 7 </", "9 values between 3"),
        (VERSION_2, row, "30 41 31 -1", "`-1`"),
        (VERSION_2, row, "30 41 31 4000000000", "`4000000000`"),
    ] {
        let (topology, said) = good(&text.replace(from, to));
        let mut nodes = topology.numa_nodes.iter();
        assert!(nodes.all(|node| node.distances.is_empty()), "{to}");
        let is_told = |said: &String| said.starts_with("`distances`: ") && said.contains(finding);
        assert!(said.iter().any(is_told), "{to}: {said:?}");
    }
}

#[test]
fn what_is_not_hwlocs_is_refused_and_so_is_a_file_that_was_cut_anywhere() {
    let nul = VERSION_3.replace("new1", "new\0");
    let blank = " ".repeat(crate::import::MAX_BYTES + 1);
    for (text, reason) in [
        ("<system version=\"1\"/>", "line 1: an element `system`"),
        ("", "line 1: not well-formed XML"),
        ("GPU0 NIC0", "line 1: not well-formed XML"),
        (&nul, "line 27: not well-formed XML"),
        (&blank, "longer than 16777216 bytes"),
    ] {
        let said = refusal(text);
        assert!(said.starts_with(reason), "{said}");
    }
    for text in [VERSION_2, VERSION_3] {
        for length in (0..text.trim_end().len()).step_by(7) {
            refusal(&text[..length]);
        }
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
    let nested = |inside: &str, open: &str, close: &str| {
        let (opened, closed) = (open.repeat(100_000), close.repeat(100_000));
        format!("<topology version=\"2.0\">\n{inside}{opened}{closed}</topology>")
    };
    // unknown elements are parsed, and not followed
    let groups = nested("", "<object type=\"Group\">", "</object>");
    for (text, reason) in [
        (groups, "line 2: more than 128 objects"),
        (nested("", "<a>", "</a>"), "line 1: 0 objects"),
        ("<object>".repeat(127), "line 1: not well-formed XML"),
    ] {
        let said = on_a_small_stack(text);
        assert!(said.starts_with(reason), "{said}");
    }
}
