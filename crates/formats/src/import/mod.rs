//! Reads other programs' descriptions of a node: hwloc's XML, NCCL's XML, the output of `nvidia-smi topo -m` and of AMD's tools.
//!
//! Pure: text in, topology out.  Every reader is bounded, returns one located error for a text it cannot
//! read, and a diagnostic for each thing that it left out or repaired.
#![forbid(unsafe_code)]

pub mod hwloc;
pub mod nccl;
pub mod smi;
mod xml;

pub use crate::manifest::BadText;

use nic_placement_core::diagnostic::{Diagnostic, Shown};
use nic_placement_core::topology::{Arch, CpuSet, CpuVendor, NumaNode, Processor, Topology, X86};

/// The most bytes of one file: the largest hwloc XML known, of a 1,792-CPU machine, has 2.5 MB.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

type Result<T, E = BadText> = std::result::Result<T, E>;

/// PCI vendor ids of Amazon (EFA) and Cray (Slingshot), whose RDMA devices libibverbs is not for.
const AMAZON: u16 = 0x1d0f;
const CRAY: u16 = 0x17db;

/// A node as it is read, and findings about its text.
struct Imported {
    topology: Topology,
    diagnostics: Vec<Diagnostic>,
}

impl Imported {
    fn note(&mut self, place: impl Into<String>, finding: impl Into<String>) {
        self.diagnostics.push(Diagnostic::new(place, finding));
    }
}

fn numa_node(os_index: u32, cpus: CpuSet) -> NumaNode {
    NumaNode {
        os_index,
        cpus,
        distances: Vec::new(),
        package: None,
    }
}

/// `None` for an x86 without CPUID's vendor string, family and model.
fn processor<'t>(
    arch: Arch,
    x86: impl FnOnce() -> Option<(&'t str, u32, u32)>,
) -> Option<Processor> {
    let x86 = match arch {
        Arch::X86 => {
            let (word, family, model) = x86()?;
            let mut vendors = CpuVendor::ALL.iter().map(|(vendor, _)| *vendor);
            Some(X86 {
                vendor: vendors.find(|vendor| vendor.to_string() == word)?,
                family,
                model,
            })
        }
        Arch::Arm | Arch::Power => None,
    };
    Some(Processor { arch, x86 })
}

/// Text from a file as a message may show it: short, and without characters that move a terminal's cursor.
fn shown(text: &str) -> Shown<'_> {
    Shown::word(text, 60)
}

/// A number of at most so many hexadecimal digits.
fn hex(digits: &str, most: usize) -> Option<u32> {
    // `from_str_radix` accepts a sign, which no id has
    let fits =
        (1..=most).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| fits)
}
