//! Steps whose program decides about their placement.

use super::*;
use crate::tasks::nested_in;

/// A step of one task with all GPUs, on one of the job's nodes, as srun describes both.
fn starts(program: &str, of_job: &str, nodes: u32) -> Step {
    let step = on(&format!(
        "--nnodes {nodes} --env SLURM_JOB_NODELIST={of_job} --env SLURM_JOB_NUM_NODES={nodes}"
    ));
    step.word("--program", program)
        .with("--gpu 0,1,2,3,4,5,6,7")
}

fn is_placed(played: &Played) -> bool {
    VARIABLES.iter().all(|name| played.env(0, name).is_some())
}

const EXEC: &str = "`nic-placement exec --`";

#[test]
fn the_daemons_of_an_mpirun_that_has_a_node_for_itself_get_nothing_that_its_own_ranks_have_not() {
    for program in ["orted", "/opt/openmpi/bin/orted", "prted"] {
        let daemon = || starts(program, "n[0-1]", 1);
        daemon().play().ok().lacks(0, &VARIABLES).quiet();
        let step = daemon().option("closest");
        step.play().gets(0, "-NCCL_IB_HCA").shows(&[EXEC]);
    }
    for (program, of_job, nodes) in [
        ("./train", "n[0-1]", 1),
        // mpirun runs on no node of the job's
        ("orted", "n[0-1]", 2),
        // it is not known how many nodes the job has
        ("orted", "n[0-", 1),
        ("hydra_pmi_proxy_of_mine", "n[0-1]", 2),
        // Slurm moves the arguments into the container's config.json and leaves NULL in each place
        ("", "n[0-1]", 1),
    ] {
        let played = starts(program, of_job, nodes).play();
        assert!(is_placed(played.ok()), "{played}");
    }
    // in a placed step they are placed as it is
    let shell = starts("bash", "n[0-1]", 2).play();
    let played = nested_in(&shell, 0, starts("orted", "n[0-1]", 1)).play();
    assert!(is_placed(&played), "{played}");
}

#[test]
fn daemons_whose_ranks_get_the_launchers_own_environment_are_not_placed_and_no_strict_word_ends_them()
 {
    let programs =
        "hydra_pmi_proxy:/opt/mpich/bin/hydra_pmi_proxy:hydra_bstrap_proxy:pmi_proxy:flux-broker";
    for program in programs.split(':') {
        // on all of the job's nodes too, and by the words of one that may have no NIC at all
        for words in ["closest", "single-numa-node", "strict,rail"] {
            let played = starts(program, "n[0-1]", 2).option(words).play();
            played.ok().lacks(0, &VARIABLES).shows(&[EXEC]);
        }
    }
    // a rank's own srun inherits what Hydra set for its daemon's
    let rank = starts("./train", "n[0-1]", 2);
    let rank = rank.env("SLURM_EXTERNAL_LAUNCHER=1").play();
    assert!(is_placed(&rank), "{rank}");
}

const MULTI: &str = "# what each rank starts\n\n0-2,3  ./train %t\n  4-7\t'/usr/bin/numactl' --cpunodebind=1 ./train\n";

#[test]
fn who_starts_a_program_by_numactl_or_starts_all_ranks_of_a_node_is_not_moved() {
    let (near, all) = ("0-55,112-167", "0-223");
    let trusted = |name: &str, starts: &str| {
        let step = dgx("--arg trust-topology --option verbose --played-cpus 0-223");
        step.env("SLURM_CPUS_PER_TASK=16")
            .word(name, starts)
            .gpu("0")
    };
    for (name, starts, cpus) in [
        ("--program", "./train", near),
        ("--program", "numactl", all),
        ("--program", "/usr/bin/numactl", all),
        ("--program", "taskset", all),
        // `sbatch -c16`, then mpirun: each rank gets its 16 CPUs of what the daemon has
        ("--program", "/opt/openmpi/bin/orted", all),
        ("--program", "prted", all),
        ("--multi-prog", "* numactl --physcpubind=56 ./train", all),
        ("--multi-prog", MULTI, all),
        ("--multi-prog", "0-7 ./train numactl", near),
        ("--multi-prog", "# 0 numactl\n0 ./train", near),
        ("--multi-prog", "ranks numactl", near),
        ("--multi-prog", "0", near),
        ("--multi-prog", "", near),
    ] {
        let played = trusted(name, starts);
        played.ok();
        played.on_cpus(0, cpus).gets(0, "UCX_NET_DEVICES=mlx5_0:1");
        let stays = starts.contains("numactl") || starts == "taskset";
        if cpus == near || stays {
            let near = (cpus == near).then_some("preferred-many nodes 0x1");
            played.bound(0, cpus, near.unwrap_or("default nodes 0x0"));
        }
    }
    // vLLM ends with an error where its mask is not every CPU
    let binds = ["`--numa-bind` binds the program"];
    let vllm = trusted("--multi-prog", "0 vllm serve model --numa-bind\n");
    vllm.on_cpus(0, all).shows(&binds);
    let other = trusted("--program", "vllm");
    assert!(!other.showed(&binds), "{other}");
}
