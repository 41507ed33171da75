//! Reports for people, and the metric for Prometheus.

use crate::commands::grouped;
use crate::commands::page::{Page, Table, Text, list};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::policy::gbps;
use nic_placement_traffic::bytes::{Bytes, Figure, NicTraffic, Origin, Shares, Traffic};
use nic_placement_traffic::counters::CountedPort;
use nic_placement_traffic::exposition::Metric;
use nic_placement_traffic::report::{Merged, NodeReport};
use nic_placement_traffic::units::{bytes, per_cent};
use nic_placement_traffic::verify::{By, TaskVerdict, UsedNic, Verdict};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Of one task: kinds of threads, processes, NICs.
const LISTED: usize = 6;
const NAMED: usize = 32;

pub(super) fn report(report: &NodeReport, page: &mut Page) {
    if let Some(traffic) = &report.traffic {
        let seconds = traffic.seconds;
        let status = report.status;
        let ended = status.map_or(String::new(), |status| format!(", CMD ended with {status}"));
        page.line(format!("node {}: {seconds:.1} s{ended}", report.node));
        page.table(&bytes_table(traffic));
        shares(&traffic.shares, traffic.plan, page);
        page.blank();
    }
    if report.tasks.is_empty() {
        page.line(NO_TASK);
    } else {
        let headings = "task/GPUs/planned/used/threads/near memory/verdict";
        let mut table = Table::headed(headings.split('/'));
        report.tasks.iter().for_each(|task| table.row(row(task)));
        page.table(&table);
    }
    notes(report, remarks, page);
}

const NO_TASK: &str = "no task that this user may see";

/// Remarks on the tasks, each once with the tasks of which it is true, and the notes on the node.
fn notes(report: &NodeReport, remarks: fn(&TaskVerdict) -> Vec<String>, page: &mut Page) {
    let of_task = |task: &TaskVerdict| {
        let said = |why: &&String| !report.notes.contains(why);
        let why = task.why.iter().filter(said).cloned();
        let all = why.chain(remarks(task));
        all.map(|remark| (remark, label(task))).collect::<Vec<_>>()
    };
    let of_tasks = grouped(report.tasks.iter().flat_map(of_task));
    let of_tasks = of_tasks.iter();
    let of_tasks = of_tasks.map(|(remark, of)| format!("{}: {remark}", first_of(of.iter(), 3)));
    page.notes(of_tasks.chain(report.notes.iter().cloned()));
}

fn bytes_table(traffic: &Traffic) -> Table {
    let total = traffic.shares.planned.saturating_add(traffic.shares.others);
    let headings = "NIC/GPUs/rate/sent/sent per s/share/received/interface/TCP sent/tasks";
    let mut table = Table::headed(headings.split('/'));
    for nic in by_use(&traffic.nics) {
        // bytes below 2^53 are exact
        let per_second = |bytes: u64| (bytes as f64 / traffic.seconds.max(0.001)) as u64;
        let share = |sent| per_cent(sent, total);
        table.row([
            (&nic.name).into(),
            list(&nic.gpus),
            Text::from(nic.rate_mbps.map_or("-".to_string(), gbps)).unbroken(),
            figure(nic.rdma, |of| bytes(of.sent)),
            known(nic.rdma, |of| bytes(per_second(of.sent))),
            known(nic.rdma, |of| share(of.sent)),
            known(nic.rdma, |of| bytes(of.received)),
            nic.interface.as_deref().unwrap_or("-").into(),
            figure(nic.tcp, |of| bytes(of.sent)),
            tasks(nic),
        ]);
    }
    table
}

/// The busiest first.
fn by_use(nics: &[NicTraffic]) -> Vec<&NicTraffic> {
    let moved = |nic: &&NicTraffic| {
        let figures = [nic.rdma, nic.tcp].into_iter().flatten();
        let bytes = figures.filter_map(Figure::bytes);
        Reverse(bytes.fold(0, |sum: u64, of| {
            sum.saturating_add(of.sent).saturating_add(of.received)
        }))
    };
    let mut nics: Vec<&NicTraffic> = nics.iter().collect();
    nics.sort_by_key(moved);
    nics
}

