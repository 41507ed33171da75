//! The admin's configuration file: from observe to rollout to all, and the switch that turns all off.

use super::suite::*;
use std::os::unix::fs::PermissionsExt;

pub const CASES: &[Case] = cases![
    the_file_places_the_steps_of_some_nodes_and_of_some_partitions,
    an_observed_step_is_one_line_of_its_nodes_log,
    a_share_of_the_jobs_is_placed_and_who_asks_always,
    the_switch_holds_for_the_next_step_and_its_user_is_told_once,
    a_switch_for_one_node_is_told_by_that_node,
    what_is_not_understood_places_nobody_there_and_the_nodes_log_names_it,
    a_file_that_others_may_write_places_nobody_and_no_job_fails,
];

pub const OF_CONFIGLESS_NODES: &[Case] =
    cases![where_slurm_sends_the_line_one_scontrol_reconfigure_switches_all_nodes_off_and_on];

/// The step on another node.
fn on_n1() -> String {
    TWO.replace("n0", "n1")
}

/// Writes the file, and lets plugstack.conf name it.
fn conf(bed: &Bed, text: &str, mode: u32) -> PathBuf {
    let file = PathBuf::from(bed.file("placement.conf", text));
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("the file is ours");
    let _ = fs::remove_file(file.with_extension("disabled"));
    bed.plugin(&format!("conf={}", file.display()));
    file
}

/// A step that did not ask is placed, or not.
#[track_caller]
fn assert_step(bed: &Bed, command: &str, is_placed: bool) {
    let tasks = bed.bare(2, command);
    all(&tasks, |task| {
        if is_placed {
            task.is_own()
        } else {
            task.is_untouched()
        }
    });
}

/// One that asked.
#[track_caller]
fn assert_asked(bed: &Bed, words: &str) {
    all(&bed.with(words, 2, TWO), Task::is_own);
}

fn the_file_places_the_steps_of_some_nodes_and_of_some_partitions(bed: &Bed) {
    assert_step(bed, &on_n1(), false);
    conf(bed, "NodeName=n[1-4] default=closest\n", 0o644);
    assert_step(bed, &on_n1(), true);
    assert_step(bed, TWO, false);
    // the node's name in a batch script's environment is another node's
    assert_step(bed, &format!("SLURMD_NODENAME=n0 {}", on_n1()), true);
    conf(bed, "PartitionName=other default=closest\n", 0o644);
    assert_step(bed, TWO, false);
    let lines = "default=off\nPartitionName=other,all default=closest\n";
    conf(bed, lines, 0o644);
    assert_step(bed, TWO, true);
    assert_step(bed, &bed.batch("", "srun $report\n"), true);
    // srun itself says its partition
    assert_step(bed, &format!("SLURM_JOB_PARTITION=none {TWO}"), true);
    all(&bed.with("off", 2, TWO), Task::is_untouched);
}

fn an_observed_step_is_one_line_of_its_nodes_log(bed: &Bed) {
    conf(bed, "default=observe,strict\n", 0o644);
    let ran = bed.run(&TWO.replace('@', "")).ended(0, 2);
    all(&ran.tasks, Task::is_as_slurm_has_it);
    let ran = ran.says(0, "nic-placement: ");
    let mut lines = bed.ours("n0");
    lines.retain(|line| line.contains("nic-placement: observe: step "));
    assert_eq!(lines.len(), 1, "{lines:#?}");
    all(&ran.tasks, |task| {
        let gpu = task.gpu();
        lines[0].contains(&format!("gpu {gpu} {} PIX", ucx_of(gpu)))
    });
    assert_asked(bed, "");
}

fn a_share_of_the_jobs_is_placed_and_who_asks_always(bed: &Bed) {
    conf(bed, "default=closest rollout=0%\n", 0o644);
    assert_step(bed, TWO, false);
    assert_asked(bed, "");
    conf(bed, "default=closest rollout=100%\n", 0o644);
    assert_step(bed, TWO, true);
    conf(bed, "default=closest rollout=50%\n", 0o644);
    for _ in 0..3 {
        let script = "echo $(( (SLURM_JOB_ID * 2654435761 % 4294967296) * 100 / 4294967296 ))\n\
                      srun $report\nsrun $report\n";
        let ran = bed.run(&bed.batch("", script)).ended(0, 4);
        let share = ran.stdout.lines().next().unwrap_or_default();
        let is_placed = share.parse::<u32>().expect("a number") < 50;
        all(&ran.tasks, |task| {
            if is_placed {
                task.is_own()
            } else {
                task.is_untouched()
            }
        });
    }
}

