//! The rails of one task, and its notes, on a DGX H100.

use super::*;
use crate::placement::Policy;
use crate::plan::tests::{ALL, cpus, task_of};
use crate::policy;
use crate::wish::Through;

/// The task's placement, its rails with their paths, and the reasons that name a refusal.
fn placed(
    wish: &Wish,
    step: &Step,
    mut task: Task,
    denied: &[&str],
) -> (TaskPlacement, Vec<String>, Vec<String>) {
    let topology = nic_placement_node::platform::model("dgx-h100").unwrap();
    let map = policy::map(&topology, wish);
    let denied = denied.iter().filter_map(|name| topology.nic_index(name));
    task.denied_nics = denied.collect();
    let placed = placement(&topology, &map, wish, step, &task);
    let rails = placed.rails.iter();
    let rails = rails.map(|&(rail, path)| format!("{} {path}", map.rail(rail)));
    let refused = placed.notes.reasons.iter().cloned();
    let refused = refused.filter(|reason| reason.contains("denies"));
    let (rails, refused) = (rails.collect(), refused.collect());
    (placed, rails, refused)
}

const COMPUTE: [&str; 8] = [
    "mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11",
];

#[test]
fn a_task_that_may_not_open_its_nic_gets_the_next_best_one() {
    // GPUs | denied NICs | policy | rails | a part of each refusal
    for row in [
        "1   |               | closest | mlx5_3:1 PIX  |",
        // another's NIC is no loss
        "1   | mlx5_0        | closest | mlx5_3:1 PIX  |",
        "1   | mlx5_3        | closest | mlx5_0:1 NODE | mlx5_0:1 at NODE is the",
        "1,2 | mlx5_3        | closest | mlx5_0:1 NODE, mlx5_4:1 PIX | next best for GPU 1",
        "0   | all           | closest |               | mlx5_0:1 and every other NIC",
        // a task with several NICs keeps those that it may open
        "0   | mlx5_0 mlx5_4 | numa    | mlx5_3:1 NODE, mlx5_5:1 NODE | it mlx5_0:1 mlx5_4:1",
        // a NIC that is denied is told once however many GPUs it is near to
        "0,1 | mlx5_0 mlx5_3 | numa    | mlx5_4:1 NODE, mlx5_5:1 NODE | it mlx5_0:1 mlx5_3:1",
        // each of the two lacks another
        "0,1 | mlx5_0 mlx5_3 | closest | mlx5_4:1 NODE | for GPU 0; for GPU 1",
        // a NIC of several GPUs is named once at its nearest
        "0,1 |               | numa    | mlx5_0:1 PIX, mlx5_3:1 PIX, mlx5_4:1 NODE, mlx5_5:1 NODE |",
    ] {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [gpus, denied, policy, expected, parts] = cells.try_into().unwrap();
        let (denied, mut wish) = (denied.replace("all", &COMPUTE.join(" ")), Wish::default());
        let of_word = |(word, _): &&(&str, Policy)| *word == policy;
        wish.policy = Policy::ALL.iter().find(of_word).unwrap().1;
        let denied: Vec<&str> = denied.split(' ').collect();
        let (_, rails, refused) = placed(&wish, &Step::default(), task_of(gpus, ""), &denied);
        assert_eq!(rails.join(", "), expected, "{row}");
        let parts: Vec<&str> = parts.split("; ").filter(|part| !part.is_empty()).collect();
        assert_eq!(refused.len(), parts.len(), "{row}: {refused:?}");
        for (refusal, part) in refused.iter().zip(parts) {
            assert!(refusal.contains(part), "{row}: {refused:?}");
        }
    }
}

#[test]
fn the_admins_figures_for_paths_count_for_the_next_best_nic_too() {
    let (mut wish, mut through) = (Wish::default(), Through::default());
    through.set(PathType::Node, 400);
    through.set(PathType::Sys, 900);
    wish.admin.through = through;
    let (_, rails, _) = placed(&wish, &Step::default(), task_of("1", ""), &["mlx5_3"]);
    assert_eq!(rails, ["mlx5_6:1 SYS"], "`lets-through=NODE:40,SYS:90`");
}

/// A task of so many that see these GPUs, bound as Slurm does by default: one socket after the other.
fn seeing(gpus: &str, tasks: u32, local_id: u32, gpu_use: GpuUse) -> TaskPlacement {
    seeing_known(gpus, tasks, local_id, gpu_use, None)
}

/// The same; `known` are the task's GPUs where the caller worked them out before.
fn seeing_known(
    gpus: &str,
    tasks: u32,
    local_id: u32,
    gpu_use: GpuUse,
    known: Option<TaskGpus>,
) -> TaskPlacement {
    let step = with! { Step { tasks, gpus: Some(gpus.to_string()), cpus_per_task: Some(4) } };
    let mask = |id: u32| (0..4).map(move |cpu| 4 * (id / 2) + 56 * (id % 2) + cpu);
    let masks: Vec<CpuSet> = (0..tasks).map(|id| mask(id).collect()).collect();
    let task = with! { Task {
        local_id, cpus: masks[local_id as usize].clone(),
        step_cpus: (0..tasks).flat_map(mask).collect(), masks, known
    } ..task_of(gpus, "") };
    let mut wish = with! { Wish { gpu: gpu_use } };
    wish.admin.trust_topology = true;
    placed(&wish, &step, task, &[]).0
}

