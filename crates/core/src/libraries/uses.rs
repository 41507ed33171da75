//! What each library will really use in a task where the user, or the admin's `set=`, gave it a list of NICs.
//!
//! Nothing is changed by it: reports tell it, and strict words judge it.
#![forbid(unsafe_code)]

use super::lists::List;
use super::{LIBRARIES, Present};
use crate::order::Order;
use crate::placement::{Change, Excluded, NodePlacement, Rail, TaskPlacement, Variable};
use crate::policy::Through;
use crate::policy::reach::Reach;
use crate::policy::strictness::Judged;
use crate::topology::{NicKind, PathType, Topology};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// Whose list it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// the user's own
    User,
    /// the admin's, by `set=`
    Admin,
    /// a configuration file's of the library
    File,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Whose::User => "the user's",
            Whose::Admin => "the admin's",
            Whose::File => "a configuration file's",
        })
    }
}

/// The NICs that one library will use by a list that is not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// the library that reads the list
    pub reader: &'static str,
    /// the variable that holds the list
    pub variable: &'static str,
    /// whose list it is
    pub whose: Whose,
    /// does it name IP interfaces alone, which are then meant?
    is_of_interfaces: bool,
    /// the ports, best first; none if the list admits no port of this node that works
    pub ports: Vec<UsedPort>,
    /// the plan's ports, for the comparison
    planned: Vec<String>,
}

/// A port that a library will use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedPort {
    /// which
    pub rail: Rail,
    /// the nearest path from one of the task's GPUs
    pub path: PathType,
    /// what it gives when no other task shares it, in hundredths of what the plan's best port gives; `None` if no rate
    /// is known
    pub percent: Option<u64>,
    /// why the plan leaves it out
    pub left_out: Option<String>,
}

impl Use {
    /// Is every port one that the plan chose for this task?
    pub fn is_as_planned(&self) -> bool {
        !self.ports.is_empty() && self.ports.iter().all(|port| self.planned.contains(&port.rail.to_string()))
    }
}

impl fmt::Display for Use {
    /// `mlx5_4:1 SYS 45 % of mlx5_0:1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ports.is_empty() {
            return f.write_str("no NIC of this node that works");
        }
        for (index, UsedPort { rail, path, percent, left_out }) in self.ports.iter().enumerate() {
            write!(f, "{}{rail} {path}", if index == 0 { "" } else { ", " })?;
            if let Some(percent) = percent.filter(|percent| *percent != 100) {
                write!(f, " {percent} %")?;
            }
            if let Some(why) = left_out {
                write!(f, " (left out here: {why})")?;
            }
        }
        let is_compared = self.ports.iter().any(|port| port.percent.is_some_and(|percent| percent != 100));
        if is_compared { write!(f, " of {}", self.planned.join(" ")) } else { Ok(()) }
    }
}

/// The lists of a task that are not ours, and what comes of them.  `is_admins` says which variables the admin's
/// `set=` fills.
pub(crate) fn uses(
    topology: &Topology,
    node: &NodePlacement,
    through: &Through,
    task: &TaskPlacement,
    variables: &[Variable],
    present: &Present,
    is_admins: impl Fn(&str) -> bool,
) -> Vec<Use> {
    let value = |list: &List| {
        let (value, whose) = match variables.iter().find(|variable| variable.name == list.variable) {
            Some(Variable { of_file: Some(value), .. }) => (value, Whose::File),
            Some(Variable { change: Change::Set(value), .. }) if is_admins(list.variable) => {
                (value, Whose::Admin)
            }
            Some(Variable { change: Change::KeepUsers(value), .. }) => (value, Whose::User),
            Some(_) => return None,
            None => (present.get(list.variable)?, Whose::User),
        };
        (!value.is_empty()).then(|| (value.clone(), whose))
    };
    let planned: Vec<&Rail> = task.rails.iter().map(|&(rail, _)| node.rail(rail)).collect();
    let use_of = |(reader, list): (&'static str, &List)| {
        let (value, whose) = value(list)?;
        let admitted = list.admitted(&value, topology);
        // what filters nothing leaves the library as it is without a list
        let is_idle = list.is_idle_where_it_admits_all && admitted.len() == list.found_without(topology);
        (!is_idle).then(|| Use {
            reader,
            variable: list.variable,
            whose,
            is_of_interfaces: list.names_interfaces_alone(&value, topology),
            ports: used(topology, node, through, task, list, &planned, admitted),
            planned: planned.iter().map(ToString::to_string).collect(),
        })
    };
    // a node has other kinds of NICs too, and a list may be about none of them
    let is_about_this_node = |list: &List| topology.nics.iter().any(|nic| nic.kind == list.kind);
    let lists = lists().filter(|(_, list)| !task.gpus.is_empty() && is_about_this_node(list));
    lists.filter_map(use_of).collect()
}

