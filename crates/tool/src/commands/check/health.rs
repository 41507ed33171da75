//! `check --health`: a line for a drained node's reason, and an end within a bound whatever the hardware does.
//!
//! Another process judges. A process that waits for hardware cannot be ended, so it is left behind, and holds a lock until it
//! ends: no second one waits beside it.

use super::super::{Failure, Page, ending, output, refresh, tell};
use super::FAIL;
use nic_placement_fleet::audit::report::Report;
use nic_placement_fleet::doctor::{plain, reason};
use nic_placement_program::try_lock;
use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

enum Outcome {
    Ended(ExitStatus, Vec<u8>),
    Waits(Vec<u8>),
}

/// Says to another process, if `is_asked`, that the admin's files, which may be on a network's file system, have been read:
/// only hardware, for which a node is drained, is left to wait for. By white space before JSON in this process' output, and,
/// for a check that waits for the lock, by the length of the lock's file.
pub(super) fn tell_settled(is_asked: bool) -> io::Result<()> {
    if !is_asked {
        return Ok(());
    }
    let mut stdout = io::stdout();
    stdout.write_all(b"\n").and_then(|()| stdout.flush())?;
    let lock = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    if lock.metadata()?.is_file() {
        // a check is worth more than the words of another that waits for it
        let _ = lock.set_len(1);
    }
    Ok(())
}

const UNSETTLED: &str = "Slurm's configuration, or what it names, has not been read";

/// Judges this node by this command line with `--settled`. `folder` is the lock's.
pub(super) fn run(
    patience: Duration,
    folder: Option<&Path>,
    page: &mut Page,
) -> Result<(), Failure> {
    let mut command = refresh::this_program();
    command
        .args(env::args_os().skip(1))
        .arg("--settled")
        .stderr(Stdio::null());
    let begun = Instant::now();
    let no_check = |why: String| Err(format!("no check could be made: {why}").into());
    let lock = match folder.map_or(Ok(None), |folder| lock(folder, begun, patience)) {
        Ok(lock) => lock,
        Err(true) => {
            return end(
                "an earlier check waits for hardware that does not answer",
                page,
            );
        }
        Err(false) => return no_check(format!("an earlier one waits: {UNSETTLED}")),
    };
    // its standard input, which it does not read, holds the lock as long as it lives
    command.stdin(lock.map_or_else(Stdio::null, Stdio::from));
    let seconds = patience.as_secs();
    match bounded(command, patience.saturating_sub(begun.elapsed()))? {
        Outcome::Waits(said) if said.is_empty() => {
            no_check(format!("{UNSETTLED} within {seconds} s"))
        }
        Outcome::Waits(_) => {
            let why = format!("no answer within {seconds} s, hardware that does not answer?");
            end(&why, page)
        }
        Outcome::Ended(status, text) => match Report::from_json(&text) {
            Ok(report) => reason(&report.findings).map_or(Ok(()), |why| end(&why, page)),
            Err(_) => no_check(status.to_string()),
        },
    }
}

fn end(why: &str, page: &mut Page) -> Result<(), Failure> {
    page.exact(&format!("{}\n", plain(why)));
    // what is wrong stands on stdout; slurmd logs both streams as one
    Err(ending(FAIL, ""))
}

/// Takes the lock; `None` if there is no place for one. Where another check has it until `patience` is over, counted from
/// `begun`: true if hardware is all that this can wait for.
fn lock(folder: &Path, begun: Instant, patience: Duration) -> Result<Option<File>, bool> {
    // a node that no refresh has seen has hardware too; without the folder the file cannot be opened
    let _ = refresh::make_folder(folder);
    let Ok(file) = output::open_to_lock(&folder.join(".check.lock")) else {
        return Ok(None);
    };
    loop {
        match try_lock(&file) {
            // an earlier check's length would tell a waiting one that only hardware is left to wait for
            Ok(true) => {
                let _ = file.set_len(0);
                return Ok(Some(file));
            }
            Ok(false) if begun.elapsed() < patience => thread::sleep(Duration::from_millis(20)),
            Ok(false) => return Err(file.metadata().is_ok_and(|facts| facts.len() > 0)),
            Err(_) => return Ok(None),
        }
    }
}

