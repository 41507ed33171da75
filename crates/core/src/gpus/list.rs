//! Each vendor's list of GPUs, by the rules of the vendor's runtime.

use super::add;
use crate::order;
use crate::topology::{GpuIndex, Topology};

/// NVIDIA's list; HIP reads it if [`HIP`] is empty or unset.
pub(super) const CUDA: &str = "CUDA_VISIBLE_DEVICES";
/// `PCI_BUS_ID` means PCI order; by default CUDA lists the fastest GPU first.
pub(super) const CUDA_ORDER: &str = "CUDA_DEVICE_ORDER";
pub(super) const ROCR: &str = "ROCR_VISIBLE_DEVICES";
/// AMD's list for HIP programs; its numbers count [`ROCR`]'s GPUs.
pub(super) const HIP: &str = "HIP_VISIBLE_DEVICES";
pub(super) const ZE: &str = "ZE_AFFINITY_MASK";
/// Numbers of [`ZE`] count cards for `COMPOSITE`, stacks (tiles) for `FLAT` and `COMBINED`.
pub(super) const HIERARCHY: &str = "ZE_FLAT_DEVICE_HIERARCHY";

#[derive(Default)]
pub(super) struct Listed {
    /// each once, in the program's order
    pub gpus: Vec<GpuIndex>,
    pub by_uuid: bool,
    /// UUIDs, maybe of MIG instances or of GPUs with unknown UUID
    pub unknown: Vec<String>,
    /// true if HIP's list ended at a number beyond the last GPU
    pub out_of_range: bool,
}

/// The first 256 entries: runtimes stop at the number of devices.
pub(crate) fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').take(256)
}

/// CUDA's list up to the first invalid entry (CUDA Programming Guide, "CUDA Environment
/// Variables").
pub(super) fn cuda(node: &Topology, text: &str, visible: &[GpuIndex]) -> Listed {
    let mut listed = Listed::default();
    for entry in entries(text).map(str::trim) {
        let gpu = match entry.parse::<usize>() {
            Ok(index) => visible.get(index).copied(),
            Err(_) => by_uuid(node, entry, visible).inspect(|_| listed.by_uuid = true),
        };
        match gpu {
            Some(gpu) => add(&mut listed.gpus, gpu),
            None if is_unknown(node, entry, visible) => listed.unknown.push(entry.to_string()),
            None => break,
        }
    }
    listed
}

/// The GPU of `GPU-<uuid>` or, before driver 470.42, of `MIG-GPU-<uuid>/<gi>/<ci>`. CUDA accepts a
/// UUID's prefix if only one GPU has it.
pub(super) fn by_uuid(node: &Topology, entry: &str, visible: &[GpuIndex]) -> Option<GpuIndex> {
    let uuid = gpu_uuid(entry)?;
    let known = |gpu: GpuIndex| node.gpu(gpu).uuid.as_deref();
    let gpus = visible.iter().copied();
    let mut found = gpus.filter(|&gpu| known(gpu).is_some_and(|known| starts_with(known, uuid)));
    found.next().filter(|_| found.next().is_none())
}

fn gpu_uuid(entry: &str) -> Option<&str> {
    let uuid = entry.strip_prefix("MIG-").unwrap_or(entry);
    uuid.split('/')
        .next()
        .filter(|uuid| uuid.starts_with("GPU-"))
}

/// True for a MIG instance's UUID. If a visible GPU's UUID is unknown, also true for a GPU's UUID
/// or prefix that matches no known UUID. NVIDIA's driver prints a GPU's UUID only after the GPU has
/// started, and never a MIG instance's.
fn is_unknown(node: &Topology, entry: &str, visible: &[GpuIndex]) -> bool {
    if let Some(uuid) = gpu_uuid(entry) {
        let known = || visible.iter().map(|&gpu| node.gpu(gpu).uuid.as_deref());
        let is_one = known().flatten().any(|known| starts_with(known, uuid));
        return !is_one && known().any(|known| known.is_none());
    }
    let uuid = entry.strip_prefix("MIG-").unwrap_or_default();
    uuid.bytes().any(|byte| byte.is_ascii_hexdigit())
        && uuid
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.as_bytes()
        .get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// ROCm's list for all programs, up to the first invalid or repeated entry (ROCR-Runtime,
/// src/core/runtime/amd_filter_device.cpp). Entries are strtol(3)'s numbers, or UUIDs or their
/// prefixes, in upper or lower case, with at least one digit.
pub(super) fn rocr(node: &Topology, text: &str, visible: &[GpuIndex]) -> Listed {
    let mut listed = Listed::default();
    for entry in entries(text).map(|entry| entry.trim().to_ascii_uppercase()) {
        let is_uuid = entry.starts_with('G');
        let gpu = match is_uuid {
            true if (5..=20).contains(&entry.len()) => by_uuid(node, &entry, visible),
            true => None,
            false => strtol(&entry).and_then(|index| visible.get(index).copied()),
        };
        let Some(gpu) = gpu.filter(|gpu| !listed.gpus.contains(gpu)) else {
            break;
        };
        listed.by_uuid |= is_uuid;
        listed.gpus.push(gpu);
    }
    listed
}

/// The number that strtol(3) reads with base 0: `7`, `0X7`, `07`.
fn strtol(text: &str) -> Option<usize> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    match digits.strip_prefix("0X") {
        Some(hex) => usize::from_str_radix(hex, 16).ok(),
        None if digits.starts_with('0') => usize::from_str_radix(digits, 8).ok(),
        None => digits.parse().ok(),
    }
}

