//! NCCL's topology XML, which `NCCL_TOPO_DUMP_FILE` writes and `NCCL_TOPO_FILE` reads, and RCCL's, which
//! differs in its version number.
//!
//! The elements mean the same as in NCCL's src/graph/xml.cc and topo.cc:
//!
//! * `<cpu>` is a NUMA node, which joins everything below it (PHB).  Each gets one host bridge, invented like every function that the
//!   file does not name, in PCI domains from `fffd0000` on, which no machine has.
//! * A `<pci>` with others below it is a whole switch: NCCL climbs two bridges at a time, a downstream and an upstream port, then past
//!   the root port.  Two devices right below one are PIX, and one more on the way is PXB.  A downstream port is invented above each
//!   child, so that [`Topology::path`], which counts bridges as sysfs shows them, gives the same kind.
//! * `<net>` is a port that NCCL can use, hence an active one.
//!
//! NCCL then merges the two levels of Broadcom's newer switches by their subsystem's ids.  The reader keeps these, and
//! [`Topology::path_type`] merges them too.

mod device;
mod values;
mod write;

#[cfg(test)]
mod tests;

pub use write::write;

use super::{BadText, GpuLinks, host_of, nth_bus, numa_node, shown, xml};
use nic_placement_core::diagnostic::{Diagnostic, counted};
use nic_placement_core::topology::file::{MAX_NUMA_NODES, MAX_PCI};
use nic_placement_core::topology::{
    Arch, CpuSet, DeviceName, NicIndex, PciAddress, PciFunction, PciParent, PciTree, PcieLink,
    Processor, Provenance, Topology,
};
use roxmltree::{Document, Node};
use std::collections::{BTreeMap, BTreeSet};

const NAME: &str = "nccl";
/// The first PCI domain of the invented host bridges, one for each `<cpu>`.
const INVENTED_HOSTS: u32 = 0xfffe_0000;
/// The first PCI domain of switches whose address another function also has.
const INVENTED_SWITCHES: u32 = 0xfffd_0000;
/// The first PCI domain of the invented downstream ports.
const INVENTED_PORTS: u32 = 0xffff_0000;
/// The most nested `<pci>`: each switch stands for two bridges, with one device below the last.
const MAX_LEVELS: usize = PciTree::MAX_DEPTH / 2 + 1;
/// The most unknown elements to report.
const MAX_UNKNOWN: usize = 16;
/// Further findings are only counted.
const MAX_FINDINGS: usize = 64;
/// A PCI-to-PCI bridge.
const BRIDGE: u32 = 0x06_0400;

type Element<'a> = Node<'a, 'a>;

pub fn read(text: &str, provenance: Provenance) -> Result<(Topology, Vec<Diagnostic>), BadText> {
    let document = xml::parse(text)?;
    let root = document.root_element();
    let name = root
        .attribute("name")
        .filter(|name| DeviceName::is_one(name))
        .unwrap_or(NAME);
    let mut reader = Reader {
        document: &document,
        topology: Topology::empty(name, provenance),
        diagnostics: Vec::new(),
        unsaid: 0,
        is_amd: root
            .descendants()
            .any(|element| element.has_tag_name("xgmi") || element.attribute("gcn").is_some()),
        host: None,
        cpus: BTreeMap::new(),
        addresses: BTreeMap::new(),
        devices: root
            .descendants()
            .filter(|element| element.has_tag_name("pci") && !has(*element, "pci"))
            .filter_map(|device| device.attribute("busid")?.trim().parse().ok())
            .collect(),
        functions: 0,
        ports: 0,
        names: BTreeMap::new(),
        nameless: Vec::new(),
        fused: Vec::new(),
        unknown: BTreeSet::new(),
    };
    reader.system(root)?;
    Ok(reader.finish())
}

/// The NVLinks and XGMI links of the file's GPUs. Of those to switches a pair has as many as the GPU with fewer.
pub(crate) fn between_gpus(text: &str, node: &Topology) -> GpuLinks {
    let position = |text: Option<&str>| Some(node.gpu_index(text?.trim().parse().ok()?)?.0);
    let (mut links, mut switched) = (GpuLinks::new(), BTreeMap::<usize, u32>::new());
    let document = xml::parse(text).ok();
    for link in document.iter().flat_map(|document| document.descendants()) {
        let mut above = link.ancestors();
        let gpu = above.find_map(|above| position(above.attribute("busid")));
        let count = link.attribute("count").and_then(|count| count.parse().ok());
        let (Some(gpu), Some(count)) = (gpu, count) else {
            continue;
        };
        match (link.tag_name().name(), position(link.attribute("target"))) {
            ("xgmi", Some(other)) => drop(links.insert((gpu, other), "XGMI".to_string())),
            ("nvlink", Some(other)) => drop(links.insert((gpu, other), format!("NV{count}"))),
            ("nvlink", None) => {
                let sum = switched.entry(gpu).or_default();
                *sum = sum.saturating_add(count);
            }
            _ => {}
        }
    }
    for (a, own) in &switched {
        let pair = |(b, other): (&usize, &u32)| ((*a, *b), format!("NV{}", own.min(other)));
        links.extend(switched.iter().map(pair));
    }
    links
}

