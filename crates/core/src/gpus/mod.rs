//! The GPUs of a task, from what Slurm and the kernel let it see.
//!
//! What counts is what the program will see, so we compute what its runtime does, not what Slurm intended.
//! The evidence, in order, for each vendor's GPUs:
//!
//! 1. If the task may not open one GPU's device node (a device cgroup, `ConstrainDevices`), only those that
//!    it may open exist: the runtimes leave the others out before they count.
//! 2. The vendor's variables, applied to those by the runtime's own rules (`list`): UUIDs by name, numbers
//!    by position in the runtime's order.  That is PCI order, for AMD the compute driver's.
//! 3. An entry that names a GPU without a number (`MIG-<uuid>`, a UUID unknown on the node): the one GPU that
//!    it can mean; else, under 1, all that the task may open; else none, because a wrong guess would move its
//!    traffic to a far NIC.
//! 4. Without a variable: under 1, what the task may open.
//! 5. Else `SLURM_STEP_GPUS` of the whole step (`--gpu-bind=none` of 22.05 takes the variables away, its own too).
//! 6. Else none: a task without GPUs.
//!
//! We do not use Slurm's own per-task numbers: under `ConstrainDevices` every task reports the first GPUs of
//! the step (`common_gres_set_env` in Slurm's src/interfaces/gres.c).  Nor do we use `SLURM_JOB_GPUS`, which
//! a batch script hands down to the sruns on every node.  Shards and MPS set the same variables as whole
//! GPUs; several tasks then share one GPU.
#![forbid(unsafe_code)]

mod claim;
mod list;
mod seen;
#[cfg(test)]
mod tests;

pub use claim::{by_local_id, uncountable};
pub(crate) use list::entries;
pub use seen::seen;

use crate::diagnostic::{Diagnostic, Shown, more_entries};
use crate::order::{self, Order};
use crate::step::{Access, Claim, GpuGrant, Step};
use crate::topology::{GpuIndex, GpuVendor, Topology};
use list::{CUDA, CUDA_ORDER, HIERARCHY, HIP, Listed, ROCR, ZE};

/// The variables that decide; no others are read of the task's environment.
///
/// `GPU_DEVICE_ORDINAL`, which Slurm sets too, is read by OpenCL alone (ROCm/clr, rocclr/device/rocm/rocdevice.cpp).
pub const VARIABLES: [&str; 6] = [CUDA, CUDA_ORDER, ROCR, HIP, ZE, HIERARCHY];

/// The GPUs that the program will see.
pub fn identify(topology: &Topology, step: &Step, grant: &GpuGrant) -> Claim {
    let sight = Sight { topology, grant };
    sight.claim().unwrap_or_else(|| by_step(&sight, step))
}

/// A warning, before any task runs, about numbers that may not mean the GPU that Slurm, or the user, has in mind.
pub fn lint(topology: &Topology) -> Option<Diagnostic> {
    let kinds = unequal(topology, &positions(topology, GpuVendor::Nvidia))?;
    Some(Diagnostic::new(
        CUDA_ORDER,
        format!(
            "the GPUs differ ({kinds}), and unless it is `PCI_BUS_ID` CUDA numbers the fastest first: which GPU a number means \
             is then a guess; set it for all jobs, or let Slurm list UUIDs"
        ),
    ))
}

fn positions(topology: &Topology, vendor: GpuVendor) -> Vec<GpuIndex> {
    topology
        .gpu_indices()
        .filter(|&gpu| topology.gpu(gpu).vendor == vendor)
        .collect()
}

/// Orders GPUs as their vendor's runtime counts them.
fn in_runtime_order(topology: &Topology, gpus: &mut [GpuIndex]) {
    gpus.order_by_key(|&gpu| {
        let index = topology.gpu(gpu).runtime_index;
        (index.is_none(), index, gpu)
    });
}

struct Sight<'a> {
    topology: &'a Topology,
    grant: &'a GpuGrant,
}