/// ROCm's list for HIP programs, up to the first invalid entry: decimal numbers, in newer releases
/// also UUIDs (ROCm/clr, rocclr/device/rocm/rocdevice.cpp).
pub(super) fn hip(node: &Topology, text: &str, visible: &[GpuIndex]) -> Listed {
    let mut listed = Listed::default();
    for entry in entries(text) {
        let index = entry.parse::<usize>().ok();
        let index = index.filter(|index| index.to_string() == entry);
        let gpu = match index {
            Some(index) => visible.get(index).copied(),
            None => by_uuid(node, entry, visible),
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

/// True if Level Zero's mask counts stacks: under `FLAT` and `COMBINED`; without a hierarchy, if a
/// GPU has several stacks and the mask has no dot (`0.1`).
pub(super) fn is_flat(
    node: &Topology,
    mask: &str,
    hierarchy: Option<&str>,
    visible: &[GpuIndex],
) -> bool {
    match hierarchy {
        Some("COMPOSITE") => false,
        Some("FLAT" | "COMBINED") => true,
        _ => !mask.contains('.') && visible.iter().any(|&gpu| stacks(node, gpu).is_some()),
    }
}

/// The GPUs of Level Zero's mask in device order, not the mask's. Level Zero skips invalid entries
/// (intel/compute-runtime, shared/source/execution_environment/execution_environment.cpp).
pub(super) fn level_zero(node: &Topology, mask: &str, flat: bool, visible: &[GpuIndex]) -> Listed {
    let mut devices = Vec::new();
    for &gpu in visible {
        let count = if flat {
            stacks(node, gpu).unwrap_or(1)
        } else {
            1
        };
        devices.extend(std::iter::repeat_n(gpu, count as usize));
    }
    let chosen = entries(mask).map(str::trim).filter_map(|entry| {
        let (device, stack) = match entry.split_once('.') {
            Some((device, stack)) => (device, Some(stack)),
            None => (entry, None),
        };
        let gpu = *devices.get(device.parse::<usize>().ok()?)?;
        let Some(stack) = stack else {
            return Some(gpu);
        };
        // `0.1.2` is a part of card 0's stack 1
        let stack: u32 = stack.split('.').next()?.parse().ok()?;
        let is_there = !flat && stacks(node, gpu).is_none_or(|stacks| stack < stacks);
        is_there.then_some(gpu)
    });
    let chosen = order::set(chosen);
    let mut gpus = visible.to_vec();
    gpus.retain(|gpu| chosen.contains(gpu));
    Listed {
        gpus,
        ..Listed::default()
    }
}

/// 2 for Intel's Data Center GPU Max 1550 and 1350, which have two stacks; else `None`
/// (intel/compute-runtime, shared/source/dll/devices/devices_base.inl).
fn stacks(node: &Topology, gpu: GpuIndex) -> Option<u32> {
    match node.pci.get(node.gpu(gpu).address)?.device? {
        0x0bd4..=0x0bd8 => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{cuda, strtol};
    use crate::topology::{Gpu, GpuIndex, GpuVendor, Provenance, Topology};

    #[test]
    fn a_uuid_ends_the_list_unless_it_may_be_that_of_a_gpu_of_which_none_is_known() {
        let (known, some) = ([Some("GPU-10"), Some("GPU-11")], [None]);
        for (list, has_unknown, gpus, unknown) in [
            // no GPU of the node has it
            ("GPU-11,GPU-2,GPU-10", false, &[1][..], &[][..]),
            ("GPU-11,GPU-2,GPU-10", true, &[1, 0], &["GPU-2"]),
            // two begin like this
            ("GPU-11,GPU-1,GPU-10", true, &[1], &[]),
        ] {
            let mut topology = Topology::empty("test", Provenance::ThisSystem);
            let uuids = known.iter().chain(some.iter().filter(|_| has_unknown));
            topology.gpus.extend((1..).zip(uuids).map(|(bus, uuid)| {
                let address = format!("{bus:02x}:00.0").parse().unwrap();
                let mut gpu = Gpu::new(address, GpuVendor::Nvidia);
                gpu.uuid = uuid.map(str::to_string);
                gpu
            }));
            let visible: Vec<GpuIndex> = topology.gpu_indices().collect();
            let listed = cuda(&topology, list, &visible);
            let found: Vec<usize> = listed.gpus.iter().map(|gpu| gpu.0).collect();
            let got = (&found[..], &listed.unknown[..]);
            assert_eq!(got, (gpus, &strings(unknown)[..]));
        }
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_number_is_read_as_by_strtol_with_base_0() {
        let numbers = ["0", "7", "010", "0X1F", "+12"].map(strtol);
        assert_eq!(numbers, [0, 7, 8, 31, 12].map(Some));
        assert_eq!(["08", "1A", ""].map(strtol), [None; 3]);
    }
}
