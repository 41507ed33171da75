//! PCI functions and the bridges above them, from their place below `/sys/devices`
//! (Documentation/ABI/testing/sysfs-bus-pci in the kernel's tree).
#![forbid(unsafe_code)]

use super::{Discovery, Root, Scope, hex, number, target_name, tenths};
use nic_placement_topology::{
    CONNECTX7, CpuSet, GpuVendor, HostBridge, LinkRate, PciAddress, PciFunction, PciParent,
    PciTree, PcieLink,
};

/// A function's facts that [`Scope::Placement`] needs.
struct Need {
    numa_node: bool,
    link: bool,
    ids: bool,
}

impl Discovery<'_> {
    /// Adds the function whose directory is, or is above, `path`, with all bridges above it; returns its address and
    /// its own directory.
    ///
    /// The directory's name tells all: `sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/…`.  Parts that are neither a
    /// host bridge nor an address (an auxiliary device, a VMD controller's inner bus) do not count.
    pub(super) fn function(&mut self, path: &str) -> Option<(PciAddress, String)> {
        // (address, what stands above it, its directory), from the host bridge down
        let mut chain: Vec<(PciAddress, PciParent, &str)> = Vec::new();
        let mut parent = None;
        let mut end = 0;
        for part in path.split('/') {
            end += part.len();
            if part.starts_with("pci") {
                // the inner host bridge of an Intel VMD controller stands below a function of the outer one
                parent = parent.or(part.parse::<HostBridge>().ok().map(PciParent::Host));
            } else if let (true, Some(above)) = (part.contains(':'), parent) {
                if let Ok(address) = part.parse::<PciAddress>() {
                    chain.push((address, above, &path[..end]));
                    parent = Some(PciParent::Bridge(address));
                }
            }
            end += 1;
        }
        if chain.len() > PciTree::MAX_DEPTH {
            return None;
        }
        let (address, _, directory) = *chain.last()?;
        let mut numa_node_known = false;
        for (distance, &(address, parent, directory)) in chain.iter().rev().enumerate() {
            if let Some(known) = self.topology.pci.get(address) {
                numa_node_known |= known.numa_node.is_some();
                continue;
            }
            let need = Need {
                // what the function itself says is enough, and the bridges above it are asked only where it says nothing
                numa_node: !numa_node_known,
                // The port above a function reports the same link from its other end, and so on for every second bridge:
                // downstream and upstream ports alternate.
                link: distance % 2 == 0,
                // a switch behind a switch may be a part of it
                ids: chain.len() >= 6 && distance % 2 == 0 && distance > 0,
            };
            let function = self.read_function(need, directory, address, parent);
            numa_node_known |= function.numa_node.is_some();
            self.topology.pci.insert(function);
        }
        Some((address, directory.to_string()))
    }

    fn read_function(
        &self,
        need: Need,
        directory: &str,
        address: PciAddress,
        parent: PciParent,
    ) -> PciFunction {
        let full = self.scope == Scope::Full;
        let file = |wanted: bool, name: &str| {
            wanted
                .then(|| self.root.read(&format!("{directory}/{name}")))
                .flatten()
        };
        let id = |name: &str| hex(file(full || need.ids, name));
        let numa_node = number::<i64>(file(full || need.numa_node, "numa_node"))
            .and_then(|node| u32::try_from(node).ok());
        let local_cpus = file(
            full || (need.numa_node && numa_node.is_none()),
            "local_cpulist",
        );
        let link = full || need.link;
        let iommu = || {
            let group = self.root.follow(&format!("{directory}/iommu_group"))?;
            self.root.read(&format!("{group}/type"))
        };
        PciFunction {
            class: hex(file(full, "class")),
            vendor: id("vendor"),
            device: id("device"),
            subsystem: id("subsystem_vendor").zip(id("subsystem_device")),
            numa_node,
            local_cpus: local_cpus
                .and_then(|cpus| CpuSet::from_list(&cpus).ok())
                .filter(|cpus| !cpus.is_empty()),
            link: PcieLink {
                current: rate(
                    file(link, "current_link_speed"),
                    file(link, "current_link_width"),
                ),
                max: rate(file(full, "max_link_speed"), file(full, "max_link_width")),
            },
            physfn: if full {
                physfn(self.root, directory)
            } else {
                None
            },
            iommu: if full { iommu() } else { None },
            ..PciFunction::new(address, parent)
        }
    }

    /// Limits of a GPU's own links at both ends: an idle GPU has them run slower ([`Topology::ascent`]).
    ///
    /// A GPU's own links are the one above it and, on a card with its own switch (AMD, Intel), the one above the
    /// switch.
    ///
    /// [`Topology::ascent`]: nic_placement_topology::Topology::ascent
    pub(super) fn complete_gpu(&mut self, address: PciAddress, directory: &str, vendor: GpuVendor) {
        if self.scope == Scope::Full {
            return;
        }
        let (mut address, mut directory) = (address, directory);
        let ends = if vendor == GpuVendor::Nvidia { 2 } else { 4 };
        for end in 0..ends {
            let Some(mut function) = self.topology.pci.get(address).cloned() else {
                return;
            };
            let file = |name: &str| self.root.read(&format!("{directory}/{name}"));
            if end == 2 {
                function.vendor = function.vendor.or_else(|| hex(file("vendor")));
                if function.vendor.and_then(GpuVendor::from_pci) != Some(vendor) {
                    return;
                }
            }
            let speed = file("max_link_speed");
            // most GPUs do not idle, or keep their speed: the other ends need not be asked
            let has_its_speed =
                |now: LinkRate| speed_of(speed.as_deref()).is_none_or(|able| able <= now.tenths_gt);
            if end == 0
                && vendor == GpuVendor::Nvidia
                && function.link.current.is_none_or(has_its_speed)
            {
                return;
            }
            function.link.max = rate(speed, file("max_link_width"));
            let above = function.parent.bridge();
            self.topology.pci.insert(function);
            let Some((bridge, (parent, _))) = above.zip(directory.rsplit_once('/')) else {
                return;
            };
            // a part of the path that is no function stands between them
            if parent.rsplit('/').next().and_then(|name| name.parse().ok()) != Some(bridge) {
                return;
            }
            (address, directory) = (bridge, parent);
        }
    }

    /// What tells one NIC's function from another's: the device's id, and how many virtual ones it has.
    pub(super) fn complete_nic(&mut self, address: PciAddress, directory: &str) {
        let Some(mut function) = self.topology.pci.get(address).cloned() else {
            return;
        };
        if self.scope < Scope::Full {
            let id = |name: &str| hex(self.root.read(&format!("{directory}/{name}")));
            function.device = id("device");
            // some of these are no NICs of the fabric (`Topology::manages_nvswitches`)
            if function.device == Some(CONNECTX7) {
                function.subsystem = id("subsystem_vendor").zip(id("subsystem_device"));
            }
        }
        function.vfs = vfs(self.root, self.scope, directory).filter(|&vfs| vfs > 0);
        self.topology.pci.insert(function);
    }

    /// The physical function that each NIC's virtual one is of; asked only where one of them has any.
    pub(super) fn virtual_nics(&mut self, nics: &[(PciAddress, String)]) {
        if !self
            .topology
            .pci
            .iter()
            .any(|function| function.vfs.is_some())
        {
            return;
        }
        for (address, directory) in nics {
            let Some(mut function) = self.topology.pci.get(*address).cloned() else {
                continue;
            };
            function.physfn = physfn(self.root, directory);
            self.topology.pci.insert(function);
        }
    }
}

