//! Slurm's variables and the kernel's permissions, row by row, and the GPUs that the program would see.

use super::*;
use crate::topology::{Gpu, HostBridge, PciFunction, PciParent, Provenance};
use proptest::prelude::*;

const CUDA_UUID: &str = "a0b0c0d-0000-0000-0000-000000000000";

/// A node of these GPUs, at the first bus and those after it, with their PCI device ids.
fn node(first: u8, vendor: GpuVendor, devices: &[u16], facts: fn(u32, &mut Gpu)) -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for (index, &device) in (0..).zip(devices) {
        add(&mut topology, first + index as u8, vendor, device);
        facts(index, topology.gpus.last_mut().unwrap());
    }
    topology
}

fn add(topology: &mut Topology, bus: u8, vendor: GpuVendor, device: u16) {
    let address = format!("{bus:02x}:00.0").parse().unwrap();
    let host = PciParent::Host(HostBridge { domain: 0, bus });
    let mut function = PciFunction::new(address, host);
    function.device = Some(device);
    topology.pci.insert(function);
    topology.gpus.push(Gpu::new(address, vendor));
}

/// Eight GPUs; the third and fourth have each other's minor number.
fn nvidia() -> Topology {
    node(0x10, Nvidia, &[0x2330; 8], |index, gpu| {
        gpu.minor = Some([0, 1, 3, 2, 4, 5, 6, 7][index as usize]);
        gpu.uuid = Some(format!("GPU-{index}{CUDA_UUID}"));
    })
}

/// The same, with these GPUs cut into MIG instances.
fn mig(cut: &[usize]) -> Topology {
    let mut topology = nvidia();
    let gpus = cut.iter();
    gpus.for_each(|&gpu| topology.gpus[gpu].mig_instances = Some(7));
    topology
}

/// Four GPUs; CUDA would number the last one first.
fn unequal_gpus() -> Topology {
    let devices = [0x20b0, 0x20b0, 0x20b0, 0x2330];
    node(0x10, Nvidia, &devices, |_, _| ())
}

/// Four GPUs that the compute driver counts 2, 3, 0, 1, as on nodes whose sockets it visits in reverse.
fn amd() -> Topology {
    node(0x20, Amd, &[0x740c; 4], |index, gpu| {
        gpu.minor = Some(128 + index);
        gpu.uuid = Some(format!("GPU-{:016x}", 0xabc0 + index));
        gpu.runtime_index = Some((index + 2) % 4);
    })
}

/// Two MI300X, each as two partitions of one function with one serial number.
fn partitions() -> Topology {
    let mut topology = node(0x20, Amd, &[0x74a1; 2], |_, _| ());
    let gpus = topology.gpus.iter();
    let each = gpus.flat_map(|gpu| [gpu.clone(), gpu.clone()]);
    topology.gpus = each.collect();
    for (index, gpu) in (0..).zip(&mut topology.gpus) {
        gpu.partition = Some(index % 2);
        gpu.minor = Some(128 + index);
    }
    topology
}

/// Two cards of two stacks.
fn intel() -> Topology {
    node(0x30, Intel, &[0x0bd5; 2], |index, gpu| {
        gpu.minor = Some(128 + index)
    })
}

/// NVIDIA's GPUs beside a display adapter of Intel's, GPU 8.
fn with_a_display_adapter() -> Topology {
    let mut topology = nvidia();
    add(&mut topology, 0x80, Intel, 0x56c0);
    topology
}

/// The GPUs of a task with these variables, by their short names, that may open these GPUs; without
/// a device cgroup all.
fn found(topology: &Topology, set: &[&str], open: Option<&[usize]>) -> TaskGpus {
    let (mut step, mut grant) = (Step::default(), GpuGrant::default());
    for word in set {
        let (name, list) = word.split_once('=').unwrap();
        let variable = match name {
            "CUDA" => CUDA,
            "ORDER" => CUDA_ORDER,
            "ROCR" => ROCR,
            "HIP" => HIP,
            "ZE" => ZE,
            "HIERARCHY" => HIERARCHY,
            "STEP" => {
                step.gpus = Some(list.to_string());
                continue;
            }
            _ => panic!("`{name}`"),
        };
        grant.variables.insert(variable, list.to_string());
    }
    let access = |gpu: usize| match open {
        None => Access::Unknown,
        Some(open) if open.contains(&gpu) => Access::Allowed,
        Some(_) => Access::Denied,
    };
    grant.access = (0..topology.gpus.len()).map(access).collect();
    identify(topology, &step, &grant)
}

#[track_caller]
fn check(node: Topology, set: &[&str], open: Option<&[usize]>, gpus: &[usize], reason: &str) {
    let found = found(&node, set, open);
    let (own, why) = (found.own, found.reason);
    let own: Vec<usize> = own.iter().map(|gpu| gpu.0).collect();
    assert_eq!(own, gpus, "{set:?}, may open {open:?}: {why}");
    assert!(why.contains(reason), "{set:?}: `{why}` has no `{reason}`");
}

