//! A trial on real nodes: other programs' pictures of a node, the GPUs that the driver gives each task, and the effect of
//! placement.

pub mod probe;
pub mod report;
#[cfg(test)]
mod tests;
pub mod witness;
