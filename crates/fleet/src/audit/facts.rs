//! A report as facts that can be compared, and as the inventory by which nodes are of one kind.

use super::report::{GpuReport, Level, LinkReport, NicReport, Report, SaidAgreement};
use nic_placement_core::diagnostic::Shown;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Facts of a node, at most: 256 GPUs and 256 NICs have half as many.
const MAX_FACTS: usize = 8192;
/// Bytes of a name or value, at most: a message of `check` with all its words.
const MAX_TEXT: usize = 2048;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    Node,
    #[serde(rename = "numa_node")]
    Numa,
    Gpu,
    /// a NIC, by its PCI function, else its name
    Nic,
    /// a finding of `check`, by its text
    Finding,
}

/// The name of a fact; the order is that of a report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) class: Class,
    pub(super) subject: String,
    /// the attribute; empty for its presence
    pub(super) what: String,
}

impl Key {
    /// True for the presence of a device or a finding, which a node without it lacks.  A
    /// value that is not reported is no difference.
    pub(super) fn counts_where_absent(&self) -> bool {
        self.what.is_empty()
    }
}

/// Machine and devices, by which nodes are of one kind: without addresses and names, which shift
/// where a device is missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Inventory {
    pub machine: String,
    #[serde(serialize_with = "gpus")]
    pub gpus: BTreeMap<String, usize>,
    #[serde(serialize_with = "nics")]
    pub nics: BTreeMap<(String, String), usize>,
}

#[derive(Serialize)]
struct DeviceCount<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<&'a str>,
    count: usize,
}

fn gpus<S: Serializer>(gpus: &BTreeMap<String, usize>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(gpus.iter().map(|(model, &count)| DeviceCount {
        model,
        nearest: None,
        count,
    }))
}

fn nics<S: Serializer>(nics: &BTreeMap<(String, String), usize>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(nics.iter().map(|((model, path), &count)| DeviceCount {
        model,
        nearest: Some(path),
        count,
    }))
}

impl Inventory {
    pub(super) fn devices(&self) -> usize {
        self.gpus.values().sum::<usize>() + self.nics.values().sum::<usize>()
    }

    /// Devices that one has and the other lacks: a replaced device counts once.
    pub(super) fn distance(&self, other: &Inventory) -> usize {
        differing(&self.gpus, &other.gpus) + differing(&self.nics, &other.nics)
    }
}

fn differing<T: Ord>(a: &BTreeMap<T, usize>, b: &BTreeMap<T, usize>) -> usize {
    let beyond = |a: &BTreeMap<T, usize>, b: &BTreeMap<T, usize>| -> usize {
        a.iter()
            .map(|(what, count)| count.saturating_sub(b.get(what).copied().unwrap_or(0)))
            .sum()
    };
    beyond(a, b).max(beyond(b, a))
}

pub(super) struct NodeFacts {
    pub(super) host: String,
    pub(super) inventory: Inventory,
    pub(super) facts: BTreeMap<Key, String>,
}

/// The error says why it cannot be compared.
pub(super) fn of(report: &Report) -> Result<NodeFacts, String> {
    let Some(host) = report.host.clone() else {
        return Err("it has no `host`: a report of a described machine, not of a node".to_string());
    };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if host.is_empty() || host.len() > 253 || !host.chars().all(is_plain) {
        return Err(format!(
            "`host`: `{}` is no name of a node: expected letters, digits, `-`, `_` and `.`",
            Shown::word(&host, 60)
        ));
    }
    let mut facts = Collector::default();
    facts.add(Class::Node, "", "machine", Some(&report.machine));
    facts.add(Class::Node, "", "processor", report.processor.as_ref());
    facts.add(
        Class::Node,
        "",
        "steps that do not ask",
        report.default.as_ref(),
    );
    for (name, version) in &report.versions {
        facts.add(Class::Node, "", name, Some(version));
    }
    if let Some(SaidAgreement { word, .. }) = &report.agreement {
        let rails = word.rails.iter().map(|rail| rail.nic.as_str());
        let left_out = word.left_out.iter().map(|of| of.nic.as_str());
        for (what, nics) in [
            ("rails", Vec::from_iter(rails)),
            ("left out", left_out.collect()),
        ] {
            facts.add(Class::Node, "", what, Some(or_none(&nics.join(" "))));
        }
    }
    for node in &report.numa_nodes {
        facts.add(
            Class::Numa,
            &node.node.to_string(),
            "",
            Some(format!("CPUs {}", or_none(&node.cpus))),
        );
    }
    let mut inventory = Inventory {
        machine: report.machine.clone(),
        gpus: BTreeMap::new(),
        nics: BTreeMap::new(),
    };
    for (index, of) in report.gpus.iter().enumerate() {
        *inventory.gpus.entry(model(of.model.as_ref())).or_default() += 1;
        gpu(index, of, &mut facts);
    }
    for of in &report.nics {
        *inventory
            .nics
            .entry((nic_model(of), of.nearest.clone().unwrap_or_default()))
            .or_default() += 1;
        nic(of, &mut facts);
    }
    for finding in report
        .findings
        .iter()
        .filter(|finding| finding.level != Level::Ok)
    {
        let about = finding.about.as_ref().unwrap_or(&finding.text);
        let subject = format!("{} {}: {about}", finding.level, finding.code);
        facts.add(Class::Finding, &subject, "", Some(&finding.text));
    }
    let facts = facts.checked()?;
    Ok(NodeFacts {
        host,
        inventory,
        facts,
    })
}

