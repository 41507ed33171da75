//! NICs that are no verbs devices: Slingshot from `/sys/class/cxi`, and plain Ethernet for knowledge only.
#![forbid(unsafe_code)]

use super::nic::device_name;
use super::pci::function;
use super::{MAX_DEVICES, Root, Scope, number};
use crate::diagnostic::Diagnostic;
use crate::topology::{LinkLayer, Nic, NicKind, Port, PortState, Topology};

const CXI: &str = "sys/class/cxi";
const NET: &str = "sys/class/net";

/// HPE Slingshot devices: `cxi0`, whose state and rate their Ethernet side `hsn0` tells.
pub(super) fn slingshot(
    root: &Root,
    scope: Scope,
    topology: &mut Topology,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for name in cut(root.list(CXI, |name| name.starts_with("cxi")), CXI, diagnostics) {
        let Some(name) = device_name(CXI, &name, diagnostics) else { continue };
        // …/0000:c5:00.0/cxi/cxi0, or …/0000:c5:00.0/cxi0 in older drivers
        let Some(path) = root.follow(&format!("{CXI}/{name}")) else { continue };
        let found = function(root, scope, topology, &path);
        let netdevs =
            found.iter().flat_map(|(_, directory)| root.list(&format!("{directory}/net"), |_| true));
        let netdevs: Vec<String> = netdevs.collect();
        let port = match (&found, netdevs.first()) {
            (Some((_, directory)), Some(netdev)) => port(root, scope, &format!("{directory}/net/{netdev}")),
            _ => Port::new(1, PortState::Unknown, LinkLayer::Ethernet, None),
        };
        let address = found.map(|(address, _)| address);
        topology.nics.push(Nic { address, ports: vec![port], netdevs, ..Nic::new(name, NicKind::Slingshot) });
    }
}

/// Network interfaces on PCI that belong to no NIC found before.
pub(super) fn plain(root: &Root, scope: Scope, topology: &mut Topology, diagnostics: &mut Vec<Diagnostic>) {
    for name in cut(root.list(NET, |_| true), NET, diagnostics) {
        if topology.nics.iter().any(|nic| nic.netdevs.contains(&name)) {
            continue;
        }
        let Some(path) = root.follow(&format!("{NET}/{name}")) else { continue };
        // bridges, bonds, loopback and the like stand on no PCI function
        let Some((address, _)) = function(root, scope, topology, &path) else { continue };
        let Some(device) = device_name(NET, &name, diagnostics) else { continue };
        let ports = vec![port(root, scope, &path)];
        topology.nics.push(Nic {
            address: Some(address),
            ports,
            netdevs: vec![name],
            ..Nic::new(device, NicKind::Ethernet)
        });
    }
}

/// `operstate` and `speed` in Mbit/s (Documentation/ABI/testing/sysfs-class-net); the speed of a link that is down is -1.
///
/// No step needs the speed, since no library of these NICs is told which to use by it, and it wants the lock of all interfaces
/// (`speed_show`, net/core/net-sysfs.c), which a driver may hold while it waits for its firmware.
fn port(root: &Root, scope: Scope, netdev: &str) -> Port {
    let state = match root.read(&format!("{netdev}/operstate")).as_deref() {
        Some("up") => PortState::Active,
        Some("down" | "lowerlayerdown") => PortState::Down,
        _ => PortState::Unknown,
    };
    let speed =
        (scope == Scope::Full).then(|| number::<i64>(root.read(&format!("{netdev}/speed")))).flatten();
    let rate = speed.and_then(|speed| u64::try_from(speed).ok()).filter(|&speed| speed > 0);
    Port::new(1, state, LinkLayer::Ethernet, rate)
}

fn cut(mut names: Vec<String>, class: &str, diagnostics: &mut Vec<Diagnostic>) -> Vec<String> {
    if names.len() > MAX_DEVICES {
        let finding = format!("{} devices: only the first {MAX_DEVICES} are used", names.len());
        diagnostics.push(Diagnostic::new(format!("/{class}"), finding));
        names.truncate(MAX_DEVICES);
    }
    names
}
