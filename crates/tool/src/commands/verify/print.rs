//! Reports for people, and the metric for Prometheus.

use crate::commands::grouped;
use crate::commands::page::{Page, Table, Text, list};
use nic_placement_core::diagnostic::counted;
use nic_placement_traffic::bytes::{Figure, NicTraffic, Origin, Shares, Traffic, shown};
use nic_placement_traffic::exposition::Metric;
use nic_placement_traffic::report::NodeReport;
use nic_placement_traffic::resources::By;
use nic_placement_traffic::verify::{TaskVerdict, UsedNic, Verdict};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

const NAMED: usize = 32;

pub(super) fn report(report: &NodeReport, page: &mut Page) {
    if let Some(traffic) = &report.traffic {
        let ended = report
            .status
            .map(|status| format!(", CMD ended with {status}"));
        page.line(format!(
            "node {}: {:.1} s{}",
            report.node,
            traffic.seconds,
            ended.unwrap_or_default()
        ));
        page.table(&bytes_table(traffic));
        shares(&traffic.shares, traffic.plan, page);
        page.blank();
    }
    if report.tasks.is_empty() {
        page.line("no task that this user may see");
    } else {
        let headings = "task/GPUs/planned/used/threads/near memory/verdict";
        let mut table = Table::headed(headings.split('/'));
        report.tasks.iter().for_each(|task| table.row(row(task)));
        page.table(&table);
    }
    // each remark once, with the tasks of which it is true
    let of_task = |task: &TaskVerdict| {
        let said = |why: &&String| !report.notes.contains(why);
        let why = task.why.iter().filter(said).cloned();
        let all = why.chain(remarks(task));
        all.map(|remark| (remark, label(task))).collect::<Vec<_>>()
    };
    let of_tasks = grouped(report.tasks.iter().flat_map(of_task)).into_iter();
    let of_tasks = of_tasks.map(|(remark, of)| format!("{}: {remark}", first_of(&of, 3)));
    page.notes(of_tasks.chain(report.notes.iter().cloned()));
}

fn bytes_table(traffic: &Traffic) -> Table {
    let total = traffic.shares.rdma();
    let headings = "NIC/sent/sent per s/share/received/TCP sent/planned for";
    let mut table = Table::headed(headings.split('/'));
    let mut nics: Vec<&NicTraffic> = traffic.nics.iter().collect();
    // the busiest first
    nics.sort_by_key(|nic| Reverse((nic.sent(), nic.rdma.is_some())));
    for nic in nics {
        // bytes below 2^53 are exact
        let per_second = |bytes: u64| shown((bytes as f64 / traffic.seconds.max(0.001)) as u64);
        let planned_for = nic.planned_for.as_deref().unwrap_or_default();
        let (sent, received) = match nic.rdma {
            Some(Figure::Bytes { sent, received }) => (Some(sent), Some(received)),
            _ => (None, None),
        };
        table.row([
            Text::from(&nic.name),
            figure(nic.rdma),
            cell(sent.map(per_second)),
            cell(sent.map(|sent| share(sent, total))),
            cell(received.map(shown)),
            figure(nic.tcp),
            Text::from(first_of(planned_for, 4)).or("-"),
        ]);
    }
    table
}

fn cell(known: Option<String>) -> Text {
    Text::from(known.unwrap_or("-".to_string())).unbroken()
}