fn elements<'a>(parent: Element<'a>) -> impl Iterator<Item = Element<'a>> {
    parent.children().filter(|child| child.is_element())
}

fn has(parent: Element<'_>, name: &str) -> bool {
    elements(parent).any(|child| child.has_tag_name(name))
}

struct Reader<'a> {
    document: &'a Document<'a>,
    topology: Topology,
    diagnostics: Vec<Diagnostic>,
    unsaid: usize,
    /// true if the file has something that only AMD has
    is_amd: bool,
    host: Option<&'a str>,
    /// where each `numaid` was seen, -1 for the unknown one
    cpus: BTreeMap<i64, usize>,
    addresses: BTreeMap<PciAddress, usize>,
    /// the `busid` of each `<pci>` that is no switch
    devices: BTreeSet<PciAddress>,
    functions: usize,
    ports: u32,
    names: BTreeMap<DeviceName, (NicIndex, usize)>,
    /// NICs of which the file has only the address
    nameless: Vec<PciAddress>,
    fused: Vec<device::Fused>,
    unknown: BTreeSet<String>,
}

#[derive(Clone, Copy)]
struct Place {
    parent: PciParent,
    numa_node: Option<u32>,
    level: usize,
}

impl<'a> Reader<'a> {
    /// Slow, since it scans the text: for errors only.
    fn line(&self, position: usize) -> u32 {
        self.document.text_pos_at(position).row
    }

    fn bad(&self, element: Element<'_>, problem: impl Into<String>) -> BadText {
        BadText::new(self.line(element.range().start), problem)
    }

    /// The error of a name or a number that must be there once.
    fn second(&self, element: Element<'_>, what: String, first: usize) -> BadText {
        let first = self.line(first);
        self.bad(
            element,
            format!("{what} a second time, the first is in line {first}"),
        )
    }

    fn note(&mut self, place: impl Into<String>, finding: impl Into<String>) {
        if self.diagnostics.len() < MAX_FINDINGS {
            self.diagnostics.push(Diagnostic::new(place, finding));
        } else {
            self.unsaid += 1;
        }
    }

    fn unknown(&mut self, element: Element<'_>) {
        // links between GPUs, and newer versions' elements beside `<net>`: none pairs a GPU with a NIC
        let known = ["nvlink", "xgmi", "c2c", "pcilink", "gin", "rma"];
        let name = element.tag_name().name();
        if !known.contains(&name) && self.unknown.len() < MAX_UNKNOWN {
            self.unknown.insert(shown(name).into());
        }
    }

    fn system(&mut self, root: Element<'a>) -> Result<(), BadText> {
        let problem = match (root.tag_name().name(), root.attribute("version")) {
            ("system", Some("1" | "2")) => None,
            ("system", Some(other)) => Some(format!(
                "version `{}`: expected `1` (NCCL) or `2` (RCCL)",
                shown(other)
            )),
            ("system", None) => {
                Some("`<system>` has no `version`: expected `version=\"1\"`".to_string())
            }
            ("graphs", _) => Some(
                "`<graphs>` are the rings and trees that NCCL chose (`NCCL_GRAPH_DUMP_FILE`), not the machine that it \
                 chose them for: expected the file that `NCCL_TOPO_DUMP_FILE` writes"
                    .to_string(),
            ),
            (other, _) => Some(format!(
                "the outermost element is `<{}>`: expected `<system>`",
                shown(other)
            )),
        };
        if let Some(problem) = problem {
            return Err(self.bad(root, problem));
        }
        for child in elements(root) {
            match child.tag_name().name() {
                "cpu" => self.cpu(child)?,
                _ => self.unknown(child),
            }
        }
        Ok(())
    }

    fn cpu(&mut self, cpu: Element<'a>) -> Result<(), BadText> {
        // a file of a multi-node NVLink domain has all its hosts, with the same addresses in each
        if let Some(host) = cpu.attribute("host_hash") {
            let first = *self.host.get_or_insert(host);
            if first != host {
                let (host, first) = (shown(host), shown(first));
                return Err(self.bad(cpu, format!(
                    "`host_hash` is `{host}` here and `{first}` before: the file describes several hosts, and a topology one"
                )));
            }
        }
        if self.topology.processor.is_none() {
            self.topology.processor = processor(cpu);
        }
        let index = self.cpus.len() as u32;
        let numa_node = self.numa_node(cpu)?;
        let place = Place {
            parent: PciParent::Host(host_of(nth_bus(INVENTED_HOSTS + index, 0))),
            numa_node,
            level: 1,
        };
        for child in elements(cpu) {
            match child.tag_name().name() {
                "pci" => self.pci(child, place)?,
                "nic" => self.nic(child, None, None)?,
                _ => self.unknown(child),
            }
        }
        Ok(())
    }

