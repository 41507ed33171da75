//! Nodes of a cluster: what is wrong with one, and which of many are not like the others of their kind.
#![forbid(unsafe_code)]

pub mod agree;
pub mod audit;
pub mod doctor;
pub mod fabric;
pub mod gather;
pub mod trial;
