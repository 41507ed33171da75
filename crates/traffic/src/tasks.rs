//! A task as its environment tells it: the marker of the plugin, and Slurm's numbers.
//!
//! A user can write anything into a process's environment.  What is kept of it are numbers, PCI addresses and device names.
#![forbid(unsafe_code)]

use nic_placement_core::libraries::marker::{self, Marker};
use nic_placement_core::libraries::wanted::is_variable_name;
use nic_placement_core::topology::{CpuSet, DeviceName, PciAddress};
use std::collections::BTreeMap;

/// GPUs or NICs of one task, at most: a node has fewer.
const MAX_DEVICES: usize = 256;

/// A step: the job's number and the step's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepId {
    pub job: u64,
    /// `SLURM_STEP_ID`; `None` outside of srun
    pub step: Option<u64>,
}

impl std::fmt::Display for StepId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        /// A batch script's (slurm/slurm.h, `SLURM_BATCH_SCRIPT`), and the first of such numbers.
        const BATCH: u64 = 0xffff_fffb;
        const FIRST: u64 = 0xffff_fff0;
        match self.step {
            Some(BATCH) => write!(f, "{}.batch", self.job),
            Some(step) if step < FIRST => write!(f, "{}.{step}", self.job),
            _ => write!(f, "{}", self.job),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Numbers {
    pub step: Option<StepId>,
    pub local: Option<u32>,
    pub rank: Option<u32>,
}

impl Numbers {
    /// `17.0 task 3`; `None` outside of jobs.
    pub fn label(&self) -> Option<String> {
        let task = self
            .rank
            .or(self.local)
            .map(|number| format!(" task {number}"))
            .unwrap_or_default();
        self.step.map(|step| format!("{step}{task}"))
    }
}

/// What the environment of a placed process says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Marked {
    pub numbers: Numbers,
    pub gpus: Vec<PciAddress>,
    pub nics: Vec<String>,
    /// the CPUs to which it was bound, if it was
    pub cpus: Option<CpuSet>,
}

/// Slurm's numbers in an environment; a text that is no number is none.
pub fn numbers(environment: &[u8]) -> Numbers {
    fn value<T: std::str::FromStr>(environment: &[u8], name: &str) -> Option<T> {
        let text = variable(environment, name)?;
        text.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| text.parse().ok())?
    }
    let job = value(environment, "SLURM_JOB_ID");
    let step = job.map(|job| StepId {
        job,
        step: value(environment, "SLURM_STEP_ID"),
    });
    Numbers {
        step,
        local: value(environment, "SLURM_LOCALID"),
        rank: value(environment, "SLURM_PROCID"),
    }
}

/// The marker of an environment, `NAME=VALUE` each with a NUL behind it; `None` where the process was not placed.
pub fn marked(environment: &[u8]) -> Option<Marked> {
    let devices = marker::devices(variable(environment, marker::NAME)?)?;
    let gpus = devices
        .gpus
        .iter()
        .take(MAX_DEVICES)
        .filter_map(|gpu| gpu.parse().ok())
        .collect();
    let nics = devices
        .nics
        .iter()
        .take(MAX_DEVICES)
        .filter(|nic| is_port(nic))
        .map(|nic| nic.to_string());
    let cpus = devices.cpus.and_then(|cpus| CpuSet::from_list(cpus).ok());
    Some(Marked {
        numbers: numbers(environment),
        gpus,
        nics: nics.collect(),
        cpus,
    })
}

/// The variables that the marker says were set, and that have another value or none.
pub fn changed(environment: &[u8]) -> Vec<String> {
    /// More of them are not told.
    const MOST: usize = 32;
    let Some(line) = variable(environment, marker::NAME) else {
        return Vec::new();
    };
    let marker = Marker::parse(line, is_variable_name);
    let is_changed = |(name, value): &&(String, String)| variable(environment, name) != Some(value);
    marker
        .set()
        .iter()
        .filter(is_changed)
        .map(|(name, _)| name.clone())
        .take(MOST)
        .collect()
}

/// `mlx5_0:1`
fn is_port(text: &str) -> bool {
    text.split_once(':').is_some_and(|(name, port)| {
        DeviceName::is_one(name) && port.parse::<u8>().is_ok_and(|port| port > 0)
    })
}

/// The first of that name counts, as for getenv(3).
pub fn variable<'e>(environment: &'e [u8], name: &str) -> Option<&'e str> {
    let mut entries = environment.split(|byte| *byte == 0);
    let value =
        entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    std::str::from_utf8(value).ok()
}

/// A task: a placed process, and those that inherited its environment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacedTask {
    /// its lowest process
    pub pid: u32,
    pub user: Option<u32>,
    pub processes: usize,
    pub marked: Marked,
}

/// The tasks of these placed processes, each of which is one for itself so far, in order of job, step and local id.
pub fn tasks<'p>(processes: impl IntoIterator<Item = &'p PlacedTask>) -> Vec<PlacedTask> {
    let mut found: BTreeMap<(&Marked, Option<u32>), PlacedTask> = BTreeMap::new();
    for process in processes {
        let of_task = found.entry((&process.marked, process.user));
        of_task
            .and_modify(|task| {
                task.processes += process.processes;
                task.pid = task.pid.min(process.pid);
            })
            .or_insert_with(|| process.clone());
    }
    found.into_values().collect()
}
