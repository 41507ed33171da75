//! The pairs that computing centres and vendors state of the machines with AMD, Intel and POWER processors, and of Cray's blades.

use super::{chosen, nearest};
use crate::platform::model;
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::policy;
use nic_placement_core::wish::Wish;
use nic_placement_topology::PathType;
use nic_placement_topology::order;

pub(super) const STATED: &[&str] = &[
    // CSCS documentation, schematic of the GH200 node
    "alps-gh200 NODE 0=cxi0 1=cxi2 2=cxi3 3=cxi1",
    // ALCF user guides, node diagram of Aurora; NIC and core binding of DAOS
    "aurora NODE 0,1,2=cxi0,cxi1,cxi2,cxi3 3,4,5=cxi4,cxi5,cxi6,cxi7",
    // lspci of a Supermicro AS-8126GS-TNMR with MI325X; lstopo of another such node
    "mi325x-8 PXB 0=bnxt_re1 1=bnxt_re3 2=bnxt_re2 3=bnxt_re0 4=bnxt_re5 5=bnxt_re8 6=bnxt_re7 \
     7=bnxt_re4",
    // rccl-tests on two nodes of AMD's developer cloud: GPUs by rank, NCCL_IB_HCA in the same order
    "mi355x-8 PXB 0=rocep9s0 1=rocep25s0 2=rocep105s0 3=rocep121s0 4=rocep137s0 5=rocep153s0 \
     6=rocep233s0 7=rocep249s0",
    // openfabric-systems/simllm, NCCL's topology file of a Perlmutter node
    "perlmutter PHB 0=cxi3 1=cxi2 2=cxi1 3=cxi0",
    // ALCF user guides, device affinity of Polaris, which has these NICs as mlx5_0 and mlx5_1
    "polaris PHB 3=cxi0 1=cxi1",
    // `nvidia-smi topo -m` of a Summit node, rapidsai/ucx-py issue 616
    "summit NODE 0,1,2=mlx5_0,mlx5_1 3,4,5=mlx5_2,mlx5_3",
    // NIC survey of an HPE Cray EX255a, cecoppola/ntt; ROCm/rccl,
    // tools/topo_expl/models/topo_4p_940.xml
    "tuolumne PHB 0=cxi0 1=cxi1 2=cxi2 3=cxi3",
];

/// OLCF user documentation, Frontier user guide; hwloc's view of LLNL Tioga agrees.
#[test]
fn the_gcds_and_nics_of_a_frontier_blade_are_on_the_stated_numa_nodes() {
    let topology = model("frontier").unwrap();
    for (numa_node, gcds, nic) in rows! {
        0, [4, 5], "cxi2"; 1, [2, 3], "cxi1"; 2, [6, 7], "cxi3"; 3, [0, 1], "cxi0";
    } {
        for (gcd, path) in gcds.into_iter().zip([PathType::Node, PathType::Phb]) {
            let found = topology.numa_node_of(topology.gpus[gcd].address);
            assert_eq!(found, Some(numa_node));
            assert_eq!(nearest(&topology, gcd), (path, vec![nic]));
        }
    }
}

/// `nvidia-smi topo -m` in ALCF's guide: two GPUs of Polaris have SYS to both NICs.
#[test]
fn two_gpus_of_a_polaris_node_are_far_from_both_nics_and_gpu_order_is_numa_order_reversed() {
    let topology = model("polaris").unwrap();
    for gpu in [0, 2] {
        assert_eq!(nearest(&topology, gpu).0, PathType::Sys);
        assert_eq!(nearest(&topology, gpu).1.len(), 2);
    }
    let cpus = |gpu: usize| {
        let node = topology.numa_node_of(topology.gpus[gpu].address).unwrap();
        topology.numa_node(node).unwrap().cpus.to_string()
    };
    let expected = ["24-31,56-63", "16-23,48-55", "8-15,40-47", "0-7,32-39"];
    assert_eq!([0, 1, 2, 3].map(cpus), expected);
}

/// ALCF: the HBM of either CPU is a NUMA node without CPUs, nearer to it than the other CPU's memory is.
#[test]
fn the_hbm_of_an_aurora_node_is_of_its_cpus_socket() {
    let topology = model("aurora").unwrap();
    let has_cpus = |node| !topology.numa_node(node).unwrap().cpus.is_empty();
    assert_eq!([2, 3].map(has_cpus), [false, false]);
    let sockets = [0, 1, 2, 3].map(|node| topology.socket_of(node));
    assert_eq!(sockets, [0, 1, 0, 1]);
    assert_eq!(topology.cpus().to_string(), "0-207");
}

/// rccl-tests on two nodes with MI355X: rank i is on GPU i of the runtime, and uses the i-th NIC of NCCL_IB_HCA.
#[test]
fn the_mi355x_that_the_runtime_counts_first_is_beside_the_nic_that_the_job_names_first() {
    let placement = policy::map(&model("mi355x-8").unwrap(), &Wish::default());
    let list =
        ["121", "9", "105", "25", "249", "137", "233", "153"].map(|bus| format!("rocep{bus}s0"));
    assert_eq!(in_the_runtimes_order("mi355x-8", &placement), list);
}

/// AMD's list for the MI325X leaves out a ninth NIC of the same kind, which is near no GPU.
#[test]
fn the_ninth_bcm57608_of_an_mi325x_node_is_not_chosen() {
    let placement = policy::map(&model("mi325x-8").unwrap(), &Wish::default());
    let used = order::set((0..8).map(|gpu| chosen(&placement, gpu)));
    assert!(used.len() == 8 && !used.contains("bnxt_re6"), "{used:?}");
    let found = in_the_runtimes_order("mi325x-8", &placement);
    assert_eq!(found[..2], ["bnxt_re0", "bnxt_re1"]);
}

/// The NICs of GPU 0, 1, … as the vendor's runtime counts them.
fn in_the_runtimes_order(machine: &str, placement: &NodePlacement) -> Vec<String> {
    let topology = model(machine).unwrap();
    let numbered = (0..topology.gpus.len())
        .map(|gpu| (topology.gpus[gpu].runtime_index, chosen(placement, gpu)));
    let numbered = order::map(numbered.map(|(number, nic)| (number.unwrap(), nic.to_string())));
    numbered.into_values().collect()
}

/// LLNL: each MI300A is a socket and a NUMA node.
#[test]
fn each_apu_of_a_tuolumne_node_is_a_socket_with_its_own_nic() {
    let topology = model("tuolumne").unwrap();
    let gpus = topology.gpus.iter().map(|gpu| gpu.address);
    let nics = topology.nics.iter().filter_map(|nic| nic.address);
    let nodes = gpus
        .chain(nics)
        .map(|address| topology.numa_node_of(address));
    assert!(nodes.eq([0, 1, 2, 3, 0, 1, 2, 3].map(Some)));
    let sockets = [0, 1, 2, 3].map(|node| topology.socket_of(node));
    assert_eq!(sockets, [0, 1, 2, 3]);
    let last = topology.numa_node(3).unwrap().cpus.to_string();
    assert_eq!(last, "72-95,168-191");
}
