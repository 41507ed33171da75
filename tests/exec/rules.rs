//! Whose GPU it is, what is bound and what is not, on the played node with a launcher's variables.

use crate::harness::{self, NIC_OF_GPU};
use crate::played::{Node, Report, node};

/// A shell's line that starts `exec` as each of `size` processes of a launcher, one after another.
///
/// `before` stands before `exec`, with the number in `$LOCAL_RANK`; the shell is the launcher.
fn launched(node: &Node, size: usize, before: &str, words: &str) -> String {
    // a subshell for each, so that the launcher itself has none of their variables
    format!(
        "for n in $(seq 0 {last}); do (export LOCAL_RANK=$n LOCAL_WORLD_SIZE={size} REPORTED_RANK=$n; {before} exec nic-placement exec \
         {words} -- {report}) || exit; done",
        last = size - 1,
        report = node.report()
    )
}

fn nics(reports: &[Report]) -> Vec<&str> {
    reports.iter().map(|report| report.ports()).collect()
}

fn cpus(reports: &[Report]) -> Vec<&str> {
    reports.iter().map(|report| report.of("cpus")).collect()
}

const ALL: &str = "0-223";
const NEAR: [&str; 2] = ["0-55,112-167", "56-111,168-223"];

#[test]
fn fewer_processes_than_gpus_take_the_first_ones() {
    let Some(node) = node() else { return };
    let reports = node.reports(&[], &launched(node, 4, "", ""));
    assert_eq!(
        nics(&reports),
        ["mlx5_0:1", "mlx5_3:1", "mlx5_4:1", "mlx5_5:1"]
    );
    let near = [NEAR[0], NEAR[0], ALL, ALL];
    assert_eq!(
        cpus(&reports),
        near,
        "the near half holds two quarters of the node"
    );
}

#[test]
fn more_processes_than_gpus_have_the_nics_of_all_and_one_line_says_so() {
    let Some(node) = node() else { return };
    let variables = [("CUDA_VISIBLE_DEVICES", "4,5")];
    let reports = node.reports(&variables, &launched(node, 4, "", ""));
    assert_eq!(nics(&reports), ["mlx5_6:1,mlx5_9:1"; 4]);
    let said = harness::stderr(&node.run(&variables, &launched(node, 4, "", "")));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains(
            "4 processes share the 2 GPUs that they see: which of them it will use is not known"
        ),
        "{said}"
    );
}

#[test]
fn a_process_alone_has_the_nics_of_all_its_gpus_unless_the_user_says_which_it_is() {
    let Some(node) = node() else { return };
    let alone = |words: &str| {
        let line = format!(
            "REPORTED_RANK=0 nic-placement exec {words} -- {}",
            node.report()
        );
        node.reports(&[("CUDA_VISIBLE_DEVICES", "6,7")], &line)
    };
    assert_eq!(nics(&alone("")), ["mlx5_10:1,mlx5_11:1"]);
    assert_eq!(
        nics(&node.reports(&[], &launched(node, 1, "CUDA_VISIBLE_DEVICES=6,7", ""))),
        ["mlx5_10:1,mlx5_11:1"]
    );
    assert_eq!(nics(&alone("--local-rank 1")), ["mlx5_11:1"]);
}

#[test]
fn a_process_that_sees_one_gpu_has_that_one_whatever_its_number() {
    let Some(node) = node() else { return };
    let own = "CUDA_VISIBLE_DEVICES=$((7 - n))";
    let reports = node.reports(&[], &launched(node, 8, &format!("export {own};"), ""));
    let expected: Vec<String> = NIC_OF_GPU
        .iter()
        .rev()
        .map(|nic| format!("mlx5_{nic}:1"))
        .collect();
    assert_eq!(nics(&reports), expected);
    let far_first: Vec<&str> = (0..8).map(|n| NEAR[1 - n / 4]).collect();
    assert_eq!(cpus(&reports), far_first);
}

