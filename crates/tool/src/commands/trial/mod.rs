//! `nic-placement trial`: the probes of trial.sbatch, and the report of their outputs.

mod assemble;
mod probe;
mod sides;

use super::page::Page;
use super::request::{NodeOptions, number, whole_node};
use super::{Failure, ending, output};
use assemble::Folder;
use clap::ValueHint;
use nic_placement_fleet::trial::report;
use nic_placement_formats::describe;
use std::path::{Path, PathBuf};

/// a trial on real nodes: is placement right there, and what is it worth?
///
/// `sbatch -N2 trial.sbatch`, a file of the package, tries it and leaves a folder. This command makes the report of that folder:
/// report.json and report.md in it, without names of hosts and users. The other options are those by which the script asks.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sbatch -N2 /usr/share/nic-placement/trial.sbatch
  nic-placement trial nic-placement-trial-1234
  nic-placement trial --check nic-placement-trial-1234")]
pub(super) struct TrialOptions {
    /// the folder that trial.sbatch left
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    #[arg(required_unless_present_any = ["probe", "sides"], conflicts_with_all = ["probe", "sides"])]
    folder: Option<PathBuf>,
    /// say whether the report in FOLDER can be taken into docs/results.md: 0 if so, else 1 and why not
    #[arg(long, requires = "folder")]
    check: bool,
    /// what this task finds, as one line of versioned JSON: the GPUs that their drivers show it, its CPUs, its memory policy
    #[arg(long, help_heading = "Asked by trial.sbatch")]
    probe: bool,
    /// copy so many MiB to and from the first CUDA device, and tell how fast
    #[arg(
        long,
        value_name = "MIB",
        requires = "probe",
        help_heading = "Asked by trial.sbatch"
    )]
    #[arg(value_parser = number(1, 4096))]
    copies: Option<u32>,
    /// the nearest NIC of GPU 0, and the other socket's NIC, CPUs and memory, as lines NAME=VALUE
    #[arg(long, conflicts_with = "probe", help_heading = "Asked by trial.sbatch")]
    sides: bool,
    #[command(flatten)]
    node: NodeOptions,
}

pub(super) fn run(options: &TrialOptions, page: &mut Page) -> Result<(), Failure> {
    match &options.folder {
        Some(folder) if options.check => check(folder, page),
        Some(folder) => {
            let report = assemble::report(&Folder(folder.clone()))?;
            output::write_own(&folder.join(REPORT), report.to_json().as_bytes())?;
            output::write_own(&folder.join("report.md"), report.to_markdown().as_bytes())?;
            Ok(())
        }
        None if options.sides => {
            let topology = options.node.read()?.0;
            let plan = whole_node(topology, options.node.admin())?;
            page.exact(&sides::sides(&plan));
            Ok(())
        }
        None => {
            page.exact(&probe::probe(options.copies).to_json());
            Ok(())
        }
    }
}

const REPORT: &str = "report.json";

fn check(folder: &Path, page: &mut Page) -> Result<(), Failure> {
    let file = folder.join(REPORT).display().to_string();
    let report = report::read(&describe::contents(&file)?);
    let faults = report::faults(&report.map_err(|why| format!("`{file}`: {why}"))?);
    if faults.is_empty() {
        page.line(format!("`{file}` can be taken"));
        return Ok(());
    }
    faults.iter().for_each(|fault| page.line(fault.as_str()));
    Err(ending(1, ""))
}
