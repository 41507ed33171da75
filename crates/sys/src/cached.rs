//! openat2(2) with `RESOLVE_CACHED`: looks up a path in the kernel's cache of names alone.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// no such file, or no right to search its directories
    Absent,
    There,
    /// not cached, or an old kernel or seccomp refuses the call
    Nothing,
}

/// `struct open_how` of linux/openat2.h.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// Since Linux 5.12 (linux/openat2.h): `EAGAIN` if a name is not cached, or its file system must
/// confirm it.
const RESOLVE_CACHED: u64 = 0x20;

/// Never waits: `LOOKUP_CACHED` follows only names that `d_revalidate` accepts under `LOOKUP_RCU`,
/// where no file system may sleep (fs/namei.c `path_init`, `lookup_fast`;
/// Documentation/filesystems/locking.rst). `O_PATH` opens nothing (fs/open.c `do_dentry_open`).
pub fn known(path: &str) -> Known {
    let Ok(path) = CString::new(path) else {
        return Known::Absent;
    };
    let how = OpenHow {
        flags: (libc::O_PATH | libc::O_CLOEXEC) as u64,
        mode: 0,
        resolve: RESOLVE_CACHED,
    };
    // SAFETY: libc lacks openat2(2). The path ends with NUL, `how` has the kernel's layout and the
    // passed size, and the kernel writes to neither.
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
        // SAFETY: only this function has the new descriptor.
        unsafe { libc::close(descriptor as i32) };
        return Known::There;
    }
    match Error::last_os_error().raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR | libc::EACCES | libc::ELOOP | libc::ENAMETOOLONG) => {
            Known::Absent
        }
        // EAGAIN; EINVAL and ENOSYS of older kernels; EPERM of seccomp filters
        _ => Known::Nothing,
    }
}
