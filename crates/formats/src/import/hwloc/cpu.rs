//! NUMA nodes and logical CPUs.
#![forbid(unsafe_code)]

use super::object::{Object, Objects};
use crate::import::{Imported, Result};
use nic_placement_core::topology::file::MAX_NUMA_NODES;
use nic_placement_core::topology::{Arch, Bitmap, CpuSet, CpuVendor, NumaNode, Processor, Pu, X86};
use std::collections::{BTreeMap, BTreeSet};

/// Subtypes of nodes that hold memory only, in the words of hwloc 2 and later.
const MEMORY_ONLY: [&str; 6] = ["GPUMemory", "MCDRAM", "HBM", "NVM", "SPM", "CXL"];

/// What the processors are: infos on the packages, and on the machine where all are alike.
pub(super) fn processor(file: &Objects) -> Option<Processor> {
    let package = file.of("Package").next();
    let info = |name: &str| {
        package
            .and_then(|package| package.info(name))
            .or_else(|| file.machine_info(name))
    };
    let number = |name: &str| info(name)?.parse::<u16>().ok().map(u32::from);
    let x86 = || {
        let vendor = CpuVendor::from_word(info("CPUVendor")?)?;
        Some(X86 {
            vendor,
            family: number("CPUFamilyNumber")?,
            model: number("CPUModelNumber")?,
        })
    };
    match file.machine_info("Architecture") {
        Some("aarch64") => Some(Processor {
            arch: Arch::Arm,
            x86: None,
        }),
        Some("ppc64le" | "ppc64") => Some(Processor {
            arch: Arch::Power,
            x86: None,
        }),
        // the makers of x86 make no others
        _ => Some(Processor {
            arch: Arch::X86,
            x86: Some(x86()?),
        }),
    }
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
    let number = match object.os_index()? {
        Some(number) => Some(number),
        None => object
            .set("nodeset")?
            .filter(|set| set.len() == 1)
            .and_then(|set| set.first()),
    };
    let number = number.ok_or_else(|| object.bad("a NUMA node without os_index"))?;
    if number as usize >= MAX_NUMA_NODES {
        return Err(object.bad(format!(
            "NUMA node `{number}`: expected a number below {MAX_NUMA_NODES}"
        )));
    }
    Ok(number)
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
    // For the kernel, a CPU belongs to one node only.  hwloc 2 gives a node without CPUs (memory of a GPU,
    // MCDRAM, CXL) the CPUs of neighbouring nodes, so the innermost node around a CPU keeps it.
    nodes.sort_by_key(|(memory_only, cpus, number)| (*memory_only, cpus.len(), *number));
    let mut taken = CpuSet::new();
    for (memory_only, cpus, os_index) in nodes {
        let own: CpuSet = cpus.iter().filter(|&cpu| !taken.contains(cpu)).collect();
        if own != cpus && !memory_only {
            let own = if own.is_empty() {
                "none".to_string()
            } else {
                own.to_string()
            };
            let finding = format!("CPUs of another node too: its own are taken to be {own}");
            to.note(format!("NUMANode {os_index}"), finding);
        }
        taken = taken.union(&own);
        to.topology.numa_nodes.push(NumaNode {
            os_index,
            cpus: own,
            distances: Vec::new(),
            package: None,
        });
    }
    to.topology.numa_nodes.sort_by_key(|node| node.os_index);
    Ok(())
}

/// Numbers for objects of one kind: the kernel's, or if one is missing or repeated, their order.
fn numbers(
    file: &Objects,
    objects: &BTreeSet<usize>,
    what: &str,
    to: &mut Imported,
) -> Result<BTreeMap<usize, u32>> {
    let mut all = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for &index in objects {
        if let Some(number) = file.objects[index]
            .os_index()?
            .filter(|&number| seen.insert(number))
        {
            all.insert(index, number);
        }
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
            return Err(object.bad(format!(
                "PU `{number}`: expected a number below {}",
                Bitmap::LIMIT
            )));
        }
        if seen.contains(number) {
            return Err(object.bad(format!("PU `{number}` is there twice")));
        }
        seen.insert(number);
        if object
            .set("online_cpuset")?
            .is_some_and(|online| !online.contains(number))
        {
            continue;
        }
        let index = object.index;
        found.push((
            number,
            file.above(index, "Package"),
            file.above(index, "Core").unwrap_or(index),
        ));
    }
    let packages: BTreeSet<usize> = found
        .iter()
        .filter_map(|&(_, package, _)| package)
        .collect();
    let packages = numbers(file, &packages, "Package", to)?;
    let package_of =
        |package: Option<usize>| package.and_then(|index| packages.get(&index)).copied();
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
        core_numbers.extend(numbers(
            file,
            cores,
            &format!("Core of package {package}"),
            to,
        )?);
    }
    for (os_index, package, core) in found {
        let package = package_of(package);
        // one without a Package, as hwloc writes it where the kernel knows none, counts as of package 0
        let node = to
            .topology
            .numa_nodes
            .iter_mut()
            .find(|node| node.cpus.first() == Some(os_index));
        node.into_iter().for_each(|node| node.package = package);
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
