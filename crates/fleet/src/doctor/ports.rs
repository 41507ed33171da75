//! Ports of NICs: which work, what their interfaces say, and how they differ from their siblings. A fault shows where one device
//! differs from the others of its kind, not where all are alike.

use super::facts::{HostFacts, Interface};
use super::{Examined, Verdicts, advice, fail, listed, note, ok, or_ok, warn};
use crate::audit::kinds::majority;
use nic_placement_core::diagnostic::counted;
use nic_placement_core::placement::Rail;
use nic_placement_core::policy::gbps;
use nic_placement_core::topology::{
    LinkLayer, Nic, NicKind, PciAddress, Port, PortState, Topology,
};
use std::collections::{BTreeMap, BTreeSet};

pub fn nic_broken(subject: &Examined) -> Verdicts {
    let (node, map) = (&*subject.plan.node, &subject.plan.map);
    let missing_as_many = map.broken.len() >= map.rails.len();
    let verdict = |rail: &Rail| {
        let Some(port) = node.port(rail.at()) else {
            return fail(format!("`{rail}` would be used if it worked"));
        };
        let physical = port
            .phys_state
            .as_deref()
            .unwrap_or("physical state not told");
        let rate = match (port.state, port.rate_mbps) {
            (PortState::Active, Some(mbps)) => format!(" at rate {}", mbps / 1000),
            _ => String::new(),
        };
        let is = format!(
            "`{rail}` would be used if it worked: it is {}{rate}, {physical}",
            port.state
        );
        match port.state {
            _ if missing_as_many => warn(format!(
                "{is}; as many ports like it are down as are up: are these meant to be?"
            )),
            PortState::Init | PortState::Armed => warn(format!(
                "{is}: its link is up, and no subnet manager has made it active"
            )),
            _ if physical == "Disabled" => warn(format!("{is}: somebody switched it off")),
            _ => fail(is),
        }
    };
    let good = || {
        format!(
            "ports that work: {}; none like them is down",
            map.rails.len()
        )
    };
    let broken = map
        .broken
        .iter()
        .map(|rail| verdict(rail).about(rail))
        .collect();
    or_ok(broken, (!map.rails.is_empty()).then(good))
}

pub fn nic_slower(subject: &Examined) -> Verdicts {
    subject
        .plan
        .map
        .degraded
        .iter()
        .filter_map(|rail| {
            let mine = gbps(rail.rate_mbps?);
            Some(warn(format!(
            "`{rail}` runs at {mine}, others of its device at more: look at its cable and its card"
        )).about(rail))
        })
        .collect()
}

/// PCI device, number of ports and purpose, alike on sibling cards.
type Kind = (Option<u16>, usize, Option<String>);

/// A card: all functions of one device.
#[derive(Default)]
struct Card<'a> {
    kind: Kind,
    nics: Vec<&'a Nic>,
}

impl Card<'_> {
    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.nics.iter().flat_map(|nic| &nic.ports)
    }

    fn active(&self) -> usize {
        self.ports()
            .filter(|port| port.state == PortState::Active)
            .count()
    }
}

fn cards(node: &Topology) -> BTreeMap<PciAddress, Card<'_>> {
    let mut cards: BTreeMap<PciAddress, Card> = BTreeMap::new();
    let is_physical = |nic: &&Nic| {
        let is_virtual = nic
            .address
            .and_then(|at| node.pci.get(at)?.physfn)
            .is_some();
        nic.kind == NicKind::Verbs && !node.manages_nvswitches(nic) && !is_virtual
    };
    for nic in node.nics.iter().filter(is_physical) {
        let Some(address) = nic.address else { continue };
        let device = node.pci.get(address).and_then(|function| function.device);
        let role = nic.role.map(|role| role.to_string());
        let card = cards.entry(address.card()).or_default();
        card.nics.push(nic);
        card.kind = (device, card.ports().count(), role);
    }
    cards
}

