//! A row of facts for each port of the NICs that are not excluded as a whole.

use super::super::{Selection, gbps};
use crate::placement::{Excluded, NodePlacement, Rail};
use crate::topology::{
    Ascent, LinkLayer, Network, Nic, NicIndex, NicKind, NicRole, PathType, PciAddress, Port,
    PortState, Topology,
};
use std::cell::OnceCell;

pub(super) struct Row<'a> {
    pub(super) index: NicIndex,
    pub(super) nic: &'a Nic,
    pub(super) address: PciAddress,
    pub(super) port: &'a Port,
    /// true if `include=` names the NIC: no evidence counts against it
    pub(super) wanted: bool,
    /// PCI device id without vendor: NICs of two vendors hardly ever share one
    pub(super) device: Option<u16>,
    pub(super) failure: Option<String>,
    /// true if the port is a rail of the step's map
    pub(super) was_rail: bool,
    /// the physical function, if the NIC is a virtual one
    physfn: Option<PciAddress>,
    vfs: Option<u32>,
    /// true if a virtual function of this NIC is a NIC of the node
    shows_vf: bool,
    ascent: OnceCell<Ascent>,
}

pub(super) struct Table<'a> {
    node: &'a Topology,
    /// in PCI order
    pub(super) rows: Vec<Row<'a>>,
    gpus: OnceCell<Vec<Ascent>>,
}

impl<'a> Table<'a> {
    /// Adds NICs that are excluded as a whole to `map`.
    pub(super) fn new(
        node: &'a Topology,
        selection: &Selection,
        were: &[Rail],
        map: &mut NodePlacement,
    ) -> Table<'a> {
        let functions = node
            .nics
            .iter()
            .filter_map(|nic| node.pci.get(nic.address?));
        let physfns: Vec<PciAddress> = functions.filter_map(|function| function.physfn).collect();
        let mut rows = Vec::new();
        for (index, nic) in node.numbered_nics() {
            let wanted = selection.include.iter().any(|pattern| pattern.matches(nic));
            let address = match function_of(node, selection, index, wanted, map) {
                Ok(address) => address,
                Err(why) => {
                    map.excluded.push(Excluded {
                        name: nic.name.clone(),
                        port: None,
                        why,
                    });
                    continue;
                }
            };
            let function = node.pci.get(address);
            let unopenable = selection.unopenable.iter().find(|(nic, _)| *nic == index);
            rows.extend(nic.ports.iter().map(|port| {
                Row {
                    index,
                    nic,
                    address,
                    port,
                    wanted,
                    device: function.and_then(|function| function.device),
                    failure: match (port.state, port.rate_mbps) {
                        (PortState::Active, Some(0)) => Some("its port says rate 0".to_string()),
                        (PortState::Active, _) if node.lacks_verbs(nic) => {
                            Some("it has no uverbs device, and others have".to_string())
                        }
                        (PortState::Active, _) => unopenable.map(|(_, why)| why.clone()),
                        (state, _) => Some(format!("its port is {state}")),
                    },
                    was_rail: were
                        .iter()
                        .any(|were| (were.nic, were.port) == (index, port.number)),
                    physfn: function.and_then(|function| function.physfn),
                    vfs: function.and_then(|function| function.vfs),
                    shows_vf: function.is_some() && physfns.contains(&address),
                    ascent: OnceCell::new(),
                }
            }));
        }
        Table {
            node,
            rows,
            gpus: OnceCell::new(),
        }
    }

    /// The first GPU to which `row`'s port is nearer than all of `others`.
    pub(super) fn needed_by(&self, row: &Row, others: &[&Row]) -> Option<usize> {
        let needs = |gpu: &Ascent| {
            let own = self.path(gpu, row);
            others.iter().all(|other| self.path(gpu, other) > own)
        };
        self.gpus().iter().position(needs)
    }

    pub(super) fn to_gpu(&self, row: &Row) -> Option<PathType> {
        self.gpus().iter().map(|gpu| self.path(gpu, row)).min()
    }

    fn path(&self, gpu: &Ascent, row: &Row) -> PathType {
        let ascent = || self.node.ascent(row.address);
        self.node.meeting(gpu, row.ascent.get_or_init(ascent)).kind
    }

    fn gpus(&self) -> &[Ascent] {
        let gpus = self.node.gpus.iter();
        self.gpus
            .get_or_init(|| gpus.map(|gpu| self.node.ascent(gpu.address)).collect())
    }
}

