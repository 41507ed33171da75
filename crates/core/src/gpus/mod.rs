//! A task's GPUs, as CUDA, ROCm or Level Zero number them.
//!
//! Rules for each vendor's GPUs, in order:
//!
//! 1. If a device cgroup (`ConstrainDevices`) denies the task a GPU, runtimes count only the GPUs
//!    that the task may open.
//! 2. The vendor's variables name GPUs among those that the task may open (`list`): by UUID, or by
//!    position in the runtime's order (PCI; AMD: the compute driver's).
//! 3. An unknown name (`MIG-<uuid>`, another UUID) means the only GPU that can have it. If several
//!    GPUs can: all of them if the cgroup denies a GPU, else none, as a wrong guess would move
//!    traffic to a far NIC.
//! 4. Without a variable, if the cgroup denies a GPU: all that the task may open.
//! 5. Else the step's `SLURM_STEP_GPUS`; `--gpu-bind=none` of 22.05 unsets this and the vendors'
//!    variables.
//! 6. Else none.
//!
//! A task's own `SLURM_STEP_GPUS` is no source: under `ConstrainDevices` it lists the step's first
//! GPUs in every task (gres_common.c, `common_gres_set_env`). Nor is `SLURM_JOB_GPUS`, which sruns
//! on all nodes inherit from the batch script. Shards and MPS set the variables of whole GPUs,
//! which several tasks then share.

mod list;
mod local_id;
#[cfg(test)]
mod tests;

pub(crate) use list::entries;
pub use local_id::{by_local_id, uncountable};

use crate::diagnostic::{Shown, more_entries};
use crate::order::{self, Order};
use crate::step::{Access, GpuGrant, Step, TaskGpus};
use crate::topology::GpuVendor::{self, Amd, Intel, Nvidia};
use crate::topology::{GpuIndex, Topology};
use list::{CUDA, CUDA_ORDER, HIERARCHY, HIP, Listed, ROCR, ZE};

/// The task's variables that select or number GPUs. Slurm also sets `GPU_DEVICE_ORDINAL`, which
/// only OpenCL reads (ROCm/clr, rocclr/device/rocm/rocdevice.cpp).
pub const VARIABLES: [&str; 6] = [CUDA, CUDA_ORDER, ROCR, HIP, ZE, HIERARCHY];

/// The GPUs that the program will see.
pub fn identify(node: &Topology, step: &Step, grant: &GpuGrant) -> TaskGpus {
    let sight = Sight { node, grant };
    sight.gpus().unwrap_or_else(|| by_step(&sight, step))
}

pub fn positions(node: &Topology, vendor: GpuVendor) -> Vec<GpuIndex> {
    let gpus = node.gpu_indices();
    gpus.filter(|&gpu| node.gpu(gpu).vendor == vendor).collect()
}

fn in_runtime_order(node: &Topology, gpus: &mut [GpuIndex]) {
    gpus.order_by_key(|&gpu| {
        let index = node.gpu(gpu).runtime_index;
        (index.is_none(), index, gpu)
    });
}

/// The node's GPUs, with one process's variables and device permissions.
pub struct Sight<'a> {
    pub node: &'a Topology,
    pub grant: &'a GpuGrant,
}

