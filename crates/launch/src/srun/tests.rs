//! Lines of srun as getopt_long(3) and Slurm read them.

use super::{SrunLine, plan};
use crate::tests::cells;
use nic_placement_core::step::{Step, Task};
use nic_placement_node::platform;

fn parsed(line: &str) -> Result<SrunLine, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    SrunLine::parse(&words)
}

/// On DGX H100.
fn planned(line: &str, is_later: bool) -> Result<(Step, Vec<Task>), String> {
    let node = platform::model("dgx-h100").unwrap();
    plan(&parsed(line)?, &node, is_later)
}

#[test]
fn each_spelling_of_an_option_is_read_as_getopt_reads_it() {
    let expected = parsed("srun -N2 -n16 -c4 --gpus-per-task=1 ./train -n 3").unwrap();
    assert_eq!(expected.values["ntasks"], "16");
    assert_eq!(expected.program, ["./train", "-n", "3"]);
    for line in [
        "srun -N 2 -n 16 -c 4 --gpus-per-task 1 ./train -n 3",
        "/usr/bin/srun --nodes=2 --ntasks 16 --cpus-per-task=4 --gpus-per-task=1 -- ./train -n 3",
        "srun -n8 -n16 -N2 -c4 --gpus-per-task=1 ./train -n 3",
    ] {
        assert_eq!(parsed(line).as_ref(), Ok(&expected), "{line}");
    }
    let line = parsed("srun -lN2 -QJ name -uvn16 -K -I5 --x11 --nice -o out.%t ./train").unwrap();
    let options = line.values.iter();
    let options = options.map(|(name, value)| format!("{name}={value}"));
    let expected = "immediate=5 job-name=name kill-on-bad-exit= label= nice= nodes=2 ntasks=16 \
                    output=out.%t quiet= unbuffered= verbose= x11=";
    assert_eq!(options.collect::<Vec<_>>().join(" "), expected);
    assert_eq!(line.program, ["./train"]);
    assert_eq!(parsed("srun -n8 - x").unwrap().program, ["-", "x"]);
    for (line, words) in [
        ("srun --nic-placement=rail,strict x", "rail,strict"),
        ("srun --nic-placement x", ""),
    ] {
        assert_eq!(parsed(line).unwrap().words(), Some(words));
    }
}

/// As tests/end_to_end/plan.rs sees them on a real Slurm, before the plugin.
#[test]
fn tasks_get_cores_and_gpus_as_slurm_deals_them() {
    // whether the release is a later one, and the CPUs and GPUs of each task
    for row in [
        "old | -n4 --exclusive --gpus-per-task=2 x | 0 0,1; 112 2,3; 1 4,5; 113 6,7",
        "later | -n4 --exclusive --gpus-per-task=2 x | 0 0,1; 56 4,5; 112 2,3; 168 6,7",
        "later | -n2 -c4 --gpus-per-task=4 x | 0-1,112-113 0,1,2,3; 56-57,168-169 4,5,6,7",
        "old | -n4 -c2 --gpus-per-task=2 --hint=nomultithread x | 0-1 0,1; 56-57 2,3; 2-3 4,5; 58-59 6,7",
        "later | -n2 -c3 --exclusive -m block:block --gres=gpu:h100:8 --gpu-bind=v,closest x \
         | 0-1,112 0,1,2,3; 2,113-114 0,1,2,3",
        "later | --gpus=8 -c16 x | 0-3,56-59,112-115,168-171 0,1,2,3,4,5,6,7",
        "later | -N1 --overlap --gpus-per-task=1 x | 0,112 0",
    ] {
        let [release, line, expected] = cells(row);
        let (_, tasks) = planned(&format!("srun {line}"), release == "later").unwrap();
        let gpus = |task: &Task| task.gpus.variables["CUDA_VISIBLE_DEVICES"].clone();
        let masks = tasks.iter();
        let masks = masks.map(|task| format!("{} {}", task.cpus, gpus(task)));
        assert_eq!(masks.collect::<Vec<_>>().join("; "), expected, "{line}");
    }
    let line = "srun -N3 --ntasks-per-node=2 -c4 --gpus-per-task=1 --cpu-bind=none numactl -N0 x";
    let (step, tasks) = planned(line, true).unwrap();
    let counts = (step.tasks, step.total_tasks, step.cpus_per_task);
    let bind = (step.cpu_bind.as_deref(), step.binder);
    assert_eq!(counts, (2, 6, Some(4)));
    assert_eq!(bind, (Some("none"), Some("numactl")));
    assert_eq!(tasks[1].cpus.to_string(), "0-3,112-115");
    assert_eq!(tasks[1].gpu_bind.as_deref(), Some("gres/gpu:per_task:1"));
}

#[test]
fn a_line_that_is_not_modelled_or_slurm_refuses_is_refused_by_name() {
    for row in [
        "--cpus-per-gpu=4 | srun's `--cpus-per-gpu` is not modelled | GPUs, CPUs or tasks",
        "-B 2:4 | srun's `-B` is not modelled | ",
        "--ntask=8 | srun's `--ntask` is not modelled | ",
        "-é | srun's `-é` is not modelled | ",
        "--ntasks | `--ntasks` needs a value | ",
        "-n=8 | `--ntasks==8`:  | a number from 1 to 4096",
        "-N2-4 | `--nodes=2-4`:  | a number from 1 to 4096",
        "-n2 --gres=gpu:2,nvme:1 | `--gres=gpu:2,nvme:1`:  | of GPUs alone in `--gres`",
        "-n2 --gres=nic:1 | `--gres=nic:1`:  | of GPUs alone in `--gres`",
        "-n8 --gpus-per-task=1 --hint=memory_bound | `--hint=memory_bound` is | expected \
         nomultithread",
        "-n8 --gpus-per-task=1 --exclusive=user | `--exclusive=user` is not modelled | expected ",
        "-n8 --gpus-per-task=1 --cpu-bind=map_cpu:0,1 | `--cpu-bind=map_cpu:0,1` is | none or \
         cores or threads",
        "-n8 --gpus-per-task=1 --cpu-bind=cores | `--cpu-bind` is modelled with | as `-c 2`",
        "--gpus-per-task=1 | `--gpus-per-task` needs `-n` | ",
        "-n8 | the line asks for no | equally many of each",
        "-n8 --gres=gpu:9 | the tasks of a node | 9 GPUs, and there are 8",
        "-n16 --gpus-per-task=1 | the tasks of a node | 16 GPUs, and there are 8",
        "-n8 -c100 --gpus-per-task=1 | the tasks of a node | 800 CPUs, and there are 224",
        "-N2 -n3 --gpus-per-task=1 | `-N 2` with 3 tasks:  | only equally many",
        "-n5 --gpus-per-task=1 | Slurm's choice of cores | add `--exclusive`",
    ] {
        let [line, start, part] = cells(row);
        let planned = planned(&format!("srun {line}"), true);
        let why = planned.map(drop).unwrap_err();
        let is_right = why.starts_with(start) && why.contains(part);
        assert!(is_right, "{line}: {why}");
    }
    let line = parsed("srun -n4 -c8 --gpus-per-task=1").unwrap();
    let four_in_a_socket = plan(&line, &platform::model("dgx-a100").unwrap(), true);
    let why = four_in_a_socket.map(drop).unwrap_err();
    assert!(why.starts_with("a node whose sockets have"), "{why}");
    let why = parsed("sbatch x").unwrap_err();
    assert!(why.starts_with("expected `srun`, "), "{why}");
}
