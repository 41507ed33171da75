//! What stands where: GPUs in a column at the left, NICs in one at the right, and between them a channel that holds nothing
//! but the curves of the pairs.
//!
//! Each place is a strip over both columns, below its title.  So a curve can lead from any GPU to any NIC without crossing a
//! box or a text, and a large node makes the picture longer and not denser.
#![forbid(unsafe_code)]

use super::card::{Card, Line, Piece};
use super::outline::{NodePlace, PlaceKind, memory_only, outline};
use super::shape::{Curve, DrawnText, Looks, Picture, Rect, Shape, Tone, meaning};
use super::width::{Font, fitted, width};
use super::{DrawnPair, Scene, card};
use nic_placement_core::topology::{GpuIndex, NicIndex, PathType};
use std::cmp::Reverse;
use std::collections::BTreeMap;

const MARGIN: f64 = 16.0;
/// by which a place is set in from the one around it
const INSET: f64 = 10.0;
/// of a device's box
const COLUMN: f64 = 284.0;
const CHANNEL: f64 = 150.0;
/// below each box
const GAP: f64 = 7.0;
/// a place's title
const TITLE: f64 = 21.0;

/// curves that can be told apart where all cross each other
const CROWD: usize = 128;

const HEADLINE: Font = Font { size: 19.0, bold: true };
const SMALL: Font = Font { size: 11.5, bold: false };
const PLACE: Font = Font { size: 11.5, bold: true };

pub(super) fn picture(scene: &Scene) -> Picture {
    let node = outline(scene.topology);
    let depth = depth(&node) as f64;
    let mut canvas = Canvas {
        scene,
        gpus: BTreeMap::new(),
        nics: BTreeMap::new(),
        left: MARGIN + depth * INSET,
        width: 2.0 * (MARGIN + depth * INSET + COLUMN) + CHANNEL,
        shapes: Vec::new(),
    };
    let mut y = canvas.headline();
    y = canvas.contents(&node, 0, y);
    y = canvas.memory(y);
    let curves = canvas.curves();
    canvas.shapes.extend(curves);
    let (entries, y) = legend(&canvas.shapes, MARGIN, canvas.width - MARGIN, y + 3.0);
    canvas.shapes.extend(entries);
    let title = scene.topology.name.clone();
    Picture { title, width: canvas.width, height: y + MARGIN, shapes: canvas.shapes }
}

/// Places inside each other, at most, the node itself aside.
fn depth(place: &NodePlace) -> usize {
    place.places.iter().map(|inner| 1 + depth(inner)).max().unwrap_or(0)
}

/// From where to where a device's box stands.
#[derive(Clone, Copy)]
struct Span {
    top: f64,
    height: f64,
}

impl Span {
    fn middle(self) -> f64 {
        self.top + self.height / 2.0
    }
}

struct Canvas<'a> {
    scene: &'a Scene<'a>,
    /// where the devices stand
    gpus: BTreeMap<GpuIndex, Span>,
    nics: BTreeMap<NicIndex, Span>,
    left: f64,
    width: f64,
    shapes: Vec<Shape>,
}

