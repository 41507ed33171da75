//! The pairs of GPUs and NICs that vendors, maintainers and sites state, compared with what the models give.

mod sites;

use crate::platform::{MODELS, model};
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::policy;
use nic_placement_core::wish::Wish;
use nic_placement_topology::order;
use nic_placement_topology::{Nic, NicKind, NicRole, PathType, Topology};

/// The NICs nearest to each GPU by the source above it: the machine, their path, and for groups of
/// GPUs (or a group list's name) their NICs.
const STATED: &[&str] = &[
    // kubernetes-sigs/dranet, examples/aws_eks_examples/gpu-efa; aws/aws-ofi-nccl,
    // topology/p4d-24xl-topo.xml
    "aws-p4d PIX 0,1=rdmap16s27 2,3=rdmap32s27 4,5=rdmap144s27 6,7=rdmap160s27",
    // ai-dynamo/nixl, topo/p5.48xl-topo.xml; four on each switch: aws/aws-ofi-nccl,
    // topology/p5.48xl-topo.xml of 2023
    "aws-p5 PIX 0=rdmap79s0,rdmap80s0,rdmap81s0,rdmap82s0 \
     1=rdmap96s0,rdmap97s0,rdmap98s0,rdmap99s0 2=rdmap113s0,rdmap114s0,rdmap115s0,rdmap116s0 \
     3=rdmap130s0,rdmap131s0,rdmap132s0,rdmap133s0 4=rdmap147s0,rdmap148s0,rdmap149s0,rdmap150s0 \
     5=rdmap164s0,rdmap165s0,rdmap166s0,rdmap167s0 6=rdmap181s0,rdmap182s0,rdmap183s0,rdmap184s0 \
     7=rdmap198s0,rdmap199s0,rdmap200s0,rdmap201s0",
    // ai-dynamo/nixl, test/unit/utils/libfabric: libfabric_topology_test.cpp and
    // topo/p5en.48xl-topo.xml
    "aws-p5en PIX 0,1=rdmap85s0,rdmap86s0,rdmap87s0,rdmap88s0 \
     2,3=rdmap110s0,rdmap111s0,rdmap112s0,rdmap113s0 \
     4,5=rdmap135s0,rdmap136s0,rdmap137s0,rdmap138s0 \
     6,7=rdmap160s0,rdmap161s0,rdmap162s0,rdmap163s0",
    // ai-dynamo/nixl, topo/p6-b200.48xl-topo.xml; two and two on each switch: aws/aws-ofi-nccl,
    // src/platform-aws.cpp
    "aws-p6-b200 PIX 0,1=rdmap79s0,rdmap80s0 2,3=rdmap96s0,rdmap97s0 4,5=rdmap113s0,rdmap114s0 \
     6,7=rdmap132s0,rdmap133s0",
    // aws/aws-ofi-nccl, tests/unit/fixtures/topology/p6-b300/topology.xml
    "aws-p6-b300 PIX 0=rdmap86s0,rdmap87s0 1=rdmap101s0,rdmap102s0 2=rdmap116s0,rdmap117s0 \
     3=rdmap131s0,rdmap132s0 4=rdmap146s0,rdmap147s0 5=rdmap161s0,rdmap162s0 \
     6=rdmap176s0,rdmap177s0 7=rdmap191s0,rdmap192s0",
    // aws/aws-ofi-nccl, topology/g5.48xl-topo.xml and pull request 873
    "aws-g5 NODE 4,5,6,7=rdmap0s21",
    // Azure/azhpc-images, topology/ndv4-topo.xml
    "azure-nd96asr-a100-v4 PIX two-to-two",
    // Azure/azhpc-images, topology/ndv5-topo.xml
    "azure-nd96isr-h100-v5 PIX one-to-one",
    // Azure/azhpc-images, topology/ndv5-topo.xml
    "azure-nd96isr-h200-v5 PIX one-to-one",
    // kubernetes-sigs/dranet, examples/azure_aks_examples/gb300
    "azure-nd128isr-gb300-v6 NODE 0,1=mlx5_0,mlx5_1 2,3=mlx5_2,mlx5_3",
    // oracle-quickstart/oci-hpc, samples/gpu/H100-topology.xml and check_gpu_setup.py
    "oci-bm-gpu-h100-8 PXB 0=mlx5_0,mlx5_1 1=mlx5_3,mlx5_4 2=mlx5_5,mlx5_6 3=mlx5_7,mlx5_8 \
     4=mlx5_9,mlx5_10 5=mlx5_12,mlx5_13 6=mlx5_14,mlx5_15 7=mlx5_16,mlx5_17",
    // oracle-quickstart/oci-hpc, check_gpu_setup.py
    "oci-bm-gpu-h200-8 PIX dgx-h100",
    // NVIDIA/nvidia-resiliency-ext, get_gb200_static_mapping; which of the two of a CPU is the
    // index's order
    "gb200-nvl72 NODE 0,1=mlx5_0,mlx5_1 2,3=mlx5_3,mlx5_4",
    // kubernetes-sigs/dranet, examples/azure_aks_examples/gb300, for the same tray as a guest
    "gb300-nvl72 NODE 0,1=mlx5_0,mlx5_1 2,3=mlx5_2,mlx5_3",
    // kubernetes-sigs/dranet, site/content/docs/user/gke-rdma.md
    "gke-a4 PIX two-to-two",
    // kubernetes-sigs/dranet, site/content/docs/user/gke-rdma.md
    "gke-a3-ultra PIX two-to-two",
    // `nvidia-smi topo -m` of a DGX A100, vllm-project/vllm issue 6199
    "dgx-a100 PXB two-to-two",
    // NVIDIA DGX H100/H200 User Guide, network modules; NCCL logs with
    // NCCL_IB_HCA=mlx5_0,3,4,5,6,9,10,11
    "dgx-h100 PIX dgx-h100",
    // NVIDIA DGX H100/H200 User Guide, network modules
    "dgx-h200 PIX dgx-h100",
    // `nvidia-smi topo -m`, vllm-project/vllm issue 20862
    "dgx-b200 PIX 0=mlx5_4 1=mlx5_7 2=mlx5_8 3=mlx5_9 4=mlx5_10 5=mlx5_13 6=mlx5_14 7=mlx5_15",
    // linux-rdma/rdma-core, kernel-boot/rdma_topo; `nvidia-smi topo -m`, deepseek-ai/DeepEP issue
    // 590
    "dgx-b300 PXB dgx-h100",
    // NVIDIA/k8s-launch-kit, preset for the DGX Spark
    "dgx-spark NODE 0=rocep1s0f0,rocep1s0f1,roceP2p1s0f0,roceP2p1s0f1",
    // ROCm/rccl, tools/topo_expl/models/topo_8p_940.xml
    "mi300x-8 PXB one-to-one",
    // ICON run scripts: GPU i uses mlx5_i
    "juwels-booster PIX 0=mlx5_0 1=mlx5_1 2=mlx5_2 3=mlx5_3",
];

