//! NICs: OpenFabrics devices with their ports, Slingshot, EFA, and the plain network interfaces.

use super::object::Object;
use super::pci::Bus;
use crate::import::{AMAZON, CRAY, Imported, Result, hex, shown};
use nic_placement_core::topology::file::{MAX_NETDEVS, MAX_NICS, MAX_PORTS};
use nic_placement_core::topology::{
    DeviceName, LinkLayer, Nic, NicKind, PciFunction, Port, PortState, SubnetPrefix,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Card<'o> {
    verbs: Vec<&'o Object<'o>>,
    slingshot: Vec<&'o Object<'o>>,
    /// Portals adapters (Bull/Atos BXI)
    portals: Vec<&'o Object<'o>>,
    interfaces: Vec<&'o Object<'o>>,
}

fn name_of<'o>(object: &Object<'o>) -> &'o str {
    object.attribute("name").unwrap_or_default()
}

fn numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

impl<'o> Card<'o> {
    fn add(&mut self, object: &'o Object<'o>, version: u32) {
        let types = object.os_types(version);
        let name = name_of(object);
        if numbered(name, "cxi") && (types.openfabrics || types.network) {
            self.slingshot.push(object);
        } else if numbered(name, "bxi") && types.openfabrics {
            self.portals.push(object);
        } else if types.openfabrics {
            self.verbs.push(object);
        } else if types.network {
            self.interfaces.push(object);
        }
    }

    /// By their names; `None` for one that no library's variable could hold.
    fn nics(&self, function: Option<&PciFunction>) -> Vec<(&'o str, Option<Nic>)> {
        let netdevs: BTreeSet<&str> = self
            .interfaces
            .iter()
            .map(|object| name_of(object))
            .filter(|name| DeviceName::is_one(name))
            .collect();
        let netdevs: Vec<&str> = netdevs.into_iter().take(MAX_NETDEVS).collect();
        let listed = |name: &'o str, kind: NicKind, netdevs: &[&str]| {
            let netdevs = netdevs.iter().map(ToString::to_string).collect();
            (
                name,
                name.parse().ok().map(|name| Nic {
                    netdevs,
                    ..Nic::new(name, kind)
                }),
            )
        };
        let ids = function.map(|function| (function.vendor, function.device));
        // the file does not tell which of several devices an interface belongs to
        let is_alone = |devices: &[_]| devices.len() == 1;
        if !self.verbs.is_empty() {
            let own = if is_alone(&self.verbs) {
                &netdevs[..]
            } else {
                &[]
            };
            let interfaces = if is_alone(&self.verbs) {
                &self.interfaces[..]
            } else {
                &[]
            };
            let kind = match ids {
                Some((Some(AMAZON), Some(0xefa0..=0xefa3))) => NicKind::Efa,
                _ => NicKind::Verbs,
            };
            return self
                .verbs
                .iter()
                .map(|object| {
                    let (name, nic) = listed(name_of(object), kind, own);
                    let card = guid(object.info("SysImageGUID"));
                    let ports = ports(object, interfaces);
                    (name, nic.map(|nic| Nic { card, ports, ..nic }))
                })
                .collect();
        }
        if !self.slingshot.is_empty() {
            let own = if is_alone(&self.slingshot) {
                &netdevs[..]
            } else {
                &[]
            };
            return self
                .slingshot
                .iter()
                .map(|object| listed(name_of(object), NicKind::Slingshot, own))
                .collect();
        }
        let says_slingshot = |object: &&Object| {
            object.attribute("subtype") == Some("Slingshot") || numbered(name_of(object), "hsn")
        };
        let is_crays = matches!(ids, Some((Some(CRAY), _)));
        let kind = match is_crays || self.interfaces.iter().any(says_slingshot) {
            true => NicKind::Slingshot,
            false => NicKind::Ethernet,
        };
        // the file lacks the `cxi` device's name, so we use the interface's
        netdevs
            .iter()
            .map(|name| listed(name, kind, &[*name]))
            .collect()
    }
}

