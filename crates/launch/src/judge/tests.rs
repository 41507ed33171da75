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
    for (name, address, state) in [
        ("mlx5_1", "30:00.0", PortState::Active),
        ("mlx5_10", "40:00.0", PortState::Active),
        ("mlx5_2", "50:00.0", PortState::Down),
    ] {
        topology.nics.push(Nic {
            address: address.parse().ok(),
            ports: vec![Port::new(1, state, LinkLayer::InfiniBand, None)],
            ..Nic::new(name.parse().unwrap(), NicKind::Verbs)
        });
    }
    let gpus = ["10:00.0", "20:00.0"].map(|address| address.parse().unwrap());
    topology.gpus = gpus.map(|gpu| Gpu::new(gpu, GpuVendor::Nvidia)).into();
    topology
}

/// The findings on a task of two with these variables (`NAME=VALUE`), of a program of these words, after a change.
fn told_by(
    topology: &Topology,
    values: &[&str],
    task: &Task,
    words: &[&'static str],
    change: impl FnOnce(&mut Checked),
) -> Vec<String> {
    let pairs = values.iter().map(|value| value.split_once('=').unwrap());
    let pairs = pairs.map(|(name, value)| (name.to_string(), value.to_string()));
    let present = pairs.collect();
    let interfaces = ["lo".to_string(), "eth0".to_string()];
    let node = policy::map(topology, &Default::default());
    let read = |path: &str| (path == "/there.xml").then(Default::default);
    let mut checked = Checked {
        present: &present,
        topology,
        node: &node,
        task,
        tasks: 2,
        words,
        is_bound: true,
        fabric: Fabric::Unsaid,
        interfaces: &interfaces,
        read: &read,
    };
    change(&mut checked);
    lint(&checked).iter().map(ToString::to_string).collect()
}

fn told_of(topology: &Topology, values: &[&str]) -> Vec<String> {
    told_by(topology, values, &Task::default(), &[], |_| ())
}

/// As many findings as parts, each with its part.
#[track_caller]
fn says(topology: &Topology, values: &[&str], parts: &[&str]) {
    let told = told_of(topology, values);
    let is_told = told.len() == parts.len()
        && told
            .iter()
            .zip(parts)
            .all(|(told, part)| told.contains(part));
    assert!(is_told, "{values:?}: {told:?}, not {parts:?}");
}

#[test]
fn a_list_of_thousands_of_mistakes_is_told_in_a_few_lines_and_hides_no_other() {
    let wrong: String = (0..5_000).map(|entry| format!("no{entry},")).collect();
    for name in ["NCCL_IB_HCA", "UCX_NET_DEVICES", "NVSHMEM_HCA_LIST"] {
        let list = format!("{name}={wrong}x:1");
        let told = told_of(&topology(), &[&list, "NCCL_SOCKET_IFNAME=nowhere"]);
        assert!((5..10).contains(&told.len()), "{} lines", told.len());
        let counted = told
            .iter()
            .filter(|line| line.ends_with(": 4997 more such entries"));
        let other = told
            .iter()
            .filter(|line| line.contains("NCCL_SOCKET_IFNAME"));
        assert_eq!((counted.count(), other.count()), (1, 1), "{told:?}");
    }
}

#[test]
fn a_right_value_is_not_spoken_of() {
    for values in [
        &[][..],
        &[
            "NCCL_IB_HCA==mlx5_1:1",
            "NCCL_DEBUG=WARN",
            "NCCL_P2P_DISABLE=0",
        ],
        &["NCCL_IB_HCA=mlx5", "NCCL_IB_DISABLE=0", "NCCL_SHM_DISABLE="],
        &["NCCL_IB_HCA=^=mlx5_1"],
        &["NCCL_IB_HCA=mlx5_10"],
        &["UCX_NET_DEVICES=all"],
        &["UCX_NET_DEVICES=mlx5_[0-9]:1"],
        &["UCX_NET_DEVICES=all", "UCX_TLS=rc,rc_gda"],
        &["UCX_NET_DEVICES=^mlx5_1:1", "UCX_TLS=rc,rc_gda"],
        &["UCX_NET_DEVICES=mlx5_1:1", "UCX_TLS=rc"],
        &[
            "UCX_NET_DEVICES=mlx5_1:1,cuda0-mlx5_1:1,eth0",
            "UCX_TLS=rc,rc_gda",
        ],
        &[
            "NVSHMEM_HCA_LIST=^mlx5_10:1",
            "NVSHMEM_ENABLE_NIC_PE_MAPPING=1",
        ],
        &["MC_TE_FILTERS=mlx5_1"],
        &["MC_TE_FILTERS=mlx5_10, mlx5_1"],
        &["NCCL_NSOCKS_PERTHREAD=8", "NCCL_SOCKET_NTHREADS=8"],
        &["NCCL_SOCKET_IFNAME=eth"],
        &["NCCL_SOCKET_IFNAME=^docker"],
    ] {
        says(&topology(), values, &[]);
    }
    // there is no transport to disable on Slingshot
    let mut slingshot = topology();
    slingshot
        .nics
        .iter_mut()
        .for_each(|nic| nic.kind = NicKind::Slingshot);
    says(&slingshot, &["NCCL_IB_DISABLE=1", "NCCL_IB_HCA=mlx5"], &[]);
    // an interface that is called as a NIC needs no port
    let mut named = topology();
    named.nics[0].name = "eth0".parse().unwrap();
    says(&named, &["UCX_NET_DEVICES=mlx5_10:1,eth0"], &[]);
}

#[test]
fn a_value_that_the_library_takes_otherwise_is_named() {
    let (also, space) = (
        "`mlx5_1` also means mlx5_10, which",
        "the space beside `mlx5_1",
    );
    let (falls_back, unknown) = ("falls back to sockets", "is no device of this");
    for (value, parts) in [
        // transports that are switched off
        ("NCCL_P2P_DISABLE=1", &["host memory: unset it"][..]),
        ("NCCL_SHM_DISABLE=1", &["through the network"]),
        ("NCCL_IB_DISABLE=1", &["uses sockets"]),
        ("NCCL_DEBUG=info", &["use `WARN`"]),
        // the library finds no device of a name with a space
        ("NCCL_IB_HCA==mlx5_10, mlx5_1", &[space]),
        ("UCX_NET_DEVICES=mlx5_10:1, mlx5_1:1,eth0", &[space]),
        ("UCX_NET_DEVICES=mlx5_1:1 ", &[space]),
        ("NVSHMEM_HCA_LIST=mlx5_10, mlx5_1", &[space]),
        // a prefix
        ("NCCL_IB_HCA=mlx5_1", &[also]),
        ("NCCL_IB_HCA=^mlx5_1", &[also, "leaves no NIC"]),
        // names that mean no device here
        (
            "NCCL_IB_HCA==mlx5_1,mlx5_9:1",
            &["`mlx5_9` names no active NIC"],
        ),
        (
            "NCCL_IB_HCA==mlx5_1,mlx5_2",
            &["`mlx5_2` names no active NIC"],
        ),
        (
            "NCCL_IB_HCA==mlx5_1::0:0,mlx5_10:1:1:0",
            &["`mlx5_1::0:0` names no port"],
        ),
        ("NCCL_IB_HCA==mlx5_9", &["names no active NIC", falls_back]),
        ("NCCL_IB_HCA=^mlx5", &[falls_back]),
        (
            "UCX_NET_DEVICES=mlx5_1:1,mlx5_9:1",
            &["`mlx5_9:1` is no device of"],
        ),
        (
            "UCX_NET_DEVICES=mlx5_1:1,mlx5_9",
            &["`mlx5_9` is no device of"],
        ),
        (
            "UCX_NET_DEVICES=cuda0-mlx5_9:1",
            &["`cuda0-mlx5_9:1` is no device of"],
        ),
        ("UCX_NET_DEVICES=cuda-mlx5_1:1", &[unknown]),
        ("NVSHMEM_HCA_LIST=cuda0-mlx5_1:1", &[unknown]),
        ("NVSHMEM_HCA_LIST=mlx5_9", &[unknown]),
        ("MC_TE_FILTERS=mlx5_9", &[unknown]),
        ("UCX_NET_DEVICES=mlx5_1:2", &["a port that the device"]),
        ("UCX_NET_DEVICES=mlx5_1", &["write `mlx5_1:1`"]),
        (
            "UCX_NET_DEVICES=mlx5_1:x",
            &["`mlx5_1:x` names no port: write `mlx5_1:1`"],
        ),
        (
            "UCX_NET_DEVICES=mlx5_1:",
            &["`mlx5_1:` names no port: write `mlx5_1:1`"],
        ),
        (
            "UCX_NET_DEVICES=mlx5_1:1:2",
            &["`mlx5_1:1:2` names no port: write `mlx5_1:1`"],
        ),
        (
            "UCX_NET_DEVICES=cuda0-mlx5_1:x",
            &["write `cuda0-mlx5_1:1`"],
        ),
        ("NCCL_SOCKET_IFNAME==eth", &["cannot start"]),
        ("NCCL_SOCKET_IFNAME=ib0", &["cannot start"]),
    ] {
        says(&topology(), &[value], parts);
    }
    let gda = &["UCX_NET_DEVICES=mlx5_1:1", "UCX_TLS=rc,rc_gda"];
    says(&topology(), gda, &["devices are called `cuda0-NIC:1`"]);
    let sockets = &["NCCL_NSOCKS_PERTHREAD=16", "NCCL_SOCKET_NTHREADS=8"];
    says(&topology(), sockets, &["more than the 64 sockets"]);
    // no control character reaches a terminal
    let told = told_of(
        &topology(),
        &["NCCL_IB_HCA==\u{1b}[2J", "UCX_NET_DEVICES=\u{7}:1"],
    );
    assert!(
        told.len() >= 2 && !told.concat().contains(char::is_control),
        "{told:?}"
    );
}

#[test]
fn unequal_gpus_want_an_order_and_isolated_ones_a_word() {
    let mut unequal = topology();
    unequal.gpus[0].model = Some("A100".to_string());
    unequal.gpus[1].model = Some("H100".to_string());
    says(&unequal, &[], &["set it to `PCI_BUS_ID`"]);
    says(&unequal, &["CUDA_DEVICE_ORDER=PCI_BUS_ID"], &[]);

    use Fabric::{IsolatedRails, Unsaid};
    let cured = "NCCL_P2P_PXN_LEVEL=0";
    let one_nic = "one NIC: try `--gpu-bind=none`";
    for (access, tasks, fabric, values, part) in [
        ([true, false], 2, Unsaid, &[][..], "`--gpu-bind=none`"),
        ([true, false], 2, Unsaid, &[cured], ""),
        (
            [true, false],
            2,
            Unsaid,
            &[cured, "NCCL_CROSS_NIC=0"],
            one_nic,
        ),
        // the plugin sets it there, and the user's own stays
        ([true, false], 2, IsolatedRails, &[cured], one_nic),
        (
            [true, false],
            2,
            IsolatedRails,
            &[cured, "NCCL_CROSS_NIC=2"],
            "",
        ),
        // alone in its step
        ([true, false], 1, Unsaid, &[], ""),
        // no GPU is no isolated one
        ([false, false], 2, Unsaid, &[], ""),
    ] {
        let access = access.map(|may| if may { Access::Allowed } else { Access::Denied });
        let mut task = Task::default();
        task.gpus.access = access.to_vec();
        let of = |node: &Topology| {
            told_by(node, values, &task, &[], |checked| {
                (checked.tasks, checked.fabric) = (tasks, fabric);
            })
        };
        let told = of(&topology());
        assert_eq!(
            told.len(),
            usize::from(!part.is_empty()),
            "{values:?}: {told:?}"
        );
        assert!(told.concat().contains(part), "{values:?}: {told:?}");
        let mut one_gpu = topology();
        one_gpu.gpus.pop();
        assert_eq!(of(&one_gpu), [""; 0]);
    }
}

#[test]
fn a_storage_nic_in_a_list_is_told_with_the_reason_for_which_it_is_left_out() {
    let dgx = platform::model("dgx-h100").unwrap();
    let admits = "it admits `mlx5_1:1`, which is left";
    for (list, parts) in [
        ("NCCL_IB_HCA==mlx5_0,mlx5_1", &[admits][..]),
        ("UCX_NET_DEVICES=mlx5_1:1", &[admits]),
        ("NCCL_IB_HCA==mlx5_0,mlx5_3", &[]),
        ("UCX_NET_DEVICES=all", &[]),
    ] {
        says(&dgx, &[list], parts);
    }
    let all_by_name = told_of(&dgx, &["NCCL_IB_HCA=mlx5"]);
    assert!(all_by_name[0].contains("which is left out here: "));
}

#[test]
fn knobs_that_undo_the_placement_are_told_and_others_are_not_spoken_of() {
    let small = "smaller than NCCL's own 4";
    let off = "off for 8 of this";
    let dgx = platform::model("dgx-h100").unwrap();
    for (value, part) in [
        ("NCCL_IGNORE_CPU_AFFINITY=1", "leave the task's CPUs"),
        ("NCCL_MAX_NCHANNELS=4", "cannot use all 8"),
        ("NCCL_BUFFSIZE=1048576", small),
        ("NCCL_BUFFSIZE=1", small),
        ("NCCL_BUFFSIZE=5000000", "a power of 2"),
        ("NCCL_NET_GDR_LEVEL=LOC", off),
        ("NCCL_NET_GDR_LEVEL=NVL", off),
        ("NCCL_NVLS_ENABLE=0", "NVSwitches"),
        ("NCCL_TOPO_FILE=/missing.xml", "no such file can be"),
    ] {
        says(&dgx, &[value], &[part]);
    }
    let channels = |least, most| {
        [
            format!("NCCL_MIN_NCHANNELS={least}"),
            format!("NCCL_MAX_NCHANNELS={most}"),
        ]
    };
    let (both, equal) = (channels(32, 16), channels(16, 16));
    says(
        &dgx,
        &both.each_ref().map(String::as_str),
        &["more than `NCCL_MAX_NCHANNELS=16`"],
    );
    says(&dgx, &equal.each_ref().map(String::as_str), &[]);
    for value in "NCCL_IGNORE_CPU_AFFINITY=0 NCCL_MAX_NCHANNELS=8 NCCL_MAX_NCHANNELS=16 \
                  NCCL_MIN_NCHANNELS=8 NCCL_BUFFSIZE=0 NCCL_BUFFSIZE=4194304 NCCL_BUFFSIZE=8388608 \
                  NCCL_NET_GDR_LEVEL=PIX NCCL_NET_GDR_LEVEL=loc NCCL_NET_GDR_LEVEL=SYS \
                  NCCL_NVLS_ENABLE=1 NCCL_COLLNET_ENABLE=0 NCCL_COLLNET_ENABLE=1 \
                  NCCL_TOPO_FILE=/there.xml NCCL_TOPO_FILE=/proc/self/fd/9"
        .split(' ')
    {
        says(&dgx, &[value], &[]);
    }
    // its NVSwitches reduce nothing
    says(
        &platform::model("dgx-a100").unwrap(),
        &["NCCL_NVLS_ENABLE=0"],
        &[],
    );
    // one GPU uses one NIC
    let mut one_gpu = topology();
    one_gpu.gpus.pop();
    says(&one_gpu, &["NCCL_MAX_NCHANNELS=1"], &[]);
}

#[test]
fn gpudirect_is_off_where_the_nearest_nic_is_farther_than_the_level() {
    let pxb = platform::model("oci-bm-gpu-h100-8").unwrap();
    for (topology, off, off_at, on_at) in [
        (
            &pxb,
            "off for 8 of this",
            "LOC|0|PIX|1",
            "PXB|loc|2|PHB|3|SYS|5|no level",
        ),
        (
            &topology(),
            "off for 2 of this",
            "LOC|PIX|1|PXN|2|PHB|3",
            "SYS|4|5|pxb|no level",
        ),
    ] {
        for level in off_at.split('|') {
            says(topology, &[&format!("NCCL_NET_GDR_LEVEL={level}")], &[off]);
        }
        for level in on_at.split('|') {
            says(topology, &[&format!("NCCL_NET_GDR_LEVEL={level}")], &[]);
        }
    }
}
