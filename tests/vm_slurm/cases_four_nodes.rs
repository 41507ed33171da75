//! Five GPUs on four NUMA nodes of two sockets.  Slurm knows only the sockets, and there are no device cgroups.

use crate::Case;
use crate::cases_dgx::assert_dealt;
use crate::guest::Guest;
use crate::guest::cases::cases;
use crate::guest::task::{Set, Task, all, each};
use std::collections::BTreeSet;

/// The lines that are run in the guest.
pub const COMMANDS: &str = "\
release srun --version
bare srun -n4 -c2 --gpus-per-task=1 $task
placed srun -n4 -c2 --gpus-per-task=1 --nic-placement=bind=numa $task
parts srun -n4 -c2 --gpus-per-task=1 --nic-placement $task
block.bare srun -n4 -c2 -m block:block --gpus-per-task=1 $task
block.placed srun -n4 -c2 -m block:block --gpus-per-task=1 --nic-placement=bind=numa $task
mem-bind.bare srun -n4 -c2 --gpus-per-task=1 --mem-bind=map_mem:3,2,1,0 $task
mem-bind.placed srun -n4 -c2 --gpus-per-task=1 --mem-bind=map_mem:3,2,1,0 --nic-placement=bind=numa $task
few-cores.bare srun -n5 --gpus-per-task=1 $task
few-cores.placed srun -n5 --gpus-per-task=1 --nic-placement=verbose $task
";

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

fn without_the_flag_tasks_and_pages_are_on_other_numa_nodes_than_their_gpu(guest: &Guest) {
    // cyclic over the sockets, as Slurm deals by default, and block
    for (step, far) in [("bare", 2), ("block.bare", 3)] {
        let tasks = guest.tasks(step, 4);
        assert_dealt(guest, &tasks, far, 1);
        assert_eq!(guest.far(&tasks), guest.with_far_pages(&tasks), "{step}");
        all(&tasks, |task| task.mem() == "default");
    }
}

fn with_the_flag_each_task_and_all_its_pages_are_on_one_of_four_numa_nodes(guest: &Guest) {
    for step in ["placed", "block.placed"] {
        // preferred, not fenced
        let is_so = |task: &Task| guest.is_near(task) && task.word("mems") == "0-3";
        all(&guest.tasks(step, 4), is_so);
    }
}

fn by_default_every_task_keeps_its_two_cpus(guest: &Guest) {
    // two GPUs are on one NUMA node of two CPUs, so one task of two CPUs has no room there
    let tasks = guest.tasks("parts", 4);
    all(&tasks, |task| task.cpus().len() == 2);
    let cpus: Set = tasks.iter().flat_map(Task::cpus).collect();
    assert_eq!(cpus.len(), 8, "{tasks:?}");
    // those that ask for the NUMA node share it
    let crowded = guest.tasks("placed", 4);
    assert_eq!(crowded[0].cpus(), crowded[1].cpus());
}

fn gpus_without_a_driver_are_told_by_the_vendors_list(guest: &Guest) {
    let tasks = guest.tasks("placed", 4);
    let lists: BTreeSet<&str> = tasks.iter().map(|task| guest.list_of(task)).collect();
    assert_eq!(lists.len(), 4, "{lists:?}");
    all(&tasks, |task| {
        let gpu = guest.gpu_of(task);
        let is_nearest = guest
            .nearest_nics(gpu)
            .iter()
            .any(|nic| task.ucx() == [nic]);
        // nothing is denied; on that NUMA node there is no good NIC
        task.open().len() == 5 && (gpu.numa_node == 1 || is_nearest)
    });
}

fn an_explicit_mem_bind_is_one_of_four_nodes_and_stays(guest: &Guest) {
    let [bare, placed] = ["bare", "placed"].map(|way| guest.tasks(&format!("mem-bind.{way}"), 4));
    each(&bare, &placed, |bare, task| {
        let node = 3 - task.local();
        task.mem() == format!("bind:{node}")
            && [task.node_of_its_pages(), bare.node_of_its_pages()] == [Some(node); 2]
            && task.cpus() == bare.cpus()
    });
    assert_dealt(guest, &bare, 2, 1);
}

fn a_task_whose_step_has_no_core_near_its_gpu_stays_and_says_so(guest: &Guest) {
    // five tasks get three cores, each a NUMA node's only one but for one node of four
    let [bare, placed] = ["bare", "placed"].map(|way| guest.tasks(&format!("few-cores.{way}"), 5));
    let step: Set = bare.iter().flat_map(Task::cpus).collect();
    assert_eq!(step.len(), 6, "{step:?}");
    let said = guest.answer("few-cores.placed.stderr");
    let has_room = |task: &Task| !guest.gpu_of(task).cpus.is_disjoint(&step);
    each(&bare, &placed, |bare, task| {
        let gpu = guest.gpu_of(task);
        let is_told = said.contains(&format!("has no CPU on NUMA node {}", gpu.numa_node));
        let stays = task.cpus() == bare.cpus();
        match has_room(task) {
            // a core holds one of two tasks with six CPUs for five each; the other stays
            true if task.cpus() == gpu.cpus => guest.has_near_pages(task) && !is_told,
            true => stays && !is_told,
            false => stays && task.mem() == "default" && is_told,
        }
    });
    let moved = placed
        .iter()
        .filter(|task| task.cpus() == guest.gpu_of(task).cpus);
    assert!(moved.count() >= 2, "{placed:?}");
    assert!(!placed.iter().all(has_room), "{step:?}");
}
