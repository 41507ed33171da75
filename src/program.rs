//! The step's program, where it decides about the placement.
#![forbid(unsafe_code)]

use crate::environment::variable;
use nic_placement_core::config::hostlist::HostList;
use nic_placement_core::libraries::marker;
use nic_placement_core::step::Room;
use nic_placement_core::step::program::{self, binder_of_ranks, program_name};
use slurm_spank::SpankHandle;
use std::ffi::CStr;
use std::sync::OnceLock;

/// A launcher's daemon, which srun starts once on each node and which starts the ranks there.
///
/// Its name alone identifies it: Hydra sets `SLURM_EXTERNAL_LAUNCHER` for its srun, and each srun of a rank inherits
/// it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Daemon {
    /// `orted`, `prted`: Open MPI's mpirun starts them on other nodes than its own, and ranks keep the step's variables
    /// (plm_slurm_module.c, `launch_daemons`; 4.1.4 and 5.0.11 run)
    OpenMpi,
    /// MPICH's, Intel MPI's and MVAPICH's proxies (lib/tools/bootstrap/external/slurm_launch.c; `pmi_proxy` before
    /// MPICH 3.2 and Intel MPI 2019), Flux's broker.  Ranks get the environment of mpiexec or `flux run` over the
    /// step's: the GPUs of that environment with the NIC of this step's one task (MPICH 4.0.2, 5.0.2, Intel MPI 2021.19
    /// run)
    Overlaying,
}

impl Daemon {
    fn find(name: &str, first_word: Option<&CStr>) -> Option<Daemon> {
        match name {
            "orted" | "prted" => Some(Daemon::OpenMpi),
            "hydra_bstrap_proxy" | "hydra_pmi_proxy" | "pmi_proxy" | "flux-broker" => {
                Some(Daemon::Overlaying)
            }
            "flux" if first_word.is_some_and(|word| word == c"start" || word == c"broker") => {
                Some(Daemon::Overlaying)
            }
            _ => None,
        }
    }
}

/// Bytes of a job's list of nodes, at most: a user can set the variable, and each byte costs root memory.
const LONGEST_NODELIST: usize = 64 * 1024;

/// The step's program.
struct Started {
    /// the kind of launcher's daemon, if it is one
    daemon: Option<Daemon>,
    /// words of its command that matter, and a program that binds some ranks
    words: Vec<&'static str>,
    /// bytes that the program's words take of execve's room
    size_of_words: usize,
}

static STARTED: OnceLock<Started> = OnceLock::new();

/// Bytes that the program's words take of execve's room.
pub(crate) fn size_of_words() -> usize {
    STARTED.get().map_or(0, |started| started.size_of_words)
}

/// Takes down what the step starts.
///
/// With `--multi-prog` the first word is a file's name, and the second is all that the file says (Slurm's src/srun/launch.c,
/// `_load_multi`), 4 MiB at most.  Slurm tells no plugin which of both a step has; an ordinary program's word would have to
/// look like that file.
pub(crate) fn note(words: [Option<&CStr>; 2], all: &mut dyn Iterator<Item = &CStr>) {
    STARTED.get_or_init(|| {
        // a longer one is the text of `--multi-prog`, of which a task has a line: execve(2) would take no such word
        let all: Vec<&CStr> = all
            .filter(|word| word.count_bytes() < Room::LONGEST)
            .collect();
        let [name, second] = words;
        let name = name.and_then(|path| path.to_str().ok()).map(program_name);
        let mut words = program::known(all.iter().filter_map(|word| word.to_str().ok()));
        words.extend(second.and_then(|ranks| binder_of_ranks(ranks.to_bytes())));
        Started {
            daemon: name.and_then(|name| Daemon::find(name, second)),
            words,
            size_of_words: all.iter().map(|word| word.count_bytes() + Room::EACH).sum(),
        }
    });
}

/// `None` for other programs, and where Slurm does not say the program, as for a container.
fn daemon() -> Option<Daemon> {
    STARTED.get()?.daemon
}

/// True for a launcher's daemon: `-c` and strict words are for its ranks, and the step has the daemon's part alone.
///
/// From 23.11 on srun reads SLURM_CPUS_PER_TASK for it too, and binds no task with `--external-launcher` (Slurm's
/// src/common/env.c, `_set_ext_launcher_hydra`; src/slurmd/slurmd/req.c).
pub(crate) fn starts_ranks() -> bool {
    daemon().is_some()
}

/// The words of its command that matter.
pub(crate) fn words() -> &'static [&'static str] {
    STARTED.get().map_or(&[], |started| &started.words)
}

/// The reason not to place a launcher's daemon: its ranks would have another task's NIC, or variables that differ by node.
///
/// Open MPI's mpirun starts the ranks of the first node itself, with a batch script's variables, none of them ours.  Libraries
/// that number NICs in a list (NCCL with SHARP, NVSHMEM) fail or connect wrong NICs where nodes differ.  So its daemons are
/// placed where they run on all of the job's nodes, and in a placed step, whose variables mpirun and daemons share.
pub(crate) fn why_not_placed(spank: &SpankHandle) -> Option<&'static str> {
    if daemon()? == Daemon::Overlaying {
        return Some(
            "it starts a launcher's daemon, whose ranks get other GPUs than its task; put `nic-placement exec --` before the \
             ranks' program, or start them by srun",
        );
    }
    // srun sets SLURM_JOB_NUM_NODES to what it was asked for, and adds this one only where there is none (Slurm's
    // src/common/env.c, `setup_env`, `env_array_for_step`)
    let of_job =
        variable(spank, "SLURM_JOB_NODELIST").filter(|text| text.len() <= LONGEST_NODELIST)?;
    let of_job = HostList::parse(&of_job).ok()?.count();
    let is_on_all = spank
        .job_nnodes()
        .is_ok_and(|here| u64::from(here) >= of_job);
    let is_placed = variable(spank, marker::NAME).is_some_and(|text| marker::is_published(&text));
    (!is_on_all && !is_placed).then_some(
        "it starts mpirun's daemons, and the ranks that mpirun starts beside itself would have other variables; put \
         `nic-placement exec --` before the ranks' program, or start them by srun",
    )
}
