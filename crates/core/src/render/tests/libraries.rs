//! Each library's own rule.
#![forbid(unsafe_code)]

use super::*;
use crate::topology::{PciFunction, PciParent};

/// Frontier's kind of node: `nics` Slingshot NICs, each beside two AMD GPUs.
fn slingshot(nics: usize) -> Situation {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for index in 0..nics {
        let host = PciParent::Host(format!("pci0000:{index}0").parse().unwrap());
        let address: crate::topology::PciAddress = format!("{index}1:00.0").parse().unwrap();
        let mut function = PciFunction::new(address, host);
        function.numa_node = Some(index as u32);
        topology.pci.insert(function);
        let port = Port::new(1, PortState::Active, LinkLayer::Ethernet, None);
        topology.nics.push(Nic {
            address: Some(address),
            ports: vec![port],
            ..Nic::new(format!("cxi{index}").parse().unwrap(), NicKind::Slingshot)
        });
        for half in 0..2 {
            let address: crate::topology::PciAddress = format!("{index}{}:00.0", half + 5).parse().unwrap();
            let mut function = PciFunction::new(address, host);
            function.numa_node = Some(index as u32);
            topology.pci.insert(function);
            topology.gpus.push(Gpu::new(address, GpuVendor::Amd));
        }
    }
    let (_, mut placement) = node(PortState::Active);
    placement.rails = Vec::new();
    placement.excluded = Vec::new();
    Situation { topology, node: placement, wanted: Wanted::default(), present: Present::new(), files: &[] }
}

// ---- NCCL ----

#[test]
fn nccls_list_is_the_same_whatever_the_task_has() {
    for (gpus, rails) in [(&[][..], &[][..]), (&[0], &[0]), (&[0, 1, 2], &[0, 1, 2])] {
        let changes = Situation::new(PortState::Active).changes(&task(gpus, rails));
        assert!(changes.contains(&NCCL.to_string()), "with GPUs {gpus:?}");
        assert!(changes.contains(&NVSHMEM.to_string()), "with GPUs {gpus:?}");
    }
}

#[test]
fn nccl_is_left_alone_where_only_ports_that_it_skips_itself_are_left_out() {
    let situation = Situation::new(PortState::Down);
    assert_eq!(situation.why(&task(&[1], &[1]), "NCCL_IB_HCA"), "every NIC that it would find may be used");
    assert_eq!(situation.changes(&task(&[1], &[1])), [UCX]);
}

#[test]
fn devices_that_verbs_libraries_do_not_take_for_theirs_need_no_list() {
    for kind in [NicKind::Efa, NicKind::Slingshot, NicKind::Ethernet] {
        let mut situation = Situation::new(PortState::Active);
        situation.topology.nics[3].kind = kind;
        assert_eq!(situation.value(&task(&[1], &[1]), "NCCL_IB_HCA"), None, "{kind}");
    }
}

#[test]
fn what_a_configuration_file_sets_is_not_set_over_it() {
    let task = task(&[1], &[1]);
    for (text, set) in [
        ("NCCL_IB_HCA=mlx5\n", false),
        ("NCCL_DEBUG=WARN\n NCCL_IB_HCA = =mlx5_0 # compute\n", false),
        ("#NCCL_IB_HCA=mlx5\nNCCL_IB_HCA_X=1\nNCCL_IB_HCA\n", true),
        ("", true),
    ] {
        let files: [Files; 3] = [
            Box::leak(Box::new([("/etc/nccl.conf", text)])),
            Box::leak(Box::new([("/home/me/.nccl.conf", text)])),
            Box::leak(Box::new([("/home/me/my.conf", text)])),
        ];
        for (files, variables) in files.into_iter().zip([
            &[][..],
            &[("HOME", "/home/me")],
            &[("NCCL_CONF_FILE", "/home/me/my.conf"), ("HOME", "/home/you")],
        ]) {
            let situation = Situation { files, ..Situation::new(PortState::Active) }.with(variables);
            let is_set = situation.value(&task, "NCCL_IB_HCA").is_some();
            assert_eq!(is_set, set, "`{text}` in `{}`", files[0].0);
        }
    }
}

