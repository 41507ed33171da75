//! `nic-placement verify` beside real programs: the kernel tells which process has connected queue pairs on which NIC.

use crate::nodes::Nodes;
use crate::{Case, Command, cases};
use nic_placement_traffic::report::NodeReport;
use nic_placement_traffic::verify::{By, TaskVerdict, Verdict};

// GPU 0 is beside mlx5_1; mlx5_2 is the other socket's, and mlx5_4 is left out
pub const COMMANDS: &[Command] = &[
    (
        "verify.ucx",
        "TIMES=9999 /guest/look.sh queue-pairs srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pair.sh 1024",
    ),
    (
        "verify.bare",
        "TIMES=9999 /guest/look.sh queue-pairs srun -N2 -n2 --gpus-per-task=1 /guest/pair.sh 1024",
    ),
    (
        "verify.openmpi",
        "OMPI_MCA_pml=ucx /guest/look.sh queue-pairs srun --mpi=pmix -N2 -n2 --gpus-per-task=1 --nic-placement \
         /guest/pingpong.openmpi 1024 99999",
    ),
    (
        "verify.mpich",
        "/guest/look.sh queue-pairs srun --mpi=pmi2 -N2 -n2 --gpus-per-task=1 --nic-placement \
         /guest/pingpong.mpich 1024 99999",
    ),
    (
        "verify.libfabric",
        "FI_UNIVERSE_SIZE=16 OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi FI_PROVIDER=verbs /guest/look.sh queue-pairs \
         srun --mpi=pmix -N2 -n2 --gpus-per-task=1 --nic-placement=env=default+libfabric \
         /guest/pingpong.openmpi 1024 99999",
    ),
    (
        "verify.far",
        "/guest/look.sh queue-pairs srun -n1 -w n0 --gpus-per-task=1 --nic-placement /guest/holder mlx5_2 1",
    ),
    (
        "verify.left-out",
        "/guest/look.sh queue-pairs srun -n1 -w n0 --gpus-per-task=1 --gres=nic:1 --nic-placement \
         /guest/holder mlx5_4 1",
    ),
    (
        "verify.many",
        "/guest/look.sh '\"count\":1000' srun -n1 -w n0 --gpus-per-task=1 --nic-placement /guest/holder mlx5_1 500",
    ),
    (
        "verify.none",
        "/guest/look.sh '\"mlx5_3\"],\"verdict\":\"no-nic\"' srun -n1 -w n0 --gpus-per-task=1 --nic-placement /guest/holder mlx5_1 0",
    ),
    (
        "verify.thread",
        "/guest/look.sh queue-pairs srun -n1 -w n0 --gpus-per-task=1 --nic-placement /guest/holder mlx5_1 1 thread",
    ),
    (
        "verify.namespace",
        "/guest/look.sh queue-pairs srun -n1 -w n0 --gpus-per-task=1 --nic-placement \
         unshare -p -f /guest/holder mlx5_1 1",
    ),
    (
        "verify.ends",
        "SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_STEP_GPUS=0 /guest/holder mlx5_1 1 > /dev/null & holder=$!; \
         (sleep 4; kill $holder) & /guest/nic-placement verify --json --watch 60 --pid $holder; \
         ! kill $holder 2> /dev/null",
    ),
    (
        "verify.user",
        "FIRST='/usr/bin/setpriv --reuid=1000 --clear-groups' /guest/look.sh queue-pairs \
         /usr/bin/setpriv --reuid=1000 --clear-groups env SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_STEP_GPUS=0 /guest/holder mlx5_1 1",
    ),
    (
        "verify.other-user",
        "FIRST='/usr/bin/setpriv --reuid=1001 --clear-groups' /guest/look.sh hidden \
         /usr/bin/setpriv --reuid=1000 --clear-groups env SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_STEP_GPUS=0 /guest/holder mlx5_1 1",
    ),
    (
        "verify.command",
        "srun -n1 -w n0 --gpus-per-task=1 --nic-placement /guest/nic-placement verify --json -- \
         sh -c '/guest/holder mlx5_1 1 & sleep 4; kill $!; exit 7'; [ $? = 7 ]",
    ),
];

pub const CASES: &[Case] = cases![
    placed_tasks_of_every_library_are_seen_to_use_the_nic_that_they_were_given,
    without_the_plugin_the_nic_that_is_not_the_gpu_s_is_named,
    a_far_nic_and_one_that_is_left_out_are_named_whatever_the_plan_was,
    a_program_that_opens_all_nics_and_connects_none_uses_none,
    a_thousand_queue_pairs_are_counted_in_seconds,
    queue_pairs_whose_thread_has_ended_are_their_context_s,
    a_process_in_another_pid_namespace_is_seen_from_outside,
    a_process_that_ends_meanwhile_was_seen,
    a_user_sees_the_own_tasks_and_of_another_s_that_there_are_some,
    a_command_that_is_looked_at_ends_as_it_does_alone,
];

fn reports(nodes: &Nodes, name: &str) -> Vec<NodeReport> {
    let text = nodes.answer(name) + &nodes.said(name);
    let lines = text
        .lines()
        .filter(|line| line.starts_with("{\"format\":\"nic-placement verify\""));
    lines
        .map(|line| NodeReport::read(line.as_bytes()).unwrap())
        .collect()
}

