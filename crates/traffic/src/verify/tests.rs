//! Tests of the verdicts, on the model of a DGX H100: GPU 0 has mlx5_0 on its switch; mlx5_1 and mlx5_2 are for storage.

use super::super::report::NodeReport;
use super::*;
use nic_placement_core::policy;
use nic_placement_core::wish::Wish;
use nic_placement_node::platform::model;

fn held(connected: u32, unconnected: u32, regions: u32) -> Held {
    let of = |count: u32| (count > 0).then_some((1, count)).into_iter().collect();
    Held {
        connected: of(connected),
        unconnected: of(unconnected),
        regions,
    }
}

fn task(gpus: &[usize], holds: &[(&str, Held)]) -> SeenTask {
    let holds = holds.iter();
    let holds = holds.map(|(device, held)| (device.to_string(), held.clone()));
    SeenTask {
        numbers: Numbers::default(),
        user: Some(1000),
        processes: vec![10],
        gpus: Ok(gpus.iter().map(|gpu| GpuIndex(*gpu)).collect()),
        planned: None,
        bound: None,
        held: Ok(holds.collect()),
        threads: Vec::new(),
        memory: BTreeMap::new(),
        changed: Vec::new(),
    }
}

fn verdict_on(machine: &str, task: &SeenTask, unowned: u32) -> TaskVerdict {
    let topology = &model(machine).unwrap();
    let map = &policy::map(topology, &Wish::default());
    judge(Node { topology, map }, task, unowned)
}

fn verdict(task: &SeenTask) -> TaskVerdict {
    verdict_on("dgx-h100", task, 0)
}

/// A connection on each of these NICs.
fn connected(gpus: &[usize], nics: &[&str]) -> SeenTask {
    let holds: Vec<_> = nics.iter().map(|nic| (*nic, held(1, 0, 0))).collect();
    task(gpus, &holds)
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
        let said = verdict(&task(
            &[0],
            &[(nic, held(4, 1, 9)), ("mlx5_4", held(0, 1, 0))],
        ));
        assert_eq!((said.verdict, said.used.len()), (expected, 1), "{said:?}");
        assert_eq!(said.used[0].nic, format!("{nic}:1"));
        let found = said.used[0].path.as_deref().unwrap_or_default();
        assert!(nic == "mlx5_1" || found == path, "{said:?}");
        assert_eq!(said.opened, ["mlx5_4"]);
    }
}

#[test]
fn the_worst_nic_of_several_counts() {
    let nics = ["mlx5_0", "mlx5_6"];
    let said = verdict(&connected(&[0], &nics));
    assert_eq!((said.verdict, said.used.len()), (Verdict::Far, 2));
    // each is one of its two GPUs'
    assert_eq!(
        verdict(&connected(&[0, 4], &nics)).verdict,
        Verdict::AsPlanned
    );
}

#[test]
fn without_a_connection_datagrams_count_and_without_those_registered_memory() {
    for (near, far, expected, used) in [
        (
            held(0, 2, 1),
            held(0, 0, 1),
            Verdict::AsPlanned,
            ("mlx5_0:1", By::Datagrams),
        ),
        (
            held(0, 0, 0),
            held(0, 0, 1),
            Verdict::Far,
            ("mlx5_6", By::Memory),
        ),
    ] {
        let said = verdict(&task(&[0], &[("mlx5_0", near), ("mlx5_6", far)]));
        let found: Vec<_> = said.used.iter().map(|used| (&*used.nic, used.by)).collect();
        assert_eq!((said.verdict, found), (expected, vec![used]));
    }
}

#[test]
fn a_task_that_uses_no_nic_is_told_from_one_of_which_that_is_not_known() {
    let open = task(&[0], &[("mlx5_0", held(0, 0, 0))]);
    assert_eq!(verdict(&open).verdict, Verdict::NoNic);
    let orphans = verdict_on("dgx-h100", &open, 3);
    assert_eq!(orphans.verdict, Verdict::Unknown);
    assert!(orphans.why.unwrap().contains("3 queue pairs"));
    let mut blind = task(&[0], &[]);
    blind.held = Err("no netlink".to_string());
    assert_eq!(verdict(&blind).verdict, Verdict::Unknown);
    // near to what? but a NIC for storage is wrong whatever the GPU is
    for (nic, expected) in [("mlx5_0", Verdict::Unknown), ("mlx5_1", Verdict::LeftOut)] {
        let mut gpuless = connected(&[], &[nic]);
        gpuless.gpus = Err("no GPU".to_string());
        assert_eq!(verdict(&gpuless).verdict, expected);
    }
    // none is planned, and none is used
    let mut placed = task(&[], &[]);
    placed.planned = Some(Vec::new());
    assert_eq!(verdict(&placed).verdict, Verdict::AsPlanned);
}

