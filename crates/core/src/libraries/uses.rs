//! What each library will really use in a task where the user, or the admin's `set=`, gave it a list of NICs.
//!
//! Nothing is changed by it: reports tell it, and strict words judge it.
#![forbid(unsafe_code)]

pub mod lists;

use crate::order::Order;
use crate::placement::{Change, NodePlacement, Rail, RailIndex, TaskPlacement, Variable};
use crate::policy::Through;
use crate::policy::reach::Reach;
use crate::policy::strictness::Judged;
use crate::topology::{NicKind, PathType, Topology};
use lists::{LISTS, List, UseOf};
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
pub fn uses(
    topology: &Topology,
    node: &NodePlacement,
    through: &Through,
    task: &TaskPlacement,
    variables: &[Variable],
    present: &BTreeMap<String, String>,
    is_admins: impl Fn(&str) -> bool,
) -> Vec<Use> {
    if task.gpus.is_empty() {
        return Vec::new();
    }
    let stands = |list: &List| {
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
    let of_list = |list: &List| {
        let (value, whose) = stands(list)?;
        let admitted = list.admitted(&value, topology);
        let is_of_interfaces = list.names_interfaces_alone(&value, topology);
        let is_everything = admitted.len() == list.found_without(topology);
        // what filters nothing leaves the library as it is without a list
        let is_idle = is_everything && list.is_idle_where_it_admits_all;
        (!is_idle).then(|| Use {
            reader: list.reader,
            variable: list.variable,
            whose,
            is_of_interfaces,
            ports: used(topology, node, through, task, list, &admitted),
            planned: task.rails.iter().map(|&(rail, _)| node.rail(rail).to_string()).collect(),
        })
    };
    // a node has other kinds of NICs too, and a list may be about none of them
    let is_about_this_node = |list: &&List| topology.nics.iter().any(|nic| nic.kind == list.kind);
    LISTS.iter().filter(is_about_this_node).filter_map(of_list).collect()
}

/// The ports that come of one list.
fn used(
    topology: &Topology,
    node: &NodePlacement,
    through: &Through,
    task: &TaskPlacement,
    list: &List,
    admitted: &[lists::Admitted],
) -> Vec<UsedPort> {
    let planned: Vec<&Rail> = task.rails.iter().map(|&(rail, _)| node.rail(rail)).collect();
    let mut ports: Vec<Rail> = admitted.iter().map(|admitted| admitted.rail(topology)).collect();
    let count = ports.len();
    ports.extend(planned.iter().copied().cloned());
    let reach = Reach::new(topology, &ports, through);
    let best_planned = |gpu| (count..ports.len()).filter_map(|port| reach.alone_mbps(gpu, port)).max();
    let is_planned = |port: usize| planned.iter().any(|rail| rail.at() == ports[port].at());
    let mut found: BTreeMap<usize, UsedPort> = BTreeMap::new();
    for &gpu in &task.gpus {
        let best = (0..count).map(|port| (Reverse(reach.alone_mbps(gpu, port)), reach.path(gpu, port))).min();
        let is_best = |port: &usize| {
            best == Some((Reverse(reach.alone_mbps(gpu, *port)), reach.path(gpu, *port)))
                || list.use_of == UseOf::All
        };
        let best: Vec<usize> = (0..count).filter(is_best).collect();
        // of equally good ones the library takes one; that may be the plan's
        let is_taken = |port: &&usize| {
            list.use_of == UseOf::All || is_planned(**port) || !best.iter().any(|&other| is_planned(other))
        };
        for &port in best.iter().filter(is_taken) {
            let percent = match (reach.alone_mbps(gpu, port), best_planned(gpu)) {
                (Some(alone), Some(planned @ 1..)) => Some(alone * 100 / planned),
                _ => None,
            };
            let path = reach.path(gpu, port);
            let rail = ports[port].clone();
            let known = found.entry(port).or_insert_with(|| UsedPort {
                // the map leaves the NICs of other kinds to their own libraries
                left_out: (list.kind == NicKind::Verbs).then(|| left_out(node, &rail)).flatten(),
                rail,
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
pub fn left_out(node: &NodePlacement, port: &Rail) -> Option<String> {
    if node.rail_at(port.at()).is_some() {
        return None;
    }
    let of_it = |excluded: &&crate::placement::Excluded| {
        excluded.name == port.name && excluded.port.is_none_or(|number| number == port.port)
    };
    node.excluded.iter().find(of_it).map(|excluded| excluded.why.clone())
}

/// The NICs by which a strict word judges a task: those of the lists that stand, and the plan's own where a library
/// may still use them.
pub fn judged(
    node: &NodePlacement,
    task: &TaskPlacement,
    variables: &[Variable],
    uses: &[Use],
) -> Vec<Judged> {
    let is_others = |name: &str| uses.iter().any(|of| of.variable == name);
    let sets_one_of_ours = variables.iter().any(|variable| {
        matches!(variable.change, Change::Set(_))
            && LISTS.iter().any(|list| list.variable == variable.name)
            && !is_others(&variable.name)
    });
    let planned = task.rails.iter().filter(|_| uses.is_empty() || sets_one_of_ours);
    let planned = planned.map(|&(rail, _)| own(node, rail));
    let others = uses.iter().flat_map(|of| {
        let nic = |port: &UsedPort| Judged::Nic {
            name: format!("{} of {} `{}`", port.rail, of.whose, of.variable),
            nic: port.rail.nic,
        };
        let has_none = of.ports.is_empty() && !of.is_of_interfaces;
        let none = has_none.then(|| Judged::Nothing { of: format!("{} `{}`", of.whose, of.variable) });
        of.ports.iter().map(nic).chain(none).collect::<Vec<_>>()
    });
    planned.chain(others).collect()
}

fn own(node: &NodePlacement, rail: RailIndex) -> Judged {
    let rail = node.rail(rail);
    Judged::Nic { name: rail.to_string(), nic: rail.nic }
}

#[cfg(test)]
mod tests;
