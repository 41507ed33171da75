//! What each library reads on a real Slurm: lists for a node, NICs for a task, users' values and files, and the switches.

use crate::harness::{Bed, Case, cases};
use crate::machines::{nccl_list, nvshmem_list, ucx_of, ucx_of_all};
use crate::report::Task;
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

pub const CASES: &[Case] = cases![
    nccl_and_nvshmem_get_one_list_in_every_task_and_in_two_steps_of_a_job_that_own_different_gpus,
    a_configuration_file_of_the_users_keeps_the_list_away,
    a_file_that_the_user_may_not_read_says_nothing,
    a_pipe_as_configuration_file_does_not_hang_the_step,
    ucx_keeps_the_interfaces_of_its_node,
    what_ucx_reads_in_the_working_directory_stays,
    isolated_rails_hold_no_task_to_one_nic,
    the_user_chooses_whose_variables_are_set,
    the_admins_default_chooses_and_the_user_overrules_it,
    the_admins_own_variables_are_filled_for_each_task_and_node,
    an_admins_variable_that_a_task_depends_on_is_refused,
    a_nested_srun_replaces_and_withdraws_the_admins_variables_too,
    a_nested_srun_that_wants_fewer_variables_loses_the_others,
    verbose_says_which_of_the_users_values_stand_and_what_judges_them,
];

const STEP: &str = "srun -w n0 -n2 --gpus-per-task=1 @ $report";

/// The step with the option, words behind it.
fn step(words: &str) -> String {
    STEP.replace('@', &format!("--nic-placement{words}"))
}

fn assert_lists(tasks: &[Task]) {
    for task in tasks {
        assert_eq!(
            task.env("NCCL_IB_HCA"),
            Some(nccl_list().as_str()),
            "of {task:?}"
        );
        assert_eq!(
            task.env("NVSHMEM_HCA_LIST"),
            Some(nvshmem_list().as_str()),
            "of {task:?}"
        );
    }
}

fn nccl_and_nvshmem_get_one_list_in_every_task_and_in_two_steps_of_a_job_that_own_different_gpus(
    bed: &Bed,
) {
    let command = r#"salloc --quiet -w n0 -n4 --gres=gpu:4 bash -c '
        rm -f release
        srun --exact -n2 --gpus-per-task=1 @ bash -c "$report; until [ -e release ]; do sleep 0.05; done" > first &
        until [ "$(grep -c rank= first)" = 2 ]; do sleep 0.05; done
        srun --exact -n2 --gpus-per-task=1 @ $report; code=$?
        touch release; wait; sed s/rank=/rank=1/ first; exit $code'"#;
    let (_, placed) = bed.without_and_with("--nic-placement", 4, command);
    let nics: BTreeSet<&str> = placed.iter().flat_map(Task::ucx).collect();
    assert_eq!(nics.len(), 4, "UCX has a NIC for each task");
    assert_lists(&placed);
}

fn a_configuration_file_of_the_users_keeps_the_list_away(bed: &Bed) {
    let home = bed.file("home", "");
    fs::remove_file(&home)
        .and_then(|()| fs::create_dir(&home))
        .expect("a home");
    fs::write(home.join(".nccl.conf"), "NCCL_IB_HCA=mlx5\n").expect(".nccl.conf");
    let other = bed.file("my.conf", "NCCL_DEBUG=WARN\nNCCL_IB_HCA=mlx5_0\n");
    let empty = bed.file("empty.conf", "NCCL_DEBUG=WARN\n");
    for (variables, is_set) in [
        (format!("HOME={}", home.display()), false),
        (format!("NCCL_CONF_FILE={}", other.display()), false),
        ("NCCL_CONF_FILE=my.conf".to_string(), false),
        // if NCCL_CONF_FILE is set, NCCL does not read the file at home
        (
            format!("HOME={} NCCL_CONF_FILE={}", home.display(), empty.display()),
            true,
        ),
    ] {
        let expected = is_set.then(nccl_list);
        for task in bed.tasks(2, &format!("{variables} {}", step(""))) {
            assert_eq!(
                task.env("NCCL_IB_HCA"),
                expected.as_deref(),
                "with `{variables}`"
            );
            assert_eq!(
                task.ucx(),
                [ucx_of(task.gpus()[0])],
                "the other libraries do not read it"
            );
        }
    }
    fs::remove_dir_all(&home).expect("the home goes");
}

