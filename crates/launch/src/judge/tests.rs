//! What we tell users about their own variables.

mod rebinding;

use super::*;
use nic_placement_core::policy;
use nic_placement_core::topology::Gpu;
use nic_placement_core::topology::{LinkLayer, Port, PortState, Provenance};
use nic_placement_node::platform;

/// Two equal GPUs, `mlx5_1`, `mlx5_10` and `mlx5_2`, the last one without a link.
fn topology() -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for (index, name) in ["mlx5_1", "mlx5_10", "mlx5_2"].into_iter().enumerate() {
        let state = if index == 2 {
            PortState::Down
        } else {
            PortState::Active
        };
        let port = Port::new(1, state, LinkLayer::InfiniBand, None);
        let address = format!("{}0:00.0", index + 3).parse().ok();
        topology.nics.push(Nic {
            address,
            ports: vec![port],
            ..Nic::new(name.parse().unwrap(), NicKind::Verbs)
        });
    }
    for address in ["10:00.0", "20:00.0"] {
        topology
            .gpus
            .push(Gpu::new(address.parse().unwrap(), GpuVendor::Nvidia));
    }
    topology
}

fn told_of(topology: &Topology, task: &Task, values: &[(&str, &str)]) -> Vec<String> {
    told_of_one_of(2, topology, task, values)
}

fn told_of_one_of(
    tasks: u32,
    topology: &Topology,
    task: &Task,
    values: &[(&str, &str)],
) -> Vec<String> {
    told_on(Fabric::Unsaid, tasks, topology, task, values)
}

fn told_on(
    fabric: Fabric,
    tasks: u32,
    topology: &Topology,
    task: &Task,
    values: &[(&str, &str)],
) -> Vec<String> {
    told_by(fabric, tasks, topology, task, values, &[], |_| ())
}

