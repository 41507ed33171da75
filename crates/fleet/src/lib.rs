//! Nodes of a cluster: what is wrong with one, and which of many are not like the others of their kind.
//!
//! * [`gather`] reads the facts of a node, and [`doctor`] judges them.
//! * [`trial`] is the report of a trial on real nodes.
//! * [`agree`] compares the words of one job's nodes.
//! * [`audit`] compares the reports of many nodes.
//! * [`fabric`] says to which switch each NIC is cabled, and what that makes of the rails.
#![forbid(unsafe_code)]

pub mod agree;
pub mod audit;
pub mod doctor;
pub mod fabric;
pub mod gather;
pub mod trial;
