//! `nic-placement trial`: what the tasks of a job find, against what the plugin decided.
#![forbid(unsafe_code)]

mod probe;

use super::Failure;
use super::page::Page;
use super::request::number;

/// what a task finds of itself, against what the plugin decided
#[derive(clap::Args)]
pub(super) struct TrialOptions {
    /// what this task finds, as one line of versioned JSON: the GPUs that their drivers show it, its CPUs, its memory policy
    #[arg(long, required = true)]
    probe: bool,
    /// copy so many MiB to and from the first CUDA device, and tell how fast
    #[arg(long, value_name = "MIB", requires = "probe")]
    #[arg(allow_negative_numbers = true, value_parser = number(1, 4096))]
    copies: Option<u32>,
    /// make a communicator of NCCL, which writes the file that NCCL_TOPO_DUMP_FILE names
    #[arg(long, requires = "probe")]
    nccl: bool,
}

pub(super) fn run(options: &TrialOptions, page: &mut Page) -> Result<(), Failure> {
    page.exact(&probe::probe(options.copies, options.nccl).to_json());
    Ok(())
}
