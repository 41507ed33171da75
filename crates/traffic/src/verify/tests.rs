//! Tests of the verdicts, on the model of a DGX H100: GPU 0 has mlx5_0 on its switch; mlx5_1 and mlx5_2 are for storage.

use super::super::report::NodeReport;
use super::*;
use nic_placement_core::policy;
use nic_placement_core::wish::Wish;
use nic_placement_node::platform::model;

/// A task of these GPUs, which has their files open, and uses these devices.
fn task(gpus: &[usize], holds: &[(&str, By)]) -> Seen {
    let holds = holds.iter().map(|(device, by)| HeldNic {
        by: *by,
        device: device.to_string(),
        port: (*by != By::Memory).then_some(1),
    });
    let files = gpus.iter().map(|gpu| format!("nvidia{gpu}"));
    Seen {
        user: Some(1000),
        processes: vec![10],
        device_files: files.collect(),
        held: holds.collect(),
        ..Seen::default()
    }
}

fn verdict_on(machine: &str, task: &Seen, has_unowned: Result<bool, &str>) -> TaskVerdict {
    let mut topology = model(machine).unwrap();
    for (number, gpu) in topology.gpus.iter_mut().enumerate() {
        gpu.minor = u32::try_from(number).ok();
    }
    let topology = &topology;
    let map = &policy::map(topology, &Wish::default());
    judge(Node { topology, map }, task.clone(), has_unowned)
}

fn verdict(task: &Seen) -> TaskVerdict {
    verdict_on("dgx-h100", task, Ok(false))
}

fn connected(gpus: &[usize], nics: &[&str]) -> Seen {
    let holds: Vec<_> = nics.iter().map(|nic| (*nic, By::QueuePairs)).collect();
    task(gpus, &holds)
}

#[test]
fn a_task_is_judged_by_the_worst_nic_on_which_its_queue_pairs_are_connected() {
    for (nic, expected, path) in [
        ("mlx5_0", Verdict::AsPlanned, "PIX"),
        ("mlx5_3", Verdict::NearerExists, "NODE"),
        ("mlx5_6", Verdict::Far, "SYS"),
        ("mlx5_1", Verdict::LeftOut, "PIX"),
        ("mlx5_99", Verdict::Unknown, ""),
    ] {
        // a datagram queue pair on another, as UCX has on each NIC of its list
        let holds = [(nic, By::QueuePairs), ("mlx5_4", By::Datagrams)];
        let said = verdict(&task(&[0], &holds));
        assert_eq!((said.verdict, said.used.len()), (expected, 1), "{said:?}");
        assert_eq!(said.used[0].nic, format!("{nic}:1"));
        let found = said.used[0].path.as_deref().unwrap_or_default();
        assert!(nic == "mlx5_1" || found == path, "{said:?}");
    }
    let nics = ["mlx5_0", "mlx5_6"];
    let said = verdict(&connected(&[0], &nics));
    assert_eq!((said.verdict, said.used.len()), (Verdict::Far, 2));
    // each is one of its two GPUs'
    let of_both = verdict(&connected(&[0, 4], &nics));
    assert_eq!(of_both.verdict, Verdict::AsPlanned);
}

#[test]
fn without_a_connection_datagrams_count_and_without_those_registered_memory() {
    let (datagrams, memory) = (By::Datagrams, By::Memory);
    let both = [("mlx5_0", datagrams), ("mlx5_6", memory)];
    let used = ("mlx5_0:1", datagrams);
    for (holds, expected, used) in [
        (&both[..], Verdict::AsPlanned, used),
        (&both[1..], Verdict::Far, ("mlx5_6", memory)),
    ] {
        let said = verdict(&task(&[0], holds));
        let found: Vec<_> = said.used.iter().map(|used| (&*used.nic, used.by)).collect();
        assert_eq!((said.verdict, found), (expected, vec![used]));
    }
}

