//! A boot of a guest by boot.sh; watch.rs says what becomes of it.

#[path = "watch.rs"]
mod watch;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
#[allow(unused_imports)] // one guest alone needs neither
pub use watch::{Ran, Watch};

/// The exit status of boot.sh if this machine cannot run guests.
pub const CANNOT: i32 = 77;

/// Why no guest is to be booted, if the user asked for that.
pub fn unwanted() -> Option<String> {
    let skip = std::env::var("NIC_PLACEMENT_SKIP").is_ok_and(|kinds| kinds.contains("vm"));
    skip.then(|| "NIC_PLACEMENT_SKIP=vm".to_string())
}

/// What a release build made: where `make test` says, or beside this test.
#[allow(dead_code)] // not every test that boots takes the release's
pub fn released(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(
        Path::new(env!("NIC_PLACEMENT_ROOT")).join("target"),
        PathBuf::from,
    );
    target.join("release").join(name)
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

/// The folder of boot.sh and of the machines.
fn vm() -> PathBuf {
    Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/vm")
}

impl Boot {
    #[allow(dead_code)] // guests that need each other are booted together
    /// Boots it, and watches it.
    pub fn run(self) -> Output {
        Watch::usual().run(&[self]).outputs.remove(0)
    }

    /// What boots it, by a boot.sh.
    fn command(&self, boot: &Path) -> Command {
        let mut command = Command::new(boot);
        command
            .arg(vm().join(format!("{}.guest", self.machine)))
            .arg(&self.program)
            .args(&self.arguments)
            .env("VM_ALSO", &self.also)
            .env("VM_OUT", &self.out)
            .envs(self.more.iter().map(|(name, value)| (name, value)));
        command
    }
}
