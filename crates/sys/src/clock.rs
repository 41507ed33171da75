//! How long the system has been up: a clock that no one can set.
#![allow(unsafe_code)]

/// Seconds since the system was started, with those that it slept (clock_gettime(2), `CLOCK_BOOTTIME`); 0 where the kernel
/// has no such clock, which was before Linux 2.6.39.
pub fn seconds_since_boot() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable, and the call writes nothing else.
    match unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) } {
        0 => u64::try_from(time.tv_sec).unwrap_or(0),
        _ => 0,
    }
}
