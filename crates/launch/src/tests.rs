//! The words of a launcher on a step, and the answers to it.

use super::{answers, step};
use nic_placement_core::config::{Admin, Words};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::gpus;
use nic_placement_core::libraries::{Evidence, FileText, Present};
use nic_placement_core::placement::{Policy, Strictness};
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::policy::Pattern;
use nic_placement_core::step::{Starter, Step, Task};
use nic_placement_core::topology::{CpuSet, GpuIndex};
use nic_placement_node::platform;

#[test]
fn an_explanation_says_of_each_gpu_whether_a_strict_word_would_fail_its_task() {
    // it has a NIC, or no word asked for one
    for (words, without_nics, fails) in [
        ("strict", true, true),
        ("strict", false, false),
        ("closest", true, false),
    ] {
        let topology = platform::model("dgx-h100").unwrap();
        let mut wish = step::wish(Some(words), Admin::default()).unwrap();
        if without_nics {
            let names = topology.nics.iter();
            let names = names.map(|nic| Pattern::parse(&nic.name).unwrap());
            wish.admin.selection.exclude = names.collect();
        }
        let plan = Plan::new(topology, wish, Step::default(), &|_| None);
        let explained = answers::explanation(&plan, &[GpuIndex(0)]);
        assert_eq!(explained.contains("\"fails\": true"), fails, "{words}");
    }
}

#[test]
fn words_that_ask_for_no_placement_plan_nothing() {
    for words in ["observe", "help", "verbose", "dry-run", "rail,verbose"] {
        let found = step::wish(Some(words), Admin::default());
        assert!(found.unwrap_err().starts_with("plans nothing: "), "{words}");
    }
    let wish = step::wish(Some("rail,strict"), Admin::default()).unwrap();
    let found = (wish.policy, wish.strictness);
    assert_eq!(found, (Policy::Rail, Strictness::Strict));
}

#[test]
fn a_launcher_is_told_of_a_task_as_the_plan_holds_it() {
    let words = Words::parse("env=ucx").unwrap();
    let wish = Wish::new(Admin::default(), None, Some(&words));
    let task = Task {
        global_id: 5,
        ..task_with("0")
    };
    let marked = "v1 policy=closest gpus= nics= set:NCCL_IB_HCA==mlx5_9:1";
    let marker = format!("NIC_PLACEMENT={marked}");
    let present = present([&*marker, "NCCL_IB_HCA==mlx5_9:1"]);
    let read = |path: &str| (path == "/proc/net/route").then(FileText::default);
    let topology = platform::model("dgx-h100").unwrap();
    let plan = Plan::new(topology, wish, Step::default(), &read);
    let evidence = Evidence {
        present: &present,
        read: &read,
    };
    let task = plan.task(&task, evidence);
    let json = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
    let environment = json(answers::environment(&task));
    assert_eq!(environment["task"], 5);
    assert_eq!(environment["set"]["UCX_NET_DEVICES"], "mlx5_0:1");
    assert_eq!(environment["unset"], serde_json::json!(["NCCL_IB_HCA"]));
    let why = environment["reasons"]["UCX_NET_DEVICES"].as_str().unwrap();
    assert!(!why.is_empty());
    let told = Diagnostic::new("x", "y");
    let alone = json(answers::task(&plan, &task, &[], &[told]));
    assert_eq!(alone["format"], "nic-placement task");
    let subject = (&alone["machine"], &alone["policy"]);
    assert_eq!(subject, (&"dgx-h100".into(), &"closest".into()));
    assert_eq!(alone["diagnostics"], serde_json::json!(["`x`: y"]));
}

