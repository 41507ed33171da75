//! The marker of the plugin and Slurm's numbers in a process's environment.
//!
//! A user can write anything there. Only numbers, PCI addresses and device names are kept of it.

use nic_placement_core::libraries::marker::{self, Marker};
use nic_placement_core::libraries::wanted::is_variable_name;
use nic_placement_core::topology::{CpuSet, DeviceName, PciAddress};

/// GPUs, or NICs, of one task: a node has fewer.
const MAX_DEVICES: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepId {
    pub job: u64,
    /// `SLURM_STEP_ID`; `None` outside of srun
    pub step: Option<u64>,
}

impl std::fmt::Display for StepId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        /// `SLURM_BATCH_SCRIPT` of slurm/slurm.h, and the least number that is no step's of srun.
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

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Marked {
    pub gpus: Vec<PciAddress>,
    pub nics: Vec<String>,
    /// the CPUs to which it was bound, if it was
    pub cpus: Option<CpuSet>,
}

pub fn numbers(environment: &[u8]) -> Numbers {
    fn value<T: std::str::FromStr>(environment: &[u8], name: &str) -> Option<T> {
        let text = variable(environment, name)?;
        text.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| text.parse().ok())?
    }
    Numbers {
        step: value(environment, "SLURM_JOB_ID").map(|job| StepId {
            job,
            step: value(environment, "SLURM_STEP_ID"),
        }),
        local: value(environment, "SLURM_LOCALID"),
        rank: value(environment, "SLURM_PROCID"),
    }
}

/// `NAME=VALUE` entries with a NUL behind each; `None`: the process was not placed.
pub fn marked(environment: &[u8]) -> Option<Marked> {
    let devices = marker::devices(variable(environment, marker::NAME)?)?;
    let gpus = devices.gpus.iter().take(MAX_DEVICES);
    let nics = devices
        .nics
        .iter()
        .take(MAX_DEVICES)
        .filter(|nic| is_port(nic));
    Some(Marked {
        gpus: gpus.filter_map(|gpu| gpu.parse().ok()).collect(),
        nics: nics.map(ToString::to_string).collect(),
        cpus: devices.cpus.and_then(|cpus| CpuSet::from_list(cpus).ok()),
    })
}

/// Variables that were set by the marker, and have another value or none; 32 at most.
pub fn changed(environment: &[u8]) -> Vec<String> {
    let Some(line) = variable(environment, marker::NAME) else {
        return Vec::new();
    };
    Marker::parse(line, is_variable_name)
        .set()
        .iter()
        .filter(|(name, value)| variable(environment, name) != Some(value))
        .map(|(name, _)| name.clone())
        .take(32)
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
    let value = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    std::str::from_utf8(value).ok()
}