#[test]
fn a_configuration_file_that_is_longer_than_what_is_read_of_it_may_set_anything() {
    let task = task(&[1], &[1]);
    let reason = |files: Files, variables: &[(&str, &str)], name: &str| {
        Situation { files, ..Situation::new(PortState::Active) }.with(variables).why(&task, name)
    };
    let longer = |file: &str| format!("`{file}` is longer than what is read of it here, and may set it");
    let nccl = |files: Files, variables: &[(&str, &str)]| reason(files, variables, "NCCL_IB_HCA");
    assert_eq!(nccl(&[("/etc/nccl.conf", "# long…")], &[]), longer("/etc/nccl.conf"));
    let at_home = [("HOME", "/home/me")];
    assert_eq!(nccl(&[("/home/me/.nccl.conf", "NCCL_DEBUG=1\n…")], &at_home), longer("/home/me/.nccl.conf"));
    assert_eq!(nccl(&[("/my.conf", "…")], &[("NCCL_CONF_FILE", "/my.conf")]), longer("/my.conf"));
    let ucx = reason(&[("/etc/ucx/ucx.conf", "…")], &[], "UCX_NET_DEVICES");
    assert_eq!(ucx, longer("/etc/ucx/ucx.conf"));
    // what stands in the part read counts
    assert_eq!(nccl(&[("/etc/nccl.conf", "NCCL_IB_HCA=x\n…")], &[]), "`/etc/nccl.conf` sets it");
}

#[test]
fn a_routing_table_that_is_cut_tells_no_interfaces() {
    let table = "Iface\tDestination\tGateway\tFlags\neth0\t00000000\t0100A8C0\t0003\n";
    let tcp = |table: &str| {
        let files: Files = Box::leak(Box::new([("/proc/net/route", &*table.to_string().leak())]));
        let situation = Situation { files, ..Situation::new(PortState::Active) };
        situation.with(&[("UCX_TLS", "rc,tcp")]).value(&task(&[1], &[1]), "UCX_NET_DEVICES")
    };
    assert_eq!(tcp(table).as_deref(), Some("mlx5_1:1,eth0"));
    assert_eq!(tcp(&format!("{table}eth1…")), None);
}

#[test]
fn the_file_at_home_is_not_read_where_the_user_names_another() {
    let files: Files = &[("/home/me/.nccl.conf", "NCCL_IB_HCA=mlx5\n")];
    let task = task(&[1], &[1]);
    let situation = Situation { files, ..Situation::new(PortState::Active) }
        .with(&[("HOME", "/home/me"), ("NCCL_CONF_FILE", "/elsewhere")]);
    assert!(situation.value(&task, "NCCL_IB_HCA").is_some(), "NCCL does not read it either");
    let situation = Situation { files, ..Situation::new(PortState::Active) }
        .with(&[("HOME", "/home/me"), ("NCCL_CONF_FILE", "")]);
    assert_eq!(situation.why(&task, "NCCL_IB_HCA"), "`/home/me/.nccl.conf` sets it");
}

#[test]
fn no_file_is_read_where_no_list_would_be_set() {
    let (topology, node) = node(PortState::Down);
    let wanted = Wanted::default();
    let asked = std::cell::RefCell::new(Vec::new());
    let read = |path: &str| {
        asked.borrow_mut().push(path.to_string());
        None
    };
    let prepared = Prepared::new(&topology, &node, wanted, &read);
    let present = present(&[("HOME", "/home/me"), ("NCCL_CONF_FILE", "/home/me/x")]);
    environment(&prepared, &topology, &node, &task(&[1], &[1]), Evidence { present: &present, read: &read });
    assert_eq!(asked.into_inner(), ["/etc/ucx/ucx.conf"], "UCX's value is set, NCCL's is not");
}