fn task(nodes: &Nodes, name: &str) -> TaskVerdict {
    let reports = reports(nodes, name);
    let all = || format!("{name}: {}\n{}", nodes.answer(name), nodes.said(name));
    let report = reports
        .last()
        .unwrap_or_else(|| panic!("no report: {}", all()));
    assert_eq!(report.tasks.len(), 1, "{}", all());
    report.tasks[0].clone()
}

fn nics(task: &TaskVerdict) -> Vec<&str> {
    task.used.iter().map(|used| used.nic.as_str()).collect()
}

fn placed_tasks_of_every_library_are_seen_to_use_the_nic_that_they_were_given(nodes: &Nodes) {
    for name in [
        "verify.ucx",
        "verify.openmpi",
        "verify.mpich",
        "verify.libfabric",
    ] {
        let task = task(nodes, name);
        assert_eq!(
            (task.verdict, nics(&task)),
            (Verdict::AsPlanned, vec!["mlx5_1:1"]),
            "{name}: {task:?}"
        );
        assert!(
            task.is_placed && task.used[0].by == By::QueuePairs,
            "{name}: {task:?}"
        );
        assert_eq!(
            (task.cpus.far, task.cpus.first_left),
            (0, false),
            "{name}: {task:?}"
        );
        assert!(
            task.memory.near_share().is_some_and(|share| share > 90),
            "{name}: {task:?}"
        );
        assert!(
            nodes.answer(name).contains("status=0"),
            "{name}: {}",
            nodes.answer(name)
        );
    }
}

fn without_the_plugin_the_nic_that_is_not_the_gpu_s_is_named(nodes: &Nodes) {
    let task = task(nodes, "verify.bare");
    assert_eq!(
        (task.is_placed, &*task.planned),
        (false, &["mlx5_1:1".to_string()][..]),
        "{task:?}"
    );
    assert!(nics(&task).contains(&"mlx5_0:1"), "{task:?}");
    assert_eq!(task.verdict, Verdict::NearerExists, "{task:?}");
    assert!(
        nodes.answer("verify.bare").contains("status=1"),
        "{}",
        nodes.answer("verify.bare")
    );
}

fn a_far_nic_and_one_that_is_left_out_are_named_whatever_the_plan_was(nodes: &Nodes) {
    let far = task(nodes, "verify.far");
    assert_eq!(
        (far.verdict, nics(&far)),
        (Verdict::Far, vec!["mlx5_2:1"]),
        "{far:?}"
    );
    assert_eq!(far.used[0].path.as_deref(), Some("SYS"), "{far:?}");
    let left_out = task(nodes, "verify.left-out");
    assert_eq!(
        (left_out.verdict, nics(&left_out)),
        (Verdict::LeftOut, vec!["mlx5_4:1"]),
        "{left_out:?}"
    );
}

fn a_program_that_opens_all_nics_and_connects_none_uses_none(nodes: &Nodes) {
    let task = task(nodes, "verify.none");
    assert_eq!(
        (task.verdict, nics(&task).len(), task.opened.len()),
        (Verdict::NoNic, 0, 4),
        "{task:?}"
    );
    let far = self::task(nodes, "verify.far");
    assert_eq!(far.opened, ["mlx5_0", "mlx5_1", "mlx5_3"], "{far:?}");
}

fn a_thousand_queue_pairs_are_counted_in_seconds(nodes: &Nodes) {
    let task = task(nodes, "verify.many");
    assert_eq!(
        (task.verdict, task.used[0].count),
        (Verdict::AsPlanned, 1000),
        "{task:?}"
    );
    let answer = nodes.answer("verify.many");
    let took = answer
        .split_once("took=")
        .unwrap()
        .1
        .lines()
        .next()
        .unwrap();
    assert!(took.parse::<f64>().unwrap() < 5.0, "{answer}");
}

fn queue_pairs_whose_thread_has_ended_are_their_context_s(nodes: &Nodes) {
    assert_eq!(task(nodes, "verify.thread").verdict, Verdict::AsPlanned);
}

fn a_process_in_another_pid_namespace_is_seen_from_outside(nodes: &Nodes) {
    assert_eq!(task(nodes, "verify.namespace").verdict, Verdict::AsPlanned);
}

fn a_process_that_ends_meanwhile_was_seen(nodes: &Nodes) {
    // verify ended before its minute was over, and after the process
    assert!(
        nodes.succeeded("verify.ends"),
        "{}",
        nodes.said("verify.ends")
    );
    assert_eq!(task(nodes, "verify.ends").verdict, Verdict::AsPlanned);
}

fn a_user_sees_the_own_tasks_and_of_another_s_that_there_are_some(nodes: &Nodes) {
    let own = task(nodes, "verify.user");
    assert_eq!(
        (own.verdict, nics(&own)),
        (Verdict::AsPlanned, vec!["mlx5_1:1"]),
        "{own:?}"
    );
    let reports = reports(nodes, "verify.other-user");
    let last = reports.last().unwrap();
    assert!(
        last.tasks.is_empty() && last.notes[0].contains("1 other user"),
        "{last:?}"
    );
    assert!(nodes.answer("verify.other-user").contains("status=2"));
}

fn a_command_that_is_looked_at_ends_as_it_does_alone(nodes: &Nodes) {
    assert!(
        nodes.succeeded("verify.command"),
        "{}",
        nodes.said("verify.command")
    );
    assert_eq!(task(nodes, "verify.command").verdict, Verdict::AsPlanned);
}
