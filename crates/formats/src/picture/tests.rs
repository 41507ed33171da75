//! What holds for every picture: it is XML, nothing lies over anything else, and nothing is lost.

mod looks;
mod made;

use super::outline::{NodePlace, PlaceKind, outline};
use super::width::{Font, width};
use super::{DrawnPair, Scene, svg};
use made::NodeShape;
use nic_placement_core::placement::{NodePlacement, RailUse};
use nic_placement_core::policy;
use nic_placement_core::topology::{
    GpuIndex, NicIndex, PathType, PciAddress, PciFunction, PciParent, Topology,
};
use nic_placement_core::wish::Wish;
use nic_placement_node::platform;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A rectangle: left, top, right, bottom.
type Area = [f64; 4];

/// What a reader of the SVG finds in it.
#[derive(Default)]
struct Seen {
    view: Area,
    boxes: Vec<(String, Area)>,
    texts: Vec<(String, Area)>,
    curves: Vec<(String, Area)>,
}

fn number(node: roxmltree::Node, name: &str) -> f64 {
    node.attribute(name)
        .unwrap_or_else(|| panic!("no `{name}`: {node:?}"))
        .parse()
        .unwrap()
}

fn numbers(text: &str) -> Vec<f64> {
    let words = text.split(['C', ' ']);
    words.map(|word| word.parse().unwrap()).collect()
}

fn seen(text: &str) -> Seen {
    let document = roxmltree::Document::parse(text).unwrap_or_else(|bad| panic!("{bad}: {text}"));
    let root = document.root_element();
    let namespace = root.tag_name().namespace();
    assert_eq!(namespace, Some("http://www.w3.org/2000/svg"));
    let view = numbers(root.attribute("viewBox").unwrap());
    let mut seen = Seen::default();
    seen.view.copy_from_slice(&view);
    for node in root.children().filter(|node| node.is_element()) {
        let class = node.attribute("class").unwrap_or_default().to_string();
        match node.tag_name().name() {
            "rect" => {
                let [x, y, wide, high] = ["x", "y", "width", "height"].map(|of| number(node, of));
                seen.boxes.push((class, [x, y, x + wide, y + high]));
            }
            "text" => {
                let font = Font {
                    size: number(node, "font-size"),
                    bold: node.has_attribute("font-weight"),
                };
                let written: String = node.text().unwrap_or_default().to_string();
                let (x, y, wide) = (number(node, "x"), number(node, "y"), width(&written, font));
                let is_end = node.attribute("text-anchor") == Some("end");
                let x = if is_end { x - wide } else { x };
                let (above, below) = (0.76 * font.size, 0.24 * font.size);
                let area = [x, y - above, x + wide, y + below];
                seen.texts.push((written, area));
            }
            "path" if !class.is_empty() => {
                let words = numbers(&node.attribute("d").unwrap()[1..]);
                let (x1, y1, x2, y2) = (words[0], words[1], words[6], words[7]);
                seen.curves.push((class, [x1, y1.min(y2), x2, y1.max(y2)]));
            }
            "title" | "style" | "path" => {}
            other => panic!("<{other}>"),
        }
    }
    seen.texts.retain(|(written, _)| !written.is_empty());
    seen
}

fn apart(a: &Area, b: &Area) -> bool {
    a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1]
}

fn within(inner: &Area, outer: &Area) -> bool {
    inner[0] >= outer[0] && inner[1] >= outer[1] && inner[2] <= outer[2] && inner[3] <= outer[3]
}

/// Pixels between two boxes, at least.
const ROOM: f64 = 4.0;

