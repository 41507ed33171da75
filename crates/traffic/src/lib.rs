//! The bytes of NICs: what the kernel counts, how much it grew, by whose NICs it left, and how that is written.
//!
//! * [`counters`] knows which counter each driver has, and in which unit.
//! * [`growth`] is what was counted between two readings; a counter that cannot tell says so, and is never a zero.
//! * [`tasks`] knows a task by the marker in its environment.
//! * [`planned`] is by which NICs the bytes should leave.
//! * [`report`] is what `measure` says of one node, and [`merge`] of several.
//! * [`resources`] is what processes hold of RDMA devices, and [`verify`] compares it with what their tasks should use.
//! * [`exposition`] writes the text format of Prometheus.
//!
//! Pure: the files are read by the commands.
#![forbid(unsafe_code)]

pub mod counters;
pub mod exposition;
pub mod growth;
pub mod merge;
pub mod planned;
pub mod report;
pub mod resources;
pub mod tasks;
#[cfg(test)]
mod tests;
pub mod units;
pub mod verify;
