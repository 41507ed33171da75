//! The rails of one task, and what it is told, on a DGX H100.

use super::*;
use crate::placement::Policy;
use crate::policy;
use crate::topology::CpuSet;
use crate::wish::{Admin, Through};

/// The rails of a task with these GPUs of a DGX H100, and the reasons that name a refusal.
fn placed(gpus: &str, denied: &[&str], policy: Policy) -> (Vec<String>, Vec<String>) {
    placed_through(gpus, denied, policy, Through::default())
}

/// The same with the admin's figures for what paths let through.
fn placed_through(
    gpus: &str,
    denied: &[&str],
    policy: Policy,
    through: Through,
) -> (Vec<String>, Vec<String>) {
    let topology = nic_placement_node::platform::model("dgx-h100").unwrap();
    let wish = Wish {
        policy,
        admin: Admin {
            through,
            ..Admin::default()
        },
        ..Wish::default()
    };
    let node = policy::map(&topology, &wish);
    let denied_nics = denied
        .iter()
        .filter_map(|name| topology.nic_index(name))
        .collect();
    let mut task = Task {
        denied_nics,
        ..Task::default()
    };
    task.gpus
        .variables
        .insert("CUDA_VISIBLE_DEVICES", gpus.to_string());
    let task = placement(&topology, &node, &wish, &Step::default(), &task);
    let rails = task
        .rails
        .iter()
        .map(|&(rail, path)| format!("{} {path}", node.rail(rail)));
    let refusals = task
        .notes
        .reasons
        .into_iter()
        .filter(|reason| reason.contains("denies"));
    (rails.collect(), refusals.collect())
}

#[test]
fn a_task_that_may_not_open_its_nic_gets_the_next_best_one() {
    assert_eq!(
        placed("1", &[], Policy::Closest),
        (vec!["mlx5_3:1 PIX".to_string()], vec![])
    );
    assert_eq!(
        placed("1", &["mlx5_0"], Policy::Closest).0,
        ["mlx5_3:1 PIX"],
        "another's NIC is no loss"
    );
    let (rails, reasons) = placed("1", &["mlx5_3"], Policy::Closest);
    assert_eq!(rails, ["mlx5_0:1 NODE"]);
    assert_eq!(
        reasons,
        ["its device cgroup denies it mlx5_3:1, and mlx5_0:1 at NODE is the next best for GPU 1"]
    );
    assert_eq!(
        placed("1,2", &["mlx5_3"], Policy::Closest).0,
        ["mlx5_0:1 NODE", "mlx5_4:1 PIX"]
    );
}

#[test]
fn what_the_admin_says_of_paths_counts_for_the_next_best_nic_too() {
    let mut through = Through::default();
    through.set(PathType::Node, 400);
    through.set(PathType::Sys, 900);
    let (rails, _) = placed_through("1", &["mlx5_3"], Policy::Closest, through);
    assert_eq!(rails, ["mlx5_6:1 SYS"], "`lets-through=NODE:40,SYS:90`");
}

#[test]
fn a_task_with_several_nics_keeps_those_that_it_may_open() {
    let (rails, reasons) = placed("0", &["mlx5_0", "mlx5_4"], Policy::Numa);
    assert_eq!(rails, ["mlx5_3:1 NODE", "mlx5_5:1 NODE"]);
    assert_eq!(reasons, ["its device cgroup denies it mlx5_0:1 mlx5_4:1"]);
}

#[test]
fn a_nic_that_is_denied_is_told_once_however_many_gpus_it_is_near_to() {
    let (rails, reasons) = placed("0,1", &["mlx5_0", "mlx5_3"], Policy::Numa);
    assert_eq!(rails, ["mlx5_4:1 NODE", "mlx5_5:1 NODE"]);
    assert_eq!(reasons, ["its device cgroup denies it mlx5_0:1 mlx5_3:1"]);
    let (_, reasons) = placed("0,1", &["mlx5_0", "mlx5_3"], Policy::Closest);
    assert_eq!(
        reasons.len(),
        2,
        "each of the two lacks another: {reasons:?}"
    );
}

/// Eight tasks that all see a DGX H100's eight GPUs: of each its GPUs, rails and what it missed, and its reasons.
fn promised(tasks: u32, local_id: u32, gpu_use: GpuUse) -> TaskPlacement {
    seeing("0,1,2,3,4,5,6,7", tasks, local_id, gpu_use, None)
}

