//! The switches that NICs are cabled to, by subnet managers and LLDP, and the rails that these make.

pub mod cabling;
pub mod faults;
mod kinds;
pub mod names;
pub mod rails;
pub mod sources;
#[cfg(test)]
mod tests;

pub use kinds::CableLayout;
