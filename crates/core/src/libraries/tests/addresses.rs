//! Connections by IP address beside UCX's list: by the interfaces in it, and not by NICs that it leaves out.

use super::*;

const LIST: &str = "UCX_NET_DEVICES";
const PRIORITY: &str = "UCX_SOCKADDR_TLS_PRIORITY";
const WITHOUT_RDMACM: &str = "UCX_SOCKADDR_TLS_PRIORITY=tcp,sockcm";
const WITH_INTERFACES: &str = "UCX_NET_DEVICES=mlx5_1:1,eth0,ib0,lo";

/// A node with two IP interfaces, and with this file.
fn files(file: (&'static str, &'static str)) -> Files {
    let table =
        "Iface\tDestination\tGateway\tFlags\nib0 0 0 0001 0 0 0 0\neth0 0 0100A8C0 0003 0 0 0 0\n";
    Box::leak(Box::new([
        ("/proc/net/route", table),
        ("/sys/class/net/lo/operstate", "unknown\n"),
        file,
    ]))
}

/// A node with two IP interfaces; each task has one of its three good NICs.
fn situation(variables: &[(&str, &str)]) -> Situation {
    let files = files(("none", ""));
    Situation {
        files,
        ..Situation::new(PortState::Active)
    }
    .with(variables)
    .libraries(&["ucx"])
}

fn own() -> TaskPlacement {
    task(&[1], &[1])
}

#[test]
fn a_list_without_some_nics_goes_with_connections_by_its_interfaces() {
    assert_eq!(
        situation(&[]).changes(&own()),
        [WITH_INTERFACES, WITHOUT_RDMACM]
    );
}

#[test]
fn a_list_of_every_working_port_leaves_connections_to_ucx() {
    let mut situation = situation(&[]);
    for state in [PortState::Down, PortState::Init] {
        for nic in [0, 2, 3] {
            situation.topology.nics[nic].ports[0].state = state;
        }
        assert_eq!(
            situation.changes(&own()),
            [WITH_INTERFACES],
            "the others are {state}"
        );
    }
    situation.topology.nics[3].ports[0].state = PortState::Active;
    assert_eq!(
        situation.changes(&own()).len(),
        2,
        "a storage NIC's address may be taken too"
    );
    situation.topology.nics[3].kind = NicKind::Efa;
    assert_eq!(
        situation.changes(&own()),
        [WITH_INTERFACES],
        "rdmacm makes no connections by EFA"
    );
}

#[test]
fn a_list_of_nics_alone_leaves_connections_to_ucx_which_has_no_other_way() {
    assert_eq!(
        situation(&[("UCX_TLS", "rc,cuda")]).changes(&own()),
        ["UCX_NET_DEVICES=mlx5_1:1"]
    );
    let bare = Situation::new(PortState::Active).libraries(&["ucx"]);
    assert_eq!(
        bare.changes(&own()),
        ["UCX_NET_DEVICES=mlx5_1:1"],
        "a node without interfaces"
    );
    let mut planned = bare;
    planned.topology.provenance = Provenance::Model("m".to_string());
    let both = "its GPU's NIC; on the node its IP interfaces are added and `UCX_SOCKADDR_TLS_PRIORITY` is set";
    assert_eq!(planned.why(&own(), LIST), both);
    assert_eq!(planned.changes(&own()), ["UCX_NET_DEVICES=mlx5_1:1"]);
    let users = planned.with(&[(PRIORITY, "tcp")]);
    assert_eq!(
        users.why(&own(), LIST),
        "its GPU's NIC; on the node its IP interfaces are added"
    );
}

#[test]
fn where_the_list_is_not_ours_nothing_is_said_of_connections() {
    for variables in [
        &[(LIST, "mlx5_0:1,eth0")][..],
        &[("UCX_TLS", "^ib")],
        &[("FI_UCX_DEVICES", "mlx5_0:1")],
        &[("HOME", "/home/me")],
    ] {
        let mut situation = situation(variables);
        situation.files = files(("/home/me/ucx.conf", "UCX_NET_DEVICES=mlx5_0:1\n"));
        assert_eq!(
            situation.changes(&own()),
            Vec::<String>::new(),
            "{variables:?}"
        );
        assert_eq!(situation.why(&own(), PRIORITY), "", "{variables:?}");
    }
    assert_eq!(
        situation(&[]).changes(&task(&[], &[0, 1])),
        Vec::<String>::new()
    );
    let mut unwanted = situation(&[]);
    unwanted.wish.no_env.push(LIST.to_string());
    assert_eq!(unwanted.changes(&own()), Vec::<String>::new());
    let admins = situation(&[])
        .libraries(&["ucx", "site"])
        .set("UCX_NET_DEVICES={nics}");
    assert_eq!(admins.changes(&own()), ["UCX_NET_DEVICES=mlx5_1:1"]);
}

