//! A process of our own that asks a file system in this process's place: a caller waits for it no longer than it wants to.
//!
//! It is a process and not a thread, since execve(2) waits for the other threads of its process to end.  The program that
//! the caller becomes does not see it: it is cloned without a signal for its end, and so neither wait(2) nor SIGCHLD tells
//! of it.  It holds no file of the caller's, since the reader of a task's output waits until all writers have closed it.
#![allow(unsafe_code)]

use crate::clock::milliseconds;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// A question about a path that leads over no symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// its kind, see [`Reply::mode`]; the bytes are a symbolic link's target
    Kind,
    /// go into this directory, which may let a file system be mounted there
    Enter,
    /// its first bytes, if it is a regular file
    Beginning,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// errno(3); 0 on success
    pub error: i32,
    /// `st_mode`, for [`Question::Kind`]
    mode: u32,
    /// a link's target, or a file's text
    pub bytes: Vec<u8>,
}

impl Reply {
    pub fn is_directory(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }

    pub fn is_file(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }
}

/// Bytes of a packet, at most: a path, or a part of a file.
const PACKET: usize = 4608;
/// The first byte of a packet.
const DATA: u8 = 0;
const END: u8 = 1;
/// Milliseconds for which a killed scout is waited for.  One that waits for nothing is gone in less than one.
const GRACE: u32 = 50;

pub struct Scout {
    process: libc::pid_t,
    socket: OwnedFd,
    /// milliseconds that are left for all questions
    left: i32,
}

