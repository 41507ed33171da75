//! `nic-placement fabric`: the switch that each NIC is cabled to, and the rails that the cables make.

use super::Failure;
use super::input::{documents, open, or_stdin};
use super::page::{Page, Table, Text};
use nic_placement_core::diagnostic::counted;
use nic_placement_fleet::audit::report::{Report, to_json};
use nic_placement_fleet::audit::stream::StreamPiece;
use nic_placement_fleet::fabric::cabling::Cabling;
use nic_placement_fleet::fabric::faults::CableFault;
use nic_placement_fleet::fabric::names::Reports;
use nic_placement_fleet::fabric::rails::{FabricRails, RailReach};
use nic_placement_fleet::fabric::{CableLayout, sources};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// which switch each NIC is cabled to: rails that are whole, cables that are wrong
///
/// A rail is a leaf switch: the k-th NIC of every node is on it, or on one such leaf for each group of nodes. Reads
/// ibnetdiscover and `lldpctl -f json0`, whose lines have the node's name in front, as clush and pdsh print it, unless a file
/// is named as its node: node7.json. Most nodes decide which leaf is which rail's. Ends with 1 where a cable is wrong or an
/// input cannot be read, else with 0.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ibnetdiscover | nic-placement fabric -
  nic-placement fabric --reports reports.json lldp/*.json")]
pub(super) struct FabricOptions {
    /// regular files, or - for standard input; nothing is standard input too, unless there are reports
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// what `check --json` printed on the nodes: their names of NICs and interfaces, and which NICs the GPUs use
    #[arg(long, value_name = "FILE", action = clap::ArgAction::Append)]
    reports: Vec<PathBuf>,
    /// all of it, and each NIC with its switch, port and rail, as versioned JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(super) fn run(options: &FabricOptions, page: &mut Page) -> Result<(), Failure> {
    let (mut cabling, mut unread) = (Cabling::default(), Vec::new());
    let files = match options.reports.is_empty() {
        true => or_stdin(&options.files),
        false => options.files.iter().map(PathBuf::as_path).collect(),
    };
    for file in files {
        if let Err(why) = read(file, &mut cabling) {
            unread.push(why.to_string());
        }
    }
    let mut reports = Reports::new();
    for file in &options.reports {
        let mut take = |((_, line), piece): StreamPiece<'_>| {
            if let Err(why) = add(piece, &mut cabling, &mut reports) {
                unread.push(format!("`{}:{line}`: {why}", file.display()));
            }
        };
        if let Err(error) = documents(file, &mut take) {
            unread.push(error.to_string());
        }
    }
    let mut rails = FabricRails::of(&cabling, &reports);
    rails.unread = unread;
    if options.json {
        page.exact(&to_json(&rails));
    } else {
        print(&rails, page);
    }
    let said = match (rails.unread.len(), rails.faults.len()) {
        (0, 0) if rails.cables.is_empty() => "no cable of a node is told",
        (0, 0) => return Ok(()),
        (0, _) => "not all cables are where they belong",
        _ => "not all inputs can be read",
    };
    Err(format!("fabric: {said}").into())
}

fn read(file: &Path, into: &mut Cabling) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    // one byte more shows the reader that the text is too long
    let most = sources::MAX_BYTES as u64 + 1;
    open(file)?
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("`{}`: {error}", file.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(sources::read(&file.to_string_lossy(), &text, into)?)
}

fn add(
    piece: Result<&[u8], &'static str>,
    cabling: &mut Cabling,
    reports: &mut Reports,
) -> Result<(), String> {
    let report = Report::from_json(piece?)?;
    match &report.host {
        None => Err("it has no `host`: a report of a described machine".into()),
        Some(host) if reports.contains_key(host) => Err(format!("`{host}` has another report")),
        Some(host) => {
            cabling.hear(&report);
            reports.insert(host.clone(), report);
            Ok(())
        }
    }
}

fn print(rails: &FabricRails, page: &mut Page) {
    let cables = rails.cables.iter();
    if !rails.cables.is_empty() {
        let nodes: BTreeSet<&String> = cables.clone().map(|of| &of.node).collect();
        page.line(format!(
            "{}, {}: {}",
            counted(nodes.len(), "node"),
            counted(cables.filter(|of| of.on.is_some()).count(), "cable"),
            match rails.layout {
                CableLayout::RailOptimised => "each NIC of a node on a switch of its own",
                CableLayout::Grouped => "several NICs of a node on each switch",
                CableLayout::OneLeaf => "all NICs of a node on one switch, so there are no rails",
                CableLayout::NotRecognised =>
                    "in no order that most nodes share, so rails are not known",
            }
        ));
    }
    if !rails.rails.is_empty() {
        page.blank();
        let mut table = Table::headed(["rail", "NICs", "right", "leaves"]);
        for of in &rails.rails {
            table.row([
                of.rail.to_string().into(),
                of.nics.join(" ").into(),
                Text::from(format!("{} of {}", of.right, of.ports)).unbroken(),
                of.leaves.join(" ").into(),
            ]);
        }
        page.table(&table);
    }
    let reach = match rails.reach {
        RailReach::NoRails => None,
        RailReach::Together => Some("rails reach each other: switches connect them"),
        RailReach::Isolated => Some("rails are isolated: no switch connects two of them"),
        RailReach::Partly => Some("only some rails reach each other"),
        RailReach::NotKnown => Some(
            "whether rails reach each other is not known: no source tells links between switches",
        ),
    };
    if let Some(reach) = reach {
        page.blank();
        page.line(reach);
    }
    if !(rails.faults.is_empty() && rails.notes.is_empty() && rails.lines.is_empty()) {
        page.blank();
    }
    let mut items = |word: &str, texts: &mut dyn Iterator<Item = String>| {
        texts.for_each(|text| page.item(word, text));
    };
    let lines = rails.lines.iter();
    items("wrong  ", &mut rails.faults.iter().map(fault));
    items("note   ", &mut rails.notes.iter().cloned());
    items(
        "write  ",
        &mut lines.map(|(line, why)| format!("`{line}`: {why}")),
    );
    items("unread ", &mut rails.unread.iter().cloned());
}

fn fault(cables: &CableFault) -> String {
    let rail = |rail: Option<usize>| rail.map_or(String::new(), |rail| format!(" (rail {rail})"));
    let said = cables.iter().map(|of| {
        let on = match &of.on {
            Some(on) => format!("is on {on}{}", rail(of.on_rail)),
            None => "has no link".to_string(),
        };
        let belongs = match &of.belongs {
            Some(to) => format!("belongs on {to}{}", rail(of.rail)),
            None => "most nodes have one".to_string(),
        };
        format!("{} {} {on} and {belongs}", of.node, of.nic)
    });
    let kind = if cables.len() > 1 { "exchanged: " } else { "" };
    format!("{kind}{}", said.collect::<Vec<_>>().join("; "))
}
