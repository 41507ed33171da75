//! A node's tasks against their plan, and the bytes of its NICs.
//!
//! * [`counters`] has each driver's counter, and [`bytes`] what was counted between two readings.
//! * [`tasks`] reads a task's environment, and [`resources`] what processes hold of RDMA devices.
//! * [`verify`] judges tasks, and [`report`] says it for one node and for several.
//! * [`exposition`] writes the text format of Prometheus.
//!
//! Pure: the tool reads the files.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod counters;
pub mod exposition;
pub mod report;
pub mod resources;
pub mod tasks;
#[cfg(test)]
mod tests;
pub mod units;
pub mod verify;