impl Sight<'_> {
    /// The GPUs that the vendors' variables name. If no variable is set: of each vendor with a
    /// denied GPU, the GPUs that the task may open; `None` if there are none.
    pub fn gpus(&self) -> Option<TaskGpus> {
        let vendors = self.vendors().into_iter();
        let listed = vendors.clone().filter_map(|vendor| self.listed(vendor));
        let listed: Vec<TaskGpus> = listed.collect();
        if let Some(first) = listed.first() {
            let with_gpus = listed.iter().find(|of| !of.own.is_empty());
            let reason = with_gpus.unwrap_or(first).reason.clone();
            let gpus = listed.into_iter().flat_map(|of| of.own).collect();
            return Some(TaskGpus::new(gpus, reason));
        }
        let denied = vendors.filter(|&vendor| self.denies(vendor));
        let gpus: Vec<GpuIndex> = denied.flat_map(|vendor| self.visible(vendor)).collect();
        (!gpus.is_empty()).then(|| TaskGpus::new(gpus, "the GPUs that the task may open"))
    }

    pub fn vendors(&self) -> Vec<GpuVendor> {
        let has = |vendor: &GpuVendor| self.node.gpus.iter().any(|gpu| gpu.vendor == *vendor);
        GpuVendor::ALL.into_iter().filter(has).collect()
    }

    /// True if a GPU of this vendor is denied to the task. Other vendors' GPUs do not count: Slurm
    /// may deny a display adapter to all tasks.
    fn denies(&self, vendor: GpuVendor) -> bool {
        let mut access = self.node.gpus.iter().zip(&self.grant.access);
        access.any(|(gpu, access)| gpu.vendor == vendor && *access == Access::Denied)
    }

    /// The vendor's GPUs that the task may open, in the runtime's order.
    pub fn visible(&self, vendor: GpuVendor) -> Vec<GpuIndex> {
        let denied = self.denies(vendor);
        let mut gpus = positions(self.node, vendor);
        // if none is denied, a GPU without a known device node counts too
        gpus.retain(|&gpu| !denied || self.grant.access.get(gpu.0) == Some(&Access::Allowed));
        in_runtime_order(self.node, &mut gpus);
        gpus
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.grant.variables.get(name).map(String::as_str)
    }

    /// The GPUs that the vendor's variables name; `None` if no variable is set.
    fn listed(&self, vendor: GpuVendor) -> Option<TaskGpus> {
        match vendor {
            Nvidia => self.variable(CUDA).map(|list| self.cuda(list)),
            Amd => self.rocm(),
            // Level Zero ignores an empty mask and `default`
            Intel => self
                .variable(ZE)
                .filter(|mask| !matches!(*mask, "" | "default"))
                .map(|mask| self.ze(mask)),
        }
    }

    fn cuda(&self, text: &str) -> TaskGpus {
        let visible = self.visible(Nvidia);
        let listed = list::cuda(self.node, text, &visible);
        if !listed.unknown.is_empty() {
            return self.with_unknown(listed, &visible);
        }
        let is_guess = !listed.by_uuid
            && (1..visible.len()).contains(&listed.gpus.len())
            && self.variable(CUDA_ORDER) != Some("PCI_BUS_ID");
        let mut gpus = self.by_list(Nvidia, CUDA, text, listed);
        if is_guess && unequal(self.node, &visible).is_some() {
            gpus.reason.push_str(&format!(
                ", which is a guess: the GPUs differ, and `{CUDA_ORDER}` is not `PCI_BUS_ID`"
            ));
        }
        gpus
    }

    /// The GPUs of a list with UUIDs unknown on the node; only NVIDIA's library knows MIG UUIDs.
    fn with_unknown(&self, listed: Listed, visible: &[GpuIndex]) -> TaskGpus {
        let is_cut = |gpu: &GpuIndex| self.node.gpu(*gpu).mig_instances.is_some();
        let some_cut = visible.iter().any(is_cut);
        let some_denied = self.denies(Nvidia);
        let mut gpus = listed.gpus;
        let mut reasons = Vec::new();
        if !gpus.is_empty() {
            reasons.push(format!("by the entries of `{CUDA}` that the node knows"));
        }
        for (place, entry) in listed.unknown.iter().enumerate() {
            let may_be = |gpu: &GpuIndex| match entry.starts_with("MIG-") {
                true => !some_cut || is_cut(gpu),
                false => self.node.gpu(*gpu).uuid.is_none(),
            };
            let candidates: Vec<GpuIndex> = visible.iter().copied().filter(may_be).collect();
            let count = candidates.len();
            if place == 0 {
                let entry = shown(entry);
                reasons.push(match (count, some_denied) {
                    (0, _) => format!("`{entry}` names no GPU that the task may open"),
                    (1, _) => format!("`{entry}` can mean no other GPU"),
                    (_, true) => {
                        format!("`{entry}` is one of the GPUs that the task may open, so all of them")
                    }
                    (_, false) => format!(
                        "`{entry}` may be on any of {count} GPUs, and nothing outside the driver tells which"
                    ),
                });
            }
            if count == 1 || some_denied {
                candidates.into_iter().for_each(|gpu| add(&mut gpus, gpu));
            }
        }
        if let more @ 1.. = listed.unknown.len() - 1 {
            reasons.push(more_entries(more));
        }
        TaskGpus::new(gpus, reasons.join("; "))
    }

    /// All ROCm programs read `ROCR_VISIBLE_DEVICES`; only HIP programs read the other lists.
    fn rocm(&self) -> Option<TaskGpus> {
        let visible = self.visible(Amd);
        // on a node with NVIDIA GPUs, CUDA's list is for NVIDIA's
        let has_nvidia = self.vendors().contains(&Nvidia);
        let names = [HIP, CUDA].into_iter().take(if has_nvidia { 1 } else { 2 });
        let mut lists = names.filter_map(|name| Some((name, self.variable(name)?)));
        let hip = lists.find(|(_, list)| !list.is_empty());
        let rocr = self.variable(ROCR).map(|text| {
            let listed = list::rocr(self.node, text, &visible);
            self.by_list(Amd, ROCR, text, listed)
        });
        let Some((name, text)) = hip else {
            return rocr;
        };
        let Some(mut rocr) = rocr else {
            let listed = list::hip(self.node, text, &visible);
            return Some(self.by_list(Amd, name, text, listed));
        };
        let listed = list::hip(self.node, text, &rocr.own);
        if listed.gpus.is_empty() && listed.out_of_range && !rocr.own.is_empty() {
            // HIP counts ROCR's GPUs, but without `AutoDetect` Slurm writes node-wide numbers into
            // both lists
            rocr.reason.push_str(&format!(
                "; `{name}={}` counts among these and names none: a HIP program sees no GPU",
                shown(text)
            ));
            return Some(rocr);
        }
        if listed.gpus != rocr.own {
            rocr.reason
                .push_str(&format!(", then `{name}={}` among these", shown(text)));
        }
        Some(TaskGpus::new(listed.gpus, rocr.reason))
    }

    fn ze(&self, mask: &str) -> TaskGpus {
        let visible = self.visible(Intel);
        let flat = list::is_flat(self.node, mask, self.variable(HIERARCHY), &visible);
        let listed = list::level_zero(self.node, mask, flat, &visible);
        let mut gpus = self.by_list(Intel, ZE, mask, listed);
        if flat && !gpus.own.is_empty() {
            gpus.reason.push_str(", each stack a device");
        }
        gpus
    }

    fn by_list(&self, vendor: GpuVendor, name: &str, text: &str, listed: Listed) -> TaskGpus {
        let Listed { gpus, by_uuid, .. } = listed;
        let text = shown(text);
        let reason = if gpus.is_empty() {
            format!("`{name}={text}` names no GPU of this node that the task may open")
        } else if by_uuid {
            format!("by the UUIDs in `{name}`")
        } else {
            let over = match self.denies(vendor) {
                true => "the GPUs that the task may open",
                false => "all GPUs of the node",
            };
            let mut of_vendor = self.node.gpus.iter().filter(|gpu| gpu.vendor == vendor);
            let order = match of_vendor.any(|gpu| gpu.runtime_index.is_some()) {
                true => "the compute driver's",
                false => "PCI",
            };
            format!("`{name}={text}` over {over}, in {order} order")
        };
        TaskGpus::new(gpus, reason)
    }
}

