//! From the file to the node, with every check that makes a topology consistent.
#![forbid(unsafe_code)]

mod cores;
mod pci;

use super::schema::{self, File};
use super::text::Text;
use super::values::{
    Once, Place, Result, at_most, dangling, device_name, free_text, list, name, network, optional,
    pci_address, subnet, twice, word, wrong,
};
use super::{
    MAX_GPUS, MAX_MIG_INSTANCES, MAX_NETDEVS, MAX_NETWORKS, MAX_NICS, MAX_NUMA_NODES, MAX_PORTS,
    MAX_RATE_MBPS,
};
use crate::order::Order;
use crate::topology::{
    Arch, Bitmap, CpuVendor, Gpu, GpuVendor, LinkLayer, Network, Nic, NumaNode, PathType, PciAddress,
    PciTree, Port, PortState, Processor, Provenance, Pu, Topology, X86, package_of,
};
use std::collections::BTreeMap;
use std::fmt::{self, Display};

pub(super) fn topology(file: File, provenance: Provenance) -> Result<Topology> {
    let mut topology = Topology::empty(&machine(Place::of("name"), &file.name)?, provenance);
    check_sources(&file.sources)?;
    topology.processor = file.processor.as_ref().map(processor).transpose()?;
    topology.pus = cores::pus(&file.pus)?;
    topology.numa_nodes = numa_nodes(&file.numa_nodes, &topology.pus)?;
    topology.pci = pci::tree(&file.pci, &topology)?;
    // every function with another below it is a bridge
    let mut bridges: Vec<PciAddress> =
        topology.pci.iter().filter_map(|function| function.parent.bridge()).collect();
    bridges.order();
    let endpoint = |place: Place, text: &str| {
        let address: PciAddress = pci_address(place, text)?;
        if topology.pci.get(address).is_none() {
            return Err(dangling(place, address, "pci"));
        }
        if bridges.binary_search(&address).is_ok() {
            return Err(wrong(place, text, "a function that has no other below it"));
        }
        Ok(address)
    };
    let gpus = gpus(&file.gpus, &topology.pci, endpoint)?;
    let nics = nics(&file.nics, &gpus, endpoint)?;
    topology.stated_paths = paths(&file.paths, &gpus, &nics)?;
    (topology.gpus, topology.nics) = (gpus, nics);
    topology.sort();
    Ok(topology)
}

/// The machine's name: the vendors' own products have spaces (`PowerEdge XE9680`).
fn machine(place: Place, text: &str) -> Result<String> {
    match free_text(place, text)? {
        empty if empty.is_empty() => Err(wrong(place, text, "the machine's name")),
        name => Ok(name),
    }
}

fn processor(processor: &schema::Processor) -> Result<Processor> {
    let arch = word(Place::of("processor").field("arch"), &processor.arch, &schema::ARCHS)?;
    let x86 = match (&processor.vendor, processor.family, processor.model) {
        (Some(vendor), Some(family), Some(model)) if arch == Arch::X86 => {
            let place = Place::of("processor").field("vendor");
            let vendor = CpuVendor::from_word(vendor)
                .ok_or_else(|| wrong(place, vendor, "a maker's word such as `GenuineIntel`"))?;
            // the kernel's words for a processor have four digits for each number
            for (field, number) in [("family", family), ("model", model)] {
                if number > 0xffff {
                    return Err(wrong(Place::of("processor").field(field), number, "a number below `65536`"));
                }
            }
            Some(X86 { vendor, family, model })
        }
        (None, None, None) => None,
        _ => {
            return Err(wrong(
                Place::of("processor"),
                &processor.arch,
                "`vendor`, `family` and `model` together, on `x86_64`",
            ));
        }
    };
    Ok(Processor { arch, x86 })
}

pub(super) fn check_sources(sources: &[Text]) -> Result<()> {
    sources
        .iter()
        .enumerate()
        .try_for_each(|(i, source)| free_text(Place::of("sources").nth(i), source).map(drop))
}

