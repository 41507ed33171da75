//! `nic-placement import`: another program's description of a node as a topology file.

use super::page::Page;
use super::{Failure, output, tell};
use clap::ValueHint;
use nic_placement_core::config::NodeSource;
use nic_placement_core::topology::Scope;
use nic_placement_core::topology::Topology;
use nic_placement_formats::describe;
use nic_placement_formats::file;
use nic_placement_formats::import::nccl;
use std::path::PathBuf;

/// turn another program's file, or this node, into a topology file
///
/// Notes on what had to be left out go to standard error.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement import lstopo.xml -o node.json
  nvidia-smi topo -m > matrix.txt; nic-placement import matrix.txt -o node.json
  nic-placement import amd-smi.txt rdma-link.txt -o node.json
  nic-placement import --live --to nccl -o /etc/nccl/topology.xml")]
pub(super) struct ImportOptions {
    /// the file, or - for standard input; for a tar or a snapshot also a directory with sys/ and proc/
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present = "live")]
    file: Option<String>,
    /// the output of rdma link or ibdev2netdev, which names the NICs that rocm-smi and amd-smi leave out
    #[arg(value_hint = ValueHint::FilePath, conflicts_with = "live")]
    links: Option<String>,
    /// this node instead of a file
    #[arg(long, conflicts_with = "file")]
    live: bool,
    /// what to write: json, or nccl for XML that NCCL_TOPO_FILE takes (default: json)
    #[arg(
        long,
        value_name = "WORD",
        value_enum,
        default_value = "json",
        hide_default_value = true
    )]
    to: To,
    /// where to write it (default: standard output)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum To {
    Json,
    Nccl,
}

pub(super) fn run(options: &ImportOptions, page: &mut Page) -> Result<(), Failure> {
    let (topology, diagnostics) = match (&options.file, &options.links) {
        (None, _) => describe::read_node(&NodeSource::Live, Scope::Full)?,
        (Some(file), Some(links)) => describe::read_with_links(file, links)?,
        (Some(file), None) => {
            describe::read_node(&NodeSource::Topology(file.clone()), Scope::Full)?
        }
    };
    for diagnostic in diagnostics {
        tell(&format!("note: {diagnostic}"));
    }
    let file = options.file.as_deref().unwrap_or("this node");
    refuse_nothing(file, &topology)?;
    let text = match options.to {
        To::Nccl => {
            if topology.gpus.iter().any(|gpu| gpu.address.is_invented()) {
                tell(
                    "note: the GPUs' addresses are not known, so NCCL takes nothing from this file on that machine",
                );
            }
            nccl::write(&topology).map_err(|unwritable| format!("`{file}`: {unwritable}"))?
        }
        To::Json => file::to_json(&topology),
    };
    output::deliver(&text, options.output.as_deref(), page)
}

/// Refuses a description without a device or a NUMA node: a wrong folder, mostly.
pub(super) fn refuse_nothing(file: &str, node: &Topology) -> Result<(), Failure> {
    let has_devices = node.pci.iter().next().is_some() || !node.gpus.is_empty();
    if has_devices || !node.nics.is_empty() || !node.numa_nodes.is_empty() {
        return Ok(());
    }
    let expected = "expected a directory with sys/ and proc/, or a file that names devices or CPUs";
    Err(format!("`{file}` shows nothing of a node: {expected}").into())
}
