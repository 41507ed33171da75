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
#[path = "vm/boot.rs"]
mod boot;
#[path = "vm_slurm/cases_dgx.rs"]
mod cases_dgx;
#[path = "vm_slurm/cases_four_nodes.rs"]
mod cases_four_nodes;
#[path = "vm_slurm/machine.rs"]
mod machine;
#[path = "vm_slurm/report.rs"]
mod report;
#[path = "vm_slurm/table.rs"]
mod table;
#[path = "vm_slurm/task.rs"]
mod task;

use machine::{Machine, Unfit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// A case: its name is the sentence that it proves.
pub type Case = (&'static str, fn(&Machine));

/// `cases![a_first_case, a_second]` as a table.
macro_rules! cases {
    ($($case:ident),* $(,)?) => { &[$((stringify!($case), $case)),*] };
}
pub(crate) use cases;

/// A machine and what is done there.
struct Plan {
    name: &'static str,
    /// ConstrainDevices and ConstrainCores
    constrain: &'static str,
    /// what is run
    commands: &'static [(&'static str, &'static str)],
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
        _ => {
            return on_the_host(
                arguments
                    .into_iter()
                    .filter(|word| !word.starts_with('-'))
                    .collect(),
            );
        }
    }
    ExitCode::SUCCESS
}

fn boot() -> Result<Vec<Machine>, Unfit> {
    if let Some(reason) = boot::unwanted() {
        return Err(Unfit::Skip(reason));
    }
    let root = machine::root()?;
    let booting = PLANS.map(|plan| {
        let root = root.clone();
        std::thread::spawn(move || Machine::boot(plan.name, plan.constrain, plan.commands, &root))
    });
    booting
        .into_iter()
        .map(|machine| machine.join().unwrap())
        .collect()
}

fn on_the_host(words: Vec<String>) -> ExitCode {
    let machines = match boot() {
        Ok(machines) => machines,
        Err(Unfit::Skip(reason)) => {
            println!("skipped: {reason}");
            return ExitCode::SUCCESS;
        }
        Err(Unfit::Broken(reason)) => {
            eprintln!("vm_slurm: {reason}");
            return ExitCode::FAILURE;
        }
    };
    let (mut passed, mut failed) = (0, 0);
    let mut run = |name: &str, case: &dyn Fn()| {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            let ok = catch_unwind(AssertUnwindSafe(case)).is_ok();
            println!("{} {name}", if ok { "ok     " } else { "FAILED " });
            if ok { passed += 1 } else { failed += 1 }
        }
    };
    for (
        machine,
        Plan {
            name, cases, shown, ..
        },
    ) in machines.iter().zip(PLANS)
    {
        let said = machine.answer("checks");
        for (check, _, _) in binding::checks_on(name) {
            run(&format!("{name}: {check}"), &|| {
                let line = said
                    .lines()
                    .find(|line| line.contains(check))
                    .unwrap_or("not run");
                assert!(line.starts_with("ok\t"), "in the guest: {line}");
            });
        }
        for (case, prove) in cases {
            run(&format!("{name}: {case}"), &|| prove(machine));
        }
        println!("\nguest-{name}, Slurm {}", machine.answer("release").trim());
        for (step, count) in shown {
            // a step that failed has failed its case
            let _ = catch_unwind(AssertUnwindSafe(|| {
                println!("{}", table::table(machine, step, *count))
            }));
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