pub fn ports_per_card(subject: &Examined) -> Verdicts {
    let cards = cards(&subject.plan.node);
    let kinds: BTreeSet<Kind> = cards.values().map(|card| card.kind.clone()).collect();
    let (mut verdicts, mut compared) = (Vec::new(), 0);
    for kind in kinds {
        let alike: Vec<_> = cards.iter().filter(|(_, card)| card.kind == kind).collect();
        compared += if alike.len() > 1 { alike.len() } else { 0 };
        let Some(usual) = majority(alike.iter().map(|(_, card)| card.active())) else {
            continue;
        };
        for (address, card) in alike {
            let is_told = |nic: &&Nic| {
                subject
                    .plan
                    .map
                    .broken
                    .iter()
                    .any(|rail| rail.name == nic.name)
            };
            if card.active() >= usual || card.nics.iter().any(is_told) {
                continue;
            }
            let names: Vec<String> = card.nics.iter().map(|nic| nic.name.to_string()).collect();
            let text = format!(
                "card `{address}` ({}) has {} of {} ports active, most cards like it {usual}",
                listed(&names),
                card.active(),
                card.ports().count()
            );
            let is_for_jobs = kind.2.as_ref().is_none_or(|role| role == "compute");
            // a port that no rail is like was perhaps never cabled
            let verdict = if is_for_jobs { warn(text) } else { note(text) };
            verdicts.push(verdict.about(&names[0]));
        }
    }
    or_ok(
        verdicts,
        (compared > 0).then(|| match compared {
            1 => "1 card has as many active ports as those like it".to_string(),
            more => format!("{more} cards have as many active ports as those like them"),
        }),
    )
}

/// The interface of a NIC that has only one.
fn interface<'a>(facts: &'a HostFacts, nic: &Nic, port: &Port) -> Option<&'a Interface> {
    let all = &facts.nics.get(nic.name.as_str())?.interfaces;
    match (&port.netdev, all.as_slice()) {
        (Some(name), _) => all.iter().find(|interface| interface.name == *name),
        (None, [only]) => Some(only),
        _ => None,
    }
}

/// True: the interface reports no link. Drivers that do not report it say `unknown`.
fn is_down(interface: &Interface) -> Option<bool> {
    match (interface.state.as_deref(), interface.carrier) {
        (Some("down" | "lowerlayerdown" | "notpresent"), _) | (_, Some(false)) => Some(true),
        (Some("up" | "dormant"), _) | (_, Some(true)) => Some(false),
        _ => None,
    }
}

fn with_interfaces<'a>(
    subject: &'a Examined,
    keep: impl Fn(&Nic, &Port) -> bool,
) -> Vec<(&'a Nic, &'a Port, &'a Interface)> {
    let Some(facts) = subject.facts else {
        return Vec::new();
    };
    subject
        .plan
        .node
        .nics
        .iter()
        .flat_map(|nic| nic.ports.iter().map(move |port| (nic, port)))
        .filter(|(nic, port)| port.state == PortState::Active && keep(nic, port))
        .filter_map(|(nic, port)| Some((nic, port, interface(facts, nic, port)?)))
        .collect()
}

fn active_and_down(subject: &Examined, all: &[(&Nic, &Port, &Interface)]) -> Verdicts {
    let down: Vec<_> = all
        .iter()
        .filter(|(_, _, interface)| is_down(interface) == Some(true))
        .collect();
    let up = all
        .iter()
        .filter(|(_, _, interface)| is_down(interface) == Some(false))
        .count();
    if down.is_empty() {
        let good = (up > 0).then(|| format!("{up} active ports: their interfaces say so too"));
        return or_ok(Vec::new(), good);
    }
    let verdict = |(nic, port, interface): &(&Nic, &Port, &Interface)| {
        let carrier = match interface.carrier {
            Some(true) => "1",
            Some(false) => "0",
            None => "not told",
        };
        let state = interface.state.as_deref().unwrap_or("not told");
        let text = format!(
            "`{}:{}` is active, and its interface `{}` passes nothing: operstate {state}, carrier {carrier}",
            nic.name, port.number, interface.name
        );
        // EFA is left to libfabric, which uses all
        let is_used = nic.kind == NicKind::Efa
            || subject
                .plan
                .map
                .rails
                .iter()
                .any(|rail| rail.name == nic.name && rail.port == port.number);
        match up > down.len() {
            true if is_used => fail(text),
            true => warn(format!("{text}; no job uses it")),
            false => warn(format!(
                "{text}; most like it say the same: are they meant to be down?"
            )),
        }
        .about(format!("{}:{}", nic.name, port.number))
    };
    down.iter().map(|all| verdict(all)).collect()
}

