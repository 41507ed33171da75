//! What the admin and the user want: one table of options, one grammar, three places to say it.
#![forbid(unsafe_code)]

pub mod options;
pub mod plugstack;
pub mod releases;
pub mod words;

pub use plugstack::{Admin, Source};
pub use words::{BadWord, Words};

use crate::placement::{Bind, Policy};

/// The environment variable with the same words as the option.
pub const ENVIRONMENT: &str = "SLURM_NIC_PLACEMENT";
/// The option's name, without dashes.
pub const OPTION: &str = "nic-placement";

/// What holds for one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
}

/// The three places in the order of their weight: the admin's `default=`, the user's environment, the user's option.
///
/// A user who names the option or the variable wants placement, unless a word says `off`.  The policy and the binding
/// are the last ones named.
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
        settings.verbose |= words.verbose;
        settings.dry_run |= words.dry_run;
        settings.strict |= words.strict;
    }
    settings
}

#[cfg(test)]
mod tests;