/// Nothing lies over anything else, or outside.
fn check(seen: &Seen) {
    for (what, area) in seen.boxes.iter().chain(&seen.texts).chain(&seen.curves) {
        assert!(within(area, &seen.view), "`{what}` is outside: {area:?}");
    }
    for (at, (what, area)) in seen.boxes.iter().enumerate() {
        for (other, place) in &seen.boxes[at + 1..] {
            let [left, top, right, bottom] = area;
            let around = [left - ROOM, top - ROOM, right + ROOM, bottom + ROOM];
            let is_fine = apart(&around, place) || within(area, place) || within(place, area);
            assert!(is_fine, "`{what}` {area:?} and `{other}` {place:?}");
        }
        for (text, place) in &seen.texts {
            let is_fine = apart(area, place) || within(place, area);
            assert!(is_fine, "`{text}` {place:?} over `{what}` {area:?}");
        }
    }
    for (at, (text, area)) in seen.texts.iter().enumerate() {
        let mut others = seen.texts[at + 1..].iter();
        let over = others.find(|(_, place)| !apart(area, place));
        assert_eq!(over, None, "over `{text}` {area:?}");
    }
    let is_device = |class: &str| ["gpu", "idle", "nic", "out", "down"].contains(&class);
    for (class, area) in &seen.curves {
        let devices = seen.boxes.iter().filter(|(what, _)| is_device(what));
        let mut things = devices.chain(&seen.texts);
        let crossed = things.find(|(_, place)| !apart(area, place));
        assert_eq!(crossed, None, "crossed by {class} {area:?}");
    }
}

fn models(topology: &Topology) -> Vec<Option<&str>> {
    let gpus = topology.gpus.iter();
    gpus.map(|gpu| gpu.model.as_deref()).collect()
}

/// The picture of a node where each GPU has the NICs that it would get.
fn drawn(topology: &Topology) -> String {
    let placement = policy::map(topology, &Wish::default());
    placed(topology, &placement, Notes::new())
}

type Notes = BTreeMap<GpuIndex, String>;

fn placed(topology: &Topology, placement: &NodePlacement, notes: Notes) -> String {
    let pair = |gpu, choice: &RailUse| DrawnPair {
        gpu,
        nic: placement.rail(choice.rail).nic,
        path: choice.path,
    };
    let pairs = placement.numbered_gpus();
    let pairs = pairs.flat_map(|(gpu, of)| of.choices.iter().map(move |choice| pair(gpu, choice)));
    let pairs = pairs.collect();
    let subtitle = format!("{} · policy closest", topology.provenance);
    svg(&Scene {
        topology,
        models: models(topology),
        subtitle,
        pairs,
        placement,
        notes,
    })
}

fn boxes(seen: &Seen, classes: &[&str]) -> usize {
    // the legend's samples are lower than any device
    let is_device = |(class, area): &&(String, Area)| {
        classes.contains(&class.as_str()) && area[3] - area[1] > 20.0
    };
    seen.boxes.iter().filter(is_device).count()
}

/// Draws a node with and without notes, and checks both pictures.
fn check_node(topology: &Topology) {
    let note = |gpu| {
        let text = format!("task {gpu} · cpus 0-7,128-135 · memory {gpu}");
        (GpuIndex(gpu), text)
    };
    let placement = policy::map(topology, &Wish::default());
    let every_other = (0..topology.gpus.len()).step_by(2);
    for notes in [Notes::new(), every_other.map(note).collect()] {
        let text = placed(topology, &placement, notes.clone());
        assert_eq!(text, placed(topology, &placement, notes), "other bytes");
        let seen = seen(&text);
        check(&seen);
        assert_eq!(boxes(&seen, &["gpu", "idle"]), topology.gpus.len());
        assert_eq!(boxes(&seen, &["nic", "out", "down"]), topology.nics.len());
    }
}

