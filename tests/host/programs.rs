//! Steps whose program decides about their placement.

use super::*;
use crate::tasks::nested_in;

/// A step of one task with all GPUs, on one of the job's nodes.
fn starts(program: &str, of_job: &str, nodes: u32) -> Step {
    let step = default_on()
        .word("--program", program)
        .word("--nnodes", nodes.to_string());
    // as srun sets them
    let step = step
        .env(&format!("SLURM_JOB_NODELIST={of_job}"))
        .env(&format!("SLURM_JOB_NUM_NODES={nodes}"));
    step.task("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7")
}

fn is_placed(played: &Played) -> bool {
    VARIABLES.iter().all(|name| played.env(0, name).is_some())
}

#[test]
fn the_daemons_of_an_mpirun_that_has_a_node_for_itself_get_nothing_that_its_own_ranks_have_not() {
    for program in ["orted", "/opt/openmpi/bin/orted", "prted"] {
        let played = play!(starts(program, "n[0-1]", 1));
        assert_eq!(
            VARIABLES.map(|name| played.env(0, name)),
            [const { None }; 4],
            "`{program}`\n{played}"
        );
        assert_eq!(
            played.shown_to_the_user().len(),
            0,
            "nobody asked\n{played}"
        );
        played.assert_nothing_failed();
        let asked = play!(starts(program, "n[0-1]", 1).option("closest"));
        assert_eq!(asked.env(0, "NCCL_IB_HCA"), None, "`{program}`\n{asked}");
        let said = asked.shown_to_the_user();
        assert!(
            said.iter()
                .any(|line| line.text.contains("`nic-placement exec --`")),
            "{asked}"
        );
    }
    for (program, of_job, nodes, why) in [
        ("./train", "n[0-1]", 1, "no daemon"),
        ("orted", "n[0-1]", 2, "mpirun runs on no node of the job's"),
        (
            "orted",
            "n[0-",
            1,
            "nobody knows how many nodes the job has",
        ),
        ("hydra_pmi_proxy_of_mine", "n[0-1]", 2, "no daemon"),
    ] {
        let played = play!(starts(program, of_job, nodes));
        assert!(is_placed(&played), "{why}\n{played}");
    }
}

#[test]
fn daemons_whose_ranks_get_the_launchers_own_environment_are_not_placed_and_no_strict_word_ends_them()
 {
    for program in [
        "hydra_pmi_proxy",
        "/opt/mpich/bin/hydra_pmi_proxy",
        "hydra_bstrap_proxy",
        "pmi_proxy",
        "flux-broker",
    ] {
        // on all of the job's nodes too, and by the words of one that may have no NIC at all
        for words in ["closest", "single-numa-node", "strict,rail"] {
            let played = play!(starts(program, "n[0-1]", 2).option(words));
            assert_eq!(
                VARIABLES.map(|name| played.env(0, name)),
                [const { None }; 4],
                "`{program}`\n{played}"
            );
            assert_eq!(played.exit(0), Some(0), "`{words}`\n{played}");
            let said = played.shown_to_the_user();
            assert!(
                said.iter()
                    .any(|line| line.text.contains("`nic-placement exec --`")),
                "{played}"
            );
        }
    }
    // a rank's own srun inherits what Hydra set for its daemon's
    let rank = starts("./train", "n[0-1]", 2).env("SLURM_EXTERNAL_LAUNCHER=1");
    assert!(is_placed(&play!(rank)));
}

#[test]
fn the_daemons_of_an_mpirun_in_a_placed_step_are_placed_as_it_is() {
    let shell = play!(starts("bash", "n[0-1]", 2));
    let played = play!(nested_in(&shell, 0, starts("orted", "n[0-1]", 1)));
    assert!(is_placed(&played), "{played}");
}

#[test]
fn who_starts_a_program_by_numactl_is_not_moved() {
    for (program, cpus, memory) in [
        ("./train", "0-55,112-167", "preferred-many nodes 0x1"),
        ("numactl", "0-223", "default nodes 0x0"),
        ("/usr/bin/numactl", "0-223", "default nodes 0x0"),
        ("taskset", "0-223", "default nodes 0x0"),
    ] {
        let step = Step::on_dgx_h100()
            .arg("trust-topology")
            .option("closest")
            .env("SLURM_CPUS_PER_TASK=16");
        let step = step
            .word("--played-cpus", "0-223")
            .word("--program", program);
        let played = play!(step.task("CUDA_VISIBLE_DEVICES=0"));
        assert_eq!(
            played.cpus(0).as_deref(),
            Some(cpus),
            "`{program}`\n{played}"
        );
        assert_eq!(
            played.memory(0).as_deref(),
            Some(memory),
            "`{program}`\n{played}"
        );
        assert_eq!(
            played.env(0, "UCX_NET_DEVICES").as_deref(),
            Some("mlx5_0:1"),
            "{played}"
        );
    }
}

