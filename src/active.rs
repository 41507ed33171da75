//! State that slurmstepd's tasks inherit by fork(2).
#![forbid(unsafe_code)]

use nic_placement_core::placement::Strictness;
use nic_placement_core::plan::Wish;
use nic_placement_process::session::Session;
use slurm_spank::SpankHandle;
use std::borrow::Cow;
use std::sync::OnceLock;

pub(crate) static STEP: OnceLock<StepState> = OnceLock::new();

#[allow(clippy::large_enum_variant, reason = "there is one value, in a static")]
pub(crate) enum StepState {
    Placed(Active),
    /// the wish, for `task::withdraw`; the refusal to print, if the user asked for placement
    NotPlaced(Wish, Option<String>),
    /// a step without programs of the user's job, such as `extern`
    Foreign,
}

pub(crate) struct Active {
    /// the plan, or the reason for none
    pub(crate) session: Result<Session, String>,
    /// `verbose` or `dry-run`: tasks print their placement
    pub(crate) reports: bool,
    /// sorted names of variables that a task reads
    pub(crate) names: Vec<Cow<'static, str>>,
    pub(crate) threads_per_core: Option<usize>,
    /// pyxis follows nic-placement in plugstack.conf
    pub(crate) container_later: bool,
}

/// If set, a task without its placement fails. Set before planning, so that tasks also fail after a
/// panic in planning.
pub(crate) static STRICT: OnceLock<Strictness> = OnceLock::new();

/// Larger ids: the batch script, the interactive shell and the step of adopted processes
/// (slurm/slurm.h, `SLURM_MAX_NORMAL_STEP_ID`). These steps are not placed: a batch script's sruns
/// would take the plugin's variables for the user's.
const MAX_NORMAL_STEP_ID: u32 = 0xffff_fff0;

/// `SLURM_INTERACTIVE_STEP` and `SLURM_BATCH_SCRIPT`, the same in all tested releases.
const PROGRAMS_OF_JOBS: [u32; 2] = [0xffff_fffa, 0xffff_fffb];

/// True for srun's numbered steps.
pub(crate) fn is_normal(spank: &SpankHandle) -> bool {
    spank.job_stepid().is_ok_and(|id| id <= MAX_NORMAL_STEP_ID)
}

/// True for a batch script or salloc's interactive shell.
pub(crate) fn is_program_of_job(spank: &SpankHandle) -> bool {
    spank
        .job_stepid()
        .is_ok_and(|id| PROGRAMS_OF_JOBS.contains(&id))
}

pub(crate) const CONTAINER_LATER: &str = "`spank_pyxis.so` stands after this plugin in plugstack.conf: what is set here may \
    give way to a container's environment, the same for all tasks; list nic-placement after pyxis, as `90-nic-placement.conf`";
