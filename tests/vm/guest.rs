//! The two guests.  Each is booted once for all tests, both at the same time.

use super::testing::boot::{Boot, CANNOT, here, unwanted};
use nic_placement_core::topology::{Provenance, Topology, file};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
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
        let said = String::from_utf8_lossy(&self.ran.stderr);
        let answer = fs::read_to_string(&path);
        answer.unwrap_or_else(|error| panic!("{}: {error}\n{said}", path.display()))
    }

    /// The node as nic-placement read it in the guest.
    pub fn topology(&self) -> Topology {
        let shown = self.answer("show.json");
        file::from_json(&shown, Provenance::File("show.json".into())).unwrap()
    }

    /// Where a record of the guest is kept for the tests that boot nothing.
    pub fn recorded(&self) -> PathBuf {
        here().join(format!("tests/machines/guest-{}/node.machine", self.name))
    }
}

/// The tool for a guest, whose CPUs are slow: beside the plugin that `make test` names, else unoptimised.
pub fn tool() -> PathBuf {
    let plugin = std::env::var_os("NIC_PLACEMENT_SO").map(PathBuf::from);
    let beside = plugin.map(|plugin| plugin.with_file_name("nic-placement"));
    let built = beside.filter(|tool| tool.is_file());
    built.unwrap_or(env!("CARGO_BIN_EXE_nic-placement").into())
}

fn boot(name: &'static str) -> Guest {
    let questions = here().join("tests/vm/questions.sh");
    let boot = Boot {
        arguments: ["it's", "$HOME", "two  blanks"].map(String::from).to_vec(),
        also: format!("{}:lstopo-no-graphics", tool().display()),
        ..Boot::of(name, questions, &format!("vm-{name}"))
    };
    Guest {
        name,
        ran: boot.run(),
        answers: boot.out,
    }
}

/// Prints why there is no guest: not by `eprintln!`, whose text the test harness hides while tests pass.
pub fn skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: no guest under qemu: {reason}");
}

/// Why this machine cannot run guests.
pub fn cannot(ran: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&ran.stderr).trim_end().to_string();
    (ran.status.code() == Some(CANNOT)).then_some(said)
}

static GUESTS: LazyLock<Vec<Guest>> = LazyLock::new(|| {
    if let Some(reason) = unwanted() {
        skipped(&reason);
        return Vec::new();
    }
    let booting = ["four-nodes", "dgx"].map(|name| std::thread::spawn(move || boot(name)));
    let guests: Vec<Guest> = booting
        .into_iter()
        .map(|guest| guest.join().unwrap())
        .collect();
    match guests.iter().find_map(|guest| cannot(&guest.ran)) {
        Some(reason) => {
            skipped(&reason);
            Vec::new()
        }
        None => guests,
    }
});

/// Both guests; none if this machine cannot run guests, which is printed once.
pub fn guests() -> &'static [Guest] {
    &GUESTS
}