#[derive(Default)]
struct Collector {
    facts: BTreeMap<Key, String>,
    too_long: Option<String>,
}

impl Collector {
    fn add(&mut self, class: Class, subject: &str, what: &str, value: Option<impl ToString>) {
        let Some(value) = value.map(|value| value.to_string()) else {
            return;
        };
        if let Some(long) = [subject, what, &value]
            .into_iter()
            .find(|text| text.len() > MAX_TEXT)
        {
            self.too_long = Some(Shown::word(long, 40).to_string());
            return;
        }
        // of two of the same name the first counts; check tells no two
        self.facts
            .entry(Key {
                class,
                subject: subject.to_string(),
                what: what.to_string(),
            })
            .or_insert(value);
    }

    fn checked(self) -> Result<BTreeMap<Key, String>, String> {
        match self.too_long {
            Some(begin) => Err(format!("`{begin}…` has more than {MAX_TEXT} bytes")),
            None if self.facts.len() > MAX_FACTS => {
                Err(format!("it has more than {MAX_FACTS} facts"))
            }
            None => Ok(self.facts),
        }
    }
}

fn gpu(index: usize, gpu: &GpuReport, facts: &mut Collector) {
    let mut subject = gpu
        .address
        .clone()
        .unwrap_or_else(|| format!("number {index}"));
    if let Some(partition) = gpu.partition {
        subject.push_str(&format!(" partition {partition}"));
    }
    let mut add = |what: &str, value: Option<String>| facts.add(Class::Gpu, &subject, what, value);
    add("", Some(model(gpu.model.as_ref())));
    add("NUMA node", gpu.numa_node.map(|node| node.to_string()));
    // a GPU that idles runs its link slower, and as wide as ever
    add(
        "PCIe lanes",
        gpu.link.as_ref().map(|link| format!("x{}", link.width)),
    );
    add(
        "MIG instances",
        Some(gpu.mig_instances.unwrap_or(0).to_string()),
    );
    add("NICs", Some(or_none(&gpu.nics.join(" ")).to_string()));
    for (name, version) in &gpu.versions {
        add(name, Some(version.clone()));
    }
}

fn nic(nic: &NicReport, facts: &mut Collector) {
    let subject = nic.address.as_ref().unwrap_or(&nic.name);
    let mut add = |what: &str, value: Option<String>| facts.add(Class::Nic, subject, what, value);
    add("", Some(nic_model(nic)));
    add("name", Some(nic.name.clone()));
    add("board", nic.board.clone());
    add("firmware", nic.firmware.clone());
    add("NUMA node", nic.numa_node.map(|node| node.to_string()));
    add(
        "PCIe link",
        nic.link
            .as_ref()
            .map(|LinkReport { speed, width }| format!("{speed} x{width}")),
    );
    add("nearest GPU", nic.nearest.clone());
    for port in &nic.ports {
        let mut add = |what: &str, value| add(&format!("port {} {what}", port.number), value);
        add("state", Some(port.state.clone()));
        add("link layer", Some(port.link_layer.clone()));
        add("subnet", port.subnet.clone());
        // a port without a link tells the rate of one lane
        if port.state == "active" {
            add(
                "rate",
                port.rate_mbps
                    .map(|rate| format!("{} Gb/s", rate as f64 / 1000.0)),
            );
        }
    }
    add("ports", Some(nic.ports.len().to_string()));
}

fn nic_model(nic: &NicReport) -> String {
    format!("{} {}", nic.kind, model(nic.model.as_ref()))
}

fn model(model: Option<&String>) -> String {
    model
        .cloned()
        .unwrap_or_else(|| "of unknown model".to_string())
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}
