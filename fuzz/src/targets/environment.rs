//! A user's environment, and the files of libraries that it leads to.
//!
//! Parts between NULs: letters that choose and then a variable on each line; the files of `FILES`; any other file.
#![forbid(unsafe_code)]

use super::{held, plans};
use nic_placement_core::config::{Admin, cpu_bind};
use nic_placement_core::gpus;
use nic_placement_core::libraries::marker::{self, Marker};
use nic_placement_core::libraries::{self, Evidence, FileText, Present, names};
use nic_placement_core::placement::Change;
use nic_placement_core::plan::{Plan, TaskPlan};
use nic_placement_core::step::{Access, GpuGrant, Step, Task};
use nic_placement_launch::judge::{Checked, lint, uses};
use nic_placement_node::platform;
use std::collections::BTreeMap;

/// Machine and words of each plan that an input chooses from.
const PLANS: &str = "\
    dgx-h100 closest,bind=core,verbose
    dgx-h100 spread,strict,omp=on,env=default+nvshmem-pe+mooncake+ucx-gda+rocshmem+deepep+mori+oneccl
    mi300x-8 rail,restricted,verbose,env=default+libfabric+openmpi+rocshmem+mori
    frontier closest,env=default+cray-mpich+libfabric
    aws-p5 closest,verbose,env=default+libfabric+openmpi+sockets
    gh200 numa,single-numa-node,no-env=NCCL*
    dgx-a100 all,verbose,mem=strict
    gb200-nvl72 closest,nics-per-task=2,bind=none";

/// Arguments of an admin's whose variables are then set too.
const ARGUMENTS: &str =
    "set=SITE_NIC={nics} set=SITE_MAP={map:vllm} set=SITE_RAILS={rails} set=UCX_IB_GID_INDEX=3";

/// Each part's file, by the end of its path.
const FILES: [(&str, usize); 6] = [
    ("nccl.conf", 1),
    ("rccl.conf", 1),
    ("ucx.conf", 2),
    ("nvshmem.conf", 3),
    ("/proc/net/route", 4),
    ("/proc/net/if_inet6", 5),
];

thread_local! {
    static KNOWN: Vec<Plan> = PLANS.lines().map(plan).collect();
}

fn plan(line: &str) -> Plan {
    let (machine, words) = line.trim().split_once(' ').expect("two cells");
    let node = platform::model(machine).expect("a model");
    let (admin, _) = Admin::parse(ARGUMENTS.split(' '));
    let gpus: Vec<_> = node.gpu_indices().collect();
    let step = Step {
        tasks: 4,
        total_tasks: 8,
        cpus_per_task: Some(4),
        gpus: Some(nic_placement_launch::gpus::slurms_numbers(&node, &gpus)),
        ..Step::default()
    };
    let admin = Admin {
        trust_topology: true,
        ..admin
    };
    Plan::new(node, plans::wish(words, admin), step, &plans::no_file)
}

fn file(parts: &[&str], path: &str) -> Option<FileText> {
    let known = FILES.iter().find(|(end, _)| path.ends_with(end));
    let text = match known {
        Some((_, part)) => parts.get(*part)?,
        None if path.ends_with("/operstate") => "up\n",
        // a variable's own, such as NCCL_CONF_FILE's
        None if path.starts_with('/') && !path.starts_with("/sys") => parts.get(6)?,
        None => return None,
    };
    Some(FileText {
        is_cut: text.len() % 17 == 16,
        text: text.to_string(),
        unanswered: None,
    })
}

pub fn run(data: &[u8]) {
    let text = held::text(data);
    let parts: Vec<&str> = text.split('\0').collect();
    let (choice, lines) = parts[0].split_once('\n').unwrap_or(("", parts[0]));
    let letter = |nth: usize| choice.as_bytes().get(nth).copied().unwrap_or(0);
    let variables = lines.split('\n').filter_map(|line| line.split_once('='));
    let owned = variables.map(|(name, value)| (name.to_string(), value.to_string()));
    let present: Present = owned.collect();
    KNOWN.with(|plans| {
        let plan = &plans[usize::from(letter(0)) % plans.len()];
        let task = task(plan, &present, letter(1), letter(2));
        check(plan, &task, &present, &|path| file(&parts, path));
    });
}

