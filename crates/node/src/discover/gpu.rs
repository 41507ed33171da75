//! GPUs: those that a driver has taken, else those that look like one on the bus.
#![forbid(unsafe_code)]

use super::kfd::{self, KfdNode};
use super::{Discovery, MAX_DEVICES, Root, hex, target_name};
use nic_placement_topology::{
    Gpu, GpuVendor, HostBridge, PciAddress, PciFunction, PciParent, file,
};

/// A directory for each GPU that NVIDIA's driver runs.
const NVIDIA: &str = "proc/driver/nvidia/gpus";
/// A directory for each GPU whose MIG instances have device nodes of their own.
const CAPABILITIES: &str = "proc/driver/nvidia/capabilities";
/// Each driver's folder with its GPUs; the bus links a driver to its functions.
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
        for (folder, vendor) in DRIVERS {
            for name in self.root.list(folder, is_address) {
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
        // the graphics that are part of an Intel CPU have a driver too, and no task computes on them; they stand on the host
        // bridge itself, and a card of the same class (Arc) behind a port
        let above = path.rsplit('/').nth(1).unwrap_or_default();
        let class = || hex::<u32>(root.read(&format!("{path}/class"))).map(|class| class >> 8);
        if vendor == GpuVendor::Intel && above.starts_with("pci") && class() == Some(0x0300) {
            return Ok(());
        }
        let (_, directory) = self
            .function(&path)
            .ok_or("not below a host bridge, or too deep below one: this GPU is left out")?;
        let gpu = match vendor {
            GpuVendor::Nvidia => match nvidia(root, address, name) {
                Some(gpu) => gpu,
                None => return Ok(()),
            },
            GpuVendor::Amd | GpuVendor::Intel => {
                // its driver does not name it: known machines are recognised by the device's id
                let function = self.topology.pci.get(address).cloned();
                if let Some(function) = function.filter(|function| function.device.is_none()) {
                    let device = hex(root.read(&format!("{directory}/device")));
                    self.topology.pci.insert(PciFunction { device, ..function });
                }
                let nodes = root.list(&format!("{directory}/drm"), |name| {
                    name.starts_with("renderD")
                });
                let minor = nodes
                    .first()
                    .and_then(|name| name.strip_prefix("renderD")?.parse().ok());
                Gpu {
                    minor,
                    ..Gpu::new(address, vendor)
                }
            }
        };
        self.complete_gpu(address, &directory, vendor);
        self.topology.gpus.push(gpu);
        Ok(())
    }

    /// Splits AMD GPUs into the partitions that the compute driver makes of them, and adds what it alone knows.
    fn split_by_compute_nodes(&mut self) {
        let nodes = kfd::nodes(self.root);
        if nodes.is_empty() {
            return;
        }
        let topology = &mut self.topology;
        let known: Vec<PciAddress> = topology.gpus.iter().map(|gpu| gpu.address).collect();
        // the function that a node belongs to: its own, or the first of its device where the number is the partition's
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
        topology
            .gpus
            .retain(|gpu| gpu.vendor != GpuVendor::Amd || !is_placed(gpu));
        // the runtime counts the driver's nodes; a number is kept only where that is not PCI order
        let in_pci_order = placed.is_sorted();
        for (index, (node, (address, partition))) in
            nodes.iter().zip(&placed).take(MAX_DEVICES).enumerate()
        {
            if topology.pci.get(*address).is_none() {
                // a capture of the compute driver's files alone: nothing is known of the bus
                let host = HostBridge {
                    domain: address.domain,
                    bus: address.bus,
                };
                let function = PciFunction::new(*address, PciParent::Host(host));
                topology.pci.insert(PciFunction {
                    numa_node: node.cpu_node,
                    ..function
                });
            }
            let shares_function = placed.iter().filter(|(at, _)| at == address).count() > 1;
            // older drivers give all partitions the card's UUID, which means none of them to the runtime either
            let is_its_own = nodes.iter().filter(|other| other.uuid == node.uuid).count() == 1;
            topology.gpus.push(Gpu {
                partition: shares_function.then_some(*partition),
                minor: node.minor,
                uuid: node.uuid.clone().filter(|_| is_its_own),
                runtime_index: u32::try_from(index).ok().filter(|_| !in_pci_order),
                ..Gpu::new(*address, GpuVendor::Amd)
            });
        }
    }
}

fn is_address(name: &str) -> bool {
    name.parse::<PciAddress>().is_ok()
}

/// GPUs without a driver: functions that look like one and that this system could use.
fn on_the_bus(root: &Root) -> Vec<(PciAddress, String, GpuVendor)> {
    let of_function = |name: String| {
        let path = root.follow(&format!("{BUS}/{name}"))?;
        let id = |name: &str| root.read(&format!("{path}/{name}"));
        let vendor = GpuVendor::of_function(hex(id("class"))?, hex(id("vendor"))?)?;
        let address = name.parse().ok()?;
        (!is_given_away(root, &path)).then_some((address, name, vendor))
    };
    root.list(BUS, is_address)
        .into_iter()
        .filter_map(of_function)
        .collect()
}

/// True if the function is kept for a virtual machine, so that no process of this system can compute on it: `vfio-pci`,
/// and the variants for one vendor, `nvgrace_gpu_vfio_pci` and `xe-vfio-pci` (drivers/vfio/pci).
fn is_given_away(root: &Root, path: &str) -> bool {
    let name = target_name(root, &format!("{path}/driver")).unwrap_or_default();
    name.contains("vfio") || matches!(name.as_str(), "pci-stub" | "pciback")
}

/// A GPU by NVIDIA's driver, in lines such as `Device Minor: \t 3`; `None` if the admin had it leave the GPU out
/// (`NVreg_ExcludedGpus`): its folder stays, and no program can open or count it (`nvidia_read_card_info`,
/// `nv_open_device` in open-gpu-kernel-modules, kernel-open/nvidia/nv.c).
pub(super) fn nvidia(root: &Root, address: PciAddress, name: &str) -> Option<Gpu> {
    let text = root
        .read(&format!("{NVIDIA}/{name}/information"))
        .unwrap_or_default();
    let field = |key: &str| {
        text.lines().find_map(|line| {
            Some(
                line.strip_prefix(key)?
                    .strip_prefix(':')?
                    .trim()
                    .to_string(),
            )
        })
    };
    if field("GPU Excluded").as_deref() == Some("Yes") {
        return None;
    }
    let minor = field("Device Minor").and_then(|minor| minor.parse::<u32>().ok());
    Some(Gpu {
        minor,
        // until the GPU has been initialised the driver prints question marks
        uuid: field("GPU UUID").filter(|uuid| uuid.starts_with("GPU-") && !uuid.contains('?')),
        model: field("Model").filter(|model| !model.is_empty()),
        mig_instances: minor.and_then(|minor| mig_instances(root, minor)),
        ..Gpu::new(address, GpuVendor::Nvidia)
    })
}

/// The number of GPU instances of a GPU: the driver keeps a directory for each (NVIDIA's MIG User Guide, "Device Nodes
/// and Capabilities"), numbered like the device node.
pub(super) fn mig_instances(root: &Root, minor: u32) -> Option<u32> {
    let is_instance = |name: &str| {
        name.strip_prefix("gi")
            .is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let instances = root.list(&format!("{CAPABILITIES}/gpu{minor}/mig"), is_instance);
    u32::try_from(instances.len())
        .ok()
        .filter(|count| (1..=file::MAX_MIG_INSTANCES).contains(count))
}
