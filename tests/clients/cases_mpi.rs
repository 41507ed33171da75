//! Open MPI and MPICH: the ranks of a job send by the NICs of their GPUs, and what the user set stays.
//!
//! Debian builds MPICH for UCX alone (ch4:ucx): MPICH over libfabric (ch4:ofi) is not here.

use super::cases_ucx::{assert_shared, none};
use super::nodes::*;

// openmpi.tcp: Debian's openmpi-mca-params.conf leaves UCX and libfabric out
pub const COMMANDS: &str = "\
openmpi.tcp srun --mpi=pmix -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pingpong.openmpi \
    262144 3
openmpi.bare OMPI_MCA_pml=ucx srun --mpi=pmix -N2 -n2 --gpus-per-task=1 /guest/pingpong.openmpi \
    262144 3
openmpi OMPI_MCA_pml=ucx srun --mpi=pmix -N2 -n2 --gpus-per-task=1 --nic-placement \
    /guest/pingpong.openmpi 262144 3
mpich.bare srun --mpi=pmi2 -N2 -n2 --gpus-per-task=1 /guest/pingpong.mpich 262144 3
mpich srun --mpi=pmi2 -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pingpong.mpich 262144 3
mpich.user UCX_NET_DEVICES=mlx5_2:1 srun --mpi=pmi2 -N2 -n2 --gpus-per-task=1 --nic-placement \
    /guest/pingpong.mpich 262144 3
";

pub const CASES: &[Case] = cases![
    open_mpi_over_ucx_sends_by_the_gpus_nic_and_without_the_plugin_by_two:
        |nodes| assert_placed(nodes, "openmpi", "openmpi.bare"),
    mpich_sends_by_the_gpus_nic_and_without_the_plugin_by_two:
        |nodes| assert_placed(nodes, "mpich", "mpich.bare"),
    the_users_own_list_wins,
    open_mpi_over_tcp_is_as_it_was,
];

/// GPU 0 of such a step is beside `mlx5_1`: cases_ucx.rs shows it.
fn assert_placed(nodes: &Nodes, placed: &str, bare: &str) {
    assert_shared(nodes, placed, &[nodes.beside(0)]);
    assert_shared(nodes, bare, &["mlx5_0", "mlx5_1"]);
}

fn the_users_own_list_wins(nodes: &Nodes) {
    assert_shared(nodes, "mpich.user", &["mlx5_2"]);
    assert_eq!(nodes.tasks("mpich.user", 2)[0].said("ucx"), "mlx5_2:1");
}

fn open_mpi_over_tcp_is_as_it_was(nodes: &Nodes) {
    // it takes every interface, those of the rails too, as it does without the plugin
    let (tasks, sent) = (nodes.tasks("openmpi.tcp", 2), nodes.sent("openmpi.tcp"));
    for node in NODES {
        let is_sent = sent.sum(|on, _| on == node) > tasks[0].sent();
        assert!(is_sent && !none(sent.by(node, "eth0")), "{:?}", sent.0);
    }
}
