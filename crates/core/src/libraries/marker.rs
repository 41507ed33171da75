//! `NIC_PLACEMENT`: one line with the decision and our variables, for programs and nested steps.
//!
//! Its words are the version, `key=value` facts, and `set:NAME=VALUE`: the variable is ours while it has this value.  In a value
//! `%20` is a space and `%25` is `%`.  A `NIC_PLACEMENT` of another form is the user's.
//!
//! ```text
//! v1 policy=closest gpus=0000:1b:00.0 nics=mlx5_0:1 node=1.0.0-5e3a91c7 cpus=0-55 set:UCX_NET_DEVICES=mlx5_0:1,eth0,lo
//! ```
//!
//! `node=` is `Agreement::digest`, the same on nodes that agree.  Only a bound task has `cpus=`, for `verify`.
#![forbid(unsafe_code)]

use crate::placement::{CpuDecision, NodePlacement, TaskPlacement};
use crate::topology::Topology;
use std::fmt::{Display, Write};

/// The variable's name.
pub const NAME: &str = "NIC_PLACEMENT";

/// The line with the facts of a task; `digest` is its node's.  Writing to a string cannot fail.
pub(super) fn line(
    topology: &Topology,
    node: &NodePlacement,
    task: &TaskPlacement,
    digest: &str,
) -> String {
    // room for a node's list in two variables, which saves reallocation
    let mut line = String::with_capacity(640);
    let _ = write!(line, "v1 policy={}", node.policy);
    add_list(
        &mut line,
        " gpus=",
        task.gpus.iter().map(|gpu| topology.gpu(*gpu).address),
    );
    add_list(
        &mut line,
        " nics=",
        task.rails.iter().map(|(rail, _)| node.rail(*rail)),
    );
    let _ = write!(line, " node={digest}");
    if let CpuDecision::Set { cpus, .. } = &task.cpus {
        let _ = write!(line, " cpus={cpus}");
    }
    line
}

fn add_list(line: &mut String, fact: &str, entries: impl Iterator<Item: Display>) {
    *line += fact;
    for (nth, entry) in entries.enumerate() {
        let _ = write!(line, "{}{entry}", if nth == 0 { "" } else { "," });
    }
}

/// Adds one of our variables.
pub(super) fn add(line: &mut String, name: &str, value: &str) {
    let _ = write!(line, " set:{name}=");
    match memchr::memchr2(b' ', b'%', value.as_bytes()) {
        None => *line += value,
        Some(_) => *line += &value.replace('%', "%25").replace(' ', "%20"),
    }
}

/// Has the line the form of ours?
pub fn is_published(text: &str) -> bool {
    let mut words = text.split(' ');
    let facts = ["policy=", "gpus=", "nics="];
    words.next() == Some("v1")
        && facts
            .iter()
            .all(|fact| words.next().is_some_and(|word| word.starts_with(fact)))
        && words.all(|word| word.contains('='))
}

/// The devices and CPUs of a line, for `verify` and other tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Devices<'a> {
    /// the PCI addresses of its GPUs
    pub gpus: Vec<&'a str>,
    /// its NICs, as `mlx5_0:1`
    pub nics: Vec<&'a str>,
    /// the CPUs of a bound task
    pub cpus: Option<&'a str>,
}

/// Reads a line; `None` for one of another form.  The words are not checked, and a user may have written them.
pub fn devices(text: &str) -> Option<Devices<'_>> {
    let value = |fact: &str| text.split(' ').find_map(|word| word.strip_prefix(fact));
    let list = |fact: &str| -> Vec<&str> {
        value(fact)
            .into_iter()
            .flat_map(|value| value.split(','))
            .filter(|entry| !entry.is_empty())
            .collect()
    };
    is_published(text).then(|| Devices {
        gpus: list("gpus="),
        nics: list("nics="),
        cpus: value("cpus="),
    })
}

/// The claims of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marker {
    set: Vec<(String, String)>,
}

impl Marker {
    /// Reads the line of an earlier step.  A user can have written it, so only names that `may_be_ours` admits count.
    pub fn parse(text: &str, may_be_ours: impl Fn(&str) -> bool) -> Marker {
        if !is_published(text) {
            return Marker::default();
        }
        let set = text
            .split(' ')
            .filter_map(|word| word.strip_prefix("set:")?.split_once('='));
        let set = set.filter(|(name, _)| may_be_ours(name));
        let unescaped = |value: &str| value.replace("%20", " ").replace("%25", "%");
        Marker {
            set: set
                .map(|(name, value)| (name.to_string(), unescaped(value)))
                .collect(),
        }
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
