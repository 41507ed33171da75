//! Settings of the admin (plugstack.conf, configuration file) and of the user (variable, option).

pub mod components;
pub mod conf;
pub mod cpu_bind;
pub mod hostlist;
pub mod options;
pub mod plugstack;
pub mod releases;
pub mod words;

pub use crate::wish::{Admin, NodeFileUse, NodeSource, Words, rollout};
pub use conf::Conf;
pub use plugstack::PluginLine;
pub use words::BadWord;

use crate::wish::{Bind, Mem, Policy, Switch, Wish};

/// The user's variable, with the option's words.
pub const ENVIRONMENT: &str = "SLURM_NIC_PLACEMENT";
/// The plugin in srun sets this once it has printed why the step is not placed.
pub const ALREADY_REPORTED: &str = "SLURM_NIC_PLACEMENT_TOLD";
pub const OPTION: &str = "nic-placement";

impl Wish {
    /// Merges the admin's `default=`, the user's variable and the user's option; later ones have
    /// precedence.
    ///
    /// An option or variable with neither `off` nor `observe` asks for placement. `no-env=` lists
    /// add up; `no-env=none` empties them. `bind=none` without `mem=` implies `mem=none`.
    pub fn new(admin: Admin, environment: Option<&Words>, option: Option<&Words>) -> Wish {
        let mut all = Words::default();
        let (mut enabled, mut policy) = (false, Policy::default());
        let users = [environment, option].into_iter().flatten();
        let said = [(&admin.default, false)]
            .into_iter()
            .chain(users.clone().map(|words| (words, true)));
        for (words, by_user) in said {
            all = all.overlaid(words);
            match words.policy {
                Some(Switch::Off) => enabled = false,
                Some(Switch::On(named)) => (enabled, policy) = (true, named),
                None if words.observe => enabled = true,
                // the user's words end the admin's `observe`
                None if by_user => (enabled, all.observe) = (true, false),
                None => {}
            }
        }
        let bind = all.bind.unwrap_or_default();
        let mem = match bind {
            Bind::None => Mem::None,
            _ => Mem::Prefer,
        };
        Wish {
            enabled,
            policy,
            observe: enabled && all.observe,
            verbose: all.verbose,
            dry_run: all.dry_run,
            strictness: all.strictness.unwrap_or_default(),
            nics_per_task: all.nics_per_task.unwrap_or_default(),
            gpu: all.gpu.unwrap_or_default(),
            bind,
            mem: all.mem.unwrap_or(mem),
            omp: all.omp.unwrap_or_default(),
            bind_by_user: users.clone().any(|words| words.bind.is_some()),
            by_user: users.count() > 0,
            libraries: all.env.unwrap_or_default(),
            env_names: all.env_names,
            no_env: all.no_env,
            wordless: false,
            admin,
        }
    }
}

/// True if srun prefers `variable` to the option given to sbatch or salloc: `variable` is valid,
/// and differs from `before`, its value at submission.
pub fn replaces_the_allocations(variable: Option<&str>, before: Option<&str>) -> bool {
    let says_something = |text: &str| !text.is_empty() && Words::parse(text).is_ok();
    variable != before && variable.is_some_and(says_something)
}

#[cfg(test)]
mod tests;
