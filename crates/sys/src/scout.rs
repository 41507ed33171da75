//! A child process that calls file systems for its parent, so that the parent can stop waiting.
//!
//! A waiting thread would block execve(2), which ends other threads first. The child has no exit
//! signal, so wait(2) and SIGCHLD do not report it in the program that the parent becomes. The
//! child closes its copies of the parent's files: slurmstepd reads a task's output until no writer
//! is left.
#![allow(unsafe_code)]

use crate::clock::milliseconds;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// A symbolic link at the path's end is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// the mode, and a symbolic link's target
    Kind,
    /// opens a directory, so that automount(8) mounts there
    Enter,
    /// a file's first bytes
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

/// Most bytes of a packet: a question and its path, or part of a file.
const PACKET: usize = 4608;
/// First byte of the child's packets; `END` marks a reply's last.
const DATA: u8 = 0;
const END: u8 = 1;
/// Milliseconds to wait for the killed child, which ends within 1 unless a file system holds it.
const GRACE: u32 = 50;

pub struct Scout {
    process: libc::pid_t,
    socket: OwnedFd,
    /// milliseconds left for all questions together
    left: i32,
}

impl Scout {
    /// Starts the child, which reads at most `limit` bytes of a file. All questions wait at most
    /// `patience` milliseconds together.
    pub fn send(limit: usize, patience: u16) -> io::Result<Self> {
        let mut ends = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: `ends` has room for two descriptors.
        super::checked(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
        // SAFETY: socketpair(2) has just made `ends`; nothing else owns them.
        let [ours, its] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        let none: libc::c_long = 0;
        // SAFETY: libc's fork(2) would set an exit signal, and its clone(2) needs a function and a
        // stack. The child has a copy of all memory. `serve` takes no lock that another thread may
        // hold, allocates nothing and never returns.
        let process = unsafe { libc::syscall(libc::SYS_clone, none, none, none, none, none) };
        match process {
            0 => serve(its.as_raw_fd(), limit),
            1.. => Ok(Self {
                process: process as libc::pid_t,
                socket: ours,
                left: i32::from(patience),
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// `None` if the time is up or the child has ended.
    pub fn ask(&mut self, question: Question, path: &str) -> Option<Reply> {
        let mut packet = vec![question as u8];
        packet.extend(CString::new(path).ok()?.into_bytes_with_nul());
        let mut answer = Reply::default();
        if packet.len() > PACKET {
            answer.error = libc::ENAMETOOLONG;
            return Some(answer);
        }
        let socket = self.socket.as_raw_fd();
        if !is_sent(socket, &packet) {
            return None;
        }
        loop {
            self.wait()?;
            let mut packet = [0u8; PACKET];
            match (receive(socket, &mut packet, libc::MSG_DONTWAIT), packet[0]) {
                (count @ 1.., DATA) => answer.bytes.extend(&packet[1..count]),
                (9, END) => {
                    answer.error = i32::from_ne_bytes(*packet[1..].first_chunk()?);
                    answer.mode = u32::from_ne_bytes(*packet[5..].first_chunk()?);
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
            // SAFETY: `waited` is one writable pollfd.
            let ready = unsafe { libc::poll(&raw mut waited, 1, self.left) };
            let took = milliseconds(libc::CLOCK_MONOTONIC).saturating_sub(begun);
            let took = i32::try_from(took).unwrap_or(i32::MAX);
            self.left = self.left.saturating_sub(took).max(0);
            match ready {
                1.. => return Some(()),
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
                    && self.left > 0 => {}
                _ => return None,
            }
        }
    }
}

impl Drop for Scout {
    /// Kills the child and waits for its end, at most `GRACE`: a file system can delay the end.
    fn drop(&mut self) {
        // SAFETY: until waitpid(2), no other process can have the child's ID.
        unsafe { libc::kill(self.process, libc::SIGKILL) };
        for _ in 0..=GRACE {
            // SAFETY: as for kill(2); the status may be NULL. `__WALL` finds children without exit
            // signal.
            let gone = unsafe {
                libc::waitpid(self.process, ptr::null_mut(), libc::WNOHANG | libc::__WALL)
            };
            if gone != 0 {
                return;
            }
            // SAFETY: without entries poll(2) touches no memory; it sleeps a millisecond.
            unsafe { libc::poll(ptr::null_mut(), 0, 1) };
        }
    }
}

/// Answers until the parent is gone, with system calls and stack memory alone.
fn serve(socket: i32, limit: usize) -> ! {
    // SAFETY: the set is filled before it is read. All signals but SIGKILL and SIGSTOP are
    // blocked, so no handler of the parent's program runs in the child.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    close_all_but(socket);
    let mut packet = [0u8; PACKET];
    loop {
        let count = receive(socket, &mut packet, 0);
        let path = packet.get(1..count).unwrap_or_default();
        let Ok(path) = CStr::from_bytes_until_nul(path) else {
            super::exit_now(0)
        };
        let (error, mode) = answer(socket, packet[0], path, limit);
        let mut end = [END; 9];
        end[1..5].copy_from_slice(&error.to_ne_bytes());
        end[5..].copy_from_slice(&mode.to_ne_bytes());
        tell(socket, &end);
    }
}

fn is_sent(socket: i32, packet: &[u8]) -> bool {
    let (bytes, count) = (packet.as_ptr().cast(), packet.len());
    // SAFETY: the packet is readable for its length.
    unsafe { libc::send(socket, bytes, count, libc::MSG_NOSIGNAL) >= 0 }
}

/// The packet's length; 0 on failure or end of file.
fn receive(socket: i32, packet: &mut [u8; PACKET], flags: i32) -> usize {
    // SAFETY: the packet is writable for its length.
    let count = unsafe { libc::recv(socket, packet.as_mut_ptr().cast(), PACKET, flags) };
    usize::try_from(count).unwrap_or(0)
}

fn tell(socket: i32, packet: &[u8]) {
    if !is_sent(socket, packet) {
        super::exit_now(0);
    }
}

fn close_all_but(socket: i32) {
    let close_range = |first: i32, last: i32| {
        // SAFETY: glibc has close_range(2) only since 2.34. The call touches no memory, and the
        // child uses none of the descriptors.
        first > last || unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0
    };
    if close_range(0, socket - 1) && close_range(socket + 1, i32::MAX) {
        return;
    }
    // Linux before 5.9 lacks the call; slurmstepd has dozens of files open, far below 4096
    for other in (0..4096).filter(|other| *other != socket) {
        // SAFETY: as for close_range(2).
        unsafe { libc::close(other) };
    }
}

/// errno(3) (0 on success), and the mode (0 except for [`Question::Kind`]).
fn answer(socket: i32, question: u8, path: &CStr, limit: usize) -> (i32, u32) {
    if question == Question::Kind as u8 {
        return kind(socket, path);
    }
    let enters = question == Question::Enter as u8;
    // O_DIRECTORY makes automount(8) mount, and O_PATH does not call the new file system;
    // O_NONBLOCK waits for no FIFO or device
    let how = match enters {
        true => libc::O_PATH | libc::O_DIRECTORY,
        false => libc::O_NONBLOCK | libc::O_NOCTTY,
    };
    // SAFETY: the path ends with NUL; std's open may allocate.
    let file = unsafe { libc::open(path.as_ptr(), how | libc::O_CLOEXEC | libc::O_NOFOLLOW) };
    if file < 0 {
        return (error(), 0);
    }
    let error = match enters {
        true => 0,
        false => send_beginning(socket, file, limit),
    };
    // SAFETY: this function alone has the descriptor, and does not use it afterwards.
    unsafe { libc::close(file) };
    (error, 0)
}

/// errno(3) (0 on success), and the mode; sends a symbolic link's target.
fn kind(socket: i32, path: &CStr) -> (i32, u32) {
    // SAFETY: `stat` has only integers, for which zeros are valid.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with NUL, and `facts` is writable.
    if unsafe { libc::lstat(path.as_ptr(), &raw mut facts) } != 0 {
        return (error(), 0);
    }
    if facts.st_mode & libc::S_IFMT == libc::S_IFLNK {
        let mut packet = [DATA; PACKET];
        // SAFETY: the path ends with NUL; PACKET - 1 bytes follow the packet's first.
        let count =
            unsafe { libc::readlink(path.as_ptr(), packet.as_mut_ptr().add(1).cast(), PACKET - 1) };
        let Ok(count) = usize::try_from(count) else {
            return (error(), 0);
        };
        tell(socket, &packet[..=count]);
    }
    (0, facts.st_mode)
}

/// The last call's errno(3); [`io::Error::last_os_error`] allocates nothing.
fn error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// errno(3), 0 on success.
fn send_beginning(socket: i32, file: i32, limit: usize) -> i32 {
    let mut packet = [DATA; PACKET];
    let mut left = limit;
    while left > 0 {
        let most = left.min(4096);
        // SAFETY: at least `most` bytes follow the packet's first.
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
