//! What was seen, for people and for Prometheus.
#![forbid(unsafe_code)]

use crate::commands::page::{Page, Style, Table, Text, list};
use nic_placement_core::diagnostic::counted;
use nic_placement_traffic::exposition::Metric;
use nic_placement_traffic::verify::{By, NodeVerdicts, TaskVerdict, UsedNic, Verdict};
use std::collections::BTreeMap;

/// Kinds of threads of a task that are told, processes, and NICs.
const LISTED: usize = 6;

pub(super) fn tables(report: &NodeVerdicts, page: &mut Page) {
    if report.tasks.is_empty() {
        page.line("no task that this user may see");
    } else {
        let mut table = Table::headed([
            "task",
            "GPUs",
            "planned",
            "used",
            "threads",
            "near memory",
            "verdict",
        ]);
        for task in &report.tasks {
            table.row(row(task));
        }
        page.table(&table);
    }
    // what holds for all tasks is said once
    let is_said = |why: &&String| report.notes.contains(why);
    let of_tasks = report
        .tasks
        .iter()
        .flat_map(|task| remarks(task, task.why.as_ref().filter(|why| !is_said(why))));
    page.notes(of_tasks.chain(report.notes.iter().cloned()));
}

fn row(task: &TaskVerdict) -> [Text; 7] {
    let threads = match task.cpus.far {
        0 => task.cpus.threads.to_string(),
        far => format!("{}, {far} far", task.cpus.threads),
    };
    let memory = task
        .memory
        .near_share()
        .map_or("-".to_string(), |share| format!("{share} %"));
    let style = if task.verdict.is_bad() {
        Style::Wrong
    } else {
        Style::Plain
    };
    [
        Text::from(label(task)).unbroken(),
        list(&task.gpus),
        list(&task.planned),
        Text::joined(task.used.iter().map(used), ", ").or("-"),
        Text::from(threads).unbroken(),
        Text::from(memory).unbroken(),
        Text::styled(task.verdict.words().0, style).unbroken(),
    ]
}

fn used(nic: &UsedNic) -> Text {
    let path = nic
        .path
        .as_deref()
        .map(|path| format!(" {path}"))
        .unwrap_or_default();
    let how = match nic.by {
        By::QueuePairs => "",
        By::Datagrams => " (datagrams)",
        By::Memory => " (memory)",
    };
    Text::from(format!("{}{path}{how}", nic.nic)).unbroken()
}

fn label(task: &TaskVerdict) -> String {
    let process = || {
        task.processes
            .first()
            .map_or("process".to_string(), |pid| format!("process {pid}"))
    };
    task.numbers().label().unwrap_or_else(process)
}

fn remarks(task: &TaskVerdict, why: Option<&String>) -> Vec<String> {
    let name = label(task);
    let mut remarks = Vec::new();
    remarks.extend(why.map(|why| format!("{name}: {why}")));
    let bound =
        |set: &String| format!("{name}: bound to CPUs {set}; its first thread has left them");
    remarks.extend(
        task.cpus
            .set
            .as_ref()
            .filter(|_| task.cpus.first_left)
            .map(bound),
    );
    for other in task.cpus.others.iter().take(LISTED) {
        let whose = other
            .made_by
            .as_ref()
            .map(|library| format!(" ({library})"))
            .unwrap_or_default();
        remarks.push(format!(
            "{name}: {} `{}`{whose} on CPUs {}: {}",
            counted(other.count, "thread"),
            other.name,
            other.cpus,
            other.how.word(),
        ));
    }
    if task.cpus.others.len() > LISTED {
        remarks.push(format!(
            "{name}: {} more kinds of threads",
            task.cpus.others.len() - LISTED
        ));
    }
    if !task.opened.is_empty() {
        let shown = &task.opened[..task.opened.len().min(LISTED)];
        let more = match task.opened.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        remarks.push(format!(
            "{name}: has open, and does not use: {}{more}",
            shown.join(", ")
        ));
    }
    if !task.changed.is_empty() {
        let changed = task.changed.join(", ");
        remarks.push(format!(
            "{name}: had another value than it was given, when its program started: {changed}"
        ));
    }
    remarks
}

/// Numbers of tasks by job and verdict.
fn jobs(tasks: &[TaskVerdict]) -> BTreeMap<Option<u64>, BTreeMap<Verdict, usize>> {
    let mut jobs: BTreeMap<Option<u64>, BTreeMap<Verdict, usize>> = BTreeMap::new();
    for task in tasks {
        *jobs
            .entry(task.job)
            .or_default()
            .entry(task.verdict)
            .or_default() += 1;
    }
    jobs
}

/// A line for each job, such as `job 1234: 8 tasks: 7 as planned, 1 far (1234.0 task 3: mlx5_5:1)`.
pub(super) fn brief(report: &NodeVerdicts, page: &mut Page) {
    for job in jobs(&report.tasks).into_keys() {
        let of_job = report.tasks.iter().filter(|task| task.job == job);
        let name = job.map_or("no job".to_string(), |job| format!("job {job}"));
        page.line(format!("{name}: {}", summary(&Vec::from_iter(of_job))));
    }
    page.notes(&report.notes);
}

/// Tasks by verdict, and which ones are not as planned.
pub(in crate::commands) fn summary(tasks: &[&TaskVerdict]) -> String {
    let counts = Verdict::ALL.into_iter().filter_map(|verdict| {
        let count = tasks.iter().filter(|task| task.verdict == verdict).count();
        (count > 0).then(|| format!("{count} {}", verdict.words().0))
    });
    let bad = tasks
        .iter()
        .filter(|task| task.is_bad())
        .take(LISTED)
        .map(|task| {
            let used: Vec<&str> = task.used.iter().map(|used| used.nic.as_str()).collect();
            let left = if task.cpus.first_left {
                ", not on its CPUs"
            } else {
                ""
            };
            format!(
                "{}: {}{left}",
                label(task),
                if used.is_empty() {
                    "no NIC".to_string()
                } else {
                    used.join(" ")
                }
            )
        });
    let bad = bad.collect::<Vec<_>>().join("; ");
    let counts = counts.collect::<Vec<_>>().join(", ");
    let named = if bad.is_empty() {
        bad
    } else {
        format!(" ({bad})")
    };
    format!("{}: {counts}{named}", counted(tasks.len(), "task"))
}

pub(in crate::commands) fn metric(report: &NodeVerdicts) -> Metric {
    let mut samples = Vec::new();
    for (job, verdicts) in jobs(&report.tasks) {
        let job = job.map(|job| job.to_string()).unwrap_or_default();
        for (verdict, count) in verdicts {
            // not `job`: that label is the scrape's own, and Prometheus renames ours to `exported_job`
            let labels = vec![
                ("jobid", job.clone()),
                ("verdict", verdict.words().1.to_string()),
            ];
            samples.push((labels, count as u64));
        }
    }
    Metric::gauge(
        "nic_placement_tasks",
        "Tasks on this node by job, and by what they use against their plan.",
        samples,
    )
}