fn devices(place: &NodePlace) -> (Vec<GpuIndex>, Vec<NicIndex>) {
    let (mut gpus, mut nics) = (place.gpus.clone(), place.nics.clone());
    for (more_gpus, more_nics) in place.places.iter().map(devices) {
        gpus.extend(more_gpus);
        nics.extend(more_nics);
    }
    gpus.sort();
    nics.sort();
    (gpus, nics)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn in_no_picture_does_anything_lie_over_anything_else(shape in made::shapes()) {
        check_node(&shape.node());
    }

    #[test]
    fn every_device_stands_in_one_place_of_the_outline(shape in made::shapes()) {
        let node = shape.node();
        let gpus: Vec<GpuIndex> = node.gpu_indices().collect();
        let nics: Vec<NicIndex> = (0..node.nics.len()).map(NicIndex).collect();
        prop_assert_eq!(devices(&outline(&node)), (gpus, nics));
    }
}

#[test]
fn the_largest_nodes_are_drawn_like_the_others() {
    for (gpus, nics) in [(8, 12), (16, 32), (64, 64)] {
        let shape = NodeShape {
            numa_nodes: 8,
            nodes_per_socket: 4,
            per_switch: 3,
            ..shape_of(gpus, nics)
        };
        check_node(&shape.node());
    }
}

#[test]
fn every_built_in_machine_is_drawn_with_its_names_and_none_can_write_into_its_picture() {
    for model in platform::MODELS {
        let topology = model.topology().unwrap();
        check_node(&topology);
        let seen = seen(&drawn(&topology));
        let is_shown = |name: &str| seen.texts.iter().any(|(text, _)| text == name);
        assert!(is_shown(model.name), "{}", model.name);
        for name in topology.nics.iter().map(|nic| nic.name.as_str()) {
            assert!(is_shown(name), "{}: {name}", model.name);
        }
    }
    let mut topology = platform::model("dgx-h100").unwrap();
    topology.name = "<b>&\"'\0\u{1b}[31m\u{202e}\u{ffff}".to_string();
    let text = drawn(&topology);
    let shown = "<b>&\"'\\0\\u{1b}[31m\\u{202e}\\u{ffff}";
    let mut texts = seen(&text).texts.into_iter();
    assert!(texts.any(|(text, _)| text == shown), "{text}");
}

#[test]
fn a_picture_of_all_with_all_crosses_no_box() {
    let topology = platform::model("dgx-h100").unwrap();
    let pairs = topology.gpu_indices().flat_map(|gpu| {
        (0..topology.nics.len()).map(move |nic| DrawnPair {
            gpu,
            nic: NicIndex(nic),
            path: PathType::ALL[nic % 5],
        })
    });
    let scene = Scene {
        topology: &topology,
        models: models(&topology),
        subtitle: String::new(),
        pairs: pairs.collect(),
        placement: &policy::map(&topology, &Wish::default()),
        notes: BTreeMap::new(),
    };
    let seen = seen(&svg(&scene));
    check(&seen);
    // and the legend's samples
    assert_eq!(seen.curves.len(), 8 * 14 + 5);
}

#[test]
fn what_works_is_left_out_or_down_looks_different_and_kinds_of_paths_with_and_without_colour() {
    let seen = seen(&drawn(&platform::model("dgx-h100").unwrap()));
    let counts = ["nic", "out", "down"].map(|class| boxes(&seen, &[class]));
    // an unused port that is down is no alarm
    assert_eq!(counts, [8, 6, 0]);
    let strokes: Vec<_> = PathType::ALL.map(super::svg::stroke).to_vec();
    for (at, (colour, dashes)) in strokes.iter().enumerate() {
        for (other, others) in &strokes[at + 1..] {
            assert!(other != colour && others != dashes);
        }
    }
}

// ---- the outline ----

/// The places, as `name(gpus,nics)[inner …]`.
fn told(place: &NodePlace) -> String {
    let inner: Vec<String> = place.places.iter().map(told).collect();
    let (gpus, nics) = (place.gpus.len(), place.nics.len());
    format!("{}({gpus},{nics})[{}]", place.kind, inner.join(" "))
}

