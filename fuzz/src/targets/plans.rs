//! Plans of a node that an input describes, and the rules of each plan.
#![forbid(unsafe_code)]

use super::held;
use nic_placement_core::config::{Admin, Words};
use nic_placement_core::libraries::{Evidence, FileText, Present};
use nic_placement_core::placement::Change;
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::step::Starter;
use nic_placement_core::topology::Topology;
use nic_placement_launch::step::{GpuSplit, StepRequest};

const WORDS: [&str; 5] = ["closest", "spread,bind=core", "rail", "numa", "all"];

pub fn no_file(_: &str) -> Option<FileText> {
    None
}

pub fn wish(words: &str, admin: Admin) -> Wish {
    let words = Words::parse(words).expect("words");
    Wish::new(admin, None, Some(&words))
}

/// The node under the policy that its counts choose.
pub fn of(node: &Topology) {
    let choice = node.gpus.len() + node.nics.len();
    each_task(node, wish(WORDS[choice % WORDS.len()], Admin::default()));
}

/// Places a task for each GPU, and looks at four of them.
pub fn each_task(node: &Topology, wish: Wish) {
    let request = StepRequest {
        starter: Starter::Slurm,
        gpus: node.gpu_indices().collect(),
        split: match node.gpus.len() {
            0 => GpuSplit::All,
            _ => GpuSplit::Each(1),
        },
        tasks: None,
        cpus_per_task: None,
        cpus: node.cpus(),
        alone_on_node: true,
    };
    let (step, tasks) = request.step(node).expect("a step");
    let plan = Plan::new(node.clone(), wish, step, &no_file);
    holds(&plan);
    let present = Present::new();
    let evidence = Evidence {
        present: &present,
        read: &no_file,
    };
    for task in tasks.iter().step_by(tasks.len().div_ceil(4).max(1)) {
        let placed = plan.task(task, evidence);
        let of = &placed.placement;
        assert!(of.cpus.is_subset(&task.step_cpus), "a CPU of another's");
        let rails = plan.map.rails.len();
        assert!(of.rails.iter().all(|(rail, _)| rail.0 < rails));
        of.notes.reasons.iter().for_each(|text| held::tidy(text));
        for variable in &placed.variables {
            if let Change::Set(value) = &variable.change {
                assert!(value.len() <= 64 * KIB && !value.chars().any(char::is_control));
            }
        }
        let lines = placed.lines(&plan.node.name, "");
        lines.iter().for_each(|line| held::tidy(line));
    }
}

const KIB: usize = 1024;

/// Rules of every map.
fn holds(plan: &Plan) {
    let Plan { node, map, .. } = plan;
    assert_eq!(map.gpus.len(), node.gpus.len(), "an answer for each GPU");
    held::findings(&plan.diagnostics());
    let mut users = vec![0; map.rails.len()];
    for gpu in &map.gpus {
        held::tidy(&gpu.reason);
        for (nth, choice) in gpu.choices.iter().enumerate() {
            let before = &gpu.choices[..nth];
            assert!(before.iter().all(|other| other.rail != choice.rail));
            users[choice.rail.0] += 1;
        }
    }
    for choice in map.gpus.iter().flat_map(|gpu| &gpu.choices) {
        assert_eq!(choice.users, users[choice.rail.0], "sharing of a rail");
    }
    if !map.rails.is_empty() && plan.wish.policy.to_string() == "closest" {
        let mut choices = map.gpus.iter().map(|gpu| &gpu.choices);
        assert!(choices.all(|choices| !choices.is_empty()), "no NIC");
    }
}
