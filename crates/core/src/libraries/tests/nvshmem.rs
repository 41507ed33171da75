//! NVSHMEM: its list, the switch beside it, and what is told of lists that a release does not read.

use super::*;

const LIST: &str = "NVSHMEM_HCA_LIST";

#[test]
fn nvshmems_list_gives_way_to_a_mapping_of_the_users_and_to_a_prefix_that_leaves_nothing() {
    let mapped = here().env(&["NVSHMEM_HCA_PE_MAPPING=mlx5_0:1:1"]);
    assert_eq!(mapped.changes(), [UCX, NCCL]);
    let all = ["mlx5", "^smi", "^_3", ""].map(|prefix| (prefix, true, true));
    let none = ["ibp", "^mlx5"].map(|prefix| (prefix, false, false));
    let rows = all.into_iter().chain(none).chain([("lx5_2", true, false)]);
    for (prefix, of_node, own) in rows {
        let situation = here().env(&[&format!("NVSHMEM_HCA_PREFIX={prefix}")]);
        assert_eq!(situation.sets(LIST), of_node, "`{prefix}`");
        let found = situation.libraries("nvshmem-pe").sets(LIST);
        assert_eq!(found, own, "`{prefix}`");
    }
}

#[test]
fn nvshmem_is_told_no_port_of_roce_without_an_address_since_it_would_fail_there() {
    let mut situation = here();
    (0..4).for_each(|nic| situation.port(nic).link_layer = LinkLayer::Ethernet);
    let unknown = situation.value(LIST);
    assert_eq!(unknown, "mlx5_0:1,mlx5_1:1,mlx5_2:1");
    situation.port(0).networks = vec!["10.0.0.0/16".parse().unwrap()];
    situation.port(2).routes_elsewhere = true;
    assert_eq!(situation.value(LIST), "mlx5_0:1,mlx5_2:1");
    assert!(situation.why(LIST).ends_with("mlx5_1 (no address)"));
    // NCCL numbers NICs alike on all nodes
    assert_eq!(situation.value("NCCL_IB_HCA"), format!("={unknown}"));
    let own = situation.libraries("nvshmem-pe").value(LIST);
    assert_eq!(own, "mlx5_1:1", "each has one");
}

#[test]
fn one_nic_for_each_element_is_asked_for_by_name_or_by_the_users_switch() {
    const SWITCH: &str = "NVSHMEM_ENABLE_NIC_PE_MAPPING=1";
    let own = "NVSHMEM_HCA_LIST=mlx5_1:1";
    let asked = || here().libraries("nvshmem-pe");
    assert_eq!(asked().changes(), [own, SWITCH]);
    // no list is right for several NICs
    assert_eq!(asked().gpus(&[0, 1]).changes(), [NVSHMEM]);
    // the switch alone would deal NICs out by number
    assert_eq!(asked().no_env(&[LIST]).changes(), [""; 0]);
    // the user's list means the same as before
    let found = asked().env(&["NVSHMEM_HCA_LIST=mlx5_2:1"]).changes();
    assert_eq!(found, [""; 0]);
    for (value, is_on) in [("1", true), ("yes", true), ("0", false), ("no", false)] {
        let switched = here().env(&[&format!("NVSHMEM_ENABLE_NIC_PE_MAPPING={value}")]);
        let found = &switched.changes()[2];
        assert_eq!(*found, if is_on { own } else { NVSHMEM }, "{value}");
        assert_eq!(switched.gpus(&[0, 1]).changes()[2], NVSHMEM);
    }
}

#[test]
fn a_list_of_the_node_that_nvshmem_38_does_not_read_is_told_of() {
    let own = here().libraries("nvshmem-pe");
    let both = |variable| here().env(&[variable]).gpus(&[0, 1]);
    for (situation, is_told) in [
        (here(), true),
        // the switch goes with the list
        (own.clone(), false),
        (own.gpus(&[0, 1]), true),
        (both("NVSHMEM_ENABLE_NIC_PE_MAPPING=1"), false),
        (both("NVSHMEM_ENABLE_NIC_PE_MAPPING=0"), true),
        (both("NVSHMEM_HCA_LIST=mlx5_0"), false),
        // nothing is left out
        (whole(), false),
    ] {
        let told = situation.caveats().concat();
        let start = "`NVSHMEM_HCA_LIST`: NVSHMEM 3.8 does not";
        assert_eq!(told.starts_with(start), is_told, "{told}");
        assert_eq!(told.is_empty(), !is_told, "{told}");
    }
}

#[test]
fn deepep_ends_in_an_assertion_where_rails_are_isolated_and_that_is_told() {
    let isolated = || whole().fabric(Fabric::IsolatedRails);
    let told = |situation: Situation| situation.caveats().concat().contains("`EP_DISABLE_GIN=1`");
    assert!(told(isolated()));
    // the user's own
    assert!(!told(isolated().env(&["NCCL_CROSS_NIC=2"])));
    assert!(!told(isolated().amd()), "DeepEP is NVIDIA's");
}

#[test]
fn a_value_of_nvshmems_file_stays() {
    for row in [
        "/etc/nvshmem.conf | NVSHMEM_HCA_LIST=mlx5_0:1\n | sets it",
        "/home/me/.nvshmem.conf | # x\n NVSHMEM_HCA_LIST = mlx5_0:1 | sets it",
        "/my.conf | NVSHMEM_HCA_PE_MAPPING=mlx5_0:1:2 | sets `NVSHMEM_HCA_PE_MAPPING`",
    ] {
        let [file, text, why] = cells(row);
        for word in ["nvshmem", "nvshmem-pe"] {
            let situation = here().libraries(word);
            let situation = situation.env(&["HOME=/home/me", "NVSHMEM_CONF_FILE=/my.conf"]);
            assert!(situation.sets(LIST));
            let situation = situation.file(file, text);
            assert_eq!(situation.changes(), [""; 0], "`{file}`");
            assert_eq!(situation.why(LIST), format!("`{file}` {why}"));
        }
    }
}
