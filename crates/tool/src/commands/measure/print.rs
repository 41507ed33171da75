//! The reports for people.
#![forbid(unsafe_code)]

use crate::commands::page::{Page, Style, Table, Text, list};
use crate::commands::verify::summary;
use nic_placement_core::diagnostic::counted;
use nic_placement_traffic::counters::CountedPort;
use nic_placement_traffic::growth::{Bytes, NoFigure};
use nic_placement_traffic::merge::Merged;
use nic_placement_traffic::planned::Origin;
use nic_placement_traffic::report::{Measurement, NicTraffic, Shares};
use nic_placement_traffic::units::{bytes, per_cent};

/// Nodes that are listed, and notes.
const LISTED: usize = 32;

pub(super) fn report(report: &Measurement, page: &mut Page) {
    let Measurement {
        node,
        seconds,
        status,
        ..
    } = report;
    page.line(format_args!(
        "node {node}: {seconds:.1} s, CMD ended with {status}"
    ));
    let total = report.shares.planned.saturating_add(report.shares.others);
    let headings = "NIC/GPUs/tasks/sent/share/received/interface/TCP sent/received/counted by";
    let mut table = Table::headed(headings.split('/'));
    for nic in &report.nics {
        table.row(row(nic, total));
    }
    page.table(&table);
    shares(&report.shares, report.plan, page);
    if !report.tasks.is_empty() {
        page.line(summary(&Vec::from_iter(&report.tasks)));
    }
    page.notes(&report.notes);
}

/// Bytes, or why they are not known.
pub(in crate::commands) fn figure(
    of: Option<Bytes>,
    missing: Option<NoFigure>,
    pick: impl Fn(Bytes) -> u64,
) -> Text {
    match (of, missing) {
        (Some(of), _) => Text::from(bytes(pick(of))).unbroken(),
        (None, Some(missing)) => Text::from(missing).unbroken(),
        (None, None) => "-".into(),
    }
}

fn row(nic: &NicTraffic, total: u64) -> [Text; 10] {
    let share = nic
        .rdma
        .map_or("-".to_string(), |of| per_cent(of.sent, total));
    let style = if nic.is_planned {
        Style::Plain
    } else {
        Style::Faint
    };
    [
        Text::styled(&nic.name, style),
        list(&nic.gpus),
        list(&nic.tasks),
        figure(nic.rdma, nic.rdma_missing, |of| of.sent),
        Text::from(share).unbroken(),
        figure(nic.rdma, nic.rdma_missing, |of| of.received),
        nic.interface.as_deref().unwrap_or("-").into(),
        figure(nic.tcp, nic.tcp_missing, |of| of.sent),
        figure(nic.tcp, nic.tcp_missing, |of| of.received),
        Text::from(nic.counter.as_deref().unwrap_or("-")),
    ]
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
        Origin::Tasks => "by the NICs of the tasks",
        Origin::Node => "by the NICs of the node's GPUs",
        Origin::Nobody => "by the NICs of a plan",
    };
    match total {
        0 => page.line("by RDMA nothing left, as far as it is counted"),
        _ => page.line(format_args!(
            "{whose}: {} ({}); by other NICs: {} ({})",
            per_cent(*planned, total),
            bytes(*planned),
            per_cent(*others, total),
            bytes(*others)
        )),
    }
    page.line(format_args!("by TCP: {}", bytes(*tcp)));
    if !idle.is_empty() {
        page.line(format_args!(
            "idle NICs of the plan: {}",
            first_of(idle, LISTED)
        ));
    }
    if !unknown.is_empty() {
        page.line(format_args!("unknown: {}", first_of(unknown, LISTED)));
    }
}

/// `a, b and 3 more`: at most so many names.
pub(super) fn first_of(names: &[String], most: usize) -> String {
    match names.len().saturating_sub(most) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..most].join(", ")),
    }
}

pub(super) fn merged(merged: &Merged, page: &mut Page) {
    let Merged {
        nodes,
        by_tasks,
        seconds,
        ..
    } = merged;
    page.line(format_args!(
        "{}, {by_tasks} of them by the plan of their tasks; the longest took {seconds:.1} s",
        counted(*nodes, "node")
    ));
    let total = merged.shares.planned.saturating_add(merged.shares.others);
    let mut table = Table::headed([
        "NIC",
        "in the plan",
        "counted",
        "sent",
        "share",
        "least",
        "most",
        "TCP sent",
    ]);
    let mut nics: Vec<_> = merged.nics.iter().collect();
    nics.sort_by_key(|(name, _)| CountedPort::named(name));
    for (name, sum) in nics {
        let of = |count: Option<u64>| Text::from(count.map_or("-".to_string(), bytes)).unbroken();
        let is_known = sum.counted_on > 0;
        table.row([
            Text::from(name),
            Text::from(counted(sum.planned_on, "node")).unbroken(),
            match sum.is_rdma {
                true => Text::from(counted(sum.counted_on, "node")).unbroken(),
                false => "-".into(),
            },
            of(is_known.then_some(sum.rdma.sent)),
            Text::from(if is_known {
                per_cent(sum.rdma.sent, total)
            } else {
                "-".to_string()
            })
            .unbroken(),
            of(sum.least_sent),
            of(sum.most_sent),
            of(Some(sum.tcp.sent)),
        ]);
    }
    page.table(&table);
    let plan = if *by_tasks == 0 {
        Origin::Node
    } else {
        Origin::Tasks
    };
    shares(&merged.shares, plan, page);
    if !merged.tasks.is_empty() {
        let counts: Vec<String> = merged
            .tasks
            .iter()
            .map(|(verdict, count)| format!("{count} {verdict}"))
            .collect();
        page.line(format!("tasks: {}", counts.join(", ")));
    }
    if !merged.failed.is_empty() {
        page.line(format_args!(
            "CMD failed on: {}",
            first_of(&merged.failed, LISTED)
        ));
    }
    if !merged.twice.is_empty() {
        let names: Vec<String> = merged.twice.iter().cloned().collect();
        page.line(format_args!(
            "reported more than once, the first report counts: {}",
            first_of(&names, LISTED)
        ));
    }
    let notes = merged.notes.iter().take(LISTED);
    page.notes(notes.map(|(note, count)| format!("{note} ({})", counted(*count, "node"))));
}
