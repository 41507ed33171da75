//! What a task gets of the plugin, and what is left alone.

use super::*;

#[test]
fn each_task_gets_the_nic_of_its_gpus_switch_and_nccl_one_exact_list_of_the_node() {
    let played = on("").eight();
    // the user under which tasks run needs no file; only root may become another
    if files::is_root() {
        on("--uid 65534").eight().near();
    }
    let list = played.near().env(0, "NCCL_IB_HCA").expect("a list");
    // without `=` NCCL takes names as prefixes: `mlx5_1` is also `mlx5_10`
    let names = list.strip_prefix('=').expect("an exact list").split(',');
    let mut nics: Vec<_> = names.filter_map(|name| name.split(':').next()).collect();
    nics.sort_by_key(|name| name[5..].parse::<u32>().ok());
    let expected = harness::NIC_OF_GPU.map(|nic| format!("mlx5_{nic}"));
    assert_eq!(nics, expected, "{played}");
    for task in 0..8 {
        played.has(task, "NCCL_IB_HCA", &list);
        let marker = played.env(task, "NIC_PLACEMENT").unwrap_or_default();
        assert!(marker.contains("UCX_NET_DEVICES"), "{marker}\n{played}");
    }
    let part = on("--gpu 2 --gpu 6").play();
    part.gets(0, "UCX_NET_DEVICES=mlx5_4:1")
        .gets(1, "UCX_NET_DEVICES=mlx5_10:1");
    part.has(1, "NCCL_IB_HCA", &part.env(0, "NCCL_IB_HCA").unwrap());
    let step = on("");
    step.gpu("0,1").gets(0, "UCX_NET_DEVICES=mlx5_0:1,mlx5_3:1");
}

#[test]
fn the_same_step_gives_the_same_answer_on_every_node() {
    let [first, second] =
        ["0", "1"].map(|node| on(&format!("--node-id {node} --nnodes 2")).eight());
    first.near();
    for task in 0..8 {
        for variable in ["UCX_NET_DEVICES", "NCCL_IB_HCA"] {
            second.has(task, variable, &first.env(task, variable).unwrap());
        }
    }
}

const ETH0: &str = "eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\n";

#[test]
fn ucx_keeps_the_interfaces_of_the_node_and_the_users_own_file() {
    let routes = format!("{ETH0}ib0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\n");
    let states = [("lo", "unknown\n"), ("eth0", "up\n"), ("ib0", "down\n")];
    let states = states.map(|(name, state)| (format!("{name}/operstate"), state));
    let states = states.iter().map(|(name, state)| (name.as_str(), *state));
    let states: Vec<_> = states.collect();
    let tree = harness::network("two-interfaces", &routes, &states);
    let home = private_folder("ucx-at-home");
    let step = || on(&format!("--env HOME={}", home.display())).network(&tree);
    step().gpu("0").gets(0, "UCX_NET_DEVICES=mlx5_0:1,eth0,lo");
    fs::write(home.join("ucx.conf"), "UCX_NET_DEVICES=mlx5_7:1\n").unwrap();
    step().gpu("0").gets(0, "-UCX_NET_DEVICES");
}

#[test]
fn sockets_get_the_interface_by_which_the_node_reaches_srun() {
    let routes = format!("{ETH0}eth1\t0000010A\t00000000\t0001\t0\t0\t0\t0000FFFF\n");
    let tree = harness::network("slurms-interface", &routes, &[]);
    let step = || on("--env SLURM_NIC_PLACEMENT=env=sockets").network(&tree);
    let played = step().env("SLURM_SRUN_COMM_HOST=10.1.0.7").gpu("0");
    played.gets(0, "NCCL_SOCKET_IFNAME==eth1 GLOO_SOCKET_IFNAME=eth1");
    step().gpu("0").gets(0, "GLOO_SOCKET_IFNAME=eth0");
}

/// As its driver's file has it.
fn uuid_of_gpu(n: usize) -> String {
    let cards = fs::read_dir(dgx_h100().join("proc/driver/nvidia/gpus")).unwrap();
    let mut cards: Vec<_> = cards.map(|entry| entry.unwrap().path()).collect();
    cards.sort();
    let information = fs::read_to_string(cards[n].join("information")).unwrap();
    let mut lines = information.lines();
    let uuid = lines.find_map(|line| line.strip_prefix("GPU UUID:"));
    uuid.expect("GPUs have UUIDs").trim().to_string()
}

