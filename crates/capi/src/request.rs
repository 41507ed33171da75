//! The request of every call, as versioned JSON: which node, what is asked for, which tasks a launcher starts there.
#![forbid(unsafe_code)]

use crate::failure::Failure;
use nic_placement_core::libraries::Present;
use nic_placement_core::step::Starter;
use nic_placement_core::topology::file::{self, Document};
use nic_placement_core::topology::{CpuSet, GpuIndex, Topology};
use nic_placement_launch::gpu_list::gpus_named;
use nic_placement_launch::step::{GpuSplit, MAX_TASKS, StepRequest};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeSet;

const FORMAT: &str = "nic-placement request";
/// Grows by one when a field changes its meaning or is removed, not with new fields.
const VERSION: u32 = 1;
/// CPUs of a node, at most: the largest `CONFIG_NR_CPUS` of Linux.
const MOST_CPUS: u32 = 8192;
/// Bytes, at most: a node's description, and the environment of a task, of which Linux lets execve(2) take 6 MiB.
pub(crate) const MAX_BYTES: usize = file::MAX_BYTES + 6 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u32,
    node: Option<Described>,
    #[serde(skip)]
    pub(crate) is_here: bool,
    /// an admin's, as they stand behind the plugin's path in plugstack.conf
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
    pub(crate) words: Option<String>,
    gpus: Option<String>,
    tasks: Option<Tasks>,
    gpus_per_task: Option<u32>,
    cpus_per_task: Option<u32>,
    cpus: Option<String>,
    #[serde(default)]
    alone_on_node: bool,
    pub(crate) task: Option<u32>,
    /// the number of the process that asks, among how many on its node
    pub(crate) local_rank: Option<u32>,
    pub(crate) local_size: Option<u32>,
    #[serde(default)]
    pub(crate) environment: Present,
    #[serde(default, rename = "as")]
    pub(crate) form: Form,
    /// a format of `nic-placement map`
    pub(crate) map: Option<String>,
    /// ignored: requests to 1.0 named the host of a rankfile
    #[serde(rename = "host")]
    _host: Option<IgnoredAny>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Form {
    #[default]
    Json,
    /// for programs without a reader of JSON
    Lines,
}

/// A node that need not be this one.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Described {
    Machine(String),
    Topology(Box<Document>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    gpus: String,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "`tasks`: expected a number, or a list such as `[{\"gpus\": \"0\"}]`"
)]
enum Tasks {
    Number(u32),
    Each(Vec<Task>),
}

#[derive(Deserialize)]
struct Header {
    format: Option<String>,
    version: Option<u32>,
}

impl Request {
    /// The request, and the node if that need not be this one.
    pub(crate) fn parse(text: &str) -> Result<(Request, Option<Described>), Failure> {
        // a newer request is refused for its version, not for the fields that it adds
        let header: Header = serde_json::from_str(text).map_err(Failure::request)?;
        if (header.format.as_deref(), header.version) != (Some(FORMAT), Some(VERSION)) {
            return Err(Failure::request(format!(
                "expected `\"format\": \"{FORMAT}\", \"version\": {VERSION}`"
            )));
        }
        let mut request: Request = serde_json::from_str(text).map_err(Failure::request)?;
        for (field, value, most) in [
            ("gpus_per_task", request.gpus_per_task, MAX_TASKS),
            ("cpus_per_task", request.cpus_per_task, MOST_CPUS),
            ("local_rank", request.local_rank, MAX_TASKS - 1),
            ("local_size", request.local_size, MAX_TASKS),
        ] {
            if let Some(value) = value.filter(|value| *value > most) {
                let why = format!("`{field}`: {value}, expected {most} at most");
                return Err(Failure::request(why));
            }
        }
        let described = request.node.take();
        request.is_here = described.is_none();
        Ok((request, described))
    }

    /// The GPUs that the launcher may use, in its order; all where it does not say.
    pub(crate) fn gpus(&self, topology: &Topology) -> Result<Vec<GpuIndex>, Failure> {
        match &self.gpus {
            None => Ok(topology.gpu_indices().collect()),
            Some(list) => listed("gpus", list, topology),
        }
    }

