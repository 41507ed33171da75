//! Puts GPUs in a column at the left and NICs in one at the right; the channel between them holds only the curves of the pairs.
//!
//! Each place is a strip over both columns, below its title.  So no curve crosses a box or a text, and a large node makes the picture
//! longer, not denser.

use super::card::{Card, Piece};
use super::outline::{NodePlace, PlaceKind, memory_only, outline};
use super::width::{Font, fitted, width};
use super::{DrawnPair, Scene, card, svg};
use nic_placement_core::topology::{GpuIndex, NicIndex, PathType};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

const MARGIN: f64 = 16.0;
/// by which a place is set in from the one around it
const INSET: f64 = 10.0;
const COLUMN: f64 = 284.0;
const CHANNEL: f64 = 150.0;
const GAP: f64 = 5.0;
const TITLE: f64 = 19.0;
/// between a card's edge and its text
const PADDING: f64 = 8.0;

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

/// the width of a legend's sample
const SAMPLE: f64 = 38.0;
/// the height of a legend's row
const ROW: f64 = 20.0;

pub fn picture(scene: &Scene) -> String {
    let mut node = outline(scene.topology);
    in_order_of_gpus(&mut node);
    let left = MARGIN + depth(&node) as f64 * INSET;
    let mut canvas = Canvas {
        scene,
        gpus: BTreeMap::new(),
        nics: BTreeMap::new(),
        left,
        width: 2.0 * (left + COLUMN) + CHANNEL,
        elements: Vec::new(),
        classes: BTreeSet::new(),
    };
    canvas.note(32.0, HEADLINE, "dark", &scene.topology.name);
    canvas.note(51.0, SMALL, "soft", &scene.subtitle);
    let mut y = canvas.contents(&node, 0, 62.0);
    for note in canvas.notes() {
        canvas.note(y + 12.0, SMALL, "soft", &note);
        y += ROW;
    }
    canvas.curves();
    let end = canvas.legend(y + 3.0) + MARGIN;
    svg::document(&scene.topology.name, [canvas.width, end], &canvas.elements)
}

/// Places inside each other, at most, the node itself aside.
fn depth(place: &NodePlace) -> usize {
    let inner = place.places.iter();
    inner.map(|inner| 1 + depth(inner)).max().unwrap_or(0)
}

/// GPUs count from 0 downwards: on several machines that is not the order of NUMA nodes.
fn in_order_of_gpus(place: &mut NodePlace) {
    place
        .places
        .sort_by_key(|inner| inner.first_gpu().map_or(usize::MAX, |gpu| gpu.0));
    place.places.iter_mut().for_each(in_order_of_gpus);
}

/// The upper end and the height of a box.
type Span = (f64, f64);

fn middle((top, height): Span) -> f64 {
    top + height / 2.0
}

struct Canvas<'a> {
    scene: &'a Scene<'a>,
    gpus: BTreeMap<GpuIndex, Span>,
    nics: BTreeMap<NicIndex, Span>,
    left: f64,
    width: f64,
    elements: Vec<String>,
    /// of cards
    classes: BTreeSet<&'static str>,
}

