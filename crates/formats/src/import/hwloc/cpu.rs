//! NUMA nodes, the distances between them, and logical CPUs.

use super::object::{Object, Objects, children};
use crate::import::{Imported, Result, numa_node, shown};
use nic_placement_core::topology::file::MAX_NUMA_NODES;
use nic_placement_core::topology::{Arch, Bitmap, CpuSet, Processor, Pu, Topology};
use roxmltree::Node;
use std::collections::{BTreeMap, BTreeSet};

/// Subtypes of nodes that hold memory only, in the words of hwloc 2 and later.
const MEMORY_ONLY: [&str; 6] = ["GPUMemory", "MCDRAM", "HBM", "NVM", "SPM", "CXL"];

/// The kind of the processors: infos on the packages, or on the machine where all are alike.
pub fn processor(file: &Objects) -> Option<Processor> {
    let package = file.of("Package").next();
    let info = |name: &str| {
        package
            .and_then(|package| package.info(name))
            .or_else(|| file.machine_info(name))
    };
    let number = |name: &str| info(name)?.parse::<u16>().ok().map(u32::from);
    let arch = match file.machine_info("Architecture") {
        Some("aarch64") => Arch::Arm,
        Some("ppc64le" | "ppc64") => Arch::Power,
        // the makers of x86 make no others
        _ => Arch::X86,
    };
    let (family, model) = (number("CPUFamilyNumber"), number("CPUModelNumber"));
    crate::import::processor(arch, info("CPUVendor"), family, model)
}

/// Version 1 lists offline CPUs too, and the online ones apart.
fn usable_cpus(object: &Object) -> Result<CpuSet> {
    let cpus = object.set("cpuset")?.unwrap_or_default();
    Ok(match object.set("online_cpuset")? {
        Some(online) => cpus.intersection(&online),
        None => cpus,
    })
}

/// The number of a NUMA node; without `os_index` its own set tells.
fn numa_index(object: &Object) -> Result<u32> {
    let set = object.set("nodeset")?.filter(|set| set.len() == 1);
    let number = object.os_index()?.or(set.and_then(|set| set.first()));
    match number {
        Some(number) if (number as usize) < MAX_NUMA_NODES => Ok(number),
        Some(number) => Err(object.bad(format!(
            "NUMA node `{number}`: expected a number below {MAX_NUMA_NODES}"
        ))),
        None => Err(object.bad("a NUMA node without os_index")),
    }
}

pub fn numa_nodes(file: &Objects, to: &mut Imported) -> Result<()> {
    let mut nodes: Vec<(bool, CpuSet, u32)> = Vec::new();
    let mut seen = BTreeSet::new();
    for object in file.of("NUMANode") {
        let number = numa_index(object)?;
        if !seen.insert(number) {
            return Err(object.bad(format!("NUMA node `{number}` is there twice")));
        }
        let subtype = object.attribute("subtype").unwrap_or_default();
        let memory_only = MEMORY_ONLY.iter().any(|word| subtype.starts_with(word));
        nodes.push((memory_only, usable_cpus(object)?, number));
    }
    if let (true, Some(machine)) = (nodes.is_empty(), file.of("Machine").next()) {
        // hwloc 2 reads files of version 1 the same way
        to.note(
            "NUMANode",
            "none in the file: the machine counts as one, number 0",
        );
        nodes.push((false, usable_cpus(machine)?, 0));
    }
    // the kernel has a CPU in one node, hwloc 2 gives memory its neighbours' CPUs: the innermost
    // node keeps a CPU
    nodes.sort_by_key(|(memory_only, cpus, number)| (*memory_only, cpus.len(), *number));
    let mut taken = CpuSet::new();
    for (memory_only, cpus, os_index) in nodes {
        let own: CpuSet = cpus.iter().filter(|&cpu| !taken.contains(cpu)).collect();
        if own != cpus && !memory_only {
            let none = if own.is_empty() { "none" } else { "" };
            to.note(
                format!("NUMANode {os_index}"),
                format!("CPUs of another node too: its own are taken to be {own}{none}"),
            );
        }
        taken.add(&own);
        to.topology.numa_nodes.push(numa_node(os_index, own));
    }
    to.topology.numa_nodes.sort_by_key(|node| node.os_index);
    Ok(())
}

