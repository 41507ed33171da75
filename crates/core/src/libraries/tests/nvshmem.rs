//! NVSHMEM: its list, the switch beside it, and what is told of lists that a release does not read.

use super::*;

#[test]
fn nvshmems_list_gives_way_to_a_mapping_of_the_users() {
    let situation =
        Situation::new(PortState::Active).with(&[("NVSHMEM_HCA_PE_MAPPING", "mlx5_0:1:1")]);
    assert_eq!(situation.changes(&task(&[1], &[1])), [UCX, NCCL]);
}

#[test]
fn nvshmem_gets_no_list_of_which_the_users_prefix_leaves_nothing() {
    for (prefix, set) in [
        ("mlx5", true),
        ("lx5_2", true),
        ("ibp", false),
        ("^smi", true),
        ("^_3", true),
        ("^mlx5", false),
        ("", true),
    ] {
        let situation = Situation::new(PortState::Active).with(&[("NVSHMEM_HCA_PREFIX", prefix)]);
        let task = task(&[1], &[1]);
        assert_eq!(
            situation.value(&task, "NVSHMEM_HCA_LIST").is_some(),
            set,
            "`{prefix}`"
        );
        let own = situation.libraries(&["nvshmem-pe"]);
        assert_eq!(
            own.value(&task, "NVSHMEM_HCA_LIST").is_some(),
            set && prefix != "lx5_2",
            "`{prefix}`"
        );
    }
}

#[test]
fn nvshmem_is_told_no_port_of_roce_without_an_address_since_it_would_fail_there() {
    let mut situation = Situation::new(PortState::Active);
    let list = |situation: &Situation| {
        situation
            .value(&task(&[1], &[1]), "NVSHMEM_HCA_LIST")
            .unwrap()
    };
    for nic in &mut situation.topology.nics {
        nic.ports[0].link_layer = LinkLayer::Ethernet;
    }
    assert_eq!(
        list(&situation),
        "mlx5_0:1,mlx5_1:1,mlx5_2:1",
        "addresses are not known"
    );
    situation.topology.nics[0].ports[0].networks = vec!["10.0.0.0/16".parse().unwrap()];
    situation.topology.nics[2].ports[0].routes_elsewhere = true;
    assert_eq!(list(&situation), "mlx5_0:1,mlx5_2:1");
    assert!(
        situation
            .why(&task(&[1], &[1]), "NVSHMEM_HCA_LIST")
            .ends_with("without mlx5_3 and mlx5_1 (no address)")
    );
    let nccl = situation.value(&task(&[1], &[1]), "NCCL_IB_HCA");
    assert_eq!(
        nccl.as_deref(),
        Some("=mlx5_0:1,mlx5_1:1,mlx5_2:1"),
        "NCCL numbers NICs alike on all nodes"
    );
    let own = situation.libraries(&["nvshmem-pe"]);
    assert_eq!(
        own.value(&task(&[1], &[1]), "NVSHMEM_HCA_LIST").as_deref(),
        Some("mlx5_1:1"),
        "each has one"
    );
}

#[test]
fn a_list_that_the_user_has_assigned_by_number_is_the_tasks_own_nic() {
    let list = |value: &str, gpus: &[usize]| {
        let situation =
            Situation::new(PortState::Active).with(&[("NVSHMEM_ENABLE_NIC_PE_MAPPING", value)]);
        situation
            .value(&task(gpus, gpus), "NVSHMEM_HCA_LIST")
            .unwrap()
    };
    for (value, is_on) in [("1", true), ("yes", true), ("0", false), ("no", false)] {
        assert_eq!(list(value, &[1]) == "mlx5_1:1", is_on, "{value}");
    }
    assert_eq!(
        list("1", &[0, 1]),
        "mlx5_0:1,mlx5_1:1,mlx5_2:1",
        "no list is right for several NICs"
    );
}

#[test]
fn one_nic_for_each_element_is_asked_for_by_name() {
    let situation = Situation::new(PortState::Active).libraries(&["nvshmem-pe"]);
    let own = [
        "NVSHMEM_HCA_LIST=mlx5_1:1",
        "NVSHMEM_ENABLE_NIC_PE_MAPPING=1",
    ];
    assert_eq!(situation.changes(&task(&[1], &[1])), own);
    assert_eq!(
        situation.changes(&task(&[0, 1], &[0, 1])),
        [NVSHMEM],
        "two NICs: the node's list"
    );
    let mut without = Situation::new(PortState::Active).libraries(&["nvshmem-pe"]);
    without.wish.no_env = vec!["NVSHMEM_HCA_LIST".to_string()];
    assert_eq!(
        without.changes(&task(&[1], &[1])),
        [""; 0],
        "the switch alone would deal NICs out by number"
    );
    let chosen = situation.with(&[("NVSHMEM_HCA_LIST", "mlx5_2:1")]);
    assert_eq!(
        chosen.changes(&task(&[1], &[1])),
        [""; 0],
        "the user's list means what it did"
    );
}

