//! Slingshot and EFA: what Cray MPICH, Open MPI, oneCCL and libfabric's providers are told.

use super::*;

/// GPU 0 of Frontier's kind of node: `nics` Slingshot NICs, each beside two AMD GPUs.
fn slingshot(nics: usize) -> Situation {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for index in 0..nics {
        let host = PciParent::Host(format!("pci0000:{index}0").parse().unwrap());
        let mut function = |address: String| {
            let address: PciAddress = address.parse().unwrap();
            let mut function = PciFunction::new(address, host);
            function.numa_node = Some(index as u32);
            topology.pci.insert(function);
            address
        };
        let address = function(format!("{index}1:00.0"));
        let gpus = [5, 6].map(|half| function(format!("{index}{half}:00.0")));
        let port = Port::new(1, PortState::Active, LinkLayer::Ethernet, None);
        topology.nics.push(Nic {
            address: Some(address),
            ports: vec![port],
            ..Nic::new(format!("cxi{index}").parse().unwrap(), NicKind::Slingshot)
        });
        let gpus = gpus.map(|gpu| Gpu::new(gpu, GpuVendor::Amd));
        topology.gpus.extend(gpus);
    }
    let placement = NodePlacement {
        left_to_libfabric: topology.numbered_nics().map(|(nic, _)| nic).collect(),
        ..NodePlacement::default()
    };
    Situation::new((topology, placement)).task(&[0], &[])
}

const GPU_AWARE: &str = "MPICH_GPU_SUPPORT_ENABLED=1";

#[test]
fn cray_mpich_is_told_to_go_by_the_gpu_where_it_can() {
    const POLICY: &str = "MPICH_OFI_NIC_POLICY";
    for (nics, gpus, variables, expected) in [
        (4, &[0][..], &[GPU_AWARE][..], "GPU"),
        (4, &[7], &[GPU_AWARE], "GPU"),
        // both have the same NIC
        (4, &[2, 3], &[GPU_AWARE], "GPU"),
        // MPI may ask before the program chooses its GPU
        (4, &[0, 1, 2], &[GPU_AWARE], ""),
        // MPI does not handle GPU memory
        (4, &[0], &[], ""),
        (4, &[0], &["MPICH_GPU_SUPPORT_ENABLED=0"], ""),
        (4, &[], &[GPU_AWARE], ""),
        // one NIC is no choice
        (1, &[0], &[GPU_AWARE], ""),
        (4, &[0], &[GPU_AWARE, "SLINGSHOT_DEVICES=cxi2"], ""),
        (4, &[0], &[GPU_AWARE, "SLINGSHOT_DEVICES=cxi0,cxi2"], "GPU"),
        // the user chooses by another variable
        (4, &[0], &[GPU_AWARE, "FI_CXI_DEVICE_NAME=cxi1"], ""),
        (4, &[0], &[GPU_AWARE, "MPICH_OFI_NIC_MAPPING=0:0-7"], ""),
        (4, &[0], &[GPU_AWARE, "MPICH_OFI_NUM_NICS=1"], ""),
    ] {
        let situation = slingshot(nics).task(gpus, &[]).env(variables);
        let found = situation.value(POLICY);
        assert_eq!(found, expected, "{nics} {gpus:?} {variables:?}");
    }
    assert_eq!(here().env(&[GPU_AWARE]).why(POLICY), "", "no Slingshot");
}

#[test]
fn libfabric_gets_a_device_only_where_that_is_asked_for_and_never_beside_the_policy() {
    const DEVICE: &str = "FI_CXI_DEVICE_NAME";
    let of =
        |situation: &Situation, gpus: &[usize]| situation.clone().task(gpus, &[]).value(DEVICE);
    let asked = slingshot(4).libraries("libfabric");
    for gpu in 0..8 {
        assert_eq!(of(&slingshot(4).env(&[GPU_AWARE]), &[gpu]), "");
        let aware = slingshot(4).libraries("default libfabric");
        let aware = aware.env(&[GPU_AWARE]);
        assert_eq!(of(&aware, &[gpu]), format!("cxi{}", gpu / 2));
        assert_eq!(aware.value("MPICH_OFI_NIC_POLICY"), "");
        let chosen = asked.clone().env(&["MPICH_OFI_NIC_POLICY=NUMA"]);
        assert_eq!(of(&chosen, &[gpu]), "", "the user's policy chooses");
    }
    let mut ten = asked.clone();
    ten.topology.nics[3].name = "cxi10".parse().unwrap();
    let fewer = asked.env(&["SLINGSHOT_DEVICES=cxi1"]);
    for (situation, gpus, expected) in [
        (&ten, &[2][..], "cxi1"),
        // it would admit `cxi10` too
        (&ten, &[6], ""),
        (&ten, &[2, 6], "cxi1,cxi10"),
        // not the step's
        (&fewer, &[0], ""),
        (&fewer, &[2], "cxi1"),
    ] {
        assert_eq!(of(situation, gpus), expected, "{gpus:?}");
    }
}

