//! Whose GPUs: which GPUs of the node a task has, from what Slurm and the kernel let it see.
//!
//! Slurm's own per-task numbers are wrong under `ConstrainDevices` (every task reports the first GPUs of the step:
//! `common_gres_set_env` in Slurm's src/interfaces/gres.c), so they come last.  What the program will see is decided by
//! the vendor's variable over the devices that the task may open, and that is what is computed here.
#![forbid(unsafe_code)]

use crate::step::{Access, GpuGrant, Step};
use crate::topology::{GpuVendor, Topology};

/// A task's GPUs, positions in the topology in the order in which the program numbers them, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// positions in [`Topology::gpus`]
    pub gpus: Vec<usize>,
    /// how that is known, in words
    pub reason: String,
}

/// Entries of a vendor's list, at most; CUDA itself stops at the number of devices.
const MAX_ENTRIES: usize = 256;

/// The GPUs that the program will see.
pub fn identify(topology: &Topology, step: &Step, grant: &GpuGrant) -> Identity {
    let denied = grant.access.contains(&Access::Denied);
    // without a denial every GPU of the node can be opened, whether its node was found or not
    let may_see = |gpu: &usize| !denied || grant.access.get(*gpu) == Some(&Access::Allowed);
    let visible: Vec<usize> = (0..topology.gpus.len()).filter(may_see).collect();

    let listed: Vec<&(GpuVendor, String)> = grant
        .listed
        .iter()
        .filter(|(vendor, _)| topology.gpus.iter().any(|gpu| gpu.vendor == *vendor))
        .collect();
    if !listed.is_empty() {
        let over = if denied { "the GPUs that the task may open" } else { "all GPUs of the node" };
        let mut identity = Identity { gpus: Vec::new(), reason: String::new() };
        for (vendor, list) in listed {
            let theirs: Vec<usize> =
                visible.iter().copied().filter(|&gpu| topology.gpus[gpu].vendor == *vendor).collect();
            let (gpus, by_uuid) = resolve(topology, list, &theirs);
            let variable = vendor.list_variable();
            let reason = match (gpus.is_empty(), by_uuid) {
                (true, _) => format!("`{variable}` names no GPU of this node"),
                (false, true) => format!("by the UUIDs in `{variable}`"),
                (false, false) => {
                    // a user's text, on its way to a terminal and a log
                    let list: String = list.chars().take(64).flat_map(char::escape_debug).collect();
                    format!("`{variable}={list}` over {over}, in PCI order")
                }
            };
            // where several vendors' GPUs share a node, the one that gave some speaks
            if identity.reason.is_empty() || (identity.gpus.is_empty() && !gpus.is_empty()) {
                identity.reason = reason;
            }
            identity.gpus.extend(gpus);
        }
        return identity;
    }
    if denied {
        return Identity { gpus: visible, reason: "the GPUs that the task may open".to_string() };
    }
    match step.gpus.as_deref().map(|list| step_list(topology, list)) {
        Some(gpus) if !gpus.is_empty() => {
            Identity { gpus, reason: "the step's GPUs, as Slurm's `SLURM_STEP_GPUS` lists them".to_string() }
        }
        _ => Identity { gpus: Vec::new(), reason: "Slurm gave it no GPU".to_string() },
    }
}

/// The vendor's list over the GPUs that can be seen, as CUDA reads it: up to the first entry that means nothing
/// (CUDA C++ Programming Guide, "CUDA Environment Variables").
fn resolve(topology: &Topology, list: &str, visible: &[usize]) -> (Vec<usize>, bool) {
    let mut gpus: Vec<usize> = Vec::new();
    let mut by_uuid = false;
    for entry in list.split(',').take(MAX_ENTRIES).map(str::trim) {
        let gpu = if let Some(uuid) = gpu_uuid(entry) {
            by_uuid = true;
            unique(visible, |gpu| {
                topology.gpus[gpu].uuid.as_deref().is_some_and(|known| starts_with(known, uuid))
            })
        } else {
            // Level Zero writes `0.1` for a tile of a device
            let index = entry.split('.').next().and_then(|digits| digits.parse::<usize>().ok());
            index.and_then(|index| visible.get(index).copied())
        };
        match gpu {
            // two MIG instances, or two tiles, of one GPU
            Some(gpu) if gpus.contains(&gpu) => {}
            Some(gpu) => gpus.push(gpu),
            None => break,
        }
    }
    (gpus, by_uuid)
}

/// The GPU's UUID in `GPU-…` and in the older MIG form `MIG-GPU-…/gi/ci`; a prefix is enough for CUDA.
fn gpu_uuid(entry: &str) -> Option<&str> {
    let uuid = entry.strip_prefix("MIG-").unwrap_or(entry);
    uuid.starts_with("GPU-").then(|| uuid.split('/').next().unwrap_or(uuid))
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.len() >= prefix.len() && text.as_bytes()[..prefix.len()].eq_ignore_ascii_case(prefix.as_bytes())
}

fn unique(visible: &[usize], is_it: impl Fn(usize) -> bool) -> Option<usize> {
    let mut found = visible.iter().copied().filter(|&gpu| is_it(gpu));
    match (found.next(), found.next()) {
        (Some(gpu), None) => Some(gpu),
        _ => None,
    }
}

