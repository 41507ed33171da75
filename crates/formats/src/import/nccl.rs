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

mod values;
mod write;

#[cfg(test)]
mod tests;

pub use write::write;

use super::{AMAZON, BadText, CRAY, Imported, Result, host_of, nth_bus, numa_node, shown, xml};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::file::{MAX_NUMA_NODES, MAX_PCI};
use nic_placement_core::topology::{
    Arch, CpuSet, DeviceName, Gpu, GpuVendor, LinkLayer, LinkRate, Nic, NicKind, PciAddress,
    PciFunction, PciParent, PciTree, PcieLink, Port, PortState, Processor, Provenance, Topology,
};
use roxmltree::Node;
use std::collections::BTreeSet;

/// The first PCI domain of the invented host bridges, one for each `<cpu>`.
const INVENTED_HOSTS: u32 = 0xfffe_0000;
/// The first PCI domain of switches whose address another function also has.
const INVENTED_SWITCHES: u32 = 0xfffd_0000;
/// The first PCI domain of the invented downstream ports.
const INVENTED_PORTS: u32 = 0xffff_0000;
/// The most nested `<pci>`: each switch stands for two bridges, with one device below the last.
const MAX_LEVELS: usize = PciTree::MAX_DEPTH / 2 + 1;
/// A PCI-to-PCI bridge.
const BRIDGE: u32 = 0x06_0400;

type Element<'a> = Node<'a, 'a>;

pub fn read(text: &str, provenance: Provenance) -> Result<(Topology, Vec<Diagnostic>)> {
    let document = xml::parse(text)?;
    let root = document.root_element();
    match (root.tag_name().name(), root.attribute("version")) {
        ("system", Some("1" | "2")) => {}
        (name, _) => {
            return Err(bad(
                root,
                format!(
                    "`<{}>`: expected `<system>` of version 1 (NCCL) or 2 (RCCL), as `NCCL_TOPO_DUMP_FILE` writes it",
                    shown(name)
                ),
            ));
        }
    }
    let name = root
        .attribute("name")
        .filter(|name| DeviceName::is_one(name));
    let all = || root.descendants();
    let counted = |of: &Element| ["cpu", "pci", "net"].contains(&of.tag_name().name());
    if all().filter(counted).count() > MAX_PCI {
        return Err(bad(root, format!("more than {MAX_PCI} elements")));
    }
    let switch = |of: &Element| of.has_tag_name("pci") && named(*of, "pci").next().is_some();
    let devices = all().filter(|of| of.has_tag_name("pci") && !switch(of));
    let devices = devices.filter_map(|device| address(device).ok());
    let mut reader = Reader {
        to: Imported::new(name.unwrap_or("nccl"), provenance),
        // links and architectures that only AMD has
        is_amd: all().any(|of| of.has_tag_name("xgmi") || of.attribute("gcn").is_some()),
        host: root.children().find_map(|cpu| cpu.attribute("host_hash")),
        devices: devices.collect(),
        functions: 0,
    };
    for (index, cpu) in named(root, "cpu").enumerate() {
        reader.cpu(cpu, index as u32)?;
    }
    let nics = reader
        .to
        .topology
        .nics
        .iter()
        .filter(|nic| nic.ports.is_empty());
    let nameless = nics.count();
    if nameless > 0 {
        reader.to.note(
            "<pci>",
            format!("{nameless} NICs are known by address only, and never chosen"),
        );
    }
    let node = &reader.to.topology;
    if node.gpus.is_empty() && node.nics.is_empty() {
        reader.to.note("<system>", "no GPU and no NIC is known");
    }
    reader.to.finish()
}

fn named<'a>(parent: Element<'a>, name: &'static str) -> impl Iterator<Item = Element<'a>> {
    let children = parent.children();
    children.filter(move |child| child.has_tag_name(name))
}

/// Slow, since it scans the text: for errors only.
fn bad(element: Element<'_>, problem: impl Into<String>) -> BadText {
    let line = element.document().text_pos_at(element.range().start).row;
    BadText::new(line, problem)
}

fn address(pci: Element<'_>) -> Result<PciAddress> {
    let text = pci.attribute("busid").unwrap_or_default().trim();
    let known = text.parse().ok();
    let known = known.filter(|known: &PciAddress| known.domain < INVENTED_HOSTS);
    known.ok_or_else(|| {
        let text = shown(text);
        bad(
            pci,
            format!("`busid` `{text}`: expected a PCI address such as `0000:1b:00.0`"),
        )
    })
}

struct Reader<'a> {
    to: Imported,
    is_amd: bool,
    host: Option<&'a str>,
    /// the `busid` of each `<pci>` that is no switch
    devices: BTreeSet<PciAddress>,
    /// switches with their ports so far
    functions: u32,
}

#[derive(Clone, Copy)]
struct Place {
    parent: PciParent,
    numa_node: Option<u32>,
    level: usize,
}

