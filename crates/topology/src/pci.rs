//! PCI functions, and the bridges and links above them.

use super::bitmap::CpuSet;
use super::link::PcieLink;
use super::text::{self, hex, serde_as_text};
use crate::diagnostic::Shown;
use crate::order::Order;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// `domain:bus:device.function`, ordered by number.
///
/// The domain has 32 bits: Intel VMD and virtual machines use domains above `ffff`
/// (`10000:00:02.0`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// PCI segment
    pub domain: u32,
    pub bus: u8,
    /// below 32
    pub device: u8,
    /// below 8
    pub function: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPciAddress(pub String);

impl BadPciAddress {
    fn of(text: &str) -> BadPciAddress {
        BadPciAddress(Shown::message(text, 80).into())
    }
}

impl fmt::Display for BadPciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a PCI address: expected `domain:bus:device.function` such as `0000:1b:00.0`",
            self.0
        )
    }
}

impl PciAddress {
    pub fn card(self) -> PciAddress {
        PciAddress {
            function: 0,
            ..self
        }
    }

    fn number(self) -> u64 {
        u64::from(self.domain) << 32
            | u64::from(self.bus) << 16
            | u64::from(self.device) << 8
            | u64::from(self.function)
    }

    fn is_valid(self) -> bool {
        self.device < 32 && self.function < 8
    }

    /// First domain of invented addresses: importers make them for files without addresses, and
    /// reports omit them.
    pub const INVENTED: u32 = 0xfffd_0000;

    pub fn is_invented(self) -> bool {
        self.domain >= PciAddress::INVENTED
    }

    pub fn described(self) -> Option<String> {
        (!self.is_invented()).then(|| self.to_string())
    }
}

impl FromStr for PciAddress {
    type Err = BadPciAddress;

    /// Parses `0000:1b:00.0`, `1b:00.0` (domain 0) and nvidia-smi's `00000000:1B:00.0`.
    fn from_str(text: &str) -> Result<PciAddress, BadPciAddress> {
        let read = || {
            let (rest, function) = text.rsplit_once('.')?;
            let (rest, device) = rest.rsplit_once(':')?;
            let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
            Some(PciAddress {
                domain: hex(domain, 8)?,
                bus: hex(bus, 2)?,
                device: hex(device, 2)?,
                function: hex(function, 1)?,
            })
        };
        read()
            .filter(|at| at.is_valid())
            .ok_or_else(|| BadPciAddress::of(text))
    }
}

serde_as_text!(
    PciAddress,
    "a PCI address such as `0000:1b:00.0`",
    u64,
    |at| at.number(),
    |number| {
        let [.., bus, device, function] = number.to_be_bytes();
        let domain = (number >> 32) as u32;
        Some(PciAddress {
            domain,
            bus,
            device,
            function,
        })
        .filter(|at| at.number() == number && at.is_valid())
    }
);

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{:x}",
            self.domain, self.bus, self.device, self.function
        )
    }
}

/// A host bridge, between a PCI hierarchy and the CPU; in sysfs `pciDDDD:BB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostBridge {
    /// PCI segment
    pub domain: u32,
    /// root bus
    pub bus: u8,
}

impl FromStr for HostBridge {
    type Err = BadPciAddress;

    /// Parses sysfs's directory name, `pci0000:15`.
    fn from_str(text: &str) -> Result<HostBridge, BadPciAddress> {
        let read = || {
            let place = text.strip_prefix("pci")?;
            let (domain, bus) = place.rsplit_once(':').unwrap_or(("0", place));
            Some(HostBridge {
                domain: hex(domain, 8)?,
                bus: hex(bus, 2)?,
            })
        };
        read().ok_or_else(|| BadPciAddress::of(text))
    }
}

impl fmt::Display for HostBridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pci{:04x}:{:02x}", self.domain, self.bus)
    }
}

/// The next device above a PCI function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PciParent {
    /// a PCI-to-PCI bridge: a root port or a switch's port
    Bridge(PciAddress),
    Host(HostBridge),
}

impl PciParent {
    pub fn bridge(self) -> Option<PciAddress> {
        match self {
            PciParent::Bridge(bridge) => Some(bridge),
            PciParent::Host(_) => None,
        }
    }
}

impl fmt::Display for PciParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PciParent::Bridge(bridge) => bridge.fmt(f),
            PciParent::Host(host) => host.fmt(f),
        }
    }
}

impl FromStr for PciParent {
    type Err = BadPciAddress;

    fn from_str(text: &str) -> Result<PciParent, BadPciAddress> {
        match text.starts_with("pci") {
            true => text.parse().map(PciParent::Host),
            false => text.parse().map(PciParent::Bridge),
        }
    }
}

serde_as_text!(
    PciParent,
    "the bridge above, such as `0000:17:00.0`, or the host bridge, such as `pci0000:15`",
    Result<PciAddress, (u32, u8)>,
    |parent| match *parent {
        PciParent::Bridge(bridge) => Ok(bridge),
        PciParent::Host(HostBridge { domain, bus }) => Err((domain, bus)),
    },
    |parent| Some(match parent {
        Ok(bridge) => PciParent::Bridge(bridge),
        Err((domain, bus)) => PciParent::Host(HostBridge { domain, bus }),
    })
);

