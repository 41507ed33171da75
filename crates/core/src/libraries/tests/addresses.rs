//! Connections by IP address beside UCX's list: by the interfaces in it, and not by NICs that it leaves out.

use super::*;

const LIST: &str = "UCX_NET_DEVICES";
const PRIORITY: &str = "UCX_SOCKADDR_TLS_PRIORITY";
const WITHOUT_RDMACM: &str = "UCX_SOCKADDR_TLS_PRIORITY=tcp,sockcm";
const WITH_INTERFACES: &str = "UCX_NET_DEVICES=mlx5_1:1,eth0,ib0,lo";

/// A task with one of three good NICs, on a node with two IP interfaces.
fn routed(variables: &[&str]) -> Situation {
    here().env(variables).libraries("ucx").routed()
}

#[test]
fn a_list_without_some_nics_goes_with_connections_by_its_interfaces() {
    let mut all = routed(&[]);
    assert_eq!(all.changes(), [WITH_INTERFACES, WITHOUT_RDMACM]);
    for state in [PortState::Down, PortState::Init] {
        all.other_ports_are(state);
        assert_eq!(all.changes(), [WITH_INTERFACES], "the others are {state}");
    }
    // a storage NIC's address may be taken too
    all.port(3).state = PortState::Active;
    assert_eq!(all.changes(), [WITH_INTERFACES, WITHOUT_RDMACM]);
    // rdmacm makes no connections by EFA
    all.topology.nics[3].kind = NicKind::Efa;
    assert_eq!(all.changes(), [WITH_INTERFACES]);
}

#[test]
fn a_list_of_nics_alone_leaves_connections_to_ucx_which_has_no_other_way() {
    assert_eq!(routed(&["UCX_TLS=rc,cuda"]).changes(), [UCX]);
    let mut bare = here().libraries("ucx");
    assert_eq!(bare.changes(), [UCX], "a node without interfaces");
    bare.topology.provenance = Provenance::Model("m".to_string());
    assert_eq!(bare.changes(), [UCX]);
    for (planned, is_told) in [
        (bare.clone(), true),
        (bare.env(&["UCX_SOCKADDR_TLS_PRIORITY=tcp"]), false),
    ] {
        let why = planned.why(LIST);
        assert!(why.contains("its IP interfaces are added"), "{why}");
        let found = why.contains("`UCX_SOCKADDR_TLS_PRIORITY`");
        assert_eq!(found, is_told, "{why}");
    }
}

#[test]
fn where_the_list_is_not_ours_nothing_is_said_of_connections_and_libfabrics_auto_is_no_list() {
    let mut own_file = routed(&["HOME=/home/me"]);
    own_file = own_file.file("/home/me/ucx.conf", "UCX_NET_DEVICES=mlx5_0:1\n");
    for situation in [
        routed(&["UCX_NET_DEVICES=mlx5_0:1,eth0"]),
        routed(&["UCX_TLS=^ib"]),
        routed(&["FI_UCX_DEVICES=mlx5_0:1"]),
        own_file,
        routed(&[]).task(&[], &[0, 1]),
        routed(&[]).no_env(&[LIST]),
    ] {
        assert_eq!(situation.changes(), [""; 0], "{:?}", situation.present);
    }
    let admins = routed(&[]).libraries("ucx site");
    let admins = admins.set("UCX_NET_DEVICES={nics}");
    assert_eq!(admins.changes(), [UCX]);
    assert_eq!(admins.why(PRIORITY), "");
    let chosen = routed(&["FI_UCX_DEVICES=mlx5_0:1"]);
    chosen.begins(LIST, "the user's `FI_UCX_DEVICES`");
    for automatic in ["FI_UCX_DEVICES=auto", "FI_UCX_DEVICES=auto:2"] {
        let changes = routed(&[automatic]).changes();
        assert_eq!(changes, [WITH_INTERFACES, WITHOUT_RDMACM], "{automatic}");
    }
}

#[test]
fn it_can_be_kept_away_alone_and_comes_with_a_list_that_is_asked_for_by_name() {
    let mut situation = routed(&[]).libraries("none");
    situation.wish.env_names.push(LIST.to_string());
    assert_eq!(situation.changes(), [WITH_INTERFACES, WITHOUT_RDMACM]);
    let without = situation.no_env(&[PRIORITY]);
    assert_eq!(without.changes(), [WITH_INTERFACES]);
}

#[test]
fn the_users_own_choice_of_connections_stays_in_the_environment_and_in_files() {
    const BY_RDMA: &str = "UCX_SOCKADDR_TLS_PRIORITY=rdmacm";
    const OF_ADDRESS: &str = "UCX_CM_USE_ALL_DEVICES=n";
    let etc = |text: &str| routed(&[]).file("/etc/ucx/ucx.conf", text);
    let own = |text: &str| routed(&["UCX_CONFIG_DIR=/my"]).file("/my/ucx.conf", text);
    for word in ["rdmacm,tcp", "tcp"] {
        let both = &format!("{PRIORITY}={word}");
        for situation in [routed(&[both]), etc(both), own(both)] {
            assert_eq!(situation.changes(), [WITH_INTERFACES], "{both}");
        }
        assert_eq!(etc(both).why(PRIORITY), "`/etc/ucx/ucx.conf` sets it");
    }
    // no list may leave NICs out where connections are made by RDMA alone
    let of_address = "`UCX_CM_USE_ALL_DEVICES` gives messages the NIC";
    for (text, reason) in [
        (BY_RDMA, "`UCX_SOCKADDR_TLS_PRIORITY` has no `tcp`: "),
        (OF_ADDRESS, of_address),
    ] {
        for mut situation in [routed(&[text]), etc(text), own(text)] {
            assert_eq!(situation.changes(), [""; 0], "{text}");
            situation.begins(LIST, reason);
            // the node has no other NIC
            situation.other_ports_are(PortState::Down);
            assert_eq!(situation.changes(), [WITH_INTERFACES]);
        }
    }
    // UCX prefers the environment
    let of_file = etc(&format!("{BY_RDMA}\n{OF_ADDRESS}\n")).env(&["UCX_CM_USE_ALL_DEVICES=y"]);
    let over_file = of_file.env(&["UCX_SOCKADDR_TLS_PRIORITY=tcp,rdmacm"]);
    assert_eq!(over_file.changes(), [WITH_INTERFACES]);
}

#[test]
fn an_inner_step_takes_an_outer_ones_priority_for_ours_and_not_for_the_users() {
    let mut inner = routed(&[]);
    inner.present = routed(&[]).gpus(&[0]).handed_down();
    assert_eq!(inner.changes(), [WITH_INTERFACES, WITHOUT_RDMACM]);
    let names: Vec<&str> = variables().collect();
    assert_eq!(inner.withdrawn(&names), [LIST, PRIORITY, marker::NAME]);
    let without = inner.task(&[], &[0]);
    assert_eq!(without.changes(), [LIST, PRIORITY]);
}
