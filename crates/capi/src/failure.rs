//! Why a call has no answer: a number for programs, a line for people.
#![forbid(unsafe_code)]

use nic_placement_node::NoTopology;
use std::ffi::c_int;
use std::fmt;

/// A kind of failure: `enum nic_placement_status` of include/nic_placement.h, where 0 is an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// a pointer is NULL, or the request is too long or no UTF-8
    Argument = 1,
    /// the request is not understood
    Request = 2,
    /// the node cannot be read as the request says
    Node = 3,
    /// the request is understood, and this node has no such answer
    NoAnswer = 4,
    /// a bug of ours
    Bug = 5,
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    kind: Kind,
    why: String,
}

impl Failure {
    /// With its reason.
    pub fn new(kind: Kind, why: impl fmt::Display) -> Failure {
        Failure {
            kind,
            why: why.to_string(),
        }
    }

    /// A request that is not understood.
    pub fn request(why: impl fmt::Display) -> Failure {
        Failure::new(Kind::Request, why)
    }

    /// The number that a caller sees.
    pub fn status(&self) -> c_int {
        self.kind as c_int
    }
}

impl From<NoTopology> for Failure {
    fn from(why: NoTopology) -> Failure {
        Failure::new(Kind::Node, why)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Failure {}
