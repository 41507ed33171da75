//! faccessat(2) of a device.  It answers as open(2) would, device cgroup included, without opening:
//! opening a GPU can take seconds.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsRawFd;

/// The kernel checks the file's mode and owner first (EACCES), then the device cgroup (EPERM), then
/// the security modules (EACCES): `inode_permission`, fs/namei.c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// EACCES: the mode, an access list or a security module; they check the user, not the task
    User,
    /// EPERM: the device cgroup, which can differ between tasks
    Cgroup,
    /// ENOENT
    Absent,
    /// an error that is not about rights
    Other,
}

/// Succeeds if the effective user may read and write `name` in the directory.
pub fn may_open(directory: &File, name: &CStr) -> Result<(), Refusal> {
    // SAFETY: std has no such function.  The descriptor is open while `directory` lives, the name ends
    // with NUL, and the call writes nothing.
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
