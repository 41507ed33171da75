//! A PCI function's configuration space: the few registers of it that decide how fast its DMA goes, and where.
//!
//! Offsets and bits are those of the kernel's include/uapi/linux/pci_regs.h.

use std::iter::successors;

/// Bytes of it, with the extended part.
pub(crate) const SIZE: usize = 4096;
/// Bytes that the kernel gives to a process without CAP_SYS_ADMIN (drivers/pci/pci-sysfs.c, `pci_read_config`).
const FOR_USERS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct ConfigSpace {
    /// true if its packets may be reordered (`PCI_EXP_DEVCTL_RELAX_EN`)
    pub(crate) is_relaxed: Option<bool>,
    /// the control register of Access Control Services; 0 without them
    acs: u16,
    /// true if it keeps translations of its own (`PCI_ATS_CTRL_ENABLE`)
    pub(crate) has_ats: bool,
}

/// Requests and answers to a function beside, and packets from below that could turn here, are sent up to the root complex
/// (`PCI_ACS_RR`, `PCI_ACS_CR`, `PCI_ACS_UF`).
const REDIRECTION: u16 = 1 << 2 | 1 << 3 | 1 << 4;
/// Translated requests go straight to the function beside (`PCI_ACS_DT`).
const DIRECT_TRANSLATED: u16 = 1 << 6;

impl ConfigSpace {
    /// `None` where only the part for users is there, or the function does not answer.
    pub fn parse(bytes: &[u8]) -> Option<ConfigSpace> {
        // a function that is gone answers with ones
        if bytes.len() <= FOR_USERS || bytes[..4] == [0xff; 4] {
            return None;
        }
        let express = capability(bytes, 0x10).and_then(|at| word(bytes, at + 8));
        let control = |id| extended(bytes, id).and_then(|at| word(bytes, at + 6));
        Some(ConfigSpace {
            is_relaxed: express.map(|control| control & 1 << 4 != 0),
            acs: control(0x000d).unwrap_or_default(),
            has_ats: control(0x000f).is_some_and(|control| control & 1 << 15 != 0),
        })
    }

    /// True: packets go up to the root complex that the switch could route back; not as on a host of virtual machines, where
    /// what the NIC translates goes directly.
    pub(super) fn redirects(&self, nic_translates: bool) -> bool {
        self.acs & REDIRECTION != 0 && !(nic_translates && self.acs & DIRECT_TRANSLATED != 0)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// The offset of a capability in the first 256 bytes; their list begins at 0x34.
fn capability(bytes: &[u8], id: u8) -> Option<usize> {
    /// Capabilities, at most: a broken list may be a circle.
    const MOST: usize = 48;
    let next = |at: usize| Some(usize::from(*bytes.get(at)? & 0xfc)).filter(|at| *at >= 0x40);
    successors(next(0x34), |at| next(at + 1))
        .take(MOST)
        .find(|at| bytes.get(*at) == Some(&id))
}

/// The offset of an extended capability; their list begins at 0x100.
fn extended(bytes: &[u8], id: u16) -> Option<usize> {
    const MOST: usize = (SIZE - 0x100) / 8;
    let next =
        |at: usize| Some(usize::from(word(bytes, at + 2)? >> 4 & 0xffc)).filter(|at| *at >= 0x100);
    successors(Some(0x100), |at| next(*at))
        .take(MOST)
        .find(|at| word(bytes, *at) == Some(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::tests::played::config_space;

    #[test]
    fn the_registers_are_found_behind_other_capabilities() {
        for (control, acs, ats, is_relaxed, has_ats) in [
            (0x5910, Some(0x1d), Some(0x8000), true, true),
            (0x2000, None, None, false, false),
        ] {
            let space = ConfigSpace::parse(&config_space(control, acs, ats));
            let wanted = ConfigSpace {
                is_relaxed: Some(is_relaxed),
                acs: acs.unwrap_or_default(),
                has_ats,
            };
            assert_eq!(space, Some(wanted));
        }
    }

    #[test]
    fn what_a_user_sees_or_a_dead_function_answers_is_nothing_and_lists_that_are_circles_end() {
        assert_eq!(ConfigSpace::parse(&config_space(0, None, None)[..64]), None);
        assert_eq!(ConfigSpace::parse(&[0xff; SIZE]), None);
        assert_eq!(ConfigSpace::parse(&[]), None);
        let mut circle = vec![0u8; SIZE];
        (circle[0x34], circle[0x40], circle[0x41]) = (0x40, 0x01, 0x40);
        circle[0x100..0x104].copy_from_slice(&[0x01, 0, 0x01, 0x10]);
        assert_eq!(ConfigSpace::parse(&circle), Some(ConfigSpace::default()));
        for cut in [65, 0x101, 0x105] {
            let _ = ConfigSpace::parse(&config_space(0x5910, Some(1), Some(1))[..cut]);
        }
    }
}
