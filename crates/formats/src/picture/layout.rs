//! Puts GPUs in a column at the left and NICs in one at the right; the channel between them holds only the curves of the pairs.
//!
//! Each place is a strip over both columns, below its title.  So no curve crosses a box or a text, and a large node makes the picture
//! longer, not denser.
#![forbid(unsafe_code)]

use super::card::{Card, Line, Piece};
use super::outline::{NodePlace, PlaceKind, memory_only, outline};
use super::shape::{Curve, DrawnText, Looks, Picture, Rect, Shape, Tone, meaning};
use super::width::{Font, fitted, width};
use super::{DrawnPair, Scene, card};
use nic_placement_core::topology::{GpuIndex, NicIndex, PathType};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

const MARGIN: f64 = 16.0;
/// by which a place is set in from the one around it
const INSET: f64 = 10.0;
/// of a device's box
const COLUMN: f64 = 284.0;
const CHANNEL: f64 = 150.0;
/// below each box
const GAP: f64 = 5.0;
/// a place's title
const TITLE: f64 = 19.0;

/// curves that can be told apart where all cross each other
const CROWD: usize = 9;
/// between the lines of two groups whose GPUs use all of their NICs
const LANE: f64 = 14.0;

const HEADLINE: Font = Font {
    size: 19.0,
    bold: true,
};
const SMALL: Font = Font {
    size: 11.5,
    bold: false,
};
const PLACE: Font = Font {
    size: 11.5,
    bold: true,
};

pub(super) fn picture(scene: &Scene) -> Picture {
    let mut node = outline(scene.topology);
    in_order_of_gpus(&mut node);
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
    y = canvas.notes(y);
    let curves = canvas.curves();
    canvas.shapes.extend(curves);
    let (entries, y) = canvas.legend(y + 3.0);
    canvas.shapes.extend(entries);
    let title = scene.topology.name.clone();
    Picture {
        title,
        width: canvas.width,
        height: y + MARGIN,
        shapes: canvas.shapes,
    }
}

/// Places inside each other, at most, the node itself aside.
fn depth(place: &NodePlace) -> usize {
    place
        .places
        .iter()
        .map(|inner| 1 + depth(inner))
        .max()
        .unwrap_or(0)
}

/// The column of GPUs counts from 0: on several machines their numbers are not the order of NUMA nodes.
fn in_order_of_gpus(place: &mut NodePlace) {
    place
        .places
        .sort_by_key(|inner| inner.first_gpu().map_or(usize::MAX, |gpu| gpu.0));
    place.places.iter_mut().for_each(in_order_of_gpus);
}