fn add(gpus: &mut Vec<GpuIndex>, gpu: GpuIndex) {
    if !gpus.contains(&gpu) {
        gpus.push(gpu);
    }
}

/// The GPUs of `SLURM_STEP_GPUS`, except those of a vendor with a denied GPU.
pub fn by_step(sight: &Sight, step: &Step) -> TaskGpus {
    let node = sight.node;
    let mut gpus = Vec::new();
    let reason = if step.gpus.is_none() {
        match sight.grant.access.contains(&Access::Denied) {
            true => "Slurm gave it no GPU, and it may open none",
            false => "Slurm gave it no GPU",
        }
    } else if counts_mig(node) {
        "`SLURM_STEP_GPUS` counts MIG instances here, and nothing else names the task's GPUs"
    } else {
        // without a variable the runtime numbers GPUs in its own order
        gpus = of_the_step(node, step);
        gpus.retain(|&gpu| !sight.denies(node.gpu(gpu).vendor));
        in_runtime_order(node, &mut gpus);
        match gpus.is_empty() {
            true => "`SLURM_STEP_GPUS` names no GPU of this node that the task may open",
            false => "the step's GPUs, as Slurm's `SLURM_STEP_GPUS` lists them",
        }
    };
    TaskGpus::new(gpus, reason)
}

