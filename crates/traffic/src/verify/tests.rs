//! Tests of the verdicts, on the model of a DGX H100: GPU 0 has mlx5_0 on its switch; mlx5_1 and mlx5_2 are for storage.

use super::super::report::NodeReport;
use super::*;
use nic_placement_core::policy;
use nic_placement_core::wish::Wish;
use nic_placement_node::platform::model;

fn held(connected: u32, unconnected: u32, regions: u32) -> Held {
    let of = |count: u32| {
        if count > 0 {
            BTreeMap::from([(1, count)])
        } else {
            BTreeMap::new()
        }
    };
    Held {
        connected: of(connected),
        unconnected: of(unconnected),
        regions,
    }
}

fn task(gpus: &[usize], holds: &[(&str, Held)]) -> SeenTask {
    SeenTask {
        numbers: Numbers::default(),
        user: Some(1000),
        processes: vec![10],
        gpus: Ok(gpus.iter().map(|gpu| GpuIndex(*gpu)).collect()),
        planned: None,
        bound: None,
        held: Ok(holds
            .iter()
            .map(|(device, held)| (device.to_string(), held.clone()))
            .collect()),
        threads: Vec::new(),
        memory: BTreeMap::new(),
        changed: Vec::new(),
    }
}

fn verdict(task: &SeenTask, unowned: u32) -> TaskVerdict {
    let topology = model("dgx-h100").unwrap();
    let map = policy::map(&topology, &Wish::default());
    judge(
        Node {
            topology: &topology,
            map: &map,
        },
        task,
        unowned,
    )
}

#[test]
fn a_task_is_judged_by_the_nic_on_which_its_queue_pairs_are_connected() {
    for (nic, expected, path) in [
        ("mlx5_0", Verdict::AsPlanned, "PIX"),
        ("mlx5_3", Verdict::NearerExists, "NODE"),
        ("mlx5_6", Verdict::Far, "SYS"),
        ("mlx5_1", Verdict::LeftOut, "PIX"),
        ("mlx5_99", Verdict::Unknown, ""),
    ] {
        // it has opened the near one too, as programs do that ask all NICs what they are
        let said = verdict(
            &task(&[0], &[(nic, held(4, 1, 9)), ("mlx5_4", held(0, 1, 0))]),
            0,
        );
        assert_eq!((said.verdict, said.used.len()), (expected, 1), "{said:?}");
        assert_eq!(said.used[0].nic, format!("{nic}:1"));
        assert!(
            nic == "mlx5_1" || said.used[0].path.as_deref().unwrap_or_default() == path,
            "{said:?}"
        );
        assert_eq!(said.opened, ["mlx5_4"]);
    }
}

#[test]
fn the_worst_nic_of_several_counts() {
    let said = verdict(
        &task(
            &[0],
            &[("mlx5_0", held(1, 0, 0)), ("mlx5_6", held(1, 0, 0))],
        ),
        0,
    );
    assert_eq!((said.verdict, said.used.len()), (Verdict::Far, 2));
    let two = verdict(
        &task(
            &[0, 4],
            &[("mlx5_0", held(1, 0, 0)), ("mlx5_6", held(1, 0, 0))],
        ),
        0,
    );
    assert_eq!(
        two.verdict,
        Verdict::AsPlanned,
        "each is one of its two GPUs': {two:?}"
    );
}

#[test]
fn without_a_connection_datagrams_count_and_without_those_registered_memory() {
    let by = |holds: &[(&str, Held)]| {
        let said = verdict(&task(&[0], holds), 0);
        (
            said.verdict,
            said.used
                .iter()
                .map(|used| (used.nic.clone(), used.by))
                .collect::<Vec<_>>(),
        )
    };
    let datagrams = [("mlx5_0", held(0, 2, 1)), ("mlx5_6", held(0, 0, 1))];
    assert_eq!(
        by(&datagrams),
        (
            Verdict::AsPlanned,
            vec![("mlx5_0:1".to_string(), By::Datagrams)]
        )
    );
    let memory = [("mlx5_0", held(0, 0, 0)), ("mlx5_6", held(0, 0, 1))];
    assert_eq!(
        by(&memory),
        (Verdict::Far, vec![("mlx5_6".to_string(), By::Memory)])
    );
}

#[test]
fn a_task_that_uses_no_nic_is_told_from_one_of_which_that_is_not_known() {
    let open = [("mlx5_0", held(0, 0, 0))];
    assert_eq!(verdict(&task(&[0], &open), 0).verdict, Verdict::NoNic);
    let orphans = verdict(&task(&[0], &open), 3);
    assert!(
        orphans
            .why
            .as_ref()
            .is_some_and(|why| why.contains("3 queue pairs")),
        "{orphans:?}"
    );
    assert_eq!(orphans.verdict, Verdict::Unknown);
    let blind = SeenTask {
        held: Err("no netlink".to_string()),
        ..task(&[0], &[])
    };
    assert_eq!(verdict(&blind, 0).verdict, Verdict::Unknown);
    let gpuless = SeenTask {
        gpus: Err("no GPU".to_string()),
        ..task(&[], &[("mlx5_0", held(1, 0, 0))])
    };
    assert_eq!(
        verdict(&gpuless, 0).verdict,
        Verdict::Unknown,
        "near to what?"
    );
    let storage = SeenTask {
        gpus: Err("no GPU".to_string()),
        ..task(&[], &[("mlx5_1", held(1, 0, 0))])
    };
    assert_eq!(
        verdict(&storage, 0).verdict,
        Verdict::LeftOut,
        "whatever its GPU is"
    );
    let placed = SeenTask {
        planned: Some(Vec::new()),
        ..task(&[], &[])
    };
    assert_eq!(
        verdict(&placed, 0).verdict,
        Verdict::AsPlanned,
        "none is planned, and none is used"
    );
}

