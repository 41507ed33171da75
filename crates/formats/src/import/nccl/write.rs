//! Writes a topology so that NCCL reads it through `NCCL_TOPO_FILE`, on the machine itself and off it.
//!
//! On the machine each rank completes the file from what it sees: its own GPU and every NIC, with all above them, and
//! then joins the files of a node's ranks into one (src/graph/topo.cc, `ncclTopoGetSystem`).  So the file holds what
//! stands where, and leaves to NCCL what it adds itself:
//!
//! * no `<nic>`: a `<net>` that NCCL finds by its name it takes as it is (xml.cc, `ncclTopoFillNet`).  The `<cpu>` above it
//!   then has no identity ("Attribute arch of node cpu not found"), and switches that one rank completes and another
//!   does not are two switches when the files are joined, each with a copy of the NICs;
//! * no `<gpu>`: its `dev` is NVML's number, which is another one where a cgroup hides GPUs;
//! * no `host_hash`, which is the host's own.
//!
//! NCCL finds devices by `busid` and keeps them where the file has them.  That is how a file joins what the bus of a virtual
//! machine does not show together: a GPU and a NIC whose path is stated stand below a switch that we invent (`place`).
//!
//! It climbs bridges as NCCL does, two at a time: a switch's ports become one `<pci>` and root ports none.
//!
//! The file has no names, ports, rates or roles of NICs, and of GPUs the addresses alone: NCCL finds these on the machine.  NCCL
//! knows no NODE: such a path is PHB to it.

mod place;

use super::{BRIDGE, values};
use nic_placement_core::topology::{
    Arch, DeviceName, Gpu, GpuVendor, LinkRate, PciAddress, Processor, Topology,
};
use place::{Above, Places};
use std::fmt::Write;

/// The longest value that NCCL's reader holds (`MAX_STR_LEN` of src/graph/xml.h, less the quote and the NUL).
const MAX_VALUE: usize = 253;
/// The most elements that NCCL's reader holds (`NCCL_TOPO_XML_MAX_NODES` of src/graph/topo.h).
const MAX_ELEMENTS: usize = 256;
/// The most elements inside another one, in NCCL 2.21 to 2.28 (`MAX_SUBS` of src/graph/xml.h).
const MAX_INSIDE: usize = 128;

/// An error if NCCL reads fewer elements than it needs, with those that it adds itself.
pub fn write(node: &Topology) -> Result<String, String> {
    let places = Places::new(node);
    check_size(node, &places)?;
    let mut writer = Writer {
        node,
        places: &places,
        text: String::new(),
    };
    let name = Some(node.name.as_str()).filter(|name| DeviceName::is_one(name));
    // RCCL's own number of the format is 2 (NCCL_TOPO_XML_VERSION of its src/graph/xml.h)
    let version = if is_amd(node) { "2" } else { "1" };
    writer.open(
        0,
        "system",
        &[
            ("version", Some(version.to_string())),
            ("name", name.map(String::from)),
        ],
        false,
    );
    for numa_node in places.cpus() {
        writer.cpu(numa_node);
    }
    writer.close(0, "system");
    Ok(writer.text)
}

/// True if all GPUs are AMD's: RCCL reads the file.
fn is_amd(node: &Topology) -> bool {
    !node.gpus.is_empty() && node.gpus.iter().all(|gpu| gpu.vendor == GpuVendor::Amd)
}

fn check_size(node: &Topology, places: &Places) -> Result<(), String> {
    // NCCL adds a `<gpu>` with links to seven others or six NVSwitches to each GPU, and a `<nic>`
    // with a `<net>` for each port to each NIC
    let gpus = node.gpus.len() * 8;
    let ports: usize = node.nics.iter().map(|nic| 1 + nic.ports.len().max(1)).sum();
    let elements = 1 + places.elements() + gpus + ports;
    if elements > MAX_ELEMENTS && !is_amd(node) {
        let read =
            format!("NCCL reads `{MAX_ELEMENTS}` elements and needs `{elements}` for this node");
        return Err(read);
    }
    match places.most_inside() {
        many if many > MAX_INSIDE => Err(format!(
            "NCCL reads `{MAX_INSIDE}` elements inside one, and this node needs `{many}`"
        )),
        _ => Ok(()),
    }
}

struct Writer<'a> {
    node: &'a Topology,
    places: &'a Places,
    text: String,
}

type Attributes<'a> = [(&'a str, Option<String>)];