/// True if `SLURM_STEP_GPUS` counts MIG instances.
fn counts_mig(node: &Topology) -> bool {
    node.gpus.iter().any(|gpu| gpu.mig_instances.is_some())
}

/// The step's GPUs on this node. `SLURM_STEP_GPUS` has positions in Slurm's list of the node's
/// GPUs; UUIDs are accepted too.
///
/// We assume that Slurm lists GPUs by device file number, as with `AutoDetect=nvidia`. Without
/// AutoDetect the order is that of gres.conf's `File=` (src/plugins/gres/gpu/gres_gpu.c,
/// gpu_nvidia.c); with `AutoDetect=nvml` it is PCI order, which the files may not follow. Positions
/// are not file numbers: AMD's files begin at `renderD128`, and a failed GPU leaves a gap.
pub fn of_the_step(node: &Topology, step: &Step) -> Vec<GpuIndex> {
    let by_file = by_file(node);
    let mut gpus = Vec::new();
    for entry in entries(step.gpus.as_deref().unwrap_or_default()) {
        if let Some(gpu) = of_entry(node, &by_file, entry) {
            add(&mut gpus, gpu);
        }
    }
    gpus
}

/// The step's GPUs by device file order, and by PCI order: Slurm's list may have either. `None`
/// without a list, or if an entry names no GPU or counts MIG instances.
pub(crate) fn step_orders(node: &Topology, step: &Step) -> Option<[Vec<GpuIndex>; 2]> {
    let list = step.gpus.as_deref().filter(|_| !counts_mig(node))?;
    let by = |order: Vec<GpuIndex>| -> Option<Vec<GpuIndex>> {
        let gpus = entries(list).map(|entry| of_entry(node, &order, entry));
        gpus.collect()
    };
    Some([by(by_file(node))?, by(node.gpu_indices().collect())?])
}

/// The GPU of a `SLURM_STEP_GPUS` entry; `order` is Slurm's list.
fn of_entry(node: &Topology, order: &[GpuIndex], entry: &str) -> Option<GpuIndex> {
    match entry.trim().parse::<usize>() {
        Ok(place) => order.get(place).copied(),
        Err(_) => list::by_uuid(node, entry.trim(), order),
    }
}

/// True for the lists of GPUs that Slurm sets in each task.
pub(crate) fn is_slurms(variable: &str) -> bool {
    [CUDA, ROCR, HIP, ZE].contains(&variable)
}

/// The node's GPUs by vendor and device file number; in PCI order if a number is unknown.
pub fn by_file(node: &Topology) -> Vec<GpuIndex> {
    let mut by_file: Vec<GpuIndex> = node.gpu_indices().collect();
    if node.gpus.iter().all(|gpu| gpu.minor.is_some()) {
        by_file.order_by_key(|&gpu| (node.gpu(gpu).vendor, node.gpu(gpu).minor));
    }
    by_file
}

/// The kinds of `gpus` if there are several; CUDA's default order, fastest first, is then unknown.
pub fn unequal(node: &Topology, gpus: &[GpuIndex]) -> Option<String> {
    let gpus = || gpus.iter().map(|&gpu| node.gpu(gpu));
    let models = order::set(gpus().filter_map(|gpu| gpu.model.as_deref()));
    let devices = order::set(gpus().filter_map(|gpu| node.pci.get(gpu.address)?.device));
    let kinds: Vec<String> = match models.len() {
        2.. => models.iter().map(|model| format!("`{model}`")).collect(),
        _ => devices
            .iter()
            .map(|id| format!("PCI device `{id:#06x}`"))
            .collect(),
    };
    (kinds.len() > 1).then(|| kinds.join(", "))
}

fn shown(text: &str) -> Shown<'_> {
    Shown::word(text, 64)
}
