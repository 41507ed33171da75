//! PCI functions with the bridges above them, and which of them are GPUs and NICs.

use super::{Object, Objects};
use crate::import::{AMAZON, CRAY, Imported, Result, hex, host_of, shown};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::topology::file::{MAX_NETDEVS, MAX_PORTS};
use nic_placement_core::topology::{
    CpuSet, DeviceName, Gpu, GpuVendor, HostBridge, LinkLayer, LinkRate, Nic, NicKind, PciAddress,
    PciFunction, PciParent, PciTree, PcieLink, Port, PortState, SubnetPrefix, Topology,
};
use std::collections::{BTreeMap, BTreeSet};

/// Names that hwloc's libraries give to GPUs, the vendor's own first; the first one with a model name wins.
const LIBRARIES: [&str; 5] = ["nvml", "rsmi", "ze", "cuda", "opencl"];
/// ATI chips that only drive a server's console, like Matrox's and ASPEED's: Rage XL, RV100, ES1000.
const CONSOLES: [u16; 3] = [0x4752, 0x5159, 0x515e];

// Types of an OS device in version 3 (`hwloc_obj_osdev_type_t`), where a device may have several; a GPU is a co-processor too.
const GPU: u32 = 1 << 2 | 1 << 3;
const NETWORK: u32 = 1 << 4;
const OPEN_FABRICS: u32 = 1 << 5;
/// The bits of version 2's numbers: block, GPU, network, OpenFabrics, DMA, co-processor.
const NUMBERS: [u32; 6] = [0, GPU, NETWORK, OPEN_FABRICS, 0, GPU];

/// The OS devices below each PCI device, or each alone where it has none.
type Cards<'f> = BTreeMap<(Option<usize>, usize), Vec<&'f Object<'f>>>;

struct Bus<'f> {
    file: &'f Objects<'f>,
    functions: BTreeMap<usize, PciFunction>,
}

pub(super) fn read<'f>(file: &'f Objects<'f>, to: &mut Imported) -> Result<()> {
    let mut seen = BTreeSet::new();
    let mut bus = Bus {
        file,
        functions: BTreeMap::new(),
    };
    for object in &file.objects {
        // a bridge without an address is a host bridge
        if matches!(object.kind, "PCIDev" | "Bridge") && object.attribute("pci_busid").is_some() {
            if let Some(function) = function(object)? {
                let address = function.address;
                if !seen.insert(address) {
                    return Err(object.bad(format!("`{address}` is there twice")));
                }
                bus.functions.insert(object.index, function);
            }
        }
    }
    let mut cards = Cards::new();
    for object in file.of("OSDev") {
        let device = file.above(object.index, "PCIDev");
        let alone = device.map_or(object.index, |_| 0);
        cards.entry((device, alone)).or_default().push(object);
    }
    for device in file.of("PCIDev").map(|device| device.index) {
        let devices = cards.get(&(Some(device), 0)).map_or(&[][..], |all| all);
        for gpu in bus.gpus(device, devices) {
            bus.add(device, to)?;
            to.topology.gpus.push(gpu);
        }
    }
    let mut unknown = Vec::new();
    for (&(device, _), devices) in &cards {
        let function = device.and_then(|device| bus.functions.get(&device));
        for (name, nic) in bus.nics(devices, function) {
            let problem = match nic {
                None => "a name that no library's variable could hold: left out",
                Some(_) if device.is_some() && function.is_none() => "on no network card: left out",
                Some(nic) => {
                    if let Some(device) = device {
                        bus.add(device, to)?;
                    }
                    let mut ports = nic.ports.iter();
                    if ports.any(|port| port.state == PortState::Unknown) {
                        unknown.push(name);
                    }
                    to.topology.nics.push(nic);
                    continue;
                }
            };
            to.note(shown(name), problem);
        }
    }
    if let Some(first) = unknown.first() {
        let count = counted(unknown.len(), "NIC");
        to.note(*first, format!(
            "the file does not say whether the ports of {count} are active, and only active ones are used"
        ));
    }
    Ok(())
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    let rest = name.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

impl<'f> Bus<'f> {
    fn is(&self, object: &Object, wanted: u32) -> bool {
        let types = object.attribute("osdev_type").unwrap_or_default();
        let types: u32 = types.parse().unwrap_or(0);
        let bits = match self.file.version {
            2 => NUMBERS.get(types as usize).copied().unwrap_or(0),
            _ => types,
        };
        bits & wanted != 0
    }

