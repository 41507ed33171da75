//! Reads hwloc's XML (`lstopo machine.xml`) of versions 2 and 3: NUMA nodes, CPUs, GPUs, NICs and the PCI bridges above them,
//! each where hwloc has it.
//!
//! Facts that the file lacks stay unknown.  A contradiction is an error, what is left out a diagnostic.

mod devices;
#[cfg(test)]
mod tests;

use super::{BadText, Imported, Result, mask, numa_node, number, shown, xml};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::file::{MAX_NUMA_NODES, MAX_PCI};
use nic_placement_core::topology::{
    Arch, Bitmap, CpuSet, DeviceName, Processor, Provenance, Pu, Topology,
};
use roxmltree::{Document, Node};
use std::collections::BTreeMap;

/// The most objects inside each other; hwloc's deepest machines have about 20.
const MAX_DEPTH: usize = 128;
/// The most PCI and OS devices, disks and the like included: the largest file known has some hundreds.
const MAX_DEVICES: usize = 4 * MAX_PCI;
/// Subtypes of nodes that hold memory only.
const MEMORY_ONLY: [&str; 6] = ["GPUMemory", "MCDRAM", "HBM", "NVM", "SPM", "CXL"];
/// `HWLOC_DISTANCES_KIND_MEANS_LATENCY` of hwloc/distances.h.
const MEANS_LATENCY: u32 = 1 << 2;
/// The largest distance; ACPI's are bytes.
const MAX_DISTANCE: u32 = 1_000_000;

pub fn read(text: &str, provenance: Provenance) -> Result<(Topology, Vec<Diagnostic>)> {
    let document = xml::parse(text)?;
    let file = Objects::new(&document)?;
    let mut to = Imported::new(&file.name(), provenance);
    to.topology.processor = file.processor();
    file.numa_nodes(&mut to)?;
    file.pus(&mut to)?;
    if let Err(finding) = file.distances(&mut to.topology) {
        to.note("distances", finding);
    }
    devices::read(&file, &mut to)?;
    to.finish()
}

struct Object<'d> {
    index: usize,
    /// `hwloc_obj_type_t`
    kind: &'d str,
    element: Node<'d, 'd>,
    parent: Option<usize>,
    depth: usize,
}

/// The objects of the file, flat and in its order.
struct Objects<'d> {
    version: u32,
    root: Node<'d, 'd>,
    objects: Vec<Object<'d>>,
}

fn children<'d>(parent: Node<'d, 'd>, name: &'static str) -> impl Iterator<Item = Node<'d, 'd>> {
    parent
        .children()
        .filter(move |child| child.has_tag_name(name))
}

fn info_of<'d>(element: Node<'d, 'd>, name: &str) -> Option<&'d str> {
    let mut infos = children(element, "info");
    let info = infos.find(|info| info.attribute("name") == Some(name))?;
    info.attribute("value")
}

impl<'d> Object<'d> {
    fn attribute(&self, name: &str) -> Option<&'d str> {
        let value = self.element.attribute(name);
        value.filter(|value| !value.is_empty())
    }

    fn info(&self, name: &str) -> Option<&'d str> {
        info_of(self.element, name)
    }

    fn name(&self) -> &'d str {
        self.attribute("name").unwrap_or_default()
    }

    /// Slow, since it scans all the text before the object: for errors only.
    fn bad(&self, problem: impl Into<String>) -> BadText {
        let start = self.element.range().start;
        BadText::new(self.element.document().text_pos_at(start).row, problem)
    }

    /// The kernel's number of this object.
    fn os_index(&self, limit: u32) -> Result<u32> {
        let text = self.attribute("os_index").unwrap_or_default();
        let index = number(text).filter(|&index| index < limit);
        index.ok_or_else(|| {
            let (kind, text) = (self.kind, shown(text));
            self.bad(format!(
                "os_index `{text}` of a {kind}: expected a number below {limit}"
            ))
        })
    }

    fn cpus(&self) -> Result<CpuSet> {
        let text = self.attribute("cpuset").unwrap_or("0x0");
        // `0xf...f`, an infinite set, is refused
        mask(text).ok_or_else(|| {
            let (text, limit) = (shown(text), Bitmap::LIMIT);
            self.bad(format!(
                "cpuset `{text}`: expected words such as `0x0000ffff,,0x0` of at most {limit} bits"
            ))
        })
    }
}

