//! A trial on real nodes: other programs' pictures of a node, which GPUs the driver gave each task, and what placement was worth.
#![forbid(unsafe_code)]

pub mod probe;
pub mod report;
#[cfg(test)]
mod tests;
pub mod witness;
