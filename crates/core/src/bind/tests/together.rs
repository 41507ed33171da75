//! What a task may take beside the other tasks of its step, and what it is told.

use super::*;

/// Local id 0 of `tasks` with `part` CPUs each, which all have the whole step, as later releases of
/// Slurm leave them, on two NUMA nodes of `cpus` cores of one thread with so many GPUs each.
fn shared(cpus: u32, on: [usize; 2], gpus: &'static [usize], tasks: u32, part: u32) -> One {
    let on = [vec![Some(0); on[0]], vec![Some(1); on[1]]].concat();
    let topology = machine([2, 1, cpus, 1], false, &on);
    let listed: Vec<String> = (0..on.len()).map(|gpu| gpu.to_string()).collect();
    case(gpus, "", "").with(|one| {
        (one.step.tasks, one.step.cpus_per_task) = (tasks, Some(part));
        one.step.gpus = Some(listed.join(","));
        (one.task.cpus, one.task.step_cpus) = (topology.cpus(), topology.cpus());
        one.task.gpu_bind = Some(OWN.to_string());
        (one.topology, one.wish) = (topology, Wish::default());
        one.wish.mem = Mem::None;
    })
}

const OWN: &str = "gres/gpu:per_task:1";

#[test]
fn as_many_tasks_come_near_as_there_are_gpus_for() {
    // eight CPUs on each node hold two tasks of four
    for (on, gpus, expected) in [
        ([2, 2], &[0][..], "0-7"),
        ([4, 0], &[0], "0-15"),
        // two GPUs each, so two tasks
        ([4, 4], &[0, 1], "0-7"),
    ] {
        assert_eq!(shared(8, on, gpus, 4, 4).cpus(), expected, "{on:?}");
    }
    // the step's GPUs cannot be told, so all four might come
    let unknown = shared(8, [2, 2], &[0], 4, 4).with(|one| one.step.gpus = Some("17".to_string()));
    assert_eq!(unknown.cpus(), "0-15");
}

#[test]
fn who_may_be_joined_by_others_counts_them_before_it_comes_near() {
    // the first of two tasks whose masks overlap; its GPU is on the node of CPUs 0-7
    for (masks, part, rule, expected) in [
        // one GPU there, so no other task comes
        (["6-9", "8-11"], 2, Some(OWN), "6-7"),
        // the other might come, and two CPUs are one task's
        (["6-9", "8-11"], 2, None, "6-9"),
        // five CPUs are too few for two tasks of three
        (["3-10", "9-15"], 3, None, "3-10"),
        // the other is there and may stay
        (["6-9", "6-11"], 2, Some(OWN), "6-9"),
        // a task that is there already does not come once more
        (["4-9", "4-11"], 2, None, "4-7"),
    ] {
        let one = shared(8, [1, 3], &[0], 2, part).with(|one| {
            one.task.masks = masks.map(set).to_vec();
            one.task.cpus = set(masks[0]);
            one.task.gpu_bind = rule.map(str::to_string);
        });
        assert_eq!(one.cpus(), expected, "{masks:?} {part} {rule:?}");
    }
}

#[test]
fn a_task_of_which_the_others_expect_something_else_stays() {
    let decided = |cpus: &str, local_id, gpu_bind: &str| {
        let one = shared(8, [2, 2], &[0], 2, 4).with(|one| {
            (one.task.cpus, one.task.local_id) = (set(cpus), local_id);
            one.task.masks = vec![set("0-15"); 2];
            one.task.gpu_bind = Some(gpu_bind.to_string());
        });
        (one.cpus(), one.why())
    };
    assert_eq!(decided("0-15", 1, OWN).0, "0-7");
    for (own, local_id, rule, reason) in [
        ("4-15", 1, OWN, "slurmd lists other CPUs"),
        ("0-15", 2, OWN, "Slurm counts fewer tasks here"),
        ("0-15", 1, "gpu:map_gpu:0,3", "Slurm's rule expects it"),
    ] {
        let (cpus, why) = decided(own, local_id, rule);
        assert_eq!(cpus, own, "{reason}");
        assert!(why.contains(reason) && !why.contains("too few"), "{why}");
    }
}