#[test]
fn it_can_be_kept_away_alone_and_comes_with_a_list_that_is_asked_for_by_name() {
    let mut situation = situation(&[]).libraries(&["none"]);
    situation.wish.env_names.push(LIST.to_string());
    assert_eq!(situation.changes(&own()), [WITH_INTERFACES, WITHOUT_RDMACM]);
    situation.wish.no_env.push(PRIORITY.to_string());
    assert_eq!(situation.changes(&own()), [WITH_INTERFACES]);
}

#[test]
fn the_users_own_choice_of_connections_stays_in_the_environment_and_in_files() {
    assert_eq!(
        situation(&[(PRIORITY, "rdmacm,tcp")]).changes(&own()),
        [WITH_INTERFACES]
    );
    for file in ["/etc/ucx/ucx.conf", "/home/me/ucx.conf"] {
        let mut situation = situation(&[("HOME", "/home/me")]);
        situation.files = files((file, "UCX_SOCKADDR_TLS_PRIORITY=tcp\n"));
        assert_eq!(situation.changes(&own()), [WITH_INTERFACES], "{file}");
        assert_eq!(situation.why(&own(), PRIORITY), format!("`{file}` sets it"));
    }
}

#[test]
fn who_has_connections_made_by_rdma_alone_gets_no_list_that_leaves_nics_out() {
    let by_rdma =
        "`UCX_SOCKADDR_TLS_PRIORITY` has no `tcp`: connections by address may need any NIC";
    let of_address =
        "`UCX_CM_USE_ALL_DEVICES` gives messages the NIC of the address, which may be any";
    for (name, value, reason) in [
        (PRIORITY, "rdmacm", by_rdma),
        ("UCX_CM_USE_ALL_DEVICES", "n", of_address),
    ] {
        let in_environment = situation(&[(name, value)]);
        let text: &'static str = format!("{name}={value}\n").leak();
        let in_file = |path: &'static str| {
            let mut situation = situation(&[("UCX_CONFIG_DIR", "/my")]);
            situation.files = files((path, text));
            situation
        };
        for mut situation in [
            in_environment,
            in_file("/etc/ucx/ucx.conf"),
            in_file("/my/ucx.conf"),
        ] {
            assert_eq!(
                situation.changes(&own()),
                Vec::<String>::new(),
                "{name}: {:?}",
                situation.files
            );
            assert_eq!(situation.why(&own(), LIST), reason);
            for nic in [0, 2, 3] {
                situation.topology.nics[nic].ports[0].state = PortState::Down;
            }
            assert_eq!(
                situation.changes(&own()),
                [WITH_INTERFACES],
                "the node has no other NIC"
            );
        }
    }
    let mut over_file = situation(&[(PRIORITY, "tcp,rdmacm"), ("UCX_CM_USE_ALL_DEVICES", "y")]);
    over_file.files = files((
        "/etc/ucx/ucx.conf",
        "UCX_SOCKADDR_TLS_PRIORITY=rdmacm\nUCX_CM_USE_ALL_DEVICES=n\n",
    ));
    assert_eq!(
        over_file.changes(&own()),
        [WITH_INTERFACES],
        "UCX prefers the environment"
    );
}

#[test]
fn libfabrics_own_word_for_the_device_is_the_users() {
    let devices = |value: &str| situation(&[("FI_UCX_DEVICES", value)]);
    assert_eq!(devices("mlx5_0:1").changes(&own()), Vec::<String>::new());
    assert_eq!(
        devices("mlx5_0:1").why(&own(), LIST),
        "the user's `FI_UCX_DEVICES` chooses the device"
    );
    for automatic in ["auto", "auto:2"] {
        assert_eq!(
            devices(automatic).changes(&own()),
            [WITH_INTERFACES, WITHOUT_RDMACM],
            "{automatic}"
        );
    }
}

#[test]
fn an_inner_step_takes_an_outer_ones_priority_for_ours_and_not_for_the_users() {
    let marked = "v1 policy=closest gpus=a nics=mlx5_0:1 set:UCX_NET_DEVICES=mlx5_0:1,eth0 \
                  set:UCX_SOCKADDR_TLS_PRIORITY=tcp,sockcm";
    let handed_down = [
        (marker::NAME, marked),
        (LIST, "mlx5_0:1,eth0"),
        (PRIORITY, "tcp,sockcm"),
    ];
    let inner = situation(&handed_down);
    assert_eq!(inner.changes(&own()), [WITH_INTERFACES, WITHOUT_RDMACM]);
    assert_eq!(
        inner.changes(&task(&[], &[0])),
        [LIST, PRIORITY],
        "a task without GPUs loses both"
    );
    let names: Vec<&str> = variables().collect();
    let withdrawn = withdrawal(&names, &inner.present);
    let withdrawn: Vec<&str> = withdrawn
        .iter()
        .map(|variable| variable.name.as_ref())
        .collect();
    assert_eq!(withdrawn, [LIST, PRIORITY, marker::NAME]);
}
