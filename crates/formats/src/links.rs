//! Links between GPUs, as far as files say them: for people to compare. No decision uses them.

use crate::describe::{FileFormat, contents, format_of};
use crate::import::{self, GpuLinks};
use nic_placement_core::topology::{Provenance, Topology};

/// The links that a node's file tells; NVIDIA's driver has NVLinks in no file.
pub fn between_gpus(node: &Topology) -> GpuLinks {
    let Provenance::File(path) = &node.provenance else {
        return GpuLinks::new();
    };
    let bytes = contents(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    match format_of(&bytes) {
        Ok(FileFormat::Smi) => import::smi::between_gpus(&text),
        Ok(FileFormat::Nccl) => import::nccl::between_gpus(&text, node),
        _ => GpuLinks::new(),
    }
}
