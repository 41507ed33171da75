//! PCI functions, the bridges above them, and the links between.
#![forbid(unsafe_code)]

use super::bitmap::CpuSet;
use crate::diagnostic::Shown;
use crate::order::Order;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A PCI function's address, `domain:bus:device.function`, ordered as the bus is enumerated.
///
/// The domain has 32 bits: Intel VMD and virtual machines use domains above `ffff` (`10000:00:02.0`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PciAddress {
    /// PCI domain (segment)
    pub domain: u32,
    /// bus number
    pub bus: u8,
    /// device number, below 32
    pub device: u8,
    /// function number, below 8
    pub function: u8,
}

/// Why a text is not a PCI address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPciAddress(pub String);

impl fmt::Display for BadPciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a PCI address: expected `domain:bus:device.function` such as `0000:1b:00.0`",
            self.0
        )
    }
}

impl std::error::Error for BadPciAddress {}

impl Ord for PciAddress {
    fn cmp(&self, other: &PciAddress) -> Ordering {
        self.number().cmp(&other.number())
    }
}

impl PartialOrd for PciAddress {
    fn partial_cmp(&self, other: &PciAddress) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PciAddress {
    /// The order of addresses as numbers.
    fn number(self) -> u64 {
        u64::from(self.domain) << 32
            | u64::from(self.bus) << 16
            | u64::from(self.device) << 8
            | u64::from(self.function)
    }

    /// Readers of files without addresses invent domains from here on; no report shows those as facts.
    pub const INVENTED: u32 = 0xfffd_0000;

    /// Is it invented?
    pub fn is_invented(self) -> bool {
        self.domain >= PciAddress::INVENTED
    }
    /// The address as text; `None` if it is invented, since the machine's description has none.
    pub fn described(self) -> Option<String> {
        (!self.is_invented()).then(|| self.to_string())
    }
}

impl FromStr for PciAddress {
    type Err = BadPciAddress;

    /// Accepts `0000:1b:00.0`, `1b:00.0` (domain 0) and nvidia-smi's `00000000:1B:00.0`.
    fn from_str(text: &str) -> Result<PciAddress, BadPciAddress> {
        read(text.as_bytes()).ok_or_else(|| BadPciAddress(Shown::message(text, 80).to_string()))
    }
}

/// A node file has hundreds of addresses, and a step waits for them: what is written in full has its parts in their places.
fn read(text: &[u8]) -> Option<PciAddress> {
    let [domain, bus, device, function] = match text {
        [domain @ .., b':', b1, b2, b':', d1, d2, b'.', f] => {
            [hex(domain, 8), hex(&[*b1, *b2], 2), hex(&[*d1, *d2], 2), hex(&[*f], 1)]
        }
        _ => {
            let (rest, function) = split_last(text, b'.')?;
            let (rest, device) = split_last(rest, b':')?;
            let (domain, bus) = split_last(rest, b':').unwrap_or((b"0", rest));
            [hex(domain, 8), hex(bus, 2), hex(device, 2), hex(function, 1)]
        }
    };
    let (domain, bus, device, function) = (domain?, bus?, device?, function?);
    let fits = device < 32 && function < 8;
    fits.then_some(PciAddress { domain, bus: bus as u8, device: device as u8, function: function as u8 })
}

/// What stands before and after the last `separator`.
fn split_last(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().rposition(|&byte| byte == separator)?;
    Some((&text[..at], &text[at + 1..]))
}

/// A number of at least one and at most `most` (8 or fewer) hexadecimal digits, without a sign.
pub(in crate::topology) fn hex(digits: &[u8], most: usize) -> Option<u32> {
    /// What each byte stands for; more than 15 where it is no digit.
    const VALUES: [u8; 256] = {
        let mut values = [u8::MAX; 256];
        let mut value = 0;
        while value < 16 {
            values[b"0123456789abcdef"[value] as usize] = value as u8;
            values[b"0123456789ABCDEF"[value] as usize] = value as u8;
            value += 1;
        }
        values
    };
    let (mut number, mut largest) = (0u32, 0);
    // one that is no digit shows at the end: fewer steps for those that are
    for &digit in digits.iter().take(8) {
        let value = VALUES[usize::from(digit)];
        (number, largest) = (number << 4 | u32::from(value & 15), largest.max(value));
    }
    ((1..=most).contains(&digits.len()) && largest < 16).then_some(number)
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

/// A host bridge: where a PCI hierarchy meets the CPU; sysfs calls it `pciDDDD:BB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostBridge {
    /// PCI domain (segment)
    pub domain: u32,
    /// root bus
    pub bus: u8,
}

impl FromStr for HostBridge {
    type Err = BadPciAddress;

