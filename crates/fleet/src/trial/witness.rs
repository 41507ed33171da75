//! Our picture of a node beside another program's.

use nic_placement_core::topology::{GpuIndex, NicIndex, NicKind, PathType, PortState, Topology};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// `nvidia-smi topo -m`
    pub program: String,
    /// the reason why nothing was compared
    pub not_tried: Option<String>,
    pub compared: usize,
    /// `GPU 0 to mlx5_0: NODE here, SYS there`
    pub differences: Vec<String>,
}

impl Witness {
    pub fn not_tried(program: &str, why: impl Into<String>) -> Witness {
        let not_tried = Some(why.into());
        Witness {
            not_tried,
            ..Witness::of(program, (0, Vec::new()))
        }
    }

    pub fn of(program: &str, (compared, differences): (usize, Vec<String>)) -> Witness {
        let program = program.to_string();
        Witness {
            program,
            not_tried: None,
            compared,
            differences,
        }
    }

    pub fn agrees(&self) -> bool {
        self.not_tried.is_none() && self.differences.is_empty()
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum GpusBy {
    Address,
    /// the same; NCCL's dump has no host bridges, so NODE is PHB, and no NIC whose ports are down
    Nccl,
    /// positions: a matrix has no addresses
    Position,
}

#[derive(Default)]
struct Comparison {
    compared: usize,
    differences: Vec<String>,
}

impl Comparison {
    fn add(&mut self, what: impl FnOnce() -> String, ours: impl ToString, theirs: impl ToString) {
        let (ours, theirs) = (ours.to_string(), theirs.to_string());
        self.compared += 1;
        if ours != theirs {
            let what = what();
            self.differences
                .push(format!("{what}: {ours} here, {theirs} there"));
        }
    }
}

/// Paths of all pairs, devices that one picture lacks, NUMA nodes of GPUs; NICs by name.
pub fn compare(ours: &Topology, theirs: &Topology, by: GpusBy) -> (usize, Vec<String>) {
    let mut all = Comparison::default();
    all.add(|| "GPUs".to_string(), ours.gpus.len(), theirs.gpus.len());
    let rdma = |of: &Topology| {
        let names: BTreeSet<String> = of
            .nics
            .iter()
            .filter(|nic| nic.kind != NicKind::Ethernet)
            .map(|nic| nic.name.to_string())
            .collect();
        Vec::from_iter(names).join(",")
    };
    if by != GpusBy::Nccl {
        all.add(|| "NICs".to_string(), rdma(ours), rdma(theirs));
    }
    // a matrix numbers no NUMA node: nodes are compared by their CPUs
    let cpus = |of: &Topology, gpu: GpuIndex| {
        let node = of.numa_node(of.numa_node_of(of.gpu(gpu).address)?)?;
        (!node.cpus.is_empty()).then(|| node.cpus.to_string())
    };
    let path = |of: &Topology, gpu: GpuIndex, nic: NicIndex| {
        let nic = of.nic(nic).address;
        let path = nic.map(|nic| match of.path_type(of.gpu(gpu).address, nic) {
            PathType::Node if by == GpusBy::Nccl => PathType::Phb.to_string(),
            path => path.to_string(),
        });
        path.unwrap_or("unknown".to_string())
    };
    for (gpu, own) in ours.numbered_gpus() {
        let there = match by {
            GpusBy::Position => Some(gpu).filter(|gpu| gpu.0 < theirs.gpus.len()),
            _ => theirs.gpu_index(own.address),
        };
        let Some(there) = there else {
            all.add(|| format!("GPU {gpu}"), own.address, "none");
            continue;
        };
        if let (Some(own), Some(other)) = (cpus(ours, gpu), cpus(theirs, there)) {
            all.add(|| format!("CPUs of GPU {gpu}"), own, other);
        }
        for (nic, named) in ours.numbered_nics() {
            if let Some(other) = theirs.nic_index(&named.name) {
                all.add(
                    || format!("GPU {gpu} to {}", named.name),
                    path(ours, gpu, nic),
                    path(theirs, there, other),
                );
            }
        }
    }
    (all.compared, all.differences)
}

/// The ports of `rdma link`, lines as `link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev eth2` (rdma-link(8)).
pub fn rdma_link(ours: &Topology, text: &str) -> (usize, Vec<String>) {
    let mut all = Comparison::default();
    let mut theirs = BTreeMap::new();
    for line in text.lines() {
        let after = |name: &str| {
            line.split_whitespace()
                .skip_while(|word| *word != name)
                .nth(1)
        };
        if let Some(port) = after("link") {
            theirs.insert(port.replace('/', ":"), (after("state"), after("netdev")));
        }
    }
    for (nic, port) in ours
        .nics
        .iter()
        .filter(|nic| matches!(nic.kind, NicKind::Verbs | NicKind::Efa))
        .flat_map(|nic| nic.ports.iter().map(move |port| (nic, port)))
    {
        let name = format!("{}:{}", nic.name, port.number);
        let Some((state, interface)) = theirs.remove(&name) else {
            all.add(|| name, "a port", "none");
            continue;
        };
        let active = |is: bool| if is { "active" } else { "not active" };
        let ours = active(port.state == PortState::Active);
        all.add(
            || format!("{name}'s state"),
            ours,
            active(state == Some("ACTIVE")),
        );
        if let (Some(interface), Some(own)) = (interface, &port.netdev) {
            all.add(|| format!("{name}'s interface"), own, interface);
        }
    }
    theirs
        .into_keys()
        .for_each(|name| all.add(|| name, "none", "a port"));
    (all.compared, all.differences)
}
