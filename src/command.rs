//! In srun, sbatch and salloc: a typo in the environment is told before anything is queued, and the node is told what it
//! cannot see.
#![forbid(unsafe_code)]

use nic_placement_core::config::{ENVIRONMENT, Words, cpu_bind};
use nic_placement_sys as sys;

/// srun's command line says whether the user named a way of binding; what the node sees of it is not always clear.
pub(crate) fn tell_the_node() {
    let arguments: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let variable = std::env::var_os("SLURM_CPU_BIND").map(|value| value.to_string_lossy().into_owned());
    if let Some(word) = cpu_bind::told_by_srun(&arguments, variable.as_deref()) {
        if let Err(error) = sys::set_variable_before_threads(cpu_bind::VARIABLE, word) {
            log::debug!("{}: {error}", cpu_bind::VARIABLE);
        }
    }
}

/// The option's own typo has ended the command already.  Slurm ignores the answer of an optional plugin here, so a typo in
/// the variable cannot: the job runs without placement, and the user knows why.
pub(crate) fn init_post_opt() {
    let Some(text) = std::env::var_os(ENVIRONMENT).filter(|text| !text.is_empty()) else { return };
    if let Err(bad) = Words::parse(&text.to_string_lossy()) {
        log::error!("{ENVIRONMENT}: {bad}; ignored");
    }
}
