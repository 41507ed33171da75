//! Steps whose program decides about their placement: what binds its program itself, mpirun's daemons, Python.

use crate::harness::{Bed, Case, cases, skip};
use crate::machines::{cpus_near, dgx_a100, ucx_of};
use crate::report::Task;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

pub const CASES: &[Case] = cases![
    who_starts_a_program_by_numactl_keeps_its_cpus_and_gets_its_nic,
    a_program_that_binds_its_processes_itself_keeps_its_cpus,
    a_program_with_a_map_of_its_own_gets_no_list_beside_it,
    the_daemons_of_an_mpirun_that_has_a_node_for_itself_are_not_placed,
    the_daemon_that_starts_all_ranks_of_a_node_keeps_all_of_its_cpus,
    a_program_in_python_that_places_itself_changes_nothing_that_the_plugin_set,
];

/// A program of that name that reports, with a folder around it.
fn program(bed: &Bed, name: &str) -> PathBuf {
    let path = bed.file(name, "#!/bin/bash\nexec $report\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it may be started");
    path
}

fn who_starts_a_program_by_numactl_keeps_its_cpus_and_gets_its_nic(bed: &Bed) {
    // each task's GPU is on the other socket
    let step = "srun -w n0 -n2 -c112 -m block:block --gres=gpu:8 --gpu-bind=map_gpu:4,0 @";
    let is_near = |task: &Task| task.cpus().is_subset(&cpus_near(task.gpus()[0]));
    let other = program(bed, "train");
    for (name, moves) in [("numactl", false), ("train", true)] {
        let program = if name == "train" {
            other.clone()
        } else {
            program(bed, name)
        };
        let (without, placed) = bed.without_and_with(
            "--nic-placement",
            2,
            &format!("{step} {}", program.display()),
        );
        for (before, task) in without.iter().zip(&placed) {
            assert_eq!(
                (is_near(before), is_near(task)),
                (false, moves),
                "`{name}`: {task:?}"
            );
            assert_eq!(before.mem() == task.mem(), !moves, "`{name}`: {task:?}");
            assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])], "`{name}`");
        }
    }
}

// `vllm serve --numa-bind` ends with an error where its mask is not every CPU
fn a_program_that_binds_its_processes_itself_keeps_its_cpus(bed: &Bed) {
    let step = "srun -w n0 -n2 -c112 -m block:block --gres=gpu:8 --gpu-bind=map_gpu:4,0 @";
    let paths = ["train", "numactl", "vllm", "deepspeed"]
        .map(|name| program(bed, name).display().to_string());
    let [train, numactl, vllm, deepspeed] = paths;
    let switch = "SGLANG_CRASH_ON_NUMA_BIND_FAILURE=1";
    for (command, moves) in [
        (format!("{step} {vllm} serve model"), true),
        (format!("{step} {vllm} serve model --numa-bind"), false),
        (
            format!("{step} bash -c 'exec {vllm} serve model --numa_bind'"),
            false,
        ),
        (
            format!("{step} {deepspeed} --bind_cores_to_rank train.py"),
            false,
        ),
        (format!("{step} env A=1 {numactl} -C 0 ./train"), false),
        (
            format!("{step} bash -lc 'true; {numactl} -C 0 ./train'"),
            false,
        ),
        (format!("{switch} {step} {train}"), false),
        (
            format!("{switch} SGLANG_AUTO_NUMA_BIND=0 {step} {train}"),
            true,
        ),
    ] {
        let (without, placed) = bed.without_and_with("--nic-placement", 2, &command);
        for (before, task) in without.iter().zip(&placed) {
            assert_eq!(
                before.cpus() == task.cpus(),
                !moves,
                "`{command}`: {task:?}"
            );
            assert_eq!(before.mem() == task.mem(), !moves, "`{command}`: {task:?}");
            assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])], "`{command}`");
        }
    }
}

fn a_program_with_a_map_of_its_own_gets_no_list_beside_it(bed: &Bed) {
    let step = "srun -w n0 -n1 --gres=gpu:8 --nic-placement";
    let sglang = program(bed, "sglang").display().to_string();
    for (command, lists) in [
        (format!("{step} {sglang} serve"), 1),
        (
            format!("{step} {sglang} serve --disaggregation-ib-device mlx5_0"),
            0,
        ),
        (
            format!("{step} bash -c 'exec {sglang} serve --disaggregation-ib-device=mlx5_0'"),
            0,
        ),
        (format!("MX_RDMA_NIC_PIN=auto {step} {sglang} serve"), 0),
        (format!("MX_RDMA_NIC_PIN=off {step} {sglang} serve"), 1),
    ] {
        for task in bed.tasks(1, &command) {
            assert_eq!(
                task.env("UCX_NET_DEVICES").iter().count(),
                lists,
                "`{command}`: {task:?}"
            );
            assert!(
                task.env("NCCL_IB_HCA").is_some(),
                "NCCL's list has nothing to do with it: `{command}`"
            );
        }
    }
}

