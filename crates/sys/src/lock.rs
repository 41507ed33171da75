//! A lock that ends with its process.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Takes flock(2)'s exclusive lock of an open file; `false` if another process has it.  Never waits.
pub fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: the descriptor is open while `file` is borrowed, and the call touches no memory of ours.
    let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    match super::checked(result) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        result => result.map(|()| true),
    }
}
