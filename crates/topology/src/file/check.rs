//! Checks that a topology file is consistent.

use super::*;
use crate::{DeviceName, GpuVendor, PciParent, PciTree, Port, Pu};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

pub(super) type Result<T> = std::result::Result<T, BadTopology>;

pub(super) fn wrong<T>(
    place: impl Display,
    value: impl Display,
    expected: impl Display,
) -> Result<T> {
    let value = printable(&value.to_string(), 80);
    bad(format!("`{place}`: found `{value}`, expected {expected}"))
}

fn bad<T>(line: String) -> Result<T> {
    Err(BadTopology(line))
}

pub(super) fn at_most(place: impl Display, count: usize, most: usize) -> Result<()> {
    if count > most {
        return bad(format!(
            "`{place}`: found `{count}` entries, expected at most `{most}`"
        ));
    }
    Ok(())
}

/// Each value's row in `list`; refuses a value in two rows.
pub(super) fn once<T: Ord + Display>(
    list: &str,
    field: &str,
    values: impl Iterator<Item = (usize, T)>,
) -> Result<BTreeMap<T, usize>> {
    let mut rows = BTreeMap::new();
    for (row, value) in values {
        if let Some(first) = rows.get(&value) {
            let value = printable(&value.to_string(), 80);
            return bad(format!(
                "`{list}[{row}]{field}`: found `{value}`, which `{list}[{first}]{field}` has already, expected it once"
            ));
        }
        rows.insert(value, row);
    }
    Ok(rows)
}

fn dangling<T>(place: impl Display, value: impl Display, list: &str) -> Result<T> {
    wrong(place, value, format_args!("one that is listed in `{list}`"))
}

fn free_text(place: impl Display, text: &str) -> Result<()> {
    if text.chars().any(char::is_control) || text.chars().count() > MAX_TEXT {
        let expected = format!("at most {MAX_TEXT} characters, none of them a control character");
        return wrong(place, text, expected);
    }
    Ok(())
}

fn name<'a>(place: impl Display, text: impl Into<Option<&'a String>>) -> Result<()> {
    match text.into().map(|text| (text, text.parse::<DeviceName>())) {
        Some((text, Err(expected))) => wrong(place, text, expected),
        _ => Ok(()),
    }
}

pub(super) fn header(format: Option<&str>, version: Option<u64>) -> Result<()> {
    match (format, version) {
        (Some(FORMAT), Some(VERSION)) => Ok(()),
        (Some(FORMAT), Some(found)) => wrong("version", found, format_args!("`{VERSION}`")),
        (Some(FORMAT), None) => bad(format!("`version`: missing, expected `{VERSION}`")),
        (Some(found), _) => wrong("format", found, format_args!("`{FORMAT}`")),
        (None, _) => bad(format!("`format`: missing, expected `{FORMAT}`")),
    }
}

fn sources(sources: &[String]) -> Result<()> {
    let mut sources = sources.iter().enumerate();
    sources.try_for_each(|(i, source)| free_text(format_args!("sources[{i}]"), source))
}

pub(super) fn topology(file: Document, provenance: Provenance) -> Result<Topology> {
    header(Some(&file.format), Some(file.version))?;
    // not as `DeviceName`: product names have spaces (`PowerEdge XE9680`)
    free_text("name", &file.name)?;
    if file.name.is_empty() {
        return wrong("name", "", "the machine's name");
    }
    sources(&file.sources)?;
    let mut node = Topology::empty(&file.name, provenance);
    node.processor = file.processor;
    node.pus = cores::pus(&file.pus)?;
    node.numa_nodes = numa_nodes(file.numa_nodes, &node.pus)?;
    node.pci = tree(file.pci, &node)?;
    let above = node.pci.iter().filter_map(|below| below.parent.bridge());
    let bridges: BTreeSet<PciAddress> = above.collect();
    let endpoint = |place: &str, address: PciAddress| match node.pci.get(address) {
        None => dangling(place, address, "pci"),
        Some(_) if bridges.contains(&address) => {
            wrong(place, address, "a function that has no other below it")
        }
        Some(function) => Ok(function),
    };
    at_most("gpus", file.gpus.len(), MAX_GPUS)?;
    for (i, gpu) in file.gpus.iter().enumerate() {
        let function = endpoint(&format!("gpus[{i}].address"), gpu.address)?;
        check_gpu(i, gpu, function)?;
    }
    gpus_differ(&file.gpus)?;
    at_most("nics", file.nics.len(), MAX_NICS)?;
    for (i, nic) in file.nics.iter().enumerate() {
        // two NICs may share an address: subfunctions of a ConnectX
        if let Some(address) = nic.address {
            let place = format!("nics[{i}].address");
            endpoint(&place, address)?;
            if file.gpus.iter().any(|gpu| gpu.address == address) {
                return wrong(place, address, "a function that is not a GPU");
            }
        }
        check_nic(i, nic)?;
    }
    let nics = || file.nics.iter().enumerate();
    once("nics", ".name", nics().map(|(i, nic)| (i, &*nic.name)))?;
    let uverbs = nics().filter_map(|(i, nic)| Some((i, nic.uverbs.as_deref()?)));
    once("nics", ".uverbs", uverbs)?;
    node.stated_paths = paths(&file.paths, &file.gpus, &file.nics)?;
    (node.gpus, node.nics) = (file.gpus, file.nics);
    node.sort();
    Ok(node)
}

