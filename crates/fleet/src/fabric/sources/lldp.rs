//! `lldpctl -f json0` of nodes: for each network interface the switch and the port that it hears.
//!
//! With `-f json` a list of one is its item, `{"value": x}` is `x`, and `{"name": n, …}` is `{n: {…}}` (`json_element_cleanup` in
//! lldpd's src/client/json_writer.c). Neither form names the node: the label of the lines does, as of pdsh and clush (`node7: {`),
//! or the name of the file up to its first dot.

use super::super::cabling::{Cable, Cabling, NicPort, SwitchPort};
use super::{clean, node_name};
use crate::audit::stream::{self, StreamPiece};
use nic_placement_core::diagnostic::Shown;
use serde_json::Value;
use std::collections::BTreeMap;

pub fn read(name: &str, text: &str, into: &mut Cabling) {
    let file = name.rsplit('/').next().unwrap_or_default();
    let mut take = |((label, line), piece): StreamPiece<'_>| {
        let label = match label {
            "" if file != "-" => file,
            // `srun -l` labels lines with a task's number
            label if label.bytes().all(|letter| letter.is_ascii_digit()) => "",
            label => label,
        };
        let document = piece.map_err(str::to_string).and_then(|document| {
            serde_json::from_slice(document).map_err(|error| error.to_string())
        });
        match (node_name(label), document) {
            (name, _) if name.is_empty() => into.notes.push(format!(
                "line {line}: no word says which node this is from: name the file as the node"
            )),
            (name, Ok(document)) => node(&document, name, into),
            (name, Err(why)) => into.notes.push(format!(
                "line {line}, of `{}`: {}",
                Shown::word(&name, 80),
                Shown::message(&why, 80)
            )),
        }
    };
    // a text in memory can be read
    let _ = stream::read(text.as_bytes(), &mut take);
}

struct Neighbour {
    id: String,
    name: String,
    port: String,
    is_dpu: bool,
    is_switch: bool,
}

impl Neighbour {
    fn read(told: &Value) -> Neighbour {
        let (name, chassis) = named(&told["chassis"]).next().unwrap_or_default();
        let is_switch =
            |of: &Value| ["Bridge", "Router"].contains(&text(&of["type"])) && of["enabled"] == true;
        Neighbour {
            id: clean(text(&chassis["id"])).to_ascii_lowercase(),
            name: clean(name),
            port: port(first(&told["port"])),
            // BlueField in DPU mode stands between the host and the switch; its own Linux says `…-bluefield … aarch64`
            is_dpu: text(&chassis["descr"])
                .to_ascii_lowercase()
                .contains("bluefield"),
            is_switch: items(&chassis["capability"]).iter().any(is_switch),
        }
    }
}

fn node(document: &Value, node: String, into: &mut Cabling) {
    let mut interfaces: BTreeMap<&str, Vec<Neighbour>> = BTreeMap::new();
    for (interface, told) in items(&document["lldp"])
        .iter()
        .flat_map(|told| named(&told["interface"]))
    {
        let heard = interfaces.entry(interface).or_default();
        let neighbour = Neighbour::read(told);
        // a VF hears its PF, and by CDP and others the same neighbour may be heard again
        let is_lldp = told["via"].as_str().is_none_or(|via| via == "LLDP");
        if is_lldp && node_name(&neighbour.name) != node {
            heard.push(neighbour);
        }
    }
    let shown = Shown::word(&node, 80);
    if interfaces.is_empty() {
        into.notes.push(format!("`{shown}` hears no neighbour"));
    }
    for (interface, mut heard) in interfaces {
        for is_better in [|of: &Neighbour| !of.is_dpu, |of: &Neighbour| of.is_switch] {
            if heard.iter().any(is_better) {
                heard.retain(is_better);
            }
        }
        let Some(Neighbour {
            id,
            name,
            port,
            is_dpu,
            ..
        }) = heard.pop()
        else {
            continue;
        };
        let (switch, name) = match (id.is_empty(), name.is_empty()) {
            (true, _) => (name.clone(), name),
            (_, true) => (id.clone(), id),
            _ => (id, name),
        };
        if is_dpu || !heard.is_empty() {
            let why = if is_dpu {
                "a DPU: ask lldpd there for its switch"
            } else {
                "and other neighbours: something between does not filter LLDP"
            };
            into.notes.push(format!(
                "`{}` of `{shown}` hears `{}`, {why}",
                Shown::word(interface, 80),
                Shown::word(&name, 80)
            ));
            continue;
        }
        into.switches.entry(switch.clone()).or_insert(name);
        let nic = NicPort {
            node: node.clone(),
            nic: clean(interface),
            port: 1,
            guid: None,
        };
        let to = SwitchPort { switch, port };
        into.cables.insert(Cable { nic, to });
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

/// Names and what is told of each, in both forms: `[{"name": n, …}]`, or `{n: {…}}`. One without a name has an `id`.
fn named(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    items(value).iter().flat_map(|told| {
        let fields = told.as_object().into_iter().flatten();
        let fields = fields.map(|(name, inner)| (name.as_str(), inner));
        match (text(&told["name"]), &told["id"]) {
            ("", Value::Null) => fields.collect(),
            (name, _) => vec![(name, told)],
        }
    })
}

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
