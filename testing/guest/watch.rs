//! Watches guests that were booted together: a silent one is ended, all end with the first, and a boot that led nowhere is
//! made once more.
//!
//! A guest says something every 10 s once its init runs (init.sh), whatever its program does, and its kernel does before
//! that.  One whose program does not end is bounded by its own limits, 120 s for a command of vm_slurm and 900 s for one of
//! clients, and by boot.sh's `VM_LIMIT`.

use super::boot::{Boot, here};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The exit status of boot.sh if the program did not come to its end.
const NEVER_GOT_THERE: i32 = 125;

/// How guests are watched.
pub struct Watch {
    /// boot.sh, or what plays it
    pub boot: PathBuf,
    /// how long a guest's console may say nothing, and how long a guest may go on after its pair has ended well
    pub silent: Duration,
    /// how often it is told what is awaited
    pub told: Duration,
    /// where it is told
    pub tell: fn(&str),
}

/// What became of guests.
pub struct Ran {
    /// of each
    pub outputs: Vec<Output>,
    /// the first that failed: the others have ended with it
    pub failed: Option<usize>,
    /// how often they were started
    pub starts: u32,
}

/// Not `eprintln!`: the test harness hides its text while tests pass.
fn on_the_terminal(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A guest, from its start on.
struct Running<'a> {
    boot: &'a Boot,
    child: Child,
    begun: Instant,
    /// the length of its console, and since when
    console: (u64, Instant),
    ended: Option<ExitStatus>,
}

impl Running<'_> {
    fn name(&self) -> String {
        let name = self.boot.out.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// How long its console has said nothing; before there is one, boot.sh makes what the guest needs.
    fn silence(&mut self) -> Duration {
        let console = fs::metadata(self.boot.out.join("console"));
        let length = console.map_or(0, |console| console.len() + 1);
        if length == 0 || length != self.console.0 {
            self.console = (length, Instant::now());
        }
        self.console.1.elapsed()
    }

    /// What is awaited of it, and since when.
    fn awaited(&self) -> String {
        let doing = self.boot.out.join("doing");
        let limit = self.boot.more.iter().find(|(name, _)| *name == "VM_LIMIT");
        let limit = limit.map_or("900", |(_, seconds)| seconds);
        let what = match fs::read_to_string(&doing) {
            Ok(what) => {
                let since = fs::metadata(&doing).and_then(|file| file.modified()).ok();
                let since = since
                    .and_then(|since| since.elapsed().ok())
                    .unwrap_or_default();
                format!("{}; since {} s", what.trim(), since.as_secs())
            }
            Err(_) if self.console.0 > 0 => "its kernel to start".to_string(),
            Err(_) => "boot.sh to make it".to_string(),
        };
        let (name, seconds) = (self.name(), self.begun.elapsed().as_secs());
        format!("{name}, {seconds} s of {limit}: {what}")
    }

    fn output(self) -> Output {
        let said = |kind: &str| fs::read(self.boot.out.with_extension(kind)).unwrap_or_default();
        Output {
            status: self.ended.expect("it has ended"),
            stdout: said("stdout"),
            stderr: said("stderr"),
        }
    }
}

impl Watch {
    /// As boot.sh and the user want it: a minute, or `VM_SILENT` seconds.
    pub fn usual() -> Watch {
        let silent = std::env::var("VM_SILENT").ok();
        let silent = silent.and_then(|seconds| seconds.parse().ok());
        Watch {
            boot: here().join("tests/vm/boot.sh"),
            silent: Duration::from_secs(silent.unwrap_or(60)),
            told: Duration::from_secs(30),
            tell: on_the_terminal,
        }
    }

    /// Boots them, and once more if one of them says nothing or never comes to its program: on a busy machine that is the
    /// emulator's fault, and says nothing about the program.
    pub fn run(&self, boots: &[Boot]) -> Ran {
        let ran = self.run_once(boots);
        match ran.failed.map(|failed| &ran.outputs[failed]) {
            Some(failed) if failed.status.code() == Some(NEVER_GOT_THERE) => {
                let said = String::from_utf8_lossy(&failed.stderr);
                (self.tell)(&format!("guests: started anew: {}", said.trim()));
                Ran {
                    starts: 2,
                    ..self.run_once(boots)
                }
            }
            _ => ran,
        }
    }

    fn run_once(&self, boots: &[Boot]) -> Ran {
        let mut guests: Vec<Running> = boots.iter().map(|boot| self.start(boot)).collect();
        let (mut told, mut ended_well, mut failed) = (Instant::now(), None, None);
        while guests.iter().any(|guest| guest.ended.is_none()) {
            sleep(Duration::from_millis(100));
            let running = guests.iter_mut().enumerate();
            for (index, guest) in running.filter(|(_, guest)| guest.ended.is_none()) {
                guest.ended = guest.child.try_wait().expect("boot.sh can be waited for");
                let late = ended_well.is_some_and(|when: Instant| when.elapsed() > self.silent);
                if guest.ended.is_none() && guest.silence() > self.silent {
                    self.end(guest, "says nothing");
                } else if guest.ended.is_none() && (failed.is_some() || late) {
                    self.end(guest, "has no pair");
                }
                match guest.ended {
                    Some(how) if how.success() => ended_well = Some(Instant::now()),
                    Some(_) => failed = failed.or(Some(index)),
                    None => {}
                }
            }
            if told.elapsed() > self.told {
                told = Instant::now();
                let awaited = guests.iter().filter(|guest| guest.ended.is_none());
                let tell =
                    |guest: &Running| (self.tell)(&format!("guests: awaited: {}", guest.awaited()));
                awaited.for_each(tell);
            }
        }
        Ran {
            outputs: guests.into_iter().map(Running::output).collect(),
            failed,
            starts: 1,
        }
    }

    /// boot.sh ends the guest, and then itself.
    fn end(&self, guest: &mut Running, why: &str) {
        let (name, awaited) = (guest.name(), guest.awaited());
        (self.tell)(&format!("guests: {name} {why}, and is ended: {awaited}"));
        let pid = guest.child.id().to_string();
        let _ = Command::new("kill").arg(pid).status();
        guest.ended = guest.child.wait().ok();
    }

    fn start<'a>(&self, boot: &'a Boot) -> Running<'a> {
        // answers of an earlier run must not be taken for those of this one
        let _ = fs::remove_dir_all(&boot.out);
        let said = |kind| File::create(boot.out.with_extension(kind)).expect("its folder");
        let mut command = boot.command(&self.boot);
        command.stdout(said("stdout")).stderr(said("stderr"));
        let child = command.spawn().expect("boot.sh");
        Running {
            boot,
            child,
            begun: Instant::now(),
            console: (0, Instant::now()),
            ended: None,
        }
    }
}
