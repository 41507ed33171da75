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

/// The same for a process that may be in a container: if some of a vendor's GPUs have device nodes that it may open, those
/// without one are not there for it.  Containers get the nodes of their own GPUs, and see all GPUs in `/sys`.
pub fn without_absent(mut grant: GpuGrant, topology: &Topology) -> GpuGrant {
    let before = grant.access.clone();
    for (gpu, access) in topology.gpus.iter().zip(&mut grant.access) {
        let of_vendor = topology.gpus.iter().zip(&before).filter(|(other, _)| other.vendor == gpu.vendor);
        let some_open = of_vendor.into_iter().any(|(_, access)| *access == Access::Allowed);
        if some_open && *access == Access::Unknown && gpu.device_node().is_some() {
            *access = Access::Denied;
        }
    }
    grant
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic_placement_core::platform;

    fn access(given: [Access; 8]) -> Vec<Access> {
        let topology = platform::model("dgx-h100").unwrap();
        assert!(topology.gpus.iter().all(|gpu| gpu.device_node().is_some()));
        let grant = GpuGrant { access: given.to_vec(), ..GpuGrant::default() };
        without_absent(grant, &topology).access
    }

    #[test]
    fn in_a_container_with_some_device_nodes_the_other_gpus_are_not_there() {
        let mut given = [Access::Unknown; 8];
        assert_eq!(access(given), given, "no device node at all tells nothing");
        given[5] = Access::Allowed;
        let mut expected = vec![Access::Denied; 8];
        expected[5] = Access::Allowed;
        assert_eq!(access(given), expected);
    }
}
