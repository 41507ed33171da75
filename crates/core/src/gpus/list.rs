//! The vendors' lists of GPUs, each read as its runtime reads it.
#![forbid(unsafe_code)]

use super::add;
use crate::topology::{GpuIndex, Topology};
use std::collections::BTreeSet;

/// NVIDIA's list; HIP reads it too, in place of its own.
pub(super) const CUDA: &str = "CUDA_VISIBLE_DEVICES";
/// `PCI_BUS_ID`, or fastest first.
pub(super) const CUDA_ORDER: &str = "CUDA_DEVICE_ORDER";
/// AMD's list for all programs.
pub(super) const ROCR: &str = "ROCR_VISIBLE_DEVICES";
/// AMD's list for HIP programs, applied to what [`ROCR`] leaves.
pub(super) const HIP: &str = "HIP_VISIBLE_DEVICES";
pub(super) const ZE: &str = "ZE_AFFINITY_MASK";
/// The unit of numbers in Intel's list: cards for `COMPOSITE`, stacks (tiles) for `FLAT` and `COMBINED`.
pub(super) const HIERARCHY: &str = "ZE_FLAT_DEVICE_HIERARCHY";

#[derive(Default)]
pub(super) struct Listed {
    /// each once, in the list's order
    pub gpus: Vec<GpuIndex>,
    /// true if a UUID named one of them
    pub by_uuid: bool,
    /// entries in the form of a UUID that the node does not list; they may still be a GPU's
    pub unknown: Vec<String>,
    /// true if the list ended at a number that is too high
    pub out_of_range: bool,
}

/// The entries of a list, as many as are read: the runtimes stop at the number of devices.
pub(crate) fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').take(256)
}

/// CUDA's: up to the first invalid entry (CUDA Programming Guide, "CUDA Environment Variables").
pub(super) fn cuda(topology: &Topology, text: &str, visible: &[GpuIndex]) -> Listed {
    let mut listed = Listed::default();
    for entry in entries(text).map(str::trim) {
        if let Ok(index) = entry.parse::<usize>() {
            let Some(&gpu) = visible.get(index) else {
                break;
            };
            add(&mut listed.gpus, gpu);
        } else if let Some(gpu) = by_uuid(topology, entry, visible) {
            listed.by_uuid = true;
            add(&mut listed.gpus, gpu);
        } else if is_unknown(topology, entry, visible) {
            listed.unknown.push(entry.to_string());
        } else {
            break;
        }
    }
    listed
}

/// The GPU in `GPU-<uuid>` and in `MIG-GPU-<uuid>/<gi>/<ci>`, the form before driver 470.42; for CUDA the
/// first digits are enough if only one GPU has them.
pub(super) fn by_uuid(topology: &Topology, entry: &str, visible: &[GpuIndex]) -> Option<GpuIndex> {
    let uuid = gpu_uuid(entry)?;
    let mut found = visible.iter().copied().filter(|&gpu| {
        let known = topology.gpu(gpu).uuid.as_deref();
        known.is_some_and(|known| starts_with(known, uuid))
    });
    found.next().filter(|_| found.next().is_none())
}

fn gpu_uuid(entry: &str) -> Option<&str> {
    let uuid = entry.strip_prefix("MIG-").unwrap_or(entry);
    uuid.starts_with("GPU-")
        .then(|| uuid.split('/').next().unwrap_or(uuid))
}

/// True for text that may be the UUID of a GPU, or a part of one, that the node does not list.  The driver prints no
/// GPU's UUID before it has started the GPU, and no MIG instance's at all.
fn is_unknown(topology: &Topology, entry: &str, visible: &[GpuIndex]) -> bool {
    if let Some(uuid) = gpu_uuid(entry) {
        let known = |gpu: &GpuIndex| topology.gpu(*gpu).uuid.as_deref();
        let is_one = visible
            .iter()
            .filter_map(known)
            .any(|known| starts_with(known, uuid));
        return !is_one && visible.iter().any(|gpu| known(gpu).is_none());
    }
    let uuid = entry.strip_prefix("MIG-").unwrap_or_default();
    uuid.bytes().any(|byte| byte.is_ascii_hexdigit())
        && uuid
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.len() >= prefix.len()
        && text.as_bytes()[..prefix.len()].eq_ignore_ascii_case(prefix.as_bytes())
}

/// ROCm's, for all programs (ROCR-Runtime, src/core/runtime/amd_filter_device.cpp): up to the first entry
/// that is invalid or repeats one; UUIDs in upper or lower case, at least one digit of them; numbers as
/// strtol(3) reads them.
pub(super) fn rocr(topology: &Topology, text: &str, visible: &[GpuIndex]) -> Listed {
    let mut listed = Listed::default();
    for entry in entries(text).map(|entry| entry.trim().to_ascii_uppercase()) {
        let is_uuid = entry.starts_with('G');
        let gpu = match is_uuid {
            true if (5..=20).contains(&entry.len()) => by_uuid(topology, &entry, visible),
            true => None,
            false => strtol(&entry).and_then(|index| visible.get(index).copied()),
        };
        let Some(gpu) = gpu.filter(|gpu| !listed.gpus.contains(gpu)) else {
            break;
        };
        listed.by_uuid |= is_uuid;
        add(&mut listed.gpus, gpu);
    }
    listed
}

/// `7`, `0x7`, `07`: the whole text, read as by strtol(3) with base 0.
fn strtol(text: &str) -> Option<usize> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    match digits.strip_prefix("0X") {
        Some(hex) => usize::from_str_radix(hex, 16).ok(),
        None if digits.starts_with('0') => usize::from_str_radix(digits, 8).ok(),
        None => digits.parse().ok(),
    }
}

