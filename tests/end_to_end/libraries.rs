//! The variables of each library on a real Slurm: lists for a node, NICs for a task, users' values and files, and the switches.

use super::suite::*;
use std::time::Duration;

pub const ROWS: &[Case] = rows! {
    isolated_rails_hold_no_task_to_one_nic: 2 "-n2 --gpus-per-task=1" ("fabric=isolated-rails")
        => is(|task| task.ucx() == ucx_of_all(0..8));
    a_routed_fabric_holds_each_task_to_its_own: 2 "-n2 --gpus-per-task=1" ("fabric=routed") => own;
};

pub const CASES: &[Case] = cases![
    nccl_and_nvshmem_get_one_list_in_two_steps_of_a_job_that_own_different_gpus,
    a_configuration_file_of_the_users_keeps_the_list_away,
    a_file_that_the_user_may_not_read_says_nothing,
    a_pipe_as_configuration_file_does_not_hang_the_step,
    ucx_keeps_the_interfaces_of_its_node,
    what_ucx_reads_in_the_working_directory_stays,
    the_user_chooses_whose_variables_are_set,
    the_admins_default_chooses_and_the_user_overrules_it,
    the_admins_own_variables_are_filled_for_each_task_and_node,
    an_admins_variable_that_a_task_depends_on_is_refused,
    a_nested_srun_replaces_and_withdraws_the_admins_variables_too,
    a_nested_srun_that_wants_fewer_variables_loses_the_others,
    verbose_says_which_of_the_users_values_stand_and_what_judges_them,
];

const UCX: &str = "UCX_NET_DEVICES";
const NCCL: &str = "NCCL_IB_HCA";
const NVSHMEM: &str = "NVSHMEM_HCA_LIST";

fn has_lists(task: &Task) -> bool {
    task.is_listed() && task.env(NVSHMEM) == Some(&ucx_of_all(0..8).join(","))
}

fn nccl_and_nvshmem_get_one_list_in_two_steps_of_a_job_that_own_different_gpus(bed: &Bed) {
    let command = r#"salloc --quiet -w n0 -n4 --gres=gpu:4 bash -c '
        rm -f release
        srun --exact -n2 --gpus-per-task=1 @ bash -c "$report; until [ -e release ]; do sleep 0.05; done" > first &
        until [ "$(grep -c rank= first)" = 2 ]; do sleep 0.05; done
        srun --exact -n2 --gpus-per-task=1 @ $report; code=$?
        touch release; wait; sed s/rank=/rank=1/ first; exit $code'"#;
    let (_, placed) = bed.both("", 4, command);
    assert_eq!(nics_of(&placed).len(), 4, "{placed:?}");
    all(&placed, has_lists);
}

fn a_configuration_file_of_the_users_keeps_the_list_away(bed: &Bed) {
    let home = bed.dir.join("home");
    fs::create_dir_all(&home).expect("a home");
    fs::write(home.join(".nccl.conf"), "NCCL_IB_HCA=mlx5\n").expect(".nccl.conf");
    let home = format!("HOME={}", home.display());
    let other = bed.file("my.conf", "NCCL_DEBUG=WARN\nNCCL_IB_HCA=mlx5_0\n");
    let empty = bed.file("empty.conf", "NCCL_DEBUG=WARN\n");
    for (variables, is_set) in [
        (home.clone(), false),
        (format!("NCCL_CONF_FILE={other}"), false),
        ("NCCL_CONF_FILE=my.conf".to_string(), false),
        // if NCCL_CONF_FILE is set, NCCL does not read the file at home
        (format!("{home} NCCL_CONF_FILE={empty}"), true),
    ] {
        all(&bed.with("", 2, &format!("{variables} {TWO}")), |task| {
            task.is_own() && (task.is_listed(), task.env(NCCL).is_some()) == (is_set, is_set)
        });
    }
}

