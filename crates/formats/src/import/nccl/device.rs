//! GPUs and NICs of NCCL's XML: `<gpu>`, `<nic>`, `<net>`, and functions recognised by their class alone.

use super::{Element, Reader, elements, has, values};
use crate::import::{AMAZON, BadText, CRAY, shown};
use nic_placement_core::topology::file::{MAX_GPUS, MAX_NICS, MAX_PORTS};
use nic_placement_core::topology::{
    DeviceName, Gpu, GpuVendor, LinkLayer, Nic, NicIndex, NicKind, PciAddress, Port, PortState,
};

/// A NIC that NCCL merged from several, named `mlx5_0+mlx5_1`.
pub struct Fused {
    members: Vec<DeviceName>,
    address: Option<PciAddress>,
    vendor: Option<u16>,
    rate_mbps: Option<u64>,
}

/// The name of a NIC with only its address known.
pub fn nameless(address: PciAddress) -> String {
    format!("pci-{}", address.to_string().replace(':', "-"))
}

/// Files written by hand often have only the name: rdma-core's names that begin with `rdma` are no
/// InfiniBand, RoCE or iWARP (kernel-boot/rdma-persistent-naming.rules), but EFA's.
fn kind(vendor: Option<u16>, name: &str) -> NicKind {
    match vendor {
        Some(AMAZON) => NicKind::Efa,
        None if name.starts_with("rdmap") => NicKind::Efa,
        Some(CRAY) => NicKind::Slingshot,
        _ => NicKind::Verbs,
    }
}

impl<'a> Reader<'a> {
    pub fn gpu(
        &mut self,
        pci: Element<'a>,
        address: PciAddress,
        gpus: &[Element<'a>],
    ) -> Result<(), BadText> {
        let function = self.topology.pci.get(address).cloned();
        let id = function.as_ref().and_then(|function| function.vendor);
        let known = id.and_then(GpuVendor::from_pci);
        if gpus.is_empty() && id.is_some() && known.is_none() {
            // a server's management controller has a display too
            return Ok(());
        }
        let vendor = known.unwrap_or_else(|| self.guessed(pci, gpus));
        if let (Some(id), None, Some(mut function)) = (id, known, function) {
            let like = if vendor == GpuVendor::Amd {
                "AMD"
            } else {
                "NVIDIA"
            };
            self.note(address.to_string(), format!(
                "a GPU of the unknown vendor `{id:#06x}`: taken for one that is used like {like}'s"
            ));
            function.vendor = None;
            self.topology.pci.insert(function);
        }
        // several ranks may share a GPU; each part of one function has its own index
        let mut devs: Vec<Option<&str>> = gpus.iter().map(|gpu| gpu.attribute("dev")).collect();
        devs.sort();
        devs.dedup();
        let count = devs.len().max(1);
        if self.topology.gpus.len() + count > MAX_GPUS {
            return Err(self.bad(pci, format!("more than {MAX_GPUS} GPUs")));
        }
        for part in 0..count as u32 {
            let partition = (count > 1).then_some(part);
            self.topology.gpus.push(Gpu {
                partition,
                ..Gpu::new(address, vendor)
            });
        }
        Ok(())
    }

    /// Older files name no vendor, and Hygon's GPUs are used like AMD's.
    fn guessed(&self, pci: Element<'a>, gpus: &[Element<'a>]) -> GpuVendor {
        let is_accelerator = pci
            .attribute("class")
            .is_some_and(|class| class.starts_with("0x1200"));
        let has_capability = gpus.iter().any(|gpu| gpu.attribute("sm").is_some());
        if self.is_amd || is_accelerator && !has_capability {
            GpuVendor::Amd
        } else {
            GpuVendor::Nvidia
        }
    }

    pub fn nic(
        &mut self,
        nic: Element<'a>,
        address: Option<PciAddress>,
        vendor: Option<u16>,
    ) -> Result<(), BadText> {
        let mut index = 0;
        for child in elements(nic) {
            if child.has_tag_name("net") {
                self.net(child, address, vendor, index)?;
                index += 1;
            } else {
                self.unknown(child);
            }
        }
        Ok(())
    }