#[test]
fn a_verbs_device_is_named_to_libfabric_only_where_its_name_begins_no_other() {
    const DEVICE: &str = "FI_VERBS_DEVICE_NAME";
    let of = |fourth: &str, gpus: &[usize]| {
        let mut situation = here().libraries("libfabric").gpus(gpus);
        situation.topology.nics[3].name = fourth.parse().unwrap();
        situation
    };
    for (fourth, gpus, expected) in [
        ("mlx5_3", &[1][..], "mlx5_1"),
        // a comma list would name no device at all
        ("mlx5_3", &[0, 1], ""),
        ("mlx5_10", &[1], ""),
        ("mlx5_10", &[2], "mlx5_2"),
        ("MLX5_2X", &[2], ""),
    ] {
        let changes = of(fourth, gpus).changes();
        let expected = Some(expected).filter(|name| !name.is_empty());
        let expected = expected.map(|name| format!("{DEVICE}={name}"));
        assert_eq!(changes, Vec::from_iter(expected), "{fourth} {gpus:?}");
    }
    of("mlx5_3", &[0, 1]).begins(DEVICE, "it takes one name");
    // some of the NICs have an IP address
    let mut addressed = here().libraries("libfabric");
    addressed.port(0).networks = vec!["10.1.0.0/16".parse().unwrap()];
    addressed.says(DEVICE, "has no IP address");
    assert_eq!(addressed.gpus(&[0]).value(DEVICE), "mlx5_0");
    // the user's interface may have none of them
    let chosen = of("mlx5_3", &[1]).env(&["FI_VERBS_IFACE=ib0"]);
    assert_eq!(chosen.value(DEVICE), "");
}

#[test]
fn open_mpi_goes_by_the_gpu_where_libfabric_has_the_nics() {
    const RANK: &str = "OMPI_MCA_opal_common_ofi_accelerator_rank";
    for (gpus, expected) in [
        (&[0][..], "0"),
        (&[1], "1"),
        (&[2], "0"),
        (&[3], "1"),
        (&[2, 3], "0"),
        // it may ask before the program chooses its GPU
        (&[1, 2], ""),
        (&[], ""),
    ] {
        let situation = slingshot(4).task(gpus, &[]);
        assert_eq!(situation.value(RANK), expected, "{gpus:?}");
    }
    let mut promised = slingshot(4).env(&[GPU_AWARE]).task(&[2], &[]);
    assert_eq!(promised.changes().len(), 2, "Cray MPICH and Open MPI");
    // it uses one of two, but perhaps only later
    promised.task.seen = vec![GpuIndex(1), GpuIndex(2)];
    assert_eq!(promised.changes(), [""; 0]);
}

/// oneCCL with these CPUs of four nodes of eight.
fn oneccl(cpus: &str, variables: &[&str]) -> Situation {
    let mut situation = slingshot(4).libraries("oneccl").env(variables);
    let nodes = crate::bind::tests::machine([1, 4, 8, 1], false, &[]).numa_nodes;
    situation.topology.numa_nodes = nodes;
    situation.task.cpus = CpuSet::from_list(cpus).unwrap();
    situation
}

#[test]
fn oneccl_looks_for_local_nics_only_where_it_will_find_one() {
    const LOCAL: &str = "CCL_MNIC";
    assert_eq!(oneccl("8-11", &[]).value(LOCAL), "local");
    // no NIC is local to two nodes, and oneCCL would fail, as where none of these is local
    assert_eq!(oneccl("4-11", &[]).value(LOCAL), "");
    assert_eq!(oneccl("8-11", &["CCL_MNIC_NAME=cxi3"]).value(LOCAL), "");
    let with = "cxi|verbs;ofi_rxm|tcp,psm3|^tcp|VERBS|Psm3;ofi_rxd|^tcp,^verbs";
    let without = "tcp|tcp;ofi_rxm|mlx|ofi_rxm;verbs| verbs|tcp, cxi|verb||\
                   ^cxi,verbs,psm3,psm2,OPX,efa";
    for (providers, is_set) in [(with, true), (without, false)] {
        for provider in providers.split('|') {
            let situation = oneccl("8-11", &[&format!("FI_PROVIDER={provider}")]);
            assert_eq!(situation.sets(LOCAL), is_set, "`{provider}`");
        }
    }
}