// `sbatch -c16`, then mpirun: each rank gets its 16 CPUs of what the daemon has
#[test]
fn a_daemon_that_starts_all_ranks_of_a_node_keeps_all_of_the_steps_cpus() {
    for (program, cpus) in [
        ("./train", "0-55,112-167"),
        ("/opt/openmpi/bin/orted", "0-223"),
        ("prted", "0-223"),
    ] {
        let step = Step::on_dgx_h100()
            .arg("trust-topology")
            .option("closest")
            .env("SLURM_CPUS_PER_TASK=16");
        let step = step
            .word("--played-cpus", "0-223")
            .word("--program", program);
        let played = play!(step.task("CUDA_VISIBLE_DEVICES=0"));
        assert_eq!(
            played.cpus(0).as_deref(),
            Some(cpus),
            "`{program}`\n{played}"
        );
        assert_eq!(
            played.env(0, "UCX_NET_DEVICES").as_deref(),
            Some("mlx5_0:1"),
            "{played}"
        );
    }
}

#[test]
fn a_rank_that_multi_prog_starts_by_numactl_is_not_moved() {
    let starting = |ranks: &str| {
        let step = Step::on_dgx_h100()
            .arg("trust-topology")
            .option("closest")
            .env("SLURM_CPUS_PER_TASK=16");
        let step = step
            .word("--played-cpus", "0-223")
            .word("--multi-prog", ranks);
        step.task("CUDA_VISIBLE_DEVICES=0")
    };
    for ranks in [
        "* numactl --physcpubind=56 ./train",
        "# what each rank starts\n\n0-2,3  ./train %t\n  4-7\t'/usr/bin/numactl' --cpunodebind=1 ./train\n",
    ] {
        let played = play!(starting(ranks));
        assert_eq!(
            played.cpus(0).as_deref(),
            Some("0-223"),
            "`{ranks}`\n{played}"
        );
        assert_eq!(
            played.memory(0).as_deref(),
            Some("default nodes 0x0"),
            "`{ranks}`\n{played}"
        );
        assert_eq!(
            played.env(0, "UCX_NET_DEVICES").as_deref(),
            Some("mlx5_0:1"),
            "{played}"
        );
    }
    for ranks in [
        "0-7 ./train numactl",
        "# 0 numactl\n0 ./train",
        "ranks numactl",
        "0",
        "",
    ] {
        let played = play!(starting(ranks));
        assert_eq!(
            played.cpus(0).as_deref(),
            Some("0-55,112-167"),
            "`{ranks}`\n{played}"
        );
    }
}

// vLLM ends with an error where its mask is not every CPU
#[test]
fn a_program_that_binds_itself_by_a_word_of_its_own_is_not_bound() {
    let step = |program: [&str; 2]| {
        let step = Step::on_dgx_h100().arg("trust-topology").option("verbose");
        let step = step
            .env("SLURM_CPUS_PER_TASK=16")
            .word("--played-cpus", "0-223");
        step.word(program[0], program[1])
            .task("CUDA_VISIBLE_DEVICES=0")
    };
    let says = |played: &Played| {
        played
            .shown_to_the_user()
            .iter()
            .any(|line| line.text.contains("`--numa-bind` binds the program"))
    };
    let vllm = play!(step(["--multi-prog", "0 vllm serve model --numa-bind\n"]));
    assert!(
        vllm.cpus(0).as_deref() == Some("0-223") && says(&vllm),
        "{vllm}"
    );
    let other = play!(step(["--program", "vllm"]));
    assert!(!says(&other), "{other}");
}

// Slurm moves the arguments into the container's config.json and leaves NULL in each place
#[test]
fn a_step_in_a_container_has_no_program_that_slurm_names_and_is_placed() {
    let played = play!(starts("", "n[0-1]", 1));
    assert!(is_placed(&played), "{played}");
    played.assert_nothing_failed();
}
