//! openat2(2) with `RESOLVE_CACHED`: what the kernel knows of a path without asking a file system.
#![allow(unsafe_code)]

use std::ffi::CString;

/// The kernel's knowledge of a path, in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// no such file, or this process may not look for it
    Absent,
    There,
    /// a file system must be asked, or the kernel is older than 5.12
    Nothing,
}

/// `struct open_how` of linux/openat2.h.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// linux/openat2.h, since 5.12: `EAGAIN` where a name is not in the kernel's memory, or must be asked for again.
const RESOLVE_CACHED: u64 = 0x20;

/// The kernel's knowledge of this path.  It asks no file system and never waits: `LOOKUP_CACHED` only goes by names
/// that `d_revalidate` takes for good under `LOOKUP_RCU`, where no file system may sleep (fs/namei.c `path_init`,
/// `lookup_fast`; Documentation/filesystems/locking.rst).  `O_PATH` opens nothing (fs/open.c `do_dentry_open`).
pub fn known(path: &str) -> Known {
    let Ok(path) = CString::new(path) else {
        return Known::Absent;
    };
    let flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    let how = OpenHow {
        flags,
        mode: 0,
        resolve: RESOLVE_CACHED,
    };
    // SAFETY: libc has no function for it.  The path ends with NUL, `how` has the layout and the size that are passed, and the
    // kernel writes to neither.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw const how,
            size_of::<OpenHow>(),
        )
    };
    if descriptor >= 0 {
        // SAFETY: the descriptor is this function's own, and nothing else knows it.
        unsafe { libc::close(descriptor as i32) };
        return Known::There;
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR | libc::EACCES | libc::ELOOP | libc::ENAMETOOLONG) => {
            Known::Absent
        }
        // EAGAIN; EINVAL and ENOSYS of older kernels; EPERM of a filter that does not know the call
        _ => Known::Nothing,
    }
}