    /// The NUMA node of a `<cpu>`; `None` if the kernel did not tell it (-1).
    fn numa_node(&mut self, cpu: Element<'a>) -> Result<Option<u32>, BadText> {
        let text = cpu.attribute("numaid");
        if text.is_none() {
            self.note("<cpu>", "no `numaid`: what is below it has no NUMA node");
        }
        let text = text.unwrap_or("-1");
        let number = text.trim().parse::<i64>().ok();
        let number = number.filter(|number| (-1..MAX_NUMA_NODES as i64).contains(number));
        let number = number.ok_or_else(|| {
            let text = shown(text);
            let expected = format!("expected -1 or a number below {MAX_NUMA_NODES}");
            self.bad(cpu, format!("`numaid` `{text}`: {expected}"))
        })?;
        if let Some(first) = self.cpus.insert(number, cpu.range().start) {
            return Err(self.second(cpu, format!("`numaid` `{number}`"), first));
        }
        let Ok(os_index) = u32::try_from(number) else {
            return Ok(None);
        };
        let mut cpus = CpuSet::new();
        if let Some(text) = cpu.attribute("affinity") {
            cpus = values::affinity(text).ok_or_else(|| {
                let text = shown(text);
                let expected = "expected a mask such as `ffffffff,00000000`";
                self.bad(cpu, format!("`affinity` `{text}`: {expected}"))
            })?;
        }
        // an offset marks a part of a mask, from a system that Slurm does not run on
        let mut others = self.topology.numa_nodes.iter();
        let finding = if cpu
            .attribute("affinity_offset")
            .is_some_and(|offset| offset != "0")
        {
            Some("has an offset".to_string())
        } else {
            // seen in a cloud provider's file: the same mask for all nodes
            let other = others.find(|other| other.cpus.intersects(&cpus));
            other.map(|other| format!("names CPUs of NUMA node {} too", other.os_index))
        };
        if let Some(finding) = finding {
            self.note(
                format!("numaid {number}"),
                format!("`affinity` {finding}: its CPUs are not used"),
            );
            cpus = CpuSet::new();
        }
        self.topology.numa_nodes.push(numa_node(os_index, cpus));
        Ok(Some(os_index))
    }

    fn pci(&mut self, pci: Element<'a>, place: Place) -> Result<(), BadText> {
        if place.level > MAX_LEVELS {
            return Err(self.bad(
                pci,
                format!("more than {MAX_LEVELS} `<pci>` inside each other"),
            ));
        }
        let is_switch = has(pci, "pci");
        let address = self.address(pci, is_switch)?;
        let class = pci.attribute("class").unwrap_or_default();
        let rate = values::rate(pci.attribute("link_speed"), pci.attribute("link_width"));
        let id = |name: &str| pci.attribute(name).and_then(values::id);
        let function = PciFunction {
            class: values::class(class),
            vendor: id("vendor"),
            device: id("device"),
            subsystem: id("subsystem_vendor").zip(id("subsystem_device")),
            numa_node: place.numa_node,
            // NCCL writes the lesser of both ends' maximal rates, and calculates with it
            link: PcieLink {
                current: rate,
                max: rate,
            },
            ..PciFunction::new(address, place.parent)
        };
        let gpus: Vec<Element<'a>> = elements(pci)
            .filter(|child| child.has_tag_name("gpu"))
            .collect();
        let is_nic = has(pci, "nic");
        if usize::from(is_switch) + usize::from(is_nic) + gpus.len().min(1) > 1 {
            return Err(self.bad(
                pci,
                format!("`{address}` is more than one of a switch, a GPU and a NIC"),
            ));
        }
        let vendor = function.vendor;
        self.insert(pci, function)?;
        if is_switch {
            for child in elements(pci) {
                if !child.has_tag_name("pci") {
                    self.unknown(child);
                    continue;
                }
                let port = PciFunction {
                    class: Some(BRIDGE),
                    numa_node: place.numa_node,
                    ..PciFunction::new(
                        nth_bus(INVENTED_PORTS, self.ports),
                        PciParent::Bridge(address),
                    )
                };
                self.ports += 1;
                let parent = PciParent::Bridge(port.address);
                self.insert(pci, port)?;
                let level = place.level + 1;
                self.pci(
                    child,
                    Place {
                        parent,
                        level,
                        ..place
                    },
                )?;
            }
        } else if is_nic {
            for child in elements(pci) {
                match child.tag_name().name() {
                    "nic" => self.nic(child, Some(address), vendor)?,
                    _ => self.unknown(child),
                }
            }
            let mut nics = self.topology.nics.iter();
            if !nics.any(|nic| nic.address == Some(address)) {
                self.nameless_nic(pci, address, vendor)?;
            }
        } else if !gpus.is_empty() || values::is_gpu(class) {
            elements(pci)
                .filter(|child| !child.has_tag_name("gpu"))
                .for_each(|child| self.unknown(child));
            self.gpu(pci, address, &gpus)?;
        } else if class.starts_with("0x02") {
            self.nameless_nic(pci, address, vendor)?;
        }
        Ok(())
    }

