//! Tables of `/proc` and the files of GPU drivers, on a machine that is otherwise in order.
#![forbid(unsafe_code)]

use super::work::Work;
use super::{formats, held, machines, tree};
use nic_placement_core::config::Admin;
use nic_placement_core::libraries::{Evidence, FileText, Present};
use nic_placement_core::plan::{Plan, TaskPlan};
use nic_placement_core::step::{Step, Task};
use nic_placement_core::topology::{GpuIndex, Provenance};
use nic_placement_launch::step;
use nic_placement_node::discover::manifest::Entry;
use nic_placement_node::discover::{Manifest, Root, Scope};
use nic_placement_node::platform;
use nic_placement_node::read_root;
use std::hint::black_box;

thread_local! {
    static NODE: Manifest = tree::manifest(tree::entries("gh200"));
    static PLAN: Plan = plan();
}

/// Which file each part of the input is.
const FILES: [&str; 4] = [
    "proc/net/route",
    "proc/net/ipv6_route",
    "sys/devices/virtual/dmi/id/product_name",
    "sys/devices/system/node/node0/cpulist",
];

fn plan() -> Plan {
    let node = platform::model("gh200").expect("a model");
    let step = Step {
        tasks: 1,
        total_tasks: 1,
        ..Step::default()
    };
    Plan::new(
        node,
        machines::wish("closest", Admin::default()),
        step,
        &machines::no_file,
    )
}

/// The parts of the input, between NULs: the tables in the order of `FILES`, `if_inet6`, the driver's file of each GPU.
pub fn run(data: &[u8]) {
    let text = held::text(data);
    let parts: Vec<&str> = text.split('\0').collect();
    let scope = [
        Scope::Placement,
        Scope::Selection,
        Scope::Cores,
        Scope::Full,
    ][data.len() % 4];
    let found = read_root(
        &Root::manifest(node(&parts)),
        scope,
        Provenance::Captured("made".into()),
    );
    held::findings(&found.1);
    assert!(found.0.nics.len() <= 256 && found.0.gpus.len() <= 256);
    if data.len() % 8 == 0 {
        formats::plans(data, &found.0);
    }
    PLAN.with(|plan| {
        let placed = interfaces(plan, &parts);
        for variable in &placed.variables {
            if let nic_placement_core::placement::Change::Set(value) = &variable.change {
                assert!(
                    !value.contains(['\0', '\n', '\r']),
                    "{}={value:?}",
                    variable.name
                );
            }
        }
        placed
            .lines("n1", "")
            .iter()
            .for_each(|line| held::tidy(line));
    });
}

/// The reading of these tables, and the list of interfaces that is made of them.
pub fn work(data: &[u8]) -> Work<'_> {
    let text = held::text(data);
    let node = node(&text.split('\0').collect::<Vec<_>>());
    let root = Root::manifest(node);
    Box::new(move || {
        let parts: Vec<&str> = text.split('\0').collect();
        black_box(read_root(
            &root,
            Scope::Full,
            Provenance::Captured("made".into()),
        ));
        PLAN.with(|plan| drop(black_box(interfaces(plan, &parts))));
    })
}

/// The machine with these parts of an input as its tables.
fn node(parts: &[&str]) -> Manifest {
    let part = |nth: usize| parts.get(nth).copied().filter(|text| !text.is_empty());
    let mut manifest = NODE.with(Manifest::clone);
    for (nth, path) in FILES.iter().enumerate() {
        if let Some(text) = part(nth) {
            manifest.insert(path, Entry::File(text.trim_end().to_string()));
        }
    }
    if let Some(text) = part(5) {
        for gpu in manifest.list("proc/driver/nvidia/gpus") {
            let path = format!("proc/driver/nvidia/gpus/{gpu}/information");
            manifest.insert(&path, Entry::File(text.trim_end().to_string()));
        }
    }
    manifest
}

/// The list of IP interfaces that UCX is given.
fn interfaces<'p>(plan: &'p Plan, parts: &[&str]) -> TaskPlan<'p> {
    let part = |nth: usize| {
        parts
            .get(nth)
            .map(|text| text.to_string())
            .unwrap_or_default()
    };
    let read = |path: &str| {
        let text = match path {
            "/proc/net/route" => part(0),
            "/proc/net/if_inet6" => part(4),
            path if path.ends_with("/operstate") => "up\n".to_string(),
            path if path.contains("/sys/class/net/") && part(6).contains("bridge") => part(6),
            _ => return None,
        };
        Some(FileText {
            text,
            ..FileText::default()
        })
    };
    let gpus = step::grant(&plan.node, &[GpuIndex(0)]);
    let cpus = plan.node.cpus();
    let task = Task {
        gpus,
        cpus: cpus.clone(),
        step_cpus: cpus,
        ..Task::default()
    };
    let present = Present::new();
    plan.task(
        &task,
        Evidence {
            present: &present,
            read: &read,
        },
    )
}
