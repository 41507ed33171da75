//! What `lldpctl -f json0` of nodes prints: for each network interface the switch and the port that it hears.
//!
//! With `-f json` a list of one is its item, `{"value": x}` is `x`, and `{"name": n, …}` is `{n: {…}}` (`json_element_cleanup` in
//! lldpd's src/client/json_writer.c).  Neither form says which node it is from.  In this order, the node is:
//!
//! 1. the name that `lldpcli -f json0 show chassis` of the same node prints, before or behind it;
//! 2. the label of the lines, as of pdsh and clush (`node7: {`), or the heading of `clush -b`;
//! 3. the name of the file up to its first dot.
#![forbid(unsafe_code)]

use super::super::cabling::{Cable, Cabling, NicPort, SwitchPort};
use super::{Notes, clean, node_name};
use nic_placement_core::diagnostic::Shown;
use serde_json::{Deserializer, Value};
use std::collections::BTreeMap;

/// Bytes of what one call of `lldpctl` prints, at most: of a node with 20 interfaces it has 40 KiB.
const MAX_DOCUMENT: usize = 1 << 20;

/// Answers without labels in a text, at most.
const MAX_DOCUMENTS: usize = 1 << 20;

/// Is a line of this format?
pub fn is_own(line: &str) -> bool {
    ["\"lldp\":", "\"local-chassis\":"]
        .iter()
        .any(|key| line.contains(key))
}

pub fn read(name: &str, text: &str, notes: &mut Notes, into: &mut Cabling) {
    let file = name
        .rsplit('/')
        .next()
        .and_then(|file| file.split('.').next())
        .unwrap_or_default();
    for (label, body) in labelled(text) {
        let label = if label.is_empty() && file != "-" {
            file
        } else {
            label
        };
        let pieces = pieces(&body, label, notes);
        // the chassis may be printed before the neighbours, or behind them
        let is_chassis =
            |piece: &str| !piece.contains("\"lldp\":") && piece.contains("\"local-chassis\":");
        let is_chassis_first = pieces.first().is_some_and(|piece| is_chassis(piece));
        let mut own = Chassis::default();
        let mut waiting: Vec<&str> = Vec::new();
        for piece in pieces {
            if is_chassis(piece) {
                let told = document(piece, label, notes);
                own = Chassis::read(first(field(
                    first(field(&told, "local-chassis")),
                    "chassis",
                )));
                for piece in waiting.drain(..) {
                    node(&document(piece, label, notes), label, &own, notes, into);
                }
                if !is_chassis_first {
                    own = Chassis::default();
                }
            } else if is_chassis_first {
                node(&document(piece, label, notes), label, &own, notes, into);
            } else {
                waiting.push(piece);
            }
        }
        for piece in waiting {
            node(&document(piece, label, notes), label, &own, notes, into);
        }
    }
}

/// The lines by their label, which is taken off.
fn labelled(text: &str) -> BTreeMap<&str, String> {
    let mut bodies: BTreeMap<&str, String> = BTreeMap::new();
    let mut heading = "";
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_rule = |line: &str| line.len() > 2 && line.bytes().all(|byte| byte == b'-');
        if is_rule(line) {
            heading = lines.next().map_or(heading, str::trim);
            lines.next_if(|line| is_rule(line));
            continue;
        }
        let (label, line) = label(line).unwrap_or((heading, line));
        let body = bodies.entry(label).or_default();
        body.push_str(line);
        body.push('\n');
    }
    bodies
}