#[test]
fn a_forged_list_of_many_different_masks_is_not_worked_through() {
    // each task has one CPU on each node, and needs one
    let among = |tasks: u32| {
        let one = shared(100, [1, 1], &[0], tasks, 1);
        one.with(|one| {
            let masks = (0..tasks).map(|id| [id, 100 + id].into_iter().collect());
            one.task.masks = masks.collect();
            one.task.cpus = one.task.masks[0].clone();
            one.task.gpu_bind = None;
        })
    };
    assert_eq!(among(64).cpus(), "0");
    assert_eq!(among(65).cpus(), "0,100");
    assert!(among(65).why().contains("more different masks than"));
    // many tasks with one mask cost no more than few
    assert_eq!(shared(100, [1, 1], &[0], 65, 1).cpus(), "0-99");
}

#[test]
fn who_stays_is_told_what_would_bring_it_near() {
    use Starter::*;
    for (tasks, starter, has, few, remedy) in [
        (1, Slurm, "the step", "this task's 12", "a smaller `-c`"),
        (4, Slurm, "the step", "the tasks", "`-m block:block`"),
        // a launcher does not know Slurm's options
        (4, Launcher, "it", "the processes", "`bind=numa`"),
    ] {
        let one = shared(8, [4, 0], &[0], tasks, 12).with(|one| one.step.starter = starter);
        let bound = one.bound();
        let why = why(&bound);
        let near = format!("near NUMA node 0 of its GPU {has} has 8 CPUs, too few for {few}");
        assert!(why.starts_with(&near) && why.contains(remedy), "{why}");
        assert!(starter == Slurm || !why.contains("-m block"), "{why}");
        assert_eq!(bound.notes.far.as_deref(), Some(why));
        assert_eq!(bound.notes.missed, [""; 0]);
    }
}

#[test]
fn a_step_without_a_cpu_near_the_gpu_is_told_so_whoever_started_it() {
    for bind in [Bind::Auto, Bind::Numa] {
        for (starter, said) in [
            (Starter::Launcher, "it was given"),
            (Starter::Slurm, "the step has"),
        ] {
            let one = shared(8, [4, 0], &[0], 1, 4).with(|one| {
                (one.task.cpus, one.task.step_cpus) = (set("8-15"), set("8-15"));
                (one.step.starter, one.wish.bind) = (starter, bind);
            });
            let bound = one.bound();
            assert_eq!((&bound.cpus, bound.moves), (&set("8-15"), false));
            let missed = bound.notes.missed.concat();
            let no_cpu = format!("{said} no CPU on NUMA node 0 of its GPU");
            assert!(missed.starts_with(&no_cpu), "`strict` fails such a task");
            let is_slurms = starter == Starter::Slurm;
            assert_eq!(missed.contains("`-m block:block`"), is_slurms, "{missed}");
            assert_eq!(why(&bound), missed);
            assert_eq!(bound.notes.far, Some(missed));
        }
    }
}

#[test]
fn who_is_near_already_is_told_whether_by_one_node_or_by_several() {
    let both = shared(8, [1, 1], &[0, 1], 1, 4);
    assert_eq!(both.why(), "its GPUs span NUMA nodes 0-1");
    let near = shared(8, [2, 0], &[0, 1], 1, 4).with(|one| one.task.cpus = set("0-3"));
    assert!(near.why().starts_with("already on NUMA node 0,"));
}

/// `bind=core` for a task of a step with these masks.
fn cored(local_id: u32, gpu: &'static [usize], masks: &[&str]) -> TaskPlacement {
    let one = shared(8, [1, 1], gpu, masks.len() as u32, 2).with(|one| {
        let masks: Vec<CpuSet> = masks.iter().map(|mask| set(mask)).collect();
        one.task.local_id = local_id;
        one.task.cpus = masks[local_id as usize].clone();
        one.task.step_cpus = union(&masks);
        one.task.masks = masks;
        one.task.gpu_bind = None;
        one.wish.bind = Bind::Core;
    });
    one.bound()
}