    fn net(
        &mut self,
        net: Element<'a>,
        address: Option<PciAddress>,
        vendor: Option<u16>,
        index: u32,
    ) -> Result<(), BadText> {
        let rate_mbps = net.attribute("speed").and_then(values::mbps);
        let name = match net.attribute("name").filter(|name| !name.is_empty()) {
            Some(name) => name.to_string(),
            None => self.invented_name(net),
        };
        let members: Result<Vec<DeviceName>, _> = name.split('+').map(str::parse).collect();
        let name = match (members, name.parse::<DeviceName>()) {
            (_, Ok(name)) => name,
            (Ok(members), Err(_)) => {
                self.fused.push(Fused {
                    members,
                    address,
                    vendor,
                    rate_mbps,
                });
                return Ok(());
            }
            (Err(_), Err(_)) => {
                self.note(
                    shown(&name),
                    "a name that no library's variable could hold: this NIC is left out",
                );
                return Ok(());
            }
        };
        let port = net.attribute("port");
        let port = port.and_then(|port| port.trim().parse::<u32>().ok());
        // NCCL's sockets have port 0: they are network interfaces, not RDMA devices
        let kind = if port == Some(0) {
            NicKind::Ethernet
        } else {
            kind(vendor, &name)
        };
        let card = net.attribute("guid").and_then(values::card);
        let nic = match self.names.get(&name).copied() {
            Some((nic, first)) if self.topology.nic(nic).address != address => {
                return Err(self.second(net, format!("the name `{name}`"), first));
            }
            Some((nic, _)) => nic,
            None => self.add_nic(
                net,
                Nic {
                    address,
                    card,
                    ..Nic::new(name.clone(), kind)
                },
            )?,
        };
        let is_interface = self.topology.nic(nic).kind == NicKind::Ethernet;
        let ports = &mut self.topology.nics[nic.0].ports;
        let is_free = |number: &u32| {
            (1..=255).contains(number)
                && !ports.iter().any(|port| u32::from(port.number) == *number)
        };
        // Sockets have no numbers.  NCCL's IB transport adds the number of ports it has already listed of the
        // same card
        let stated = if is_interface { 0 } else { port.unwrap_or(1) };
        let number = [stated.saturating_sub(index), stated]
            .into_iter()
            .chain(1..=255)
            .find(is_free);
        match number.filter(|_| ports.len() < MAX_PORTS) {
            Some(number) => {
                // NCCL lists active ports only
                ports.push(Port::new(
                    number as u8,
                    PortState::Active,
                    LinkLayer::Unknown,
                    rate_mbps,
                ));
                Ok(())
            }
            None => Err(self.bad(net, format!("more than {MAX_PORTS} ports of `{name}`"))),
        }
    }

    fn invented_name(&mut self, net: Element<'a>) -> String {
        let dev = net
            .attribute("dev")
            .and_then(|dev| dev.trim().parse().ok())
            .unwrap_or(0u16);
        let name = (dev..=u16::MAX)
            .chain(0..dev)
            .map(|dev| format!("net{dev}"))
            .find(|name| !self.names.contains_key(name.as_str()))
            .unwrap_or_default();
        self.note(
            name.clone(),
            "a `<net>` without a name: this one is invented, and no library knows it",
        );
        name
    }

    fn add_nic(&mut self, element: Element<'a>, nic: Nic) -> Result<NicIndex, BadText> {
        let index = NicIndex(self.topology.nics.len());
        if index.0 == MAX_NICS {
            return Err(self.bad(element, format!("more than {MAX_NICS} NICs")));
        }
        self.names
            .insert(nic.name.clone(), (index, element.range().start));
        self.topology.nics.push(nic);
        Ok(index)
    }

    /// A NIC of which the file has only the address: NCCL takes the rest from the machine.
    pub fn nameless_nic(
        &mut self,
        pci: Element<'a>,
        address: PciAddress,
        vendor: Option<u16>,
    ) -> Result<(), BadText> {
        // a `<net>` that was left out has its own finding, and a fused one gets its members later
        let has_nets = elements(pci).any(|child| child.has_tag_name("nic") && has(child, "net"));
        if has_nets {
            return Ok(());
        }
        let name = nameless(address);
        if self.names.contains_key(name.as_str()) {
            return Err(self.bad(
                pci,
                format!("the name `{name}` is that of a `<net>` already"),
            ));
        }
        let Ok(name) = name.parse::<DeviceName>() else {
            return Ok(());
        };
        self.nameless.push(address);
        self.add_nic(
            pci,
            Nic {
                address: Some(address),
                ..Nic::new(name.clone(), kind(vendor, &name))
            },
        )?;
        Ok(())
    }

    /// Only NCCL knows fused NICs (`NCCL_NET_MERGE_LEVEL`): each member gets its share of the rate
    /// unless the file lists it too.
    pub fn part_fused(&mut self) {
        for Fused {
            members,
            address,
            vendor,
            rate_mbps,
        } in std::mem::take(&mut self.fused)
        {
            let all: Vec<&str> = members.iter().map(DeviceName::as_str).collect();
            self.note(
                all.join("+"),
                "a NIC that NCCL made of several: its members are used",
            );
            let share = rate_mbps
                .map(|mbps| mbps / members.len() as u64)
                .filter(|&mbps| mbps > 0);
            for name in members {
                if self.names.contains_key(&name) {
                    continue;
                }
                if self.topology.nics.len() == MAX_NICS {
                    self.note(
                        &name,
                        format!("more than {MAX_NICS} NICs: this one is left out"),
                    );
                    continue;
                }
                self.names
                    .insert(name.clone(), (NicIndex(self.topology.nics.len()), 0));
                let port = Port::new(1, PortState::Active, LinkLayer::Unknown, share);
                self.topology.nics.push(Nic {
                    address,
                    ports: vec![port],
                    ..Nic::new(name.clone(), kind(vendor, &name))
                });
            }
        }
    }
}