// core's tests hold each spelling; here the files behind them are read
#[test]
fn gpus_that_are_named_by_uuid_mig_instance_or_rocms_lists_are_found() {
    let played = on("").gpu(&uuid_of_gpu(3));
    played.gets(0, "UCX_NET_DEVICES=mlx5_5:1");
    on("--task A=1").play().ok().gets(0, "-UCX_NET_DEVICES");
    let machine = |name: &str| {
        let step = Step::in_context("remote").sysfs(&recorded(name));
        step.arg("default=closest")
    };
    // a line of changes sets one variable, so the first is the step's
    let step = machine("mi300x-8-dpx").env("ROCR_VISIBLE_DEVICES=4,5,6,7");
    let played = step.with("--task HIP_VISIBLE_DEVICES=2 --task A=1").play();
    played.gets(0, "UCX_NET_DEVICES=mlx5_3:1");
    played.gets(1, "UCX_NET_DEVICES=mlx5_2:1,mlx5_3:1");
    // the first may be on two GPUs
    let instances = "--gpu MIG-a3b9c1d2-0000-5000-8000-000000000001 \
                     --gpu MIG-GPU-11e2d3c4-0000-0000-0000-000000000000/3/0";
    let played = machine("dgx-a100-mig").with(instances).play();
    played.ok().gets(0, "-UCX_NET_DEVICES");
    played.gets(1, "UCX_NET_DEVICES=mlx5_1:1");
}

// ---- what is left alone ----

#[test]
fn batch_interactive_and_extern_steps_are_left_alone() {
    for step in ["0xfffffffb", "0xfffffffa", "0xfffffffc"] {
        let played = on(&format!("--option closest --step-id {step}")).gpu("0");
        played.untouched().quiet();
    }
}

#[test]
fn each_variable_that_the_user_set_even_empty_stays_and_the_others_are_set() {
    let played = on("--env UCX_NET_DEVICES=mlx5_7:1 --env NCCL_IB_HCA=mlx5").eight();
    for task in 0..8 {
        played.ok();
        played.gets(task, "UCX_NET_DEVICES=mlx5_7:1 NCCL_IB_HCA=mlx5");
    }
    let step = on("--env UCX_NET_DEVICES=");
    step.gpu("0").ok().gets(0, "UCX_NET_DEVICES=");
    let step = on("--env NCCL_IB_HCA=mlx5");
    step.eight().near().gets(0, "NCCL_IB_HCA=mlx5");
}

/// A step whose environment comes from a task of another step that we placed, as in srun inside srun.
pub fn nested_in(outer: &Played, task: usize, step: Step) -> Step {
    let inherited = outer.whole_env(task);
    let all = inherited.iter();
    all.fold(step, |step, assignment| step.env(assignment))
}

#[test]
fn a_step_inside_a_placed_step_is_placed_anew_and_keeps_what_its_user_put_in_place_of_ours() {
    let outer = on("").eight();
    let inner = nested_in(&outer, 0, on("")).eight();
    inner.near();
    for task in 0..8 {
        let found = inner.whole_env(task).len();
        assert_eq!(found, outer.whole_env(task).len(), "{inner}");
        for variable in VARIABLES {
            inner.has(task, variable, &outer.env(task, variable).unwrap());
        }
    }
    let own = nested_in(&outer, 0, on("")).with("--env UCX_NET_DEVICES=mlx5_9:1");
    own.gpu("3").ok().gets(0, "UCX_NET_DEVICES=mlx5_9:1");
}

#[test]
fn a_step_that_says_off_inside_a_placed_step_loses_our_values_and_keeps_the_users() {
    let outer = on("--env UCX_TLS=rc").eight();
    let inner = nested_in(&outer, 0, dgx("--option off")).gpu("3");
    inner.ok().lacks(0, &VARIABLES).gets(0, "UCX_TLS=rc");
    let own = nested_in(&outer, 0, on("")).with("--env UCX_NET_DEVICES=mlx5_9:1 --option off");
    let played = own.gpu("3");
    played.ok().gets(0, "UCX_NET_DEVICES=mlx5_9:1 -NCCL_IB_HCA");
}

#[test]
fn by_what_ucx_makes_connections_is_said_beside_the_list_alone_and_taken_back_with_it() {
    const PRIORITY: &str = "UCX_SOCKADDR_TLS_PRIORITY";
    let tree = harness::network("managers", ETH0, &[("eth0/operstate", "up\n")]);
    let outer = on("").network(&tree).gpu("3");
    outer.ok().gets(0, "UCX_NET_DEVICES=mlx5_5:1,eth0");
    outer.has(0, PRIORITY, "tcp,sockcm");
    let inside = |words: &str| {
        let step = nested_in(&outer, 0, dgx("").network(&tree));
        step.with(words).gpu("3")
    };
    for word in ["off", "no-env=UCX_NET_DEVICES"] {
        let inner = inside(&format!("--option {word}"));
        inner.ok().lacks(0, &["UCX_NET_DEVICES", PRIORITY]);
    }
    let users = inside("--env UCX_SOCKADDR_TLS_PRIORITY=rdmacm --option off");
    users.has(0, PRIORITY, "rdmacm");
}

