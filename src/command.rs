//! In srun, sbatch and salloc: a typo in the environment is told before anything is queued.
#![forbid(unsafe_code)]

use nic_placement_core::config::{ENVIRONMENT, Words};

/// The option's own typo has ended the command already.  Slurm ignores the answer of an optional plugin here, so a typo in
/// the variable cannot: the job runs without placement, and the user knows why.
pub(crate) fn init_post_opt() {
    let Some(text) = std::env::var_os(ENVIRONMENT).filter(|text| !text.is_empty()) else { return };
    if let Err(bad) = Words::parse(&text.to_string_lossy()) {
        log::error!("{ENVIRONMENT}: {bad}; ignored");
    }
}