fn numa_nodes(rows: Vec<NodeRow>, pus: &[Pu]) -> Result<Vec<NumaNode>> {
    let count = rows.len();
    at_most("numa_nodes", count, MAX_NUMA_NODES)?;
    let numbers = rows.iter().map(|row| row.os_index).enumerate();
    once("numa_nodes", ".os_index", numbers)?;
    let (mut all, mut cpus_seen) = (Vec::<NumaNode>::with_capacity(count), Bitmap::new());
    for (i, row) in rows.into_iter().enumerate() {
        let at = |field: &str| format!("numa_nodes[{i}].{field}");
        let NodeRow {
            os_index,
            cpus,
            distances,
            package,
        } = row;
        if os_index as usize >= MAX_NUMA_NODES {
            let expected = format!("a number below `{MAX_NUMA_NODES}`");
            return wrong(at("os_index"), os_index, expected);
        }
        if let Some(cpu) = cpus_seen.intersection(&cpus).first() {
            let first = all.iter().position(|other| other.cpus.contains(cpu));
            let of_both = [first.unwrap_or(i), i].map(|row| (row, cpu));
            once("numa_nodes", ".cpus", of_both.into_iter())?;
        }
        cpus_seen.add(&cpus);
        if !distances.is_empty() && distances.len() != count {
            let found = format!("{} distances", distances.len());
            let expected = format!("`{count}`, one for each NUMA node");
            return wrong(at("distances"), found, expected);
        }
        let package = match package {
            None => package_of(pus, &cpus),
            Some(-1) => None,
            Some(number) => match u32::try_from(number) {
                Ok(package) => Some(package),
                Err(_) => {
                    let expected = "the number of a package, or `-1` where it is unknown";
                    return wrong(at("package"), number, expected);
                }
            },
        };
        all.push(NumaNode {
            os_index,
            cpus,
            distances,
            package,
        });
    }
    Ok(all)
}

fn tree(functions: Vec<PciFunction>, node: &Topology) -> Result<PciTree> {
    at_most("pci", functions.len(), MAX_PCI)?;
    let addresses = functions.iter().map(|function| function.address);
    let rows = once("pci", ".address", addresses.enumerate())?;
    for (i, function) in functions.iter().enumerate() {
        // if a file lists no NUMA nodes, its functions may name any
        let is_listed = |numa: u32| node.numa_nodes.is_empty() || node.numa_node(numa).is_some();
        if let Some(numa) = function.numa_node.filter(|&numa| !is_listed(numa)) {
            return dangling(format_args!("pci[{i}].numa_node"), numa, "numa_nodes");
        }
        name(format_args!("pci[{i}].iommu"), &function.iommu)?;
    }
    let tree = PciTree::of(functions);
    for function in tree.iter() {
        if tree.climb(function.address).1.is_none() {
            let place = format!("pci[{}].parent", rows[&function.address]);
            check_parents(&tree, function, &place)?;
        }
    }
    Ok(tree)
}

/// Refuses a function that leads to no host bridge. A bridge above without its parent is refused by
/// its own check.
fn check_parents(tree: &PciTree, function: &PciFunction, place: &str) -> Result<()> {
    let address = function.address;
    if let PciParent::Bridge(bridge) = function.parent {
        if tree.get(bridge).is_none() {
            return dangling(place, bridge, "pci");
        }
    }
    let (bridges, _) = tree.ancestors(address);
    if bridges.iter().collect::<BTreeSet<_>>().len() < bridges.len() {
        return bad(format!(
            "`{place}`: the bridges above `{address}` form a circle, expected a host bridge above"
        ));
    }
    if bridges.len() < PciTree::MAX_DEPTH {
        return Ok(());
    }
    let found = format!("{} bridges or more", bridges.len() + 1);
    let expected = format!("at most `{}` above `{address}`", PciTree::MAX_DEPTH);
    wrong(place, found, expected)
}

