//! The node as a tree: what stands on which NUMA node and below which switch, a line for each device.
#![forbid(unsafe_code)]

use crate::commands::devices;
use crate::commands::page::{Page, Style, Text};
use crate::commands::shortfalls::no_nic;
use nic_placement_core::placement::{Excluded, NodePlacement};
use nic_placement_core::policy::gbps;
use nic_placement_core::topology::{
    GpuIndex, LinkLayer, Nic, NicIndex, PciAddress, Port, PortState, Topology,
};
use nic_placement_formats::picture::outline::{NodePlace, PlaceKind, memory_only, outline};

const GAP: usize = 2;

pub(super) fn print(topology: &Topology, placement: &NodePlacement, page: &mut Page) {
    let lines = |is_short: bool| {
        let node = Node {
            topology,
            placement,
            is_short,
        };
        let mut branches = node.contents(&outline(topology));
        let memory = memory_only(topology);
        if !memory.is_empty() {
            let name = Text::styled(format_args!("NUMA nodes {memory}"), Style::Heading);
            branches.push(Branch::new(
                Of::Place,
                name,
                vec!["no CPUs: memory only".into()],
            ));
        }
        let mut rows = Vec::new();
        lay_out(branches, "", &mut rows);
        in_columns(rows)
    };
    let long = lines(false);
    // a GPU with many NICs has several lines on any page
    let is_broken = |Line {
                         of, guide, text, ..
                     }: &Line| {
        *of == Of::Port && guide.chars().count() + text.width() > page.width()
    };
    for Line {
        guide, below, text, ..
    } in if long.iter().any(is_broken) {
        lines(true)
    } else {
        long
    } {
        page.guided(&guide, &below, text);
    }
}

/// A line with what stands before it and before its rest.
struct Line {
    of: Of,
    guide: String,
    below: String,
    text: Text,
}

fn in_columns(rows: Vec<Row>) -> Vec<Line> {
    let is_device = |row: &&Row| row.branch.of != Of::Place;
    let names = rows
        .iter()
        .filter(is_device)
        .map(|row| row.guide.chars().count() + row.branch.name.width());
    let name_width = names.max().unwrap_or(0);
    let width = |of: Of, at: usize| {
        // GPUs and NICs have their addresses in one column, and else columns of their own
        let alike = rows
            .iter()
            .filter(|row| row.branch.of == of || (at == 0 && row.branch.of != Of::Place));
        alike
            .filter_map(|row| row.branch.facts.get(at))
            .map(Text::width)
            .max()
            .unwrap_or(0)
    };
    let text = |Row { guide, branch, .. }: &Row| {
        let is_place = branch.of == Of::Place;
        let name_width = if is_place {
            0
        } else {
            name_width - guide.chars().count()
        };
        let mut text = branch
            .name
            .clone()
            .padded(name_width.max(branch.name.width()) + GAP);
        for (at, fact) in branch.facts.iter().enumerate() {
            let width = if is_place {
                fact.width()
            } else {
                width(branch.of, at)
            };
            // a column that is empty in every line is left out, with its gap
            text = if width == 0 {
                text
            } else {
                text.then(fact.clone().padded(width + GAP))
            };
        }
        text.without_trailing_spaces()
    };
    let texts: Vec<Text> = rows.iter().map(text).collect();
    let line = |(
        Row {
            guide,
            below,
            branch,
        },
        text,
    )| Line {
        of: branch.of,
        guide,
        below,
        text,
    };
    rows.into_iter().zip(texts).map(line).collect()
}

/// The kind of a line, which determines its columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Place,
    Gpu,
    Port,
}

struct Branch {
    of: Of,
    name: Text,
    facts: Vec<Text>,
    below: Vec<Branch>,
}

impl Branch {
    fn new(of: Of, name: Text, facts: Vec<Text>) -> Branch {
        Branch {
            of,
            name,
            facts,
            below: Vec::new(),
        }
    }
}

