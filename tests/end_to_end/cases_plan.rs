//! `nic-placement plan -- srun …` says what the same line does here.

use crate::harness::{Bed, Case, cases};
use crate::report::Task;
use std::process::Command;

pub const CASES: &[Case] = cases![a_plan_of_a_line_of_srun_is_what_its_tasks_get];

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
        let nodes = if options.contains("-N2") {
            "n0,n1"
        } else {
            "n0"
        };
        let flag = if options.contains("--nic-placement") {
            ""
        } else {
            "--nic-placement"
        };
        let line = format!("srun -w {nodes} {options} {flag}");
        let planned = planned(bed, &line);
        let ran = bed.run(&format!("{line} $report"));
        let got: Vec<_> = ran.tasks.iter().map(seen).collect();
        let each_node: Vec<_> = (0..nodes.split(',').count())
            .flat_map(|_| planned.clone())
            .collect();
        if got != each_node || ran.code != 0 {
            wrong.push(format!(
                "{line}\n  planned {each_node:?}\n  got     {got:?}\n  {}",
                ran.stderr
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
    let mut plan = Command::new(bed.site.plugin.with_file_name("nic-placement"));
    plan.args(["plan", "dgx-h100", "--json", "--slurm", &release, "--"]);
    let output = plan
        .args(line.split_whitespace())
        .output()
        .expect("`nic-placement plan`");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}: {said}");
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let tasks = plan["tasks"].as_array().expect("tasks").iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_string();
    let of = |task: &serde_json::Value| {
        let gpus = task["gpus"].as_array().expect("GPUs").iter();
        let nics = task["nics"].as_array().expect("NICs").iter();
        (
            gpus.map(|gpu| gpu["index"].as_u64().expect("an index") as usize)
                .collect(),
            nics.map(|nic| format!("{}:{}", text(&nic["name"]), nic["port"]))
                .collect(),
            text(&task["cpus"]),
            text(&task["mems"]),
        )
    };
    tasks.map(of).collect()
}

fn seen(task: &Task) -> Placed {
    let ours = task
        .mem()
        .strip_prefix("preferred-many:")
        .or(task.mem().strip_prefix("preferred:"));
    let nics = task.ucx().into_iter().map(str::to_string).collect();
    (
        task.gpus(),
        nics,
        task.cpu_list().to_string(),
        ours.unwrap_or_default().to_string(),
    )
}
