//! The fuzz targets as a library, for libFuzzer and for the search for slow inputs.
#![forbid(unsafe_code)]

pub mod targets;
