//! Five GPUs on four NUMA nodes of two sockets.  Slurm knows only the sockets, and there are no device cgroups.

use crate::machine::Machine;
use crate::{Case, cases};
use nic_placement_core::topology::CpuSet;
use std::collections::BTreeSet;

/// What is run in the guest.
pub const COMMANDS: &[(&str, &str)] = &[
    ("release", "srun --version"),
    ("bare", "srun -n4 -c2 --gpus-per-task=1 $task"),
    (
        "placed",
        "srun -n4 -c2 --gpus-per-task=1 --nic-placement=bind=numa $task",
    ),
    (
        "parts",
        "srun -n4 -c2 --gpus-per-task=1 --nic-placement $task",
    ),
    (
        "block.bare",
        "srun -n4 -c2 -m block:block --gpus-per-task=1 $task",
    ),
    (
        "block.placed",
        "srun -n4 -c2 -m block:block --gpus-per-task=1 --nic-placement=bind=numa $task",
    ),
    (
        "mem-bind.bare",
        "srun -n4 -c2 --gpus-per-task=1 --mem-bind=map_mem:3,2,1,0 $task",
    ),
    (
        "mem-bind.placed",
        "srun -n4 -c2 --gpus-per-task=1 --mem-bind=map_mem:3,2,1,0 --nic-placement=bind=numa $task",
    ),
    ("few-cores.bare", "srun -n5 --gpus-per-task=1 $task"),
    (
        "few-cores.placed",
        "srun -n5 --gpus-per-task=1 --nic-placement=verbose $task",
    ),
];

/// The steps that are printed.
pub const SHOWN: &[(&str, usize)] = &[
    ("bare", 4),
    ("placed", 4),
    ("parts", 4),
    ("block.bare", 4),
    ("block.placed", 4),
    ("few-cores.bare", 5),
    ("few-cores.placed", 5),
];

pub const CASES: &[Case] = cases![
    without_the_flag_tasks_and_pages_are_on_other_numa_nodes_than_their_gpu,
    with_the_flag_each_task_and_all_its_pages_are_on_one_of_four_numa_nodes,
    by_default_every_task_keeps_its_two_cpus,
    gpus_without_a_driver_are_told_by_the_vendors_list,
    an_explicit_mem_bind_is_one_of_four_nodes_and_stays,
    a_task_whose_step_has_no_core_near_its_gpu_stays_and_says_so,
];

fn without_the_flag_tasks_and_pages_are_on_other_numa_nodes_than_their_gpu(guest: &Machine) {
    // cyclic over the sockets, as Slurm deals by default, and block
    for (step, far) in [("bare", 2), ("block.bare", 3)] {
        let tasks = guest.tasks(step, 4);
        guest.assert_dealt(&tasks, far, 1);
        assert_eq!(
            guest.far(&tasks),
            guest.with_far_pages(&tasks),
            "{step}: memory is where a task runs"
        );
        assert!(tasks.iter().all(|task| task.word("policy") == "default"));
    }
}

fn with_the_flag_each_task_and_all_its_pages_are_on_one_of_four_numa_nodes(guest: &Machine) {
    for step in ["placed", "block.placed"] {
        for task in guest.tasks(step, 4) {
            let gpu = guest.gpu_of(&task);
            assert!(task.cpus().is_subset(&gpu.cpus), "{step}: {task:?}");
            assert_eq!(
                task.word("policy"),
                format!("preferred-many:{}", gpu.numa_node),
                "{step}: {task:?}"
            );
            assert_eq!(
                task.node_of_its_pages(),
                Some(gpu.numa_node),
                "{step}: {task:?}"
            );
            assert_eq!(task.word("mems"), "0-3", "preferred, not fenced");
        }
    }
}

fn by_default_every_task_keeps_its_two_cpus(guest: &Machine) {
    // two GPUs are on one NUMA node of two CPUs, so one task of two CPUs has no room there
    let tasks = guest.tasks("parts", 4);
    for (place, task) in tasks.iter().enumerate() {
        assert_eq!(task.cpus().len(), 2, "of {task:?}");
        let others = tasks.iter().skip(place + 1);
        others.for_each(|other| {
            assert!(
                !task.cpus().intersects(&other.cpus()),
                "{task:?} and {other:?}"
            )
        });
    }
    let crowded = guest.tasks("placed", 4);
    assert_eq!(
        crowded[0].cpus(),
        crowded[1].cpus(),
        "who asks for the NUMA node shares it: {crowded:?}"
    );
}

fn gpus_without_a_driver_are_told_by_the_vendors_list(guest: &Machine) {
    let tasks = guest.tasks("placed", 4);
    let lists: BTreeSet<&str> = tasks.iter().map(|task| guest.list_of(task)).collect();
    assert_eq!(lists.len(), 4, "each another GPU: {lists:?}");
    for task in &tasks {
        assert_eq!(task.open().len(), 5, "nothing is denied");
        let nics = guest.nearest_nics(guest.gpu_of(task));
        let ucx = task.ucx();
        // on that NUMA node there is no good NIC
        assert!(
            guest.gpu_of(task).numa_node == 1 || nics.iter().any(|nic| ucx == [nic]),
            "{nics:?}: {task:?}"
        );
    }
}

fn an_explicit_mem_bind_is_one_of_four_nodes_and_stays(guest: &Machine) {
    let (bare, placed) = (
        guest.tasks("mem-bind.bare", 4),
        guest.tasks("mem-bind.placed", 4),
    );
    for (node, (bare, task)) in (0..4).rev().zip(bare.iter().zip(&placed)) {
        assert_eq!(task.word("policy"), format!("bind:{node}"), "of {task:?}");
        assert_eq!(
            (task.node_of_its_pages(), bare.node_of_its_pages()),
            (Some(node), Some(node))
        );
    }
    guest.assert_dealt(&bare, 2, 1);
    assert!(
        placed
            .iter()
            .zip(&bare)
            .all(|(task, bare)| task.cpus() == bare.cpus()),
        "CPUs stay by the memory"
    );
}

fn a_task_whose_step_has_no_core_near_its_gpu_stays_and_says_so(guest: &Machine) {
    // five tasks get three cores, each a NUMA node's only one but for one node of four
    let (bare, placed) = (
        guest.tasks("few-cores.bare", 5),
        guest.tasks("few-cores.placed", 5),
    );
    let step = bare
        .iter()
        .fold(CpuSet::new(), |all, task| all.union(&task.cpus()));
    assert_eq!(step.len(), 6, "{step}");
    let said = guest.answer("few-cores.placed.stderr");
    let (mut near, mut left) = (0, 0);
    for (bare, task) in bare.iter().zip(&placed) {
        let gpu = guest.gpu_of(task);
        let told = said.contains(&format!(
            "the step has no CPU on NUMA node {}",
            gpu.numa_node
        ));
        if gpu.cpus.intersects(&step) {
            // a core holds one of two tasks with six CPUs for five each; the other stays
            assert!(
                (task.cpus() == gpu.cpus || task.cpus() == bare.cpus()) && !told,
                "of {task:?}"
            );
            if task.cpus() == gpu.cpus {
                assert_eq!(task.node_of_its_pages(), Some(gpu.numa_node), "of {task:?}");
                near += 1;
            }
        } else {
            assert_eq!(
                (task.cpus(), task.word("policy")),
                (bare.cpus(), "default"),
                "of {task:?}"
            );
            assert!(told, "{said}");
            left += 1;
        }
    }
    assert!(near >= 2, "{placed:?}");
    assert!(
        left > 0,
        "no GPU is on the NUMA node that was left out: {step}"
    );
}
