//! A task's environment as Slurm holds it: read in one pass, since each `spank_getenv` of a name costs a buffer of 4 KiB,
//! and changed by name.
#![forbid(unsafe_code)]

use nic_placement_core::order::Order;
use nic_placement_core::placement::{Change, Variable};
use nic_placement_core::render::Present;
use nic_placement_process::room;
use nic_placement_sys as sys;
use slurm_spank::SpankHandle;

/// The values of those of `names`, which are sorted, that are set.  One that is not UTF-8 is set too, and so the user's.
///
/// Grows with the user's environment by a pointer for each variable, in the task alone, and the kernel bounds that
/// environment for execve(2).
pub(crate) fn values(spank: &SpankHandle, names: &[impl AsRef<str>]) -> Present {
    let mut values = Present::new();
    for entry in spank.job_env_os().unwrap_or_default() {
        let entry = entry.as_encoded_bytes();
        let Some(end) = entry.iter().position(|byte| *byte == b'=') else { continue };
        if let Ok(at) = names.binary_search_by(|name| name.as_ref().as_bytes().cmp(&entry[..end])) {
            let value = || String::from_utf8_lossy(&entry[end + 1..]).into_owned();
            // the first one counts, as for getenv(3)
            values.entry(names[at].as_ref().to_string()).or_insert_with(value);
        }
    }
    values
}

/// Why the changes would leave execve(2) too little room, if they would, beside so many bytes of the program's words.  Then
/// nothing is set, and this says so in their place.
///
/// The limit on the stack that counts is the program's.  slurmstepd sets it after us, if it is one that srun handed on (Slurm's
/// src/slurmd/slurmstepd/ulimits.c, `_set_limit`: `U` is in front of it with `--propagate`).
pub(crate) fn keep_room(
    spank: &SpankHandle,
    variables: &mut [Variable],
    present: &Present,
    words: usize,
) -> Option<&'static str> {
    let (mut taken, mut stack) = (words, sys::stack_limit());
    for entry in spank.job_env_os().unwrap_or_default() {
        let entry = entry.as_encoded_bytes();
        taken += entry.len() + room::EACH;
        if let Some(limit) = entry.strip_prefix(b"SLURM_RLIMIT_STACK=") {
            let limit = std::str::from_utf8(limit).unwrap_or_default();
            let limit = limit.trim_start_matches('U').parse().unwrap_or(u64::MAX);
            stack = stack.min(limit);
        }
    }
    room::keep(variables, present, taken, stack)
}

/// Makes the changes, then reads all of them back; returns what did not take.
pub(crate) fn change(spank: &SpankHandle, variables: &[Variable]) -> Vec<String> {
    let mut failures = Vec::new();
    for Variable { name, change, .. } in variables {
        let result = match change {
            // whether it may be overwritten has been decided with its value in sight
            Change::Set(value) => spank.setenv(name.as_ref(), value, true),
            Change::Remove => spank.unsetenv(name.as_ref()),
            Change::KeepUsers(_) | Change::Leave => Ok(()),
        };
        failures.extend(result.err().map(|error| format!("{name}: {error}")));
    }
    let mut names: Vec<&str> = variables.iter().map(|variable| variable.name.as_ref()).collect();
    names.order();
    let now = values(spank, &names);
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

/// A variable of the step or task.  A value that is not UTF-8 is set too, and so the user's.
pub(crate) fn variable(spank: &SpankHandle, name: &str) -> Option<String> {
    spank.getenv_lossy(name).ok().flatten()
}