impl Scout {
    /// Sends a scout that reads no more than `limit` bytes of a file, and is waited for `patience` milliseconds in all.
    pub fn send(limit: usize, patience: u16) -> io::Result<Scout> {
        let mut ends = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: `ends` has room for the two descriptors.
        super::checked(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
        // SAFETY: both are new, and nothing else owns them.
        let [ours, its] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        let none: libc::c_long = 0;
        // SAFETY: fork(2) in effect, but no signal tells of the child's end, for which libc has no function that returns in
        // both.  The child has a copy of all memory.  It calls `serve`, which takes no lock and allocates nothing, so locks
        // that other threads hold here are nothing to it, and never comes back.
        let process = unsafe { libc::syscall(libc::SYS_clone, none, none, none, none, none) };
        match process {
            0 => serve(its.as_raw_fd(), limit),
            1.. => Ok(Scout {
                process: process as libc::pid_t,
                socket: ours,
                left: i32::from(patience),
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// `None` if no answer came in time, or the scout is gone.
    pub fn ask(&mut self, question: Question, path: &str) -> Option<Reply> {
        let mut packet = vec![question as u8];
        packet.extend(CString::new(path).ok()?.into_bytes_with_nul());
        if packet.len() > PACKET {
            return Some(Reply {
                error: libc::ENAMETOOLONG,
                ..Reply::default()
            });
        }
        let socket = self.socket.as_raw_fd();
        // SAFETY: the packet is readable for its length, and the descriptor is open as long as `self` lives.
        let sent = unsafe {
            libc::send(
                socket,
                packet.as_ptr().cast(),
                packet.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        if sent < 0 {
            return None;
        }
        let mut answer = Reply::default();
        loop {
            self.wait()?;
            let mut packet = [0u8; PACKET];
            // SAFETY: the packet is writable for its length.
            let count = unsafe {
                libc::recv(
                    socket,
                    packet.as_mut_ptr().cast(),
                    PACKET,
                    libc::MSG_DONTWAIT,
                )
            };
            match (packet[0], usize::try_from(count).unwrap_or(0)) {
                (DATA, count @ 1..) => answer.bytes.extend(&packet[1..count]),
                (END, 9) => {
                    let number =
                        |at: usize| [packet[at], packet[at + 1], packet[at + 2], packet[at + 3]];
                    answer.error = i32::from_ne_bytes(number(1));
                    answer.mode = u32::from_ne_bytes(number(5));
                    return Some(answer);
                }
                _ => return None,
            }
        }
    }

    fn wait(&mut self) -> Option<()> {
        let mut waited = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        loop {
            let begun = milliseconds(libc::CLOCK_MONOTONIC);
            // SAFETY: `waited` is one entry, and writable.
            let ready = unsafe { libc::poll(&raw mut waited, 1, self.left) };
            let took = milliseconds(libc::CLOCK_MONOTONIC).saturating_sub(begun);
            self.left = self
                .left
                .saturating_sub(i32::try_from(took).unwrap_or(i32::MAX))
                .max(0);
            match ready {
                1.. => return Some(()),
                0 => return None,
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
                    && self.left > 0 => {}
                _ => return None,
            }
        }
    }
}

impl Drop for Scout {
    /// Ends the scout.  One that a file system does not let go is left to itself: it ends as soon as that lets go of
    /// it.
    fn drop(&mut self) {
        // SAFETY: the process is a child that was not yet waited for, so its number is no other's.
        unsafe { libc::kill(self.process, libc::SIGKILL) };
        for _ in 0..=GRACE {
            // SAFETY: as above; no status is asked for.  `__WALL` since no signal tells of its end.
            let gone = unsafe {
                libc::waitpid(self.process, ptr::null_mut(), libc::WNOHANG | libc::__WALL)
            };
            if gone != 0 {
                return;
            }
            // SAFETY: no entry, so nothing is read or written; it is a sleep of a millisecond.
            unsafe { libc::poll(ptr::null_mut(), 0, 1) };
        }
    }
}

/// The scout's life: answers until its caller is gone.  System calls and its own stack, nothing else.
fn serve(socket: i32, limit: usize) -> ! {
    // SAFETY: the set is filled before it is read.  Handlers of the caller's program, which would run in this copy of it, do
    // not: no signal but SIGKILL and SIGSTOP reaches this process.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    close_all_but(socket);
    let mut packet = [0u8; PACKET];
    loop {
        // SAFETY: the packet is writable for its length.
        let count = unsafe { libc::recv(socket, packet.as_mut_ptr().cast(), PACKET, 0) };
        let count = usize::try_from(count).unwrap_or(0);
        let path = packet
            .get(1..count)
            .and_then(|path| CStr::from_bytes_until_nul(path).ok());
        let Some(path) = path else { exit() };
        let (error, mode) = answer(socket, packet[0], path, limit);
        let mut end = [END; 9];
        end[1..5].copy_from_slice(&error.to_ne_bytes());
        end[5..].copy_from_slice(&mode.to_ne_bytes());
        tell(socket, &end);
    }
}

fn exit() -> ! {
    // SAFETY: _exit has no precondition, and runs none of the caller's exit handlers.
    unsafe { libc::_exit(0) }
}

fn tell(socket: i32, packet: &[u8]) {
    // SAFETY: the packet is readable for its length.
    if unsafe {
        libc::send(
            socket,
            packet.as_ptr().cast(),
            packet.len(),
            libc::MSG_NOSIGNAL,
        )
    } < 0
    {
        exit();
    }
}

fn close_all_but(socket: i32) {
    let close_range = |first: i32, last: i32| {
        // SAFETY: glibc has a function for it since 2.34 alone.  It touches no memory, and in this process nothing uses the
        // descriptors.
        first > last || unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0
    };
    if close_range(0, socket - 1) && close_range(socket + 1, i32::MAX) {
        return;
    }
    // before Linux 5.9; slurmstepd has some dozens of files open
    for other in (0..4096).filter(|other| *other != socket) {
        // SAFETY: as above.
        unsafe { libc::close(other) };
    }
}

/// The file system's error, and the file's mode.
fn answer(socket: i32, question: u8, path: &CStr, limit: usize) -> (i32, u32) {
    if question == Question::Kind as u8 {
        return kind(socket, path);
    }
    let enters = question == Question::Enter as u8;
    // O_DIRECTORY lets automount(8) mount, and O_PATH asks nothing of what it mounts; what is no regular file is not waited for
    let how = if enters {
        libc::O_PATH | libc::O_DIRECTORY
    } else {
        libc::O_NONBLOCK | libc::O_NOCTTY
    };
    // SAFETY: std's functions allocate.  The path ends with NUL.
    let file = unsafe { libc::open(path.as_ptr(), how | libc::O_CLOEXEC | libc::O_NOFOLLOW) };
    if file < 0 {
        return (error(), 0);
    }
    let error = if enters {
        0
    } else {
        send_beginning(socket, file, limit)
    };
    // SAFETY: the descriptor is this function's own, and used no more.
    unsafe { libc::close(file) };
    (error, 0)
}

/// The file's mode; sends the target of a link.
fn kind(socket: i32, path: &CStr) -> (i32, u32) {
    // SAFETY: a structure of numbers, which the call fills.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with NUL, and `facts` is writable.
    if unsafe { libc::lstat(path.as_ptr(), &raw mut facts) } != 0 {
        return (error(), 0);
    }
    if facts.st_mode & libc::S_IFMT == libc::S_IFLNK {
        let mut packet = [DATA; PACKET];
        // SAFETY: the path ends with NUL, and the packet is writable for so many bytes behind its first.
        let count =
            unsafe { libc::readlink(path.as_ptr(), packet.as_mut_ptr().add(1).cast(), PACKET - 1) };
        let Ok(count) = usize::try_from(count) else {
            return (error(), 0);
        };
        tell(socket, &packet[..=count]);
    }
    (0, facts.st_mode)
}

fn error() -> i32 {
    // SAFETY: glibc's pointer to this thread's number, which is always valid.
    unsafe { *libc::__errno_location() }
}

fn send_beginning(socket: i32, file: i32, limit: usize) -> i32 {
    let mut packet = [DATA; PACKET];
    let mut left = limit;
    while left > 0 {
        let most = left.min(4096);
        // SAFETY: the packet is writable for so many bytes behind its first.
        match unsafe { libc::read(file, packet.as_mut_ptr().add(1).cast(), most) } {
            count @ 1.. => {
                tell(socket, &packet[..=count as usize]);
                left -= count as usize;
            }
            0 => return 0,
            _ => return error(),
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Instant;

    fn folder(name: &str) -> String {
        let folder = std::env::temp_dir().join(format!("scout-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder.to_str().unwrap().to_string()
    }

    /// The children of this process, zombies too.
    fn is_there(scout: libc::pid_t) -> bool {
        fs::metadata(format!("/proc/{scout}")).is_ok()
    }

    #[test]
    fn a_scout_says_what_stands_there_and_is_gone_behind_it() {
        let folder = folder("answers");
        let long = "x".repeat(10_000);
        fs::write(format!("{folder}/file"), &long).unwrap();
        symlink("file", format!("{folder}/link")).unwrap();
        let mut scout = Scout::send(9_000, 1000).unwrap();
        let process = scout.process;
        let mut ask =
            |question, name: &str| scout.ask(question, &format!("{folder}/{name}")).unwrap();
        assert_eq!(
            ask(Question::Kind, "file").mode & libc::S_IFMT,
            libc::S_IFREG
        );
        assert_eq!(
            ask(Question::Kind, "link").mode & libc::S_IFMT,
            libc::S_IFLNK
        );
        assert_eq!(ask(Question::Kind, "none").error, libc::ENOENT);
        assert_eq!(ask(Question::Kind, "link").bytes, b"file");
        assert_eq!(
            ask(Question::Beginning, "file").bytes,
            &long.as_bytes()[..9_000]
        );
        assert_eq!(ask(Question::Beginning, "link").error, libc::ELOOP);
        assert_eq!(ask(Question::Enter, "file").error, libc::ENOTDIR);
        assert_eq!(ask(Question::Enter, "."), Reply::default());
        assert!(is_there(process));
        drop(scout);
        assert!(!is_there(process));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_scout_that_says_nothing_is_waited_for_once_for_all_questions_and_ended() {
        let mut scout = Scout::send(10, 200).unwrap();
        let process = scout.process;
        // SAFETY: the process is this test's own.
        unsafe { libc::kill(process, libc::SIGSTOP) };
        let begun = Instant::now();
        assert_eq!(scout.ask(Question::Kind, "/"), None);
        let first = begun.elapsed().as_millis();
        assert_eq!(scout.ask(Question::Kind, "/"), None);
        assert!((190..2000).contains(&first), "{first}");
        assert!(begun.elapsed().as_millis() - first < 150, "no second time");
        drop(scout);
        assert!(!is_there(process));
    }

    #[test]
    fn no_wait_for_any_child_sees_a_scout_and_it_holds_no_file_of_the_callers() {
        let scout = Scout::send(10, 1000).unwrap();
        let open = || {
            fs::read_dir(format!("/proc/{}/fd", scout.process))
                .unwrap()
                .count()
        };
        let begun = Instant::now();
        while open() != 1 && begun.elapsed().as_secs() < 5 {}
        assert_eq!(open(), 1, "its end of the socket");
        // SAFETY: no status is asked for; the process is this test's own, and waits for no child without a signal.
        let seen = unsafe { libc::waitpid(scout.process, ptr::null_mut(), libc::WNOHANG) };
        assert_eq!(
            (seen, io::Error::last_os_error().raw_os_error()),
            (-1, Some(libc::ECHILD))
        );
    }
}