/// The same for tasks that see these GPUs; `known` holds the task's GPUs where the caller worked them out before.
fn seeing(
    gpus: &str,
    tasks: u32,
    local_id: u32,
    gpu_use: GpuUse,
    known: Option<TaskGpus>,
) -> TaskPlacement {
    let topology = nic_placement_node::platform::model("dgx-h100").unwrap();
    let node = policy::map(&topology, &Wish::default());
    let step = Step {
        tasks,
        gpus: Some(gpus.to_string()),
        cpus_per_task: Some(4),
        ..Step::default()
    };
    // as Slurm binds them by default: one socket after the other
    let mask = |id: u32| {
        (0..4)
            .map(|cpu| 4 * (id / 2) + 56 * (id % 2) + cpu)
            .collect::<CpuSet>()
    };
    let masks: Vec<_> = (0..tasks).map(mask).collect();
    let step_cpus = masks.iter().fold(CpuSet::new(), |all, one| all.union(one));
    let mut task = Task {
        local_id,
        cpus: mask(local_id),
        step_cpus,
        masks,
        known,
        ..Task::default()
    };
    task.gpus
        .variables
        .insert("CUDA_VISIBLE_DEVICES", gpus.to_string());
    let wish = Wish {
        gpu: gpu_use,
        admin: Admin {
            trust_topology: true,
            ..Admin::default()
        },
        ..Wish::default()
    };
    placement(&topology, &node, &wish, &step, &task)
}

#[test]
fn who_promises_to_use_the_gpu_of_the_local_id_is_placed_there() {
    for local_id in 0..8 {
        let task = promised(8, local_id, GpuUse::LocalId);
        assert_eq!(task.gpus, [GpuIndex(local_id as usize)]);
        assert_eq!(task.seen.len(), 8, "its program counts them all");
        assert_eq!(task.rails.len(), 1);
        assert_eq!(task.notes.missed, [""; 0]);
        let socket: CpuSet = if local_id < 4 {
            (0..56).collect()
        } else {
            (56..112).collect()
        };
        assert!(task.cpus.is_subset(&socket), "{local_id}: {}", task.cpus);
        assert_eq!(task.cpus.len(), 4, "no poorer");
        assert!(
            task.notes.reasons[0].contains("local id"),
            "{:?}",
            task.notes.reasons
        );
    }
}

#[test]
fn without_the_promise_a_task_has_the_nics_of_all_and_is_told_of_the_word() {
    let task = promised(8, 3, GpuUse::Visible);
    assert_eq!((task.gpus.len(), task.rails.len()), (8, 8));
    assert!(
        task.notes
            .reasons
            .iter()
            .any(|reason| reason.ends_with("say `gpu=local-id`")),
        "{:?}",
        task.notes.reasons
    );
}

#[test]
fn a_promise_that_cannot_hold_changes_nothing_and_is_told() {
    let task = promised(9, 3, GpuUse::LocalId);
    assert_eq!((task.gpus.len(), task.rails.len()), (8, 8));
    let missed = task.notes.missed.concat();
    assert!(
        missed.starts_with("`gpu=local-id` does not hold: 9 tasks are more than"),
        "{missed}"
    );
}

#[test]
fn a_task_that_may_open_no_nic_gets_none() {
    let all = [
        "mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11",
    ];
    let (rails, reasons) = placed("0", &all, Policy::Closest);
    assert_eq!(rails, Vec::<String>::new());
    assert_eq!(
        reasons,
        ["its device cgroup denies it mlx5_0:1 and every other NIC that may be chosen"]
    );
}

#[test]
fn who_sees_one_gpu_needs_no_promise_and_who_sees_two_uses_his_own() {
    let one = seeing("3", 1, 0, GpuUse::LocalId, None);
    assert_eq!((one.gpus, one.notes.missed), (vec![GpuIndex(3)], vec![]));
    let shared = seeing("3", 2, 1, GpuUse::LocalId, None);
    assert_eq!(
        (shared.gpus, shared.notes.missed),
        (vec![GpuIndex(3)], vec![]),
        "two tasks on one GPU lack nothing"
    );
    let two = seeing("2,3", 2, 1, GpuUse::LocalId, None);
    assert_eq!(
        (two.gpus, two.seen.len(), two.notes.missed),
        (vec![GpuIndex(3)], 2, vec![])
    );
}

#[test]
fn the_word_is_told_only_to_whom_it_would_help() {
    let told = |task: TaskPlacement| {
        task.notes
            .reasons
            .iter()
            .any(|reason| reason.contains("gpu=local-id"))
    };
    assert!(told(seeing("0,1", 2, 0, GpuUse::Visible, None)));
    assert!(
        !told(seeing("0,1", 1, 0, GpuUse::Visible, None)),
        "a task alone uses both"
    );
    assert!(
        !told(seeing("0,1", 3, 0, GpuUse::Visible, None)),
        "three tasks cannot have two GPUs"
    );
    let known = TaskGpus::new(vec![GpuIndex(0), GpuIndex(1)], "LOCAL_RANK=0");
    assert!(
        !told(seeing("0,1", 2, 0, GpuUse::Visible, Some(known))),
        "its rank said it already"
    );
}

