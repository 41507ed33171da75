//! `NIC_PLACEMENT`: what was decided and what we set, in one line that programs and nested steps read.
//!
//! Words separated by spaces: the version, `key=value` facts, and `set:NAME=VALUE` for each variable that is ours.
//! A variable that no longer has the value recorded here was changed by somebody else and is theirs.  A space in a value
//! is written `%20`, and `%` itself `%25`.
//!
//! ```text
//! v1 policy=closest gpus=0000:1b:00.0 nics=mlx5_0:1 set:UCX_NET_DEVICES=mlx5_0:1
//! ```
#![forbid(unsafe_code)]

use crate::placement::{NodePlacement, TaskPlacement};
use crate::topology::Topology;
use std::fmt;

/// The variable's name.
pub const NAME: &str = "NIC_PLACEMENT";

/// The line's content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marker {
    facts: Vec<(&'static str, String)>,
    set: Vec<(String, String)>,
}

impl Marker {
    pub(super) fn new(topology: &Topology, node: &NodePlacement, task: &TaskPlacement) -> Marker {
        let gpus: Vec<String> = task.gpus.iter().map(|&gpu| topology.gpus[gpu].address.to_string()).collect();
        let nics: Vec<String> = task.rails.iter().map(|&(rail, _)| node.rails[rail].to_string()).collect();
        let facts =
            vec![("policy", node.policy.to_string()), ("gpus", gpus.join(",")), ("nics", nics.join(","))];
        Marker { facts, set: Vec::new() }
    }

    pub(super) fn add(&mut self, name: &str, value: &str) {
        self.set.push((name.to_string(), value.to_string()));
    }

    /// Reads what an earlier step published; what cannot be read claims nothing, nor does a name that `may_be_ours` denies,
    /// whoever wrote the line.
    pub fn parse(text: &str, may_be_ours: impl Fn(&str) -> bool) -> Marker {
        let mut words = text.split(' ');
        if words.next() != Some("v1") {
            return Marker::default();
        }
        let set = words.filter_map(|word| word.strip_prefix("set:")?.split_once('='));
        let set = set.filter(|(name, _)| may_be_ours(name));
        let unescaped = |value: &str| value.replace("%20", " ").replace("%25", "%");
        Marker {
            facts: Vec::new(),
            set: set.map(|(name, value)| (name.to_string(), unescaped(value))).collect(),
        }
    }

    /// Is this variable's value one that we set?
    pub fn is_ours(&self, name: &str, value: &str) -> bool {
        self.set.iter().any(|(set, to)| set == name && to == value)
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("v1")?;
        for (key, value) in &self.facts {
            write!(f, " {key}={value}")?;
        }
        for (name, value) in &self.set {
            match value.contains([' ', '%']) {
                false => write!(f, " set:{name}={value}")?,
                true => write!(f, " set:{name}={}", value.replace('%', "%25").replace(' ', "%20"))?,
            }
        }
        Ok(())
    }
}
