//! The bindings of a step's tasks, as a table for people.

use crate::guest::Guest;
use crate::guest::task::Task;

/// The command and a line for each of its tasks.
pub fn table(guest: &Guest, name: &str, count: usize) -> String {
    let nodes = if guest.name == "dgx" { 0..3 } else { 0..4 };
    let (_, command) = guest
        .commands()
        .find(|(known, _)| *known == name)
        .expect("it was run");
    let head = "task,GPU,node,listed,STEP_GPUS,opens,CPUs,policy"
        .split(',')
        .map(String::from);
    let pages = nodes.clone().map(|node| format!("pages N{node}"));
    let end = ["UCX_NET_DEVICES", ""].map(String::from);
    let tasks = guest.tasks(name, count);
    let mut rows: Vec<Vec<String>> = vec![head.chain(pages).chain(end).collect()];
    rows.extend(tasks.iter().map(|task| row(guest, nodes.clone(), task)));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let mut text = format!("$ {}\n", command.replace("$task", "./task"));
    for row in &rows {
        let cells = row.iter().enumerate();
        let cells = cells.map(|(column, cell)| format!("{cell:<0$}  ", width(column)));
        text.push_str(&format!("  {}\n", cells.collect::<String>().trim_end()));
    }
    if tasks.iter().all(|task| guest.gpus_of(task).len() == 1) {
        let (far, pages) = (guest.far(&tasks), guest.with_far_pages(&tasks));
        text.push_str(&format!(
            "  of {count} tasks {far} run away, {pages} have pages there\n"
        ));
    }
    text
}

fn row(guest: &Guest, nodes: std::ops::Range<usize>, task: &Task) -> Vec<String> {
    let gpus = guest.gpus_of(task);
    let join = |numbers: Vec<usize>| {
        let words: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        words.join(",")
    };
    let mut near: Vec<usize> = gpus.iter().map(|gpu| guest.gpus[*gpu].numa_node).collect();
    near.dedup();
    let opens_all = task.open().len() == guest.gpus.len();
    let opens = if opens_all { "all" } else { task.word("open") };
    let mut row = vec![
        task.word("SLURM_PROCID").to_string(),
        join(gpus.iter().copied().collect()),
        join(near),
    ];
    row.extend([guest.list_of(task), task.word("SLURM_STEP_GPUS"), opens].map(String::from));
    row.extend(["cpus", "policy"].map(|word| task.word(word).to_string()));
    let pages = task.pages();
    row.extend(nodes.map(|node| {
        pages
            .get(&node)
            .map_or("-".to_string(), ToString::to_string)
    }));
    let runs_far = gpus
        .iter()
        .all(|gpu| task.cpus().is_disjoint(&guest.gpus[*gpu].cpus));
    let end = if runs_far { "<- away from its GPU" } else { "" };
    row.extend([task.word("UCX_NET_DEVICES"), end].map(String::from));
    row
}
