//! Ranks that a launcher starts, each by way of `nic-placement exec`: mpirun on one node, and in an allocation of two, where
//! it starts its daemons by srun.

use super::nodes::*;

pub const COMMANDS: &str = "\
mpirun.bare OMPI_MCA_plm=isolated orterun --allow-run-as-root --bind-to none -n 4 /guest/rank.sh
mpirun OMPI_MCA_plm=isolated orterun --allow-run-as-root --bind-to none -n 4 \
    /guest/nic-placement exec -- /guest/rank.sh
mpirun.two OMPI_MCA_plm=slurm salloc -Q -N2 -n2 --gpus-per-task=1 orterun --allow-run-as-root \
    --bind-to none --map-by node -n 2 \
    /guest/nic-placement exec -- /guest/rank.sh
";

pub const CASES: &[Case] = cases![
    each_rank_of_mpirun_is_beside_its_gpu_and_without_exec_none_is_told_of_a_nic,
    a_rank_below_mpiruns_daemon_has_the_nic_of_its_steps_gpu_and_one_beside_mpirun_those_of_all_it_sees
];

/// What a rank says of itself: `rank=0 nics=mlx5_1:1,eth0 cpus=0-3`.
fn rank(nodes: &Nodes, name: &str, rank: usize) -> [String; 2] {
    let said = nodes.said(name);
    let mut lines = said
        .lines()
        .filter_map(|line| line.strip_prefix(&format!("rank={rank} ")));
    let line = lines.next().unwrap_or_else(|| panic!("{name}: {said}"));
    let word = |key| {
        line.split(' ')
            .find_map(|word| word.strip_prefix(key))
            .expect(key)
    };
    ["nics=", "cpus="].map(|key| word(key).to_string())
}

/// The k-th process takes the k-th GPU in PCI order, here beside `mlx5_k`; /dev/nvidiaK is another.
fn each_rank_of_mpirun_is_beside_its_gpu_and_without_exec_none_is_told_of_a_nic(nodes: &Nodes) {
    for (local, socket) in [(0, "0-3"), (1, "0-3"), (2, "4-7"), (3, "4-7")] {
        let [nics, cpus] = rank(nodes, "mpirun", local);
        let is_so = nics.starts_with(&format!("mlx5_{local}:1,"));
        assert!(is_so, "{local}: {nics}");
        assert_eq!(cpus, socket, "{local}");
        assert_eq!(rank(nodes, "mpirun.bare", local), ["-", "0-7"], "{local}");
    }
}

/// On the allocation's first node mpirun starts its rank itself, outside of any step: nothing hides a GPU from it.  On the
/// other one a daemon does, which srun started with one GPU.
fn a_rank_below_mpiruns_daemon_has_the_nic_of_its_steps_gpu_and_one_beside_mpirun_those_of_all_it_sees(
    nodes: &Nodes,
) {
    let below_daemon = format!("{}:1,eth0", nodes.beside(0));
    for (number, list) in [
        (0, "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,eth0"),
        (1, &below_daemon),
    ] {
        let [nics, _] = rank(nodes, "mpirun.two", number);
        assert!(nics.starts_with(list), "{number}: {nics}");
    }
}
