//! Whose GPU it is, what is bound and what is not, on the played node with a launcher's variables.

use crate::harness::{self, NIC_OF_GPU};
use crate::played::{ALL, NEAR, Node, Task, all, cpus, nics, node};
use crate::task::numbers;

/// The tasks of a launcher of `size`.
#[track_caller]
fn launched(node: &Node, size: usize, before: &str, words: &str) -> Vec<Task> {
    node.reports(&[], &node.launched(size, before, words))
}

/// The sockets of eight processes, those of the second first.
fn far_first() -> Vec<&'static str> {
    (0..8).map(|n| NEAR[1 - n / 4]).collect()
}

#[test]
fn fewer_processes_than_gpus_take_the_first_ones() {
    let Some(node) = node() else { return };
    let tasks = launched(node, 4, "", "");
    let found = nics(&tasks);
    assert_eq!(found, ["mlx5_0:1", "mlx5_3:1", "mlx5_4:1", "mlx5_5:1"]);
    // the near half holds two quarters of the node
    assert_eq!(cpus(&tasks), [NEAR[0], NEAR[0], ALL, ALL]);
}

#[test]
fn more_processes_than_gpus_have_the_nics_of_all_and_one_line_says_so() {
    let Some(node) = node() else { return };
    let variables = [("CUDA_VISIBLE_DEVICES", "4,5")];
    let line = node.launched(4, "", "");
    let found = nics(&node.reports(&variables, &line));
    assert_eq!(found, ["mlx5_6:1,mlx5_9:1"; 4]);
    let said = node.said(&variables, &line);
    let is_so = said.contains("4 processes share the 2 GPUs");
    assert!(said.lines().count() == 1 && is_so, "{said}");
}

#[test]
fn a_process_alone_has_the_nics_of_all_its_gpus_unless_the_user_says_which_it_is() {
    let Some(node) = node() else { return };
    let two = "CUDA_VISIBLE_DEVICES=6,7";
    assert_eq!(node.one(two, "").ucx(), ["mlx5_10:1", "mlx5_11:1"]);
    assert_eq!(nics(&launched(node, 1, two, "")), ["mlx5_10:1,mlx5_11:1"]);
    assert_eq!(node.one(two, "--local-rank 1").ucx(), ["mlx5_11:1"]);
}

#[test]
fn a_process_that_sees_one_gpu_has_that_one_whatever_its_number() {
    let Some(node) = node() else { return };
    let tasks = launched(node, 8, "export CUDA_VISIBLE_DEVICES=$((7 - n));", "");
    let own = NIC_OF_GPU.iter().rev().map(|nic| format!("mlx5_{nic}:1"));
    assert!(nics(&tasks).into_iter().eq(own), "{tasks:?}");
    assert_eq!(cpus(&tasks), far_first());
}

#[test]
fn a_program_that_binds_itself_keeps_its_cpus_and_one_with_a_map_of_its_own_gets_no_list() {
    let Some(node) = node() else { return };
    let as_program = |before: &str, words: &str| {
        let report = node.report();
        let line = node.launched(8, before, "");
        let line = line.replace(&report, &format!("sh -c '{report}' {words}"));
        node.reports(&[], &line)
    };
    for (before, words) in [
        ("", "vllm serve model --numa-bind"),
        ("", "env numactl -C 0 ./train"),
        ("export SGLANG_CRASH_ON_NUMA_BIND_FAILURE=1;", "sglang"),
    ] {
        let tasks = as_program(before, words);
        assert_eq!(cpus(&tasks), [ALL; 8], "`{words}`");
        assert_eq!(tasks[7].ucx(), ["mlx5_11:1"], "`{words}`");
    }
    let mapped = &as_program("", "sglang serve --disaggregation-ib-device mlx5_0")[7];
    let is_so = mapped.word("cpus") == NEAR[1] && mapped.lacks(&["UCX_NET_DEVICES"]);
    assert!(is_so, "{mapped:?}");
}

