//! How GPUs reach ports of the node, whether these may be chosen or not.
#![forbid(unsafe_code)]

use super::{Through, Ways};
use crate::placement::{Rail, RailIndex};
use crate::topology::{GpuIndex, PathType, Topology};
use std::cmp::Reverse;

/// The ways from every GPU to some ports.
pub(crate) struct Reach(Ways);

impl Reach {
    /// The ways to these ports, whose positions name them from here on.
    pub(crate) fn new(topology: &Topology, ports: &[Rail], through: &Through) -> Reach {
        Reach(Ways::new(topology, ports, through, &vec![1; topology.gpus.len()]))
    }

    /// The path to a port.
    pub(crate) fn path(&self, gpu: GpuIndex, port: usize) -> PathType {
        self.0.kind(gpu, RailIndex(port))
    }

    /// What the path gives when no other path shares it, in Mbit/s; `None` if no rate is known.
    pub(crate) fn alone_mbps(&self, gpu: GpuIndex, port: usize) -> Option<u64> {
        self.0.rates_known().then(|| self.0.value(gpu, RailIndex(port)))
    }

    /// Of these ports the one that gives the GPU most; of equals the nearest, of these the first.
    pub(crate) fn best(&self, gpu: GpuIndex, ports: impl Iterator<Item = usize>) -> Option<usize> {
        ports.min_by_key(|&port| (Reverse(self.0.value(gpu, RailIndex(port))), self.path(gpu, port), port))
    }
}
