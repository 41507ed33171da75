//! Before a job runs: `nic-placement plan -- srun …` says what the same line does here, and nodes that do not fit together are
//! named, by Slurm's own PMI.

use super::suite::*;
use serde_json::Value;

pub const CASES: &[Case] = cases![
    a_plan_of_a_line_of_srun_is_what_its_tasks_get,
    nodes_that_are_alike_agree_and_say_the_word_that_is_in_each_tasks_marker,
    a_node_that_lost_a_nic_is_named_with_what_to_write_and_the_step_ends_with_4,
    a_node_whose_rails_are_in_another_order_gets_a_line_for_the_admin,
    tasks_that_cannot_talk_to_each_other_say_which_word_srun_needs,
    a_node_that_says_nothing_ends_the_others_after_the_time_that_was_given,
];

/// Options of srun.
const LINES: [&str; 17] = [
    "-n8 -c4 --gpus-per-task=1 --overlap",
    "-n8 -c 14 --gpus-per-task 1 --exclusive",
    "--ntasks=8 --gpus-per-task=1",
    "-n8 --gpus-per-task=1 --exclusive --nic-placement=bind=core",
    "-n4 -c28 --gpus-per-task=2 --exclusive",
    "-n2 -c4 --gpus-per-task=4",
    "-n4 -c4 --gpus-per-task=1 -m block:block",
    "-n8 -c7 --gpus-per-task=1 --nic-placement=bind=numa",
    "-n8 -c4 --gpus-per-task=1 --cpu-bind=none",
    "-n8 -c4 --gpus-per-task=1 --cpu-bind=v,cores --mem-bind=local",
    "-N2 -n16 -c4 --gpus-per-task=1",
    "-N2 --ntasks-per-node=4 -c14 --gpus-per-task=2 --nic-placement=rail",
    "-uJ train -n8 -c14 --gpus-per-node=8 --exclusive --gpu-bind=closest",
    "-n8 -c14 --gres=gpu:8 --exclusive",
    "-n1 -c64 --gpus-per-node=8 --exclusive",
    "-n1 -c64 --gpus-per-node=8",
    "-n1 -c16 --gres=gpu:4",
];

/// Slurm 24.11.5 leaves jobs with `--gpus-per-task` and one thread a core in the queue.
const WITH_A_HINT: [&str; 3] = [
    "-N2 -n16 -c4 --gpus-per-task=1 --hint=nomultithread",
    "-n8 -c4 --gpus-per-task=1 --hint=nomultithread --exclusive",
    "-n4 -c14 --gpus-per-task=2 --threads-per-core=1",
];

