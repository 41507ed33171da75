//! One task's own look: it asks the GPUs' drivers, the kernel, and the marker of the plugin.
//!
//! A driver may hang. This process does nothing else, and its caller ends it.
#![forbid(unsafe_code)]

use super::super::verify::environment_of_this_process;
use nic_placement_fleet::trial::probe::{
    CopyRates, FORMAT, Probe, ProbedDevice, ProbedDriver, VERSION,
};
use nic_placement_program::{DriverDevice, DriverError, DriverKind, ask, copies, nccl_topology};
use nic_placement_sys::{MemoryPolicy, affinity, memory_policy};
use nic_placement_traffic::tasks::{marked, numbers};

/// Copies each way that are timed.
const ROUNDS: u32 = 16;

pub(super) fn probe(mib: Option<u32>, with_nccl: bool) -> Probe {
    // before a library of a driver is loaded, which may change them
    let (cpus, memory) = (affinity().ok(), memory_policy().ok());
    let environment = environment_of_this_process();
    let numbers = numbers(&environment);
    let marked = marked(&environment);
    let (nics, set_cpus) = marked
        .clone()
        .map(|marked| (marked.nics, marked.cpus))
        .unwrap_or_default();
    let drivers = drivers();
    let mut notes = Vec::new();
    let mut noted = |what: &str, error: DriverError| notes.push(format!("{what}: {error}"));
    let rates = mib.and_then(|mib| {
        let rates = copies(0, (mib as usize) << 20, ROUNDS)
            .map_err(|error| noted("copies", error))
            .ok()?;
        Some(CopyRates {
            to_device_mb_s: rates.to_device_mb_s,
            to_host_mb_s: rates.to_host_mb_s,
        })
    });
    let nccl = with_nccl
        .then(nccl_topology)
        .and_then(|nccl| nccl.map_err(|error| noted("nccl", error)).ok());
    Probe {
        format: FORMAT.to_string(),
        version: VERSION,
        local_id: numbers.local,
        rank: numbers.rank,
        drivers,
        taken: marked.map(|marked| marked.gpus),
        nics,
        cpus,
        set_cpus,
        memory: memory.map(words),
        copies: rates,
        nccl,
        notes,
    }
}

/// Those that are installed; all, where none is.
fn drivers() -> Vec<ProbedDriver> {
    let all = DriverKind::ALL.map(|kind| (kind, ask(kind)));
    let is_absent = |answer: &Result<_, DriverError>| matches!(answer, Err(DriverError::Absent));
    let are_all_absent = all.iter().all(|(_, answer)| is_absent(answer));
    let told = all
        .into_iter()
        .filter(|(_, answer)| are_all_absent || !is_absent(answer));
    told.map(|(kind, answer)| {
        let (version, devices, error) = match answer {
            Ok(answer) => (answer.version, answer.devices, None),
            Err(error) => (None, Vec::new(), Some(error.to_string())),
        };
        let device = |DriverDevice {
                          address,
                          uuid,
                          name,
                      }| ProbedDevice {
            address,
            uuid,
            name,
        };
        let devices = devices.into_iter().map(device).collect();
        ProbedDriver {
            name: kind.name().to_string(),
            version,
            devices,
            error,
        }
    })
    .collect()
}

fn words(policy: MemoryPolicy) -> String {
    match policy {
        MemoryPolicy::Default => "default".to_string(),
        MemoryPolicy::Prefer(nodes) => format!("prefer:{nodes}"),
        MemoryPolicy::Fence(nodes) => format!("bind:{nodes}"),
        MemoryPolicy::Other => "other".to_string(),
    }
}
