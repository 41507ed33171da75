//! One boot of a guest by boot.sh.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The exit status of boot.sh if this machine cannot run guests.
pub const CANNOT: i32 = 77;

/// Why no guest is to be booted, if the user asked for that.
pub fn unwanted() -> Option<String> {
    let skip = std::env::var_os("NIC_PLACEMENT_SKIP_VM").is_some_and(|value| value == "1");
    skip.then(|| "NIC_PLACEMENT_SKIP_VM=1".to_string())
}

/// What a release build made: where `make test` says, or beside this test.
#[allow(dead_code)] // not every test that boots takes the release's
pub fn released(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or(Path::new(env!("NIC_PLACEMENT_ROOT")).join("target"), PathBuf::from);
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

impl Boot {
    #[allow(dead_code)] // guests that need each other are booted anew together, or not at all
    /// Boots it.  If the program never started, boots it once more: on a busy machine that is the emulator's fault, and
    /// says nothing about the program.
    pub fn run(&self) -> Output {
        const NEVER_GOT_THERE: i32 = 125;
        let ran = self.run_once();
        match ran.status.code() {
            Some(NEVER_GOT_THERE) => self.run_once(),
            _ => ran,
        }
    }

    /// Boots it, once.
    pub fn run_once(&self) -> Output {
        // answers of an earlier run must not be taken for those of this one
        let _ = fs::remove_dir_all(&self.out);
        let vm = Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/vm");
        Command::new(vm.join("boot.sh"))
            .arg(vm.join(format!("{}.guest", self.machine)))
            .arg(&self.program)
            .args(&self.arguments)
            .env("VM_ALSO", &self.also)
            .env("VM_OUT", &self.out)
            .envs(self.more.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap()
    }
}
