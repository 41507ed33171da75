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
use serde_json::Value;
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
    #[serde(rename = "tasks")]
    _tasks: Option<IgnoredAny>,
    /// how many, or the GPUs of each
    #[serde(skip)]
    tasks: Option<u32>,
    #[serde(skip)]
    lists: Option<Vec<Task>>,
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

/// The beginning of a request, and its numbers, which a misfit names with their bounds: serde's own message names no field.
#[derive(Deserialize)]
struct Header {
    format: Option<String>,
    version: Option<u32>,
    tasks: Option<Value>,
    gpus_per_task: Option<Value>,
    cpus_per_task: Option<Value>,
    task: Option<Value>,
    local_rank: Option<Value>,
    local_size: Option<Value>,
}

fn number(
    field: &str,
    value: &Option<Value>,
    least: u32,
    most: u32,
) -> Result<Option<u32>, Failure> {
    let Some(value) = value else { return Ok(None) };
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| (least..=most).contains(number));
    if number.is_some() {
        return Ok(number);
    }
    let or_list = match field {
        "tasks" => ", or a list such as `[{\"gpus\": \"0\"}]`",
        _ => "",
    };
    Err(Failure::request(format!(
        "invalid value: `{value}`, expected `{field}` to be a number from {least} to {most}{or_list}"
    )))
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
        for (field, value, most) in [
            ("gpus_per_task", &header.gpus_per_task, MAX_TASKS),
            ("cpus_per_task", &header.cpus_per_task, MOST_CPUS),
            ("task", &header.task, MAX_TASKS - 1),
            ("local_rank", &header.local_rank, MAX_TASKS - 1),
            ("local_size", &header.local_size, MAX_TASKS),
        ] {
            number(field, value, 0, most)?;
        }
        let mut request: Request = serde_json::from_str(text).map_err(Failure::request)?;
        match header.tasks {
            Some(list @ Value::Array(_)) => {
                request.lists = serde_json::from_value(list).map_err(Failure::request)?;
            }
            tasks => request.tasks = number("tasks", &tasks, 1, MAX_TASKS)?,
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
        let split = match (&self.lists, self.gpus_per_task) {
            (Some(_), Some(_)) => {
                return Err(Failure::request(
                    "`gpus_per_task`: the list in `tasks` says it already",
                ));
            }
            (Some(tasks), None) => {
                let lists = tasks.iter().map(|task| match task.gpus.as_str() {
                    "" => Ok(Vec::new()),
                    list => listed("tasks", list, topology),
                });
                GpuSplit::Listed(lists.collect::<Result<_, _>>()?)
            }
            (None, each) => each.map_or(GpuSplit::All, GpuSplit::Each),
        };
        let gpus = match (&self.gpus, &split) {
            (None, GpuSplit::Listed(lists)) => {
                let gpus: BTreeSet<GpuIndex> = lists.iter().flatten().copied().collect();
                gpus.into_iter().collect()
            }
            _ => self.gpus(topology)?,
        };
        let lists = if let GpuSplit::Listed(lists) = &split {
            lists.as_slice()
        } else {
            &[]
        };
        if let Some(gpu) = lists.iter().flatten().find(|gpu| !gpus.contains(gpu)) {
            return Err(Failure::request(format!(
                "`tasks`: GPU {gpu} is not among the step's `gpus`"
            )));
        }
        let own_cpus = self.cpus.as_deref().map(CpuSet::from_list).transpose();
        let cpus = own_cpus
            .map_err(|bad| Failure::request(format!("`cpus`: {bad}")))?
            .unwrap_or(cpus);
        Ok(StepRequest {
            starter: Starter::Launcher,
            gpus,
            split,
            tasks: self.tasks,
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
    fn a_number_that_does_not_fit_is_told_with_its_field_and_what_is_allowed() {
        let parse = |field: &str| {
            let head = r#""format": "nic-placement request", "version": 1"#;
            let parsed = Request::parse(&format!("{{{head}, {field}}}"));
            parsed
                .map(|(request, _)| request)
                .map_err(|failure| failure.to_string())
        };
        let tasks = "expected `tasks` to be a number from 1 to 4096,";
        for row in [
            &format!(r#""tasks": -1 | `-1` | {tasks}"#),
            &format!(r#""tasks": "8" | `"8" | {tasks}"#),
            r#""tasks": [{"gpu": "0"}] | unknown field `gpu` | expected `gpus`"#,
            r#""gpus_per_task": 1.5 | `1.5` | a number from 0 to 4096"#,
            r#""cpus_per_task": [2] | `[2]` | a number from 0 to 8192"#,
            r#""task": 4096 | `4096` | a number from 0 to 4095"#,
        ] {
            let mut cells = row.split(" | ");
            let failure = parse(cells.next().unwrap()).err().unwrap();
            assert!(cells.all(|part| failure.contains(part)), "{row}: {failure}");
        }
        let request =
            parse(r#""tasks": [{"gpus": "0"}], "task": 0, "gpus_per_task": null"#).unwrap();
        assert!(request.lists.is_some_and(|tasks| tasks.len() == 1));
        let numbers = (request.task, request.gpus_per_task, request.cpus_per_task);
        assert_eq!(numbers, (Some(0), None, None));
    }
}