impl Sight<'_> {
    /// By the vendors' variables, else by the denied devices; `None` where neither says anything.
    fn claim(&self) -> Option<Claim> {
        let listed: Vec<Claim> = self
            .vendors()
            .into_iter()
            .filter_map(|vendor| self.listed(vendor))
            .collect();
        if let Some(first) = listed.first() {
            // on a node with several vendors' GPUs, the reason is that of the first vendor with some
            let with_gpus = listed.iter().find(|claim| !claim.gpus.is_empty());
            let reason = with_gpus.unwrap_or(first).reason.clone();
            return Some(Claim {
                gpus: listed.into_iter().flat_map(|claim| claim.gpus).collect(),
                reason,
            });
        }
        let denied = self
            .vendors()
            .into_iter()
            .filter(|&vendor| self.denies(vendor));
        let gpus: Vec<GpuIndex> = denied.flat_map(|vendor| self.visible(vendor)).collect();
        let reason = "the GPUs that the task may open".to_string();
        (!gpus.is_empty()).then_some(Claim { gpus, reason })
    }

    fn vendors(&self) -> Vec<GpuVendor> {
        let has = |vendor: &GpuVendor| self.topology.gpus.iter().any(|gpu| gpu.vendor == *vendor);
        GpuVendor::ALL.into_iter().filter(has).collect()
    }

    /// True if one of this vendor's GPUs is denied; another vendor's display adapter may be denied to all.
    fn denies(&self, vendor: GpuVendor) -> bool {
        let access = self.topology.gpus.iter().zip(&self.grant.access);
        access
            .into_iter()
            .any(|(gpu, access)| gpu.vendor == vendor && *access == Access::Denied)
    }

    /// The vendor's GPUs that exist for the task, in its runtime's order.
    fn visible(&self, vendor: GpuVendor) -> Vec<GpuIndex> {
        let denied = self.denies(vendor);
        let mut gpus = positions(self.topology, vendor);
        // without a denial the task can open every GPU, even one whose device node we did not find
        gpus.retain(|&gpu| !denied || self.grant.access.get(gpu.0) == Some(&Access::Allowed));
        in_runtime_order(self.topology, &mut gpus);
        gpus
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.grant.variables.get(name).map(String::as_str)
    }

    /// By the vendor's variables; `None` if none of them is set.
    fn listed(&self, vendor: GpuVendor) -> Option<Claim> {
        match vendor {
            GpuVendor::Nvidia => self.variable(CUDA).map(|list| self.cuda(list)),
            GpuVendor::Amd => self.rocm(),
            // Level Zero reads these as no mask at all
            GpuVendor::Intel => self
                .variable(ZE)
                .filter(|mask| !matches!(*mask, "" | "default"))
                .map(|mask| self.ze(mask)),
        }
    }

    fn cuda(&self, text: &str) -> Claim {
        let visible = self.visible(GpuVendor::Nvidia);
        let listed = list::cuda(self.topology, text, &visible);
        if !listed.unknown.is_empty() {
            return self.with_unknown(listed, &visible);
        }
        let Listed { gpus, by_uuid, .. } = listed;
        let mut reason = self.reason(CUDA, text, GpuVendor::Nvidia, &gpus, by_uuid);
        let is_guess = !by_uuid
            && !gpus.is_empty()
            && gpus.len() < visible.len()
            && self.variable(CUDA_ORDER) != Some("PCI_BUS_ID");
        if is_guess && unequal(self.topology, &visible).is_some() {
            reason.push_str(&format!(
                ", which is a guess: the GPUs differ, and `{CUDA_ORDER}` is not `PCI_BUS_ID`"
            ));
        }
        Claim { gpus, reason }
    }

    /// Entries for a GPU unknown on the node: only the driver's library knows a MIG instance's UUID.
    fn with_unknown(&self, listed: Listed, visible: &[GpuIndex]) -> Claim {
        let is_cut = |gpu: &GpuIndex| self.topology.gpu(*gpu).mig_instances.is_some();
        let is_nameless = |gpu: &GpuIndex| self.topology.gpu(*gpu).uuid.is_none();
        let mut gpus = listed.gpus;
        let mut reasons = Vec::new();
        if !gpus.is_empty() {
            reasons.push(format!("by the entries of `{CUDA}` that the node knows"));
        }
        for (place, entry) in listed.unknown.iter().enumerate() {
            let candidates: Vec<GpuIndex> = match entry.starts_with("MIG-") {
                true if visible.iter().any(is_cut) => {
                    visible.iter().copied().filter(is_cut).collect()
                }
                true => visible.to_vec(),
                false => visible.iter().copied().filter(is_nameless).collect(),
            };
            let (count, some_denied) = (candidates.len(), self.denies(GpuVendor::Nvidia));
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
        Claim {
            gpus,
            reason: reasons.join("; "),
        }
    }

    /// ROCR_VISIBLE_DEVICES applies to all programs; HIP programs count the remaining GPUs anew.
    fn rocm(&self) -> Option<Claim> {
        let visible = self.visible(GpuVendor::Amd);
        // HIP takes the first nonempty one; on a node with NVIDIA's GPUs the second is meant for those
        let hip = [
            (HIP, true),
            (CUDA, !self.vendors().contains(&GpuVendor::Nvidia)),
        ]
        .into_iter()
        .find_map(|(name, counts)| {
            let list = self
                .variable(name)
                .filter(|list| counts && !list.is_empty())?;
            Some((name, list))
        });
        let rocr = self.variable(ROCR);
        if rocr.is_none() && hip.is_none() {
            return None;
        }
        let (below, mut reason) = match rocr {
            Some(text) => {
                let Listed { gpus, by_uuid, .. } = list::rocr(self.topology, text, &visible);
                let reason = self.reason(ROCR, text, GpuVendor::Amd, &gpus, by_uuid);
                (gpus, reason)
            }
            None => (visible, String::new()),
        };
        let Some((name, text)) = hip else {
            return Some(Claim {
                gpus: below,
                reason,
            });
        };
        let Listed {
            gpus,
            by_uuid,
            out_of_range,
            ..
        } = list::hip(self.topology, text, &below);
        if rocr.is_none() {
            reason = self.reason(name, text, GpuVendor::Amd, &gpus, by_uuid);
        } else if gpus.is_empty() && out_of_range && !below.is_empty() {
            // Slurm without AutoDetect lists node-wide numbers in both
            reason.push_str(&format!(
                "; `{name}={}` counts among these and names none: a HIP program sees no GPU",
                shown(text)
            ));
            return Some(Claim {
                gpus: below,
                reason,
            });
        } else if gpus != below {
            reason.push_str(&format!(", then `{name}={}` among these", shown(text)));
        }
        Some(Claim { gpus, reason })
    }

    fn ze(&self, mask: &str) -> Claim {
        let visible = self.visible(GpuVendor::Intel);
        let flat = list::is_flat(self.topology, mask, self.variable(HIERARCHY), &visible);
        let gpus = list::level_zero(self.topology, mask, flat, &visible);
        let mut reason = self.reason(ZE, mask, GpuVendor::Intel, &gpus, false);
        if flat && !gpus.is_empty() {
            reason.push_str(", each stack a device");
        }
        Claim { gpus, reason }
    }

    fn reason(
        &self,
        name: &str,
        text: &str,
        vendor: GpuVendor,
        gpus: &[GpuIndex],
        by_uuid: bool,
    ) -> String {
        if gpus.is_empty() {
            return format!(
                "`{name}={}` names no GPU of this node that the task may open",
                shown(text)
            );
        }
        if by_uuid {
            return format!("by the UUIDs in `{name}`");
        }
        let over = match self.denies(vendor) {
            true => "the GPUs that the task may open",
            false => "all GPUs of the node",
        };
        let of_driver = self
            .topology
            .gpus
            .iter()
            .any(|gpu| gpu.vendor == vendor && gpu.runtime_index.is_some());
        let order = if of_driver {
            "in the compute driver's order"
        } else {
            "in PCI order"
        };
        format!("`{name}={}` over {over}, {order}", shown(text))
    }
}

