//! `nic-placement verify` beside real programs: the kernel tells which process has connected queue pairs on which NIC.

use super::cases_measure::reports;
use super::nodes::*;
use nic_placement_traffic::report::NodeReport;
use nic_placement_traffic::resources::By;
use nic_placement_traffic::verify::{TaskVerdict, Verdict};

// GPU 0 is beside mlx5_1; mlx5_2 is the other socket's, and mlx5_4 is left out
pub const COMMANDS: &str = "\
verify.ucx TIMES=9999 /guest/look.sh queue-pairs srun -N2 -n2 --gpus-per-task=1 --nic-placement \
    /guest/pair.sh 1024
verify.bare TIMES=9999 /guest/look.sh queue-pairs srun -N2 -n2 --gpus-per-task=1 /guest/pair.sh 1024
verify.openmpi OMPI_MCA_pml=ucx /guest/look.sh queue-pairs srun --mpi=pmix -N2 -n2 \
    --gpus-per-task=1 --nic-placement \
    /guest/pingpong.openmpi 1024 99999
verify.mpich /guest/look.sh queue-pairs srun --mpi=pmi2 -N2 -n2 --gpus-per-task=1 --nic-placement \
    /guest/pingpong.mpich 1024 99999
verify.libfabric FI_UNIVERSE_SIZE=16 OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi FI_PROVIDER=verbs \
    /guest/look.sh queue-pairs \
    srun --mpi=pmix -N2 -n2 --gpus-per-task=1 --nic-placement=env=default+libfabric \
    /guest/pingpong.openmpi 1024 99999
verify.far /guest/look.sh queue-pairs srun -n1 -w n0 --gpus-per-task=1 --nic-placement \
    /guest/holder mlx5_2 1
verify.left-out /guest/look.sh queue-pairs srun -n1 -w n0 --gpus-per-task=1 --gres=nic:1 \
    --nic-placement \
    /guest/holder mlx5_4 1
verify.many /guest/look.sh queue-pairs srun -n1 -w n0 --gpus-per-task=1 --nic-placement \
    /guest/holder mlx5_1 500
verify.none /guest/look.sh no-nic srun -n1 -w n0 --gpus-per-task=1 \
    --nic-placement /guest/holder mlx5_1 0
verify.thread /guest/look.sh queue-pairs srun -n1 -w n0 --gpus-per-task=1 --nic-placement \
    /guest/holder mlx5_1 1 thread
verify.namespace /guest/look.sh queue-pairs srun -n1 -w n0 --gpus-per-task=1 --nic-placement \
    unshare -p -f /guest/holder mlx5_1 1
verify.ends SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_STEP_GPUS=0 /guest/holder mlx5_1 1 > /dev/null \
    & holder=$!; \
    (sleep 4; kill $holder) & /guest/nic-placement verify --json --watch 60 --pid $holder; \
    ! kill $holder 2> /dev/null
verify.user FIRST='/usr/bin/setpriv --reuid=1000 --clear-groups' /guest/look.sh queue-pairs \
    /usr/bin/setpriv --reuid=1000 --clear-groups env SLURM_JOB_ID=77 SLURM_STEP_ID=0 \
    SLURM_STEP_GPUS=0 /guest/holder mlx5_1 1
verify.other-user FIRST='/usr/bin/setpriv --reuid=1001 --clear-groups' /guest/look.sh hidden \
    /usr/bin/setpriv --reuid=1000 --clear-groups env SLURM_JOB_ID=77 SLURM_STEP_ID=0 \
    SLURM_STEP_GPUS=0 /guest/holder mlx5_1 1
verify.command srun -n1 -w n0 --gpus-per-task=1 --nic-placement /guest/nic-placement verify \
    --json -- \
    sh -c '/guest/holder mlx5_1 1 & sleep 4; kill $!; exit 7'; [ $? = 7 ]
";

pub const CASES: &[Case] = cases![
    placed_tasks_of_every_library_are_seen_to_use_the_nic_that_they_were_given,
    without_the_plugin_the_nic_that_is_not_the_gpu_s_is_named,
    a_far_nic_and_one_that_is_left_out_are_named_whatever_the_plan_was,
    a_program_that_opens_all_nics_and_connects_none_uses_none,
    a_thousand_queue_pairs_are_read_in_seconds,
    queue_pairs_whose_thread_has_ended_are_their_context_s:
        |nodes| assert_eq!(task(nodes, "verify.thread").verdict, Verdict::AsPlanned),
    a_process_in_another_pid_namespace_is_seen_from_outside:
        |nodes| assert_eq!(task(nodes, "verify.namespace").verdict, Verdict::AsPlanned),
    a_process_that_ends_meanwhile_was_seen,
    a_user_sees_the_own_tasks_and_of_another_s_that_there_are_some,
    a_command_that_is_looked_at_ends_as_it_does_alone,
];

