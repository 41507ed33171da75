//! `lldpctl -f json0` of nodes: for each network interface the switch and the port that it hears.
//!
//! With `-f json` a list of one is its item, `{"value": x}` is `x`, and `{"name": n, …}` is `{n: {…}}` (`json_element_cleanup` in
//! lldpd's src/client/json_writer.c). Neither form names the node: the label of the lines does, as of pdsh and clush (`node7: {`),
//! or the name of the file up to its first dot.

use super::super::cabling::{Cable, Cabling, NicPort, SwitchPort};
use super::{Notes, clean, node_name};
use nic_placement_core::diagnostic::Shown;
use serde_json::{Deserializer, Value};
use std::collections::BTreeMap;

/// Bytes that one call of `lldpctl` prints, at most: a node with 20 interfaces has 40 KiB.
const MAX_DOCUMENT: usize = 1 << 20;
const MAX_DOCUMENTS: usize = 1 << 20;

pub fn is_own(line: &str) -> bool {
    line.contains("\"lldp\":")
}

pub fn read(name: &str, text: &str, notes: &mut Notes, into: &mut Cabling) {
    let file = name
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .split('.')
        .next()
        .unwrap_or_default();
    for (label, body) in labelled(text) {
        let label = if label.is_empty() && file != "-" {
            file
        } else {
            label
        };
        // each document begins with a line that begins with a brace
        let starts: Vec<usize> = body
            .match_indices('{')
            .map(|(at, _)| at)
            .filter(|at| *at == 0 || body.as_bytes()[at - 1] == b'\n')
            .take(MAX_DOCUMENTS)
            .collect();
        if starts.len() == MAX_DOCUMENTS {
            notes.add(format!(
                "no more than {MAX_DOCUMENTS} answers of lldpctl are read"
            ));
        }
        if starts.is_empty() && !body.trim().is_empty() {
            let first = body.trim().lines().next().unwrap_or_default();
            let (label, line) = (Shown::word(label, 80), Shown::word(first.trim(), 80));
            notes.add(format!("`{label}`: no JSON of lldpctl: `{line}`"));
        }
        let ends = starts.iter().skip(1).copied().chain([body.len()]);
        for (start, end) in starts.iter().zip(ends) {
            let document = document(&body[*start..end], label, notes);
            if !document.is_null() {
                node(&document, label, notes, into);
            }
        }
    }
}

fn labelled(text: &str) -> BTreeMap<&str, String> {
    let mut bodies: BTreeMap<&str, String> = BTreeMap::new();
    for line in text.lines() {
        // no line of JSON begins with a letter or digit and has a colon
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let label = line.trim_start().split_once(':');
        let label = label.filter(|(label, _)| !label.is_empty() && label.chars().all(is_letter));
        let label = label.map(|(label, rest)| (label, rest.strip_prefix(' ').unwrap_or(rest)));
        let (label, line) = label.unwrap_or(("", line));
        let body = bodies.entry(label).or_default();
        body.push_str(line);
        body.push('\n');
    }
    bodies
}

fn document(piece: &str, label: &str, notes: &mut Notes) -> Value {
    let label = Shown::word(label, 80);
    if piece.len() > MAX_DOCUMENT {
        let most = MAX_DOCUMENT >> 20;
        notes.add(format!(
            "`{label}`: one lldpctl printed more than {most} MiB"
        ));
        return Value::Null;
    }
    // another program's words behind the document do not matter
    match Deserializer::from_str(piece).into_iter().next() {
        Some(Ok(document)) => document,
        Some(Err(error)) => {
            notes.add(format!("`{label}`: the JSON of lldpctl is broken: {error}"));
            Value::Null
        }
        None => Value::Null,
    }
}

struct Chassis {
    id: String,
    name: String,
    is_dpu: bool,
    is_switch: bool,
}

impl Chassis {
    fn read(told: &Value) -> Chassis {
        // with `-f json` the name is the key of all others, unless there is none
        let only = told.as_object().and_then(|fields| fields.iter().next());
        let (name, told) = match only {
            Some((name, inner)) if told["id"].is_null() && inner.is_object() => {
                (name.as_str(), inner)
            }
            _ => (text(&told["name"]), told),
        };
        let is_switch =
            |of: &Value| ["Bridge", "Router"].contains(&text(&of["type"])) && of["enabled"] == true;
        Chassis {
            id: clean(text(&told["id"])).to_ascii_lowercase(),
            name: clean(name),
            // BlueField in DPU mode stands between the host and the switch; its own Linux says `…-bluefield … aarch64`
            is_dpu: text(&told["descr"])
                .to_ascii_lowercase()
                .contains("bluefield"),
            is_switch: items(&told["capability"]).iter().any(is_switch),
        }
    }

