//! The node as a tree: what stands on which NUMA node and below which switch, a line for each device.

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
            let facts = vec!["no CPUs: memory only".into()];
            branches.push(Branch::new(Of::Place, name, facts));
        }
        let mut rows = Vec::new();
        lay_out(branches, "", &mut rows);
        in_columns(rows)
    };
    // a GPU with many NICs has several lines on any page
    let is_broken = |(row, text): &(Row, Text)| {
        row.branch.of == Of::Port && row.margin() + text.width() > page.width()
    };
    let long = lines(false);
    let fitting = match long.iter().any(is_broken) {
        true => lines(true),
        false => long,
    };
    for (Row { guide, below, .. }, text) in fitting {
        page.guided(&guide, &below, text);
    }
}

fn in_columns(rows: Vec<Row>) -> Vec<(Row, Text)> {
    let devices = rows.iter().filter(|row| row.branch.of != Of::Place);
    let names = devices.map(|row| row.margin() + row.branch.name.width());
    let name_width = names.max().unwrap_or(0);
    let width = |of: Of, at: usize| {
        // GPUs and NICs have their addresses in one column, and else columns of their own
        let is_alike = |row: &&Row| row.branch.of == of || at == 0 && row.branch.of != Of::Place;
        let facts = rows.iter().filter(is_alike);
        let facts = facts.filter_map(|row| row.branch.facts.get(at));
        facts.map(Text::width).max().unwrap_or(0)
    };
    let text = |row: &Row| {
        let Branch {
            of, name, facts, ..
        } = &row.branch;
        let is_place = *of == Of::Place;
        let left = name_width.saturating_sub(row.margin());
        let name_width = if is_place { 0 } else { left };
        let mut text = name.clone().padded(name_width.max(name.width()) + GAP);
        for (at, fact) in facts.iter().enumerate() {
            // a column that is empty in every line is left out, with its gap
            text = match if is_place {
                fact.width()
            } else {
                width(*of, at)
            } {
                0 => text,
                width => text.then(fact.clone().padded(width + GAP)),
            };
        }
        text.without_trailing_spaces()
    };
    let texts: Vec<Text> = rows.iter().map(text).collect();
    rows.into_iter().zip(texts).collect()
}

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

struct Row {
    guide: String,
    below: String,
    branch: Branch,
}

impl Row {
    fn margin(&self) -> usize {
        self.guide.chars().count()
    }
}

