//! Slurm's topology.conf (topology/tree and topology/block) and topology.yaml, which sites write or NVIDIA's topograph does.
//!
//! Both say which nodes are below which switch, and no NIC: topology.conf(5), topology.yaml(5).
#![forbid(unsafe_code)]

use super::super::cabling::Cabling;
use super::{Notes, clean, node_name};
use nic_placement_core::config::hostlist::HostList;
use nic_placement_core::diagnostic::Shown;
use saphyr_parser::{Event, Parser};
use std::collections::BTreeMap;

/// Names that the hostlists of a file mean, at most.
const MAX_NAMES: u64 = 1 << 20;
/// Words of a line of topology.conf, at most; a switch has four.
const MAX_WORDS: usize = 64;
/// Lists and mappings within each other; topology.yaml(5) has five.
const MAX_DEPTH: usize = 32;

/// Is a line one of topology.conf's?  Names of parameters are of any case.
pub fn is_conf(line: &str) -> bool {
    let name = line.split('=').next().unwrap_or_default().trim();
    line.contains('=')
        && ["SwitchName", "BlockName"]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own))
}

/// Is a line one of topology.yaml's?  A topology's name must be its first attribute.
pub fn is_yaml(line: &str) -> bool {
    line.trim_start()
        .strip_prefix("- ")
        .is_some_and(|first| first.trim_start().starts_with("topology:"))
}

pub fn read_conf(text: &str, notes: &mut Notes, into: &mut Cabling) {
    let mut tree = Tree::new(notes, into);
    // a backslash at a line's end joins it with the next (Slurm's parse_config)
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    let mut odd: Option<(usize, &str, usize)> = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let words = line
            .split_whitespace()
            .take(MAX_WORDS)
            .filter_map(|word| word.split_once('='));
        let fields: BTreeMap<String, String> = words
            .map(|(name, value)| {
                (
                    name.to_ascii_lowercase(),
                    value.trim_matches('"').to_string(),
                )
            })
            .collect();
        let is_read = tree.add(&fields, ["switchname", "blockname", "switches", "nodes"]);
        if !is_read && !line.is_empty() && !fields.contains_key("blocksizes") {
            odd.get_or_insert((at + 1, line, 0)).2 += 1;
        }
    }
    if let Some((number, line, count)) = odd {
        tree.notes.odd_lines(number, line, count);
    }
    tree.finish();
}

/// A list, or a mapping with the key whose value comes next.
enum Frame {
    List,
    Mapping {
        key: Option<String>,
        fields: BTreeMap<String, String>,
    },
}

pub fn read_yaml(text: &str, notes: &mut Notes, into: &mut Cabling) {
    let mut tree = Tree::new(notes, into);
    let mut frames: Vec<Frame> = Vec::new();
    for event in Parser::new_from_str(text) {
        let event = match event {
            Ok((event, _)) => event,
            Err(error) => {
                tree.notes.add(format!(
                    "not read to its end: {}",
                    Shown::word(&error.to_string(), 200)
                ));
                break;
            }
        };
        match event {
            Event::MappingStart(..) => frames.push(Frame::Mapping {
                key: None,
                fields: BTreeMap::new(),
            }),
            Event::SequenceStart(..) => frames.push(Frame::List),
            Event::MappingEnd | Event::SequenceEnd => {
                if let Some(Frame::Mapping { fields, .. }) = frames.pop() {
                    tree.add(&fields, ["switch", "block", "children", "nodes"]);
                }
                if let Some(Frame::Mapping { key, .. }) = frames.last_mut() {
                    *key = None;
                }
            }
            Event::Scalar(text, ..) => scalar(&mut frames, &text),
            Event::Alias(_) => {
                tree.notes.add("an alias (`*name`) is not read".to_string());
                scalar(&mut frames, "");
            }
            _ => {}
        }
        if frames.len() > MAX_DEPTH {
            tree.notes.add(format!(
                "not read to its end: nested more than {MAX_DEPTH} deep"
            ));
            break;
        }
    }
    tree.finish();
}

/// A key, a key's value, or an item of the list that is a key's value.
fn scalar(frames: &mut [Frame], text: &str) {
    let is_item = matches!(frames.last(), Some(Frame::List));
    let Some(Frame::Mapping { key, fields }) = frames.iter_mut().rev().nth(usize::from(is_item))
    else {
        return;
    };
    match key {
        None => *key = Some(text.to_string()),
        Some(of) if is_item => {
            let list = fields.entry(of.clone()).or_default();
            if !list.is_empty() {
                list.push(',');
            }
            list.push_str(text);
        }
        Some(of) => {
            fields.insert(std::mem::take(of), text.to_string());
            *key = None;
        }
    }
}

/// What both files build.
struct Tree<'a> {
    notes: &'a mut Notes,
    into: &'a mut Cabling,
    /// names that hostlists may still mean
    left: u64,
    blocks: usize,
}

impl<'a> Tree<'a> {
    fn new(notes: &'a mut Notes, into: &'a mut Cabling) -> Tree<'a> {
        Tree {
            notes,
            into,
            left: MAX_NAMES,
            blocks: 0,
        }
    }

    /// Adds a switch or a block; false where the fields, by the names of a format, are neither.
    fn add(&mut self, fields: &BTreeMap<String, String>, names: [&str; 4]) -> bool {
        let [switch, block, children, nodes] = names.map(|name| fields.get(name));
        let Some(name) = switch.or(block) else {
            return false;
        };
        let name = clean(name);
        if switch.is_some() {
            self.into
                .switches
                .entry(name.clone())
                .or_insert_with(|| name.clone());
        } else {
            self.blocks += 1;
        }
        for child in children
            .filter(|_| switch.is_some())
            .map(|list| self.names(list))
            .unwrap_or_default()
        {
            self.into
                .switches
                .entry(child.clone())
                .or_insert_with(|| child.clone());
            self.into.parents.insert((child, name.clone()));
        }
        for node in nodes.map(|list| self.names(list)).unwrap_or_default() {
            self.into
                .leaves
                .entry(node_name(&node))
                .or_default()
                .insert(name.clone());
        }
        true
    }

    /// The names of a hostlist; none where it is broken or means too many.
    fn names(&mut self, list: &str) -> Vec<String> {
        if list.is_empty() {
            return Vec::new();
        }
        let count = match HostList::parse(list) {
            Ok(hosts) if hosts.count() <= self.left => {
                self.left -= hosts.count();
                return hosts.names();
            }
            Ok(hosts) => hosts.count(),
            Err(why) => {
                self.notes.add(why);
                return Vec::new();
            }
        };
        self.notes.add(format!(
            "`{}` is left out: {count} names, and at most {MAX_NAMES} are read",
            Shown::word(list, 60)
        ));
        Vec::new()
    }

    fn finish(self) {
        if self.blocks > 0 {
            let blocks = self.blocks;
            self.notes
                .add(format!("blocks of nodes, which name no switch: {blocks}"));
        }
    }
}