    fn shown(&self) -> Shown<'_> {
        Shown::word(
            if self.name.is_empty() {
                &self.id
            } else {
                &self.name
            },
            80,
        )
    }
}

struct Neighbour {
    chassis: Chassis,
    port: String,
    /// false for CDP and others, by which the same neighbour may be heard again
    is_lldp: bool,
}

fn node(document: &Value, label: &str, notes: &mut Notes, into: &mut Cabling) {
    // `srun -l` labels lines with a task's number
    let is_task = label.bytes().all(|byte| byte.is_ascii_digit());
    let label = if is_task { "" } else { label };
    let node = node_name(label);
    if node.is_empty() {
        return notes
            .add("no word says which node this is from: name the file as the node".to_string());
    }
    let mut interfaces: BTreeMap<&str, Vec<Neighbour>> = BTreeMap::new();
    for told in items(&document["lldp"])
        .iter()
        .flat_map(|told| items(&told["interface"]))
    {
        let named: Vec<(&str, &Value)> = match (told["name"].as_str(), told.as_object()) {
            (Some(name), _) => vec![(name, told)],
            (None, fields) => fields
                .into_iter()
                .flatten()
                .map(|(name, inner)| (name.as_str(), inner))
                .collect(),
        };
        for (interface, told) in named {
            let neighbour = Neighbour {
                chassis: Chassis::read(first(&told["chassis"])),
                port: port(first(&told["port"])),
                is_lldp: told["via"].as_str().is_none_or(|via| via == "LLDP"),
            };
            let heard = interfaces.entry(interface).or_default();
            // a VF hears its PF
            if node_name(&neighbour.chassis.name) != node {
                heard.push(neighbour);
            }
        }
    }
    let shown = Shown::word(&node, 80);
    if interfaces.is_empty() {
        notes.add(format!("`{shown}` hears no neighbour"));
    }
    for (interface, neighbours) in interfaces {
        match switch(neighbours) {
            Ok(Some(Neighbour {
                chassis: Chassis { id, name, .. },
                port,
                ..
            })) => {
                let switch = if id.is_empty() { name.clone() } else { id };
                let name = if name.is_empty() {
                    switch.clone()
                } else {
                    name
                };
                into.switches.entry(switch.clone()).or_insert(name);
                let (node, nic) = (node.clone(), clean(interface));
                let nic = NicPort {
                    node,
                    nic,
                    port: 1,
                    guid: None,
                };
                let to = Some(SwitchPort { switch, port });
                into.cables.insert(Cable { nic, to });
            }
            Ok(None) => {}
            Err(why) => notes.add(format!(
                "`{}` of `{shown}` {why}",
                Shown::word(interface, 80)
            )),
        }
    }
}

fn switch(mut heard: Vec<Neighbour>) -> Result<Option<Neighbour>, String> {
    let mut prefer = |is_better: fn(&Neighbour) -> bool| {
        if heard.iter().any(is_better) {
            heard.retain(is_better);
        }
    };
    prefer(|of| of.is_lldp);
    prefer(|of| !of.chassis.is_dpu);
    prefer(|of| of.chassis.is_switch);
    match &heard[..] {
        [of, ..] if of.chassis.is_dpu => Err(format!(
            "hears the DPU `{}`: ask lldpd there for its switch",
            of.chassis.shown()
        )),
        [] | [_] => Ok(heard.pop()),
        [one, other, ..] => Err(format!(
            "hears {} neighbours, such as `{}` and `{}`: something between does not filter LLDP",
            heard.len(),
            one.chassis.shown(),
            other.chassis.shown()
        )),
    }
}

/// The port as the switch calls it; where its id is a MAC or a number of SNMP, its description.
fn port(told: &Value) -> String {
    let id = first(&told["id"]);
    let (value, description) = (text(id), text(&told["descr"]));
    let is_name = match text(&id["type"]) {
        "mac" => false,
        "local" => !value.bytes().all(|byte| byte.is_ascii_digit()),
        _ => true,
    };
    clean(if is_name || description.is_empty() {
        value
    } else {
        description
    })
}

/// A list's items; another value is one item.
fn items(value: &Value) -> &[Value] {
    value
        .as_array()
        .map_or(std::slice::from_ref(value), Vec::as_slice)
}

fn first(value: &Value) -> &Value {
    items(value).first().unwrap_or(&Value::Null)
}

/// `x`, `{"value": x}` or a list of it.
fn text(value: &Value) -> &str {
    let value = first(value);
    value
        .as_str()
        .or(value["value"].as_str())
        .unwrap_or_default()
}
