//! Which NIC is cabled to which switch, as subnet managers and LLDP tell it, and what that makes of the rails.
#![forbid(unsafe_code)]

pub mod cabling;
pub mod sources;
