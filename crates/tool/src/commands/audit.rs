//! `nic-placement audit`: names nodes of a cluster that are not like the others of their kind.

use super::Failure;
use super::devices::device_name;
use super::input::{documents, or_stdin};
use super::page::Page;
use nic_placement_core::diagnostic::counted;
use nic_placement_fleet::audit::facts::{Class, DeviceCount, Inventory};
use nic_placement_fleet::audit::kinds::{Audited, Bad, Difference, NodeKind};
use nic_placement_fleet::audit::report::to_json;
use nic_placement_fleet::audit::stream::StreamPiece;
use nic_placement_fleet::audit::{Audit, hostlist};
use std::path::PathBuf;

/// Pieces that are no reports, of which so many are told.
const TOLD: usize = 20;

/// which nodes differ from the others of their kind, and in what
///
/// Groups the reports of `check --json` by kind of node (machine, GPUs, NICs), and names what a node has otherwise than most of
/// its kind. srun needs `-l`, since it mixes the lines of its tasks, and `-K0`, since KillOnBadExit=1 ends all tasks at the
/// first bad node. Ends with 0 where all nodes are like their kind; with 1 where one differs, is alone of its kind or reported
/// twice, or where an input is no report.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  srun -K0 -l -N 16 --ntasks-per-node=1 nic-placement check --json | nic-placement audit -
  nic-placement audit --json reports/*.json")]
pub(super) struct AuditOptions {
    /// regular files with any number of reports; - or nothing for standard input, also from a pipe
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// the same as versioned JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(super) fn run(options: &AuditOptions, page: &mut Page) -> Result<(), Failure> {
    let (mut audit, mut bad_count, mut bad) = (Audit::default(), 0, Vec::new());
    for path in or_stdin(&options.files) {
        let mut reject = |line: Option<u64>, why: String| {
            bad_count += 1;
            if bad.len() < TOLD {
                let input = path.to_string_lossy().into_owned();
                bad.push(Bad { input, line, why });
            }
        };
        let mut take = |((_, line), piece): StreamPiece<'_>| {
            let added = piece
                .map_err(str::to_string)
                .and_then(|text| audit.add(text));
            if let Err(why) = added {
                reject(Some(line), why);
            }
        };
        if let Err(error) = documents(path, &mut take) {
            reject(None, error.to_string());
        }
    }
    let mut audited = audit.finish();
    (audited.bad_count, audited.bad) = (bad_count, bad);
    match options.json {
        true => page.exact(&to_json(&audited)),
        false => print(&audited, page),
    }
    let said = match bad_count {
        0 if audited.nodes == 0 => "no report: `nic-placement check --json` prints one",
        0 if !audited.are_alike() => "not all nodes are like their kind",
        0 if !audited.duplicates.is_empty() => "nodes were reported more than once",
        0 => return Ok(()),
        _ => "not all of the input are reports",
    };
    Err(format!("audit: {said}").into())
}

fn print(audited: &Audited, page: &mut Page) {
    if audited.nodes > 0 {
        let differing = audited.kinds.iter().flat_map(|kind| &kind.differing);
        page.line(format!(
            "{} of {}, differing from their kind: {}",
            counted(audited.nodes, "node"),
            counted(audited.kinds.len(), "kind"),
            differing.map(|of| of.count).sum::<usize>()
        ));
    }
    for of in &audited.kinds {
        page.blank();
        kind(of, audited.nodes, page);
    }
    if !(audited.duplicates.is_empty() && audited.bad.is_empty()) && audited.nodes > 0 {
        page.blank();
    }
    if !audited.duplicates.is_empty() {
        let hosts = hostlist::compressed(audited.duplicates.iter().map(String::as_str));
        page.item("twice  ", format!("{hosts} reported more than once"));
    }
    for Bad { input, line, why } in &audited.bad {
        let place = line.map_or(String::new(), |line| format!("`{input}:{line}`: "));
        page.item("bad    ", place + why);
    }
    if audited.bad_count > TOLD {
        page.item("bad    ", format!("and {} more", audited.bad_count - TOLD));
    }
}

fn kind(kind: &NodeKind, nodes: usize, page: &mut Page) {
    let count = counted(kind.count, "node");
    let heading = format!("{count} {}: {}", kind.nodes, inventory(&kind.inventory));
    page.line(heading);
    if kind.count == 1 && nodes > 1 {
        page.indented("no other node is of this kind");
    }
    for of in &kind.differing {
        page.indented(match of.count {
            1 => of.nodes.clone(),
            more => format!("{} ({more} nodes)", of.nodes),
        });
        for difference in &of.differences {
            page.item("    ", line(difference, kind.count));
        }
    }
}

/// The name of a kind of device by its PCI ids, if known: `ConnectX-7` for `verbs 15b3:1021`.
fn named(model: &str) -> &str {
    let (_, ids) = model.rsplit_once(' ').unwrap_or(("", model));
    let number = |digits| u16::from_str_radix(digits, 16).ok();
    let ids = ids
        .split_once(':')
        .and_then(|(vendor, device)| Some((number(vendor)?, number(device)?)));
    ids.and_then(|(vendor, device)| device_name(vendor, device))
        .unwrap_or(model)
}

fn inventory(of: &Inventory) -> String {
    let devices = |word, counts: &[DeviceCount]| -> String {
        let one = |of: &DeviceCount| {
            let path = of.nearest.as_ref();
            let at = path.map_or(String::new(), |path| format!(" at {path}"));
            format!(", {} {}{at}", counted(of.count, word), named(&of.model))
        };
        counts.iter().map(one).collect()
    };
    format!(
        "{}{}{}",
        of.machine,
        devices("GPU", &of.gpus),
        devices("NIC", &of.nics)
    )
}

fn line(of: &Difference, nodes: usize) -> String {
    let word = match of.class {
        Class::Node => "",
        Class::Numa => "NUMA node ",
        Class::Gpu => "GPU ",
        Class::Nic => "NIC ",
        Class::Finding => return format!("check: {}", of.subject),
    };
    let between = if word.is_empty() || of.what.is_empty() {
        ""
    } else {
        " "
    };
    let said = |value: &Option<String>| named(value.as_deref().unwrap_or("nothing")).to_string();
    format!(
        "{word}{}{between}{}: {}, its kind {} ({} of {nodes})",
        of.subject,
        of.what,
        said(&of.here),
        said(&of.kind),
        of.shared_by
    )
}