/// An InfiniBand port needs no interface: IPoIB may be switched off.
pub fn port_interface(subject: &Examined) -> Verdicts {
    active_and_down(
        subject,
        &with_interfaces(subject, |nic: &Nic, port: &Port| {
            nic.kind == NicKind::Verbs && port.link_layer == LinkLayer::Ethernet
        }),
    )
}

pub fn efa_carrier(subject: &Examined) -> Verdicts {
    active_and_down(
        subject,
        &with_interfaces(subject, |nic, _| nic.kind == NicKind::Efa),
    )
}

pub fn device_node(subject: &Examined) -> Verdicts {
    let Some(facts) = subject.facts else {
        return Vec::new();
    };
    let node = &*subject.plan.node;
    let nics: Vec<&Nic> = node
        .nics
        .iter()
        .filter(|nic| matches!(nic.kind, NicKind::Verbs | NicKind::Efa) && nic.address.is_some())
        .collect();
    if nics.iter().all(|nic| nic.uverbs.is_none()) {
        let text =
            "no RDMA device has a node: `ib_uverbs` is not loaded, so no library finds a NIC";
        let is_told = facts.is_live && !nics.is_empty();
        return Vec::from_iter(is_told.then(|| warn(text)));
    }
    let mut verdicts = Vec::new();
    for nic in nics.iter().filter(|nic| node.lacks_verbs(nic)) {
        verdicts.push(
            fail(format!(
                "`{}` has no device node below /sys/class/infiniband_verbs, and others have",
                nic.name
            ))
            .about(&nic.name),
        );
    }
    let mads = |nic: &Nic| {
        facts
            .nics
            .get(nic.name.as_str())
            .map_or(0, |facts| facts.mads)
    };
    let ports = |nic: &Nic| {
        nic.ports
            .iter()
            .filter(|port| port.link_layer == LinkLayer::InfiniBand)
            .count()
    };
    for nic in nics
        .iter()
        .filter(|nic| facts.has_mads && mads(nic) < ports(nic))
    {
        let (mads, ports) = (mads(nic), ports(nic));
        verdicts.push(
            warn(format!(
                "`{}` has {mads} management nodes for {ports} InfiniBand ports",
                nic.name
            ))
            .about(&nic.name),
        );
    }
    or_ok(
        verdicts,
        Some(format!(
            "{} RDMA devices have their device nodes",
            nics.len()
        )),
    )
}

fn roce<'a>(subject: &'a Examined) -> Vec<(&'a Rail, &'a Nic, &'a Port)> {
    let node = &*subject.plan.node;
    subject
        .plan
        .map
        .rails
        .iter()
        .filter_map(|rail| {
            let (nic, port) = (node.nic(rail.nic), node.port(rail.at())?);
            (nic.kind == NicKind::Verbs && port.link_layer == LinkLayer::Ethernet)
                .then_some((rail, nic, port))
        })
        .collect()
}

