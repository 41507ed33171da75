//! Steps whose program decides about their placement: one that binds its program itself, mpirun's daemons, Python.

use super::suite::*;
use std::os::unix::fs::{PermissionsExt, symlink};

pub const CASES: &[Case] = cases![
    a_program_that_binds_its_processes_itself_keeps_its_cpus_and_gets_its_nic,
    a_program_with_a_map_of_its_own_gets_no_list_beside_it,
    the_daemons_of_an_mpirun_that_has_a_node_for_itself_are_not_placed,
    the_daemon_that_starts_all_ranks_of_a_node_keeps_all_of_its_cpus,
    a_program_in_python_that_places_itself_changes_nothing_that_the_plugin_set,
];

/// A program of that name that reports, with a folder around it.
fn program(bed: &Bed, name: &str) -> String {
    let path = bed.file(name, "#!/bin/bash\nexec $report\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

// `vllm serve --numa-bind` ends with an error where its mask is not every CPU
fn a_program_that_binds_its_processes_itself_keeps_its_cpus_and_gets_its_nic(bed: &Bed) {
    let names = ["train", "numactl", "vllm", "deepspeed"];
    let [train, numactl, vllm, deepspeed] = names.map(|name| program(bed, name));
    let switch = "SGLANG_CRASH_ON_NUMA_BIND_FAILURE=1";
    let off = format!("{switch} SGLANG_AUTO_NUMA_BIND=0");
    for (before, command, moves) in [
        ("", train.clone(), true),
        ("", numactl.clone(), false),
        ("", format!("{vllm} serve model"), true),
        ("", format!("{vllm} serve model --numa-bind"), false),
        (
            "",
            format!("bash -c 'exec {vllm} serve model --numa_bind'"),
            false,
        ),
        (
            "",
            format!("{deepspeed} --bind_cores_to_rank train.py"),
            false,
        ),
        ("", format!("env A=1 {numactl} -C 0 ./train"), false),
        (
            "",
            format!("bash -lc 'true; {numactl} -C 0 ./train'"),
            false,
        ),
        (switch, train.clone(), false),
        (&off, train.clone(), true),
    ] {
        let (bare, placed) = bed.both("", 2, &format!("{before} srun {CROSSED} @ {command}"));
        all(&bare, |task| !task.is_near());
        each(&bare, &placed, |bare, task| {
            let stays = [task.cpus() == bare.cpus(), task.mem() == bare.mem()];
            stays == [!moves; 2] && task.is_near() == moves && task.is_own()
        });
    }
}

fn a_program_with_a_map_of_its_own_gets_no_list_beside_it(bed: &Bed) {
    let sglang = program(bed, "sglang");
    let device = "--disaggregation-ib-device";
    for (before, command, has_list) in [
        ("", format!("{sglang} serve"), true),
        ("", format!("{sglang} serve {device} mlx5_0"), false),
        (
            "",
            format!("bash -c 'exec {sglang} serve {device}=mlx5_0'"),
            false,
        ),
        ("MX_RDMA_NIC_PIN=auto", format!("{sglang} serve"), false),
        ("MX_RDMA_NIC_PIN=off", format!("{sglang} serve"), true),
    ] {
        let step = format!("{before} srun -w n0 -n1 --gres=gpu:8 @ {command}");
        // NCCL's list has nothing to do with it
        all(&bed.with("", 1, &step), |task| {
            task.env("UCX_NET_DEVICES").is_some() == has_list && task.env("NCCL_IB_HCA").is_some()
        });
    }
}

fn the_daemons_of_an_mpirun_that_has_a_node_for_itself_are_not_placed(bed: &Bed) {
    let daemon = program(bed, "orted");
    let link = bed.dir.join("prted");
    let _ = fs::remove_file(&link);
    symlink(&daemon, &link).expect("another name");
    let job =
        |step: &str| format!("salloc --quiet -w n0,n1 -N2 -n2 --gres=gpu:1 bash -c 'srun {step}'");
    let on_one = |program: &str| job(&format!("-w n1 -N1 -n1 --gres=gpu:1 @ {program}"));
    for path in [&daemon, link.to_str().expect("text")] {
        all(&bed.both("", 1, &on_one(path)).1, Task::is_untouched);
    }
    let way_out = "put `nic-placement exec --` before the ranks";
    bed.ask("", &on_one(&daemon)).says(1, way_out);
    // where mpirun runs on no node of the job's, all ranks are below such a daemon; and another program is none
    let on_all = job(&format!("-N2 -n2 --gres=gpu:1 @ {daemon}"));
    for (tasks, command) in [(2, on_all), (1, on_one("$report"))] {
        all(&bed.both("", tasks, &command).1, Task::is_own);
    }
}

fn the_daemon_that_starts_all_ranks_of_a_node_keeps_all_of_its_cpus(bed: &Bed) {
    // as mpirun calls srun; before 23.11 srun knows no such option, and reads no SLURM_CPUS_PER_TASK
    if bed.site.release < (23, 11) {
        skip("no `srun --external-launcher` before 23.11");
    }
    // its eight GPUs are near half of the CPUs
    bed.plugin(&format!(
        "sysfs={} trust-topology",
        dgx_a100(bed.site).display()
    ));
    let step = format!(
        "srun --external-launcher -N1 -n1 @ {}",
        program(bed, "prted")
    );
    let command = format!("salloc --quiet -w n0 -n56 -c4 --gres=gpu:8 {step}");
    let (bare, placed) = bed.both("", 1, &command);
    each(&bare, &placed, |bare, task| {
        bare.cpus().len() == 224 && task.cpus() == bare.cpus() && task.ucx().len() == 8
    });
}

/// Places itself, prints what came of it and what `verify` says, and becomes the task that reports, whose memory and CPUs are its own.
const PYTHON: &str = r#"
import json, os, sys
import nic_placement
plan = nic_placement.plan()
said, (task,) = plan.apply(), nic_placement.verify()["tasks"]
del os.environ["LD_PRELOAD"]
print("said", json.dumps([said, len(plan.reasons), plan.nics, task["planned"], task["changed"]]), flush=True)
os.execvp(sys.argv[1], sys.argv[1:])
"#;

fn a_program_in_python_that_places_itself_changes_nothing_that_the_plugin_set(bed: &Bed) {
    let folder = bed.site.plugin.parent().expect("a folder").display();
    let library = format!("{folder}/libnic_placement_capi.so");
    if bed.run("python3 -c ''").code != 0 || !Path::new(&library).exists() {
        skip(format!("no `python3`, or no `{library}`"));
    }
    let script = bed.file("place.py", PYTHON);
    let (dir, repository) = (bed.dir.display(), bed.site.repository.display());
    let python = format!(
        "env LD_PRELOAD={dir}/bin/fakecpu.so PATH={folder}:$PATH PYTHONPATH={repository}/python \
         NIC_PLACEMENT_CORE={library} python3 -B {script} $report"
    );
    // a shell may have repeated the number
    let shell = "bash -c 'export LOCAL_RANK=$SLURM_LOCALID; exec $*' -";
    // the words that the task's environment does not have would give another plan: two NICs for each, and no CPUs
    for words in ["rail,nics-per-task=2", "closest,bind=none"] {
        for before in ["", shell] {
            let step = format!("srun -w n0 -n4 --gpus-per-task=1 @ {before}");
            let plugins = bed.with(words, 4, &format!("{step} $report"));
            let ran = bed.ask(words, &format!("{step} {python}")).ended(0, 4);
            assert_eq!(ran.tasks, plugins, "{words}");
            let said = ran
                .stdout
                .lines()
                .filter_map(|line| line.strip_prefix("said "));
            let read = |line| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
            let said: BTreeSet<String> = said.map(|line| read(line).to_string()).collect();
            // it is placed already, which is the one reason: nothing changes
            let own = |nics: Vec<&str>| serde_json::json!([[], 1, nics, nics, []]).to_string();
            let expected = plugins.iter().map(|task| own(task.ucx())).collect();
            assert_eq!(said, expected, "{words}");
        }
    }
}
