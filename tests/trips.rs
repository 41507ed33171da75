//! Every format that the tool writes is read back as the same node with the same decisions: the topology file, the node file,
//! the snapshot, a tar of it, and NCCL's file by NCCL's own rules.
//!
//! Over the built-in machines, generated ones, and a collection of real files, if one lies beside the checkout.
#![forbid(unsafe_code)]

#[path = "trips/made.rs"]
mod made;
#[path = "../crates/formats/src/import/nccl/tests/rules.rs"]
mod rules;

use nic_placement_core::policy;
use nic_placement_core::topology::Scope;
use nic_placement_core::topology::{
    Gpu, Nic, NicIndex, NicKind, PathType, Port, PortState, Topology,
};
use nic_placement_core::wish::Wish;
use nic_placement_formats::describe::{self, describe};
use nic_placement_formats::import::nccl;
use nic_placement_formats::{file, manifest, node_file};
use nic_placement_node::cache;
use nic_placement_node::discover::manifest::{Entry, Manifest};
use nic_placement_testing::synthesise::synthesise;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything that a decision rests on, and the decisions for the node, in lines.  Interfaces that are plain Ethernet are known
/// for people only.
fn facts(topology: &Topology) -> Vec<String> {
    let mut facts = vec![format!("name {:?} {:?}", topology.name, topology.processor)];
    facts.extend(topology.numa_nodes.iter().map(|node| format!("{node:?}")));
    facts.extend(topology.pus.iter().map(|pu| format!("{pu:?}")));
    facts.extend(topology.gpus.iter().map(|gpu| format!("{gpu:?}")));
    let is_fabric = |nic: &&Nic| nic.kind != NicKind::Ethernet;
    let fabric = || topology.nics.iter().filter(is_fabric);
    facts.extend(fabric().map(|nic| {
        // an interface is a port, of which nothing else may be known
        let mut nic = nic.clone();
        let is_verbs = nic.kind == NicKind::Verbs;
        let is_known = |port: &Port| port.state != PortState::Unknown || port.rate_mbps.is_some();
        nic.ports.retain(|port| is_verbs || is_known(port));
        format!("{nic:?}")
    }));
    let gpus = topology.gpus.iter().map(|gpu| gpu.address);
    for device in gpus.chain(fabric().filter_map(|nic| nic.address)) {
        let functions = topology.pci.climb(device).0;
        facts.extend(functions.iter().map(|function| format!("{function:?}")));
    }
    facts.extend(topology.stated_paths.iter().map(|path| format!("{path:?}")));
    let mut node = policy::map(topology, &Wish::default());
    node.excluded
        .retain(|excluded| fabric().any(|nic| nic.name == excluded.name));
    for rail in node.rails.iter_mut().chain(&mut node.broken) {
        rail.nic = NicIndex(fabric().position(|nic| nic.name == rail.name).unwrap());
    }
    facts.extend(format!("{node:#?}").lines().map(str::to_string));
    facts
}

/// The first difference.
fn same(of: &str, was: &Topology, is: &Topology) -> Result<(), String> {
    let (was, is) = (facts(was), facts(is));
    match was.iter().zip(&is).find(|(was, is)| was != is) {
        Some((was, is)) => Err(format!("{of}: was {was}\n{of}: is  {is}")),
        None if was.len() != is.len() => {
            Err(format!("{of}: {} facts, and were {}", is.len(), was.len()))
        }
        None => Ok(()),
    }
}

fn read(bytes: &[u8]) -> Result<Topology, String> {
    Ok(describe("file", bytes, Scope::Full)?.0)
}

/// Writes a node in every format, and reads it again.
fn survives(topology: &Topology) -> Result<(), String> {
    let stamp = cache::Stamp {
        boot_id: "b".to_string(),
        boottime: 1,
        time: "now".to_string(),
    };
    let node = cache::NodeFile {
        stamp,
        registered: Default::default(),
        links: BTreeMap::new(),
        topology: topology.clone(),
    };
    let manifest = synthesise(topology);
    for (of, bytes) in [
        ("topology file", file::to_json(topology).into_bytes()),
        ("node file", node_file::to_bytes(&node)),
        ("snapshot", manifest::text(&manifest).into_bytes()),
        ("tar", tar_of(&manifest)),
    ] {
        same(of, topology, &read(&bytes)?)?;
    }
    let again = manifest::parse(&manifest::text(&manifest)).map_err(|bad| bad.to_string())?;
    if manifest::text(&again) != manifest::text(&manifest) {
        return Err("the snapshot's text differs".to_string());
    }
    nccl_reads(topology)
}

