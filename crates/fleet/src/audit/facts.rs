//! A report as facts that can be compared, and as the inventory by which nodes are of one kind.

use super::report::{GpuReport, Level, NicReport, Report, SaidAgreement};
use nic_placement_core::diagnostic::Shown;
use serde::Serialize;
use std::collections::BTreeMap;

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
    pub(super) fn is_presence(&self) -> bool {
        self.what.is_empty()
    }
}

/// Machine and devices, by which nodes are of one kind: without addresses and names, which shift
/// where a device is missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Inventory {
    pub machine: String,
    pub gpus: Vec<DeviceCount>,
    pub nics: Vec<DeviceCount>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DeviceCount {
    pub model: String,
    /// of a NIC, its nearest path to a GPU
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    pub count: usize,
}

fn counts(devices: impl Iterator<Item = (String, Option<String>)>) -> Vec<DeviceCount> {
    let mut counts = BTreeMap::new();
    devices.for_each(|device| *counts.entry(device).or_default() += 1);
    let count = |((model, nearest), count)| DeviceCount {
        model,
        nearest,
        count,
    };
    counts.into_iter().map(count).collect()
}

impl Inventory {
    fn devices(&self) -> impl Iterator<Item = &DeviceCount> {
        self.gpus.iter().chain(&self.nics)
    }

    pub(super) fn count(&self) -> usize {
        self.devices().map(|of| of.count).sum()
    }

    /// Devices that one has and the other lacks: a replaced device counts once.
    pub(super) fn distance(&self, other: &Inventory) -> usize {
        let beyond = |a: &Inventory, b: &Inventory| -> usize {
            let is =
                |a: &DeviceCount, b: &DeviceCount| a.model == b.model && a.nearest == b.nearest;
            let of = |a: &_| b.devices().find(|b| is(a, b)).map_or(0, |b| b.count);
            a.devices().map(|a| a.count.saturating_sub(of(a))).sum()
        };
        beyond(self, other).max(beyond(other, self))
    }
}

type Facts = BTreeMap<Key, String>;

/// The node's name, its inventory and its facts; the error says why it cannot be compared.
pub(super) fn of(report: &Report) -> Result<(String, Inventory, Facts), String> {
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
    let mut facts = Facts::new();
    let mut node = |what: &str, value| add(&mut facts, Class::Node, "", what, value);
    node("machine", Some(report.machine.clone()));
    node("processor", report.processor.clone());
    node("steps that do not ask", report.default.clone());
    for (name, version) in &report.versions {
        node(name, Some(version.clone()));
    }
    if let Some(SaidAgreement { word, .. }) = &report.agreement {
        let rails = word.rails.iter().map(|rail| rail.nic.as_str()).collect();
        let left_out = word.left_out.iter().map(|of| of.nic.as_str()).collect();
        node("rails", Some(list(rails)));
        node("left out", Some(list(left_out)));
    }
    for node in &report.numa_nodes {
        let cpus = format!("CPUs {}", list(vec![&node.cpus]));
        add(
            &mut facts,
            Class::Numa,
            &node.node.to_string(),
            "",
            Some(cpus),
        );
    }
    report
        .gpus
        .iter()
        .enumerate()
        .for_each(|(index, of)| gpu(index, of, &mut facts));
    report.nics.iter().for_each(|of| nic(of, &mut facts));
    for finding in report.findings.iter().filter(|of| of.level != Level::Ok) {
        let about = finding.about.as_ref().unwrap_or(&finding.text);
        let subject = format!("{} {}: {about}", finding.level, finding.code);
        add(
            &mut facts,
            Class::Finding,
            &subject,
            "",
            Some(finding.text.clone()),
        );
    }
    let is_long = |text: &String| text.len() > MAX_TEXT;
    if facts
        .iter()
        .any(|(key, value)| is_long(&key.subject) || is_long(&key.what) || is_long(value))
    {
        return Err(format!("a text of it has more than {MAX_TEXT} bytes"));
    }
    let inventory = Inventory {
        machine: report.machine.clone(),
        gpus: counts(report.gpus.iter().map(|of| (model(&of.model), None))),
        nics: counts(
            report
                .nics
                .iter()
                .map(|of| (nic_model(of), of.nearest.clone())),
        ),
    };
    Ok((host, inventory, facts))
}

/// Of two of the same name the first counts; check tells no two.
fn add(facts: &mut Facts, class: Class, subject: &str, what: &str, value: Option<String>) {
    if let Some(value) = value {
        let (subject, what) = (subject.to_string(), what.to_string());
        facts
            .entry(Key {
                class,
                subject,
                what,
            })
            .or_insert(value);
    }
}

fn gpu(index: usize, gpu: &GpuReport, facts: &mut Facts) {
    let address = gpu.address.clone();
    let mut subject = address.unwrap_or_else(|| format!("number {index}"));
    if let Some(partition) = gpu.partition {
        subject.push_str(&format!(" partition {partition}"));
    }
    let mut add = |what: &str, value| add(facts, Class::Gpu, &subject, what, value);
    add("", Some(model(&gpu.model)));
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
    add(
        "NICs",
        Some(list(gpu.nics.iter().map(String::as_str).collect())),
    );
    for (name, version) in &gpu.versions {
        add(name, Some(version.clone()));
    }
}

fn nic(nic: &NicReport, facts: &mut Facts) {
    let subject = nic.address.as_ref().unwrap_or(&nic.name);
    let mut add = |what: &str, value| add(facts, Class::Nic, subject, what, value);
    add("", Some(nic_model(nic)));
    add("name", Some(nic.name.clone()));
    add("board", nic.board.clone());
    add("firmware", nic.firmware.clone());
    add("NUMA node", nic.numa_node.map(|node| node.to_string()));
    let link = nic.link.as_ref();
    add(
        "PCIe link",
        link.map(|link| format!("{} x{}", link.speed, link.width)),
    );
    add("nearest GPU", nic.nearest.clone());
    for port in &nic.ports {
        let mut add = |what: &str, value| add(&format!("port {} {what}", port.number), value);
        add("state", Some(port.state.clone()));
        add("link layer", Some(port.link_layer.clone()));
        add("subnet", port.subnet.clone());
        // a port without a link tells the rate of one lane
        let rate = port.rate_mbps.filter(|_| port.state == "active");
        add(
            "rate",
            rate.map(|rate| format!("{} Gb/s", rate as f64 / 1000.0)),
        );
    }
    add("ports", Some(nic.ports.len().to_string()));
}

fn nic_model(nic: &NicReport) -> String {
    format!("{} {}", nic.kind, model(&nic.model))
}

fn model(model: &Option<String>) -> String {
    model
        .clone()
        .unwrap_or_else(|| "of unknown model".to_string())
}

fn list(names: Vec<&str>) -> String {
    let names = names.join(" ");
    if names.is_empty() {
        "none".to_string()
    } else {
        names
    }
}
