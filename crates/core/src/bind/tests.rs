//! The cases of binding, on one machine with two sockets.

mod memory;
mod together;

use super::*;
use crate::placement::Mem;
use crate::topology::{
    CpuSet, Gpu, GpuIndex, GpuVendor, NumaNode, PciFunction, PciParent, Provenance,
};
use crate::wish::Admin;

/// Two NUMA nodes of eight CPUs, a GPU on each, and GPU memory as a node without CPUs.
fn node() -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for (os_index, cpus) in [(0, "0-7"), (1, "8-15"), (2, "")] {
        let cpus = CpuSet::from_list(cpus).unwrap();
        topology.numa_nodes.push(NumaNode {
            os_index,
            cpus,
            distances: Vec::new(),
            package: None,
        });
    }
    for (address, node) in [
        ("10:00.0", Some(0)),
        ("20:00.0", Some(1)),
        ("30:00.0", Some(2)),
        ("40:00.0", None),
    ] {
        let address = address.parse().unwrap();
        let parent = PciParent::Host("pci0000:00".parse().unwrap());
        topology.pci.insert(PciFunction {
            numa_node: node,
            ..PciFunction::new(address, parent)
        });
        topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
    }
    topology
}

struct Case {
    gpus: Vec<GpuIndex>,
    cpus: &'static str,
    step_cpus: &'static str,
    step: Step,
    bind: Bind,
    mem: Mem,
    asked: bool,
    provenance: Provenance,
    trust: bool,
}

fn case(gpus: &[usize], cpus: &'static str, step_cpus: &'static str) -> Case {
    let (step, provenance) = (Step::default(), Provenance::ThisSystem);
    Case {
        gpus: gpus.iter().copied().map(GpuIndex).collect(),
        cpus,
        step_cpus,
        step,
        bind: Bind::Numa,
        mem: Mem::Prefer,
        asked: true,
        provenance,
        trust: false,
    }
}

/// `cpus/nodes`, each empty if nothing changes.
fn outcome(case: Case) -> String {
    let mut topology = node();
    topology.provenance = case.provenance;
    let task = Task {
        cpus: CpuSet::from_list(case.cpus).unwrap(),
        step_cpus: CpuSet::from_list(case.step_cpus).unwrap(),
        ..Task::default()
    };
    let wish = Wish {
        bind: case.bind,
        mem: case.mem,
        by_user: case.asked,
        admin: Admin {
            trust_topology: case.trust,
            ..Admin::default()
        },
        ..Wish::default()
    };
    let situation = Situation {
        topology: &topology,
        step: &case.step,
        task: &task,
        gpus: &case.gpus,
        wish: &wish,
    };
    let TaskPlacement {
        cpus,
        moves,
        mems,
        fences,
        notes,
        ..
    } = bind(&situation, Notes::default());
    let Notes { far, missed, .. } = notes;
    assert_eq!(far, missed.first().cloned());
    let cpus = match (moves, far) {
        (true, None) => cpus.to_string(),
        (false, None) => String::new(),
        (false, Some(_)) => "out of reach".to_string(),
        (true, Some(far)) => panic!("it moves, and {far}"),
    };
    match fences && !mems.is_empty() {
        true => format!("{cpus}/only {mems}"),
        false => format!("{cpus}/{mems}"),
    }
}

/// The reason for the task's CPUs.
fn why(placement: &TaskPlacement) -> &str {
    let mut reasons = placement.notes.reasons.iter();
    reasons
        .find_map(|reason| reason.strip_prefix("CPUs: "))
        .unwrap()
}

#[test]
fn a_task_that_is_near_its_gpu_stays_where_it_is() {
    assert_eq!(outcome(case(&[0], "2-3", "0-15")), "/0");
    assert_eq!(outcome(case(&[1], "8-15", "0-15")), "/1");
}

#[test]
fn a_task_that_is_partly_near_is_narrowed() {
    assert_eq!(outcome(case(&[0], "4-11", "4-11")), "4-7/0");
}

#[test]
fn a_task_on_the_wrong_socket_moves_to_what_the_step_owns_on_the_right_one() {
    assert_eq!(outcome(case(&[1], "0-3", "0-3,8-11")), "8-11/1");
}

