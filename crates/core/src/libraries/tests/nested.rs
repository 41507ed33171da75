//! Ownership of values: the user's stays, and a nested step replaces or removes what the outer one set.

use super::*;

/// This situation in a step inside the outer one's.
fn within(outer: Situation, mut inner: Situation) -> Situation {
    inner.present.extend(outer.handed_down());
    inner
}

#[test]
fn the_users_values_stay_and_our_own_earlier_ones_are_replaced() {
    let users = here().env(&["UCX_NET_DEVICES=mlx5_9:1", "NCCL_IB_HCA=mlx5"]);
    assert_eq!(users.env(&["NVSHMEM_HCA_LIST="]).changes(), [""; 0]);
    // UCX's value is ours, NCCL's was changed since and is the user's
    let inner = within(here().gpus(&[0]), here()).env(&["NCCL_IB_HCA==mlx5_0:1"]);
    assert_eq!(inner.changes(), [UCX, NVSHMEM]);
    // an inner task without GPUs loses the outer task's NIC
    let without = inner.clone().gpus(&[]);
    assert_eq!(without.changes(), ["UCX_NET_DEVICES", NVSHMEM]);
    let names: Vec<&str> = variables().collect();
    let ours = ["UCX_NET_DEVICES", "NVSHMEM_HCA_LIST", marker::NAME];
    assert_eq!(inner.withdrawn(&names), ours);
}

#[test]
fn a_value_that_the_inner_step_does_not_want_is_removed_if_it_is_ours_and_kept_if_not() {
    let inner = within(here().gpus(&[0]), here());
    let fewer = inner.clone().libraries("ucx");
    assert_eq!(fewer.changes(), [UCX, "NCCL_IB_HCA", "NVSHMEM_HCA_LIST"]);
    let users = here().env(&["NCCL_IB_HCA=mlx5"]).libraries("ucx");
    assert_eq!(users.changes(), [UCX]);
    let by_file = inner.file("/home/me/x.conf", "NCCL_IB_HCA=mlx5\n");
    let by_file = by_file.env(&["NCCL_CONF_FILE=/home/me/x.conf"]);
    assert_eq!(by_file.changes(), [UCX, "NCCL_IB_HCA", NVSHMEM]);
}

#[test]
fn the_admins_own_variables_nest_too_with_spaces_and_percent_signs_in_them() {
    let mine = || here().set("MINE=a b%20 {nic} 100%");
    let inner = within(mine().gpus(&[0]), mine());
    assert_eq!(inner.present["MINE"], "a b%20 mlx5_0 100%");
    assert_eq!(inner.value("MINE"), "a b%20 mlx5_1 100%");
    assert_eq!(inner.withdrawn(&["MINE"]), ["MINE", marker::NAME]);
    // no template of that name here
    let elsewhere = within(mine().gpus(&[0]), here());
    assert!(!elsewhere.changes().contains(&"MINE".to_string()));
}

#[test]
fn a_marker_that_is_made_up_claims_nothing_but_our_variables() {
    const FACTS: &str = "policy=closest gpus= nics=";
    let ours = |name: &str| name == "UCX_NET_DEVICES";
    for text in [
        String::new(),
        format!("v2 {FACTS} set:UCX_NET_DEVICES=x"),
        format!("v1 {FACTS} set:PATH=/bin"),
        format!("v1 {FACTS} set:UCX_NET_DEVICES"),
        "\u{1F600}".to_string(),
    ] {
        assert_eq!(Marker::parse(&text, ours), Marker::default(), "`{text}`");
    }
    let claimed = Marker::parse(&format!("v1 {FACTS} set:UCX_NET_DEVICES=x"), ours);
    let found = ["x", "y"].map(|value| claimed.is_ours("UCX_NET_DEVICES", value));
    assert_eq!(found, [true, false]);
}

#[test]
fn a_variable_of_the_users_own_that_is_called_like_the_marker_stays_and_nothing_is_published() {
    let all = "|mine|v1|v1 mine|v1 set:UCX_NET_DEVICES=mlx5_0:1|v2 policy=x gpus= nics=|\u{fffd}";
    for own in all.split('|') {
        let situation = here().env(&[&format!("{}={own}", marker::NAME)]);
        let (_, change, why) = situation.told().pop().expect("the marker comes last");
        assert_eq!(change, Change::KeepUsers(own.to_string()), "`{own}`");
        assert!(why.contains("nothing is published"), "{why}");
        assert_eq!(situation.changes()[0], UCX, "the others are set");
        // it claims nothing, and stays
        let withdrawn = situation.env(&[UCX]).withdrawn(&["UCX_NET_DEVICES"]);
        assert_eq!(withdrawn, [""; 0], "`{own}`");
    }
}

#[test]
fn all_that_is_published_is_known_as_ours() {
    for (gpus, rails) in [
        (&[][..], &[][..]),
        (&[0, 1], &[0, 1]),
        (&[], &[0]),
        (&[1], &[]),
    ] {
        let situation = here().set("MINE=a b%20 {rails} =").task(gpus, rails);
        let line = &situation.handed_down()[marker::NAME];
        assert!(marker::is_published(line), "{line}");
    }
}