/// A PCI function: a GPU, a NIC, or a bridge above one.
// serde's `remote` derives inherent functions; the trait impls in file/function.rs also read a
// function from text
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct PciFunction {
    pub address: PciAddress,
    pub parent: PciParent,
    /// 24-bit class code (`0x030200`: 3D controller)
    #[serde(default, with = "text::class")]
    pub class: Option<u32>,
    #[serde(default, with = "text::id")]
    pub vendor: Option<u16>,
    #[serde(default, with = "text::id")]
    pub device: Option<u16>,
    /// subsystem vendor and device id
    #[serde(default, with = "text::ids")]
    pub subsystem: Option<(u16, u16)>,
    /// `numa_node`; `None` for the kernel's -1
    pub numa_node: Option<u32>,
    /// `local_cpulist`
    pub local_cpus: Option<CpuSet>,
    #[serde(default)]
    pub link: PcieLink,
    /// a virtual function's physical function
    pub physfn: Option<PciAddress>,
    /// `sriov_numvfs` of a NIC's physical function; `None` for 0
    pub vfs: Option<u32>,
    /// `iommu_group/type`: `identity` leaves DMA untranslated, `DMA` and `DMA-FQ` translate it
    pub iommu: Option<String>,
}

impl PciFunction {
    pub fn new(address: PciAddress, parent: PciParent) -> PciFunction {
        PciFunction {
            address,
            parent,
            class: None,
            vendor: None,
            device: None,
            subsystem: None,
            numa_node: None,
            local_cpus: None,
            link: PcieLink::default(),
            physfn: None,
            vfs: None,
            iommu: None,
        }
    }
}

/// GPUs and NICs as PCI functions, with every bridge above them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciTree {
    /// in address order, for a step's thousand binary searches
    functions: Vec<PciFunction>,
}

impl PciTree {
    /// Most bridges above one function; the deepest known function, an MI300X behind a Broadcom
    /// switch that appears as two, has 7.
    pub const MAX_DEPTH: usize = 32;

    pub(crate) fn of(mut functions: Vec<PciFunction>) -> PciTree {
        functions.order_by_key(|function| function.address);
        PciTree { functions }
    }

    pub fn insert(&mut self, function: PciFunction) {
        match self.position(function.address) {
            Ok(at) => self.functions[at] = function,
            Err(at) => self.functions.insert(at, function),
        }
    }

    fn position(&self, address: PciAddress) -> Result<usize, usize> {
        self.functions
            .binary_search_by_key(&address.number(), |function| function.address.number())
    }

    pub fn get(&self, address: PciAddress) -> Option<&PciFunction> {
        self.position(address).ok().map(|at| &self.functions[at])
    }

    /// In address order.
    pub fn iter(&self) -> impl Iterator<Item = &PciFunction> {
        self.functions.iter()
    }

    /// As [`PciTree::ancestors`], but with the function at `address` first, and only bridges that
    /// the tree has.
    pub fn climb(&self, address: PciAddress) -> (Vec<&PciFunction>, Option<HostBridge>) {
        let mut functions = Vec::with_capacity(8);
        let mut here = address;
        while let Some(function) = self.get(here) {
            functions.push(function);
            match function.parent {
                PciParent::Host(host) => return (functions, Some(host)),
                PciParent::Bridge(bridge) if functions.len() <= PciTree::MAX_DEPTH => here = bridge,
                PciParent::Bridge(_) => break,
            }
        }
        (functions, None)
    }

    /// The bridges above `address`, nearest first, and the host bridge: `None` if a bridge is
    /// missing, parents form a circle, or bridges exceed [`PciTree::MAX_DEPTH`].
    pub fn ancestors(&self, address: PciAddress) -> (Vec<PciAddress>, Option<HostBridge>) {
        let (functions, host) = self.climb(address);
        let bridges = functions.iter().filter_map(|above| above.parent.bridge());
        (bridges.take(PciTree::MAX_DEPTH).collect(), host)
    }

    pub(crate) fn numa_node(&self, address: PciAddress) -> Option<u32> {
        let (functions, _) = self.climb(address);
        functions.iter().find_map(|function| function.numa_node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_the_spellings_of_sysfs_and_nvidia_smi() {
        for (text, canonical) in rows! {
            "0000:1b:00.0", "0000:1b:00.0"; "1b:00.0", "0000:1b:00.0";
            "00000000:1B:00.0", "0000:1b:00.0"; "10000:00:02.1", "10000:00:02.1";
        } {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), canonical);
        }
        let host: HostBridge = "pci10000:00".parse().unwrap();
        assert_eq!(host.to_string(), "pci10000:00");
        let bad = "|.|0|1b:00|0000:1b:20.0|0000:1b:00.8|0000:+b:00.0|0:0:0:0.0|pci0000:15";
        for text in bad.split('|') {
            assert!(text.parse::<PciAddress>().is_err(), "`{text}`");
        }
    }

    #[test]
    fn parents_that_form_a_circle_end() {
        let mut tree = PciTree::default();
        let address: PciAddress = "01:00.0".parse().unwrap();
        tree.insert(PciFunction::new(address, PciParent::Bridge(address)));
        assert_eq!(tree.ancestors(address).1, None);
        assert_eq!(tree.numa_node(address), None);
    }
}