fn check_gpu(i: usize, gpu: &Gpu, function: &PciFunction) -> Result<()> {
    let at = |field: &str| format!("gpus[{i}].{field}");
    let known = function.vendor;
    if let Some(id) = known.filter(|&id| GpuVendor::from_pci(id) != Some(gpu.vendor)) {
        let expected = format!("the vendor of `{}` in `pci`, `0x{id:04x}`", gpu.address);
        return wrong(at("vendor"), gpu.vendor, expected);
    }
    name(at("uuid"), &gpu.uuid)?;
    free_text(at("model"), gpu.model.as_deref().unwrap_or_default())?;
    match gpu.mig_instances {
        Some(count) if !(1..=MAX_MIG_INSTANCES).contains(&count) => {
            let expected = format!("a number from `1` to `{MAX_MIG_INSTANCES}`");
            wrong(at("mig_instances"), count, expected)
        }
        _ => Ok(()),
    }
}

/// Refuses two GPUs with the same UUID, device file, runtime index or function (and partition).
fn gpus_differ(gpus: &[Gpu]) -> Result<()> {
    let each = |of: fn(&Gpu) -> Option<String>, field: &str| {
        let values = gpus.iter().map(of).enumerate();
        let values = values.filter_map(|(i, value)| Some((i, value?)));
        once("gpus", field, values).map(drop)
    };
    let part = |gpu: &Gpu| match gpu.partition {
        Some(partition) => Some(format!("{} partition {partition}", gpu.address)),
        None => Some(gpu.address.to_string()),
    };
    let runtime_index = |gpu: &Gpu| Some(format!("{} {}", gpu.vendor, gpu.runtime_index?));
    each(part, ".address")?;
    each(|gpu| gpu.uuid.clone(), ".uuid")?;
    each(Gpu::device_node, ".minor")?;
    each(runtime_index, ".runtime_index")
}

fn check_nic(i: usize, nic: &Nic) -> Result<()> {
    let at = |field: &str| format!("nics[{i}].{field}");
    name(at("uverbs"), &nic.uverbs)?;
    at_most(at("netdevs"), nic.netdevs.len(), MAX_NETDEVS)?;
    for (k, text) in nic.netdevs.iter().enumerate() {
        name(format_args!("{}[{k}]", at("netdevs")), text)?;
    }
    once(&at("netdevs"), "", nic.netdevs.iter().enumerate())?;
    free_text(at("guid"), nic.guid.as_deref().unwrap_or_default())?;
    free_text(at("card"), nic.card.as_deref().unwrap_or_default())?;
    at_most(at("ports"), nic.ports.len(), MAX_PORTS)?;
    let numbers = nic.ports.iter().map(|port| port.number).enumerate();
    once(&at("ports"), ".number", numbers)?;
    let mut ports = nic.ports.iter().enumerate();
    ports.try_for_each(|(k, port)| check_port(i, k, port))
}

fn check_port(i: usize, k: usize, port: &Port) -> Result<()> {
    let at = |field: &str| format!("nics[{i}].ports[{k}].{field}");
    if port.number == 0 {
        return wrong(at("number"), 0, "a number from `1`");
    }
    if let Some(rate) = port.rate_mbps.filter(|&rate| rate > MAX_RATE_MBPS) {
        let expected = format!("at most `{MAX_RATE_MBPS}`");
        return wrong(at("rate_mbps"), rate, expected);
    }
    name(at("phys_state"), &port.phys_state)?;
    name(at("netdev"), &port.netdev)?;
    name(at("default_route"), &port.default_route)?;
    let gid_type = port.gid_type.as_deref().unwrap_or_default();
    free_text(at("gid_type"), gid_type)?;
    at_most(at("networks"), port.networks.len(), MAX_NETWORKS)
}

fn paths(
    paths: &[StatedPath],
    gpus: &[Gpu],
    nics: &[Nic],
) -> Result<BTreeMap<(PciAddress, PciAddress), PathType>> {
    at_most("paths", paths.len(), MAX_GPUS * MAX_NICS)?;
    let mut all = BTreeMap::new();
    for (i, &StatedPath { gpu, nic, path }) in paths.iter().enumerate() {
        let at = |field: &str| format!("paths[{i}].{field}");
        if !gpus.iter().any(|known| known.address == gpu) {
            return dangling(at("gpu"), gpu, "gpus");
        }
        if !nics.iter().any(|known| known.address == Some(nic)) {
            return dangling(at("nic"), nic, "nics");
        }
        if all.insert((gpu, nic), path).is_some() {
            let expected = format!("one path only between it and `{nic}`");
            return wrong(at("gpu"), gpu, expected);
        }
    }
    Ok(all)
}
