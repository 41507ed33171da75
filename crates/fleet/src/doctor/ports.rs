//! Ports of NICs: which work, what their interfaces say, and how they differ from their siblings. A fault shows where one device
//! differs from the others of its kind, not where all are alike.

use super::facts::{HostFacts, Interface};
use super::{Examined, Judged, advice, fail, listed, note, ok, one, or_ok, warn};
use crate::audit::kinds::majority;
use nic_placement_core::diagnostic::counted;
use nic_placement_core::placement::Rail;
use nic_placement_core::policy::gbps;
use nic_placement_core::topology::{LinkLayer, Nic, NicKind, Port, PortState};

pub fn nic_broken(subject: &Examined) -> Judged {
    let (node, map) = (&*subject.plan.node, &subject.plan.map);
    let verdict = |rail: &Rail| {
        let Some(port) = node.port(rail.at()) else {
            return fail(format!("`{rail}` would be used if it worked"));
        };
        let physical = port.phys_state.as_deref();
        let rate = match (port.state, port.rate_mbps) {
            (PortState::Active, Some(mbps)) => format!(" at rate {}", mbps / 1000),
            _ => String::new(),
        };
        let is = format!(
            "`{rail}` would be used if it worked: it is {}{rate}, {}",
            port.state,
            physical.unwrap_or("physical state not told")
        );
        let why = match port.state {
            _ if map.broken.len() >= map.rails.len() => {
                "as many ports like it are down as are up: are these meant to be?"
            }
            PortState::Init | PortState::Armed => {
                "its link is up, and no subnet manager has made it active"
            }
            _ if physical == Some("Disabled") => "somebody switched it off",
            _ => return fail(is),
        };
        warn(format!("{is}: {why}"))
    };
    let broken = map.broken.iter().map(|rail| verdict(rail).about(rail));
    let working = map.rails.len();
    let good = format!("ports that work: {working}; none like them is down");
    or_ok(broken.collect(), (working > 0).then_some(good))
}

pub fn nic_slower(subject: &Examined) -> Judged {
    let slower = subject.plan.map.degraded.iter().filter_map(|rail| {
        let mine = gbps(rail.rate_mbps?);
        let text = format!("`{rail}` runs at {mine}, others of its device at more");
        Some(warn(text).about(rail))
    });
    Some(slower.collect())
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

/// An InfiniBand port needs no interface: IPoIB may be switched off.
pub fn port_interface(subject: &Examined) -> Judged {
    let (facts, plan) = (subject.facts?, subject.plan);
    let (mut down, mut up) = (Vec::new(), 0);
    for nic in &plan.node.nics {
        let needs = |port: &&Port| match nic.kind {
            NicKind::Efa => true,
            kind => kind == NicKind::Verbs && port.link_layer == LinkLayer::Ethernet,
        };
        let active = |port: &&Port| port.state == PortState::Active;
        for port in nic.ports.iter().filter(needs).filter(active) {
            let interface = interface(facts, nic, port);
            match interface.and_then(|of| Some((of, of.has_link?))) {
                Some((_, true)) => up += 1,
                Some((of, false)) => down.push((nic, port.number, &of.name)),
                None => {}
            }
        }
    }
    let verdict = |(nic, port, interface): &(&Nic, u8, &String)| {
        let port = format!("{}:{port}", nic.name);
        let text = format!("`{port}` is active, and its interface `{interface}` passes nothing");
        let mut rails = plan.map.rails.iter();
        // EFA is left to libfabric, which uses all
        let is_used = nic.kind == NicKind::Efa || rails.any(|rail| rail.to_string() == port);
        let why = match up > down.len() {
            true if is_used => return fail(text).about(port),
            true => "no job uses it",
            false => "most like it say the same: are they meant to be down?",
        };
        warn(format!("{text}; {why}")).about(port)
    };
    or_ok(
        down.iter().map(verdict).collect(),
        (up > 0).then(|| format!("{up} active ports: their interfaces say so too")),
    )
}

pub fn device_node(subject: &Examined) -> Judged {
    let facts = subject.facts?;
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
        return is_told.then(|| vec![warn(text)]);
    }
    let lacking = nics.iter().filter(|nic| node.lacks_verbs(nic)).map(|nic| {
        let text = "has no device node below /sys/class/infiniband_verbs, and others have";
        fail(format!("`{}` {text}", nic.name)).about(&nic.name)
    });
    let good = format!("{} RDMA devices have their device nodes", nics.len());
    or_ok(lacking.collect(), Some(good))
}