impl Canvas<'_> {
    fn right(&self) -> f64 {
        self.left + COLUMN + CHANNEL
    }

    /// Name and subtitle; where what follows begins.
    fn headline(&mut self) -> f64 {
        let room = self.width - 2.0 * MARGIN;
        self.text((MARGIN, 32.0), HEADLINE, Tone::Dark, fitted(&self.scene.topology.name, HEADLINE, room));
        self.text((MARGIN, 51.0), SMALL, Tone::Soft, fitted(&self.scene.subtitle, SMALL, room));
        62.0
    }

    fn text(&mut self, place: (f64, f64), font: Font, tone: Tone, text: String) {
        self.line(DrawnText::at(place, font, tone, text));
    }

    fn line(&mut self, text: DrawnText) {
        if !text.text.is_empty() {
            self.shapes.push(Shape::Text(text));
        }
    }

    /// What stands in a place from `y` on: smaller places, then its own devices.  Says where that ends.
    fn contents(&mut self, place: &NodePlace, level: usize, mut y: f64) -> f64 {
        for inner in &place.places {
            y = self.place(inner, level, y);
        }
        let gpus = place.gpus.iter().map(|&gpu| (gpu, card::of_gpu(self.scene, gpu))).collect();
        let nics = place.nics.iter().map(|&nic| (nic, card::of_nic(self.scene, nic)));
        let is_paired = |nic: NicIndex| self.scene.pairs.iter().any(|pair| pair.nic == nic);
        let (paired, others): (Vec<_>, Vec<_>) = nics.partition(|(nic, _)| is_paired(*nic));
        if paired.is_empty() {
            return self.beside(gpus, others, y);
        }
        // the NICs that no GPU uses come last, so that the others stand beside their GPUs
        let y = self.beside(gpus, paired, y);
        self.beside(Vec::new(), others, y)
    }

    fn beside(&mut self, gpus: Vec<(GpuIndex, Card)>, nics: Vec<(NicIndex, Card)>, y: f64) -> f64 {
        let height = stacked(&gpus).max(stacked(&nics));
        let (left, right) = (self.left, self.right());
        let gpus = self.stack(gpus, left, y, height);
        self.gpus.extend(gpus);
        let nics = self.stack(nics, right, y, height);
        self.nics.extend(nics);
        y + height
    }

    fn place(&mut self, place: &NodePlace, level: usize, y: f64) -> f64 {
        let x = MARGIN + level as f64 * INSET;
        let at = self.shapes.len();
        let name = place.kind.to_string();
        let facts = place.facts(self.scene.topology).unwrap_or_default();
        self.text((self.left, y + 15.0), PLACE, Tone::Soft, fitted(&name, PLACE, COLUMN));
        self.text((self.right(), y + 15.0), SMALL, Tone::Soft, fitted(&facts, SMALL, COLUMN));
        let end = self.contents(place, level + 1, y + TITLE).max(y + TITLE + GAP);
        let looks = match place.kind {
            PlaceKind::Socket(_) => Looks::Socket,
            PlaceKind::HostBridge(_) => Looks::HostBridge,
            PlaceKind::Switch(_) | PlaceKind::Stated(..) => Looks::Switch,
            PlaceKind::Node | PlaceKind::NumaNode(_) | PlaceKind::Software | PlaceKind::Card(_) => {
                Looks::NumaNode
            }
        };
        let tip = Some(if facts.is_empty() { name } else { format!("{name}: {facts}") });
        let rect = Rect { x, y, width: self.width - 2.0 * x, height: end - y, looks, tip };
        // below what stands in it
        self.shapes.insert(at, Shape::Rect(rect));
        end + GAP
    }

    /// Boxes below each other, evenly over a height that may be more than theirs.  Where each stands.
    fn stack<Index>(&mut self, cards: Vec<(Index, Card)>, x: f64, y: f64, height: f64) -> Vec<(Index, Span)> {
        let spare = (height - stacked(&cards)) / (cards.len().max(1) as f64);
        let mut top = y + spare / 2.0;
        let mut places = Vec::with_capacity(cards.len());
        for (index, card) in cards {
            places.push((index, Span { top, height: card.height() }));
            self.card(&card, x, top);
            top += card.height() + GAP + spare;
        }
        places
    }

    fn card(&mut self, card: &Card, x: f64, y: f64) {
        let rect = Rect {
            x,
            y,
            width: COLUMN,
            height: card.height(),
            looks: card.looks,
            tip: Some(card.tip.clone()),
        };
        self.shapes.push(Shape::Rect(rect));
        let (first, last) = (x + Card::PADDING, x + COLUMN - Card::PADDING);
        for (number, Line { left, right }) in card.lines.iter().enumerate() {
            let base = y + Card::FIRST + Card::LINE * number as f64;
            let end = fitted(&right.text, right.font, (last - first) * 0.7);
            let taken = if end.is_empty() { 0.0 } else { width(&end, right.font) + 8.0 };
            let beginning = fitted(&left.text, left.font, last - first - taken);
            self.text((first, base), left.font, left.tone, beginning);
            let Piece { font, tone, .. } = *right;
            self.line(DrawnText { x: last, y: base, ends: true, font, tone, text: end });
        }
    }

    /// NUMA nodes of which there is nothing to draw.
    fn memory(&mut self, y: f64) -> f64 {
        let nodes = memory_only(self.scene.topology);
        if nodes.is_empty() {
            return y;
        }
        let text = format!("memory only, without CPUs: NUMA nodes {nodes}");
        let room = self.width - 2.0 * MARGIN;
        self.text((MARGIN, y + 12.0), SMALL, Tone::Soft, fitted(&text, SMALL, room));
        y + 20.0
    }

    /// The pairs' curves, each with an end of its own on both boxes.
    fn curves(&self) -> Vec<Shape> {
        let mut pairs: Vec<DrawnPair> = self.scene.pairs.clone();
        // near paths lie over far ones
        pairs.sort_unstable_by_key(|pair| (Reverse(pair.path), *pair));
        pairs.dedup();
        let spans = |pair: DrawnPair| Some((pair, *self.gpus.get(&pair.gpu)?, *self.nics.get(&pair.nic)?));
        let drawn: Vec<(DrawnPair, Span, Span)> = pairs.into_iter().filter_map(spans).collect();
        let starts = ends(drawn.iter().map(|(pair, gpu, nic)| (pair.gpu.0, *gpu, nic.middle())));
        let stops = ends(drawn.iter().map(|(pair, gpu, nic)| (pair.nic.0, *nic, gpu.middle())));
        let topology = self.scene.topology;
        let curve = |((pair, ..), (start, stop)): (&(DrawnPair, Span, Span), (f64, f64))| {
            let name = &topology.nic(pair.nic).name;
            Shape::Curve(Curve {
                from: (self.left + COLUMN, start),
                to: (self.right(), stop),
                path: pair.path,
                is_thin: drawn.len() > CROWD,
                tip: Some(format!("GPU {} uses {name}:{} at {}", pair.gpu, pair.port, pair.path)),
            })
        };
        drawn.iter().zip(starts.into_iter().zip(stops)).map(curve).collect()
    }
}

