//! From the node to the file, one line for each element of its lists.
#![forbid(unsafe_code)]

use super::function::{self, Link};
use super::schema::{self, File};
use super::text::Text;
use super::{FORMAT, MAX_TEXT, VERSION};
use crate::topology::{Bitmap, Gpu, LinkRate, Nic, PciFunction, PciParent, Port, Pu, Topology, package_of};
use serde::Serialize;
use serde_json::ser::Formatter;
use std::collections::BTreeMap;
use std::io;

/// The word for `value`; `None` for values that are not written.
fn word<T: PartialEq>(words: &[(&'static str, T)], value: T) -> Option<Text<'static>> {
    words.iter().find(|(_, meaning)| *meaning == value).map(|&(word, _)| word.into())
}

fn text(text: &Option<String>) -> Option<Text<'_>> {
    text.as_deref().map(Text::from)
}

pub(super) fn file<'a>(topology: &'a Topology, sources: &'a [String]) -> File<'a> {
    let numa_nodes = topology.numa_nodes.iter().map(|node| schema::NumaNode {
        os_index: node.os_index,
        cpus: Text::of(&node.cpus),
        distances: node.distances.clone(),
        package: match (node.package, package_of(&topology.pus, &node.cpus)) {
            (own, told) if own == told => None,
            (own, _) => Some(own.map_or(-1, i64::from)),
        },
    });
    let paths = topology.stated_paths.iter().map(|((gpu, nic), path)| schema::StatedPath {
        gpu: Text::of(gpu),
        nic: Text::of(nic),
        path: Text::of(path),
    });
    File {
        format: FORMAT.into(),
        version: VERSION,
        name: Text::of(one_line(&topology.name)),
        sources: sources.iter().map(|source| source.as_str().into()).collect(),
        processor: topology.processor.as_ref().map(|processor| schema::Processor {
            arch: word(&schema::ARCHS, processor.arch).unwrap_or("".into()),
            vendor: processor.x86.map(|x86| x86.vendor.word().into()),
            family: processor.x86.map(|x86| x86.family),
            model: processor.x86.map(|x86| x86.model),
        }),
        numa_nodes: numa_nodes.collect(),
        pus: cores(&topology.pus),
        pci: topology.pci.iter().map(function).collect(),
        gpus: topology.gpus.iter().map(gpu).collect(),
        nics: topology.nics.iter().map(nic).collect(),
        paths: paths.collect(),
    }
}

/// The cores, those together that differ by a number.
fn cores<'a>(pus: &[Pu]) -> Vec<schema::Core<'a>> {
    let mut cores: BTreeMap<(u32, u32), Bitmap> = BTreeMap::new();
    for pu in pus {
        cores.entry((pu.package, pu.core)).or_default().insert(pu.os_index);
    }
    let mut rows = Vec::new();
    let mut rest = cores.into_iter().peekable();
    while let Some(((package, core), first)) = rest.next() {
        let (mut count, mut step) = (1, 1);
        let mut last = first.clone();
        while let Some(((_, _), next)) =
            rest.peek().filter(|((at, next), _)| *at == package && core.checked_add(count) == Some(*next))
        {
            let above = step_between(&last, next);
            // the second core says by how much each one is above the one before it
            if above.is_none_or(|above| count > 1 && above != step) {
                break;
            }
            (step, last, count) = (above.unwrap_or(step), next.clone(), count + 1);
            rest.next();
        }
        let unless_one = |number: u32| (number != 1).then_some(number);
        rows.push(schema::Core {
            package,
            core,
            pus: Text::of(&first),
            cores: unless_one(count),
            step: unless_one(step),
        });
    }
    rows
}

/// By how much each member of the second set is above the one in its place in the first.
fn step_between(low: &Bitmap, high: &Bitmap) -> Option<u32> {
    let step = high.first()?.checked_sub(low.first()?).filter(|&step| step > 0)?;
    let same = low.len() == high.len() && low.iter().zip(high.iter()).all(|(low, high)| low + step == high);
    same.then_some(step)
}

fn function(function: &PciFunction) -> function::PciFunction<'_> {
    let rate = |rate: Option<LinkRate>| rate.map(Text::of);
    let hex4 = |id: Option<u16>| id.map(|id| Text::of(format_args!("0x{id:04x}")));
    let ids = |(vendor, device)| Text::of(format_args!("{vendor:04x}:{device:04x}"));
    function::PciFunction {
        address: Text::of(function.address),
        parent: match function.parent {
            PciParent::Bridge(bridge) => Text::of(bridge),
            PciParent::Host(host) => Text::of(host),
        },
        class: function.class.map(|class| Text::of(format_args!("0x{class:06x}"))),
        vendor: hex4(function.vendor),
        device: hex4(function.device),
        subsystem: function.subsystem.map(ids),
        numa_node: function.numa_node,
        local_cpus: function.local_cpus.as_ref().map(Text::of),
        link: Link { current: rate(function.link.current), max: rate(function.link.max) },
        physfn: function.physfn.map(Text::of),
        vfs: function.vfs,
        iommu: text(&function.iommu),
    }
}

fn gpu(gpu: &Gpu) -> schema::Gpu<'_> {
    schema::Gpu {
        address: Text::of(gpu.address),
        partition: gpu.partition,
        vendor: word(&schema::VENDORS, gpu.vendor).unwrap_or("".into()),
        minor: gpu.minor,
        uuid: text(&gpu.uuid),
        model: text(&gpu.model),
        runtime_index: gpu.runtime_index,
        mig_instances: gpu.mig_instances,
    }
}

