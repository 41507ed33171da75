//! PCI functions and the bridges above them, from paths below `/sys/devices` (the kernel's
//! Documentation/ABI/testing/sysfs-bus-pci).

use super::{Discovery, Root, Scope, hex, number, target_name, tenths};
use nic_placement_topology::{
    CONNECTX7, CpuSet, GpuVendor, HostBridge, LinkRate, PciAddress, PciFunction, PciParent,
    PciTree, PcieLink,
};

/// The facts that a step reads about a PCI function.
struct Need {
    numa_node: bool,
    link: bool,
    ids: bool,
}

impl Discovery<'_> {
    /// Adds the PCI function at or above `path`, and the bridges above it. Returns the function's
    /// address and directory; `None` if `path` has none, or more than [`PciTree::MAX_DEPTH`].
    ///
    /// `sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/…` has a bridge and a function. Parts that
    /// are neither host bridge nor address (an auxiliary device, a VMD controller's inner bus) are
    /// skipped.
    pub(super) fn function(&mut self, path: &str) -> Option<(PciAddress, String)> {
        // address, parent and directory, from the host bridge down
        let mut chain: Vec<(PciAddress, PciParent, &str)> = Vec::new();
        let mut parent = None;
        let mut end = 0;
        for part in path.split('/') {
            end += part.len();
            if part.starts_with("pci") {
                // keeps the outer host bridge: an Intel VMD controller has another inside
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
            if let Some(known) = self.node.pci.get(address) {
                numa_node_known |= known.numa_node.is_some();
                continue;
            }
            let need = Need {
                // a bridge's NUMA node counts only if no function below has one
                numa_node: !numa_node_known,
                // a link's lower end reports the rate; every second function is an upper end
                link: distance % 2 == 0,
                // ids show whether a switch is a part of the switch above
                ids: chain.len() >= 6 && distance % 2 == 0 && distance > 0,
            };
            let function = self.read_function(need, directory, address, parent);
            numa_node_known |= function.numa_node.is_some();
            self.node.pci.insert(function);
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
        let full = self.is_full();
        let file = |wanted: bool, name: &str| {
            let read = || self.root.read(&format!("{directory}/{name}"));
            if wanted { read() } else { None }
        };
        let id = |name: &str| hex(file(full || need.ids, name));
        let numa_node = number::<i64>(file(full || need.numa_node, "numa_node"));
        let numa_node = numa_node.and_then(|node| u32::try_from(node).ok());
        let wants_cpus = full || need.numa_node && numa_node.is_none();
        let local_cpus = file(wants_cpus, "local_cpulist");
        let local_cpus = local_cpus.and_then(|cpus| CpuSet::from_list(&cpus).ok());
        let rate = |wanted, which: &str| {
            let file = |what: &str| file(wanted, &format!("{which}_link_{what}"));
            rate(file("speed"), file("width"))
        };
        let mut function = PciFunction {
            class: hex(file(full, "class")),
            vendor: id("vendor"),
            device: id("device"),
            subsystem: id("subsystem_vendor").zip(id("subsystem_device")),
            numa_node,
            local_cpus: local_cpus.filter(|cpus| !cpus.is_empty()),
            link: PcieLink {
                current: rate(full || need.link, "current"),
                max: rate(full, "max"),
            },
            ..PciFunction::new(address, parent)
        };
        if full {
            function.physfn = physfn(self.root, directory);
            let group = self.root.follow(&format!("{directory}/iommu_group"));
            function.iommu = group.and_then(|group| self.root.read(&format!("{group}/type")));
        }
        function
    }

    /// Reads the speed limits of links that slow down while the GPU idles (`Topology::ascent`): the
    /// link above the GPU and, on a card with a switch (AMD, Intel), the link above the switch.
    pub(super) fn complete_gpu(&mut self, address: PciAddress, directory: &str, vendor: GpuVendor) {
        if self.is_full() {
            return;
        }
        let (mut address, mut directory) = (address, directory);
        let is_nvidia = vendor == GpuVendor::Nvidia;
        for end in 0..if is_nvidia { 2 } else { 4 } {
            let Some(mut function) = self.node.pci.get(address).cloned() else {
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
            // most NVIDIA GPUs' links run at full speed, and then the upper end is not read
            let has_its_speed =
                |now: LinkRate| speed_of(speed.as_deref()).is_none_or(|able| able <= now.tenths_gt);
            if end == 0 && is_nvidia && function.link.current.is_none_or(has_its_speed) {
                return;
            }
            function.link.max = rate(speed, file("max_link_width"));
            let above = function.parent.bridge();
            self.node.pci.insert(function);
            let Some((bridge, (parent, _))) = above.zip(directory.rsplit_once('/')) else {
                return;
            };
            // stops at a part of the path that is no function
            if parent.rsplit('/').next().and_then(|name| name.parse().ok()) != Some(bridge) {
                return;
            }
            (address, directory) = (bridge, parent);
        }
    }

    /// Reads a NIC's device id and number of virtual functions, and a ConnectX-7's subsystem, which
    /// `Topology::manages_nvswitches` compares.
    pub(super) fn complete_nic(&mut self, address: PciAddress, directory: &str) {
        let (root, scope) = (self.root, self.scope);
        self.change(address, |function| {
            if scope < Scope::Full {
                let id = |name: &str| hex(root.read(&format!("{directory}/{name}")));
                function.device = id("device");
                if function.device == Some(CONNECTX7) {
                    function.subsystem = id("subsystem_vendor").zip(id("subsystem_device"));
                }
            }
            function.vfs = vfs(root, scope, directory).filter(|&vfs| vfs > 0);
        });
    }

    /// If any NIC has virtual functions, reads the physical function of each NIC.
    pub(super) fn virtual_nics(&mut self, nics: &[(PciAddress, String)]) {
        if self.node.pci.iter().all(|function| function.vfs.is_none()) {
            return;
        }
        for (address, directory) in nics {
            let physfn = physfn(self.root, directory);
            self.change(*address, |function| function.physfn = physfn);
        }
    }
}

/// The number of virtual functions (Documentation/ABI/testing/sysfs-bus-pci).
///
/// A read of `sriov_numvfs` may block: in Linux 5.5 to 6.8, and older kernels with backports,
/// `sriov_numvfs_show` (drivers/pci/iov.c, commit 35ff867b7657) takes the device's lock. The kernel
/// holds this lock during probe, reset and removal, and vfio while a virtual machine uses the
/// device. A step counts `virtfn*` links instead; a capture may lack these links.
fn vfs(root: &Root, scope: Scope, directory: &str) -> Option<u32> {
    let linked = || {
        root.follow(&format!("{directory}/virtfn0"))?;
        let links = root.list(directory, |name| name.starts_with("virtfn"));
        u32::try_from(links.len()).ok()
    };
    let stated = || number(root.read(&format!("{directory}/sriov_numvfs")));
    match scope < Scope::Full {
        true if root.is_live() => linked(),
        true => linked().or_else(stated),
        false => stated().or_else(linked),
    }
}

fn physfn(root: &Root, directory: &str) -> Option<PciAddress> {
    let name = target_name(root, &format!("{directory}/physfn"))?;
    name.parse().ok()
}

/// Tenths of GT/s of `32.0 GT/s PCIe`.
fn speed_of(text: Option<&str>) -> Option<u32> {
    let tenths = tenths(text?).filter(|&tenths| tenths < 10_000)?;
    u32::try_from(tenths).ok()
}

/// The rate of `32.0 GT/s PCIe` (`32 GT/s` before Linux 5.5) at width `16`. `None` for `Unknown`
/// or width 0: the link is down, or the function is a part of the CPU.
fn rate(speed: Option<String>, width: Option<String>) -> Option<LinkRate> {
    let tenths_gt = speed_of(speed.as_deref())?;
    let width = number::<u32>(width).filter(|width| (1..=32).contains(width))?;
    Some(LinkRate { tenths_gt, width })
}