fn add(gpus: &mut Vec<GpuIndex>, gpu: GpuIndex) {
    if !gpus.contains(&gpu) {
        gpus.push(gpu);
    }
}

/// The `SLURM_STEP_GPUS` for these GPUs.
pub fn slurms_numbers(topology: &Topology, gpus: &[GpuIndex]) -> String {
    let by_file = by_file(topology);
    let place = |gpu: &GpuIndex| {
        by_file
            .iter()
            .position(|other| other == gpu)
            .unwrap_or(gpu.0)
            .to_string()
    };
    gpus.iter().map(place).collect::<Vec<_>>().join(",")
}

/// By `SLURM_STEP_GPUS`, without the GPUs that the task may not open.
fn by_step(sight: &Sight, step: &Step) -> Claim {
    let topology = sight.topology;
    let none = |reason: &str| Claim {
        gpus: Vec::new(),
        reason: reason.to_string(),
    };
    if step.gpus.is_none() {
        return none(match sight.grant.access.contains(&Access::Denied) {
            true => "Slurm gave it no GPU, and it may open none",
            false => "Slurm gave it no GPU",
        });
    }
    if counts_mig(topology) {
        return none(
            "`SLURM_STEP_GPUS` counts MIG instances here, and nothing else names the task's GPUs",
        );
    }
    // without a variable the runtime counts in its own order, whatever Slurm's is
    let mut gpus = of_the_step(topology, step);
    gpus.retain(|&gpu| !sight.denies(topology.gpu(gpu).vendor));
    in_runtime_order(topology, &mut gpus);
    if gpus.is_empty() {
        return none("`SLURM_STEP_GPUS` names no GPU of this node that the task may open");
    }
    Claim {
        gpus,
        reason: "the step's GPUs, as Slurm's `SLURM_STEP_GPUS` lists them".to_string(),
    }
}

