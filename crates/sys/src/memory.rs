//! get_mempolicy(2) and set_mempolicy(2).
#![allow(unsafe_code)]

use libc::{
    MPOL_BIND, MPOL_DEFAULT, MPOL_F_NUMA_BALANCING, MPOL_PREFERRED, c_int, c_long, c_ulong,
};
use nic_placement_topology::NodeSet;
use std::fmt;
use std::io;

// constants of include/uapi/linux/mempolicy.h that libc lacks

/// since Linux 5.15
const MPOL_PREFERRED_MANY: c_int = 5;
const MODE_FLAGS: c_int =
    libc::MPOL_F_STATIC_NODES | libc::MPOL_F_RELATIVE_NODES | MPOL_F_NUMA_BALANCING;
/// makes get_mempolicy(2) return the cpuset's nodes, not the policy
const MPOL_F_MEMS_ALLOWED: c_ulong = 1 << 2;

/// 64-bit words for 1024 nodes: CONFIG_NODES_SHIFT is at most 10.
const WORDS: usize = 16;
/// A mask's bits plus one, since both system calls subtract one; get_mempolicy(2) refuses a mask
/// shorter than the kernel's.
const MAX_NODE: c_ulong = WORDS as c_ulong * 64 + 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryPolicy {
    Default,
    Prefer(NodeSet),
    Fence(NodeSet),
    Other,
}

impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the default policy"),
            Self::Prefer(nodes) => write!(f, "NUMA node {nodes} first"),
            Self::Fence(nodes) => write!(f, "NUMA node {nodes} alone"),
            Self::Other => f.write_str("another policy"),
        }
    }
}

pub fn memory_policy() -> io::Result<MemoryPolicy> {
    let (mode, nodes) = get(0)?;
    Ok(match mode & !MODE_FLAGS {
        MPOL_DEFAULT => MemoryPolicy::Default,
        // an empty set: the local node, as by default
        MPOL_PREFERRED | MPOL_PREFERRED_MANY => MemoryPolicy::Prefer(nodes),
        MPOL_BIND => MemoryPolicy::Fence(nodes),
        _ => MemoryPolicy::Other,
    })
}

/// The cpuset's NUMA nodes with memory; the kernel limits policies to them.
pub fn allowed_memory() -> io::Result<NodeSet> {
    Ok(get(MPOL_F_MEMS_ALLOWED)?.1)
}

fn get(flags: c_ulong) -> io::Result<(c_int, NodeSet)> {
    let mut mode: c_int = 0;
    let mut nodes = [0u64; WORDS + 1];
    // SAFETY: a raw call, since libc has no wrapper. get_mempolicy(2) with address 0 and these
    // flags writes one int and at most MAX_NODE - 1 bits of `nodes`, which has more.
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

/// NUMA balancing under our policy. By default the kernel does not move memory that has a policy
/// (kernel/sched/fair.c `task_numa_work`), so pages in slow memory would stay there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Balancing {
    /// pages move as without a policy; for [`prefer_memory`] only since Linux 6.9
    AsWithoutPolicy,
    Not,
}

/// Prefers these NUMA nodes, for the calling thread and the program that it becomes.
///
/// Kernels before 5.15 prefer one node only; several give [`io::ErrorKind::Unsupported`], since one
/// alone would be far from threads on others. If none of `nodes` is in the cpuset, one node gives
/// `EINVAL`, several `Unsupported`.
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

/// Allows memory on these NUMA nodes alone: if they are full, the kernel kills the program.
pub fn fence_memory(nodes: &NodeSet, balancing: Balancing) -> io::Result<()> {
    set_with(MPOL_BIND, nodes, balancing)
}

/// Sets the policy, without `MPOL_F_NUMA_BALANCING` if the kernel refuses it for `mode` (`EINVAL`,
/// mm/mempolicy.c `sanitize_mpol_flags`).
fn set_with(mode: c_int, nodes: &NodeSet, balancing: Balancing) -> io::Result<()> {
    if balancing == Balancing::AsWithoutPolicy && set(mode | MPOL_F_NUMA_BALANCING, nodes).is_ok() {
        return Ok(());
    }
    set(mode, nodes)
}

fn set(mode: c_int, nodes: &NodeSet) -> io::Result<()> {
    let mut words = nodes.words().to_vec();
    words.resize(WORDS + 1, 0);
    // SAFETY: a raw call, as in `get`. set_mempolicy(2) reads at most MAX_NODE - 1 bits of `words`,
    // which has more.
    let result = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            c_long::from(mode),
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