fn group_list(name: &str) -> Option<&'static str> {
    let lists = [
        "dgx-h100: 0=mlx5_0 1=mlx5_3 2=mlx5_4 3=mlx5_5 4=mlx5_6 5=mlx5_9 6=mlx5_10 7=mlx5_11",
        "one-to-one: 0=mlx5_0 1=mlx5_1 2=mlx5_2 3=mlx5_3 4=mlx5_4 5=mlx5_5 6=mlx5_6 7=mlx5_7",
        "two-to-two: 0,1=mlx5_0,mlx5_1 2,3=mlx5_2,mlx5_3 4,5=mlx5_4,mlx5_5 6,7=mlx5_6,mlx5_7",
    ];
    let mut lists = lists.iter().filter_map(|list| list.split_once(": "));
    lists.find_map(|(known, list)| (known == name).then_some(list))
}

/// GPUs, and the NICs nearest to each of them.
type Group = (Vec<usize>, Vec<&'static str>);

/// Each machine with the path and the groups.
fn stated() -> impl Iterator<Item = (&'static str, &'static str, Vec<Group>)> {
    STATED.iter().chain(sites::STATED).map(|row| {
        let mut words = row.split(' ');
        let (machine, path) = (words.next().unwrap(), words.next().unwrap());
        let words = words.flat_map(|word| group_list(word).unwrap_or(word).split(' '));
        let group = |word: &'static str| {
            let (gpus, nics) = word.split_once('=').unwrap();
            let gpus = gpus.split(',').map(|gpu| gpu.parse().unwrap());
            (gpus.collect(), nics.split(',').collect())
        };
        (machine, path, words.map(group).collect())
    })
}

