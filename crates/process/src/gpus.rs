//! The evidence about the GPUs of a process: its variables, and which device nodes it may open.
#![forbid(unsafe_code)]

use nic_placement_core::gpus;
use nic_placement_core::step::{Access, GpuGrant};
use nic_placement_core::topology::Topology;
use nic_placement_sys as sys;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;

/// The evidence; `devices` is `/dev`, where it can be looked into.
pub fn grant(values: &BTreeMap<String, String>, topology: &Topology, devices: Option<&File>) -> GpuGrant {
    let variables =
        gpus::VARIABLES.into_iter().filter_map(|name| Some((name, values.get(name)?.clone()))).collect();
    let access = topology.gpus.iter().map(|gpu| match (devices, gpu.device_node()) {
        (Some(devices), Some(node)) => match sys::may_open(devices, &node) {
            Ok(()) => Access::Allowed,
            // EPERM is the device cgroup's answer, EACCES that of the file's mode
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Access::Denied,
            Err(_) => Access::Unknown,
        },
        _ => Access::Unknown,
    });
    let mut access: Vec<Access> = access.collect();
    if access.contains(&Access::Denied) && devices.is_some_and(is_answer_to_all) {
        access.fill(Access::Unknown);
    }
    GpuGrant { variables, access }
}

/// Is "not permitted" the answer for `/dev/null` too, which every process may open?  So says a seccomp filter of a
/// container that is older than the C library's system call, faccessat2(2).
pub fn is_answer_to_all(devices: &File) -> bool {
    sys::may_open(devices, "null").is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
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
    use std::fs;
    use std::path::Path;
    use std::process::Command;

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

    /// Makes a file immutable: then even root's write fails with EPERM, as the device cgroup has it.
    fn forbid(file: &Path, forbids: bool) -> bool {
        let flag = if forbids { "+i" } else { "-i" };
        Command::new("chattr").arg(flag).arg(file).output().is_ok_and(|output| output.status.success())
    }

    #[test]
    fn what_is_said_of_the_null_device_too_says_nothing_of_a_gpu() {
        let folder = std::env::temp_dir().join(format!("nic-placement-gpus-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let topology = platform::model("dgx-h100").unwrap();
        for name in ["nvidia0", "nvidia1", "null"] {
            fs::write(folder.join(name), "").unwrap();
        }
        let access = || {
            let grant = grant(&BTreeMap::new(), &topology, Some(&File::open(&folder).unwrap()));
            grant.access[..2].to_vec()
        };
        match forbid(&folder.join("nvidia0"), true) && forbid(&folder.join("null"), true) {
            true => {
                assert_eq!(access(), [Access::Unknown; 2], "a filter that answers so to all");
                assert!(forbid(&folder.join("null"), false));
                assert_eq!(access(), [Access::Denied, Access::Allowed]);
            }
            false => println!("skipped: no file here can be made unchangeable"),
        }
        for name in ["nvidia0", "null"] {
            forbid(&folder.join(name), false);
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