#[test]
fn a_stated_step_has_the_gpus_and_the_tasks_of_its_request_and_that_of_an_engine_the_node_alone() {
    let topology = platform::model("dgx-h100").unwrap();
    let gpus: Vec<GpuIndex> = [4, 5, 0, 1].map(GpuIndex).to_vec();
    let request = |split| step::StepRequest {
        starter: Starter::default(),
        gpus: gpus.clone(),
        split,
        tasks: None,
        cpus_per_task: Some(3),
        cpus: CpuSet::from_list("0-7").unwrap(),
        alone_on_node: true,
    };
    let (step, tasks) = request(step::GpuSplit::Each(2)).step(&topology).unwrap();
    assert_eq!((step.tasks, step.total_tasks), (2, 2));
    let said = (step.gpus.as_deref(), step.cpus_per_task);
    assert_eq!(said, (Some("4,5,0,1"), Some(3)));
    assert!(step.alone_on_node);
    for (task, (id, gpus)) in tasks.iter().zip([(0, "4,5"), (1, "0,1")]) {
        assert_eq!((task.local_id, task.global_id), (id, id));
        assert_eq!(task.gpus.variables["CUDA_VISIBLE_DEVICES"], gpus);
        let cpus = request(step::GpuSplit::All).cpus;
        assert_eq!([&task.cpus, &task.step_cpus], [&cpus; 2]);
        let bind = task.gpu_bind.as_deref();
        assert_eq!((bind, &task.known), (Some("gpu:per_task:2"), &None));
    }
    let listed = |lists: &[&[usize]]| {
        let gpus = |list: &&[usize]| list.iter().copied().map(GpuIndex).collect();
        let lists = lists.iter().map(gpus).collect();
        let request = request(step::GpuSplit::Listed(lists));
        let tasks = request.step(&topology).unwrap().1.into_iter();
        tasks.map(|task| task.known.unwrap()).collect::<Vec<_>>()
    };
    let own = listed(&[&[4, 5], &[0]]);
    assert_eq!(own[0].own, [GpuIndex(4), GpuIndex(5)]);
    assert_eq!(own[1].by_local_id, Some(vec![GpuIndex(4), GpuIndex(0)]));
    // two have one GPU; on two NUMA nodes
    for lists in [[&[4, 5][..], &[5]], [&[3, 4], &[0]]] {
        assert_eq!(listed(&lists)[0].by_local_id, None, "{lists:?}");
    }
    assert_eq!(listed(&[&[], &[0]])[0].reason, "its launcher gives it none");
    let step = step::for_engines(&topology, &[0, 1, 4].map(GpuIndex));
    let tasks = (step.tasks, step.total_tasks, step.alone_on_node);
    assert_eq!((tasks, step.gpus.as_deref()), ((3, 3, true), Some("0,1,4")));
}

// a number in Intel's list is a stack's without a word on it, and in AMD's the compute driver's
#[test]
fn a_grant_of_any_gpu_of_a_built_in_machine_is_of_that_gpu_alone() {
    for model in platform::MODELS {
        let topology = model.topology().unwrap();
        for gpu in topology.gpu_indices() {
            let grant = step::grant(&topology, &[gpu]);
            let found = gpus::identify(&topology, &Step::default(), &grant);
            assert_eq!(found.own, [gpu], "{}: {}", model.name, found.reason);
        }
    }
}

/// The variables of `NAME=VALUE`.
pub(crate) fn present<'a>(values: impl IntoIterator<Item = &'a str>) -> Present {
    let pairs = values.into_iter().filter_map(|of| of.split_once('='));
    let owned = pairs.map(|(name, value)| (name.to_string(), value.to_string()));
    owned.collect()
}

/// A task on CPUs 0 to 3 with these GPUs.
pub(crate) fn task_with(gpus: &str) -> Task {
    let mut task = Task {
        cpus: CpuSet::from_list("0-3").unwrap(),
        ..Task::default()
    };
    let variables = &mut task.gpus.variables;
    variables.insert("CUDA_VISIBLE_DEVICES", gpus.to_string());
    task
}

/// The cells of a row of text.
pub(crate) fn cells<const N: usize>(row: &str) -> [&str; N] {
    let cells: Vec<&str> = row.split(" | ").collect();
    cells.try_into().unwrap()
}
