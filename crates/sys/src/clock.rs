//! Clocks that cannot be set.
#![allow(unsafe_code)]

/// Seconds since boot, suspension included (clock_gettime(2), `CLOCK_BOOTTIME`); 0 before Linux
/// 2.6.39 (no such clock).
pub fn seconds_since_boot() -> u64 {
    u64::try_from(milliseconds(libc::CLOCK_BOOTTIME) / 1000).unwrap_or(0)
}

pub(crate) fn milliseconds(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: std's `Instant` hides the time. The call writes `time` alone.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}