pub fn roce_gid(subject: &Examined) -> Verdicts {
    let rails = roce(subject);
    let v2 = |port: &Port| port.gid_type.as_deref().map(|of| of == "RoCE v2");
    let good = rails
        .iter()
        .filter(|(_, _, port)| v2(port) == Some(true))
        .count();
    let (mut verdicts, mut untold) = (Vec::new(), Vec::new());
    for (rail, _, port) in &rails {
        match v2(port) {
            Some(true) => {}
            None if good > 0 => {
                verdicts.push(
                    warn(format!(
                        "`{rail}` has no GID that tells its type, and other ports have RoCE v2"
                    ))
                    .about(rail),
                );
            }
            None => untold.push(rail.to_string()),
            Some(false) => {
                let found = port.gid_type.as_deref().unwrap_or_default();
                verdicts.push(warn(format!(
                    "`{rail}` has no GID of RoCE v2: the newest is `{found}`, which no router passes"
                )).about(rail));
            }
        }
    }
    if !untold.is_empty() && subject.facts.is_some() {
        let text = "no GID tells its type, as in a container's network namespace";
        verdicts.push(note(format!("{}: {text}", listed(&untold))));
    }
    let without_ipv4: Vec<String> = rails
        .iter()
        .filter(|(_, _, port)| v2(port) == Some(true) && port.networks.is_empty())
        .map(|(rail, ..)| rail.to_string())
        .collect();
    if !without_ipv4.is_empty() && without_ipv4.len() < good {
        let text = "no IPv4 network is told for its interface, and others have one";
        verdicts.push(warn(format!("{}: {text}", listed(&without_ipv4))).about(&without_ipv4[0]));
    }
    or_ok(
        verdicts,
        (good > 0).then(|| format!("{}: GID of RoCE v2", counted(good, "port"))),
    )
}

pub fn roce_mtu(subject: &Examined) -> Verdicts {
    /// The largest packet of RDMA, and its headers: Ethernet's frame must hold 4096 bytes and some 60 (rdma-core's
    /// libibverbs/verbs.h, `enum ibv_mtu`; the kernel's include/rdma/ib_addr.h, `iboe_get_mtu`).
    const LARGE: u32 = 4200;
    let Some(facts) = subject.facts else {
        return Vec::new();
    };
    let mtus: Vec<(&Rail, u32)> = roce(subject)
        .into_iter()
        .filter_map(|(rail, nic, port)| Some((rail, interface(facts, nic, port)?.mtu?)))
        .collect();
    let usual = majority(mtus.iter().map(|(_, mtu)| *mtu));
    let mut verdicts = Vec::new();
    for (rail, mtu) in &mtus {
        if let Some(usual) = usual.filter(|usual| usual != mtu) {
            verdicts.push(
                warn(format!(
                    "`{rail}`: its interface's MTU is {mtu}, most ports like it have {usual}"
                ))
                .about(rail),
            );
        }
    }
    if let (true, Some((_, least))) = (verdicts.is_empty(), mtus.iter().min_by_key(|(_, mtu)| mtu))
    {
        verdicts.push(if *least >= LARGE {
            ok(format!(
                "{}: MTU {least} or more",
                counted(mtus.len(), "port")
            ))
        } else {
            advice(format!(
                "MTU {least}: RDMA packets have less than 4096 bytes"
            ))
        });
    }
    verdicts
}

/// None hears where the switches do not speak LLDP.
pub fn lldp(subject: &Examined) -> Verdicts {
    let Some((facts, heard)) = subject
        .facts
        .and_then(|facts| Some((facts, facts.heard.as_ref()?)))
    else {
        return Vec::new();
    };
    let ports = roce(subject)
        .into_iter()
        .filter_map(|(rail, nic, port)| Some((rail, interface(facts, nic, port)?)));
    let (hear, silent): (Vec<_>, Vec<_>) = ports
        .filter(|(_, interface)| is_down(interface) != Some(true))
        .partition(|(_, interface)| heard.contains(&interface.name));
    let verdict = |(rail, interface): &(&Rail, &Interface)| {
        let others = counted(hear.len(), "other port");
        let verb = if hear.len() == 1 { "does" } else { "do" };
        advice(format!(
            "`{rail}` (`{}`) hears no switch, and {others} {verb}",
            interface.name
        ))
        .about(rail)
    };
    let is_told = hear.len() > silent.len();
    let silent = silent.iter().filter(|_| is_told).map(verdict).collect();
    or_ok(
        silent,
        is_told.then(|| {
            format!(
                "{} {} a switch",
                counted(hear.len(), "port"),
                if hear.len() == 1 { "hears" } else { "hear" }
            )
        }),
    )
}
