//! What the admin and the user want: one table of options, one grammar, three places to say it.
#![forbid(unsafe_code)]

pub mod options;
pub mod plugstack;
pub mod words;

pub use plugstack::{Admin, Source};
pub use words::{BadWord, Words};

use crate::placement::{Bind, Policy};
use crate::render::setting::{Libraries, Setting};

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
    /// fail the task where the placement cannot be had
    pub strict: bool,
    /// what is bound
    pub bind: Bind,
    /// whose variables may be set
    pub libraries: Libraries,
    /// variables that nobody wants set
    pub no_env: Vec<String>,
}

impl Settings {
    /// What the renderer is told: the step's choices and the admin's.
    pub fn setting(&self, admin: &Admin) -> Setting {
        Setting {
            libraries: self.libraries,
            unwanted: self.no_env.clone(),
            fabric: admin.fabric,
            templates: admin.templates.clone(),
        }
    }
}

/// The three places in the order of their weight: the admin's `default=`, the user's environment, the user's option.
///
/// A user who names the option or the variable wants placement, unless a word says `off`.  The policy and the binding
/// are the last ones named, and so is the last `env=`; what any `no-env=` names is not set.
pub fn settle(default: &Words, environment: Option<&Words>, option: Option<&Words>) -> Settings {
    let mut settings = Settings::default();
    let layers = [(Some(default), false), (environment, true), (option, true)];
    for (words, users) in layers {
        let Some(words) = words else { continue };
        match words.policy {
            Some(words::Choice::Off) => settings.enabled = false,
            Some(words::Choice::On(policy)) => (settings.enabled, settings.policy) = (true, policy),
            None => settings.enabled |= users,
        }
        settings.bind = words.bind.unwrap_or(settings.bind);
        settings.libraries = words.env.unwrap_or(settings.libraries);
        settings.no_env.extend_from_slice(&words.no_env);
        settings.verbose |= words.verbose;
        settings.dry_run |= words.dry_run;
        settings.strict |= words.strict;
    }
    settings
}

#[cfg(test)]
mod tests;
