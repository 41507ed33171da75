//! What the libraries read, on a node of four GPUs and four NICs of which one carries storage.
#![forbid(unsafe_code)]

use super::*;
use crate::placement::{CpuDecision, Excluded, MemDecision, Policy, Rail};
use crate::topology::{
    CpuSet, Gpu, GpuVendor, LinkLayer, Nic, NicKind, PathType, Port, PortState, Provenance, Topology,
};

fn node(storage: PortState) -> (Topology, NodePlacement) {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    let mut placement = NodePlacement {
        policy: Policy::Closest,
        rails: Vec::new(),
        broken: Vec::new(),
        excluded: Vec::new(),
        gpus: Vec::new(),
        configured: Vec::new(),
        diagnostics: Vec::new(),
    };
    for index in 0..4usize {
        let name = format!("mlx5_{index}");
        let state = if index == 3 { storage } else { PortState::Active };
        let port = Port::new(1, state, LinkLayer::InfiniBand, None);
        let address = format!("{index}0:00.0").parse().unwrap();
        topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
        topology.nics.push(Nic {
            address: Some(format!("{index}1:00.0").parse().unwrap()),
            ports: vec![port],
            ..Nic::new(name.clone(), NicKind::Verbs)
        });
        match index {
            3 => placement.excluded.push(Excluded { name, port: None, why: "test".into() }),
            nic => placement.rails.push(Rail { nic, name, port: 1, rate_mbps: None }),
        }
    }
    (topology, placement)
}

fn task(gpus: &[usize], rails: &[usize]) -> TaskPlacement {
    TaskPlacement {
        local_id: 0,
        global_id: 0,
        gpus: gpus.to_vec(),
        rails: rails.iter().map(|&rail| (rail, PathType::Pix)).collect(),
        cpus: CpuDecision::Keep { cpus: CpuSet::new(), why: String::new() },
        mems: MemDecision::Keep { why: String::new() },
        threads: None,
        missed: None,
        reasons: Vec::new(),
    }
}

/// `NAME=VALUE` for what is set, `NAME` for what is removed; the marker only where it is all there is.
fn changes(variables: Vec<Variable>) -> Vec<String> {
    let changes = variables.into_iter().filter(|variable| variable.name != marker::NAME);
    changes
        .filter_map(|variable| match variable.change {
            Change::Set(value) => Some(format!("{}={value}", variable.name)),
            Change::Remove => Some(variable.name),
            Change::KeepUsers(_) | Change::Leave => None,
        })
        .collect()
}