#[test]
fn a_program_that_binds_itself_keeps_its_cpus_and_one_with_a_map_of_its_own_gets_no_list() {
    let Some(node) = node() else { return };
    let reports = |before: &str, words: &str| {
        let report = node.report();
        let line = launched(node, 8, before, "");
        node.reports(
            &[],
            &line.replace(&report, &format!("sh -c '{report}' {words}")),
        )
    };
    for (before, words) in [
        ("", "vllm serve model --numa-bind"),
        ("", "env numactl -C 0 ./train"),
        ("export SGLANG_CRASH_ON_NUMA_BIND_FAILURE=1;", "sglang"),
    ] {
        let bound_by_itself = reports(before, words);
        assert_eq!(cpus(&bound_by_itself), [ALL; 8], "`{words}`");
        assert_eq!(bound_by_itself[7].ports(), "mlx5_11:1", "`{words}`");
    }
    let mapped = reports("", "sglang serve --disaggregation-ib-device mlx5_0");
    assert_eq!(
        (mapped[7].of("cpus"), mapped[7].of("UCX_NET_DEVICES")),
        (NEAR[1], "-")
    );
}

/// mpirun, as Hydra's `-gpus-per-proc` and PRRTE's `--map-by device=gpu`, gives each a list of its own, and then a wrapper says
/// number and count in torchrun's words: the list is the wrapper's too, and still not that of all.
#[test]
fn a_wrapper_that_says_the_number_again_is_not_taken_for_the_launcher() {
    let Some(node) = node() else { return };
    let line = |before: &str| {
        format!(
            "for n in $(seq 0 7); do (export MPI_LOCALRANKID=$n MPI_LOCALNRANKS=8 CUDA_VISIBLE_DEVICES=$((7 - n)) REPORTED_RANK=$n; \
             {before} exec sh -c 'export LOCAL_RANK=$MPI_LOCALRANKID LOCAL_WORLD_SIZE=$MPI_LOCALNRANKS; nic-placement exec -- {}; \
             exit $?') || exit; done",
            node.report()
        )
    };
    let far_first: Vec<&str> = (0..8).map(|n| NEAR[1 - n / 4]).collect();
    assert_eq!(cpus(&node.reports(&[], &line(""))), far_first);
    // what the launcher bound is no CPUs of all
    let bound = "taskset -pc $((n * 8))-$((n * 8 + 7)) $(exec sh -c 'echo $PPID') > /dev/null;";
    let eights: Vec<String> = (0..8).map(|n| format!("{}-{}", n * 8, n * 8 + 7)).collect();
    let words = |words: &str| line(bound).replace("exec --", &format!("exec {words} --"));
    assert_eq!(cpus(&node.reports(&[], &words("bind=core"))), eights);
}

/// Pyxis tells processes of PyTorch's images their numbers and no count.
#[test]
fn processes_whose_launcher_tells_no_count_divide_nothing_unless_slurm_counts_them() {
    let Some(node) = node() else { return };
    let reports = |before: &str, words: &str| {
        node.reports(
            &[],
            &launched(node, 8, &format!("unset LOCAL_WORLD_SIZE; {before}"), words),
        )
    };
    let uncounted = reports("", "bind=core,omp=on");
    assert_eq!(cpus(&uncounted), [ALL; 8], "each may be alone");
    assert!(
        uncounted
            .iter()
            .all(|report| report.of("OMP_NUM_THREADS") == "-")
    );
    assert_eq!(cpus(&reports("", "")), [ALL; 8]);
    let slurm = "export SLURM_LOCALID=$n SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=8;";
    let counted = launched(node, 8, "", "bind=core");
    assert_eq!(
        cpus(&reports(slurm, "bind=core")),
        cpus(&node.reports(&[], &counted))
    );
    assert_eq!(reports(slurm, "omp=on")[7].of("OMP_NUM_THREADS"), "14");
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
    let reports = node.reports(&[], &line);
    let mut taken = cpus(&reports);
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), 8, "{taken:?}");
}

/// torchrun's `--virtual-local-rank`: `LOCAL_RANK` is 0 in all.
#[test]
fn torchruns_workers_that_are_all_number_0_keep_their_share_near_their_gpus() {
    let Some(node) = node() else { return };
    let torchrun = "export LOCAL_RANK=0 CUDA_VISIBLE_DEVICES=$n RANK=$n WORLD_SIZE=8 GROUP_RANK=0 GROUP_WORLD_SIZE=1 \
                    TORCHELASTIC_RUN_ID=none;";
    let reports = node.reports(&[], &launched(node, 8, torchrun, "bind=core"));
    // which GPUs the others have is not known, and a seat for each on both sockets would be half of its share
    let near: Vec<&str> = (0..8).map(|n| NEAR[n / 4]).collect();
    assert_eq!(cpus(&reports), near);
}