/// ROCm's, for HIP programs (ROCm/clr, rocclr/device/rocm/rocdevice.cpp): numbers in plain decimal form, up
/// to the first other entry; newer releases take UUIDs too.
pub(super) fn hip(topology: &Topology, text: &str, visible: &[GpuIndex]) -> Listed {
    let mut listed = Listed::default();
    for entry in entries(text) {
        let index = entry
            .parse::<usize>()
            .ok()
            .filter(|index| index.to_string() == entry);
        let gpu = match index {
            Some(index) => visible.get(index).copied(),
            None => by_uuid(topology, entry, visible),
        };
        let Some(gpu) = gpu else {
            listed.out_of_range = index.is_some();
            break;
        };
        listed.by_uuid |= index.is_none();
        add(&mut listed.gpus, gpu);
    }
    listed
}

/// True if a number counts stacks (Level Zero's `FLAT` and `COMBINED`, the default if GPUs have several), false for
/// cards.  An entry with a dot means that the mask was written for cards.
pub(super) fn is_flat(
    topology: &Topology,
    mask: &str,
    hierarchy: Option<&str>,
    visible: &[GpuIndex],
) -> bool {
    match hierarchy {
        Some("COMPOSITE") => false,
        Some("FLAT" | "COMBINED") => true,
        _ => !mask.contains('.') && visible.iter().any(|&gpu| stacks(topology, gpu).is_some()),
    }
}

/// Level Zero's (intel/compute-runtime, shared/source/execution_environment/execution_environment.cpp): a set
/// of devices in their own order, without invalid entries.
pub(super) fn level_zero(
    topology: &Topology,
    mask: &str,
    flat: bool,
    visible: &[GpuIndex],
) -> Vec<GpuIndex> {
    let devices: Vec<GpuIndex> = match flat {
        true => visible
            .iter()
            .flat_map(|&gpu| (0..stacks(topology, gpu).unwrap_or(1)).map(move |_| gpu))
            .collect(),
        false => visible.to_vec(),
    };
    let mut chosen: BTreeSet<GpuIndex> = BTreeSet::new();
    for entry in entries(mask).map(str::trim) {
        let (device, stack) = entry
            .split_once('.')
            .map_or((entry, None), |(device, stack)| (device, Some(stack)));
        let Some(&gpu) = device
            .parse::<usize>()
            .ok()
            .and_then(|index| devices.get(index))
        else {
            continue;
        };
        let is_one = match stack {
            None => true,
            Some(_) if flat => false,
            // a part of a stack, `0.1.2`, still belongs to the card
            Some(stack) => stack
                .split('.')
                .next()
                .and_then(|stack| stack.parse::<u32>().ok())
                .is_some_and(|stack| stacks(topology, gpu).is_none_or(|stacks| stack < stacks)),
        };
        if is_one {
            chosen.insert(gpu);
        }
    }
    visible
        .iter()
        .copied()
        .filter(|gpu| chosen.contains(gpu))
        .collect()
}

/// The number of stacks of an Intel GPU, if several: two of the Data Center GPU Max 1550 and 1350
/// (intel/compute-runtime, shared/source/dll/devices/devices_base.inl).
fn stacks(topology: &Topology, gpu: GpuIndex) -> Option<u32> {
    let device = topology
        .pci
        .get(topology.gpu(gpu).address)
        .and_then(|function| function.device);
    match device {
        Some(0x0bd4..=0x0bd8) => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{cuda, strtol};
    use crate::topology::{Gpu, GpuVendor, Provenance, Topology};

    /// The GPUs that CUDA's list names on a node whose GPUs have these UUIDs, as far as the driver prints them.
    fn named(list: &str, uuids: &[Option<&str>]) -> (Vec<usize>, Vec<String>) {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        topology.gpus.extend((1..).zip(uuids).map(|(bus, uuid)| {
            let address = format!("{bus:02x}:00.0").parse().unwrap();
            Gpu {
                uuid: uuid.map(str::to_string),
                ..Gpu::new(address, GpuVendor::Nvidia)
            }
        }));
        let listed = cuda(&topology, list, &topology.gpu_indices().collect::<Vec<_>>());
        (
            listed.gpus.iter().map(|gpu| gpu.0).collect(),
            listed.unknown,
        )
    }

    #[test]
    fn a_uuid_ends_the_list_unless_it_may_be_that_of_a_gpu_of_which_none_is_known() {
        let (all, some) = (
            [Some("GPU-10"), Some("GPU-11")],
            [Some("GPU-10"), Some("GPU-11"), None],
        );
        assert_eq!(
            named("GPU-11,GPU-2,GPU-10", &all),
            (vec![1], vec![]),
            "no GPU of the node has it"
        );
        assert_eq!(
            named("GPU-11,GPU-2,GPU-10", &some),
            (vec![1, 0], vec!["GPU-2".to_string()])
        );
        assert_eq!(
            named("GPU-11,GPU-1,GPU-10", &some),
            (vec![1], vec![]),
            "two begin like this"
        );
    }

    #[test]
    fn a_number_is_read_as_by_strtol_with_base_0() {
        for (text, number) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("08", None),
            ("010", Some(8)),
            ("0X1F", Some(31)),
            ("+12", Some(12)),
            ("1A", None),
            ("", None),
        ] {
            assert_eq!(strtol(text), number, "`{text}`");
        }
    }
}
