//! What a user controls and root reads: each such value, with harm in it, opens no file, changes no other value and ends no hook.

use super::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// All variables of a step that are read before slurmstepd has become the user.
const READ_AS_ROOT: &str = "SLURM_NIC_PLACEMENT,SLURM_NIC_PLACEMENT_BEFORE,SLURM_NIC_PLACEMENT_TOLD,SLURM_NIC_PLACEMENT_OFF,\
    SLURM_NIC_PLACEMENT_CPU_BIND,SLURM_JOB_PARTITION,SLURM_JOB_ID,SLURM_HET_SIZE,SLURM_JOB_ID_HET_GROUP_0,\
    SLURM_JOB_ID_HET_GROUP_1,SLURM_CPU_BIND_TYPE,SLURM_MEM_BIND_TYPE,SLURM_CPUS_PER_TASK,SLURM_THREADS_PER_CORE,\
    SLURM_NTASKS_PER_CORE,SLURM_NTASKS_PER_SOCKET,SLURM_STEP_GPUS,SLURMD_NODENAME";

/// Variables that name a file, or else a folder, to a library, or look as if they did.
const FILES: &str = "NCCL_CONF_FILE,NCCL_TOPO_FILE,NVSHMEM_CONF_FILE";
const FOLDERS: &str = "HOME,UCX_CONFIG_DIR,MC_CUSTOM_TOPO_FILE,XDG_CONFIG_HOME,TMPDIR,PWD";

const BEFORE_THE_TASKS: [&str; 4] = ["load", "init", "option", "init_post_opt"];

fn harmful() -> Vec<OsString> {
    let texts = "|,|-1|0|99999999999999999999|0x,0x,0x|0-4294967295|/etc/shadow|../../../etc/shadow|topology=/etc/shadow|\
        closest,topology=/etc/shadow|%s%n%p|none\n[2026-01-01T00:00:00.000] error: FORGED|0:closest;1:closest;0:|=,=,=:;;::";
    let mut values: Vec<OsString> = texts.split('|').map(OsString::from).collect();
    values.push(OsString::from_vec(b"\xff\xfe\x80".to_vec()));
    // as large as one word of a command line may be: the kernel's MAX_ARG_STRLEN
    values.push(OsString::from("1,".repeat(65_000)));
    values.push(OsString::from("[".repeat(130_000)));
    values
}

fn with(step: Step, name: &str, value: &OsString) -> Step {
    let mut assignment = OsString::from(format!("{name}="));
    assignment.push(value);
    // the name must leave room for the value within the kernel's limit
    let cut: Vec<u8> = assignment.into_vec().into_iter().take(131_000).collect();
    step.word("--env", OsString::from_vec(cut))
}

fn opened_before_the_tasks(played: &Played) -> Vec<&str> {
    let all = BEFORE_THE_TASKS.iter();
    all.flat_map(|hook| played.opened(hook)).collect()
}

#[test]
fn no_value_that_root_reads_of_a_user_ends_a_hook_opens_a_file_or_changes_a_nic() {
    let quiet = on("--tell-files 2").eight();
    let usual = opened_before_the_tasks(&quiet);
    assert!(!usual.is_empty(), "files are told\n{quiet}");
    for name in READ_AS_ROOT.split(',') {
        for value in harmful() {
            let played = with(on("--tell-files 2 --gpu 0 --gpu 1"), name, &value).play();
            match name {
                // it may say `off`
                "SLURM_NIC_PLACEMENT" => played.ok(),
                _ => played.near(),
            };
            let mut new = opened_before_the_tasks(&played);
            new.retain(|path| !usual.contains(path));
            assert_eq!(new, [""; 0], "{played}");
        }
    }
}

#[test]
fn no_file_that_a_user_names_is_opened_before_the_task_is_the_users() {
    let home = private_folder("users-home");
    fs::write(home.join(".nccl.conf"), "# nothing\n").unwrap();
    let place = home.to_str().expect("a plain path");
    for words in "closest closest,verbose,env=default+mooncake+openmpi observe".split(' ') {
        let step = dgx(&format!("--tell-files 2 --option {words}"));
        let named = |list: &'static str, file| {
            list.split(',')
                .map(move |name| format!("{name}={place}{file}"))
        };
        let step = named(FILES, "/.nccl.conf")
            .chain(named(FOLDERS, ""))
            .fold(step, |step, each| step.env(&each));
        let played = step.gpu("0");
        let is_users = |path: &&str| path.starts_with(place);
        let is_so = !opened_before_the_tasks(played.ok()).iter().any(is_users);
        assert!(is_so, "{played}");
        let asked = played.opened("task 0").iter().any(is_users);
        assert_eq!(asked, words != "observe", "{played}");
    }
}

#[test]
fn verbose_names_the_users_values_that_stand_and_the_command_that_judges_them_once_for_the_node() {
    let own = "--env UCX_NET_DEVICES=mlx5_1:1 --env NCCL_IB_HCA=mlx5_1";
    let none_of_ours = "--env NCCL_P2P_DISABLE=1";
    let command = "UCX_NET_DEVICES NCCL_IB_HCA: `nic-placement check --only variable`";
    for (words, times) in [
        (format!("verbose {own} {none_of_ours}"), 1),
        (format!("verbose {none_of_ours}"), 0),
        (format!("closest {own} {none_of_ours}"), 0),
    ] {
        let played = dgx(&format!("--option {words} --gpu 0 --gpu 1")).play();
        let shown = played.shown_to_the_user();
        let judged = shown.iter();
        let judged: Vec<_> = judged.filter(|line| line.has(&["judges it"])).collect();
        assert_eq!(judged.len(), times, "{played}");
        assert!(judged.iter().all(|line| line.has(&[command])), "{played}");
    }
}