fn tasks(nic: &NicTraffic) -> Text {
    Text::from(first_of(nic.tasks.iter(), 4)).or("-")
}

/// Bytes, or why they are not known.
fn figure(of: Option<Figure>, say: impl Fn(Bytes) -> String) -> Text {
    match of {
        Some(Figure::Missing(why)) => Text::from(why.words().0).unbroken(),
        of => known(of, say),
    }
}

fn known(of: Option<Figure>, say: impl Fn(Bytes) -> String) -> Text {
    let bytes = of.and_then(Figure::bytes);
    Text::from(bytes.map_or("-".to_string(), say)).unbroken()
}

fn shares(shares: &Shares, plan: Origin, page: &mut Page) {
    let Shares {
        planned,
        others,
        tcp,
        idle,
        unknown,
    } = shares;
    let total = planned.saturating_add(*others);
    let whose = match plan {
        Origin::Tasks => "the tasks",
        Origin::Node => "the node's GPUs",
        Origin::Nobody => "a plan",
    };
    match total {
        0 => page.line("by RDMA nothing left, as far as it is counted"),
        _ => page.line(format_args!(
            "by the NICs of {whose}: {} ({}); by other NICs: {} ({})",
            per_cent(*planned, total),
            bytes(*planned),
            per_cent(*others, total),
            bytes(*others)
        )),
    }
    page.line(format_args!("by TCP: {}", bytes(*tcp)));
    for (word, nics) in [("idle NICs of the plan", idle), ("unknown", unknown)] {
        named(word, nics.iter(), page);
    }
}

/// A line with names, if there are any.
fn named<'n>(word: &str, names: impl Iterator<Item = &'n String>, page: &mut Page) {
    let names = first_of(names, NAMED);
    if !names.is_empty() {
        page.line(format!("{word}: {names}"));
    }
}