fn count(reasons: &[String], part: &str) -> usize {
    let reasons = reasons.iter();
    reasons.filter(|reason| reason.contains(part)).count()
}

#[test]
fn a_task_that_promises_to_use_the_gpu_of_the_local_id_is_placed_there() {
    for local_id in 0..8 {
        let task = seeing(ALL, 8, local_id, GpuUse::LocalId);
        assert_eq!(task.gpus, [GpuIndex(local_id as usize)]);
        assert_eq!(task.seen.len(), 8, "its program counts them all");
        assert_eq!(task.rails.len(), 1);
        assert_eq!(task.notes.missed, [""; 0]);
        let socket = cpus(["0-55", "56-111"][local_id as usize / 4]);
        assert!(task.cpus.is_subset(&socket), "{local_id}: {}", task.cpus);
        assert_eq!(task.cpus.len(), 4, "no poorer");
        assert_eq!(count(&task.notes.reasons[..1], "local id"), 1);
    }
    // one GPU needs no promise, and two tasks on it lack nothing
    for (gpus, tasks, local_id, seen) in [("3", 1, 0, 1), ("3", 2, 1, 1), ("2,3", 2, 1, 2)] {
        let task = seeing(gpus, tasks, local_id, GpuUse::LocalId);
        assert_eq!((task.gpus, task.seen.len()), (vec![GpuIndex(3)], seen));
        assert_eq!(task.notes.missed, [""; 0]);
    }
}

#[test]
fn without_a_promise_that_holds_a_task_has_the_nics_of_all() {
    let plain = seeing(ALL, 8, 3, GpuUse::Visible);
    let refused = seeing(ALL, 9, 3, GpuUse::LocalId);
    for task in [&plain, &refused] {
        assert_eq!((task.gpus.len(), task.rails.len()), (8, 8));
    }
    assert_eq!(plain.notes.missed, [""; 0]);
    let [missed] = &refused.notes.missed[..] else {
        panic!("{:?}", refused.notes.missed)
    };
    assert!(missed.starts_with("`gpu=local-id` does not hold: 9 tasks"));
    // GPU 4 is on the second socket, and the step has CPUs of the first alone
    for task in [refused, seeing("4", 1, 0, GpuUse::Visible)] {
        let (reasons, missed) = (task.notes.reasons, task.notes.missed);
        assert_eq!(count(&reasons, &missed.concat()), 1, "{reasons:?}");
    }
}

#[test]
fn the_word_is_told_only_to_tasks_that_it_would_help() {
    let rank = TaskGpus::new(vec![GpuIndex(0), GpuIndex(1)], "LOCAL_RANK=0");
    // a task alone uses both, three tasks cannot have two GPUs, and a rank said it already
    for (tasks, known, is_told) in rows! {
        2, None, true; 1, None, false; 3, None, false; 2, Some(rank), false;
    } {
        let task = seeing_known("0,1", tasks, 0, GpuUse::Visible, known);
        let told = count(&task.notes.reasons, "say `gpu=local-id`");
        assert_eq!(told == 1, is_told, "{tasks}: {:?}", task.notes.reasons);
    }
}

#[test]
fn the_choice_for_one_gpu_is_explained_and_that_for_several_counted() {
    for (gpus, start, sees, explains) in [("0", "GPU 0: ", 0, 1), ("0,1", "GPUs 0,1: ", 1, 0)] {
        let reasons = seeing(gpus, 1, 0, GpuUse::Visible).notes.reasons;
        assert!(reasons[0].starts_with(start), "{reasons:?}");
        assert_eq!(count(&reasons, "it sees 2 GPUs"), sees, "{reasons:?}");
        assert_eq!(count(&reasons[1..2], "mlx5_0:1"), explains, "{reasons:?}");
    }
}

#[test]
fn a_task_without_gpus_has_the_nics_of_the_node_on_which_it_runs_else_all_that_it_may_open() {
    for (denied, left, path, reason) in rows! {
        &[][..], &COMPUTE[..4], "NODE", "the NICs of NUMA node 0,";
        &COMPUTE[..1], &COMPUTE[1..4], "NODE", "the NICs of NUMA node 0,";
        &COMPUTE[..4], &COMPUTE[4..], "SYS", "no good NIC on a";
    } {
        let task = task_of("", "0-3");
        let (task, rails, _) = placed(&Wish::default(), &Step::default(), task, denied);
        let expected = left.iter().map(|name| format!("{name}:1 {path}"));
        assert_eq!(rails, expected.collect::<Vec<_>>(), "{denied:?}");
        let reasons = task.notes.reasons;
        assert!(reasons[1].starts_with(reason), "{reasons:?}");
    }
}

#[test]
fn the_admin_is_warned_of_denied_nics_that_jobs_use_and_of_no_others() {
    // a NIC for storage is no job's
    for (denied, start) in rows! {
        &[][..], None;
        &["mlx5_1"], None;
        &["mlx5_1", "mlx5_3", "mlx5_4"], Some("it may not open mlx5_3 mlx5_4: NCCL");
    } {
        let (task, ..) = placed(&Wish::default(), &Step::default(), task_of("", ""), denied);
        let (warning, reasons) = (task.notes.warning, task.notes.reasons);
        assert_eq!(warning.is_some(), start.is_some(), "{warning:?}");
        if let (Some(warning), Some(start)) = (warning, start) {
            assert!(warning.starts_with(start), "{warning}");
            assert_eq!(reasons.last(), Some(&warning), "the user is told too");
        }
    }
}
