//! Clocks that no one can set.
#![allow(unsafe_code)]

/// Seconds since the system was started, with those that it slept (clock_gettime(2), `CLOCK_BOOTTIME`); 0 where the kernel
/// has no such clock, which was before Linux 2.6.39.
pub fn seconds_since_boot() -> u64 {
    u64::try_from(milliseconds(libc::CLOCK_BOOTTIME) / 1000).unwrap_or(0)
}

/// Milliseconds of a clock; 0 where the kernel has none.
pub(crate) fn milliseconds(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: std tells no clock's time as a number.  `time` is writable, and the call writes nothing else; where it fails,
    // that is nothing.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}