fn numa_nodes(nodes: &[schema::NumaNode], pus: &[Pu]) -> Result<Vec<NumaNode>> {
    at_most(Place::of("numa_nodes"), nodes.len(), MAX_NUMA_NODES)?;
    let (mut indices, mut cpus_seen) = (Once::new(), Bitmap::new());
    let mut all: Vec<NumaNode> = Vec::with_capacity(nodes.len());
    let cpus_of = |i| Place::of("numa_nodes").nth(i).field("cpus");
    for (i, node) in nodes.iter().enumerate() {
        let place = Place::of("numa_nodes").nth(i).field("os_index");
        if node.os_index as usize >= MAX_NUMA_NODES {
            return Err(wrong(place, node.os_index, format!("a number below `{MAX_NUMA_NODES}`")));
        }
        indices.add(place, node.os_index)?;
        let cpus = list(cpus_of(i), &node.cpus)?;
        if let Some(cpu) = cpus_seen.intersection(&cpus).first() {
            let first = all.iter().position(|other| other.cpus.contains(cpu)).map(cpus_of);
            return Err(twice(cpus_of(i), cpu, first.unwrap_or(cpus_of(i))));
        }
        cpus_seen.add(&cpus);
        let distances = node.distances.clone();
        if !distances.is_empty() && distances.len() != nodes.len() {
            let place = Place::of("numa_nodes").nth(i).field("distances");
            let expected = format!("`{}`, one for each NUMA node", nodes.len());
            return Err(wrong(place, format_args!("{} distances", distances.len()), expected));
        }
        let package = match node.package {
            None => package_of(pus, &cpus),
            Some(-1) => None,
            Some(number) => Some(u32::try_from(number).map_err(|_| {
                let place = Place::of("numa_nodes").nth(i).field("package");
                wrong(place, number, "the number of a package, or `-1` where it is unknown")
            })?),
        };
        all.push(NumaNode { os_index: node.os_index, cpus, distances, package });
    }
    Ok(all)
}

fn gpus(
    gpus: &[schema::Gpu],
    pci: &PciTree,
    endpoint: impl Fn(Place, &str) -> Result<PciAddress>,
) -> Result<Vec<Gpu>> {
    at_most(Place::of("gpus"), gpus.len(), MAX_GPUS)?;
    let (mut addresses, mut uuids, mut device_nodes) = (Once::new(), Once::new(), Once::new());
    let mut runtime_indices = Once::new();
    let mut all = Vec::with_capacity(gpus.len());
    for (i, gpu) in gpus.iter().enumerate() {
        let at = |field| Place::of("gpus").nth(i).field(field);
        let address = endpoint(at("address"), &gpu.address)?;
        addresses.add(at("address"), GpuId(address, gpu.partition))?;
        let vendor = word(at("vendor"), &gpu.vendor, &schema::VENDORS)?;
        let pci_vendor = pci.get(address).and_then(|function| function.vendor);
        if let Some(id) = pci_vendor.filter(|&id| GpuVendor::from_pci(id) != Some(vendor)) {
            let expected = format!("the vendor of `{address}` in `pci`, `0x{id:04x}`");
            return Err(wrong(at("vendor"), &gpu.vendor, expected));
        }
        let uuid = optional(&gpu.uuid, |text| name(at("uuid"), text))?;
        if let Some(uuid) = gpu.uuid.as_deref() {
            uuids.add(at("uuid"), uuid)?;
        }
        let model = optional(&gpu.model, |text| free_text(at("model"), text))?;
        if let Some(count) = gpu.mig_instances.filter(|count| !(1..=MAX_MIG_INSTANCES).contains(count)) {
            let expected = format!("a number from `1` to `{MAX_MIG_INSTANCES}`");
            return Err(wrong(at("mig_instances"), count, expected));
        }
        let name_of_vendor = &gpu.vendor;
        let gpu = Gpu {
            address,
            partition: gpu.partition,
            vendor,
            minor: gpu.minor,
            uuid,
            model,
            runtime_index: gpu.runtime_index,
            mig_instances: gpu.mig_instances,
        };
        if let Some(node) = gpu.device_node() {
            device_nodes.add(at("minor"), node)?;
        }
        if let Some(index) = gpu.runtime_index {
            runtime_indices.add(at("runtime_index"), format!("{name_of_vendor} {index}"))?;
        }
        all.push(gpu);
    }
    Ok(all)
}

