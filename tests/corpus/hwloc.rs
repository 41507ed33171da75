//! hwloc's XML: every file of the corpus loads, and hwloc's own tools agree on where its GPUs and NICs are.
//!
//! If the tools are installed, CPUs, nodes, distances, links and paths as they read them are compared with ours.
#![forbid(unsafe_code)]

#[path = "hwloc_tools.rs"]
mod tools;

use nic_placement_core::topology::{
    CpuSet, Nic, NicKind, PathType, PciAddress, Provenance, Topology,
};
use nic_placement_formats::import;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use tools::{as_hwloc_2_reads_it, theirs};

/// GPU to NICs as vendors and sites state them: `(file, GPU, its NUMA node, its nearest fabric NICs)`.
const STATED: [(&str, &str, u32, &[&str]); 24] = [
    // LLNL Tioga, and so Frontier: two dies of MI250X for each Slingshot NIC
    ("mpibind__eas-tioga.xml", "c1:00.0", 3, &["hsi0"]),
    ("mpibind__eas-tioga.xml", "c6:00.0", 3, &["hsi0"]),
    ("mpibind__eas-tioga.xml", "c9:00.0", 1, &["hsi1"]),
    ("mpibind__eas-tioga.xml", "ce:00.0", 1, &["hsi1"]),
    ("mpibind__eas-tioga.xml", "d1:00.0", 0, &["hsi2"]),
    ("mpibind__eas-tioga.xml", "d6:00.0", 0, &["hsi2"]),
    ("mpibind__eas-tioga.xml", "d9:00.0", 2, &["hsi3"]),
    ("mpibind__eas-tioga.xml", "de:00.0", 2, &["hsi3"]),
    // AWS p4d.24xlarge: two A100 and one EFA on each host bridge
    ("nixl__p4d.24xl-topo.xml", "10:1c.0", 0, &["rdmap16s27"]),
    ("nixl__p4d.24xl-topo.xml", "10:1d.0", 0, &["rdmap16s27"]),
    ("nixl__p4d.24xl-topo.xml", "20:1c.0", 0, &["rdmap32s27"]),
    ("nixl__p4d.24xl-topo.xml", "20:1d.0", 0, &["rdmap32s27"]),
    ("nixl__p4d.24xl-topo.xml", "90:1c.0", 1, &["rdmap144s27"]),
    ("nixl__p4d.24xl-topo.xml", "90:1d.0", 1, &["rdmap144s27"]),
    ("nixl__p4d.24xl-topo.xml", "a0:1c.0", 1, &["rdmap160s27"]),
    ("nixl__p4d.24xl-topo.xml", "a0:1d.0", 1, &["rdmap160s27"]),
    // AWS p5.48xlarge: four EFA behind each H100's switch
    (
        "nixl__p5.48xl-topo.xml",
        "53:00.0",
        0,
        &["rdmap79s0", "rdmap80s0", "rdmap81s0", "rdmap82s0"],
    ),
    (
        "nixl__p5.48xl-topo.xml",
        "64:00.0",
        0,
        &["rdmap96s0", "rdmap97s0", "rdmap98s0", "rdmap99s0"],
    ),
    (
        "nixl__p5.48xl-topo.xml",
        "75:00.0",
        0,
        &["rdmap113s0", "rdmap114s0", "rdmap115s0", "rdmap116s0"],
    ),
    (
        "nixl__p5.48xl-topo.xml",
        "86:00.0",
        0,
        &["rdmap130s0", "rdmap131s0", "rdmap132s0", "rdmap133s0"],
    ),
    (
        "nixl__p5.48xl-topo.xml",
        "97:00.0",
        1,
        &["rdmap147s0", "rdmap148s0", "rdmap149s0", "rdmap150s0"],
    ),
    (
        "nixl__p5.48xl-topo.xml",
        "a8:00.0",
        1,
        &["rdmap164s0", "rdmap165s0", "rdmap166s0", "rdmap167s0"],
    ),
    (
        "nixl__p5.48xl-topo.xml",
        "b9:00.0",
        1,
        &["rdmap181s0", "rdmap182s0", "rdmap183s0", "rdmap184s0"],
    ),
    (
        "nixl__p5.48xl-topo.xml",
        "ca:00.0",
        1,
        &["rdmap198s0", "rdmap199s0", "rdmap200s0", "rdmap201s0"],
    ),
];