#[test]
fn dry_run_changes_nothing_also_inside_a_placed_step_and_says_what_it_would_do() {
    let played = on("--option closest,dry-run").eight();
    played.untouched();
    for (task, nic) in harness::NIC_OF_GPU.iter().enumerate() {
        let (when, nic) = (format!("task {task}"), format!("mlx5_{nic}"));
        let is = |line: &LogLine| line.when == when && line.text.contains(&nic);
        let is_so = played.shown_to_the_user().iter().any(is);
        assert!(is_so, "{when}\n{played}");
    }
    let outer = on("").eight();
    for words in ["closest,dry-run", "off,dry-run"] {
        let step = nested_in(&outer, 0, on(""));
        step.option(words).gpu("3").untouched();
    }
}

#[test]
fn verbose_shows_each_task_a_row_with_its_reasons_below_and_without_it_nobody_sees_one() {
    dgx("--option closest").eight().quiet();
    let verbose = dgx("--option closest,verbose").eight();
    let shown = verbose.near().shown_to_the_user();
    // what went well is no error
    assert!(shown.iter().all(|line| line.level == "log"), "{verbose}");
    for (task, nic) in harness::NIC_OF_GPU.iter().enumerate() {
        let start = format!("nic-placement: task {task} ");
        let of_task = shown.iter().filter(|line| line.text.starts_with(&start));
        let of_task: Vec<_> = of_task.collect();
        let row = format!("  nic mlx5_{nic}:1 PIX");
        assert!(of_task[0].has(&[&row]), "{verbose}");
        let is_short =
            |line: &&LogLine| line.when == format!("task {task}") && line.text.len() < 200;
        assert!(of_task.iter().all(is_short), "task {task}\n{verbose}");
        for reason in "set UCX_NET_DEVICES |GPU |mlx5_|CPUs: |memory: ".split('|') {
            let reason = format!("    {reason}");
            let found = of_task[1..].iter().filter(|line| line.has(&[&reason]));
            assert_eq!(found.count(), 1, "`{reason}` of task {task}\n{verbose}");
        }
    }
}

// ---- what slurmd tells each task ----

#[test]
fn how_an_outer_step_dealt_its_gpus_says_nothing_about_this_one() {
    const ALL: &str = "0,1,2,3,4,5,6,7";
    const RULE: &str = "gres/gpu:per_task:1";
    const BIND: &str = "SLURMD_TRES_BIND";
    // two tasks that see all GPUs and promise to use the one of their local id
    let promised = |words: &str, inherited: &str, own: &str| {
        let set = |rule: &str| match rule {
            "" => String::new(),
            rule => format!("{BIND}={rule}"),
        };
        let step = dgx(&format!("--option {words} --env SLURM_STEP_GPUS={ALL}"));
        let inherited = Some(inherited).filter(|rule| !rule.is_empty());
        let step = inherited
            .iter()
            .fold(step, |step, rule| step.env(&set(rule)));
        let task = format!("CUDA_VISIBLE_DEVICES={ALL} {}", set(own));
        step.task(&task).task(&task).play()
    };
    for own in ["", "gres/nic:closest", "gpu:none"] {
        let played = promised("gpu=local-id,strict", RULE, own);
        played.ok().gets(1, "UCX_NET_DEVICES=mlx5_3:1");
        let stays = Some(own).filter(|own| !own.is_empty());
        assert_eq!(played.env(1, BIND).as_deref(), stays, "{played}");
    }
    for inherited in ["", RULE, "gpu:none"] {
        promised("gpu=local-id,strict", inherited, RULE).fails(1, &[]);
    }
    for words in ["gpu=local-id,dry-run", "off"] {
        promised(words, RULE, "").untouched().has(1, BIND, RULE);
    }
}

// slurmd sets SLURM_PROCID before plugins run; Slurm's item counts each component of a heterogeneous step from 0
#[test]
fn a_tasks_number_is_the_one_that_its_program_has() {
    let number = |change: &str, words: &str| {
        let step = dgx("--arg set=SITE_TASK={task_id} --env SLURM_PROCID=7").with(words);
        step.task(&format!("CUDA_VISIBLE_DEVICES=0 {change}"))
            .play()
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
        let played = number(change, "--option closest,verbose");
        played.ok().has(0, "SITE_TASK", task);
        played.shows(&[&format!("task {task} ")]);
    }
    number("SLURM_PROCID=12", "--option strict --deaf NCCL_IB_HCA").shows(&["task 12 fails"]);
}
