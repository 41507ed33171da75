//! faccessat(2) checks the rights for open(2), device cgroup included, but opens nothing: opening a
//! GPU can take seconds.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsRawFd;

/// The kernel checks mode and owner first (EACCES), then the device cgroup (EPERM), then security
/// modules (EACCES): `inode_permission`, fs/namei.c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// EACCES: the mode, an access list or a security module, alike for all tasks of a user
    User,
    /// EPERM: the device cgroup, which can differ between tasks
    Cgroup,
    /// ENOENT or ENOTDIR
    Absent,
    Other,
}

/// Succeeds if the effective user may read and write `name` in `directory`.
pub fn may_open(directory: &File, name: &CStr) -> Result<(), Refusal> {
    // SAFETY: std lacks faccessat(2). `directory` keeps the descriptor open, the name ends with
    // NUL, and nothing is written.
    let result = unsafe {
        libc::faccessat(
            directory.as_raw_fd(),
            name.as_ptr(),
            libc::R_OK | libc::W_OK,
            libc::AT_EACCESS,
        )
    };
    super::checked(result).map_err(|error| match error.raw_os_error() {
        Some(libc::EACCES) => Refusal::User,
        Some(libc::EPERM) => Refusal::Cgroup,
        Some(libc::ENOENT | libc::ENOTDIR) => Refusal::Absent,
        _ => Refusal::Other,
    })
}
