//! The two guests: each is booted once for all tests, both at the same time.

use nic_placement::topology::{Provenance, Topology, file};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The status with which boot.sh says that this machine cannot have guests.
const CANNOT: i32 = 77;

/// A machine that was booted, and what was said in it.
pub struct Guest {
    /// the name of its description
    pub name: &'static str,
    /// what came back from the runner
    pub ran: Output,
    /// where the answers to questions.sh are
    pub answers: PathBuf,
}

impl Guest {
    /// One of the files that questions.sh writes.
    pub fn answer(&self, name: &str) -> String {
        let path = self.answers.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}\n{}", path.display(), String::from_utf8_lossy(&self.ran.stderr))
        })
    }

    /// The node as nic-placement read it in the guest.
    pub fn topology(&self) -> Topology {
        file::from_json(&self.answer("show.json"), Provenance::File("show.json".into())).unwrap()
    }

    /// Where a record of the guest is kept for the tests that boot nothing.
    pub fn recorded(&self) -> PathBuf {
        tests().join(format!("machines/guest-{}/node.machine", self.name))
    }
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Boots a guest; once more where it never came to the program, which on a machine busy with other things is the
/// emulator's doing and says nothing of what is tested.
fn boot(name: &'static str) -> Guest {
    const NEVER_GOT_THERE: i32 = 125;
    let guest = boot_once(name);
    match guest.ran.status.code() {
        Some(NEVER_GOT_THERE) => boot_once(name),
        _ => guest,
    }
}

fn boot_once(name: &'static str) -> Guest {
    let answers = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("vm-{name}"));
    // answers of an earlier run must not pass for those of this one
    let _ = fs::remove_dir_all(&answers);
    let vm = tests().join("vm");
    let ran = Command::new(vm.join("boot.sh"))
        .arg(vm.join(format!("{name}.guest")))
        .arg(vm.join("questions.sh"))
        .args(["it's", "$HOME", "two  blanks"])
        .env("VM_ALSO", concat!(env!("CARGO_BIN_EXE_nic-placement"), ":lstopo-no-graphics"))
        .env("VM_OUT", &answers)
        .output()
        .unwrap();
    Guest { name, ran, answers }
}

static GUESTS: LazyLock<Result<Vec<Guest>, String>> = LazyLock::new(|| {
    if std::env::var_os("NIC_PLACEMENT_SKIP_VM").is_some_and(|value| value == "1") {
        return Err("NIC_PLACEMENT_SKIP_VM=1".to_string());
    }
    let booting = ["four-nodes", "dgx"].map(|name| std::thread::spawn(move || boot(name)));
    let guests: Vec<Guest> = booting.into_iter().map(|guest| guest.join().unwrap()).collect();
    match guests.iter().find(|guest| guest.ran.status.code() == Some(CANNOT)) {
        Some(guest) => Err(String::from_utf8_lossy(&guest.ran.stderr).trim_end().to_string()),
        None => Ok(guests),
    }
});

/// Both guests; none where there can be none, which is said once.
pub fn guests() -> &'static [Guest] {
    static SAID: LazyLock<()> = LazyLock::new(|| {
        if let Err(reason) = &*GUESTS {
            // not `eprintln!`, whose text the test harness keeps to itself while tests pass
            let _ = writeln!(std::io::stderr(), "skipped: no guest under qemu: {reason}");
        }
    });
    LazyLock::force(&SAID);
    GUESTS.as_deref().unwrap_or_default()
}
