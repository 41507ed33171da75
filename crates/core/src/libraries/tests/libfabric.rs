//! Slingshot and EFA: what Cray MPICH, Open MPI, oneCCL and libfabric's providers are told.

use super::*;
use crate::topology::{NumaNode, PciFunction, PciParent};

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
            let address: crate::topology::PciAddress =
                format!("{index}{}:00.0", half + 5).parse().unwrap();
            let mut function = PciFunction::new(address, host);
            function.numa_node = Some(index as u32);
            topology.pci.insert(function);
            topology.gpus.push(Gpu::new(address, GpuVendor::Amd));
        }
    }
    let (_, mut placement) = node(PortState::Active);
    placement.rails = Vec::new();
    placement.excluded = Vec::new();
    placement.left_to_libfabric = topology.numbered_nics().map(|(nic, _)| nic).collect();
    Situation {
        topology,
        node: placement,
        wish: Wish::default(),
        step: Step::default(),
        present: Present::new(),
        files: &[],
    }
}

const GPU_AWARE: (&str, &str) = ("MPICH_GPU_SUPPORT_ENABLED", "1");

#[test]
fn cray_mpich_is_told_to_go_by_the_gpu_where_it_can() {
    let policy = |nics: usize, variables: &[(&str, &str)], gpus: &[usize]| {
        slingshot(nics)
            .with(variables)
            .value(&task(gpus, &[]), "MPICH_OFI_NIC_POLICY")
    };
    for gpu in 0..8 {
        assert_eq!(
            policy(4, &[GPU_AWARE], &[gpu]).as_deref(),
            Some("GPU"),
            "the same in every task"
        );
    }
    assert_eq!(
        policy(4, &[GPU_AWARE], &[2, 3]).as_deref(),
        Some("GPU"),
        "both have the same NIC"
    );
    assert_eq!(
        policy(4, &[GPU_AWARE], &[0, 1, 2]),
        None,
        "MPI may ask before the program chooses its GPU"
    );
    assert_eq!(policy(4, &[], &[0]), None, "MPI does not handle GPU memory");
    assert_eq!(policy(4, &[("MPICH_GPU_SUPPORT_ENABLED", "0")], &[0]), None);
    assert_eq!(policy(4, &[GPU_AWARE], &[]), None, "a task without GPUs");
    assert_eq!(
        policy(1, &[GPU_AWARE], &[0]),
        None,
        "nothing to choose from"
    );
    assert_eq!(
        policy(4, &[GPU_AWARE, ("SLINGSHOT_DEVICES", "cxi2")], &[0]),
        None,
        "nothing to choose from"
    );
    assert_eq!(
        policy(4, &[GPU_AWARE, ("SLINGSHOT_DEVICES", "cxi0,cxi2")], &[0]).as_deref(),
        Some("GPU")
    );
    for (name, value) in [
        ("FI_CXI_DEVICE_NAME", "cxi1"),
        ("MPICH_OFI_NIC_MAPPING", "0:0-7"),
        ("MPICH_OFI_NUM_NICS", "1"),
    ] {
        assert_eq!(
            policy(4, &[GPU_AWARE, (name, value)], &[0]),
            None,
            "beside the user's `{name}`"
        );
    }
    let nvidia = Situation::new(PortState::Active).with(&[GPU_AWARE]);
    assert_eq!(
        nvidia.why(&task(&[1], &[1]), "MPICH_OFI_NIC_POLICY"),
        "",
        "no Slingshot, no word about it"
    );
}