/// A model without pairs, and the reason among its sources.
const WITHOUT_PAIRS: (&str, &str) = ("gke-a3-mega", "and which gVNIC share a");

/// Models whose facts have tests of their own below, and one with a single GPU and NIC.
const TESTED_BELOW: [&str; 4] = ["frontier", "gh200", "hgx-h100-bf3", "levante"];

#[test]
fn every_model_has_a_test_of_its_stated_pairs_or_says_that_none_are_stated() {
    for model in MODELS {
        let is_without = WITHOUT_PAIRS.0 == model.name;
        let sources = model.sources().unwrap().join("\n");
        assert!(!is_without || sources.contains(WITHOUT_PAIRS.1));
        let is_stated = stated().any(|(machine, ..)| machine == model.name);
        let is_tested = is_stated || TESTED_BELOW.contains(&model.name);
        let is_right = is_tested != is_without;
        assert!(is_right, "{}: a row, or WITHOUT_PAIRS", model.name);
    }
}

/// The fabric's NICs nearest to a GPU, and their kind of path.
fn nearest(topology: &Topology, gpu: usize) -> (PathType, Vec<&str>) {
    let nics = topology.nics.iter();
    let fabric = nics.filter(|nic| nic.role == Some(NicRole::Compute));
    let own = topology.gpus[gpu].address;
    let kind = |nic: &Nic| topology.path_type(own, nic.address.unwrap());
    let kinds: Vec<_> = fabric.map(|nic| (kind(nic), nic.name.as_str())).collect();
    let best = kinds.iter().map(|(kind, _)| *kind).min().unwrap();
    let names = kinds.into_iter().filter(|(kind, _)| *kind == best);
    (best, names.map(|(_, name)| name).collect())
}

fn chosen(placement: &NodePlacement, gpu: usize) -> &str {
    let [choice] = placement.gpus[gpu].choices.as_slice() else {
        panic!("gpu {gpu}: not one choice")
    };
    &placement.rail(choice.rail).name
}

#[test]
fn each_gpu_has_the_nics_nearest_that_a_source_states() {
    for (machine, path, groups) in stated() {
        let topology = model(machine).unwrap();
        for (gpus, nics) in groups {
            for gpu in gpus {
                let (found, names) = nearest(&topology, gpu);
                assert_eq!(found.to_string(), path, "{machine}: GPU {gpu}");
                assert_eq!(names, nics, "{machine}: GPU {gpu}");
            }
        }
    }
}

#[test]
fn closest_gives_each_gpu_its_part_of_its_stated_nics_and_uses_them_evenly() {
    for (machine, _, groups) in stated() {
        let topology = model(machine).unwrap();
        let placement = policy::map(&topology, &Wish::default());
        assert_eq!(placement.diagnostics, [], "{machine}");
        if topology.nics.iter().any(|nic| nic.kind != NicKind::Verbs) {
            // libfabric's own providers choose these
            assert!(placement.rails.is_empty(), "{machine}");
            continue;
        }
        for (gpus, nics) in groups {
            let part = (nics.len() / gpus.len()).max(1);
            let of_gpu = |&gpu: &usize| {
                let choices = &placement.gpus[gpu].choices;
                assert_eq!(choices.len(), part, "{machine}: GPU {gpu}");
                let rails = choices.iter().map(|choice| placement.rail(choice.rail));
                rails.map(|rail| rail.name.as_str())
            };
            let used = order::set(gpus.iter().flat_map(of_gpu));
            let is_right = used.iter().all(|nic| nics.contains(nic));
            assert!(is_right, "{machine}: {used:?}");
            let expected = (part * gpus.len()).min(nics.len());
            assert_eq!(used.len(), expected, "{machine}: {used:?}");
        }
    }
}