/// A line with what stands before it, and before its rest if it is long.
struct Row {
    guide: String,
    below: String,
    branch: Branch,
}

fn lay_out(branches: Vec<Branch>, guide: &str, rows: &mut Vec<Row>) {
    let last = branches.len().saturating_sub(1);
    for (at, mut branch) in branches.into_iter().enumerate() {
        let (before, beside) = if at == last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let inner = std::mem::take(&mut branch.below);
        let below = format!("{guide}{beside}");
        let rest = if inner.is_empty() {
            below.clone()
        } else {
            format!("{below}│  ")
        };
        rows.push(Row {
            guide: format!("{guide}{before}"),
            below: rest,
            branch,
        });
        lay_out(inner, &below, rows);
    }
}

struct Node<'a> {
    topology: &'a Topology,
    placement: &'a NodePlacement,
    /// for a terminal that is too narrow: without what the lines below the tree repeat
    is_short: bool,
}

impl Node<'_> {
    /// Smaller places and the place's devices: with GPUs in the GPUs' order, then NICs alone.
    fn contents(&self, place: &NodePlace) -> Vec<Branch> {
        let order = |place: &NodePlace| match place.kind {
            // these stay as they are: a NUMA node without a device has its number too
            PlaceKind::Socket(_) | PlaceKind::NumaNode(_) | PlaceKind::Software => {
                (None, None, None)
            }
            _ => (
                Some(place.first_gpu().is_none()),
                place.first_gpu(),
                place.first_nic(),
            ),
        };
        let places = place
            .places
            .iter()
            .map(|inner| (order(inner), self.place(inner)));
        let gpus = place
            .gpus
            .iter()
            .map(|&gpu| ((Some(false), Some(gpu), None), self.gpu(gpu)));
        let nics = place
            .nics
            .iter()
            .map(|&nic| ((Some(true), None, Some(nic)), self.nic(nic)));
        let mut branches: Vec<_> = places.chain(gpus).chain(nics).collect();
        branches.sort_by_key(|(order, _)| *order);
        branches.into_iter().map(|(_, branch)| branch).collect()
    }

    fn place(&self, place: &NodePlace) -> Branch {
        let name = Text::styled(place.kind, Style::Heading);
        let facts = place
            .facts(self.topology)
            .into_iter()
            .map(Text::from)
            .collect();
        Branch {
            below: self.contents(place),
            ..Branch::new(Of::Place, name, facts)
        }
    }

    fn gpu(&self, index: GpuIndex) -> Branch {
        let gpu = self.topology.gpu(index);
        let partition = gpu
            .partition
            .map(|partition| format!(", part {partition}"))
            .unwrap_or_default();
        let choices = self.placement.gpu(index).choices.iter().map(|choice| {
            let name = Text::from(format_args!("{} ", self.placement.rail(choice.rail)));
            name.then(Text::of_path(choice.path)).unbroken()
        });
        let choices = Text::joined(choices, ", ").or(no_nic(self.topology));
        let model = devices::gpu_model(self.topology, gpu).unwrap_or("model unknown");
        let facts = vec![
            gpu.address.described().unwrap_or_default().into(),
            Text::from(format_args!("{model}{partition}")).unbroken(),
            Text::from("-> ").unbroken().then(choices),
        ];
        Branch::new(Of::Gpu, format!("GPU {index}").into(), facts)
    }

    fn nic(&self, index: NicIndex) -> Branch {
        let nic = self.topology.nic(index);
        let address = nic
            .address
            .and_then(PciAddress::described)
            .unwrap_or_default();
        let interfaces = nic.netdevs.join(",");
        match nic.ports.as_slice() {
            [] | [_] => {
                let port = nic.ports.first();
                let facts = self.port(nic, port, address, interfaces);
                Branch::new(Of::Port, self.name(nic, port, &nic.name), facts)
            }
            several => {
                let below = several.iter().map(|port| {
                    let name = self.name(nic, Some(port), &format!("port {}", port.number));
                    let interface = port.netdev.clone().unwrap_or_default();
                    Branch::new(
                        Of::Port,
                        name,
                        self.port(nic, Some(port), String::new(), interface),
                    )
                });
                let blank = || Text::default();
                let facts = vec![address.into(), blank(), blank(), blank(), interfaces.into()];
                let is_out = several.iter().all(|port| self.is_left_out(nic, Some(port)));
                let style = if is_out { Style::Faint } else { Style::Plain };
                let name = Text::styled(&nic.name, style);
                Branch {
                    below: below.collect(),
                    ..Branch::new(Of::Port, name, facts)
                }
            }
        }
    }

    fn is_left_out(&self, nic: &Nic, port: Option<&Port>) -> bool {
        self.against(nic, port).next().is_some()
    }

    fn against<'n>(
        &'n self,
        nic: &'n Nic,
        port: Option<&Port>,
    ) -> impl Iterator<Item = &'n Excluded> {
        let number = port.map(|port| port.number);
        let of_it = self
            .placement
            .excluded
            .iter()
            .filter(|excluded| excluded.name == nic.name);
        of_it.filter(move |excluded| excluded.port.is_none() || excluded.port == number)
    }

    fn name(&self, nic: &Nic, port: Option<&Port>, name: &str) -> Text {
        Text::styled(
            name,
            if self.is_left_out(nic, port) {
                Style::Faint
            } else {
                Style::Plain
            },
        )
    }

    fn link(&self, port: &Port) -> String {
        match port.link_layer {
            LinkLayer::Unknown => String::new(),
            LinkLayer::InfiniBand if self.is_short => "IB".to_string(),
            LinkLayer::Ethernet if self.is_short => "Eth".to_string(),
            known => known.to_string(),
        }
    }

    /// Address, rate, link, state, interface, and what it is used for.
    fn port(
        &self,
        nic: &Nic,
        port: Option<&Port>,
        address: String,
        interface: String,
    ) -> Vec<Text> {
        let is_out = self.is_left_out(nic, port);
        let is_libfabrics = self
            .placement
            .is_left_to_libfabric(self.topology, &nic.name);
        let style = if is_out && !is_libfabrics {
            Style::Faint
        } else {
            Style::Plain
        };
        let mark = if self.topology.supplied_by.is_some() {
            "*"
        } else {
            ""
        };
        let role = nic.role.map(|role| format!("{role}{mark}"));
        let left_out = is_out.then(|| {
            if is_libfabrics {
                "left alone"
            } else {
                "left out"
            }
            .to_string()
        });
        let left_out = left_out.filter(|_| role.is_none() || !self.is_short);
        let used: Vec<String> = role.into_iter().chain(left_out).collect();
        let (rate, link, state) = match port {
            Some(port) => (
                port.rate_mbps.map_or("rate unknown".to_string(), gbps),
                self.link(port),
                state(port),
            ),
            None => ("no port".to_string(), String::new(), Text::default()),
        };
        let state = match state == Text::from(PortState::Active) {
            true if self.is_short => Text::default(),
            true => Text::styled("active", style),
            false => state,
        };
        let [address, rate, link, interface, used] =
            [address, rate, link, interface, used.join(", ")].map(|fact| Text::styled(fact, style));
        vec![address, rate.unbroken(), link, state, interface, used]
    }
}

/// The state, where it does not work in the colour of that.
fn state(port: &Port) -> Text {
    let fails = matches!(
        port.state,
        PortState::Down | PortState::Init | PortState::Armed
    );
    let words = match port.state {
        PortState::Unknown => "state unknown".to_string(),
        known => known.to_string(),
    };
    Text::styled(words, if fails { Style::Wrong } else { Style::Plain }).unbroken()
}
