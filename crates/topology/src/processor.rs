//! What the node's processors are, by which NCCL tells how fast their sockets are connected.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// The node's processors; all sockets of a node have the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Row", into = "Row")]
pub struct Processor {
    pub arch: Arch,
    /// known on x86 only, where NCCL wants it
    pub x86: Option<X86>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arch {
    #[serde(rename = "x86_64")]
    X86,
    /// 64-bit Arm
    #[serde(rename = "arm64")]
    Arm,
    /// 64-bit POWER
    #[serde(rename = "ppc64")]
    Power,
}

/// What an x86 processor says of itself (CPUID leaves 0 and 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct X86 {
    pub vendor: CpuVendor,
    /// `cpu family` of /proc/cpuinfo, with the extended family added
    pub family: u32,
    /// `model` of /proc/cpuinfo, with the extended model before it
    pub model: u32,
}

/// A maker of x86 processors (the kernel's arch/x86/include/asm/processor.h, `X86_VENDOR_*`).
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
    /// With the kernel's number and CPUID's word.
    pub const ALL: [(CpuVendor, u32, &'static str); 5] = [
        (CpuVendor::Intel, 0, "GenuineIntel"),
        (CpuVendor::Amd, 2, "AuthenticAMD"),
        (CpuVendor::Centaur, 5, "CentaurHauls"),
        (CpuVendor::Hygon, 9, "HygonGenuine"),
        (CpuVendor::Zhaoxin, 10, "  Shanghai  "),
    ];

    pub fn word(self) -> &'static str {
        CpuVendor::ALL
            .iter()
            .find(|(vendor, ..)| *vendor == self)
            .map_or("", |(.., word)| word)
    }

    pub fn from_word(word: &str) -> Option<CpuVendor> {
        CpuVendor::ALL
            .iter()
            .find(|(.., known)| *known == word)
            .map(|(vendor, ..)| *vendor)
    }
}

/// A processor as a file has it: `vendor`, `family` and `model` together, or none of them.
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
        let (family, model) = (x86.map(|x86| x86.family), x86.map(|x86| x86.model));
        Row {
            arch,
            vendor: x86.map(|x86| x86.vendor),
            family,
            model,
        }
    }
}

impl TryFrom<Row> for Processor {
    type Error = &'static str;

    fn try_from(row: Row) -> Result<Processor, &'static str> {
        let x86 = match (row.vendor, row.family, row.model) {
            (Some(vendor), Some(family), Some(model)) if row.arch == Arch::X86 => {
                // the kernel's words for a processor have four digits for each number
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
        Ok(Processor {
            arch: row.arch,
            x86,
        })
    }
}

impl Processor {
    /// Reads `/sys/devices/system/cpu/modalias` (drivers/base/cpu.c, `print_cpu_modalias`), such as
    /// `cpu:type:x86,ven0000fam0006mod008F:feature:,0000,0001`.
    pub fn from_modalias(text: &str) -> Option<Processor> {
        let kind = text.strip_prefix("cpu:type:")?.split(":feature:").next()?;
        let (arch, numbers) = kind.split_once(',').unwrap_or((kind, ""));
        let arch = match arch {
            "x86" => Arch::X86,
            "aarch64" => Arch::Arm,
            "ppc64le" | "ppc64" => Arch::Power,
            _ => return None,
        };
        Some(Processor {
            arch,
            x86: x86(numbers).filter(|_| arch == Arch::X86),
        })
    }
}

/// `ven0000fam0006mod008F`
fn x86(numbers: &str) -> Option<X86> {
    let (vendor, rest) = numbers.strip_prefix("ven")?.split_once("fam")?;
    let (family, model) = rest.split_once("mod")?;
    let hex = |text: &str| {
        u32::from_str_radix(text, 16)
            .ok()
            .filter(|_| text.len() == 4)
    };
    let vendor = hex(vendor)?;
    let (vendor, ..) = *CpuVendor::ALL
        .iter()
        .find(|(_, number, _)| *number == vendor)?;
    Some(X86 {
        vendor,
        family: hex(family)?,
        model: hex(model)?,
    })
}