#[test]
fn processes_that_share_one_gpu_keep_their_cpus_where_those_beside_it_are_too_few_for_all() {
    let Some(node) = node() else { return };
    let reports = node.reports(&[("CUDA_VISIBLE_DEVICES", "7")], &launched(node, 8, "", ""));
    assert_eq!(nics(&reports), ["mlx5_11:1"; 8]);
    assert_eq!(cpus(&reports), [ALL; 8]);
    let numa = node.reports(
        &[("CUDA_VISIBLE_DEVICES", "7")],
        &launched(node, 8, "", "bind=numa"),
    );
    assert_eq!(cpus(&numa), [NEAR[1]; 8], "who says `bind=numa` has it");
}

/// CPUs of a list.
fn count(list: &str) -> usize {
    nic_placement_core::topology::CpuSet::from_list(list)
        .unwrap()
        .len()
}

#[test]
fn nobody_gets_fewer_cpus_than_its_part_of_what_all_were_given_nor_any_other() {
    let Some(node) = node() else { return };
    for given in [
        ALL,
        "0-3,56-59",
        "0-27,56-59",
        "0-55",
        "56-111,168-223",
        "3,60",
    ] {
        for size in [2, 3, 8] {
            // the shell is the launcher, and has what all its processes have
            let line = format!(
                "taskset -pc {given} $$ > /dev/null; {}",
                launched(node, size, "", "")
            );
            for report in node.reports(&[], &line) {
                let all = nic_placement_core::topology::CpuSet::from_list(given).unwrap();
                let got =
                    nic_placement_core::topology::CpuSet::from_list(report.of("cpus")).unwrap();
                assert!(got.is_subset(&all), "{given}: {got}");
                assert!(
                    got.len() >= count(given) / size,
                    "{size} processes on {given}: one got {got}"
                );
            }
        }
    }
}

#[test]
fn what_bound_a_process_before_stays_and_a_strict_word_judges_it() {
    let Some(node) = node() else { return };
    let bound = |words: &str| {
        launched(
            node,
            8,
            "taskset -pc 0-1 $(exec sh -c 'echo $PPID') > /dev/null;",
            words,
        )
    };
    let reports = node.reports(&[], &bound(""));
    assert_eq!(cpus(&reports), ["0-1"; 8], "inside what it was given");
    let output = node.run(
        &[],
        &launched(
            node,
            8,
            "[ $n = 7 ] || exit 0; taskset -pc 0-1 $(exec sh -c 'echo $PPID') > /dev/null;",
            "restricted",
        ),
    );
    let said = harness::stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(
        said.contains("its CPUs 0-1 are not all on NUMA node 1 of its GPU")
            && output.stdout.is_empty(),
        "{said}"
    );
}

#[test]
fn without_a_count_of_processes_nobody_is_narrowed() {
    let Some(node) = node() else { return };
    let line = format!(
        "LOCAL_RANK=5 REPORTED_RANK=5 nic-placement exec -- {}",
        node.report()
    );
    let reports = node.reports(&[], &line);
    assert_eq!(
        (nics(&reports), cpus(&reports)),
        (vec!["mlx5_9:1"], vec![ALL])
    );
}

#[test]
fn the_users_own_variables_stay_and_the_report_says_so() {
    let Some(node) = node() else { return };
    let variables = [("UCX_NET_DEVICES", "mlx5_1:1"), ("NCCL_IB_HCA", "")];
    let reports = node.reports(&variables, &launched(node, 2, "", ""));
    assert_eq!(nics(&reports), ["mlx5_1:1"; 2]);
    assert_eq!(reports[0].of("NCCL_IB_HCA"), "", "an empty value is one");
    let said = harness::stderr(&node.run(&variables, &launched(node, 2, "", "verbose")));
    assert!(
        said.contains("UCX_NET_DEVICES: the user's own value stays"),
        "{said}"
    );
    // judged once, in the node's first process, with the program's words
    let wrong = "it admits `mlx5_1:1`, which is left out here";
    assert_eq!(said.matches(wrong).count(), 1, "{said}");
    let report = node.report();
    let line = launched(node, 2, "", "verbose")
        .replace(&report, &format!("sh -c '{report}' sglang serve"));
    let said = harness::stderr(&node.run(&variables, &line));
    assert_eq!(said.matches("`sglang`: its workers").count(), 1, "{said}");
    let quiet = harness::stderr(&node.run(&variables, &launched(node, 2, "", "")));
    assert!(!quiet.contains(wrong), "{quiet}");
}

