//! Our picture of a node beside another program's.

use nic_placement_core::topology::{GpuIndex, NicIndex, NicKind, PathType, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
        Witness {
            program: program.to_string(),
            not_tried: Some(why.into()),
            compared: 0,
            differences: Vec::new(),
        }
    }

    /// Paths of all pairs, devices that one picture lacks, NUMA nodes of GPUs; NICs by name.
    pub fn of(program: &str, ours: &Topology, theirs: &Topology, by: GpusBy) -> Witness {
        let mut witness = Witness {
            program: program.to_string(),
            not_tried: None,
            compared: 0,
            differences: Vec::new(),
        };
        witness.compare(ours, theirs, by);
        witness
    }

    pub fn agrees(&self) -> bool {
        self.not_tried.is_none() && self.differences.is_empty()
    }

    fn add(&mut self, what: impl FnOnce() -> String, ours: impl ToString, theirs: impl ToString) {
        let (ours, theirs) = (ours.to_string(), theirs.to_string());
        self.compared += 1;
        if ours != theirs {
            let what = what();
            self.differences
                .push(format!("{what}: {ours} here, {theirs} there"));
        }
    }

    fn compare(&mut self, ours: &Topology, theirs: &Topology, by: GpusBy) {
        self.add(|| "GPUs".to_string(), ours.gpus.len(), theirs.gpus.len());
        let rdma = |of: &Topology| {
            let nics = of.nics.iter().filter(|nic| nic.kind != NicKind::Ethernet);
            let names: BTreeSet<&str> = nics.map(|nic| nic.name.as_str()).collect();
            Vec::from_iter(names).join(",")
        };
        if by != GpusBy::Nccl {
            self.add(|| "NICs".to_string(), rdma(ours), rdma(theirs));
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
                self.add(|| format!("GPU {gpu}"), own.address, "none");
                continue;
            };
            if let (Some(own), Some(other)) = (cpus(ours, gpu), cpus(theirs, there)) {
                self.add(|| format!("CPUs of GPU {gpu}"), own, other);
            }
            for (nic, named) in ours.numbered_nics() {
                if let Some(other) = theirs.nic_index(&named.name) {
                    self.add(
                        || format!("GPU {gpu} to {}", named.name),
                        path(ours, gpu, nic),
                        path(theirs, there, other),
                    );
                }
            }
        }
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