impl Canvas<'_> {
    fn note(&mut self, y: f64, font: Font, class: &str, text: &str) {
        let text = fitted(text, font, self.width - 2.0 * MARGIN);
        self.text((MARGIN, y), false, font, class, &text);
    }

    fn text(&mut self, place: (f64, f64), ends: bool, font: Font, class: &str, text: &str) {
        if !text.is_empty() {
            self.elements
                .push(svg::text(place, ends, font, class, text));
        }
    }

    /// Draws what stands in a place from `y` on, in the order of the GPUs; returns its lower end.
    fn contents(&mut self, place: &NodePlace, level: usize, mut y: f64) -> f64 {
        let own = place.gpus.iter().min();
        let comes_after = |inner: &NodePlace| own.is_some() && inner.first_gpu().as_ref() > own;
        let before = place.places.iter().filter(|inner| !comes_after(inner));
        for inner in before {
            y = self.place(inner, level, y);
        }
        let scene = self.scene;
        let is_paired = |nic: &NicIndex| scene.pairs.iter().any(|pair| pair.nic == *nic);
        // the NICs that no GPU uses come last, so that the others stand beside their GPUs
        let (paired, others): (Vec<NicIndex>, Vec<NicIndex>) =
            place.nics.iter().partition(|nic| is_paired(nic));
        let (first, last) = match paired.is_empty() {
            true => (others, paired),
            false => (paired, others),
        };
        y = self.beside(&place.gpus, &first, y);
        y = self.beside(&[], &last, y);
        for inner in place.places.iter().filter(|inner| comes_after(inner)) {
            y = self.place(inner, level, y);
        }
        y
    }

    fn beside(&mut self, gpus: &[GpuIndex], nics: &[NicIndex], y: f64) -> f64 {
        let scene = self.scene;
        let gpu_cards: Vec<Card> = gpus.iter().map(|&gpu| card::of_gpu(scene, gpu)).collect();
        let nic_cards: Vec<Card> = nics.iter().map(|&nic| card::of_nic(scene, nic)).collect();
        let stacked = |cards: &[Card]| cards.iter().map(|card| card.height() + GAP).sum::<f64>();
        let height = stacked(&gpu_cards).max(stacked(&nic_cards));
        let left = self.left;
        let mut stack = |cards: &[Card], x: f64| -> Vec<Span> {
            let spare = (height - stacked(cards)) / cards.len().max(1) as f64;
            let mut top = y + spare / 2.0;
            let mut spans = Vec::new();
            for card in cards {
                self.card(card, x, top);
                spans.push((top, card.height()));
                top += card.height() + GAP + spare;
            }
            spans
        };
        let of_gpus = stack(&gpu_cards, left);
        let of_nics = stack(&nic_cards, left + COLUMN + CHANNEL);
        self.gpus.extend(gpus.iter().copied().zip(of_gpus));
        self.nics.extend(nics.iter().copied().zip(of_nics));
        y + height
    }

    fn place(&mut self, place: &NodePlace, level: usize, y: f64) -> f64 {
        let x = MARGIN + level as f64 * INSET;
        let at = self.elements.len();
        let (class, star) = match place.kind {
            PlaceKind::Socket(_) => ("socket", ""),
            PlaceKind::HostBridge(_) => ("host", ""),
            PlaceKind::Package(_) | PlaceKind::Switch(_) => ("switch", ""),
            PlaceKind::Stated(..) => ("switch", "*"),
            _ => ("numa", ""),
        };
        let facts = place.facts(self.scene.topology).unwrap_or_default();
        // both at the left: above a NIC they would read as the NIC's
        let name = fitted(&format!("{}{star}", place.kind), PLACE, COLUMN);
        let facts = fitted(&facts, SMALL, COLUMN - width(&name, PLACE) - PADDING);
        self.text((self.left, y + 14.0), false, PLACE, "soft", &name);
        self.text((self.left + COLUMN, y + 14.0), true, SMALL, "soft", &facts);
        let end = self.contents(place, level + 1, y + TITLE);
        let end = end.max(y + TITLE + GAP);
        let sides = [x, y, self.width - 2.0 * x, end - y];
        // below what stands in it
        self.elements.insert(at, svg::rect(sides, class));
        end + GAP
    }

    fn card(&mut self, card: &Card, x: f64, y: f64) {
        self.classes.insert(card.class);
        let sides = [x, y, COLUMN, card.height()];
        self.elements.push(svg::rect(sides, card.class));
        let most = COLUMN - 2.0 * PADDING;
        for (number, [left, right]) in card.lines.iter().enumerate() {
            let base = y + 16.0 + Card::LINE * number as f64;
            let Piece { text, font, class } = right;
            let beside = most - width(&left.text, left.font) - PADDING;
            let end = fitted(text, *font, beside.max(most * 0.7));
            let taken = width(&end, *font) + PADDING;
            let beginning = fitted(&left.text, left.font, most - taken);
            self.text(
                (x + PADDING, base),
                false,
                left.font,
                left.class,
                &beginning,
            );
            self.text((x + COLUMN - PADDING, base), true, *font, class, &end);
        }
    }

    /// Notes on NUMA nodes of memory alone, on GPUs without a line, and on the source of starred paths.
    fn notes(&self) -> Vec<String> {
        let (topology, placement) = (self.scene.topology, self.scene.placement);
        let mut notes = Vec::new();
        let nodes = memory_only(topology);
        if !nodes.is_empty() {
            notes.push(format!("memory only, without CPUs: NUMA nodes {nodes}"));
        }
        match (self.scene.pairs.first(), placement.excluded.first()) {
            _ if topology.gpus.is_empty() => {}
            // a line leads to it and means no choice of ours
            (Some(pair), _) if placement.left_to_libfabric.contains(&pair.nic) => notes.push(
                "libfabric chooses the NIC of each process: a line leads to the nearest"
                    .to_string(),
            ),
            (None, Some(out)) => {
                notes.push(format!("no GPU gets a NIC: {}: {}", out.name, out.why))
            }
            (None, None) => notes.push("no GPU gets a NIC: none is known".to_string()),
            _ => {}
        }
        if !topology.stated_paths.is_empty() {
            notes.push(match &topology.supplied_by {
                Some(model) => format!("* stated by the model `{model}`; the bus does not show it"),
                None => format!("* stated by {}; no bus shows it", topology.provenance),
            });
        }
        notes
    }

    fn curves(&mut self) {
        let mut pairs: Vec<DrawnPair> = self.scene.pairs.clone();
        // near paths lie over far ones
        pairs.sort_unstable_by_key(|pair| (Reverse(pair.path), *pair));
        pairs.dedup();
        pairs.retain(|pair| self.gpus.contains_key(&pair.gpu) && self.nics.contains_key(&pair.nic));
        let spans = pairs
            .iter()
            .map(|of| (self.gpus[&of.gpu], self.nics[&of.nic]));
        let spans: Vec<(Span, Span)> = spans.collect();
        // at a box curves are spread in the order of their other ends, so that no two of them cross
        let end = |at: usize, own: fn(&(Span, Span)) -> Span, other: fn(&(Span, Span)) -> Span| {
            let here = own(&spans[at]);
            let place = |(nth, both): (usize, &(Span, Span))| (middle(other(both)), nth);
            let of_box = spans
                .iter()
                .enumerate()
                .filter(|(_, both)| own(both) == here);
            let before = of_box
                .clone()
                .filter(|&both| place(both) < place((at, &spans[at])));
            here.0 + here.1 * (before.count() as f64 + 1.0) / (of_box.count() as f64 + 1.0)
        };
        for (at, pair) in pairs.iter().enumerate() {
            let (start, stop) = (end(at, |of| of.0, |of| of.1), end(at, |of| of.1, |of| of.0));
            let from = (self.left + COLUMN, start);
            self.elements
                .push(svg::curve(from, (from.0 + CHANNEL, stop), pair.path));
        }
    }

    /// Draws the legend of what is drawn, in rows from `y` on; returns its lower end.
    fn legend(&mut self, y: f64) -> f64 {
        let topology = self.scene.topology;
        let is_stated = |pair: &&DrawnPair| {
            let gpu = topology.gpu(pair.gpu).address;
            let nic = topology.nic(pair.nic).address;
            nic.is_some_and(|nic| topology.stated_paths.contains_key(&(gpu, nic)))
        };
        let mut entries: Vec<(String, Result<PathType, &str>)> = Vec::new();
        for path in PathType::ALL {
            let pairs = self.scene.pairs.iter().filter(|pair| pair.path == path);
            if let Some(star) = pairs.clone().map(|pair| is_stated(&pair)).max() {
                let star = if star { "*" } else { "" };
                entries.push((format!("{}{star}", svg::meaning(path)), Ok(path)));
            }
        }
        // other boxes say themselves what they are
        for (class, text) in [
            ("idle", "GPU that no task has"),
            ("out", "NIC that is left out"),
            ("down", "NIC with a port that is not up"),
        ] {
            if self.classes.contains(class) {
                entries.push((text.to_string(), Err(class)));
            }
        }
        let (mut x, mut top) = (MARGIN, y);
        for (text, sample) in entries {
            let long = SAMPLE + PADDING + width(&text, SMALL);
            if x + long > self.width - MARGIN {
                (x, top) = (MARGIN, top + ROW);
            }
            self.elements.push(match sample {
                Ok(path) => svg::curve((x, top + 9.0), (x + SAMPLE, top + 9.0), path),
                Err(class) => svg::rect([x, top + 2.0, SAMPLE, 14.0], class),
            });
            let place = (x + SAMPLE + PADDING, top + 13.0);
            self.text(place, false, SMALL, "soft", &text);
            x += long + ROW;
        }
        top + ROW
    }
}