#[test]
fn rccl_has_files_of_its_own_and_is_told_only_where_a_nic_must_be_left_out() {
    let amd = |storage| {
        let mut situation = Situation::new(storage);
        situation.topology.gpus.iter_mut().for_each(|gpu| gpu.vendor = GpuVendor::Amd);
        situation.with(&[("HOME", "/home/me")])
    };
    let task = task(&[1], &[1]);
    assert_eq!(amd(PortState::Active).changes(&task), [UCX, NCCL], "NVSHMEM is NVIDIA's");
    assert!(
        amd(PortState::Active)
            .why(&task, "NCCL_IB_HCA")
            .contains("with fewer NICs RCCL may not recognise the machine")
    );
    assert_eq!(amd(PortState::Down).changes(&task), [UCX]);
    for file in ["/home/me/.rccl.conf", "/etc/rccl.conf"] {
        let files: Files = Box::leak(Box::new([(file, "NCCL_IB_HCA=mlx5\n")]));
        assert_eq!(Situation { files, ..amd(PortState::Active) }.changes(&task), [UCX], "`{file}`");
    }
}

// ---- UCX ----

#[test]
fn a_task_without_gpus_is_left_to_ucx() {
    assert_eq!(Situation::new(PortState::Active).changes(&task(&[], &[0, 1])), [NCCL, NVSHMEM]);
}

#[test]
fn a_task_with_several_gpus_may_use_all_their_nics() {
    let changes = Situation::new(PortState::Active).changes(&task(&[2, 0], &[2, 0]));
    assert_eq!(changes, ["UCX_NET_DEVICES=mlx5_2:1,mlx5_0:1", NCCL, NVSHMEM]);
}

#[test]
fn a_program_that_asks_for_tcp_keeps_its_interfaces() {
    let routes = "Iface\tDestination\tGateway\tFlags\nib0\t0\t0\t0001\neth0\t0\t0\t0003\n";
    let files: Files = Box::leak(Box::new([("/proc/net/route", routes)]));
    let ucx = |tls: &str, files: Files| {
        let situation = Situation { files, ..Situation::new(PortState::Active) }.with(&[("UCX_TLS", tls)]);
        situation.value(&task(&[1], &[1]), "UCX_NET_DEVICES")
    };
    assert_eq!(ucx("rc,tcp,cuda", files).as_deref(), Some("mlx5_1:1,eth0,ib0"));
    assert_eq!(ucx("rc,tcp,cuda", &[]), None, "no interface is known, so none is hidden");
    assert_eq!(ucx("rc,cuda", files).as_deref(), Some("mlx5_1:1"));
    assert_eq!(ucx("^tcp", files).as_deref(), Some("mlx5_1:1"));
}

#[test]
fn where_rails_are_isolated_no_task_is_held_to_one() {
    for storage in [PortState::Active, PortState::Down] {
        let mut situation = Situation::new(storage);
        situation.wanted.fabric = Fabric::IsolatedRails;
        for gpu in 0..3 {
            let value = situation.value(&task(&[gpu], &[gpu]), "UCX_NET_DEVICES");
            assert_eq!(value.as_deref(), Some("mlx5_0:1,mlx5_1:1,mlx5_2:1"), "GPU {gpu}, storage {storage}");
        }
    }
    let mut situation = Situation::new(PortState::Active);
    situation.wanted.fabric = Fabric::IsolatedRails;
    situation.node.excluded.clear();
    assert_eq!(situation.value(&task(&[1], &[1]), "UCX_NET_DEVICES"), None, "nothing would be left out");
}

#[test]
fn what_ucxs_own_configuration_sets_is_not_set_over_it() {
    let files: Files = &[("/etc/ucx/ucx.conf", "# site\nUCX_NET_DEVICES=mlx5_0:1\n")];
    let situation = Situation { files, ..Situation::new(PortState::Active) };
    assert_eq!(situation.changes(&task(&[1], &[1])), [NCCL, NVSHMEM]);
    assert_eq!(situation.why(&task(&[1], &[1]), "UCX_NET_DEVICES"), "`/etc/ucx/ucx.conf` sets it");
}

// ---- NVSHMEM ----

#[test]
fn nvshmems_list_gives_way_to_a_mapping_of_the_users() {
    let situation = Situation::new(PortState::Active).with(&[("NVSHMEM_HCA_PE_MAPPING", "mlx5_0:1:1")]);
    assert_eq!(situation.changes(&task(&[1], &[1])), [UCX, NCCL]);
}

