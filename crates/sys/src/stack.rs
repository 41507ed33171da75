//! getrlimit(2): how large a stack may grow, by which the kernel bounds what execve(2) takes.
#![allow(unsafe_code)]

/// Bytes that the stack may have (`RLIMIT_STACK`); `u64::MAX` where nothing bounds it.
pub fn stack_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is writable, and the call writes nothing else.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    limit.rlim_cur
}
