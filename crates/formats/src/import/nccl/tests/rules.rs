//! NCCL's own rules for a topology file, played without NCCL: how it reads the text, how each rank completes it, and how it
//! joins the ranks' files.
//!
//! From NCCL 2.30: src/graph/xml.cc and xml.h (the reader, `ncclTopoGetXmlFromSys`, `ncclTopoFillGpu`, `ncclTopoFillNet`,
//! `ncclTopoTrimXml`, `ncclTopoFuseXml`) and src/graph/topo.cc (`ncclTopoGetSystem`, `ncclTopoAddCpu`, `ncclTopoAddPci`).

#[path = "rules/reader.rs"]
pub mod reader;

pub use reader::Xml;

use nic_placement_core::topology::{Nic, NicKind, PathType, PciAddress, PortState, Topology};
use std::collections::BTreeMap;

/// The node as all its ranks see it: one for each GPU, which all list the same NICs.
///
/// `bus` is what /sys shows where NCCL runs: the machine's own bus, or that of one which has none of these devices.
fn joined(text: &str, topology: &Topology, bus: Option<&Topology>) -> Result<Xml, String> {
    let mut all = Xml::default();
    for rank in 0..topology.gpus.len() {
        let xml = reader::load(text)?;
        let mut of_rank = Rank { xml, bus, topology };
        of_rank.complete(rank)?;
        let xml = &of_rank.xml;
        let root = xml.find("system", |_| true).ok_or("no `<system>`")?;
        all.fuse(&xml.trimmed(root).ok_or("nothing is kept")?);
        let elements = xml.elements.len().max(all.elements.len());
        if elements > reader::MAX_ELEMENTS {
            return Err(format!("{elements} elements"));
        }
    }
    Ok(all)
}

/// The paths that NCCL finds in the joined files, which have all that it asks for.
pub fn kinds(text: &str, topology: &Topology, bus: Option<&Topology>) -> Result<Kinds, String> {
    let all = joined(text, topology, bus)?;
    all.check()?;
    all.kinds(topology)
}

/// A virtual machine's bus, without the paths that are only stated.
pub fn bus(topology: &Topology) -> Topology {
    Topology {
        stated_paths: BTreeMap::new(),
        ..topology.clone()
    }
}

pub fn listed(topology: &Topology) -> impl Iterator<Item = &Nic> {
    let is_active = |nic: &&Nic| nic.ports.iter().any(|port| port.state == PortState::Active);
    let verbs = topology.nics.iter();
    verbs.filter(move |nic| nic.kind == NicKind::Verbs && is_active(nic))
}

/// The path between each GPU, by its rank, and each NIC.
pub type Kinds = BTreeMap<(usize, String), PathType>;

/// The address at which NCCL looks for a NIC's function: all ports of a card, and all virtual functions, are one
/// (src/transport/net_ib/init.cc, `ncclIbGetPciPath`).
pub fn sought(address: PciAddress) -> PciAddress {
    PciAddress {
        device: 0,
        function: 0,
        ..address
    }
}

struct Rank<'a> {
    xml: Xml,
    bus: Option<&'a Topology>,
    topology: &'a Topology,
}

