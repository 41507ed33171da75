//! What a step's tasks were bound to, as a table for people.

use crate::machine::Machine;
use crate::report::Task;

/// The command and a line for each of its tasks.
pub fn table(machine: &Machine, name: &str, count: usize) -> String {
    let nodes: Vec<u32> = if machine.name == "dgx" {
        (0..3).collect()
    } else {
        (0..4).collect()
    };
    let command = machine.command(name).replace("$task", "./task");
    let mut head = vec![
        "task",
        "GPU",
        "node",
        "listed",
        "STEP_GPUS",
        "opens",
        "CPUs",
        "policy",
    ];
    let pages: Vec<String> = nodes.iter().map(|node| format!("pages N{node}")).collect();
    head.extend(pages.iter().map(String::as_str));
    head.extend(["UCX_NET_DEVICES", ""]);
    let tasks = machine.tasks(name, count);
    let mut rows = vec![head.into_iter().map(String::from).collect::<Vec<_>>()];
    rows.extend(tasks.iter().map(|task| row(machine, &nodes, task)));
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let mut text = format!("$ {command}\n");
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(&format!("  {}\n", cells.join("  ").trim_end()));
    }
    if tasks.iter().all(|task| machine.gpus_of(task).len() == 1) {
        let (far, pages) = (machine.far(&tasks), machine.with_far_pages(&tasks));
        text.push_str(&format!(
            "  {far} of {count} tasks run away from their GPU, {pages} have pages there\n"
        ));
    }
    text
}

fn row(machine: &Machine, nodes: &[u32], task: &Task) -> Vec<String> {
    let gpus = machine.gpus_of(task);
    let join = |words: Vec<String>| words.join(",");
    let mut near: Vec<u32> = gpus
        .iter()
        .map(|&gpu| machine.gpus[gpu].numa_node)
        .collect();
    near.dedup();
    let mut row = vec![
        task.word("SLURM_PROCID").to_string(),
        join(gpus.iter().map(ToString::to_string).collect()),
        join(near.iter().map(ToString::to_string).collect()),
        machine.list_of(task).to_string(),
        task.word("SLURM_STEP_GPUS").to_string(),
        if task.open().len() < machine.gpus.len() {
            task.word("open").to_string()
        } else {
            "all".to_string()
        },
        task.word("cpus").to_string(),
        task.word("policy").to_string(),
    ];
    let pages = task.pages();
    row.extend(
        nodes
            .iter()
            .map(|node| pages.get(node).map_or("-".to_string(), ToString::to_string)),
    );
    row.push(task.word("UCX_NET_DEVICES").to_string());
    let runs_far = gpus
        .iter()
        .all(|&gpu| !task.cpus().intersects(&machine.gpus[gpu].cpus));
    row.push(if runs_far { "<- away from its GPU" } else { "" }.to_string());
    row
}
