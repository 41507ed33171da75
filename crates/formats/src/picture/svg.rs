//! Writes shapes as SVG 1.1.
#![forbid(unsafe_code)]

use super::shape::{Curve, DrawnText, Picture, Rect, Shape, stroke};
use super::width::printable;
use nic_placement_core::topology::PathType;
use std::fmt::{self, Write};

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

pub(super) fn document(picture: &Picture) -> String {
    let mut out = String::new();
    // writing to a string cannot fail
    let _ = write(picture, &mut out);
    out
}

fn write(picture: &Picture, out: &mut String) -> fmt::Result {
    let (width, height) = (pixels(picture.width), pixels(picture.height));
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">"#
    )?;
    writeln!(out, "<title>{}</title>", escaped(&picture.title))?;
    write!(out, "<style>{STYLE}")?;
    for path in PathType::ALL.map(Some).into_iter().chain([None]) {
        let (colour, dashes) = stroke(path);
        write!(
            out,
            ".{}{{stroke:{colour};stroke-dasharray:{dashes}}}",
            class(path)
        )?;
    }
    writeln!(out, "</style>")?;
    writeln!(
        out,
        r##"<path d="M0 0H{width}V{height}H0Z" style="fill:#fff"/>"##
    )?;
    picture.shapes.iter().try_for_each(|shape| match shape {
        Shape::Rect(rect) => write_rect(rect, out),
        Shape::Text(text) => write_text(text, out),
        Shape::Curve(curve) => write_curve(curve, out),
    })?;
    writeln!(out, "</svg>")
}

fn write_rect(rect: &Rect, out: &mut String) -> fmt::Result {
    let &Rect {
        x,
        y,
        width,
        height,
        looks,
        ..
    } = rect;
    let [x, y, width, height] = [x, y, width, height].map(pixels);
    let class = looks.class();
    write!(
        out,
        r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4""#
    )?;
    write_tip("rect", rect.tip.as_deref(), out)
}

fn write_curve(curve: &Curve, out: &mut String) -> fmt::Result {
    let (x1, y1, x2, y2) = (curve.from.0, curve.from.1, curve.to.0, curve.to.1);
    let bend = (x2 - x1) / 2.0;
    let [x1, y1, x2, y2, a, b] = [x1, y1, x2, y2, x1 + bend, x2 - bend].map(pixels);
    write!(
        out,
        r#"<path class="{}" d="M{x1} {y1}C{a} {y1} {b} {y2} {x2} {y2}""#,
        class(curve.path)
    )?;
    write_tip("path", curve.tip.as_deref(), out)
}

fn write_tip(element: &str, tip: Option<&str>, out: &mut String) -> fmt::Result {
    match tip {
        Some(tip) => writeln!(out, "><title>{}</title></{element}>", escaped(tip)),
        None => writeln!(out, "/>"),
    }
}

fn write_text(text: &DrawnText, out: &mut String) -> fmt::Result {
    let &DrawnText {
        x, y, font, tone, ..
    } = text;
    let (x, y, size, class) = (pixels(x), pixels(y), pixels(font.size), tone.class());
    write!(
        out,
        r#"<text class="{class}" x="{x}" y="{y}" font-size="{size}""#
    )?;
    out.push_str(if font.bold {
        r#" font-weight="bold""#
    } else {
        ""
    });
    out.push_str(if text.ends {
        r#" text-anchor="end""#
    } else {
        ""
    });
    writeln!(out, ">{}</text>", escaped(&text.text))
}

fn class(path: Option<PathType>) -> String {
    path.map_or("each".to_string(), |path| path.to_string().to_lowercase())
}

/// A length with at most one decimal.
fn pixels(length: f64) -> String {
    let tenths = (length * 10.0).round() as i64;
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        tenth => format!("{}.{tenth}", tenths / 10),
    }
}

/// Text as XML's character data: without what XML cannot hold, and with references for what it would take for markup.
fn escaped(text: &str) -> String {
    printable(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
