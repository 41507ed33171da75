//! Reads the attribute values of NCCL's XML.  NCCL has a default for words that it does not know; here they are unknown.

use crate::import::hex;
use nic_placement_core::topology::CpuSet;
use nic_placement_core::topology::file::MAX_RATE_MBPS;

/// The kernel's `cpumap`: `0000ffff,ffffffff`.
pub fn affinity(text: &str) -> Option<CpuSet> {
    let text = text.trim();
    match text.split(',').any(str::is_empty) {
        true => None,
        false if text.contains(',') => crate::import::mask(text),
        false => CpuSet::from_mask(text).ok(),
    }
}

/// The inverse: groups for all CPUs below `count`, at least one.
pub fn mask(cpus: &CpuSet, count: u32) -> String {
    let groups = count.div_ceil(32).max(1) as usize;
    let word = |group: usize| {
        let word = cpus.words().get(group / 2).copied().unwrap_or(0);
        (word >> (group % 2 * 32)) as u32
    };
    let groups: Vec<String> = (0..groups)
        .rev()
        .map(|group| format!("{:08x}", word(group)))
        .collect();
    groups.join(",")
}

/// `0x10de`
pub fn id(text: &str) -> Option<u16> {
    prefixed(text, 4)?.try_into().ok()
}

/// `0x030200`; NCCL itself writes `0x03` if sysfs has no class, which is none.
pub fn class(text: &str) -> Option<u32> {
    prefixed(text, 6).filter(|_| text.trim().len() == 8)
}

/// VGA, 3D and other display controllers (AMD's), and accelerators.
pub fn is_gpu(class: &str) -> bool {
    class == "0x03"
        || ["0x0300", "0x0302", "0x0380", "0x1200"]
            .iter()
            .any(|known| class.starts_with(known))
}

fn prefixed(text: &str, most: usize) -> Option<u32> {
    hex(text.trim().strip_prefix("0x")?, most)
}

/// `speed` of a `<net>`, in Mbit/s; some plugins say -1.
pub fn mbps(text: &str) -> Option<u64> {
    text.trim()
        .parse()
        .ok()
        .filter(|mbps| (1..=MAX_RATE_MBPS).contains(mbps))
}

/// `familyid`: NCCL adds the extended family four bits too high (xml.cc, `ncclTopoGetXmlFromCpu`), so that AMD's 0x17 is 143.
pub fn family_of_nccl(family: u32) -> u32 {
    if family > 0xf {
        0xf + ((family - 0xf) << 4)
    } else {
        family
    }
}

/// The inverse; files written by hand have the family itself.  `None` for what CPUID cannot say:
/// four bits and eight extended ones, added.
pub fn family(familyid: u32) -> Option<u32> {
    let is_nccls = familyid > 0xf && familyid & 0xf == 0xf;
    let family = if is_nccls {
        0xf + (familyid >> 4)
    } else {
        familyid
    };
    (family <= 0xf + 0xff).then_some(family)
}
