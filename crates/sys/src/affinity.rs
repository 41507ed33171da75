//! sched_getaffinity(2) and sched_setaffinity(2), by libc's functions: sites and tests trace and
//! replace them.
#![allow(unsafe_code)]

use nic_placement_topology::{Bitmap, CpuSet};
use std::io;

/// Words for all CPUs that Linux can have: sched_getaffinity(2) refuses a mask shorter than the
/// kernel's.
const WORDS: usize = (Bitmap::LIMIT / 64) as usize;

pub fn affinity() -> io::Result<CpuSet> {
    affinity_of(0)
}

/// The affinity of a process's first thread; 0 is the calling thread.
pub fn affinity_of(process: i32) -> io::Result<CpuSet> {
    // on the stack: malloc(3) walks its free lists for 1 KiB, and in a newly forked task each
    // written page is a page fault
    let mut words = [0u64; WORDS];
    // SAFETY: the buffer has WORDS * 8 bytes, aligned for cpu_set_t's unsigned longs; glibc writes
    // all of them, and any bytes are valid.
    let result = unsafe { libc::sched_getaffinity(process, WORDS * 8, words.as_mut_ptr().cast()) };
    super::checked(result)?;
    let used = words.iter().rposition(|word| *word != 0);
    let used = used.map_or(0, |last| last + 1);
    Ok(CpuSet::from_words(words[..used].to_vec()))
}

/// Limits the calling thread to these CPUs; `EINVAL` if none of them is online in its cpuset.
pub fn set_affinity(cpus: &CpuSet) -> io::Result<()> {
    let mut words = [0u64; WORDS];
    for (word, new) in words.iter_mut().zip(cpus.words()) {
        *word = *new;
    }
    // SAFETY: the buffer has WORDS * 8 bytes and is only read.
    super::checked(unsafe { libc::sched_setaffinity(0, WORDS * 8, words.as_ptr().cast()) })
}
