//! The marker of the plugin and Slurm's numbers in a process's environment.
//!
//! A user can write anything there. Only numbers, PCI addresses and device names are kept of it.

use nic_placement_core::libraries::marker::{self, Marker};
use nic_placement_core::libraries::wanted::is_variable_name;
use nic_placement_core::topology::{CpuSet, DeviceName, PciAddress};
use serde::{Deserialize, Serialize};

/// GPUs, or NICs, of one task: a node has fewer.
const MAX_DEVICES: usize = 256;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Numbers {
    pub job: Option<u64>,
    /// `SLURM_STEP_ID`; `None` outside of srun
    pub step: Option<u64>,
    pub local_id: Option<u32>,
    pub task: Option<u32>,
}

impl Numbers {
    /// `SLURM_MAX_NORMAL_STEP_ID` of slurm/slurm.h: the last number that is a step's of srun.
    pub const LAST_STEP: u64 = 0xffff_fff0;

    /// `17.0 task 3`; `None` outside of jobs.
    pub fn label(&self) -> Option<String> {
        /// `SLURM_BATCH_SCRIPT` of slurm/slurm.h.
        const BATCH: u64 = 0xffff_fffb;
        let mut label = self.job?.to_string();
        match self.step {
            Some(BATCH) => label += ".batch",
            Some(step) if step <= Numbers::LAST_STEP => label += &format!(".{step}"),
            _ => {}
        }
        if let Some(task) = self.task.or(self.local_id) {
            label += &format!(" task {task}");
        }
        Some(label)
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
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    }
    let job: Option<u64> = value(environment, "SLURM_JOB_ID");
    Numbers {
        job,
        step: job.and(value(environment, "SLURM_STEP_ID")),
        local_id: value(environment, "SLURM_LOCALID"),
        task: value(environment, "SLURM_PROCID"),
    }
}

/// `NAME=VALUE` entries with a NUL behind each; `None`: the process was not placed.
pub fn marked(environment: &[u8]) -> Option<Marked> {
    let devices = marker::devices(variable(environment, marker::NAME)?)?;
    let gpus = devices.gpus.iter().take(MAX_DEVICES);
    let nics = devices.nics.iter().take(MAX_DEVICES);
    Some(Marked {
        gpus: gpus.filter_map(|gpu| gpu.parse().ok()).collect(),
        nics: nics
            .filter(|nic| is_port(nic))
            .map(ToString::to_string)
            .collect(),
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