impl Rank<'_> {
    /// `ncclTopoGetSystem`, up to the ranks' meeting.
    fn complete(&mut self, rank: usize) -> Result<(), String> {
        for element in &mut self.xml.elements {
            if element.name == "cpu" {
                element.set("host_hash", "0x5a5a");
            }
        }
        let pci = self.function(&self.topology.gpus[rank].address.to_string());
        self.xml.elements[pci].set_if_unset("class", "0x03");
        self.ask_sys(pci)?;
        let gpu = self.xml.child(pci, "gpu");
        let gpu = gpu.unwrap_or_else(|| self.xml.add(Some(pci), "gpu"));
        let gpu = &mut self.xml.elements[gpu];
        gpu.set_if_unset("dev", &rank.to_string());
        gpu.set_if_unset("sm", "90");
        gpu.set("keep", "1");
        gpu.set("rank", &rank.to_string());
        gpu.set_if_unset("gdr", "1");
        for (dev, nic) in listed(self.topology).enumerate() {
            self.net(dev, &nic.name, nic.address)?;
        }
        Ok(())
    }

    /// `ncclTopoFillNet` and what follows it.
    fn net(&mut self, dev: usize, name: &str, address: Option<PciAddress>) -> Result<(), String> {
        let known = self.xml.find("net", |net| net.get("name") == Some(name));
        let above = match address.filter(|_| known.is_none()) {
            Some(address) => {
                let pci = self.function(&sought(address).to_string());
                self.xml.elements[pci].set_if_unset("class", "0x02");
                self.ask_sys(pci)?;
                pci
            }
            None => self.xml.find("cpu", |_| true).ok_or("no `<cpu>`")?,
        };
        let net = known.unwrap_or_else(|| {
            let nic = self.xml.child(above, "nic");
            let nic = nic.unwrap_or_else(|| self.xml.add(Some(above), "nic"));
            self.xml.add(Some(nic), "net")
        });
        let net = &mut self.xml.elements[net];
        net.set("name", name);
        net.set("keep", "1");
        net.set("dev", &dev.to_string());
        Ok(())
    }

    /// `ncclTopoGetPciNode`: NCCL compares addresses as text.
    fn function(&mut self, busid: &str) -> usize {
        let known = self.xml.find("pci", |pci| pci.get("busid") == Some(busid));
        known.unwrap_or_else(|| {
            let new = self.xml.add(None, "pci");
            self.xml.elements[new].set("busid", busid);
            new
        })
    }

    /// `ncclTopoGetXmlFromSys`
    fn ask_sys(&mut self, pci: usize) -> Result<(), String> {
        let busid = self.xml.elements[pci].get("busid").ok_or("no `busid`")?;
        let busid = busid.to_string();
        let address: PciAddress = busid.parse().map_err(|bad| format!("{bad}"))?;
        let function = self.bus.and_then(|bus| bus.pci.get(address)).cloned();
        let element = &mut self.xml.elements[pci];
        if let Some(function) = &function {
            if let Some(class) = function.class {
                element.set("class", &format!("0x{class:06x}"));
            }
            let subsystem = function.subsystem.unzip();
            for (key, id) in [
                ("vendor", function.vendor),
                ("device", function.device),
                ("subsystem_vendor", subsystem.0),
                ("subsystem_device", subsystem.1),
            ] {
                if let Some(id) = id {
                    element.set_if_unset(key, &format!("0x{id:04x}"));
                }
            }
        }
        element.set_if_unset("link_speed", "");
        element.set_if_unset("link_width", "");
        if self.xml.elements[pci].parent.is_none() {
            let parent = self.above(address, function.is_some());
            self.xml.elements[pci].parent = Some(parent);
            let is_behind = |other: &usize| self.xml.elements[*other].get("busid") > Some(&busid);
            let inside = &self.xml.elements[parent].inside;
            let place = inside.iter().position(is_behind).unwrap_or(inside.len());
            self.xml.elements[parent].inside.insert(place, pci);
        }
        let parent = self.xml.elements[pci].parent.ok_or("no parent")?;
        if self.xml.elements[parent].name == "pci" {
            return self.ask_sys(parent);
        }
        let cpu = &mut self.xml.elements[parent];
        let words = "affinity=ff arch=x86_64 vendor=AuthenticAMD familyid=143 modelid=49";
        for (key, value) in words.split(' ').filter_map(|word| word.split_once('=')) {
            cpu.set_if_unset(key, value);
        }
        Ok(())
    }

    /// What stands above a function that the file does not have: the next switch up, two bridges away, or the CPU.
    fn above(&mut self, address: PciAddress, is_here: bool) -> usize {
        let bridges = self.bus.map(|bus| bus.pci.ancestors(address).0);
        if let Some(switch) = bridges.unwrap_or_default().get(1) {
            return self.function(&switch.to_string());
        }
        let bus = self.bus.filter(|_| is_here);
        let numa_node = bus.and_then(|bus| bus.pci.get(address)?.numa_node);
        let numaid = numa_node.map_or("-1".to_string(), |node| node.to_string());
        let is_it = |cpu: &reader::Element| cpu.get("numaid") == Some(&numaid);
        let known = self.xml.find("cpu", is_it);
        known.unwrap_or_else(|| {
            let system = self.xml.find("system", |_| true);
            let cpu = self.xml.add(system, "cpu");
            self.xml.elements[cpu].set("host_hash", "0x5a5a");
            self.xml.elements[cpu].set("numaid", &numaid);
            cpu
        })
    }
}

