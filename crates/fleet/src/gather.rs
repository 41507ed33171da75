//! Reads the facts of a node that the doctor judges. Nothing here asks a card's firmware or waits for a driver's lock.

use crate::doctor::config_space::{self, ConfigSpace};
use crate::doctor::facts::{
    DeviceAccess, Function, HostFacts, Interface, MODULES, Machine, NicFacts,
};
use crate::doctor::shortfall::{gpus_of_the_product, missing};
use nic_placement_core::topology::{GpuVendor, Nic, NicKind, PciAddress, Topology};
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
const PEERS: &str = "sys/kernel/mm/memory_peers";
const MADS: &str = "sys/class/infiniband_mad";

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
        port_range: read("proc/sys/net/ipv4/ip_local_port_range"),
        modules: has_modules.then(|| loaded.into_iter().collect()),
        memory_peers: peers
            .filter(|peer| root.read(&format!("{PEERS}/{peer}/version")).is_some())
            .collect(),
        nvidia: read("proc/driver/nvidia/version"),
        machine: machine(root, &dmi, node),
        functions: functions(root, node),
        nics: nics(root, node),
        has_mads: !root.list(MADS, |name| name.starts_with("umad")).is_empty(),
        heard: None,
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
    let Some(model) = recognise(dmi, node) else {
        return gpus_of_the_product(dmi, node).map(|gpus| Machine {
            gpus: Some(gpus),
            ..Machine::default()
        });
    };
    let is_there = |address: PciAddress| root.follow(&format!("{BUS}/{address}")).is_some();
    let missing = missing(node, model).into_iter();
    Some(Machine {
        name: Some(model.name.to_string()),
        is_a_clouds: model.is_a_clouds(),
        missing: missing
            .map(|device| (device.clone(), is_there(device.address)))
            .collect(),
        gpus: None,
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

fn functions(root: &Root, node: &Topology) -> BTreeMap<PciAddress, Function> {
    let one = |address: PciAddress| {
        let path = root.follow(&format!("{BUS}/{address}"))?;
        let config = config_bytes(root, &format!("{path}/config"));
        let group = root.follow(&format!("{path}/iommu_group"));
        // a BAR of NVIDIA's comes second, behind its registers; AMD's is the first
        let gpu = node.gpus.iter().find(|gpu| gpu.address == address);
        let bar = gpu.map(|gpu| usize::from(gpu.vendor == GpuVendor::Nvidia));
        let function = Function {
            config: config.and_then(|bytes| ConfigSpace::parse(&bytes)),
            iommu_group: group.and_then(|path| Some(path.rsplit('/').next()?.to_string())),
            bar1: bar.and_then(|bar| size(&root.read(&format!("{path}/resource"))?, bar)),
        };
        Some((address, function))
    };
    let functions = node.pci.iter().take(MOST);
    functions
        .filter_map(|function| one(function.address))
        .collect()
}

/// The bytes of a BAR, from its line of `resource`: `0xSTART 0xEND 0xFLAGS`.
fn size(resources: &str, number: usize) -> Option<u64> {
    let mut words = resources.lines().nth(number)?.split_whitespace();
    let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (start, end) = (next()?, next()?);
    (end > start).then(|| end - start + 1)
}

fn nics(root: &Root, node: &Topology) -> BTreeMap<String, NicFacts> {
    let devices = root
        .is_live()
        .then(|| root::directory_descriptor(Path::new("/dev")).ok())
        .flatten();
    let mads: Vec<String> = root
        .list(MADS, |name| name.starts_with("umad"))
        .into_iter()
        .take(MOST)
        .filter_map(|name| root.read(&format!("{MADS}/{name}/ibdev")))
        .collect();
    let facts = |nic: &Nic| {
        let ports = nic.ports.iter().filter_map(|port| port.netdev.as_ref());
        let names: BTreeSet<&String> = nic.netdevs.iter().chain(ports).collect();
        NicFacts {
            interfaces: names
                .into_iter()
                .take(MOST)
                .map(|name| interface(root, name))
                .collect(),
            mads: mads.iter().filter(|of| **of == nic.name.as_str()).count(),
            access: devices.as_ref().and_then(|devices| access(devices, nic)),
        }
    };
    node.nics
        .iter()
        .map(|nic| (nic.name.to_string(), facts(nic)))
        .collect()
}

fn interface(root: &Root, name: &str) -> Interface {
    // by where the link leads: a snapshot has the link, and nothing below it
    let place = root.follow(&format!("sys/class/net/{name}"));
    let file = |file: &str| root.read(&format!("{}/{file}", place.as_ref()?));
    let state = file("operstate").filter(|state| state != "unknown");
    // since Linux 6.8 it takes the lock of all interfaces, which a driver may hold while it waits for firmware
    let carrier = || file("carrier").map(|carrier| carrier == "1");
    Interface {
        name: name.to_string(),
        carrier: if state.is_none() { carrier() } else { None },
        state,
        mtu: file("mtu").and_then(|mtu| mtu.parse().ok()),
    }
}

fn access(devices: &File, nic: &Nic) -> Option<DeviceAccess> {
    let is_verbs = matches!(nic.kind, NicKind::Verbs | NicKind::Efa);
    let uverbs = nic.uverbs.as_ref().filter(|_| is_verbs)?;
    match sys::may_open(devices, &CString::new(format!("infiniband/{uverbs}")).ok()?) {
        Ok(()) => Some(DeviceAccess::Open),
        Err(Refusal::User) => Some(DeviceAccess::Refused),
        Err(Refusal::Cgroup) => Some(DeviceAccess::Fenced),
        Err(Refusal::Absent) => Some(DeviceAccess::Absent),
        Err(Refusal::Other) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn a_bar_has_the_size_that_its_line_says() {
        let resources = "0x00000000d2000000 0x00000000d2ffffff 0x0000000000040200\n\
                         0x0000062000000000 0x0000063fffffffff 0x000000000014220c\n\
                         0x0000000000000000 0x0000000000000000 0x0000000000000000";
        assert_eq!(
            (size(resources, 0), size(resources, 1)),
            (Some(16 << 20), Some(128 << 30))
        );
        assert_eq!(
            (size(resources, 2), size(resources, 3), size("odd", 0)),
            (None, None, None)
        );
    }
}