fn task(plan: &Plan, present: &Present, access: u8, id: u8) -> Task {
    let named = gpus::VARIABLES.into_iter();
    let variables = named.filter_map(|name| Some((name, present.get(name)?.clone())));
    let variables: BTreeMap<&'static str, String> = variables.collect();
    let kinds = [Access::Unknown, Access::Allowed, Access::Denied];
    let access = (0..plan.node.gpus.len()).map(|gpu| match access {
        0..=32 => Access::Unknown,
        _ => kinds[usize::from(access >> (gpu % 4)) % 3],
    });
    Task {
        local_id: u32::from(id % 4),
        global_id: u32::from(id % 8),
        gpus: GpuGrant {
            variables,
            access: access.collect(),
        },
        cpus: plan.node.cpus(),
        step_cpus: plan.node.cpus(),
        masks: cpu_bind::masks(|name| present.get(name).map(String::as_str)),
        gpu_bind: present.get("SLURMD_TRES_BIND").cloned(),
        ..Task::default()
    }
}

fn check(plan: &Plan, task: &Task, present: &Present, read: libraries::ReadFile) {
    let mut placed = plan.task(task, Evidence { present, read });
    uses::tell(plan, &mut placed, present);
    keeps_to_the_rules(&placed, present);
    assert!(placed.placement.cpus.is_subset(&task.step_cpus));
    let lines = placed.lines("n1", "");
    let said = lines.iter().chain(&placed.placement.notes.shortfalls);
    said.for_each(|text| held::tidy(text));
    held::findings(&lint(&Checked {
        present,
        topology: &plan.node,
        node: &plan.map,
        task,
        tasks: plan.step.tasks,
        words: &[],
        is_bound: true,
        fabric: plan.wish.admin.fabric,
        interfaces: &["eth0".to_string(), "ib0".to_string()],
    }));
    // a step inside this one, placed alike, changes nothing
    let inner = after(&placed, present);
    let present_inside = Evidence {
        present: &inner,
        read,
    };
    let again = plan.task(task, present_inside);
    keeps_to_the_rules(&again, &inner);
    assert_eq!(after(&again, &inner), inner, "a step inside the step");
    // and one that is not placed takes our values away, and no other
    let evidence = plan.evidence_variables(&[]);
    let evidence: Vec<&str> = evidence.iter().map(AsRef::as_ref).collect();
    for variable in libraries::withdrawal(&evidence, &inner) {
        assert_eq!(variable.change, Change::Remove);
        let name = variable.name.as_ref();
        let mut set = placed.variables.iter();
        let is_set = set.any(|set| set.name == name && matches!(set.change, Change::Set(_)));
        let is_ours = is_set || name == marker::NAME || !is_users(present, name);
        assert!(is_ours, "`{name}` is the user's");
    }
}

/// True if the variable is there, and no value of a step around this one.
fn is_users(present: &Present, name: &str) -> bool {
    let said = present.get(marker::NAME).map_or("", String::as_str);
    let marker = Marker::parse(said, |_| true);
    let value = present.get(name);
    value.is_some_and(|value| !marker.is_ours(name, value))
}

fn keeps_to_the_rules(placed: &TaskPlan, present: &Present) {
    for variable in &placed.variables {
        let name = variable.name.as_ref();
        held::tidy(&variable.why);
        match &variable.change {
            Change::Set(value) => {
                assert!(!value.chars().any(char::is_control), "{name}={value:?}");
                assert!(value.len() <= 128 * 1024, "`{name}`: {}", value.len());
                let is_marker = name == marker::NAME;
                let before = present.get(name).map_or("", String::as_str);
                let may = is_marker && marker::is_published(before);
                assert!(may || !is_users(present, name), "`{name}` is the user's");
                assert!(names::is_name(name) && (is_marker || !names::is_refused(name)));
            }
            Change::Remove => assert!(!is_users(present, name), "`{name}` is the user's"),
            Change::KeepUsers(value) => assert_eq!(present.get(name), Some(value)),
            Change::Leave => assert!(!present.contains_key(name), "`{name}` is there"),
        }
    }
}

fn after(placed: &TaskPlan, present: &Present) -> Present {
    let mut changed = present.clone();
    for variable in &placed.variables {
        match &variable.change {
            Change::Set(value) => drop(changed.insert(variable.name.to_string(), value.clone())),
            Change::Remove => drop(changed.remove(variable.name.as_ref())),
            Change::KeepUsers(_) | Change::Leave => {}
        }
    }
    changed
}
