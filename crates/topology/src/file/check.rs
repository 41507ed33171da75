//! From a file to the node, with every check that makes a topology consistent.
#![forbid(unsafe_code)]

use super::*;
use crate::{DeviceName, GpuVendor, PciParent, PciTree, Port, Pu};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

pub(super) type Result<T> = std::result::Result<T, BadTopology>;

pub(super) fn wrong(place: String, value: impl Display, expected: impl Display) -> BadTopology {
    let value = printable(&value.to_string(), 80);
    BadTopology(format!("`{place}`: found `{value}`, expected {expected}"))
}

pub(super) fn at_most(place: impl Fn() -> String, count: usize, most: usize) -> Result<()> {
    match count > most {
        true => Err(BadTopology(format!(
            "`{}`: found `{count}` entries, expected at most `{most}`",
            place()
        ))),
        false => Ok(()),
    }
}

/// Values that may occur once, each with the number of its row.
pub(super) fn once<T: Ord + Display>(
    values: impl Iterator<Item = (usize, T)>,
    place: impl Fn(usize) -> String,
) -> Result<BTreeMap<T, usize>> {
    let mut rows = BTreeMap::new();
    for (row, value) in values {
        if let Some(first) = rows.get(&value) {
            let (value, first) = (printable(&value.to_string(), 80), place(*first));
            return Err(BadTopology(format!(
                "`{}`: found `{value}`, which `{first}` has already, expected it once",
                place(row)
            )));
        }
        rows.insert(value, row);
    }
    Ok(rows)
}

fn dangling(place: String, value: impl Display, list: &str) -> BadTopology {
    wrong(place, value, format_args!("one that is listed in `{list}`"))
}

fn free_text(place: impl Fn() -> String, text: &str) -> Result<()> {
    if text.chars().any(char::is_control) || text.chars().count() > MAX_TEXT {
        let expected = format!("at most {MAX_TEXT} characters, none of them a control character");
        return Err(wrong(place(), text, expected));
    }
    Ok(())
}

/// A name that programs also find where device names are.
fn name(place: impl Fn() -> String, text: &str) -> Result<()> {
    text.parse::<DeviceName>()
        .map(drop)
        .map_err(|expected| wrong(place(), text, expected))
}

pub(super) fn header(format: Option<&str>, version: Option<u64>) -> Result<()> {
    match (format, version) {
        (Some(FORMAT), Some(VERSION)) => Ok(()),
        (Some(FORMAT), Some(found)) => Err(wrong(
            "version".to_string(),
            found,
            format_args!("`{VERSION}`"),
        )),
        (Some(FORMAT), None) => Err(BadTopology(format!(
            "`version`: missing, expected `{VERSION}`"
        ))),
        (Some(found), _) => Err(wrong(
            "format".to_string(),
            found,
            format_args!("`{FORMAT}`"),
        )),
        (None, _) => Err(BadTopology(format!(
            "`format`: missing, expected `{FORMAT}`"
        ))),
    }
}

pub(super) fn sources(sources: &[String]) -> Result<()> {
    sources
        .iter()
        .enumerate()
        .try_for_each(|(i, source)| free_text(|| format!("sources[{i}]"), source))
}

pub(super) fn topology(file: Document, provenance: Provenance) -> Result<Topology> {
    header(Some(&file.format), Some(file.version))?;
    // the vendors' own products have spaces (`PowerEdge XE9680`)
    free_text(|| "name".to_string(), &file.name)?;
    if file.name.is_empty() {
        return Err(wrong("name".to_string(), "", "the machine's name"));
    }
    sources(&file.sources)?;
    let mut topology = Topology::empty(&file.name, provenance);
    topology.processor = file.processor;
    topology.pus = cores::pus(&file.pus)?;
    topology.numa_nodes = numa_nodes(file.numa_nodes, &topology.pus)?;
    topology.pci = tree(file.pci, &topology)?;
    // every function with another below it is a bridge
    let bridges: BTreeSet<PciAddress> = topology
        .pci
        .iter()
        .filter_map(|function| function.parent.bridge())
        .collect();
    let endpoint = |place: &dyn Fn() -> String, address: PciAddress| match topology.pci.get(address)
    {
        None => Err(dangling(place(), address, "pci")),
        Some(_) if bridges.contains(&address) => Err(wrong(
            place(),
            address,
            "a function that has no other below it",
        )),
        Some(function) => Ok(function),
    };
    at_most(|| "gpus".to_string(), file.gpus.len(), MAX_GPUS)?;
    for (i, gpu) in file.gpus.iter().enumerate() {
        let function = endpoint(&|| format!("gpus[{i}].address"), gpu.address)?;
        check_gpu(i, gpu, function)?;
    }
    gpus_differ(&file.gpus)?;
    at_most(|| "nics".to_string(), file.nics.len(), MAX_NICS)?;
    for (i, nic) in file.nics.iter().enumerate() {
        // several NICs may share a function: the subfunctions of a ConnectX do
        if let Some(address) = nic.address {
            let place = || format!("nics[{i}].address");
            endpoint(&place, address)?;
            if file.gpus.iter().any(|gpu| gpu.address == address) {
                return Err(wrong(place(), address, "a function that is not a GPU"));
            }
        }
        check_nic(i, nic)?;
    }
    let nics = || file.nics.iter().enumerate();
    once(nics().map(|(i, nic)| (i, &*nic.name)), |i| {
        format!("nics[{i}].name")
    })?;
    let uverbs = nics().filter_map(|(i, nic)| Some((i, nic.uverbs.as_deref()?)));
    once(uverbs, |i| format!("nics[{i}].uverbs"))?;
    topology.stated_paths = paths(&file.paths, &file.gpus, &file.nics)?;
    (topology.gpus, topology.nics) = (file.gpus, file.nics);
    topology.sort();
    Ok(topology)
}