fn a_file_that_the_user_may_not_read_says_nothing(bed: &Bed) {
    let secret = bed.file("secret.conf", "NCCL_IB_HCA=mlx5_0\n");
    let command = format!("chmod 600 {secret}; NCCL_CONF_FILE={secret}");
    let as_nobody = format!("{command} {NOBODY} {TWO}");
    all(&bed.with("", 2, &as_nobody), has_lists);
    // root may read it, and root's own task does
    let is_so = |task: &Task| task.lacks(&[NCCL]);
    all(&bed.with("", 2, &format!("{command} {TWO}")), is_so);
}

fn a_pipe_as_configuration_file_does_not_hang_the_step(bed: &Bed) {
    let command = format!("rm -f pipe; mkfifo pipe; NCCL_CONF_FILE=$PWD/pipe {TWO}");
    let ran = bed.ask("", &command).ended(0, 2);
    all(&ran.tasks, has_lists);
    assert!(ran.took < Duration::from_secs(20), "{:?}", ran.took);
}

fn ucx_keeps_the_interfaces_of_its_node(bed: &Bed) {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let mut rows = routes
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let gateway = rows
        .find(|words| words.get(3) == Some(&"0003"))
        .map(|words| words[0]);
    for transports in ["", "UCX_TLS=rc,tcp,cuda"] {
        all(&bed.with("", 2, &format!("{transports} {TWO}")), |task| {
            task.is_own() && gateway.is_none_or(|name| task.interfaces().contains(&name))
        });
    }
    let tasks = bed.with("", 2, &format!("UCX_TLS=rc,cuda {TWO}"));
    all(&tasks, |task| task.is_own() && task.interfaces().is_empty());
    let is_so = |task: &Task| task.lacks(&[UCX]);
    all(&bed.with("", 2, &format!("UCX_TLS=^ib {TWO}")), is_so);
}

fn what_ucx_reads_in_the_working_directory_stays(bed: &Bed) {
    let file = "echo UCX_NET_DEVICES=mlx5_0:1 > ucx.conf";
    let command = format!("{file}; {TWO}; code=$?; rm ucx.conf; exit $code");
    all(&bed.with("", 2, &command), |task| task.lacks(&[UCX]));
}

/// The libraries' variables that a task has.
fn set(task: &Task) -> Vec<&str> {
    let names = [UCX, NCCL, NVSHMEM].into_iter();
    names.filter(|name| task.env(name).is_some()).collect()
}

fn the_user_chooses_whose_variables_are_set(bed: &Bed) {
    for (words, expected) in [
        ("env=ucx", &[UCX][..]),
        ("env=nccl,nvshmem,bind=none", &[NCCL, NVSHMEM]),
        ("env=none", &[]),
        ("no-env=NCCL_IB_HCA,NVSHMEM_HCA_LIST", &[UCX]),
        ("env=default", &[UCX, NCCL, NVSHMEM]),
    ] {
        let is_so = |task: &Task| set(task) == expected && task.env("NIC_PLACEMENT").is_some();
        all(&bed.with(words, 2, TWO), is_so);
    }
    bed.ask("env=uxc", TWO)
        .failed()
        .says(1, "no library is called so");
}

fn the_admins_default_chooses_and_the_user_overrules_it(bed: &Bed) {
    bed.plugin("default=closest,env=ucx,no-env=NVSHMEM_HCA_LIST");
    let overruled = format!("SLURM_NIC_PLACEMENT=env=default {TWO}");
    all(&bed.bare(2, TWO), |task| set(task) == [UCX]);
    all(&bed.bare(2, &overruled), |task| set(task) == [UCX, NCCL]);
    let is_so = |task: &Task| set(task) == [NCCL];
    all(&bed.with("env=nccl", 2, &overruled), is_so);
}