    /// Adds a function and the bridges above it.
    fn add(&self, index: usize, to: &mut Imported) -> Result<()> {
        let above = self.file.around(index);
        let above = above.filter(|above| self.functions.contains_key(&above.index));
        let chain: Vec<usize> = [index]
            .into_iter()
            .chain(above.map(|above| above.index))
            .collect();
        if chain.len() > PciTree::MAX_DEPTH + 1 {
            let most = PciTree::MAX_DEPTH;
            return Err(self.file.objects[index].bad(format!("below more than {most} bridges")));
        }
        let mut local_cpus = None;
        for object in self.file.around(index) {
            let is_place = !matches!(object.kind, "Bridge" | "PCIDev" | "OSDev");
            if is_place && object.attribute("cpuset").is_some() {
                local_cpus = Some(object.cpus()?).filter(|cpus| !cpus.is_empty());
                break;
            }
        }
        let only = |cpus: &CpuSet, node: &Topology| {
            let mut nodes = node.numa_nodes.iter();
            Some(nodes.find(|node| cpus.is_subset(&node.cpus))?.os_index)
        };
        let numa_node = local_cpus
            .as_ref()
            .and_then(|cpus| only(cpus, &to.topology));
        for (at, here) in chain.iter().enumerate() {
            let function = &self.functions[here];
            if to.topology.pci.get(function.address).is_some() {
                break;
            }
            let parent = match chain.get(at + 1) {
                Some(bridge) => PciParent::Bridge(self.functions[bridge].address),
                None => PciParent::Host(self.host(*here, function.address, to)?),
            };
            to.topology.pci.insert(PciFunction {
                parent,
                numa_node,
                local_cpus: local_cpus.clone(),
                ..function.clone()
            });
        }
        Ok(())
    }

    /// The outermost host bridge above the topmost function: the kernel's tree does not count an Intel VMD controller's inner
    /// one either.
    fn host(&self, top: usize, address: PciAddress, to: &mut Imported) -> Result<HostBridge> {
        let bridges = self.file.around(top).filter(|above| above.kind == "Bridge");
        let Some(host) = bridges.last() else {
            // lstopo can leave bridges out; functions of one bus share a host bridge in any case
            let finding =
                "no host bridge above it in the file: only what is on its bus counts as near";
            to.note(address.to_string(), finding);
            return Ok(host_of(address));
        };
        let text = host.attribute("bridge_pci").unwrap_or_default();
        // `0000:[d0-d7]`: the domain and the buses below
        let read = || {
            let (domain, buses) = text.split_once(":[")?;
            let bus = hex(buses.split_once('-')?.0, 2)? as u8;
            let domain = hex(domain, 8)?;
            Some(HostBridge { domain, bus })
        };
        read().ok_or_else(|| {
            let text = shown(text);
            host.bad(format!(
                "bridge_pci `{text}`: expected a domain and buses such as `0000:[15-1f]`"
            ))
        })
    }

    /// The GPU of a PCI device, or several if ROCm's driver shows an `rsmi` device for each part of one function (MI300 in DPX,
    /// QPX or CPX mode); none if it is not for computing.
    fn gpus(&self, device: usize, devices: &[&Object]) -> Vec<Gpu> {
        let library = |object: &&Object| {
            let name = object.name();
            let found = LIBRARIES
                .iter()
                .position(|prefix| is_numbered(name, prefix));
            // OpenCL finds CPUs too
            let kind = object.info("OpenCLDeviceType").unwrap_or("GPU");
            found.filter(|_| self.is(object, GPU) && kind == "GPU")
        };
        let mut found: Vec<&&Object> = devices.iter().filter(|of| library(of).is_some()).collect();
        found.sort_by_key(|object| library(object));
        let vendor = |function: &PciFunction| {
            let (class, vendor) = (function.class?, GpuVendor::from_pci(function.vendor?)?);
            let is_out = match vendor {
                GpuVendor::Nvidia => false,
                GpuVendor::Amd => function.device.is_some_and(|id| CONSOLES.contains(&id)),
                // an Intel CPU's own graphics on the host bridge; cards of that class stand behind a port
                GpuVendor::Intel => {
                    let mut around = self.file.around(device);
                    let is_behind = around.any(|above| self.functions.contains_key(&above.index));
                    class >> 8 == 0x0300 && !is_behind
                }
            };
            let is_like_one = GpuVendor::of_function(class, function.vendor?).is_some();
            (!is_out && (is_like_one || !found.is_empty())).then_some(vendor)
        };
        let function = self.functions.get(&device);
        let gpu = function.and_then(|of| Some(Gpu::new(of.address, vendor(of)?)));
        let Some(mut gpu) = gpu else {
            return Vec::new();
        };
        let info = |name: &str| found.iter().find_map(|object| object.info(name));
        gpu.model = info("GPUModel").map(|model| model.trim().to_string());
        let parts = devices
            .iter()
            .filter(|object| is_numbered(object.name(), "rsmi"));
        let parts = parts.count() as u32;
        if parts > 1 {
            // the parts share one serial number and one name in /dev, which identify none of them
            let part = |part| Gpu {
                partition: Some(part),
                ..gpu.clone()
            };
            return (0..parts).map(part).collect();
        }
        let nvidia = info("NVIDIAUUID").filter(|uuid| uuid.starts_with("GPU-"));
        match gpu.vendor {
            // only NVIDIA's driver knows its minor numbers: neither CUDA nor NVML counts by them
            GpuVendor::Nvidia => gpu.uuid = nvidia.map(str::to_string),
            GpuVendor::Amd | GpuVendor::Intel => {
                let names = devices.iter().map(|object| object.name());
                let mut minors =
                    names.filter_map(|name| name.strip_prefix("renderD")?.parse().ok());
                gpu.minor = minors.next().filter(|_| minors.next().is_none());
                gpu.uuid = info("AMDUUID").and_then(amd_uuid);
            }
        }
        vec![gpu]
    }

