//! Which NIC is cabled to which switch, as subnet managers and LLDP tell it, and what that makes of the rails.
//!
//! [`sources`] reads texts into a [`cabling`], and [`rails`] compares the nodes.
#![forbid(unsafe_code)]

pub mod advice;
pub mod cabling;
pub mod faults;
mod layout;
pub mod names;
pub mod positions;
pub mod rails;
mod reach;
pub mod sources;
#[cfg(test)]
mod tests;
mod votes;

pub use layout::CableLayout;
pub use reach::RailReach;
