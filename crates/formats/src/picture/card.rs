//! The texts in the box of a GPU or a NIC.
#![forbid(unsafe_code)]

use super::Scene;
use super::shape::{Looks, Tone};
use super::width::Font;
use nic_placement_core::placement::Excluded;
use nic_placement_core::policy::gbps;
use nic_placement_core::topology::{
    GpuIndex, GpuVendor, LinkLayer, Nic, NicIndex, NicKind, NicRole, PciAddress, Port, PortState,
};
use std::collections::BTreeSet;

/// A device's box.
pub(super) struct Card {
    pub(super) looks: Looks,
    /// the text that a viewer shows when the pointer rests on it
    pub(super) tip: String,
    pub(super) lines: Vec<Line>,
}

/// A line of it.
pub(super) struct Line {
    pub(super) left: Piece,
    pub(super) right: Piece,
}

/// A text and its looks.
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) font: Font,
    pub(super) tone: Tone,
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
    pub(super) const PADDING: f64 = 8.0;
    /// from the upper edge to the first base line
    pub(super) const FIRST: f64 = 16.0;
    /// from one base line to the next
    pub(super) const LINE: f64 = 15.0;

    pub(super) fn height(&self) -> f64 {
        9.0 + Card::LINE * self.lines.len() as f64
    }
}

fn fact(text: String, tone: Tone) -> Piece {
    Piece {
        text,
        font: FACT,
        tone,
    }
}

/// Name and address, model, and what the scene says of it.
pub(super) fn of_gpu(scene: &Scene, index: GpuIndex) -> Card {
    let gpu = scene.topology.gpu(index);
    let note = scene.notes.get(&index);
    let is_idle = note.is_none() && !scene.notes.is_empty();
    let (name, soft) = if is_idle {
        (Tone::Faint, Tone::Faint)
    } else {
        (Tone::Dark, Tone::Soft)
    };
    let partition = gpu
        .partition
        .map(|part| format!(", part {part}"))
        .unwrap_or_default();
    let title = format!("GPU {index}{partition}");
    let vendor = match gpu.vendor {
        GpuVendor::Nvidia => "NVIDIA",
        GpuVendor::Amd => "AMD",
        GpuVendor::Intel => "Intel",
    };
    let model = scene.models.get(index.0).copied().flatten();
    let model = model.map_or(format!("{vendor}, model unknown"), str::to_string);
    let uuid = gpu
        .uuid
        .iter()
        .map(|uuid| format!(", {uuid}"))
        .collect::<String>();
    let tip = format!("{title}: {model}{uuid}");
    let first = Line {
        left: Piece {
            text: title,
            font: NAME,
            tone: name,
        },
        right: fact(gpu.address.described().unwrap_or_default(), soft),
    };
    let mut lines = vec![first];
    if Scene::common_model(&scene.models).is_none() {
        lines.push(Line {
            left: fact(model, soft),
            right: fact(String::new(), soft),
        });
    }
    if !scene.notes.is_empty() {
        let note = note.map_or("no task has it".to_string(), String::clone);
        lines.push(Line {
            left: fact(note, soft),
            right: fact(String::new(), soft),
        });
    }
    Card {
        looks: if is_idle { Looks::IdleGpu } else { Looks::Gpu },
        tip,
        lines,
    }
}