/// `node, [VARIABLE=LIST], [the GPUs that it may open] => [its GPUs], "a part of the reason";`
macro_rules! checks {
    (@open _) => { None };
    (@open $open:expr) => { Some(&$open) };
    ($($node:expr, [$($set:literal),*], $open:tt => $gpus:expr, $reason:literal;)*) => {
        $(check($node, &[$($set),*], checks!(@open $open), &$gpus, $reason);)*
    };
}

#[test]
fn without_a_device_cgroup_numbers_count_all_gpus_in_pci_order() {
    checks! {
        // --gpus-per-task=1, task 2
        nvidia(), ["CUDA=2", "STEP=2"], _ => [2], "over all GPUs of the";
        // the same, all may be opened
        nvidia(), ["CUDA=2"], [0, 1, 2, 3, 4, 5, 6, 7] => [2], "over all GPUs of the";
        nvidia(), ["CUDA=5,0"], _ => [5, 0], ""; // --gpu-bind=map_gpu:5,0
        // --gpus=8 without a binding
        nvidia(), ["CUDA=0,1,2,3,4,5,6,7"], _ => [0, 1, 2, 3, 4, 5, 6, 7], "";
        // --gpu-bind=closest, second socket
        nvidia(), ["CUDA=4,5,6,7", "STEP=4,5,6,7"], _ => [4, 5, 6, 7], "";
        nvidia(), ["CUDA=3", "STEP=3"], _ => [3], ""; // --gres=shard:1 or mps:50, any of its tasks
        nvidia(), [], _ => [], "Slurm gave it no GPU"; // a batch script's numbers do not count
    }
}

#[test]
fn under_constrain_devices_numbers_count_what_the_task_may_open_and_slurms_own_are_ignored() {
    checks! {
        // --gpus-per-task=1, task 3
        nvidia(), ["CUDA=0", "STEP=0"], [3] => [3], "over the GPUs that the";
        nvidia(), ["CUDA=0,1", "STEP=4,5"], [6, 7] => [6, 7], ""; // --gpus-per-task=2, second job
        // --gres-flags=allow-task-sharing: the numbers count the job's GPUs
        nvidia(), ["CUDA=1", "STEP=6"], [4, 6] => [6], "";
        nvidia(), ["CUDA=0"], [5] => [5], ""; // a shard of a GPU that others have too
        nvidia(), ["CUDA=3"], [3] => [], "names no GPU"; // a number beyond them
        // --gpu-bind=none of 22.05: no variable at all
        nvidia(), ["STEP=0,2"], [6] => [6], "the GPUs that the task";
        nvidia(), [], [] => [], "it may open none"; // a task without GPUs
        nvidia(), ["STEP=0"], [] => [], ""; // a task that may open none of its step's GPUs
        // of two vendors' lists the first counts that names one
        with_a_display_adapter(), ["CUDA=99", "ZE=0"], _ => [8], "`ZE_AFFINITY_MASK=0`";
        // the first's reason, where both name one
        with_a_display_adapter(), ["CUDA=3", "ZE=0"], _ => [3, 8], "`CUDA_VISIBLE_DEVICES=3`";
        // a display adapter that no task may open is no device cgroup
        with_a_display_adapter(), ["STEP=0,1"], [0, 1, 2, 3, 4, 5, 6, 7] => [0, 1], "SLURM_STEP_GPUS";
    }
}

#[test]
fn uuids_are_taken_at_their_word_in_all_spellings() {
    checks! {
        // Flags=env_uuid of 26.05
        nvidia(), ["CUDA=GPU-3a0b0c0d-0000-0000-0000-000000000000"], _ => [3], "by the UUIDs";
        nvidia(), ["CUDA=GPU-3a0b0c0d"], [3, 4] => [3], ""; // the same with a device cgroup
        nvidia(), ["CUDA=GPU-3a0b0c0d"], [4] => [], "names no GPU"; // of a GPU that it may not open
        nvidia(), ["CUDA=gpu-3"], _ => [], "names no GPU"; // CUDA wants the prefix in capitals
        nvidia(), ["CUDA=GPU-3A0B"], _ => [3], ""; // the digits in either case, and cut
        nvidia(), ["CUDA=GPU-"], _ => [], "names no GPU"; // a beginning that several have
        // MIG before driver 470.42
        nvidia(), ["CUDA=MIG-GPU-5a0b0c0d-0000-0000-0000-000000000000/1/0"], _ => [5], "by the UUIDs";
        // two instances of one GPU
        nvidia(), ["CUDA=MIG-GPU-5a0b0c0d/1/0,MIG-GPU-5a0b0c0d/2/0"], _ => [5], "";
        nvidia(), ["CUDA=6,GPU-3a0b"], _ => [6, 3], ""; // numbers and UUIDs
    }
}

