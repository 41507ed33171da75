//! RDMA devices from `/sys/class/infiniband` (the kernel's
//! Documentation/ABI/stable/sysfs-class-infiniband).

use super::{Discovery, MAX_DEVICES, Root, Scope, target_name, tenths};
use nic_placement_topology::{DeviceName, LinkLayer, Nic, NicKind, Port, PortState, SubnetPrefix};
use std::collections::BTreeMap;

const VERBS: &str = "sys/class/infiniband_verbs";
const CLASS: &str = "sys/class/infiniband";
/// Most ports of one device; no known device has more than 4.
const MAX_PORTS: u8 = 16;

/// An RDMA device on a PCI function.
pub(super) struct RdmaDevice {
    /// index in the unsorted `Topology::nics`
    pub(super) index: usize,
    /// the PCI function's directory, with `infiniband` and `net`
    pub(super) parent: String,
}

impl Discovery<'_> {
    pub(super) fn rdma_devices(&mut self) -> Vec<RdmaDevice> {
        let root = self.root;
        let full = self.is_full();
        let mut names = root.list(CLASS, |_| true);
        self.cut(&mut names, MAX_DEVICES, "RDMA devices", CLASS);
        let mut verbs = BTreeMap::new();
        if !names.is_empty() {
            verbs = uverbs_by_parent(root);
        }
        let (mut devices, mut functions) = (Vec::new(), Vec::new());
        let mut found = self.with_paths(names);
        leave_out_planes(root, &mut found);
        for (name, path) in found {
            // ports are numbered from 1 without gaps (`rdma_for_each_port`,
            // include/rdma/ib_verbs.h)
            let ports = (1..=MAX_PORTS).map_while(|number| read_port(root, full, &path, number));
            let mut ports: Vec<(Port, Option<String>)> = ports
                .map(|port| {
                    let gid = first_gid(root, &path, &port);
                    (port, gid)
                })
                .collect();
            let software = software(root, full, &path, &ports);
            let mut function = None;
            if software.is_none() {
                function = self.function(&path);
            }
            if let Some((address, directory)) = &function {
                self.complete_nic(*address, directory);
            }
            let address = function.as_ref().map(|(address, _)| *address);
            functions.extend(function);
            let parent = parent(&path).filter(|_| address.is_some());
            let mut netdevs = Vec::new();
            if let Some(parent) = parent.filter(|_| self.scope >= Scope::Selection) {
                netdevs = root.list(&format!("{parent}/net"), |_| true);
            }
            netdevs.extend(software.filter(|netdev| full && !netdev.is_empty()));
            ports.retain(|(port, gid)| gid.is_some() || !has_no_gids(root, &path, port));
            let driver = parent.and_then(|parent| target_name(root, &format!("{parent}/driver")));
            let kind = match driver.as_deref() {
                Some("efa") => NicKind::Efa,
                _ => NicKind::Verbs,
            };
            let mut nic = Nic {
                address,
                ports: ports.into_iter().map(|(port, _)| port).collect(),
                uverbs: parent.and_then(|parent| own_uverbs(root, &verbs, parent, &name)),
                netdevs,
                ..Nic::new(name, kind)
            };
            if full {
                nic.guid = root.read(&format!("{path}/node_guid"));
                nic.card = root.read(&format!("{path}/sys_image_guid"));
            }
            devices.extend(parent.map(|parent| RdmaDevice {
                index: self.node.nics.len(),
                parent: parent.to_string(),
            }));
            self.node.nics.push(nic);
        }
        self.virtual_nics(&functions);
        devices
    }

    /// Devices, each with the target of the device's link in `CLASS`.
    fn with_paths(&mut self, names: Vec<String>) -> Vec<(DeviceName, String)> {
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let Some(name) = self.device_name(CLASS, &name) else {
                continue;
            };
            let link = format!("{CLASS}/{name}");
            match self.root.follow(&link) {
                Some(path) => found.push((name, path)),
                None => self.report(&link, "not a link: this NIC is left out"),
            }
        }
        found
    }

    pub(super) fn device_name(&mut self, class: &str, name: &str) -> Option<DeviceName> {
        let known = name.parse().ok();
        if known.is_none() {
            let finding = "a name that no library's variable could hold: this NIC is left out";
            self.report(&format!("{class}/{name}"), finding);
        }
        known
    }
}

