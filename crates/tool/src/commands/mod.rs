//! The admin's tool: shows, plans and records without Slurm what the plugin does with it.
//!
//! The types that derive `clap`'s traits here and in each command's file are one table, from which parser, help, completions and
//! the man page are made.

mod agree;
mod audit;
mod beside;
mod check;
mod completions;
mod counters;
mod devices;
mod drawing;
mod exec;
mod fabric;
mod import;
mod input;
mod machines;
mod map;
mod misunderstood;
mod output;
mod page;
mod plan;
mod refresh;
mod request;
mod shortfalls;
mod show;
pub mod snapshot;
mod threads;
mod trial;
mod variables;
mod verify;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use page::Page;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;

/// Makes the table of commands, each of which is called as its module, by their readers.
macro_rules! commands {
    ($($reader:literal: $($command:ident($module:ident::$options:ident))*;)*) => {
        const READERS: &[(&str, &[&str])] = &[$(($reader, &[$(stringify!($module)),*])),*];

        #[derive(Subcommand)]
        enum Command {
            $($($command($module::$options),)*)*
        }

        fn run(command: Command, page: &mut Page) -> Result<(), Failure> {
            match command {
                $($(Command::$command(options) => $module::run(&options, page),)*)*
            }
        }
    };
}

commands! {
    "A job":
        Show(show::ShowOptions)
        Plan(plan::PlanCommandOptions)
        Exec(exec::ExecOptions)
        Map(map::MapOptions)
        Verify(verify::VerifyOptions);
    "A node":
        Check(check::CheckOptions)
        Refresh(refresh::RefreshOptions)
        Import(import::ImportOptions)
        Snapshot(snapshot::SnapshotOptions)
        Machines(machines::MachinesOptions)
        Completions(completions::CompletionsOptions);
    "A cluster":
        Audit(audit::AuditOptions)
        Agree(agree::AgreeOptions)
        Fabric(fabric::FabricOptions)
        Trial(trial::TrialOptions);
}

/// which NIC, CPUs and memory each GPU task gets, and why
///
/// Shows, plans and records, without Slurm, what the plugin nic-placement does. `exec` does the same for a launcher's
/// processes. The same code decides. The tool needs no privileges. It changes nothing on the node, except that `refresh`
/// writes the node file and what stands beside it, and `check --health` as root leaves a lock file there.
#[derive(Parser)]
#[command(
    name = "nic-placement",
    version,
    args_override_self = true,
    arg_required_else_help = true,
    hide_possible_values = true
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

/// The end of a command: one line on stderr, and the status 1, unless it is an [`Ending`].
type Failure = Box<dyn std::error::Error>;

#[derive(Debug)]
struct Ending {
    status: u8,
    said: String,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl std::error::Error for Ending {}

/// An end with this status; quiet if stdout, or the program that ran, has said why.
fn ending(status: u8, said: impl Into<String>) -> Failure {
    let said = said.into();
    Ending { status, said }.into()
}

pub fn command_line() -> clap::Command {
    let table = CommandLine::command();
    let help = overview(&table);
    table.override_help(help)
}

/// The help of the tool itself: 24 rows at most, as a terminal has.
fn overview(table: &clap::Command) -> String {
    let about = |of: &clap::Command| of.get_about().map_or(String::new(), ToString::to_string);
    let usage = "Usage: nic-placement COMMAND …, or -h, --help, -V, --version";
    let mut help = format!("{}\n{usage}", about(table));
    for (reader, names) in READERS {
        help += &format!("\n{reader}:");
        for command in names.iter().filter_map(|name| table.find_subcommand(name)) {
            help += &format!("\n  {:<11}  {}", command.get_name(), about(command));
        }
    }
    help + "\n\n\
        nic-placement COMMAND --help says more of one. The plugin's own words: srun --nic-placement=help\n\
        The node stays as it is, but for refresh, and the lock file that check --health leaves as root"
}

/// Runs the tool: 0 done, 1 could not, 2 not understood. `check`, `verify` and `exec` have more, or end as their program does.
pub fn main() -> ExitCode {
    /// More than any command needs: 60 KiB, and 300 KiB without optimisation.
    const STACK: usize = 512 << 10;
    let limit = nic_placement_sys::stack_limit();
    if limit >= STACK as u64 {
        return answer();
    }
    // `RLIMIT_STACK` bounds the first thread's stack alone; execve(2) keeps this one's mask and memory policy
    match thread::Builder::new().stack_size(STACK).spawn(answer) {
        Ok(thread) => thread.join().unwrap_or(ExitCode::FAILURE),
        Err(error) => {
            let kib = limit / 1024;
            tell(&format!(
                "the stack may have {kib} KiB (`ulimit -s`), and no thread with more can be started: {error}"
            ));
            ExitCode::FAILURE
        }
    }
}

fn answer() -> ExitCode {
    let stdout = io::stdout();
    let mut page = Page::of(&stdout);
    let line = command_line().try_get_matches();
    let result = match line.and_then(|line| CommandLine::from_arg_matches(&line)) {
        Ok(line) => run(line.command, &mut page),
        Err(error) => misunderstood::answer(&error, &mut page),
    };
    let mut stdout = stdout.lock();
    let written = stdout.write_all(page.as_bytes());
    let (said, status) = match (result, written.and_then(|()| stdout.flush())) {
        (Ok(()), Ok(())) => return ExitCode::SUCCESS,
        // a reader that has seen enough (`| head`) is no failure
        (Ok(()), Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        (Ok(()), Err(error)) => (format!("cannot write: {error}"), 1),
        (Err(failure), _) => {
            let ending: Option<&Ending> = failure.downcast_ref();
            let status = ending.map_or(1, |ending| ending.status);
            (failure.to_string(), status)
        }
    };
    if !said.is_empty() {
        tell(&said);
    }
    ExitCode::from(status)
}

fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "nic-placement: {}", page::shown(text));
}

/// Items by their keys, in the order of each key's first.
fn grouped<K: Ord + Clone, T>(items: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let (mut places, mut groups) = (BTreeMap::new(), Vec::<(K, Vec<T>)>::new());
    for (key, item) in items {
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

#[cfg(test)]
mod tests;
