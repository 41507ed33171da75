//! A node's processors, from which NCCL derives the bandwidth between sockets.

use crate::text::{display_as_serialized, hex};
use serde::{Deserialize, Serialize};

/// The processor model, the same on all sockets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Row", into = "Row")]
pub struct Processor {
    pub arch: Arch,
    /// `None` for unknown vendors, and on Arm and POWER, for which NCCL needs no model
    pub x86: Option<X86>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arch {
    #[serde(rename = "x86_64")]
    X86,
    #[serde(rename = "arm64")]
    Arm,
    #[serde(rename = "ppc64")]
    Power,
}

/// An x86 processor's identity (CPUID leaves 0 and 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct X86 {
    pub vendor: CpuVendor,
    /// `cpu family` of /proc/cpuinfo: base plus extended family
    pub family: u32,
    /// `model` of /proc/cpuinfo: extended model, then model
    pub model: u32,
}

/// A vendor of x86 processors (the kernel's arch/x86/include/asm/processor.h, `X86_VENDOR_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CpuVendor {
    #[serde(rename = "GenuineIntel")]
    Intel,
    #[serde(rename = "AuthenticAMD")]
    Amd,
    #[serde(rename = "HygonGenuine")]
    Hygon,
    #[serde(rename = "CentaurHauls")]
    Centaur,
    #[serde(rename = "  Shanghai  ")]
    Zhaoxin,
}

impl CpuVendor {
    /// Each vendor with its `X86_VENDOR_*` number.
    pub const ALL: [(CpuVendor, u32); 5] = [
        (CpuVendor::Intel, 0),
        (CpuVendor::Amd, 2),
        (CpuVendor::Centaur, 5),
        (CpuVendor::Hygon, 9),
        (CpuVendor::Zhaoxin, 10),
    ];
}

display_as_serialized!(CpuVendor);

/// A serialized [`Processor`]: all of `vendor`, `family` and `model`, or none.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    arch: Arch,
    vendor: Option<CpuVendor>,
    family: Option<u32>,
    model: Option<u32>,
}

impl From<Processor> for Row {
    fn from(Processor { arch, x86 }: Processor) -> Row {
        Row {
            arch,
            vendor: x86.map(|x86| x86.vendor),
            family: x86.map(|x86| x86.family),
            model: x86.map(|x86| x86.model),
        }
    }
}

impl TryFrom<Row> for Processor {
    type Error = &'static str;

    fn try_from(row: Row) -> Result<Processor, &'static str> {
        let arch = row.arch;
        let x86 = match (row.vendor, row.family, row.model) {
            (Some(vendor), Some(family), Some(model)) if arch == Arch::X86 => {
                // `modalias` has four hexadecimal digits for each
                if family.max(model) > 0xffff {
                    return Err("expected `family` and `model` below `65536`");
                }
                Some(X86 {
                    vendor,
                    family,
                    model,
                })
            }
            (None, None, None) => None,
            _ => return Err("expected `vendor`, `family` and `model` together, on `x86_64`"),
        };
        Ok(Processor { arch, x86 })
    }
}

impl Processor {
    /// Parses `/sys/devices/system/cpu/modalias` (drivers/base/cpu.c, `print_cpu_modalias`), such
    /// as `cpu:type:x86,ven0000fam0006mod008F:feature:,0000,0001`.
    pub fn from_modalias(text: &str) -> Option<Processor> {
        let kind = text.strip_prefix("cpu:type:")?.split(":feature:").next()?;
        let (arch, numbers) = kind.split_once(',').unwrap_or((kind, ""));
        let arch = match arch {
            "x86" => Arch::X86,
            "aarch64" => Arch::Arm,
            "ppc64le" | "ppc64" => Arch::Power,
            _ => return None,
        };
        let x86 = x86(numbers).filter(|_| arch == Arch::X86);
        Some(Processor { arch, x86 })
    }
}

fn x86(numbers: &str) -> Option<X86> {
    let (vendor, rest) = numbers.strip_prefix("ven")?.split_once("fam")?;
    let (family, model) = rest.split_once("mod")?;
    if [vendor, family, model].iter().any(|text| text.len() != 4) {
        return None;
    }
    let vendor: u32 = hex(vendor, 4)?;
    Some(X86 {
        vendor: CpuVendor::ALL.iter().find(|known| known.1 == vendor)?.0,
        family: hex(family, 4)?,
        model: hex(model, 4)?,
    })
}