    /// The NICs of a card by their names; `None` for one that no library's variable could hold.
    fn nics<'o>(
        &self,
        devices: &[&'o Object<'o>],
        function: Option<&PciFunction>,
    ) -> Vec<(&'o str, Option<Nic>)> {
        let is_cxi = |object: &&Object| is_numbered(object.name(), "cxi");
        let all = devices.iter().copied();
        let (slingshot, others): (Vec<_>, Vec<_>) = all.partition(is_cxi);
        let others = others.into_iter();
        let (verbs, others): (Vec<_>, Vec<_>) =
            others.partition(|object| self.is(object, OPEN_FABRICS));
        let interfaces: Vec<&Object> = others
            .into_iter()
            .filter(|object| self.is(object, NETWORK) && DeviceName::is_one(object.name()))
            .take(MAX_NETDEVS)
            .collect();
        let address = function.map(|function| function.address);
        let ids = function.and_then(|function| Some((function.vendor?, function.device?)));
        let named = |name: &str, kind: NicKind, interfaces: &[&Object]| {
            let netdevs = interfaces.iter().map(|object| object.name().to_string());
            // Portals adapters (Bull/Atos BXI) are placed by no library here
            let name = name.parse().ok().filter(|_| !is_numbered(name, "bxi"));
            name.map(|name| Nic {
                address,
                netdevs: netdevs.collect(),
                ..Nic::new(name, kind)
            })
        };
        // the file does not tell which of several devices an interface belongs to
        let fabric = verbs.len() + slingshot.len();
        let own = if fabric == 1 { &interfaces[..] } else { &[] };
        let mut nics = Vec::new();
        for object in verbs {
            let kind = match ids {
                Some((AMAZON, 0xefa0..=0xefa3)) => NicKind::Efa,
                _ => NicKind::Verbs,
            };
            let ports = ports(object, own);
            let nic = named(object.name(), kind, own).map(|nic| Nic { ports, ..nic });
            nics.push((object.name(), nic));
        }
        for object in slingshot {
            nics.push((object.name(), named(object.name(), NicKind::Slingshot, own)));
        }
        if nics.is_empty() {
            let is_hsn = |of: &&Object| {
                of.attribute("subtype") == Some("Slingshot") || is_numbered(of.name(), "hsn")
            };
            let is_crays = matches!(ids, Some((CRAY, _))) || interfaces.iter().any(is_hsn);
            let kind = if is_crays {
                NicKind::Slingshot
            } else {
                NicKind::Ethernet
            };
            // the file lacks the `cxi` device's name, so we use the interface's
            for object in &interfaces {
                nics.push((object.name(), named(object.name(), kind, &[*object])));
            }
        }
        nics
    }
}

/// An object's own values; its parent is found later, and only if it matters.  `None` for a device that is neither GPU, NIC nor
/// bridge by its class: hwloc loads files in which another device, such as a disk controller, has a NIC's address.
fn function(object: &Object) -> Result<Option<PciFunction>> {
    let text = object.attribute("pci_busid").unwrap_or_default();
    let address: PciAddress = text.parse().map_err(|_| {
        object.bad(format!(
            "pci_busid `{}`: expected `0000:1b:00.0`",
            shown(text)
        ))
    })?;
    let text = object.attribute("pci_type").unwrap_or_default();
    // `0302 [10de:2330] [10de:16c1] a1`
    let read = || {
        let (class, rest) = text.split_once(" [")?;
        let (vendor, device) = rest.split_once(']')?.0.split_once(':')?;
        Some((
            hex(class, 4)?,
            hex(vendor, 4)? as u16,
            hex(device, 4)? as u16,
        ))
    };
    let (class, vendor, device) = read().ok_or_else(|| {
        let text = shown(text);
        object.bad(format!(
            "pci_type `{text}`: expected `0302 [10de:2330]`, class, vendor and device"
        ))
    })?;
    // network, display, bridge, co-processor, accelerator; and InfiniBand, as old adapters have it
    let matters = matches!(class >> 8, 0x02 | 0x03 | 0x06 | 0x0b | 0x12) || class == 0x0c06;
    let speed = object.attribute("pci_link_speed");
    let current = speed.and_then(|speed| link_rate(speed.parse().ok()?));
    Ok(matters.then_some(PciFunction {
        class: Some(class << 8),
        vendor: Some(vendor),
        device: Some(device),
        link: PcieLink { current, max: None },
        ..PciFunction::new(address, PciParent::Host(host_of(address)))
    }))
}