fn the_daemons_of_an_mpirun_that_has_a_node_for_itself_are_not_placed(bed: &Bed) {
    let daemon = program(bed, "orted");
    let link = bed.file("prted", "");
    fs::remove_file(&link)
        .and_then(|()| symlink(&daemon, &link))
        .expect("another name");
    let job = |nodes: &str, step: &str| {
        format!("salloc --quiet -w {nodes} -n2 --gres=gpu:1 bash -c '{step}'")
    };
    let on_one = |program: &str| format!("srun -w n1 -N1 -n1 --gres=gpu:1 @ {program}");
    for path in [&daemon, &link] {
        let (without, daemons) = bed.without_and_with(
            "--nic-placement",
            1,
            &job("n0,n1 -N2", &on_one(&path.display().to_string())),
        );
        assert!(
            without.iter().chain(&daemons).all(Task::is_untouched),
            "{path:?}: {daemons:?}"
        );
    }
    let asked = bed.run(&job(
        "n0,n1 -N2",
        &on_one(&daemon.display().to_string()).replace('@', "--nic-placement"),
    ));
    assert_eq!(
        asked
            .stderr
            .matches("put `nic-placement exec --` before the ranks")
            .count(),
        1,
        "{}",
        asked.stderr
    );
    // where mpirun runs on no node of the job's, all ranks are below such a daemon; and another program is none
    let all = format!("srun -N2 -n2 --gres=gpu:1 @ {}", daemon.display());
    let other = on_one("$report");
    for (nodes, step, tasks) in [("n0,n1 -N2", &all, 2), ("n0,n1 -N2", &other, 1)] {
        let (_, placed) = bed.without_and_with("--nic-placement", tasks, &job(nodes, step));
        assert!(
            placed
                .iter()
                .all(|task| task.ucx() == [ucx_of(task.gpus()[0])]),
            "`{step}`: {placed:?}"
        );
    }
}

fn the_daemon_that_starts_all_ranks_of_a_node_keeps_all_of_its_cpus(bed: &Bed) {
    // as mpirun calls srun; before 23.11 srun knows no such option, and reads no SLURM_CPUS_PER_TASK
    if bed.site.release < (23, 11) {
        skip("this release has no `srun --external-launcher`");
    }
    // its eight GPUs are near half of the CPUs
    bed.plugin(&format!(
        "sysfs={} trust-topology",
        dgx_a100(bed.site).display()
    ));
    let daemon = program(bed, "prted");
    let step = format!("srun --external-launcher -N1 -n1 @ {}", daemon.display());
    let command = format!("salloc --quiet -w n0 -n56 -c4 --gres=gpu:8 {step}");
    let (without, placed) = bed.without_and_with("--nic-placement", 1, &command);
    assert_eq!(
        without[0].cpus().len(),
        224,
        "all of the job's: {without:?}"
    );
    assert_eq!(placed[0].cpus(), without[0].cpus(), "{placed:?}");
    assert_eq!(placed[0].ucx().len(), 8, "{placed:?}");
}

/// Places itself, says what that did and what `verify` says, and becomes the task that reports, whose memory and CPUs are its own.
const PYTHON: &str = r#"
import json, os, sys
import nic_placement
plan = nic_placement.plan()
said, verified = plan.apply(), nic_placement.verify()
del os.environ["LD_PRELOAD"]
print(json.dumps([said, plan.reasons, plan.nics, verified]), flush=True)
os.execvp(sys.argv[1], sys.argv[1:])
"#;

fn a_program_in_python_that_places_itself_changes_nothing_that_the_plugin_set(bed: &Bed) {
    let folder = bed.site.plugin.parent().expect("a folder").display();
    let library = format!("{folder}/libnic_placement_capi.so");
    if bed.run("python3 -c ''").code != 0 || !fs::exists(&library).is_ok_and(|is_there| is_there) {
        skip(format!("no `python3`, or no `{library}`"));
    }
    bed.file("place.py", PYTHON);
    let (dir, repository) = (bed.dir.display(), bed.site.repository.display());
    let python = format!(
        "env LD_PRELOAD={dir}/bin/fakecpu.so PATH={folder}:$PATH PYTHONPATH={repository}/python NIC_PLACEMENT_CORE={library} \
         python3 -B {dir}/place.py $report"
    );
    // the words that the task's environment does not have would give another plan: two NICs for each, and no CPUs
    for words in ["rail,nics-per-task=2", "closest,bind=none"] {
        let step = format!("srun -w n0 -n4 --gpus-per-task=1 --nic-placement={words}");
        // a shell may have repeated the number
        for before in [
            "",
            "bash -c 'export LOCAL_RANK=$SLURM_LOCALID; exec \"$@\"' - ",
        ] {
            let plugins = bed.tasks(4, &format!("{step} $report"));
            let ran = bed.run(&format!("{step} {before}{python}"));
            assert_eq!((ran.code, ran.tasks), (0, plugins.clone()), "`{words}`");
            let said: Vec<&str> = ran
                .stdout
                .lines()
                .filter(|line| line.starts_with("[[]"))
                .collect();
            assert_eq!(said.len(), 4, "{}", ran.stdout);
            for task in plugins {
                let nics: Vec<String> = task.ucx().iter().map(|nic| format!("\"{nic}\"")).collect();
                let plan = format!(
                    "[[], [\"it is placed already: nothing changes\"], [{}], ",
                    nics.join(", ")
                );
                let planned = format!("\"planned\": [{}], ", nics.join(", "));
                let is_own = |line: &&str| {
                    line.starts_with(&plan)
                        && line.contains(&planned)
                        && line.contains("\"changed\": []}")
                };
                assert!(said.iter().any(is_own), "{plan}{planned}\n{said:#?}");
            }
        }
    }
}
