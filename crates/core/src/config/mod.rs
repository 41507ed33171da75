//! What the admin and the user want: one table of options, one grammar, three places to say it.
#![forbid(unsafe_code)]

pub mod components;
pub mod conf;
pub mod cpu_bind;
pub mod hostlist;
pub mod options;
pub mod plugstack;
pub mod releases;
pub mod rollout;
pub mod words;

pub use crate::topology::NodeSource;
pub use conf::Conf;
pub use plugstack::{Admin, NodeFileUse, PluginLine};
pub use words::{BadWord, Words};

use crate::libraries::wanted::{Libraries, Wanted};
use crate::placement::{Bind, GpuUse, Mem, NicsEach, Policy, Strictness};
use words::Switch;

/// The environment variable with the same words as the option.
pub const ENVIRONMENT: &str = "SLURM_NIC_PLACEMENT";
/// Set by srun's process for the nodes: the user has already read why the step is not placed.
pub const ALREADY_REPORTED: &str = "SLURM_NIC_PLACEMENT_TOLD";
/// The option, without dashes.
pub const OPTION: &str = "nic-placement";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    pub enabled: bool,
    pub policy: Policy,
    /// decide and log, change nothing: the admin sees what steps would get before their users ask
    pub observe: bool,
    /// one line for each task on the user's terminal
    pub verbose: bool,
    /// decide and report, change nothing
    pub dry_run: bool,
    pub strictness: Strictness,
    pub nics_per_task: NicsEach,
    pub gpu: GpuUse,
    pub bind: Bind,
    pub mem: Mem,
    pub omp: bool,
    /// true if the user wrote `bind=`, which then holds beside a `--cpu-bind=none` that switches off Slurm's own
    /// binding
    pub bind_by_user: bool,
    /// true if the user asked for placement, false for the admin's default
    pub by_user: bool,
    /// libraries whose variables may be set
    pub libraries: Libraries,
    /// variables that may be set in addition
    pub env_names: Vec<String>,
    /// variables that are not to be set (`no-env=`), names and beginnings with a star
    pub no_env: Vec<String>,
}

impl Settings {
    /// The renderer's options, by the step's settings and the admin's.
    pub(crate) fn wanted(&self, admin: &Admin) -> Wanted {
        Wanted {
            libraries: self.libraries,
            named: self.env_names.clone(),
            unwanted: self.no_env.clone(),
            fabric: admin.fabric,
            templates: admin.templates.clone(),
            judges_files: self.verbose || self.dry_run || self.strictness >= Strictness::Restricted,
            map_files: admin.map_files.clone(),
            srun: None,
            words: Vec::new(),
        }
    }
}

/// Merges the words of the admin's `default=`, the user's environment and the user's option; the last counts most.
///
/// A user that names the option or the variable asks for placement, unless a word says `off` or `observe`.  The nearest
/// policy, strictness and value of a word count; all `no-env=` add up, unless a nearer one takes them back. `bind=none`
/// without a word for memory leaves memory alone too.
pub fn merge_settings(
    default: &Words,
    environment: Option<&Words>,
    option: Option<&Words>,
) -> Settings {
    let mut all = Words::default();
    let (mut enabled, mut policy) = (false, Policy::default());
    for (words, by_user) in [(Some(default), false), (environment, true), (option, true)] {
        let Some(words) = words else { continue };
        all = all.overlaid(words);
        match words.policy {
            Some(Switch::Off) => enabled = false,
            Some(Switch::On(named)) => (enabled, policy) = (true, named),
            None if words.observe => enabled = true,
            // the user asks for placement, and not to be observed
            None if by_user => (enabled, all.observe) = (true, false),
            None => {}
        }
    }
    let bind = all.bind.unwrap_or_default();
    Settings {
        enabled,
        policy,
        observe: enabled && all.observe,
        verbose: all.verbose,
        dry_run: all.dry_run,
        strictness: all.strictness.unwrap_or_default(),
        nics_per_task: all.nics_per_task.unwrap_or_default(),
        gpu: all.gpu.unwrap_or_default(),
        bind,
        mem: all.mem.unwrap_or(if bind == Bind::None {
            Mem::None
        } else {
            Mem::Prefer
        }),
        omp: all.omp.unwrap_or_default(),
        bind_by_user: [environment, option]
            .into_iter()
            .flatten()
            .any(|words| words.bind.is_some()),
        by_user: environment.or(option).is_some(),
        libraries: all.env.unwrap_or_default(),
        env_names: all.env_names,
        no_env: all.no_env,
    }
}

/// True if srun uses the variable, not the option of its sbatch or salloc: the variable is valid, and no longer
/// `before`, its value then.
pub fn replaces_the_allocations(variable: Option<&str>, before: Option<&str>) -> bool {
    let says_something = |text: &str| !text.is_empty() && Words::parse(text).is_ok();
    variable != before && variable.is_some_and(says_something)
}

#[cfg(test)]
mod tests;