fn told_by(
    fabric: Fabric,
    tasks: u32,
    topology: &Topology,
    task: &Task,
    values: &[(&str, &str)],
    words: &[&'static str],
    change: impl FnOnce(&mut Checked),
) -> Vec<String> {
    let present = values
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let interfaces = ["lo".to_string(), "eth0".to_string()];
    let node = policy::map(topology, &Default::default());
    let read = |path: &str| (path == "/there.xml").then(Default::default);
    let mut checked = Checked {
        present: &present,
        topology,
        node: &node,
        task,
        tasks,
        words,
        is_bound: true,
        fabric,
        interfaces: &interfaces,
        read: &read,
    };
    change(&mut checked);
    lint(&checked).iter().map(ToString::to_string).collect()
}

fn told(values: &[(&str, &str)]) -> Vec<String> {
    told_of(&topology(), &Task::default(), values)
}

/// Exactly one finding, with these words in it.
fn says(values: &[(&str, &str)], words: &str) {
    let told = told(values);
    assert!(
        told.len() == 1 && told[0].contains(words),
        "{values:?}: {told:?}"
    );
}

#[test]
fn a_list_of_thousands_of_mistakes_is_told_in_a_few_lines_and_hides_no_other() {
    let wrong: String = (0..5_000).map(|entry| format!("no{entry},")).collect();
    for name in ["NCCL_IB_HCA", "UCX_NET_DEVICES", "NVSHMEM_HCA_LIST"] {
        let told = told(&[
            (name, &format!("{wrong}x:1")),
            ("NCCL_SOCKET_IFNAME", "nowhere"),
        ]);
        assert!((5..10).contains(&told.len()), "{} lines", told.len());
        let more = told.iter().find(|line| line.contains("more such entries"));
        assert!(
            more.is_some_and(|line| line.ends_with(": 4997 more such entries")),
            "{told:?}"
        );
        assert!(
            told.iter().any(|line| line.contains("NCCL_SOCKET_IFNAME")),
            "{told:?}"
        );
    }
}

#[test]
fn a_space_in_a_list_is_told_since_the_library_finds_no_device_of_that_name() {
    for (name, value) in [
        ("NCCL_IB_HCA", "=mlx5_10, mlx5_1"),
        ("UCX_NET_DEVICES", "mlx5_10:1, mlx5_1:1,eth0"),
        ("UCX_NET_DEVICES", "mlx5_1:1 "),
        ("NVSHMEM_HCA_LIST", "mlx5_10, mlx5_1"),
    ] {
        says(&[(name, value)], "the space beside `mlx5_1");
    }
    assert_eq!(told(&[("MC_TE_FILTERS", "mlx5_10, mlx5_1")]), [""; 0]);
}

#[test]
fn what_is_right_is_not_spoken_of() {
    for values in [
        &[][..],
        &[
            ("NCCL_IB_HCA", "=mlx5_1:1"),
            ("NCCL_DEBUG", "WARN"),
            ("NCCL_P2P_DISABLE", "0"),
        ],
        &[
            ("NCCL_IB_HCA", "mlx5"),
            ("NCCL_IB_DISABLE", "0"),
            ("NCCL_SHM_DISABLE", ""),
        ],
        &[("NCCL_IB_HCA", "^=mlx5_1")],
        &[("NCCL_IB_HCA", "mlx5_10")],
        &[("UCX_NET_DEVICES", "all")],
        &[("UCX_NET_DEVICES", "mlx5_[0-9]:1")],
        &[("UCX_NET_DEVICES", "all"), ("UCX_TLS", "rc,rc_gda")],
        &[("UCX_NET_DEVICES", "^mlx5_1:1"), ("UCX_TLS", "rc,rc_gda")],
        &[("UCX_NET_DEVICES", "mlx5_1:1"), ("UCX_TLS", "rc")],
        &[
            ("UCX_NET_DEVICES", "mlx5_1:1,cuda0-mlx5_1:1,eth0"),
            ("UCX_TLS", "rc,rc_gda"),
            ("NVSHMEM_HCA_LIST", "^mlx5_10:1"),
            ("NVSHMEM_ENABLE_NIC_PE_MAPPING", "1"),
            ("MC_TE_FILTERS", "mlx5_1"),
        ],
        &[
            ("NCCL_NSOCKS_PERTHREAD", "8"),
            ("NCCL_SOCKET_NTHREADS", "8"),
        ],
        &[("NCCL_SOCKET_IFNAME", "eth")],
        &[("NCCL_SOCKET_IFNAME", "^docker")],
    ] {
        assert_eq!(told(values), Vec::<String>::new(), "{values:?}");
    }
}

#[test]
fn transports_that_are_switched_off_are_named() {
    says(&[("NCCL_P2P_DISABLE", "1")], "host memory: unset it");
    says(&[("NCCL_SHM_DISABLE", "1")], "through the network");
    says(&[("NCCL_IB_DISABLE", "1")], "uses sockets");
    says(&[("NCCL_DEBUG", "info")], "use `WARN`");
    let mut slingshot = topology();
    slingshot
        .nics
        .iter_mut()
        .for_each(|nic| nic.kind = NicKind::Slingshot);
    let told = told_of(
        &slingshot,
        &Task::default(),
        &[("NCCL_IB_DISABLE", "1"), ("NCCL_IB_HCA", "mlx5")],
    );
    assert_eq!(
        told,
        Vec::<String>::new(),
        "nothing to disable on Slingshot"
    );
}

#[test]
fn a_prefix_that_means_more_than_it_says_is_named() {
    says(
        &[("NCCL_IB_HCA", "mlx5_1")],
        "`mlx5_1` also means mlx5_10, which begin with it: write `=`",
    );
    let without = told(&[("NCCL_IB_HCA", "^mlx5_1")]);
    assert!(
        without.len() == 2 && without[0].contains("`mlx5_1` also means mlx5_10"),
        "{without:?}"
    );
    assert!(without[1].contains("leaves no NIC"), "{without:?}");
}

#[test]
fn a_name_that_means_nothing_here_is_named() {
    says(
        &[("NCCL_IB_HCA", "=mlx5_1,mlx5_9:1")],
        "`mlx5_9` names no active NIC",
    );
    says(
        &[("NCCL_IB_HCA", "=mlx5_1,mlx5_2")],
        "`mlx5_2` names no active NIC",
    );
    says(
        &[("NCCL_IB_HCA", "=mlx5_1::0:0,mlx5_10:1:1:0")],
        "`mlx5_1::0:0` names no port",
    );
    says(
        &[("UCX_NET_DEVICES", "mlx5_1:1,mlx5_9:1")],
        "`mlx5_9:1` is no device of this node",
    );
    says(
        &[("UCX_NET_DEVICES", "mlx5_1:1,mlx5_9")],
        "`mlx5_9` is no device of this node",
    );
    says(
        &[("UCX_NET_DEVICES", "cuda0-mlx5_9:1")],
        "`cuda0-mlx5_9:1` is no device of this node",
    );
    says(
        &[("UCX_NET_DEVICES", "cuda-mlx5_1:1")],
        "is no device of this node",
    );
    says(
        &[("NVSHMEM_HCA_LIST", "cuda0-mlx5_1:1")],
        "is no device of this node",
    );
    says(
        &[("UCX_NET_DEVICES", "mlx5_1:1"), ("UCX_TLS", "rc,rc_gda")],
        "whose devices are called `cuda0-NIC:1`",
    );
    says(
        &[("UCX_NET_DEVICES", "mlx5_1:2")],
        "names a port that the device lacks",
    );
    says(&[("UCX_NET_DEVICES", "mlx5_1")], "write `mlx5_1:1`");
    for item in ["mlx5_1:x", "mlx5_1:", "mlx5_1:1:2"] {
        says(
            &[("UCX_NET_DEVICES", item)],
            &format!("`{item}` names no port: write `mlx5_1:1`"),
        );
    }
    says(
        &[("UCX_NET_DEVICES", "cuda0-mlx5_1:x")],
        "write `cuda0-mlx5_1:1`",
    );
    says(&[("NVSHMEM_HCA_LIST", "mlx5_9")], "is no device");
    says(&[("MC_TE_FILTERS", "mlx5_9")], "is no device");
    says(&[("NCCL_SOCKET_IFNAME", "=eth")], "cannot start");
    says(&[("NCCL_SOCKET_IFNAME", "ib0")], "cannot start");
    let both = told(&[("NCCL_IB_HCA", "=mlx5_9")]);
    assert!(
        both.len() == 2 && both[1].contains("falls back to sockets"),
        "{both:?}"
    );
    let none = told(&[("NCCL_IB_HCA", "^mlx5")]);
    assert!(
        none.len() == 1 && none[0].contains("falls back to sockets"),
        "{none:?}"
    );
}

#[test]
fn more_sockets_than_nccl_opens_are_named() {
    says(
        &[
            ("NCCL_NSOCKS_PERTHREAD", "16"),
            ("NCCL_SOCKET_NTHREADS", "8"),
        ],
        "more than the 64 sockets",
    );
}

#[test]
fn unequal_gpus_want_an_order_and_isolated_ones_a_word() {
    let mut unequal = topology();
    unequal.gpus[0].model = Some("A100".to_string());
    unequal.gpus[1].model = Some("H100".to_string());
    let told = told_of(&unequal, &Task::default(), &[]);
    assert!(
        told.len() == 1 && told[0].contains("set it to `PCI_BUS_ID`"),
        "{told:?}"
    );
    let ordered = [("CUDA_DEVICE_ORDER", "PCI_BUS_ID")];
    assert_eq!(
        told_of(&unequal, &Task::default(), &ordered),
        Vec::<String>::new()
    );

    let mut isolated = Task::default();
    isolated.gpus.access = vec![Access::Allowed, Access::Denied];
    let told = told_of(&topology(), &isolated, &[]);
    assert!(
        told.len() == 1 && told[0].contains("`--gpu-bind=none`"),
        "{told:?}"
    );
    let cured = ("NCCL_P2P_PXN_LEVEL", "0");
    assert_eq!(
        told_of(&topology(), &isolated, &[cured]),
        Vec::<String>::new()
    );
    let held = told_of(&topology(), &isolated, &[cured, ("NCCL_CROSS_NIC", "0")]);
    assert!(
        held.len() == 1 && held[0].ends_with("one NIC: try `--gpu-bind=none`"),
        "{held:?}"
    );
    let on =
        |values: &[(&str, &str)]| told_on(Fabric::IsolatedRails, 2, &topology(), &isolated, values);
    assert_eq!(on(&[cured]), held, "the plugin sets it there");
    assert_eq!(
        on(&[cured, ("NCCL_CROSS_NIC", "2")]),
        Vec::<String>::new(),
        "the user's own stays"
    );
    assert_eq!(
        told_of_one_of(1, &topology(), &isolated, &[]),
        Vec::<String>::new(),
        "alone in its step"
    );
    let mut one_gpu = topology();
    one_gpu.gpus.pop();
    assert_eq!(told_of(&one_gpu, &isolated, &[]), Vec::<String>::new());
    isolated.gpus.access = vec![Access::Denied, Access::Denied];
    assert_eq!(
        told_of(&topology(), &isolated, &[]),
        Vec::<String>::new(),
        "no GPU is no isolated one"
    );
}

#[test]
fn an_interface_that_is_called_as_a_nic_needs_no_port() {
    let mut named = topology();
    named.nics[0].name = "eth0".parse().unwrap();
    let list = [("UCX_NET_DEVICES", "mlx5_10:1,eth0")];
    assert_eq!(
        told_of(&named, &Task::default(), &list),
        Vec::<String>::new()
    );
}

#[test]
fn a_value_reaches_a_terminal_without_control_characters() {
    let told = told(&[
        ("NCCL_IB_HCA", "=\u{1b}[2J"),
        ("UCX_NET_DEVICES", "\u{7}:1"),
    ]);
    assert!(
        told.len() >= 2 && told.iter().all(|told| !told.contains(char::is_control)),
        "{told:?}"
    );
}

/// What is said on a DGX H100.
fn told_on_a_dgx(values: &[(&str, &str)]) -> Vec<String> {
    told_of(
        &platform::model("dgx-h100").unwrap(),
        &Task::default(),
        values,
    )
}

#[test]
fn a_storage_nic_in_a_list_is_told_with_the_reason_for_which_it_is_left_out() {
    for (name, list) in [
        ("NCCL_IB_HCA", "=mlx5_0,mlx5_1"),
        ("UCX_NET_DEVICES", "mlx5_1:1"),
    ] {
        let told = told_on_a_dgx(&[(name, list)]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("it admits `mlx5_1:1`, which is left out here: "),
            "{told:?}"
        );
    }
    let all_by_name = told_on_a_dgx(&[("NCCL_IB_HCA", "mlx5")]);
    assert!(
        all_by_name[0].contains("which is left out here: "),
        "{all_by_name:?}"
    );
    assert_eq!(
        told_on_a_dgx(&[("NCCL_IB_HCA", "=mlx5_0,mlx5_3")]),
        Vec::<String>::new()
    );
    assert_eq!(
        told_on_a_dgx(&[("UCX_NET_DEVICES", "all")]),
        Vec::<String>::new()
    );
}

#[test]
fn knobs_that_undo_the_placement_are_told() {
    for (name, value, words) in [
        ("NCCL_IGNORE_CPU_AFFINITY", "1", "leave the task's CPUs"),
        ("NCCL_MAX_NCHANNELS", "4", "cannot use all 8"),
        ("NCCL_BUFFSIZE", "1048576", "smaller than NCCL's own 4 MiB"),
        ("NCCL_BUFFSIZE", "1", "smaller than NCCL's own 4 MiB"),
        ("NCCL_BUFFSIZE", "5000000", "a power of 2"),
        (
            "NCCL_NET_GDR_LEVEL",
            "LOC",
            "off for 8 of this node's 8 GPUs",
        ),
        (
            "NCCL_NET_GDR_LEVEL",
            "NVL",
            "off for 8 of this node's 8 GPUs",
        ),
        ("NCCL_NVLS_ENABLE", "0", "NVSwitches"),
        ("NCCL_TOPO_FILE", "/missing.xml", "no such file can be read"),
    ] {
        let told = told_on_a_dgx(&[(name, value)]);
        assert!(
            told.len() == 1 && told[0].contains(words),
            "{name}={value}: {told:?}"
        );
    }
    let both = told_on_a_dgx(&[("NCCL_MIN_NCHANNELS", "32"), ("NCCL_MAX_NCHANNELS", "16")]);
    assert!(
        both.len() == 1 && both[0].contains("more than `NCCL_MAX_NCHANNELS=16`"),
        "{both:?}"
    );
}

#[test]
fn knobs_that_harm_nothing_here_are_not_spoken_of() {
    for (name, value) in [
        ("NCCL_IGNORE_CPU_AFFINITY", "0"),
        ("NCCL_MAX_NCHANNELS", "8"),
        ("NCCL_MAX_NCHANNELS", "16"),
        ("NCCL_MIN_NCHANNELS", "8"),
        ("NCCL_BUFFSIZE", "0"),
        ("NCCL_BUFFSIZE", "4194304"),
        ("NCCL_BUFFSIZE", "8388608"),
        ("NCCL_NET_GDR_LEVEL", "PIX"),
        ("NCCL_NET_GDR_LEVEL", "loc"),
        ("NCCL_NET_GDR_LEVEL", "SYS"),
        ("NCCL_NVLS_ENABLE", "1"),
        ("NCCL_COLLNET_ENABLE", "0"),
        ("NCCL_COLLNET_ENABLE", "1"),
        ("NCCL_TOPO_FILE", "/there.xml"),
        ("NCCL_TOPO_FILE", "/proc/self/fd/9"),
    ] {
        assert_eq!(
            told_on_a_dgx(&[(name, value)]),
            Vec::<String>::new(),
            "{name}={value}"
        );
    }
    let equal = [("NCCL_MIN_NCHANNELS", "16"), ("NCCL_MAX_NCHANNELS", "16")];
    assert_eq!(told_on_a_dgx(&equal), Vec::<String>::new());
    let a100 = platform::model("dgx-a100").unwrap();
    let without_nvls = told_of(&a100, &Task::default(), &[("NCCL_NVLS_ENABLE", "0")]);
    assert_eq!(
        without_nvls,
        Vec::<String>::new(),
        "its NVSwitches reduce nothing"
    );
    let mut one_gpu = topology();
    one_gpu.gpus.pop();
    let alone = told_of(&one_gpu, &Task::default(), &[("NCCL_MAX_NCHANNELS", "1")]);
    assert_eq!(alone, Vec::<String>::new(), "one GPU uses one NIC");
}

#[test]
fn gpudirect_is_off_where_the_nearest_nic_is_farther_than_the_level() {
    let pxb = platform::model("oci-bm-gpu-h100-8").unwrap();
    let sys = topology();
    for (topology, gpus, off_at, on_at) in [
        (
            &pxb,
            8,
            &["LOC", "0", "PIX", "1"][..],
            &["PXB", "loc", "2", "PHB", "3", "SYS", "5", "no level"][..],
        ),
        (
            &sys,
            2,
            &["LOC", "PIX", "1", "PXN", "2", "PHB", "3"],
            &["SYS", "4", "5", "pxb", "no level"],
        ),
    ] {
        let told =
            |level: &&str| told_of(topology, &Task::default(), &[("NCCL_NET_GDR_LEVEL", level)]);
        let words = format!("off for {gpus} of this node's {gpus} GPUs");
        for level in off_at {
            let told = told(level);
            assert!(
                told.len() == 1 && told[0].contains(&words),
                "{level}: {told:?}"
            );
        }
        on_at
            .iter()
            .for_each(|level| assert_eq!(told(level), Vec::<String>::new(), "{level}"));
    }
}
