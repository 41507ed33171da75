//! faccessat(2): may this task open a device?  Answers as open(2) would, the device cgroup included, and opens nothing:
//! opening a GPU can take seconds.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// May the effective user read and write `name` below the directory?
pub fn may_open(directory: &File, name: &str) -> io::Result<()> {
    let name = CString::new(name)?;
    // SAFETY: the descriptor is open while `directory` lives, the name ends with NUL, and nothing is written.
    let result = unsafe {
        libc::faccessat(directory.as_raw_fd(), name.as_ptr(), libc::R_OK | libc::W_OK, libc::AT_EACCESS)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
