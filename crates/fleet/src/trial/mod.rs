//! What the tasks of a trial found, judged.
#![forbid(unsafe_code)]

pub mod probe;