/// The variables that list NICs, each with the library that reads it.
fn lists() -> impl Iterator<Item = (&'static str, &'static List)> {
    LIBRARIES.iter().flat_map(|library| library.lists.iter().map(|list| (library.name, list)))
}

/// The ports that come of one list.
fn used(
    topology: &Topology,
    node: &NodePlacement,
    through: &Through,
    task: &TaskPlacement,
    list: &List,
    planned: &[&Rail],
    mut ports: Vec<Rail>,
) -> Vec<UsedPort> {
    let count = ports.len();
    ports.extend(planned.iter().copied().cloned());
    let reach = Reach::new(topology, &ports, through);
    let best_planned = |gpu| (count..ports.len()).filter_map(|port| reach.alone_mbps(gpu, port)).max();
    let is_planned = |port: usize| planned.iter().any(|rail| rail.at() == ports[port].at());
    let mut found: BTreeMap<usize, UsedPort> = BTreeMap::new();
    for &gpu in &task.gpus {
        let rank = |port: usize| (Reverse(reach.alone_mbps(gpu, port)), reach.path(gpu, port));
        let best = (0..count).map(rank).min();
        let best: Vec<usize> = (0..count).filter(|port| list.uses_all || best == Some(rank(*port))).collect();
        // of equally good ones the library takes one; that may be the plan's
        let takes_planned = !list.uses_all && best.iter().any(|&port| is_planned(port));
        for port in best.into_iter().filter(|port| !takes_planned || is_planned(*port)) {
            let percent = match (reach.alone_mbps(gpu, port), best_planned(gpu)) {
                (Some(alone), Some(planned @ 1..)) => Some(alone * 100 / planned),
                _ => None,
            };
            let path = reach.path(gpu, port);
            let known = found.entry(port).or_insert_with(|| UsedPort {
                // the map leaves the NICs of other kinds to their own libraries
                left_out: (list.kind == NicKind::Verbs).then(|| left_out(node, &ports[port])).flatten(),
                rail: ports[port].clone(),
                path,
                percent,
            });
            (known.path, known.percent) = (known.path.min(path), known.percent.max(percent));
        }
    }
    let mut ports: Vec<UsedPort> = found.into_values().collect();
    ports.order_by_key(|port| (Reverse(port.percent), port.path));
    ports
}

/// Why the map has no such rail.
pub(super) fn left_out(node: &NodePlacement, port: &Rail) -> Option<String> {
    if node.rail_at(port.at()).is_some() {
        return None;
    }
    let of_it = |excluded: &&Excluded| {
        excluded.name == port.name && excluded.port.is_none_or(|number| number == port.port)
    };
    node.excluded.iter().find(of_it).map(|excluded| excluded.why.clone())
}

/// The NICs by which a strict word judges a task: those of the lists that stand, and the plan's own where a library
/// may still use them.
pub(crate) fn judged(
    node: &NodePlacement,
    task: &TaskPlacement,
    variables: &[Variable],
    uses: &[Use],
) -> Vec<Judged> {
    let sets_one_of_ours = variables.iter().any(|variable| {
        matches!(variable.change, Change::Set(_))
            && lists().any(|(_, list)| list.variable == variable.name)
            && !uses.iter().any(|of| of.variable == variable.name)
    });
    let planned = task.rails.iter().filter(|_| uses.is_empty() || sets_one_of_ours);
    let planned = planned.map(|&(rail, _)| node.rail(rail));
    let planned = planned.map(|rail| Judged::Nic { name: rail.to_string(), nic: rail.nic });
    let others = uses.iter().flat_map(|of| {
        let list = format!("{} `{}`", of.whose, of.variable);
        let name = |port: &UsedPort| format!("{} of {list}", port.rail);
        let nics = of.ports.iter().map(|port| Judged::Nic { name: name(port), nic: port.rail.nic });
        let mut judged: Vec<Judged> = nics.collect();
        if of.ports.is_empty() && !of.is_of_interfaces {
            judged.push(Judged::Nothing { of: list });
        }
        judged
    });
    planned.chain(others).collect()
}

#[cfg(test)]
mod tests;
