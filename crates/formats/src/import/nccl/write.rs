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

use super::values;
use nic_placement_core::topology::{
    Arch, DeviceName, Gpu, GpuVendor, LinkRate, PciAddress, Processor, Topology,
};
use place::{Above, Places};

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
    let name = Some(node.name.as_str()).filter(|name| DeviceName::is_one(name));
    // RCCL's own number of the format is 2 (NCCL_TOPO_XML_VERSION of its src/graph/xml.h)
    let version = if is_amd(node) { "2" } else { "1" };
    let attributes = [
        ("version", Some(version.to_string())),
        ("name", name.map(String::from)),
    ];
    let writer = Writer {
        node,
        places: &places,
    };
    let cpus: String = places.cpus().map(|cpu| writer.cpu(cpu)).collect();
    Ok(element(0, "system", &attributes, &cpus))
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
}

fn element(
    indent: usize,
    name: &str,
    attributes: &[(&str, Option<String>)],
    inside: &str,
) -> String {
    let known = attributes.iter();
    let known = known.filter_map(|(key, value)| Some(format!(" {key}=\"{}\"", value.as_ref()?)));
    let (blank, known) = (" ".repeat(indent), known.collect::<String>());
    if inside.is_empty() {
        format!("{blank}<{name}{known}/>\n")
    } else {
        format!("{blank}<{name}{known}>\n{inside}{blank}</{name}>\n")
    }
}

impl Writer<'_> {
    fn cpu(&self, numa_node: Option<u32>) -> String {
        let node = numa_node.and_then(|node| self.node.numa_node(node));
        // as wide as the kernel's mask, which has room for every CPU
        let count = self.node.cpus().iter().last().map_or(0, |last| last + 1);
        // without it NCCL asks the kernel of the machine; all zeros would be the node's CPUs
        let affinity = node
            .filter(|node| !node.cpus.is_empty())
            .map(|node| values::mask(&node.cpus, count))
            .filter(|mask| mask.len() <= MAX_VALUE);
        let numaid = numa_node.map_or("-1".to_string(), |node| node.to_string());
        let [arch, vendor, family, model] = identity(self.node.processor.as_ref());
        let attributes = [
            ("numaid", Some(numaid)),
            ("affinity", affinity),
            ("arch", arch),
            ("vendor", vendor),
            ("familyid", family),
            ("modelid", model),
        ];
        element(2, "cpu", &attributes, &self.below(4, Above::Cpu(numa_node)))
    }

    fn below(&self, indent: usize, above: Above) -> String {
        let below = self.places.below(above).into_iter();
        below.map(|address| self.pci(indent, address)).collect()
    }

    fn pci(&self, indent: usize, address: PciAddress) -> String {
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
        let below = self.below(indent + 2, Above::Switch(address));
        element(indent, "pci", &attributes, &below)
    }

    /// NCCL's own values for a device whose class does not tell what it is.
    fn class(&self, address: PciAddress, is_gpu: bool) -> String {
        let class = self
            .node
            .pci
            .get(address)
            .and_then(|function| function.class);
        let class = class.map(|class| format!("0x{class:06x}"));
        let mut nics = self.node.nics.iter();
        let own = class.as_deref().unwrap_or_default();
        let (tells, otherwise) = if is_gpu {
            (values::is_gpu(own), "0x03")
        } else if nics.any(|nic| nic.address == Some(address)) {
            (own.starts_with("0x02"), "0x02")
        } else {
            (true, "0x060400")
        };
        class.filter(|_| tells).unwrap_or(otherwise.to_string())
    }
}

/// `32.0 GT/s PCIe`: NCCL compares the text (`kvDictPciGen` of topo.cc).
fn speed(rate: LinkRate) -> String {
    format!("{}.{} GT/s PCIe", rate.tenths_gt / 10, rate.tenths_gt % 10)
}

/// `arch`, `vendor`, `familyid`, `modelid`, as NCCL reads them from CPUID (xml.cc, `ncclTopoGetXmlFromCpu`).
fn identity(processor: Option<&Processor>) -> [Option<String>; 4] {
    let (arch, x86) = match processor.map(|of| (of.arch, of.x86.as_ref())) {
        Some((Arch::Arm, _)) => ("arm64", None),
        Some((Arch::Power, _)) => ("ppc64", None),
        Some((Arch::X86, Some(x86))) => ("x86_64", Some(x86)),
        // NCCL wants the maker of an x86, so half an identity would be worse than none
        Some((Arch::X86, None)) | None => return [None, None, None, None],
    };
    [
        Some(arch.to_string()),
        x86.map(|x86| x86.vendor.to_string()),
        x86.map(|x86| values::family_of_nccl(x86.family).to_string()),
        x86.map(|x86| x86.model.to_string()),
    ]
}

fn vendor_id(gpu: &Gpu) -> u16 {
    match gpu.vendor {
        GpuVendor::Nvidia => 0x10de,
        GpuVendor::Amd => 0x1002,
        GpuVendor::Intel => 0x8086,
    }
}
