//! The admin's configuration file: from observe to rollout to all, and the switch that turns all off.

use crate::harness::{Bed, Case, cases};
use crate::machines::ucx_of;
use crate::report::Task;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

pub const CASES: &[Case] = cases![
    the_file_places_the_steps_of_some_nodes_and_of_some_partitions,
    an_observed_step_is_one_line_of_its_nodes_log,
    a_share_of_the_jobs_is_placed_and_who_asks_always,
    the_switch_holds_for_the_next_step_and_its_user_is_told_once,
    a_switch_for_one_node_is_told_by_that_node,
    what_is_not_understood_places_nobody_there_and_the_nodes_log_names_it,
    a_file_that_others_may_write_places_nobody_and_no_job_fails,
];

pub const CASES_OF_CONFIGLESS_NODES: &[Case] =
    cases![where_slurm_sends_the_line_one_scontrol_reconfigure_switches_all_nodes_off_and_on];

/// A command with the option in place of `@`.
fn on(node: &str, option: &str) -> String {
    format!("srun -w {node} -n2 --gpus-per-task=1 {option} $report")
}

/// Writes the file, and lets plugstack.conf name it.
fn conf(bed: &Bed, text: &str) -> PathBuf {
    let file = bed.file("placement.conf", text);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("the file is ours");
    let _ = fs::remove_file(file.with_extension("disabled"));
    bed.plugin(&format!("conf={}", file.display()));
    file
}

fn placed(tasks: &[Task]) -> bool {
    tasks
        .iter()
        .all(|task| task.ucx() == [ucx_of(task.gpus()[0])])
}

fn untouched(tasks: &[Task]) -> bool {
    tasks.iter().all(Task::is_untouched)
}

/// What the user was told by us.
fn told(stderr: &str) -> Vec<&str> {
    stderr
        .lines()
        .filter(|line| line.contains("nic-placement: "))
        .collect()
}

fn the_file_places_the_steps_of_some_nodes_and_of_some_partitions(bed: &Bed) {
    assert!(untouched(&bed.tasks(2, &on("n1", ""))), "without the file");
    conf(bed, "NodeName=n[1-4] default=closest\n");
    assert!(placed(&bed.tasks(2, &on("n1", ""))));
    assert!(untouched(&bed.tasks(2, &on("n0", ""))));
    // the node's name in a batch script's environment is another node's
    let inside = bed.tasks(2, &format!("SLURMD_NODENAME=n0 {}", on("n1", "")));
    assert!(placed(&inside));
    conf(bed, "PartitionName=other default=closest\n");
    assert!(untouched(&bed.tasks(2, &on("n0", ""))));
    conf(
        bed,
        "default=off\nPartitionName=other,all default=closest\n",
    );
    assert!(placed(&bed.tasks(2, &on("n0", ""))));
    assert!(
        placed(&bed.tasks(2, &bed.batch("", "srun $report\n"))),
        "in a batch job"
    );
    let named = bed.tasks(2, &format!("SLURM_JOB_PARTITION=none {}", on("n0", "")));
    assert!(placed(&named), "srun itself says which partition it is");
    assert!(untouched(&bed.tasks(2, &on("n0", "--nic-placement=off"))));
}

fn an_observed_step_is_one_line_of_its_nodes_log(bed: &Bed) {
    conf(bed, "default=observe,strict\n");
    let ran = bed.run(&on("n0", ""));
    assert_eq!(
        (ran.code, ran.tasks.len(), told(&ran.stderr)),
        (0, 2, vec![])
    );
    assert!(untouched(&ran.tasks) && ran.tasks.iter().all(|task| task.mem() == "default"));
    let log = bed.log("n0");
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("nic-placement: observe: step "))
        .collect();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let [first, second] = [0, 1].map(|task| ran.tasks[task].gpus()[0]);
    for gpu in [first, second] {
        let pair = format!("gpu {gpu} {} PIX", ucx_of(gpu));
        assert!(lines[0].contains(&pair), "no `{pair}` in: {}", lines[0]);
    }
    assert!(
        placed(&bed.tasks(2, &on("n0", "--nic-placement"))),
        "who asks is placed"
    );
}

fn a_share_of_the_jobs_is_placed_and_who_asks_always(bed: &Bed) {
    conf(bed, "default=closest rollout=0%\n");
    assert!(untouched(&bed.tasks(2, &on("n0", ""))));
    assert!(placed(&bed.tasks(2, &on("n0", "--nic-placement"))));
    conf(bed, "default=closest rollout=100%\n");
    assert!(placed(&bed.tasks(2, &on("n0", ""))));
    conf(bed, "default=closest rollout=50%\n");
    for _ in 0..3 {
        let script = "echo $(( (SLURM_JOB_ID * 2654435761 % 4294967296) * 100 / 4294967296 ))\n\
                      srun $report\nsrun $report\n";
        let ran = bed.run(&bed.batch("", script));
        let share: u32 = ran
            .stdout
            .lines()
            .next()
            .and_then(|line| line.parse().ok())
            .expect("a number");
        assert_eq!((ran.code, ran.tasks.len()), (0, 4));
        let as_wanted = if share < 50 {
            placed(&ran.tasks)
        } else {
            untouched(&ran.tasks)
        };
        assert!(as_wanted, "both steps of a job at {share} of a hundred");
    }
}

