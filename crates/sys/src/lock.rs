//! A lock that ends with the process that holds it.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file that is only locked, and makes it where there is none.  In a folder that others may write to anything can
/// stand there: no link is followed, no pipe's reader waited for, and nothing but a regular file taken.
pub fn lock_file(path: &Path) -> io::Result<File> {
    let refuse = || Err(io::Error::other(format!("`{}` is no regular file: remove it", path.display())));
    // to open a device can already do something
    if fs::symlink_metadata(path).is_ok_and(|facts| !facts.is_file()) {
        return refuse();
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { refuse() }
}

/// Locks an open file against others who ask likewise (flock(2)); `false` where another holds it.  Never waits.
pub fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call touches no memory of ours.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    #[test]
    fn only_a_regular_file_is_opened_to_be_locked_and_nothing_is_waited_for() {
        let folder = std::env::temp_dir().join(format!("nic-placement-lock-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let place = folder.join("lock");
        let held = lock_file(&place).unwrap();
        assert!(try_lock(&held).unwrap() && !try_lock(&lock_file(&place).unwrap()).unwrap());
        let elsewhere = folder.join("elsewhere");
        symlink(&elsewhere, folder.join("link")).unwrap();
        // a pipe that nobody reads: to open it for writing does not end
        assert!(Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap().success());
        fs::create_dir(folder.join("folder")).unwrap();
        for name in ["link", "pipe", "folder"] {
            let refused = lock_file(&folder.join(name)).unwrap_err().to_string();
            assert!(refused.ends_with(&format!("/{name}` is no regular file: remove it")), "{refused}");
        }
        assert!(!elsewhere.exists(), "nothing was made where the link leads");
        fs::remove_dir_all(&folder).unwrap();
    }
}
