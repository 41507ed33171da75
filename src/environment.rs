//! A step's or task's environment in one pass: slurm-spank's `getenv` allocates 4 KiB per variable.
#![forbid(unsafe_code)]

use nic_placement_core::libraries::Present;
use nic_placement_core::order::Order;
use nic_placement_core::placement::{Change, Variable};
use nic_placement_core::step::Room;
use nic_placement_sys as sys;
use slurm_spank::SpankHandle;

#[derive(Default)]
pub(crate) struct Environment {
    pub(crate) present: Present,
    /// bytes that the variables take of execve(2)'s limit
    size: usize,
    /// srun's stack limit, set in the task after `task_init` (src/slurmd/slurmstepd/ulimits.c,
    /// `_set_limit`)
    stack: Option<u64>,
}

/// Reads the values of `names`, which must be sorted. A value that is not UTF-8 still counts as
/// set.
///
/// Allocates a pointer for each variable; execve(2) bounds the variables' number.
pub(crate) fn read(spank: &SpankHandle, names: &[impl AsRef<str>]) -> Environment {
    let mut environment = Environment::default();
    for entry in spank.job_env_os().unwrap_or_default() {
        let entry = entry.as_encoded_bytes();
        environment.size += entry.len() + Room::EACH;
        let Some(end) = entry.iter().position(|byte| *byte == b'=') else {
            continue;
        };
        let (name, value) = (&entry[..end], &entry[end + 1..]);
        if let Ok(at) = names.binary_search_by(|known| known.as_ref().as_bytes().cmp(name)) {
            let value = || String::from_utf8_lossy(value).into_owned();
            // of equal names the first counts, as for getenv(3)
            environment
                .present
                .entry(names[at].as_ref().to_string())
                .or_insert_with(value);
        } else if name == b"SLURM_RLIMIT_STACK" {
            // srun's `--propagate` puts `U` before the number
            let limit = std::str::from_utf8(value)
                .unwrap_or_default()
                .trim_start_matches('U');
            environment.stack = limit.parse().ok();
        }
    }
    environment
}

impl Environment {
    /// The bytes of variables and arguments (`words`), and the stack limit, by which execve(2)
    /// bounds them.
    pub(crate) fn room(&self, words: usize) -> Room {
        Room {
            taken: words + self.size,
            stack: sys::stack_limit().min(self.stack.unwrap_or(u64::MAX)),
        }
    }
}

/// Makes the changes, reads them back, and returns failures.
pub(crate) fn change(spank: &SpankHandle, variables: &[Variable]) -> Vec<String> {
    let mut failures = Vec::new();
    for Variable { name, change, .. } in variables {
        let result = match change {
            // `true` overwrites: the plan was made from the old value
            Change::Set(value) => spank.setenv(name.as_ref(), value, true),
            Change::Remove => spank.unsetenv(name.as_ref()),
            Change::KeepUsers(_) | Change::Leave => Ok(()),
        };
        failures.extend(result.err().map(|error| format!("{name}: {error}")));
    }
    let mut names: Vec<&str> = variables
        .iter()
        .map(|variable| variable.name.as_ref())
        .collect();
    names.order();
    let now = read(spank, &names).present;
    let is_other = |variable: &&Variable| {
        let wanted = match &variable.change {
            Change::Set(value) | Change::KeepUsers(value) => Some(value),
            Change::Remove | Change::Leave => None,
        };
        now.get(variable.name.as_ref()) != wanted
    };
    let others = variables.iter().filter(is_other);
    failures.extend(others.map(|variable| format!("{} did not take", variable.name)));
    failures
}

pub(crate) fn variable(spank: &SpankHandle, name: &str) -> Option<String> {
    spank.getenv_lossy(name).ok().flatten()
}