/// Name and rate, address and interfaces; a line for each port of several.  A NIC that no GPU is given has one line.
pub(super) fn of_nic(scene: &Scene, index: NicIndex) -> Card {
    let nic = scene.topology.nic(index);
    let placement = scene.placement;
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
    let is_down = |port: &Port| {
        matches!(
            port.state,
            PortState::Down | PortState::Init | PortState::Armed
        )
    };
    let is_all_out = left_out.iter().any(|out| out.port.is_none()) || nic.ports.iter().all(is_out);
    let is_libfabrics = is_chosen_by_libfabric(nic) && is_all_out;
    let is_all_out = is_all_out && !left_out.is_empty() && !is_libfabrics;
    // a port is missed if it would be used: another one that is down is a fact like its rate
    let is_missed = |port: &Port| {
        let is_broken = placement
            .broken
            .iter()
            .any(|rail| (rail.nic, rail.port) == (index, port.number));
        is_down(port)
            && (is_broken
                || !is_out(port)
                || placement.rails.is_empty() && !is_for_another_use(nic))
    };
    let looks = match (nic.ports.iter().any(is_missed), is_all_out) {
        (true, _) => Looks::Down,
        (false, true) => Looks::LeftOut,
        (false, false) => Looks::Nic,
    };
    let (name, soft) = if is_all_out {
        (Tone::Faint, Tone::Faint)
    } else {
        (Tone::Dark, Tone::Soft)
    };
    let status = |port: &Port| match (is_down(port), is_out(port)) {
        (true, _) if is_missed(port) => Piece {
            text: format!("port {}", port.state),
            font: WARNING,
            tone: Tone::Alarm,
        },
        (true, _) => fact(format!("{}, port {}", use_of(nic), port.state), soft),
        (false, true) => fact(use_of(nic), soft),
        (false, false) => fact(shared(scene, index).unwrap_or_default(), soft),
    };
    let of_nic = match nic.ports.as_slice() {
        [one] => status(one),
        [] if is_all_out => fact(use_of(nic), soft),
        _ => fact(String::new(), soft),
    };
    let rate = match nic.ports.as_slice() {
        [one] => speed(one),
        several => format!("{} ports", several.len()),
    };
    let is_short = is_libfabrics || is_all_out && looks == Looks::LeftOut;
    if let (true, [port]) = (is_short, nic.ports.as_slice()) {
        let status = status(port).text;
        let right = if is_down(port) {
            status
        } else {
            format!("{rate} · {status}")
        };
        let font = if is_all_out { FACT } else { NAME };
        let left = Piece {
            text: nic.name.to_string(),
            font,
            tone: name,
        };
        let lines = vec![Line {
            left,
            right: fact(right, soft),
        }];
        return Card {
            looks,
            tip: tip(nic, &left_out),
            lines,
        };
    }
    let address = nic.address.and_then(PciAddress::described);
    let interfaces = (!nic.netdevs.is_empty()).then(|| nic.netdevs.join(" "));
    let places: Vec<String> = address.into_iter().chain(interfaces).collect();
    let mut lines = vec![
        Line {
            left: Piece {
                text: nic.name.to_string(),
                font: NAME,
                tone: name,
            },
            right: fact(rate, soft),
        },
        Line {
            left: fact(places.join("  "), soft),
            right: of_nic,
        },
    ];
    if nic.ports.len() > 1 {
        let of_port = |port: &Port| {
            let text = format!("port {}  {}", port.number, speed(port));
            Line {
                left: fact(text, soft),
                right: status(port),
            }
        };
        lines.extend(nic.ports.iter().map(of_port));
    }
    Card {
        looks,
        tip: tip(nic, &left_out),
        lines,
    }
}

fn tip(nic: &Nic, left_out: &[&Excluded]) -> String {
    let why = left_out.iter().map(|out| match out.port {
        Some(port) => format!("; port {port} is left out: {}", out.why),
        None => format!("; left out: {}", out.why),
    });
    let places: Vec<String> = nic
        .address
        .and_then(PciAddress::described)
        .into_iter()
        .chain(nic.netdevs.clone())
        .collect();
    format!(
        "NIC {} {}: {}{}",
        nic.name,
        places.join(" "),
        nic.kind,
        why.collect::<String>()
    )
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
    let of_nic = |gpu: &GpuIndex| {
        let choices = &scene.placement.gpus.get(gpu.0)?.choices;
        choices
            .iter()
            .find(|choice| scene.placement.rail(choice.rail).nic == nic)
    };
    // the shares are those of the node's map: true if its users are the ones that are drawn
    let shares: BTreeSet<Option<u64>> = users
        .iter()
        .map(|gpu| of_nic(gpu).filter(|of| of.users == users.len())?.share_mbps)
        .collect();
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
