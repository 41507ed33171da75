//! Writes the topology file, which the topology's crate reads: one line for each element of a list.

pub use nic_placement_topology::file::*;
use nic_placement_topology::{Bitmap, Pu, Topology, package_of, threads_by_core};
use serde_json::{Value, json};

/// Field names in written order.
const ORDER: &str = "format version name sources processor numa_nodes os_index cpus distances package core pus cores step \
    pci gpus nics paths kind address number state rate_mbps link_layer phys_state netdev subnet gid_type default_route networks \
    routes_elsewhere other_namespace partition arch vendor family minor uuid model runtime_index mig_instances role uverbs \
    netdevs guid card ports gpu nic path";
/// Lists that are left out if empty.
const LEFT_OUT: [&str; 5] = ["sources", "distances", "paths", "netdevs", "networks"];

/// A line for each core, PCI function, GPU and NIC; [`from_json`] reads it back unless the
/// topology is inconsistent, as of a broken `/sys`.
pub fn to_json(node: &Topology) -> String {
    to_json_with_sources(node, &[])
}

/// With the origin of the facts; without `null`, `false` and the lists of [`LEFT_OUT`].
pub fn to_json_with_sources(node: &Topology, sources: &[String]) -> String {
    let numa_nodes = node.numa_nodes.iter().map(|numa| {
        let package = (numa.package != package_of(&node.pus, &numa.cpus))
            .then(|| numa.package.map_or(-1, i64::from));
        json!({
            "os_index": numa.os_index, "cpus": numa.cpus, "distances": numa.distances, "package": package,
        })
    });
    let paths = node.stated_paths.iter();
    let file = json!({
        "format": FORMAT,
        "version": VERSION,
        "name": one_line(&node.name),
        "sources": sources,
        "processor": node.processor,
        "numa_nodes": numa_nodes.collect::<Value>(),
        "pus": rows(&node.pus),
        "pci": node.pci.iter().map(|function| line(&json!(function))).collect::<Value>(),
        "gpus": node.gpus,
        "nics": node.nics,
        "paths": paths.map(|((gpu, nic), path)| json!({"gpu": gpu, "nic": nic, "path": path})).collect::<Value>(),
    });
    let mut text = String::new();
    write(&mut text, &file, 0);
    text + "\n"
}

/// A name without control characters, as a file can hold it; firmware may give any.
fn one_line(name: &str) -> String {
    let kept: String = name
        .chars()
        .filter(|letter| !letter.is_control())
        .take(MAX_TEXT)
        .collect();
    if kept.is_empty() {
        "node".to_string()
    } else {
        kept
    }
}

/// A core's CPUs, or those of cores in a row whose numbers differ by `step`.
struct Row {
    package: u32,
    core: u32,
    pus: Bitmap,
    cores: u32,
    step: Option<u32>,
}

fn rows(pus: &[Pu]) -> Value {
    let mut rows: Vec<Row> = Vec::new();
    let mut last = Bitmap::new();
    for ((package, core), pus) in threads_by_core(pus) {
        let above = step_between(&last, &pus);
        last = pus.clone();
        match rows.last_mut() {
            // a row's second core sets its step
            Some(row)
                if row.package == package
                    && row.core.checked_add(row.cores) == Some(core)
                    && above.is_some()
                    && (row.cores == 1 || row.step == above) =>
            {
                row.cores += 1;
                row.step = above;
            }
            _ => rows.push(Row {
                package,
                core,
                pus,
                cores: 1,
                step: None,
            }),
        }
    }
    rows.iter().map(|row| {
        json!({
            "package": row.package, "core": row.core, "pus": row.pus, "cores": Some(row.cores).filter(|&cores| cores > 1),
            "step": row.step.filter(|&step| step != 1),
        })
    }).collect()
}

/// The positive step from `low` to `high`, if all members have it.
fn step_between(low: &Bitmap, high: &Bitmap) -> Option<u32> {
    let step = high.first()?.checked_sub(low.first()?)?;
    let same = low.iter().map(|low| low + step).eq(high.iter());
    (step > 0 && same).then_some(step)
}

fn line(function: &Value) -> String {
    let (link, shown) = (&function["link"], |value: &Value| match value.as_str() {
        Some(text) => text.to_string(),
        None => value.to_string(),
    });
    let same = link["current"] == link["max"];
    let [address, parent] = ["address", "parent"].map(|field| shown(&function[field]));
    let mut line = format!("{address} below {parent}");
    for field in FUNCTION_FIELDS {
        let value = match field {
            "link" if same => &link["current"],
            "link.current" | "link.max" if !same => &link[&field[5..]],
            "link" | "link.current" | "link.max" => continue,
            _ => &function[field],
        };
        if !value.is_null() {
            line.push_str(&format!("; {field} {}", shown(value)));
        }
    }
    line
}

/// Breaks lines between fields and between elements of lists: a machine fits a screen, and a diff
/// names what changed.
fn write(text: &mut String, value: &Value, depth: usize) {
    let (brackets, parts): (_, Vec<(Option<&String>, &Value)>) = match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields
                .iter()
                .filter(|(name, value)| says(name, value))
                .map(|(name, value)| (Some(name), value))
                .collect();
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
