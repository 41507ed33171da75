//! A process's GPUs, by its variables and by the device files that it may open.

use crate::devices::{DeviceFiles, is_answer_to_all};
use nic_placement_core::gpus;
use nic_placement_core::libraries::Present;
use nic_placement_core::step::{Access, GpuGrant};
use nic_placement_core::topology::Topology;
use nic_placement_sys::{self as sys, Refusal};

pub fn grant(present: &Present, topology: &Topology, devices: Option<&DeviceFiles>) -> GpuGrant {
    let variables = gpus::VARIABLES
        .into_iter()
        .filter_map(|name| Some((name, present.get(name)?.clone())))
        .collect();
    let mut access = vec![Access::Unknown; topology.gpus.len()];
    if let Some(devices) = devices
        && let Some(directory) = &devices.directory
    {
        for (access, path) in access.iter_mut().zip(&devices.gpus) {
            match path.as_ref().map(|path| sys::may_open(directory, path)) {
                Some(Ok(())) => *access = Access::Allowed,
                Some(Err(Refusal::User | Refusal::Cgroup)) => *access = Access::Denied,
                Some(Err(Refusal::Absent | Refusal::Other)) | None => {}
            }
        }
        if access.contains(&Access::Denied) && is_answer_to_all(directory) {
            access.fill(Access::Unknown);
        }
    }
    GpuGrant { variables, access }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic_placement_node::platform;
    use std::fs::{self, File};
    use std::path::Path;
    use std::process::Command;

    /// Makes a file immutable: then even root's write fails with EPERM, as the device cgroup has it.
    fn forbid(file: &Path, forbids: bool) -> bool {
        let flag = if forbids { "+i" } else { "-i" };
        let output = Command::new("chattr").arg(flag).arg(file).output();
        output.is_ok_and(|output| output.status.success())
    }

    #[test]
    fn an_answer_for_the_null_device_too_tells_nothing_of_a_gpu() {
        let name = format!("nic-placement-gpus-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let topology = platform::model("dgx-h100").unwrap();
        for name in ["nvidia0", "nvidia1", "null"] {
            fs::write(folder.join(name), "").unwrap();
        }
        let access = || {
            let directory = Some(File::open(&folder).unwrap());
            let mut devices = DeviceFiles::open(&topology);
            devices.directory = directory;
            let grant = grant(&Present::new(), &topology, Some(&devices));
            grant.access[..2].to_vec()
        };
        match forbid(&folder.join("nvidia0"), true) && forbid(&folder.join("null"), true) {
            true => {
                // a filter that answers so to all
                assert_eq!(access(), [Access::Unknown; 2]);
                assert!(forbid(&folder.join("null"), false));
                assert_eq!(access(), [Access::Denied, Access::Allowed]);
            }
            false => println!("skipped: no `chattr +i` here"),
        }
        for name in ["nvidia0", "null"] {
            forbid(&folder.join(name), false);
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
