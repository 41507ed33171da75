//! NICs: OpenFabrics devices with their ports, Slingshot, EFA, and the plain network interfaces.
#![forbid(unsafe_code)]

use super::object::Object;
use super::pci::Bus;
use crate::import::{AMAZON, CRAY, Imported, Result, shown};
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

/// A NIC as the file lists it; its name may be invalid.
struct ListedNic {
    name: String,
    kind: NicKind,
    card: Option<String>,
    ports: Vec<Port>,
    netdevs: Vec<String>,
}

impl ListedNic {
    fn new(name: &str, kind: NicKind, netdevs: Vec<String>) -> ListedNic {
        ListedNic {
            name: name.to_string(),
            kind,
            card: None,
            ports: Vec::new(),
            netdevs,
        }
    }
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

    fn is_slingshot(&self, function: Option<&PciFunction>) -> bool {
        let said = |object: &&Object| {
            object.attribute("subtype") == Some("Slingshot") || numbered(name_of(object), "hsn")
        };
        !self.slingshot.is_empty()
            || (!self.interfaces.is_empty()
                && function.is_some_and(|function| function.vendor == Some(CRAY)))
            || self.interfaces.iter().any(said)
    }

    fn nics(&self, function: Option<&PciFunction>) -> Vec<ListedNic> {
        let netdevs: Vec<String> = self.netdevs();
        if !self.verbs.is_empty() {
            let ids = function.and_then(|function| function.vendor.zip(function.device));
            let kind = match ids {
                Some((AMAZON, 0xefa0..=0xefa3)) => NicKind::Efa,
                _ => NicKind::Verbs,
            };
            // the file does not tell which of several devices an interface belongs to
            let alone = self.verbs.len() == 1;
            let interfaces: &[&Object] = if alone { &self.interfaces } else { &[] };
            let own = if alone { netdevs } else { Vec::new() };
            let nic = |object: &&Object| ListedNic {
                card: guid(object.info("SysImageGUID")),
                ports: ports(object, interfaces),
                ..ListedNic::new(name_of(object), kind, own.clone())
            };
            return self.verbs.iter().map(nic).collect();
        }
        if !self.slingshot.is_empty() {
            let own = if self.slingshot.len() == 1 {
                netdevs
            } else {
                Vec::new()
            };
            let nic =
                |object: &&Object| ListedNic::new(name_of(object), NicKind::Slingshot, own.clone());
            return self.slingshot.iter().map(nic).collect();
        }
        // the file lacks the `cxi` device's name, so we use the interface's
        let kind = match self.is_slingshot(function) {
            true => NicKind::Slingshot,
            false => NicKind::Ethernet,
        };
        let nic = |name: &String| ListedNic::new(name, kind, vec![name.clone()]);
        netdevs.iter().map(nic).collect()
    }

    fn netdevs(&self) -> Vec<String> {
        let names = self.interfaces.iter().map(|object| name_of(object));
        let distinct: BTreeSet<&str> = names.filter(|name| DeviceName::is_one(name)).collect();
        let distinct = distinct.into_iter().take(MAX_NETDEVS);
        distinct.map(str::to_string).collect()
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
    let mut found: Vec<(Option<usize>, ListedNic)> = Vec::new();
    for ((device, _), card) in &cards {
        let function = device.and_then(|device| bus.function(device));
        for object in &card.portals {
            let finding = "a Portals adapter, which no library here places: left out";
            to.note(shown(name_of(object)), finding);
        }
        if !card.portals.is_empty() {
            continue;
        }
        found.extend(card.nics(function).into_iter().map(|nic| (*device, nic)));
    }
    // if not all fit, plain Ethernet ones are dropped first
    found.sort_by_key(|(_, listed)| listed.kind);
    let mut names = BTreeSet::new();
    let mut unknown = Vec::new();
    for (device, listed) in found {
        let ListedNic {
            name,
            kind,
            card,
            ports,
            netdevs,
        } = listed;
        let function = device.and_then(|device| bus.function(device));
        let device_name = name.parse::<DeviceName>();
        let problem = if device_name.is_err() {
            Some("a name that no library's variable could hold: this NIC is left out".to_string())
        } else if names.contains(&name) {
            Some("a second NIC of this name: left out".to_string())
        } else if to.topology.nics.len() >= MAX_NICS {
            Some(format!("more than {MAX_NICS} NICs: this one is left out"))
        } else if function.is_some_and(|pci| to.topology.gpu_index(pci.address).is_some()) {
            Some("a NIC inside a GPU's PCI device: left out".to_string())
        } else {
            None
        };
        if let Some(problem) = problem {
            to.note(shown(&name), problem);
            continue;
        }
        let Ok(device_name) = device_name else {
            continue;
        };
        let address = match (device, function) {
            (Some(device), Some(function)) if bus.add(device, to)? => Some(function.address),
            (Some(_), _) => continue,
            (None, _) => None,
        };
        if ports.iter().any(|port| port.state == PortState::Unknown) {
            unknown.push(name.clone());
        }
        names.insert(name);
        to.topology.nics.push(Nic {
            address,
            card,
            ports,
            netdevs,
            ..Nic::new(device_name, kind)
        });
    }
    if let Some(first) = unknown.first() {
        let others = match unknown.len() {
            1 => String::new(),
            count => format!("as of {} more, ", count - 1),
        };
        let finding = format!(
            "{others}the file does not say whether its ports are active, and only active ones are used"
        );
        to.note(first.clone(), finding);
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
    let says_something = text.bytes().any(|byte| !matches!(byte, b'0' | b':'));
    (well_formed && says_something).then(|| text.to_string())
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
        let of_port = |object: &&&Object| match object.info("Port") {
            Some(text) => text.parse() == Ok(number),
            None => single,
        };
        let mine: Vec<&Object> = interfaces.iter().filter(of_port).copied().collect();
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
    let mut groups = text.split(':');
    let whole =
        |group: &str| group.len() == 4 && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    groups.by_ref().take(8).filter(|group| whole(group)).count() == 8 && groups.next().is_none()
}

/// hwloc does not write `link_layer`, but two things show it.  Hardware addresses of interfaces have 20 bytes
/// on InfiniBand (RFC 4391) and 6 on Ethernet.  Only InfiniBand's subnet managers give LIDs.  (iWARP drivers
/// show a LID of 1 and a GID without a port's number.)
fn link_layer(lid: Option<&str>, gid: Option<&str>, interfaces: &[&Object]) -> LinkLayer {
    let lengths: BTreeSet<usize> = interfaces
        .iter()
        .filter_map(|object| Some(object.info("Address")?.split(':').count()))
        .collect();
    match lengths.iter().collect::<Vec<_>>().as_slice() {
        [20] => return LinkLayer::InfiniBand,
        [6] => return LinkLayer::Ethernet,
        _ => {}
    }
    let lid = lid.and_then(|lid| u32::from_str_radix(lid.strip_prefix("0x")?, 16).ok());
    let has_port_number =
        gid.is_some_and(|gid| gid[20..].bytes().any(|byte| !matches!(byte, b'0' | b':')));
    match lid {
        Some(1..) if has_port_number => LinkLayer::InfiniBand,
        _ => LinkLayer::Unknown,
    }
}