fn numa_nodes(rows: Vec<NodeRow>, pus: &[Pu]) -> Result<Vec<NumaNode>> {
    let count = rows.len();
    at_most(|| "numa_nodes".to_string(), count, MAX_NUMA_NODES)?;
    once(rows.iter().map(|row| row.os_index).enumerate(), |i| {
        format!("numa_nodes[{i}].os_index")
    })?;
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
            return Err(wrong(
                at("os_index"),
                os_index,
                format_args!("a number below `{MAX_NUMA_NODES}`"),
            ));
        }
        if let Some(cpu) = cpus_seen.intersection(&cpus).first() {
            let first = all.iter().position(|other| other.cpus.contains(cpu));
            let of_both = [first.unwrap_or(i), i].map(|row| (row, cpu));
            once(of_both.into_iter(), |i| format!("numa_nodes[{i}].cpus"))?;
        }
        cpus_seen.add(&cpus);
        if !distances.is_empty() && distances.len() != count {
            let found = format!("{} distances", distances.len());
            return Err(wrong(
                at("distances"),
                found,
                format_args!("`{count}`, one for each NUMA node"),
            ));
        }
        let package = match package {
            None => package_of(pus, &cpus),
            Some(-1) => None,
            Some(number) => Some(u32::try_from(number).map_err(|_| {
                wrong(
                    at("package"),
                    number,
                    "the number of a package, or `-1` where it is unknown",
                )
            })?),
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

fn tree(functions: Vec<PciFunction>, topology: &Topology) -> Result<PciTree> {
    at_most(|| "pci".to_string(), functions.len(), MAX_PCI)?;
    let addresses = functions.iter().map(|function| function.address);
    let rows = once(addresses.enumerate(), |i| format!("pci[{i}].address"))?;
    for (i, function) in functions.iter().enumerate() {
        // without a list nothing is known of the nodes but their numbers
        let is_listed =
            |node: u32| topology.numa_nodes.is_empty() || topology.numa_node(node).is_some();
        if let Some(node) = function.numa_node.filter(|&node| !is_listed(node)) {
            return Err(dangling(format!("pci[{i}].numa_node"), node, "numa_nodes"));
        }
        if let Some(iommu) = &function.iommu {
            name(|| format!("pci[{i}].iommu"), iommu)?;
        }
    }
    let tree = PciTree::of(functions);
    for function in tree
        .iter()
        .filter(|function| tree.climb(function.address).1.is_none())
    {
        check_parents(
            &tree,
            function,
            format!("pci[{}].parent", rows[&function.address]),
        )?;
    }
    Ok(tree)
}

/// What is wrong above a function that leads to no host bridge; [`PciTree::ancestors`] stops where one does not.
fn check_parents(tree: &PciTree, function: &PciFunction, place: String) -> Result<()> {
    let address = function.address;
    if let PciParent::Bridge(bridge) = function.parent {
        tree.get(bridge)
            .ok_or_else(|| dangling(place.clone(), bridge, "pci"))?;
    }
    let (bridges, _) = tree.ancestors(address);
    if bridges.iter().collect::<BTreeSet<_>>().len() < bridges.len() {
        return Err(BadTopology(format!(
            "`{place}`: the bridges above `{address}` form a circle, expected a host bridge above"
        )));
    }
    if bridges.len() < PciTree::MAX_DEPTH {
        // a parent further up is missing: the function that names it gets the error
        return Ok(());
    }
    let expected = format!("at most `{}` above `{address}`", PciTree::MAX_DEPTH);
    Err(wrong(
        place,
        format_args!("{} bridges or more", bridges.len() + 1),
        expected,
    ))
}

fn check_gpu(i: usize, gpu: &Gpu, function: &PciFunction) -> Result<()> {
    let at = |field: &str| format!("gpus[{i}].{field}");
    if let Some(id) = function
        .vendor
        .filter(|&id| GpuVendor::from_pci(id) != Some(gpu.vendor))
    {
        let expected = format!("the vendor of `{}` in `pci`, `0x{id:04x}`", gpu.address);
        return Err(wrong(at("vendor"), gpu.vendor, expected));
    }
    gpu.uuid
        .iter()
        .try_for_each(|uuid| name(|| at("uuid"), uuid))?;
    gpu.model
        .iter()
        .try_for_each(|model| free_text(|| at("model"), model))?;
    match gpu
        .mig_instances
        .filter(|count| !(1..=MAX_MIG_INSTANCES).contains(count))
    {
        Some(count) => Err(wrong(
            at("mig_instances"),
            count,
            format_args!("a number from `1` to `{MAX_MIG_INSTANCES}`"),
        )),
        None => Ok(()),
    }
}

/// No two GPUs are one, by whatever tells GPUs apart.
fn gpus_differ(gpus: &[Gpu]) -> Result<()> {
    let each = |of: fn(&Gpu) -> Option<String>, field: &str| {
        let told = gpus
            .iter()
            .enumerate()
            .filter_map(|(i, gpu)| Some((i, of(gpu)?)));
        once(told, |i| format!("gpus[{i}].{field}")).map(drop)
    };
    let part = |gpu: &Gpu| match gpu.partition {
        Some(partition) => Some(format!("{} partition {partition}", gpu.address)),
        None => Some(gpu.address.to_string()),
    };
    each(part, "address")?;
    each(|gpu| gpu.uuid.clone(), "uuid")?;
    each(Gpu::device_node, "minor")?;
    each(
        |gpu| Some(format!("{} {}", gpu.vendor, gpu.runtime_index?)),
        "runtime_index",
    )
}

fn check_nic(i: usize, nic: &Nic) -> Result<()> {
    let at = |field: &str| format!("nics[{i}].{field}");
    nic.uverbs
        .iter()
        .try_for_each(|uverbs| name(|| at("uverbs"), uverbs))?;
    at_most(|| at("netdevs"), nic.netdevs.len(), MAX_NETDEVS)?;
    let netdev = |k: usize| format!("nics[{i}].netdevs[{k}]");
    nic.netdevs
        .iter()
        .enumerate()
        .try_for_each(|(k, text)| name(|| netdev(k), text))?;
    once(nic.netdevs.iter().enumerate(), netdev)?;
    nic.guid
        .iter()
        .try_for_each(|guid| free_text(|| at("guid"), guid))?;
    nic.card
        .iter()
        .try_for_each(|card| free_text(|| at("card"), card))?;
    at_most(|| at("ports"), nic.ports.len(), MAX_PORTS)?;
    let numbers = nic.ports.iter().map(|port| port.number).enumerate();
    once(numbers, |k| format!("nics[{i}].ports[{k}].number"))?;
    nic.ports
        .iter()
        .enumerate()
        .try_for_each(|(k, port)| check_port(i, k, port))
}

fn check_port(i: usize, k: usize, port: &Port) -> Result<()> {
    let at = |field: &str| format!("nics[{i}].ports[{k}].{field}");
    if port.number == 0 {
        return Err(wrong(at("number"), 0, "a number from `1`"));
    }
    if let Some(rate) = port.rate_mbps.filter(|&rate| rate > MAX_RATE_MBPS) {
        return Err(wrong(
            at("rate_mbps"),
            rate,
            format_args!("at most `{MAX_RATE_MBPS}`"),
        ));
    }
    let words = [
        ("phys_state", &port.phys_state),
        ("netdev", &port.netdev),
        ("default_route", &port.default_route),
    ];
    for (field, word) in words {
        word.iter().try_for_each(|word| name(|| at(field), word))?;
    }
    port.gid_type
        .iter()
        .try_for_each(|gid_type| free_text(|| at("gid_type"), gid_type))?;
    at_most(|| at("networks"), port.networks.len(), MAX_NETWORKS)
}

fn paths(
    paths: &[StatedPath],
    gpus: &[Gpu],
    nics: &[Nic],
) -> Result<BTreeMap<(PciAddress, PciAddress), PathType>> {
    at_most(|| "paths".to_string(), paths.len(), MAX_GPUS * MAX_NICS)?;
    let mut all = BTreeMap::new();
    for (i, &StatedPath { gpu, nic, path }) in paths.iter().enumerate() {
        let at = |field: &str| format!("paths[{i}].{field}");
        if !gpus.iter().any(|known| known.address == gpu) {
            return Err(dangling(at("gpu"), gpu, "gpus"));
        }
        if !nics.iter().any(|known| known.address == Some(nic)) {
            return Err(dangling(at("nic"), nic, "nics"));
        }
        if all.insert((gpu, nic), path).is_some() {
            return Err(wrong(
                at("gpu"),
                gpu,
                format_args!("one path only between it and `{nic}`"),
            ));
        }
    }
    Ok(all)
}
