//! The tables of NICs and tasks, and the same as JSON.
#![forbid(unsafe_code)]

use super::{Known, Look};
use crate::commands::measure::figure;
use crate::commands::page::{Page, Table, Text, list};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::policy::gbps;
use nic_placement_core::topology::PathType;
use nic_placement_traffic::growth::{Bytes, NoFigure};
use nic_placement_traffic::planned;
use nic_placement_traffic::report::NicTraffic;
use nic_placement_traffic::tasks::PlacedTask;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Tasks of one NIC that are named in its line.
const NAMED: usize = 4;

pub(super) fn tables(look: &Look, page: &mut Page) {
    page.line(format_args!(
        "node {}: the last {:.1} s",
        look.name, look.seconds
    ));
    let mut nics = Table::headed([
        "NIC",
        "GPUs",
        "rate",
        "sent/s",
        "received/s",
        "interface",
        "TCP/s",
        "tasks",
    ]);
    let users = users(&look.tasks);
    for nic in by_use(&look.nics) {
        let per_second = |of, missing, pick: fn(Bytes) -> u64| {
            // bytes below 2^53 are exact, and more are none that a NIC moves in an hour
            figure(of, missing, |of| {
                (pick(of) as f64 / look.seconds.max(0.001)) as u64
            })
        };
        nics.row([
            Text::from(&nic.name),
            list(&nic.gpus),
            rate_mbps(look.known, &nic.name)
                .map_or("-".into(), |mbps| Text::from(gbps(mbps)).unbroken()),
            per_second(nic.rdma, nic.rdma_missing, |of| of.sent),
            per_second(nic.rdma, nic.rdma_missing, |of| of.received),
            nic.interface.as_deref().unwrap_or("-").into(),
            per_second(nic.tcp, nic.tcp_missing, |of| of.sent),
            users
                .get(&nic.name)
                .map_or("-".into(), |tasks| named(tasks)),
        ]);
    }
    page.table(&nics);
    page.blank();
    if look.tasks.is_empty() {
        page.line("no placed task that this user may see");
    } else {
        let mut table = Table::headed(["task", "user", "process", "GPUs", "NICs"]);
        for task in &look.tasks {
            table.row([
                Text::from(label(task)).unbroken(),
                user(task),
                match task.processes {
                    1 => Text::from(task.pid),
                    more => Text::from(format_args!("{} (of {more})", task.pid)).unbroken(),
                },
                task_gpus(look.known, task),
                task_nics(look.known, task),
            ]);
        }
        page.table(&table);
    }
    if !look.processes.hidden.is_empty() {
        let (count, has) = (
            look.processes.hidden.len(),
            if look.processes.hidden.len() == 1 {
                "has"
            } else {
                "have"
            },
        );
        let users = counted(count, "other user");
        page.line(format_args!(
            "{users} {has} processes that only root may look at"
        ));
    }
    if look.processes.is_cut {
        page.line("there are more processes than were looked at");
    }
}

/// The user's number; root by name, which is the same everywhere.
fn user(task: &PlacedTask) -> Text {
    match task.user {
        None => "unknown".into(),
        Some(0) => "root".into(),
        Some(number) => Text::from(number),
    }
}

/// The NICs, the busiest first, and those that are as busy by their names.
fn by_use(nics: &[NicTraffic]) -> Vec<&NicTraffic> {
    let moved = |nic: &NicTraffic| {
        let of = [nic.rdma, nic.tcp].into_iter().flatten();
        of.fold(0u64, |sum, bytes| {
            sum.saturating_add(bytes.sent)
                .saturating_add(bytes.received)
        })
    };
    let mut nics: Vec<&NicTraffic> = nics.iter().collect();
    nics.sort_by_key(|nic| Reverse(moved(nic)));
    nics
}

fn label(task: &PlacedTask) -> String {
    task.marked
        .numbers
        .label()
        .unwrap_or_else(|| "no job".to_string())
}

fn users(tasks: &[PlacedTask]) -> BTreeMap<String, Vec<String>> {
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for task in tasks {
        for nic in task.marked.nics.iter().collect::<BTreeSet<_>>() {
            users.entry(nic.clone()).or_default().push(label(task));
        }
    }
    users
}

fn named(tasks: &[String]) -> Text {
    let more = if tasks.len() > NAMED {
        format!(", {} more", tasks.len() - NAMED)
    } else {
        String::new()
    };
    Text::from(tasks[..tasks.len().min(NAMED)].join(", ") + &more)
}

fn rate_mbps(known: Option<&Known>, nic: &str) -> Option<u64> {
    let (name, port) = nic.split_once(':')?;
    let topology = &known?.topology;
    let nic = topology.nic(topology.nic_index(name)?);
    nic.ports
        .iter()
        .find(|of| of.number.to_string() == port)?
        .rate_mbps
}