/// Where each curve meets its box.  A curve is given by its box's number, the box's span, and the height of its other end; the ends
/// are spread over the box in the order of those heights, so that no two curves cross there.
fn ends(curves: impl Iterator<Item = (usize, Span, f64)>) -> Vec<f64> {
    let curves: Vec<(usize, Span, f64)> = curves.collect();
    let mut order: Vec<usize> = (0..curves.len()).collect();
    order.sort_by(|&a, &b| {
        (curves[a].0, curves[a].2).partial_cmp(&(curves[b].0, curves[b].2)).unwrap_or(a.cmp(&b))
    });
    let mut of_box: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for at in order {
        of_box.entry(curves[at].0).or_default().push(at);
    }
    let mut ends = vec![0.0; curves.len()];
    for of_one in of_box.values() {
        for (number, &at) in of_one.iter().enumerate() {
            let Span { top, height } = curves[at].1;
            ends[at] = top + height * (number as f64 + 1.0) / (of_one.len() as f64 + 1.0);
        }
    }
    ends
}

/// The height of boxes below each other, with the gap below each.
fn stacked<Index>(cards: &[(Index, Card)]) -> f64 {
    cards.iter().map(|(_, card)| card.height() + GAP).sum()
}

const LEGEND: Font = Font { size: 11.0, bold: false };
/// a sample's width
const SAMPLE: f64 = 38.0;
/// between a sample and its text
const SAMPLE_GAP: f64 = 7.0;
/// between two entries
const BETWEEN: f64 = 20.0;
const ROW: f64 = 20.0;

/// What the colours mean: the entries for what `shapes` show, in rows from `(x, y)` to `right`; and where they end below.
fn legend(shapes: &[Shape], x: f64, right: f64, y: f64) -> (Vec<Shape>, f64) {
    let (mut drawn, mut at, mut top) = (Vec::new(), x, y);
    let mut add = |text: &str, sample: &dyn Fn(f64, f64) -> Shape| {
        let long = SAMPLE + SAMPLE_GAP + width(text, LEGEND);
        if at > x && at + long > right {
            (at, top) = (x, top + ROW);
        }
        let place = (at + SAMPLE + SAMPLE_GAP, top + 13.0);
        drawn.push(sample(at, top));
        drawn.push(Shape::Text(DrawnText::at(place, LEGEND, Tone::Soft, text.to_string())));
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
