//! Ownership of values: the user's stays, and a nested step replaces or removes what the outer one set.

use super::*;

/// The variables that an outer step's task hands down.
fn handed_down(situation: &Situation, task: &TaskPlacement) -> Present {
    let mut present = situation.present.clone();
    for (name, change, _) in situation.told(task) {
        match change {
            Change::Set(value) => present.insert(name, value),
            Change::Remove => present.remove(&name),
            Change::KeepUsers(_) | Change::Leave => None,
        };
    }
    present
}

#[test]
fn the_users_values_stay_and_our_own_earlier_ones_are_replaced() {
    let users = [
        ("UCX_NET_DEVICES", "mlx5_9:1"),
        ("NCCL_IB_HCA", "mlx5"),
        ("NVSHMEM_HCA_LIST", ""),
    ];
    let situation = Situation::new(PortState::Active).with(&users);
    assert_eq!(situation.changes(&task(&[1], &[1])), Vec::<String>::new());

    let outer = Situation::new(PortState::Active);
    let mut present = handed_down(&outer, &task(&[0], &[0]));
    present.insert("NCCL_IB_HCA".to_string(), "=mlx5_0:1".to_string());
    let inner = Situation {
        present,
        ..Situation::new(PortState::Active)
    };
    assert_eq!(
        inner.changes(&task(&[1], &[1])),
        [UCX, NVSHMEM],
        "UCX's value is ours, NCCL's was changed since and is the user's"
    );
    assert_eq!(
        inner.changes(&task(&[], &[])),
        ["UCX_NET_DEVICES", NVSHMEM],
        "an inner task without GPUs loses the outer task's NIC"
    );
    let names: Vec<&str> = variables().collect();
    let withdrawn = withdrawal(&names, &inner.present);
    let withdrawn: Vec<&str> = withdrawn
        .iter()
        .map(|variable| variable.name.as_ref())
        .collect();
    assert_eq!(
        withdrawn,
        ["UCX_NET_DEVICES", "NVSHMEM_HCA_LIST", marker::NAME]
    );
}

#[test]
fn what_the_inner_step_does_not_want_is_removed_if_it_is_ours_and_kept_if_not() {
    let present = handed_down(&Situation::new(PortState::Active), &task(&[0], &[0]));
    let inner = Situation {
        present,
        ..Situation::new(PortState::Active)
    }
    .libraries(&["ucx"]);
    assert_eq!(
        inner.changes(&task(&[1], &[1])),
        [UCX, "NCCL_IB_HCA", "NVSHMEM_HCA_LIST"]
    );
    let users = Situation::new(PortState::Active)
        .with(&[("NCCL_IB_HCA", "mlx5")])
        .libraries(&["ucx"]);
    assert_eq!(users.changes(&task(&[1], &[1])), [UCX]);
}

#[test]
fn an_inner_step_whose_user_has_a_configuration_file_loses_the_outer_steps_list() {
    let present = handed_down(&Situation::new(PortState::Active), &task(&[0], &[0]));
    let files: Files = &[("/home/me/x.conf", "NCCL_IB_HCA=mlx5\n")];
    let inner = Situation {
        present,
        files,
        ..Situation::new(PortState::Active)
    }
    .with(&[("NCCL_CONF_FILE", "/home/me/x.conf")]);
    assert_eq!(
        inner.changes(&task(&[1], &[1])),
        [UCX, "NCCL_IB_HCA", NVSHMEM]
    );
}

#[test]
fn the_admins_own_variables_nest_too_with_spaces_and_percent_signs_in_them() {
    let situation = || Situation::new(PortState::Active).set("MINE=a b%20 {nic} 100%");
    let present = handed_down(&situation(), &task(&[0], &[0]));
    assert_eq!(present["MINE"], "a b%20 mlx5_0 100%");
    let inner = Situation {
        present: present.clone(),
        ..situation()
    };
    assert_eq!(
        inner.value(&task(&[1], &[1]), "MINE").as_deref(),
        Some("a b%20 mlx5_1 100%")
    );
    let withdrawn = withdrawal(&["MINE"], &present);
    assert_eq!(withdrawn.len(), 2, "{withdrawn:?}");
    let elsewhere = Situation {
        present,
        ..Situation::new(PortState::Active)
    };
    assert!(
        !elsewhere
            .changes(&task(&[1], &[1]))
            .contains(&"MINE".to_string()),
        "no template of that name here"
    );
}

#[test]
fn a_marker_that_somebody_made_up_claims_nothing_but_our_variables() {
    let ours = |name: &str| name == "UCX_NET_DEVICES";
    let facts = "policy=closest gpus= nics=";
    for text in [
        "".to_string(),
        format!("v2 {facts} set:UCX_NET_DEVICES=x"),
        format!("v1 {facts} set:PATH=/bin"),
        format!("v1 {facts} set:UCX_NET_DEVICES"),
        "\u{1F600}".to_string(),
    ] {
        assert_eq!(Marker::parse(&text, ours), Marker::default(), "`{text}`");
    }
    let line = format!("v1 {facts} set:UCX_NET_DEVICES=x");
    assert!(Marker::parse(&line, ours).is_ours("UCX_NET_DEVICES", "x"));
    assert!(!Marker::parse(&line, ours).is_ours("UCX_NET_DEVICES", "y"));
}

#[test]
fn a_variable_of_the_users_own_that_is_called_like_the_marker_stays_and_nothing_is_published() {
    for own in [
        "",
        "mine",
        "v1",
        "v1 mine",
        "v1 set:UCX_NET_DEVICES=mlx5_0:1",
        "v2 policy=x gpus= nics=",
        "\u{fffd}",
    ] {
        let situation = Situation::new(PortState::Active).with(&[(marker::NAME, own)]);
        let told = situation.told(&task(&[1], &[1]));
        let (_, change, why) = told.last().expect("the marker comes last");
        assert_eq!(*change, Change::KeepUsers(own.to_string()), "`{own}`");
        assert!(why.contains("nothing is published"), "{why}");
        assert!(
            situation
                .changes(&task(&[1], &[1]))
                .contains(&UCX.to_string()),
            "the others are set all the same"
        );
        let present = present(&[(marker::NAME, own), ("UCX_NET_DEVICES", "mlx5_0:1")]);
        assert_eq!(
            withdrawal(&["UCX_NET_DEVICES"], &present).len(),
            0,
            "`{own}` claims nothing, and stays"
        );
    }
}

#[test]
fn whatever_is_published_is_known_as_ours() {
    for (gpus, rails) in [
        (&[][..], &[][..]),
        (&[0, 1], &[0, 1]),
        (&[], &[0]),
        (&[1], &[]),
    ] {
        let situation = Situation::new(PortState::Active).set("MINE=a b%20 {rails} =");
        let present = handed_down(&situation, &task(gpus, rails));
        assert!(
            marker::is_published(&present[marker::NAME]),
            "{}",
            present[marker::NAME]
        );
    }
}