#[test]
fn one_nic_for_each_element_is_asked_for_by_name() {
    let situation = Situation::new(PortState::Active).libraries(&["nvshmem-pe"]);
    assert_eq!(situation.changes(&task(&[1], &[1])), ["NVSHMEM_HCA_LIST=mlx5_1:1"]);
    assert_eq!(situation.changes(&task(&[0, 1], &[0, 1])), [NVSHMEM], "two NICs: the node's list");
}

// ---- Slingshot, EFA, libfabric ----

const GPU_AWARE: (&str, &str) = ("MPICH_GPU_SUPPORT_ENABLED", "1");

#[test]
fn cray_mpich_is_told_to_go_by_the_gpu_where_it_can() {
    let policy = |nics: usize, variables: &[(&str, &str)], gpus: &[usize]| {
        slingshot(nics).with(variables).value(&task(gpus, &[]), "MPICH_OFI_NIC_POLICY")
    };
    for gpu in 0..8 {
        assert_eq!(policy(4, &[GPU_AWARE], &[gpu]).as_deref(), Some("GPU"), "the same in every task");
    }
    assert_eq!(policy(4, &[], &[0]), None, "MPI does not handle GPU memory");
    assert_eq!(policy(4, &[("MPICH_GPU_SUPPORT_ENABLED", "0")], &[0]), None);
    assert_eq!(policy(4, &[GPU_AWARE], &[]), None, "a task without GPUs");
    assert_eq!(policy(1, &[GPU_AWARE], &[0]), None, "nothing to choose from");
    assert_eq!(policy(4, &[GPU_AWARE, ("SLINGSHOT_DEVICES", "cxi2")], &[0]), None, "nothing to choose from");
    assert_eq!(policy(4, &[GPU_AWARE, ("SLINGSHOT_DEVICES", "cxi0,cxi2")], &[0]).as_deref(), Some("GPU"));
    for (name, value) in
        [("FI_CXI_DEVICE_NAME", "cxi1"), ("MPICH_OFI_NIC_MAPPING", "0:0-7"), ("MPICH_OFI_NUM_NICS", "1")]
    {
        assert_eq!(policy(4, &[GPU_AWARE, (name, value)], &[0]), None, "beside the user's `{name}`");
    }
    let nvidia = Situation::new(PortState::Active).with(&[GPU_AWARE]);
    assert_eq!(nvidia.why(&task(&[1], &[1]), "MPICH_OFI_NIC_POLICY"), "", "no Slingshot, no word about it");
}

#[test]
fn libfabric_gets_a_device_only_where_that_is_asked_for_and_never_beside_the_policy() {
    let devices = |situation: &Situation| {
        let device = |gpu| situation.value(&task(&[gpu], &[]), "FI_CXI_DEVICE_NAME");
        (0..8).map(device).collect::<Option<Vec<_>>>()
    };
    assert_eq!(devices(&slingshot(4).with(&[GPU_AWARE])), None);
    let asked = slingshot(4).with(&[GPU_AWARE]).libraries(&["default", "libfabric"]);
    let expected: Vec<String> = [0, 0, 1, 1, 2, 2, 3, 3].map(|nic| format!("cxi{nic}")).to_vec();
    assert_eq!(devices(&asked), Some(expected));
    assert_eq!(asked.value(&task(&[0], &[]), "MPICH_OFI_NIC_POLICY"), None);
    let chosen = slingshot(4).with(&[("MPICH_OFI_NIC_POLICY", "NUMA")]).libraries(&["libfabric"]);
    assert_eq!(devices(&chosen), None, "the user's policy chooses");
    let fewer = slingshot(4).with(&[("SLINGSHOT_DEVICES", "cxi1")]).libraries(&["libfabric"]);
    assert_eq!(fewer.value(&task(&[0], &[]), "FI_CXI_DEVICE_NAME"), None, "not the step's");
    assert_eq!(fewer.value(&task(&[2], &[]), "FI_CXI_DEVICE_NAME").as_deref(), Some("cxi1"));
}