#[test]
fn libfabric_gets_a_device_only_where_that_is_asked_for_and_never_beside_the_policy() {
    let devices = |situation: &Situation| {
        let device = |gpu| situation.value(&task(&[gpu], &[]), "FI_CXI_DEVICE_NAME");
        (0..8).map(device).collect::<Option<Vec<_>>>()
    };
    assert_eq!(devices(&slingshot(4).with(&[GPU_AWARE])), None);
    let asked = slingshot(4)
        .with(&[GPU_AWARE])
        .libraries(&["default", "libfabric"]);
    let expected: Vec<String> = [0, 0, 1, 1, 2, 2, 3, 3]
        .map(|nic| format!("cxi{nic}"))
        .to_vec();
    assert_eq!(devices(&asked), Some(expected));
    assert_eq!(asked.value(&task(&[0], &[]), "MPICH_OFI_NIC_POLICY"), None);
    let mut ten = slingshot(4).libraries(&["libfabric"]);
    ten.topology.nics[3].name = "cxi10".parse().unwrap();
    assert_eq!(
        ten.value(&task(&[2], &[]), "FI_CXI_DEVICE_NAME").as_deref(),
        Some("cxi1")
    );
    assert_eq!(
        ten.value(&task(&[6], &[]), "FI_CXI_DEVICE_NAME"),
        None,
        "it would admit `cxi1` too"
    );
    assert_eq!(
        ten.value(&task(&[2, 6], &[]), "FI_CXI_DEVICE_NAME")
            .as_deref(),
        Some("cxi1,cxi10")
    );
    let chosen = slingshot(4)
        .with(&[("MPICH_OFI_NIC_POLICY", "NUMA")])
        .libraries(&["libfabric"]);
    assert_eq!(devices(&chosen), None, "the user's policy chooses");
    let fewer = slingshot(4)
        .with(&[("SLINGSHOT_DEVICES", "cxi1")])
        .libraries(&["libfabric"]);
    assert_eq!(
        fewer.value(&task(&[0], &[]), "FI_CXI_DEVICE_NAME"),
        None,
        "not the step's"
    );
    assert_eq!(
        fewer
            .value(&task(&[2], &[]), "FI_CXI_DEVICE_NAME")
            .as_deref(),
        Some("cxi1")
    );
}

#[test]
fn a_verbs_device_is_named_to_libfabric_only_where_its_name_begins_no_other() {
    let mut situation = Situation::new(PortState::Active).libraries(&["libfabric"]);
    assert_eq!(
        situation.changes(&task(&[1], &[1])),
        ["FI_VERBS_DEVICE_NAME=mlx5_1"]
    );
    // a comma list would name no device at all
    assert_eq!(situation.changes(&task(&[0, 1], &[0, 1])), [""; 0]);
    let why = situation.why(&task(&[0, 1], &[0, 1]), "FI_VERBS_DEVICE_NAME");
    assert_eq!(why, "it takes one name, and the task has several NICs");
    situation.topology.nics[3].name = "mlx5_10".parse().unwrap();
    assert_eq!(situation.changes(&task(&[1], &[1])), Vec::<String>::new());
    assert_eq!(
        situation.changes(&task(&[2], &[2])),
        ["FI_VERBS_DEVICE_NAME=mlx5_2"]
    );
    situation.topology.nics[3].name = "MLX5_2X".parse().unwrap();
    assert_eq!(
        situation.changes(&task(&[2], &[2])),
        [""; 0],
        "capitals or not"
    );
    situation.topology.nics[0].ports[0]
        .networks
        .push("10.1.0.0/16".parse().unwrap());
    assert_eq!(
        situation.changes(&task(&[0], &[0])),
        ["FI_VERBS_DEVICE_NAME=mlx5_0"]
    );
    let why = situation.why(&task(&[1], &[1]), "FI_VERBS_DEVICE_NAME");
    assert!(why.contains("has no IP address"), "{why}");
}

#[test]
fn libfabric_gets_no_verbs_device_beside_the_users_interfaces_since_it_may_have_none_of_them() {
    let situation = Situation::new(PortState::Active).libraries(&["libfabric"]);
    let chosen = situation.with(&[("FI_VERBS_IFACE", "ib0")]);
    assert_eq!(
        chosen.value(&task(&[1], &[1]), "FI_VERBS_DEVICE_NAME"),
        None
    );
}

