//! Which node differs, in what, and what to write.

use super::*;
use serde_json::json;

/// A node with rails `mlx5_0:1`, `mlx5_1:1` and so on in these subnets.
fn node(host: &str, subnets: &[&str]) -> NodeWord {
    let rail = |(number, subnet): (usize, &&str)| RailWord {
        nic: format!("mlx5_{number}:1"),
        subnet: (!subnet.is_empty()).then(|| subnet.to_string()),
    };
    let rails: Vec<RailWord> = subnets.iter().enumerate().map(rail).collect();
    let agreement = json!({"version": "1.0.0", "gpus": "4 nvidia", "rails": rails, "left_out": []});
    serde_json::from_value(json!({"host": host, "agreement": agreement})).unwrap()
}

fn left_out(nic: &str, why: &str) -> LeftOut {
    LeftOut {
        nic: nic.to_string(),
        why: why.to_string(),
    }
}

fn changed(host: &str, subnets: &[&str], change: impl FnOnce(&mut Agreement)) -> NodeWord {
    let mut word = node(host, subnets);
    change(&mut word.agreement);
    word
}

/// The one dissent of this node from three that agree.
fn dissent_of(other: NodeWord, subnets: &[&str]) -> (Vec<String>, Vec<String>) {
    let three = ["n1", "n2", "n3"].map(|host| node(host, subnets));
    let words = three.into_iter().chain([other]);
    let compared = compare(words.collect()).unwrap();
    assert_eq!(compared.dissents.len(), 1, "{compared:?}");
    let dissent = &compared.dissents[0];
    let nodes = (compared.nodes, compared.alike, &*dissent.nodes);
    assert_eq!(nodes, (4, 3, "n9"));
    assert_eq!(compared.harmful(), usize::from(!dissent.write.is_empty()));
    (dissent.differences.clone(), dissent.write.clone())
}

const ROCE: &[&str] = &[""; 4];
const ISOLATED: &[&str] = &["fe80::a0", "fe80::a1", "fe80::a2", "fe80::a3"];

#[test]
fn nodes_that_say_the_same_agree_whatever_their_reasons() {
    let with = |host, why: &str| {
        let out = vec![left_out("mlx5_4", why)];
        changed(host, ROCE, |word| word.left_out = out)
    };
    let words = vec![with("n1", "it is slower"), with("n2", "its port is down")];
    let compared = compare(words).unwrap();
    let counts = (compared.nodes, compared.alike, compared.harmful());
    assert_eq!(counts, (2, 2, 0));
    assert!(compared.dissents.is_empty());
    assert_eq!(compare(Vec::new()), None);
}

const EXCLUDED: &str = "for this job: --exclude=n9";

#[test]
fn a_name_with_a_line_end_or_a_shells_letters_is_no_name() {
    assert!(node("gpu-01.site", ISOLATED).is_plain());
    assert!(!node("n1\n    do   rm", ROCE).is_plain());
    let nic = changed("n1", ROCE, |word| word.rails[0].nic += ";reboot");
    let version = changed("n1", ROCE, |word| word.version = "$(reboot)".to_string());
    assert!(!nic.is_plain() && !version.is_plain());
}

#[test]
fn rails_in_another_order_get_a_line_of_rails_by_name_or_by_subnet() {
    let swapped = changed("n9", ISOLATED, |word| word.rails.swap(0, 3));
    let line = |rails: &str| format!("in /etc/nic-placement.conf: NodeName=n9 rails={rails}");
    let (differences, write) = dissent_of(swapped, ISOLATED);
    assert!(differences[0].ends_with("order: mlx5_3:1 mlx5_1:1 mlx5_2:1 mlx5_0:1"));
    assert_eq!(write, [line("mlx5_0,mlx5_1,mlx5_2,mlx5_3")]);
    // the names are those of the others, but the cables lie otherwise
    let cables = node("n9", &[ISOLATED[1], ISOLATED[0], ISOLATED[2], ISOLATED[3]]);
    let (_, write) = dissent_of(cables, ISOLATED);
    assert_eq!(write, [line("mlx5_1,mlx5_0,mlx5_2,mlx5_3")]);
}

#[test]
fn a_nic_in_a_subnet_of_no_rail_is_a_fault_and_other_names_are_none() {
    let subnets = [ISOLATED[0], ISOLATED[1], ISOLATED[2], "fe80::ff"];
    let (differences, write) = dissent_of(node("n9", &subnets), ISOLATED);
    let strange = "rail 3 (mlx5_3:1) is in fe80::ff, theirs in fe80::a3";
    assert_eq!(differences, [strange]);
    assert_eq!(write, [EXCLUDED]);
    let renamed = changed("n9", ISOLATED, |word| {
        for rail in &mut word.rails {
            rail.nic = rail.nic.replace("mlx5_", "ibp");
        }
    });
    let (differences, write) = dissent_of(renamed, ISOLATED);
    assert!(differences[0].contains("other names, ibp0:1 ibp1:1"));
    assert!(write.is_empty(), "{write:?}");
}

#[test]
fn other_gpus_fewer_rails_another_version_and_a_nic_that_is_left_out_are_all_told() {
    let other = changed("n9", ROCE, |word| {
        word.gpus = String::new();
        word.rails.truncate(1);
        word.version = "0.9.0".to_string();
    });
    let (differences, write) = dissent_of(other, ROCE);
    let expected = [
        "nic-placement is 0.9.0, theirs 1.0.0",
        "GPUs: none, theirs 4 nvidia",
        "it has 1 rail, theirs are 4",
    ];
    assert_eq!(differences, expected);
    assert!(write.len() == 2 && write[0].contains("the same version") && write[1] == EXCLUDED);
    let other = changed("n9", ROCE, |word| {
        word.rails.remove(2);
        word.left_out = vec![left_out("mlx5_2:1", "it cannot be opened")];
    });
    let (differences, write) = dissent_of(other, ROCE);
    assert_eq!(differences, ["mlx5_2:1 is left out: it cannot be opened"]);
    assert_eq!(write, [EXCLUDED]);
}

#[test]
fn of_two_nodes_that_differ_the_one_with_more_left_out_is_named() {
    let worse = changed("n1", ROCE, |word| {
        word.rails.remove(0);
        word.left_out.push(left_out("mlx5_0:1", "its port is down"));
    });
    let compared = compare(vec![worse, node("n2", ROCE)]).unwrap();
    assert_eq!((compared.alike, &*compared.dissents[0].nodes), (1, "n1"));
}
