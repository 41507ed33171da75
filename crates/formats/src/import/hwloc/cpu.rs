//! NUMA nodes and logical CPUs.
#![forbid(unsafe_code)]

use super::object::{Object, Objects};
use crate::import::{Imported, Result, numa_node};
use nic_placement_core::topology::file::MAX_NUMA_NODES;
use nic_placement_core::topology::{Arch, Bitmap, CpuSet, Processor, Pu};
use std::collections::{BTreeMap, BTreeSet};

/// Subtypes of nodes that hold memory only, in the words of hwloc 2 and later.
const MEMORY_ONLY: [&str; 6] = ["GPUMemory", "MCDRAM", "HBM", "NVM", "SPM", "CXL"];

/// The kind of the processors: infos on the packages, or on the machine where all are alike.
pub(super) fn processor(file: &Objects) -> Option<Processor> {
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
    crate::import::processor(arch, || {
        Some((
            info("CPUVendor")?,
            number("CPUFamilyNumber")?,
            number("CPUModelNumber")?,
        ))
    })
}

/// An object's usable CPUs.  Version 1 lists offline CPUs too, and lists the online ones separately.
fn usable_cpus(object: &Object) -> Result<CpuSet> {
    let cpus = object.set("cpuset")?.unwrap_or_default();
    Ok(match object.set("online_cpuset")? {
        Some(online) => cpus.intersection(&online),
        None => cpus,
    })
}

/// The number of a NUMA node; without `os_index` its own set tells.
pub(super) fn numa_index(object: &Object) -> Result<u32> {
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

pub(super) fn numa_nodes(file: &Objects, to: &mut Imported) -> Result<()> {
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
    // the kernel has a CPU in one node; hwloc 2 gives a node of memory alone its neighbours' CPUs, so the innermost node keeps a CPU
    nodes.sort_by_key(|(memory_only, cpus, number)| (*memory_only, cpus.len(), *number));
    let mut taken = CpuSet::new();
    for (memory_only, cpus, os_index) in nodes {
        let own: CpuSet = cpus.iter().filter(|&cpu| !taken.contains(cpu)).collect();
        if own != cpus && !memory_only {
            let shown = own.to_string();
            let shown = if shown.is_empty() { "none" } else { &shown };
            let finding = format!("CPUs of another node too: its own are taken to be {shown}");
            to.note(format!("NUMANode {os_index}"), finding);
        }
        taken = taken.union(&own);
        to.topology.numa_nodes.push(numa_node(os_index, own));
    }
    to.topology.numa_nodes.sort_by_key(|node| node.os_index);
    Ok(())
}

/// The kernel's numbers of objects of one kind; their order if a number is missing or repeated.
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
        all.extend(
            number
                .filter(|&number| seen.insert(number))
                .map(|number| (index, number)),
        );
    }
    if all.len() < objects.len() {
        let finding = "numbers are missing or there twice: they are counted in the file's order";
        to.note(what, finding);
        all = objects.iter().copied().zip(0..).collect();
    }
    Ok(all)
}

pub(super) fn pus(file: &Objects, to: &mut Imported) -> Result<()> {
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
    let package_of =
        |package: Option<usize>| package.and_then(|index| packages.get(&index)).copied();
    let mut cores: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for &(_, package, core) in &found {
        let package = package_of(package).unwrap_or(0);
        cores.entry(package).or_default().insert(core);
    }
    let mut core_numbers = BTreeMap::new();
    for (package, cores) in &cores {
        // core numbers repeat on packages of several dies
        let what = format!("Core of package {package}");
        core_numbers.extend(numbers(file, cores, &what, to)?);
    }
    for (os_index, package, core) in found {
        let package = package_of(package);
        // one without a Package, as hwloc writes it where the kernel knows none, counts as of package 0
        let mut nodes = to.topology.numa_nodes.iter_mut();
        if let Some(node) = nodes.find(|node| node.cpus.first() == Some(os_index)) {
            node.package = package;
        }
        let package = package.unwrap_or(0);
        let core = core_numbers.get(&core).copied().unwrap_or(os_index);
        to.topology.pus.push(Pu {
            os_index,
            package,
            core,
        });
    }
    Ok(())
}
