//! A user's environment, and the files of libraries that it leads to.
#![forbid(unsafe_code)]

use super::work::Work;
use super::{held, machines};
use nic_placement_core::config::{Admin, cpu_bind};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::gpus;
use nic_placement_core::libraries::marker::{self, Marker};
use nic_placement_core::libraries::names;
use nic_placement_core::libraries::{self, Evidence, FileText, Present};
use nic_placement_core::placement::Change;
use nic_placement_core::plan::{Plan, TaskPlan};
use nic_placement_core::step::{Access, GpuGrant, Memory, Step, Task};
use nic_placement_launch::judge::{Checked, lint, uses};
use nic_placement_node::platform;
use std::collections::BTreeMap;
use std::hint::black_box;

/// `(machine, words)` of the plans that an input chooses from.
const PLANS: [(&str, &str); 8] = [
    ("dgx-h100", "closest,bind=core,verbose"),
    (
        "dgx-h100",
        "spread,strict,omp=on,env=default+nvshmem-pe+mooncake+ucx-gda+rocshmem+deepep+mori+oneccl",
    ),
    (
        "mi300x-8",
        "rail,restricted,verbose,env=default+libfabric+openmpi+rocshmem+mori",
    ),
    ("frontier", "closest,env=default+cray-mpich+libfabric"),
    (
        "aws-p5",
        "closest,verbose,env=default+libfabric+openmpi+sockets",
    ),
    ("gh200", "numa,single-numa-node,no-env=NCCL*"),
    ("dgx-a100", "all,verbose,mem=strict"),
    ("gb200-nvl72", "closest,nics-per-task=2,bind=none"),
];

/// Arguments of an admin's whose variables are then set too.
const ARGUMENTS: [&str; 4] = [
    "set=SITE_NIC={nics}",
    "set=SITE_MAP={map:vllm}",
    "set=SITE_RAILS={rails}",
    "set=UCX_IB_GID_INDEX=3",
];

thread_local! {
    static KNOWN: Vec<Plan> = PLANS.iter().map(|(machine, words)| plan(machine, words)).collect();
}

fn plan(machine: &str, words: &str) -> Plan {
    let node = platform::model(machine).expect("a model");
    let (admin, findings) = Admin::parse(ARGUMENTS);
    assert!(findings.len() <= 1, "{findings:?}");
    let step = Step {
        tasks: 4,
        total_tasks: 8,
        cpus_per_task: Some(4),
        gpus: Some(nic_placement_launch::gpus::slurms_numbers(
            &node,
            &node.gpu_indices().collect::<Vec<_>>(),
        )),
        ..Step::default()
    };
    let admin = Admin {
        trust_topology: true,
        ..admin
    };
    Plan::new(node, machines::wish(words, admin), step, &machines::no_file)
}

/// Which file each part of the input is, by the end of its path.
const FILES: [(&str, usize); 6] = [
    ("nccl.conf", 1),
    ("rccl.conf", 1),
    ("ucx.conf", 2),
    ("nvshmem.conf", 3),
    ("/proc/net/route", 4),
    ("/proc/net/if_inet6", 5),
];

/// An input: parts between NULs, of which the first has letters that choose, and then a variable on each line; the others
/// are files.
struct Given {
    parts: Vec<String>,
    choice: [usize; 3],
    present: Present,
}

impl Given {
    fn of(data: &[u8]) -> Given {
        let text = held::text(data);
        let parts: Vec<String> = text.split('\0').map(str::to_string).collect();
        let (choice, lines) = parts[0].split_once('\n').unwrap_or(("", &parts[0]));
        let letter = |nth: usize| choice.as_bytes().get(nth).copied().map_or(0, usize::from);
        let choice = [letter(0), letter(1), letter(2)];
        let variables = lines.split('\n').filter_map(|line| line.split_once('='));
        let present = variables
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        Given {
            parts,
            choice,
            present,
        }
    }

    fn file(&self, path: &str) -> Option<FileText> {
        let file = FILES
            .iter()
            .find(|(end, _)| path.ends_with(end))
            .map(|(_, part)| *part);
        let text = match file {
            Some(part) => self.parts.get(part)?.to_string(),
            None if path.ends_with("/operstate") => "up\n".to_string(),
            // what a variable names, as NCCL_CONF_FILE does
            None if path.starts_with('/') && !path.starts_with("/sys") => {
                self.parts.get(6)?.to_string()
            }
            None => return None,
        };
        Some(FileText {
            is_cut: text.len() % 17 == 16,
            text,
            unanswered: None,
        })
    }

    /// Calls `look` with the plan and the task that the letters choose.
    fn with<T>(&self, look: impl FnOnce(&Plan, &Task) -> T) -> T {
        KNOWN.with(|plans| {
            let plan = &plans[self.choice[0] % plans.len()];
            look(
                plan,
                &task(plan, &self.present, self.choice[1], self.choice[2]),
            )
        })
    }
}

pub fn run(data: &[u8]) {
    let given = Given::of(data);
    given.with(|plan, task| check(data, plan, task, &given.present, &|path| given.file(path)));
}

