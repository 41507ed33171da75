//! Another program, started as this one was: signals that a process sends to us reach it, and the end of it is waited for.
//!
//! Slurm's proctrack/cgroup sends a step's signals to its tasks alone, not to what they started.  So what a process sends to
//! us is passed on.  What the kernel sends, as for Ctrl-C, it sends to all of a terminal's programs itself.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

/// Signals that are passed on: those that can be caught and mean nothing to us.  Not those that stop and continue: a
/// shell's job control sends them to both.
const PASSED_ON: [i32; 10] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGXCPU,
    libc::SIGURG,
    libc::SIGWINCH,
];

#[derive(Clone, Copy)]
pub struct Signals {
    held: libc::sigset_t,
    before: libc::sigset_t,
    ignored_children: bool,
}

impl Signals {
    /// Holds signals back, also from threads that are started later.
    pub fn hold() -> io::Result<Signals> {
        let mut held = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset writes the whole set, and sigaddset changes a set that is written; the signals are valid.
        let held = unsafe {
            libc::sigemptyset(held.as_mut_ptr());
            for signal in PASSED_ON.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(held.as_mut_ptr(), signal);
            }
            held.assume_init()
        };
        // SAFETY: the first set is written, and the call writes the second.
        let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &held, before.as_mut_ptr()) };
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
        // SAFETY: the default disposition has no handler.  Where SIGCHLD is ignored, wait(2) tells no child's status.
        let old = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        Ok(Signals {
            held,
            // SAFETY: the call before has written it.
            before: unsafe { before.assume_init() },
            ignored_children: old == libc::SIG_IGN,
        })
    }

    /// Restores the earlier mask in this process, which becomes the program itself.
    pub fn give_back(self) {
        if self.ignored_children {
            // SAFETY: this disposition has no handler.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        }
        // SAFETY: the set is written, and nothing is to be written back.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }

    pub fn start(self, command: &[OsString]) -> io::Result<Child> {
        std::hint::black_box(&crate::CONSTRUCTOR);
        let [program, arguments @ ..] = command else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        let as_given = move || {
            crate::restore();
            self.give_back();
            Ok(())
        };
        // SAFETY: it runs between fork and execve, takes no lock and allocates nothing: it calls signal(2), close(2) and
        // sigprocmask(2), which may be called there (signal-safety(7)).
        unsafe { command.pre_exec(as_given) };
        command.spawn()
    }

    /// Passes signals on until the program has ended.
    pub fn wait(self, mut child: Child) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            // SAFETY: all zero is a valid siginfo_t.
            let mut told: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: the set is written; the call writes at most one siginfo_t.
            let signal = unsafe { libc::sigwaitinfo(&self.held, &mut told) };
            if signal == -1 {
                match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => continue,
                    error => return Err(error),
                }
            }
            // SAFETY: a process's signal has a sender; of others the bytes are read and not used.
            let sender = unsafe { told.si_pid() };
            let child = child.id() as i32;
            // include/uapi/asm-generic/siginfo.h: what processes send has a code of 0 or less
            if signal != libc::SIGCHLD && told.si_code <= 0 && sender != child {
                // SAFETY: no memory is touched.  The child has not been waited for, so its number is still its own.
                unsafe { libc::kill(child, signal) };
            }
        }
    }
}
