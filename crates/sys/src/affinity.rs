//! sched_getaffinity(2) and sched_setaffinity(2) of the calling thread, or of a process, through libc's functions, where sites
//! and tests trace and replace them.
#![allow(unsafe_code)]

use nic_placement_topology::{Bitmap, CpuSet};
use std::io;

/// Words of a mask for every CPU that Linux can have: the kernel refuses a mask shorter than its own.
const WORDS: usize = (Bitmap::LIMIT / 64) as usize;

pub fn affinity() -> io::Result<CpuSet> {
    affinity_of(0)
}

/// CPUs that the first thread of a process may run on; of the calling thread where `process` is 0.
pub fn affinity_of(process: i32) -> io::Result<CpuSet> {
    // on the stack: glibc would answer a request of 1 KiB by walking its free lists, and in a freshly forked
    // task each page that it writes there is a page fault
    let mut words = [0u64; WORDS];
    // SAFETY: the buffer is WORDS * 8 bytes long, as said, aligned for the unsigned longs that cpu_set_t is made of, and
    // any bytes are valid for it.  glibc writes all of it.
    let result = unsafe { libc::sched_getaffinity(process, WORDS * 8, words.as_mut_ptr().cast()) };
    super::checked(result)?;
    let used = words
        .iter()
        .rposition(|word| *word != 0)
        .map_or(0, |last| last + 1);
    Ok(CpuSet::from_words(words[..used].to_vec()))
}

/// Lets the calling thread run on these CPUs only.  `EINVAL`: none of them is online and allowed by its cpuset.
pub fn set_affinity(cpus: &CpuSet) -> io::Result<()> {
    let mut words = [0u64; WORDS];
    words
        .iter_mut()
        .zip(cpus.words())
        .for_each(|(to, from)| *to = *from);
    // SAFETY: the buffer is WORDS * 8 bytes long, as said, and only read.
    super::checked(unsafe { libc::sched_setaffinity(0, WORDS * 8, words.as_ptr().cast()) })
}
