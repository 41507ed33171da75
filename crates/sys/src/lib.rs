//! System calls that std lacks, safe to call; each `unsafe` block has its reason.
#![allow(unsafe_code)]

mod access;
mod affinity;
mod cached;
mod clock;
mod environment;
mod loaded;
mod lock;
mod memory;
mod scout;
mod stack;
mod terminal;

use std::io;

pub use access::{Refusal, may_open};
pub use affinity::{affinity, affinity_of, set_affinity};
pub use cached::{Known, known};
pub use clock::seconds_since_boot;
pub use environment::set_variable_before_threads;
pub use loaded::is_loaded_after_us;
pub use lock::try_lock;
pub use memory::{
    Balancing, MemoryPolicy, allowed_memory, fence_memory, memory_policy, prefer_memory,
};
pub use scout::{Question, Reply, Scout};
pub use stack::stack_limit;
pub use terminal::{terminal_columns, terminal_lines};

/// The result of a call that returns 0 on success, and else sets errno(3).
fn checked(answer: impl Into<libc::c_long>) -> io::Result<()> {
    match answer.into() {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// True if the real or the effective user is root: a process may return to its real user.
pub fn is_root() -> bool {
    // SAFETY: neither has a precondition, and neither can fail.
    unsafe { libc::getuid() == 0 || libc::geteuid() == 0 }
}

/// Ends the process by _exit(2).  exit(3) would run slurmstepd's exit handlers in its child that is to
/// become a task.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit has no precondition and does not return; libc has no safe form of it.
    unsafe { libc::_exit(status) }
}
