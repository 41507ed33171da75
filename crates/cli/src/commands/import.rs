//! `nic-placement import`: another program's description of a node as a topology file.
#![forbid(unsafe_code)]

use super::Failure;
use crate::describe::{self, Format};
use crate::import::nccl;
use nic_placement_core::config::NodeSource;
use nic_placement_core::discover::{Scope, root};
use nic_placement_core::topology::file;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

const FORMATS: [(&str, Format); 5] = [
    ("hwloc", Format::Hwloc),
    ("nccl", Format::Nccl),
    ("smi", Format::Smi),
    ("sysfs", Format::Sysfs),
    ("json", Format::Json),
];

pub(super) fn run(mut arguments: lexopt::Parser, output: &mut Vec<u8>) -> Result<(), Failure> {
    use lexopt::prelude::*;
    let (mut from, mut to, mut file_name, mut destination) = (None, "json".to_string(), None, None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("from") => {
                let word = arguments.value()?.string()?;
                let known = || FORMATS.map(|(known, _)| known).join(", ");
                let format = FORMATS.iter().find(|(known, _)| *known == word);
                let unknown = || lexopt::Error::from(format!("`--from {word}`: expected one of {}", known()));
                from = Some(format.ok_or_else(unknown)?.1);
            }
            Long("to") => {
                to = arguments.value()?.string()?;
                if !matches!(to.as_str(), "json" | "nccl") {
                    return Err(lexopt::Error::from(format!("`--to {to}`: expected json or nccl")).into());
                }
            }
            Short('o') | Long("output") => destination = Some(PathBuf::from(arguments.value()?)),
            Value(value) if file_name.is_none() => file_name = Some(value.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let file_name = file_name.ok_or_else(|| lexopt::Error::from("`import` needs a file"))?;
    let (topology, diagnostics) = match from {
        Some(format) if !Path::new(&file_name).is_dir() => {
            let bytes = root::read_file(Path::new(&file_name), describe::MAX_FILE)
                .map_err(|error| format!("cannot read `{file_name}`: {error}"))?;
            describe::describe_as(&file_name, &bytes, Scope::Full, format)
                .map_err(|problem| format!("`{file_name}` is no topology: {problem}"))?
        }
        _ => describe::read_node(&NodeSource::Topology(file_name), Scope::Full)?,
    };
    for diagnostic in diagnostics {
        eprintln!("nic-placement: note: {diagnostic}");
    }
    let text = match to.as_str() {
        "nccl" => nccl::write(&topology),
        _ => file::to_json(&topology),
    };
    let Some(destination) = destination else { return Ok(output.write_all(text.as_bytes())?) };
    // whole or not at all: a plugin may be reading the file that this one replaces
    let beside = destination.with_extension("new");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &destination));
    Ok(written.map_err(|error| format!("cannot write `{}`: {error}", destination.display()))?)
}
