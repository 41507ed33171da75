//! getrlimit(2) of the stack, which bounds the arguments of execve(2).
#![allow(unsafe_code)]

/// Soft `RLIMIT_STACK` in bytes; `u64::MAX` if unlimited.
pub fn stack_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the call writes `limit` alone.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    limit.rlim_cur
}
