//! Captured `/sys` trees: every archive loads, and hwloc, reading the same tree itself, agrees on where NICs and GPUs are.
#![forbid(unsafe_code)]

use nic_placement_core::topology::Scope;
use nic_placement_core::topology::{NicKind, Provenance, Topology};
use nic_placement_formats::describe::{FileFormat, describe_as};
use nic_placement_formats::import;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the archives hold, counted by hand: `(file, GPUs, verbs devices, NUMA nodes)`.
const HELD: [(&str, usize, usize, usize); 10] = [
    ("hwloc__2pa-pcidomain32bits.tar.bz2", 0, 0, 1),
    ("hwloc__32em64t-2n8c+1mic.tar.bz2", 0, 2, 2),
    ("hwloc__32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2", 0, 2, 2),
    ("hwloc__40intel64-2g2n4c+pci.tar.bz2", 0, 1, 4),
    ("hwloc__40intel64-2g2n4c+pcilocality.tar.bz2", 0, 1, 4),
    ("hwloc__40intel64-4n10c+pci-conflicts.tar.bz2", 0, 0, 4),
    ("hwloc__fakepcilocalities.tar.bz2", 0, 1, 4),
    // its tree has no PCI
    ("hwloc__nvidia-dgx-gb10.tar.bz2", 0, 0, 1),
    // AMD's compute topology alone
    ("rocm-k8s-dp__topo-mi210-xgmi-pcie.tar.gz", 8, 0, 0),
    ("rocm-k8s-dp__topology-parsing-mi308.tar.gz", 32, 0, 0),
];

pub fn run(corpus: &Path) -> Result<String, String> {
    let folder = corpus.join("sysfs");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let place = std::env::temp_dir().join(format!("nic-placement-sysfs-{}", std::process::id()));
    let (mut loaded, mut compared, mut devices) = (0, 0, 0);
    for file in &files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let bytes = unpacked(file)?;
        let (topology, _) = describe_as(name, &bytes, Scope::Full, FileFormat::Sysfs)?;
        let verbs = topology
            .nics
            .iter()
            .filter(|nic| nic.kind == NicKind::Verbs)
            .count();
        let found = (topology.gpus.len(), verbs, topology.numa_nodes.len());
        match HELD.iter().find(|held| held.0 == name) {
            Some(&(_, gpus, nics, nodes)) if found == (gpus, nics, nodes) => loaded += 1,
            Some(held) => return Err(format!("{held:?} expected, {found:?} found")),
            None => return Err(format!("`{name}` is new: say what it holds")),
        }
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
        let count = compare(name, &bytes, &topology, &place);
        let _ = std::fs::remove_dir_all(&place);
        if let Some(count) = count? {
            compared += 1;
            devices += count;
        }
    }
    if loaded < HELD.len() {
        return Err(format!("{loaded} archives of {}", HELD.len()));
    }
    let opinion = match compared {
        0 => "no second opinion: hwloc's tools are not installed".to_string(),
        _ => format!("{compared} compared with hwloc's own reading, {devices} devices, 0 differ"),
    };
    Ok(format!("sysfs: {loaded} archives load; {opinion}"))
}

fn unpacked(file: &Path) -> Result<Vec<u8>, String> {
    let program = if file.extension().is_some_and(|extension| extension == "bz2") {
        "bzip2"
    } else {
        "gzip"
    };
    let output = Command::new(program)
        .arg("-dc")
        .arg(file)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    output
        .status
        .success()
        .then_some(output.stdout)
        .ok_or(format!("{program} cannot read {}", file.display()))
}

/// Address, NUMA node and host bridge's family of each NIC on PCI, by network or verbs name.
type Reading = BTreeMap<String, (String, Option<u32>, BTreeSet<String>)>;

/// hwloc's reading of the same tree, by its XML; `None` where its tools are missing or the archive has no `/sys`.
fn compare(
    name: &str,
    bytes: &[u8],
    ours: &Topology,
    place: &Path,
) -> Result<Option<usize>, String> {
    let archive = place.join("machine.tar");
    std::fs::write(&archive, bytes).map_err(|error| error.to_string())?;
    let status = Command::new("tar")
        .arg("-C")
        .arg(place)
        .arg("-xf")
        .arg(&archive)
        .status();
    status.map_err(|error| format!("tar: {error}"))?;
    let root = std::fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let Some(root) = root.into_iter().find(|path| path.join("sys").is_dir()) else {
        return Ok(None);
    };
    let lstopo = Command::new("lstopo-no-graphics")
        .args(["--of", "xml", "--whole-io"])
        .env("HWLOC_FSROOT", &root)
        .env("HWLOC_COMPONENTS", "linux,stop")
        .output();
    let Ok(output) = lstopo else { return Ok(None) };
    let xml = String::from_utf8(output.stdout).map_err(|error| format!("{name}: {error}"))?;
    let provenance = Provenance::File(name.to_string());
    let (theirs, _) = import::hwloc::read(&xml, provenance)
        .map_err(|bad| format!("{name}: lstopo's XML: {bad}"))?;

    let nodes = |topology: &Topology| -> Vec<(u32, String)> {
        topology
            .numa_nodes
            .iter()
            .map(|node| (node.os_index, node.cpus.to_string()))
            .collect()
    };
    if nodes(ours) != nodes(&theirs) {
        return Err(format!(
            "{name}: NUMA nodes {:?}, hwloc says {:?}",
            nodes(ours),
            nodes(&theirs)
        ));
    }
    let (mine, hwlocs) = (reading(ours), reading(&theirs));
    let mut count = 0;
    for (nic, (address, node, switch)) in &mine {
        let Some((their_address, their_node, their_switch)) = hwlocs.get(nic) else {
            return Err(format!("{name}: hwloc does not find `{nic}`"));
        };
        // Each reader may know a node that the other does not.  hwloc has quirks for known boards.  It uses the CPUs near the
        // host bridge if the kernel names a node only for the function (qib0 of the PowerEdge R910).
        let node_differs = node.is_some() && their_node.is_some() && node != their_node;
        if address != their_address || node_differs || switch != their_switch {
            return Err(format!(
                "{name}: {nic}: {:?}, hwloc says {:?}",
                mine[nic], hwlocs[nic]
            ));
        }
        count += 1;
    }
    Ok(Some(count))
}

/// For each NIC, the NICs that share its PCI switch or card.
fn reading(topology: &Topology) -> Reading {
    use nic_placement_core::topology::PathType;
    let on_pci: Vec<_> = topology
        .nics
        .iter()
        .filter_map(|nic| Some((nic, nic.address?)))
        .collect();
    on_pci
        .iter()
        .map(|(nic, address)| {
            let beside = on_pci
                .iter()
                .filter(|(_, other)| topology.path_type(*address, *other) <= PathType::Pxb);
            let beside = beside.map(|(other, _)| other.name.to_string()).collect();
            (
                nic.name.to_string(),
                (address.to_string(), topology.numa_node_of(*address), beside),
            )
        })
        .collect()
}
