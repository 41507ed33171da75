//! The node that is read, and how much of it.
#![forbid(unsafe_code)]

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NodeSource {
    /// this node's `/sys` and `/proc`
    #[default]
    Live,
    /// `/sys` and `/proc` below this directory
    Sysfs(String),
    Machine(String),
    Topology(String),
}

/// Parts of a node that are read, each more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// what a decision needs: every step reads these, so each file is one that changes an answer
    Placement,
    /// and the names by which an admin may mean a NIC
    Selection,
    /// and the CPUs that are threads of one core
    Cores,
    /// all that [`Topology`](crate::Topology) can hold, for people, snapshots and files
    Full,
}
