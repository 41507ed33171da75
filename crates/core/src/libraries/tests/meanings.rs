//! The meaning of a name, a list, and the line of an earlier step.

use super::*;
use crate::libraries::names::is_uniform;
use crate::placement::{Change, Variable};

#[test]
fn names_that_are_equal_in_all_tasks_of_a_node_are_known_of_each_library() {
    let uniform = "EP_NIC_NAME FI_EFA_IFACE GLOO_SOCKET_IFNAME MC_TE_FILTERS MORI_RDMA_DEVICES \
        MPICH_OFI_NIC_POLICY MSCCLPP_HCA_DEVICES NCCL_IB_HCA NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME \
        OFI_NCCL_PROTOCOL RCCL_X ROCSHMEM_HCA_LIST SHMEM_OFI_NIC_POLICY TP_SOCKET_IFNAME";
    for name in uniform.split(' ') {
        assert!(is_uniform(name), "{name}");
    }
    for name in ["UCX_NET_DEVICES", "FI_CXI_DEVICE_NAME", "MINE", "NCC", ""] {
        assert!(!is_uniform(name), "{name}");
    }
}

#[test]
fn a_list_is_somebody_elses_by_the_environment_a_file_or_the_admins_template() {
    const HCA: &str = "NCCL_IB_HCA";
    let list = |change, of_file: Option<&str>| {
        let variable = Variable {
            name: HCA.into(),
            change,
            of_file: of_file.map(String::from),
            why: "".into(),
        };
        vec![variable]
    };
    let ours = || Change::Set("mlx5_0".into());
    let kept = |list: &str| Change::KeepUsers(list.into());
    for (variables, present, is_admins, expected) in [
        (vec![], &[][..], false, false),
        (vec![], &[(HCA, "mlx5_0")], false, true),
        // it lists nothing, and another variable lists no NICs
        (vec![], &[(HCA, "")], false, false),
        (vec![], &[("NCCL_DEBUG", "INFO")], false, false),
        (list(kept("mlx5_1"), None), &[(HCA, "mlx5_1")], false, true),
        (list(kept(""), None), &[(HCA, "")], false, false),
        (list(ours(), Some("mlx5_1")), &[], false, true),
        (list(ours(), Some("")), &[], true, false),
        (list(ours(), None), &[], false, false),
        (list(ours(), None), &[], true, true),
        // a nested step's own value goes
        (list(Change::Remove, None), &[(HCA, "mlx5_0")], true, false),
    ] {
        let of = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        let environment = present.iter().map(of).collect();
        let found = has_list_of_others(&variables, &environment, |_| is_admins);
        assert_eq!(found, expected, "{variables:?} {present:?} {is_admins}");
    }
}

#[test]
fn an_earlier_steps_line_tells_what_it_set_and_a_forged_name_is_not_ours() {
    let mut line = "v1 policy=closest gpus= nics=".to_string();
    marker::add(&mut line, "UCX_NET_DEVICES", "a b%20c");
    marker::add(&mut line, "LD_PRELOAD", "x");
    let parsed = Marker::parse(&line, |name| name != "LD_PRELOAD");
    let set = [("UCX_NET_DEVICES".to_string(), "a b%20c".to_string())];
    assert_eq!(parsed.set(), set);
    let mine = Marker::parse("mine set:UCX_NET_DEVICES=x", |_| true);
    assert_eq!(mine.set(), []);
}