impl<'a> Reader<'a> {
    fn cpu(&mut self, cpu: Element<'a>, index: u32) -> Result<()> {
        // a file of a multi-node NVLink domain has all its hosts, with the same addresses in each
        if cpu
            .attribute("host_hash")
            .is_some_and(|host| Some(host) != self.host)
        {
            return Err(bad(
                cpu,
                "another `host_hash`: the file describes several hosts, a topology one",
            ));
        }
        let node = &mut self.to.topology;
        node.processor = node.processor.take().or(processor(cpu));
        let place = Place {
            parent: PciParent::Host(host_of(nth_bus(INVENTED_HOSTS + index, 0))),
            numa_node: self.numa_node(cpu)?,
            level: 1,
        };
        for pci in named(cpu, "pci") {
            self.pci(pci, place)?;
        }
        named(cpu, "nic").for_each(|nic| self.nic(nic, None, None));
        Ok(())
    }

    /// The NUMA node of a `<cpu>`; `None` if the kernel did not tell it (-1).
    fn numa_node(&mut self, cpu: Element<'a>) -> Result<Option<u32>> {
        let text = cpu.attribute("numaid").unwrap_or("-1").trim();
        let number = text.parse::<i64>().ok();
        let number = number.filter(|number| (-1..MAX_NUMA_NODES as i64).contains(number));
        let number = number.ok_or_else(|| {
            let text = shown(text);
            bad(
                cpu,
                format!("`numaid` `{text}`: expected -1 or a number below {MAX_NUMA_NODES}"),
            )
        })?;
        let Ok(os_index) = u32::try_from(number) else {
            return Ok(None);
        };
        let text = cpu.attribute("affinity").unwrap_or("0");
        let mut cpus = values::affinity(text).ok_or_else(|| {
            let text = shown(text);
            bad(
                cpu,
                format!("`affinity` `{text}`: expected a mask such as `ffffffff,00000000`"),
            )
        })?;
        // seen in a cloud provider's file: the same mask for all nodes
        let mut others = self.to.topology.numa_nodes.iter();
        if let Some(other) = others.find(|other| other.cpus.intersects(&cpus)) {
            let other = other.os_index;
            self.to.note(
                format!("numaid {os_index}"),
                format!("`affinity` names CPUs of NUMA node {other} too: its CPUs are not used"),
            );
            cpus = CpuSet::new();
        }
        self.to.topology.numa_nodes.push(numa_node(os_index, cpus));
        Ok(Some(os_index))
    }

    fn pci(&mut self, pci: Element<'a>, place: Place) -> Result<()> {
        if place.level > MAX_LEVELS {
            return Err(bad(
                pci,
                format!("more than {MAX_LEVELS} `<pci>` inside each other"),
            ));
        }
        let [below, gpus, nics] =
            ["pci", "gpu", "nic"].map(|name| Vec::from_iter(named(pci, name)));
        let kinds = [&below, &gpus, &nics];
        let mut address = address(pci)?;
        if kinds.iter().filter(|inside| !inside.is_empty()).count() > 1 {
            return Err(bad(
                pci,
                format!("`{address}` is more than one of a switch, a GPU and a NIC"),
            ));
        }
        let is_there = self.to.topology.pci.get(address).is_some();
        if below.is_empty() && is_there {
            return Err(bad(pci, format!("`busid` `{address}` a second time")));
        }
        // Switches of virtual bridges may all have the same address, or a NIC's: NCCL tells nodes apart by type and address
        // (src/graph/topo.cc, `ncclTopoAddPci`).  Unlike a port, such a switch is written out again: its address must be valid
        if !below.is_empty() && (is_there || self.devices.contains(&address)) {
            let mut own = (0..).map(|nth| nth_bus(INVENTED_SWITCHES, nth));
            let pci = &self.to.topology.pci;
            let own = own.find(|own| pci.get(*own).is_none() && !self.devices.contains(own));
            let own = own.unwrap_or(address);
            self.to.note(
                address.to_string(),
                format!("a second function of this address: the switch is called `{own}` here"),
            );
            address = own;
        }
        let class = pci.attribute("class").unwrap_or_default();
        let rate = rate(pci);
        let id = |name: &str| pci.attribute(name).and_then(values::id);
        let mut function = PciFunction {
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
        let vendor = function.vendor;
        if !gpus.is_empty() || below.is_empty() && nics.is_empty() && values::is_gpu(class) {
            self.gpus(pci, &gpus, &mut function);
        }
        self.to.topology.pci.insert(function);
        for child in below {
            let port = PciFunction {
                class: Some(BRIDGE),
                numa_node: place.numa_node,
                ..PciFunction::new(
                    nth_bus(INVENTED_PORTS, self.functions),
                    PciParent::Bridge(address),
                )
            };
            self.functions += 1;
            let inside = Place {
                parent: PciParent::Bridge(port.address),
                level: place.level + 1,
                ..place
            };
            self.to.topology.pci.insert(port);
            self.pci(child, inside)?;
        }
        let has_nets = nics.iter().any(|nic| named(*nic, "net").next().is_some());
        if !has_nets && gpus.is_empty() && (!nics.is_empty() || class.starts_with("0x02")) {
            // NCCL takes the rest from the machine
            let name = format!("pci-{address}").replace(':', "-");
            self.named(&name, Some(address), vendor, NicKind::Verbs);
        }
        nics.into_iter()
            .for_each(|nic| self.nic(nic, Some(address), vendor));
        Ok(())
    }

    fn gpus(&mut self, pci: Element<'a>, gpus: &[Element<'a>], function: &mut PciFunction) {
        let address = function.address;
        let known = function.vendor.and_then(GpuVendor::from_pci);
        if gpus.is_empty() && function.vendor.is_some() && known.is_none() {
            // a server's management controller has a display too
            return;
        }
        // older files name no vendor, and Hygon's GPUs are used like AMD's
        let class = pci.attribute("class").unwrap_or_default();
        let has_capability = gpus.iter().any(|gpu| gpu.attribute("sm").is_some());
        let guessed = if self.is_amd || class.starts_with("0x1200") && !has_capability {
            GpuVendor::Amd
        } else {
            GpuVendor::Nvidia
        };
        if let (Some(id), None) = (function.vendor, known) {
            self.to.note(
                address.to_string(),
                format!("a GPU of the unknown vendor `{id:#06x}`: taken for one that is used like {guessed}'s"),
            );
            function.vendor = None;
        }
        // several ranks may share a GPU; each part of one function has its own index
        let devs: BTreeSet<Option<&str>> = gpus.iter().map(|gpu| gpu.attribute("dev")).collect();
        for part in 0..devs.len().max(1) as u32 {
            self.to.topology.gpus.push(Gpu {
                partition: (devs.len() > 1).then_some(part),
                ..Gpu::new(address, known.unwrap_or(guessed))
            });
        }
    }

