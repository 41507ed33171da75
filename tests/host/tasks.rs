//! What a task gets of the plugin, and what is left alone.

use super::*;

#[test]
fn each_task_gets_the_nic_of_its_gpus_switch() {
    play!(default_on().task_per_gpu()).assert_nearest_nics();
}

#[test]
fn nccl_gets_one_exact_list_that_is_the_same_for_all_tasks_of_the_node() {
    let played = play!(default_on().task_per_gpu());
    let list = played
        .env(0, "NCCL_IB_HCA")
        .expect("the storage NICs must be left out");
    assert!(
        list.starts_with('='),
        "without `=` NCCL takes names as prefixes: `mlx5_1` is also `mlx5_10`\n{played}"
    );
    let names: Vec<_> = list[1..]
        .split(',')
        .map(|name| name.split(':').next().unwrap_or(name))
        .collect();
    let mut expected: Vec<_> = harness::NIC_OF_GPU
        .iter()
        .map(|nic| format!("mlx5_{nic}"))
        .collect();
    expected.sort_by_key(|name| names.iter().position(|other| other == name));
    assert_eq!(names, expected, "{played}");
    for task in 1..8 {
        assert_eq!(
            played.env(task, "NCCL_IB_HCA").as_ref(),
            Some(&list),
            "task {task}\n{played}"
        );
    }
}

