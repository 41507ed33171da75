//! System calls that std lacks, behind safe functions.
#![allow(unsafe_code)]

mod access;
mod affinity;
mod cached;
mod clock;
mod environment;
mod loaded;
mod memory;
mod scout;
mod stack;

use std::io;

pub use access::{Refusal, may_open};
pub use affinity::{affinity, affinity_of, set_affinity};
pub use cached::{Known, known};
pub use clock::seconds_since_boot;
pub use environment::set_variable_before_threads;
pub use loaded::is_loaded_after_us;
pub use memory::{
    Balancing, MemoryPolicy, allowed_memory, fence_memory, memory_policy, prefer_memory,
};
pub use scout::{Question, Reply, Scout};
pub use stack::stack_limit;

/// The result of a call that returns 0 or sets errno(3).
fn checked(answer: impl Into<libc::c_long>) -> io::Result<()> {
    match answer.into() {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// True if the process is root's or may become root's again.
pub fn is_root() -> bool {
    // SAFETY: the calls have no precondition and cannot fail.
    unsafe { libc::getuid() == 0 || libc::geteuid() == 0 }
}

/// _exit(2): in a child of slurmstepd, exit(3) would run slurmstepd's exit handlers.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) has no precondition.
    unsafe { libc::_exit(status) }
}
