//! What a step starts, where that decides about its placement.
#![forbid(unsafe_code)]

use crate::environment::variable;
use nic_placement_core::config::hostlist::HostList;
use nic_placement_core::libraries::marker;
use nic_placement_core::step::program::{self, binder_of_ranks, program_name};
use nic_placement_process::room;
use slurm_spank::SpankHandle;
use std::ffi::CStr;
use std::sync::OnceLock;

/// The daemons by which Open MPI's mpirun starts ranks on other nodes than its own (its plm_slurm_module.c, `launch_daemons`,
/// the same in PRRTE).
const DAEMONS: [&str; 2] = ["orted", "prted"];

/// The daemons by which mpirun and mpiexec start ranks on a node: also Hydra's, of Intel MPI, MPICH and MVAPICH (its
/// lib/tools/bootstrap/external/slurm_launch.c; `pmi_proxy` before Intel MPI 2019 and MPICH 3.2).
const LAUNCHERS: [&str; 5] = ["orted", "prted", "hydra_bstrap_proxy", "hydra_pmi_proxy", "pmi_proxy"];

/// What the step starts.
struct Started {
    /// the program's name, without its folder
    name: Option<String>,
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
        let all: Vec<&CStr> = all.filter(|word| word.count_bytes() < room::LONGEST).collect();
        let [name, ranks] = words;
        let name = name.and_then(|path| path.to_str().ok()).map(program_name);
        let mut words = program::known(all.iter().filter_map(|word| word.to_str().ok()));
        words.extend(ranks.and_then(|ranks| binder_of_ranks(ranks.to_bytes())));
        Started {
            name: name.map(str::to_string),
            words,
            size_of_words: all.iter().map(|word| word.count_bytes() + room::EACH).sum(),
        }
    });
}

/// The program's name, without its folder; `None` where Slurm does not say it, as for a container.
fn name() -> Option<&'static str> {
    STARTED.get()?.name.as_deref()
}

/// Does the step start what starts the ranks?  What the job was asked for each task is then a rank's, and the daemon's own part
/// is all that the step has: since 23.11 srun reads SLURM_CPUS_PER_TASK here too, and binds no task with
/// `--external-launcher` (Slurm's src/common/env.c, `_set_ext_launcher_hydra`; src/slurmd/slurmd/req.c).
pub(crate) fn starts_ranks() -> bool {
    name().is_some_and(|name| LAUNCHERS.contains(&name))
}

/// The words of its command that matter.
pub(crate) fn words() -> &'static [&'static str] {
    STARTED.get().map_or(&[], |started| &started.words)
}

/// Why the step is not placed, if it starts mpirun's daemons on a part of the job's nodes.
///
/// On the first node mpirun starts ranks itself, and these have its variables: those of a batch script, which has none of ours.
/// Ranks of one program would then differ by node: libraries that number NICs in a list (NCCL with SHARP, NVSHMEM) fail or
/// connect wrong ones.  In a placed step mpirun has variables of ours, and so may the daemons.
pub(crate) fn is_beside_mpirun(spank: &SpankHandle) -> Option<&'static str> {
    if !name().is_some_and(|name| DAEMONS.contains(&name)) {
        return None;
    }
    // srun sets SLURM_JOB_NUM_NODES to what it was asked for, and adds this one only where there is none (Slurm's
    // src/common/env.c, `setup_env`, `env_array_for_step`)
    let of_job = HostList::parse(&variable(spank, "SLURM_JOB_NODELIST")?).ok()?.count();
    let is_on_all = spank.job_nnodes().is_ok_and(|here| u64::from(here) >= of_job);
    let is_placed = variable(spank, marker::NAME).is_some_and(|text| marker::is_published(&text));
    (!is_on_all && !is_placed).then_some(
        "it starts mpirun's daemons, and the ranks that mpirun starts beside itself would have other variables; put \
         `nic-placement exec --` before the ranks' program, or start them by srun",
    )
}
