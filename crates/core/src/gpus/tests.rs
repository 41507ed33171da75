//! Slurm's variables and the kernel's permissions, row by row, and the GPUs that the program would see.

use super::*;
use crate::topology::{Gpu, HostBridge, PciFunction, PciParent, Provenance};
use proptest::prelude::*;

const CUDA_UUID: &str = "a0b0c0d-0000-0000-0000-000000000000";

fn add(topology: &mut Topology, bus: u32, device: u16, vendor: GpuVendor) -> usize {
    let address = format!("{bus:02x}:00.0").parse().unwrap();
    let host = HostBridge {
        domain: 0,
        bus: bus as u8,
    };
    topology.pci.insert(PciFunction {
        device: Some(device),
        ..PciFunction::new(address, PciParent::Host(host))
    });
    topology.gpus.push(Gpu::new(address, vendor));
    topology.gpus.len() - 1
}

/// Eight GPUs; the third and fourth have each other's minor number.
fn nvidia() -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for index in 0..8u32 {
        let gpu = add(&mut topology, 0x10 + index, 0x2330, GpuVendor::Nvidia);
        topology.gpus[gpu].minor = Some([0, 1, 3, 2, 4, 5, 6, 7][index as usize]);
        topology.gpus[gpu].uuid = Some(format!("GPU-{index}{CUDA_UUID}"));
    }
    topology
}

/// The same, with these GPUs cut into MIG instances.
fn mig(cut: &[usize]) -> Topology {
    let mut topology = nvidia();
    cut.iter()
        .for_each(|&gpu| topology.gpus[gpu].mig_instances = Some(7));
    topology
}

/// Four GPUs; CUDA would number the last one first.
fn unequal_gpus() -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for (index, device) in [0x20b0, 0x20b0, 0x20b0, 0x2330].into_iter().enumerate() {
        add(
            &mut topology,
            0x10 + index as u32,
            device,
            GpuVendor::Nvidia,
        );
    }
    topology
}

/// Four GPUs that the compute driver counts 2, 3, 0, 1, as on nodes whose sockets it visits in reverse.
fn amd() -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for index in 0..4u32 {
        let gpu = add(&mut topology, 0x20 + index, 0x740c, GpuVendor::Amd);
        topology.gpus[gpu].minor = Some(128 + index);
        topology.gpus[gpu].uuid = Some(format!("GPU-{:016x}", 0xabc0 + index));
        topology.gpus[gpu].runtime_index = Some((index + 2) % 4);
    }
    topology
}

/// Two MI300X, each as two partitions of one function with one serial number.
fn partitions() -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for index in 0..4u32 {
        let gpu = add(&mut topology, 0x20 + index / 2, 0x74a1, GpuVendor::Amd);
        topology.gpus[gpu].partition = Some(index % 2);
        topology.gpus[gpu].minor = Some(128 + index);
    }
    topology
}

/// Two cards of two stacks.
fn intel() -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for index in 0..2u32 {
        let gpu = add(&mut topology, 0x30 + index, 0x0bd5, GpuVendor::Intel);
        topology.gpus[gpu].minor = Some(128 + index);
    }
    topology
}

/// NVIDIA's GPUs beside a display adapter of Intel's, GPU 8.
fn with_a_display_adapter() -> Topology {
    let mut topology = nvidia();
    add(&mut topology, 0x80, 0x56c0, GpuVendor::Intel);
    topology
}

struct Row {
    /// the options for Slurm
    asked: &'static str,
    node: fn() -> Topology,
    /// what the task has: `VAR=LIST`
    set: &'static [&'static str],
    /// the GPUs that it may open; `None`: no device cgroup
    open: Option<&'static [usize]>,
    gpus: &'static [usize],
    /// a part of the reason
    reason: &'static str,
}

fn grant(topology: &Topology, set: &[&str], open: Option<&[usize]>) -> (Step, GpuGrant) {
    let (mut step, mut grant) = (Step::default(), GpuGrant::default());
    for word in set {
        let (name, list) = word.split_once('=').unwrap();
        match VARIABLES.into_iter().find(|known| *known == name) {
            Some(name) => drop(grant.variables.insert(name, list.to_string())),
            None if name == "SLURM_STEP_GPUS" => step.gpus = Some(list.to_string()),
            None => panic!("nobody reads `{name}`"),
        }
    }
    grant.access = (0..topology.gpus.len())
        .map(|gpu| match open {
            None => Access::Unknown,
            Some(open) if open.contains(&gpu) => Access::Allowed,
            Some(_) => Access::Denied,
        })
        .collect();
    (step, grant)
}

