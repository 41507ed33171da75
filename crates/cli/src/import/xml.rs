//! XML for the importers: roxmltree within bounds, and no entities of the file's own.
#![forbid(unsafe_code)]

use super::{BadImport, MAX_BYTES};
use nic_placement_core::diagnostic::Shown;
use roxmltree::{Document, ParsingOptions};

/// Elements, attributes and texts of one file, at most; the largest hwloc XML known has 30,000.
const MAX_NODES: u32 = 500_000;
/// Elements inside each other, at most; hwloc's deepest machines have about 20.
pub(super) const MAX_DEPTH: usize = 128;

/// Reads a document.  hwloc writes a document type without content, so that much of one is accepted.
pub(super) fn parse(text: &str) -> Result<Document<'_>, BadImport> {
    if text.len() > MAX_BYTES {
        return Err(BadImport::new(0, format!("longer than {MAX_BYTES} bytes")));
    }
    if let Some(at) = text.find("<!ENTITY") {
        let line = text[..at].lines().count().max(1) as u32;
        return Err(BadImport::new(line, "the file declares entities, which no topology needs"));
    }
    let options = ParsingOptions { allow_dtd: true, nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        BadImport::new(error.pos().row, format!("not well-formed XML: {}", one_line(&error.to_string())))
    })?;
    Ok(document)
}

/// The parser's message, which quotes names of the file at any length.
fn one_line(message: &str) -> Shown<'_> {
    Shown::message(message, 200)
}
