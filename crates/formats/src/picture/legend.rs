//! What the colours of a picture mean: an entry for each that it has.
#![forbid(unsafe_code)]

use super::shape::{Curve, Looks, Rect, Shape, Text, Tone, meaning};
use super::width::{Font, width};
use nic_placement_core::topology::PathType;

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
    let (mut drawn, mut at, mut top) = (Vec::new(), x, y);
    let mut add = |text: &str, sample: &dyn Fn(f64, f64) -> Shape| {
        let long = SAMPLE + GAP + width(text, FONT);
        if at > x && at + long > right {
            (at, top) = (x, top + ROW);
        }
        let place = (at + SAMPLE + GAP, top + 13.0);
        drawn.push(sample(at, top));
        drawn.push(Shape::Text(Text::at(place, FONT, Tone::Soft, text.to_string())));
        at += long + BETWEEN;
    };
    for path in PathType::ALL {
        if shapes.iter().any(|shape| matches!(shape, Shape::Curve(curve) if curve.path == path)) {
            add(meaning(path), &|x, y| {
                let (from, to) = ((x, y + 9.0), (x + SAMPLE, y + 9.0));
                Shape::Curve(Curve { from, to, path, is_thin: false, tip: None })
            });
        }
    }
    // other boxes say themselves what they are
    for (looks, text) in [
        (Looks::IdleGpu, "GPU that no task has"),
        (Looks::LeftOut, "NIC that is left out"),
        (Looks::Down, "NIC with a port that is not up"),
    ] {
        if shapes.iter().any(|shape| matches!(shape, Shape::Rect(rect) if rect.looks == looks)) {
            add(text, &|x, y| {
                Shape::Rect(Rect { x, y: y + 2.0, width: SAMPLE, height: 14.0, looks, tip: None })
            });
        }
    }
    let end = if drawn.is_empty() { y } else { top + ROW };
    (drawn, end)
}