fn positions(gpus: &[usize]) -> Vec<GpuIndex> {
    gpus.iter().copied().map(GpuIndex).collect()
}

fn check(rows: &[Row]) {
    for Row {
        asked,
        node,
        set,
        open,
        gpus,
        reason,
    } in rows
    {
        let topology = node();
        let (step, grant) = grant(&topology, set, *open);
        let found = identify(&topology, &step, &grant);
        assert_eq!(
            found.own,
            positions(gpus),
            "{asked}: {set:?}, may open {open:?}: {}",
            found.reason
        );
        assert!(
            found.reason.contains(reason),
            "{asked}: `{}` has no `{reason}`",
            found.reason
        );
    }
}

macro_rules! rows {
    ($($asked:literal: $node:expr, [$($set:literal),*], $open:expr => $gpus:expr, $reason:literal;)*) => {
        check(&[$(Row { asked: $asked, node: $node, set: &[$($set),*], open: $open, gpus: &$gpus, reason: $reason }),*])
    };
}

#[test]
fn without_a_device_cgroup_numbers_count_all_gpus_in_pci_order() {
    rows! {
        "--gpus-per-task=1, task 2": nvidia, ["CUDA_VISIBLE_DEVICES=2", "SLURM_STEP_GPUS=2"], None
            => [2], "over all GPUs of the node, in PCI order";
        "the same, all may be opened": nvidia, ["CUDA_VISIBLE_DEVICES=2"], Some(&[0, 1, 2, 3, 4, 5, 6, 7])
            => [2], "over all GPUs of the node";
        "--gpu-bind=map_gpu:5,0": nvidia, ["CUDA_VISIBLE_DEVICES=5,0"], None => [5, 0], "";
        "--gpus=8 without a binding": nvidia, ["CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7"], None
            => [0, 1, 2, 3, 4, 5, 6, 7], "";
        "--gpu-bind=closest, second socket": nvidia, ["CUDA_VISIBLE_DEVICES=4,5,6,7", "SLURM_STEP_GPUS=4,5,6,7"], None
            => [4, 5, 6, 7], "";
        "--gres=shard:1 or mps:50, any of its tasks": nvidia, ["CUDA_VISIBLE_DEVICES=3", "SLURM_STEP_GPUS=3"], None
            => [3], "";
        "a batch script's numbers do not count": nvidia, [], None => [], "Slurm gave it no GPU";
    }
}

#[test]
fn under_constrain_devices_numbers_count_what_the_task_may_open_and_slurms_own_are_ignored() {
    rows! {
        "--gpus-per-task=1, task 3": nvidia, ["CUDA_VISIBLE_DEVICES=0", "SLURM_STEP_GPUS=0"], Some(&[3])
            => [3], "over the GPUs that the task may open";
        "--gpus-per-task=2, second job": nvidia, ["CUDA_VISIBLE_DEVICES=0,1", "SLURM_STEP_GPUS=4,5"], Some(&[6, 7])
            => [6, 7], "";
        "--gres-flags=allow-task-sharing: the numbers count the job's GPUs": nvidia,
            ["CUDA_VISIBLE_DEVICES=1", "SLURM_STEP_GPUS=6"], Some(&[4, 6]) => [6], "";
        "a shard of a GPU that others have too": nvidia, ["CUDA_VISIBLE_DEVICES=0"], Some(&[5]) => [5], "";
        "a number beyond them": nvidia, ["CUDA_VISIBLE_DEVICES=3"], Some(&[3]) => [], "names no GPU";
        "--gpu-bind=none of 22.05: no variable at all": nvidia, ["SLURM_STEP_GPUS=0,2"], Some(&[6])
            => [6], "the GPUs that the task may open";
        "a task without GPUs": nvidia, [], Some(&[]) => [], "it may open none";
        "a task that may open none of its step's GPUs": nvidia, ["SLURM_STEP_GPUS=0"], Some(&[]) => [], "";
        "of two vendors' lists the first counts that names one": with_a_display_adapter,
            ["CUDA_VISIBLE_DEVICES=99", "ZE_AFFINITY_MASK=0"], None => [8], "`ZE_AFFINITY_MASK=0`";
        "the first's reason, where both name one": with_a_display_adapter,
            ["CUDA_VISIBLE_DEVICES=3", "ZE_AFFINITY_MASK=0"], None => [3, 8], "`CUDA_VISIBLE_DEVICES=3`";
        "a display adapter that nobody may open is no device cgroup": with_a_display_adapter,
            ["SLURM_STEP_GPUS=0,1"], Some(&[0, 1, 2, 3, 4, 5, 6, 7]) => [0, 1], "SLURM_STEP_GPUS";
    }
}

