//! What the admin and the user want: one table of options, one grammar, three places to say it.
#![forbid(unsafe_code)]

pub mod components;
pub mod conf;
pub mod cpu_bind;
pub mod hostlist;
mod off;
pub mod options;
pub mod plugstack;
pub mod releases;
pub mod rollout;
pub mod words;

pub use conf::{BadConf, Conf};
pub use plugstack::{Admin, NodeFileUse, NodeSource};
pub use words::{BadWord, Words};

use crate::libraries::wanted::{Libraries, Wanted};
use crate::placement::{Bind, GpuUse, Mem, NicsEach, Policy, Strictness};

/// The environment variable with the same words as the option.
pub const ENVIRONMENT: &str = "SLURM_NIC_PLACEMENT";
/// What srun's process tells the nodes: the user was told already why the step is not placed.
pub const TOLD: &str = "SLURM_NIC_PLACEMENT_TOLD";
/// The option's name, without dashes.
pub const OPTION: &str = "nic-placement";

/// What holds for one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// is placement on?
    pub enabled: bool,
    /// which NICs serve which GPU
    pub policy: Policy,
    /// work out, log, and change nothing: so the admin sees what a step would get whose user did not ask
    pub observe: bool,
    /// one line for each task on the user's terminal
    pub verbose: bool,
    /// decide and report, change nothing
    pub dry_run: bool,
    /// what a task fails without
    pub strictness: Strictness,
    /// NICs that each GPU gets, where the policy counts them
    pub nics_per_task: NicsEach,
    /// which of the GPUs that a task sees it uses
    pub gpu: GpuUse,
    /// which CPUs are bound
    pub bind: Bind,
    /// what the memory policy becomes
    pub mem: Mem,
    /// are OpenMP's variables set?
    pub omp: bool,
    /// did the user ask for placement, and not the admin's default alone?
    pub asked: bool,
    /// whose variables may be set
    pub libraries: Libraries,
    /// variables that may be set beside those
    pub env_names: Vec<String>,
    /// variables that are not to be set (`no-env=`), names and beginnings with a star
    pub no_env: Vec<String>,
}

impl Settings {
    /// What the renderer is told: the step's choices and the admin's.
    pub fn wanted(&self, admin: &Admin) -> Wanted {
        Wanted {
            libraries: self.libraries,
            named: self.env_names.clone(),
            unwanted: self.no_env.clone(),
            fabric: admin.fabric,
            templates: admin.templates.clone(),
            judges_files: self.verbose || self.dry_run || self.strictness >= Strictness::Restricted,
            map_files: admin.map_files.clone(),
        }
    }
}

/// The three places in the order of their weight: the admin's `default=`, the user's environment, the user's option.
///
/// A user that names the option or the variable wants placement, unless a word says `off` or `observe`.  The policy, the
/// strictness and whatever has a value are the last ones named; what any `no-env=` names is not set, unless a nearer one
/// takes it back.  Without a word for memory, `bind=none` leaves it alone too.
pub fn settle(default: &Words, environment: Option<&Words>, option: Option<&Words>) -> Settings {
    let mut all = Words::default();
    let mut settings = Settings::default();
    for (words, users) in [(Some(default), false), (environment, true), (option, true)] {
        let Some(words) = words else { continue };
        all = all.overlaid(words);
        match (words.policy, words.observe) {
            (Some(words::Switch::Off), _) => settings.enabled = false,
            (Some(words::Switch::On(policy)), _) => (settings.enabled, settings.policy) = (true, policy),
            (None, true) => settings.enabled = true,
            (None, false) if users => {
                settings.enabled = true;
                // the user asks for placement, and not to be observed
                all.observe = false;
            }
            (None, false) => {}
        }
        settings.asked |= users;
    }
    settings.observe = settings.enabled && all.observe;
    settings.gpu = all.gpu.unwrap_or_default();
    settings.bind = all.bind.unwrap_or_default();
    settings.omp = all.omp.unwrap_or_default();
    settings.libraries = all.env.unwrap_or_default();
    settings.strictness = all.strictness.unwrap_or_default();
    settings.nics_per_task = all.nics_per_task.unwrap_or_default();
    settings.mem = all.mem.unwrap_or(if settings.bind == Bind::None { Mem::None } else { Mem::Prefer });
    (settings.verbose, settings.dry_run) = (all.verbose, all.dry_run);
    (settings.env_names, settings.no_env) = (all.env_names, all.no_env);
    settings
}

/// Does the variable count for an srun, and not what sbatch or salloc of its job were given?  It does where it says
/// something and has been set since: `before` is what it was when they were given the option, which is nearer than that.
pub fn replaces_the_allocations(variable: Option<&str>, before: Option<&str>) -> bool {
    let says_something = |text: &str| !text.is_empty() && Words::parse(text).is_ok();
    variable != before && variable.is_some_and(says_something)
}

#[cfg(test)]
mod tests;