/// mpirun, as Hydra's `-gpus-per-proc` and PRRTE's `--map-by device=gpu`, gives each a list of its own, and then a wrapper says
/// number and count in torchrun's words: the list is the wrapper's too, and still not that of all.
#[test]
fn a_wrapper_that_says_the_number_again_is_not_taken_for_the_launcher() {
    let Some(node) = node() else { return };
    let tasks = |before: &str, words: &str| {
        let line = format!(
            "for n in $(seq 0 7); do (export MPI_LOCALRANKID=$n MPI_LOCALNRANKS=8 CUDA_VISIBLE_DEVICES=$((7 - n)) REPORTED_RANK=$n; \
             {before} exec sh -c 'export LOCAL_RANK=$MPI_LOCALRANKID LOCAL_WORLD_SIZE=$MPI_LOCALNRANKS; \
             nic-placement exec {words} -- {}; exit $?') || exit; done",
            node.report()
        );
        node.reports(&[], &line)
    };
    assert_eq!(cpus(&tasks("", "")), far_first());
    // what the launcher bound is no CPUs of all
    let bound = "taskset -pc $((n * 8))-$((n * 8 + 7)) $(exec sh -c 'echo $PPID') > /dev/null;";
    let eights: Vec<String> = (0..8).map(|n| format!("{}-{}", n * 8, n * 8 + 7)).collect();
    assert_eq!(cpus(&tasks(bound, "bind=core")), eights);
}

/// Pyxis tells processes of PyTorch's images their numbers and no count.
#[test]
fn processes_whose_launcher_tells_no_count_divide_nothing_unless_slurm_counts_them() {
    let Some(node) = node() else { return };
    let uncounted = |before: &str, words: &str| {
        launched(node, 8, &format!("unset LOCAL_WORLD_SIZE; {before}"), words)
    };
    // each may be alone
    for words in ["bind=core,omp=on", ""] {
        let is_so = |task: &Task| task.word("cpus") == ALL && task.lacks(&["OMP_NUM_THREADS"]);
        all(&uncounted("", words), is_so);
    }
    let slurm = "export SLURM_LOCALID=$n SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=8;";
    let counted = launched(node, 8, "", "bind=core");
    assert_eq!(cpus(&uncounted(slurm, "bind=core")), cpus(&counted));
    assert_eq!(uncounted(slurm, "omp=on")[7].word("OMP_NUM_THREADS"), "14");
}

/// slurmstepd runs outside of its step's CPUs, so that its own differ says nothing where Slurm's variables name no binding.
#[test]
fn a_task_of_slurms_whose_number_was_said_again_is_not_taken_for_one_that_slurmstepd_bound() {
    let Some(node) = node() else { return };
    let line = format!(
        "stepd=$(mktemp -d)/slurmstepd; cp $(readlink -f /bin/sh) $stepd; for n in $(seq 0 7); do export n; $stepd -c '(taskset -pc 0-111 \
         $(exec sh -c '\\''echo $PPID'\\'') > /dev/null; export LOCAL_RANK=$n SLURM_LOCALID=$n SLURM_NODEID=0 \
         SLURM_STEP_TASKS_PER_NODE=8 REPORTED_RANK=$n; exec nic-placement exec bind=core -- {}); exit $?' || exit; done; rm -r ${{stepd%/*}}",
        node.report()
    );
    assert_each_has_its_own(&node.reports(&[], &line));
}

/// Eight processes have CPUs of their own.
#[track_caller]
fn assert_each_has_its_own(tasks: &[Task]) {
    let taken: std::collections::BTreeSet<&str> = cpus(tasks).into_iter().collect();
    assert_eq!(taken.len(), 8, "{taken:?}");
}

/// torchrun's `--virtual-local-rank`: `LOCAL_RANK` is 0 in all.
#[test]
fn torchruns_workers_that_are_all_number_0_keep_their_share_near_their_gpus() {
    let Some(node) = node() else { return };
    let torchrun = "export LOCAL_RANK=0 CUDA_VISIBLE_DEVICES=$n RANK=$n WORLD_SIZE=8 GROUP_RANK=0 GROUP_WORLD_SIZE=1 \
                    TORCHELASTIC_RUN_ID=none;";
    // which GPUs the others have is not known, and a seat for each on both sockets would be half of its share
    let near: Vec<&str> = (0..8).map(|n| NEAR[n / 4]).collect();
    assert_eq!(cpus(&launched(node, 8, torchrun, "bind=core")), near);
}

