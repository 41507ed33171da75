//! Tables and fixtures of unit tests in few lines, for several crates.
#![allow(unused_macros, reason = "each crate uses a part")]

/// An array of tuples: `rows! { 1, "one"; 2, "two"; }`.
macro_rules! rows {
    ($($($cell:expr),+;)+) => { [$(($($cell),+)),+] };
}

/// A struct's default, or what stands behind it, with some fields: `with! { Task { local_id: 3 } }`.
macro_rules! with {
    ($kind:ident { $($fields:tt)+ } ..$base:expr) => { $kind { $($fields)+, ..$base } };
    ($kind:ident { $($fields:tt)+ }) => { $kind { $($fields)+, ..$kind::default() } };
}
