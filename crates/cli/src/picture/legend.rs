//! What the colours of a picture mean: an entry for each that it has.
#![forbid(unsafe_code)]

use super::shape::{Curve, Looks, Rect, Shape, Text, Tone, meaning};
use super::width::{Font, width};
use nic_placement_core::topology::PathType;
use std::collections::BTreeSet;

const FONT: Font = Font { size: 11.0, bold: false };
/// a sample's width
const SAMPLE: f64 = 38.0;
/// between a sample and its text
const GAP: f64 = 7.0;
/// between two entries
const BETWEEN: f64 = 20.0;
const ROW: f64 = 20.0;

/// The entries for what `shapes` show, in rows from `(x, y)` to `right`; and where they end below.
pub(super) fn entries(shapes: &[Shape], x: f64, right: f64, y: f64) -> (Vec<Shape>, f64) {
    let paths: BTreeSet<PathType> = shapes.iter().filter_map(path_of).collect();
    let looks: BTreeSet<Looks> = shapes.iter().filter_map(looks_of).collect();
    let samples = paths.into_iter().map(Sample::Curve).chain(looks.into_iter().map(Sample::Box));
    let (mut drawn, mut at, mut top) = (Vec::new(), x, y);
    for sample in samples {
        let Some(text) = sample.text() else { continue };
        let long = SAMPLE + GAP + width(text, FONT);
        if at > x && at + long > right {
            (at, top) = (x, top + ROW);
        }
        drawn.push(sample.shape(at, top));
        drawn.push(Shape::Text(Text {
            x: at + SAMPLE + GAP,
            y: top + 13.0,
            ends: false,
            font: FONT,
            tone: Tone::Soft,
            text: text.to_string(),
        }));
        at += long + BETWEEN;
    }
    let end = if drawn.is_empty() { y } else { top + ROW };
    (drawn, end)
}

fn path_of(shape: &Shape) -> Option<PathType> {
    match shape {
        Shape::Curve(curve) => Some(curve.path),
        _ => None,
    }
}

fn looks_of(shape: &Shape) -> Option<Looks> {
    match shape {
        Shape::Rect(rect) => Some(rect.looks),
        _ => None,
    }
}

enum Sample {
    Curve(PathType),
    Box(Looks),
}

impl Sample {
    /// `None` for what says itself what it is.
    fn text(&self) -> Option<&'static str> {
        Some(match self {
            Sample::Curve(path) => meaning(*path),
            Sample::Box(Looks::IdleGpu) => "GPU that no task has",
            Sample::Box(Looks::LeftOut) => "NIC that is left out",
            Sample::Box(Looks::Down) => "NIC with a port that is not up",
            Sample::Box(_) => return None,
        })
    }

    fn shape(&self, x: f64, y: f64) -> Shape {
        match *self {
            Sample::Curve(path) => Shape::Curve(Curve {
                from: (x, y + 9.0),
                to: (x + SAMPLE, y + 9.0),
                path,
                is_thin: false,
                tip: None,
            }),
            Sample::Box(looks) => {
                Shape::Rect(Rect { x, y: y + 2.0, width: SAMPLE, height: 14.0, looks, tip: None })
            }
        }
    }
}
