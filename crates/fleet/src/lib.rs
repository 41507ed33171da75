//! Nodes of a cluster: what is wrong with one, and which of many are not like the others of their kind.
//!
//! * [`gather`] reads the facts of a node, and [`doctor`] judges them.
//! * [`audit`] compares the reports of many nodes.
//! * [`trial`] judges what the tasks of a trial found.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "an item whose name says all has no comment; the tool alone uses this crate")]

pub mod audit;
pub mod doctor;
pub mod gather;
pub mod trial;