/// Speed and width for a bandwidth in GB/s, which alone hwloc keeps.
///
/// Of links with one bandwidth (8 GT/s x16, 16 GT/s x8) the slowest and widest; [`LinkRate::mbps`] is right in any case.  `None` if
/// no link comes within a tenth (a conventional bus; 0 if the kernel does not tell).
fn link_rate(gigabytes: f64) -> Option<LinkRate> {
    let wanted = gigabytes * 8_000.0;
    let widths = [16, 8, 4, 2, 1].into_iter();
    let rates = widths.flat_map(|width| {
        [25, 50, 80, 160, 320, 640].map(|tenths_gt| LinkRate { tenths_gt, width })
    });
    let off = |rate: &LinkRate| (rate.mbps() as f64 - wanted).abs();
    // hwloc rounds differently from `mbps`, by less than 1 Mbit/s for each lane
    let nearest = rates.min_by_key(|rate| off(rate) as u64 / 64);
    nearest.filter(|rate| off(rate) <= rate.mbps() as f64 * 0.1)
}

/// ROCm prints a serial number as sixteen digits after `GPU-`, and reads that in `ROCR_VISIBLE_DEVICES` (ROCR-Runtime,
/// `HSA_AMD_AGENT_INFO_UUID`); hwloc writes the bare number.
fn amd_uuid(text: &str) -> Option<String> {
    let number = u64::from_str_radix(text, 16).ok()?;
    (number != 0).then(|| format!("GPU-{number:016x}"))
}

fn says_something(guid: &str) -> bool {
    guid.contains(|letter| !matches!(letter, '0' | ':'))
}

fn ports(device: &Object, interfaces: &[&Object]) -> Vec<Port> {
    let info = |number: u8, what: &str| device.info(&format!("Port{number}{what}"));
    let mut numbers: Vec<u8> = (1..=MAX_PORTS as u8)
        .filter(|number| info(*number, "State").is_some())
        .collect();
    if numbers.is_empty() {
        // there is at least one port: ports count from 1 (the kernel's include/rdma/ib_verbs.h, `rdma_start_port`)
        numbers.push(1);
    }
    let is_single = numbers.len() == 1;
    let port = |number: u8| {
        let state = match info(number, "State") {
            Some("1") => PortState::Down,
            Some("2") => PortState::Init,
            Some("3") => PortState::Armed,
            Some("4") => PortState::Active,
            _ => PortState::Unknown,
        };
        // an interface names its port as `Port`; in older files it does not
        let is_mine = |object: &&&Object| match object.info("Port") {
            Some(text) => text.parse() == Ok(number),
            None => is_single,
        };
        let mine: Vec<&&Object> = interfaces.iter().filter(is_mine).collect();
        let netdev = match mine[..] {
            [only] => Some(only.name().to_string()),
            _ => None,
        };
        let gid = info(number, "GID0").and_then(|gid| Some((gid, SubnetPrefix::of_gid(gid)?)));
        let layer = link_layer(info(number, "LID"), gid.map(|of| of.0), &mine);
        Port {
            netdev,
            subnet: gid.map(|of| of.1),
            ..Port::new(number, state, layer, None)
        }
    };
    numbers.into_iter().map(port).collect()
}

/// hwloc writes no `link_layer`.  Hardware addresses have 20 bytes on InfiniBand (RFC 4391) and 6 on Ethernet; only InfiniBand's
/// subnet managers give LIDs (iWARP drivers show a LID of 1 and a GID without a port's number).
fn link_layer(lid: Option<&str>, gid: Option<&str>, interfaces: &[&&Object]) -> LinkLayer {
    let addresses = interfaces
        .iter()
        .filter_map(|object| object.info("Address"));
    let mut lengths: Vec<usize> = addresses.map(|of| of.split(':').count()).collect();
    lengths.dedup();
    let lid = lid.and_then(|lid| u32::from_str_radix(lid.strip_prefix("0x")?, 16).ok());
    match (&lengths[..], lid, gid) {
        ([20], ..) => LinkLayer::InfiniBand,
        ([6], ..) => LinkLayer::Ethernet,
        (_, Some(1..), Some(gid)) if says_something(&gid[20..]) => LinkLayer::InfiniBand,
        _ => LinkLayer::Unknown,
    }
}
