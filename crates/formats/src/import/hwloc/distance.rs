//! Distances between NUMA nodes: version 1 keeps them inside an object, later versions beside all objects.
#![forbid(unsafe_code)]

use super::cpu::numa_index;
use super::object::{Object, Objects};
use crate::import::{Imported, shown};
use nic_placement_core::topology::Topology;
use roxmltree::Node;
use std::collections::BTreeMap;

/// `HWLOC_DISTANCES_KIND_MEANS_LATENCY` of hwloc/distances.h.
const MEANS_LATENCY: u32 = 1 << 2;
/// The largest distance; ACPI's are bytes.
const MAX_DISTANCE: u32 = 1_000_000;

/// A square matrix between the nodes with these numbers, row after row.
struct Matrix {
    nodes: Vec<u32>,
    values: Vec<u32>,
}

pub fn distances(file: &Objects, to: &mut Imported) {
    let found = if file.version == 1 {
        inside_objects(file)
    } else {
        beside_objects(file)
    };
    let mut used = false;
    for matrix in found {
        let finding = match matrix {
            Ok(_) if used => "a second matrix: not used".to_string(),
            Ok(matrix) => match rows(&matrix, &to.topology) {
                Some(rows) => {
                    to.topology
                        .numa_nodes
                        .iter_mut()
                        .zip(rows)
                        .for_each(|(node, row)| node.distances = row);
                    used = true;
                    continue;
                }
                None => format!(
                    "a matrix of {} values between {} nodes, where the file has {}: not used",
                    matrix.values.len(),
                    matrix.nodes.len(),
                    to.topology.numa_nodes.len()
                ),
            },
            Err(finding) => finding,
        };
        to.note("distances", finding);
    }
}

/// The rows in the topology's order; `None` unless the matrix covers all its nodes.
fn rows(matrix: &Matrix, topology: &Topology) -> Option<Vec<Vec<u32>>> {
    let count = topology.numa_nodes.len();
    if matrix.nodes.len() != count || matrix.values.len() != count * count {
        return None;
    }
    let place: BTreeMap<u32, usize> = matrix.nodes.iter().copied().zip(0..).collect();
    let order: Option<Vec<usize>> = topology
        .numa_nodes
        .iter()
        .map(|node| place.get(&node.os_index).copied())
        .collect();
    let order = order?;
    let row = |&from: &usize| {
        order
            .iter()
            .map(|&to| matrix.values[from * count + to])
            .collect()
    };
    Some(order.iter().map(row).collect())
}

fn children<'d>(element: Node<'d, 'd>, name: &'static str) -> impl Iterator<Item = Node<'d, 'd>> {
    element
        .children()
        .filter(move |child| child.has_tag_name(name))
}

fn not_a_number(text: &str) -> String {
    format!("`{}` is not a distance: not used", shown(text))
}

/// Version 1: `<distances nbobjs= relative_depth= latency_base=>` inside the object above all its objects;
/// values are multiples of the base, in the order of the objects.
fn inside_objects(file: &Objects) -> Vec<Result<Matrix, String>> {
    let mut found = Vec::new();
    // only an object around the first node can have a matrix of all nodes
    let around = file
        .of("NUMANode")
        .next()
        .into_iter()
        .flat_map(|first| file.ancestors(first.index));
    for index in around {
        let below = |node: &&Object| file.ancestors(node.index).any(|above| above == index);
        let nodes = file.of("NUMANode").filter(below);
        let nodes: Vec<u32> = nodes.filter_map(|node| numa_index(node).ok()).collect();
        for element in children(file.objects[index].element, "distances") {
            // only between as many objects as there are nodes: we need no matrices between cores or groups
            if element
                .attribute("nbobjs")
                .and_then(|count| count.parse().ok())
                != Some(nodes.len())
            {
                continue;
            }
            let base = element
                .attribute("latency_base")
                .and_then(|base| base.parse::<f64>().ok());
            let value = |text: &str| {
                let distance = text.trim().parse::<f64>().ok()? * base?;
                let known = (0.0..=f64::from(MAX_DISTANCE)).contains(&distance);
                // rounded: version 1 writes 21 as 2.100000 times 10
                known.then_some(distance.round() as u32)
            };
            let texts = children(element, "latency")
                .map(|latency| latency.attribute("value").unwrap_or_default());
            let values: Result<Vec<u32>, String> = texts
                .map(|text| value(text).ok_or_else(|| not_a_number(text)))
                .collect();
            found.push(values.map(|values| Matrix {
                nodes: nodes.clone(),
                values,
            }));
        }
    }
    found
}

/// Since version 2: `<distances2 type= name= kind= indexing=>` with the numbers of the objects and the values.
fn beside_objects(file: &Objects) -> Vec<Result<Matrix, String>> {
    let mut found = Vec::new();
    for element in children(file.root, "distances2") {
        let is =
            |name: &str, wanted: &str| element.attribute(name).is_some_and(|value| value == wanted);
        let kind = element
            .attribute("kind")
            .and_then(|kind| kind.parse::<u32>().ok())
            .unwrap_or(0);
        // matrices had no name before hwloc 2.1
        let latency = match element.attribute("name") {
            Some(name) => name == "NUMALatency",
            None => kind & MEANS_LATENCY != 0,
        };
        if is("type", "NUMANode") && latency {
            found.push(matrix(file, element, is("indexing", "gp")));
        }
    }
    found
}

fn matrix(file: &Objects, element: Node, by_gp_index: bool) -> Result<Matrix, String> {
    let numbers = |name: &'static str| -> Result<Vec<u32>, String> {
        let texts = element
            .children()
            .filter(|child| child.has_tag_name(name))
            .filter_map(|child| child.text());
        let words = texts.flat_map(str::split_whitespace);
        words
            .map(|word| word.parse::<u32>().map_err(|_| not_a_number(word)))
            .collect()
    };
    let mut nodes = numbers("indexes")?;
    let values = numbers("u64values")?;
    if let Some(far) = values.iter().find(|&&value| value > MAX_DISTANCE) {
        return Err(not_a_number(&far.to_string()));
    }
    if by_gp_index {
        // hwloc's own numbers, valid in this file only
        let mut of_gp_index = BTreeMap::new();
        for object in file.of("NUMANode") {
            if let (Some(gp), Ok(number)) = (object.attribute("gp_index"), numa_index(object)) {
                of_gp_index.insert(gp, number);
            }
        }
        for node in &mut nodes {
            let gp = node.to_string();
            *node = *of_gp_index
                .get(gp.as_str())
                .ok_or_else(|| format!("no NUMA node `{gp}`: not used"))?;
        }
    }
    Ok(Matrix { nodes, values })
}
