//! `nic-placement audit`: names nodes of a cluster that are not like the others of their kind.

use super::devices::device_name;
use super::input::{documents, or_stdin};
use super::page::Page;
use super::{Failure, fabric, grouped, output, refresh::textfile};
use nic_placement_core::diagnostic::counted;
use nic_placement_fleet::audit::facts::{Class, Inventory};
use nic_placement_fleet::audit::kinds::{Audited, Bad, Difference, Differing, NodeKind};
use nic_placement_fleet::audit::report::Report;
use nic_placement_fleet::audit::stream::StreamPiece;
use nic_placement_fleet::audit::{Audit, hostlist};
use nic_placement_fleet::fabric::cabling::Cabling;
use nic_placement_fleet::fabric::faults::CableFault;
use nic_placement_fleet::fabric::names::{NameBook, NodeNames};
use nic_placement_fleet::fabric::rails::{FabricRails, positions};
use nic_placement_traffic::exposition::{self, Metric};
use std::path::{Path, PathBuf};

const TOLD: usize = 20;
/// Differences of a node that are printed; JSON has all.
const SHOWN: usize = 24;

/// which nodes differ from the others of their kind, and in what
///
/// Groups the reports of `check --json` by kind of node (machine, GPUs, NICs and their paths), and names what a node has
/// otherwise than most of its kind: a missing NIC, a slower link, firmware, a pairing, a port that is down, NUMA nodes, a
/// finding of `check`. With --fabric, and where nodes run an agent of LLDP, also NICs on another rail's switch and exchanged
/// cables. srun needs `-l`, since it mixes the lines of its tasks, and `-K0`, since KillOnBadExit=1 ends all tasks at the first
/// bad node. Ends with 0 where all nodes are like their kind; with 1 where one differs, is alone of its kind or reported twice,
/// or where an input is no report: the rest is compared all the same.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  srun -K0 -l -N 16 --ntasks-per-node=1 nic-placement check --json | nic-placement audit -
  nic-placement audit --json reports/*.json
  nic-placement audit --fabric ibnetdiscover.txt reports/*.json")]
pub(super) struct AuditOptions {
    /// regular files with any number of reports; - or nothing for standard input, also from a pipe
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// which cable is where: what `nic-placement fabric` reads; again for more
    #[arg(long, value_name = "FILE", action = clap::ArgAction::Append)]
    fabric: Vec<PathBuf>,
    /// the same as versioned JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// write which nodes differ for Prometheus' node exporter too: a file that ends with .prom
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    textfile: Option<PathBuf>,
}

#[derive(Default)]
struct Rejected {
    count: usize,
    first: Vec<Bad>,
    /// true if lines of several tasks may be mixed
    mixed: bool,
}

impl Rejected {
    fn add(&mut self, input: &str, line: Option<u64>, why: String) {
        self.count += 1;
        if self.first.len() < TOLD {
            self.first.push(Bad {
                input: input.to_string(),
                line,
                why,
            });
        }
    }
}

#[derive(Default)]
struct Input {
    audit: Audit,
    names: NameBook,
    /// true if a file lists cables
    with_cables: bool,
    /// true if a node's LLDP agent lists cables
    hears: bool,
    rejected: Rejected,
}

impl Input {
    fn add(&mut self, document: &[u8]) -> Result<(), String> {
        let report = Report::from_json(document)?;
        self.audit.add_report(&report)?;
        let Some(names) = NodeNames::of(&report) else {
            return Ok(());
        };
        // a node whose cables nothing tells has none to be compared
        if !self.with_cables && !names.has_neighbours() {
            return Ok(());
        }
        self.hears |= names.has_neighbours();
        self.names.add(names)
    }
}

pub(super) fn run(options: &AuditOptions, page: &mut Page) -> Result<(), Failure> {
    options
        .textfile
        .as_deref()
        .map_or(Ok(()), textfile::check)?;
    let with_cables = !options.fabric.is_empty();
    let mut input = Input {
        with_cables,
        ..Input::default()
    };
    for file in or_stdin(&options.files) {
        if let Err(error) = read(file, &mut input) {
            input
                .rejected
                .add(&file.to_string_lossy(), None, error.to_string());
        }
    }
    let rails = rails(&options.fabric, &mut input);
    let Input {
        audit, rejected, ..
    } = input;
    let mut audited = audit.finish();
    let faults = rails.as_ref().map(|rails| rails.faults.as_slice());
    audited.cables = faults.and_then(|faults| serde_json::to_value(faults).ok());
    let faults = faults.unwrap_or_default();
    match options.json {
        true => page.exact(&audited.to_json(rejected.count, &rejected.first)),
        false => print(&audited, faults, &rejected, page),
    }
    // an input without a report says nothing of any node: the old file stays, and its age tells
    if let Some(file) = options.textfile.as_ref().filter(|_| audited.nodes > 0) {
        output::write(file, exposition::write(&metrics(&audited)).as_bytes())?;
    }
    let said = match rejected.count {
        0 if audited.nodes == 0 => "no report: `nic-placement check --json` prints one",
        0 if !audited.are_alike() => "not all nodes are like their kind",
        0 if !faults.is_empty() => "not all cables are where they belong",
        0 if !audited.duplicates.is_empty() => "nodes were reported more than once",
        0 => return Ok(()),
        1 => "one piece of the input is no report",
        more => &format!("{more} pieces of the input are no reports"),
    };
    let cure = match rejected.mixed && rejected.count > 0 {
        true => "; srun mixes the lines of its tasks, and `srun -l` tells whose each is",
        false => "",
    };
    Err(format!("audit: {said}{cure}").into())
}

/// The nodes that differ, with the numbers of differences; a node alone of its kind has one.
pub(super) fn metrics(audited: &Audited) -> [Metric; 2] {
    let mut samples = Vec::new();
    for kind in &audited.kinds {
        let alone = (kind.count == 1 && audited.nodes > 1).then_some((&kind.nodes, 1));
        let differing = kind.differing.iter();
        let differing =
            differing.flat_map(|of| of.hosts.iter().map(|host| (host, of.differences.len())));
        for (node, differences) in differing.chain(alone) {
            let labels = vec![
                ("node", node.clone()),
                ("machine", kind.inventory.machine.clone()),
            ];
            samples.push((labels, differences as u64));
        }
    }
    [
        Metric::gauge(
            "nic_placement_audited_nodes",
            "Nodes whose reports the audit compared.",
            vec![(Vec::new(), audited.nodes as u64)],
        ),
        Metric::gauge(
            "nic_placement_node_differences",
            "In how many things a node differs from its kind; only nodes that do.",
            samples,
        ),
    ]
}

fn read(path: &Path, into: &mut Input) -> Result<(), Failure> {
    let file = &*path.to_string_lossy();
    let mut take = |(line, piece): StreamPiece<'_>| {
        let added = piece
            .map_err(str::to_string)
            .and_then(|text| into.add(text));
        if let Err(why) = added {
            into.rejected.add(file, Some(line), why);
        }
    };
    let is_labelled = documents(path, &mut take)?;
    into.rejected.mixed |= file == "-" && !is_labelled;
    Ok(())
}

/// The rails by the cables, if a source tells them; the nodes' positions go into their reports.
fn rails(files: &[PathBuf], input: &mut Input) -> Option<FabricRails> {
    let (mut cabling, mut unread) = (Cabling::default(), Vec::new());
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    fabric::read(&files, &mut cabling, &mut unread);
    unread
        .into_iter()
        .for_each(|why| input.rejected.add("--fabric", None, why));
    if !input.with_cables && !input.hears {
        return None;
    }
    let rails = FabricRails::of(&cabling, &input.names.nodes);
    for (node, facts) in positions(&rails, &input.names) {
        if let Err(why) = input.audit.extend(node, &facts) {
            input.rejected.add("--fabric", None, why);
            break;
        }
    }
    Some(rails)
}

fn print(audited: &Audited, faults: &[CableFault], rejected: &Rejected, page: &mut Page) {
    if audited.nodes > 0 {
        let (nodes, kinds) = (
            counted(audited.nodes, "node"),
            counted(audited.kinds.len(), "kind"),
        );
        let differing = audited.kinds.iter().flat_map(|kind| &kind.differing);
        page.line(match differing.map(|of| of.count).sum() {
            1 => format!("{nodes} of {kinds}, 1 differs from its kind"),
            more => format!("{nodes} of {kinds}, {more} differ from their kind"),
        });
    }
    for kind in &audited.kinds {
        page.blank();
        self::kind(kind, audited.nodes, page);
    }
    if !audited.duplicates.is_empty() {
        page.blank();
    }
    for (alike, says) in [
        (true, "the same each time"),
        (false, "not the same each time; one of them counts"),
    ] {
        let hosts = audited.duplicates.iter().filter(|of| of.alike == alike);
        let hosts = hostlist::compressed(hosts.map(|of| of.host.as_str()));
        if !hosts.is_empty() {
            page.item(
                "twice  ",
                format_args!("{hosts} reported more than once, {says}"),
            );
        }
    }
    if !faults.is_empty() {
        page.blank();
    }
    fabric::faults(faults, page);
    if rejected.count > 0 && audited.nodes > 0 {
        page.blank();
    }
    for Bad { input, line, why } in &rejected.first {
        let place = line.map_or(String::new(), |line| format!("`{input}:{line}`: "));
        page.item("bad    ", format_args!("{place}{why}"));
    }
    if rejected.count > TOLD {
        page.item(
            "bad    ",
            format_args!("and {} more", rejected.count - TOLD),
        );
    }
}

fn kind(kind: &NodeKind, nodes: usize, page: &mut Page) {
    let count = counted(kind.count, "node");
    let heading = format!("{count} {}: {}", kind.nodes, inventory(&kind.inventory));
    page.line(heading);
    if kind.count == 1 && nodes > 1 {
        page.indented("no other node is of this kind");
    }
    for Differing {
        nodes,
        count,
        differences,
        ..
    } in &kind.differing
    {
        page.indented(match count {
            1 => nodes.clone(),
            more => format!("{nodes} ({more} nodes)"),
        });
        let lines = together(differences);
        for of in lines.iter().take(SHOWN) {
            page.item("    ", line(of, kind.count));
        }
        if lines.len() > SHOWN {
            page.item(
                "    ",
                format_args!("and {} more: --json has all", lines.len() - SHOWN),
            );
        }
    }
}

/// Groups differences that differ in the device alone, in the place of the first.
fn together<'d>(differences: &'d [Difference]) -> Vec<Vec<&'d Difference>> {
    let key = |of: &'d Difference| {
        // several devices that are missing, or several findings, are several things to be put right
        let alone = if of.what.is_empty() {
            of.subject.as_str()
        } else {
            ""
        };
        let key = (of.class, alone, &of.what, &of.here, &of.kind, of.shared_by);
        (key, of)
    };
    let lines = grouped(differences.iter().map(key)).into_iter();
    lines.map(|(_, line)| line).collect()
}

/// The name of a kind of device by its PCI ids, if known: `ConnectX-7` for `verbs 15b3:1021`. The report keeps the
/// ids.
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
    let gpus = of.gpus.iter();
    let gpus = gpus.map(|(model, count)| format!(", {} {}", counted(*count, "GPU"), named(model)));
    let nics = of.nics.iter().map(|((model, path), count)| {
        let at = if path.is_empty() { "" } else { " at " };
        format!(", {} {}{at}{path}", counted(*count, "NIC"), named(model))
    });
    of.machine.clone() + &gpus.chain(nics).collect::<String>()
}

fn line(differences: &[&Difference], nodes: usize) -> String {
    let Difference {
        class,
        subject,
        what,
        here,
        kind,
        shared_by,
    } = differences[0];
    let of = match class {
        Class::Node => "",
        Class::Numa => "NUMA node",
        Class::Gpu => "GPU",
        Class::Nic => "NIC",
        Class::Finding => {
            return match (subject.split_once(": "), here) {
                (Some((code, about)), Some(text)) if about != text => {
                    format!("check: {code}: {text}")
                }
                _ => format!("check: {subject}"),
            };
        }
    };
    let of = match differences {
        _ if of.is_empty() => String::new(),
        [_] => format!("{of} {subject} "),
        // the addresses are in the JSON; names are enough where there are many
        _ => {
            let names = differences
                .iter()
                .filter_map(|of| of.subject.split(" (").next());
            format!("{of}s {} ", names.collect::<Vec<_>>().join(" "))
        }
    };
    let share = format!("({shared_by} of {nodes})");
    let said = |value: &Option<String>| named(value.as_deref().unwrap_or("nothing")).to_string();
    match (what.as_str(), here, kind) {
        ("", None, _) => format!("{of}is missing: {} {share}", said(kind)),
        ("", _, None) => format!("{of}is one more than its kind has: {} {share}", said(here)),
        (what, here, kind) => {
            let what = if what.is_empty() {
                "is"
            } else {
                &format!("{what}:")
            };
            format!("{of}{what} {}, its kind {} {share}", said(here), said(kind))
        }
    }
}
