//! A boot of a guest by boot.sh; watch.rs says what becomes of it.

use super::Guest;
use super::cases::Unfit;
use super::watch::Watch;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The exit status of boot.sh if this machine cannot run guests.
pub const CANNOT: i32 = 77;

/// Why no guest is to be booted, if the user asked for that.
pub fn unwanted() -> Option<String> {
    let skip = std::env::var("NIC_PLACEMENT_SKIP").is_ok_and(|kinds| kinds.contains("vm"));
    skip.then(|| "NIC_PLACEMENT_SKIP=vm".to_string())
}

/// A release build's file: where `make test` says, or beside this test.
pub fn released(name: &str) -> PathBuf {
    let usual = || here().join("target");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(usual, PathBuf::from);
    target.join("release").join(name)
}

/// The plugin under test: as `make test` names it, or the release build's.
pub fn plugin() -> PathBuf {
    std::env::var_os("NIC_PLACEMENT_SO").map_or(released("libnic_placement.so"), PathBuf::from)
}

/// The repository.
pub fn here() -> &'static Path {
    Path::new(env!("NIC_PLACEMENT_ROOT"))
}

/// A folder for what this program's guests leave.
pub fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The end of boot.sh, or of a script that makes what a guest needs.
pub fn judged(name: &str, ran: &Output) -> Result<(), Unfit> {
    let said = String::from_utf8_lossy(&ran.stderr).trim().to_string();
    match ran.status.code() {
        Some(0) => Ok(()),
        Some(CANNOT) => Err(Unfit::Skip(format!("no guest under qemu: {said}"))),
        code => Err(Unfit::Broken(format!("{name} ended with {code:?}: {said}"))),
    }
}

/// A machine to boot, and the program that runs in it.
pub struct Boot {
    /// the name of its description, from the folder tests/vm
    pub machine: &'static str,
    /// a program or script of the host
    pub program: PathBuf,
    /// its arguments
    pub arguments: Vec<String>,
    /// what else the guest gets: `VM_ALSO` of boot.sh
    pub also: String,
    /// where the program starts and leaves its files
    pub out: PathBuf,
    /// further variables of boot.sh
    pub more: Vec<(&'static str, String)>,
}

impl Boot {
    /// A machine, and a program that runs in it, which leaves its files in a folder of this name.
    pub fn of(machine: &'static str, program: impl Into<PathBuf>, out: &str) -> Boot {
        Boot {
            machine,
            program: program.into(),
            arguments: Vec::new(),
            also: String::new(),
            out: temporary(out),
            more: Vec::new(),
        }
    }

    /// Boots it, and watches it.
    pub fn run(&self) -> Output {
        Watch::usual()
            .run(std::slice::from_ref(self))
            .outputs
            .remove(0)
    }

    /// The guest after its boot, whose program must end well.
    pub fn booted(&self, watch: &Watch, commands: &str) -> Result<Guest, Unfit> {
        let ran = watch.run(std::slice::from_ref(self)).outputs.remove(0);
        judged(self.machine, &ran)?;
        Ok(Guest::of(self.machine, commands.into(), self.out.clone()))
    }

    /// The boot itself, by a boot.sh.
    pub fn command(&self, boot: &Path) -> Command {
        let mut command = Command::new(boot);
        command.arg(here().join(format!("tests/vm/{}.guest", self.machine)));
        command.arg(&self.program).args(&self.arguments);
        command.env("VM_ALSO", &self.also).env("VM_OUT", &self.out);
        command.envs(self.more.iter().map(|(name, value)| (name, value)));
        command
    }
}
