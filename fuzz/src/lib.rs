//! The fuzz targets as a library, for libFuzzer and for the search of what is slow.
#![forbid(unsafe_code)]

pub mod changes;
pub mod targets;
