//! `nic-placement fabric`: the switch that each NIC is cabled to, and the rails that the cables make.

use super::Failure;
use super::input::{documents, open, or_stdin};
use super::page::{Page, Table, Text};
use nic_placement_core::diagnostic::counted;
use nic_placement_fleet::audit::hostlist::compressed;
use nic_placement_fleet::audit::report::Report;
use nic_placement_fleet::audit::stream::StreamPiece;
use nic_placement_fleet::fabric::cabling::Cabling;
use nic_placement_fleet::fabric::faults::{CableFault, FaultKind, FaultyCable};
use nic_placement_fleet::fabric::names::{NameBook, NodeNames};
use nic_placement_fleet::fabric::rails::{CabledRail, FabricRails};
use nic_placement_fleet::fabric::{CableLayout, RailReach, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Lines of one sort that are printed; JSON has all.
const SHOWN: usize = 40;

const LEAVES: usize = 4;

/// which switch each NIC is cabled to: rails that are whole, cables that are wrong
///
/// A rail is a leaf switch: the k-th NIC of every node is on it, or on one such leaf for each group of nodes. Reads
/// ibnetdiscover and `lldpctl -f json0`, whose lines have the node's name in front, as clush and pdsh print it, unless a file
/// is named as its node: node7.json. Most nodes decide which leaf is which rail's; without a majority it is not known. Names
/// cables that are exchanged, on another switch or without a link, says whether the rails reach each other, and what to write
/// into the configuration file. Ends with 1 where a cable is wrong or an input cannot be read, else with 0.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ibnetdiscover | nic-placement fabric -
  nic-placement fabric --reports reports.json lldp/*.json
  nic-placement fabric --cables ibnetdiscover.txt")]
pub(super) struct FabricOptions {
    /// regular files, or - for standard input; nothing is standard input too, unless there are reports
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// what `check --json` printed on the nodes: their names of NICs and interfaces, and which NICs the GPUs use
    #[arg(long, value_name = "FILE", action = clap::ArgAction::Append)]
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
    let files = match options.reports.is_empty() {
        true => or_stdin(&options.files),
        false => options.files.iter().map(PathBuf::as_path).collect(),
    };
    read(&files, &mut cabling, &mut unread);
    let mut reports = NameBook::default();
    for file in &options.reports {
        let name = file.to_string_lossy();
        let mut take = |(line, piece): StreamPiece<'_>| {
            let report = piece.map_err(str::to_string).and_then(Report::from_json);
            let names = report.and_then(|report| {
                NodeNames::of(&report)
                    .ok_or("it has no `host`: a report of a described machine".to_string())
            });
            if let Err(why) = names.and_then(|names| reports.add(names)) {
                unread.push(format!("`{name}:{line}`: {why}"));
            }
        };
        if let Err(error) = documents(file, &mut take) {
            unread.push(error.to_string());
        }
    }
    let rails = FabricRails::of(&cabling, &reports.nodes);
    if options.json {
        page.exact(&rails.to_json(&unread));
    } else {
        print(&rails, options.cables, page);
        for why in &unread {
            page.item("unread ", why.as_str());
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

/// Reads the sources of a fabric; reasons why one could not be read go to `unread`.
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
        if let Err(why) = read.and_then(|text| sources::read(&name, &text, into)) {
            let names_it = why.contains(&*name);
            unread.push(if names_it {
                why
            } else {
                format!("`{name}`: {why}")
            });
        }
    }
}

fn print(rails: &FabricRails, with_cables: bool, page: &mut Page) {
    let nics = rails.nodes.iter().flat_map(|node| &node.nics);
    if !rails.nodes.is_empty() {
        let nodes = counted(rails.nodes.len(), "node");
        let cables = nics.filter(|nic| nic.switch.is_some()).count();
        let (cables, switches) = (counted(cables, "cable"), rails.switches.len());
        let switches = if switches == 1 {
            "1 switch".into()
        } else {
            format!("{switches} switches")
        };
        page.line(format_args!(
            "{nodes}, {cables} to {switches}: {}",
            layout(rails.layout)
        ));
        page.blank();
    }
    if !rails.rails.is_empty() {
        page.table(&rail_table(&rails.rails));
    } else if !rails.switches.is_empty() {
        let mut table = Table::headed(["switch", "nodes"]);
        rails
            .switches
            .iter()
            .for_each(|of| table.row([(&of.switch).into(), (&of.nodes).into()]));
        page.table(&table);
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
    rails
        .notes
        .iter()
        .take(SHOWN)
        .for_each(|note| page.item("note   ", note.as_str()));
    more(rails.notes.len(), page);
    for of in rails.lines.iter().take(SHOWN) {
        page.item("write  ", format_args!("`{}`: {}", of.line, of.why));
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
        CableLayout::RailOptimised => "each NIC of a node on a switch of its own",
        CableLayout::Grouped(nics) => return format!("{nics} NICs of a node on each"),
        CableLayout::OneLeaf => "all NICs of a node on one, so there are no rails",
        CableLayout::OneNic => "one NIC for each node; each isolated rail has a file of its own",
        CableLayout::NotRecognised => "in no order that most nodes share, so rails are not known",
        CableLayout::NotTold => "no NIC is told",
    }
    .to_string()
}

fn rail_table(rails: &[CabledRail]) -> Table {
    let mut table = Table::headed(["rail", "NICs", "right", "leaves"]);
    for CabledRail {
        rail,
        nics,
        leaves,
        right,
        ports,
    } in rails
    {
        let whole = Text::from(format!("{right} of {ports}"));
        let mut shown = leaves
            .iter()
            .take(LEAVES)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ");
        if leaves.len() > LEAVES {
            shown += &format!(" and {} more", leaves.len() - LEAVES);
        }
        table.row([
            rail.to_string().into(),
            nics.join(" ").into(),
            whole.unbroken(),
            shown.into(),
        ]);
    }
    table
}

fn cable_table(rails: &FabricRails) -> Table {
    let mut table = Table::headed(["node", "NIC", "switch", "port", "rail"]);
    for node in &rails.nodes {
        for nic in &node.nics {
            let or_dash = |text: &Option<String>| text.clone().unwrap_or("-".to_string());
            table.row([
                (&node.node).into(),
                format!("{}:{}", nic.nic, nic.port).into(),
                or_dash(&nic.switch).into(),
                or_dash(&nic.switch_port).into(),
                or_dash(&nic.rail.map(|rail| rail.to_string())).into(),
            ]);
        }
    }
    table
}

fn reach(reach: &RailReach) -> Option<String> {
    let said = match reach {
        RailReach::NoRails => return None,
        RailReach::Together => "rails reach each other: switches connect them",
        RailReach::Isolated => "rails are isolated: no switch connects two of them",
        RailReach::Partly(groups) => {
            let rails = |group: &Vec<usize>| group.iter().map(usize::to_string).collect::<Vec<_>>();
            let groups: Vec<String> = groups.iter().map(|group| rails(group).join(" ")).collect();
            return Some(format!(
                "only some rails reach each other: {}",
                groups.join(" | ")
            ));
        }
        RailReach::NotKnown => {
            "whether rails reach each other is not known: no source tells links between switches"
        }
    };
    Some(said.to_string())
}

/// A line for each fault; nodes with the same one share it.
pub(super) fn faults(faults: &[CableFault], page: &mut Page) {
    let mut lines: Vec<(String, BTreeSet<&str>)> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for fault in faults {
        let (node, text) = text(fault);
        let at = *known.entry(text.clone()).or_insert(lines.len());
        if at == lines.len() {
            lines.push((text, BTreeSet::new()));
        }
        lines[at].1.extend(node);
    }
    for (text, nodes) in lines.iter().take(SHOWN) {
        let nodes = compressed(nodes.iter().copied());
        let between = if nodes.is_empty() { "" } else { " " };
        page.item("wrong  ", format_args!("{nodes}{between}{text}"));
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
    let nodes: BTreeSet<&str> = fault.cables.iter().map(|cable| &*cable.node).collect();
    let node = nodes.first().copied().filter(|_| nodes.len() == 1);
    let name = |cable: &FaultyCable| match node {
        Some(_) => cable.nic.clone(),
        None => format!("{} {}", cable.node, cable.nic),
    };
    let text = match (fault.kind, &fault.cables[..]) {
        (FaultKind::Exchanged, [a, b]) => {
            let (of_a, of_b) = (name(a), name(b));
            format!(
                "{of_a} and {of_b} are exchanged: {of_a} is {}, {of_b} {}",
                on(a),
                on(b)
            )
        }
        (FaultKind::NoLink | FaultKind::WrongSwitch, [cable]) => {
            let is = match fault.kind {
                FaultKind::NoLink => "has no link".to_string(),
                _ => format!("is {}", on(cable)),
            };
            let belongs = match &cable.belongs {
                Some(switch) => format!("; it belongs on {switch}{}", rail(cable.rail)),
                None => ", and most nodes have one there".to_string(),
            };
            format!("{} {is}{belongs}", name(cable))
        }
        (_, cables) => {
            let each = cables
                .iter()
                .map(|cable| format!("{} {}", name(cable), on(cable)));
            let each = each.collect::<Vec<_>>().join(", ");
            format!("has its NICs in another order, by cables or by names: {each}")
        }
    };
    (node, text)
}