#[test]
fn open_mpi_goes_by_the_gpu_where_libfabric_has_the_nics() {
    let rank = |gpus: &[usize]| {
        slingshot(4).value(
            &task(gpus, &[]),
            "OMPI_MCA_opal_common_ofi_accelerator_rank",
        )
    };
    assert_eq!(
        [0, 1, 2, 3].map(|gpu| rank(&[gpu])),
        ["0", "1", "0", "1"].map(|rank| Some(rank.to_string()))
    );
    assert_eq!(rank(&[2, 3]).as_deref(), Some("0"));
    assert_eq!(
        rank(&[1, 2]),
        None,
        "it may ask before the program chooses its GPU"
    );
    assert_eq!(rank(&[]), None);
    let promised = TaskPlacement {
        seen: vec![GpuIndex(1), GpuIndex(2)],
        ..task(&[2], &[])
    };
    let asked = slingshot(4).with(&[("MPICH_GPU_SUPPORT_ENABLED", "1")]);
    assert_eq!(
        asked.changes(&task(&[2], &[])).len(),
        2,
        "Cray MPICH and Open MPI"
    );
    assert_eq!(
        asked.changes(&promised),
        [""; 0],
        "it uses one of two, but perhaps only later"
    );
}

#[test]
fn oneccl_looks_for_local_nics_only_where_it_will_find_one() {
    let mut situation = slingshot(4).libraries(&["oneccl"]);
    let cpus = |list: &str| CpuSet::from_list(list).unwrap();
    for node in 0..4u32 {
        let own = cpus(&format!("{}-{}", node * 8, node * 8 + 7));
        situation.topology.numa_nodes.push(NumaNode {
            os_index: node,
            cpus: own,
            distances: Vec::new(),
            package: None,
        });
    }
    let mut word = |list: &str, present: &[(&str, &str)]| {
        let mut task = task(&[0], &[]);
        task.cpus = cpus(list);
        situation.present = super::present(present);
        situation.value(&task, "CCL_MNIC")
    };
    assert_eq!(word("8-11", &[]).as_deref(), Some("local"));
    assert_eq!(
        word("4-11", &[]),
        None,
        "no NIC is local to two nodes, and oneCCL would fail"
    );
    assert_eq!(
        word("8-11", &[("CCL_MNIC_NAME", "cxi3")]),
        None,
        "it would fail where none of these is local"
    );
    for (providers, set) in [
        ("tcp", false),
        ("tcp;ofi_rxm", false),
        ("mlx", false),
        ("cxi", true),
        ("verbs;ofi_rxm", true),
        ("tcp,psm3", true),
        ("^tcp", true),
        ("VERBS", true),
        ("Psm3;ofi_rxd", true),
        ("ofi_rxm;verbs", false),
        (" verbs", false),
        ("tcp, cxi", false),
        ("verb", false),
        ("^cxi,verbs,psm3,psm2,OPX,efa", false),
        ("^tcp,^verbs", true),
        ("", false),
    ] {
        assert_eq!(
            word("8-11", &[("FI_PROVIDER", providers)]).is_some(),
            set,
            "`{providers}`"
        );
    }
}

#[test]
fn oneccls_worker_gets_a_cpu_of_the_task_where_the_number_of_entries_is_known() {
    const WORKERS: &str = "CCL_WORKER_AFFINITY";
    let of_task = |local_id: u32, list: &str, present: &[(&str, &str)]| {
        let mut task = TaskPlacement {
            local_id,
            ..task(&[0], &[])
        };
        task.cpus = CpuSet::from_list(list).unwrap();
        let asked = slingshot(4).libraries(&["oneccl"]).with(present);
        (asked.value(&task, WORKERS), asked.why(&task, WORKERS))
    };
    let workers = |list: &str, present: &[(&str, &str)]| of_task(0, list, present);
    let of_four = ("MPI_LOCALNRANKS", "4");
    for (local_id, list) in [(1, "10,10,10,10"), (3, "8,8,8,8"), (5, "10,10,10,10")] {
        assert_eq!(
            of_task(local_id, "8-11", &[of_four]).0.as_deref(),
            Some(list),
            "tasks may share their CPUs"
        );
    }
    assert_eq!(
        workers("8-11", &[of_four]).0.as_deref(),
        Some("11,11,11,11")
    );
    assert_eq!(
        workers("8-11", &[of_four, ("CCL_WORKER_OFFLOAD", "0")]),
        (None, String::new())
    );
    let by_torchrun = [of_four, ("CCL_PROCESS_LAUNCHER", "torchrun")];
    let several = [of_four, ("CCL_WORKER_COUNT", "2")];
    for (cpus, present) in [
        ("8-11", &[][..]),
        ("8-11", &by_torchrun),
        ("8-11", &several),
        ("8-11", &[("MPI_LOCALNRANKS", "0")]),
        ("8-11", &[("MPI_LOCALNRANKS", "100000")]),
        ("8", &[of_four]),
        ("", &[of_four]),
    ] {
        let (value, why) = workers(cpus, present);
        assert_eq!(value, None, "{cpus} {present:?}");
        assert!(
            why.contains("`CCL_WORKER_OFFLOAD=0`"),
            "{cpus} {present:?}: {why}"
        );
    }
}

