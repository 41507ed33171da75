//! Parts of nodes that tests play.

use crate::doctor::config_space::SIZE;

/// A configuration space with a PCIe capability, and with ACS and ATS where they are given; each behind another capability.
pub(crate) fn config_space(device_control: u16, acs: Option<u16>, ats: Option<u16>) -> Vec<u8> {
    let mut bytes = vec![0u8; SIZE];
    bytes[..4].copy_from_slice(&[0xb3, 0x15, 0x21, 0x10]);
    bytes[0x34] = 0x40;
    bytes[0x40..0x42].copy_from_slice(&[0x01, 0x60]);
    bytes[0x60..0x62].copy_from_slice(&[0x10, 0x00]);
    bytes[0x68..0x6a].copy_from_slice(&device_control.to_le_bytes());
    let mut at = 0x100;
    let mut extended = |id: u16, control: Option<u16>| {
        let next = at + 0x40;
        bytes[at..at + 2].copy_from_slice(&id.to_le_bytes());
        bytes[at + 2..at + 4].copy_from_slice(&((next as u16) << 4 | 1).to_le_bytes());
        if let Some(control) = control {
            bytes[at + 6..at + 8].copy_from_slice(&control.to_le_bytes());
        }
        at = next;
    };
    extended(0x0001, None);
    if acs.is_some() {
        extended(0x000d, acs);
    }
    if ats.is_some() {
        extended(0x000f, ats);
    }
    bytes
}

/// The same as a manifest holds it.
pub(crate) fn digits(bytes: &[u8]) -> String {
    let byte = |byte: &u8| format!("{byte:02x}");
    let line = |line: &[u8]| Vec::from_iter(line.iter().map(byte)).join(" ");
    Vec::from_iter(bytes.chunks(16).map(line)).join("\n")
}
