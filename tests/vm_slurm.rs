//! The plugin, a real Slurm and a real kernel with several NUMA nodes: guests under qemu in which `srun` starts tasks that
//! touch memory, with device cgroups (v2) that deny them the other tasks' GPUs.
//!
//! ```text
//! cargo build --release && cargo test --test vm_slurm
//! cargo test --test vm_slurm -- cpuset        only the cases with that word in their name
//! ```
//!
//! Needs what tests/vm.rs needs, and Debian's Slurm (`tests/slurm/install.sh`) or in SLURM_ROOT the root folder of a Debian
//! with another release.  Without them, or with NIC_PLACEMENT_SKIP=vm, it says so and passes.  Both guests are booted
//! once, at the same time, and run all commands; the cases then read the answers.  This program is in the guests too, as the
//! task and as the checks that need no Slurm.  It prints the steps without and with the flag.

#[path = "vm_slurm/binding.rs"]
mod binding;
#[path = "vm_slurm/cases_dgx.rs"]
mod cases_dgx;
#[path = "vm_slurm/cases_four_nodes.rs"]
mod cases_four_nodes;
#[path = "../testing/guest/mod.rs"]
mod guest;
#[path = "vm_slurm/table.rs"]
mod table;
#[path = "vm_slurm/task.rs"]
mod task;

use guest::Guest;
use guest::boot::{Boot, here, judged, plugin, temporary, unwanted};
use guest::cases::{Tally, Unfit};
use guest::watch::Watch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A case: its name is the sentence that it proves.
pub type Case = (&'static str, fn(&Guest));

/// A machine and what is done there.
#[derive(Clone, Copy)]
struct Plan {
    name: &'static str,
    /// ConstrainDevices and ConstrainCores
    constrain: &'static str,
    /// the lines of shell, each behind its name; `$task` is task.rs
    commands: &'static str,
    /// what that proves
    cases: &'static [Case],
    /// the steps to be printed, with the number of their tasks
    shown: &'static [(&'static str, usize)],
}

const PLANS: [Plan; 2] = [
    Plan {
        name: "dgx",
        constrain: "yes",
        commands: cases_dgx::COMMANDS,
        cases: cases_dgx::CASES,
        shown: cases_dgx::SHOWN,
    },
    Plan {
        name: "four-nodes",
        constrain: "no",
        commands: cases_four_nodes::COMMANDS,
        cases: cases_four_nodes::CASES,
        shown: cases_four_nodes::SHOWN,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("task") => task::run(&arguments[1..]),
        Some("checks") => binding::run_all(&arguments[1]),
        Some("check") => binding::run_one(&arguments[1]),
        Some("place") => binding::place(arguments[1].parse().unwrap()),
        _ => return on_the_host(),
    }
    ExitCode::SUCCESS
}

/// Slurm, the plugin and this program as the base of a guest's root file system.
fn root() -> Result<PathBuf, Unfit> {
    let folder = temporary("vm-slurm-root");
    let _ = fs::remove_dir_all(&folder);
    let mut script = Command::new(here().join("tests/vm_slurm/root.sh"));
    let ran = script.args([&folder, &plugin(), &own()]).output();
    let ran = ran.map_err(|error| Unfit::Broken(format!("root.sh: {error}")))?;
    judged("root.sh", &ran)?;
    Ok(folder)
}

/// This program.
fn own() -> PathBuf {
    std::env::current_exe().expect("this program")
}

impl Plan {
    /// Boots the guest and runs the commands.
    fn boot(&self, root: &Path) -> Result<Guest, Unfit> {
        let own = own();
        let program = own.file_name().expect("a name").to_string_lossy();
        let arguments = [
            self.name,
            &program,
            self.constrain,
            self.commands.trim_end(),
        ];
        let boot = Boot {
            arguments: arguments.map(String::from).to_vec(),
            also: root.display().to_string(),
            ..Boot::of(
                self.name,
                here().join("tests/vm_slurm/node.sh"),
                &format!("vm-slurm-{}", self.name),
            )
        };
        boot.booted(&Watch::usual(), self.commands)
    }
}

fn boot() -> Result<Vec<Guest>, Unfit> {
    if let Some(reason) = unwanted() {
        return Err(Unfit::Skip(reason));
    }
    let root = root()?;
    std::thread::scope(|scope| {
        let booting = PLANS
            .each_ref()
            .map(|plan| scope.spawn(|| plan.boot(&root)));
        booting
            .into_iter()
            .map(|guest| guest.join().unwrap())
            .collect()
    })
}

fn on_the_host() -> ExitCode {
    let guests = match boot() {
        Ok(guests) => guests,
        Err(unfit) => return unfit.end("vm_slurm"),
    };
    let mut tally = Tally::new();
    for (guest, plan) in guests.iter().zip(PLANS) {
        let said = guest.answer("checks");
        for (check, _, _) in binding::checks_on(plan.name) {
            let line = said
                .lines()
                .find(|line| line.contains(check))
                .unwrap_or("not run");
            let is_well = || assert!(line.starts_with("ok\t"), "in the guest: {line}");
            tally.run(&format!("{}: {check}", plan.name), is_well, String::new);
        }
        for (case, prove) in plan.cases {
            tally.run(
                &format!("{}: {case}", plan.name),
                || prove(guest),
                String::new,
            );
        }
        println!(
            "\nguest-{}, Slurm {}",
            plan.name,
            guest.answer("release").trim()
        );
        for (step, count) in plan.shown {
            // a step that failed has failed its case
            let _ = Tally::caught(|| println!("{}", table::table(guest, step, *count)));
        }
    }
    ExitCode::from(u8::from(tally.end() > 0))
}
