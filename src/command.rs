//! In srun, sbatch and salloc: which of several words is the nearest, a typo in the environment, told before anything is
//! queued, and a word to the node about what it cannot see.
//!
//! Slurm hands the option of sbatch and salloc to the sruns inside as if these had been given it (src/common/spank.c,
//! `spank_process_env_options`), so it would beat a variable that was set closer to them.
#![forbid(unsafe_code)]

use crate::option;
use nic_placement_core::config::{ENVIRONMENT, Words, cpu_bind, replaces_the_allocations};
use nic_placement_sys::{set_variable_before_threads, unset_variable_before_threads};

/// What sbatch and salloc leave, in the environment of the job: for srun, sbatch and salloc, and for the node
/// (src/common/spank.c, `_opt_env_name`; `_set_spank_env` of salloc.c and sbatch.c; the same from 22.05 to 26.05).
const LEFT: [&str; 2] = [
    "SLURM_SPANK__SLURM_SPANK_OPTION_nic_placement_nic_placement",
    "_SLURM_SPANK_OPTION_nic_placement_nic_placement",
];

/// What [`ENVIRONMENT`] was when sbatch or salloc was given the option, which beat it.
const BEFORE: &str = "SLURM_NIC_PLACEMENT_BEFORE";

/// Before Slurm looks for the option: takes away what sbatch or salloc left, where the variable has been set since.
pub(crate) fn init() {
    let (before, set) = (variable(BEFORE), variable(ENVIRONMENT));
    if replaces_the_allocations(set.as_deref(), before.as_deref()) {
        for name in LEFT.into_iter().filter(|name| variable(name).is_some()) {
            report(name, unset_variable_before_threads(name));
        }
    }
}

/// The option's own typo has ended the command already.  Slurm ignores the answer of an optional plugin here, so a typo in
/// the variable cannot: the job runs without placement, and the user knows why.
pub(crate) fn init_post_opt() {
    let Some(text) = variable(ENVIRONMENT).filter(|text| !text.is_empty()) else { return };
    if let Err(bad) = Words::parse(&text) {
        log::error!("{ENVIRONMENT}: {bad}; ignored");
    }
}

/// In srun: whether the user named a way of binding.  The command line says it; what the node sees is not always clear.
pub(crate) fn tell_the_node() {
    let arguments: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(word) = cpu_bind::told_by_srun(&arguments, variable("SLURM_CPU_BIND").as_deref()) {
        report(cpu_bind::VARIABLE, set_variable_before_threads(cpu_bind::VARIABLE, word));
    }
}

/// In sbatch and salloc: notes for the sruns inside what the variable was.
pub(crate) fn note_what_was_before() {
    if option::value().is_none() {
        return;
    }
    let result = match variable(ENVIRONMENT).filter(|text| replaces_the_allocations(Some(text), None)) {
        Some(text) => set_variable_before_threads(BEFORE, &text),
        None => unset_variable_before_threads(BEFORE),
    };
    report(BEFORE, result);
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn report(name: &str, result: std::io::Result<()>) {
    if let Err(error) = result {
        log::debug!("{name}: {error}");
    }
}
