//! Indices of GPUs, NICs and ports.

use super::{Gpu, Nic, Port, Topology};

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub usize);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index! {
    /// Index in [`Topology::gpus`], from 0: the CUDA index under `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    GpuIndex
}

index! {
    /// Index in [`Topology::nics`], from 0.
    NicIndex
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRef {
    pub nic: NicIndex,
    /// from 1
    pub port: u8,
}

impl Topology {
    pub fn gpu(&self, gpu: GpuIndex) -> &Gpu {
        &self.gpus[gpu.0]
    }

    pub fn nic(&self, nic: NicIndex) -> &Nic {
        &self.nics[nic.0]
    }

    pub fn port(&self, at: PortRef) -> Option<&Port> {
        let mut ports = self.nic(at.nic).ports.iter();
        ports.find(|port| port.number == at.port)
    }

    pub fn gpu_indices(&self) -> impl DoubleEndedIterator<Item = GpuIndex> + use<> {
        (0..self.gpus.len()).map(GpuIndex)
    }

    pub fn numbered_gpus(&self) -> impl Iterator<Item = (GpuIndex, &Gpu)> {
        self.gpu_indices().zip(&self.gpus)
    }

    pub fn numbered_nics(&self) -> impl Iterator<Item = (NicIndex, &Nic)> {
        (0..).map(NicIndex).zip(&self.nics)
    }

    pub fn nic_index(&self, name: &str) -> Option<NicIndex> {
        let mut nics = self.nics.iter();
        nics.position(|nic| nic.name == name).map(NicIndex)
    }
}