/// A task of a step: its variables, what it is told of the user's, and what a step that is off takes away.
pub fn work(data: &[u8]) -> Work<'_> {
    let given = Given::of(data);
    Box::new(move || {
        given.with(|plan, task| {
            let read = |path: &str| given.file(path);
            black_box(plan.task(
                task,
                Evidence {
                    present: &given.present,
                    read: &read,
                },
            ));
            black_box(findings(plan, task, &given.present, &read));
            let names = plan.evidence_variables(&[]);
            let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
            black_box(libraries::withdrawal(&names, &given.present));
        });
    })
}

fn findings(
    plan: &Plan,
    task: &Task,
    present: &Present,
    read: libraries::ReadFile,
) -> Vec<Diagnostic> {
    lint(&Checked {
        present,
        topology: &plan.node,
        node: &plan.map,
        task,
        tasks: plan.step.tasks,
        words: &[],
        is_bound: true,
        fabric: plan.wish.admin.fabric,
        interfaces: &["eth0".to_string(), "ib0".to_string()],
        read,
    })
}

fn task(plan: &Plan, present: &Present, access: usize, id: usize) -> Task {
    let variables: BTreeMap<&'static str, String> = gpus::VARIABLES
        .into_iter()
        .filter_map(|name| Some((name, present.get(name)?.clone())))
        .collect();
    let kinds = [Access::Unknown, Access::Allowed, Access::Denied];
    let access = (0..plan.node.gpus.len()).map(|gpu| match access {
        0..=32 => Access::Unknown,
        _ => kinds[(access >> (gpu % 4)) % 3],
    });
    let cpus = plan.node.cpus();
    Task {
        local_id: (id % 4) as u32,
        global_id: (id % 8) as u32,
        gpus: GpuGrant {
            variables,
            access: access.collect(),
        },
        cpus: cpus.clone(),
        step_cpus: cpus,
        masks: cpu_bind::masks(|name| present.get(name).map(String::as_str)),
        gpu_bind: present.get("SLURMD_TRES_BIND").cloned(),
        memory: Memory::default(),
        ..Task::default()
    }
}

fn check(data: &[u8], plan: &Plan, task: &Task, present: &Present, read: libraries::ReadFile) {
    let mut placed = plan.task(task, Evidence { present, read });
    uses::tell(plan, &mut placed, present);
    keeps_to_the_rules(&placed, present);
    assert!(placed.placement.cpus.is_subset(&task.step_cpus));
    placed
        .lines("n1", "")
        .iter()
        .for_each(|line| held::tidy(line));
    placed
        .placement
        .notes
        .shortfalls
        .iter()
        .for_each(|text| held::tidy(text));
    if held::has_turn(data, 0, 2) {
        held::findings(&findings(plan, task, present, read));
    }
    if held::has_turn(data, 1, 2) {
        inside(plan, task, &placed, present, read);
    }
}

/// What a step inside the step makes of its variables.
fn inside(
    plan: &Plan,
    task: &Task,
    placed: &TaskPlan,
    present: &Present,
    read: libraries::ReadFile,
) {
    // a step inside this one, placed alike, changes nothing
    let inner = after(placed, present);
    let again = plan.task(
        task,
        Evidence {
            present: &inner,
            read,
        },
    );
    keeps_to_the_rules(&again, &inner);
    assert_eq!(
        after(&again, &inner),
        inner,
        "the same step inside a step sets other values"
    );
    // and one that is not placed takes our values away, and no other
    let names = plan.evidence_variables(&[]);
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let marker = marker(present);
    for variable in libraries::withdrawal(&names, &inner) {
        assert_eq!(variable.change, Change::Remove);
        let name = variable.name.as_ref();
        let ours = placed
            .variables
            .iter()
            .any(|set| set.name == name && matches!(set.change, Change::Set(_)));
        assert!(
            ours || is_ours(&marker, present, name) || name == marker::NAME,
            "`{name}` is the user's"
        );
    }
}

fn marker(present: &Present) -> Marker {
    Marker::parse(present.get(marker::NAME).map_or("", String::as_str), |_| {
        true
    })
}

fn is_ours(marker: &Marker, present: &Present, name: &str) -> bool {
    present
        .get(name)
        .is_some_and(|value| marker.is_ours(name, value))
}

fn keeps_to_the_rules(placed: &TaskPlan, present: &Present) {
    let marker = marker(present);
    for variable in &placed.variables {
        let name = variable.name.as_ref();
        held::tidy(&variable.why);
        let users = present.contains_key(name) && !is_ours(&marker, present, name);
        match &variable.change {
            Change::Set(value) => {
                assert!(!value.chars().any(char::is_control), "{name}={value:?}");
                assert!(
                    value.len() <= 128 * 1024,
                    "a value of {} bytes for `{name}`",
                    value.len()
                );
                let may = name == marker::NAME
                    && marker::is_published(&present.get(name).cloned().unwrap_or_default());
                assert!(!users || may, "`{name}` is the user's");
                assert!(names::is_name(name) && (name == marker::NAME || !names::is_refused(name)));
            }
            Change::Remove => assert!(!users, "`{name}` is the user's"),
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
