//! Plans of known and of made machines, and what must hold for each plan.
#![forbid(unsafe_code)]

use super::built::{self, Bytes};
use super::held;
use nic_placement_core::config::{Admin, Words};
use nic_placement_core::libraries::{Evidence, FileText, Present};
use nic_placement_core::maps::Subject;
use nic_placement_core::plan::{Plan, TaskPlan, Wish};
use nic_placement_core::step::{Starter, Step};
use nic_placement_core::topology::{GpuIndex, Topology};
use nic_placement_formats::file;
use nic_placement_launch::formats::FORMATS;
use nic_placement_launch::step::{self, GpuSplit, StepRequest};
use nic_placement_node::platform;

/// Every policy, and what changes the solver's question.
const WORDS: [&str; 8] = [
    "closest,bind=core",
    "rail,bind=core",
    "spread,bind=core",
    "numa",
    "all",
    "closest,nics-per-task=2",
    "spread,nics-per-task=3,bind=core",
    "rail,nics-per-task=8,strict",
];

/// Small machines of all kinds.
const MODELS: [&str; 5] = ["gh200", "dgx-h100", "dgx-spark", "mi300x-8", "frontier"];

thread_local! {
    static KNOWN: Vec<Topology> = MODELS.iter().map(|name| platform::model(name).expect("a model")).collect();
}

pub fn no_file(_: &str) -> Option<FileText> {
    None
}

pub fn wish(words: &str, admin: Admin) -> Wish {
    let words = Words::parse(words).expect("words");
    Wish::new(admin, None, Some(&words))
}

/// The tasks of a step on one of the known machines.
pub fn for_tasks(admin: Admin, choice: usize, mut look: impl FnMut(&Plan, &TaskPlan)) {
    let model = KNOWN.with(|known| known[choice % known.len()].clone());
    each_task(
        model,
        Wish::new(admin, None, Some(&Words::default())),
        choice / MODELS.len(),
        &mut look,
    );
}

/// Places a task for each GPU, and calls `look` with each.  Under libFuzzer the turn says which of them.
pub fn each_task(node: Topology, wish: Wish, turn: usize, look: &mut dyn FnMut(&Plan, &TaskPlan)) {
    let request = StepRequest {
        starter: Starter::Slurm,
        gpus: node.gpu_indices().collect(),
        split: if node.gpus.is_empty() {
            GpuSplit::All
        } else {
            GpuSplit::Each(1)
        },
        tasks: None,
        cpus_per_task: None,
        cpus: node.cpus(),
        alone_on_node: true,
    };
    let (step, tasks) = request.step(&node).expect("a step");
    let plan = Plan::new(node, wish, step, &no_file);
    holds(&plan);
    let present = Present::new();
    for (nth, task) in tasks.iter().take(16).enumerate() {
        // each costs as much as the node's map
        if cfg!(fuzzing) && nth % 4 != turn % tasks.len().clamp(1, 4) {
            continue;
        }
        let placed = plan.task(
            task,
            Evidence {
                present: &present,
                read: &no_file,
            },
        );
        assert!(
            placed.placement.cpus.is_subset(&task.step_cpus),
            "no CPU that Slurm did not give"
        );
        assert!(
            placed
                .placement
                .rails
                .iter()
                .all(|(rail, _)| rail.0 < plan.map.rails.len())
        );
        placed
            .placement
            .notes
            .reasons
            .iter()
            .for_each(|reason| held::tidy(reason));
        look(&plan, &placed);
    }
}

/// What holds for every map.
pub fn holds(plan: &Plan) {
    let Plan { node, map, .. } = plan;
    assert_eq!(map.gpus.len(), node.gpus.len(), "an answer for each GPU");
    held::findings(&plan.diagnostics());
    let mut users = vec![0; map.rails.len()];
    for gpu in &map.gpus {
        for (nth, choice) in gpu.choices.iter().enumerate() {
            assert!(choice.rail.0 < map.rails.len());
            assert!(
                gpu.choices[..nth]
                    .iter()
                    .all(|other| other.rail != choice.rail),
                "a rail twice"
            );
            users[choice.rail.0] += 1;
        }
        held::tidy(&gpu.reason);
    }
    for choice in map.gpus.iter().flat_map(|gpu| &gpu.choices) {
        assert_eq!(choice.users, users[choice.rail.0], "how many share a rail");
    }
    if !map.rails.is_empty() && plan.wish.policy.to_string() == "closest" {
        let is_served = |gpu: &nic_placement_core::placement::GpuPlacement| !gpu.choices.is_empty();
        assert!(
            map.gpus.iter().all(is_served),
            "a GPU without a NIC on a node that has one"
        );
    }
}

/// The bytes' machine, and the words that ask for it.
pub fn asked(data: &[u8]) -> (Topology, &'static str) {
    let mut bytes = Bytes::new(data);
    let words = WORDS[usize::from(bytes.next()) % WORDS.len()];
    (built::topology(&mut bytes), words)
}

/// The bytes' machine under one of the policies.
pub fn solver(data: &[u8]) {
    let (node, words) = asked(data);
    let step = Step {
        tasks: 1,
        total_tasks: 1,
        alone_on_node: true,
        ..Step::default()
    };
    let make = || {
        Plan::new(
            node.clone(),
            wish(words, Admin::default()),
            step.clone(),
            &no_file,
        )
    };
    let plan = make();
    holds(&plan);
    if data.len() < 64 && held::has_turn(data, 0, 8) {
        assert_eq!(plan.map, make().map, "the same answer twice");
    }
    if held::has_turn(data, 1, 8) {
        let text = file::to_json(&node);
        let again =
            file::from_json(&text, node.provenance.clone()).expect("a made machine is consistent");
        assert_eq!(again, node);
    }
}

/// The maps of the bytes' machine, for some of its GPUs.
pub fn maps(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let chosen = bytes.next();
    let node = built::topology(&mut bytes);
    let gpus: Vec<GpuIndex> = node
        .gpu_indices()
        .filter(|gpu| chosen >> (gpu.0 % 8) & 1 == 0)
        .collect();
    if gpus.is_empty() {
        return;
    }
    let (word, write, _) = FORMATS[usize::from(chosen) % FORMATS.len()];
    let step = step::for_engines(&node, &gpus);
    let plan = Plan::new(node, wish("closest", Admin::default()), step, &no_file);
    holds(&plan);
    let subject = Subject {
        topology: &plan.node,
        node: &plan.map,
        gpus: &gpus,
    };
    let written = write(subject);
    if held::has_turn(data, 0, 4) {
        assert_eq!(written, write(subject), "the same answer twice");
    }
    match written {
        Ok(text) => {
            text.lines().for_each(held::tidy);
            assert!(text.ends_with('\n'));
            if word != "vllm" {
                let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
                assert!(value.is_object());
            }
        }
        Err(why) => held::message(&why.to_string()),
    }
}