/// GPUs, NICs and what is near them, by address and name.  Two readings can then be compared.
#[derive(Debug, Default)]
struct Reading {
    gpus: BTreeSet<PciAddress>,
    nics: BTreeMap<String, PciAddress>,
    paths: BTreeMap<(PciAddress, String), PathType>,
    /// what the links above GPUs and NICs move, in GB/s; 0 where it is not known
    links: BTreeMap<PciAddress, f64>,
    cpus: usize,
    /// the CPUs of each NUMA node
    nodes: BTreeMap<u32, CpuSet>,
    /// distances between NUMA nodes, row after row
    distances: Vec<u32>,
}

impl Reading {
    /// The NICs on the shortest kind of path from `gpu`.
    fn nearest(&self, gpu: PciAddress) -> BTreeSet<&str> {
        let paths = || self.paths.iter().filter(|((from, _), _)| *from == gpu);
        let least = paths().map(|(_, kind)| *kind).min();
        paths()
            .filter(|(_, kind)| Some(**kind) == least)
            .map(|((_, nic), _)| nic.as_str())
            .collect()
    }
}

fn ours(topology: &Topology) -> Reading {
    let mut reading = Reading {
        cpus: topology.pus.len(),
        ..Reading::default()
    };
    for function in topology.pci.iter() {
        let moves = function
            .link
            .current
            .map_or(0.0, |rate| rate.mbps() as f64 / 8000.0);
        reading.links.insert(function.address, moves);
    }
    let nodes = || topology.numa_nodes.iter();
    reading
        .nodes
        .extend(nodes().map(|node| (node.os_index, node.cpus.clone())));
    reading.distances = nodes().flat_map(|node| node.distances.clone()).collect();
    reading
        .gpus
        .extend(topology.gpus.iter().map(|gpu| gpu.address));
    for nic in &topology.nics {
        let Some(address) = nic.address else { continue };
        reading.nics.insert(nic.name.to_string(), address);
        for gpu in &topology.gpus {
            reading.paths.insert(
                (gpu.address, nic.name.to_string()),
                topology.path_type(gpu.address, address),
            );
        }
    }
    reading
}

/// Runs all checks on `corpus/hwloc_xml`.
pub fn run(corpus: &Path) -> Result<String, String> {
    let folder = corpus.join("hwloc_xml");
    let listed =
        std::fs::read_dir(&folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "xml"));
    files.sort();
    if files.is_empty() {
        return Err(format!("`{}`: no file `*.xml`", folder.display()));
    }
    let tools = ["lstopo-no-graphics", "hwloc-calc"];
    let installed = tools
        .iter()
        .all(|tool| Command::new(tool).arg("--version").output().is_ok());
    let (mut gpus, mut nics, mut findings) = (0, 0, 0);
    let (mut compared, mut transcribed, mut pairs, mut compared_gpus) = (0, 0, 0, 0);
    let (mut stated, mut wrong) = (0, Vec::new());
    for path in &files {
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_string();
        let text = std::fs::read_to_string(path).map_err(|error| format!("`{file}`: {error}"))?;
        let (topology, diagnostics) = import::hwloc::read(&text, Provenance::File(file.clone()))
            .map_err(|bad| format!("`{file}` does not load: {bad}"))?;
        gpus += topology.gpus.len();
        nics += topology.nics.len();
        findings += diagnostics.len();
        let kept = nic_placement_formats::file::from_json(
            &nic_placement_formats::file::to_json(&topology),
            topology.provenance.clone(),
        );
        if kept.as_ref() != Ok(&topology) {
            wrong.push(format!(
                "`{file}` is not the same as a topology file: {:?}",
                kept.err()
            ));
        }
        let ours = ours(&topology);
        for (_, gpu, numa, expected) in STATED.iter().filter(|row| row.0 == file) {
            stated += 1;
            wrong.extend(
                check_stated(&topology, gpu, *numa, expected).map(|why| format!("`{file}`: {why}")),
            );
        }
        if installed {
            let text = as_hwloc_2_reads_it(&text);
            transcribed += usize::from(text.1);
            let theirs = theirs(&file, &text.0)?;
            compared += 1;
            pairs += theirs.paths.len();
            compared_gpus += theirs.gpus.len();
            wrong.extend(
                differences(&ours, &theirs)
                    .into_iter()
                    .map(|why| format!("`{file}`: {why}")),
            );
        }
    }
    if stated != STATED.len() {
        wrong.push(format!(
            "{stated} of {} stated mappings are of files that are there",
            STATED.len()
        ));
    }
    if !wrong.is_empty() {
        return Err(format!(
            "{} differences:\n{}",
            wrong.len(),
            wrong.join("\n")
        ));
    }
    let second = if installed {
        format!(
            "{compared} files compared with libhwloc ({transcribed} of version 3 transcribed to 2): \
             {compared_gpus} GPUs, {pairs} GPU-NIC paths, 0 differing"
        )
    } else {
        "not compared: hwloc's tools are not installed".to_string()
    };
    Ok(format!(
        "hwloc: {} files, {gpus} GPUs, {nics} NICs, {findings} findings; {second}; {stated} stated mappings, 0 differing",
        files.len()
    ))
}