fn the_switch_holds_for_the_next_step_and_its_user_is_told_once(bed: &Bed) {
    let switch = conf(bed, "default=closest\n").with_extension("disabled");
    let ask = "--nic-placement=closest,strict,verbose";
    assert!(placed(&bed.tasks(2, &on("n0", ask))));
    fs::write(&switch, "").expect("the switch");
    let ran = bed.run(&on("n0", ask));
    assert_eq!(
        (ran.code, untouched(&ran.tasks), ran.tasks.len()),
        (0, true, 2)
    );
    let lines = told(&ran.stderr);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("runs without placement") && lines[0].contains("placement.disabled"),
        "{lines:?}"
    );
    let silent = bed.run(&on("n0", ""));
    assert_eq!(
        (silent.code, untouched(&silent.tasks), told(&silent.stderr)),
        (0, true, vec![])
    );
    let batch = bed.run(&bed.batch("--nic-placement", "srun $report 2>&1\n"));
    assert_eq!(
        (
            batch.code,
            untouched(&batch.tasks),
            told(&batch.stdout).len()
        ),
        (0, true, 1)
    );
    fs::remove_file(&switch).expect("the switch");
    assert!(placed(&bed.tasks(2, &on("n0", ask))), "the next step");
}

fn where_slurm_sends_the_line_one_scontrol_reconfigure_switches_all_nodes_off_and_on(bed: &Bed) {
    let step = "srun -N2 --ntasks-per-node=1 --gpus-per-node=1 $report";
    // slurmctld has sent the line when the command ends, or soon after
    let send = |arguments: &str, has_come: fn(&[Task]) -> bool| {
        bed.plugin(arguments);
        bed.run("scontrol reconfigure");
        let has_come = |_| {
            let tasks = bed.run(step).tasks;
            tasks.len() == 2 && has_come(&tasks)
        };
        assert!((0..20).any(has_come), "`{arguments}` has not come");
    };
    send("default=closest", placed);
    bed.plugin("default=closest disable");
    assert!(
        placed(&bed.tasks(2, step)),
        "the nodes do not read the controller's file"
    );
    send("default=closest disable", untouched);
    send("default=closest", placed);
}

fn a_switch_for_one_node_is_told_by_that_node(bed: &Bed) {
    conf(bed, "NodeName=n1 disable=yes\n");
    let ran = bed.run(&on("n1", "--nic-placement"));
    assert_eq!((ran.code, untouched(&ran.tasks)), (0, true));
    assert_eq!(told(&ran.stderr).len(), 1, "{}", ran.stderr);
    assert!(placed(&bed.tasks(2, &on("n0", "--nic-placement"))));
}

fn what_is_not_understood_places_nobody_there_and_the_nodes_log_names_it(bed: &Bed) {
    for (text, told) in [
        ("\u{feff}disable\r\n", None),
        (
            "default=closest\nexclud=mlx5_0\n",
            Some("placement.conf:2: exclud=mlx5_0`: unknown argument"),
        ),
        (
            "NodeName=n[0-1] Disabled = yes\n",
            Some("placement.conf:1: Disabled`: unknown argument"),
        ),
        (
            "NodeName=ALL disable\n",
            Some("placement.conf:1`: `NodeName=ALL` is no node's name"),
        ),
    ] {
        conf(bed, text);
        let ran = bed.run(&on("n1", "--nic-placement=closest,strict"));
        assert_eq!(
            (ran.code, ran.tasks.len(), untouched(&ran.tasks)),
            (0, 2, true),
            "{text}"
        );
        let log = bed.log("n1");
        assert!(
            told.is_none_or(|told| log.contains(told)),
            "no `{told:?}` in: {log}"
        );
    }
    conf(bed, "default=closest\nNodeName=n1 default=of\n");
    assert!(untouched(&bed.tasks(2, &on("n1", "--nic-placement"))));
    assert!(placed(&bed.tasks(2, &on("n0", ""))), "another node's line");
}

fn a_file_that_others_may_write_places_nobody_and_no_job_fails(bed: &Bed) {
    let file = conf(bed, "default=closest\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("the file is ours");
    let ran = bed.run(&on("n0", "--nic-placement=closest,strict"));
    assert_eq!(
        (ran.code, ran.tasks.len(), untouched(&ran.tasks)),
        (0, 2, true)
    );
    assert_eq!(told(&ran.stderr).len(), 1, "{}", ran.stderr);
    let log = bed.log("n0");
    let lines = log
        .lines()
        .filter(|line| line.contains("placement.conf` can be written by others than root"));
    // Slurm writes no task's line there too: once for the step
    assert_eq!(
        lines.filter(|line| line.contains("error")).count(),
        1,
        "{log}"
    );
}