#[test]
fn a_step_without_a_cpu_near_the_gpu_is_left_alone_and_told_what_would_help() {
    let mut topology = node();
    topology.provenance = Provenance::ThisSystem;
    assert_eq!(outcome(case(&[1], "0-3", "0-7")), "out of reach/");
    let task = Task {
        cpus: CpuSet::from_list("0-3").unwrap(),
        step_cpus: CpuSet::from_list("0-7").unwrap(),
        ..Task::default()
    };
    let step = Step::default();
    let situation = Situation {
        topology: &topology,
        step: &step,
        task: &task,
        gpus: &[GpuIndex(1)],
        wish: &Wish::default(),
    };
    let bound = bind(&situation, Notes::default());
    assert!(why(&bound).contains("-m block:block"));
    assert_eq!(
        bound.notes.missed,
        [why(&bound)],
        "`strict` fails such a task"
    );
}

#[test]
fn gpus_on_both_sockets_a_cpuless_node_and_an_unknown_node_bind_nothing() {
    assert_eq!(
        outcome(case(&[0, 1], "0-3", "0-15")),
        "/0",
        "memory stays with the CPUs it runs on"
    );
    assert_eq!(outcome(case(&[2], "0-3", "0-15")), "/");
    assert_eq!(outcome(case(&[3], "0-3", "0-15")), "/");
    assert_eq!(outcome(case(&[], "0-3", "0-15")), "/");
}

#[test]
fn what_the_user_bound_stays_bound() {
    let explicit = |cpu: Option<&str>, mem: Option<&str>| Step {
        cpu_bind: cpu.map(str::to_string),
        mem_bind: mem.map(str::to_string),
        ..Step::default()
    };
    let with = |step: Step| Case {
        step,
        ..case(&[1], "4-11", "4-11")
    };
    assert_eq!(
        outcome(with(explicit(Some("cores"), None))),
        "/",
        "threads on both sockets keep theirs local"
    );
    let near = Case {
        step: explicit(Some("cores"), None),
        ..case(&[1], "8-11", "4-11")
    };
    assert_eq!(outcome(near), "/1");
    assert_eq!(outcome(with(explicit(Some("none"), Some("local")))), "/");
    assert_eq!(
        outcome(with(explicit(None, Some("local")))),
        "/",
        "CPUs stay by the memory"
    );
    assert_eq!(outcome(with(explicit(None, Some("none")))), "8-11/");
    for how in [
        "none",
        "threads",
        "sockets",
        "ldoms",
        "rank",
        "map_cpu:",
        "mask_cpu:",
        "rank_ldom",
        "map_ldom:",
    ] {
        assert_eq!(
            outcome(with(explicit(Some(how), Some("map_mem:")))),
            "/",
            "--cpu-bind={how}"
        );
    }
}

#[test]
fn a_users_way_of_binding_is_quoted_in_one_short_line() {
    let topology = node();
    let forged = format!(
        "none\n[2026-01-01] error: FORGED\u{1b}[31m\u{202e}{}",
        "x".repeat(100_000)
    );
    let step = Step {
        cpu_bind: Some(forged.clone()),
        mem_bind: Some(forged),
        ..Step::default()
    };
    let situation = Situation {
        topology: &topology,
        step: &step,
        task: &Task::default(),
        gpus: &[GpuIndex(1)],
        wish: &Wish {
            admin: Admin {
                trust_topology: true,
                ..Admin::default()
            },
            ..Wish::default()
        },
    };
    let bound = bind(&situation, Notes::default());
    assert_eq!(bound.notes.reasons.len(), 2, "of its CPUs and its memory");
    for why in bound.notes.reasons {
        assert!(
            why.contains("none\\n[2026-01-01]") && why.len() < 200,
            "{why}"
        );
        assert!(!why.contains(['\n', '\u{1b}', '\u{202e}']), "{why:?}");
    }
}

#[test]
fn each_word_binds_what_it_says() {
    let with = |bind, mem| {
        outcome(Case {
            bind,
            mem,
            ..case(&[1], "4-11", "4-11")
        })
    };
    assert_eq!(with(Bind::None, Mem::None), "/");
    assert_eq!(
        with(Bind::None, Mem::Prefer),
        "/1",
        "memory alone, where it is asked for"
    );
    assert_eq!(with(Bind::Numa, Mem::None), "8-11/");
    assert_eq!(with(Bind::Numa, Mem::Strict), "8-11/only 1");
    let far = Case {
        bind: Bind::None,
        mem: Mem::Strict,
        ..case(&[1], "0-3", "0-15")
    };
    assert_eq!(outcome(far), "/", "memory far from the CPUs serves nobody");
}