/// `a, b and 3 more`: at most so many names.
pub(super) fn first_of<'n>(mut names: impl Iterator<Item = &'n String>, most: usize) -> String {
    let first: Vec<&str> = names.by_ref().take(most).map(String::as_str).collect();
    match names.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

pub(super) fn merged(merged: &Merged, page: &mut Page) {
    let (nodes, by_tasks, seconds) = (merged.nodes.len(), merged.by_tasks, merged.seconds);
    page.line(format_args!(
        "{}, {by_tasks} of them by the plan of their tasks; the longest took {seconds:.1} s",
        counted(nodes, "node")
    ));
    if !merged.nics.is_empty() {
        let total = merged.shares.planned.saturating_add(merged.shares.others);
        let headings = "NIC/in the plan/counted/sent/share/least/most/TCP sent";
        let mut table = Table::headed(headings.split('/'));
        let mut nics: Vec<_> = merged.nics.iter().collect();
        nics.sort_by_key(|(name, _)| CountedPort::named(name));
        for (name, sum) in nics {
            let known =
                |text: Option<String>| Text::from(text.as_deref().unwrap_or("-")).unbroken();
            let is_counted = sum.counted_on > 0;
            let sent = sum.rdma.sent;
            let on = |nodes| Some(counted(nodes, "node"));
            table.row([
                Text::from(name),
                known(on(sum.planned_on)),
                known(on(sum.counted_on).filter(|_| sum.is_rdma)),
                known(is_counted.then(|| bytes(sent))),
                known(is_counted.then(|| per_cent(sent, total))),
                known(sum.least_sent.map(bytes)),
                known(sum.most_sent.map(bytes)),
                known(Some(bytes(sum.tcp_sent))),
            ]);
        }
        page.table(&table);
        let plan = match by_tasks {
            0 => Origin::Node,
            _ => Origin::Tasks,
        };
        shares(&merged.shares, plan, page);
    }
    if !merged.tasks.is_empty() {
        page.line(format!("tasks: {}", counts(&merged.tasks)));
    }
    named("CMD failed on", merged.failed.iter(), page);
    let twice = "reported more than once, the first report counts";
    named(twice, merged.twice.iter(), page);
    let notes = merged.notes.iter().take(NAMED);
    page.notes(notes.map(|(note, count)| format!("{note} ({})", counted(*count, "node"))));
}

/// `7 as planned, 1 far`
fn counts(tasks: &BTreeMap<Verdict, usize>) -> String {
    let counts = tasks.iter();
    let counts = counts.map(|(verdict, count)| format!("{count} {}", verdict.words().0));
    counts.collect::<Vec<_>>().join(", ")
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
    [
        Text::from(label(task)).unbroken(),
        list(&task.gpus),
        list(&task.planned),
        Text::joined(task.used.iter().map(used), ", ").or("-"),
        Text::from(threads).unbroken(),
        Text::from(memory).unbroken(),
        Text::from(task.verdict.words().0).unbroken(),
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

fn remarks(task: &TaskVerdict) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(set) = task.cpus.set.as_ref().filter(|_| task.cpus.first_left) {
        remarks.push(format!(
            "bound to CPUs {set}; its first thread has left them"
        ));
    }
    for other in task.cpus.others.iter().take(LISTED) {
        let library = other.made_by.as_ref();
        let whose = library.map_or(String::new(), |library| format!(" ({library})"));
        remarks.push(format!(
            "{} `{}`{whose} on CPUs {}: {}",
            counted(other.count, "thread"),
            other.name,
            other.cpus,
            other.how.word(),
        ));
    }
    match task.cpus.others.len().saturating_sub(LISTED) {
        0 => {}
        more => remarks.push(format!("{more} more kinds of threads")),
    }
    if !task.opened.is_empty() {
        let opened = first_of(task.opened.iter(), LISTED);
        remarks.push(format!("has open, and does not use: {opened}"));
    }
    if !task.changed.is_empty() {
        let changed = task.changed.join(", ");
        remarks.push(format!(
            "had another value than it was given, when its program started: {changed}"
        ));
    }
    remarks
}

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
pub(super) fn brief(report: &NodeReport, page: &mut Page) {
    for (job, verdicts) in jobs(&report.tasks) {
        let name = job.map_or("no job".to_string(), |job| format!("job {job}"));
        let tasks = counted(verdicts.values().sum(), "task");
        let bad = bad(report.tasks.iter().filter(|task| task.job == job));
        page.line(format!("{name}: {tasks}: {}{bad}", counts(&verdicts)));
    }
    if report.tasks.is_empty() {
        page.line(NO_TASK);
    }
    notes(report, |_| Vec::new(), page);
}

fn bad<'t>(tasks: impl Iterator<Item = &'t TaskVerdict>) -> String {
    let bad = tasks.filter(|task| task.is_bad()).take(LISTED);
    let bad = bad.map(|task| {
        let used = first_of(task.used.iter().map(|used| &used.nic), LISTED);
        let used = if used.is_empty() { "no NIC" } else { &used };
        let left = if task.cpus.first_left {
            ", not on its CPUs"
        } else {
            ""
        };
        format!("{}: {used}{left}", label(task))
    });
    match bad.collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        bad => format!(" ({})", bad.join("; ")),
    }
}

pub(in crate::commands) fn metric(report: &NodeReport) -> Metric {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_busiest_nic_comes_first_and_those_as_busy_stay_in_their_order() {
        let nic = |name: &str, sent: u64, tcp: u64| -> NicTraffic {
            let bytes = |sent| json!({ "sent": sent, "received": 0 });
            let nic = json!({
                "name": name, "is_planned": true, "gpus": [], "tasks": [], "rate_mbps": null, "counter": null,
                "rdma": bytes(sent), "interface": null, "tcp": bytes(tcp),
            });
            serde_json::from_value(nic).unwrap()
        };
        let nics = [
            nic("mlx5_0:1", 0, 0),
            nic("mlx5_1:1", 5, 0),
            nic("mlx5_2:1", 0, 9),
            nic("mlx5_3:1", 0, 0),
        ];
        let names: Vec<&str> = by_use(&nics).iter().map(|nic| nic.name.as_str()).collect();
        assert_eq!(names, ["mlx5_2:1", "mlx5_1:1", "mlx5_0:1", "mlx5_3:1"]);
    }
}