#[test]
fn uuids_are_taken_at_their_word_in_all_spellings() {
    rows! {
        "Flags=env_uuid of 26.05": nvidia, ["CUDA_VISIBLE_DEVICES=GPU-3a0b0c0d-0000-0000-0000-000000000000"], None
            => [3], "by the UUIDs";
        "the same with a device cgroup": nvidia, ["CUDA_VISIBLE_DEVICES=GPU-3a0b0c0d"], Some(&[3, 4]) => [3], "";
        "of a GPU that it may not open": nvidia, ["CUDA_VISIBLE_DEVICES=GPU-3a0b0c0d"], Some(&[4]) => [], "names no GPU";
        "CUDA wants the prefix in capitals": nvidia, ["CUDA_VISIBLE_DEVICES=gpu-3"], None => [], "names no GPU";
        "the digits in either case, and cut": nvidia, ["CUDA_VISIBLE_DEVICES=GPU-3A0B"], None => [3], "";
        "a beginning that several have": nvidia, ["CUDA_VISIBLE_DEVICES=GPU-"], None => [], "names no GPU";
        "MIG before driver 470.42": nvidia, ["CUDA_VISIBLE_DEVICES=MIG-GPU-5a0b0c0d-0000-0000-0000-000000000000/1/0"], None
            => [5], "by the UUIDs";
        "two instances of one GPU": nvidia, ["CUDA_VISIBLE_DEVICES=MIG-GPU-5a0b0c0d/1/0,MIG-GPU-5a0b0c0d/2/0"], None
            => [5], "";
        "numbers and UUIDs": nvidia, ["CUDA_VISIBLE_DEVICES=6,GPU-3a0b"], None => [6, 3], "";
    }
}

#[test]
fn a_mig_instance_belongs_to_the_gpu_whose_device_node_can_be_opened_or_that_alone_is_cut() {
    rows! {
        "--gres=gpu:1g.10gb:1 with a device cgroup": nvidia, ["CUDA_VISIBLE_DEVICES=MIG-11111111-2222-3333-4444-555555555555"],
            Some(&[4]) => [4], "can mean no other GPU";
        "two instances on two GPUs": nvidia, ["CUDA_VISIBLE_DEVICES=MIG-11111111,MIG-22222222"], Some(&[2, 4])
            => [2, 4], "so all of them; 1 more such entry";
        "a whole GPU beside the instance's": || mig(&[4]), ["CUDA_VISIBLE_DEVICES=MIG-11111111"], Some(&[2, 4])
            => [4], "can mean no other GPU";
        "no device cgroup, one GPU is cut": || mig(&[6]), ["CUDA_VISIBLE_DEVICES=MIG-11111111"], None
            => [6], "can mean no other GPU";
        "no device cgroup, two are cut": || mig(&[0, 6]), ["CUDA_VISIBLE_DEVICES=MIG-11111111", "SLURM_STEP_GPUS=9"], None
            => [], "may be on any of 2 GPUs";
        "no device cgroup, nothing known of MIG": nvidia, ["CUDA_VISIBLE_DEVICES=MIG-11111111"], None
            => [], "may be on any of 8 GPUs";
        "a whole GPU and an instance": || mig(&[0, 6]), ["CUDA_VISIBLE_DEVICES=GPU-3a0b,MIG-11111111"], None
            => [3], "by the entries of `CUDA_VISIBLE_DEVICES` that the node knows; `MIG-11111111` may be on any";
        "the step's list counts instances, not GPUs": || mig(&[0]), ["SLURM_STEP_GPUS=2"], None
            => [], "counts MIG instances";
        "no UUID": nvidia, ["CUDA_VISIBLE_DEVICES=MIG-zzz"], Some(&[4]) => [], "names no GPU";
    }
}

