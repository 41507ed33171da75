//! The two guests.  Each is booted once for all tests, both at the same time.

use super::boot::{Boot, CANNOT, unwanted};
use nic_placement_core::topology::{Provenance, Topology, file};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::LazyLock;

/// A machine that was booted, and the answers from it.
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
            panic!(
                "{}: {error}\n{}",
                path.display(),
                String::from_utf8_lossy(&self.ran.stderr)
            )
        })
    }

    /// The node as nic-placement read it in the guest.
    pub fn topology(&self) -> Topology {
        file::from_json(
            &self.answer("show.json"),
            Provenance::File("show.json".into()),
        )
        .unwrap()
    }

    /// Where a record of the guest is kept for the tests that boot nothing.
    pub fn recorded(&self) -> PathBuf {
        tests().join(format!("machines/guest-{}/node.machine", self.name))
    }
}

fn tests() -> PathBuf {
    Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests")
}

fn boot(name: &'static str) -> Guest {
    let answers = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("vm-{name}"));
    let ran = Boot {
        machine: name,
        program: tests().join("vm/questions.sh"),
        arguments: ["it's", "$HOME", "two  blanks"].map(String::from).to_vec(),
        also: concat!(env!("CARGO_BIN_EXE_nic-placement"), ":lstopo-no-graphics").to_string(),
        out: answers.clone(),
        more: Vec::new(),
    }
    .run();
    Guest { name, ran, answers }
}

static GUESTS: LazyLock<Result<Vec<Guest>, String>> = LazyLock::new(|| {
    if let Some(reason) = unwanted() {
        return Err(reason);
    }
    let booting = ["four-nodes", "dgx"].map(|name| std::thread::spawn(move || boot(name)));
    let guests: Vec<Guest> = booting
        .into_iter()
        .map(|guest| guest.join().unwrap())
        .collect();
    match guests
        .iter()
        .find(|guest| guest.ran.status.code() == Some(CANNOT))
    {
        Some(guest) => Err(String::from_utf8_lossy(&guest.ran.stderr)
            .trim_end()
            .to_string()),
        None => Ok(guests),
    }
});

/// Both guests; none if this machine cannot run guests, which is printed once.
pub fn guests() -> &'static [Guest] {
    static SAID: LazyLock<()> = LazyLock::new(|| {
        if let Err(reason) = &*GUESTS {
            // not `eprintln!`: the test harness hides its text while tests pass
            let _ = writeln!(std::io::stderr(), "skipped: no guest under qemu: {reason}");
        }
    });
    LazyLock::force(&SAID);
    GUESTS.as_deref().unwrap_or_default()
}
