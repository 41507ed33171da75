//! execvpe(3): the process becomes another program, with the signals and descriptors that it was given itself.
//!
//! Rust's runtime ignores SIGPIPE before `main`, and opens `/dev/null` where one of the first three descriptors is closed.
//! Both would be handed on.  `std::process::Command::exec` resets SIGPIPE, which is wrong too where this process was
//! started with it ignored.  So what was there is noted before `main`, and restored.
//!
//! [`Signals`] starts another program instead, and stands before it until it ends.
//!
//! [`given_socket`] is how a task talks to slurmstepd.
//!
//! [`ask_drivers`] loads the vendors' libraries, which no other process of ours does.
//!
//! [`try_lock`] and [`terminal_size`] are what the tool alone asks of the system.
//!
//! A package of its own, since a constructor is in every program that links its package: the plugin's are Slurm's.
#![allow(unsafe_code)]

mod beside;
mod driver;
mod lock;
mod terminal;

pub use beside::Signals;
pub use driver::{DriverAnswer, DriverError, ask_drivers, copies};
pub use lock::try_lock;
pub use terminal::terminal_columns;

use std::ffi::{OsString, c_int};
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// True if SIGPIPE was ignored when this program was started.
static IGNORED_PIPES: AtomicBool = AtomicBool::new(false);
/// A bit for each of the first three descriptors that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Runs when the program is loaded, before Rust's `main`.
// SAFETY: the linker collects function pointers in this section, and the loader calls each once with (argc, argv, envp),
// which a C function may ignore.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = note;

extern "C" fn note() {
    // SAFETY: all zero is a valid sigaction; the call only writes to it, and sets nothing without a new one.
    let ignored = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    };
    IGNORED_PIPES.store(ignored, Ordering::Relaxed);
    for descriptor in 0..3 {
        // SAFETY: F_GETFD has no precondition and touches no memory.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
}

/// A socket by the number of its descriptor, such as `PMI_FD` of Slurm.
pub fn given_socket(number: c_int) -> io::Result<UnixStream> {
    // SAFETY: the call has no precondition: a number that is not open is an error.  The copy is ours alone.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above has just opened it, and nothing else knows it.
    Ok(unsafe { UnixStream::from_raw_fd(copy) })
}

/// Becomes `command`, found in `PATH` by execvp(3), with this environment, of which the first of one name counts, as for
/// getenv(3); returns only if that fails.
pub fn become_program(command: &[OsString], environment: &[(OsString, OsString)]) -> io::Error {
    // naming it keeps the linker from leaving it out
    std::hint::black_box(&CONSTRUCTOR);
    let [program, arguments @ ..] = command else {
        return io::Error::from(io::ErrorKind::InvalidInput);
    };
    let variables = environment.iter().rev().cloned();
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(variables);
    let as_given = || {
        restore();
        Ok(())
    };
    // SAFETY: this process runs it, before execve.
    unsafe { command.pre_exec(as_given) };
    command.exec()
}

fn restore() {
    let pipes: libc::sighandler_t = match IGNORED_PIPES.load(Ordering::Relaxed) {
        true => libc::SIG_IGN,
        false => libc::SIG_DFL,
    };
    // SAFETY: these two dispositions have no handler that could run.
    unsafe { libc::signal(libc::SIGPIPE, pipes) };
    let closed = CLOSED.load(Ordering::Relaxed);
    for descriptor in (0..3 as c_int).filter(|descriptor| closed & 1 << descriptor != 0) {
        // SAFETY: Rust's runtime alone opened it, and does not use it.
        unsafe { libc::close(descriptor) };
    }
}
