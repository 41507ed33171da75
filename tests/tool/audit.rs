//! `audit` on whole streams: its statuses, its input, and what a terminal sees of hostile reports.

use super::*;
use nic_placement_core::config::hostlist::HostList;
use nic_placement_fleet::audit::hostlist::compressed;
use serde_json::{Value, json};

fn fixture(name: &str) -> String {
    fs::read_to_string(answer::checkout("tests/machines/audit").join(name)).unwrap()
}

/// What `audit -` answers to this input.
fn piped(input: &str, arguments: &[&str]) -> Answer {
    let mut audit = tool();
    audit.arg("audit").args(arguments).arg("-");
    Answer::to(&mut audit, input.as_bytes())
}

#[test]
fn any_order_and_any_spacing_of_nodes_gives_the_same_bytes() {
    let text = fixture("cluster.json");
    let mut lines: Vec<&str> = text.lines().collect();
    let [plain, json] = [&[][..], &["--json"]].map(|form| piped(&text, form).out);
    assert!(plain.len() > 500 && json.len() > 500);
    for turn in 0..lines.len() {
        lines.rotate_left(1);
        lines.swap(0, turn);
        let pretty = |line: &&str| format!("{:#}", serde_json::from_str::<Value>(line).unwrap());
        let input = match turn % 2 {
            0 => lines.join("\n"),
            _ => lines.iter().map(pretty).collect::<Vec<_>>().join("\n"),
        };
        assert_eq!(piped(&input, &[]).out, plain);
        assert_eq!(piped(&input, &["--json"]).out, json);
    }
}

#[test]
fn an_audit_ends_with_0_where_all_are_alike_or_there_is_one_and_with_1_where_one_differs_or_is_no_report()
 {
    let (alike, cluster) = (fixture("alike.json"), fixture("cluster.json"));
    for (input, status) in [
        (&*alike, 0),
        // a node alone has none to differ from
        (cluster.lines().next().unwrap(), 0),
        (&cluster, 1),
        ("", 1),
        ("{", 1),
        (&format!("{alike}x"), 1),
    ] {
        piped(input, &[]).ends(status);
    }
    run("audit /nowhere/at/all").ends(1);
    let twice = piped(&alike.repeat(2), &[]);
    twice.ends(1).says(&["audit: nodes were reported more"]);
    assert_eq!(twice.err.lines().count(), 1, "{twice}");
}

#[test]
fn what_an_audit_writes_as_names_the_configuration_file_reads() {
    let names = "gpu001 gpu002 gpu010 n9 n10 a1-ib a2-ib login n01 rack2-node16".split(' ');
    let names: Vec<&str> = names.collect();
    let list = HostList::parse(&compressed(names.clone())).unwrap();
    assert_eq!(names.into_iter().find(|name| !list.has(name)), None);
    let others = ["gpu003", "n1", "n8", "a3-ib", "logi"];
    assert_eq!(others.into_iter().find(|name| list.has(name)), None);
}

// an image that was not upgraded looked like all others
#[test]
fn a_node_with_another_version_of_the_tool_differs_and_one_that_does_not_tell_it_does_not() {
    let mut report = super::json("check --json --only odd");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(report["versions"]["nic-placement"], json!(version));
    let mut input = String::new();
    for (host, version) in [("n1", "0.1"), ("n2", "0.1"), ("n3", "0.0"), ("n4", "")] {
        report["host"] = json!(host);
        report["versions"]["nic-placement"] = json!(version);
        if version.is_empty() {
            let versions = report["versions"].as_object_mut().unwrap();
            versions.remove("nic-placement");
        }
        input.push_str(&format!("{report}\n"));
    }
    let audit = piped(&input, &[]);
    let is_so = audit.out.contains("  n3\n") && !audit.out.contains("  n4\n");
    assert!(is_so, "{audit}");
    audit.says(&["nic-placement: 0.0, its kind 0.1 (2 of 4)"]);
    // a machine that is only described has no tool on it
    let described = super::json("check --json --machine dgx-h100");
    assert_eq!(described["versions"], json!({}));
    // and what check prints of it, an audit reads
    let mut report = described;
    let found = (&report["version"], &report["host"]);
    assert_eq!(found, (&json!(2), &Value::Null));
    let mut named = |host| {
        report["host"] = json!(host);
        format!("{report:#}\n")
    };
    piped(&[named("n1"), named("n2")].concat(), &[]).ends(0);
}