fn a_file_that_the_user_may_not_read_says_nothing(bed: &Bed) {
    let secret = bed.file("secret.conf", "NCCL_IB_HCA=mlx5_0\n");
    let as_nobody = format!(
        "chmod 600 {0}; NCCL_CONF_FILE={0} setpriv --reuid=65534 --regid=65534 --clear-groups {1}",
        secret.display(),
        step("")
    );
    assert_lists(&bed.tasks(2, &as_nobody));
    let as_root = format!("NCCL_CONF_FILE={} {}", secret.display(), step(""));
    for task in bed.tasks(2, &as_root) {
        assert_eq!(
            task.env("NCCL_IB_HCA"),
            None,
            "root may read it, and root's own task does"
        );
    }
}

fn a_pipe_as_configuration_file_does_not_hang_the_step(bed: &Bed) {
    let ran = bed.run(&format!(
        "rm -f pipe; mkfifo pipe; NCCL_CONF_FILE=$PWD/pipe {}",
        step("")
    ));
    assert_eq!((ran.code, ran.tasks.len()), (0, 2));
    assert_lists(&ran.tasks);
    assert!(ran.took < Duration::from_secs(20), "it took {:?}", ran.took);
}

fn ucx_keeps_the_interfaces_of_its_node(bed: &Bed) {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let through_a_gateway = |line: &&str| line.split_whitespace().nth(3) == Some("0003");
    let first = routes
        .lines()
        .find(through_a_gateway)
        .and_then(|line| line.split_whitespace().next());
    for transports in ["", "UCX_TLS=rc,tcp,cuda"] {
        for task in bed.tasks(2, &format!("{transports} {}", step(""))) {
            assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])]);
            assert!(
                first.is_none_or(|name| task.interfaces().contains(&name)),
                "no {first:?} in {task:?}"
            );
        }
    }
    for task in bed.tasks(2, &format!("UCX_TLS=rc,cuda {}", step(""))) {
        assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])]);
        assert!(task.interfaces().is_empty(), "of {task:?}");
    }
    for task in bed.tasks(2, &format!("UCX_TLS=^ib {}", step(""))) {
        assert_eq!(task.env("UCX_NET_DEVICES"), None, "of {task:?}");
    }
}

fn what_ucx_reads_in_the_working_directory_stays(bed: &Bed) {
    let command = format!(
        "echo UCX_NET_DEVICES=mlx5_0:1 > ucx.conf; {}; code=$?; rm ucx.conf; exit $code",
        step("")
    );
    for task in bed.tasks(2, &command) {
        assert_eq!(task.env("UCX_NET_DEVICES"), None, "of {task:?}");
    }
}

fn isolated_rails_hold_no_task_to_one_nic(bed: &Bed) {
    bed.plugin("fabric=isolated-rails");
    let (_, placed) = bed.without_and_with("--nic-placement", 2, STEP);
    assert!(
        placed.iter().all(|task| task.ucx() == ucx_of_all(0..8)),
        "{placed:?}"
    );
    bed.plugin("fabric=routed");
    let placed = bed.tasks(2, &step(""));
    assert!(
        placed
            .iter()
            .all(|task| task.ucx() == [ucx_of(task.gpus()[0])]),
        "{placed:?}"
    );
}

/// Which of the libraries' variables a task has.
fn set(task: &Task) -> Vec<&str> {
    let mut names = vec!["UCX_NET_DEVICES", "NCCL_IB_HCA", "NVSHMEM_HCA_LIST"];
    names.retain(|name| task.env(name).is_some());
    names
}