#[test]
fn a_list_of_the_node_that_nvshmem_38_does_not_read_is_told_of() {
    let told = |situation: &Situation, task: &TaskPlacement| {
        let prepared = situation.prepared();
        let read = reader(situation.files);
        let evidence = Evidence {
            present: &situation.present,
            read: &read,
        };
        let variables = environment(
            &prepared,
            &situation.topology,
            &situation.node,
            task,
            evidence,
        );
        caveats(&situation.topology, &variables)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let (one, two) = (task(&[1], &[1]), task(&[0, 1], &[0, 1]));
    let ours = Situation::new(PortState::Active);
    let [unread] = told(&ours, &one).try_into().unwrap();
    assert!(
        unread.starts_with("`NVSHMEM_HCA_LIST`: NVSHMEM 3.8 does not read it"),
        "{unread}"
    );
    assert_eq!(
        told(&ours.clone().libraries(&["nvshmem-pe"]), &one),
        [""; 0],
        "the switch goes with it"
    );
    assert_eq!(
        told(&ours.clone().libraries(&["nvshmem-pe"]), &two).concat(),
        unread
    );
    for (name, value, is_told) in [
        ("NVSHMEM_ENABLE_NIC_PE_MAPPING", "1", false),
        ("NVSHMEM_ENABLE_NIC_PE_MAPPING", "0", true),
        ("NVSHMEM_HCA_LIST", "mlx5_0", false),
    ] {
        let users = told(&ours.clone().with(&[(name, value)]), &two);
        assert_eq!(!users.is_empty(), is_told, "{name}={value}");
    }
    assert_eq!(
        told(&Situation::new(PortState::Down), &one),
        [""; 0],
        "nothing is left out"
    );
}

#[test]
fn deepep_ends_in_an_assertion_where_rails_are_isolated_and_that_is_told() {
    let mut situation = Situation::new(PortState::Down);
    situation.wish.admin.fabric = Fabric::IsolatedRails;
    let told = |situation: &Situation| {
        let prepared = situation.prepared();
        let evidence = Evidence {
            present: &situation.present,
            read: &|_| None,
        };
        let variables = environment(
            &prepared,
            &situation.topology,
            &situation.node,
            &task(&[1], &[1]),
            evidence,
        );
        let found = caveats(&situation.topology, &variables);
        found
            .iter()
            .any(|caveat| caveat.to_string().contains("`EP_DISABLE_GIN=1`"))
    };
    assert!(told(&situation));
    assert!(
        !told(&situation.clone().with(&[("NCCL_CROSS_NIC", "2")])),
        "the user's own stays"
    );
    situation
        .topology
        .gpus
        .iter_mut()
        .for_each(|gpu| gpu.vendor = GpuVendor::Amd);
    assert!(!told(&situation), "DeepEP is NVIDIA's");
}

#[test]
fn what_a_file_of_nvshmems_sets_is_left_alone() {
    for (file, text, why) in [
        (
            "/etc/nvshmem.conf",
            "NVSHMEM_HCA_LIST=mlx5_0:1\n",
            "sets it",
        ),
        (
            "/home/me/.nvshmem.conf",
            "# x\n NVSHMEM_HCA_LIST = mlx5_0:1",
            "sets it",
        ),
        (
            "/my.conf",
            "NVSHMEM_HCA_PE_MAPPING=mlx5_0:1:2",
            "sets `NVSHMEM_HCA_PE_MAPPING`",
        ),
    ] {
        let files: Files = Box::leak(Box::new([(file, text)]));
        for (words, list) in [
            (&["nvshmem"], NVSHMEM),
            (&["nvshmem-pe"], "NVSHMEM_HCA_LIST=mlx5_1:1"),
        ] {
            let situation = Situation::new(PortState::Active).libraries(words);
            let situation =
                situation.with(&[("HOME", "/home/me"), ("NVSHMEM_CONF_FILE", "/my.conf")]);
            assert_eq!(situation.changes(&task(&[1], &[1]))[0], list);
            let situation = Situation { files, ..situation };
            assert_eq!(situation.changes(&task(&[1], &[1])), [""; 0], "`{file}`");
            assert_eq!(
                situation.why(&task(&[1], &[1]), "NVSHMEM_HCA_LIST"),
                format!("`{file}` {why}")
            );
        }
    }
}
