//! `nic-placement fabric`: which switch each NIC is cabled to, and what that makes of the rails.
#![forbid(unsafe_code)]

use super::Failure;
use super::input::{documents, open, or_stdin};
use super::page::{Page, Style, Table, Text};
use clap::ValueHint;
use nic_placement_core::diagnostic::counted;
use nic_placement_fleet::audit::hostlist::compressed;
use nic_placement_fleet::audit::report::Report;
use nic_placement_fleet::audit::stream::StreamPiece;
use nic_placement_fleet::fabric::cabling::Cabling;
use nic_placement_fleet::fabric::faults::{CableFault, FaultKind, FaultyCable};
use nic_placement_fleet::fabric::names::{NameBook, NodeNames};
use nic_placement_fleet::fabric::rails::{CabledRail, CabledSwitch, FabricRails};
use nic_placement_fleet::fabric::{CableLayout, RailReach, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Lines of one sort that are printed; JSON has all.
const SHOWN: usize = 40;

/// Leaves of a rail that are printed.
const LEAVES: usize = 4;

/// which switch each NIC is cabled to: rails that are whole, cables that are wrong
///
/// A rail is a leaf switch: the k-th NIC of every node is on it, or on one such leaf for each group of nodes. Reads what
/// ibnetdiscover (also with -p), iblinkinfo and `lldpctl -f json0` print, and Slurm's topology.conf and topology.yaml, as
/// NVIDIA's topograph writes them; the content tells which it is. Each line of lldpctl has its node's name before it, as clush
/// and pdsh print it, or a file is named as its node: node7.json. Most nodes decide which leaf is which rail's, and where there is no majority the answer is "not known". Names cables that are
/// exchanged, on another switch or without a link, says whether the rails reach each other, and what to write into the
/// configuration file. Ends with 0 where no cable is wrong; with 1 where one is, or where an input cannot be read.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ibnetdiscover | nic-placement fabric -
  nic-placement fabric --reports reports.json lldp/*.json
  nic-placement fabric --cables ibnetdiscover.txt")]
pub(super) struct FabricOptions {
    /// regular files, or - for standard input; nothing is standard input too, unless there are reports
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// what `check --json` printed on the nodes: their names of NICs and interfaces, and which NICs the GPUs use
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, action = clap::ArgAction::Append)]
    reports: Vec<PathBuf>,
    /// each NIC with its switch, port and rail, too
    #[arg(long, help_heading = "Output")]
    cables: bool,
    /// all of it as versioned JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(super) fn run(options: &FabricOptions, page: &mut Page) -> Result<(), Failure> {
    let (mut cabling, mut unread) = (Cabling::default(), Vec::new());
    let files = if options.reports.is_empty() {
        or_stdin(&options.files)
    } else {
        paths(&options.files)
    };
    read(&files, &mut cabling, &mut unread);
    let mut reports = NameBook::default();
    for file in &options.reports {
        read_reports(file, &mut reports, &mut unread);
    }
    let rails = FabricRails::of(&cabling, &reports.nodes);
    match options.json {
        true => page.exact(&rails.to_json(&unread)),
        false => {
            print(&rails, options.cables, page);
            unread
                .iter()
                .for_each(|why| page.item(Text::styled("unread ", Style::Wrong), why.as_str()));
        }
    }
    match (unread.len(), rails.faults.len()) {
        (0, 0) if rails.switches.is_empty() => Err("fabric: no cable of a node is told".into()),
        (0, 0) => Ok(()),
        (0, _) => Err("fabric: not all cables are where they belong".into()),
        (1, _) => Err("fabric: one input cannot be read".into()),
        (more, _) => Err(format!("fabric: {more} inputs cannot be read").into()),
    }
}

fn paths(files: &[PathBuf]) -> Vec<&Path> {
    files.iter().map(PathBuf::as_path).collect()
}

/// Reads the sources of a fabric; why one could not be read goes to `unread`.
pub(super) fn read(files: &[&Path], into: &mut Cabling, unread: &mut Vec<String>) {
    for file in files {
        let name = file.to_string_lossy();
        let text = open(file).and_then(|input| {
            let mut bytes = Vec::new();
            // one byte more shows the reader that the text is too long
            input
                .take(sources::MAX_BYTES as u64 + 1)
                .read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        });
        let read = text.map_err(|error| error.to_string());
        if let Err(why) = read.and_then(|text| sources::read(&name, &text, into).map(|_| ())) {
            unread.push(if why.contains(&*name) {
                why
            } else {
                format!("`{name}`: {why}")
            });
        }
    }
}

fn read_reports(file: &Path, into: &mut NameBook, unread: &mut Vec<String>) {
    let name = file.to_string_lossy();
    let mut take = |(line, piece): StreamPiece<'_>| {
        let report = piece.map_err(str::to_string).and_then(Report::from_json);
        let names = report.and_then(|report| {
            NodeNames::of(&report)
                .ok_or("it has no `host`: a report of a described machine".to_string())
        });
        if let Err(why) = names.and_then(|names| into.add(names)) {
            unread.push(format!("`{name}:{line}`: {why}"));
        }
    };
    if let Err(error) = documents(file, &mut take) {
        unread.push(error.to_string());
    }
}

fn print(rails: &FabricRails, with_cables: bool, page: &mut Page) {
    let cables = rails
        .nodes
        .iter()
        .flat_map(|node| &node.nics)
        .filter(|nic| nic.switch.is_some())
        .count();
    if !rails.nodes.is_empty() {
        let nodes = counted(rails.nodes.len(), "node");
        let switches = if rails.switches.len() == 1 {
            "1 switch".to_string()
        } else {
            format!("{} switches", rails.switches.len())
        };
        page.line(format_args!(
            "{nodes}, {} to {switches}: {}",
            counted(cables, "cable"),
            layout(rails.layout)
        ));
        page.blank();
    }
    match rails.rails.is_empty() {
        true if rails.switches.is_empty() => {}
        true => page.table(&switches(&rails.switches)),
        false => page.table(&table(&rails.rails)),
    }
    if let Some(text) = reach(&rails.reach) {
        page.blank();
        page.line(text);
    }
    if with_cables {
        page.blank();
        page.table(&cable_table(rails));
    }
    if !(rails.faults.is_empty() && rails.notes.is_empty() && rails.lines.is_empty()) {
        page.blank();
    }
    faults(&rails.faults, page);
    let shown = rails.notes.iter().take(SHOWN);
    shown.for_each(|note| page.item("note   ", note.as_str()));
    more(rails.notes.len(), page);
    for line in rails.lines.iter().take(SHOWN) {
        page.item("write  ", format_args!("`{}`: {}", line.line, line.why));
    }
    more(rails.lines.len(), page);
}

fn more(count: usize, page: &mut Page) {
    if count > SHOWN {
        page.item(
            "       ",
            format_args!("and {} more: --json has all", count - SHOWN),
        );
    }
}

fn layout(layout: CableLayout) -> String {
    match layout {
        CableLayout::RailOptimised => "each NIC of a node on a switch of its own".to_string(),
        CableLayout::Grouped(nics) => format!("{nics} NICs of a node on each"),
        CableLayout::OneLeaf => "all NICs of a node on one, so there are no rails".to_string(),
        CableLayout::OneNic => {
            "one NIC for each node; each isolated rail has a file of its own".to_string()
        }
        CableLayout::NotRecognised => {
            "in no order that most nodes share, so rails are not known".to_string()
        }
        CableLayout::NotTold => "no NIC is told".to_string(),
    }
}

fn table(rails: &[CabledRail]) -> Table {
    let mut table = Table::headed(["rail", "NICs", "right", "leaves"]);
    for CabledRail {
        rail,
        nics,
        leaves,
        right,
        ports,
    } in rails
    {
        let whole = format!("{right} of {ports}");
        let whole = if right == ports {
            Text::from(whole)
        } else {
            Text::styled(whole, Style::Wrong)
        };
        let more = match leaves.len().saturating_sub(LEAVES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let leaves = leaves[..leaves.len().min(LEAVES)].join(" ") + &more;
        table.row([
            rail.to_string().into(),
            nics.join(" ").into(),
            whole.unbroken(),
            leaves.into(),
        ]);
    }
    table
}

fn switches(switches: &[CabledSwitch]) -> Table {
    let mut table = Table::headed(["switch", "nodes"]);
    for CabledSwitch { switch, nodes, .. } in switches {
        table.row([switch.into(), nodes.into()]);
    }
    table
}

fn cable_table(rails: &FabricRails) -> Table {
    let mut table = Table::headed(["node", "NIC", "switch", "port", "rail"]);
    for node in &rails.nodes {
        for nic in &node.nics {
            let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_string());
            let rail = nic.rail.map(|rail| rail.to_string());
            let switch = or_dash(&nic.switch);
            let switch = if nic.belongs.is_some() {
                Text::styled(switch, Style::Wrong)
            } else {
                switch.into()
            };
            let name = format!("{}:{}", nic.nic, nic.port);
            let (port, rail) = (or_dash(&nic.switch_port), or_dash(&rail));
            table.row([
                (&node.node).into(),
                name.into(),
                switch,
                port.into(),
                rail.into(),
            ]);
        }
    }
    table
}

fn reach(reach: &RailReach) -> Option<String> {
    let group = |rails: &Vec<usize>| {
        rails
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    Some(match reach {
        RailReach::NoRails => return None,
        RailReach::Together => "rails reach each other: switches connect them".to_string(),
        RailReach::Isolated => "rails are isolated: no switch connects two of them".to_string(),
        RailReach::IsolatedBySubnets => {
            "rails are isolated: each has InfiniBand subnets of its own, by which nodes know it"
                .to_string()
        }
        RailReach::Partly(groups) => {
            let groups: Vec<String> = groups.iter().map(group).collect();
            format!("only some rails reach each other: {}", groups.join(" | "))
        }
        RailReach::NotKnown => {
            "whether rails reach each other is not known: no source tells links between switches"
                .to_string()
        }
    })
}

/// A line for each fault; nodes with the same one share it.
pub(super) fn faults(faults: &[CableFault], page: &mut Page) {
    let mut lines: Vec<(String, BTreeSet<&str>)> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for fault in faults {
        let (node, text) = self::text(fault);
        let at = *known.entry(text.clone()).or_insert(lines.len());
        if at == lines.len() {
            lines.push((text, BTreeSet::new()));
        }
        lines[at].1.extend(node);
    }
    for (text, nodes) in lines.iter().take(SHOWN) {
        let nodes = compressed(nodes.iter().copied());
        let between = if nodes.is_empty() { "" } else { " " };
        page.item(
            Text::styled("wrong  ", Style::Wrong),
            format_args!("{nodes}{between}{text}"),
        );
    }
    more(lines.len(), page);
}

/// The node, if the fault is on one alone, and its text.
fn text(fault: &CableFault) -> (Option<&str>, String) {
    let rail = |rail: Option<usize>| rail.map_or(String::new(), |rail| format!(" (rail {rail})"));
    let on = |cable: &FaultyCable| match &cable.on {
        Some(on) => format!("on {on}{}", rail(cable.on_rail)),
        None => "without a link".to_string(),
    };
    let belongs = |cable: &FaultyCable| match &cable.belongs {
        Some(switch) => format!("{switch}{}", rail(cable.rail)),
        None => "a switch".to_string(),
    };
    let nodes: BTreeSet<&str> = fault
        .cables
        .iter()
        .map(|cable| cable.node.as_str())
        .collect();
    let node = nodes.first().copied().filter(|_| nodes.len() == 1);
    let name = |cable: &FaultyCable| match node {
        Some(_) => cable.nic.clone(),
        None => format!("{} {}", cable.node, cable.nic),
    };
    let text = match (fault.kind, fault.cables.as_slice()) {
        (FaultKind::Exchanged, [a, b]) => format!(
            "{} and {} are exchanged: {} is {}, {} {}",
            name(a),
            name(b),
            name(a),
            on(a),
            name(b),
            on(b)
        ),
        (FaultKind::NoLink, [cable]) if cable.belongs.is_none() => {
            format!("{} has no link, and most nodes have one there", name(cable))
        }
        (FaultKind::NoLink, [cable]) => {
            format!(
                "{} has no link; it belongs on {}",
                name(cable),
                belongs(cable)
            )
        }
        (FaultKind::WrongSwitch, [cable]) => {
            format!(
                "{} is {}; it belongs on {}",
                name(cable),
                on(cable),
                belongs(cable)
            )
        }
        (_, cables) => {
            let each: Vec<String> = cables
                .iter()
                .map(|cable| format!("{} {}", name(cable), on(cable)))
                .collect();
            format!(
                "has its NICs in another order, by cables or by names: {}",
                each.join(", ")
            )
        }
    };
    (node, text)
}
