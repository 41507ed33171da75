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

const LEGEND: Font = Font {
    size: 11.0,
    bold: false,
};
const SAMPLE: f64 = 38.0;
const SAMPLE_GAP: f64 = 7.0;
const BETWEEN: f64 = 20.0;
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
        paths: BTreeSet::new(),
    };
    canvas.note(32.0, HEADLINE, "dark", &scene.topology.name);
    canvas.note(51.0, SMALL, "soft", &scene.subtitle);
    let mut y = canvas.contents(&node, 0, 62.0);
    for note in canvas.notes() {
        canvas.note(y + 12.0, SMALL, "soft", &note);
        y += 20.0;
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
    gpus: BTreeMap<GpuIndex, Span>,
    nics: BTreeMap<NicIndex, Span>,
    left: f64,
    width: f64,
    elements: Vec<String>,
    classes: BTreeSet<&'static str>,
    paths: BTreeSet<Option<PathType>>,
}

impl Canvas<'_> {
    fn right(&self) -> f64 {
        self.left + COLUMN + CHANNEL
    }

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

    fn curve(&mut self, from: (f64, f64), to: (f64, f64), path: Option<PathType>, tip: &str) {
        self.paths.insert(path);
        self.elements.push(svg::curve(from, to, path, Some(tip)));
    }

    /// Draws what stands in a place from `y` on, in the order of the GPUs; returns its lower end.
    fn contents(&mut self, place: &NodePlace, level: usize, y: f64) -> f64 {
        let own = place.gpus.iter().min();
        let comes_after = |inner: &NodePlace| own.is_some() && inner.first_gpu().as_ref() > own;
        let (after, before): (Vec<_>, Vec<_>) =
            place.places.iter().partition(|inner| comes_after(inner));
        let places = |all: Vec<&NodePlace>, y, canvas: &mut Self| {
            all.into_iter()
                .fold(y, |y, inner| canvas.place(inner, level, y))
        };
        let y = places(before, y, self);
        let y = self.devices(place, y);
        places(after, y, self)
    }

    fn devices(&mut self, place: &NodePlace, y: f64) -> f64 {
        let scene = self.scene;
        let gpus = place
            .gpus
            .iter()
            .map(|&gpu| (gpu, card::of_gpu(scene, gpu)))
            .collect();
        let nics = place
            .nics
            .iter()
            .map(|&nic| (nic, card::of_nic(scene, nic)));
        let is_paired = |nic: NicIndex| scene.pairs.iter().any(|pair| pair.nic == nic);
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
        let at = self.elements.len();
        let star = if matches!(place.kind, PlaceKind::Stated(..)) {
            "*"
        } else {
            ""
        };
        let name = format!("{}{star}", place.kind);
        let facts = place.facts(self.scene.topology).unwrap_or_default();
        // both at the left: above a NIC they would read as the NIC's
        let written = fitted(&name, PLACE, COLUMN);
        let room = COLUMN - width(&written, PLACE) - 8.0;
        self.text((self.left, y + 14.0), false, PLACE, "soft", &written);
        if room > 40.0 {
            let end = (self.left + COLUMN, y + 14.0);
            self.text(end, true, SMALL, "soft", &fitted(&facts, SMALL, room));
        }
        let end = self
            .contents(place, level + 1, y + TITLE)
            .max(y + TITLE + GAP);
        let class = match place.kind {
            PlaceKind::Socket(_) => "socket",
            PlaceKind::HostBridge(_) => "host",
            PlaceKind::Package(_) | PlaceKind::Switch(_) | PlaceKind::Stated(..) => "switch",
            PlaceKind::Node | PlaceKind::NumaNode(_) | PlaceKind::Software | PlaceKind::Card(_) => {
                "numa"
            }
        };
        let tip = if facts.is_empty() {
            name
        } else {
            format!("{name}: {facts}")
        };
        let sides = [x, y, self.width - 2.0 * x, end - y];
        // below what stands in it
        self.elements
            .insert(at, svg::rect(sides, class, Some(&tip)));
        end + GAP
    }

    /// Draws boxes below each other, evenly over a height; returns their spans.
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
            let height = card.height();
            places.push((index, Span { top, height }));
            self.card(&card, x, top);
            top += height + GAP + spare;
        }
        places
    }

    fn card(&mut self, card: &Card, x: f64, y: f64) {
        let sides = [x, y, COLUMN, card.height()];
        self.classes.insert(card.class);
        self.elements
            .push(svg::rect(sides, card.class, Some(&card.tip)));
        let (first, last) = (x + Card::PADDING, x + COLUMN - Card::PADDING);
        for (number, [left, right]) in card.lines.iter().enumerate() {
            let base = y + Card::FIRST + Card::LINE * number as f64;
            let Piece { text, font, class } = right;
            let beside = last - first - width(&left.text, left.font) - 8.0;
            let end = fitted(text, *font, beside.max((last - first) * 0.7));
            let taken = if end.is_empty() {
                0.0
            } else {
                width(&end, *font) + 8.0
            };
            let beginning = fitted(&left.text, left.font, last - first - taken);
            self.text((first, base), false, left.font, left.class, &beginning);
            self.text((last, base), true, *font, class, &end);
        }
    }

    /// Notes on NUMA nodes of memory alone, on GPUs without a line, and on the source of starred paths.
    fn notes(&self) -> Vec<String> {
        let (topology, placement) = (self.scene.topology, self.scene.placement);
        let nodes = memory_only(topology);
        let memory =
            (!nodes.is_empty()).then(|| format!("memory only, without CPUs: NUMA nodes {nodes}"));
        let stated = (!topology.stated_paths.is_empty()).then(|| match &topology.supplied_by {
            Some(model) => format!("* stated by the model `{model}`; the bus does not show it"),
            None => format!("* stated by {}; no bus shows it", topology.provenance),
        });
        let unpaired = match (self.scene.pairs.first(), placement.excluded.first()) {
            (Some(pair), _) if self.is_left(pair.nic) => {
                "libfabric chooses the NIC of each process: a line leads to the nearest".to_string()
            }
            (None, Some(out)) => format!("no GPU gets a NIC: {}: {}", out.name, out.why),
            (None, None) => "no GPU gets a NIC: none is known".to_string(),
            _ => String::new(),
        };
        let unpaired = Some(unpaired).filter(|text| !text.is_empty() && !topology.gpus.is_empty());
        [memory, unpaired, stated].into_iter().flatten().collect()
    }

    /// True for a NIC that libfabric chooses by itself: a line leads to it and means no choice of ours.
    fn is_left(&self, nic: NicIndex) -> bool {
        self.scene.placement.left_to_libfabric.contains(&nic)
    }

    fn is_stated(&self, pair: &DrawnPair) -> bool {
        let topology = self.scene.topology;
        let (gpu, nic) = (topology.gpu(pair.gpu), topology.nic(pair.nic));
        nic.address
            .is_some_and(|nic| topology.stated_paths.contains_key(&(gpu.address, nic)))
    }

    fn curves(&mut self) {
        let mut pairs: Vec<DrawnPair> = self.scene.pairs.clone();
        // near paths lie over far ones
        pairs.sort_unstable_by_key(|pair| (Reverse(pair.path), *pair));
        pairs.dedup();
        let drawn: Vec<Drawn> = pairs
            .into_iter()
            .filter_map(|pair| {
                let (gpu, nic) = (*self.gpus.get(&pair.gpu)?, *self.nics.get(&pair.nic)?);
                Some(Drawn { pair, gpu, nic })
            })
            .collect();
        let drawn = self.crowds(drawn);
        let starts = drawn
            .iter()
            .map(|of| (of.pair.gpu.0, of.gpu, of.nic.middle()));
        let stops = drawn
            .iter()
            .map(|of| (of.pair.nic.0, of.nic, of.gpu.middle()));
        let (starts, stops) = (ends(starts), ends(stops));
        for ((Drawn { pair, .. }, start), stop) in drawn.iter().zip(starts).zip(stops) {
            let DrawnPair {
                gpu, port, path, ..
            } = pair;
            let name = &self.scene.topology.nic(pair.nic).name;
            let tip = if self.is_left(pair.nic) {
                format!("{name} is nearest to GPU {gpu}, at {path}")
            } else {
                format!("GPU {gpu} uses {name}:{port} at {path}")
            };
            let (from, to) = ((self.left + COLUMN, start), (self.right(), stop));
            self.curve(from, to, Some(*path), &tip);
        }
    }

    /// Draws GPUs that use the same NICs as one line with branches, where curves are too many;
    /// returns the other pairs.
    fn crowds(&mut self, drawn: Vec<Drawn>) -> Vec<Drawn> {
        let mut nics_of: BTreeMap<GpuIndex, BTreeSet<NicIndex>> = BTreeMap::new();
        for Drawn { pair, .. } in &drawn {
            nics_of.entry(pair.gpu).or_default().insert(pair.nic);
        }
        let mut groups: BTreeMap<&BTreeSet<NicIndex>, Vec<GpuIndex>> = BTreeMap::new();
        for (gpu, nics) in &nics_of {
            groups.entry(nics).or_default().push(*gpu);
        }
        groups.retain(|nics, gpus| {
            nics.len() > 1 && gpus.len() > 1 && nics.len() * gpus.len() > CROWD
        });
        let lanes = (CHANNEL / 2.0 / LANE) as usize;
        for (number, (nics, gpus)) in groups.iter().enumerate() {
            let lane = self.left + COLUMN + CHANNEL / 4.0 + LANE * (number % lanes) as f64;
            let starts: Vec<f64> = gpus.iter().map(|gpu| self.gpus[gpu].middle()).collect();
            let stops: Vec<f64> = nics.iter().map(|nic| self.nics[nic].middle()).collect();
            let all = || starts.iter().chain(&stops).copied();
            let (top, bottom) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
            let (gpus, nics) = (gpus.len(), nics.len());
            let tip = format!("each of {gpus} GPUs uses each of {nics} NICs");
            self.curve((lane, top), (lane, bottom), None, &tip);
            for y in starts {
                self.curve((self.left + COLUMN, y), (lane, y), None, &tip);
            }
            for y in stops {
                self.curve((lane, y), (self.right(), y), None, &tip);
            }
        }
        drawn
            .into_iter()
            .filter(|of| !groups.contains_key(&nics_of[&of.pair.gpu]))
            .collect()
    }

    /// Draws the legend of what is drawn, in rows from `y` on; returns its lower end.
    fn legend(&mut self, y: f64) -> f64 {
        let star = |path: Option<PathType>| {
            if self
                .scene
                .pairs
                .iter()
                .any(|pair| Some(pair.path) == path && self.is_stated(pair))
            {
                "*"
            } else {
                ""
            }
        };
        let mut entries: Vec<(String, Sample)> = Vec::new();
        for path in PathType::ALL.map(Some).into_iter().chain([None]) {
            if self.paths.contains(&path) {
                let text = format!("{}{}", svg::meaning(path), star(path));
                entries.push((
                    text,
                    Box::new(move |x, y| {
                        svg::curve((x, y + 9.0), (x + SAMPLE, y + 9.0), path, None)
                    }),
                ));
            }
        }
        // other boxes say themselves what they are
        for (class, text) in [
            ("idle", "GPU that no task has"),
            ("out", "NIC that is left out"),
            ("down", "NIC with a port that is not up"),
        ] {
            if self.classes.contains(class) {
                entries.push((
                    text.to_string(),
                    Box::new(move |x, y| svg::rect([x, y + 2.0, SAMPLE, 14.0], class, None)),
                ));
            }
        }
        let (mut x, mut top, mut end) = (MARGIN, y, y);
        for (text, sample) in entries {
            let long = SAMPLE + SAMPLE_GAP + width(&text, LEGEND);
            if x > MARGIN && x + long > self.width - MARGIN {
                (x, top) = (MARGIN, top + ROW);
            }
            self.elements.push(sample(x, top));
            let place = (x + SAMPLE + SAMPLE_GAP, top + 13.0);
            self.text(place, false, LEGEND, "soft", &text);
            x += long + BETWEEN;
            end = top + ROW;
        }
        end
    }
}

type Sample = Box<dyn Fn(f64, f64) -> String>;

struct Drawn {
    pair: DrawnPair,
    gpu: Span,
    nic: Span,
}

/// The heights at which curves meet their boxes, by the box's number, its span, and the height of
/// the other end: spread in that order, so that no two curves cross.
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

fn stacked<Index>(cards: &[(Index, Card)]) -> f64 {
    cards.iter().map(|(_, card)| card.height() + GAP).sum()
}