#[test]
fn a_verbs_device_is_named_to_libfabric_only_where_its_name_begins_no_other() {
    let mut situation = Situation::new(PortState::Active).libraries(&["libfabric"]);
    assert_eq!(situation.changes(&task(&[1], &[1])), ["FI_VERBS_DEVICE_NAME=mlx5_1"]);
    situation.topology.nics[3].name = "mlx5_10".parse().unwrap();
    assert_eq!(situation.changes(&task(&[1], &[1])), Vec::<String>::new());
    assert_eq!(situation.changes(&task(&[2], &[2])), ["FI_VERBS_DEVICE_NAME=mlx5_2"]);
}

#[test]
fn efa_gets_nothing_whatever_is_asked_and_the_report_says_why() {
    let mut situation = Situation::new(PortState::Active);
    situation.topology.nics.iter_mut().for_each(|nic| nic.kind = NicKind::Efa);
    situation.node.rails.clear();
    for words in [&["default"][..], &["default", "libfabric", "mooncake", "nvshmem-pe"]] {
        let situation = Situation { wanted: Wanted::default(), ..situation_of(&situation) }.libraries(words);
        assert_eq!(situation.changes(&task(&[1], &[])), Vec::<String>::new(), "with {words:?}");
        assert!(situation.why(&task(&[1], &[]), "FI_EFA_IFACE").contains("groups the devices"));
        assert!(situation.why(&task(&[1], &[]), "NCCL_IB_HCA").contains("through libfabric"));
    }
    let chosen = situation.with(&[
        ("FI_EFA_IFACE", "rdmap0s1"),
        (marker::NAME, "v1 policy=closest gpus= nics= set:FI_EFA_IFACE=rdmap0s1"),
    ]);
    assert_eq!(chosen.changes(&task(&[1], &[])), Vec::<String>::new(), "no marker claims what is never ours");
}

fn situation_of(other: &Situation) -> Situation {
    Situation {
        topology: other.topology.clone(),
        node: other.node.clone(),
        wanted: other.wanted.clone(),
        present: other.present.clone(),
        files: other.files,
    }
}

#[test]
fn mooncake_gets_names_without_ports_where_that_is_asked_for() {
    let situation = Situation::new(PortState::Active).libraries(&["mooncake"]);
    assert_eq!(situation.changes(&task(&[1], &[1])), ["MC_TE_FILTERS=mlx5_0,mlx5_1,mlx5_2"]);
    let nothing = Situation::new(PortState::Down).libraries(&["mooncake"]);
    assert_eq!(nothing.changes(&task(&[1], &[1])), Vec::<String>::new());
}

// ---- whose variables ----

#[test]
fn only_the_libraries_that_are_wanted_are_served() {
    let task = task(&[1], &[1]);
    for (words, expected) in [
        (&["none"][..], &[][..]),
        (&["ucx"], &[UCX]),
        (&["nccl", "nvshmem"], &[NCCL, NVSHMEM]),
        (&["default"], &[UCX, NCCL, NVSHMEM]),
    ] {
        assert_eq!(Situation::new(PortState::Active).libraries(words).changes(&task), expected, "{words:?}");
    }
    let mut situation = Situation::new(PortState::Active);
    situation.wanted.unwanted = vec!["NCCL_IB_HCA".to_string(), "UCX_NET_DEVICE".to_string()];
    assert_eq!(situation.changes(&task), [UCX, NVSHMEM]);
    let diagnostics: Vec<String> =
        situation.prepared().diagnostics().iter().map(ToString::to_string).collect();
    assert_eq!(diagnostics, ["`no-env=UCX_NET_DEVICE`: nothing sets this variable: no effect"]);
    let mut many = Situation::new(PortState::Active);
    many.wanted.unwanted =
        ["A", "B", "A", "C", "D", "A"].iter().cycle().take(600).map(ToString::to_string).collect();
    let diagnostics: Vec<String> = many.prepared().diagnostics().iter().map(ToString::to_string).collect();
    assert_eq!(
        diagnostics,
        ["`no-env=A+B+C`: nothing sets these variables, nor 1 more: no effect"],
        "one line, however long the list"
    );
}
