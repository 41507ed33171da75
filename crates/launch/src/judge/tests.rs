//! What we tell users about their own variables.

mod rebinding;

use super::*;
use crate::tests::present;
use nic_placement_core::policy;
use nic_placement_core::topology::{Gpu, Nic};
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
    let present = present(values.iter().copied());
    let interfaces = ["lo".to_string(), "eth0".to_string()];
    let node = policy::map(topology, &Default::default());
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
    let mut both = told.iter().zip(parts);
    let is_told = told.len() == parts.len() && both.all(|(told, part)| told.contains(part));
    assert!(is_told, "{values:?}: {told:?}, not {parts:?}");
}

#[test]
fn a_list_of_thousands_of_mistakes_is_told_in_a_few_lines_and_hides_no_other() {
    let wrong: String = (0..5_000).map(|entry| format!("no{entry},")).collect();
    for name in ["NCCL_IB_HCA", "UCX_NET_DEVICES", "NVSHMEM_HCA_LIST"] {
        let list = format!("{name}={wrong}x:1");
        let told = told_of(&topology(), &[&list, "NCCL_SHM_DISABLE=1"]);
        assert!((5..10).contains(&told.len()), "{} lines", told.len());
        let counted = told.iter();
        let counted = counted.filter(|line| line.ends_with(": 4997 more such entries"));
        let other = told.iter().filter(|line| line.contains("NCCL_SHM_DISABLE"));
        assert_eq!((counted.count(), other.count()), (1, 1), "{told:?}");
    }
}

#[test]
fn a_right_value_is_not_spoken_of() {
    let right = "; NCCL_IB_HCA==mlx5_1:1 NCCL_P2P_DISABLE=0; NCCL_IB_HCA=mlx5 NCCL_IB_DISABLE=0 NCCL_SHM_DISABLE=; \
                 NCCL_IB_HCA=^=mlx5_1; NCCL_IB_HCA=mlx5_10; UCX_NET_DEVICES=all; UCX_NET_DEVICES=mlx5_[0-9]:1; \
                 UCX_NET_DEVICES=^mlx5_1:1; UCX_NET_DEVICES=mlx5_1:1,cuda0-mlx5_1:1,eth0; MC_TE_FILTERS=mlx5_1; \
                 NVSHMEM_HCA_LIST=^mlx5_10:1 NVSHMEM_ENABLE_NIC_PE_MAPPING=1; NCCL_NET_GDR_LEVEL=PXB; \
                 NCCL_IB_HCA==mlx5_1::0:0,mlx5_10:1:1:0";
    for values in right.split("; ") {
        let values: Vec<&str> = values.split_terminator(' ').collect();
        says(&topology(), &values, &[]);
    }
    says(&topology(), &["MC_TE_FILTERS=mlx5_10, mlx5_1"], &[]);
    // there is no transport to disable on Slingshot
    let mut slingshot = topology();
    let nics = slingshot.nics.iter_mut();
    nics.for_each(|nic| nic.kind = NicKind::Slingshot);
    says(&slingshot, &["NCCL_IB_DISABLE=1", "NCCL_IB_HCA=mlx5"], &[]);
    // an interface that is called as a NIC needs no port
    let mut named = topology();
    named.nics[0].name = "eth0".parse().unwrap();
    says(&named, &["UCX_NET_DEVICES=mlx5_10:1,eth0"], &[]);
}

#[test]
fn a_value_that_the_library_takes_otherwise_is_named() {
    // the variable, and a part of each finding
    for row in [
        // transports that are switched off
        "NCCL_P2P_DISABLE=1 | host memory (NCCL 2.30): unset it",
        "NCCL_SHM_DISABLE=1 | through the network",
        "NCCL_IB_DISABLE=1 | uses sockets",
        "NCCL_NET_GDR_LEVEL=LOC | GPUDirect RDMA off",
        // the library finds no device of a name with a space
        "NCCL_IB_HCA==mlx5_10, mlx5_1 | ` mlx5_1` names no port",
        "UCX_NET_DEVICES=mlx5_10:1, mlx5_1:1,eth0 | ` mlx5_1:1` names no port",
        // a prefix
        "NCCL_IB_HCA=mlx5_1 | `mlx5_1` also means mlx5_10, which",
        "NCCL_IB_HCA=mlx5_1:1 | `mlx5_1:1` also means mlx5_10, which",
        "NCCL_IB_HCA=^mlx5_1 | `mlx5_1` also means mlx5_10, which | leaves no NIC",
        // names that mean no device here
        "NCCL_IB_HCA==mlx5_1,mlx5_9:1 | `mlx5_9:1` names no port",
        "NCCL_IB_HCA==mlx5_1,mlx5_2 | `mlx5_2` names no port of this node that works",
        "NCCL_IB_HCA=^mlx5 | leaves no NIC",
        "UCX_NET_DEVICES=mlx5_1:1,mlx5_9:1 | `mlx5_9:1` names no port",
        "UCX_NET_DEVICES=mlx5_1:1,mlx5_9 | `mlx5_9` names no port",
        "UCX_NET_DEVICES=cuda0-mlx5_9:1 | `cuda0-mlx5_9:1` names no port",
        "MC_TE_FILTERS=mlx5_9 | `mlx5_9` names no port",
        "UCX_NET_DEVICES=mlx5_1:2 | `mlx5_1:2` names no port",
        "UCX_NET_DEVICES=mlx5_1 | write `mlx5_1:1`",
        "UCX_NET_DEVICES=mlx5_1:x | `mlx5_1:x` names no port",
        "UCX_NET_DEVICES=mlx5_1: | `mlx5_1:` names no port",
        "FI_VERBS_DEVICE_NAME=mlx4 | `mlx4` names no port",
    ] {
        let cells: Vec<&str> = row.split(" | ").collect();
        says(&topology(), &cells[..1], &cells[1..]);
    }
    let unread = "NVSHMEM 3.8): set `NVSHMEM_ENABLE_NIC_PE_MAPPING=1`";
    says(&topology(), &["NVSHMEM_HCA_LIST=mlx5_1"], &[unread]);
    let unread = ["names no port", unread];
    let list = "NVSHMEM_HCA_LIST=mlx5_9";
    says(
        &topology(),
        &[list, "NVSHMEM_ENABLE_NIC_PE_MAPPING=false"],
        &unread,
    );
    // no control character reaches a terminal
    let odd = ["NCCL_IB_HCA==\u{1b}[2J", "UCX_NET_DEVICES=\u{7}:1"];
    let told = told_of(&topology(), &odd);
    let is_right = told.len() >= 2 && !told.concat().contains(char::is_control);
    assert!(is_right, "{told:?}");
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
    let (zero, two) = ([cured, "NCCL_CROSS_NIC=0"], [cured, "NCCL_CROSS_NIC=2"]);
    let alone = [true, false];
    for (access, tasks, fabric, values, part) in [
        (alone, 2, Unsaid, &[][..], "`--gpu-bind=none`"),
        (alone, 2, Unsaid, &[cured], ""),
        (alone, 2, Unsaid, &zero, one_nic),
        // the plugin sets it there, and the user's own stays
        (alone, 2, IsolatedRails, &[cured], one_nic),
        (alone, 2, IsolatedRails, &two, ""),
        // alone in its step
        (alone, 1, Unsaid, &[], ""),
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
        let found = told.len();
        assert_eq!(found, usize::from(!part.is_empty()), "{values:?}: {told:?}");
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