/// The vertical span of a device's box.
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

    /// Draws name and subtitle; returns their lower end.
    fn headline(&mut self) -> f64 {
        let room = self.width - 2.0 * MARGIN;
        self.text(
            (MARGIN, 32.0),
            HEADLINE,
            Tone::Dark,
            fitted(&self.scene.topology.name, HEADLINE, room),
        );
        self.text(
            (MARGIN, 51.0),
            SMALL,
            Tone::Soft,
            fitted(&self.scene.subtitle, SMALL, room),
        );
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

    /// Draws the places and devices in a place from `y` on, in the order of their GPUs; returns their lower end.
    fn contents(&mut self, place: &NodePlace, level: usize, y: f64) -> f64 {
        let own = place.gpus.iter().min();
        let comes_after = |inner: &NodePlace| own.is_some() && inner.first_gpu().as_ref() > own;
        let (after, before): (Vec<_>, Vec<_>) =
            place.places.iter().partition(|inner| comes_after(inner));
        let y = before
            .into_iter()
            .fold(y, |y, inner| self.place(inner, level, y));
        let y = self.devices(place, y);
        after
            .into_iter()
            .fold(y, |y, inner| self.place(inner, level, y))
    }

    fn devices(&mut self, place: &NodePlace, y: f64) -> f64 {
        let gpus = place
            .gpus
            .iter()
            .map(|&gpu| (gpu, card::of_gpu(self.scene, gpu)))
            .collect();
        let nics = place
            .nics
            .iter()
            .map(|&nic| (nic, card::of_nic(self.scene, nic)));
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
        let name = match place.kind {
            PlaceKind::Stated(..) => format!("{}*", place.kind),
            _ => place.kind.to_string(),
        };
        let facts = place.facts(self.scene.topology).unwrap_or_default();
        // both at the left: above a NIC they would read as the NIC's
        let written = fitted(&name, PLACE, COLUMN);
        let room = COLUMN - width(&written, PLACE) - 8.0;
        self.text((self.left, y + 14.0), PLACE, Tone::Soft, written);
        let text = if room > 40.0 {
            fitted(&facts, SMALL, room)
        } else {
            String::new()
        };
        let ends_at = DrawnText::at((self.left + COLUMN, y + 14.0), SMALL, Tone::Soft, text);
        self.line(DrawnText {
            ends: true,
            ..ends_at
        });
        let end = self
            .contents(place, level + 1, y + TITLE)
            .max(y + TITLE + GAP);
        let looks = match place.kind {
            PlaceKind::Socket(_) => Looks::Socket,
            PlaceKind::HostBridge(_) => Looks::HostBridge,
            PlaceKind::Package(_) | PlaceKind::Switch(_) | PlaceKind::Stated(..) => Looks::Switch,
            PlaceKind::Node | PlaceKind::NumaNode(_) | PlaceKind::Software | PlaceKind::Card(_) => {
                Looks::NumaNode
            }
        };
        let tip = Some(if facts.is_empty() {
            name
        } else {
            format!("{name}: {facts}")
        });
        let rect = Rect {
            x,
            y,
            width: self.width - 2.0 * x,
            height: end - y,
            looks,
            tip,
        };
        // below what stands in it
        self.shapes.insert(at, Shape::Rect(rect));
        end + GAP
    }

    /// Draws boxes below each other, evenly over a height that may be more than theirs; returns their spans.
    fn stack<Index>(
        &mut self,
        cards: Vec<(Index, Card)>,
        x: f64,
        y: f64,
        height: f64,
    ) -> Vec<(Index, Span)> {
        let spare = (height - stacked(&cards)) / (cards.len().max(1) as f64);
        let mut top = y + spare / 2.0;
        let mut places = Vec::with_capacity(cards.len());
        for (index, card) in cards {
            places.push((
                index,
                Span {
                    top,
                    height: card.height(),
                },
            ));
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
            let beside = last - first - width(&left.text, left.font) - 8.0;
            let end = fitted(&right.text, right.font, beside.max((last - first) * 0.7));
            let taken = if end.is_empty() {
                0.0
            } else {
                width(&end, right.font) + 8.0
            };
            let beginning = fitted(&left.text, left.font, last - first - taken);
            self.text((first, base), left.font, left.tone, beginning);
            let Piece { font, tone, .. } = *right;
            self.line(DrawnText {
                x: last,
                y: base,
                ends: true,
                font,
                tone,
                text: end,
            });
        }
    }

    /// Notes on NUMA nodes of memory alone, on GPUs without a line, and on the source of starred paths.
    fn notes(&mut self, mut y: f64) -> f64 {
        let topology = self.scene.topology;
        let nodes = memory_only(topology);
        let memory =
            (!nodes.is_empty()).then(|| format!("memory only, without CPUs: NUMA nodes {nodes}"));
        let stated = (!topology.stated_paths.is_empty()).then(|| match &topology.supplied_by {
            Some(model) => format!("* stated by the model `{model}`; the bus does not show it"),
            None => format!("* stated by {}; no bus shows it", topology.provenance),
        });
        let pairs = &self.scene.pairs;
        let unpaired = match pairs.first() {
            Some(pair) if self.is_left(pair.nic) => Some(
                "libfabric chooses the NIC of each process: a line leads to the nearest"
                    .to_string(),
            ),
            None if !topology.gpus.is_empty() => {
                Some(match self.scene.placement.excluded.first() {
                    Some(out) => format!("no GPU gets a NIC: {}: {}", out.name, out.why),
                    None => "no GPU gets a NIC: none is known".to_string(),
                })
            }
            _ => None,
        };
        for text in memory.into_iter().chain(unpaired).chain(stated) {
            let room = self.width - 2.0 * MARGIN;
            self.text(
                (MARGIN, y + 12.0),
                SMALL,
                Tone::Soft,
                fitted(&text, SMALL, room),
            );
            y += 20.0;
        }
        y
    }

    /// True for a NIC that libfabric chooses by itself: a line leads to it and means no choice of ours.
    fn is_left(&self, nic: NicIndex) -> bool {
        self.scene.placement.left_to_libfabric.contains(&nic)
    }

    fn is_stated(&self, pair: &DrawnPair) -> bool {
        let topology = self.scene.topology;
        let gpu = topology.gpu(pair.gpu).address;
        topology
            .nic(pair.nic)
            .address
            .is_some_and(|nic| topology.stated_paths.contains_key(&(gpu, nic)))
    }

    /// The pairs' curves, each with an end of its own on both boxes.
    fn curves(&self) -> Vec<Shape> {
        let mut pairs: Vec<DrawnPair> = self.scene.pairs.clone();
        // near paths lie over far ones
        pairs.sort_unstable_by_key(|pair| (Reverse(pair.path), *pair));
        pairs.dedup();
        let spans =
            |pair: DrawnPair| Some((pair, *self.gpus.get(&pair.gpu)?, *self.nics.get(&pair.nic)?));
        let drawn: Vec<(DrawnPair, Span, Span)> = pairs.into_iter().filter_map(spans).collect();
        let (mut shapes, drawn) = self.crowds(drawn);
        let starts = ends(
            drawn
                .iter()
                .map(|(pair, gpu, nic)| (pair.gpu.0, *gpu, nic.middle())),
        );
        let stops = ends(
            drawn
                .iter()
                .map(|(pair, gpu, nic)| (pair.nic.0, *nic, gpu.middle())),
        );
        let topology = self.scene.topology;
        let curve = |((pair, ..), (start, stop)): (&(DrawnPair, Span, Span), (f64, f64))| {
            let name = &topology.nic(pair.nic).name;
            Shape::Curve(Curve {
                from: (self.left + COLUMN, start),
                to: (self.right(), stop),
                path: Some(pair.path),
                tip: Some(match self.is_left(pair.nic) {
                    true => format!("{name} is nearest to GPU {}, at {}", pair.gpu, pair.path),
                    false => format!(
                        "GPU {} uses {name}:{} at {}",
                        pair.gpu, pair.port, pair.path
                    ),
                }),
            })
        };
        shapes.extend(drawn.iter().zip(starts.into_iter().zip(stops)).map(curve));
        shapes
    }

    /// One line with a branch to each device for GPUs that use the same NICs, where curves would be too many; and the other pairs.
    fn crowds(
        &self,
        drawn: Vec<(DrawnPair, Span, Span)>,
    ) -> (Vec<Shape>, Vec<(DrawnPair, Span, Span)>) {
        let mut nics_of: BTreeMap<GpuIndex, BTreeSet<NicIndex>> = BTreeMap::new();
        drawn.iter().for_each(|(pair, ..)| {
            nics_of.entry(pair.gpu).or_default().insert(pair.nic);
        });
        let mut groups: BTreeMap<&BTreeSet<NicIndex>, Vec<GpuIndex>> = BTreeMap::new();
        nics_of
            .iter()
            .for_each(|(gpu, nics)| groups.entry(nics).or_default().push(*gpu));
        groups.retain(|nics, gpus| {
            nics.len() > 1 && gpus.len() > 1 && nics.len() * gpus.len() > CROWD
        });
        let mut shapes = Vec::new();
        let lanes = (CHANNEL / 2.0 / LANE) as usize;
        for (number, (nics, gpus)) in groups.iter().enumerate() {
            let lane = self.left + COLUMN + CHANNEL / 4.0 + LANE * (number % lanes) as f64;
            let starts: Vec<f64> = gpus.iter().map(|gpu| self.gpus[gpu].middle()).collect();
            let stops: Vec<f64> = nics.iter().map(|nic| self.nics[nic].middle()).collect();
            let all = || starts.iter().chain(&stops).copied();
            let (top, bottom) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
            let tip = Some(format!(
                "each of {} GPUs uses each of {} NICs",
                gpus.len(),
                nics.len()
            ));
            let mut line = |from, to| {
                shapes.push(Shape::Curve(Curve {
                    from,
                    to,
                    path: None,
                    tip: tip.clone(),
                }))
            };
            line((lane, top), (lane, bottom));
            starts
                .iter()
                .for_each(|&y| line((self.left + COLUMN, y), (lane, y)));
            stops
                .iter()
                .for_each(|&y| line((lane, y), (self.right(), y)));
        }
        let is_left =
            |(pair, ..): &(DrawnPair, Span, Span)| !groups.contains_key(&nics_of[&pair.gpu]);
        (shapes, drawn.into_iter().filter(is_left).collect())
    }
}