#[test]
fn a_uuid_that_the_driver_does_not_print_yet_is_traced_where_only_one_gpu_can_have_it() {
    fn all_but_one_known() -> Topology {
        let mut topology = nvidia();
        topology.gpus[5].uuid = None;
        topology
    }
    rows! {
        "the one GPU without a UUID": all_but_one_known, ["CUDA_VISIBLE_DEVICES=GPU-99999999"], None
            => [5], "can mean no other GPU";
        "it may not be opened": all_but_one_known, ["CUDA_VISIBLE_DEVICES=GPU-99999999"], Some(&[4]) => [], "names no GPU";
        "none is known": unequal_gpus, ["CUDA_VISIBLE_DEVICES=GPU-99999999"], None => [], "may be on any of 4 GPUs";
        "none is known, one can be opened": unequal_gpus, ["CUDA_VISIBLE_DEVICES=GPU-99999999"], Some(&[1]) => [1], "";
    }
}

#[test]
fn an_entry_that_means_nothing_ends_the_list_as_in_cuda() {
    rows! {
        "an index too high": nvidia, ["CUDA_VISIBLE_DEVICES=1,9,2"], None => [1], "";
        "the user hides all": nvidia, ["CUDA_VISIBLE_DEVICES=-1", "SLURM_STEP_GPUS=0"], None => [], "`CUDA_VISIBLE_DEVICES=-1`";
        "Slurm's word for none": nvidia, ["CUDA_VISIBLE_DEVICES=NoDevFiles"], None => [], "`CUDA_VISIBLE_DEVICES=NoDevFiles`";
        "empty": nvidia, ["CUDA_VISIBLE_DEVICES=", "SLURM_STEP_GPUS=0"], None => [], "";
        "a line end is shown as text": nvidia, ["CUDA_VISIBLE_DEVICES=\n\u{1b}[2J"], None => [], "=\\n\\u{1b}[2J`";
    }
}

#[test]
fn without_a_variable_the_steps_list_counts_places_among_the_device_files() {
    rows! {
        "--gpu-bind=none of 22.05": nvidia, ["SLURM_STEP_GPUS=0,2"], None => [0, 3], "SLURM_STEP_GPUS";
        "places that do not exist": nvidia, ["SLURM_STEP_GPUS=99,x"], None => [], "names no GPU";
        "UUIDs": nvidia, ["SLURM_STEP_GPUS=GPU-3a0b"], None => [3], "";
        "AMD's files begin at renderD128; ROCm's own order": amd, ["SLURM_STEP_GPUS=1,3"], None => [3, 1], "";
        "files unknown": unequal_gpus, ["SLURM_STEP_GPUS=2"], None => [2], "";
    }
    let mut holed = nvidia();
    holed.gpus.remove(1);
    let (step, grant) = grant(&holed, &["SLURM_STEP_GPUS=1"], None);
    assert_eq!(
        identify(&holed, &step, &grant).own,
        [GpuIndex(2)],
        "/dev/nvidia2, since there is no /dev/nvidia1"
    );
}

#[test]
fn numbers_of_unequal_gpus_are_said_to_be_a_guess_unless_cuda_counts_by_the_bus() {
    rows! {
        "the default, fastest first": unequal_gpus, ["CUDA_VISIBLE_DEVICES=0"], None => [0], "which is a guess";
        "by the bus": unequal_gpus, ["CUDA_VISIBLE_DEVICES=0", "CUDA_DEVICE_ORDER=PCI_BUS_ID"], None
            => [0], "`CUDA_VISIBLE_DEVICES=0` over all GPUs of the node, in PCI order";
    }
    let is_a_guess = |topology: &Topology, set: &[&str], open: Option<&[usize]>| {
        let (step, grant) = grant(topology, set, open);
        identify(topology, &step, &grant).reason.contains("guess")
    };
    let unequal = unequal_gpus();
    assert!(is_a_guess(
        &unequal,
        &["CUDA_VISIBLE_DEVICES=0", "CUDA_DEVICE_ORDER=FASTEST_FIRST"],
        None
    ));
    assert!(!is_a_guess(
        &unequal,
        &["CUDA_VISIBLE_DEVICES=0", "CUDA_DEVICE_ORDER=PCI_BUS_ID"],
        None
    ));
    assert!(
        !is_a_guess(&unequal, &["CUDA_VISIBLE_DEVICES=3,2,1,0"], None),
        "all of them in whatever order"
    );
    assert!(
        !is_a_guess(&unequal, &["CUDA_VISIBLE_DEVICES=0"], Some(&[0, 1])),
        "those that it may open are equal"
    );
    assert!(!is_a_guess(&nvidia(), &["CUDA_VISIBLE_DEVICES=0"], None));
    let kinds = |node: &Topology| super::unequal(node, &super::positions(node, Nvidia));
    assert_eq!(kinds(&nvidia()), None);
    assert_eq!(
        kinds(&unequal).unwrap(),
        "PCI device `0x20b0`, PCI device `0x2330`"
    );
}

