//! The switches that NICs are cabled to, by subnet managers and LLDP, and the rails that these make.
//!
//! [`sources`] reads texts into a [`cabling`], and [`rails`] compares the nodes.

pub mod cabling;
pub mod faults;
mod kinds;
pub mod names;
pub mod rails;
pub mod sources;
#[cfg(test)]
mod tests;

pub use kinds::CableLayout;
