//! A lock that ends with its process.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// flock(2), exclusive and without waiting; `false` if another process holds the lock.
pub fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: `file` keeps the descriptor open, and no memory is touched.
    let result = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    let error = io::Error::last_os_error();
    match result {
        0 => Ok(true),
        _ if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        _ => Err(error),
    }
}
