//! No value of ours names a NIC that is left out, or sends a library to one: every built-in machine, each of its NICs left out,
//! every word.

use super::*;
use crate::placement::RailUse;
use nic_placement_node::platform;

const WORDS: &str = "default libfabric mooncake mori oneccl rocshmem deepep openmpi mpich uccl \
                     cray-mpich nvshmem ucx-gda";
/// Words by which a library takes the NIC nearest to the GPU itself.
const BY_GPU: &str = "MPICH_OFI_NIC_POLICY OMPI_MCA_opal_common_ofi_accelerator_rank CCL_MNIC";

/// Does a list of ours name this NIC, if it works?  A libfabric of verbs goes by the beginning of a name.
fn names(variable: &str, list: &str, nic: &Nic) -> bool {
    let entries = list.trim_start_matches('=').split(',');
    let mut devices = entries.filter_map(|entry| entry.split(':').next());
    let is_it = |device: &str| match variable {
        "FI_VERBS_DEVICE_NAME" => nic.kind == NicKind::Verbs && nic.name.starts_with(device),
        _ => nic.name == device,
    };
    assert!(!list.starts_with('^'), "{variable}={list}");
    nic.ports.iter().any(works) && devices.any(is_it)
}

/// The variables that lead the task's GPU to a NIC that is left out.
fn leading_astray(situation: &Situation) -> Vec<String> {
    let (topology, node) = (&situation.topology, &situation.node);
    let left_out = |nic: &Nic| {
        let index = topology.nic_index(&nic.name).unwrap();
        !node.left_to_libfabric.contains(&index) && node.rails.iter().all(|rail| rail.nic != index)
    };
    let own = topology.gpu(situation.task.gpus[0]).address;
    let path = |nic: &Nic| nic.address.map(|address| topology.path_type(own, address));
    let nics = || topology.nics.iter();
    let others = || nics().filter(|nic| nic.kind != NicKind::Verbs);
    let nearest = others().filter_map(path).min();
    let is_by_gpu = |name: &str| BY_GPU.split(' ').any(|of| of == name);
    let is_astray = |change: &String| {
        // a name alone is removed
        let (name, value) = change.split_once('=').unwrap_or_default();
        LISTS.contains(&name) && nics().any(|nic| names(name, value, nic) && left_out(nic))
            || is_by_gpu(name) && others().any(|nic| path(nic) == nearest && left_out(nic))
    };
    situation.changes().into_iter().filter(is_astray).collect()
}

#[test]
fn no_value_leads_to_a_nic_that_the_admin_leaves_out_or_that_is_no_rail() {
    let mut tried = 0;
    for name in platform::names() {
        let nics = model(name, &[], 0).topology.nics;
        let each = nics.iter().map(|nic| vec![nic.name.as_str()]);
        for left_out in each.chain([Vec::new()]) {
            let all = model(name, &left_out, 0).env(&["MPICH_GPU_SUPPORT_ENABLED=1"]);
            for word in WORDS.split(' ') {
                let mut situation = all.clone().libraries(word);
                for gpu in 0..situation.topology.gpus.len().min(8) {
                    let choices = situation.node.gpus[gpu].choices.iter();
                    let rails: Vec<usize> = choices.map(|choice| choice.rail.0).collect();
                    situation = situation.task(&[gpu], &rails);
                    tried += 1;
                    let case = format!("{name} without {left_out:?}, {word}, GPU {gpu}");
                    assert_eq!(leading_astray(&situation), [""; 0], "{case}");
                }
            }
        }
    }
    assert!(tried > 5_000, "{tried}");
}

/// torchcomms gives the k-th entry to GPU k, and programs that count by GPU do alike.
#[test]
fn the_ports_of_a_list_stand_in_the_order_of_the_gpus_that_they_serve() {
    let mut with_list = 0;
    for name in platform::names() {
        let situation = model(name, &[], 0).task(&[0], &[]);
        let list = situation.value("NCCL_IB_HCA");
        with_list += usize::from(!list.is_empty());
        let entries: Vec<&str> = list.trim_start_matches('=').split(',').collect();
        let place = |choice: &RailUse| {
            let rail = situation.node.rail(choice.rail).to_string();
            entries.iter().position(|entry| *entry == rail)
        };
        let gpus = situation.node.gpus.iter();
        let first = gpus.filter_map(|gpu| gpu.choices.iter().filter_map(place).min());
        assert!(first.is_sorted(), "{name}: {list}");
    }
    assert!(with_list > 8, "{with_list}");
}

