//! The texts in the box of a GPU or a NIC.

use super::Scene;
use super::width::Font;
use nic_placement_core::placement::Excluded;
use nic_placement_core::policy::gbps;
use nic_placement_core::topology::{
    GpuIndex, GpuVendor, LinkLayer, Nic, NicIndex, NicKind, NicRole, PciAddress, Port, PortState,
};
use std::collections::BTreeSet;

pub struct Card {
    pub class: &'static str,
    pub tip: String,
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
const WARNING: Font = Font {
    size: 10.5,
    bold: true,
};

impl Card {
    /// between its edge and its text
    pub const PADDING: f64 = 8.0;
    /// from the upper edge to the first base line
    pub const FIRST: f64 = 16.0;
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

fn fact(text: impl ToString, class: &'static str) -> Piece {
    piece(text, FACT, class)
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
    let vendor = match gpu.vendor {
        GpuVendor::Nvidia => "NVIDIA",
        GpuVendor::Amd => "AMD",
        GpuVendor::Intel => "Intel",
    };
    let model = scene.models.get(index.0).copied().flatten();
    let model = model.map_or(format!("{vendor}, model unknown"), str::to_string);
    let uuid = gpu.uuid.as_ref().map(|uuid| format!(", {uuid}"));
    let tip = format!("{title}: {model}{}", uuid.unwrap_or_default());
    let mut lines = vec![[
        piece(title, NAME, name),
        fact(gpu.address.described().unwrap_or_default(), soft),
    ]];
    if Scene::common_model(&scene.models).is_none() {
        lines.push([fact(model, soft), fact("", soft)]);
    }
    if !scene.notes.is_empty() {
        lines.push([
            fact(note.map_or("no task has it", String::as_str), soft),
            fact("", soft),
        ]);
    }
    Card { class, tip, lines }
}

/// A NIC that no GPU is given has one line.
pub fn of_nic(scene: &Scene, index: NicIndex) -> Card {
    let (nic, placement) = (scene.topology.nic(index), scene.placement);
    let left_out: Vec<&Excluded> = placement
        .excluded
        .iter()
        .filter(|out| out.name == nic.name)
        .collect();
    let is_out = |port: &Port| {
        left_out
            .iter()
            .any(|out| out.port.is_none_or(|number| number == port.number))
    };
    let is_down = |port: &Port| !matches!(port.state, PortState::Active | PortState::Unknown);
    let is_all_out = left_out.iter().any(|out| out.port.is_none()) || nic.ports.iter().all(is_out);
    let is_libfabrics = is_chosen_by_libfabric(nic) && is_all_out;
    let is_all_out = is_all_out && !left_out.is_empty() && !is_libfabrics;
    // a port is missed if it would be used: another one that is down is a fact like its rate
    let is_missed = |port: &Port| {
        let mut broken = placement.broken.iter();
        is_down(port)
            && (broken.any(|rail| (rail.nic, rail.port) == (index, port.number))
                || !is_out(port)
                || placement.rails.is_empty() && !is_for_another_use(nic))
    };
    let class = match (nic.ports.iter().any(is_missed), is_all_out) {
        (true, _) => "down",
        (false, true) => "out",
        (false, false) => "nic",
    };
    let (name, soft) = if is_all_out {
        ("faint", "faint")
    } else {
        ("dark", "soft")
    };
    let status = |port: &Port| match (is_down(port), is_out(port)) {
        (true, _) if is_missed(port) => piece(format!("port {}", port.state), WARNING, "alarm"),
        (true, _) => fact(format!("{}, port {}", use_of(nic), port.state), soft),
        (false, true) => fact(use_of(nic), soft),
        (false, false) => fact(shared(scene, index).unwrap_or_default(), soft),
    };
    let (rate, of_nic) = match nic.ports.as_slice() {
        [one] => (speed(one), status(one)),
        [] if is_all_out => ("0 ports".to_string(), fact(use_of(nic), soft)),
        several => (format!("{} ports", several.len()), fact("", soft)),
    };
    let address = nic.address.and_then(PciAddress::described);
    let interfaces = (!nic.netdevs.is_empty()).then(|| nic.netdevs.join(" "));
    let places: Vec<String> = address.into_iter().chain(interfaces).collect();
    let is_short = is_libfabrics || is_all_out && class == "out";
    let lines = match (is_short, nic.ports.as_slice()) {
        (true, [port]) => {
            let right = if is_down(port) {
                of_nic.text
            } else {
                format!("{rate} · {}", of_nic.text)
            };
            let font = if is_all_out { FACT } else { NAME };
            vec![[piece(&nic.name, font, name), fact(right, soft)]]
        }
        (_, ports) => {
            let mut lines = vec![
                [piece(&nic.name, NAME, name), fact(rate, soft)],
                [fact(places.join("  "), soft), of_nic],
            ];
            let of_port = |port: &Port| {
                [
                    fact(format!("port {}  {}", port.number, speed(port)), soft),
                    status(port),
                ]
            };
            lines.extend(ports.iter().filter(|_| ports.len() > 1).map(of_port));
            lines
        }
    };
    let why = left_out.iter().map(|out| match out.port {
        Some(port) => format!("; port {port} is left out: {}", out.why),
        None => format!("; left out: {}", out.why),
    });
    let (why, places) = (why.collect::<String>(), places.join(" "));
    let tip = format!("NIC {} {places}: {}{why}", nic.name, nic.kind);
    Card { class, tip, lines }
}

/// EFA and Slingshot have no list of devices: libfabric gives each process its NIC.
fn is_chosen_by_libfabric(nic: &Nic) -> bool {
    matches!(nic.kind, NicKind::Efa | NicKind::Slingshot) && !is_for_another_use(nic)
}

fn is_for_another_use(nic: &Nic) -> bool {
    matches!(nic.role, Some(NicRole::Storage | NicRole::Management))
}

/// The words on a NIC or port that is left out: its role, unless that is compute or not known.
fn use_of(nic: &Nic) -> String {
    match nic.role {
        Some(role) if is_for_another_use(nic) => role.to_string(),
        _ if is_chosen_by_libfabric(nic) => "libfabric chooses".to_string(),
        _ => "left out".to_string(),
    }
}

/// The shares of several GPUs that use a NIC: `2 GPUs, 100 Gb/s each`, `2 GPUs, 90 Gb/s to 110 Gb/s`.
fn shared(scene: &Scene, nic: NicIndex) -> Option<String> {
    let users: BTreeSet<GpuIndex> = scene
        .pairs
        .iter()
        .filter(|pair| pair.nic == nic)
        .map(|pair| pair.gpu)
        .collect();
    // the shares are those of the node's map: true if its users are the ones that are drawn
    let share = |gpu: &GpuIndex| {
        let of_nic = scene
            .placement
            .gpus
            .get(gpu.0)?
            .choices
            .iter()
            .find(|choice| scene.placement.rail(choice.rail).nic == nic)?;
        of_nic.share_mbps.filter(|_| of_nic.users == users.len())
    };
    let shares: BTreeSet<Option<u64>> = users.iter().map(share).collect();
    let each = match (shares.first(), shares.last()) {
        (Some(Some(least)), Some(Some(most))) if least < most => {
            format!(", {} to {}", gbps(*least), gbps(*most))
        }
        (Some(Some(share)), _) => format!(", {} each", gbps(*share)),
        _ => String::new(),
    };
    (users.len() > 1).then(|| format!("{} GPUs{each}", users.len()))
}

/// `400 Gb/s InfiniBand`
fn speed(port: &Port) -> String {
    let rate = port.rate_mbps.map_or("rate unknown".to_string(), gbps);
    match port.link_layer {
        LinkLayer::Unknown => rate,
        layer => format!("{rate} {layer}"),
    }
}