fn the_admins_own_variables_are_filled_for_each_task_and_node(bed: &Bed) {
    let file = bed.file("topology.xml", "<system/>");
    let filled = "set=SITE_NIC={nic}/{gpu}/{local_id} set=SITE_NODE={rail_count}";
    bed.plugin(&format!("{filled} set=SITE_FILE={file}"));
    all(&bed.both("", 2, TWO).1, |task| {
        let expected = format!("{}/{}/{}", NIC_OF_GPU[task.gpu()], task.gpu(), task.local());
        let has = ["SITE_NIC", "SITE_NODE", "SITE_FILE"].map(|name| task.env(name));
        has == [Some(&*expected), Some("8"), Some(&*file)]
    });
    let tasks = bed.with("no-env=SITE_NODE", 2, &format!("SITE_NIC=mine {TWO}"));
    let is_so = |task: &Task| task.env("SITE_NIC") == Some("mine") && task.lacks(&["SITE_NODE"]);
    all(&tasks, is_so);
    // a task with two GPUs has no single NIC; a file that does not exist is not named
    bed.plugin("set=SITE_NIC={nic} set=SITE_FILE=/nowhere/{machine}.xml");
    let two = bed.with("", 2, &srun("-n2 --gpus-per-task=2"));
    all(&two, |task| task.lacks(&["SITE_NIC", "SITE_FILE"]));
}

fn an_admins_variable_that_a_task_depends_on_is_refused(bed: &Bed) {
    for (argument, why) in [
        ("set=LD_PRELOAD=/nowhere.so", "`LD_PRELOAD` is refused"),
        ("set=NCCL_IB_HCA={nic}", "`NCCL_IB_HCA` must be the same"),
    ] {
        bed.plugin(&format!("set=SITE_NIC={{nic}} {argument}"));
        let is_left = |task: &Task| task.is_untouched() && task.lacks(&["SITE_NIC"]);
        all(&bed.with("", 2, TWO), is_left);
        assert_ne!(bed.logged("n0", why), 0, "{why}");
    }
    bed.plugin("set=SITE_NIC={nic}");
    all(&bed.with("", 2, TWO), |task| task.env("SITE_NIC").is_some());
}

fn a_nested_srun_replaces_and_withdraws_the_admins_variables_too(bed: &Bed) {
    bed.plugin("set=SITE_NIC={nics} set=SITE_NODE=100%{rail_count}");
    let inner = format!(
        "$report; {INNER} --nic-placement $report | sed s/rank=0/rank=1/; \
         {INNER} --nic-placement=off $report | sed s/rank=0/rank=2/; \
         SITE_NIC=mine {INNER} --nic-placement=off $report | sed s/rank=0/rank=3/"
    );
    let tasks = bed.with("", 4, &nested(&inner));
    let list = ucx_of_all(0..8).join(",");
    let [nics, nodes] = ["SITE_NIC", "SITE_NODE"]
        .map(|name| tasks.iter().map(|task| task.env(name)).collect::<Vec<_>>());
    assert_eq!(nics, [Some(&*list), Some("mlx5_0:1"), None, Some("mine")]);
    assert_eq!(nodes, [Some("100%8"), Some("100%8"), None, None]);
    assert!(tasks[2].is_untouched(), "{tasks:?}");
}

fn a_nested_srun_that_wants_fewer_variables_loses_the_others(bed: &Bed) {
    let conf = bed.file("inner.conf", "NCCL_IB_HCA=mlx5_0\n");
    let inner = format!(
        "$report; {INNER} --nic-placement=env=ucx $report | sed s/rank=0/rank=1/; \
         NCCL_CONF_FILE={conf} {INNER} --nic-placement $report | sed s/rank=0/rank=2/"
    );
    let tasks = bed.with("", 3, &nested(&inner));
    let sets: Vec<_> = tasks.iter().map(set).collect();
    assert_eq!(sets, [&[UCX, NCCL, NVSHMEM][..], &[UCX], &[UCX, NVSHMEM]]);
}

fn verbose_says_which_of_the_users_values_stand_and_what_judges_them(bed: &Bed) {
    let command = format!("NCCL_IB_HCA=mlx5_1 NCCL_P2P_DISABLE=1 NCCL_DEBUG=WARN {TWO}");
    let ran = bed.ask("verbose", &command);
    let ran = ran.says(1, "own NCCL_IB_HCA: `nic-placement check --only variable`");
    all(&ran.tasks, |task| task.env(NCCL) == Some("mlx5_1"));
    bed.ask("", &command).says(0, "NCCL");
}