#[test]
fn processes_that_share_one_gpu_keep_their_cpus_where_those_beside_it_are_too_few_for_all() {
    let Some(node) = node() else { return };
    for (words, own) in [("", ALL), ("bind=numa", NEAR[1])] {
        let line = node.launched(8, "", words);
        let tasks = node.reports(&[("CUDA_VISIBLE_DEVICES", "7")], &line);
        let is_so = |task: &Task| task.ucx() == ["mlx5_11:1"] && task.word("cpus") == own;
        all(&tasks, is_so);
    }
}

#[test]
fn nobody_gets_fewer_cpus_than_its_part_of_what_all_were_given_nor_any_other() {
    let Some(node) = node() else { return };
    for given in [ALL, "0-3,56-59", "0-27,56-59", "0-55", NEAR[1], "3,60"] {
        let all_cpus = numbers(given);
        for size in [2, 3, 8] {
            // the shell is the launcher, and has what all its processes have
            let line = node.launched(size, "", "");
            let tasks = node.reports(&[], &format!("taskset -pc {given} $$ > /dev/null; {line}"));
            all(&tasks, |task| {
                task.cpus().is_subset(&all_cpus) && task.cpus().len() >= all_cpus.len() / size
            });
        }
    }
}

#[test]
fn what_bound_a_process_before_stays_and_a_strict_word_judges_it() {
    let Some(node) = node() else { return };
    let bound = "taskset -pc 0-1 $(exec sh -c 'echo $PPID') > /dev/null;";
    // inside what it was given
    assert_eq!(cpus(&launched(node, 8, bound, "")), ["0-1"; 8]);
    let last = format!("[ $n = 7 ] || exit 0; {bound}");
    let output = node.run(&[], &node.launched(8, &last, "restricted"));
    let said = harness::stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    let is_told = said.contains("CPUs 0-1 are not all on NUMA node 1");
    assert!(is_told && output.stdout.is_empty(), "{said}");
}

#[test]
fn without_a_count_of_processes_nobody_is_narrowed() {
    let Some(node) = node() else { return };
    let task = node.one("LOCAL_RANK=5", "");
    let is_so = task.ucx() == ["mlx5_9:1"] && task.word("cpus") == ALL;
    assert!(is_so, "{task:?}");
}

#[test]
fn the_users_own_variables_stay_and_the_report_says_so() {
    let Some(node) = node() else { return };
    let variables = [("UCX_NET_DEVICES", "mlx5_1:1"), ("NCCL_IB_HCA", "")];
    // an empty value is one
    let tasks = node.reports(&variables, &node.launched(2, "", ""));
    let is_so = |task: &Task| task.ucx() == ["mlx5_1:1"] && task.word("NCCL_IB_HCA").is_empty();
    all(&tasks, is_so);
    let line = node.launched(2, "", "verbose");
    let said = node.said(&variables, &line);
    let is_so = said.contains("UCX_NET_DEVICES: the user's own value stays");
    assert!(is_so, "{said}");
    // judged once, in the node's first process, with the program's words
    let wrong = "it admits `mlx5_1:1`, which is left out here";
    assert_eq!(said.matches(wrong).count(), 1, "{said}");
    let report = node.report();
    let line = line.replace(&report, &format!("sh -c '{report}' sglang serve"));
    let said = node.said(&variables, &line);
    assert_eq!(said.matches("`sglang`: its workers").count(), 1, "{said}");
    let quiet = node.said(&variables, &node.launched(2, "", ""));
    assert!(!quiet.contains(wrong), "{quiet}");
}

