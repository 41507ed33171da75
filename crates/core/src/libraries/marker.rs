//! `NIC_PLACEMENT`: the decision and the variables we set, in one line for programs and nested steps.
//!
//! Words separated by spaces: the version, `key=value` facts, and `set:NAME=VALUE` for each variable that is ours, unless its value
//! was changed since.  In another form this variable is the user's.  A space in a value is written `%20`, and `%` itself `%25`.
//!
//! ```text
//! v1 policy=closest gpus=0000:1b:00.0 nics=mlx5_0:1 node=1.0.0-5e3a91c7 cpus=0-55 set:UCX_NET_DEVICES=mlx5_0:1,eth0,lo
//! ```
//!
//! `node=` is `Agreement::digest`, the same on nodes that agree.  `cpus=` is there where the task was bound: `verify` compares
//! with it.
#![forbid(unsafe_code)]

use crate::placement::{CpuDecision, NodePlacement, TaskPlacement};
use crate::topology::Topology;
use std::fmt::Write;

/// The variable's name.
pub const NAME: &str = "NIC_PLACEMENT";

/// The line with the facts of a task; `digest` is its node's.  Writing to a string cannot fail.
pub(super) fn line(topology: &Topology, node: &NodePlacement, task: &TaskPlacement, digest: &str) -> String {
    // room for a node's list in two variables, which saves reallocation
    let mut line = String::with_capacity(640);
    let _ = write!(line, "v1 policy={} gpus=", node.policy);
    for (nth, &gpu) in task.gpus.iter().enumerate() {
        let _ = write!(line, "{}{}", if nth == 0 { "" } else { "," }, topology.gpu(gpu).address);
    }
    line += " nics=";
    for (nth, &(rail, _)) in task.rails.iter().enumerate() {
        let _ = write!(line, "{}{}", if nth == 0 { "" } else { "," }, node.rail(rail));
    }
    let _ = write!(line, " node={digest}");
    if let CpuDecision::Set { cpus, .. } = &task.cpus {
        let _ = write!(line, " cpus={cpus}");
    }
    line
}

/// Adds one of our variables.
pub(super) fn add(line: &mut String, name: &str, value: &str) {
    let _ = write!(line, " set:{name}=");
    match memchr::memchr2(b' ', b'%', value.as_bytes()) {
        None => *line += value,
        Some(_) => *line += &value.replace('%', "%25").replace(' ', "%20"),
    }
}

/// Did a step of ours write this line, by its form?  Anything else in the variable is the user's.
pub fn is_published(text: &str) -> bool {
    let mut words = text.split(' ');
    let facts = ["policy=", "gpus=", "nics="];
    words.next() == Some("v1")
        && facts.iter().all(|fact| words.next().is_some_and(|word| word.starts_with(fact)))
        && words.all(|word| word.contains('='))
}

/// What a line says of its task's devices, for a process that looks from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Devices<'a> {
    /// the PCI addresses of its GPUs
    pub gpus: Vec<&'a str>,
    /// its NICs, as `mlx5_0:1`
    pub nics: Vec<&'a str>,
    /// the CPUs to which it was bound
    pub cpus: Option<&'a str>,
}

/// The devices of a line; `None` for what no step of ours wrote.  The words are not checked: a user may have set them.
pub fn devices(text: &str) -> Option<Devices<'_>> {
    let value = |fact: &str| text.split(' ').find_map(|word| word.strip_prefix(fact));
    let list = |fact: &str| -> Vec<&str> {
        value(fact).into_iter().flat_map(|value| value.split(',')).filter(|entry| !entry.is_empty()).collect()
    };
    is_published(text).then(|| Devices { gpus: list("gpus="), nics: list("nics="), cpus: value("cpus=") })
}

/// The claims of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marker {
    set: Vec<(String, String)>,
}

impl Marker {
    /// Reads what an earlier step published.  Unreadable words claim nothing, nor do names that `may_be_ours`
    /// denies: a user can have written the line.
    pub fn parse(text: &str, may_be_ours: impl Fn(&str) -> bool) -> Marker {
        if !is_published(text) {
            return Marker::default();
        }
        let set = text.split(' ').filter_map(|word| word.strip_prefix("set:")?.split_once('='));
        let set = set.filter(|(name, _)| may_be_ours(name));
        let unescaped = |value: &str| value.replace("%20", " ").replace("%25", "%");
        Marker { set: set.map(|(name, value)| (name.to_string(), unescaped(value))).collect() }
    }

    /// The variables that we set, with their values.
    pub fn set(&self) -> &[(String, String)] {
        &self.set
    }

    /// Is this variable's value one that we set?
    pub fn is_ours(&self, name: &str, value: &str) -> bool {
        self.set.iter().any(|(set, to)| set == name && to == value)
    }
}