/// The GPUs of all tasks of the step on this node, as Slurm counts them.
pub fn of_the_step(topology: &Topology, step: &Step) -> Vec<usize> {
    step.gpus.as_deref().map_or_else(Vec::new, |list| step_list(topology, list))
}

/// `SLURM_STEP_GPUS`: positions in the node's list of GPUs, which follows the device files' numbers in every usual
/// gres.conf, or UUIDs where the site asked for them.
fn step_list(topology: &Topology, list: &str) -> Vec<usize> {
    let all: Vec<usize> = (0..topology.gpus.len()).collect();
    let by_minor = |number: u32| {
        unique(&all, |gpu| topology.gpus[gpu].minor == Some(number))
            .or_else(|| all.get(number as usize).copied().filter(|&gpu| topology.gpus[gpu].minor.is_none()))
    };
    let mut gpus = Vec::new();
    for entry in list.split(',').take(MAX_ENTRIES).map(str::trim) {
        let gpu = match entry.parse::<u32>() {
            Ok(number) => by_minor(number),
            Err(_) => resolve(topology, entry, &all).0.first().copied(),
        };
        gpus.extend(gpu.filter(|gpu| !gpus.contains(gpu)));
    }
    gpus
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Gpu, Provenance};

    /// Eight GPUs; the third and fourth have each other's minor number.
    fn node() -> Topology {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        for index in 0..8u32 {
            topology.gpus.push(Gpu {
                minor: Some([0, 1, 3, 2, 4, 5, 6, 7][index as usize]),
                uuid: Some(format!("GPU-{index}a0b0c0d-0000-0000-0000-000000000000")),
                ..Gpu::new(format!("{:02x}:00.0", 0x10 + index).parse().unwrap(), GpuVendor::Nvidia)
            });
        }
        topology
    }

    const NONE: [usize; 0] = [];

    fn identity(listed: Option<&str>, step_gpus: Option<&str>, allowed: Option<&[usize]>) -> Vec<usize> {
        let access = match allowed {
            None => vec![Access::Unknown; 8],
            Some(allowed) => (0..8)
                .map(|gpu| if allowed.contains(&gpu) { Access::Allowed } else { Access::Denied })
                .collect(),
        };
        let listed = listed.map(|list| (GpuVendor::Nvidia, list.to_string())).into_iter().collect();
        let step = Step { gpus: step_gpus.map(str::to_string), ..Step::default() };
        identify(&node(), &step, &GpuGrant { listed, access }).gpus
    }

    #[test]
    fn without_a_device_cgroup_the_list_counts_all_gpus_in_pci_order() {
        assert_eq!(identity(Some("2"), Some("2"), None), [2]);
        assert_eq!(identity(Some("2"), Some("2"), Some(&[0, 1, 2, 3, 4, 5, 6, 7])), [2]);
        assert_eq!(identity(Some("5,0"), None, None), [5, 0]);
    }

    #[test]
    fn under_constrain_devices_the_list_counts_the_gpus_that_the_task_may_open_and_slurms_numbers_are_ignored()
     {
        assert_eq!(identity(Some("0"), Some("0"), Some(&[3])), [3]);
        assert_eq!(identity(Some("0,1"), Some("0,1"), Some(&[4, 6])), [4, 6]);
        assert_eq!(identity(Some("1"), Some("1"), Some(&[4, 6])), [6]);
    }

    #[test]
    fn uuids_are_taken_at_their_word_in_all_spellings() {
        assert_eq!(identity(Some("GPU-3a0b0c0d-0000-0000-0000-000000000000"), None, None), [3]);
        assert_eq!(identity(Some("gpu-3"), None, None), NONE, "CUDA wants the prefix in capitals");
        assert_eq!(identity(Some("GPU-3A0B"), None, None), [3], "the digits in either case, and cut");
        assert_eq!(identity(Some("MIG-GPU-5a0b0c0d-0000-0000-0000-000000000000/1/0"), None, None), [5]);
        let two_instances = "MIG-GPU-5a0b0c0d/1/0,MIG-GPU-5a0b0c0d/2/0";
        assert_eq!(identity(Some(two_instances), None, None), [5]);
    }

    #[test]
    fn an_entry_that_means_nothing_ends_the_list_as_in_cuda() {
        assert_eq!(identity(Some("1,9,2"), None, None), [1]);
        assert_eq!(identity(Some("-1"), Some("0"), None), NONE);
        assert_eq!(identity(Some("NoDevFiles"), None, None), NONE);
        assert_eq!(identity(Some(""), Some("0"), None), NONE);
    }

    #[test]
    fn without_a_list_the_step_counts_by_device_number_and_a_device_cgroup_counts_before_it() {
        assert_eq!(identity(None, Some("0,2"), None), [0, 3], "GPU 3 is /dev/nvidia2");
        assert_eq!(identity(None, Some("0,2"), Some(&[6])), [6]);
        assert_eq!(identity(None, None, None), NONE);
        assert_eq!(identity(None, Some("99,x"), None), NONE);
    }
}