#[test]
fn of_slingshot_the_kernel_tells_nothing() {
    let topology = model("frontier").unwrap();
    let map = policy::map(&topology, &Wish::default());
    let said = judge(
        Node {
            topology: &topology,
            map: &map,
        },
        &task(&[0], &[]),
        0,
    );
    assert_eq!(
        (said.planned.len(), said.verdict),
        (0, Verdict::Unknown),
        "{said:?}"
    );
}

#[test]
fn a_marker_s_nics_are_the_plan_whatever_the_node_s_is() {
    let placed = |nics: &[&str]| {
        let planned = nics.iter().map(ToString::to_string).collect();
        verdict(
            &SeenTask {
                planned: Some(planned),
                ..task(&[0], &[("mlx5_6", held(1, 0, 0))])
            },
            0,
        )
        .verdict
    };
    assert_eq!(
        placed(&["mlx5_0:1", "mlx5_6:1"]),
        Verdict::AsPlanned,
        "`nics-per-task=2`"
    );
    assert_eq!(placed(&["mlx5_0:1"]), Verdict::Far);
    assert_eq!(placed(&["mlx5_6:2"]), Verdict::Far, "another port");
}

fn thread(is_first: bool, name: &str, cpus: &str) -> Thread {
    Thread {
        is_first,
        name: name.to_string(),
        cpus: CpuSet::from_list(cpus).unwrap(),
    }
}

#[test]
fn threads_are_compared_with_what_was_set_and_the_first_decides() {
    let seen = |bound: Option<&str>, threads: Vec<Thread>| SeenTask {
        bound: bound.map(|cpus| CpuSet::from_list(cpus).unwrap()),
        threads,
        ..task(&[0], &[("mlx5_0", held(1, 0, 0))])
    };
    let threads = vec![
        thread(true, "train", "0-7"),
        thread(false, "train", "0-7"),
        thread(false, "NCCL Progress 0", "3"),
        thread(false, "cuda-EvtHandlr", "0-111"),
        thread(false, "omp", "60"),
        thread(false, "omp", "60"),
    ];
    let said = verdict(&seen(Some("0-7"), threads.clone()), 0);
    assert!(!said.is_bad(), "{said:?}");
    assert_eq!(
        (said.cpus.threads, said.cpus.as_set, said.cpus.far),
        (6, 2, 2)
    );
    let others: Vec<(&str, Option<&str>, Against, usize)> = said
        .cpus
        .others
        .iter()
        .map(|other| {
            (
                other.name.as_str(),
                other.made_by.as_deref(),
                other.how,
                other.count,
            )
        })
        .collect();
    use binding::Against;
    assert_eq!(
        others,
        [
            ("NCCL Progress 0", Some("NCCL"), Against::Narrowed, 1),
            ("cuda-EvtHandlr", Some("CUDA"), Against::Widened, 1),
            ("omp", None, Against::Moved, 2)
        ]
    );
    for (cpus, is_bad) in [
        ("0-7", false),
        ("2", false),
        ("0-15", true),
        ("60-67", true),
    ] {
        let said = verdict(&seen(Some("0-7"), vec![thread(true, "train", cpus)]), 0);
        assert_eq!(said.is_bad(), is_bad, "{cpus}: {said:?}");
        assert_eq!(status(&[said]), u8::from(is_bad));
    }
    let unbound = verdict(&seen(None, threads), 0);
    assert!(
        !unbound.is_bad() && unbound.cpus.far == 2,
        "nothing was set: {unbound:?}"
    );
}

#[test]
fn memory_is_near_on_the_numa_nodes_of_the_gpus() {
    let with = |gpus: &[usize]| SeenTask {
        memory: [(0, 30), (1, 70)].into(),
        ..task(gpus, &[])
    };
    assert_eq!(verdict(&with(&[0]), 0).memory.near_share(), Some(30));
    assert_eq!(verdict(&with(&[7]), 0).memory.near_share(), Some(70));
    assert_eq!(verdict(&with(&[]), 0).memory.near_share(), None);
}

fn status(tasks: &[TaskVerdict]) -> u8 {
    NodeReport::new(String::new(), tasks.to_vec()).verdict()
}

#[test]
fn the_status_is_that_of_all_tasks() {
    let good = verdict(&task(&[0], &[("mlx5_0", held(1, 0, 0))]), 0);
    let bad = verdict(&task(&[0], &[("mlx5_6", held(1, 0, 0))]), 0);
    let unknown = verdict(
        &SeenTask {
            held: Err(String::new()),
            ..task(&[0], &[])
        },
        0,
    );
    assert_eq!(status(std::slice::from_ref(&good)), 0);
    assert_eq!(status(&[good.clone(), unknown.clone()]), 2);
    assert_eq!(
        status(&[good.clone(), unknown, bad]),
        1,
        "what is known to be wrong counts"
    );
    assert_eq!(status(&[]), 2);
    let mut not_all = NodeReport::new(String::new(), vec![good]);
    assert_eq!(not_all.verdict(), 0);
    not_all.not_looked_at = 1;
    assert_eq!(not_all.verdict(), 2, "it may be a task's");
}
