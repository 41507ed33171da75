//! The shapes of a picture: boxes, texts and curves.
#![forbid(unsafe_code)]

use super::width::Font;
use nic_placement_core::topology::PathType;

/// A finished picture, in pixels; later shapes lie over earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Picture {
    pub(super) title: String,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Rect(Rect),
    Text(DrawnText),
    Curve(Curve),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) looks: Looks,
    /// the text that a viewer shows when the pointer rests on it
    pub(super) tip: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Looks {
    Socket,
    /// a NUMA node, or what stands beside them
    NumaNode,
    HostBridge,
    Switch,
    Gpu,
    /// a GPU that no task has
    IdleGpu,
    Nic,
    /// a NIC that may not be chosen
    LeftOut,
    /// a NIC with a port that is not up
    Down,
}

impl Looks {
    pub(super) fn class(self) -> &'static str {
        match self {
            Looks::Socket => "socket",
            Looks::NumaNode => "numa",
            Looks::HostBridge => "host",
            Looks::Switch => "switch",
            Looks::Gpu => "gpu",
            Looks::IdleGpu => "idle",
            Looks::Nic => "nic",
            Looks::LeftOut => "out",
            Looks::Down => "down",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct DrawnText {
    /// where it begins, or ends
    pub(super) x: f64,
    pub(super) y: f64,
    /// true if it ends at `x`
    pub(super) ends: bool,
    pub(super) font: Font,
    pub(super) tone: Tone,
    pub(super) text: String,
}

impl DrawnText {
    /// One that begins at a point.
    pub(super) fn at((x, y): (f64, f64), font: Font, tone: Tone, text: String) -> DrawnText {
        DrawnText {
            x,
            y,
            ends: false,
            font,
            tone,
            text,
        }
    }
}

/// The strength of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Dark,
    /// facts
    Soft,
    /// not used
    Faint,
    /// broken
    Alarm,
}

impl Tone {
    pub(super) fn class(self) -> &'static str {
        match self {
            Tone::Dark => "dark",
            Tone::Soft => "soft",
            Tone::Faint => "faint",
            Tone::Alarm => "alarm",
        }
    }
}

/// A curve from left to right, level at both ends.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    pub(super) from: (f64, f64),
    pub(super) to: (f64, f64),
    /// `None`: a part of a line that joins all GPUs of a group with all NICs of it
    pub(super) path: Option<PathType>,
    /// the text that a viewer shows when the pointer rests on it
    pub(super) tip: Option<String>,
}

/// A curve's colour and its dashes.
///
/// The colours are Okabe and Ito's, which colour-blind readers tell apart ("Color Universal Design", 2008); the dashes tell
/// them apart in grey too.
pub(super) fn stroke(path: Option<PathType>) -> (&'static str, &'static str) {
    match path {
        Some(PathType::Pix) => ("#0072b2", "none"),
        Some(PathType::Pxb) => ("#009e73", "16 4"),
        Some(PathType::Phb) => ("#cc79a7", "8 5"),
        Some(PathType::Node) => ("#e69f00", "9 4 2 4"),
        Some(PathType::Sys) => ("#d55e00", "2.5 4"),
        None => ("#4d4d4d", "1 0"),
    }
}

/// The legend of a kind of path, for readers that do not know the words of `nvidia-smi topo -m`.
pub(super) fn meaning(path: Option<PathType>) -> &'static str {
    match path {
        Some(PathType::Pix) => "PIX: at most one PCIe switch",
        Some(PathType::Pxb) => "PXB: several PCIe switches",
        Some(PathType::Phb) => "PHB: a host bridge",
        Some(PathType::Node) => "NODE: within a NUMA node",
        Some(PathType::Sys) => "SYS: between NUMA nodes",
        None => "each of these GPUs uses each of these NICs",
    }
}