/// True if Slurm's places count MIG instances.
fn counts_mig(topology: &Topology) -> bool {
    topology.gpus.iter().any(|gpu| gpu.mig_instances.is_some())
}

/// The GPUs of all tasks of the step on this node by `SLURM_STEP_GPUS`: places in the node's list of GPUs, or UUIDs if
/// the site asked for them.
///
/// That list has the order of `File=` in gres.conf, or of the files' numbers with `AutoDetect=nvidia` (Slurm's
/// src/plugins/gres/gpu/gres_gpu.c, gpu_nvidia.c), which we assume; with `AutoDetect=nvml` PCI order.  These orders
/// differ if the driver did not number in PCI order.  A place is not a file's number: AMD's files begin at
/// `renderD128`, and a failed GPU leaves a hole.
pub(crate) fn of_the_step(topology: &Topology, step: &Step) -> Vec<GpuIndex> {
    let by_file = by_file(topology);
    let mut gpus = Vec::new();
    let entries = list::entries(step.gpus.as_deref().unwrap_or_default());
    entries
        .filter_map(|entry| of_entry(topology, &by_file, entry))
        .for_each(|gpu| add(&mut gpus, gpu));
    gpus
}

/// As [`of_the_step`], by both orders that the node's list may have: of the device files, and of the PCI addresses;
/// `None` if an entry names no GPU, or the places count MIG instances.
pub(crate) fn step_orders(topology: &Topology, step: &Step) -> Option<[Vec<GpuIndex>; 2]> {
    let list = step.gpus.as_deref().filter(|_| !counts_mig(topology))?;
    let by = |order: Vec<GpuIndex>| -> Option<Vec<GpuIndex>> {
        list::entries(list)
            .map(|entry| of_entry(topology, &order, entry))
            .collect()
    };
    Some([
        by(by_file(topology))?,
        by(topology.gpu_indices().collect())?,
    ])
}

/// The GPU of an entry of `SLURM_STEP_GPUS`, if the node's list has this order.
fn of_entry(topology: &Topology, order: &[GpuIndex], entry: &str) -> Option<GpuIndex> {
    match entry.trim().parse::<usize>() {
        Ok(place) => order.get(place).copied(),
        Err(_) => list::by_uuid(topology, entry.trim(), order),
    }
}

/// True for a list that Slurm writes for each task.
pub(crate) fn is_slurms(variable: &str) -> bool {
    [CUDA, ROCR, HIP, ZE].contains(&variable)
}

/// GPUs in the order of their device files' numbers, if these are known.
fn by_file(topology: &Topology) -> Vec<GpuIndex> {
    let mut by_file: Vec<GpuIndex> = topology.gpu_indices().collect();
    if topology.gpus.iter().all(|gpu| gpu.minor.is_some()) {
        by_file.order_by_key(|&gpu| (topology.gpu(gpu).vendor, topology.gpu(gpu).minor));
    }
    by_file
}

/// The kinds of GPUs, if there are several: CUDA counts these fastest first by default.
fn unequal(topology: &Topology, gpus: &[GpuIndex]) -> Option<String> {
    let gpus = || gpus.iter().map(|&gpu| topology.gpu(gpu));
    let models = order::set(gpus().filter_map(|gpu| gpu.model.as_deref()));
    if models.len() > 1 {
        return Some(
            models
                .into_iter()
                .map(|model| format!("`{model}`"))
                .collect::<Vec<_>>()
                .join(", "),
        );
    }
    let devices = order::set(gpus().filter_map(|gpu| topology.pci.get(gpu.address)?.device));
    (devices.len() > 1).then(|| {
        devices
            .into_iter()
            .map(|id| format!("PCI device `{id:#06x}`"))
            .collect::<Vec<_>>()
            .join(", ")
    })
}

fn shown(text: &str) -> Shown<'_> {
    Shown::word(text, 64)
}