#[test]
fn the_words_are_those_of_the_option() {
    let Some(node) = node() else { return };
    let tasks = |size, words| launched(node, size, "", words);
    all(&tasks(2, "nics-per-task=2"), |task| task.ucx().len() == 2);
    let is_so = |task: &Task| (task.word("cpus"), task.mem()) == (ALL, "default");
    all(&tasks(8, "bind=none"), is_so);
    assert_eq!(tasks(8, "mem=strict")[7].mem(), "bind:1");
    assert_eq!(tasks(8, "omp=on")[7].word("OMP_NUM_THREADS"), "14");
    let cores = tasks(8, "bind=core");
    all(&cores, |task| task.cpus().len() == 28);
    assert_each_has_its_own(&cores);
    let is_so = |task: &Task| task.lacks(&["UCX_NET_DEVICES"]);
    all(&tasks(2, "env=none"), is_so);
    all(&tasks(2, "dry-run"), |task| {
        task.word("cpus") == ALL && task.lacks(&["UCX_NET_DEVICES", "NIC_PLACEMENT"])
    });
}

#[test]
fn off_in_the_variable_or_here_changes_nothing_and_a_word_here_beats_the_variable() {
    let Some(node) = node() else { return };
    for (variable, words, count) in [
        ("off", "", 0),
        ("closest", "off", 0),
        ("off", "closest", 1),
        ("all", "", 8),
    ] {
        let line = node.launched(1, "CUDA_VISIBLE_DEVICES=2", words);
        let tasks = node.reports(&[("SLURM_NIC_PLACEMENT", variable)], &line);
        assert_eq!(tasks[0].ucx().len(), count, "{variable}, {words}");
        assert!(count != 1 || tasks[0].ucx() == ["mlx5_4:1"], "{tasks:?}");
    }
}

#[test]
fn in_a_container_with_one_gpu_s_device_node_that_is_the_process_s_gpu() {
    let Some(node) = node() else { return };
    // the file system of device nodes is this namespace's own
    let others = "for k in 0 1 2 3 4 6 7; do rm /dev/nvidia$k; done";
    let line = format!("{others}; {}", node.launched(2, "", ""));
    assert_eq!(nics(&node.reports(&[], &line)), ["mlx5_9:1"; 2]);
}

#[test]
fn where_no_rdma_device_can_be_opened_check_and_show_say_what_a_task_is_told() {
    let Some(node) = node() else { return };
    let missing = "`/dev/infiniband` is missing on this node";
    let none = format!("8 GPUs, 0 of 14 NICs may be chosen: {missing}");
    for (words, told) in [
        ("exec verbose -- true", "no NIC of this node may"),
        ("check", &*none),
        ("show", missing),
    ] {
        let line = format!("rm -r /dev/infiniband; nic-placement {words}");
        let output = node.run(&[("CUDA_VISIBLE_DEVICES", "0")], &line);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        // a table has lines of its own
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn a_nic_without_a_verbs_device_beside_others_is_in_no_task_and_fails_the_check() {
    let Some(node) = node() else { return };
    let hide = "verbs=/sys/class/infiniband_verbs; device=$(realpath $verbs/uverbs0); mount -t tmpfs none ${device%/*}; \
                cp -a $verbs /dev/verbs; rm /dev/verbs/uverbs0; mount --bind /dev/verbs $verbs";
    let reports = node.reports(&[], &format!("{hide}; {}", node.launched(8, "", "")));
    assert!(!nics(&reports).concat().contains("mlx5_0:1"), "{reports:?}");
    assert_eq!(reports[1].ucx(), ["mlx5_3:1"]);
    let checked = node.run(&[], &format!("{hide}; nic-placement check"));
    let checked = checked.stdout;
    let checked = String::from_utf8_lossy(&checked);
    assert!(checked.contains("`mlx5_0` has no device node"), "{checked}");
    assert!(checked.contains("8 GPUs, 7 of 14 NICs"), "{checked}");
}

#[test]
fn slurms_name_of_a_node_counts_below_slurm_and_not_where_a_launcher_brought_it() {
    let Some(node) = node() else { return };
    let report = |variables: &str| {
        let line = format!("env SLURMD_NODENAME=n0 {variables} nic-placement exec verbose -- true");
        harness::stderr(&node.run(&[], &line))
    };
    let hydra = "MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1";
    assert!(report("").contains("task 0 n0 "), "{}", report(""));
    assert!(!report(hydra).contains("n0 "), "{}", report(hydra));
    let hosts = hydra.to_owned() + " SLURMD_NODENAME=$(hostname)";
    assert!(report(&hosts).contains("task 0 "), "{}", report(&hosts));
}