fn check_stated(topology: &Topology, gpu: &str, numa: u32, expected: &[&str]) -> Option<String> {
    let address: PciAddress = gpu.parse().ok()?;
    let fabric = |nic: &&Nic| nic.kind != NicKind::Ethernet;
    let kind = |nic: &Nic| nic.address.map(|to| topology.path_type(address, to));
    let least = topology.nics.iter().filter(fabric).filter_map(kind).min();
    let nearest = topology
        .nics
        .iter()
        .filter(fabric)
        .filter(|nic| kind(nic) == least);
    let nearest: BTreeSet<&str> = nearest.map(|nic| nic.name.as_str()).collect();
    if topology.gpu_index(address).is_none() {
        return Some(format!("no GPU `{gpu}`"));
    }
    if topology.numa_node_of(address) != Some(numa) {
        return Some(format!(
            "GPU `{gpu}` at NUMA node {:?}, stated {numa}",
            topology.numa_node_of(address)
        ));
    }
    let wanted: BTreeSet<&str> = expected.iter().copied().collect();
    (nearest != wanted).then(|| format!("GPU `{gpu}` nearest to {nearest:?}, stated {wanted:?}"))
}

fn differences(ours: &Reading, theirs: &Reading) -> Vec<String> {
    let mut found = Vec::new();
    if ours.gpus != theirs.gpus {
        found.push(format!(
            "GPUs {:?}, hwloc shows {:?}",
            ours.gpus, theirs.gpus
        ));
    }
    if ours.nics != theirs.nics {
        found.push(format!(
            "NICs {:?}, hwloc shows {:?}",
            ours.nics, theirs.nics
        ));
    }
    if ours.cpus != theirs.cpus {
        found.push(format!("{} CPUs, by hwloc {}", ours.cpus, theirs.cpus));
    }
    for (number, cpus) in &theirs.nodes {
        // hwloc may give two nodes the same CPUs; the kernel gives them to one
        let twin = theirs.nodes.iter().any(|(other, theirs)| {
            other != number && theirs == cpus && ours.nodes.get(other) == Some(cpus)
        });
        let mine = ours.nodes.get(number);
        if mine != Some(cpus) && !(twin && mine.is_some_and(CpuSet::is_empty)) {
            found.push(format!(
                "NUMA node {number} has {mine:?}, by hwloc {cpus:?}"
            ));
        }
    }
    // hwloc 2 drops nodes without memory, and the matrix with them
    let same_nodes = ours.nodes.keys().eq(theirs.nodes.keys());
    if same_nodes && ours.distances != theirs.distances {
        found.push(format!(
            "distances {:?}, by hwloc {:?}",
            ours.distances, theirs.distances
        ));
    }
    for address in theirs.gpus.iter().chain(theirs.nics.values()) {
        let (mine, other) = (
            ours.links.get(address),
            theirs.links.get(address).copied().unwrap_or(0.0),
        );
        // a link of at most 0.53 GB/s is conventional PCI, not PCIe
        let same = |mine: f64| {
            if mine == 0.0 {
                other < 0.5
            } else {
                (mine - other).abs() <= 0.1 * other
            }
        };
        if !mine.is_some_and(|&mine| same(mine)) {
            found.push(format!("{address} moves {mine:?} GB/s, by hwloc {other}"));
        }
    }
    for (pair, kind) in &theirs.paths {
        if ours.paths.get(pair) != Some(kind) {
            found.push(format!(
                "{pair:?} {:?}, by hwloc's tree {kind}",
                ours.paths.get(pair)
            ));
        }
    }
    for &gpu in &theirs.gpus {
        if ours.nearest(gpu) != theirs.nearest(gpu) {
            found.push(format!(
                "{gpu} nearest {:?}, hwloc {:?}",
                ours.nearest(gpu),
                theirs.nearest(gpu)
            ));
        }
    }
    found
}
