//! `--machine` and `--topology`: the node that a command is about.
#![forbid(unsafe_code)]

use super::Failure;
use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use nic_placement_core::config::NodeSource;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::discover::Scope;
use nic_placement_core::platform;
use nic_placement_core::topology::Topology;
use nic_placement_formats::describe;
use std::ffi::OsString;

#[derive(clap::Args)]
#[command(next_help_heading = "Which node (without one of these, this one)")]
pub(super) struct Node {
    /// a built-in machine: `nic-placement machines` lists them
    #[arg(
        long,
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(platform::names()),
        hide_possible_values = true,
        conflicts_with = "topology"
    )]
    machine: Option<String>,
    /// a file of any format that `nic-placement import` reads
    ///
    /// A topology file, a snapshot, a directory or tar with sys/ and proc/ in it, XML of hwloc or of NCCL, or the text of
    /// nvidia-smi topo -m.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    topology: Option<String>,
}

impl Node {
    pub(super) fn source(&self) -> NodeSource {
        match (&self.machine, &self.topology) {
            (Some(name), _) => NodeSource::Machine(name.clone()),
            (None, Some(path)) => NodeSource::Topology(path.clone()),
            (None, None) => NodeSource::Live,
        }
    }

    /// The same node on another command line.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        match (&self.machine, &self.topology) {
            (Some(name), _) => vec!["--machine".into(), name.into()],
            (None, Some(path)) => vec!["--topology".into(), path.into()],
            (None, None) => Vec::new(),
        }
    }

    /// The node, and what was odd about it.
    pub(super) fn read(&self) -> Result<(Topology, Vec<Diagnostic>), Failure> {
        Ok(describe::read_node(&self.source(), Scope::Full)?)
    }
}
