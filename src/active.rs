//! What slurmstepd's parent leaves for the step's tasks, which inherit it by fork.
#![forbid(unsafe_code)]

use nic_placement_core::placement::Strictness;
use nic_placement_core::plan::Wish;
use nic_placement_process::session::Session;
use slurm_spank::SpankHandle;
use std::sync::OnceLock;

/// This step, read once for all tasks.
pub(crate) static STEP: OnceLock<OfTasks> = OnceLock::new();

#[allow(clippy::large_enum_variant, reason = "there is one value, in a static")]
pub(crate) enum OfTasks {
    Placed(Active),
    /// no placement: the wish, which holds all the same, and a line for a user that asked for placement
    NotPlaced(Wish, Option<String>),
    /// no task and no program of a user's job
    Foreign,
}

/// A step that wants placement.
pub(crate) struct Active {
    /// the plan in which its tasks look themselves up, or the reason why there is none
    pub(crate) session: Result<Session, String>,
    /// true if tasks print their placement (`verbose`, `dry-run`)
    pub(crate) reports: bool,
    /// variables that a task looks at, sorted
    pub(crate) names: Vec<String>,
    /// threads of a core
    pub(crate) threads_per_core: Option<usize>,
    /// true if pyxis comes after us in plugstack.conf
    pub(crate) container_later: bool,
}

/// The strict word of the user or admin: a task that cannot have its placement fails.  Set before the plan is made, so
/// that tasks fail also if that panics.
pub(crate) static STRICT: OnceLock<Strictness> = OnceLock::new();

/// Step ids above this are not steps of tasks: the batch script, the interactive shell, the step that adopts foreign
/// processes (slurm/slurm.h, `SLURM_MAX_NORMAL_STEP_ID`).  What we set in a batch script its sruns would inherit as if the
/// user had set it.
const MAX_NORMAL_STEP_ID: u32 = 0xffff_fff0;

/// The interactive shell (`SLURM_INTERACTIVE_STEP`) and the batch script (`SLURM_BATCH_SCRIPT`), the same in all releases.
const PROGRAMS_OF_JOBS: [u32; 2] = [0xffff_fffa, 0xffff_fffb];

/// True for a step that runs a user's tasks.
pub(crate) fn is_normal(spank: &SpankHandle) -> bool {
    spank.job_stepid().is_ok_and(|id| id <= MAX_NORMAL_STEP_ID)
}

/// True for a batch script, and for the shell of an allocation.
pub(crate) fn is_program_of_job(spank: &SpankHandle) -> bool {
    spank
        .job_stepid()
        .is_ok_and(|id| PROGRAMS_OF_JOBS.contains(&id))
}

pub(crate) const CONTAINER_LATER: &str = "`spank_pyxis.so` stands after this plugin in plugstack.conf: what is set here may \
    give way to a container's environment, the same for all tasks; list nic-placement after pyxis, as `90-nic-placement.conf`";
