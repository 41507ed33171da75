//! GPUs as people and programs name them: by position in PCI order, or by PCI address.
#![forbid(unsafe_code)]

use super::{Bitmap, GpuIndex, PciAddress, Topology};
use crate::diagnostic::Shown;
use std::fmt;

/// Why a list names no GPUs of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadGpuList {
    /// the list has an empty word
    Empty(String),
    /// what is neither a list of numbers nor a PCI address
    Unknown(String),
    /// `(address, node)`: it has no GPU there
    NoAddress(String, String),
    /// `(position, node, how many it has)`
    NoIndex(GpuIndex, String, usize),
    /// the same one again
    Twice(GpuIndex),
}

impl fmt::Display for BadGpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadGpuList::Empty(list) => {
                let list = Shown::word(list, 40);
                write!(
                    f,
                    "the list `{list}` has an empty word: expected a list such as `0-3,5`, or PCI addresses"
                )
            }
            BadGpuList::Unknown(bad) => write!(f, "{bad}, or PCI addresses"),
            BadGpuList::NoAddress(address, node) => {
                write!(f, "no GPU of `{node}` has the address `{address}`")
            }
            BadGpuList::NoIndex(gpu, node, count) => write!(f, "no GPU {gpu}, `{node}` has {count}"),
            BadGpuList::Twice(gpu) => write!(f, "GPU {gpu} is named twice"),
        }
    }
}

impl std::error::Error for BadGpuList {}

impl Topology {
    /// The GPUs that a list names, such as `0-3,5` or PCI addresses, in the order given.
    pub fn gpus_named(&self, list: &str) -> Result<Vec<GpuIndex>, BadGpuList> {
        let mut gpus: Vec<GpuIndex> = Vec::new();
        for word in list.split(',').map(str::trim) {
            if word.is_empty() {
                return Err(BadGpuList::Empty(list.to_string()));
            }
            let found: Vec<GpuIndex> = if let Ok(address) = word.parse::<PciAddress>() {
                let gpu = self.gpu_index(address);
                vec![gpu.ok_or_else(|| BadGpuList::NoAddress(word.to_string(), self.name.clone()))?]
            } else {
                let set = Bitmap::from_list(word).map_err(|bad| BadGpuList::Unknown(bad.to_string()))?;
                set.iter().map(|index| GpuIndex(index as usize)).collect()
            };
            for gpu in found {
                if gpu.0 >= self.gpus.len() {
                    return Err(BadGpuList::NoIndex(gpu, self.name.clone(), self.gpus.len()));
                }
                if gpus.contains(&gpu) {
                    return Err(BadGpuList::Twice(gpu));
                }
                gpus.push(gpu);
            }
        }
        Ok(gpus)
    }
}