/// The last report of a command.
fn last(nodes: &Nodes, name: &str) -> NodeReport {
    let said = nodes.answer(name) + &nodes.said(name);
    reports(&said)
        .pop()
        .unwrap_or_else(|| panic!("no report: {said}"))
}

fn task(nodes: &Nodes, name: &str) -> TaskVerdict {
    let report = last(nodes, name);
    assert_eq!(report.tasks.len(), 1, "{name}: {}", nodes.said(name));
    report.tasks[0].clone()
}

fn nics(task: &TaskVerdict) -> Vec<&str> {
    task.used.iter().map(|used| used.nic.as_str()).collect()
}

/// The one task, which is judged so and uses these NICs.
#[track_caller]
fn judged(nodes: &Nodes, name: &str, verdict: Verdict, used: &[&str]) -> TaskVerdict {
    let task = task(nodes, name);
    let found = (task.verdict, &*nics(&task));
    assert_eq!(found, (verdict, used), "{name}: {task:?}");
    task
}

/// look.sh's word of verify's own status.
#[track_caller]
fn assert_status(nodes: &Nodes, name: &str, status: i32) {
    let answer = nodes.answer(name);
    let is_so = answer.contains(&format!("status={status}"));
    assert!(is_so, "{name}: {answer}");
}

fn placed_tasks_of_every_library_are_seen_to_use_the_nic_that_they_were_given(nodes: &Nodes) {
    for library in ["ucx", "openmpi", "mpich", "libfabric"] {
        let name = format!("verify.{library}");
        let task = judged(nodes, &name, Verdict::AsPlanned, &["mlx5_1:1"]);
        let is_seen = task.is_placed && task.used[0].by == By::QueuePairs;
        let is_near = (task.cpus.far, &task.cpus.left_for) == (0, &None)
            && task.near_memory.is_some_and(|share| share > 90);
        assert!(is_seen && is_near, "{name}: {task:?}");
        assert_status(nodes, &name, 0);
    }
}

fn without_the_plugin_the_nic_that_is_not_the_gpu_s_is_named(nodes: &Nodes) {
    let task = task(nodes, "verify.bare");
    assert!(!task.is_placed && task.planned == ["mlx5_1:1"], "{task:?}");
    let is_named = nics(&task).contains(&"mlx5_0:1");
    let is_so = is_named && task.verdict == Verdict::NearerExists;
    assert!(is_so, "{task:?}");
    assert_status(nodes, "verify.bare", 1);
}

fn a_far_nic_and_one_that_is_left_out_are_named_whatever_the_plan_was(nodes: &Nodes) {
    let far = judged(nodes, "verify.far", Verdict::Far, &["mlx5_2:1"]);
    assert_eq!(far.used[0].path.as_deref(), Some("SYS"), "{far:?}");
    judged(nodes, "verify.left-out", Verdict::LeftOut, &["mlx5_4:1"]);
}

fn a_program_that_opens_all_nics_and_connects_none_uses_none(nodes: &Nodes) {
    judged(nodes, "verify.none", Verdict::NoNic, &[]);
}

fn a_thousand_queue_pairs_are_read_in_seconds(nodes: &Nodes) {
    let task = task(nodes, "verify.many");
    assert_eq!(task.verdict, Verdict::AsPlanned, "{task:?}");
    let answer = nodes.answer("verify.many");
    let took = answer
        .lines()
        .find_map(|line| line.split_once("took=")?.1.parse::<f64>().ok());
    assert!(took.is_some_and(|seconds| seconds < 5.0), "{answer}");
}

fn a_process_that_ends_meanwhile_was_seen(nodes: &Nodes) {
    // verify ended before its minute was over, and after the process
    let is_so = nodes.succeeded("verify.ends");
    assert!(is_so, "{}", nodes.said("verify.ends"));
    assert_eq!(task(nodes, "verify.ends").verdict, Verdict::AsPlanned);
}

fn a_user_sees_the_own_tasks_and_of_another_s_that_there_are_some(nodes: &Nodes) {
    judged(nodes, "verify.user", Verdict::AsPlanned, &["mlx5_1:1"]);
    let last = last(nodes, "verify.other-user");
    let is_so = last.tasks.is_empty() && last.notes[0].contains("1 other user");
    assert!(is_so, "{last:?}");
    assert_status(nodes, "verify.other-user", 2);
}

fn a_command_that_is_looked_at_ends_as_it_does_alone(nodes: &Nodes) {
    let is_so = nodes.succeeded("verify.command");
    assert!(is_so, "{}", nodes.said("verify.command"));
    assert_eq!(task(nodes, "verify.command").verdict, Verdict::AsPlanned);
}
