//! Reads other programs' descriptions of a node: hwloc's XML, NCCL's XML, the output of `nvidia-smi topo -m` and of AMD's tools.
//!
//! Pure: text in, topology out.  Every reader is bounded, returns one located error for a text it cannot
//! read, and a diagnostic for each thing that it left out or repaired.

pub mod hwloc;
pub mod nccl;
pub mod smi;
mod xml;

pub use crate::manifest::BadText;

use nic_placement_core::diagnostic::{Diagnostic, Shown};
use nic_placement_core::topology::{
    Arch, CpuSet, CpuVendor, HostBridge, NumaNode, PciAddress, Processor, Topology, X86,
};
use std::collections::BTreeMap;

/// The most bytes of one file: the largest hwloc XML known, of a 1,792-CPU machine, has 2.5 MB.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// By positions of two GPUs: `NV18`, `XGMI`, or another word of `nvidia-smi topo -m`.
pub(crate) type GpuLinks = BTreeMap<(usize, usize), String>;

type Result<T, E = BadText> = std::result::Result<T, E>;

/// PCI vendor ids of Amazon (EFA) and Cray (Slingshot), whose RDMA devices libibverbs is not for.
const AMAZON: u16 = 0x1d0f;
const CRAY: u16 = 0x17db;

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
fn processor(
    arch: Arch,
    vendor: Option<&str>,
    family: Option<u32>,
    model: Option<u32>,
) -> Option<Processor> {
    let x86 = || {
        let mut vendors = CpuVendor::ALL.iter().map(|(vendor, _)| *vendor);
        let word = vendor?;
        let vendor = vendors.find(|vendor| vendor.to_string() == word)?;
        let (family, model) = (family?, model?);
        Some(X86 {
            vendor,
            family,
            model,
        })
    };
    let x86 = if arch == Arch::X86 {
        Some(x86()?)
    } else {
        None
    };
    Some(Processor { arch, x86 })
}

fn shown(text: &str) -> Shown<'_> {
    Shown::word(text, 60)
}

/// A set as words of 32 bits, highest first, without their leading zeros: `0x0000ffff,,1`.
fn mask(text: &str) -> Option<CpuSet> {
    let padded: Option<String> = text
        .split(',')
        .map(|word| {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            (digits.len() <= 8).then(|| format!("{digits:0>8}"))
        })
        .collect();
    CpuSet::from_mask(&padded?).ok()
}

/// A function's host bridge where the file tells none: that of its bus.
fn host_of(address: PciAddress) -> HostBridge {
    let PciAddress { domain, bus, .. } = address;
    HostBridge { domain, bus }
}

/// The first function of the n-th bus from a domain on.
fn nth_bus(domain: u32, nth: u32) -> PciAddress {
    PciAddress {
        domain: domain + (nth >> 8),
        bus: nth as u8,
        device: 0,
        function: 0,
    }
}

/// A number as programs write it: two forms of one, such as `GPU7` and `GPU007`, would be two devices.
fn number(digits: &str) -> Option<u32> {
    let number = digits.parse::<u32>().ok();
    number.filter(|number| number.to_string() == digits)
}

/// A number of at most so many hexadecimal digits.
fn hex(digits: &str, most: usize) -> Option<u32> {
    // `from_str_radix` accepts a sign, which no id has
    let fits =
        (1..=most).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| fits)
}