#[test]
fn a_task_without_gpus_gets_a_part_of_the_steps_nodes_where_the_user_asked_and_nobody_bound_it() {
    let step = || Step {
        tasks: 2,
        ..Step::default()
    };
    let shared = || Case {
        step: step(),
        ..case(&[], "0-15", "0-15")
    };
    assert_eq!(outcome(shared()), "0-7/0");
    assert_eq!(
        outcome(Case {
            mem: Mem::None,
            ..shared()
        }),
        "0-7/"
    );
    assert_eq!(
        outcome(Case {
            asked: false,
            ..shared()
        }),
        "/"
    );
    assert_eq!(
        outcome(Case {
            bind: Bind::None,
            ..shared()
        }),
        "/"
    );
    let bound = Step {
        cpu_bind: Some("none".to_string()),
        ..step()
    };
    assert_eq!(
        outcome(Case {
            step: bound,
            ..shared()
        }),
        "/"
    );
    assert_eq!(
        outcome(Case {
            step: step(),
            ..case(&[], "0-3", "0-15")
        }),
        "/",
        "Slurm bound it"
    );
}

#[test]
fn facts_that_are_not_this_systems_bind_nothing_unless_the_admin_trusts_them() {
    let model = || Provenance::Model("dgx-h100".to_string());
    assert_eq!(
        outcome(Case {
            provenance: model(),
            ..case(&[1], "4-11", "4-11")
        }),
        "/"
    );
    assert_eq!(
        outcome(Case {
            provenance: model(),
            trust: true,
            ..case(&[1], "4-11", "4-11")
        }),
        "8-11/1"
    );
}

#[test]
fn a_bind_of_the_users_holds_beside_none_and_beside_no_other_way_of_slurms() {
    let moves = |how: &str, over_none: bool, starter: Starter| {
        let (topology, gpus) = (node(), [GpuIndex(1)]);
        let step = Step {
            cpu_bind: Some(how.to_string()),
            starter,
            ..Step::default()
        };
        let cpus = CpuSet::from_list("4-11").unwrap();
        let task = Task {
            step_cpus: cpus.clone(),
            cpus,
            ..Task::default()
        };
        let wish = Wish {
            bind_by_user: over_none,
            bind: Bind::Numa,
            ..Wish::default()
        };
        let situation = Situation {
            topology: &topology,
            step: &step,
            task: &task,
            gpus: &gpus,
            wish: &wish,
        };
        bind(&situation, Notes::default()).moves
    };
    assert!(moves("none", true, Starter::Slurm));
    assert!(
        !moves("none", false, Starter::Slurm),
        "the admin's default alone"
    );
    assert!(!moves("none", true, Starter::Launcher), "a launcher's word");
    for how in ["cores", "mask_cpu:0x1", "map_cpu:0", "verbose"] {
        assert!(!moves(how, true, Starter::Slurm), "{how}");
    }
}

#[test]
fn what_a_launcher_bound_stays_and_its_words_are_the_reason() {
    let bound = Step {
        starter: Starter::Launcher,
        cpu_bind: Some("`orted` bound it".to_string()),
        ..Step::default()
    };
    let situation = |step: Step| {
        let task = Task {
            cpus: CpuSet::from_list("4-11").unwrap(),
            ..Task::default()
        };
        let wish = Wish {
            bind: Bind::Numa,
            mem: Mem::Prefer,
            by_user: true,
            ..Wish::default()
        };
        let topology = node();
        let gpus = [GpuIndex(1)];
        let situation = Situation {
            topology: &topology,
            step: &step,
            task: &task,
            gpus: &gpus,
            wish: &wish,
        };
        bind(&situation, Notes::default())
    };
    let bound = situation(bound);
    assert_eq!((bound.moves, bound.notes.far.as_deref()), (false, None));
    assert_eq!(why(&bound), "`orted` bound it");
}