#[test]
fn mpich_goes_by_the_gpu_unless_a_nic_as_near_is_left_out() {
    for (name, exclude, gpu, is_set) in [
        ("dgx-h100", &[][..], 0, true),
        ("aws-p5", &[], 0, true),
        ("gh200", &[], 0, true),
        // MPICH would find it, which is not the nearest of GPU 1
        ("dgx-h100", &["mlx5_0"], 0, false),
        ("dgx-h100", &["mlx5_0"], 1, true),
        // MPICH asks CUDA alone
        ("mi300x-8", &[], 0, false),
    ] {
        let situation = model(name, exclude, gpu).task(&[gpu], &[]);
        let mpich = situation.libraries("mpich");
        let is = mpich.sets("MPIR_CVAR_CH4_OFI_NIC_GPU_AFFINITY");
        assert_eq!(is, is_set, "{name} {exclude:?} {gpu}");
    }
}

#[test]
fn a_slingshot_nic_that_is_left_out_or_down_gives_its_gpus_to_the_next_one() {
    let frontier = |exclude: &[&str], state: PortState| {
        let mut topology = platform::model("frontier").unwrap();
        let at = topology.nic_index("cxi0").unwrap().0;
        let ports = topology.nics[at].ports.iter_mut();
        ports.for_each(|port| port.state = state);
        let near = |gpu: &Gpu| {
            let nic = topology.nics[at].address.unwrap();
            topology.path_type(gpu.address, nic) < PathType::Node
        };
        let gpu = topology.gpus.iter().position(near).unwrap();
        let situation = mapped(topology, exclude, gpu).task(&[gpu], &[]);
        let aware = situation.env(&["MPICH_GPU_SUPPORT_ENABLED=1"]);
        let asked = aware.clone().libraries("libfabric");
        let device = asked.value("FI_CXI_DEVICE_NAME");
        (device, aware.value("MPICH_OFI_NIC_POLICY"))
    };
    let (own, policy) = frontier(&[], PortState::Active);
    assert_eq!((own.as_str(), policy.as_str()), ("cxi0", "GPU"));
    for (exclude, state, expected) in [
        (&["cxi0"][..], PortState::Active, ""),
        // MPICH sees no device that is down
        (&[], PortState::Down, "GPU"),
    ] {
        let (device, policy) = frontier(exclude, state);
        assert!(device.starts_with("cxi") && device != own, "{device}");
        assert_eq!(policy, expected, "{exclude:?} {state}");
    }
}

#[test]
fn uccl_gets_the_nics_of_a_tasks_one_gpu() {
    // one list is for every GPU of the process
    for (gpus, rails, expected) in [
        (&[1][..], &[1, 2][..], "mlx5_1,mlx5_2"),
        (&[0, 1], &[0, 1], ""),
        (&[], &[], ""),
    ] {
        let situation = here().libraries("uccl").task(gpus, rails);
        assert_eq!(situation.value("UCCL_P2P_RDMA_DEV"), expected, "{gpus:?}");
    }
}

#[test]
fn mscclpp_gets_a_list_where_the_entry_of_a_tasks_number_is_the_nic_of_its_gpu() {
    let all = &[0, 1, 2, 3, 4, 5, 6, 7][..];
    for (number, seen, exclude, expected) in [
        // the program takes GPU 3
        (3, all, &[][..], "mlx5_5"),
        (3, &[3], &[], "mlx5_5"),
        // a job with half of the node
        (0, &[4], &[], ""),
        (0, &[4, 5, 6, 7], &[], ""),
        // MSCCL++ ends where its entry is missing
        (8, all, &[], ""),
        (0, &[], &[], ""),
        // every later GPU would take another one's
        (3, all, &["mlx5_0"], ""),
    ] {
        let situation = model("dgx-h100", exclude, 0).libraries("mscclpp");
        let mut situation = situation.task(seen, &[]);
        situation.task.local_id = number;
        let list = situation.value("MSCCLPP_HCA_DEVICES");
        let entry = list.split(',').nth(number as usize).unwrap_or_default();
        assert_eq!(entry, expected, "{number} {seen:?} {exclude:?}");
    }
}