    /// Switches of virtual bridges may all have the same address, or a NIC's: NCCL tells nodes
    /// apart by type and address (src/graph/topo.cc, `ncclTopoAddPci`).
    fn address(&mut self, pci: Element<'a>, is_switch: bool) -> Result<PciAddress, BadText> {
        let text = pci
            .attribute("busid")
            .ok_or_else(|| self.bad(pci, "`<pci>` has no `busid`"))?;
        let expected = |text: &str, what: &str| {
            self.bad(pci, format!("`busid` `{text}`: expected a PCI {what}"))
        };
        let address: PciAddress = text.trim().parse().map_err(|_| {
            let text = shown(text).to_string();
            expected(&text, "address such as `0000:1b:00.0`")
        })?;
        if address.domain >= INVENTED_HOSTS {
            return Err(expected(&address.to_string(), "domain below `fffe0000`"));
        }
        let is_devices = is_switch && self.devices.contains(&address);
        match self.addresses.get(&address) {
            None if !is_devices => {
                self.addresses.insert(address, pci.range().start);
                return Ok(address);
            }
            Some(&first) if !is_switch => {
                return Err(self.second(pci, format!("`busid` `{address}`"), first));
            }
            _ => {}
        }
        // unlike a port, we write it out again, so its address must be valid in a file
        let mut own = (0..=MAX_PCI).map(|nth| nth_bus(INVENTED_SWITCHES, nth as u32));
        let invented = own
            .find(|own| !self.addresses.contains_key(own))
            .ok_or_else(|| self.bad(pci, format!("more than {MAX_PCI} switches")))?;
        self.addresses.insert(invented, pci.range().start);
        let whose = if is_devices {
            "a switch with a device's address"
        } else {
            "a second switch of this address"
        };
        self.note(
            address.to_string(),
            format!("{whose}: called `{invented}` here"),
        );
        Ok(invented)
    }

    fn insert(&mut self, pci: Element<'a>, function: PciFunction) -> Result<(), BadText> {
        self.functions += 1;
        if self.functions > MAX_PCI {
            return Err(self.bad(
                pci,
                format!("more than {MAX_PCI} PCI functions, with those that it implies"),
            ));
        }
        self.topology.pci.insert(function);
        Ok(())
    }

    fn finish(mut self) -> (Topology, Vec<Diagnostic>) {
        self.part_fused();
        for name in std::mem::take(&mut self.unknown) {
            self.note(format!("<{name}>"), "not an element of NCCL's: left out");
        }
        if let Some(first) = self.nameless.first().copied() {
            let others = match self.nameless.len() {
                1 => String::new(),
                count => format!(", nor of {} others", count - 1),
            };
            self.note(first.to_string(), format!(
                "the file names no device of this NIC{others}: known by address only, and never chosen"
            ));
        }
        if self.topology.gpus.is_empty() && self.topology.nics.is_empty() {
            self.note(
                "<system>",
                "no `<gpu>`, no `<net>`, and no class that tells either: no GPU and no NIC is known",
            );
        }
        if self.unsaid > 0 {
            self.diagnostics.push(Diagnostic::new(
                "<system>",
                format!("{} of these kinds", counted(self.unsaid, "more finding")),
            ));
        }
        self.topology.sort();
        (self.topology, self.diagnostics)
    }
}

/// `arch`, `vendor`, `familyid`, `modelid`.
fn processor(cpu: Element<'_>) -> Option<Processor> {
    let arch = match cpu.attribute("arch")? {
        "x86_64" => Arch::X86,
        "arm64" => Arch::Arm,
        "ppc64" => Arch::Power,
        _ => return None,
    };
    let number = |name: &str| cpu.attribute(name)?.parse::<u16>().ok().map(u32::from);
    super::processor(
        arch,
        cpu.attribute("vendor"),
        number("familyid").and_then(values::family),
        number("modelid"),
    )
}
