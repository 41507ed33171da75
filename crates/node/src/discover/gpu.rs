//! Finds GPUs by the vendors' drivers, else by PCI class.

use super::kfd::{self, KfdNode};
use super::{Discovery, MAX_DEVICES, Root, hex, is_address, is_number, target_name};
use nic_placement_topology::{
    Gpu, GpuVendor, HostBridge, PciAddress, PciFunction, PciParent, file,
};

const NVIDIA: &str = "proc/driver/nvidia/gpus";
const CAPABILITIES: &str = "proc/driver/nvidia/capabilities";
pub(super) const DRIVERS: [(&str, GpuVendor); 4] = [
    (NVIDIA, GpuVendor::Nvidia),
    ("sys/bus/pci/drivers/amdgpu", GpuVendor::Amd),
    ("sys/bus/pci/drivers/xe", GpuVendor::Intel),
    ("sys/bus/pci/drivers/i915", GpuVendor::Intel),
];
const BUS: &str = "sys/bus/pci/devices";

impl Discovery<'_> {
    pub(super) fn gpus(&mut self) {
        let mut found: Vec<(PciAddress, String, GpuVendor)> = Vec::new();
        for (directory, vendor) in DRIVERS {
            for name in self.root.list(directory, is_address) {
                found.extend(name.parse().map(|address| (address, name, vendor)));
            }
        }
        if found.is_empty() {
            found = on_the_bus(self.root);
        }
        self.cut(&mut found, MAX_DEVICES, "GPUs", BUS);
        for (address, name, vendor) in found {
            if let Err(finding) = self.gpu(address, &name, vendor) {
                self.report(&format!("{BUS}/{name}"), finding);
            }
        }
        self.split_by_compute_nodes();
    }

    fn gpu(
        &mut self,
        address: PciAddress,
        name: &str,
        vendor: GpuVendor,
    ) -> Result<(), &'static str> {
        let root = self.root;
        let path = root
            .follow(&format!("{BUS}/{name}"))
            .ok_or("no such PCI function: this GPU is left out")?;
        // Intel's integrated graphics is right below the host bridge, and no task computes on it;
        // an Arc card is below a port
        let above = path.rsplit('/').nth(1).unwrap_or_default();
        let class = || hex::<u32>(root.read(&format!("{path}/class"))).map(|class| class >> 8);
        if vendor == GpuVendor::Intel && above.starts_with("pci") && class() == Some(0x0300) {
            return Ok(());
        }
        let (_, directory) = self
            .function(&path)
            .ok_or("not below a host bridge, or too deep below one: this GPU is left out")?;
        let mut gpu = Gpu::new(address, vendor);
        if vendor == GpuVendor::Nvidia {
            let Some(known) = nvidia(root, address, name) else {
                return Ok(());
            };
            gpu = known;
        } else {
            // the driver gives no model name: `recognise` compares the device id
            self.change(address, |function| {
                let read = || hex(root.read(&format!("{directory}/device")));
                function.device = function.device.or_else(read);
            });
            let nodes = root.list(&format!("{directory}/drm"), |name| {
                name.starts_with("renderD")
            });
            let number = nodes.first().and_then(|name| name.strip_prefix("renderD"));
            gpu.minor = number.and_then(|number| number.parse().ok());
        }
        self.complete_gpu(address, &directory, vendor);
        self.node.gpus.push(gpu);
        Ok(())
    }

    /// Replaces each AMD GPU by its KFD nodes, one for each partition.
    fn split_by_compute_nodes(&mut self) {
        let nodes = kfd::nodes(self.root);
        if nodes.is_empty() {
            return;
        }
        let gpus = &mut self.node.gpus;
        let known: Vec<PciAddress> = gpus.iter().map(|gpu| gpu.address).collect();
        // a KFD node's PCI function and partition; older drivers show partition N as PCI function N
        let function_of = |node: &KfdNode| {
            let first = node.address.card();
            let is_partition = node.address.function != 0
                && !known.contains(&node.address)
                && (known.contains(&first) || nodes.iter().any(|other| other.address == first));
            if is_partition {
                (first, u32::from(node.address.function))
            } else {
                (node.address, node.partition)
            }
        };
        let placed: Vec<(PciAddress, u32)> = nodes.iter().map(function_of).collect();
        let is_placed = |gpu: &Gpu| placed.iter().any(|(at, _)| *at == gpu.address);
        gpus.retain(|gpu| gpu.vendor != GpuVendor::Amd || !is_placed(gpu));
        let in_pci_order = placed.is_sorted();
        let numbered = nodes.iter().zip(&placed).take(MAX_DEVICES).zip(0..);
        for ((node, &(address, partition)), index) in numbered {
            if self.node.pci.get(address).is_none() {
                // a capture of KFD's files alone has no PCI functions
                let PciAddress { domain, bus, .. } = address;
                let parent = PciParent::Host(HostBridge { domain, bus });
                self.node.pci.insert(PciFunction {
                    numa_node: node.cpu_node,
                    ..PciFunction::new(address, parent)
                });
            }
            let shares_function = placed.iter().filter(|(at, _)| *at == address).count() > 1;
            // older drivers give each partition its card's UUID, which selects no partition in ROCm
            let is_its_own = nodes.iter().filter(|other| other.uuid == node.uuid).count() == 1;
            self.node.gpus.push(Gpu {
                partition: shares_function.then_some(partition),
                minor: node.minor,
                uuid: node.uuid.clone().filter(|_| is_its_own),
                runtime_index: (!in_pci_order).then_some(index),
                ..Gpu::new(address, GpuVendor::Amd)
            });
        }
    }
}

