//! Reads other programs' descriptions of a node: hwloc's XML, NCCL's XML, the output of `nvidia-smi topo -m` and of AMD's tools.
//!
//! Pure: text in, topology out.  Every reader is bounded, returns one located error for a text it cannot
//! read, and a diagnostic for each thing that it left out or repaired.

pub mod hwloc;
pub mod nccl;
pub mod smi;
mod xml;

pub use crate::manifest::BadText;

use crate::file;
use nic_placement_core::diagnostic::{Diagnostic, Shown, counted};
use nic_placement_core::topology::{
    Arch, CpuSet, CpuVendor, HostBridge, NumaNode, PciAddress, Processor, Provenance, Topology, X86,
};

/// The most bytes of one file: the largest hwloc XML known, of a 1,792-CPU machine, has 2.5 MB.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

type Result<T, E = BadText> = std::result::Result<T, E>;

/// PCI vendor ids of Amazon (EFA) and Cray (Slingshot), whose RDMA devices libibverbs is not for.
const AMAZON: u16 = 0x1d0f;
const CRAY: u16 = 0x17db;

/// The most findings about one file: a broken file can have one for each of its objects.
const MAX_FINDINGS: usize = 64;

struct Imported {
    topology: Topology,
    diagnostics: Vec<Diagnostic>,
    unsaid: usize,
}

impl Imported {
    fn new(name: &str, provenance: Provenance) -> Imported {
        Imported {
            topology: Topology::empty(name, provenance),
            diagnostics: Vec::new(),
            unsaid: 0,
        }
    }

    fn note(&mut self, place: impl Into<String>, finding: impl Into<String>) {
        if self.diagnostics.len() < MAX_FINDINGS {
            self.diagnostics.push(Diagnostic::new(place, finding));
        } else {
            self.unsaid += 1;
        }
    }

    /// Refuses what a topology file could not hold: a name, an address or a CPU twice, or too many.
    fn finish(mut self) -> Result<(Topology, Vec<Diagnostic>)> {
        if self.unsaid > 0 {
            let more = counted(self.unsaid, "more finding");
            self.diagnostics.push(Diagnostic::new("file", more));
        }
        self.topology.sort();
        let from = self.topology.provenance.clone();
        file::from_json(&file::to_json(&self.topology), from)
            .map_err(|bad| BadText::new(0, bad.to_string()))?;
        Ok((self.topology, self.diagnostics))
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
