//! Our picture of a node against another program's.
#![forbid(unsafe_code)]

use nic_placement_core::topology::{GpuIndex, NicIndex, NicKind, PortState, Topology};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What two programs say otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// `GPU 0 to mlx5_0`
    pub what: String,
    pub ours: String,
    pub theirs: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// `nvidia-smi topo -m`
    pub program: String,
    /// why nothing was compared
    pub not_tried: Option<String>,
    /// facts that both state
    pub compared: usize,
    pub differences: Vec<Disagreement>,
}

impl Witness {
    pub fn not_tried(program: &str, why: impl Into<String>) -> Witness {
        Witness {
            program: program.to_string(),
            not_tried: Some(why.into()),
            compared: 0,
            differences: Vec::new(),
        }
    }

    pub fn of(program: &str, (compared, differences): (usize, Vec<Disagreement>)) -> Witness {
        Witness {
            program: program.to_string(),
            not_tried: None,
            compared,
            differences,
        }
    }

    pub fn agrees(&self) -> bool {
        self.not_tried.is_none() && self.differences.is_empty()
    }
}

/// How the GPUs of two pictures are matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpusBy {
    /// PCI addresses
    Address,
    /// positions: a matrix has no addresses
    Position,
}

#[derive(Default)]
struct Comparison {
    compared: usize,
    differences: Vec<Disagreement>,
}

impl Comparison {
    fn add(&mut self, what: impl FnOnce() -> String, ours: impl ToString, theirs: impl ToString) {
        let (ours, theirs) = (ours.to_string(), theirs.to_string());
        self.compared += 1;
        if ours != theirs {
            self.differences.push(Disagreement {
                what: what(),
                ours,
                theirs,
            });
        }
    }
}

/// The paths of all pairs of GPU and NIC, what one of the two pictures lacks, and the NUMA nodes of GPUs.  NICs are matched by name.
pub fn compare(ours: &Topology, theirs: &Topology, by: GpusBy) -> (usize, Vec<Disagreement>) {
    let mut all = Comparison::default();
    all.add(|| "GPUs".to_string(), ours.gpus.len(), theirs.gpus.len());
    let rdma = |of: &Topology| -> BTreeSet<String> {
        let rdma = of.nics.iter().filter(|nic| nic.kind != NicKind::Ethernet);
        rdma.map(|nic| nic.name.to_string()).collect()
    };
    let names = |of: &BTreeSet<String>| of.iter().cloned().collect::<Vec<_>>().join(",");
    all.add(
        || "NICs".to_string(),
        names(&rdma(ours)),
        names(&rdma(theirs)),
    );
    for (gpu, own) in ours.numbered_gpus() {
        let there = match by {
            GpusBy::Address => theirs.gpu_index(own.address),
            GpusBy::Position => Some(gpu).filter(|gpu| gpu.0 < theirs.gpus.len()),
        };
        let Some(there) = there else {
            all.add(|| format!("GPU {gpu}"), own.address, "none");
            continue;
        };
        gpu_s_node(&mut all, (ours, gpu), (theirs, there));
        for (nic, named) in ours.numbered_nics() {
            let Some(other) = theirs.nic_index(&named.name) else {
                continue;
            };
            let path = |of: &Topology, gpu: GpuIndex, nic: NicIndex| {
                let path = of
                    .nic(nic)
                    .address
                    .map(|nic| of.path_type(of.gpu(gpu).address, nic));
                path.map_or("unknown".to_string(), |path| path.to_string())
            };
            let what = || format!("GPU {gpu} to {}", named.name);
            all.add(what, path(ours, gpu, nic), path(theirs, there, other));
        }
    }
    (all.compared, all.differences)
}

/// By its CPUs: a matrix numbers no node.
fn gpu_s_node(all: &mut Comparison, ours: (&Topology, GpuIndex), theirs: (&Topology, GpuIndex)) {
    let cpus = |(of, gpu): (&Topology, GpuIndex)| {
        let node = of.numa_node(of.numa_node_of(of.gpu(gpu).address)?)?;
        (!node.cpus.is_empty()).then(|| node.cpus.to_string())
    };
    if let (Some(own), Some(other)) = (cpus(ours), cpus(theirs)) {
        all.add(|| format!("CPUs of GPU {}", ours.1), own, other);
    }
}

/// The ports of `rdma link`, lines as `link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth2` (rdma-link(8)).
pub fn rdma_link(ours: &Topology, text: &str) -> (usize, Vec<Disagreement>) {
    let mut all = Comparison::default();
    let mut theirs = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |name: &str| {
            words
                .iter()
                .position(|word| *word == name)
                .and_then(|at| words.get(at + 1))
        };
        if let Some(port) = after("link") {
            theirs.insert(
                port.replace('/', ":"),
                (after("state").copied(), after("netdev").copied()),
            );
        }
    }
    for nic in ours
        .nics
        .iter()
        .filter(|nic| matches!(nic.kind, NicKind::Verbs | NicKind::Efa))
    {
        for port in &nic.ports {
            let name = format!("{}:{}", nic.name, port.number);
            let Some((state, interface)) = theirs.remove(&name) else {
                all.add(|| name.clone(), "a port", "none");
                continue;
            };
            let is_active = |is: bool| if is { "active" } else { "not active" };
            all.add(
                || format!("{name}'s state"),
                is_active(port.state == PortState::Active),
                is_active(state == Some("ACTIVE")),
            );
            if let (Some(interface), Some(own)) = (interface, &port.netdev) {
                all.add(|| format!("{name}'s interface"), own, interface);
            }
        }
    }
    theirs
        .into_keys()
        .for_each(|name| all.add(|| name, "none", "a port"));
    (all.compared, all.differences)
}

/// The GPUs of `nvidia-smi -q`: a heading `GPU 00000000:1B:00.0`, then lines `Minor Number : 0` and `GPU UUID : GPU-…`.
pub fn nvidia_smi_q(ours: &Topology, text: &str) -> (usize, Vec<Disagreement>) {
    let mut all = Comparison::default();
    let mut at = None;
    let mut seen = 0;
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("GPU ") {
            seen += 1;
            at = heading
                .trim()
                .parse()
                .ok()
                .and_then(|address| ours.gpu_index(address));
            let found = at.map_or("none".to_string(), |_| heading.trim().to_string());
            all.add(|| heading.trim().to_string(), found, heading.trim());
        }
        let (Some(gpu), Some((name, value))) = (at, line.split_once(" : ")) else {
            continue;
        };
        let (gpu, value) = (ours.gpu(gpu), value.trim());
        match (name.trim(), gpu.minor, &gpu.uuid) {
            ("Minor Number", Some(minor), _) => {
                all.add(|| format!("{}: minor", gpu.address), minor, value)
            }
            // the UUID itself stays on the node
            ("GPU UUID", _, Some(uuid)) => {
                let same = if uuid.eq_ignore_ascii_case(value) {
                    "the same"
                } else {
                    "another"
                };
                all.add(|| format!("{}: UUID", gpu.address), "the same", same);
            }
            _ => {}
        }
    }
    all.add(|| "GPUs".to_string(), ours.gpus.len(), seen);
    (all.compared, all.differences)
}
