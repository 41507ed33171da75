//! NICs that are no verbs devices: Slingshot from `/sys/class/cxi`, and plain Ethernet for knowledge only.
#![forbid(unsafe_code)]

use super::{Discovery, MAX_DEVICES, Scope, number};
use nic_placement_topology::{LinkLayer, Nic, NicKind, Port, PortState};

const CXI: &str = "sys/class/cxi";
const NET: &str = "sys/class/net";

impl Discovery<'_> {
    /// HPE Slingshot devices: `cxi0`, whose state and rate their Ethernet side `hsn0` tells.
    pub(super) fn slingshot(&mut self) {
        let mut names = self.root.list(CXI, |name| name.starts_with("cxi"));
        self.cut(&mut names, MAX_DEVICES, "devices", CXI);
        for name in names {
            let Some(device) = self.device_name(CXI, &name) else {
                continue;
            };
            // …/0000:c5:00.0/cxi/cxi0, or …/0000:c5:00.0/cxi0 in older drivers
            let Some(path) = self.root.follow(&format!("{CXI}/{name}")) else {
                continue;
            };
            let (mut nic, mut port) = (Nic::new(device, NicKind::Slingshot), None);
            if let Some((address, directory)) = self.function(&path) {
                nic.address = Some(address);
                nic.netdevs = self.root.list(&format!("{directory}/net"), |_| true);
                let first = nic.netdevs.first();
                port = first
                    .map(|interface| self.ethernet_port(&format!("{directory}/net/{interface}")));
            }
            nic.ports =
                vec![port.unwrap_or_else(|| {
                    Port::new(1, PortState::Unknown, LinkLayer::Ethernet, None)
                })];
            self.topology.nics.push(nic);
        }
    }

    /// Network interfaces on PCI that belong to no NIC found before.
    pub(super) fn ethernet(&mut self) {
        let mut names = self.root.list(NET, |_| true);
        self.cut(&mut names, MAX_DEVICES, "devices", NET);
        for name in names {
            if self
                .topology
                .nics
                .iter()
                .any(|nic| nic.netdevs.contains(&name))
            {
                continue;
            }
            let Some(path) = self.root.follow(&format!("{NET}/{name}")) else {
                continue;
            };
            // bridges, bonds, loopback and the like stand on no PCI function
            let Some((address, _)) = self.function(&path) else {
                continue;
            };
            let Some(device) = self.device_name(NET, &name) else {
                continue;
            };
            let (address, ports) = (Some(address), vec![self.ethernet_port(&path)]);
            let nic = Nic::new(device, NicKind::Ethernet);
            self.topology.nics.push(Nic {
                address,
                ports,
                netdevs: vec![name],
                ..nic
            });
        }
    }

    /// `operstate` and `speed` in Mbit/s (Documentation/ABI/testing/sysfs-class-net), -1 for a link that is down.
    ///
    /// No step reads the speed: no library chooses among these NICs by it, and it wants the lock of all interfaces
    /// (`speed_show`, net/core/net-sysfs.c), which a driver may hold while it waits for its firmware.
    fn ethernet_port(&self, interface: &str) -> Port {
        let file = |name: &str| self.root.read(&format!("{interface}/{name}"));
        let state = match file("operstate").as_deref() {
            Some("up") => PortState::Active,
            Some("down" | "lowerlayerdown") => PortState::Down,
            _ => PortState::Unknown,
        };
        let speed = if self.scope == Scope::Full {
            number::<i64>(file("speed"))
        } else {
            None
        };
        let rate = speed
            .and_then(|speed| u64::try_from(speed).ok())
            .filter(|&speed| speed > 0);
        Port::new(1, state, LinkLayer::Ethernet, rate)
    }
}
