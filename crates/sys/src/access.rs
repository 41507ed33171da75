//! faccessat(2): may this task open a device?  Answers as open(2) would, the device cgroup included, and opens nothing:
//! opening a GPU can take seconds.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Whose answer a refusal is.  The kernel asks the file's mode and owner first (EACCES), then the device cgroup (EPERM),
/// then the security modules (EACCES): `inode_permission`, fs/namei.c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// EACCES: the mode, an access list or a security module, which know the user and not the task
    User,
    /// EPERM: the device cgroup, which can differ from task to task
    Cgroup,
    /// ENOENT: there is no such file
    Absent,
    /// anything else, which says nothing about rights
    Other,
}

/// Reads the error of [`may_open`].
pub fn refusal(error: &io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::EACCES) => Refusal::User,
        Some(libc::EPERM) => Refusal::Cgroup,
        Some(libc::ENOENT | libc::ENOTDIR) => Refusal::Absent,
        _ => Refusal::Other,
    }
}

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
