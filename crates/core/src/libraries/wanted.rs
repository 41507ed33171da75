//! What a renderer is asked for: libraries, excluded variables, what the fabric connects, and the admin's
//! templates.
#![forbid(unsafe_code)]

pub use super::names::is_name as is_variable_name;
pub use super::template::{MapFile, Template};

/// The libraries whose variables may be set, a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Libraries(u16);

/// `(word, library)`, in the order of messages.
const NAMES: [(&str, Libraries); 16] = [
    ("default", Libraries::DEFAULT),
    ("none", Libraries(0)),
    ("ucx", Libraries::UCX),
    ("nccl", Libraries::NCCL),
    ("nvshmem", Libraries::NVSHMEM),
    ("cray-mpich", Libraries::CRAY_MPICH),
    ("site", Libraries::SITE),
    ("rocshmem", Libraries::ROCSHMEM),
    ("deepep", Libraries::DEEPEP),
    ("openmpi", Libraries::OPEN_MPI),
    ("nvshmem-pe", Libraries(Libraries::NVSHMEM.0 | Libraries::NVSHMEM_PE.0)),
    ("libfabric", Libraries::LIBFABRIC),
    ("mooncake", Libraries::MOONCAKE),
    ("mori", Libraries::MORI),
    ("oneccl", Libraries::ONECCL),
    ("ucx-gda", Libraries(Libraries::UCX.0 | Libraries::UCX_GDA.0)),
];

impl Libraries {
    /// UCX, and what runs on it: Open MPI, MPICH, NIXL, UCC
    pub const UCX: Libraries = Libraries(1);
    /// NCCL and RCCL
    pub const NCCL: Libraries = Libraries(1 << 1);
    /// NVSHMEM: one list for the node
    pub const NVSHMEM: Libraries = Libraries(1 << 2);
    /// Cray MPICH on Slingshot
    pub const CRAY_MPICH: Libraries = Libraries(1 << 3);
    /// the admin's `set=`
    pub const SITE: Libraries = Libraries(1 << 4);
    /// NVSHMEM: one NIC for each processing element
    pub const NVSHMEM_PE: Libraries = Libraries(1 << 5);
    /// libfabric's cxi and verbs providers, for each task
    pub const LIBFABRIC: Libraries = Libraries(1 << 6);
    /// Mooncake's transfer engine
    pub const MOONCAKE: Libraries = Libraries(1 << 7);
    /// UCX: also the devices of GPUs that send by themselves
    pub const UCX_GDA: Libraries = Libraries(1 << 8);
    /// rocSHMEM: one list for the node
    pub const ROCSHMEM: Libraries = Libraries(1 << 9);
    /// DeepEP: the NIC that it asks for its rate
    pub const DEEPEP: Libraries = Libraries(1 << 10);
    /// Open MPI over libfabric
    pub const OPEN_MPI: Libraries = Libraries(1 << 11);
    /// MORI: one list for the node
    pub const MORI: Libraries = Libraries(1 << 12);
    /// oneCCL: the NICs of the task's NUMA node
    pub const ONECCL: Libraries = Libraries(1 << 13);
    /// the set without `env=`
    pub const DEFAULT: Libraries = Libraries(0b1110_0001_1111);
    /// none of them
    pub const NONE: Libraries = Libraries(0);

    /// The library, or set of libraries, that a word of `env=` stands for.
    pub fn named(word: &str) -> Option<Libraries> {
        NAMES.iter().find(|(name, _)| *name == word).map(|(_, libraries)| *libraries)
    }

    /// The words of `env=`, as messages list them.
    pub fn words() -> String {
        NAMES.map(|(name, _)| name).join(", ")
    }

    /// The union.
    #[must_use]
    pub fn with(self, others: Libraries) -> Libraries {
        Libraries(self.0 | others.0)
    }

    /// Are all of `others` among these?
    pub fn has(self, others: Libraries) -> bool {
        self.0 & others.0 == others.0
    }
}

impl Default for Libraries {
    fn default() -> Libraries {
        Libraries::DEFAULT
    }
}

/// Which NICs can reach which (the admin's `fabric=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fabric {
    /// the admin does not say: the subnets tell what libraries take for reachable
    #[default]
    Unsaid,
    /// every NIC reaches every NIC
    Routed,
    /// a NIC reaches the NICs of its own rail alone
    IsolatedRails,
}

/// Everything wanted in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// whose variables may be set
    pub libraries: Libraries,
    /// variables that may be set beside those (`env=NAME`)
    pub named: Vec<String>,
    /// variables that are not to be set (`no-env=`), names and beginnings with a star
    pub unwanted: Vec<String>,
    /// what the fabric connects
    pub fabric: Fabric,
    /// the admin's own variables
    pub templates: Vec<Template>,
    /// is it to be told what libraries will use by their files, also where nothing would be set over these?
    pub judges_files: bool,
    /// the files that these may name
    pub map_files: Vec<MapFile>,
}

impl Wanted {
    /// May this variable, which is one of these libraries', be set?
    pub fn has(&self, name: &str, libraries: Libraries) -> bool {
        (self.libraries.has(libraries) || self.is_named(name)) && !self.is_unwanted(name)
    }

    /// May this variable be set because another one is asked for by its name, with which it goes?
    pub(super) fn has_beside(&self, name: &str, other: &str) -> bool {
        self.is_named(other) && !self.is_unwanted(name)
    }

    fn is_named(&self, name: &str) -> bool {
        self.named.iter().any(|named| named == name)
    }

    fn is_unwanted(&self, name: &str) -> bool {
        self.unwanted.iter().any(|unwanted| means(unwanted, name))
    }
}

/// Does this entry of `no-env=` mean that variable?
pub(super) fn means(entry: &str, name: &str) -> bool {
    match entry.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => entry == name,
    }
}
