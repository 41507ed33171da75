//! Tables of `/proc` and the files of GPU drivers, on a machine that is otherwise in order.
//!
//! Parts between NULs: the tables of `FILES`, `if_inet6`, and the driver's file of each GPU.
#![forbid(unsafe_code)]

use super::{held, plans, tree};
use nic_placement_core::config::Admin;
use nic_placement_core::libraries::{Evidence, FileText, Present};
use nic_placement_core::placement::Change;
use nic_placement_core::plan::Plan;
use nic_placement_core::step::{Step, Task};
use nic_placement_core::topology::{GpuIndex, Provenance};
use nic_placement_launch::step;
use nic_placement_node::discover::manifest::Entry;
use nic_placement_node::discover::{Manifest, Root};
use nic_placement_node::{platform, read_root};

const FILES: &str = "proc/net/route proc/net/ipv6_route sys/devices/virtual/dmi/id/product_name \
                     sys/devices/system/node/node0/cpulist";

thread_local! {
    static NODE: Manifest = tree::manifest(tree::entries("gh200"));
    static PLAN: Plan = plan();
}

fn plan() -> Plan {
    let node = platform::model("gh200").expect("a model");
    let step = Step {
        tasks: 1,
        total_tasks: 1,
        ..Step::default()
    };
    let wish = plans::wish("closest", Admin::default());
    Plan::new(node, wish, step, &plans::no_file)
}

pub fn run(data: &[u8]) {
    let text = held::text(data);
    let parts: Vec<&str> = text.split('\0').collect();
    let scope = tree::SCOPES[data.len() % 4];
    let root = Root::manifest(node(&parts));
    let found = read_root(&root, scope, Provenance::Captured("made".into()));
    held::findings(&found.1);
    assert!(found.0.nics.len() <= 256 && found.0.gpus.len() <= 256);
    plans::of(&found.0);
    PLAN.with(|plan| interfaces(plan, &parts));
}

/// The machine with these parts of an input as its tables.
fn node(parts: &[&str]) -> Manifest {
    let mut manifest = NODE.with(Manifest::clone);
    let gpus = manifest.list("proc/driver/nvidia/gpus");
    let driver = |gpu| (5, format!("proc/driver/nvidia/gpus/{gpu}/information"));
    let files = FILES.split(' ').map(str::to_string).enumerate();
    for (nth, path) in files.chain(gpus.into_iter().map(driver)) {
        if let Some(text) = parts.get(nth).filter(|text| !text.is_empty()) {
            manifest.insert(&path, Entry::File(text.trim_end().to_string()));
        }
    }
    manifest
}

/// The list of IP interfaces that UCX is given.
fn interfaces(plan: &Plan, parts: &[&str]) {
    let part = |nth: usize| parts.get(nth).copied().unwrap_or_default();
    let read = |path: &str| {
        let text = match path {
            "/proc/net/route" => part(0),
            "/proc/net/if_inet6" => part(4),
            path if path.ends_with("/operstate") => "up\n",
            path if path.contains("/sys/class/net/") && part(6).contains("bridge") => part(6),
            _ => return None,
        };
        Some(FileText {
            text: text.to_string(),
            ..FileText::default()
        })
    };
    let task = Task {
        gpus: step::grant(&plan.node, &[GpuIndex(0)]),
        cpus: plan.node.cpus(),
        step_cpus: plan.node.cpus(),
        ..Task::default()
    };
    let evidence = Evidence {
        present: &Present::new(),
        read: &read,
    };
    let placed = plan.task(&task, evidence);
    for variable in &placed.variables {
        if let Change::Set(value) = &variable.change {
            let name = &variable.name;
            assert!(!value.contains(['\0', '\n', '\r']), "{name}={value:?}");
        }
    }
    let lines = placed.lines("n1", "");
    lines.iter().for_each(|line| held::tidy(line));
}