/// …/0000:18:00.0 of …/0000:18:00.0/infiniband/mlx5_0
fn parent(path: &str) -> Option<&str> {
    path.rsplit_once("/infiniband/").map(|(parent, _)| parent)
}

fn is_uverbs(name: &str) -> bool {
    name.starts_with("uverbs")
}

/// Leaves out devices that manage the planes of another device.
///
/// On a fabric with several planes a ConnectX-8 has such a device, `smi1`, on the PCI function of
/// `mlx5_0`. `smi1` has an active port for each plane and files like a NIC's, but no character
/// device (drivers/infiniband/hw/mlx5/main.c, `mlx5_ib_add_sub_dev`, and
/// drivers/infiniband/core/uverbs_main.c, `ib_uverbs_add_one`).
fn leave_out_planes(root: &Root, devices: &mut Vec<(DeviceName, String)>) {
    let parents = devices.iter().filter_map(|(_, path)| parent(path));
    let parents: Vec<String> = parents.map(str::to_string).collect();
    let is_plane = |name: &DeviceName, path: &str| {
        let shares = |parent: &&str| parents.iter().filter(|other| other == parent).count() > 1;
        let Some(parent) = parent(path).filter(shares) else {
            return false;
        };
        let uverbs = root.list(&format!("{parent}/infiniband_verbs"), is_uverbs);
        let opened = uverbs
            .iter()
            .filter_map(|uverbs| opened_device(root, parent, uverbs));
        let opened: Vec<String> = opened.filter(|device| !device.is_empty()).collect();
        !opened.is_empty() && !opened.iter().any(|device| *name == **device)
    };
    devices.retain(|(name, path)| !is_plane(name, path));
}

fn opened_device(root: &Root, parent: &str, uverbs: &str) -> Option<String> {
    root.read(&format!("{parent}/infiniband_verbs/{uverbs}/ibdev"))
}

/// Character devices by the directory of their PCI function. Listing `VERBS` once is faster than
/// listing each function's `infiniband_verbs`.
fn uverbs_by_parent(root: &Root) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in root.list(VERBS, is_uverbs).into_iter().take(MAX_DEVICES) {
        let path = root.follow(&format!("{VERBS}/{name}")).unwrap_or_default();
        if let Some((parent, _)) = path.rsplit_once("/infiniband_verbs/") {
            all.entry(parent.to_string()).or_default().push(name);
        }
    }
    all
}

/// The character device of `device`. If the PCI function has two, as for `mana_0` and `manae_0`
/// (drivers/infiniband/hw/mana/device.c), `ibdev` names the RDMA device of each.
fn own_uverbs(
    root: &Root,
    verbs: &BTreeMap<String, Vec<String>>,
    parent: &str,
    device: &DeviceName,
) -> Option<String> {
    let names = verbs.get(parent)?;
    let is_its = |uverbs: &&String| {
        names.len() == 1 || opened_device(root, parent, uverbs).is_some_and(|of| *device == *of)
    };
    names.iter().find(is_its).cloned()
}

/// A software RDMA device's network interface, empty for Soft iWARP. `None` for a NIC; outside the
/// PCI tree, only soft RoCE has one, and only if `full`.
///
/// Before Linux 5.11 (commit a9d2e9ae953f) a software device is below its interface's PCI function
/// instead of devices/virtual, and only the device's files distinguish it from a NIC.
fn software(
    root: &Root,
    full: bool,
    path: &str,
    ports: &[(Port, Option<String>)],
) -> Option<String> {
    /// Soft iWARP's `node_desc`, which cannot be changed (include/uapi/rdma/siw-abi.h,
    /// `SIW_NODE_DESC_COMMON`).
    const SOFT_IWARP: &str = "Software iWARP stack";
    let is_below_a_function = path.contains("/pci");
    let is_ethernet = |(port, _): &(Port, _)| port.link_layer == LinkLayer::Ethernet;
    let may_be_software = if is_below_a_function {
        ports.iter().any(is_ethernet)
    } else {
        full
    };
    if !may_be_software {
        return None;
    }
    // soft RoCE alone has this file (drivers/infiniband/sw/rxe/rxe_verbs.c, `parent_show`)
    let interface = root.read(&format!("{path}/parent"));
    // a RoCE port's first GID is the link-local address (drivers/infiniband/core/roce_gid_mgmt.c)
    let is_roce = |gid: &String| gid.starts_with("fe80");
    let may_be_iwarp = || {
        !ports
            .iter()
            .all(|(_, gid)| gid.as_ref().is_some_and(is_roce))
    };
    let is_soft_iwarp = || {
        let text = root.read(&format!("{path}/node_desc"));
        text.is_some_and(|text| text.starts_with(SOFT_IWARP))
    };
    interface
        .or_else(|| (is_below_a_function && may_be_iwarp() && is_soft_iwarp()).then(String::new))
}