/// GPUs by PCI class, except those kept for virtual machines.
fn on_the_bus(root: &Root) -> Vec<(PciAddress, String, GpuVendor)> {
    let of_function = |name: String| {
        let path = root.follow(&format!("{BUS}/{name}"))?;
        let id = |name: &str| root.read(&format!("{path}/{name}"));
        let vendor = GpuVendor::of_function(hex(id("class"))?, hex(id("vendor"))?)?;
        let address = name.parse().ok()?;
        (!is_given_away(root, &path)).then_some((address, name, vendor))
    };
    let names = root.list(BUS, is_address).into_iter();
    names.filter_map(of_function).collect()
}

/// True if a driver keeps the function for a virtual machine: `pci-stub`, `pciback`, `vfio-pci` or
/// a vendor's variant such as `xe-vfio-pci` (drivers/vfio/pci).
fn is_given_away(root: &Root, path: &str) -> bool {
    let name = target_name(root, &format!("{path}/driver")).unwrap_or_default();
    name.contains("vfio") || matches!(name.as_str(), "pci-stub" | "pciback")
}

/// A GPU of NVIDIA's driver, from lines such as `Device Minor: \t 3`. `None` if
/// `NVreg_ExcludedGpus` names the GPU: the directory stays, but no program can open or count the
/// GPU (`nvidia_read_card_info`, `nv_open_device` in open-gpu-kernel-modules,
/// kernel-open/nvidia/nv.c).
pub(super) fn nvidia(root: &Root, address: PciAddress, name: &str) -> Option<Gpu> {
    let text = root.read(&format!("{NVIDIA}/{name}/information"));
    let text = text.unwrap_or_default();
    let field = |key: &str| {
        text.lines().find_map(|line| {
            let value = line.strip_prefix(key)?.strip_prefix(':')?;
            Some(value.trim().to_string())
        })
    };
    if field("GPU Excluded").as_deref() == Some("Yes") {
        return None;
    }
    let minor = field("Device Minor").and_then(|minor| minor.parse::<u32>().ok());
    Some(Gpu {
        minor,
        // question marks until the GPU is initialised
        uuid: field("GPU UUID").filter(|uuid| uuid.starts_with("GPU-") && !uuid.contains('?')),
        model: field("Model").filter(|model| !model.is_empty()),
        mig_instances: minor.and_then(|minor| mig_instances(root, minor)),
        ..Gpu::new(address, GpuVendor::Nvidia)
    })
}

/// The number of MIG GPU instances, each a directory `giN` (NVIDIA's MIG User Guide, "Device Nodes
/// and Capabilities"). `None` for 0 or too many.
pub(super) fn mig_instances(root: &Root, minor: u32) -> Option<u32> {
    let is_instance = |name: &str| name.strip_prefix("gi").is_some_and(is_number);
    let instances = root.list(&format!("{CAPABILITIES}/gpu{minor}/mig"), is_instance);
    let count = u32::try_from(instances.len()).ok()?;
    (1..=file::MAX_MIG_INSTANCES)
        .contains(&count)
        .then_some(count)
}
