//! `NIC_PLACEMENT`: one line with the decision and our variables, for programs and nested steps.
//!
//! Words: the version, `key=value` facts, and `set:NAME=VALUE` for each variable that we set. In a
//! nested step variable NAME is ours only if its value is VALUE (`%20`: space, `%25`: `%`). A
//! `NIC_PLACEMENT` of another form is the user's.
//!
//! ```text
//! v1 policy=closest gpus=0000:1b:00.0 nics=mlx5_0:1 node=1.0.0-5e3a91c7 cpus=0-55 set:UCX_NET_DEVICES=mlx5_0:1,eth0,lo
//! ```
//!
//! `node=` is `Agreement::digest`, equal on nodes with equal GPU counts, rails, left-out NICs and
//! plug-in version. The line has `cpus=`, for `verify`, only if we bind the task.

use super::uniform::joined;
use crate::placement::{NodePlacement, TaskPlacement};
use crate::topology::Topology;
use std::fmt::Write;

pub const NAME: &str = "NIC_PLACEMENT";

pub(super) fn line(
    node: &Topology,
    map: &NodePlacement,
    task: &TaskPlacement,
    digest: &str,
) -> String {
    let gpus = joined(task.gpus.iter().map(|gpu| node.gpu(*gpu).address));
    let nics = joined(task.rails.iter().map(|(rail, _)| map.rail(*rail)));
    let mut line = String::new();
    let _ = write!(line, "v1 policy={}", map.policy);
    let _ = write!(line, " gpus={gpus} nics={nics} node={digest}");
    if task.moves {
        let _ = write!(line, " cpus={}", task.cpus);
    }
    line
}

pub(super) fn add(line: &mut String, name: &str, value: &str) {
    let _ = write!(line, " set:{name}=");
    match value.contains([' ', '%']) {
        false => *line += value,
        true => *line += &value.replace('%', "%25").replace(' ', "%20"),
    }
}

/// True for `v1 policy=… gpus=… nics=…`, followed only by words with `=`.
pub fn is_published(text: &str) -> bool {
    let mut words = text.split(' ');
    let mut facts = ["policy=", "gpus=", "nics="].iter();
    words.next() == Some("v1")
        && facts.all(|fact| words.next().is_some_and(|word| word.starts_with(fact)))
        && words.all(|word| word.contains('='))
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Devices<'a> {
    /// PCI addresses
    pub gpus: Vec<&'a str>,
    /// ports, as `mlx5_0:1`
    pub nics: Vec<&'a str>,
    /// `None` if we did not bind the task
    pub cpus: Option<&'a str>,
}

/// `None` unless [`is_published`]. GPUs and NICs are unchecked: a user may have written the text.
pub fn devices(text: &str) -> Option<Devices<'_>> {
    let value = |fact: &str| text.split(' ').find_map(|word| word.strip_prefix(fact));
    let list = |fact: &str| -> Vec<&str> {
        let entries = value(fact).unwrap_or_default().split(',');
        entries.filter(|entry| !entry.is_empty()).collect()
    };
    is_published(text).then(|| Devices {
        gpus: list("gpus="),
        nics: list("nics="),
        cpus: value("cpus="),
    })
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marker {
    set: Vec<(String, String)>,
}

impl Marker {
    /// Parses an outer step's line. A user can forge the line, so only names that pass
    /// `may_be_ours` count.
    pub fn parse(text: &str, may_be_ours: impl Fn(&str) -> bool) -> Marker {
        if !is_published(text) {
            return Marker::default();
        }
        let pairs = text.split(' ').filter_map(|word| {
            let (name, value) = word.strip_prefix("set:")?.split_once('=')?;
            let value = || value.replace("%20", " ").replace("%25", "%");
            may_be_ours(name).then(|| (name.to_string(), value()))
        });
        Marker {
            set: pairs.collect(),
        }
    }

    pub fn set(&self) -> &[(String, String)] {
        &self.set
    }

    pub fn is_ours(&self, name: &str, value: &str) -> bool {
        self.set.iter().any(|(set, to)| set == name && to == value)
    }
}
