//! One function for each kind of input from outside: it panics where an input breaks what must hold for all of them.
//!
//! libFuzzer calls them with inputs of its own, and the project's tests with the corpus and with mutations of it.
#![forbid(unsafe_code)]

mod admin;
mod built;
mod directory;
mod environment;
mod fabric;
mod formats;
mod held;
mod kept;
mod layers;
mod lists;
mod machines;
mod place;
mod ranks;
mod reports;
mod request;
mod tables;
mod tree;
mod words;
pub mod work;

/// An input's consequences.
pub type Target = fn(&[u8]);

/// `(name, what it is called with, the function)`.
pub const TARGETS: [(&str, &str, Target); 24] = [
    (
        "words",
        "the option, SLURM_NIC_PLACEMENT and default=, one on each line",
        words::run,
    ),
    (
        "plugstack",
        "plugstack.conf's arguments, one on each line",
        admin::plugstack,
    ),
    ("conf", "the configuration file", admin::conf),
    (
        "environment",
        "a task's variables, and the files that libraries read",
        environment::run,
    ),
    ("sysfs", "changes to the trees of known machines", tree::run),
    (
        "tables",
        "tables of /proc and the GPU driver's files",
        tables::run,
    ),
    ("node_file", "a node file", formats::node_file),
    ("topology", "a topology file", formats::topology),
    ("snapshot", "a snapshot", formats::snapshot),
    ("archive", "a tar of /sys", formats::archive),
    ("hwloc", "hwloc's XML", formats::hwloc),
    ("nccl", "NCCL's XML", formats::nccl),
    (
        "matrix",
        "the text of nvidia-smi topo -m, rocm-smi or amd-smi",
        formats::matrix,
    ),
    ("audit", "a stream of reports", reports::run),
    ("template", "one set= of the admin's", admin::template),
    (
        "maps",
        "a made machine, and the map for every engine",
        machines::maps,
    ),
    (
        "solver",
        "a made machine under every policy",
        machines::solver,
    ),
    (
        "lists",
        "CPU lists, masks, addresses, networks, hostlists",
        lists::run,
    ),
    ("request", "a request of the C interface", request::run),
    (
        "layers",
        "plugstack.conf's arguments, and the configuration file and maps on disk",
        layers::run,
    ),
    (
        "kept",
        "changes to the trees of known machines whose node files were kept",
        kept::run,
    ),
    (
        "directory",
        "changes to captured trees on disk",
        directory::run,
    ),
    ("ranks", "the file of --multi-prog", ranks::run),
    ("fabric", "a text of ibnetdiscover or lldpctl", fabric::run),
];

/// Runs a target by its name; `None` where there is none of that name.
pub fn named(name: &str) -> Option<Target> {
    TARGETS
        .iter()
        .find(|(known, ..)| *known == name)
        .map(|(_, _, target)| *target)
}