fn the_switch_holds_for_the_next_step_and_its_user_is_told_once(bed: &Bed) {
    let switch = conf(bed, "default=closest\n", 0o644).with_extension("disabled");
    let words = "closest,strict,verbose";
    assert_asked(bed, words);
    fs::write(&switch, "").expect("the switch");
    let ran = bed.ask(words, TWO).ended(0, 2);
    all(&ran.tasks, Task::is_untouched);
    let told = ran.told();
    let is_so =
        told[0].contains("runs without placement") && told[0].contains("placement.disabled");
    assert!(told.len() == 1 && is_so, "{told:?}");
    let silent = bed.run(&TWO.replace('@', "")).ended(0, 2);
    all(&silent.says(0, "nic-placement: ").tasks, Task::is_untouched);
    let batch = bed.batch("--nic-placement", "srun $report 2>&1\n");
    let batch = bed.run(&batch).ended(0, 2);
    all(&batch.tasks, Task::is_untouched);
    let found = batch.stdout.matches("nic-placement: ").count();
    assert_eq!(found, 1, "{}", batch.stdout);
    fs::remove_file(&switch).expect("the switch");
    assert_asked(bed, words);
}

fn where_slurm_sends_the_line_one_scontrol_reconfigure_switches_all_nodes_off_and_on(bed: &Bed) {
    let step = "srun -N2 --ntasks-per-node=1 --gpus-per-node=1 $report";
    // slurmctld has sent the line when the command ends, or soon after
    let send = |arguments: &str, is: fn(&Task) -> bool| {
        bed.plugin(arguments);
        bed.run("scontrol reconfigure");
        let has_come = |_| {
            let tasks = bed.run(step).tasks;
            tasks.len() == 2 && tasks.iter().all(is)
        };
        assert!((0..20).any(has_come), "{arguments}");
    };
    send("default=closest", Task::is_own);
    // the nodes do not read the controller's file
    bed.plugin("default=closest disable");
    all(&bed.tasks(2, step), Task::is_own);
    send("default=closest disable", Task::is_untouched);
    send("default=closest", Task::is_own);
}

fn a_switch_for_one_node_is_told_by_that_node(bed: &Bed) {
    conf(bed, "NodeName=n1 disable=yes\n", 0o644);
    let ran = bed.ask("", &on_n1()).ended(0, 2).says(1, "nic-placement: ");
    all(&ran.tasks, Task::is_untouched);
    assert_asked(bed, "");
}

fn what_is_not_understood_places_nobody_there_and_the_nodes_log_names_it(bed: &Bed) {
    for (text, told) in [
        ("\u{feff}disable\r\n", ""),
        (
            "default=closest\nexclud=mlx5_0\n",
            "placement.conf:2: exclud=mlx5_0`: unknown argument",
        ),
        (
            "NodeName=n[0-1] Disabled = yes\n",
            "placement.conf:1: Disabled`: unknown argument",
        ),
        (
            "NodeName=ALL disable\n",
            "placement.conf:1`: `NodeName=ALL` is no node",
        ),
    ] {
        conf(bed, text, 0o644);
        let ran = bed.ask("closest,strict", &on_n1()).ended(0, 2);
        all(&ran.tasks, Task::is_untouched);
        assert!(bed.log("n1").contains(told), "{told}");
    }
    conf(bed, "default=closest\nNodeName=n1 default=of\n", 0o644);
    all(&bed.with("", 2, &on_n1()), Task::is_untouched);
    assert_step(bed, TWO, true);
}

fn a_file_that_others_may_write_places_nobody_and_no_job_fails(bed: &Bed) {
    conf(bed, "default=closest\n", 0o666);
    let ran = bed.ask("closest,strict", TWO).ended(0, 2);
    all(&ran.says(1, "nic-placement: ").tasks, Task::is_untouched);
    // Slurm writes no task's line there too: once for the step
    let mut lines = bed.ours("n0");
    lines.retain(|line| line.contains("placement.conf` can be written by others"));
    let found = lines.iter().filter(|line| line.contains("error")).count();
    assert_eq!(found, 1, "{lines:#?}");
}