#[test]
fn a_task_that_uses_no_nic_is_told_from_one_of_which_that_is_not_known() {
    let none = task(&[0], &[]);
    assert_eq!(verdict(&none).verdict, Verdict::NoNic);
    let (unowned, failed) = (Ok(true), Err("no netlink"));
    for (known, why) in [(unowned, "some queue pairs"), (failed, "no netlink")] {
        let said = verdict_on("dgx-h100", &none, known);
        assert_eq!(said.verdict, Verdict::Unknown);
        assert!(said.why.unwrap().contains(why));
    }
    // near to what? but a NIC for storage is wrong whatever the GPU is
    for (nic, expected) in [("mlx5_0", Verdict::Unknown), ("mlx5_1", Verdict::LeftOut)] {
        assert_eq!(verdict(&connected(&[], &[nic])).verdict, expected);
    }
    // none is planned, and none is used
    let mut placed = task(&[], &[]);
    placed.marked = Some(marked_with(&[], None));
    assert_eq!(verdict(&placed).verdict, Verdict::AsPlanned);
    // of Slingshot the kernel tells nothing
    let said = verdict_on("frontier", &placed, Ok(false));
    let found = (said.planned.len(), said.verdict);
    assert_eq!(found, (0, Verdict::Unknown), "{said:?}");
}

/// The marker of a task with GPU 0.
fn marked_with(nics: &[&str], cpus: Option<&str>) -> Marked {
    let gpu = model("dgx-h100").unwrap().gpus[0].address;
    Marked {
        gpus: vec![gpu],
        nics: nics.iter().map(ToString::to_string).collect(),
        cpus: cpus.map(|cpus| CpuSet::from_list(cpus).unwrap()),
    }
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
        let mut placed = connected(&[], &["mlx5_6"]);
        placed.marked = Some(marked_with(nics, None));
        assert_eq!(verdict(&placed).verdict, expected, "{nics:?}");
    }
}

fn thread(is_first: bool, cpus: &str) -> Thread {
    Thread {
        is_first,
        cpus: CpuSet::from_list(cpus).unwrap(),
    }
}

#[test]
fn threads_are_compared_with_what_was_set_and_the_first_decides() {
    let seen = |bound: Option<&str>, threads: Vec<Thread>| Seen {
        marked: bound.map(|cpus| marked_with(&["mlx5_0:1"], Some(cpus))),
        threads,
        ..connected(&[0], &["mlx5_0"])
    };
    let cpus = (0..).zip(["0-7", "3", "0-111", "60", "60"]);
    let threads: Vec<Thread> = cpus.map(|(at, cpus)| thread(at == 0, cpus)).collect();
    let said = verdict(&seen(Some("0-7"), threads.clone()));
    assert!(!said.is_bad(), "{said:?}");
    assert_eq!((said.cpus.threads, said.cpus.far), (5, 2));
    for (cpus, is_bad) in [
        ("0-7", false),
        ("2", false),
        ("0-15", true),
        ("60-67", true),
    ] {
        let said = verdict(&seen(Some("0-7"), vec![thread(true, cpus)]));
        assert_eq!(said.is_bad(), is_bad, "{cpus}: {said:?}");
        assert_eq!(status(&[said]), u8::from(is_bad));
    }
    // nothing was set
    let unbound = verdict(&seen(None, threads));
    assert!(!unbound.is_bad() && unbound.cpus.far == 2, "{unbound:?}");
}

#[test]
fn memory_is_near_on_the_numa_nodes_of_the_gpus() {
    let with = |gpus: &[usize]| Seen {
        memory: [(0, 30), (1, 70)].into(),
        ..task(gpus, &[])
    };
    assert_eq!(verdict(&with(&[0])).near_memory, Some(30));
    assert_eq!(verdict(&with(&[7])).near_memory, Some(70));
    assert_eq!(verdict(&with(&[])).near_memory, None);
}

fn status(tasks: &[TaskVerdict]) -> u8 {
    NodeReport::new(String::new(), tasks.to_vec()).verdict()
}

#[test]
fn the_status_is_that_of_all_tasks() {
    let good = verdict(&connected(&[0], &["mlx5_0"]));
    let bad = verdict(&connected(&[0], &["mlx5_6"]));
    let unknown = verdict_on("dgx-h100", &task(&[0], &[]), Err(""));
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