#[test]
fn a_mig_instance_belongs_to_the_gpu_whose_device_node_can_be_opened_or_that_alone_is_cut() {
    checks! {
        // --gres=gpu:1g.10gb:1 with a device cgroup
        nvidia(), ["CUDA=MIG-11111111-2222-3333-4444-555555555555"], [4] => [4], "mean no other GPU";
        // two instances on two GPUs
        nvidia(), ["CUDA=MIG-11111111,MIG-22222222"], [2, 4] => [2, 4], "all of them; 1 more";
        // a whole GPU beside the instance's
        mig(&[4]), ["CUDA=MIG-11111111"], [2, 4] => [4], "mean no other GPU";
        // no device cgroup, one GPU is cut
        mig(&[6]), ["CUDA=MIG-11111111"], _ => [6], "mean no other GPU";
        // no device cgroup, two are cut
        mig(&[0, 6]), ["CUDA=MIG-11111111", "STEP=9"], _ => [], "any of 2 GPUs";
        // no device cgroup, nothing known of MIG
        nvidia(), ["CUDA=MIG-11111111"], _ => [], "any of 8 GPUs";
        // a whole GPU and an instance
        mig(&[0, 6]), ["CUDA=GPU-3a0b,MIG-11111111"], _ => [3], "node knows; `MIG-11111111` may be";
        // the step's list counts instances, not GPUs
        mig(&[0]), ["STEP=2"], _ => [], "counts MIG instances";
        nvidia(), ["CUDA=MIG-zzz"], [4] => [], "names no GPU"; // no UUID
    }
}

#[test]
fn a_uuid_that_the_driver_does_not_print_yet_is_traced_where_only_one_gpu_can_have_it() {
    fn all_but_one_known() -> Topology {
        let mut topology = nvidia();
        topology.gpus[5].uuid = None;
        topology
    }
    checks! {
        // the one GPU without a UUID
        all_but_one_known(), ["CUDA=GPU-99999999"], _ => [5], "mean no other GPU";
        all_but_one_known(), ["CUDA=GPU-99999999"], [4] => [], "names no GPU"; // it may not be opened
        unequal_gpus(), ["CUDA=GPU-99999999"], _ => [], "any of 4 GPUs"; // none is known
        unequal_gpus(), ["CUDA=GPU-99999999"], [1] => [1], ""; // none is known, one can be opened
    }
}

#[test]
fn an_entry_that_means_nothing_ends_the_list_as_in_cuda() {
    checks! {
        nvidia(), ["CUDA=1,9,2"], _ => [1], ""; // an index too high
        nvidia(), ["CUDA=-1", "STEP=0"], _ => [], "`CUDA_VISIBLE_DEVICES=-1`"; // the user hides all
        // Slurm's word for none
        nvidia(), ["CUDA=NoDevFiles"], _ => [], "`CUDA_VISIBLE_DEVICES=NoDevFiles`";
        nvidia(), ["CUDA=", "STEP=0"], _ => [], ""; // empty
        nvidia(), ["CUDA=\n\u{1b}[2J"], _ => [], "=\\n\\u{1b}[2J`"; // a line end is shown as text
    }
}

#[test]
fn without_a_variable_the_steps_list_counts_places_among_the_device_files() {
    checks! {
        nvidia(), ["STEP=0,2"], _ => [0, 3], "SLURM_STEP_GPUS"; // --gpu-bind=none of 22.05
        nvidia(), ["STEP=99,x"], _ => [], "names no GPU"; // places that do not exist
        nvidia(), ["STEP=GPU-3a0b"], _ => [3], ""; // UUIDs
        amd(), ["STEP=1,3"], _ => [3, 1], ""; // AMD's files begin at renderD128; ROCm's own order
        unequal_gpus(), ["STEP=2"], _ => [2], ""; // files unknown
    }
    // /dev/nvidia2, since there is no /dev/nvidia1
    let mut holed = nvidia();
    holed.gpus.remove(1);
    check(holed, &["STEP=1"], None, &[2], "");
}