#[test]
fn oneccls_worker_gets_a_cpu_of_the_task_where_the_number_of_entries_is_known() {
    const WORKERS: &str = "CCL_WORKER_AFFINITY";
    const OF_FOUR: &str = "MPI_LOCALNRANKS=4";
    // tasks may share their CPUs
    for (local_id, list) in [(0, 11), (1, 10), (3, 8), (5, 10)] {
        let mut situation = oneccl("8-11", &[OF_FOUR]);
        situation.task.local_id = local_id;
        let found = situation.value(WORKERS);
        assert_eq!(found, vec![list.to_string(); 4].join(","));
    }
    let off = oneccl("8-11", &[OF_FOUR, "CCL_WORKER_OFFLOAD=0"]);
    assert_eq!([off.value(WORKERS), off.why(WORKERS)], ["", ""]);
    for (cpus, present) in [
        ("8-11", &[][..]),
        ("8-11", &[OF_FOUR, "CCL_PROCESS_LAUNCHER=torchrun"]),
        ("8-11", &[OF_FOUR, "CCL_WORKER_COUNT=2"]),
        ("8-11", &["MPI_LOCALNRANKS=0"]),
        ("8-11", &["MPI_LOCALNRANKS=100000"]),
        ("8", &[OF_FOUR]),
        ("", &[OF_FOUR]),
    ] {
        let situation = oneccl(cpus, present);
        assert_eq!(situation.value(WORKERS), "", "{cpus} {present:?}");
        situation.says(WORKERS, "`CCL_WORKER_OFFLOAD=0`");
    }
}

#[test]
fn efa_gets_nothing_whatever_is_asked_and_the_report_says_why() {
    // Open MPI goes by the GPU: to the second of the NICs, which are all as near
    const OPEN_MPI: &str = "OMPI_MCA_opal_common_ofi_accelerator_rank=1";
    let mut efa = here().nics_are(NicKind::Efa).task(&[1], &[]);
    efa.node.rails.clear();
    efa.node.left_to_libfabric = efa.topology.numbered_nics().map(|(nic, _)| nic).collect();
    for words in ["default", "default libfabric mooncake nvshmem-pe"] {
        let situation = efa.clone().libraries(words);
        assert_eq!(situation.changes(), [OPEN_MPI], "with {words:?}");
        situation.says("FI_EFA_IFACE", "groups the devices");
        situation.says("NCCL_IB_HCA", "through libfabric");
    }
    // no marker claims what is never ours
    let marked = "NIC_PLACEMENT=v1 policy=closest gpus= nics= set:FI_EFA_IFACE=rdmap0s1";
    let chosen = efa.env(&["FI_EFA_IFACE=rdmap0s1", marked]);
    assert_eq!(chosen.changes(), [OPEN_MPI]);
}

#[test]
fn mpich_goes_by_the_gpu_only_where_that_is_asked_for_and_its_gpus_share_a_nic() {
    const AFFINITY: &str = "MPIR_CVAR_CH4_OFI_NIC_GPU_AFFINITY";
    let cuda = slingshot(4).gpus_are(GpuVendor::Nvidia);
    assert_eq!(cuda.value(AFFINITY), "", "not asked for");
    let asked = cuda.libraries("mpich");
    assert_eq!(asked.changes(), [format!("{AFFINITY}=1")]);
    // it takes that of the first of two
    for (gpus, expected) in [(&[2, 3][..], "1"), (&[1, 2], ""), (&[], "")] {
        let situation = asked.clone().task(gpus, &[]);
        assert_eq!(situation.value(AFFINITY), expected, "{gpus:?}");
    }
    // CUDA alone
    assert_eq!(slingshot(4).libraries("mpich").value(AFFINITY), "");
    let preferred = asked.env(&["MPIR_CVAR_CH4_OFI_PREF_NIC=2"]);
    assert_eq!(preferred.value(AFFINITY), "", "the user's number counts");
}
