//! How the memory of a process is bound, as the kernel says.
#![forbid(unsafe_code)]

use nic_placement_core::step::Memory;
use nic_placement_sys::{self as sys, MemoryPolicy};

/// The memory of this process before we change it.  `in_a_placed_step`: a preference of NUMA nodes counts as that step's,
/// and so as ours.
pub fn memory(in_a_placed_step: bool) -> Memory {
    let mut ours = None;
    let taken = match sys::memory_policy() {
        Ok(MemoryPolicy::Default) => None,
        Ok(MemoryPolicy::Prefer(nodes)) if in_a_placed_step => {
            ours = Some(nodes);
            None
        }
        Ok(_) => Some("a memory policy was set before".to_string()),
        Err(error) => Some(format!("the memory policy cannot be read: {error}")),
    };
    Memory { taken, ours, allowed: sys::allowed_memory().ok() }
}