#[test]
fn nccl_gets_the_same_list_from_a_step_with_fewer_gpus() {
    let whole = play!(default_on().task_per_gpu());
    let part = play!(
        default_on()
            .task("CUDA_VISIBLE_DEVICES=2")
            .task("CUDA_VISIBLE_DEVICES=6")
    );
    assert_eq!(
        part.env(0, "NCCL_IB_HCA"),
        part.env(1, "NCCL_IB_HCA"),
        "{part}"
    );
    assert_eq!(
        part.env(0, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_4:1"),
        "{part}"
    );
    assert_eq!(
        part.env(1, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_10:1"),
        "{part}"
    );
    whole.assert_nothing_failed();
}

#[test]
fn ucx_keeps_the_interfaces_of_the_node_and_the_users_own_file() {
    let routes = "eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\nib0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\n";
    let states = [
        ("lo/operstate", "unknown\n"),
        ("eth0/operstate", "up\n"),
        ("ib0/operstate", "down\n"),
    ];
    let tree = harness::network("two-interfaces", routes, &states);
    let home = private_folder("ucx-at-home");
    let step = default_on()
        .network(&tree)
        .env(&format!("HOME={}", home.display()));
    let step = step.task("CUDA_VISIBLE_DEVICES=0");
    let played = play!(step.clone());
    assert_eq!(
        played.env(0, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_0:1,eth0,lo"),
        "{played}"
    );
    fs::write(home.join("ucx.conf"), "UCX_NET_DEVICES=mlx5_7:1\n").unwrap();
    let played = play!(step);
    assert_eq!(played.env(0, "UCX_NET_DEVICES"), None, "{played}");
}

#[test]
fn sockets_get_the_interface_by_which_the_node_reaches_srun() {
    let routes = "eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\neth1\t0000010A\t00000000\t0001\t0\t0\t0\t0000FFFF\n";
    let tree = harness::network("slurms-interface", routes, &[]);
    let step = default_on()
        .network(&tree)
        .env("SLURM_NIC_PLACEMENT=env=sockets")
        .task("CUDA_VISIBLE_DEVICES=0");
    let played = play!(step.clone().env("SLURM_SRUN_COMM_HOST=10.1.0.7"));
    assert_eq!(
        played.env(0, "NCCL_SOCKET_IFNAME").as_deref(),
        Some("=eth1"),
        "{played}"
    );
    assert_eq!(
        played.env(0, "GLOO_SOCKET_IFNAME").as_deref(),
        Some("eth1"),
        "{played}"
    );
    let played = play!(step);
    assert_eq!(
        played.env(0, "GLOO_SOCKET_IFNAME").as_deref(),
        Some("eth0"),
        "{played}"
    );
}

#[test]
fn every_task_is_told_what_was_decided() {
    let played = play!(default_on().task_per_gpu());
    for task in 0..8 {
        let marker = played.env(task, "NIC_PLACEMENT").unwrap_or_default();
        assert!(
            marker.contains("UCX_NET_DEVICES"),
            "task {task}: the variables that we set are named\n{played}"
        );
        assert!(!marker.contains('\n'), "task {task}: one line\n{played}");
    }
}

#[test]
fn the_same_step_gives_the_same_answer_on_every_node() {
    let first = play!(
        default_on()
            .task_per_gpu()
            .word("--node-id", "0")
            .word("--nnodes", "2")
    );
    let second = play!(
        default_on()
            .task_per_gpu()
            .word("--node-id", "1")
            .word("--nnodes", "2")
    );
    first.assert_nearest_nics();
    for task in 0..8 {
        for variable in ["UCX_NET_DEVICES", "NCCL_IB_HCA"] {
            assert_eq!(
                first.env(task, variable),
                second.env(task, variable),
                "`{variable}` of task {task}"
            );
        }
    }
}

#[test]
fn a_task_with_two_gpus_gets_the_nics_of_both() {
    let played = play!(default_on().task("CUDA_VISIBLE_DEVICES=0,1"));
    let devices = played.env(0, "UCX_NET_DEVICES").unwrap_or_default();
    let mut nics: Vec<_> = devices.split(',').collect();
    nics.sort_unstable();
    assert_eq!(nics, ["mlx5_0:1", "mlx5_3:1"], "{played}");
}

#[test]
fn a_gpu_that_is_named_by_its_uuid_is_found() {
    let mut cards: Vec<_> = fs::read_dir(dgx_h100().join("proc/driver/nvidia/gpus"))
        .expect("the machine has GPUs")
        .map(|entry| entry.unwrap().path())
        .collect();
    cards.sort();
    let information = fs::read_to_string(cards[3].join("information")).unwrap();
    let uuid = information
        .lines()
        .find_map(|line| line.strip_prefix("GPU UUID:"))
        .expect("GPUs have UUIDs")
        .trim();
    let played = play!(default_on().task(&format!("CUDA_VISIBLE_DEVICES={uuid}")));
    assert_eq!(
        played.env(0, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_5:1"),
        "{played}"
    );
}

#[test]
fn rocms_lists_are_read_one_over_the_other() {
    let step = Step::in_context("remote")
        .sysfs(&recorded("mi300x-8-dpx"))
        .arg("default=closest");
    // a line of changes sets one variable, so the first is the step's
    let played = play!(
        step.env("ROCR_VISIBLE_DEVICES=4,5,6,7")
            .task("HIP_VISIBLE_DEVICES=2")
            .task("")
    );
    assert_eq!(
        played.env(0, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_3:1"),
        "{played}"
    );
    assert_eq!(
        played.env(1, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_2:1,mlx5_3:1"),
        "{played}"
    );
}

#[test]
fn a_mig_instance_that_may_be_on_two_gpus_is_left_to_the_libraries() {
    let step = Step::in_context("remote")
        .sysfs(&recorded("dgx-a100-mig"))
        .arg("default=closest");
    let spelled = [
        "MIG-a3b9c1d2-0000-5000-8000-000000000001",
        "MIG-GPU-11e2d3c4-0000-0000-0000-000000000000/3/0",
    ];
    let played = play!(spelled.iter().fold(step, |step, uuid| {
        step.task(&format!("CUDA_VISIBLE_DEVICES={uuid}"))
    }));
    played.assert_nothing_failed();
    assert_eq!(played.env(0, "UCX_NET_DEVICES"), None, "{played}");
    assert_eq!(
        played.env(1, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_1:1"),
        "{played}"
    );
}

#[test]
fn a_task_without_gpus_is_left_to_ucx() {
    let played = play!(default_on().task(""));
    played.assert_nothing_failed();
    assert_eq!(played.env(0, "UCX_NET_DEVICES"), None, "{played}");
}

#[test]
fn tasks_run_as_the_user_and_need_no_file() {
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root {
        println!("skipped: only root may become another user");
        return;
    }
    play!(default_on().task_per_gpu().word("--uid", "65534")).assert_nearest_nics();
}

// ---- what is left alone ----

#[test]
fn batch_interactive_and_extern_steps_are_left_alone() {
    for step in ["0xfffffffb", "0xfffffffa", "0xfffffffc"] {
        let played = play!(
            default_on()
                .option("closest")
                .word("--step-id", step)
                .task("CUDA_VISIBLE_DEVICES=0")
        );
        played.assert_untouched();
        assert_eq!(played.shown_to_the_user(), [], "{step}\n{played}");
    }
}

#[test]
fn what_the_user_set_is_never_overwritten() {
    let step = default_on()
        .env("UCX_NET_DEVICES=mlx5_7:1")
        .env("NCCL_IB_HCA=mlx5")
        .task_per_gpu();
    let played = play!(step);
    played.assert_nothing_failed();
    for task in 0..8 {
        assert_eq!(
            played.env(task, "UCX_NET_DEVICES").as_deref(),
            Some("mlx5_7:1"),
            "task {task}\n{played}"
        );
        assert_eq!(
            played.env(task, "NCCL_IB_HCA").as_deref(),
            Some("mlx5"),
            "task {task}\n{played}"
        );
    }
}

#[test]
fn what_the_user_left_empty_is_also_the_users() {
    let played = play!(
        default_on()
            .env("UCX_NET_DEVICES=")
            .task("CUDA_VISIBLE_DEVICES=0")
    );
    played.assert_nothing_failed();
    assert_eq!(
        played.env(0, "UCX_NET_DEVICES").as_deref(),
        Some(""),
        "{played}"
    );
}

#[test]
fn one_variable_of_the_user_does_not_keep_the_others_from_being_set() {
    let played = play!(default_on().env("NCCL_IB_HCA=mlx5").task_per_gpu());
    played.assert_nearest_nics();
}

/// A step whose environment comes from a task of another step that we placed, as in srun inside srun.
pub fn nested_in(outer: &Played, task: usize, step: Step) -> Step {
    let inherited = outer.whole_env(task);
    inherited
        .iter()
        .fold(step, |step, assignment| step.env(assignment))
}

#[test]
fn a_step_inside_a_placed_step_is_placed_anew() {
    let outer = play!(default_on().task_per_gpu());
    let inner = play!(nested_in(&outer, 0, default_on()).task_per_gpu());
    inner.assert_nearest_nics();
    for task in 0..8 {
        assert_eq!(
            inner.whole_env(task).len(),
            outer.whole_env(task).len(),
            "task {task}\n{inner}"
        );
        for variable in VARIABLES {
            assert_eq!(
                inner.env(task, variable),
                outer.env(task, variable),
                "`{variable}` of task {task}"
            );
        }
    }
}

#[test]
fn a_value_that_the_user_put_in_the_place_of_ours_is_the_users() {
    let outer = play!(default_on().task_per_gpu());
    outer.assert_nearest_nics();
    let inner = play!(
        nested_in(&outer, 0, default_on())
            .env("UCX_NET_DEVICES=mlx5_9:1")
            .task("CUDA_VISIBLE_DEVICES=3")
    );
    inner.assert_nothing_failed();
    assert_eq!(
        inner.env(0, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_9:1"),
        "{inner}"
    );
}

#[test]
fn a_step_that_says_off_inside_a_placed_step_loses_our_values_and_keeps_the_users() {
    let outer = play!(default_on().env("UCX_TLS=rc").task_per_gpu());
    outer.assert_nearest_nics();
    let inner = play!(
        nested_in(&outer, 0, Step::on_dgx_h100())
            .option("off")
            .task("CUDA_VISIBLE_DEVICES=3")
    );
    inner.assert_nothing_failed();
    for variable in VARIABLES {
        assert_eq!(inner.env(0, variable), None, "{inner}");
    }
    assert_eq!(inner.env(0, "UCX_TLS").as_deref(), Some("rc"), "{inner}");

    let own = play!(
        nested_in(&outer, 0, default_on())
            .env("UCX_NET_DEVICES=mlx5_9:1")
            .option("off")
            .task("")
    );
    assert_eq!(
        own.env(0, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_9:1"),
        "{own}"
    );
    assert_eq!(own.env(0, "NCCL_IB_HCA"), None, "{own}");
}

#[test]
fn by_what_ucx_makes_connections_is_said_beside_the_list_alone_and_taken_back_with_it() {
    const PRIORITY: &str = "UCX_SOCKADDR_TLS_PRIORITY";
    let tree = harness::network(
        "managers",
        "eth0\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\n",
        &[("eth0/operstate", "up\n")],
    );
    let on_network = || Step::on_dgx_h100().network(&tree);
    let outer = play!(
        on_network()
            .arg("default=closest")
            .task("CUDA_VISIBLE_DEVICES=3")
    );
    outer.assert_nothing_failed();
    assert_eq!(
        outer.env(0, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_5:1,eth0"),
        "{outer}"
    );
    assert_eq!(
        outer.env(0, PRIORITY).as_deref(),
        Some("tcp,sockcm"),
        "{outer}"
    );
    for word in ["off", "no-env=UCX_NET_DEVICES"] {
        let inner = play!(
            nested_in(&outer, 0, on_network())
                .option(word)
                .task("CUDA_VISIBLE_DEVICES=3")
        );
        inner.assert_nothing_failed();
        assert_eq!(inner.env(0, "UCX_NET_DEVICES"), None, "`{word}`\n{inner}");
        assert_eq!(inner.env(0, PRIORITY), None, "`{word}`\n{inner}");
    }
    let users = nested_in(&outer, 0, on_network()).env("UCX_SOCKADDR_TLS_PRIORITY=rdmacm");
    let users = play!(users.option("off").task("CUDA_VISIBLE_DEVICES=3"));
    assert_eq!(users.env(0, PRIORITY).as_deref(), Some("rdmacm"), "{users}");
}

#[test]
fn dry_run_changes_nothing_and_says_what_it_would_do() {
    let played = play!(default_on().option("closest,dry-run").task_per_gpu());
    played.assert_untouched();
    for (task, nic) in harness::NIC_OF_GPU.iter().enumerate() {
        let shown = played.shown_to_the_user();
        let said = shown
            .iter()
            .any(|l| l.when == format!("task {task}") && l.text.contains(&format!("mlx5_{nic}")));
        assert!(said, "task {task}\n{played}");
    }
}

#[test]
fn dry_run_inside_a_placed_step_changes_nothing_either() {
    let outer = play!(default_on().task_per_gpu());
    for words in ["closest,dry-run", "off,dry-run"] {
        let inner = play!(
            nested_in(&outer, 0, default_on())
                .option(words)
                .task("CUDA_VISIBLE_DEVICES=3")
        );
        inner.assert_untouched();
    }
}

#[test]
fn verbose_shows_each_task_a_row_with_its_reasons_below_and_without_it_nobody_sees_one() {
    let quiet = play!(Step::on_dgx_h100().option("closest").task_per_gpu());
    assert_eq!(quiet.shown_to_the_user(), [], "{quiet}");
    let verbose = play!(Step::on_dgx_h100().option("closest,verbose").task_per_gpu());
    verbose.assert_nearest_nics();
    let shown = verbose.shown_to_the_user();
    assert!(
        shown.iter().all(|line| line.level == "log"),
        "what went well is no error\n{verbose}"
    );
    for (task, nic) in harness::NIC_OF_GPU.iter().enumerate() {
        let of_task: Vec<_> = shown
            .iter()
            .filter(|line| line.when == format!("task {task}"))
            .collect();
        let [row, below @ ..] = of_task.as_slice() else {
            panic!("task {task}\n{verbose}")
        };
        let start = format!("nic-placement: task {task} ");
        assert!(
            row.text.starts_with(&start) && row.text.contains(&format!("  nic mlx5_{nic}:1 PIX")),
            "{verbose}"
        );
        let reasons = [
            "    set UCX_NET_DEVICES ",
            "    GPU ",
            "    mlx5_",
            "    CPUs: ",
            "    memory: ",
        ];
        for reason in reasons {
            let is_it =
                |line: &&&LogLine| line.text.starts_with(&start) && line.text.contains(reason);
            assert_eq!(
                below.iter().filter(is_it).count(),
                1,
                "`{reason}` of task {task}\n{verbose}"
            );
        }
        assert!(
            of_task.iter().all(|line| line.text.len() < 200),
            "task {task}\n{verbose}"
        );
    }
}

// ---- binding ----

#[test]
fn nobody_is_bound_by_facts_of_another_machine() {
    let free = play!(Step::on_dgx_h100().task_per_gpu());
    let placed = play!(default_on().option("closest,bind=numa").task_per_gpu());
    placed.assert_nearest_nics();
    for task in 0..8 {
        assert_eq!(placed.cpus(task), free.cpus(task), "task {task}\n{placed}");
        assert_eq!(
            placed.memory(task),
            free.memory(task),
            "task {task}\n{placed}"
        );
    }
}

#[test]
fn a_task_never_gets_a_cpu_that_slurm_did_not_give_it() {
    let step = default_on()
        .arg("trust-topology")
        .option("closest,bind=numa")
        .word("--cpus", "0")
        .task_per_gpu();
    let played = play!(step);
    played.assert_nearest_nics();
    for task in 0..8 {
        assert_eq!(
            played.cpus(task).as_deref(),
            Some("0"),
            "task {task}\n{played}"
        );
    }
}

#[test]
fn memory_is_preferred_and_never_fenced() {
    let played = play!(
        default_on()
            .arg("trust-topology")
            .option("closest,bind=numa")
            .task_per_gpu()
    );
    played.assert_nearest_nics();
    for task in 0..8 {
        let Some(policy) = played.memory(task) else {
            return;
        };
        let allowed = policy.starts_with("default") || policy.starts_with("preferred");
        assert!(allowed, "task {task}: `{policy}`\n{played}");
    }
}

#[test]
fn an_explicit_cpu_bind_of_the_user_stands() {
    let step = default_on()
        .arg("trust-topology")
        .option("closest,bind=numa")
        .env("SLURM_CPU_BIND_TYPE=cores");
    let step = step
        .env("SLURM_MEM_BIND_TYPE=local")
        .task("CUDA_VISIBLE_DEVICES=0");
    let free = play!(Step::on_dgx_h100().task(""));
    let played = play!(step);
    played.assert_nearest_nics();
    assert_eq!(
        (played.cpus(0), played.memory(0)),
        (free.cpus(0), free.memory(0)),
        "{played}"
    );
}

// ---- what slurmd tells each task ----

const ALL: &str = "0,1,2,3,4,5,6,7";

/// Two tasks that see all GPUs and promise to use the one of their local id; `inherited` is how an outer step dealt its GPUs,
/// `own` how this one does.
fn promised(words: &str, inherited: &str, own: &str) -> Step {
    let step = Step::on_dgx_h100()
        .option(words)
        .env(&format!("SLURM_STEP_GPUS={ALL}"));
    let step = if inherited.is_empty() {
        step
    } else {
        step.env(&format!("SLURMD_TRES_BIND={inherited}"))
    };
    let own = if own.is_empty() {
        String::new()
    } else {
        format!(" SLURMD_TRES_BIND={own}")
    };
    (0..2).fold(step, |step, _| {
        step.task(&format!("CUDA_VISIBLE_DEVICES={ALL}{own}"))
    })
}

#[test]
fn how_an_outer_step_dealt_its_gpus_says_nothing_about_this_one() {
    let rule = "gres/gpu:per_task:1";
    let nic = |played: &Played| played.env(1, "UCX_NET_DEVICES");
    for own in ["", "gres/nic:closest", "gpu:none"] {
        let played = play!(promised("gpu=local-id,strict", rule, own));
        played.assert_nothing_failed();
        assert_eq!(
            nic(&played).as_deref(),
            Some("mlx5_3:1"),
            "`{own}`\n{played}"
        );
        let now = played.env(1, "SLURMD_TRES_BIND");
        assert_eq!(
            now.as_deref(),
            Some(own).filter(|own| !own.is_empty()),
            "slurmd's own stays\n{played}"
        );
    }
    for inherited in ["", rule, "gpu:none"] {
        let played = play!(promised("gpu=local-id,strict", inherited, rule));
        assert_ne!(played.exit(1), Some(0), "this step's counts\n{played}");
    }
    for words in ["gpu=local-id,dry-run", "off"] {
        let played = play!(promised(words, rule, ""));
        played.assert_untouched();
        assert_eq!(
            played.env(1, "SLURMD_TRES_BIND").as_deref(),
            Some(rule),
            "{words}\n{played}"
        );
    }
}

// slurmd sets SLURM_PROCID before plugins run; Slurm's item counts each component of a heterogeneous step from 0
#[test]
fn a_tasks_number_is_the_one_that_its_program_has() {
    let number = |change: &str, words: &str| {
        let step = Step::on_dgx_h100()
            .arg("set=SITE_TASK={task_id}")
            .option(words)
            .env("SLURM_PROCID=7");
        step.task(&format!("CUDA_VISIBLE_DEVICES=0 {change}"))
    };
    for (change, task) in [
        ("SLURM_PROCID=4294967295", "4294967295"),
        ("SLURM_PROCID=12", "12"),
        ("", "0"),
        ("-SLURM_PROCID", "0"),
        ("SLURM_PROCID=", "0"),
        ("SLURM_PROCID=+12", "0"),
        ("SLURM_PROCID=12x", "0"),
        ("SLURM_PROCID=4294967296", "0"),
    ] {
        let played = play!(number(change, "closest,verbose"));
        played.assert_nothing_failed();
        assert_eq!(
            played.env(0, "SITE_TASK").as_deref(),
            Some(task),
            "`{change}`\n{played}"
        );
        let line = format!("task {task} ");
        assert!(
            played
                .shown_to_the_user()
                .iter()
                .any(|said| said.text.contains(&line)),
            "`{change}`\n{played}"
        );
    }
    let strict = play!(number("SLURM_PROCID=12", "strict").word("--deaf", "NCCL_IB_HCA"));
    let said = strict.shown_to_the_user();
    assert!(
        said.iter().any(|line| line.text.contains("task 12 fails")),
        "{strict}"
    );
}
