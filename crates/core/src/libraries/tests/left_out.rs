//! No value of ours names a NIC that is left out, or sends a library to one: every built-in machine, each of its NICs left out,
//! every word.

use super::*;
use crate::policy::{self, Pattern, Selection};
use crate::wish::{Admin, Wish};
use nic_placement_node::platform;

const WORDS: [&str; 13] = [
    "default",
    "libfabric",
    "mooncake",
    "mori",
    "oneccl",
    "rocshmem",
    "deepep",
    "openmpi",
    "mpich",
    "uccl",
    "cray-mpich",
    "nvshmem",
    "ucx-gda",
];
/// Words by which a library takes the NIC nearest to the GPU itself.
const BY_GPU: [&str; 3] = [
    "MPICH_OFI_NIC_POLICY",
    "OMPI_MCA_opal_common_ofi_accelerator_rank",
    "CCL_MNIC",
];

/// Does a list of ours name this NIC, if it works?  A libfabric of verbs goes by the beginning of a name.
fn names(variable: &str, list: &str, nic: &Nic) -> bool {
    let devices = list
        .trim_start_matches('=')
        .split(',')
        .filter_map(|entry| entry.split(':').next());
    let is_it = |device: &str| match variable {
        "FI_VERBS_DEVICE_NAME" => nic.kind == NicKind::Verbs && nic.name.starts_with(device),
        _ => nic.name == device,
    };
    assert!(!list.starts_with('^'), "{variable}={list}");
    nic.ports.iter().any(works) && devices.into_iter().any(is_it)
}