impl Writer<'_> {
    fn open(&mut self, indent: usize, name: &str, attributes: &Attributes<'_>, is_empty: bool) {
        let _ = write!(self.text, "{:indent$}<{name}", "");
        for (key, value) in attributes {
            if let Some(value) = value {
                let _ = write!(self.text, " {key}=\"{value}\"");
            }
        }
        self.text.push_str(if is_empty { "/>\n" } else { ">\n" });
    }

    fn close(&mut self, indent: usize, name: &str) {
        let _ = writeln!(self.text, "{:indent$}</{name}>", "");
    }

    fn cpu(&mut self, numa_node: Option<u32>) {
        let node = numa_node.and_then(|node| self.node.numa_node(node));
        // as wide as the kernel's mask, which has room for every CPU
        let count = self.node.cpus().iter().last().map_or(0, |last| last + 1);
        // without it NCCL asks the kernel of the machine; all zeros would be the node's CPUs
        let affinity = node
            .filter(|node| !node.cpus.is_empty())
            .map(|node| values::mask(&node.cpus, count))
            .filter(|mask| mask.len() <= MAX_VALUE);
        let numaid = numa_node.map_or("-1".to_string(), |node| node.to_string());
        let below = self.places.below(Above::Cpu(numa_node));
        let [arch, vendor, family, model] = identity(self.node.processor.as_ref());
        let attributes = [
            ("numaid", Some(numaid)),
            ("affinity", affinity),
            ("arch", arch),
            ("vendor", vendor),
            ("familyid", family),
            ("modelid", model),
        ];
        self.open(2, "cpu", &attributes, below.is_empty());
        for &address in &below {
            self.pci(4, address);
        }
        if !below.is_empty() {
            self.close(2, "cpu");
        }
    }

    fn pci(&mut self, indent: usize, address: PciAddress) {
        let below = self.places.below(Above::Switch(address));
        let function = self.node.pci.get(address);
        let gpu = self.node.gpus.iter().find(|gpu| gpu.address == address);
        let class = self.class(address, gpu.is_some());
        let id = |id: Option<u16>| id.map(|id| format!("0x{id:04x}"));
        // NCCL takes a Broadcom switch and its parts for one by these four (topo.cc, `ncclTopoFlattenBcmSwitches`), and
        // completes those that it finds missing
        let subsystem = function.and_then(|function| function.subsystem);
        let rate = self.places.rate(self.node, address);
        let attributes = [
            ("busid", Some(self.places.bus_id(address))),
            ("class", Some(class)),
            (
                "vendor",
                id(function
                    .and_then(|function| function.vendor)
                    .or(gpu.map(vendor_id))),
            ),
            ("device", id(function.and_then(|function| function.device))),
            ("subsystem_vendor", id(subsystem.map(|(vendor, _)| vendor))),
            ("subsystem_device", id(subsystem.map(|(_, device)| device))),
            ("link_speed", rate.map(speed)),
            ("link_width", rate.map(|rate| rate.width.to_string())),
        ];
        self.open(indent, "pci", &attributes, below.is_empty());
        for &address in &below {
            self.pci(indent + 2, address);
        }
        if !below.is_empty() {
            self.close(indent, "pci");
        }
    }

    /// NCCL's own values for a device whose class does not tell what it is.
    fn class(&self, address: PciAddress, is_gpu: bool) -> String {
        let class = self
            .node
            .pci
            .get(address)
            .and_then(|function| function.class);
        let class = class.map(|class| format!("0x{class:06x}"));
        let is_nic = self
            .node
            .nics
            .iter()
            .any(|nic| nic.address == Some(address));
        let (tells, otherwise) = match (is_gpu, is_nic) {
            (true, _) => (
                class.as_deref().is_some_and(values::is_gpu),
                "0x03".to_string(),
            ),
            (false, true) => (
                class
                    .as_deref()
                    .is_some_and(|class| class.starts_with("0x02")),
                "0x02".to_string(),
            ),
            (false, false) => (class.is_some(), format!("0x{BRIDGE:06x}")),
        };
        class.filter(|_| tells).unwrap_or(otherwise)
    }
}

/// `32.0 GT/s PCIe`: NCCL compares the text (`kvDictPciGen` of topo.cc).
fn speed(rate: LinkRate) -> String {
    format!("{}.{} GT/s PCIe", rate.tenths_gt / 10, rate.tenths_gt % 10)
}

/// `arch`, `vendor`, `familyid`, `modelid`, as NCCL reads them from CPUID (xml.cc, `ncclTopoGetXmlFromCpu`).
fn identity(processor: Option<&Processor>) -> [Option<String>; 4] {
    let Some(processor) = processor else {
        return [None, None, None, None];
    };
    let arch = match processor.arch {
        Arch::X86 => "x86_64",
        Arch::Arm => "arm64",
        Arch::Power => "ppc64",
    };
    let arch = Some(arch.to_string());
    match processor.x86 {
        // NCCL wants the maker of an x86, so half an identity would be worse than none
        None if processor.arch == Arch::X86 => [None, None, None, None],
        None => [arch, None, None, None],
        Some(x86) => [
            arch,
            Some(x86.vendor.to_string()),
            Some(values::family_of_nccl(x86.family).to_string()),
            Some(x86.model.to_string()),
        ],
    }
}

fn vendor_id(gpu: &Gpu) -> u16 {
    match gpu.vendor {
        GpuVendor::Nvidia => 0x10de,
        GpuVendor::Amd => 0x1002,
        GpuVendor::Intel => 0x8086,
    }
}
