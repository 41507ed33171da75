//! The ports that each library will use by a list of the user's, the admin's or a configuration file's: reports name
//! them, strict words judge them.

use super::lists::{LISTS, List};
use nic_placement_core::libraries::Present;
use nic_placement_core::placement::{Change, NodePlacement, Rail, RailIndex};
use nic_placement_core::plan::{Plan, TaskPlan};
use nic_placement_core::policy::Paths;
use nic_placement_core::topology::{GpuIndex, NicKind, PathType};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Serialize)]
pub struct Use {
    #[serde(rename = "library")]
    pub reader: &'static str,
    pub variable: &'static str,
    /// `user`; `admin`, by `set=`; or `file`, a configuration file of the library
    pub list_of: &'static str,
    /// the ports, best first
    #[serde(rename = "nics")]
    pub ports: Vec<UsedPort>,
    #[serde(skip)]
    planned: Vec<String>,
}

#[derive(Serialize)]
pub struct UsedPort {
    pub name: String,
    pub port: u8,
    /// the nearest path from one of the task's GPUs
    pub path: PathType,
    /// its bandwidth for a task alone, in percent of the plan's best port, if rates are known
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

impl Use {
    fn is_as_planned(&self) -> bool {
        let is_planned = |port: &UsedPort| {
            self.planned
                .contains(&format!("{}:{}", port.name, port.port))
        };
        !self.ports.is_empty() && self.ports.iter().all(is_planned)
    }
}

impl fmt::Display for Use {
    /// `mlx5_4:1 SYS 45 % of mlx5_0:1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = |of: &UsedPort| {
            let mut text = format!("{}:{} {}", of.name, of.port, of.path);
            if let Some(percent) = of.percent.filter(|percent| *percent != 100) {
                text += &format!(" {percent} %");
            }
            if let Some(why) = &of.left_out {
                text += &format!(" (left out here: {why})");
            }
            text
        };
        let ports: Vec<String> = self.ports.iter().map(port).collect();
        let is_other = |of: &UsedPort| of.percent.is_some_and(|percent| percent != 100);
        match ports.join(", ") {
            none if none.is_empty() => f.write_str("no NIC of this node that works"),
            ports if self.ports.iter().any(is_other) => {
                write!(f, "{ports} of {}", self.planned.join(" "))
            }
            ports => f.write_str(&ports),
        }
    }
}

/// Adds what others' lists mean to the task's report.
pub fn tell(plan: &Plan, task: &mut TaskPlan, present: &Present) -> Vec<Use> {
    let uses = uses(plan, task, present);
    for of in &uses {
        task.variables
            .iter_mut()
            .filter(|variable| {
                variable.name == of.variable
                    && (matches!(variable.change, Change::KeepUsers(_) | Change::Set(_))
                        || variable.of_file.is_some())
            })
            .for_each(|variable| variable.why = format!("{}: {of}", variable.why).into());
    }
    uses
}

/// The NICs that a report adds to a task's: those that are not the plan's.
pub fn others(uses: &[Use]) -> String {
    uses.iter()
        .filter(|of| !of.is_as_planned())
        .map(|of| format!(", but {}: {of}", of.reader))
        .collect()
}

fn uses(plan: &Plan, of_task: &TaskPlan, present: &Present) -> Vec<Use> {
    let (topology, task) = (&plan.node, &of_task.placement);
    let value_of = |name: &str| {
        let mut templates = plan.wish.admin.templates.iter();
        let variable = of_task
            .variables
            .iter()
            .find(|variable| variable.name == name);
        let (value, list_of) = match variable.map(|variable| (&variable.of_file, &variable.change))
        {
            None => (present.get(name)?, "user"),
            Some((Some(value), _)) => (value, "file"),
            Some((None, Change::KeepUsers(value))) => (value, "user"),
            Some((None, Change::Set(value))) if templates.any(|of| of.name() == name) => {
                (value, "admin")
            }
            Some(_) => return None,
        };
        Some((value.as_str(), list_of)).filter(|(value, _)| !value.is_empty())
    };
    let planned: Vec<Rail> = task
        .rails
        .iter()
        .map(|&(rail, _)| plan.map.rail(rail).clone())
        .collect();
    let use_of = |list: List| {
        // a list may be about a kind of NICs that this node does not have
        let is_about_this_node = topology.nics.iter().any(|nic| nic.kind == list.kind);
        let (value, list_of) = value_of(list.variable).filter(|_| is_about_this_node)?;
        let List {
            library: reader, ..
        } = list;
        let admitted = list.admitted(value, topology);
        // a list that filters nothing is as good as none
        let is_idle =
            list.is_idle_where_it_admits_all && admitted.len() == list.found_without(topology);
        (!is_idle).then(|| Use {
            reader,
            variable: list.variable,
            list_of,
            ports: used(plan, &task.gpus, &list, &planned, admitted),
            planned: planned.iter().map(ToString::to_string).collect(),
        })
    };
    if task.gpus.is_empty() {
        Vec::new()
    } else {
        LISTS.into_iter().filter_map(use_of).collect()
    }
}

fn used(
    plan: &Plan,
    gpus: &[GpuIndex],
    list: &List,
    planned: &[Rail],
    admitted: Vec<Rail>,
) -> Vec<UsedPort> {
    let ports = [&admitted, planned].concat();
    let ways = Paths::one_each(&plan.node, &ports, &plan.wish.admin.through);
    let alone = |gpu: GpuIndex, port: usize| ways.alone_mbps(gpu, RailIndex(port));
    let path = |gpu: GpuIndex, port: usize| ways.kind(gpu, RailIndex(port));
    let best_planned = |gpu| {
        (admitted.len()..ports.len())
            .filter_map(|port| alone(gpu, port))
            .max()
    };
    let is_planned = |port: &usize| planned.iter().any(|rail| rail.at() == ports[*port].at());
    let mut found: BTreeMap<usize, UsedPort> = BTreeMap::new();
    for &gpu in gpus {
        let rank = |port: usize| (Reverse(alone(gpu, port)), path(gpu, port));
        let best = (0..admitted.len()).map(rank).min();
        let mut used: Vec<usize> = (0..admitted.len())
            .filter(|port| list.uses_all || best == Some(rank(*port)))
            .collect();
        // of equally good ones the library takes one; that may be the plan's
        if !list.uses_all && used.iter().any(is_planned) {
            used.retain(is_planned);
        }
        for port in used {
            let percent = match (alone(gpu, port), best_planned(gpu)) {
                (Some(alone), Some(planned @ 1..)) => Some(alone * 100 / planned),
                _ => None,
            };
            let path = path(gpu, port);
            let known = found.entry(port).or_insert_with(|| UsedPort {
                left_out: (list.kind == NicKind::Verbs)
                    .then(|| left_out(&plan.map, &ports[port]))
                    .flatten(),
                name: ports[port].name.to_string(),
                port: ports[port].port,
                path,
                percent,
            });
            (known.path, known.percent) = (known.path.min(path), known.percent.max(percent));
        }
    }
    let mut ports: Vec<UsedPort> = found.into_values().collect();
    ports.sort_by_key(|port| (Reverse(port.percent), port.path));
    ports
}

pub(super) fn left_out(node: &NodePlacement, port: &Rail) -> Option<String> {
    let excluded = node.excluded.iter().find(|excluded| {
        excluded.name == port.name && excluded.port.is_none_or(|number| number == port.port)
    })?;
    node.rail_at(port.at())
        .is_none()
        .then(|| excluded.why.clone())
}

#[cfg(test)]
mod tests;
