//! NICs that are no verbs devices: Slingshot from `/sys/class/cxi` and, for display only, plain
//! Ethernet.

use super::{Discovery, MAX_DEVICES, number};
use nic_placement_topology::{LinkLayer, Nic, NicKind, Port, PortState};

const CXI: &str = "sys/class/cxi";
const NET: &str = "sys/class/net";

impl Discovery<'_> {
    /// Adds HPE Slingshot devices such as `cxi0`, with the state and rate of the device's first
    /// interface, such as `hsn0`.
    pub(super) fn slingshot(&mut self) {
        let mut names = self.root.list(CXI, |name| name.starts_with("cxi"));
        self.cut(&mut names, MAX_DEVICES, "devices", CXI);
        for name in names {
            let Some(device) = self.device_name(CXI, &name) else {
                continue;
            };
            // …/0000:c5:00.0/cxi/cxi0, in older drivers …/0000:c5:00.0/cxi0
            let Some(path) = self.root.follow(&format!("{CXI}/{name}")) else {
                continue;
            };
            let mut nic = Nic::new(device, NicKind::Slingshot);
            let mut port = Port::new(1, PortState::Unknown, LinkLayer::Ethernet, None);
            if let Some((address, directory)) = self.function(&path) {
                nic.address = Some(address);
                nic.netdevs = self.root.list(&format!("{directory}/net"), |_| true);
                if let Some(first) = nic.netdevs.first() {
                    port = self.ethernet_port(&format!("{directory}/net/{first}"));
                }
            }
            nic.ports = vec![port];
            self.node.nics.push(nic);
        }
    }

    /// Adds interfaces that have a PCI function and are in no other NIC's `netdevs`; bridges, bonds
    /// and loopback have no PCI function.
    pub(super) fn ethernet(&mut self) {
        let mut names = self.root.list(NET, |_| true);
        self.cut(&mut names, MAX_DEVICES, "devices", NET);
        for name in names {
            let mut nics = self.node.nics.iter();
            if nics.any(|nic| nic.netdevs.contains(&name)) {
                continue;
            }
            let Some(path) = self.root.follow(&format!("{NET}/{name}")) else {
                continue;
            };
            let Some((address, _)) = self.function(&path) else {
                continue;
            };
            let Some(device) = self.device_name(NET, &name) else {
                continue;
            };
            let nic = Nic {
                address: Some(address),
                ports: vec![self.ethernet_port(&path)],
                netdevs: vec![name],
                ..Nic::new(device, NicKind::Ethernet)
            };
            self.node.nics.push(nic);
        }
    }

    /// A port from an interface's `operstate` and `speed` (Mbit/s, or -1 without a link;
    /// Documentation/ABI/testing/sysfs-class-net).
    ///
    /// A step does not read `speed`: no library compares these speeds, and `speed_show`
    /// (net/core/net-sysfs.c) takes the RTNL lock, which a driver may hold while its firmware
    /// answers.
    fn ethernet_port(&self, interface: &str) -> Port {
        let file = |name: &str| self.root.read(&format!("{interface}/{name}"));
        let state = match file("operstate").as_deref() {
            Some("up") => PortState::Active,
            Some("down" | "lowerlayerdown") => PortState::Down,
            _ => PortState::Unknown,
        };
        let speed = self
            .is_full()
            .then(|| number::<i64>(file("speed")))
            .flatten();
        let rate = speed.and_then(|speed| u64::try_from(speed).ok());
        let rate = rate.filter(|&rate| rate > 0);
        Port::new(1, state, LinkLayer::Ethernet, rate)
    }
}