    /// Accepts sysfs's directory name, `pci0000:15`.
    fn from_str(text: &str) -> Result<HostBridge, BadPciAddress> {
        let read = || {
            let place = text.strip_prefix("pci")?.as_bytes();
            let (domain, bus) = split_last(place, b':').unwrap_or((b"0", place));
            Some(HostBridge { domain: hex(domain, 8)?, bus: hex(bus, 2)? as u8 })
        };
        read().ok_or_else(|| BadPciAddress(Shown::message(text, 80).to_string()))
    }
}

impl fmt::Display for HostBridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pci{:04x}:{:02x}", self.domain, self.bus)
    }
}

/// What stands directly above a PCI function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PciParent {
    /// a PCI-to-PCI bridge: a root port or a port of a switch
    Bridge(PciAddress),
    /// nothing but the host bridge
    Host(HostBridge),
}

impl PciParent {
    /// The bridge, where it is one.
    pub fn bridge(self) -> Option<PciAddress> {
        match self {
            PciParent::Bridge(bridge) => Some(bridge),
            PciParent::Host(_) => None,
        }
    }
}

/// Speed and width of a PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRate {
    /// transfer rate of a lane in tenths of GT/s: 2.5 GT/s is 25
    pub tenths_gt: u32,
    /// lanes
    pub width: u32,
}

impl LinkRate {
    /// The link's bandwidth in one direction, in Mbit/s, after the line code: 8b/10b up to 5 GT/s and
    /// 128b/130b from 8 GT/s on (PCI Express Base Specification, "Encoding").
    pub fn mbps(self) -> u64 {
        let raw = u64::from(self.tenths_gt) * 100 * u64::from(self.width);
        if self.tenths_gt <= 50 { raw * 8 / 10 } else { raw * 128 / 130 }
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} GT/s x{}", self.tenths_gt / 10, self.tenths_gt % 10, self.width)
    }
}

/// A PCIe link as the function at its lower end reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PcieLink {
    /// what the link runs at now (`current_link_speed`, `current_link_width`)
    pub current: Option<LinkRate>,
    /// what the function could do (`max_link_speed`, `max_link_width`)
    pub max: Option<LinkRate>,
}

/// One PCI function: a GPU, a NIC, or a bridge above one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciFunction {
    /// its address
    pub address: PciAddress,
    /// what stands directly above it
    pub parent: PciParent,
    /// class code, 24 bits (`0x030200`: 3D controller)
    pub class: Option<u32>,
    /// vendor id
    pub vendor: Option<u16>,
    /// device id
    pub device: Option<u16>,
    /// subsystem vendor and device id
    pub subsystem: Option<(u16, u16)>,
    /// `numa_node`; `None` where the kernel says -1 or nothing
    pub numa_node: Option<u32>,
    /// `local_cpulist`
    pub local_cpus: Option<CpuSet>,
    /// the link above it
    pub link: PcieLink,
    /// the physical function that this virtual one belongs to
    pub physfn: Option<PciAddress>,
    /// virtual functions that a NIC's physical function has now (`sriov_numvfs`); `None` for none
    pub vfs: Option<u32>,
    /// `iommu_group/type`: `identity` leaves DMA alone, `DMA` and `DMA-FQ` translate it
    pub iommu: Option<String>,
}

impl PciFunction {
    /// A function with only its place known.
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

/// The PCI functions that matter to placement, with every bridge above them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PciTree {
    /// in address order: what reads a node comes to them in that order, mostly, and a step looks them up a thousand times
    functions: Vec<PciFunction>,
}