    fn nic(&mut self, nic: Element<'a>, address: Option<PciAddress>, vendor: Option<u16>) {
        for (index, net) in named(nic, "net").enumerate() {
            let port = net
                .attribute("port")
                .and_then(|port| port.trim().parse::<u8>().ok());
            // NCCL's sockets have port 0: they are network interfaces, not RDMA devices
            let kind = if port == Some(0) {
                NicKind::Ethernet
            } else {
                NicKind::Verbs
            };
            // NCCL calls a NIC that it made of several (`NCCL_NET_MERGE_LEVEL`) `mlx5_0+mlx5_1`
            let names: Vec<&str> = net
                .attribute("name")
                .unwrap_or_default()
                .split('+')
                .collect();
            let rate = net.attribute("speed").and_then(values::mbps);
            let rate = rate
                .map(|rate| rate / names.len() as u64)
                .filter(|rate| *rate > 0);
            for name in &names {
                let Some(nic) = self.named(name, address, vendor, kind) else {
                    self.to.note(
                        shown(name),
                        "no name that a library's variable could hold: this NIC is left out",
                    );
                    continue;
                };
                let ports = &mut nic.ports;
                if names.len() > 1 && !ports.is_empty() {
                    continue;
                }
                let is_free =
                    |number: &u8| *number > 0 && ports.iter().all(|port| port.number != *number);
                // Sockets have no numbers.  NCCL's IB transport adds the number of ports it has already listed of the same card
                let stated = if nic.kind == NicKind::Ethernet {
                    0
                } else {
                    port.unwrap_or(1)
                };
                let own = stated.saturating_sub(index as u8);
                let mut numbers = [own, stated].into_iter().chain(1..=u8::MAX);
                let number = numbers.find(is_free).unwrap_or_default();
                // NCCL lists active ports only
                ports.push(Port::new(
                    number,
                    PortState::Active,
                    LinkLayer::Unknown,
                    rate,
                ));
            }
        }
    }

    /// The NIC of a name, made where there is none; `None` for what is no name.
    fn named(
        &mut self,
        name: &str,
        address: Option<PciAddress>,
        vendor: Option<u16>,
        kind: NicKind,
    ) -> Option<&mut Nic> {
        let name: DeviceName = name.parse().ok()?;
        let kind = match vendor {
            _ if kind == NicKind::Ethernet => kind,
            Some(AMAZON) => NicKind::Efa,
            // Files written by hand often have only the name: rdma-core's names that begin with `rdma` are no InfiniBand, RoCE or
            // iWARP (kernel-boot/rdma-persistent-naming.rules), but EFA's
            None if name.as_str().starts_with("rdmap") => NicKind::Efa,
            Some(CRAY) => NicKind::Slingshot,
            _ => kind,
        };
        let nics = &mut self.to.topology.nics;
        let known = nics
            .iter()
            .position(|nic| nic.name == name && nic.address == address);
        let at = known.unwrap_or(nics.len());
        if known.is_none() {
            nics.push(Nic {
                address,
                ..Nic::new(name, kind)
            });
        }
        nics.get_mut(at)
    }
}

/// `16 GT/s`, `32.0 GT/s PCIe` and width `16`; virtual machines show nothing, `Unknown` or width 0.
fn rate(pci: Element<'_>) -> Option<LinkRate> {
    let (speed, _) = pci.attribute("link_speed")?.trim().split_once(" GT/s")?;
    let width = pci.attribute("link_width")?.trim();
    format!("{speed} GT/s x{width}").parse().ok()
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
