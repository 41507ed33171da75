//! What outputs tell a reader that sees them for the first time: whose choice it is, what a device is called, what to do.

use crate::{Place, machines, printed, run};
use std::path::Path;

/// What a command prints, without its line ends and columns.
fn unfolded(arguments: &[&str]) -> String {
    printed(arguments)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn nics_of_efa_and_slingshot_read_as_libfabrics_choice_and_as_no_fault() {
    for machine in ["aws-p5", "aws-g5", "frontier"] {
        let of = |command: &[&str]| unfolded(&[command, &["--machine", machine]].concat());
        for text in [
            of(&["show"]),
            of(&["plan", "--gpus-per-task", "1"]),
            of(&["show", "--gpu", "all"]),
        ] {
            assert!(
                text.contains("libfabric chooses") && text.contains("left alone"),
                "{machine}: {text}"
            );
            assert!(
                text.contains(" through libfabric, which chooses the NIC"),
                "{machine}: {text}"
            );
            for fault in ["no NIC", "left out", "none"] {
                assert!(!text.contains(fault), "{machine}: `{fault}`: {text}");
            }
        }
        let map = run(&["map", "--format", "sglang", "--machine", machine]);
        assert!(
            String::from_utf8_lossy(&map.stderr).contains("libfabric chooses"),
            "{machine}"
        );
        let check = of(&["check", "--only", "node"]);
        assert!(
            check.contains(", among which libfabric chooses"),
            "{machine}: {check}"
        );
    }
}

#[test]
fn a_list_that_lacks_another_nodes_interfaces_is_printed_with_a_note_on_what_to_add() {
    let said = |machine: &str, words: &str| {
        let output = run(&[
            "plan",
            "--machine",
            machine,
            "--gpus-per-task",
            "1",
            "--env",
            "--words",
            words,
        ]);
        let lists = String::from_utf8(output.stdout)
            .unwrap()
            .matches(" export UCX_NET_DEVICES=")
            .count();
        (lists, String::from_utf8(output.stderr).unwrap())
    };
    let (lists, note) = said("dgx-h100", "rail");
    assert_eq!((lists, note.lines().count()), (8, 1), "{note}");
    assert!(
        note.contains("`UCX_NET_DEVICES` lacks the node's IP interfaces"),
        "{note}"
    );
    assert!(
        note.trim_end()
            .ends_with("run this on the node, or add them, as `,eth0,lo`"),
        "{note}"
    );
    assert_eq!(said("dgx-h100", "rail,env=nccl"), (0, String::new()));
    assert_eq!(said("aws-p5", "rail"), (0, String::new()));
}

#[test]
fn every_gpu_of_a_known_machine_has_its_model() {
    for machine in machines() {
        let text = printed(&["show", "--machine", &machine]);
        assert!(!text.contains("model unknown"), "{machine}: {text}");
    }
    assert!(printed(&["show", "--machine", "frontier"]).contains("AMD Instinct MI250X"));
}

#[test]
fn a_note_of_check_with_a_remedy_tells_it_and_one_without_does_not() {
    let place = Place::new("note");
    let line = place.file("plugstack.conf", "required libnic_placement.so\n");
    let fresh = unfolded(&[
        "check",
        "--machine",
        "dgx-h100",
        "--only",
        "plugstack",
        "--plugstack",
        &line,
    ]);
    let told = "`optional` is enough do one `optional` line with the plugin's full path: in plugstack.conf";
    assert!(
        fresh.starts_with("note ") && fresh.contains(told),
        "{fresh}"
    );
    let topology = "{\"format\": \"nic-placement topology\", \"version\": 1, \"name\": \"login\"}";
    let login = unfolded(&[
        "check",
        "--only",
        "node",
        "--topology",
        &place.file("login.json", topology),
    ]);
    assert!(
        login.starts_with("note ") && !login.contains(" do "),
        "{login}"
    );
}

#[test]
fn json_tells_its_format_and_version() {
    for command in ["plan --json", "show --gpu 0 --json", "check --json"] {
        let command: Vec<&str> = command.split(' ').collect();
        let output = run(&[&command[..], &["--machine", "gh200"]].concat());
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let format = document["format"].as_str().unwrap();
        assert!(format.starts_with("nic-placement ") && document["version"].is_u64());
    }
}

#[test]
fn what_is_there_once_is_counted_so() {
    let count = |text: &str| {
        (text.contains(" 1 GPUs") || text.contains(" 1 devices") || text.contains(" 1 nodes"))
            .then(|| text.to_string())
    };
    for command in [
        &["check"][..],
        &["plan"],
        &["plan", "--svg"],
        &["show"],
        &["plan", "--json"],
    ] {
        assert_eq!(
            count(&unfolded(&[command, &["--machine", "gh200"]].concat())),
            None
        );
    }
    let fixture = Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/machines/measure/bare-n0.json");
    let merged = unfolded(&["verify", "--merge", fixture.to_str().unwrap()]);
    assert!(
        merged.starts_with("1 node, ") && count(&merged).is_none(),
        "{merged}"
    );
}

#[test]
fn an_audit_names_devices_as_people_do() {
    let fixture = Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/machines/audit/alike.json");
    let audit = unfolded(&["audit", fixture.to_str().unwrap()]);
    assert!(
        audit.contains("8 NICs ConnectX-7 at PIX") && audit.contains("E810-C"),
        "{audit}"
    );
    assert!(
        !audit.contains("15b3:") && !audit.contains("verbs"),
        "{audit}"
    );
}

#[test]
fn a_line_of_the_tree_stays_one_line_at_80_columns() {
    for machine in machines() {
        let Some(text) =
            crate::on_a_terminal_of(80, &format!("show --color never --machine {machine}"), &[])
        else {
            return;
        };
        let tree = text.lines().take_while(|line| !line.is_empty()).skip(1);
        // a GPU may have more NICs than fit on a line
        let broken = tree.filter(|line| !line.contains("─ ") && !line.contains(":1 "));
        assert_eq!(broken.collect::<Vec<_>>(), [""; 0], "{machine}");
        assert_eq!(
            text.lines().find(|line| line.chars().count() > 80),
            None,
            "{machine}"
        );
    }
}

#[test]
fn a_word_for_a_path_is_explained_below_where_it_stands_and_no_other_is() {
    let of = |command: &[&str]| unfolded(&[command, &["--machine", "dgx-h100"]].concat());
    let near = "between GPU and NIC: PIX at most one PCIe switch";
    let all = format!("{near}, NODE host bridges of one NUMA node, SYS different NUMA nodes");
    assert!(of(&["show"]).contains(&all) && of(&["show", "--gpu", "0"]).contains(&all));
    let plan = of(&["plan"]);
    assert!(plan.contains(near) && !plan.contains("NODE host"), "{plan}");
}