/// A program's end and output; one that waits for a network or a file system is left.
pub(super) fn printed(mut program: Command, patience: Duration) -> Option<(ExitStatus, String)> {
    let name = program.get_program().to_string_lossy().into_owned();
    program.stdin(Stdio::null()).stderr(Stdio::null());
    match bounded(program, patience).ok()? {
        Outcome::Ended(status, text) => Some((status, String::from_utf8_lossy(&text).into_owned())),
        Outcome::Waits(_) => {
            let seconds = patience.as_secs();
            tell(&format!("`{name}` has not answered within {seconds} s"));
            None
        }
    }
}

/// Runs a command for so long at most. It is then killed and not waited for: a process that waits for hardware ends when that
/// answers, and init takes it.
fn bounded(mut command: Command, patience: Duration) -> io::Result<Outcome> {
    let end = Instant::now() + patience;
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let (sender, receiver) = channel();
    if let Some(mut stdout) = child.stdout.take() {
        // the first byte is told at once
        let listen = move || {
            for most in [1, u64::MAX] {
                let mut part = Vec::new();
                let read = stdout.by_ref().take(most).read_to_end(&mut part);
                let _ = sender.send(read.map(|_| part));
            }
        };
        if let Err(error) = thread::Builder::new().spawn(listen) {
            child.kill()?;
            return Err(error);
        }
    }
    let mut said = Vec::new();
    loop {
        match receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(part) => said.extend(part?),
            Err(RecvTimeoutError::Disconnected) => return Ok(Outcome::Ended(child.wait()?, said)),
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                return Ok(Outcome::Waits(said));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_process_that_does_not_end_is_left_and_one_that_does_is_heard() {
        let shell = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            command
        };
        for (line, milliseconds, code, heard) in [
            ("exec sleep 1000", 10, None, ""),
            ("echo one; exec sleep 1000", 2000, None, "o"),
            ("echo heard; exit 3", 600_000, Some(3), "heard\n"),
        ] {
            let patience = Duration::from_millis(milliseconds);
            let (ended, said) = match bounded(shell(line), patience).unwrap() {
                Outcome::Ended(status, text) => (status.code(), text),
                Outcome::Waits(text) => (None, text),
            };
            assert_eq!((ended, &*said), (code, heard.as_bytes()), "{line}");
        }
        // a text that is no report is no verdict
        assert!(Report::from_json(b"").is_err() && Report::from_json(b"{}").is_err());
    }

    /// A folder that is not there yet, and the taking of its lock.
    fn place(name: &str) -> (std::path::PathBuf, impl Fn() -> Result<Option<File>, bool>) {
        let name = format!("nic-placement-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let of = folder.clone();
        (folder, move || {
            super::lock(&of, Instant::now(), Duration::ZERO)
        })
    }

    #[test]
    fn a_process_that_waits_keeps_the_next_one_away_until_it_ends() {
        let (folder, lock) = place("health");
        let file = folder.join(".check.lock");
        let Ok(Some(held)) = lock() else {
            panic!("nobody has it")
        };
        // it reads nothing from its standard input, and is not told that this is a lock
        let sleep = |held| {
            Command::new("sleep")
                .arg("1000")
                .stdin(Stdio::from(held))
                .spawn()
        };
        let mut waits = sleep(held).unwrap();
        // the process that started it has let go
        assert!(matches!(lock(), Err(false)));
        std::fs::write(&file, "x").unwrap();
        assert!(matches!(lock(), Err(true)));
        waits.kill().unwrap();
        waits.wait().unwrap();
        assert!(matches!(lock(), Ok(Some(_))));
        let length = std::fs::metadata(&file).unwrap().len();
        assert_eq!(length, 0, "the next one begins anew");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    // each interval would leave one more process that waits
    #[test]
    fn a_node_on_which_no_refresh_ever_ran_gets_the_lock_and_its_folder_all_may_read() {
        let (folder, lock) = place("no-refresh");
        let held = lock();
        assert!(matches!(held, Ok(Some(_))));
        assert!(matches!(lock(), Err(false)));
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
        drop(held);
        // a link in the lock's place is not followed: there is no lock then
        let file = folder.join(".check.lock");
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/null", &file).unwrap();
        assert!(matches!(lock(), Ok(None)));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