/// `node7: {`; no line of JSON begins with a letter or digit and has a colon.
fn label(line: &str) -> Option<(&str, &str)> {
    let (label, rest) = line.trim_start().split_once(':')?;
    let is_name = !label.is_empty()
        && label
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    is_name.then(|| (label, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// The JSON documents of one label's lines: each begins with a line that begins with a brace.
fn pieces<'a>(body: &'a str, label: &str, notes: &mut Notes) -> Vec<&'a str> {
    let starts = body.match_indices('{').map(|(at, _)| at);
    let starts = starts.filter(|at| *at == 0 || body.as_bytes()[at - 1] == b'\n');
    let starts: Vec<usize> = starts.take(MAX_DOCUMENTS).collect();
    if starts.len() == MAX_DOCUMENTS {
        notes.add(format!(
            "no more than {MAX_DOCUMENTS} answers of lldpctl are read"
        ));
    }
    if let (true, Some(line)) = (
        starts.is_empty(),
        body.lines().find(|line| !line.trim().is_empty()),
    ) {
        let (label, line) = (Shown::word(label, 80), Shown::word(line.trim(), 80));
        notes.add(format!("`{label}`: no JSON of lldpctl: `{line}`"));
    }
    let ends = starts.iter().skip(1).copied().chain([body.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(start, end)| &body[*start..end])
        .collect()
}

/// A document, or nothing where it is none.
fn document(piece: &str, label: &str, notes: &mut Notes) -> Value {
    let label = Shown::word(label, 80);
    if piece.len() > MAX_DOCUMENT {
        notes.add(format!(
            "`{label}`: what one lldpctl printed has more than {} MiB",
            MAX_DOCUMENT >> 20
        ));
        return Value::Null;
    }
    // what another program wrote behind it does not matter
    match Deserializer::from_str(piece).into_iter().next() {
        Some(Ok(document)) => document,
        Some(Err(error)) => {
            notes.add(format!("`{label}`: the JSON of lldpctl is broken: {error}"));
            Value::Null
        }
        None => Value::Null,
    }
}

/// A chassis: this node, or what an interface hears.
#[derive(Debug, Default)]
struct Chassis {
    id: String,
    name: String,
    description: String,
    is_switch: bool,
}

impl Chassis {
    fn read(told: &Value) -> Chassis {
        // with `-f json` the name is the key of all others, unless there is none
        let (name, told) = match told.as_object().and_then(|fields| fields.iter().next()) {
            Some((name, inner)) if field(told, "id").is_null() && inner.is_object() => {
                (name.as_str(), inner)
            }
            _ => (text(field(told, "name")), told),
        };
        let capabilities = items(field(told, "capability"));
        let is_switch = capabilities.iter().any(|capability| {
            ["Bridge", "Router"].contains(&text(field(capability, "type")))
                && *field(capability, "enabled") == true
        });
        Chassis {
            id: clean(text(field(told, "id"))).to_ascii_lowercase(),
            name: clean(name),
            description: text(field(told, "descr")).to_string(),
            is_switch,
        }
    }

    /// BlueField in DPU mode stands between the host and the switch; its own Linux says `…-bluefield … aarch64`.
    fn is_dpu(&self) -> bool {
        self.description.to_ascii_lowercase().contains("bluefield")
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
    /// not CDP or another maker's protocol, by which the same neighbour may be heard once more
    is_lldp: bool,
}

/// Adds what one node hears.
fn node(document: &Value, label: &str, own: &Chassis, notes: &mut Notes, into: &mut Cabling) {
    if document.is_null() {
        return;
    }
    // `srun -l` labels lines with a task's number
    let label = if label.bytes().all(|byte| byte.is_ascii_digit()) {
        ""
    } else {
        label
    };
    let node = node_name(if own.name.is_empty() {
        label
    } else {
        &own.name
    });
    let heard = items(field(document, "lldp"))
        .into_iter()
        .flat_map(|told| items(field(told, "interface")));
    if node.is_empty() {
        notes.add("no word says which node this is from: name the file as the node".to_string());
        return;
    }
    let mut interfaces: BTreeMap<&str, Vec<Neighbour>> = BTreeMap::new();
    for told in heard {
        for (interface, told) in named(told) {
            let neighbour = Neighbour {
                chassis: Chassis::read(first(field(told, "chassis"))),
                port: port(first(field(told, "port"))),
                is_lldp: field(told, "via").as_str().is_none_or(|via| via == "LLDP"),
            };
            interfaces.entry(interface).or_default().push(neighbour);
        }
    }
    let shown = Shown::word(&node, 80);
    if interfaces.is_empty() {
        notes.add(format!("`{shown}` hears no neighbour"));
    }
    for (interface, neighbours) in interfaces {
        let is_own = |other: &Chassis| {
            node_name(&other.name) == node || !own.id.is_empty() && other.id == own.id
        };
        match switch(neighbours, &is_own) {
            Ok(Some(Neighbour { chassis, port, .. })) => {
                let key = if chassis.id.is_empty() {
                    chassis.name.clone()
                } else {
                    chassis.id
                };
                let name = if chassis.name.is_empty() {
                    key.clone()
                } else {
                    chassis.name
                };
                into.switches.entry(key.clone()).or_insert(name);
                let nic = NicPort {
                    node: node.clone(),
                    nic: clean(interface),
                    port: 1,
                    guid: None,
                };
                into.cables.insert(Cable {
                    nic,
                    to: Some(SwitchPort { switch: key, port }),
                });
            }
            Ok(None) => {}
            Err(why) => notes.add(format!(
                "`{}` of `{shown}` {why}",
                Shown::word(interface, 80)
            )),
        }
    }
}

/// The switch among what an interface hears.  `None` where it hears its own node alone, as a VF hears its PF.
fn switch(
    mut heard: Vec<Neighbour>,
    is_own: &dyn Fn(&Chassis) -> bool,
) -> Result<Option<Neighbour>, String> {
    heard.retain(|neighbour| !is_own(&neighbour.chassis));
    if heard.iter().any(|neighbour| neighbour.is_lldp) {
        heard.retain(|neighbour| neighbour.is_lldp);
    }
    if let Some(dpu) = heard.iter().find(|neighbour| neighbour.chassis.is_dpu()) {
        let why = format!(
            "hears the DPU `{}`: ask lldpd there for its switch",
            dpu.chassis.shown()
        );
        heard.retain(|neighbour| !neighbour.chassis.is_dpu());
        if heard.is_empty() {
            return Err(why);
        }
    }
    if heard.len() > 1 && heard.iter().any(|neighbour| neighbour.chassis.is_switch) {
        heard.retain(|neighbour| neighbour.chassis.is_switch);
    }
    match heard.as_slice() {
        [] | [_] => Ok(heard.pop()),
        [one, other, ..] => Err(format!(
            "hears {} neighbours, such as `{}` and `{}`: something between does not filter LLDP",
            heard.len(),
            one.chassis.shown(),
            other.chassis.shown()
        )),
    }
}

/// An interface's name and what it hears.
fn named(told: &Value) -> Vec<(&str, &Value)> {
    match (told.get("name").and_then(Value::as_str), told.as_object()) {
        (Some(name), _) => vec![(name, told)],
        (None, Some(fields)) => fields
            .iter()
            .map(|(name, inner)| (name.as_str(), inner))
            .collect(),
        (None, None) => Vec::new(),
    }
}

/// The port as the switch calls it.  Its id may be a MAC or a number of SNMP, and then its description is the name.
fn port(told: &Value) -> String {
    let id = first(field(told, "id"));
    let description = text(field(told, "descr"));
    let value = text(id);
    let is_name = match text(field(id, "type")) {
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

fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// A list's items; what is no list is one item.
fn items(value: &Value) -> Vec<&Value> {
    value
        .as_array()
        .map_or_else(|| vec![value], |list| list.iter().collect())
}

fn first(value: &Value) -> &Value {
    value
        .as_array()
        .map_or(value, |list| list.first().unwrap_or(&Value::Null))
}

/// `x`, `{"value": x}` or a list of it.
fn text(value: &Value) -> &str {
    let value = first(value);
    value
        .as_str()
        .or_else(|| field(value, "value").as_str())
        .unwrap_or_default()
}
