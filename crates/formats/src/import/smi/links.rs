//! The NICs in the output of `rdma link` (iproute2) and `ibdev2netdev` (MLNX_OFED, DOCA): names, ports, interfaces.
//!
//! Neither says where a NIC stands, so each NIC is without a PCI function, and no GPU gets it.

use super::text::TextLine;
use super::{BadText, MAX_DEVICES, link_layers};
use crate::import::{Result, shown};
use nic_placement_core::topology::{
    DeviceName, LinkLayer, Nic, NicKind, PciAddress, Port, PortState,
};

pub fn read(lines: &[TextLine]) -> Result<Vec<Nic>> {
    let mut nics: Vec<Nic> = Vec::new();
    for line in lines {
        let words = line.words();
        let Some((name, number, state, interface)) = of_rdma(&words).or_else(|| of_ofed(&words))
        else {
            continue;
        };
        let bad = |problem: String| BadText::new(line.number, problem);
        let name: DeviceName = name
            .parse()
            .map_err(|_| bad(format!("`{}` is no name of an RDMA device", shown(name))))?;
        let at = nics
            .iter()
            .position(|nic| nic.name == name)
            .unwrap_or_else(|| {
                nics.push(Nic::new(name.clone(), NicKind::Verbs));
                nics.len() - 1
            });
        if at == MAX_DEVICES {
            return Err(bad(format!("more than {MAX_DEVICES} NICs")));
        }
        let nic = &mut nics[at];
        nic.ports
            .push(Port::new(number, state, LinkLayer::Unknown, None));
        // the last name of a text without a line's end may be cut
        let interface = interface.filter(|_| !line.is_open);
        nic.netdevs.extend(interface.map(str::to_string));
    }
    let all: Vec<DeviceName> = nics.iter().map(|nic| nic.name.clone()).collect();
    for (nic, layer) in nics.iter_mut().zip(link_layers(&all)) {
        nic.ports
            .iter_mut()
            .for_each(|port| port.link_layer = layer);
    }
    Ok(nics)
}

type Link<'a> = (&'a str, u8, PortState, Option<&'a str>);

/// `link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1np0`
fn of_rdma<'a>(words: &[&'a str]) -> Option<Link<'a>> {
    let after = |word: &str| {
        let at = words.iter().position(|known| *known == word)?;
        words.get(at + 1).copied()
    };
    after("physical_state")?;
    let (name, number) = after("link")?.split_once('/')?;
    Some((
        name,
        number.parse().ok()?,
        state(after("state")?),
        after("netdev"),
    ))
}

/// `mlx5_0 port 1 ==> ens1np0 (Up)`; with `-v` an address before the name, and `port 1 (ACTIVE)`.  `(Up)` is the interface's state.
fn of_ofed<'a>(words: &[&'a str]) -> Option<Link<'a>> {
    let arrow = words.iter().position(|word| *word == "==>")?;
    let (before, interface) = (&words[..arrow], words.get(arrow + 1).copied());
    let port = before.iter().rposition(|word| *word == "port")?;
    let name = before
        .iter()
        .position(|word| word.parse::<PciAddress>().is_ok())
        .map_or(port.checked_sub(1)?, |at| at + 1);
    let stated = before
        .get(port + 2)
        .map_or("", |word| word.trim_matches(['(', ')']));
    let number = before.get(port + 1)?.parse().ok()?;
    Some((before.get(name)?, number, state(stated), interface))
}

fn state(word: &str) -> PortState {
    match word {
        "ACTIVE" => PortState::Active,
        "ARMED" => PortState::Armed,
        "INIT" => PortState::Init,
        "DOWN" => PortState::Down,
        _ => PortState::Unknown,
    }
}
