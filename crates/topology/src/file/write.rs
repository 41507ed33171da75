//! The text of a topology file: one line for each element of a list.
#![forbid(unsafe_code)]

use super::{Document, function};
use serde_json::Value;

/// Field names in written order.
const ORDER: &str = "format version name sources processor numa_nodes os_index cpus distances package core pus cores step \
    pci gpus nics paths kind address number state rate_mbps link_layer phys_state netdev subnet gid_type default_route networks \
    routes_elsewhere other_namespace partition arch vendor family minor uuid model runtime_index mig_instances role uverbs \
    netdevs guid card ports gpu nic path";
/// Lists that are left out if empty.
const LEFT_OUT: [&str; 5] = ["sources", "distances", "paths", "netdevs", "networks"];

/// The same bytes for the same file, without `null`, `false` and the lists of [`LEFT_OUT`].
pub(super) fn text(file: &Document) -> String {
    // this cannot fail: all keys are texts, and no number is a fraction
    let mut value = serde_json::to_value(file).expect("a topology is always valid JSON");
    for function in value["pci"].as_array_mut().into_iter().flatten() {
        *function = function::line(function).into();
    }
    let mut text = String::new();
    write(&mut text, &value, 0);
    text + "\n"
}

/// Breaks lines between the file's fields and between elements of its lists: a machine fits a screen, and a diff names
/// the changed function or port.
fn write(text: &mut String, value: &Value, depth: usize) {
    let (brackets, parts): (_, Vec<(Option<&String>, &Value)>) = match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, value)| says(name, value));
            let mut fields: Vec<_> = fields.map(|(name, value)| (Some(name), value)).collect();
            fields.sort_by_key(|&(name, _)| {
                ORDER
                    .split(' ')
                    .position(|known| Some(known) == name.map(|name| &**name))
            });
            ("{}", fields)
        }
        Value::Array(elements) => (
            "[]",
            elements.iter().map(|element| (None, element)).collect(),
        ),
        plain => return text.push_str(&plain.to_string()),
    };
    let is_broken = !parts.is_empty() && (depth == 0 || depth == 1 && brackets == "[]");
    let new_line = |depth| format!("\n{:1$}", "", 2 * depth);
    text.push_str(&brackets[..1]);
    for (nth, (name, part)) in parts.into_iter().enumerate() {
        if nth > 0 {
            text.push_str(if is_broken { "," } else { ", " });
        }
        if is_broken {
            text.push_str(&new_line(depth + 1));
        }
        if let Some(name) = name {
            text.push_str(&format!("\"{name}\": "));
        }
        write(text, part, depth + 1);
    }
    if is_broken {
        text.push_str(&new_line(depth));
    }
    text.push_str(&brackets[1..]);
}

fn says(name: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(elements) => !elements.is_empty() || !LEFT_OUT.contains(&name),
        _ => true,
    }
}