/// Bytes that were sent, or why they are not known.
fn figure(of: Option<Figure>) -> Text {
    cell(of.map(|of| match of {
        Figure::Bytes { sent, .. } => shown(sent),
        Figure::Missing(why) => why.words().to_string(),
    }))
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

fn shares(shares: &Shares, plan: Origin, page: &mut Page) {
    let whose = match plan {
        Origin::Tasks => "the tasks",
        Origin::Node => "the node's GPUs",
    };
    let told = |bytes| format!("{} ({})", share(bytes, shares.rdma()), shown(bytes));
    page.line(match shares.rdma() {
        0 => "by RDMA nothing left, as far as it is counted".to_string(),
        _ => format!(
            "by the NICs of {whose}: {}; by other NICs: {}",
            told(shares.planned),
            told(shares.others)
        ),
    });
    page.line(format!("by TCP: {}", shown(shares.tcp)));
    named("idle NICs of the plan", &shares.idle, page);
}

/// A line with names, if there are any.
fn named(word: &str, names: &[String], page: &mut Page) {
    if !names.is_empty() {
        page.line(format!("{word}: {}", first_of(names, NAMED)));
    }
}

/// `a, b and 3 more`: at most so many names.
fn first_of(names: &[String], most: usize) -> String {
    match names.split_at_checked(most) {
        None | Some((_, [])) => names.join(", "),
        Some((first, more)) => format!("{} and {} more", first.join(", "), more.len()),
    }
}

/// The sums by the names of NICs: a rail has one name on all nodes.
pub(super) fn merged(
    reports: &BTreeMap<String, NodeReport>,
    twice: &BTreeSet<String>,
    page: &mut Page,
) {
    let mut tasks: BTreeMap<Verdict, usize> = BTreeMap::new();
    let mut notes: BTreeMap<&str, usize> = BTreeMap::new();
    let mut nics: BTreeMap<&str, Vec<&NicTraffic>> = BTreeMap::new();
    let (mut all, mut idle, mut by_tasks, mut seconds) = ([0u64; 3], Vec::new(), 0, 0f64);
    for (node, report) in reports {
        for task in &report.tasks {
            *tasks.entry(task.verdict).or_default() += 1;
        }
        for note in &report.notes {
            *notes.entry(note).or_default() += 1;
        }
        if let Some(traffic) = &report.traffic {
            by_tasks += usize::from(traffic.plan == Origin::Tasks);
            seconds = seconds.max(traffic.seconds);
            let of = &traffic.shares;
            let sums = all.iter_mut().zip([of.planned, of.others, of.tcp]);
            sums.for_each(|(sum, more)| *sum = sum.saturating_add(more));
            idle.extend(of.idle.iter().map(|nic| format!("{node}/{nic}")));
            let of_rdma = traffic.nics.iter().filter(|nic| nic.rdma.is_some());
            of_rdma.for_each(|nic| nics.entry(&nic.name).or_default().push(nic));
        }
    }
    let [planned, others, tcp] = all;
    let all = Shares {
        planned,
        others,
        tcp,
        idle,
    };
    page.line(format!(
        "{}, {by_tasks} of them by the plan of their tasks; the longest took {seconds:.1} s",
        counted(reports.len(), "node")
    ));
    if seconds > 0.0 {
        let headings = "NIC/in the plan/counted/sent/share/least/most";
        let mut table = Table::headed(headings.split('/'));
        for (name, on) in nics {
            let sent = on.iter().filter_map(|nic| nic.rdma.and_then(Figure::sent));
            let sent: Vec<u64> = sent.collect();
            let total = sent.iter().copied().reduce(u64::saturating_add);
            let planned = on.iter().filter(|nic| nic.planned_for.is_some()).count();
            table.row([
                Text::from(name),
                cell(Some(counted(planned, "node"))),
                cell(Some(counted(sent.len(), "node"))),
                cell(total.map(shown)),
                cell(total.map(|total| share(total, all.rdma()))),
                cell(sent.iter().copied().min().map(shown)),
                cell(sent.iter().copied().max().map(shown)),
            ]);
        }
        page.table(&table);
        let plan = match by_tasks {
            0 => Origin::Node,
            _ => Origin::Tasks,
        };
        shares(&all, plan, page);
    }
    if !tasks.is_empty() {
        let tasks = tasks.iter();
        let counts = tasks.map(|(verdict, count)| format!("{count} {}", verdict.words().0));
        page.line(format!("tasks: {}", counts.collect::<Vec<_>>().join(", ")));
    }
    let failed = reports.iter().filter(|(_, of)| of.status.unwrap_or(0) != 0);
    let failed: Vec<String> = failed.map(|(node, _)| node.clone()).collect();
    named("CMD failed on", &failed, page);
    let twice: Vec<String> = twice.iter().cloned().collect();
    let word = "reported more than once, the first report counts";
    named(word, &twice, page);
    let notes = notes.into_iter().take(NAMED);
    page.notes(notes.map(|(note, count)| format!("{note} ({})", counted(count, "node"))));
}

fn row(task: &TaskVerdict) -> [Text; 7] {
    let far = match task.cpus.far {
        0 => String::new(),
        far => format!(", {far} far"),
    };
    [
        Text::from(label(task)).unbroken(),
        list(&task.gpus),
        list(&task.planned),
        Text::joined(task.used.iter().map(used), ", ").or("-"),
        cell(Some(format!("{}{far}", task.cpus.threads))),
        cell(task.near_memory.map(|share| format!("{share} %"))),
        Text::from(task.verdict.words().0).unbroken(),
    ]
}

fn used(nic: &UsedNic) -> Text {
    let path = nic.path.iter().map(|path| format!(" {path}"));
    let how = match nic.by {
        By::QueuePairs => "",
        By::Datagrams => " (datagrams)",
        By::Memory => " (memory)",
    };
    Text::from(format!("{}{}{how}", nic.nic, path.collect::<String>())).unbroken()
}

fn label(task: &TaskVerdict) -> String {
    let process = task.processes.first().copied().unwrap_or_default();
    let label = task.numbers.label();
    label.unwrap_or_else(|| format!("process {process}"))
}

fn remarks(task: &TaskVerdict) -> Vec<String> {
    let mut remarks = Vec::new();
    if let (Some(set), Some(left_for)) = (&task.cpus.set, &task.cpus.left_for) {
        remarks.push(format!(
            "bound to CPUs {set}, but its first thread may run on {left_for}"
        ));
    }
    if !task.changed.is_empty() {
        let changed = task.changed.iter().map(String::as_str);
        remarks.push(format!(
            "had another value than it was given, when its program started: {}",
            changed.collect::<Vec<_>>().join(", ")
        ));
    }
    remarks
}

pub(in crate::commands) fn metric(report: &NodeReport) -> Metric {
    let mut counts: BTreeMap<(Option<u64>, Verdict), u64> = BTreeMap::new();
    for task in &report.tasks {
        *counts.entry((task.numbers.job, task.verdict)).or_default() += 1;
    }
    let sample = |((job, verdict), count): ((Option<u64>, Verdict), u64)| {
        let job = job.map(|job| job.to_string()).unwrap_or_default();
        // not `job`: that label is the scrape's own, and Prometheus renames ours to `exported_job`
        let labels = vec![("jobid", job), ("verdict", verdict.words().1.to_string())];
        (labels, count)
    };
    Metric::gauge(
        "nic_placement_tasks",
        "Tasks on this node by job, and by what they use against their plan.",
        counts.into_iter().map(sample).collect(),
    )
}
