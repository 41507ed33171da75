//! What a user controls and root reads: each such value, with harm in it, opens no file, changes no other value and ends no hook.

use super::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// All variables of a step that are read before slurmstepd has become the user.
const READ_AS_ROOT: [&str; 18] = [
    "SLURM_NIC_PLACEMENT",
    "SLURM_NIC_PLACEMENT_BEFORE",
    "SLURM_NIC_PLACEMENT_TOLD",
    "SLURM_NIC_PLACEMENT_OFF",
    "SLURM_NIC_PLACEMENT_CPU_BIND",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_ID",
    "SLURM_HET_SIZE",
    "SLURM_JOB_ID_HET_GROUP_0",
    "SLURM_JOB_ID_HET_GROUP_1",
    "SLURM_CPU_BIND_TYPE",
    "SLURM_MEM_BIND_TYPE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_THREADS_PER_CORE",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_SOCKET",
    "SLURM_STEP_GPUS",
    "SLURMD_NODENAME",
];

/// Variables that name a file or a folder to a library, or look as if they did.
const PATHS: [&str; 9] = [
    "HOME",
    "NCCL_CONF_FILE",
    "NCCL_TOPO_FILE",
    "UCX_CONFIG_DIR",
    "NVSHMEM_CONF_FILE",
    "MC_CUSTOM_TOPO_FILE",
    "XDG_CONFIG_HOME",
    "TMPDIR",
    "PWD",
];

const BEFORE_THE_TASKS: [&str; 4] = ["load", "init", "option", "init_post_opt"];

fn harmful() -> Vec<OsString> {
    let mut values: Vec<OsString> = [
        "",
        ",",
        "-1",
        "0",
        "99999999999999999999",
        "0x,0x,0x",
        "0-4294967295",
        "/etc/shadow",
        "../../../etc/shadow",
        "topology=/etc/shadow",
        "closest,topology=/etc/shadow",
        "%s%n%p",
        "none\n[2026-01-01T00:00:00.000] error: FORGED",
        "0:closest;1:closest;0:",
        "=,=,=:;;::",
    ]
    .map(OsString::from)
    .into();
    values.push(OsString::from_vec(b"\xff\xfe\x80".to_vec()));
    // as large as one word of a command line may be: the kernel's MAX_ARG_STRLEN
    values.push(OsString::from("1,".repeat(65_000)));
    values.push(OsString::from("[".repeat(130_000)));
    values
}

fn with(step: Step, name: &str, value: &OsString) -> Step {
    let mut assignment = OsString::from(format!("{name}="));
    assignment.push(value);
    // what follows the name must leave room for it within the kernel's limit
    let cut: Vec<u8> = assignment.into_vec().into_iter().take(131_000).collect();
    step.word("--env", OsString::from_vec(cut))
}

/// The files that were opened during these hooks.
fn opened(played: &Played, hooks: &[&str]) -> Vec<String> {
    let events = hooks.iter().flat_map(|hook| played.events(hook));
    events
        .filter_map(|event| event.strip_prefix("opened ").map(str::to_string))
        .collect()
}

#[test]
fn no_value_that_root_reads_of_a_user_ends_a_hook_opens_a_file_or_changes_a_nic() {
    let quiet = play!(default_on().word("--tell-files", "2").task_per_gpu());
    let usual = opened(&quiet, &BEFORE_THE_TASKS);
    assert!(!usual.is_empty(), "files are told\n{quiet}");
    for name in READ_AS_ROOT {
        for value in harmful() {
            let step = with(default_on().word("--tell-files", "2"), name, &value);
            let played = play!(
                step.task("CUDA_VISIBLE_DEVICES=0")
                    .task("CUDA_VISIBLE_DEVICES=1")
            );
            match name {
                // it may say `off`
                "SLURM_NIC_PLACEMENT" => played.assert_nothing_failed(),
                _ => played.assert_nearest_nics(),
            }
            let new: Vec<_> = opened(&played, &BEFORE_THE_TASKS)
                .into_iter()
                .filter(|path| !usual.contains(path))
                .collect();
            assert_eq!(new, [""; 0], "{name}={value:?}\n{played}");
        }
    }
}

#[test]
fn no_file_that_a_user_names_is_opened_before_the_task_is_the_users() {
    let home = private_folder("users-home");
    fs::write(home.join(".nccl.conf"), "# nothing\n").unwrap();
    let place = home.to_str().expect("a plain path");
    for words in [
        "closest",
        "closest,verbose,env=default+mooncake+openmpi",
        "observe",
    ] {
        let step = PATHS
            .iter()
            .fold(Step::on_dgx_h100().option(words), |step, name| {
                let file =
                    if ["NCCL_CONF_FILE", "NCCL_TOPO_FILE", "NVSHMEM_CONF_FILE"].contains(name) {
                        "/.nccl.conf"
                    } else {
                        ""
                    };
                step.env(&format!("{name}={place}{file}"))
            });
        let played = play!(
            step.word("--tell-files", "2")
                .task("CUDA_VISIBLE_DEVICES=0")
        );
        played.assert_nothing_failed();
        let of_user = |hooks: &[&str]| {
            opened(&played, hooks)
                .iter()
                .filter(|path| path.starts_with(place))
                .count()
        };
        assert_eq!(of_user(&BEFORE_THE_TASKS), 0, "{words}\n{played}");
        assert_eq!(
            of_user(&["task 0"]) > 0,
            words != "observe",
            "the task asks them\n{played}"
        );
    }
}

#[test]
fn a_count_of_tasks_that_no_node_has_costs_nobody_the_job() {
    for count in ["4294967295", "1000000", "0"] {
        let step = default_on()
            .option("closest,verbose,bind=core")
            .word("--local-tasks", count);
        let played = play!(
            step.word("--nnodes", "4000000000")
                .task("CUDA_VISIBLE_DEVICES=0")
        );
        played.assert_nothing_failed();
    }
}

#[test]
fn verbose_names_the_users_values_that_stand_and_the_command_that_judges_them_once_for_the_node() {
    let step = |words: &str, variables: &[&str]| {
        let step = variables
            .iter()
            .fold(Step::on_dgx_h100().option(words), |step, one| step.env(one));
        step.task("CUDA_VISIBLE_DEVICES=0")
            .task("CUDA_VISIBLE_DEVICES=1")
    };
    let said = |played: &Played| -> Vec<String> {
        let shown = played.shown_to_the_user();
        shown
            .iter()
            .map(|line| line.text.clone())
            .filter(|line| line.contains("judges it"))
            .collect()
    };
    let own = [
        "UCX_NET_DEVICES=mlx5_1:1",
        "NCCL_IB_HCA=mlx5_1",
        "NCCL_P2P_DISABLE=1",
    ];
    let found = said(&play!(step("verbose", &own)));
    assert_eq!(found.len(), 1, "{found:?}");
    let line = "the user's own UCX_NET_DEVICES NCCL_IB_HCA: `nic-placement check --only variable` in the program's place \
                judges it";
    assert!(found[0].ends_with(line), "{found:?}");
    assert_eq!(
        said(&play!(step("verbose", &own[2..]))),
        [""; 0],
        "nothing stands in place of ours"
    );
    assert_eq!(said(&play!(step("closest", &own))), [""; 0]);
}