/// The heights at which curves meet their boxes.  A curve is its box's number, the box's span, and the height of its other end; the
/// ends are spread over the box in the order of those heights, so that no two curves cross there.
fn ends(curves: impl Iterator<Item = (usize, Span, f64)>) -> Vec<f64> {
    let curves: Vec<(usize, Span, f64)> = curves.collect();
    let mut order: Vec<usize> = (0..curves.len()).collect();
    order.sort_by(|&a, &b| {
        (curves[a].0, curves[a].2)
            .partial_cmp(&(curves[b].0, curves[b].2))
            .unwrap_or(a.cmp(&b))
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

const LEGEND: Font = Font {
    size: 11.0,
    bold: false,
};
/// a sample's width
const SAMPLE: f64 = 38.0;
/// between a sample and its text
const SAMPLE_GAP: f64 = 7.0;
/// between two entries
const BETWEEN: f64 = 20.0;
const ROW: f64 = 20.0;

impl Canvas<'_> {
    /// The legend of the colours that are drawn, in rows from `y` on, and its lower end.
    fn legend(&self, y: f64) -> (Vec<Shape>, f64) {
        let (shapes, x, right) = (&self.shapes, MARGIN, self.width - MARGIN);
        let (mut drawn, mut at, mut top) = (Vec::new(), x, y);
        let mut add = |text: &str, sample: &dyn Fn(f64, f64) -> Shape| {
            let long = SAMPLE + SAMPLE_GAP + width(text, LEGEND);
            if at > x && at + long > right {
                (at, top) = (x, top + ROW);
            }
            let place = (at + SAMPLE + SAMPLE_GAP, top + 13.0);
            drawn.push(sample(at, top));
            drawn.push(Shape::Text(DrawnText::at(
                place,
                LEGEND,
                Tone::Soft,
                text.to_string(),
            )));
            at += long + BETWEEN;
        };
        for path in PathType::ALL.map(Some).into_iter().chain([None]) {
            if shapes
                .iter()
                .any(|shape| matches!(shape, Shape::Curve(curve) if curve.path == path))
            {
                let mut of_path = self
                    .scene
                    .pairs
                    .iter()
                    .filter(|pair| Some(pair.path) == path);
                let stated = if of_path.any(|pair| self.is_stated(pair)) {
                    "*"
                } else {
                    ""
                };
                add(&format!("{}{stated}", meaning(path)), &|x, y| {
                    let (from, to) = ((x, y + 9.0), (x + SAMPLE, y + 9.0));
                    Shape::Curve(Curve {
                        from,
                        to,
                        path,
                        tip: None,
                    })
                });
            }
        }
        // other boxes say themselves what they are
        for (looks, text) in [
            (Looks::IdleGpu, "GPU that no task has"),
            (Looks::LeftOut, "NIC that is left out"),
            (Looks::Down, "NIC with a port that is not up"),
        ] {
            if shapes
                .iter()
                .any(|shape| matches!(shape, Shape::Rect(rect) if rect.looks == looks))
            {
                add(text, &|x, y| {
                    Shape::Rect(Rect {
                        x,
                        y: y + 2.0,
                        width: SAMPLE,
                        height: 14.0,
                        looks,
                        tip: None,
                    })
                });
            }
        }
        let end = if drawn.is_empty() { y } else { top + ROW };
        (drawn, end)
    }
}