#[test]
fn nvidias_own_order_on_a_gb200_tray_is_what_closest_chooses() {
    let placement = policy::map(&model("gb200-nvl72").unwrap(), &Wish::default());
    let order: Vec<&str> = (0..4).map(|gpu| chosen(&placement, gpu)).collect();
    assert_eq!(order, ["mlx5_0", "mlx5_1", "mlx5_3", "mlx5_4"]);
}

#[test]
fn four_gpus_of_an_nd_h100_v5_get_the_four_nics_of_their_numa_node() {
    let topology = model("azure-nd96isr-h100-v5").unwrap();
    let placement = policy::map(&topology, &Wish::default());
    let expected = "0001 mlx5_0,0002 mlx5_1,0003 mlx5_2,0008 mlx5_3".split(',');
    for (gpu, pair) in expected.enumerate() {
        let (domain, name) = pair.split_once(' ').unwrap();
        let address = topology.gpus[gpu].address.to_string();
        assert_eq!(address, format!("{domain}:00:00.0"));
        assert_eq!(chosen(&placement, gpu), name);
        let nic = topology.nics.iter().find(|nic| nic.name == name).unwrap();
        assert_eq!(topology.numa_node_of(nic.address.unwrap()), Some(0));
    }
}

/// DKRZ's own scripts pair them so, although two of the four GPUs are equally far from both NICs.
#[test]
fn a_levante_node_gives_each_nic_two_gpus_of_its_socket() {
    let topology = model("levante").unwrap();
    let placement = policy::map(&topology, &Wish::default());
    let found = nearest(&topology, 0);
    assert_eq!(found, (PathType::Sys, vec!["mlx5_0", "mlx5_1"]));
    let pairs: Vec<&str> = (0..4).map(|gpu| chosen(&placement, gpu)).collect();
    assert_eq!(pairs, ["mlx5_0", "mlx5_0", "mlx5_1", "mlx5_1"]);
}

/// NVIDIA/k8s-launch-kit: a BlueField-3 at PIX may still be north-south.
#[test]
fn a_storage_nic_beside_a_gpu_is_not_chosen() {
    let topology = model("hgx-h100-bf3").unwrap();
    let placement = policy::map(&topology, &Wish::default());
    for (gpu, near, decoy) in [(0, "mlx5_0", "mlx5_1"), (4, "mlx5_5", "mlx5_6")] {
        let decoy = topology.nics.iter().find(|nic| nic.name == decoy).unwrap();
        let found = topology.path_type(topology.gpus[gpu].address, decoy.address.unwrap());
        assert_eq!(found, PathType::Pix);
        assert_eq!(chosen(&placement, gpu), near);
    }
    assert_eq!(placement.excluded.len(), 2);
    // the role alone tells them apart
    let mut without_roles = topology.clone();
    let nics = without_roles.nics.iter_mut();
    nics.for_each(|nic| nic.role = None);
    let excluded = policy::map(&without_roles, &Wish::default()).excluded;
    assert_eq!(excluded.len(), 0);
}

/// ishandhanani/srt-slurm, pull request 164: cores and GPUs of a GB200 tray.
#[test]
fn a_gb200_tray_has_two_gpus_for_each_cpu_and_their_memory_as_nodes_of_its_own() {
    let topology = model("gb200-nvl72").unwrap();
    let node = |gpu: usize| topology.numa_node_of(topology.gpus[gpu].address);
    assert_eq!(
        (topology.gpus.len(), [0, 1, 2, 3].map(node)),
        (4, [0, 0, 1, 1].map(Some))
    );
    let cpus = |index| topology.numa_node(index).unwrap().cpus.to_string();
    assert_eq!([cpus(0), cpus(1)], ["0-71", "72-143"]);
    assert_eq!([2, 10, 18, 26].map(cpus), [""; 4]);
}