impl<'d> Objects<'d> {
    fn new(document: &'d Document<'d>) -> Result<Objects<'d>> {
        let root = document.root_element();
        let major = root.attribute("version").unwrap_or("1");
        let version = match (root.tag_name().name(), major.split('.').next()) {
            ("topology", Some("2")) => 2,
            ("topology", Some("3")) => 3,
            (name, _) => {
                let (name, major) = (shown(name), shown(major));
                return Err(BadText::new(
                    1,
                    format!(
                        "an element `{name}` of version `{major}`: expected `topology` of hwloc 2 or 3 (`lstopo node.xml`)"
                    ),
                ));
            }
        };
        let mut objects: Vec<Object> = Vec::new();
        // objects stand in the root or in objects
        let mut indices = BTreeMap::from([(root, None)]);
        for element in root.descendants() {
            let around = element.parent().and_then(|around| indices.get(&around));
            let (true, Some(&parent)) = (element.has_tag_name("object"), around) else {
                continue;
            };
            let index = objects.len();
            let object = Object {
                index,
                kind: element.attribute("type").unwrap_or_default(),
                element,
                parent,
                depth: parent.map_or(0, |parent| objects[parent].depth + 1),
            };
            if object.depth > MAX_DEPTH {
                return Err(object.bad(format!("more than {MAX_DEPTH} objects inside each other")));
            }
            indices.insert(element, Some(index));
            objects.push(object);
        }
        let file = Objects {
            version,
            root,
            objects,
        };
        let devices = file.of("PCIDev").count() + file.of("OSDev").count();
        match file.of("Machine").count() {
            _ if devices > MAX_DEVICES => Err(BadText::new(
                0,
                format!("{devices} devices: expected at most {MAX_DEVICES}"),
            )),
            1 => Ok(file),
            count => Err(BadText::new(
                1,
                format!("{count} objects of type `Machine`: expected one"),
            )),
        }
    }

    fn of(&self, kind: &'static str) -> impl Iterator<Item = &Object<'d>> {
        self.objects
            .iter()
            .filter(move |object| object.kind == kind)
    }

    /// The objects around `index`, nearest first.
    fn around(&self, index: usize) -> impl Iterator<Item = &Object<'d>> {
        let parent = |index: usize| self.objects[index].parent;
        let all = std::iter::successors(parent(index), move |&above| parent(above));
        all.map(|above| &self.objects[above])
    }

    /// The nearest object of a kind around `index`.
    fn above(&self, index: usize, kind: &str) -> Option<usize> {
        let mut around = self.around(index);
        Some(around.find(|above| above.kind == kind)?.index)
    }

    /// An info on the whole machine; version 3 has these outside all objects.
    fn info(&self, name: &str) -> Option<&'d str> {
        let machine = self.of("Machine").find_map(|machine| machine.info(name));
        info_of(self.root, name).or(machine)
    }

    /// The host's name, else the product's, in a device name's characters.
    fn name(&self) -> String {
        let said = self.info("HostName").or(self.info("DMIProductName"));
        let letters = said.unwrap_or_default().trim().chars();
        let letters = letters.map(|c| if DeviceName::may_hold(c) { c } else { '-' });
        let name: String = letters.take(DeviceName::MAX).collect();
        if DeviceName::is_one(&name) {
            name
        } else {
            "hwloc-machine".to_string()
        }
    }

    /// The kind of the processors: infos on the packages, or on the machine where all are alike.
    fn processor(&self) -> Option<Processor> {
        let package = self.of("Package").next();
        let info = |name: &str| {
            let own = package.and_then(|package| package.info(name));
            own.or_else(|| self.info(name))
        };
        let number = |name: &str| info(name)?.parse::<u16>().ok().map(u32::from);
        let arch = match self.info("Architecture") {
            Some("aarch64") => Arch::Arm,
            Some("ppc64le" | "ppc64") => Arch::Power,
            // the makers of x86 make no others
            _ => Arch::X86,
        };
        let (family, model) = (number("CPUFamilyNumber"), number("CPUModelNumber"));
        super::processor(arch, info("CPUVendor"), family, model)
    }

    fn numa_nodes(&self, to: &mut Imported) -> Result<()> {
        let mut nodes: Vec<(bool, CpuSet, u32)> = Vec::new();
        for object in self.of("NUMANode") {
            let subtype = object.attribute("subtype").unwrap_or_default();
            let is_memory = MEMORY_ONLY.iter().any(|word| subtype.starts_with(word));
            let os_index = object.os_index(MAX_NUMA_NODES as u32)?;
            if nodes.iter().any(|(.., known)| *known == os_index) {
                return Err(object.bad(format!("NUMA node `{os_index}` is there twice")));
            }
            nodes.push((is_memory, object.cpus()?, os_index));
        }
        // the kernel has a CPU in one node, hwloc gives memory its neighbours' CPUs: the innermost node keeps a CPU
        nodes.sort_by_key(|(is_memory, cpus, number)| (*is_memory, cpus.len(), *number));
        let mut taken = CpuSet::new();
        for (_, cpus, os_index) in nodes {
            let own = cpus.iter().filter(|&cpu| !taken.contains(cpu)).collect();
            taken.add(&cpus);
            to.topology.numa_nodes.push(numa_node(os_index, own));
        }
        to.topology.numa_nodes.sort_by_key(|node| node.os_index);
        Ok(())
    }

    /// Packages and cores are counted in the file's order: numbers of cores repeat on packages of several dies.
    fn pus(&self, to: &mut Imported) -> Result<()> {
        let mut seen = CpuSet::new();
        let (mut packages, mut cores) = (BTreeMap::new(), BTreeMap::new());
        let nodes = to.topology.numa_nodes.iter().enumerate();
        let first = nodes.filter_map(|(at, node)| Some((node.cpus.first()?, at)));
        let node_of: BTreeMap<u32, usize> = first.collect();
        for object in self.of("PU") {
            let os_index = object.os_index(Bitmap::LIMIT)?;
            if seen.contains(os_index) {
                return Err(object.bad(format!("PU `{os_index}` is there twice")));
            }
            seen.insert(os_index);
            let [package, core] = ["Package", "Core"].map(|kind| self.above(object.index, kind));
            let count = packages.len() as u32;
            let known = package.map(|package| *packages.entry(package).or_insert(count));
            let count = cores.len() as u32;
            // a CPU without a core is its own
            let core = *cores.entry(core.unwrap_or(object.index)).or_insert(count);
            if let Some(&node) = node_of.get(&os_index) {
                to.topology.numa_nodes[node].package = known;
            }
            to.topology.pus.push(Pu {
                os_index,
                // without a Package, as hwloc writes it where the kernel knows none, it counts as of package 0
                package: known.unwrap_or(0),
                core,
            });
        }
        Ok(())
    }

    /// `<distances2 type= name= kind=>` with the numbers of the NUMA nodes, the kernel's for this type
    /// (`HWLOC_DIST_TYPE_USE_OS_INDEX` of hwloc's include/private/private.h), and their distances row after row.
    fn distances(&self, node: &mut Topology) -> Result<(), String> {
        let is_used = |element: &Node| {
            let kind = element.attribute("kind").and_then(|kind| kind.parse().ok());
            // matrices had no name before hwloc 2.1
            let is_latency = match element.attribute("name") {
                Some(name) => name == "NUMALatency",
                None => kind.unwrap_or(0) & MEANS_LATENCY != 0,
            };
            let is_of_nodes = element.attribute("type") == Some("NUMANode");
            is_of_nodes && is_latency && element.attribute("indexing") != Some("gp")
        };
        let Some(element) = children(self.root, "distances2").find(is_used) else {
            return Ok(());
        };
        let numbers = |name: &'static str| -> Result<Vec<u32>, String> {
            let texts = children(element, name).filter_map(|child| child.text());
            let read = |word: &str| {
                let number = word.parse().ok().filter(|number| *number <= MAX_DISTANCE);
                number.ok_or_else(|| format!("`{}` is not a distance: not used", shown(word)))
            };
            texts.flat_map(str::split_whitespace).map(read).collect()
        };
        let (nodes, values) = (numbers("indexes")?, numbers("u64values")?);
        let count = node.numa_nodes.len();
        let place = |os_index: u32| nodes.iter().position(|node| *node == os_index);
        let order = node.numa_nodes.iter().map(|node| place(node.os_index));
        let is_whole = nodes.len() == count && values.len() == count * count;
        let order = order.collect::<Option<Vec<usize>>>().filter(|_| is_whole);
        let order = order.ok_or_else(|| {
            let (values, nodes) = (values.len(), nodes.len());
            format!("{values} values between {nodes} nodes, where the file has {count}: not used")
        })?;
        for (of_node, from) in node.numa_nodes.iter_mut().zip(&order) {
            let row = order.iter().map(|to| values[from * count + to]);
            of_node.distances = row.collect();
        }
        Ok(())
    }
}
