//! The texts in the box of a GPU or a NIC.

use super::Scene;
use super::width::Font;
use nic_placement_core::policy::gbps;
use nic_placement_core::topology::{
    GpuIndex, LinkLayer, NicIndex, NicKind, NicRole, PciAddress, Port, PortState,
};

pub struct Card {
    pub class: &'static str,
    /// at the left and at the right
    pub lines: Vec<[Piece; 2]>,
}

pub struct Piece {
    pub text: String,
    pub font: Font,
    pub class: &'static str,
}

const NAME: Font = Font {
    size: 12.5,
    bold: true,
};
const FACT: Font = Font {
    size: 10.5,
    bold: false,
};

impl Card {
    /// from one base line to the next
    pub const LINE: f64 = 15.0;

    pub fn height(&self) -> f64 {
        9.0 + Card::LINE * self.lines.len() as f64
    }
}

fn piece(text: impl ToString, font: Font, class: &'static str) -> Piece {
    let text = text.to_string();
    Piece { text, font, class }
}

pub fn of_gpu(scene: &Scene, index: GpuIndex) -> Card {
    let gpu = scene.topology.gpu(index);
    let note = scene.notes.get(&index);
    let (class, name, soft) = if note.is_none() && !scene.notes.is_empty() {
        ("idle", "faint", "faint")
    } else {
        ("gpu", "dark", "soft")
    };
    let part = gpu.partition.map(|part| format!(", part {part}"));
    let title = format!("GPU {index}{}", part.unwrap_or_default());
    let address = gpu.address.described().unwrap_or_default();
    let mut lines = vec![[piece(title, NAME, name), piece(address, FACT, soft)]];
    let mut line = |text: &str| lines.push([piece(text, FACT, soft), piece("", FACT, soft)]);
    if Scene::common_model(&scene.models).is_none() {
        line(scene.models[index.0].unwrap_or("model unknown"));
    }
    if !scene.notes.is_empty() {
        line(note.map_or("no task has it", String::as_str));
    }
    Card { class, lines }
}

pub fn of_nic(scene: &Scene, index: NicIndex) -> Card {
    let (nic, placement) = (scene.topology.nic(index), scene.placement);
    let is_out = |port: Option<u8>| {
        let mut out = placement.excluded.iter().filter(|out| out.name == nic.name);
        out.any(|out| out.port.is_none() || out.port == port)
    };
    let is_down = |port: &Port| !matches!(port.state, PortState::Active | PortState::Unknown);
    let is_broken = |port: &Port| {
        let mut broken = placement.broken.iter();
        broken.any(|rail| (rail.nic, rail.port) == (index, port.number))
    };
    // a port is missed if it would be used: another one that is down is a fact like its rate
    let is_missed = |port: &Port| is_down(port) && (is_broken(port) || !is_out(Some(port.number)));
    let is_all_out = match &nic.ports[..] {
        [] => is_out(None),
        ports => ports.iter().all(|port| is_out(Some(port.number))),
    };
    // the words on what is left out: the role, unless that is compute or not known
    let (is_chosen, usage) = match (nic.role, nic.kind) {
        (Some(role @ (NicRole::Storage | NicRole::Management)), _) => (false, role.to_string()),
        // they have no list of devices: libfabric gives each process its NIC
        (_, NicKind::Efa | NicKind::Slingshot) => (true, "libfabric chooses".to_string()),
        _ => (false, "left out".to_string()),
    };
    let (class, name, soft) = if nic.ports.iter().any(is_missed) {
        ("down", "dark", "soft")
    } else if is_all_out && !is_chosen {
        ("out", "faint", "faint")
    } else {
        ("nic", "dark", "soft")
    };
    let status = |port: Option<&Port>| match port {
        Some(port) if is_missed(port) => {
            let font = Font { bold: true, ..FACT };
            piece(format!("port {}", port.state), font, "alarm")
        }
        Some(port) if is_down(port) => piece(format!("{usage}, port {}", port.state), FACT, soft),
        port if is_out(port.map(|port| port.number)) => piece(&usage, FACT, soft),
        _ => piece("", FACT, soft),
    };
    let places = nic.address.and_then(PciAddress::described).into_iter();
    let places: Vec<String> = places
        .chain(nic.netdevs.first().map(|_| nic.netdevs.join(" ")))
        .collect();
    let (rate, of_nic) = match &nic.ports[..] {
        [port] => (speed(port), status(Some(port))),
        [] => ("0 ports".to_string(), status(None)),
        ports => (format!("{} ports", ports.len()), piece("", FACT, soft)),
    };
    let mut lines = vec![
        [piece(&nic.name, NAME, name), piece(rate, FACT, soft)],
        [piece(places.join("  "), FACT, soft), of_nic],
    ];
    for port in nic.ports.iter().filter(|_| nic.ports.len() > 1) {
        let text = format!("port {}  {}", port.number, speed(port));
        lines.push([piece(text, FACT, soft), status(Some(port))]);
    }
    Card { class, lines }
}

/// `400 Gb/s InfiniBand`
fn speed(port: &Port) -> String {
    let rate = port.rate_mbps.map_or("rate unknown".to_string(), gbps);
    match port.link_layer {
        LinkLayer::Unknown => rate,
        layer => format!("{rate} {layer}"),
    }
}
