//! libfabric's own test program, and Open MPI over libfabric, with `env=libfabric`.

use super::cases_address::assert_fails;
use super::cases_ucx::assert_shared;
use super::nodes::*;

pub const COMMANDS: &str = "\
fabric.bare srun -N2 -n2 --gpus-per-task=1 /guest/fabric.sh -p verbs -e msg
fabric srun -N2 -n2 --gpus-per-task=1 --nic-placement=env=default+libfabric /guest/fabric.sh -p \
    verbs -e msg
rxm.many srun -K -N2 -n2 --gpus-per-task=1 --nic-placement=env=default+libfabric \
    /guest/fabric.sh -p 'verbs;ofi_rxm' -e rdm
rxm FI_UNIVERSE_SIZE=16 srun -N2 -n2 --gpus-per-task=1 --nic-placement=env=default+libfabric \
    /guest/fabric.sh -p 'verbs;ofi_rxm' -e rdm
openmpi-ofi FI_UNIVERSE_SIZE=16 OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi FI_PROVIDER=verbs \
    srun --mpi=pmix -N2 -n2 --gpus-per-task=1 --nic-placement=env=default+libfabric \
    /guest/pingpong.openmpi 262144 3
";

pub const CASES: &[Case] = cases![
    libfabric_over_verbs_sends_by_the_gpus_nic_if_asked_and_by_the_first_if_not,
    libfabrics_messages_without_connections_do_so_too_for_few_peers:
        |nodes| assert_shared(nodes, "rxm", &[nodes.beside(0)]),
    soft_roce_has_no_completion_queue_as_long_as_rxm_wants_for_many_peers,
    open_mpi_over_libfabric_sends_by_the_gpus_nic:
        |nodes| assert_shared(nodes, "openmpi-ofi", &[nodes.beside(0)]),
];

fn libfabric_over_verbs_sends_by_the_gpus_nic_if_asked_and_by_the_first_if_not(nodes: &Nodes) {
    for (name, device, nic) in [
        ("fabric", "mlx5_1", nodes.beside(0)),
        ("fabric.bare", "-", "mlx5_0"),
    ] {
        assert_eq!(nodes.tasks(name, 2)[0].said("device"), device, "{name}");
        assert_shared(nodes, name, &[nic]);
    }
}

/// rxm asks for a queue with room for all messages of FI_UNIVERSE_SIZE peers, 256 unless said (prov/rxm/src/rxm_ep.c
/// `rxm_ep_msg_cq_open`), and rxe has queues of at most 32767: what `fi_enable` then says is EINVAL.
fn soft_roce_has_no_completion_queue_as_long_as_rxm_wants_for_many_peers(nodes: &Nodes) {
    for words in ["fi_enable", "Invalid argument"] {
        assert_fails(nodes, "rxm.many", words);
    }
}