    /// The step on this node; `cpus` are those where the request does not say.
    pub(crate) fn step(&self, topology: &Topology, cpus: CpuSet) -> Result<StepRequest, Failure> {
        let said = self.gpus.as_ref().map(|_| self.gpus(topology));
        let (split, gpus) = match (&self.tasks, self.gpus_per_task) {
            (Some(Tasks::Each(_)), Some(_)) => {
                return Err(Failure::request(
                    "`gpus_per_task`: the list in `tasks` says it already",
                ));
            }
            (Some(Tasks::Each(tasks)), None) => {
                let lists = tasks.iter().map(|task| match task.gpus.as_str() {
                    "" => Ok(Vec::new()),
                    list => listed("tasks", list, topology),
                });
                let lists: Vec<Vec<GpuIndex>> = lists.collect::<Result<_, _>>()?;
                let named: BTreeSet<GpuIndex> = lists.iter().flatten().copied().collect();
                let gpus = said
                    .transpose()?
                    .unwrap_or_else(|| named.iter().copied().collect());
                if let Some(gpu) = named.iter().find(|gpu| !gpus.contains(gpu)) {
                    return Err(Failure::request(format!(
                        "`tasks`: GPU {gpu} is not among the step's `gpus`"
                    )));
                }
                (GpuSplit::Listed(lists), gpus)
            }
            (_, each) => (
                each.map_or(GpuSplit::All, GpuSplit::Each),
                self.gpus(topology)?,
            ),
        };
        let own_cpus = self.cpus.as_deref().map(CpuSet::from_list).transpose();
        let cpus = own_cpus
            .map_err(|bad| Failure::request(format!("`cpus`: {bad}")))?
            .unwrap_or(cpus);
        Ok(StepRequest {
            starter: Starter::Launcher,
            gpus,
            split,
            tasks: match self.tasks {
                Some(Tasks::Number(tasks)) => Some(tasks),
                _ => None,
            },
            cpus_per_task: self.cpus_per_task,
            cpus,
            alone_on_node: self.alone_on_node,
        })
    }
}

fn listed(field: &str, list: &str, topology: &Topology) -> Result<Vec<GpuIndex>, Failure> {
    gpus_named(topology, list).map_err(|bad| Failure::request(format!("`{field}`: {bad}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_does_not_fit_is_told_with_what_is_allowed() {
        let parse = |field: &str| {
            let head = r#""format": "nic-placement request", "version": 1"#;
            let parsed = Request::parse(&format!("{{{head}, {field}}}"));
            parsed
                .map(|(request, _)| request)
                .map_err(|failure| failure.why)
        };
        let tasks = "`tasks`: expected a number, or a list such as";
        for row in [
            &format!(r#""tasks": -1 | {tasks}"#),
            &format!(r#""tasks": "8" | {tasks}"#),
            &format!(r#""tasks": [{{"gpu": "0"}}] | {tasks}"#),
            r#""gpus_per_task": 1.5 | floating point `1.5` | expected u32"#,
            r#""gpus_per_task": 4097 | `gpus_per_task`: 4097 | 4096 at most"#,
            r#""cpus_per_task": 8193 | `cpus_per_task`: 8193 | 8192 at most"#,
            r#""task": -1 | `-1` | expected u32"#,
        ] {
            let mut cells = row.split(" | ");
            let failure = parse(cells.next().unwrap()).err().unwrap();
            assert!(cells.all(|part| failure.contains(part)), "{row}: {failure}");
        }
        let request =
            parse(r#""tasks": [{"gpus": "0"}], "task": 0, "gpus_per_task": null"#).unwrap();
        assert!(matches!(request.tasks, Some(Tasks::Each(tasks)) if tasks.len() == 1));
        let numbers = (request.task, request.gpus_per_task, request.cpus_per_task);
        assert_eq!(numbers, (Some(0), None, None));
    }
}