#[test]
fn rocm_counts_in_the_compute_drivers_order_and_hip_counts_what_that_leaves() {
    rows! {
        "AutoDetect=rsmi": amd, ["ROCR_VISIBLE_DEVICES=0"], None => [2], "in the compute driver's order";
        "several": amd, ["ROCR_VISIBLE_DEVICES=0,2"], None => [2, 0], "";
        "with a device cgroup": amd, ["ROCR_VISIBLE_DEVICES=0,1"], Some(&[1, 2]) => [2, 1], "may open";
        "UUIDs": amd, ["ROCR_VISIBLE_DEVICES=gpu-000000000000abc1"], None => [1], "by the UUIDs";
        "and none of their digits": amd, ["ROCR_VISIBLE_DEVICES=GPU-"], Some(&[1]) => [], "names no GPU";
        "UUIDs for HIP": amd, ["HIP_VISIBLE_DEVICES=GPU-000000000000abc1"], None => [1], "by the UUIDs";
        "a UUID's beginning is too common": amd, ["ROCR_VISIBLE_DEVICES=GPU-0"], None => [], "names no GPU";
        "a second time ends the list": amd, ["ROCR_VISIBLE_DEVICES=0,0,1"], None => [2], "";
        "numbers as in C": amd, ["ROCR_VISIBLE_DEVICES=0x1,02"], None => [3, 0], "";
        "empty means none": amd, ["ROCR_VISIBLE_DEVICES="], None => [], "names no GPU";
        "no AutoDetect, device cgroup: each from 0": amd, ["ROCR_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=0"], Some(&[3])
            => [3], "";
        "no AutoDetect, no device cgroup: a HIP program counts twice": amd,
            ["ROCR_VISIBLE_DEVICES=2", "CUDA_VISIBLE_DEVICES=2"], None => [0], "a HIP program sees no GPU";
        "the user narrows": amd, ["ROCR_VISIBLE_DEVICES=2,3", "HIP_VISIBLE_DEVICES=1"], None
            => [1], "then `HIP_VISIBLE_DEVICES=1` among these";
        "HIP's own list counts before CUDA's": amd, ["HIP_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=1"], None => [2], "HIP_";
        "an empty one of HIP is none": amd, ["HIP_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES=1"], None => [3], "CUDA_";
        "the user hides all": amd, ["ROCR_VISIBLE_DEVICES=0,1", "HIP_VISIBLE_DEVICES=-1"], None => [], "";
        "HIP takes numbers as they are printed": amd, ["HIP_VISIBLE_DEVICES=0, 1"], None => [2], "";
        "--gpu-bind=none of 22.05": amd, ["SLURM_STEP_GPUS=1"], None => [1], "SLURM_STEP_GPUS";
    }
}

#[test]
fn each_partition_of_a_function_is_a_gpu_of_its_own() {
    rows! {
        "the third is the second card's first": partitions, ["ROCR_VISIBLE_DEVICES=2"], None => [2], "";
        "one partition each, device cgroup": partitions, ["ROCR_VISIBLE_DEVICES=0"], Some(&[3]) => [3], "";
        "both of a card": partitions, ["ROCR_VISIBLE_DEVICES=0,1"], None => [0, 1], "";
    }
}

