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
mod progress;
mod refresh;
mod request;
mod shortfalls;
mod show;
pub mod snapshot;
mod threads;
mod trial;
mod verify;

use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use nic_placement_program::terminal_size;
use page::{Colour, Page};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::thread;

const EVERYWHERE: &str = "Options of every command";

/// Makes the table of commands, each of which is called as its module, by their readers.
macro_rules! commands {
    ($($reader:literal: $($command:ident($module:ident::$options:ident))*;)*) => {
        const READERS: &[(&str, &[&str])] = &[$(($reader, &[$(stringify!($module)),*])),*];

        #[derive(Subcommand)]
        enum Command {
            $($($command($module::$options),)*)*
            #[command(hide = true)]
            Help(Help),
        }

        fn run(command: Command, page: &mut Page) -> Result<(), Failure> {
            match command {
                $($(Command::$command(options) => $module::run(&options, page),)*)*
                Command::Help(Help { command }) => help(command, page),
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
    disable_help_flag = true,
    disable_version_flag = true,
    disable_help_subcommand = true,
    hide_possible_values = true
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    /// colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        global = true
    )]
    #[arg(hide_possible_values = true, hide_default_value = true, help_heading = EVERYWHERE)]
    color: Colour,
    /// this text: -h in short, --help at length
    #[arg(short, long, action = ArgAction::Help, global = true, help_heading = EVERYWHERE)]
    help: Option<bool>,
    /// the version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// the help of a command
#[derive(clap::Args)]
struct Help {
    /// a command; without it the list of commands
    command: Option<OsString>,
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
    let table = table.mut_subcommands(|command| command.mut_args(of_usual_kind));
    let help = overview(&table);
    table.override_help(help)
}

/// A shell completes a `FILE`; a number may be negative, so that its parser tells the bounds.
fn of_usual_kind(argument: Arg) -> Arg {
    let is_option = !argument.is_positional() && argument.get_action().takes_values();
    let argument = argument.allow_negative_numbers(is_option);
    let names = argument.get_value_names().unwrap_or_default();
    match argument.get_value_hint() {
        ValueHint::Unknown if names.iter().any(|name| name == "FILE") => {
            argument.value_hint(ValueHint::FilePath)
        }
        _ => argument,
    }
}

/// The help of the tool itself: 24 rows at most, as a terminal has.
fn overview(table: &clap::Command) -> String {
    let about = |command: &clap::Command| {
        command
            .get_about()
            .map_or(String::new(), ToString::to_string)
    };
    let mut help = format!(
        "{}\nUsage: nic-placement [--color auto|always|never] COMMAND …, or -h, --help, -V, --version",
        about(table)
    );
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
    let is_terminal = stdout.is_terminal();
    let (page, result) = match parse(std::env::args_os()) {
        Ok(line) => {
            let variable = |name| std::env::var_os(name);
            let (no_color, terminal) = (variable("NO_COLOR"), variable("TERM"));
            let colour = line
                .color
                .is_on(is_terminal, no_color.as_deref(), terminal.as_deref());
            let [columns, _] = terminal_size(stdout.as_fd());
            let mut page = Page::new(colour, is_terminal).with_columns(columns);
            let result = match line.command {
                Some(command) => run(command, &mut page),
                None => help(None, &mut page),
            };
            (page, result)
        }
        Err(error) => {
            let mut page = Page::new(false, is_terminal);
            let result = misunderstood::answer(&error, &mut page);
            (page, result)
        }
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
            (
                failure.to_string(),
                ending.map_or(1, |ending| ending.status),
            )
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

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<CommandLine, clap::Error> {
    CommandLine::from_arg_matches(&command_line().try_get_matches_from(arguments)?)
}

/// As the command's `--help`.
fn help(command: Option<OsString>, page: &mut Page) -> Result<(), Failure> {
    let program = ["nic-placement".into()].into_iter();
    let asked = program.chain(command).chain(["--help".into()]);
    parse(asked).map_or_else(|answer| misunderstood::answer(&answer, page), |_| Ok(()))
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