impl PciTree {
    /// The most bridges above one function.  The deepest machine known (MI300X behind doubled switches) has
    /// 7.
    pub const MAX_DEPTH: usize = 32;

    /// Functions in any order, each address once.
    pub(in crate::topology) fn of(mut functions: Vec<PciFunction>) -> PciTree {
        functions.order_by_key(|function| function.address);
        PciTree { functions }
    }

    /// Adds a function, or replaces the one at its address.
    pub fn insert(&mut self, function: PciFunction) {
        let number = function.address.number();
        if self.functions.last().is_none_or(|last| last.address.number() < number) {
            return self.functions.push(function);
        }
        match self.place(function.address) {
            Ok(place) => self.functions[place] = function,
            Err(place) => self.functions.insert(place, function),
        }
    }

    /// Where a function stands, or would.
    fn place(&self, address: PciAddress) -> Result<usize, usize> {
        self.functions.binary_search_by_key(&address.number(), |function| function.address.number())
    }

    /// The function at `address`.
    pub fn get(&self, address: PciAddress) -> Option<&PciFunction> {
        self.place(address).ok().map(|place| &self.functions[place])
    }

    /// All functions in address order.
    pub fn iter(&self) -> impl Iterator<Item = &PciFunction> {
        self.functions.iter()
    }

    /// The function at `address` and the bridges above it, nearest first, as far as the tree holds them, and the host
    /// bridge at the top, as in [`PciTree::ancestors`].
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

    /// Do the bridges above `address` lead to a host bridge?
    pub fn reaches_host(&self, address: PciAddress) -> bool {
        let mut here = address;
        for _ in 0..=PciTree::MAX_DEPTH {
            match self.get(here).map(|function| function.parent) {
                Some(PciParent::Bridge(bridge)) => here = bridge,
                Some(PciParent::Host(_)) => return true,
                None => return false,
            }
        }
        false
    }

    /// The bridges above `address`, nearest first, and the host bridge at the top.
    ///
    /// The host bridge is `None` where the tree does not reach one: a bridge is missing, the parents form a circle, or
    /// there are more than [`PciTree::MAX_DEPTH`] of them.
    pub fn ancestors(&self, address: PciAddress) -> (Vec<PciAddress>, Option<HostBridge>) {
        let (functions, host) = self.climb(address);
        let mut bridges: Vec<PciAddress> =
            functions.iter().filter_map(|function| function.parent.bridge()).collect();
        bridges.truncate(PciTree::MAX_DEPTH);
        (bridges, host)
    }

    /// The NUMA node of `address`: its own, else that of the nearest bridge above it that knows one.
    pub fn numa_node(&self, address: PciAddress) -> Option<u32> {
        let own = self.get(address)?.numa_node;
        own.or_else(|| self.ancestors(address).0.iter().find_map(|&bridge| self.get(bridge)?.numa_node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_the_spellings_of_sysfs_and_nvidia_smi() {
        for (text, canonical) in [
            ("0000:1b:00.0", "0000:1b:00.0"),
            ("1b:00.0", "0000:1b:00.0"),
            ("00000000:1B:00.0", "0000:1b:00.0"),
            ("10000:00:02.1", "10000:00:02.1"),
        ] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), canonical);
        }
        assert_eq!("pci10000:00".parse::<HostBridge>().unwrap().to_string(), "pci10000:00");
    }

    #[test]
    fn text_that_is_no_address_is_refused() {
        for text in
            ["", ".", "0", "1b:00", "0000:1b:20.0", "0000:1b:00.8", "0000:+b:00.0", "0:0:0:0.0", "pci0000:15"]
        {
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

    #[test]
    fn a_gen5_x16_link_moves_504_gbit_and_a_gen1_x1_link_2() {
        assert_eq!(LinkRate { tenths_gt: 320, width: 16 }.mbps(), 504_123);
        assert_eq!(LinkRate { tenths_gt: 25, width: 1 }.mbps(), 2_000);
    }
}