pub(super) fn is_active_ethernet(port: &Port) -> bool {
    port.link_layer == LinkLayer::Ethernet && port.state == PortState::Active
}

fn first_gid(root: &Root, path: &str, port: &Port) -> Option<String> {
    let read = || root.read(&format!("{path}/ports/{}/gids/0", port.number));
    is_active_ethernet(port).then(read).flatten()
}

/// True for an active Ethernet port without GIDs. Such a port carries raw packets but no RDMA
/// connection.
///
/// mlx5 has such ports if RoCE is off (`devlink dev param set … enable_roce`), and in switchdev
/// mode one for each representor, with the card's rate. Their `gids` is an empty directory
/// (`mlx5_query_port_roce`, drivers/infiniband/hw/mlx5/main.c).
fn has_no_gids(root: &Root, path: &str, port: &Port) -> bool {
    let place = format!("{path}/ports/{}", port.number);
    is_active_ethernet(port)
        // a capture may lack the directory
        && !root.list(&place, |name| name == "gids").is_empty()
        && root.list(&format!("{place}/gids"), |_| true).is_empty()
}

fn read_port(root: &Root, full: bool, path: &str, number: u8) -> Option<Port> {
    let file = |name: &str| root.read(&format!("{path}/ports/{number}/{name}"));
    // if the firmware does not answer, `state` cannot be read
    let (state, layer) = (file("state"), file("link_layer"));
    if state.is_none() && layer.is_none() {
        return None;
    }
    // `4: ACTIVE`
    let state = match state.unwrap_or_default().split(':').next() {
        Some("1") => PortState::Down,
        Some("2") => PortState::Init,
        Some("3") => PortState::Armed,
        Some("4") => PortState::Active,
        _ => PortState::Unknown,
    };
    let link_layer = match layer.as_deref() {
        Some("InfiniBand") => LinkLayer::InfiniBand,
        Some("Ethernet") => LinkLayer::Ethernet,
        _ => LinkLayer::Unknown,
    };
    // `400 Gb/sec (4X NDR)`, `2.5 Gb/sec (1X SDR)`. `rate_show` (drivers/infiniband/core/sysfs.c)
    // prints an unknown speed as SDR and fails for an unknown width; 0 comes only from a driver
    // outside the kernel.
    let rate_mbps = file("rate").and_then(|text| Some(tenths(&text)? * 100));
    let mut port = Port::new(number, state, link_layer, rate_mbps);
    // an Ethernet port's first GID begins with fe80:: and names no subnet
    if full || (link_layer == LinkLayer::InfiniBand && state == PortState::Active) {
        port.subnet = file("gids/0").and_then(|gid| SubnetPrefix::of_gid(&gid));
    }
    if full {
        // `5: LinkUp`
        let phys_state = file("phys_state");
        port.phys_state = phys_state.and_then(|text| Some(text.split_once(": ")?.1.to_string()));
        port.netdev = file("gid_attrs/ndevs/0");
        /// GIDs to read: two for each address of the interface; the table has 256.
        const GIDS: u32 = 16;
        let types = (0..GIDS).filter_map(|index| file(&format!("gid_attrs/types/{index}")));
        // `RoCE v2` sorts after `IB/RoCE v1`; the types of unused GIDs cannot be read
        port.gid_type = types.max();
    }
    Some(port)
}