fn present(values: &[(&'static str, &str)]) -> Present {
    values.iter().map(|(name, value)| (*name, value.to_string())).collect()
}

const LIST: &str = "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1,mlx5_2:1";

#[test]
fn a_gpu_task_gets_its_own_nic_for_ucx_and_the_nodes_list_for_nccl() {
    let (topology, node) = node(PortState::Active);
    let variables = environment(&topology, &node, &task(&[1], &[1]), &present(&[]));
    assert_eq!(changes(variables), ["UCX_NET_DEVICES=mlx5_1:1", LIST]);
}

#[test]
fn nccls_list_is_the_same_whatever_the_task_has() {
    let (topology, node) = node(PortState::Active);
    for (gpus, rails) in [(&[][..], &[][..]), (&[0], &[0]), (&[0, 1, 2], &[0, 1, 2])] {
        let variables = environment(&topology, &node, &task(gpus, rails), &present(&[]));
        assert!(changes(variables).contains(&LIST.to_string()), "with GPUs {gpus:?}");
    }
}

#[test]
fn nccl_is_left_alone_where_only_ports_that_it_skips_itself_are_left_out() {
    let (topology, node) = node(PortState::Down);
    let variables = environment(&topology, &node, &task(&[1], &[1]), &present(&[]));
    let why = &variables.iter().find(|variable| variable.name == "NCCL_IB_HCA").unwrap().why;
    assert_eq!(why, "every NIC that NCCL would find may be used");
    assert_eq!(changes(variables), ["UCX_NET_DEVICES=mlx5_1:1"]);
}

#[test]
fn what_the_sites_nccl_configuration_sets_is_not_set_over_it() {
    for (text, set) in [
        ("NCCL_IB_HCA=mlx5\n", true),
        ("NCCL_DEBUG=WARN\n NCCL_IB_HCA = =mlx5_0 # compute\n", true),
        ("#NCCL_IB_HCA=mlx5\nNCCL_IB_HCA_X=1\nNCCL_IB_HCA\n", false),
        ("", false),
    ] {
        assert_eq!(nccl::configured(text).is_some(), set, "`{text}`");
    }
    let (topology, mut node) = node(PortState::Active);
    node.configured.push(("NCCL_IB_HCA", "/etc/nccl.conf".to_string()));
    let variables = environment(&topology, &node, &task(&[1], &[1]), &present(&[]));
    assert_eq!(changes(variables), ["UCX_NET_DEVICES=mlx5_1:1"]);
}

#[test]
fn a_task_without_gpus_is_left_to_ucx() {
    let (topology, node) = node(PortState::Active);
    let variables = environment(&topology, &node, &task(&[], &[0, 1]), &present(&[]));
    assert_eq!(changes(variables), [LIST]);
}

#[test]
fn a_task_with_several_gpus_may_use_all_their_nics() {
    let (topology, node) = node(PortState::Active);
    let variables = environment(&topology, &node, &task(&[2, 0], &[2, 0]), &present(&[]));
    assert_eq!(changes(variables), ["UCX_NET_DEVICES=mlx5_2:1,mlx5_0:1", LIST]);
}

#[test]
fn a_program_that_asks_for_tcp_keeps_its_interfaces() {
    let (topology, node) = node(PortState::Active);
    let tcp = present(&[("UCX_TLS", "rc,tcp,cuda")]);
    assert_eq!(changes(environment(&topology, &node, &task(&[1], &[1]), &tcp)), [LIST]);
}

#[test]
fn the_users_values_stay_and_our_own_earlier_ones_are_replaced() {
    let (topology, node) = node(PortState::Active);
    let users = present(&[("UCX_NET_DEVICES", "mlx5_9:1"), ("NCCL_IB_HCA", "mlx5")]);
    assert_eq!(changes(environment(&topology, &node, &task(&[1], &[1]), &users)), Vec::<String>::new());

    let outer = environment(&topology, &node, &task(&[0], &[0]), &present(&[]));
    let value = |name: &str| match &outer.iter().find(|variable| variable.name == name).unwrap().change {
        Change::Set(value) => value.clone(),
        other => panic!("{name}: {other:?}"),
    };
    let inherited = present(&[
        ("UCX_NET_DEVICES", &value("UCX_NET_DEVICES")),
        ("NCCL_IB_HCA", "=mlx5_0:1"),
        (marker::NAME, &value(marker::NAME)),
    ]);
    assert_eq!(
        changes(environment(&topology, &node, &task(&[1], &[1]), &inherited)),
        ["UCX_NET_DEVICES=mlx5_1:1"],
        "UCX's value is ours, NCCL's was changed since and is the user's"
    );
    assert_eq!(
        changes(environment(&topology, &node, &task(&[], &[]), &inherited)),
        ["UCX_NET_DEVICES"],
        "an inner task without GPUs loses the outer task's NIC"
    );
    let withdrawn: Vec<String> = withdrawal(&inherited).into_iter().map(|variable| variable.name).collect();
    assert_eq!(withdrawn, ["UCX_NET_DEVICES", marker::NAME]);
}

#[test]
fn a_marker_that_somebody_made_up_claims_nothing_but_our_variables() {
    for text in ["", "v2 set:UCX_NET_DEVICES=x", "v1 set:PATH=/bin", "v1 set:UCX_NET_DEVICES", "\u{1F600}"] {
        assert_eq!(Marker::parse(text), Marker::default(), "`{text}`");
    }
    assert!(Marker::parse("v1 set:UCX_NET_DEVICES=x").is_ours("UCX_NET_DEVICES", "x"));
}
