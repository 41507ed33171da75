//! Tests.
#![forbid(unsafe_code)]