fn the_user_chooses_whose_variables_are_set(bed: &Bed) {
    for (words, expected) in [
        ("=env=ucx", &["UCX_NET_DEVICES"][..]),
        (
            "=env=nccl,nvshmem,bind=none",
            &["NCCL_IB_HCA", "NVSHMEM_HCA_LIST"],
        ),
        ("=env=none", &[]),
        ("=no-env=NCCL_IB_HCA,NVSHMEM_HCA_LIST", &["UCX_NET_DEVICES"]),
        (
            "=env=default",
            &["UCX_NET_DEVICES", "NCCL_IB_HCA", "NVSHMEM_HCA_LIST"],
        ),
    ] {
        for task in bed.tasks(2, &step(words)) {
            assert_eq!(set(&task), expected, "with `{words}`");
            assert!(task.env("NIC_PLACEMENT").is_some(), "with `{words}`");
        }
    }
    let ran = bed.run(&step("=env=uxc"));
    assert!(
        ran.code != 0
            && ran
                .stderr
                .contains("no library is called so; known: default"),
        "{}",
        ran.stderr
    );
}

fn the_admins_default_chooses_and_the_user_overrules_it(bed: &Bed) {
    bed.plugin("default=closest,env=ucx,no-env=NVSHMEM_HCA_LIST");
    let command = STEP.replace('@', "");
    assert!(
        bed.tasks(2, &command)
            .iter()
            .all(|task| set(task) == ["UCX_NET_DEVICES"])
    );
    let overruled = bed.tasks(2, &format!("SLURM_NIC_PLACEMENT=env=default {command}"));
    assert!(
        overruled
            .iter()
            .all(|task| set(task) == ["UCX_NET_DEVICES", "NCCL_IB_HCA"]),
        "{overruled:?}"
    );
    let again = format!("SLURM_NIC_PLACEMENT=env=default {}", step("=env=nccl"));
    assert!(
        bed.tasks(2, &again)
            .iter()
            .all(|task| set(task) == ["NCCL_IB_HCA"])
    );
}

fn the_admins_own_variables_are_filled_for_each_task_and_node(bed: &Bed) {
    let file = bed.file("topology.xml", "<system/>");
    bed.plugin(&format!(
        "set=SITE_NIC={{nic}}/{{gpu}}/{{local_id}} set=SITE_NODE={{rail_count}} set=SITE_FILE={}",
        file.display()
    ));
    let (_, placed) = bed.without_and_with("--nic-placement", 2, STEP);
    for (local, task) in placed.iter().enumerate() {
        let gpu = task.gpus()[0];
        let nic = ucx_of(gpu);
        let expected = format!("{}/{gpu}/{local}", nic.split(':').next().unwrap());
        assert_eq!(task.env("SITE_NIC"), Some(expected.as_str()));
        assert_eq!(task.env("SITE_NODE"), Some("8"));
        assert_eq!(task.env("SITE_FILE"), file.to_str());
    }
    for task in bed.tasks(2, &format!("SITE_NIC=mine {}", step("=no-env=SITE_NODE"))) {
        assert_eq!(
            (task.env("SITE_NIC"), task.env("SITE_NODE")),
            (Some("mine"), None)
        );
    }
    // a task with two GPUs has no single NIC; a file that does not exist is not named
    bed.plugin("set=SITE_NIC={nic} set=SITE_FILE=/nowhere/{machine}.xml");
    let two = "srun -w n0 -n2 --gpus-per-task=2 --nic-placement $report";
    for task in bed.tasks(2, two) {
        assert_eq!((task.env("SITE_NIC"), task.env("SITE_FILE")), (None, None));
    }
}

fn an_admins_variable_that_a_task_depends_on_is_refused(bed: &Bed) {
    for (argument, why) in [
        ("set=LD_PRELOAD=/nowhere.so", "`LD_PRELOAD` is refused"),
        (
            "set=NCCL_IB_HCA={nic}",
            "`NCCL_IB_HCA` must be the same in every task of a node",
        ),
    ] {
        bed.plugin(&format!("set=SITE_NIC={{nic}} {argument}"));
        let tasks = bed.tasks(2, &step(""));
        let is_left = |task: &Task| task.is_untouched() && task.env("SITE_NIC").is_none();
        assert!(
            tasks.iter().all(is_left),
            "{argument} places no step: {tasks:?}"
        );
        let log = bed.log("n0");
        assert!(log.contains(why), "{log}");
    }
    bed.plugin("set=SITE_NIC={nic}");
    assert!(
        bed.tasks(2, &step(""))
            .iter()
            .all(|task| task.env("SITE_NIC").is_some())
    );
}

