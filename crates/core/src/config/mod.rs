//! What the admin and the user want: one table of options, one grammar, three places to say it.
#![forbid(unsafe_code)]

pub mod components;
pub mod cpu_bind;
pub mod options;
pub mod plugstack;
pub mod releases;
pub mod words;

pub use plugstack::{Admin, NodeFileUse, NodeSource};
pub use words::{BadWord, Words};

use crate::placement::{Bind, GpuUse, Mem, NicsEach, Policy, Strictness};
use crate::render::wanted::{Libraries, Wanted};

/// The environment variable with the same words as the option.
pub const ENVIRONMENT: &str = "SLURM_NIC_PLACEMENT";
/// The option's name, without dashes.
pub const OPTION: &str = "nic-placement";

/// What holds for one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// is placement on?
    pub enabled: bool,
    /// which NICs serve which GPU
    pub policy: Policy,
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
    /// variables that nobody wants set
    pub no_env: Vec<String>,
}

impl Settings {
    /// What the renderer is told: the step's choices and the admin's.
    pub fn wanted(&self, admin: &Admin) -> Wanted {
        Wanted {
            libraries: self.libraries,
            unwanted: self.no_env.clone(),
            fabric: admin.fabric,
            templates: admin.templates.clone(),
        }
    }
}

/// The three places in the order of their weight: the admin's `default=`, the user's environment, the user's option.
///
/// A user who names the option or the variable wants placement, unless a word says `off`.  The policy, the strictness and
/// whatever has a value are the last ones named; what any `no-env=` names is not set.  Who binds no CPUs and does not speak
/// of memory wants it left alone too.
pub fn settle(default: &Words, environment: Option<&Words>, option: Option<&Words>) -> Settings {
    let mut settings = Settings::default();
    let mut mem = None;
    let layers = [(Some(default), false), (environment, true), (option, true)];
    for (words, users) in layers {
        let Some(words) = words else { continue };
        match words.policy {
            Some(words::Switch::Off) => settings.enabled = false,
            Some(words::Switch::On(policy)) => (settings.enabled, settings.policy) = (true, policy),
            None => settings.enabled |= users,
        }
        settings.asked |= users;
        settings.gpu = words.gpu.unwrap_or(settings.gpu);
        settings.bind = words.bind.unwrap_or(settings.bind);
        mem = words.mem.or(mem);
        settings.omp = words.omp.unwrap_or(settings.omp);
        settings.libraries = words.env.unwrap_or(settings.libraries);
        settings.no_env.extend_from_slice(&words.no_env);
        settings.verbose |= words.verbose;
        settings.dry_run |= words.dry_run;
        settings.strictness = words.strictness.unwrap_or(settings.strictness);
        settings.nics_per_task = words.nics_per_task.unwrap_or(settings.nics_per_task);
    }
    settings.mem = mem.unwrap_or(if settings.bind == Bind::None { Mem::None } else { Mem::Prefer });
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
