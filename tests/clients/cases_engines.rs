//! NIXL and Mooncake of PyPI (engine.py), whose peers write into each other's memory: by which NICs.

use super::cases_ucx::{WORDS, assert_shared, nic_of_both, none};
use super::nodes::*;

// nixl: on the other socket than its GPU; mooncake: Slurm lets the step open the NIC for storage too
pub const COMMANDS: &str = "\
nixl.bare ENGINE=nixl srun -K -N2 -n2 -c8 --gpus-per-task=1 --cpu-bind=mask_cpu:0xf0 /guest/pair.sh
nixl ENGINE=nixl srun -K -N2 -n2 -c8 --gpus-per-task=1 --cpu-bind=mask_cpu:0xf0 --nic-placement /guest/pair.sh
mooncake.bare ENGINE=mooncake TIMES=24 srun -K -N2 -n2 --gpus-per-task=1 --gres=nic:1 /guest/pair.sh 65536
mooncake ENGINE=mooncake TIMES=24 srun -K -N2 -n2 --gpus-per-task=1 --gres=nic:1 --nic-placement=env=mooncake /guest/pair.sh 65536
mooncake.map ENGINE=mooncake TIMES=24 srun -K -N2 -n2 --gpus-per-task=1 --gres=nic:1 sh -c \
    'export MC_CUSTOM_TOPO_JSON=/tmp/map.json; /guest/nic-placement map --format mooncake -o /tmp/map.json && exec /guest/pair.sh 65536'
";

pub const CASES: &[Case] = cases![
    nixl_writes_by_the_gpus_nic_and_without_the_plugin_by_those_of_the_other_socket,
    mooncake_writes_by_no_nic_that_is_left_out_with_our_list_or_map_and_without_by_that_too,
];

/// Do the guests have that library?
fn is_here(nodes: &Nodes, name: &str) -> bool {
    let is_here = nodes.other(name).is_some();
    if !is_here {
        println!("skipped: no `{name}` (tests/clients/engines.sh)");
    }
    is_here
}

fn nixl_writes_by_the_gpus_nic_and_without_the_plugin_by_those_of_the_other_socket(nodes: &Nodes) {
    if is_here(nodes, "nixl") {
        assert_shared(nodes, "nixl", &[nic_of_both(nodes, "nixl")]);
        assert_shared(nodes, "nixl.bare", &["mlx5_2", "mlx5_3"]);
    }
}

fn mooncake_writes_by_no_nic_that_is_left_out_with_our_list_or_map_and_without_by_that_too(
    nodes: &Nodes,
) {
    if !is_here(nodes, "mooncake") {
        return;
    }
    let storage = ["mooncake.bare", "mooncake", "mooncake.map"].map(|name| {
        let (messages, sent) = (nodes.tasks(name, 2)[0].sent(), nodes.sent(name));
        NODES.map(|node| {
            let rdma = sent.sum(|on, nic| on == node && nic != "eth0");
            let is_so = rdma >= messages && sent.by(node, "eth0") < WORDS;
            assert!(is_so, "{name}: {node}: {:?}", sent.0);
            none(sent.by(node, "mlx5_4"))
        })
    });
    // it takes one of its memory's NICs for each message by chance
    assert_eq!(storage, [[false; 2], [true; 2], [true; 2]]);
}