/// An outer srun with all GPUs and one task, which runs `inner`.
fn nested(outer: &str, inner: &str) -> String {
    format!("srun -w n0 -n1 -c8 --gres=gpu:8 {outer} bash -c '{inner}'")
}

const INNER: &str = "srun --overlap -n1 -c8 --gres=gpu:1 --cpu-bind=none";

fn a_nested_srun_replaces_and_withdraws_the_admins_variables_too(bed: &Bed) {
    bed.plugin("set=SITE_NIC={nics} set=SITE_NODE=100%{rail_count}");
    let inner = format!(
        "$report; {INNER} --nic-placement $report | sed s/rank=0/rank=1/; \
         {INNER} --nic-placement=off $report | sed s/rank=0/rank=2/; \
         SITE_NIC=mine {INNER} --nic-placement=off $report | sed s/rank=0/rank=3/"
    );
    let tasks = bed.tasks(4, &nested("--nic-placement", &inner));
    assert_eq!(
        tasks[0].env("SITE_NIC"),
        Some(ucx_of_all(0..8).join(",").as_str()),
        "in the outer step"
    );
    assert_eq!(
        tasks[1].env("SITE_NIC"),
        Some(ucx_of(0).as_str()),
        "in the inner step"
    );
    assert_eq!(
        tasks[1].env("SITE_NODE"),
        Some("100%8"),
        "in the inner step"
    );
    assert!(tasks[2].is_untouched(), "with `off`: {:?}", tasks[2]);
    assert_eq!(
        (tasks[2].env("SITE_NIC"), tasks[2].env("SITE_NODE")),
        (None, None),
        "with `off`"
    );
    assert_eq!(
        tasks[3].env("SITE_NIC"),
        Some("mine"),
        "the user's own stays"
    );
}

fn a_nested_srun_that_wants_fewer_variables_loses_the_others(bed: &Bed) {
    let conf = bed.file("inner.conf", "NCCL_IB_HCA=mlx5_0\n");
    let inner = format!(
        "$report; {INNER} --nic-placement=env=ucx $report | sed s/rank=0/rank=1/; \
         NCCL_CONF_FILE={} {INNER} --nic-placement $report | sed s/rank=0/rank=2/",
        conf.display()
    );
    let tasks = bed.tasks(3, &nested("--nic-placement", &inner));
    assert_eq!(
        set(&tasks[0]),
        ["UCX_NET_DEVICES", "NCCL_IB_HCA", "NVSHMEM_HCA_LIST"],
        "in the outer step"
    );
    assert_eq!(set(&tasks[1]), ["UCX_NET_DEVICES"], "with `env=ucx`");
    assert_eq!(
        set(&tasks[2]),
        ["UCX_NET_DEVICES", "NVSHMEM_HCA_LIST"],
        "with a file of the user's"
    );
}

fn verbose_says_which_of_the_users_values_stand_and_what_judges_them(bed: &Bed) {
    let variables = "NCCL_IB_HCA=mlx5_1 NCCL_P2P_DISABLE=1 NCCL_DEBUG=WARN";
    let with = bed.run(&format!("{variables} {}", step("=verbose")));
    let line = "the user's own NCCL_IB_HCA: `nic-placement check --only variable` in the program's place judges it";
    assert_eq!(
        with.stderr.matches(line).count(),
        1,
        "once for the node: {}",
        with.stderr
    );
    let quiet = bed.run(&format!("{variables} {}", step("")));
    assert!(
        !quiet.stderr.contains("NCCL"),
        "not without `verbose`: {}",
        quiet.stderr
    );
    assert!(
        with.tasks
            .iter()
            .all(|task| task.env("NCCL_IB_HCA") == Some("mlx5_1")),
        "it stays all the same"
    );
}
