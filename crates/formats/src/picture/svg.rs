//! Writes boxes, texts and curves as SVG 1.1; lengths are pixels, and classes those of the style.

use super::width::{Font, printable};
use nic_placement_core::topology::PathType;

/// Text and backgrounds differ by 4.5 to 1 and more in luminance (WCAG 2.1, 1.4.3), what is not used included.
const STYLE: &str = "\
text{font-family:'DejaVu Sans',Verdana,Helvetica,Arial,sans-serif}\
.dark{fill:#1b1b1b}.soft{fill:#3f3f3f}.faint{fill:#666}.alarm{fill:#b02a00}\
rect{stroke-width:1}\
.socket{fill:#f1f1ee;stroke:#77776f}.numa{fill:#fff;stroke:#8f8f8f}\
.host{fill:none;stroke:#a9a9a9;stroke-dasharray:5 3}.switch{fill:#f8f3e3;stroke:#a8935a}\
.gpu{fill:#e3f0dc;stroke:#4b7a36;stroke-width:1.5}.nic{fill:#e2edf9;stroke:#2f5f92;stroke-width:1.5}\
.idle,.out{fill:#f0f0f0;stroke:#9c9c9c;stroke-dasharray:3 2}\
.down{fill:#f0f0f0;stroke:#b02a00;stroke-width:2.5;stroke-dasharray:7 3}\
path{fill:none;stroke-width:2.6}";

pub fn document(title: &str, size: [f64; 2], elements: &[String]) -> String {
    let [width, height] = size.map(pixels);
    let strokes = PathType::ALL.map(|path| {
        let ((colour, dashes), class) = (stroke(path), class(path));
        format!(".{class}{{stroke:{colour};stroke-dasharray:{dashes}}}")
    });
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">
<title>{}</title>
<style>{STYLE}{}</style>
<path d="M0 0H{width}V{height}H0Z" style="fill:#fff"/>
{}</svg>
"#,
        escaped(title),
        strokes.concat(),
        elements.concat()
    )
}

pub fn rect(sides: [f64; 4], class: &str) -> String {
    let [x, y, width, height] = sides.map(pixels);
    format!(r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>"#)
        + "\n"
}

/// A curve that is level at both ends.
pub fn curve((x1, y1): (f64, f64), (x2, y2): (f64, f64), path: PathType) -> String {
    let [x1, y1, x2, y2, bend] = [x1, y1, x2, y2, (x1 + x2) / 2.0].map(pixels);
    let class = class(path);
    format!(r#"<path class="{class}" d="M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}"/>"#) + "\n"
}

/// A text that begins at `x`, or ends there.
pub fn text((x, y): (f64, f64), ends: bool, font: Font, class: &str, text: &str) -> String {
    let [x, y, size] = [x, y, font.size].map(pixels);
    let bold = if font.bold {
        r#" font-weight="bold""#
    } else {
        ""
    };
    let anchor = if ends { r#" text-anchor="end""# } else { "" };
    let text = escaped(text);
    format!(
        r#"<text class="{class}" x="{x}" y="{y}" font-size="{size}"{bold}{anchor}>{text}</text>"#
    ) + "\n"
}

/// A curve's colour and its dashes.
///
/// The colours are Okabe and Ito's, which colour-blind readers tell apart ("Color Universal Design", 2008); the dashes tell
/// them apart in grey too.
pub fn stroke(path: PathType) -> (&'static str, &'static str) {
    match path {
        PathType::Pix => ("#0072b2", "none"),
        PathType::Pxb => ("#009e73", "16 4"),
        PathType::Phb => ("#cc79a7", "8 5"),
        PathType::Node => ("#e69f00", "9 4 2 4"),
        PathType::Sys => ("#d55e00", "2.5 4"),
    }
}

/// The legend of a kind of path, for readers that do not know the words of `nvidia-smi topo -m`.
pub fn meaning(path: PathType) -> &'static str {
    match path {
        PathType::Pix => "PIX: at most one PCIe switch",
        PathType::Pxb => "PXB: several PCIe switches",
        PathType::Phb => "PHB: a host bridge",
        PathType::Node => "NODE: within a NUMA node",
        PathType::Sys => "SYS: between NUMA nodes",
    }
}

fn class(path: PathType) -> String {
    path.to_string().to_lowercase()
}

/// A length with at most one decimal.
fn pixels(length: f64) -> String {
    ((length * 10.0).round() / 10.0).to_string()
}

/// Text as XML's character data: without what XML cannot hold, and with references for what it would take for markup.
fn escaped(text: &str) -> String {
    printable(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