/// A tar as tar(1) makes it of an unpacked snapshot.
fn tar_of(manifest: &Manifest) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, entry) in manifest.iter() {
        let path = format!("machine/{path}");
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        let written = match entry {
            Entry::Directory => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_size(0);
                builder.append_data(&mut header, format!("{path}/"), std::io::empty())
            }
            Entry::File(text) => {
                let text = format!("{text}\n");
                header.set_size(text.len() as u64);
                builder.append_data(&mut header, path, text.as_bytes())
            }
            Entry::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                builder.append_link(&mut header, path, target)
            }
        };
        written.unwrap();
    }
    builder.into_inner().unwrap()
}

/// NCCL's file says where everything stands, by NCCL's rules; what it says otherwise is told.
fn nccl_reads(topology: &Topology) -> Result<(), String> {
    let Ok(text) = nccl::write(topology) else {
        return Ok(());
    };
    if text.contains("ffffffff:") || text.contains("<nic") {
        return Err(format!("NCCL's file:\n{text}"));
    }
    let again = read(text.as_bytes()).map_err(|bad| format!("NCCL's file: {bad}\n{text}"))?;
    // NCCL finds devices by their addresses, and these must be those of devices
    let is_real = |gpu: &Gpu| !gpu.address.is_invented() && gpu.partition.is_none();
    let is_known = topology.gpus.iter().all(is_real);
    let is_own = |nic: &Nic| nic.address.is_none_or(|at| at == rules::sought(at));
    let is_sought = rules::listed(topology).all(is_own);
    if topology.gpus.is_empty() || !is_known || !is_sought {
        return Ok(());
    }
    for bus in [Some(&rules::bus(topology)), None] {
        let told = |bad| format!("NCCL's file: {bad}\n{text}");
        for ((rank, name), kind) in rules::kinds(&text, topology, bus).map_err(told)? {
            let nic = topology.nics.iter().find(|nic| nic.name == *name).unwrap();
            let Some(address) = nic.address else { continue };
            let expected = topology.path_type(topology.gpus[rank].address, address);
            // the two levels of a Broadcom switch are one later
            let is_one = (expected, kind) == (PathType::Pix, PathType::Pxb);
            // what no tree can hold, and NODE, the project's own reader finds too
            let is_held = again.path_type(topology.gpus[rank].address, address) == kind;
            if kind != expected && !is_one && !is_held {
                let found = format!("GPU {rank} and {name} at {kind}, not {expected}");
                return Err(format!("NCCL's file: {found}\n{text}"));
            }
        }
    }
    Ok(())
}

#[test]
fn every_built_in_machine_survives_every_format() {
    for model in nic_placement_node::platform::MODELS {
        let survived = survives(&model.topology().unwrap());
        survived.unwrap_or_else(|lost| panic!("{}: {lost}", model.name));
    }
}

#[test]
fn a_node_whose_name_has_spaces_survives_and_one_with_a_model_keeps_what_that_supplied() {
    let mut topology = nic_placement_node::platform::model("azure-nd96isr-h100-v5").unwrap();
    for name in ["PowerEdge XE9680", "Virtual Machine"] {
        topology.name = name.to_string();
        survives(&topology).unwrap();
    }
    topology.supplied_by = Some("azure-nd96isr-h100-v5".to_string());
    let again = read(manifest::text(&synthesise(&topology)).as_bytes()).unwrap();
    assert_eq!(again.supplied_by, topology.supplied_by);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_generated_machine_survives_every_format(topology in made::machines()) {
        survives(&topology).map_err(proptest::test_runner::TestCaseError::fail)?;
    }
}

/// All files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// The content of a file, unpacked where it is compressed; `None` if nothing can unpack it here.
fn content(path: &Path) -> Option<Vec<u8>> {
    let program = match path.extension()?.to_str()? {
        "bz2" => "bzip2",
        "gz" => "gzip",
        _ => return std::fs::read(path).ok(),
    };
    let unpacked = Command::new(program).arg("-dc").arg(path).output().ok()?;
    unpacked.status.success().then_some(unpacked.stdout)
}

#[test]
fn every_real_file_that_loads_survives_every_format() {
    let beside = Path::new(env!("NIC_PLACEMENT_ROOT")).parent();
    let corpus = beside.map(|above| above.join("shared/corpus"));
    let Some(corpus) = corpus.filter(|corpus| corpus.is_dir()) else {
        return println!("skipped: no collection of files");
    };
    let mut paths = Vec::new();
    files(&corpus, &mut paths);
    paths.sort();
    let (mut loaded, mut lost) = (0, Vec::new());
    for path in &paths {
        let Some(bytes) = content(path).filter(|bytes| bytes.len() <= describe::MAX_FILE) else {
            continue;
        };
        if bytes.starts_with(b"{") {
            continue;
        }
        let Ok((topology, _)) = describe("file", &bytes, Scope::Full) else {
            continue;
        };
        loaded += 1;
        if let Err(why) = survives(&topology) {
            lost.push(format!("{}: {why}", path.display()));
        }
    }
    println!("{loaded} files survive every format");
    assert!(
        loaded > 190 && lost.is_empty(),
        "{loaded}:\n{}",
        lost.join("\n")
    );
}
