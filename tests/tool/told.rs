//! What outputs tell a reader that sees them for the first time: whose choice it is, what a device is called, what to do.

use crate::{Place, machines, printed};

/// What a command prints, without its line ends and columns.
fn unfolded(arguments: &[&str]) -> String {
    printed(arguments).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn nics_of_efa_and_slingshot_read_as_libfabrics_choice_and_as_no_fault() {
    for machine in ["aws-p5", "aws-g5", "frontier"] {
        let of = |command: &[&str]| unfolded(&[command, &["--machine", machine]].concat());
        for text in [of(&["show"]), of(&["plan", "--gpus-per-task", "1"]), of(&["explain"])] {
            assert!(text.contains("libfabric chooses") && text.contains("left alone"), "{machine}: {text}");
            assert!(text.contains(" through libfabric, which chooses the NIC"), "{machine}: {text}");
            for fault in ["no NIC", "left out", "none"] {
                assert!(!text.contains(fault), "{machine}: `{fault}`: {text}");
            }
        }
        let check = of(&["check", "--only", "node"]);
        assert!(check.contains(", among which libfabric chooses"), "{machine}: {check}");
    }
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
    let line = place.file("plugstack.conf", "optional other.so\n");
    let fresh = unfolded(&["check", "--machine", "dgx-h100", "--only", "plugstack", "--plugstack", &line]);
    let told = "no line loads the plugin do one line `optional libnic_placement.so` in plugstack.conf.d/";
    assert!(fresh.starts_with("note ") && fresh.contains(told), "{fresh}");
    let topology = "{\"format\": \"nic-placement topology\", \"version\": 1, \"name\": \"login\"}";
    let login = unfolded(&["check", "--only", "node", "--topology", &place.file("login.json", topology)]);
    assert!(login.starts_with("note ") && !login.contains(" do "), "{login}");
}
