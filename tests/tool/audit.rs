//! `audit` on whole streams: its statuses, its input, and what a terminal sees of hostile reports.

use super::{Place, WIDTH, is_harmless, run, tool};
use nic_placement_core::config::hostlist::HostList;
use nic_placement_fleet::audit::hostlist::compressed;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

fn fixture(name: &str) -> String {
    let path = Path::new(env!("NIC_PLACEMENT_ROOT"))
        .join("tests/machines/audit")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

/// What `audit -` answers to this input.
fn piped(input: &str, arguments: &[&str]) -> Output {
    let mut child = tool();
    child.arg("audit").args(arguments).arg("-");
    let mut child = child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn any_order_and_any_spacing_of_nodes_gives_the_same_bytes() {
    let text = fixture("cluster.json");
    let mut lines: Vec<&str> = text.lines().collect();
    let answers: Vec<[Vec<u8>; 2]> = (0..lines.len())
        .map(|turn| {
            lines.rotate_left(1);
            lines.swap(0, turn);
            let pretty = |line: &&str| serde_json::from_str::<Value>(line).unwrap();
            let input: String = match turn % 2 {
                0 => lines.join("\n"),
                _ => lines
                    .iter()
                    .map(|line| format!("{:#}\n", pretty(line)))
                    .collect(),
            };
            [&[][..], &["--json"]].map(|form| piped(&input, form).stdout)
        })
        .collect();
    assert!(
        answers
            .iter()
            .all(|answer| *answer == answers[0] && answer[0].len() > 500)
    );
}

#[test]
fn an_audit_ends_with_0_where_all_are_alike_or_there_is_one_and_with_1_where_one_differs_or_is_no_report()
 {
    let status = |input: &str| piped(input, &[]).status.code();
    let (alike, cluster) = (fixture("alike.json"), fixture("cluster.json"));
    assert_eq!((status(&alike), status(&cluster)), (Some(0), Some(1)));
    let twice = piped(&(alike.clone() + &alike), &[]);
    assert_eq!(twice.status.code(), Some(1), "each node twice");
    let said = String::from_utf8(twice.stderr).unwrap();
    assert_eq!(
        said, "nic-placement: audit: nodes were reported more than once\n",
        "none of them differs"
    );
    assert_eq!(
        (status(""), status("{"), status(&(alike + "x"))),
        (Some(1), Some(1), Some(1))
    );
    assert_eq!(run(&["audit", "/nowhere/at/all"]).status.code(), Some(1));
    assert_eq!(
        status(cluster.lines().next().unwrap()),
        Some(0),
        "a node alone has none to differ from"
    );
}

#[test]
fn the_nodes_that_differ_are_a_textfile_s_and_an_input_without_a_report_leaves_it_as_it_was() {
    let place = Place::new("audit-textfile");
    let file = place.file("audit.prom", "old");
    let text = |input: &str| {
        piped(input, &["--textfile", &file]);
        std::fs::read_to_string(&file).unwrap()
    };
    assert_eq!(text("{"), "old");
    let of_cluster = text(&fixture("cluster.json"));
    for line in [
        "nic_placement_audited_nodes 13",
        "nic_placement_node_differences{node=\"gpu003\",machine=\"DGXH100\"} 2",
        "nic_placement_node_differences{node=\"gpu006\",machine=\"DGXH100\"} 1",
        "nic_placement_node_differences{node=\"login1\",machine=\"PowerEdge R760\"} 1",
    ] {
        assert!(
            of_cluster.lines().any(|other| other == line),
            "{line} is not in\n{of_cluster}"
        );
    }
    assert_eq!(
        of_cluster.matches("_differences{").count(),
        7,
        "{of_cluster}"
    );
    assert!(!text(&fixture("alike.json")).contains("_differences{"));
    assert_eq!(
        piped("", &["--textfile", "x"]).status.code(),
        Some(2),
        "its name ends with .prom"
    );
}

#[test]
fn what_an_audit_writes_as_names_the_configuration_file_reads() {
    let names = [
        "gpu001",
        "gpu002",
        "gpu010",
        "n9",
        "n10",
        "a1-ib",
        "a2-ib",
        "login",
        "n01",
        "rack2-node16",
    ];
    let list = HostList::parse(&compressed(names)).unwrap();
    let missed: Vec<&str> = names.into_iter().filter(|name| !list.has(name)).collect();
    assert_eq!(
        missed, [""; 0],
        "`NodeName=` takes the list of those that differ as it stands"
    );
    assert!(
        !["gpu003", "n1", "n8", "a3-ib", "logi"]
            .iter()
            .any(|name| list.has(name))
    );
}

// an image that was not upgraded looked like all others
#[test]
fn a_node_with_another_version_of_the_tool_differs_and_one_that_does_not_tell_it_does_not() {
    let report = run(&["check", "--json", "--only", "odd"]).stdout;
    let mut report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(
        report["versions"]["nic-placement"],
        json!(env!("CARGO_PKG_VERSION"))
    );
    let mut input = String::new();
    for (host, version) in [("n1", "0.1"), ("n2", "0.1"), ("n3", "0.0"), ("n4", "")] {
        report["host"] = json!(host);
        report["versions"]["nic-placement"] = json!(version);
        if version.is_empty() {
            report["versions"]
                .as_object_mut()
                .unwrap()
                .remove("nic-placement");
        }
        input.push_str(&format!("{report}\n"));
    }
    let output = piped(&input, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("  n3\n") && !text.contains("  n4\n"),
        "{text}"
    );
    assert!(
        text.contains("nic-placement: 0.0, its kind 0.1 (2 of 4)"),
        "{text}"
    );
    // a machine that is only described has no tool on it
    let described = run(&["check", "--json", "--machine", "dgx-h100"]).stdout;
    let described: Value = serde_json::from_slice(&described).unwrap();
    assert_eq!(described["versions"], json!({}));
}

#[test]
fn check_tells_what_steps_get_that_do_not_ask_where_a_line_loads_the_plugin() {
    let place = Place::new("audit-default");
    let told = |line: &str| {
        let plugstack = place.file("plugstack.conf", line);
        let more = ["--machine", "dgx-h100", "--plugstack", &plugstack];
        let report = run(&[&["check", "--json"][..], &more].concat()).stdout;
        let text = String::from_utf8(run(&[&["check"][..], &more].concat()).stdout).unwrap();
        let report: Value = serde_json::from_slice(&report).unwrap();
        (
            report["default"].clone(),
            text.split_whitespace().collect::<Vec<_>>().join(" "),
        )
    };
    let (default, text) = told("optional libnic_placement.so default=closest rollout=10%\n");
    assert_eq!(default, json!("default=closest rollout=10%"));
    assert!(
        text.contains("ok configuration steps that do not ask: `default=closest` ("),
        "{text}"
    );
    let (default, text) = told("optional libnic_placement.so\n");
    assert_eq!(
        (default, text.contains("configuration")),
        (json!("no default="), false)
    );
    assert_eq!(told("optional spank_pyxis.so\n").0, Value::Null);
}

#[test]
fn what_check_prints_an_audit_reads() {
    let report = run(&["check", "--json", "--machine", "dgx-h100"]).stdout;
    let mut report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(
        (&report["version"], &report["host"]),
        (&json!(2), &Value::Null)
    );
    let reports: String = ["n1", "n2"]
        .map(|host| {
            report["host"] = json!(host);
            format!("{report:#}\n")
        })
        .concat();
    assert_eq!(piped(&reports, &[]).status.code(), Some(0));
}

#[test]
fn check_tells_the_firmware_the_versions_and_the_host_that_the_node_s_files_name() {
    let node = nic_placement_testing::snapshot_of("dgx-h100");
    let files = [
        ("proc/sys/kernel/hostname", "gpu007.cluster.example"),
        ("proc/sys/kernel/osrelease", "6.8.0-31"),
        ("sys/devices/virtual/dmi/id/bios_version", "1.6.7"),
        ("sys/module/mlx5_core/version", "24.04-0.6.6"),
        ("sys/class/infiniband/mlx5_3/fw_ver", "28.39.1002"),
        ("sys/class/infiniband/mlx5_3/board_id", "MT_0000000838"),
    ];
    let place = Place::new("facts");
    let tree = place.0.join("tree");
    let node = place.file("node.machine", &node);
    assert!(
        run(&["snapshot", "--unpack", &node, tree.to_str().unwrap()])
            .status
            .success()
    );
    for (path, text) in files {
        let file = tree.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, format!("{text}\n")).unwrap();
    }
    let printed = run(&["check", "--json", "--topology", tree.to_str().unwrap()]).stdout;
    let report: Value = serde_json::from_slice(&printed).unwrap();
    assert_eq!(report["host"], "gpu007");
    let versions = json!({"kernel": "6.8.0-31", "BIOS": "1.6.7", "mlx5_core": "24.04-0.6.6"});
    assert_eq!(report["versions"], versions);
    let nics = report["nics"].as_array().unwrap();
    let nic = nics.iter().find(|nic| nic["name"] == "mlx5_3").unwrap();
    assert_eq!(
        (&nic["firmware"], &nic["board"]),
        (&json!("28.39.1002"), &json!("MT_0000000838"))
    );
    assert_eq!(
        (&nic["link"]["width"], &nic["ports"][0]["state"]),
        (&json!(16), &json!("active"))
    );
    assert_eq!(
        nics.iter()
            .filter(|nic| nic["firmware"].is_string())
            .count(),
        1
    );
    let gpus = report["gpus"].as_array().unwrap();
    assert!(
        gpus.len() == 8
            && gpus
                .iter()
                .all(|gpu| gpu["nics"].as_array().unwrap().len() == 1)
    );
}

#[test]
fn nothing_in_a_report_moves_a_terminal_or_makes_a_line_wider_than_a_page() {
    let bad = "\u{1b}[2J\u{9b}31m\u{7f}\u{202e}\u{7}\nok     all is well ";
    let text = fixture("cluster.json");
    let mut reports: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (number, report) in reports.iter_mut().enumerate() {
        let own = format!("{bad}{}", "x".repeat(150 * (number % 3)));
        report["machine"] = json!(bad);
        report["versions"][bad] = json!(own);
        report["nics"][0]["name"] = json!(own);
        report["nics"][0]["firmware"] = json!(own);
        report["nics"][0]["ports"][0]["state"] = json!(own);
        report["findings"][0] = json!({"level": "wrong", "code": own, "text": own});
    }
    reports[0]["host"] = json!(bad);
    reports[1]["version"] = json!(7);
    reports[2]["format"] = json!(bad);
    let stream: String = reports
        .iter()
        .map(|report| format!("{report}\n"))
        .collect::<String>()
        + bad;
    let place = Place::new("audit");
    let file = place.file("\u{1b}[2J.json", &stream);
    for output in [piped(&stream, &[]), run(&["audit", &file])] {
        let printed = String::from_utf8(output.stdout).unwrap();
        let text = printed.clone() + &String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(r"\u{1b}[2J"), "{text}");
        assert_eq!(
            text.chars().find(|letter| !is_harmless(*letter)),
            None,
            "{text:?}"
        );
        assert!(
            !text.lines().any(|line| line.starts_with("ok")),
            "a forged line: {text}"
        );
        assert_eq!(
            printed.lines().find(|line| line.chars().count() > WIDTH),
            None
        );
        assert_eq!(output.status.code(), Some(1));
    }
}
