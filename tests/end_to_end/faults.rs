//! A fault, without the plugin and with it: the exit code stays, srun ends, the node stays in use.

use crate::cases_failure::assert_the_node_becomes_idle;
use crate::harness::{Bed, Ran};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A step of two tasks that ends with 3; `@` stands for the option.
pub const STEP: &str = "srun -w n0 -n2 --gpus-per-task=1 @ bash -c '$report; exit 3'";

/// Commands end after a minute.
const HUNG: Duration = Duration::from_secs(60);

/// Lines of ours in n0's log that an admin sees without having asked for more.
pub fn loud(bed: &Bed) -> Vec<String> {
    let ours = |line: &&str| line.contains("nic-placement: ") && !line.contains("debug");
    bed.log("n0")
        .lines()
        .filter(ours)
        .map(str::to_string)
        .collect()
}

/// Runs `command` with the plugin; with `@` in `plugstack` stands its line.
pub fn with_plugin(bed: &Bed, plugstack: &str, ours: &str, command: &str) -> Ran {
    bed.plugstack(&plugstack.replace('@', ours));
    bed.run(&command.replace('@', "--nic-placement"))
}

/// The same without it.
pub fn without_plugin(bed: &Bed, plugstack: &str, command: &str) -> Ran {
    bed.plugstack(&plugstack.replace('@', ""));
    bed.run(&command.replace('@', ""))
}

/// Runs `STEP` under a fault, without the plugin and with it.  Returns the run with it, and the new lines of ours that an
/// admin sees.
pub fn under(bed: &Bed, fault: &str, plugstack: &str, arguments: &str) -> (Ran, Vec<String>) {
    under_within(bed, fault, plugstack, arguments, 1)
}

/// The same where Slurm itself may hang: a run that does is run again, so many times in all.
pub fn under_within(
    bed: &Bed,
    fault: &str,
    plugstack: &str,
    arguments: &str,
    times: usize,
) -> (Ran, Vec<String>) {
    let again = |run: &dyn Fn() -> Ran| {
        let mut ran = run();
        for _ in 1..times {
            if ran.took < HUNG {
                break;
            }
            println!("    {fault}: a run hung and is run again");
            bed.run("squeue -h -o %A | xargs -r scancel; for i in {1..450}; do [ -z \"$(squeue -h)\" ] && exit; sleep 0.1; done");
            assert_the_node_becomes_idle(bed);
            ran = run();
        }
        ran
    };
    let bare = again(&|| without_plugin(bed, plugstack, STEP));
    assert_eq!(
        (bare.code, bare.tasks.len()),
        (3, 2),
        "{fault}: without the plugin"
    );
    let before = loud(bed).len();
    let ran = again(&|| with_plugin(bed, plugstack, &bed.site.plugstack_line(arguments), STEP));
    assert_same(fault, &bare, &ran);
    assert_the_node_becomes_idle(bed);
    (ran, loud(bed).split_off(before))
}

/// The plugin changed nothing that Slurm or a script sees.  Commands end after a minute, so one that hangs has 124.
pub fn assert_same(fault: &str, bare: &Ran, ran: &Ran) {
    println!(
        "    {fault}: {:.2} s without the plugin, {:.2} s with it",
        bare.took.as_secs_f64(),
        ran.took.as_secs_f64()
    );
    assert_eq!(
        (ran.code, ran.tasks.len()),
        (bare.code, bare.tasks.len()),
        "{fault}: {}",
        ran.stderr
    );
}

/// One of the lines, and no other, has all of `words`.
pub fn assert_one_line(fault: &str, lines: &[String], words: &[&str]) {
    let found = lines
        .iter()
        .filter(|line| words.iter().all(|word| line.contains(word)));
    assert_eq!(
        found.count(),
        1,
        "{fault}: a line with {words:?} among {lines:#?}"
    );
}

/// The files of n0's machine, which are put back when this is dropped.
pub struct Spoilt {
    pub sys: PathBuf,
    kept: PathBuf,
}

/// The parts that are put back; CPUs and cgroups are not among them.
const PARTS: [&str; 2] = ["class", "bus"];

impl Spoilt {
    pub fn new(bed: &Bed) -> Spoilt {
        let machine = bed.machine("n0");
        let spoilt = Spoilt {
            sys: machine.join("sys"),
            kept: machine.join("kept"),
        };
        fs::create_dir_all(&spoilt.kept).expect("a folder");
        // the devices hold what the links below `class` and `bus` lead to
        spoilt
            .parts()
            .iter()
            .for_each(|part| copy(&spoilt.sys.join(part), &spoilt.kept));
        spoilt
    }

    fn parts(&self) -> Vec<String> {
        let devices = fs::read_dir(self.sys.join("devices")).expect("sys/devices");
        let names = devices.map(|entry| {
            entry
                .expect("a name")
                .file_name()
                .into_string()
                .expect("text")
        });
        let pci = names
            .filter(|name| name.starts_with("pci"))
            .map(|name| format!("devices/{name}"));
        PARTS
            .iter()
            .map(|part| part.to_string())
            .chain(pci)
            .collect()
    }

    /// A folder as it was.
    pub fn renew(&self) {
        for kept in fs::read_dir(&self.kept)
            .expect("what was kept")
            .map(|entry| entry.expect("a name"))
        {
            let name = kept.file_name().into_string().expect("text");
            let folder = if name.starts_with("pci") {
                self.sys.join("devices")
            } else {
                self.sys.clone()
            };
            let _ = fs::remove_dir_all(folder.join(&name));
            copy(&kept.path(), &folder);
        }
    }

    /// The files, not folders and not links, whose path has `part` in it.
    pub fn files(&self, part: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        self.parts()
            .iter()
            .for_each(|name| walk(&self.sys.join(name), part, &mut found));
        found
    }
}

impl Drop for Spoilt {
    fn drop(&mut self) {
        self.renew();
        let _ = fs::remove_dir_all(&self.kept);
    }
}

fn copy(from: &Path, folder: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, folder]).status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "`cp -a {}`",
        from.display()
    );
}

fn walk(folder: &Path, part: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("a name"))
    {
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            walk(&entry.path(), part, found);
        } else if kind.is_file() && entry.path().to_string_lossy().contains(part) {
            found.push(entry.path());
        }
    }
}