#[test]
fn numbers_of_unequal_gpus_are_said_to_be_a_guess_unless_cuda_counts_by_the_bus() {
    checks! {
        unequal_gpus(), ["CUDA=0"], _ => [0], "which is a guess"; // the default, fastest first
        // by the bus
        unequal_gpus(), ["CUDA=0", "ORDER=PCI_BUS_ID"], _ => [0], "node, in PCI order";
    }
    for (node, set, open, is_a_guess) in rows! {
        unequal_gpus(), &["CUDA=0", "ORDER=FASTEST_FIRST"][..], None, true;
        unequal_gpus(), &["CUDA=0", "ORDER=PCI_BUS_ID"], None, false;
        // all of them in whatever order
        unequal_gpus(), &["CUDA=3,2,1,0"], None, false;
        // those that it may open are equal
        unequal_gpus(), &["CUDA=0"], Some(&[0, 1][..]), false;
        nvidia(), &["CUDA=0"], None, false;
    } {
        let why = found(&node, set, open).reason;
        assert_eq!(why.contains("guess"), is_a_guess, "{set:?}: {why}");
    }
    let kinds = |node: &Topology| super::unequal(node, &super::positions(node, Nvidia));
    assert_eq!(kinds(&nvidia()), None);
    let two = "PCI device `0x20b0`, PCI device `0x2330`";
    assert_eq!(kinds(&unequal_gpus()).as_deref(), Some(two));
}

#[test]
fn rocm_counts_in_the_compute_drivers_order_and_hip_counts_what_that_leaves() {
    checks! {
        amd(), ["ROCR=0"], _ => [2], "in the compute driver's order"; // AutoDetect=rsmi
        amd(), ["ROCR=0,2"], _ => [2, 0], ""; // several
        amd(), ["ROCR=0,1"], [1, 2] => [2, 1], "may open"; // with a device cgroup
        amd(), ["ROCR=gpu-000000000000abc1"], _ => [1], "by the UUIDs"; // UUIDs
        amd(), ["ROCR=GPU-"], [1] => [], "names no GPU"; // and none of their digits
        amd(), ["HIP=GPU-000000000000abc1"], _ => [1], "by the UUIDs"; // UUIDs for HIP
        amd(), ["ROCR=GPU-0"], _ => [], "names no GPU"; // a UUID's beginning is too common
        amd(), ["ROCR=0,0,1"], _ => [2], ""; // a second time ends the list
        amd(), ["ROCR=0x1,02"], _ => [3, 0], ""; // numbers as in C
        amd(), ["ROCR="], _ => [], "names no GPU"; // empty means none
        amd(), ["ROCR=0", "CUDA=0"], [3] => [3], ""; // no AutoDetect, device cgroup: each from 0
        // no AutoDetect, no device cgroup: a HIP program counts twice
        amd(), ["ROCR=2", "CUDA=2"], _ => [0], "HIP program sees no GPU";
        // the user narrows
        amd(), ["ROCR=2,3", "HIP=1"], _ => [1], "then `HIP_VISIBLE_DEVICES=1` among these";
        amd(), ["HIP=0", "CUDA=1"], _ => [2], "HIP_"; // HIP's own list counts before CUDA's
        amd(), ["HIP=", "CUDA=1"], _ => [3], "CUDA_"; // an empty one of HIP is none
        amd(), ["ROCR=0,1", "HIP=-1"], _ => [], ""; // the user hides all
        amd(), ["HIP=0, 1"], _ => [2], ""; // HIP takes numbers as they are printed
        amd(), ["STEP=1"], _ => [1], "SLURM_STEP_GPUS"; // --gpu-bind=none of 22.05
    }
}

#[test]
fn each_partition_of_a_function_is_a_gpu_of_its_own() {
    checks! {
        partitions(), ["ROCR=2"], _ => [2], ""; // the third is the second card's first
        partitions(), ["ROCR=0"], [3] => [3], ""; // one partition each, device cgroup
        partitions(), ["ROCR=0,1"], _ => [0, 1], ""; // both of a card
    }
}

#[test]
fn level_zero_takes_a_set_of_cards_or_of_stacks() {
    checks! {
        intel(), ["ZE=2"], _ => [1], "each stack a device"; // stacks are devices by default
        intel(), ["ZE=0,1"], _ => [0], ""; // both stacks of a card
        intel(), ["ZE=1", "HIERARCHY=COMPOSITE"], _ => [1], ""; // cards
        intel(), ["ZE=1.1", "HIERARCHY=COMPOSITE"], _ => [1], ""; // a stack of a card
        intel(), ["ZE=1.0"], _ => [1], ""; // a dot speaks of cards
        intel(), ["ZE=0.2,1.0"], _ => [1], ""; // a stack that it lacks
        intel(), ["ZE=0.1", "HIERARCHY=FLAT"], _ => [], "names no GPU"; // no dot among stacks
        // a set has no order, and what means nothing is left out
        intel(), ["ZE=3,x,99,0", "HIERARCHY=COMBINED"], _ => [0, 1], "";
        intel(), ["ZE=0"], [1] => [1], "may open"; // with a device cgroup
        intel(), ["ZE=", "STEP=1"], _ => [1], "SLURM_STEP_GPUS"; // an empty mask is none
    }
    // nothing of stacks
    let cards = found(&intel(), &["ZE=1.0"], None).reason;
    assert!(cards.ends_with("in PCI order"), "{cards}");
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