fn nics(
    nics: &[schema::Nic],
    gpus: &[Gpu],
    endpoint: impl Fn(Place, &str) -> Result<PciAddress>,
) -> Result<Vec<Nic>> {
    at_most(Place::of("nics"), nics.len(), MAX_NICS)?;
    let (mut names, mut uverbs_seen) = (Once::new(), Once::new());
    let mut all = Vec::with_capacity(nics.len());
    for (i, nic) in nics.iter().enumerate() {
        let at = |field| Place::of("nics").nth(i).field(field);
        let nic_name = device_name(at("name"), &nic.name)?;
        names.add(at("name"), &*nic.name)?;
        // several NICs may share a function: the subfunctions of a ConnectX do
        let address = optional(&nic.address, |text| endpoint(at("address"), text))?;
        if let Some(gpu) = gpus.iter().find(|gpu| Some(gpu.address) == address) {
            return Err(wrong(at("address"), gpu.address, "a function that is not a GPU"));
        }
        let uverbs = optional(&nic.uverbs, |text| name(at("uverbs"), text))?;
        if let Some(uverbs) = nic.uverbs.as_deref() {
            uverbs_seen.add(at("uverbs"), uverbs)?;
        }
        at_most(at("netdevs"), nic.netdevs.len(), MAX_NETDEVS)?;
        let (mut netdevs, mut netdevs_seen) = (Vec::with_capacity(nic.netdevs.len()), Once::new());
        for (k, netdev) in nic.netdevs.iter().enumerate() {
            let place = at("netdevs").nth(k);
            netdevs.push(name(place, netdev)?);
            netdevs_seen.add(place, &**netdev)?;
        }
        all.push(Nic {
            name: nic_name,
            kind: optional(&nic.kind, |text| word(at("kind"), text, &schema::KINDS))?.unwrap_or_default(),
            address,
            role: optional(&nic.role, |text| word(at("role"), text, &schema::ROLES))?,
            ports: ports(at("ports"), &nic.ports)?,
            uverbs,
            netdevs,
            guid: optional(&nic.guid, |text| free_text(at("guid"), text))?,
            card: optional(&nic.card, |text| free_text(at("card"), text))?,
        });
    }
    Ok(all)
}

fn ports(place: Place, ports: &[schema::Port]) -> Result<Vec<Port>> {
    at_most(place, ports.len(), MAX_PORTS)?;
    let mut numbers = Once::new();
    let mut all = Vec::with_capacity(ports.len());
    for (k, port) in ports.iter().enumerate() {
        let at = |field| place.nth(k).field(field);
        if port.number == 0 {
            return Err(wrong(at("number"), 0, "a number from `1`"));
        }
        numbers.add(at("number"), port.number)?;
        if let Some(rate) = port.rate_mbps.filter(|&rate| rate > MAX_RATE_MBPS) {
            return Err(wrong(at("rate_mbps"), rate, format!("at most `{MAX_RATE_MBPS}`")));
        }
        let state = optional(&port.state, |text| word(at("state"), text, &schema::STATES))?;
        let layer = optional(&port.link_layer, |text| word(at("link_layer"), text, &schema::LINK_LAYERS))?;
        all.push(Port {
            number: port.number,
            state: state.unwrap_or(PortState::Unknown),
            rate_mbps: port.rate_mbps,
            link_layer: layer.unwrap_or(LinkLayer::Unknown),
            phys_state: optional(&port.phys_state, |text| name(at("phys_state"), text))?,
            netdev: optional(&port.netdev, |text| name(at("netdev"), text))?,
            subnet: optional(&port.subnet, |text| subnet(at("subnet"), text))?,
            gid_type: optional(&port.gid_type, |text| free_text(at("gid_type"), text))?,
            default_route: optional(&port.default_route, |text| name(at("default_route"), text))?,
            networks: networks(at("networks"), &port.networks)?,
            routes_elsewhere: port.routes_elsewhere,
            other_namespace: port.other_namespace,
        });
    }
    Ok(all)
}

fn networks(place: Place, networks: &[Text]) -> Result<Vec<Network>> {
    at_most(place, networks.len(), MAX_NETWORKS)?;
    networks.iter().enumerate().map(|(n, text)| network(place.nth(n), text)).collect()
}

fn paths(
    paths: &[schema::StatedPath],
    gpus: &[Gpu],
    nics: &[Nic],
) -> Result<BTreeMap<(PciAddress, PciAddress), PathType>> {
    at_most(Place::of("paths"), paths.len(), MAX_GPUS * MAX_NICS)?;
    let mut all = BTreeMap::new();
    for (i, path) in paths.iter().enumerate() {
        let at = |field| Place::of("paths").nth(i).field(field);
        let gpu: PciAddress = pci_address(at("gpu"), &path.gpu)?;
        if !gpus.iter().any(|known| known.address == gpu) {
            return Err(dangling(at("gpu"), gpu, "gpus"));
        }
        let nic: PciAddress = pci_address(at("nic"), &path.nic)?;
        if !nics.iter().any(|known| known.address == Some(nic)) {
            return Err(dangling(at("nic"), nic, "nics"));
        }
        let kind = word(at("path"), &path.path, &schema::PATHS)?;
        if all.insert((gpu, nic), kind).is_some() {
            return Err(wrong(at("gpu"), gpu, format!("one path only between it and `{nic}`")));
        }
    }
    Ok(all)
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct GpuId(PciAddress, Option<u32>);

impl Display for GpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(partition) => write!(f, "{} partition {partition}", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}
