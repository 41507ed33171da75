//! The fuzz targets as a library, for libFuzzer.
#![forbid(unsafe_code)]

pub mod targets;