/// Open MPI goes by the GPU: to the second of the NICs, which are all as near.
const OPEN_MPI: &str = "OMPI_MCA_opal_common_ofi_accelerator_rank=1";

#[test]
fn efa_gets_nothing_whatever_is_asked_and_the_report_says_why() {
    let mut situation = Situation::new(PortState::Active);
    situation
        .topology
        .nics
        .iter_mut()
        .for_each(|nic| nic.kind = NicKind::Efa);
    situation.node.rails.clear();
    situation.node.left_to_libfabric = situation
        .topology
        .numbered_nics()
        .map(|(nic, _)| nic)
        .collect();
    for words in [
        &["default"][..],
        &["default", "libfabric", "mooncake", "nvshmem-pe"],
    ] {
        let situation = Situation {
            wish: Wish::default(),
            ..situation_of(&situation)
        }
        .libraries(words);
        assert_eq!(
            situation.changes(&task(&[1], &[])),
            [OPEN_MPI],
            "with {words:?}"
        );
        assert!(
            situation
                .why(&task(&[1], &[]), "FI_EFA_IFACE")
                .contains("groups the devices")
        );
        assert!(
            situation
                .why(&task(&[1], &[]), "NCCL_IB_HCA")
                .contains("through libfabric")
        );
    }
    let chosen = situation.with(&[
        ("FI_EFA_IFACE", "rdmap0s1"),
        (
            marker::NAME,
            "v1 policy=closest gpus= nics= set:FI_EFA_IFACE=rdmap0s1",
        ),
    ]);
    assert_eq!(
        chosen.changes(&task(&[1], &[])),
        [OPEN_MPI],
        "no marker claims what is never ours"
    );
}

fn situation_of(other: &Situation) -> Situation {
    Situation {
        topology: other.topology.clone(),
        node: other.node.clone(),
        wish: other.wish.clone(),
        step: other.step.clone(),
        present: other.present.clone(),
        files: other.files,
    }
}

#[test]
fn mpich_goes_by_the_gpu_only_where_that_is_asked_for_and_its_gpus_share_a_nic() {
    const AFFINITY: &str = "MPIR_CVAR_CH4_OFI_NIC_GPU_AFFINITY";
    let cuda = || {
        let mut situation = slingshot(4);
        situation
            .topology
            .gpus
            .iter_mut()
            .for_each(|gpu| gpu.vendor = GpuVendor::Nvidia);
        situation
    };
    assert_eq!(
        cuda().value(&task(&[0], &[]), AFFINITY),
        None,
        "not asked for"
    );
    let asked = || cuda().libraries(&["mpich"]);
    assert_eq!(asked().changes(&task(&[0], &[])), [format!("{AFFINITY}=1")]);
    assert_eq!(
        asked().value(&task(&[2, 3], &[]), AFFINITY).as_deref(),
        Some("1")
    );
    assert_eq!(
        asked().value(&task(&[1, 2], &[]), AFFINITY),
        None,
        "it takes that of the first"
    );
    assert_eq!(asked().value(&task(&[], &[]), AFFINITY), None);
    assert_eq!(
        slingshot(4)
            .libraries(&["mpich"])
            .value(&task(&[0], &[]), AFFINITY),
        None,
        "CUDA alone"
    );
    let preferred = asked().with(&[("MPIR_CVAR_CH4_OFI_PREF_NIC", "2")]);
    assert_eq!(
        preferred.value(&task(&[0], &[]), AFFINITY),
        None,
        "the user's number counts"
    );
}
