//! The evidence about the GPUs of a process: its variables, and which device nodes it may open.
#![forbid(unsafe_code)]

use nic_placement_core::policy::identity;
use nic_placement_core::step::{Access, GpuGrant};
use nic_placement_core::topology::Topology;
use nic_placement_sys as sys;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;

/// The evidence; `devices` is `/dev`, where it can be looked into.
pub fn grant(values: &BTreeMap<String, String>, topology: &Topology, devices: Option<&File>) -> GpuGrant {
    let variables =
        identity::VARIABLES.into_iter().filter_map(|name| Some((name, values.get(name)?.clone()))).collect();
    let access = topology.gpus.iter().map(|gpu| match (devices, gpu.device_node()) {
        (Some(devices), Some(node)) => match sys::may_open(devices, &node) {
            Ok(()) => Access::Allowed,
            // EPERM is the device cgroup's answer, EACCES that of the file's mode
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Access::Denied,
            Err(_) => Access::Unknown,
        },
        _ => Access::Unknown,
    });
    GpuGrant { variables, access: access.collect() }
}
