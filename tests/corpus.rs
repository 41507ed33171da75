//! Reads each file of a collection of real machines, where one lies beside the checkout: the counts of its index, what is stated
//! of them (`corpus/stated.tsv`), and a plan of each matrix that cannot be bettered.  The collection is no part of the project.
#![forbid(unsafe_code)]

#[path = "corpus/optimum.rs"]
mod optimum;
#[path = "corpus/plans.rs"]
mod plans;

use nic_placement_core::policy;
use nic_placement_core::topology::{
    Nic, NicKind, NumaNode, PciAddress, Provenance, Scope, Topology,
};
use nic_placement_core::wish::Wish;
use nic_placement_formats::describe::describe;
use nic_placement_formats::{file, import};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

type Checked<T> = Result<T, String>;

fn main() {
    let beside = Path::new(env!("NIC_PLACEMENT_ROOT")).join("../shared/corpus");
    if !beside.is_dir() {
        println!("skipped: no collection of real topologies beside the checkout");
        println!("0 passed, 0 failed, 2 skipped");
        return;
    }
    let (mut wrong, mut read) = (Vec::new(), BTreeMap::new());
    let index = fs::read_to_string(beside.join("INDEX.tsv")).expect("an index");
    for row in index.lines().skip(1) {
        let fields: Vec<&str> = row.split('\t').collect();
        if let Some(answer) = topology(&beside, fields[0], fields[1]) {
            let is_counted = matches!(fields[1], "nccl_topo_xml" | "nvidia_smi_topo");
            let counts = is_counted.then(|| format!("{} {}", fields[4], fields[5]));
            read.insert(fields[0], (answer, counts));
        }
    }
    let stated = include_str!("corpus/stated.tsv").lines();
    let stated = stated.filter(|line| !line.starts_with('#'));
    let mut facts = 0;
    let mut are_told = Vec::new();
    for line in stated {
        let fields: Vec<&str> = line.split('\t').collect();
        let [kind, path, device, expected] = fields[..] else {
            panic!("`{line}`");
        };
        facts += 1;
        are_told.push((kind, path));
        match read.get(path).map(|(answer, _)| fact(answer, kind, device)) {
            Some(Ok(found)) if found == expected => {}
            Some(Err(why)) if kind == "refused" && why.contains(expected) => {}
            other => wrong.push(format!("{line}: {other:?}")),
        }
    }
    for (path, (answer, counts)) in &read {
        let is_told = |kind| are_told.contains(&(kind, *path));
        match answer {
            Err(_) if is_told("refused") => {}
            Err(why) => wrong.push(format!("{path}: {why}")),
            Ok(topology) => {
                let again = file::from_json(&file::to_json(topology), topology.provenance.clone());
                if again.as_ref() != Ok(topology) {
                    wrong.push(format!("{path}: not the same as a topology file"));
                }
                let found = fact(answer, "counts", "").ok();
                if counts.is_some() && *counts != found && !is_told("counts") {
                    wrong.push(format!("{path}: {found:?}, not {counts:?}"));
                }
            }
        }
    }
    println!("ok: {} files read, {facts} stated facts", read.len());
    match plans::run(&beside) {
        Ok(summary) => println!("ok: {summary}"),
        Err(problem) => wrong.push(problem),
    }
    println!("{}", wrong.join("\n"));
    println!("2 passed, {} failed, 0 skipped", wrong.len());
    assert!(wrong.is_empty() && read.len() > 190 && facts > 100);
}

/// The machine of a file; `None` where such a file is none of a machine.
fn topology(corpus: &Path, path: &str, kind: &str) -> Option<Checked<Topology>> {
    let full = corpus.join(path);
    let bytes = match path.rsplit('.').next() {
        Some("bz2") => Command::new("bzip2").arg("-dc").arg(full).output(),
        Some("gz") => Command::new("gzip").arg("-dc").arg(full).output(),
        _ => Command::new("cat").arg(full).output(),
    };
    let bytes = bytes.expect("a file").stdout;
    let text = String::from_utf8_lossy(&bytes);
    let from = Provenance::File(path.to_string());
    let read = match kind {
        "hwloc_xml" if !text.contains("<topology version=") => {
            // hwloc 1 stated no version
            let refused = import::hwloc::read(&text, from).unwrap_err().to_string();
            assert!(
                refused.contains("expected `topology` of hwloc 2 or 3"),
                "{path}: {refused}"
            );
            return None;
        }
        "hwloc_xml" => import::hwloc::read(&text, from),
        "nccl_topo_xml" => import::nccl::read(&text, from),
        "nvidia_smi_topo" => import::smi::read(&text, from),
        "sysfs_tar" | "kfd_sysfs_tar" => {
            let read = describe(path, &bytes, Scope::Full);
            return Some(read.map(|(topology, _)| topology));
        }
        "nccl_graph_xml" | "nvidia_smi_topo_error" => {
            let refused = match kind {
                "nccl_graph_xml" => import::nccl::read(&text, from).is_err(),
                _ => import::smi::read(&text, from).is_err(),
            };
            assert!(refused, "{path} is no topology");
            return None;
        }
        _ => return None,
    };
    Some(read.map(|(found, _)| found).map_err(|bad| bad.to_string()))
}

/// A fact of `stated.tsv` as the project sees it.
fn fact(answer: &Checked<Topology>, kind: &str, device: &str) -> Checked<String> {
    let node = answer.as_ref().map_err(Clone::clone)?;
    let address = || match device.parse::<usize>() {
        Ok(gpu) => node.gpus[gpu].address,
        Err(_) => device.parse::<PciAddress>().expect("an address"),
    };
    let nics = || node.nics.iter().filter(|nic| nic.address.is_some());
    let verbs = node.nics.iter();
    let verbs = verbs.filter(|nic| nic.kind == NicKind::Verbs).count();
    Ok(match kind {
        "counts" => format!("{} {}", node.gpus.len(), node.nics.len()),
        "held" => format!("{} {verbs} {}", node.gpus.len(), node.numa_nodes.len()),
        "cpus" => {
            let cpus = |node: &NumaNode| match node.cpus.is_empty() {
                true => "-".to_string(),
                false => node.cpus.to_string(),
            };
            let all: Vec<String> = node.numa_nodes.iter().map(cpus).collect();
            all.join(" ")
        }
        "chosen" => {
            let map = policy::map(node, &Wish::default());
            let rails = map.gpus.iter().map(|gpu| map.rail(gpu.choices[0].rail));
            let names: Vec<String> = rails.map(|rail| rail.name.to_string()).collect();
            names.join(" ")
        }
        "node" => format!("{}", node.numa_node_of(address()).expect("a node")),
        "near" => {
            let fabric = || nics().filter(|nic| nic.kind != NicKind::Ethernet);
            let path = |nic: &Nic| nic.address.map(|to| node.path_type(address(), to));
            let least = fabric().filter_map(path).min();
            let near = fabric().filter(|nic| path(nic) == least);
            let mut names: Vec<String> = near.map(|nic| nic.name.to_string()).collect();
            names.sort();
            names.join(" ")
        }
        _ => return Err(format!("`{kind}`")),
    })
}
