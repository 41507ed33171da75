//! A process that no Slurm started: whose files it trusts, and what its container shows.

use nic_placement_core::step::{Access, GpuGrant};
use nic_placement_core::topology::Topology;
use nic_placement_node::discover::Root;
use nic_placement_node::discover::root::Author;
use nic_placement_process::node::author;

/// For root, root alone.  Root of the user's own user namespace, as in a container, has that
/// user's rights alone, and the host's root has no ID there (user_namespaces(7); the first
/// namespace's /proc/self/uid_map has all IDs).
pub fn callers_author() -> Author {
    if has_the_hosts_users() {
        author()
    } else {
        Author::Anyone
    }
}

pub fn has_the_hosts_users() -> bool {
    is_of_the_host(&Root::live().read("proc/self/uid_map").unwrap_or_default())
}

/// True also where the kernel has no user namespaces.
fn is_of_the_host(map: &str) -> bool {
    map.is_empty() || map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// If a process may open some of a vendor's GPUs, those without a device node are not there for
/// it: a container has the nodes of its own GPUs, and sees all GPUs in `/sys`.
pub(crate) fn without_absent(mut grant: GpuGrant, node: &Topology) -> GpuGrant {
    let before = grant.access.clone();
    for (gpu, access) in node.gpus.iter().zip(&mut grant.access) {
        let some_open = node
            .gpus
            .iter()
            .zip(&before)
            .any(|(other, access)| other.vendor == gpu.vendor && *access == Access::Allowed);
        if some_open && *access == Access::Unknown && gpu.device_node().is_some() {
            *access = Access::Denied;
        }
    }
    grant
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic_placement_node::platform;

    #[test]
    fn root_of_a_user_namespace_is_not_the_hosts() {
        assert!(is_of_the_host("         0          0 4294967295\n") && is_of_the_host(""));
        // unshare -r; rootless podman; Docker's userns-remap; unshare --map-user=1000
        let podman = "0 1000 1\n1 100000 65536\n";
        for map in ["0 65534 1\n", podman, "0 100000 65536\n", "1000 1000 1\n"] {
            assert!(!is_of_the_host(map), "{map}");
        }
    }

    fn access(given: [Access; 8]) -> Vec<Access> {
        let node = platform::model("dgx-h100").unwrap();
        assert!(node.gpus.iter().all(|gpu| gpu.device_node().is_some()));
        let grant = GpuGrant {
            access: given.to_vec(),
            ..GpuGrant::default()
        };
        without_absent(grant, &node).access
    }

    #[test]
    fn in_a_container_with_some_device_nodes_the_other_gpus_are_not_there() {
        let mut given = [Access::Unknown; 8];
        assert_eq!(access(given), given, "no device node at all");
        given[5] = Access::Allowed;
        let mut expected = vec![Access::Denied; 8];
        expected[5] = Access::Allowed;
        assert_eq!(access(given), expected);
    }
}
