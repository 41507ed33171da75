//! Reads the facts of a node that the doctor judges. Nothing here asks a card's firmware or waits for a driver's lock.

use crate::doctor::config_space::{self, ConfigSpace};
use crate::doctor::facts::{DeviceAccess, HostFacts, Interface, Machine, NicFacts};
use crate::doctor::shortfall::missing;
use nic_placement_core::topology::{Nic, NicKind, PciAddress, Topology};
use nic_placement_node::discover::Root;
use nic_placement_node::discover::root;
use nic_placement_node::dmi;
use nic_placement_node::platform::recognise::{Dmi, recognise};
use nic_placement_sys::{self as sys, Refusal};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs::File;
use std::path::Path;

const BUS: &str = "sys/bus/pci/devices";
const MODULE: &str = "sys/module";
/// Modules of the kernel that decide how a NIC reaches a GPU's memory.
const MODULES: &str =
    "nvidia nvidia_peermem nv_peer_mem efa_nv_peermem amdgpu ib_uverbs ib_umad ib_peer_mem";
const PEERS: &str = "sys/kernel/mm/memory_peers";

/// Devices of one kind, at most, whose files are read.
const MOST: usize = 512;

pub fn facts(root: &Root, node: &Topology) -> HostFacts {
    let read = |path: &str| root.read(path).filter(|text| !text.is_empty());
    let dmi = dmi(root);
    let loaded = root.list(MODULE, |name| {
        MODULES.split(' ').any(|module| module == name)
    });
    let peers = root.list(PEERS, |_| true).into_iter().take(MOST);
    let has_modules = root.is_live() || !loaded.is_empty();
    HostFacts {
        is_live: root.is_live(),
        is_virtual: is_virtual(root, &dmi),
        kernel: read("proc/sys/kernel/osrelease"),
        numa_balancing: read("proc/sys/kernel/numa_balancing"),
        modules: has_modules.then(|| loaded.into_iter().collect()),
        memory_peers: peers
            .filter(|peer| root.read(&format!("{PEERS}/{peer}/version")).is_some())
            .collect(),
        nvidia: read("proc/driver/nvidia/version"),
        machine: machine(root, &dmi, node),
        functions: functions(root, node),
        nics: nics(root, node),
    }
}

/// By the clocks of hypervisors' guests, else by the firmware's strings.
fn is_virtual(root: &Root, dmi: &Dmi) -> bool {
    const CLOCKS: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";
    let has = |said: &Option<String>, words: &[&str]| {
        let said = said.as_deref().unwrap_or_default();
        words.iter().any(|word| said.contains(word))
    };
    let (vendor, product) = (&dmi.vendor, &dmi.product);
    has(&root.read(CLOCKS), &["kvm-clock", "hyperv", "xen"])
        || has(vendor, &["QEMU", "VMware", "Xen", "innotek", "Parallels"])
        || has(
            product,
            &["Virtual Machine", "KVM", "Google Compute Engine"],
        )
        || has(vendor, &["Amazon EC2"]) && !has(product, &[".metal", "-metal"])
}

fn machine(root: &Root, dmi: &Dmi, node: &Topology) -> Option<Machine> {
    let model = recognise(dmi, node)?;
    let is_there = |address: PciAddress| root.follow(&format!("{BUS}/{address}")).is_some();
    Some(Machine {
        name: model.name.to_string(),
        is_a_clouds: model.is_a_clouds(),
        missing: missing(node, model, &is_there),
    })
}

/// The first bytes of a configuration space; in a manifest, and in a tree unpacked from one,
/// hexadecimal digits.
fn config_bytes(root: &Root, path: &str) -> Option<Vec<u8>> {
    // digits and spaces: three letters a byte
    let mut bytes = root.beginning(path, 3 * config_space::SIZE)?;
    if !root.is_live() {
        bytes = of_digits(&bytes).unwrap_or(bytes);
    }
    bytes.truncate(config_space::SIZE);
    Some(bytes)
}

/// `None` with other letters than hexadecimal digits.
fn of_digits(text: &[u8]) -> Option<Vec<u8>> {
    let letters = text.iter().filter(|letter| !letter.is_ascii_whitespace());
    let digits = letters.map(|&letter| char::from(letter).to_digit(16));
    let digits: Vec<u32> = digits.collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    Some(pairs.map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}

fn functions(root: &Root, node: &Topology) -> BTreeMap<PciAddress, ConfigSpace> {
    let one = |address: PciAddress| {
        let path = root.follow(&format!("{BUS}/{address}"))?;
        let bytes = config_bytes(root, &format!("{path}/config"))?;
        Some((address, ConfigSpace::parse(&bytes)?))
    };
    let functions = node.pci.iter().take(MOST);
    functions
        .filter_map(|function| one(function.address))
        .collect()
}

fn nics(root: &Root, node: &Topology) -> BTreeMap<String, NicFacts> {
    let devices = root
        .is_live()
        .then(|| root::directory_descriptor(Path::new("/dev")).ok())
        .flatten();
    let facts = |nic: &Nic| {
        let ports = nic.ports.iter().filter_map(|port| port.netdev.as_ref());
        let names: BTreeSet<&String> = nic.netdevs.iter().chain(ports).collect();
        let names = names.into_iter().take(MOST);
        NicFacts {
            interfaces: names.map(|name| interface(root, name)).collect(),
            access: devices.as_ref().and_then(|devices| access(devices, nic)),
        }
    };
    let nics = node.nics.iter();
    nics.map(|nic| (nic.name.to_string(), facts(nic))).collect()
}

fn interface(root: &Root, name: &str) -> Interface {
    // by where the link leads: a snapshot has the link, and nothing below it
    let place = root.follow(&format!("sys/class/net/{name}"));
    let file = |file: &str| root.read(&format!("{}/{file}", place.as_ref()?));
    let has_link = match file("operstate").as_deref() {
        Some("down" | "lowerlayerdown" | "notpresent") => Some(false),
        Some("up" | "dormant") => Some(true),
        // since Linux 6.8 it takes the lock of all interfaces, which a driver may hold while it waits for firmware
        None | Some("unknown") => file("carrier").map(|carrier| carrier == "1"),
        Some(_) => None,
    };
    Interface {
        name: name.to_string(),
        has_link,
        mtu: file("mtu").and_then(|mtu| mtu.parse().ok()),
    }
}

fn access(devices: &File, nic: &Nic) -> Option<DeviceAccess> {
    let is_verbs = matches!(nic.kind, NicKind::Verbs | NicKind::Efa);
    let uverbs = nic.uverbs.as_ref().filter(|_| is_verbs)?;
    let device = CString::new(format!("infiniband/{uverbs}")).ok()?;
    match sys::may_open(devices, &device) {
        Ok(()) => Some(DeviceAccess::Open),
        Err(Refusal::User) => Some(DeviceAccess::Refused),
        Err(Refusal::Cgroup) => Some(DeviceAccess::Fenced),
        Err(Refusal::Absent) => Some(DeviceAccess::Absent),
        Err(Refusal::Other) => None,
    }
}