fn a_plan_of_a_line_of_srun_is_what_its_tasks_get(bed: &Bed) {
    let hinted = WITH_A_HINT.iter().filter(|_| bed.site.release < (23, 11));
    let mut wrong = Vec::new();
    for options in LINES.iter().chain(hinted) {
        let (nodes, times) = if options.contains("-N2") {
            ("n0,n1", 2)
        } else {
            ("n0", 1)
        };
        let has_word = options.contains("--nic-placement");
        let flag = if has_word { "" } else { "--nic-placement" };
        let line = format!("srun -w {nodes} {options} {flag}");
        let planned = vec![planned(bed, &line); times].concat();
        let ran = bed.run(&format!("{line} $report"));
        let got: Vec<_> = ran.tasks.iter().map(seen).collect();
        if got != planned || ran.code != 0 {
            let said = &ran.stderr;
            wrong.push(format!(
                "{line}\n  planned {planned:?}\n  got     {got:?}\n  {said}"
            ));
        }
        println!("    {options:<72} {:>2} tasks", got.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A task's GPUs, NICs, CPUs, and the NUMA nodes of its memory policy if it is ours.
type Placed = (Vec<usize>, Vec<String>, String, String);

fn planned(bed: &Bed, line: &str) -> Vec<Placed> {
    let release = format!("{}.{:02}", bed.site.release.0, bed.site.release.1);
    let mut plan = Command::new(bed.tool());
    plan.args(["plan", "dgx-h100", "--json", "--slurm", &release, "--"]);
    let output = plan.args(line.split_whitespace()).output();
    let output = output.expect("the tool");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
    let plan: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = |value: &Value| value.as_array().expect("a list").clone().into_iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let of = |task: Value| {
        let gpus = list(&task["gpus"]).map(|gpu| gpu["index"].as_u64().expect("an index") as usize);
        let nics = list(&task["nics"]).map(|nic| format!("{}:{}", text(&nic["name"]), nic["port"]));
        (
            gpus.collect(),
            nics.collect(),
            text(&task["cpus"]),
            text(&task["mems"]),
        )
    };
    list(&plan["tasks"]).map(of).collect()
}

fn seen(task: &Task) -> Placed {
    let ours = task
        .mem()
        .split_once(':')
        .filter(|(mode, _)| mode.starts_with("preferred"));
    let nics = task.ucx().into_iter().map(str::to_string).collect();
    let nodes = ours.map_or("", |(_, nodes)| nodes).to_string();
    (task.gpus(), nics, task.word("cpus").to_string(), nodes)
}

// ---- agree ----

/// A step of the tool with a task for each of these nodes.
fn agree(bed: &Bed, nodes: &str) -> String {
    let step = format!("srun --mpi=pmi2 -w {nodes} --ntasks-per-node=1");
    format!("{step} {} agree", bed.tool())
}

/// The word of the node in a task's marker.
fn word(task: &Task) -> String {
    let marker = task.env("NIC_PLACEMENT").expect("a placed task has it");
    let node = marker
        .split(' ')
        .find_map(|word| word.strip_prefix("node="));
    node.expect("the node's word").to_string()
}

fn nodes_that_are_alike_agree_and_say_the_word_that_is_in_each_tasks_marker(bed: &Bed) {
    let step = "srun -w n0,n1 -N2 --ntasks-per-node=2 --gpus-per-task=1 @ $report";
    let tasks = bed.with("", 4, step);
    let own = word(&tasks[0]);
    all(&tasks, |task| word(task) == own);
    let command = agree(bed, "n0,n1");
    let ran = bed.run(&command).ended(0, 0);
    let is_so = ran.stdout.starts_with(&format!(
        "2 of 2 nodes agree: {own}, GPUs 8 nvidia, rails mlx5_0:1 "
    ));
    let is_so = is_so && ran.stderr.is_empty();
    assert!(is_so, "{}{}", ran.stdout, ran.stderr);
    // another task of a node says the same as the first
    let two_each = command.replace("--ntasks-per-node=1", "--ntasks-per-node=2");
    assert_eq!(bed.run(&two_each).stdout, ran.stdout);
    let lost = srun("-n1 --gpus-per-task=1").replace("n0", LINK_DOWN);
    all(&bed.with("", 1, &lost), |task| word(task) != own);
}

fn a_node_that_lost_a_nic_is_named_with_what_to_write_and_the_step_ends_with_4(bed: &Bed) {
    let command = agree(bed, "n[0-4]");
    let ran = bed.run(&command).ended(4, 0);
    let ran = ran.says(1, "3 of 5 nodes do not fit");
    let said = &ran.stdout;
    assert!(said.starts_with("2 of 5 nodes agree: "), "{said}");
    let block = |node: &str| -> Vec<&str> {
        let lines = said.lines().skip_while(|line| *line != node).skip(1);
        lines.take_while(|line| !line.is_empty()).collect()
    };
    let lost = block(LINK_DOWN);
    let is_named = lost[0].starts_with("    mlx5_4:1 is left out: its port");
    let is_so = is_named && lost[1..] == ["    do   for this job: --exclude=n2"];
    assert!(is_so, "{lost:?}");
    for (node, line) in [
        (NO_RDMA, "    it has 0 rails, theirs are 8"),
        (NO_GPUS, "    GPUs: none, theirs 8 nvidia"),
    ] {
        assert!(block(node).contains(&line), "{said}");
    }
    // a job script goes no further, and what it was told to write helps
    let script = format!("salloc -N5 bash -c '{command} || exit; echo goes on'");
    assert!(!bed.run(&script).stdout.contains("goes on"));
    bed.run(&command.replace("-w n[0-4]", "-N2 --exclude=n[2-4]"))
        .ended(0, 0);
}

fn a_node_whose_rails_are_in_another_order_gets_a_line_for_the_admin(bed: &Bed) {
    let reversed = "mlx5_11,mlx5_10,mlx5_9,mlx5_6,mlx5_5,mlx5_4,mlx5_3,mlx5_0";
    let file = bed.file("agree.conf", &format!("NodeName=n1 rails={reversed}\n"));
    bed.plugin(&format!("conf={file}"));
    let said = bed.run(&agree(bed, "n0,n1")).ended(4, 0).stdout;
    assert!(said.contains("rails are in another order"), "{said}");
    let advice = "    do   in /etc/nic-placement.conf: ";
    let line = said.lines().find_map(|line| line.strip_prefix(advice));
    bed.file("agree.conf", &format!("{}\n", line.expect("what to write")));
    bed.run(&agree(bed, "n0,n1")).ended(0, 0);
}

fn tasks_that_cannot_talk_to_each_other_say_which_word_srun_needs(bed: &Bed) {
    let ran = bed
        .run(&agree(bed, "n0,n1").replace("--mpi=pmi2", "--mpi=none"))
        .ended(1, 0);
    let is_so = ran.stdout.is_empty() && ran.stderr.contains("`srun --mpi=pmi2`");
    assert!(is_so, "{}", ran.stderr);
}

fn a_node_that_says_nothing_ends_the_others_after_the_time_that_was_given(bed: &Bed) {
    // not with --kill-on-bad-exit, by which srun may drop what the first task said last
    let silent = format!(
        "srun --mpi=pmi2 -w n0,n1 --ntasks-per-node=1 bash -c \
         'test $SLURM_PROCID = 1 && exec sleep 5; exec {} agree --within 1'",
        bed.tool()
    );
    let ran = bed.run(&silent).ended(1, 0);
    let is_so = ran.stderr.contains("a node has said nothing");
    assert!(is_so, "{}", ran.stderr);
    assert!(ran.took.as_secs() < 20, "{:?}", ran.took);
}