#[test]
fn what_is_missed_is_told_once() {
    // GPU 4 is on the second socket, and the step has CPUs of the first alone
    let far = seeing("4", 1, 0, GpuUse::Visible, None);
    let missed = far.notes.missed.concat();
    let times = |reasons: &[String], what: &str| {
        reasons
            .iter()
            .filter(|reason| reason.contains(what))
            .count()
    };
    assert_eq!(
        times(&far.notes.reasons, &missed),
        1,
        "{:?}",
        far.notes.reasons
    );
    let refused = promised(9, 3, GpuUse::LocalId);
    assert_eq!(
        times(&refused.notes.reasons, &refused.notes.missed.concat()),
        1,
        "{:?}",
        refused.notes.reasons
    );
}

#[test]
fn a_nic_of_several_gpus_is_named_once_at_its_nearest() {
    let rails = [
        "mlx5_0:1 PIX",
        "mlx5_3:1 PIX",
        "mlx5_4:1 NODE",
        "mlx5_5:1 NODE",
    ];
    assert_eq!(placed("0,1", &[], Policy::Numa).0, rails);
    let reasons = seeing("0,1", 1, 0, GpuUse::Visible, None).notes.reasons;
    assert!(reasons[0].starts_with("GPUs 0,1: "), "{reasons:?}");
    assert!(
        reasons
            .iter()
            .any(|reason| reason.starts_with("it sees 2 GPUs")),
        "{reasons:?}"
    );
    let one = seeing("0", 1, 0, GpuUse::Visible, None).notes.reasons;
    assert!(
        one[0].starts_with("GPU 0: ") && !one.iter().any(|reason| reason.starts_with("it sees")),
        "{one:?}"
    );
    let why = "mlx5_0:1";
    assert!(
        one[1].contains(why) && !reasons[1].contains(why),
        "the choice for one GPU is explained: {one:?}"
    );
}

/// The rails of a task without GPUs on these CPUs, and what is said of them.
fn without_gpus(cpus: &str, denied: &[&str]) -> (Vec<String>, String) {
    let topology = nic_placement_node::platform::model("dgx-h100").unwrap();
    let node = policy::map(&topology, &Wish::default());
    let denied_nics = denied
        .iter()
        .filter_map(|name| topology.nic_index(name))
        .collect();
    let task = Task {
        denied_nics,
        cpus: CpuSet::from_list(cpus).unwrap(),
        ..Task::default()
    };
    let task = placement(&topology, &node, &Wish::default(), &Step::default(), &task);
    let rails = task
        .rails
        .iter()
        .map(|&(rail, path)| format!("{} {path}", node.rail(rail)))
        .collect();
    (rails, task.notes.reasons[1].clone())
}

#[test]
fn a_task_without_gpus_has_the_nics_of_the_node_on_which_it_runs_else_all_that_it_may_open() {
    let first = ["mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5"];
    let here = "the NICs of NUMA node 0, on which it runs".to_string();
    let names = |names: &[&str], path| {
        names
            .iter()
            .map(|name| format!("{name}:1 {path}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        without_gpus("0-3", &[]),
        (names(&first, "NODE"), here.clone())
    );
    assert_eq!(
        without_gpus("0-3", &["mlx5_3"]),
        (names(&["mlx5_0", "mlx5_4", "mlx5_5"], "NODE"), here)
    );
    let nowhere = "no good NIC on a NUMA node on which it runs: all of the node".to_string();
    let second = ["mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"];
    assert_eq!(
        without_gpus("0-3", &first),
        (names(&second, "SYS"), nowhere)
    );
}

#[test]
fn the_admin_is_warned_of_denied_nics_that_jobs_use_and_of_no_others() {
    let topology = nic_placement_node::platform::model("dgx-h100").unwrap();
    let node = policy::map(&topology, &Wish::default());
    let warning = |denied: &[&str]| {
        let denied_nics = denied
            .iter()
            .filter_map(|name| topology.nic_index(name))
            .collect();
        let task = Task {
            denied_nics,
            ..Task::default()
        };
        let wish = Wish::default();
        let notes = placement(&topology, &node, &wish, &Step::default(), &task).notes;
        if let Some(warning) = &notes.warning {
            assert_eq!(notes.reasons.last(), Some(warning), "the user is told too");
        }
        notes.warning
    };
    assert_eq!(warning(&[]), None);
    assert_eq!(warning(&["mlx5_1"]), None, "a NIC for storage is no job's");
    let told = warning(&["mlx5_1", "mlx5_3", "mlx5_4"]).unwrap();
    assert!(
        told.starts_with("it may not open mlx5_3 mlx5_4: NCCL"),
        "{told}"
    );
}