const LACKS: &str = "no CPU on NUMA node 1";

#[test]
fn cores_of_its_own_near_its_gpu_are_kept_or_given() {
    for (id, gpu, masks, cpus, moves, said) in rows! {
        0, &[0][..], ["0-3", "8-11"], "0-3", false, "Slurm gave to it alone";
        1, &[1], ["0-15", "0-15"], "12-15", true, "of its own, one seat";
    } {
        let bound = cored(id, gpu, &masks);
        assert_eq!((&bound.cpus, bound.moves), (&set(cpus), moves));
        let near = format!("on NUMA node {id}, with its GPU");
        let why = why(&bound);
        assert!(why.contains(said) && why.ends_with(&near), "{why}");
        assert_eq!((&bound.notes.far, bound.notes.missed.len()), (&None, 0));
    }
}

#[test]
fn cores_of_its_own_far_from_its_gpu_are_kept_and_told_whose_the_near_ones_are() {
    let bound = cored(0, &[1], &["0-3", "8-11"]);
    assert_eq!((&bound.cpus, bound.moves), (&set("0-3"), false));
    let others = why(&bound);
    let is_right = others.contains("are other tasks'; `bind=numa` shares");
    assert!(is_right, "{others}");
    assert_eq!(bound.notes.far.as_deref(), Some(others));
    assert_eq!(bound.notes.missed, [others], "`strict` fails such a task");
    let missed = cored(0, &[1], &["0-3", "4-7"]).notes.missed.concat();
    assert!(missed.contains(LACKS), "{missed}");
    // a seat of its own is worth having far away too
    let bound = cored(0, &[1], &["0-3", "0-3"]);
    assert_eq!((&bound.cpus, bound.moves), (&set("0-1"), true));
    assert!(why(&bound).contains(LACKS) && !bound.notes.missed.is_empty());
}

#[test]
fn cores_that_cannot_be_divided_are_shared_near_the_gpu_and_missed() {
    let bound = cored(0, &[0], &["0-1,8-9"; 3]);
    assert_eq!(bound.cpus, set("0-1,8-9"), "as by default");
    let why = why(&bound);
    let found = (bound.moves, bound.notes.far.as_deref());
    assert_eq!(found, (false, Some(why)));
    assert!(why.contains("belong there with 2 each"), "{why}");
    let few = "`bind=core` cannot be had: the step";
    let is_few = |missed: &[String]| missed[0].starts_with(few);
    assert!(is_few(&bound.notes.missed) && bound.notes.missed.len() == 1);
    let missed = cored(0, &[1], &["0"; 3]).notes.missed;
    assert!(is_few(&missed) && missed[1].contains(LACKS), "{missed:?}");
}

#[test]
fn a_near_cpu_that_the_step_lacks_is_told_once_beside_bind_core() {
    for masks in [&["0", "0", "0"][..], &["0-3", "0-3"], &["0-3", "4-7"]] {
        let told = cored(0, &[1], masks).notes.reasons.join("\n");
        assert_eq!(told.matches(LACKS).count(), 1, "{told}");
    }
}

#[test]
fn whole_cores_for_gpus_of_two_nodes_are_found_in_a_crew_and_not_for_one_task_alone() {
    let span = "its GPUs span NUMA nodes 0-1";
    assert_eq!(why(&cored(0, &[0, 1], &["0-3"])), span);
    assert_eq!(cored(0, &[0, 1], &["0-15"; 2]).cpus, set("0-3,8-11"));
    let numa = shared(8, [1, 1], &[0, 1], 2, 2).with(|one| one.wish.bind = Bind::Numa);
    assert_eq!(numa.why(), span);
}
