//! The admin's tool: shows, plans and records without Slurm what the plugin does with it.
//!
//! The command line is one table, the types that derive `clap`'s traits here and in each command's file: parser, help,
//! completions and the man page are made from it.
#![forbid(unsafe_code)]

mod agree;
#[cfg(test)]
mod alerts;
mod audit;
mod beside;
mod check;
mod completions;
mod counters;
mod devices;
mod drawing;
mod exec;
mod explain;
mod fabric;
mod import;
mod input;
mod machines;
mod map;
mod measure;
mod misunderstood;
mod output;
mod page;
mod plan;
mod processes;
mod refresh;
mod request;
mod shortfalls;
mod show;
pub mod snapshot;
mod threads;
mod top;
mod trial;
mod verify;
mod watch;

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use nic_placement_program::terminal_columns;
use page::{Colour, Page};
use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

/// The heading of the options that every command has.
const EVERYWHERE: &str = "Options of every command";

/// which NIC, CPUs and memory each GPU task gets, and why
///
/// Shows, plans and records, without Slurm, what the plugin nic-placement does. `exec` does the same for a launcher's
/// processes. The same code decides. The tool needs no privileges. It changes nothing on the node, except that `refresh`
/// writes the node file.
#[derive(Parser)]
#[command(
    name = "nic-placement",
    version,
    args_override_self = true,
    disable_help_flag = true
)]
#[command(
    disable_version_flag = true,
    disable_help_subcommand = true,
    hide_possible_values = true
)]
#[command(after_help = "The plugin's own words: srun --nic-placement=help")]
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

#[derive(Subcommand)]
enum Command {
    Show(show::ShowOptions),
    Plan(plan::PlanCommandOptions),
    Explain(explain::ExplainOptions),
    Exec(exec::ExecOptions),
    Check(check::CheckOptions),
    Audit(audit::AuditOptions),
    Agree(agree::AgreeOptions),
    Fabric(fabric::FabricOptions),
    Snapshot(snapshot::SnapshotOptions),
    Refresh(refresh::RefreshOptions),
    Verify(verify::VerifyOptions),
    Measure(measure::MeasureOptions),
    Top(top::TopOptions),
    Trial(trial::TrialOptions),
    Map(map::MapOptions),
    Import(import::ImportOptions),
    Machines(machines::MachinesOptions),
    Completions(completions::CompletionsOptions),
    Help(Help),
}

/// the help of a command
#[derive(clap::Args)]
struct Help {
    /// a command; without it this list of commands
    command: Option<OsString>,
}

/// The end of a command: one line on stderr, and the status 1, unless it is an [`Ending`].
type Failure = Box<dyn std::error::Error>;

/// An end with another status than 1.
#[derive(Debug)]
struct Ending {
    status: u8,
    /// empty if stdout, or the program that ran, has said it
    said: String,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl std::error::Error for Ending {}

pub fn command_line() -> clap::Command {
    CommandLine::command()
}

/// Runs the tool: 0 done, 1 could not, 2 not understood.  `check`, `verify`, `exec` and `measure` have more, or end as
/// their program does.
pub fn main() -> ExitCode {
    let is_terminal = io::stdout().is_terminal();
    let columns = terminal_columns(io::stdout().as_fd());
    let (page, result) = match parse(std::env::args_os()) {
        Ok(line) => {
            let variable = |name| std::env::var_os(name);
            let (no_color, terminal_type) = (variable("NO_COLOR"), variable("TERM"));
            let colour =
                line.color
                    .is_on(is_terminal, no_color.as_deref(), terminal_type.as_deref());
            let mut page = Page::new(colour, is_terminal).with_columns(columns);
            let result = run(line.command, &mut page);
            (page, result)
        }
        Err(error) => {
            let mut page = Page::new(false, is_terminal);
            let result = misunderstood::answer(&error, &mut page);
            (page, result)
        }
    };
    let mut stdout = io::stdout();
    let written = stdout
        .write_all(page.as_bytes())
        .and_then(|()| stdout.flush());
    match (result, written) {
        (Ok(()), Ok(())) => ExitCode::SUCCESS,
        // a reader that has seen enough (`| head`) is no failure
        (Ok(()), Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        (Ok(()), Err(error)) => {
            tell(&format!("cannot write: {error}"));
            ExitCode::FAILURE
        }
        (Err(failure), _) => {
            let said = failure.to_string();
            if !said.is_empty() {
                tell(&said);
            }
            ExitCode::from(
                failure
                    .downcast_ref()
                    .map_or(1, |Ending { status, .. }| *status),
            )
        }
    }
}

fn tell(text: &str) {
    // where stderr is closed the line is lost: there is no other place for it
    let _ = writeln!(io::stderr(), "nic-placement: {}", page::shown(text));
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<CommandLine, clap::Error> {
    CommandLine::from_arg_matches(&command_line().try_get_matches_from(arguments)?)
}

fn run(command: Option<Command>, page: &mut Page) -> Result<(), Failure> {
    match command {
        Some(Command::Show(options)) => show::run(&options, page),
        Some(Command::Plan(options)) => plan::run(&options, page),
        Some(Command::Explain(options)) => explain::run(&options, page),
        Some(Command::Exec(options)) => exec::run(&options),
        Some(Command::Check(options)) => check::run(&options, page),
        Some(Command::Audit(options)) => audit::run(&options, page),
        Some(Command::Agree(options)) => agree::run(&options, page),
        Some(Command::Fabric(options)) => fabric::run(&options, page),
        Some(Command::Snapshot(options)) => snapshot::run(&options, page),
        Some(Command::Refresh(options)) => refresh::run(&options, page),
        Some(Command::Verify(options)) => verify::run(&options, page),
        Some(Command::Measure(options)) => measure::run(&options, page),
        Some(Command::Top(options)) => top::run(&options, page),
        Some(Command::Trial(options)) => trial::run(&options, page),
        Some(Command::Map(options)) => map::run(&options, page),
        Some(Command::Import(options)) => import::run(&options, page),
        Some(Command::Machines(options)) => machines::run(&options, page),
        Some(Command::Completions(options)) => completions::run(&options, page),
        Some(Command::Help(Help { command })) => help(command, page),
        None => help(None, page),
    }
}

/// The help of a command is the answer to its `--help`.
fn help(command: Option<OsString>, page: &mut Page) -> Result<(), Failure> {
    let asked = ["nic-placement".into()]
        .into_iter()
        .chain(command)
        .chain(["--help".into()]);
    match parse(asked) {
        Ok(_) => Ok(()),
        Err(answer) => misunderstood::answer(&answer, page),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_commands_is_consistent() {
        command_line().debug_assert();
    }
}
