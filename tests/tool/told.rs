//! What outputs tell a reader that sees them for the first time: whose choice it is, what a device is called, what to do.

use super::answer::checkout;
use super::*;

#[test]
fn nics_of_efa_and_slingshot_read_as_libfabrics_choice_and_as_no_fault() {
    for machine in ["aws-p5", "aws-g5", "frontier"] {
        for command in ["show", "plan --gpus-per-task 1", "show --gpu all"] {
            let answer = run(&format!("{command} --machine {machine}"));
            answer.says(&["libfabric chooses", "left alone"]);
            answer.says(&[" through libfabric, which chooses"]);
            answer.lacks(&["no NIC", "left out", "none"]);
        }
        let map = run(&format!("map --format sglang --machine {machine}"));
        assert!(map.err.contains("libfabric chooses"), "{map}");
        run(&format!("check --only node --machine {machine}"))
            .says(&[", among which libfabric chooses"]);
    }
}

#[test]
fn a_list_that_lacks_another_nodes_interfaces_is_printed_with_a_note_on_what_to_add() {
    for (machine, words, lists, notes) in [
        ("dgx-h100", "rail", 8, 1),
        ("dgx-h100", "rail,env=nccl", 0, 0),
        ("aws-p5", "rail", 0, 0),
    ] {
        let of = format!("--machine {machine} --gpus-per-task 1 --words {words}");
        let plan = run(&format!("plan --env {of}"));
        let found = plan.out.matches(" export UCX_NET_DEVICES=").count();
        assert_eq!((found, plan.err.lines().count()), (lists, notes), "{plan}");
        for told in "`UCX_NET_DEVICES` lacks the node's IP|add them, as `,eth0,lo`".split('|') {
            assert!(notes == 0 || plan.err.contains(told), "{plan}");
        }
    }
}

#[test]
fn every_gpu_of_a_known_machine_has_its_model() {
    for machine in machines() {
        run(&format!("show --machine {machine}")).lacks(&["model unknown"]);
    }
    run("show --machine frontier").says(&["AMD Instinct MI250X"]);
}

#[test]
fn a_note_of_check_with_a_remedy_tells_it_and_one_without_does_not() {
    let place = Place::new("note");
    let line = place.file("plugstack.conf", "required libnic_placement.so\n");
    let fresh = run(&format!(
        "check --machine dgx-h100 --only plugstack --plugstack {line}"
    ));
    fresh.says(&["`optional` is enough do one `optional` line"]);
    let topology = r#"{"format": "nic-placement topology", "version": 1, "name": "login"}"#;
    let topology = place.file("login.json", topology);
    let login = run(&format!("check --only node --topology {topology}"));
    login.lacks(&[" do "]);
    let is_so = fresh.out.starts_with("note ") && login.out.starts_with("note ");
    assert!(is_so, "{fresh}{login}");
}

#[test]
fn json_tells_its_format_and_version() {
    for command in ["plan --json", "show --gpu 0 --json", "check --json"] {
        let document = json(&format!("{command} --machine gh200"));
        let format = document["format"].as_str().unwrap();
        assert!(format.starts_with("nic-placement ") && document["version"].is_u64());
    }
}

#[test]
fn what_is_there_once_is_counted_so() {
    let plural = [" 1 GPUs", " 1 devices", " 1 nodes"];
    for command in ["check", "plan", "plan --svg", "show", "plan --json"] {
        run(&format!("{command} --machine gh200")).lacks(&plural);
    }
    let fixture = checkout("tests/machines/measure/bare-n0.json");
    let merged = run(&format!("verify --merge {}", fixture.display()));
    let is_so = merged.lacks(&plural).out.starts_with("1 node, ");
    assert!(is_so, "{merged}");
}

#[test]
fn an_audit_names_devices_as_people_do() {
    let fixture = checkout("tests/machines/audit/alike.json");
    let audit = run(&format!("audit {}", fixture.display()));
    audit.says(&["8 NICs ConnectX-7 at PIX", "E810-C"]);
    audit.lacks(&["15b3:", "verbs"]);
}

#[test]
fn a_word_for_a_path_is_explained_below_where_it_stands_and_no_other_is() {
    let near = "between GPU and NIC: PIX at most one PCIe switch";
    let all = format!("{near}, NODE host bridges of one NUMA node, SYS different NUMA nodes");
    run("show --machine dgx-h100").says(&[&all]);
    run("show --gpu 0 --machine dgx-h100").says(&[&all]);
    let answer = run("plan --machine dgx-h100");
    answer.says(&[near]).lacks(&["NODE host"]);
}
