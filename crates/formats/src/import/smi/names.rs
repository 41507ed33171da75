//! The names of NICs: the columns' own labels, or the names for `NIC0` and so on in the `NIC Legend:`.

use super::matrix::{Matrix, is_header};
use super::text::TextLine;
use super::{BadText, is_nic_number, listed};
use crate::import::{Imported, Result, shown};
use nic_placement_core::topology::{DeviceName, LinkLayer};
use std::collections::BTreeMap;

struct Entry<'a> {
    name: &'a str,
    line: u32,
    /// true if neither a remark nor another entry follows the name on its line
    is_overwritten: bool,
    is_open: bool,
}

pub fn read(
    matrix: &Matrix,
    nics: &[&str],
    lines: &[TextLine],
    to: &mut Imported,
) -> Result<Vec<DeviceName>> {
    let entries = entries(lines, matrix, to)?;
    // with dozens of NICs nvidia-smi overruns its buffers and prints parts of its header for names
    // (seen with 42 and 62 NICs): a word without a digit is one
    let any_overwritten = entries.values().any(|entry| entry.is_overwritten);
    let is_part = |entry: &Entry| {
        let digits = entry.name.contains(|c: char| c.is_ascii_digit());
        entry.is_overwritten || is_nic_number(entry.name) || any_overwritten && !digits
    };
    let mut names: Vec<DeviceName> = Vec::new();
    let mut lines_of: BTreeMap<DeviceName, u32> = BTreeMap::new();
    let mut nameless: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for &label in nics {
        let entry = entries.get(label);
        let why = match entry {
            Some(entry) if is_part(entry) => Some("the name is overwritten"),
            Some(entry) if entry.is_open => {
                Some("the text ends without a line's end, and the last name may be cut")
            }
            None if is_nic_number(label) => Some("no name"),
            _ => None,
        };
        why.into_iter()
            .for_each(|why| nameless.entry(why).or_default().push(label));
        let name = entry
            .filter(|_| why.is_none())
            .map_or(label, |entry| entry.name);
        let line = entry.map_or(matrix.line, |entry| entry.line);
        let name = device_name(label, name, line)?;
        if let Some(first) = lines_of.insert(name.clone(), line) {
            return Err(BadText::new(
                line.max(first),
                format!("two NICs are called `{}`", shown(&name)),
            ));
        }
        names.push(name);
    }
    for (why, labels) in nameless {
        to.note(
            "NIC Legend",
            format!(
                "{why}, so the matrix's own word is used, which no library knows, for {}",
                listed(&labels)
            ),
        );
    }
    let strays: Vec<&&str> = entries
        .keys()
        .filter(|label| !nics.contains(label))
        .collect();
    if !strays.is_empty() {
        to.note(
            "NIC Legend",
            format!("names what the matrix does not show: {}", listed(&strays)),
        );
    }
    Ok(names)
}

/// The link layer of each NIC, if all names are udev's: the protocol, then an onboard index, a
/// place on the bus or a GUID (rdma-core, kernel-boot/rdma_rename.c; the kernel's
/// drivers/infiniband/core/nldev.c).
///
/// Else all are unknown: placement would take an unknown one among them for one more layer.
pub fn link_layers(names: &[DeviceName]) -> Vec<LinkLayer> {
    let known: Option<Vec<LinkLayer>> = names
        .iter()
        .map(|name| {
            [
                ("ib", LinkLayer::InfiniBand),
                ("roce", LinkLayer::Ethernet),
                ("iw", LinkLayer::Ethernet),
            ]
            .into_iter()
            .find_map(|(protocol, layer)| {
                let mut place = name.as_str().strip_prefix(protocol)?.chars();
                let starts_well = matches!(place.next()?, 'o' | 's' | 'p' | 'P' | 'x');
                (starts_well && place.next()?.is_ascii_hexdigit()).then_some(layer)
            })
        })
        .collect();
    known.unwrap_or_else(|| vec![LinkLayer::Unknown; names.len()])
}

/// Every `NIC0: name` below the matrix, up to another matrix.
fn entries<'a>(
    lines: &'a [TextLine],
    matrix: &Matrix,
    to: &mut Imported,
) -> Result<BTreeMap<&'a str, Entry<'a>>> {
    let mut entries: BTreeMap<&str, Entry> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.number > matrix.last_line) {
        let (words, number) = (line.words(), line.number);
        if is_header(&words, matrix.columns.first()) {
            to.note(
                "header",
                format!("one more matrix begins in line {number}: only the first is read"),
            );
            break;
        }
        let mut rest = words.as_slice();
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            let Some((label, touching)) = entry(word) else {
                continue;
            };
            let name = match (touching, rest.split_first()) {
                ("", Some((name, after))) => {
                    rest = after;
                    *name
                }
                (name, _) => name,
            };
            device_name(label, name, number)?;
            // `NIC0: mlx5_0 -> eth0 (rail 0)` is a remark
            let is_overwritten = rest.first().is_some_and(|next| {
                entry(next).is_none() && next.starts_with(|first: char| first.is_alphanumeric())
            });
            if let Some(first) = entries.get(label).filter(|first| first.name != name) {
                let (name, first) = (shown(name), shown(first.name));
                return Err(BadText::new(
                    number,
                    format!("`{label}` is called `{name}`, and before `{first}`"),
                ));
            }
            let entry = Entry {
                name,
                line: number,
                is_overwritten,
                is_open: line.is_open && rest.is_empty(),
            };
            entries.insert(label, entry);
        }
    }
    Ok(entries)
}

/// `NIC0:`, or `NIC0:mlx5_0`, as label and name.
fn entry(word: &str) -> Option<(&str, &str)> {
    word.split_once(':')
        .filter(|(label, _)| is_nic_number(label))
}

fn device_name(label: &str, name: &str, line: u32) -> Result<DeviceName> {
    name.parse().map_err(|_| {
        let (name, most) = (shown(name), DeviceName::MAX);
        BadText::new(line, format!(
            "`{name}` as the name of `{label}`: expected 1 to {most} of the characters `A-Za-z0-9_.-`"
        ))
    })
}