/// The variables that lead a task with this GPU to a NIC that is left out.
fn leading_astray(situation: &Situation, gpu: usize) -> Vec<String> {
    let Situation { topology, node, .. } = situation;
    let rails: Vec<usize> = node.gpus[gpu]
        .choices
        .iter()
        .map(|choice| choice.rail.0)
        .collect();
    let may_be_used = |nic: &Nic| {
        let index = topology.nic_index(&nic.name).unwrap();
        node.left_to_libfabric.contains(&index) || node.rails.iter().any(|rail| rail.nic == index)
    };
    let own = topology.gpu(GpuIndex(gpu)).address;
    let path = |nic: &Nic| nic.address.map(|address| topology.path_type(own, address));
    let nearest = topology
        .nics
        .iter()
        .filter(|nic| nic.kind != NicKind::Verbs)
        .filter_map(path)
        .min();
    let is_astray = |(name, value): &(String, String)| {
        LISTS.contains(&name.as_str())
            && topology
                .nics
                .iter()
                .any(|nic| names(name, value, nic) && !may_be_used(nic))
            || BY_GPU.contains(&name.as_str())
                && topology.nics.iter().any(|nic| {
                    nic.kind != NicKind::Verbs && path(nic) == nearest && !may_be_used(nic)
                })
    };
    let set = situation.changes(&task(&[gpu], &rails)).into_iter();
    let set = set.filter_map(|change| {
        change
            .split_once('=')
            .map(|(name, value)| (name.into(), value.into()))
    });
    set.filter(is_astray)
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

#[test]
fn no_value_leads_to_a_nic_that_the_admin_leaves_out_or_that_is_no_rail() {
    let mut tried = 0;
    for name in platform::names() {
        let model = platform::model(name).unwrap();
        let words: Vec<Option<String>> = [None]
            .into_iter()
            .chain(model.nics.iter().map(|nic| Some(nic.name.to_string())))
            .collect();
        for left_out in words {
            let exclude = left_out
                .iter()
                .map(|word| Pattern::parse(word).unwrap())
                .collect();
            let selection = Selection {
                exclude,
                ..Selection::default()
            };
            let request = Wish {
                admin: Admin {
                    selection: selection.clone(),
                    ..Admin::default()
                },
                ..Wish::default()
            };
            let node = policy::map(&model, &request);
            let situation = Situation {
                topology: model.clone(),
                node,
                wish: Wish::default(),
                step: Step::default(),
                present: present(&[("MPICH_GPU_SUPPORT_ENABLED", "1")]),
                files: &[],
            };
            for word in WORDS {
                let situation = Situation {
                    wish: Wish::default(),
                    ..situation.clone()
                }
                .libraries(&[word]);
                for gpu in 0..model.gpus.len().min(8) {
                    tried += 1;
                    let wrong = leading_astray(&situation, gpu);
                    assert_eq!(
                        wrong, [""; 0],
                        "{name} without {left_out:?}, `env={word}`, GPU {gpu}"
                    );
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
        let topology = platform::model(name).unwrap();
        let node = policy::map(&topology, &Wish::default());
        let (wish, present) = (Wish::default(), Present::new());
        let situation = Situation {
            topology,
            node,
            wish,
            step: Step::default(),
            present,
            files: &[],
        };
        let Some(list) = situation.value(&task(&[0], &[]), "NCCL_IB_HCA") else {
            continue;
        };
        with_list += 1;
        let place = |rail: &Rail| {
            list.trim_start_matches('=')
                .split(',')
                .position(|entry| entry == rail.to_string())
        };
        let first = situation.node.gpus.iter().map(|gpu| {
            let own = gpu
                .choices
                .iter()
                .filter_map(|choice| place(situation.node.rail(choice.rail)));
            own.min()
        });
        let first: Vec<usize> = first.flatten().collect();
        assert!(
            first.is_sorted(),
            "{name}: GPUs take entries {first:?} of {list}"
        );
    }
    assert!(with_list > 8, "{with_list}");
}

#[test]
fn mpich_goes_by_the_gpu_unless_a_nic_as_near_is_left_out() {
    let switch = |name: &str, exclude: &[&str], gpu: usize| {
        let topology = platform::model(name).unwrap();
        let exclude = exclude
            .iter()
            .map(|word| Pattern::parse(word).unwrap())
            .collect();
        let selection = Selection {
            exclude,
            ..Selection::default()
        };
        let node = policy::map(
            &topology,
            &Wish {
                admin: Admin {
                    selection: selection.clone(),
                    ..Admin::default()
                },
                ..Wish::default()
            },
        );
        let (wish, present) = (Wish::default(), Present::new());
        let situation = Situation {
            topology,
            node,
            wish,
            step: Step::default(),
            present,
            files: &[],
        }
        .libraries(&["mpich"]);
        situation
            .value(&task(&[gpu], &[]), "MPIR_CVAR_CH4_OFI_NIC_GPU_AFFINITY")
            .is_some()
    };
    for name in ["dgx-h100", "aws-p5", "gh200"] {
        assert!(switch(name, &[], 0), "{name}");
    }
    assert!(!switch("dgx-h100", &["mlx5_0"], 0), "MPICH would find it");
    assert!(
        switch("dgx-h100", &["mlx5_0"], 1),
        "not the nearest of this GPU"
    );
    assert!(!switch("mi300x-8", &[], 0), "MPICH asks CUDA alone");
}

#[test]
fn a_slingshot_nic_that_is_left_out_or_down_gives_its_gpus_to_the_next_one() {
    let frontier = |change: fn(&mut Topology, &mut Selection), variable| {
        let (mut topology, mut selection) =
            (platform::model("frontier").unwrap(), Selection::default());
        change(&mut topology, &mut selection);
        let gpu = topology.gpus.iter().position(|gpu| {
            let nic = topology.nics.iter().find(|nic| nic.name == "cxi0").unwrap();
            topology.path_type(gpu.address, nic.address.unwrap()) < PathType::Node
        });
        let node = policy::map(
            &topology,
            &Wish {
                admin: Admin {
                    selection: selection.clone(),
                    ..Admin::default()
                },
                ..Wish::default()
            },
        );
        let (wish, present) = (
            Wish::default(),
            present(&[("MPICH_GPU_SUPPORT_ENABLED", "1")]),
        );
        let words: &[&str] = if variable == "FI_CXI_DEVICE_NAME" {
            &["libfabric"]
        } else {
            &["default"]
        };
        let situation = Situation {
            topology,
            node,
            wish,
            step: Step::default(),
            present,
            files: &[],
        }
        .libraries(words);
        situation.value(&task(&[gpu.unwrap()], &[]), variable)
    };
    let changes: [fn(&mut Topology, &mut Selection); 3] = [
        |_, selection| selection.exclude = vec![Pattern::parse("cxi0").unwrap()],
        |_, selection| {
            selection.include = ["cxi1", "cxi2", "cxi3"]
                .map(|name| Pattern::parse(name).unwrap())
                .to_vec();
        },
        |topology, _| {
            let nic = topology
                .nics
                .iter_mut()
                .find(|nic| nic.name == "cxi0")
                .unwrap();
            nic.ports
                .iter_mut()
                .for_each(|port| port.state = PortState::Down);
        },
    ];
    assert_eq!(
        frontier(|_, _| (), "FI_CXI_DEVICE_NAME").as_deref(),
        Some("cxi0")
    );
    assert_eq!(
        frontier(|_, _| (), "MPICH_OFI_NIC_POLICY").as_deref(),
        Some("GPU")
    );
    for (number, change) in changes.into_iter().enumerate() {
        let next = frontier(change, "FI_CXI_DEVICE_NAME");
        assert!(
            next.as_deref().is_some_and(|name| name != "cxi0"),
            "{number}: {next:?}"
        );
        // MPICH sees no device that is down
        assert_eq!(
            frontier(change, "MPICH_OFI_NIC_POLICY").is_some(),
            number == 2,
            "{number}"
        );
    }
}

#[test]
fn uccl_gets_the_nics_of_a_tasks_one_gpu() {
    let devices = |gpus: &[usize], rails: &[usize]| {
        Situation::new(PortState::Active)
            .libraries(&["uccl"])
            .value(&task(gpus, rails), "UCCL_P2P_RDMA_DEV")
    };
    assert_eq!(devices(&[1], &[1, 2]).as_deref(), Some("mlx5_1,mlx5_2"));
    assert_eq!(
        devices(&[0, 1], &[0, 1]),
        None,
        "one list for every GPU of the process"
    );
    assert_eq!(devices(&[], &[]), None);
}

#[test]
fn mscclpp_gets_a_list_where_the_entry_of_a_tasks_number_is_the_nic_of_its_gpu() {
    let entry = |number: u32, seen: &[usize], exclude: &[&str]| {
        let topology = platform::model("dgx-h100").unwrap();
        let exclude = exclude
            .iter()
            .map(|word| Pattern::parse(word).unwrap())
            .collect();
        let selection = Selection {
            exclude,
            ..Selection::default()
        };
        let node = policy::map(
            &topology,
            &Wish {
                admin: Admin {
                    selection: selection.clone(),
                    ..Admin::default()
                },
                ..Wish::default()
            },
        );
        let (wish, present) = (Wish::default(), Present::new());
        let situation = Situation {
            topology,
            node,
            wish,
            step: Step::default(),
            present,
            files: &[],
        }
        .libraries(&["mscclpp"]);
        let task = TaskPlacement {
            local_id: number,
            ..task(seen, &[])
        };
        let list = situation.value(&task, "MSCCLPP_HCA_DEVICES")?;
        list.split(',').nth(number as usize).map(str::to_string)
    };
    let all = [0, 1, 2, 3, 4, 5, 6, 7];
    assert_eq!(
        entry(3, &all, &[]).as_deref(),
        Some("mlx5_5"),
        "the program takes GPU 3"
    );
    assert_eq!(entry(3, &[3], &[]).as_deref(), Some("mlx5_5"));
    assert_eq!(entry(0, &[4], &[]), None, "a job with half of the node");
    assert_eq!(entry(0, &[4, 5, 6, 7], &[]), None);
    assert_eq!(
        entry(8, &all, &[]),
        None,
        "MSCCL++ ends where its entry is missing"
    );
    assert_eq!(entry(0, &[], &[]), None);
    assert_eq!(
        entry(3, &all, &["mlx5_0"]),
        None,
        "every later GPU would take another one's"
    );
}