/// The PCI function of a NIC, or the reason for leaving the NIC out as a whole.
fn function_of(
    node: &Topology,
    selection: &Selection,
    index: NicIndex,
    wanted: bool,
    map: &mut NodePlacement,
) -> Result<PciAddress, String> {
    let nic = node.nic(index);
    let mut exclude = selection.exclude.iter();
    if let Some(pattern) = exclude.find(|pattern| pattern.matches(nic)) {
        return Err(format!("`exclude={pattern}`"));
    }
    let why = match (nic.kind, nic.address) {
        (NicKind::Verbs, None) => {
            "no PCI function of it is known: a software device, or the file names none"
        }
        (NicKind::Verbs, _) if nic.ports.is_empty() => "it has no port",
        _ if !wanted && node.manages_nvswitches(nic) => {
            "it manages the NVSwitches and leads to no other node"
        }
        _ if !wanted && !selection.include.is_empty() => "`include=` does not name it",
        _ if !wanted && nic.role == Some(NicRole::Storage) => {
            "storage NIC (model or topology file)"
        }
        _ if !wanted && nic.role == Some(NicRole::Management) => {
            "management NIC (model or topology file)"
        }
        (NicKind::Ethernet, _) => "it is no RDMA device",
        (NicKind::Verbs, Some(address)) => return Ok(address),
        (kind, _) => {
            map.left_to_libfabric.push(index);
            let kind = if kind == NicKind::Efa {
                "EFA"
            } else {
                "Slingshot"
            };
            return Err(format!(
                "programs use {kind} through libfabric, which chooses the NIC"
            ));
        }
    };
    Err(why.to_string())
}

impl Row<'_> {
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.nic.name, self.port.number)
    }

    pub(super) fn card(&self) -> PciAddress {
        self.address.card()
    }

    pub(super) fn place_on_card(&self) -> (u8, u8) {
        (self.address.function, self.port.number)
    }

    pub(super) fn rail(&self, rate_mbps: Option<u64>) -> Rail {
        Rail {
            nic: self.index,
            name: self.nic.name.clone(),
            port: self.port.number,
            rate_mbps,
        }
    }

    pub(super) fn is_slower(&self, fabric_mbps: Option<u64>) -> bool {
        self.port.rate_mbps.is_some() && self.port.rate_mbps < fabric_mbps
    }

    pub(super) fn slower(&self, fabric_mbps: Option<u64>) -> Option<String> {
        if self.wanted || !self.is_slower(fabric_mbps) {
            return None;
        }
        let (own, fabric) = (gbps(self.port.rate_mbps?), gbps(fabric_mbps?));
        Some(format!("it runs at {own}, the node's fabric at {fabric}"))
    }

    /// The prefix of an InfiniBand port's subnet, or the first IPv4 network of a RoCE port.
    pub(super) fn subnet(&self) -> Option<String> {
        match self.port.link_layer {
            LinkLayer::InfiniBand => self.port.subnet.map(|prefix| prefix.to_string()),
            _ => self.port.networks.first().map(Network::to_string),
        }
    }

    /// Evidence against the port: the default route, or virtual functions that share the port.
    pub(super) fn own_evidence(&self, good: &[&Row]) -> Vec<String> {
        if self.wanted {
            return Vec::new();
        }
        // logins, installation and the scheduler use the default route
        let route = self
            .port
            .default_route
            .as_ref()
            .map(|interface| format!("the node's default route leaves by it (`{interface}`)"));
        route.into_iter().chain(self.shared_port(good)).collect()
    }

    /// Evidence against a physical function whose virtual functions share its port. A virtual
    /// function that may be chosen replaces the physical one. If no virtual function is a NIC of
    /// the node, virtual machines or containers use the port through them.
    fn shared_port(&self, good: &[&Row]) -> Option<String> {
        if self.shows_vf {
            let is_free = |other: &&&Row| {
                other.physfn == Some(self.address) && other.port.default_route.is_none()
            };
            let other = &good.iter().find(is_free)?.nic.name;
            return Some(format!(
                "its virtual function `{other}` is handed out here, and both share its port"
            ));
        }
        Some(match self.vfs? {
            1 => "a virtual function of it is given to others, who share its port".to_string(),
            vfs => format!("{vfs} virtual functions of it are given to others, who share its port"),
        })
    }
}