fn task_gpus(known: Option<&Known>, task: &PlacedTask) -> Text {
    let numbers = known.map(|known| planned::numbers(task, &known.topology));
    match numbers {
        Some(numbers) if !numbers.is_empty() => list(&numbers),
        _ => list(&task.marked.gpus),
    }
}

/// Each NIC with the path from the nearest of the task's GPUs.
fn task_nics(known: Option<&Known>, task: &PlacedTask) -> Text {
    let shown = task
        .marked
        .nics
        .iter()
        .map(|nic| match path(known, task, nic) {
            Some(path) => Text::from(format_args!("{nic} "))
                .then(Text::of_path(path))
                .unbroken(),
            None => Text::from(nic),
        });
    Text::joined(shown, ", ").or("-")
}

fn path(known: Option<&Known>, task: &PlacedTask, nic: &str) -> Option<PathType> {
    let topology = &known?.topology;
    let index = topology.nic_index(nic.split_once(':')?.0)?;
    let address = topology.nic(index).address?;
    let here = task
        .marked
        .gpus
        .iter()
        .filter(|gpu| topology.gpus.iter().any(|of| of.address == **gpu));
    here.map(|gpu| topology.path_type(*gpu, address)).min()
}

pub(super) fn json(look: &Look) -> String {
    let per_second = |count: u64| (count as f64 / look.seconds.max(0.001)).round();
    let rates = |of: Option<Bytes>, missing: Option<NoFigure>| match (of, missing) {
        (Some(Bytes { sent, received }), _) => json!({
            "sent_bytes_per_second": per_second(sent),
            "received_bytes_per_second": per_second(received),
        }),
        (None, Some(missing)) => json!({ "missing": missing }),
        (None, None) => Value::Null,
    };
    let nic = |nic: &NicTraffic| {
        json!({
            "name": nic.name,
            "gpus": nic.is_planned.then_some(&nic.gpus),
            "rate_mbps": rate_mbps(look.known, &nic.name),
            "counter": nic.counter.as_ref().filter(|_| !nic.is_soft()),
            "is_soft": nic.is_soft(),
            "rdma": rates(nic.rdma, nic.rdma_missing),
            "interface": nic.interface,
            "tcp": rates(nic.tcp, nic.tcp_missing),
        })
    };
    let nics: Vec<Value> = look.nics.iter().map(nic).collect();
    let tasks: Vec<Value> = look
        .tasks
        .iter()
        .map(|task| json_task(look.known, task))
        .collect();
    let document = json!({
        "format": "nic-placement top",
        "version": 1,
        "node": look.name,
        "seconds": (look.seconds * 1000.0).round() / 1000.0,
        "nics": nics,
        "tasks": tasks,
        "hidden_users": look.processes.hidden.len(),
        "is_whole": !look.processes.is_cut,
    });
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn json_task(known: Option<&Known>, task: &PlacedTask) -> Value {
    let numbers = &task.marked.numbers;
    let nics = task.marked.nics.iter().map(
        |nic| json!({ "name": nic, "path": path(known, task, nic).map(|path| path.to_string()) }),
    );
    json!({
        "job": numbers.step.map(|step| step.job),
        "step": numbers.step.and_then(|step| step.step),
        "local_id": numbers.local,
        "task": numbers.rank,
        "user": task.user,
        "process": task.pid,
        "processes": task.processes,
        "gpus": task.marked.gpus.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "nics": nics.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic_placement_traffic::tasks::{Marked, Numbers};

    #[test]
    fn the_busiest_nic_comes_first_and_those_as_busy_stay_in_their_order() {
        let nic = |name: &str, sent: u64, tcp: u64| -> NicTraffic {
            let bytes = |sent| json!({ "sent": sent, "received": 0 });
            let nic = json!({
                "name": name, "is_rdma": true, "is_planned": true, "gpus": [], "tasks": [], "counter": null,
                "rdma": bytes(sent), "rdma_missing": null, "interface": null, "tcp": bytes(tcp), "tcp_missing": null,
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

    #[test]
    fn user_0_is_root_and_one_that_is_not_known_is_not() {
        let marked = Marked {
            numbers: Numbers::default(),
            gpus: Vec::new(),
            nics: Vec::new(),
            cpus: None,
        };
        let of = |user| {
            self::user(&PlacedTask {
                pid: 1,
                user,
                processes: 1,
                marked: marked.clone(),
            })
        };
        assert_eq!(
            [of(Some(0)), of(Some(1000)), of(None)],
            ["root", "1000", "unknown"].map(Text::from)
        );
    }
}