fn roce<'a>(subject: &'a Examined) -> Vec<(&'a Rail, &'a Nic, &'a Port)> {
    let node = &*subject.plan.node;
    let of = |rail: &'a Rail| Some((rail, node.nic(rail.nic), node.port(rail.at())?));
    let rails = subject.plan.map.rails.iter().filter_map(of);
    rails
        .filter(|(_, nic, port)| {
            nic.kind == NicKind::Verbs && port.link_layer == LinkLayer::Ethernet
        })
        .collect()
}

pub fn roce_gid(subject: &Examined) -> Judged {
    let rails = roce(subject);
    let is_v2 = |port: &Port| port.gid_type.as_deref() == Some("RoCE v2");
    let good = rails.iter().filter(|(_, _, port)| is_v2(port)).count();
    let (mut verdicts, mut untold, mut without_ipv4) = (Vec::new(), Vec::new(), Vec::new());
    for (rail, _, port) in &rails {
        let why = match &port.gid_type {
            _ if is_v2(port) => {
                let lacks_network = port.networks.is_empty();
                without_ipv4.extend(lacks_network.then(|| rail.to_string()));
                continue;
            }
            None if good == 0 => {
                untold.push(rail.to_string());
                continue;
            }
            None => "no GID that tells its type, and other ports have RoCE v2".to_string(),
            Some(other) => {
                format!("no GID of RoCE v2: the newest is `{other}`, which no router passes")
            }
        };
        verdicts.push(warn(format!("`{rail}` has {why}")).about(rail));
    }
    if !untold.is_empty() && subject.facts.is_some() {
        let text = "no GID tells its type, as in a container's network namespace";
        verdicts.push(note(format!("{}: {text}", listed(&untold))));
    }
    if !without_ipv4.is_empty() && without_ipv4.len() < good {
        let text = "no IPv4 network is told for its interface, and others have one";
        verdicts.push(warn(format!("{}: {text}", listed(&without_ipv4))).about(&without_ipv4[0]));
    }
    let told = || format!("{}: GID of RoCE v2", counted(good, "port"));
    or_ok(verdicts, (good > 0).then(told))
}

pub fn roce_mtu(subject: &Examined) -> Judged {
    /// The largest packet of RDMA, and its headers: Ethernet's frame must hold 4096 bytes and some 60 (rdma-core's
    /// libibverbs/verbs.h, `enum ibv_mtu`; the kernel's include/rdma/ib_addr.h, `iboe_get_mtu`).
    const LARGE: u32 = 4200;
    let facts = subject.facts?;
    let mtus: Vec<(&Rail, u32)> = roce(subject)
        .into_iter()
        .filter_map(|(rail, nic, port)| Some((rail, interface(facts, nic, port)?.mtu?)))
        .collect();
    let usual = majority(mtus.iter().map(|(_, mtu)| *mtu));
    let others = mtus.iter().filter_map(|(rail, mtu)| {
        let usual = usual.filter(|usual| usual != mtu)?;
        let text =
            format!("`{rail}`: its interface's MTU is {mtu}, most ports like it have {usual}");
        Some(warn(text).about(rail))
    });
    let others: Vec<_> = others.collect();
    if !others.is_empty() {
        return Some(others);
    }
    let least = mtus.iter().map(|(_, mtu)| *mtu).min()?;
    one(if least >= LARGE {
        ok(format!(
            "{}: MTU {least} or more",
            counted(mtus.len(), "port")
        ))
    } else {
        advice(format!(
            "MTU {least}: RDMA packets have less than 4096 bytes"
        ))
    })
}
