//! One task's own look: the GPUs' drivers, the kernel, and the marker of the plugin.
//!
//! A driver may hang. This process does nothing else, and its caller ends it.

use super::super::verify::environment_of_this_process;
use nic_placement_fleet::trial::probe::{
    CopyRates, FORMAT, Probe, ProbedDevice, ProbedDriver, VERSION,
};
use nic_placement_program::{DriverAnswer, DriverError, ask_drivers, copies};
use nic_placement_sys::{MemoryPolicy, affinity, memory_policy};
use nic_placement_traffic::tasks::{marked, numbers};
use std::time::Instant;

const ROUNDS: u32 = 16;

pub fn probe(mib: Option<u32>) -> Probe {
    // before a library of a driver is loaded, which may change them
    let (cpus, memory) = (affinity().ok(), memory_policy().ok());
    let environment = environment_of_this_process();
    let numbers = numbers(&environment);
    let marked = marked(&environment).map(|of| (of.gpus, (of.nics, of.cpus)));
    let (taken, others) = marked.unzip();
    let (nics, set_cpus) = others.unwrap_or_default();
    let drivers = drivers();
    let begun = Instant::now();
    let clock = || begun.elapsed().as_secs_f64();
    let mut notes = Vec::new();
    let rates = mib.and_then(|mib| {
        let rates = copies((mib as usize) << 20, ROUNDS, &clock);
        let note = |error| notes.push(format!("copies: {error}"));
        rates.map_err(note).ok()
    });
    let copies = rates.map(|[to_device_mb_s, to_host_mb_s]| CopyRates {
        to_device_mb_s,
        to_host_mb_s,
    });
    let memory = memory.map(|policy| match policy {
        MemoryPolicy::Default => "default".to_string(),
        MemoryPolicy::Prefer(nodes) => format!("prefer:{nodes}"),
        MemoryPolicy::Fence(nodes) => format!("bind:{nodes}"),
        MemoryPolicy::Other => "other".to_string(),
    });
    Probe {
        format: FORMAT.to_string(),
        version: VERSION,
        local_id: numbers.local_id,
        rank: numbers.task,
        drivers,
        taken,
        nics,
        cpus,
        set_cpus,
        memory,
        copies,
        notes,
    }
}

/// The installed drivers; all, if none is.
fn drivers() -> Vec<ProbedDriver> {
    let all = ask_drivers();
    let is_absent = |answer: &Result<_, _>| matches!(answer, Err(DriverError::Absent));
    let are_all_absent = all.iter().all(|(_, answer)| is_absent(answer));
    let installed = all
        .into_iter()
        .filter(|(_, answer)| are_all_absent || !is_absent(answer));
    let device = |(address, uuid, name): (String, _, _)| ProbedDevice {
        address: address.to_ascii_lowercase(),
        uuid,
        name,
    };
    let driver = |(name, answer): (&str, Result<DriverAnswer, DriverError>)| {
        let error = answer.as_ref().err().map(DriverError::to_string);
        let answer = answer.unwrap_or_default();
        let devices = answer.devices.into_iter().map(device).collect();
        ProbedDriver {
            name: name.to_string(),
            version: answer.version,
            devices,
            error,
        }
    };
    installed.map(driver).collect()
}
