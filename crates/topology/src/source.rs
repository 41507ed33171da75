//! The source of a topology, and the scope of its discovery.

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NodeSource {
    /// this system's `/sys` and `/proc`
    #[default]
    Live,
    /// `/sys` and `/proc` below a directory
    Sysfs(String),
    Machine(String),
    Topology(String),
}

/// The facts that discovery reads; each scope includes the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// facts that change a placement; every step reads them
    Placement,
    /// the network interfaces by which an admin may name a NIC
    Selection,
    /// the threads of each core
    Cores,
    /// every field of [`Topology`](crate::Topology)
    Full,
}
