//! A node in other shapes than `/sys` shows it, which only the tool and the tests need.
//!
//! * [`synthesise`] writes the `/sys` and `/proc` that would show a topology.
#![forbid(unsafe_code)]

pub mod synthesise;