fn nic(nic: &Nic) -> schema::Nic<'_> {
    schema::Nic {
        name: nic.name.as_str().into(),
        kind: word(&schema::KINDS, nic.kind),
        address: nic.address.map(Text::of),
        role: nic.role.and_then(|role| word(&schema::ROLES, role)),
        uverbs: text(&nic.uverbs),
        netdevs: nic.netdevs.iter().map(|netdev| netdev.as_str().into()).collect(),
        guid: text(&nic.guid),
        card: text(&nic.card),
        ports: nic.ports.iter().map(port).collect(),
    }
}

/// A name as a file can hold it: a broken firmware may say anything.
fn one_line(name: &str) -> String {
    let kept: String = name.chars().filter(|letter| !letter.is_control()).take(MAX_TEXT).collect();
    if kept.is_empty() { "node".to_string() } else { kept }
}

fn port(port: &Port) -> schema::Port<'_> {
    schema::Port {
        number: port.number,
        state: word(&schema::STATES, port.state),
        rate_mbps: port.rate_mbps,
        link_layer: word(&schema::LINK_LAYERS, port.link_layer),
        phys_state: text(&port.phys_state),
        netdev: text(&port.netdev),
        subnet: port.subnet.map(Text::of),
        gid_type: text(&port.gid_type),
        default_route: text(&port.default_route),
        networks: port.networks.iter().map(Text::of).collect(),
        routes_elsewhere: port.routes_elsewhere,
        other_namespace: port.other_namespace,
    }
}

pub(super) fn json(file: &File) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Lines::default());
    // this cannot fail: the file has string keys only, and a Vec takes every byte
    file.serialize(&mut serializer).expect("a topology file is always valid JSON");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("serde_json writes UTF-8")
}

/// Breaks lines only between the file's fields and between the elements of its lists: a machine fits a
/// screen, and a diff names the function or the port that changed.
#[derive(Default)]
struct Lines {
    depth: usize,
    has_elements: bool,
}

impl Lines {
    fn separate<W: io::Write + ?Sized>(
        &self,
        out: &mut W,
        first: bool,
        broken_depth: usize,
    ) -> io::Result<()> {
        match (first, self.depth == broken_depth) {
            (true, true) => write!(out, "\n{:1$}", "", 2 * self.depth),
            (false, true) => write!(out, ",\n{:1$}", "", 2 * self.depth),
            (true, false) => Ok(()),
            (false, false) => out.write_all(b", "),
        }
    }
}

impl Formatter for Lines {
    fn begin_object<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"{")
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first, 1)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        out.write_all(if self.depth == 0 { b"\n}" } else { b"}" })
    }

    fn begin_array<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.has_elements = false;
        out.write_all(b"[")
    }

    fn begin_array_value<W: io::Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first, 2)
    }

    fn end_array_value<W: io::Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_elements = true;
        Ok(())
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        out.write_all(if self.depth == 1 && self.has_elements { b"\n  ]" } else { b"]" })
    }
}