pub fn nics(bus: &Bus, to: &mut Imported) -> Result<()> {
    let file = bus.file;
    // by the PCI device, or by the OS device itself if there is none
    let mut cards: BTreeMap<(Option<usize>, usize), Card> = BTreeMap::new();
    for object in file.of("OSDev") {
        let device = bus.device_of(object.index);
        let key = (device, if device.is_some() { 0 } else { object.index });
        cards.entry(key).or_default().add(object, file.version);
    }
    let mut found: Vec<(Option<usize>, &str, Option<Nic>)> = Vec::new();
    for (&(device, _), card) in &cards {
        for object in &card.portals {
            to.note(
                shown(name_of(object)),
                "a Portals adapter, which no library here places: left out",
            );
        }
        if card.portals.is_empty() {
            let nics = card.nics(device.and_then(|device| bus.function(device)));
            found.extend(nics.into_iter().map(|(name, nic)| (device, name, nic)));
        }
    }
    // if not all fit, plain Ethernet ones are dropped first
    found.sort_by_key(|(.., nic)| nic.as_ref().map(|nic| nic.kind));
    let (mut names, mut unknown) = (BTreeSet::new(), Vec::new());
    for (device, name, nic) in found {
        let function = device.and_then(|device| bus.function(device));
        let is_gpus = function.is_some_and(|pci| to.topology.gpu_index(pci.address).is_some());
        let problem = match nic {
            None => "a name that no library's variable could hold: this NIC is left out",
            Some(_) if names.contains(name) => "a second NIC of this name: left out",
            Some(_) if to.topology.nics.len() >= MAX_NICS => {
                &format!("more than {MAX_NICS} NICs: this one is left out")
            }
            Some(_) if is_gpus => "a NIC inside a GPU's PCI device: left out",
            Some(nic) => {
                let address = match (device, function) {
                    (Some(device), Some(function)) if bus.add(device, to)? => {
                        Some(function.address)
                    }
                    (Some(_), _) => continue,
                    (None, _) => None,
                };
                if nic
                    .ports
                    .iter()
                    .any(|port| port.state == PortState::Unknown)
                {
                    unknown.push(name);
                }
                names.insert(name);
                to.topology.nics.push(Nic { address, ..nic });
                continue;
            }
        };
        to.note(shown(name), problem);
    }
    if let [first, more @ ..] = &unknown[..] {
        let others = match more.len() {
            0 => String::new(),
            count => format!("as of {count} more, "),
        };
        to.note(*first, format!(
            "{others}the file does not say whether its ports are active, and only active ones are used"
        ));
    }
    Ok(())
}

/// `506b:4b03:003c:eee8`; virtual functions may have none and show zeros.
fn guid(text: Option<&str>) -> Option<String> {
    let text = text?.trim();
    let well_formed = text.len() == 19
        && text
            .bytes()
            .all(|byte| byte == b':' || byte.is_ascii_hexdigit());
    (well_formed && says_something(text)).then(|| text.to_string())
}

fn says_something(guid: &str) -> bool {
    guid.contains(|letter| !matches!(letter, '0' | ':'))
}

/// `Port2GID0` -> (2, `GID0`)
fn port_key(key: &str) -> Option<(u8, &str)> {
    let rest = key.strip_prefix("Port")?;
    let end = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number = rest[..end].parse::<u8>().ok()?;
    let known = (1..=MAX_PORTS).contains(&usize::from(number)) && end < rest.len();
    known.then_some((number, &rest[end..]))
}

fn ports(device: &Object, interfaces: &[&Object]) -> Vec<Port> {
    let mut said: BTreeMap<u8, BTreeMap<&str, &str>> = BTreeMap::new();
    for (key, value) in device.infos() {
        if let Some((number, key)) = port_key(key) {
            said.entry(number).or_default().entry(key).or_insert(value);
        }
    }
    if said.is_empty() {
        // there is at least one port: ports count from 1 (the kernel's include/rdma/ib_verbs.h, `rdma_start_port`)
        said.insert(1, BTreeMap::new());
    }
    let single = said.len() == 1;
    let port = |(number, said): (u8, BTreeMap<&str, &str>)| {
        let state = match said.get("State").copied().unwrap_or_default() {
            "1" => PortState::Down,
            "2" => PortState::Init,
            "3" => PortState::Armed,
            "4" => PortState::Active,
            _ => PortState::Unknown,
        };
        // an interface names its port as `Port`; in older files it does not
        let mine: Vec<&Object> = interfaces
            .iter()
            .filter(|object| match object.info("Port") {
                Some(text) => text.parse() == Ok(number),
                None => single,
            })
            .copied()
            .collect();
        let netdev = match mine.as_slice() {
            [only] => Some(name_of(only).to_string()).filter(|name| DeviceName::is_one(name)),
            _ => None,
        };
        let gid = said.get("GID0").copied().filter(|gid| is_gid(gid));
        let layer = link_layer(said.get("LID").copied(), gid, &mine);
        Port {
            netdev,
            subnet: gid.and_then(SubnetPrefix::of_gid),
            ..Port::new(number, state, layer, None)
        }
    };
    said.into_iter().map(port).collect()
}

fn is_gid(text: &str) -> bool {
    text.len() == 39
        && text
            .split(':')
            .all(|group| group.len() == 4 && hex(group, 4).is_some())
}

/// hwloc writes no `link_layer`.  Hardware addresses have 20 bytes on InfiniBand (RFC 4391) and 6
/// on Ethernet; only InfiniBand's subnet managers give LIDs (iWARP drivers show a LID of 1 and a
/// GID without a port's number).
fn link_layer(lid: Option<&str>, gid: Option<&str>, interfaces: &[&Object]) -> LinkLayer {
    let mut lengths: Vec<usize> = interfaces
        .iter()
        .filter_map(|object| object.info("Address"))
        .map(|address| address.split(':').count())
        .collect();
    lengths.dedup();
    match lengths[..] {
        [20] => return LinkLayer::InfiniBand,
        [6] => return LinkLayer::Ethernet,
        _ => {}
    }
    let lid = lid.and_then(|lid| u32::from_str_radix(lid.strip_prefix("0x")?, 16).ok());
    match (lid, gid) {
        (Some(1..), Some(gid)) if says_something(&gid[20..]) => LinkLayer::InfiniBand,
        _ => LinkLayer::Unknown,
    }
}