/// The number of virtual functions that exist now (Documentation/ABI/testing/sysfs-bus-pci).
///
/// A step counts the links to them.  The file with their number waits, from Linux 5.5 to 6.8 and in older ones with its
/// fixes, for the device's lock, which the kernel holds while it probes, resets or removes the device, and vfio while a
/// virtual machine uses it (drivers/pci/iov.c, `sriov_numvfs_show`, since commit 35ff867b7657).  A capture may lack the
/// links.
fn vfs(root: &Root, scope: Scope, directory: &str) -> Option<u32> {
    let linked = || {
        root.follow(&format!("{directory}/virtfn0"))?;
        u32::try_from(
            root.list(directory, |name| name.starts_with("virtfn"))
                .len(),
        )
        .ok()
    };
    let stated = || number(root.read(&format!("{directory}/sriov_numvfs")));
    match scope < Scope::Full {
        true if root.is_live() => linked(),
        true => linked().or_else(stated),
        false => stated().or_else(linked),
    }
}

fn physfn(root: &Root, directory: &str) -> Option<PciAddress> {
    target_name(root, &format!("{directory}/physfn"))?
        .parse()
        .ok()
}

/// `32.0 GT/s PCIe` in tenths of GT/s
fn speed_of(text: Option<&str>) -> Option<u32> {
    tenths(text?)
        .filter(|&tenths| tenths < 10_000)
        .and_then(|tenths| u32::try_from(tenths).ok())
}

/// `32.0 GT/s PCIe` (since Linux 5.5; `32 GT/s` before), `16`.  `Unknown` and width 0 are a link that is down, or none,
/// as for functions of the CPU.
fn rate(speed: Option<String>, width: Option<String>) -> Option<LinkRate> {
    let tenths_gt = speed_of(speed.as_deref())?;
    let width = number::<u32>(width).filter(|&width| width > 0 && width <= 32)?;
    Some(LinkRate { tenths_gt, width })
}