impl Xml {
    /// What `ncclTopoGetSystemFromXml` would not find.
    fn check(&self) -> Result<(), String> {
        for element in &self.elements {
            let mandatory: &[&str] = match element.name.as_str() {
                "system" => &["version"],
                "cpu" if element.get("arch") != Some("x86_64") => &["numaid", "arch", "host_hash"],
                "cpu" if element.get("vendor") != Some("GenuineIntel") => &["numaid", "vendor"],
                "cpu" => &["numaid", "vendor", "familyid", "modelid"],
                "pci" => &["class", "busid", "link_width", "link_speed"],
                "gpu" => &["rank", "sm", "dev", "gdr"],
                "net" => &["dev"],
                _ => &[],
            };
            for key in mandatory {
                let missing = || format!("{key} of {}", element.name);
                element.get(key).ok_or_else(missing)?;
            }
        }
        Ok(())
    }

    /// The kind of path between each GPU, by its rank, and each NIC, by its name (src/graph/paths.cc, `ncclTopoSetPaths`).  A
    /// device that occurs twice, or nowhere, is an error.
    fn kinds(&self, topology: &Topology) -> Result<Kinds, String> {
        let mut kinds = Kinds::new();
        let one = |name: &str, key: &str, value: &str| {
            let elements = self.elements.iter().enumerate();
            let found = elements.filter(|(_, of)| of.name == name && of.get(key) == Some(value));
            match Vec::from_iter(found).as_slice() {
                [(one, _)] => Ok(self.path_up(*one)),
                many => Err(format!("{} `<{name} {key}=\"{value}\">`", many.len())),
            }
        };
        for rank in 0..topology.gpus.len() {
            let gpu = one("gpu", "rank", &rank.to_string())?;
            for nic in listed(topology) {
                let net = one("net", "name", &nic.name)?;
                // the devices' own elements are no switches
                let (gpu_above, nic_above) = (&gpu[1..], &net[1..]);
                let shared = gpu_above.iter().position(|above| nic_above.contains(above));
                let kind = match shared.map(|at| &self.elements[gpu_above[at]]) {
                    Some(joint) if joint.name == "pci" => {
                        let direct = gpu_above.first() == nic_above.first();
                        if direct { PathType::Pix } else { PathType::Pxb }
                    }
                    Some(joint) if joint.name == "cpu" => PathType::Phb,
                    _ => PathType::Sys,
                };
                kinds.insert((rank, nic.name.to_string()), kind);
            }
        }
        Ok(kinds)
    }

    /// The `<pci>` and `<cpu>` above an element, nearest first.
    fn path_up(&self, from: usize) -> Vec<usize> {
        let mut path = Vec::new();
        let mut here = self.elements[from].parent;
        while let Some(index) = here {
            if matches!(self.elements[index].name.as_str(), "pci" | "cpu") {
                path.push(index);
            }
            here = self.elements[index].parent;
        }
        // a NIC right below its CPU has no function of its own
        let name = |at: &usize| self.elements[*at].name.as_str();
        if path.first().map(name) == Some("cpu") {
            path.insert(0, from);
        }
        path
    }
}