#[test]
fn a_switch_with_one_card_below_it_is_no_place_and_one_with_two_is() {
    let told = |name| told(&outline(&platform::model(name).unwrap()));
    assert!(told("dgx-h100").starts_with(
        "(0,0)[NUMA node 0(0,2)[PCIe switch 0000:16:00.0(1,1)[] PCIe switch 0000:3e:00.0(1,1)[]"
    ));
    // nested switches, one of them the GPU's own
    assert!(told("mi300x-8").contains("PCIe switch 0000:05:00.0(1,1)[]"));
    // stated paths make places where the bus shows none
    let azure = told("azure-nd96isr-h100-v5");
    assert_eq!(azure.matches("one PCIe switch(1,1)").count(), 8, "{azure}");
}

#[test]
fn a_switch_that_shows_itself_as_two_is_one_place() {
    let mut topology = platform::model("dgx-h100").unwrap();
    let with_parts = |topology: &Topology| {
        let told = told(&outline(topology));
        told.matches("PCIe switch 0000:16:00.0(1,1)[]").count()
    };
    // below the switch of GPU 0 and mlx5_0: a port of the whole, and a part with both devices' ports
    let at = |text: &str| text.parse::<PciAddress>().unwrap();
    let function = |address: &str| topology.pci.get(at(address)).unwrap().clone();
    let whole = function("0000:16:00.0");
    let ports = ["0000:18:00.0", "0000:1b:00.0"].map(|device| function(device).parent);
    let part = |address: &str, above: PciAddress, subsystem| PciFunction {
        address: at(address),
        parent: PciParent::Bridge(above),
        vendor: Some(0x1000),
        device: Some(0xc030),
        subsystem: Some((0x1000, subsystem)),
        ..whole.clone()
    };
    let mut added = vec![part("0000:16:00.0", whole.parent.bridge().unwrap(), 0x0096)];
    added.push(part("0000:17:1e.0", at("0000:16:00.0"), 0x0096));
    added.push(part("0000:19:00.0", at("0000:17:1e.0"), 0x1096));
    for port in ports {
        let port = port.bridge().unwrap();
        added.push(PciFunction {
            parent: PciParent::Bridge(at("0000:19:00.0")),
            ..topology.pci.get(port).unwrap().clone()
        });
    }
    for function in added {
        topology.pci.insert(function);
    }
    assert_eq!(with_parts(&topology), 1, "{}", told(&outline(&topology)));
}

#[test]
fn switches_stand_inside_switches_and_a_node_of_which_no_numa_node_is_known_is_drawn_without() {
    let shape = NodeShape {
        per_switch: 4,
        levels: 3,
        ..shape_of(16, 16)
    };
    let node = shape.node();
    let outline = outline(&node);
    let mut switches = outline.places.iter().flat_map(|numa| &numa.places);
    let has_inner = switches.any(|switch| !switch.places.is_empty());
    assert!(has_inner, "{}", told(&outline));
    check_node(&node);
    let shape = NodeShape {
        numa_nodes: 0,
        ..shape_of(8, 8)
    };
    let node = shape.node();
    assert!(!told(&super::outline::outline(&node)).contains("NUMA"));
    check_node(&node);
}

#[test]
fn sockets_are_places_where_they_hold_several_numa_nodes() {
    let kinds = |name| {
        let node = outline(&platform::model(name).unwrap());
        let kinds = node.places.iter().map(|place| place.kind);
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(kinds("juwels-booster"), [0, 1].map(PlaceKind::Socket));
    let nodes = [0, 1].map(|node| PlaceKind::NumaNode(Some(node)));
    assert_eq!(kinds("dgx-h100"), nodes);
}

fn shape_of(gpus: u8, nics: u8) -> NodeShape {
    NodeShape {
        gpus,
        nics,
        numa_nodes: 2,
        nodes_per_socket: 1,
        per_switch: 2,
        levels: 1,
        ports: 1,
        is_hostile: false,
        is_stated: false,
        seed: 3,
    }
}
