//! What a renderer is asked for: libraries, excluded variables, what the fabric connects, and the admin's
//! templates.
#![forbid(unsafe_code)]

pub use super::names::is_name as is_variable_name;
pub use super::template::Template;

/// The libraries whose variables may be set, a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Libraries(u16);

/// `(word, library)`, in the order of messages.
const NAMES: [(&str, Libraries); 10] = [
    ("default", Libraries::DEFAULT),
    ("none", Libraries(0)),
    ("ucx", Libraries::UCX),
    ("nccl", Libraries::NCCL),
    ("nvshmem", Libraries::NVSHMEM),
    ("cray-mpich", Libraries::CRAY_MPICH),
    ("site", Libraries::SITE),
    ("nvshmem-pe", Libraries(Libraries::NVSHMEM.0 | Libraries::NVSHMEM_PE.0)),
    ("libfabric", Libraries::LIBFABRIC),
    ("mooncake", Libraries::MOONCAKE),
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
    /// the set without `env=`
    pub const DEFAULT: Libraries = Libraries(0b1_1111);
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
    /// every NIC reaches every NIC
    #[default]
    Routed,
    /// a NIC reaches the NICs of its own rail alone
    IsolatedRails,
}

/// Everything wanted in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// whose variables may be set
    pub libraries: Libraries,
    /// variables that nobody wants set (`no-env=`)
    pub unwanted: Vec<String>,
    /// what the fabric connects
    pub fabric: Fabric,
    /// the admin's own variables
    pub templates: Vec<Template>,
}