#[test]
fn the_words_are_those_of_the_option() {
    let Some(node) = node() else { return };
    assert_eq!(
        nics(&node.reports(&[], &launched(node, 2, "", "nics-per-task=2")))[0]
            .matches("mlx5_")
            .count(),
        2
    );
    let reports = node.reports(&[], &launched(node, 8, "", "bind=none"));
    assert_eq!(
        (cpus(&reports), reports[7].of("mem")),
        (vec![ALL; 8], "default")
    );
    let reports = node.reports(&[], &launched(node, 8, "", "mem=strict"));
    assert_eq!(reports[7].of("mem"), "bind:1");
    let reports = node.reports(&[], &launched(node, 8, "", "omp=on"));
    assert_eq!(reports[7].of("OMP_NUM_THREADS"), "14");
    let reports = node.reports(&[], &launched(node, 8, "", "bind=core"));
    let seats: Vec<usize> = cpus(&reports).into_iter().map(count).collect();
    assert_eq!(seats, [28; 8]);
    let mut taken: Vec<&str> = cpus(&reports);
    taken.dedup();
    assert_eq!(taken.len(), 8, "{taken:?}");
    let reports = node.reports(&[], &launched(node, 2, "", "env=none"));
    assert_eq!(nics(&reports), ["-"; 2]);
    let reports = node.reports(&[], &launched(node, 2, "", "dry-run"));
    assert_eq!(
        (
            nics(&reports),
            cpus(&reports),
            reports[0].of("NIC_PLACEMENT")
        ),
        (vec!["-"; 2], vec![ALL; 2], "-")
    );
}

#[test]
fn off_in_the_variable_or_here_changes_nothing_and_a_word_here_beats_the_variable() {
    let Some(node) = node() else { return };
    let nic = |variable: &str, words: &str| {
        let reports = node.reports(
            &[("SLURM_NIC_PLACEMENT", variable)],
            &launched(node, 1, "CUDA_VISIBLE_DEVICES=2", words),
        );
        reports[0].ports().to_string()
    };
    assert_eq!(nic("off", ""), "-");
    assert_eq!(nic("closest", "off"), "-");
    assert_eq!(nic("off", "closest"), "mlx5_4:1");
    assert_eq!(nic("all", "").matches("mlx5_").count(), 8);
}

#[test]
fn in_a_container_with_one_gpu_s_device_node_that_is_the_process_s_gpu() {
    let Some(node) = node() else { return };
    // the file system of device nodes is this namespace's own
    let line = format!(
        "for k in 0 1 2 3 4 6 7; do rm /dev/nvidia$k; done; {}",
        launched(node, 2, "", "")
    );
    assert_eq!(nics(&node.reports(&[], &line)), ["mlx5_9:1"; 2]);
}

#[test]
fn where_no_rdma_device_can_be_opened_check_and_show_say_what_a_task_is_told() {
    let Some(node) = node() else { return };
    let told = |line: &str| {
        let output = node.run(
            &[("CUDA_VISIBLE_DEVICES", "0")],
            &format!("rm -r /dev/infiniband; {line}"),
        );
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).into_owned()
    };
    let task = told("nic-placement exec verbose -- true");
    assert!(task.contains("no NIC of this node may be chosen"), "{task}");
    let checked = told("nic-placement check");
    let checked = checked.split_whitespace().collect::<Vec<_>>().join(" ");
    let none = "8 GPUs, 0 of 14 NICs may be chosen: `/dev/infiniband` is missing on this node";
    assert!(checked.contains(none), "{checked}");
    let shown = told("nic-placement show");
    assert!(
        shown.contains("`/dev/infiniband` is missing on this node"),
        "{shown}"
    );
}

#[test]
fn a_nic_without_a_verbs_device_beside_others_is_in_no_task_and_fails_the_check() {
    let Some(node) = node() else { return };
    let hide = "verbs=/sys/class/infiniband_verbs; device=$(realpath $verbs/uverbs0); mount -t tmpfs none ${device%/*}; \
                cp -a $verbs /dev/verbs; rm /dev/verbs/uverbs0; mount --bind /dev/verbs $verbs";
    let reports = node.reports(&[], &format!("{hide}; {}", launched(node, 8, "", "")));
    assert!(
        !nics(&reports).contains(&"mlx5_0:1"),
        "{:?}",
        nics(&reports)
    );
    assert_eq!(reports[1].ports(), "mlx5_3:1");
    let checked = node
        .run(&[], &format!("{hide}; nic-placement check"))
        .stdout;
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