/// The kernel's numbers; the file's order if one is missing or repeated.
fn numbers(
    file: &Objects,
    objects: &BTreeSet<usize>,
    what: &str,
    to: &mut Imported,
) -> Result<BTreeMap<usize, u32>> {
    let mut all = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for &index in objects {
        let number = file.objects[index].os_index()?;
        let number = number.filter(|&number| seen.insert(number));
        all.extend(number.map(|number| (index, number)));
    }
    if all.len() < objects.len() {
        to.note(
            what,
            "numbers are missing or there twice: they are counted in the file's order",
        );
        all = objects.iter().copied().zip(0..).collect();
    }
    Ok(all)
}

pub fn pus(file: &Objects, to: &mut Imported) -> Result<()> {
    // (CPU, the package around it, the core around it); a CPU without a core is its own
    let mut found: Vec<(u32, Option<usize>, usize)> = Vec::new();
    let mut seen = CpuSet::new();
    for object in file.of("PU") {
        let number = object
            .os_index()?
            .ok_or_else(|| object.bad("a PU without os_index"))?;
        if number >= Bitmap::LIMIT {
            let limit = Bitmap::LIMIT;
            return Err(object.bad(format!("PU `{number}`: expected a number below {limit}")));
        }
        if seen.contains(number) {
            return Err(object.bad(format!("PU `{number}` is there twice")));
        }
        seen.insert(number);
        let online = object.set("online_cpuset")?;
        if online.is_none_or(|online| online.contains(number)) {
            let [package, core] = ["Package", "Core"].map(|kind| file.above(object.index, kind));
            found.push((number, package, core.unwrap_or(object.index)));
        }
    }
    let packages = found.iter().filter_map(|&(_, package, _)| package);
    let packages = numbers(file, &packages.collect(), "Package", to)?;
    let package_of = |package: Option<usize>| packages.get(&package?).copied();
    let mut cores: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for &(_, package, core) in &found {
        cores
            .entry(package_of(package).unwrap_or(0))
            .or_default()
            .insert(core);
    }
    let mut core_numbers = BTreeMap::new();
    for (package, cores) in &cores {
        // core numbers repeat on packages of several dies
        let what = format!("Core of package {package}");
        core_numbers.extend(numbers(file, cores, &what, to)?);
    }
    for (os_index, package, core) in found {
        let known = package_of(package);
        // without a Package, as hwloc writes it where the kernel knows none, it counts as of
        // package 0
        if let Some(node) = to
            .topology
            .numa_nodes
            .iter_mut()
            .find(|node| node.cpus.first() == Some(os_index))
        {
            node.package = known;
        }
        to.topology.pus.push(Pu {
            os_index,
            package: known.unwrap_or(0),
            core: core_numbers.get(&core).copied().unwrap_or(os_index),
        });
    }
    Ok(())
}

/// `HWLOC_DISTANCES_KIND_MEANS_LATENCY` of hwloc/distances.h.
const MEANS_LATENCY: u32 = 1 << 2;
/// The largest distance; ACPI's are bytes.
const MAX_DISTANCE: u32 = 1_000_000;

/// A square matrix: the numbers of nodes, and their distances row after row.
type Matrix = (Vec<u32>, Vec<u32>);

/// Distances between NUMA nodes: version 1 keeps them inside an object, later versions beside all objects.
pub fn distances(file: &Objects, to: &mut Imported) {
    let found = match file.version {
        1 => inside_objects(file),
        _ => beside_objects(file),
    };
    let mut used = false;
    for matrix in found {
        let finding = match matrix.and_then(|matrix| rows(&matrix, &to.topology)) {
            Ok(_) if used => "a second matrix: not used".to_string(),
            Ok(rows) => {
                to.topology
                    .numa_nodes
                    .iter_mut()
                    .zip(rows)
                    .for_each(|(node, row)| node.distances = row);
                used = true;
                continue;
            }
            Err(finding) => finding,
        };
        to.note("distances", finding);
    }
}

