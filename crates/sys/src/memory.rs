//! get_mempolicy(2) and set_mempolicy(2), for which libc has no functions.
#![allow(unsafe_code)]

use libc::{MPOL_BIND, MPOL_DEFAULT, MPOL_PREFERRED};
use nic_placement_topology::NodeSet;
use std::fmt;
use std::io;

// the parts of include/uapi/linux/mempolicy.h that libc lacks

/// since Linux 5.15
const MPOL_PREFERRED_MANY: libc::c_int = 5;
const MODE_FLAGS: libc::c_int =
    libc::MPOL_F_STATIC_NODES | libc::MPOL_F_RELATIVE_NODES | libc::MPOL_F_NUMA_BALANCING;
/// get_mempolicy: the nodes that the thread's cpuset allows, instead of the policy
const MPOL_F_MEMS_ALLOWED: libc::c_ulong = 1 << 2;

/// Words of a node mask; CONFIG_NODES_SHIFT is at most 10, so 1024 nodes.
const WORDS: usize = 16;
/// get_mempolicy refuses a mask shorter than the kernel's own; both calls take the number of bits plus one.
const MAX_NODE: libc::c_ulong = WORDS as libc::c_ulong * 64 + 1;

/// The calling thread's memory policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryPolicy {
    Default,
    /// these NUMA nodes first
    Prefer(NodeSet),
    /// these NUMA nodes alone
    Fence(NodeSet),
    Other,
}

impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryPolicy::Default => f.write_str("the default policy"),
            MemoryPolicy::Prefer(nodes) => write!(f, "NUMA node {nodes} first"),
            MemoryPolicy::Fence(nodes) => write!(f, "NUMA node {nodes} alone"),
            MemoryPolicy::Other => f.write_str("another policy"),
        }
    }
}

pub fn memory_policy() -> io::Result<MemoryPolicy> {
    let (mode, nodes) = get(0)?;
    Ok(match mode & !MODE_FLAGS {
        MPOL_DEFAULT => MemoryPolicy::Default,
        // an empty set means the local node, as the default does
        MPOL_PREFERRED | MPOL_PREFERRED_MANY => MemoryPolicy::Prefer(nodes),
        MPOL_BIND => MemoryPolicy::Fence(nodes),
        _ => MemoryPolicy::Other,
    })
}

/// NUMA nodes from which the calling thread may take memory: those of its cpuset that have any.  No policy
/// allows others.
pub fn allowed_memory() -> io::Result<NodeSet> {
    Ok(get(MPOL_F_MEMS_ALLOWED)?.1)
}

fn get(flags: libc::c_ulong) -> io::Result<(libc::c_int, NodeSet)> {
    let mut mode: libc::c_int = 0;
    let mut nodes = [0u64; WORDS + 1];
    // SAFETY: get_mempolicy(2) with an address of 0 and these flags writes one int and at most MAX_NODE - 1 bits, which
    // `nodes` has room for; both live until it returns.  libc has no function for it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            nodes.as_mut_ptr(),
            MAX_NODE,
            0usize,
            flags,
        )
    };
    super::checked(result)?;
    Ok((mode, NodeSet::from_words(nodes.to_vec())))
}

/// The kernel's own moving of pages under a policy of ours.
///
/// It leaves memory alone for which a policy was set (kernel/sched/fair.c `task_numa_work`), so without this pages that
/// it moved to slow memory would stay there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Balancing {
    /// as it does for a task without a policy, where this kernel can: for several nodes since Linux 6.9
    AsWithoutPolicy,
    Not,
}

/// Takes memory from these NUMA nodes, for the calling thread and the program that it becomes, while they have any.
///
/// Kernels before 5.15 can prefer only one node.  For several we then prefer none ([`io::ErrorKind::Unsupported`]): the
/// first would be far from threads that run on another. `EINVAL`: none of the nodes exists or is in the cpuset.
pub fn prefer_memory(nodes: &NodeSet, balancing: Balancing) -> io::Result<()> {
    match set_with(MPOL_PREFERRED_MANY, nodes, balancing) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => match nodes.len() {
            0 | 1 => set(MPOL_PREFERRED, nodes),
            _ => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel prefers one node only, as those before 5.15 do",
            )),
        },
        result => result,
    }
}

/// Takes memory from these NUMA nodes alone, for the calling thread and the program that it becomes: when they have
/// none left, the kernel kills the program.  `EINVAL`: none of the nodes exists or is in the cpuset.
pub fn fence_memory(nodes: &NodeSet, balancing: Balancing) -> io::Result<()> {
    set_with(MPOL_BIND, nodes, balancing)
}

/// A kernel that does not know the flag, or not for this mode, answers EINVAL (mm/mempolicy.c `sanitize_mpol_flags`).
fn set_with(mode: libc::c_int, nodes: &NodeSet, balancing: Balancing) -> io::Result<()> {
    let is_set = balancing == Balancing::AsWithoutPolicy
        && set(mode | libc::MPOL_F_NUMA_BALANCING, nodes).is_ok();
    if is_set { Ok(()) } else { set(mode, nodes) }
}

fn set(mode: libc::c_int, nodes: &NodeSet) -> io::Result<()> {
    let mut words = nodes.words().to_vec();
    words.resize(WORDS + 1, 0);
    // SAFETY: set_mempolicy(2) reads at most MAX_NODE - 1 bits of `words`, which has them.  libc has no function for it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            libc::c_long::from(mode),
            words.as_ptr(),
            MAX_NODE,
        )
    };
    super::checked(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// The mode that a thread of its own has then, or why it has none.
    fn mode(
        bind: fn(&NodeSet, Balancing) -> io::Result<()>,
        balancing: Balancing,
    ) -> io::Result<libc::c_int> {
        let thread = thread::spawn(move || {
            let first = allowed_memory()?.iter().next().into_iter().collect();
            bind(&first, balancing)?;
            assert!(
                matches!(memory_policy()?, MemoryPolicy::Prefer(nodes) | MemoryPolicy::Fence(nodes) if nodes == first)
            );
            Ok(get(0)?.0)
        });
        thread.join().expect("the thread")
    }

    #[test]
    fn the_kernel_goes_on_moving_pages_where_that_is_wanted_and_not_elsewhere() {
        for bind in [prefer_memory, fence_memory] {
            let plain = match mode(bind, Balancing::Not) {
                Ok(plain) => plain,
                Err(error) => return println!("skipped: no memory policies here: {error}"),
            };
            assert_eq!(plain & MODE_FLAGS, 0);
            let moving = mode(bind, Balancing::AsWithoutPolicy)
                .expect("the policy, with the flag or without");
            assert_eq!(moving & !MODE_FLAGS, plain);
            let flagged = |nodes: &NodeSet, _| set(MPOL_BIND | libc::MPOL_F_NUMA_BALANCING, nodes);
            let is_known = mode(flagged, Balancing::AsWithoutPolicy).is_ok();
            assert!(
                moving & libc::MPOL_F_NUMA_BALANCING != 0 || plain != MPOL_BIND || !is_known,
                "{moving:#x}"
            );
        }
    }
}