#[test]
fn level_zero_takes_a_set_of_cards_or_of_stacks() {
    rows! {
        "stacks are devices by default": intel, ["ZE_AFFINITY_MASK=2"], None => [1], "each stack a device";
        "both stacks of a card": intel, ["ZE_AFFINITY_MASK=0,1"], None => [0], "";
        "cards": intel, ["ZE_AFFINITY_MASK=1", "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE"], None => [1], "";
        "a stack of a card": intel, ["ZE_AFFINITY_MASK=1.1", "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE"], None => [1], "";
        "a dot speaks of cards": intel, ["ZE_AFFINITY_MASK=1.0"], None => [1], "";
        "a stack that it lacks": intel, ["ZE_AFFINITY_MASK=0.2,1.0"], None => [1], "";
        "no dot among stacks": intel, ["ZE_AFFINITY_MASK=0.1", "ZE_FLAT_DEVICE_HIERARCHY=FLAT"], None => [], "names no GPU";
        "a set has no order, and what means nothing is left out": intel,
            ["ZE_AFFINITY_MASK=3,x,99,0", "ZE_FLAT_DEVICE_HIERARCHY=COMBINED"], None => [0, 1], "";
        "with a device cgroup": intel, ["ZE_AFFINITY_MASK=0"], Some(&[1]) => [1], "may open";
        "an empty mask is none": intel, ["ZE_AFFINITY_MASK=", "SLURM_STEP_GPUS=1"], None => [1], "SLURM_STEP_GPUS";
    }
    let (step, cards) = grant(&intel(), &["ZE_AFFINITY_MASK=1.0"], None);
    assert!(
        identify(&intel(), &step, &cards)
            .reason
            .ends_with("in PCI order"),
        "nothing of stacks"
    );
}

fn lists() -> impl Strategy<Value = String> {
    let entry = prop_oneof![
        (0usize..10).prop_map(|index| index.to_string()),
        (0u32..10).prop_map(|index| format!("GPU-{index}{CUDA_UUID}")),
        (0u32..10).prop_map(|index| format!("MIG-GPU-{index}{CUDA_UUID}/1/0")),
        (0u32..10).prop_map(|index| format!("GPU-{:016x}", 0xabc0 + index)),
        (0u32..3).prop_map(|index| format!("MIG-{index}1111111-2222")),
        (0u32..3, 0u32..3).prop_map(|(card, stack)| format!("{card}.{stack}")),
        "-1|NoDevFiles|GPU-|MIG-| |0x1|99999999999999999999",
        any::<String>(),
    ];
    prop::collection::vec(entry, 0..6).prop_map(|entries| entries.join(","))
}

proptest! {
    #[test]
    fn any_text_names_gpus_of_the_node_each_once_and_none_that_is_denied(
        node in prop::sample::select(vec![0usize, 1, 2, 3, 4, 5, 6]),
        set in prop::collection::vec((0..VARIABLES.len(), lists()), 0..4),
        step_gpus in prop::option::of(lists()),
        access in prop::collection::vec(0u8..3, 9),
        constrained: bool,
    ) {
        let topology = [
            nvidia(), mig(&[1, 6]), unequal_gpus(), amd(), partitions(), intel(), with_a_display_adapter(),
        ][node].clone();
        let step = Step { gpus: step_gpus, ..Step::default() };
        let access: Vec<Access> = access[..topology.gpus.len()]
            .iter()
            .map(|&access| match access {
                0 if constrained => Access::Allowed,
                1 if constrained => Access::Denied,
                _ => Access::Unknown,
            })
            .collect();
        let variables = set.into_iter().map(|(name, list)| (VARIABLES[name], list)).collect();
        let found = identify(&topology, &step, &GpuGrant { variables, access: access.clone() });
        let once = order::set(&found.own);
        prop_assert_eq!(once.len(), found.own.len());
        prop_assert!(found.own.iter().all(|&gpu| gpu.0 < topology.gpus.len()));
        for &gpu in &found.own {
            let vendor = topology.gpu(gpu).vendor;
            let constrained =
                topology.gpus.iter().zip(&access).any(|(gpu, access)| gpu.vendor == vendor && *access == Access::Denied);
            prop_assert!(!constrained || access[gpu.0] == Access::Allowed, "GPU {} of {:?}", gpu, found);
        }
        prop_assert!(!found.reason.is_empty() && !found.reason.chars().any(char::is_control), "{}", found.reason);
    }
}