/// The rows in the topology's order, if the matrix covers all its nodes.
fn rows((nodes, values): &Matrix, node: &Topology) -> Result<Vec<Vec<u32>>, String> {
    let count = node.numa_nodes.len();
    let place: BTreeMap<u32, usize> = nodes.iter().copied().zip(0..).collect();
    let order = node
        .numa_nodes
        .iter()
        .map(|node| place.get(&node.os_index).copied());
    let is_whole = nodes.len() == count && values.len() == count * count;
    let order = order.collect::<Option<Vec<usize>>>().filter(|_| is_whole).ok_or_else(|| {
        let (values, nodes) = (values.len(), nodes.len());
        format!("a matrix of {values} values between {nodes} nodes, where the file has {count}: not used")
    })?;
    Ok(order
        .iter()
        .map(|&from| order.iter().map(|&to| values[from * count + to]).collect())
        .collect())
}

fn not_a_number(text: &str) -> String {
    format!("`{}` is not a distance: not used", shown(text))
}

/// Version 1: `<distances nbobjs= relative_depth= latency_base=>` inside the object above all its objects;
/// values are multiples of the base, in the order of the objects.
fn inside_objects(file: &Objects) -> Vec<Result<Matrix, String>> {
    let mut found = Vec::new();
    // only an object around the first node can have a matrix of all nodes
    let first = file.of("NUMANode").next();
    for index in first
        .into_iter()
        .flat_map(|first| file.ancestors(first.index))
    {
        let nodes: Vec<u32> = file
            .of("NUMANode")
            .filter(|node| file.ancestors(node.index).any(|above| above == index))
            .filter_map(|node| numa_index(node).ok())
            .collect();
        for element in children(file.objects[index].element, "distances") {
            // only between as many objects as there are nodes: we need no matrices between cores or groups
            let count = element
                .attribute("nbobjs")
                .and_then(|count| count.parse().ok());
            if count != Some(nodes.len()) {
                continue;
            }
            let base = element.attribute("latency_base");
            let base = base.and_then(|base| base.parse::<f64>().ok());
            let value = |latency: Node| {
                let text = latency.attribute("value").unwrap_or_default();
                let distance = || Some(text.trim().parse::<f64>().ok()? * base?);
                let known = distance().filter(|of| (0.0..=f64::from(MAX_DISTANCE)).contains(of));
                // rounded: version 1 writes 21 as 2.100000 times 10
                known
                    .map(|of| of.round() as u32)
                    .ok_or_else(|| not_a_number(text))
            };
            let values: Result<Vec<u32>, String> =
                children(element, "latency").map(value).collect();
            found.push(values.map(|values| (nodes.clone(), values)));
        }
    }
    found
}

/// Since version 2: `<distances2 type= name= kind= indexing=>` with the numbers of the objects and the values.
fn beside_objects(file: &Objects) -> Vec<Result<Matrix, String>> {
    let is_used = |element: &Node| {
        let kind = element.attribute("kind").and_then(|kind| kind.parse().ok());
        // matrices had no name before hwloc 2.1
        let is_latency = match element.attribute("name") {
            Some(name) => name == "NUMALatency",
            None => kind.unwrap_or(0) & MEANS_LATENCY != 0,
        };
        element.attribute("type") == Some("NUMANode") && is_latency
    };
    children(file.root, "distances2")
        .filter(is_used)
        .map(|element| matrix(file, element))
        .collect()
}

fn matrix(file: &Objects, element: Node) -> Result<Matrix, String> {
    let numbers = |name: &'static str| -> Result<Vec<u32>, String> {
        children(element, name)
            .filter_map(|child| child.text())
            .flat_map(str::split_whitespace)
            .map(|word| word.parse().map_err(|_| not_a_number(word)))
            .collect()
    };
    let (mut nodes, values) = (numbers("indexes")?, numbers("u64values")?);
    if let Some(far) = values.iter().find(|&&value| value > MAX_DISTANCE) {
        return Err(not_a_number(&far.to_string()));
    }
    if element.attribute("indexing") == Some("gp") {
        // hwloc's own numbers, valid in this file only
        let known = file
            .of("NUMANode")
            .filter_map(|of| Some((of.attribute("gp_index")?, numa_index(of).ok()?)));
        let of_gp_index: BTreeMap<&str, u32> = known.collect();
        for node in &mut nodes {
            let gp = node.to_string();
            let known = of_gp_index.get(gp.as_str());
            *node = *known.ok_or_else(|| format!("no NUMA node `{gp}`: not used"))?;
        }
    }
    Ok((nodes, values))
}
