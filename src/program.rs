//! Finds launchers' daemons, and words that bind processes to CPUs, in the step's command.
#![forbid(unsafe_code)]

use crate::environment::variable;
use nic_placement_core::config::hostlist::HostList;
use nic_placement_core::libraries::marker;
use nic_placement_core::step::{
    Room,
    program::{self, binder_of_ranks, program_name},
};
use slurm_spank::SpankHandle;
use std::ffi::CStr;
use std::sync::OnceLock;

/// A launcher's daemon, which srun starts once on each node to start the ranks there.
///
/// Only the program's name identifies it: `SLURM_EXTERNAL_LAUNCHER`, which Hydra sets for its srun,
/// also reaches sruns that ranks start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Daemon {
    /// `orted`, `prted`: Open MPI's mpirun starts these on all nodes but its own; ranks keep the
    /// step's variables (plm_slurm_module.c, `launch_daemons`; tested: 4.1.4, 5.0.11)
    OpenMpi,
    /// proxies of MPICH, Intel MPI and MVAPICH (lib/tools/bootstrap/external/slurm_launch.c;
    /// `pmi_proxy` before MPICH 3.2 and Intel MPI 2019), and Flux's broker. In ranks the
    /// environment of mpiexec or `flux run` overrides the step's: a rank would have mpiexec's GPUs,
    /// but the daemon's NIC (tested: MPICH 4.0.2, 5.0.2, Intel MPI 2021.19)
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

/// Most bytes of a job's node list: a user can set the variable, and root parses it.
const LONGEST_NODELIST: usize = 64 * 1024;

struct Started {
    daemon: Option<Daemon>,
    /// words that bind processes, in the command or in `--multi-prog`'s file
    words: Vec<&'static str>,
    size_of_words: usize,
}

static STARTED: OnceLock<Started> = OnceLock::new();

/// Bytes that the program's words take of execve(2)'s limit.
pub(crate) fn size_of_words() -> usize {
    STARTED.get().map_or(0, |started| started.size_of_words)
}

/// Keeps facts about the step's command; `words` are its first two.
///
/// With `--multi-prog` the first word names a file and the second holds its text, up to 4 MiB
/// (src/srun/launch.c, `_load_multi`). Plugins cannot see `--multi-prog`, so any second word is
/// parsed as such a file; a program's argument has another form.
pub(crate) fn note(words: [Option<&CStr>; 2], all: &mut dyn Iterator<Item = &CStr>) {
    STARTED.get_or_init(|| {
        // a word over this limit is `--multi-prog`'s file: execve(2) would refuse such an argument
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

/// `None` also for a container, whose program Slurm does not show.
fn daemon() -> Option<Daemon> {
    STARTED.get()?.daemon
}

/// True for a launcher's daemon. Callers then ignore `-c` and strict words: the user means ranks,
/// but the step's only task on a node is the daemon.
///
/// From 23.11 on srun reads SLURM_CPUS_PER_TASK for daemons too, and binds no task with
/// `--external-launcher` (src/common/env.c, `_set_ext_launcher_hydra`; src/slurmd/slurmd/req.c).
pub(crate) fn starts_ranks() -> bool {
    daemon().is_some()
}

pub(crate) fn words() -> &'static [&'static str] {
    STARTED.get().map_or(&[], |started| &started.words)
}

/// The reason not to place a launcher's daemon: ranks would get the daemon's NIC, or variables that
/// differ between nodes.
///
/// Open MPI's mpirun starts its own node's ranks itself, with only the batch script's variables. If
/// nodes' variables differ, libraries that number NICs in a list (NCCL with SHARP, NVSHMEM) fail or
/// connect wrong NICs. So Open MPI's daemons are placed only if the step has all of the job's
/// nodes, or if mpirun itself runs in a placed step.
pub(crate) fn why_not_placed(spank: &SpankHandle) -> Option<&'static str> {
    if daemon()? == Daemon::Overlaying {
        return Some(
            "it starts a launcher's daemon, whose ranks get other GPUs than its task; put `nic-placement exec --` before the \
             ranks' program, or start them by srun",
        );
    }
    // srun keeps a SLURM_JOB_NODELIST that is set, but overwrites SLURM_JOB_NUM_NODES with the
    // step's count (src/common/env.c, `setup_env`, `env_array_for_step`)
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