#[test]
fn of_slingshot_the_kernel_tells_nothing() {
    let said = verdict_on("frontier", &task(&[0], &[]), 0);
    let found = (said.planned.len(), said.verdict);
    assert_eq!(found, (0, Verdict::Unknown), "{said:?}");
}

#[test]
fn a_marker_s_nics_are_the_plan_whatever_the_node_s_is() {
    for (nics, expected) in [
        // `nics-per-task=2`
        (&["mlx5_0:1", "mlx5_6:1"][..], Verdict::AsPlanned),
        (&["mlx5_0:1"], Verdict::Far),
        // another port
        (&["mlx5_6:2"], Verdict::Far),
    ] {
        let mut placed = connected(&[0], &["mlx5_6"]);
        placed.planned = Some(nics.iter().map(ToString::to_string).collect());
        assert_eq!(verdict(&placed).verdict, expected, "{nics:?}");
    }
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
        ..connected(&[0], &["mlx5_0"])
    };
    let threads = vec![
        thread(true, "train", "0-7"),
        thread(false, "train", "0-7"),
        thread(false, "NCCL Progress 0", "3"),
        thread(false, "cuda-EvtHandlr", "0-111"),
        thread(false, "omp", "60"),
        thread(false, "omp", "60"),
    ];
    let said = verdict(&seen(Some("0-7"), threads.clone()));
    assert!(!said.is_bad(), "{said:?}");
    let counts = (said.cpus.threads, said.cpus.as_set, said.cpus.far);
    assert_eq!(counts, (6, 2, 2));
    let others = said.cpus.others.iter();
    let others = others.map(|of| (&*of.name, of.made_by.as_deref(), of.how, of.count));
    use binding::Against;
    assert!(others.eq([
        ("NCCL Progress 0", Some("NCCL"), Against::Narrowed, 1),
        ("cuda-EvtHandlr", Some("CUDA"), Against::Widened, 1),
        ("omp", None, Against::Moved, 2)
    ]));
    for (cpus, is_bad) in [
        ("0-7", false),
        ("2", false),
        ("0-15", true),
        ("60-67", true),
    ] {
        let said = verdict(&seen(Some("0-7"), vec![thread(true, "train", cpus)]));
        assert_eq!(said.is_bad(), is_bad, "{cpus}: {said:?}");
        assert_eq!(status(&[said]), u8::from(is_bad));
    }
    // nothing was set
    let unbound = verdict(&seen(None, threads));
    assert!(!unbound.is_bad() && unbound.cpus.far == 2, "{unbound:?}");
}

#[test]
fn memory_is_near_on_the_numa_nodes_of_the_gpus() {
    let with = |gpus: &[usize]| SeenTask {
        memory: [(0, 30), (1, 70)].into(),
        ..task(gpus, &[])
    };
    assert_eq!(verdict(&with(&[0])).memory.near_share(), Some(30));
    assert_eq!(verdict(&with(&[7])).memory.near_share(), Some(70));
    assert_eq!(verdict(&with(&[])).memory.near_share(), None);
}

fn status(tasks: &[TaskVerdict]) -> u8 {
    NodeReport::new(String::new(), tasks.to_vec()).verdict()
}

#[test]
fn the_status_is_that_of_all_tasks() {
    let good = verdict(&connected(&[0], &["mlx5_0"]));
    let bad = verdict(&connected(&[0], &["mlx5_6"]));
    let unknown = verdict(&SeenTask {
        held: Err(String::new()),
        ..task(&[0], &[])
    });
    assert_eq!(status(std::slice::from_ref(&good)), 0);
    assert_eq!(status(&[good.clone(), unknown.clone()]), 2);
    // what is known to be wrong counts
    assert_eq!(status(&[good.clone(), unknown, bad]), 1);
    assert_eq!(status(&[]), 2);
    let mut not_all = NodeReport::new(String::new(), vec![good]);
    assert_eq!(not_all.verdict(), 0);
    not_all.not_looked_at = 1;
    assert_eq!(not_all.verdict(), 2, "it may be a task's");
}