#[test]
fn check_tells_what_steps_get_that_do_not_ask_where_a_line_loads_the_plugin() {
    let place = Place::new("audit-default");
    let ok = "that do not ask: `default=closest` (";
    let (ours, sets) = ("libnic_placement.so", "default=closest rollout=10%");
    for (line, default, is_told) in [
        (&*format!("{ours} {sets}"), json!(sets), true),
        (ours, json!("no default="), false),
        ("spank_pyxis.so", Value::Null, false),
    ] {
        let plugstack = place.file("plugstack.conf", format!("optional {line}\n"));
        let more = format!("--machine dgx-h100 --plugstack {plugstack}");
        let report = super::json(&format!("check --json {more}"));
        assert_eq!(report["default"], default);
        let text = flat(&run(&format!("check {more}")).out);
        assert_eq!(text.contains(ok), is_told, "{text}");
        let is_so = is_told || default.is_null() || !text.contains("configuration");
        assert!(is_so, "{text}");
    }
}

#[test]
fn check_tells_the_firmware_the_versions_and_the_host_that_the_node_s_files_name() {
    let place = Place::new("facts");
    let node = nic_placement_testing::snapshot_of("dgx-h100");
    let node = place.file("node.machine", node);
    run(&format!("snapshot --unpack {node} {}", place.at("tree"))).ends(0);
    for (path, text) in [
        ("proc/sys/kernel/hostname", "gpu007.cluster.example"),
        ("proc/sys/kernel/osrelease", "6.8.0-31"),
        ("sys/devices/virtual/dmi/id/bios_version", "1.6.7"),
        ("sys/module/mlx5_core/version", "24.04-0.6.6"),
        ("sys/class/infiniband/mlx5_3/fw_ver", "28.39.1002"),
        ("sys/class/infiniband/mlx5_3/board_id", "MT_0000000838"),
    ] {
        place.file(&format!("tree/{path}"), format!("{text}\n"));
    }
    let report = super::json(&format!("check --json --topology {}", place.at("tree")));
    assert_eq!(report["host"], "gpu007");
    let versions = json!({"kernel": "6.8.0-31", "BIOS": "1.6.7", "mlx5_core": "24.04-0.6.6"});
    assert_eq!(report["versions"], versions);
    let nics = report["nics"].as_array().unwrap();
    let nic = nics.iter().find(|nic| nic["name"] == "mlx5_3").unwrap();
    let facts = json!([
        nic["firmware"],
        nic["board"],
        nic["link"]["width"],
        nic["ports"][0]["state"]
    ]);
    assert_eq!(facts, json!(["28.39.1002", "MT_0000000838", 16, "active"]));
    let told = nics.iter().filter(|nic| nic["firmware"].is_string());
    assert_eq!(told.count(), 1);
    let gpus = report["gpus"].as_array().unwrap().iter();
    let nics = gpus.map(|gpu| gpu["nics"].as_array().unwrap().len());
    let nics: Vec<_> = nics.collect();
    assert_eq!(nics, [1; 8]);
}

#[test]
fn nothing_in_a_report_moves_a_terminal_or_makes_a_line_wider_than_a_page() {
    let bad = "\u{1b}[2J\u{9b}31m\u{7f}\u{202e}\u{7}\nok     all is well ";
    let text = fixture("cluster.json");
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut reports: Vec<Value> = lines.collect();
    for (number, report) in reports.iter_mut().enumerate() {
        let own = format!("{bad}{}", "x".repeat(150 * (number % 3)));
        report["machine"] = json!(bad);
        report["versions"][bad] = json!(own);
        report["nics"][0]["name"] = json!(own);
        report["nics"][0]["firmware"] = json!(own);
        report["nics"][0]["ports"][0]["state"] = json!(own);
        report["findings"][0] = json!({"level": "fail", "code": own, "text": own});
    }
    reports[0]["host"] = json!(bad);
    reports[1]["version"] = json!(7);
    reports[2]["format"] = json!(bad);
    let stream = reports.iter().map(|report| format!("{report}\n"));
    let stream = stream.collect::<String>() + bad;
    let place = Place::new("audit");
    let file = place.file("\u{1b}[2J.json", &stream);
    for answer in [piped(&stream, &[]), ran(&["audit", &file])] {
        answer.ends(1).says(&[r"\u{1b}[2J"]);
        is_harmless(&answer.both());
        let is_so = !answer.both().lines().any(|line| line.starts_with("ok"));
        assert!(is_so, "{answer}");
        fits(&answer.out, WIDTH);
    }
}