fn lay_out(branches: Vec<Branch>, guide: &str, rows: &mut Vec<Row>) {
    let last = branches.len().saturating_sub(1);
    for (at, mut branch) in branches.into_iter().enumerate() {
        let (before, beside) = match at == last {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        let inner = std::mem::take(&mut branch.below);
        let below = format!("{guide}{beside}");
        rows.push(Row {
            guide: format!("{guide}{before}"),
            below: below.clone() + if inner.is_empty() { "" } else { "│  " },
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
            // sockets and NUMA nodes stay in the order of their numbers
            PlaceKind::Socket(_) | PlaceKind::NumaNode(_) | PlaceKind::Software => {
                (None, None, None)
            }
            _ => {
                let gpu = place.first_gpu();
                (Some(gpu.is_none()), gpu, place.first_nic())
            }
        };
        let places = place.places.iter();
        let places = places.map(|inner| (order(inner), self.place(inner)));
        let gpus = place.gpus.iter();
        let gpus = gpus.map(|&gpu| ((Some(false), Some(gpu), None), self.gpu(gpu)));
        let nics = place.nics.iter();
        let nics = nics.map(|&nic| ((Some(true), None, Some(nic)), self.nic(nic)));
        let mut branches: Vec<_> = places.chain(gpus).chain(nics).collect();
        branches.sort_by_key(|(order, _)| *order);
        branches.into_iter().map(|(_, branch)| branch).collect()
    }

    fn place(&self, place: &NodePlace) -> Branch {
        let name = Text::styled(place.kind, Style::Heading);
        let facts = place.facts(self.topology).into_iter().map(Text::from);
        Branch {
            below: self.contents(place),
            ..Branch::new(Of::Place, name, facts.collect())
        }
    }

    fn gpu(&self, index: GpuIndex) -> Branch {
        let gpu = self.topology.gpu(index);
        let part = gpu.partition.map(|part| format!(", part {part}"));
        let choices = self.placement.gpu(index).choices.iter().map(|choice| {
            let name = Text::from(format_args!("{} ", self.placement.rail(choice.rail)));
            name.then(Text::of_path(choice.path)).unbroken()
        });
        let choices = Text::joined(choices, ", ").or(no_nic(self.topology));
        let model = devices::gpu_model(self.topology, gpu).unwrap_or("model unknown");
        let model = model.to_string();
        let facts = vec![
            gpu.address.described().unwrap_or_default().into(),
            Text::from(model + &part.unwrap_or_default()).unbroken(),
            Text::from("-> ").unbroken().then(choices),
        ];
        Branch::new(Of::Gpu, format!("GPU {index}").into(), facts)
    }

    fn nic(&self, index: NicIndex) -> Branch {
        let nic = self.topology.nic(index);
        let address = nic.address.and_then(PciAddress::described);
        let address = address.unwrap_or_default();
        let interfaces = nic.netdevs.join(",");
        if nic.ports.len() < 2 {
            return self.port(nic, nic.ports.first(), &nic.name, address, interfaces);
        }
        let ports = nic.ports.iter();
        let below = ports.map(|port| {
            let interface = port.netdev.clone().unwrap_or_default();
            let name = format!("port {}", port.number);
            self.port(nic, Some(port), &name, String::new(), interface)
        });
        let mut ports = nic.ports.iter();
        let is_out = ports.all(|port| self.is_left_out(nic, Some(port)));
        let blank = Text::default;
        let facts = vec![address.into(), blank(), blank(), blank(), interfaces.into()];
        Branch {
            below: below.collect(),
            ..Branch::new(Of::Port, Text::styled(&nic.name, faint(is_out)), facts)
        }
    }

    fn is_left_out(&self, nic: &Nic, port: Option<&Port>) -> bool {
        let number = port.map(|port| port.number);
        let is_it =
            |out: &Excluded| out.name == nic.name && (out.port.is_none() || out.port == number);
        self.placement.excluded.iter().any(is_it)
    }

    fn link(&self, port: &Port) -> String {
        match port.link_layer {
            LinkLayer::Unknown => String::new(),
            LinkLayer::InfiniBand if self.is_short => "IB".to_string(),
            LinkLayer::Ethernet if self.is_short => "Eth".to_string(),
            known => known.to_string(),
        }
    }

    fn port(
        &self,
        nic: &Nic,
        port: Option<&Port>,
        name: &str,
        address: String,
        interface: String,
    ) -> Branch {
        let is_out = self.is_left_out(nic, port);
        let is_libfabrics = self
            .placement
            .is_left_to_libfabric(self.topology, &nic.name);
        let style = faint(is_out && !is_libfabrics);
        let is_supplied = self.topology.supplied_by.is_some();
        let mark = if is_supplied { "*" } else { "" };
        let role = nic.role.map(|role| format!("{role}{mark}"));
        let left_out = match is_libfabrics {
            true => "left alone",
            false => "left out",
        };
        let is_said = is_out && (role.is_none() || !self.is_short);
        let left_out = is_said.then(|| left_out.to_string());
        let used: Vec<String> = role.into_iter().chain(left_out).collect();
        let (rate, link, state) = match port {
            Some(port) => (
                port.rate_mbps.map_or("rate unknown".to_string(), gbps),
                self.link(port),
                self.state(port.state, style),
            ),
            None => ("no port".to_string(), String::new(), Text::default()),
        };
        let [address, rate, link, interface, used] =
            [address, rate, link, interface, used.join(", ")].map(|fact| Text::styled(fact, style));
        let facts = vec![address, rate.unbroken(), link, state, interface, used];
        Branch::new(Of::Port, Text::styled(name, faint(is_out)), facts)
    }

    fn state(&self, state: PortState, style: Style) -> Text {
        match state {
            PortState::Active if self.is_short => Text::default(),
            PortState::Active => Text::styled("active", style),
            PortState::Unknown => Text::from("state unknown").unbroken(),
            PortState::Down | PortState::Init | PortState::Armed => {
                Text::styled(state, Style::Wrong).unbroken()
            }
        }
    }
}

fn faint(is_faint: bool) -> Style {
    match is_faint {
        true => Style::Faint,
        false => Style::Plain,
    }
}
