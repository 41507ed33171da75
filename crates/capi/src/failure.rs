//! Why a call has no answer: a number for programs, a line for people.
#![forbid(unsafe_code)]

use nic_placement_node::NoTopology;

/// `enum nic_placement_status` of include/nic_placement.h, where 0 is an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Argument = 1,
    Request,
    Node,
    NoAnswer,
    Bug,
}

#[derive(Debug, PartialEq)]
pub struct Failure {
    pub kind: Kind,
    pub why: String,
}

impl Failure {
    pub fn new(kind: Kind, why: impl ToString) -> Failure {
        let why = why.to_string();
        Failure { kind, why }
    }

    pub fn request(why: impl ToString) -> Failure {
        Failure::new(Kind::Request, why)
    }
}

impl From<NoTopology> for Failure {
    fn from(why: NoTopology) -> Failure {
        Failure::new(Kind::Node, why)
    }
}
