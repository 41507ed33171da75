//! `nic-placement exec`: places a process that a launcher started, and becomes its program.

mod place;

use super::misunderstood::misunderstood;
use super::page::Page;
use super::request::{Arguments, NodeOptions, number, words_help};
use super::variables::ProgramEnvironment;
use super::{Failure, ending};
use clap::ValueHint;
use log::{Level, LevelFilter, Log, Metadata, Record};
use nic_placement_core::config::{Admin, Words};
use nic_placement_core::diagnostic::line::one_line;
use nic_placement_core::placement::Strictness;
use nic_placement_core::plan::Wish;
use nic_placement_launch::launched::{self, PARTITION, rank};
use nic_placement_launch::plugstack;
use nic_placement_launch::step::MAX_TASKS;
use nic_placement_process::admin::{Found, Off};
use nic_placement_program::become_program;
use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// start a program with its NIC, CPUs and memory, in a process of a launcher
///
/// For processes that torchrun, mpirun or a container start inside a task, or without Slurm. It finds this process among the
/// node's and its GPU, sets the plugin's variables, binds CPUs and memory inside what it was given, and becomes CMD. In a
/// placed step it narrows what the task has. Your own variables stay. If anything goes wrong, CMD starts as it would have
/// without.
///
/// A process that sees one GPU has that one. Of several it takes, by convention, that of its number on the node: --local-rank,
/// else LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, MV2_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, FLUX_TASK_LOCAL_ID,
/// PALS_LOCAL_RANKID, PMI_LOCAL_RANK, SLURM_LOCALID. If there are more processes than GPUs, or only one, it takes the NICs of
/// all.
#[derive(clap::Args)]
#[command(after_help = "\
Ends as CMD ends. Before that:
  125  a strict word was given, and the placement could not be had
  126  CMD was found and could not be started
  127  CMD was not found
  2    the command line was not understood

Examples:
  torchrun --no-python --nproc-per-node=8 nic-placement exec -- python train.py
  mpirun --bind-to none nic-placement exec rail,strict -- ./app
  nic-placement exec verbose,dry-run -- true")]
pub(super) struct ExecOptions {
    /// words of srun's option, as rail,strict (default: those of SLURM_NIC_PLACEMENT, else closest)
    #[arg(value_name = "WORDS", long_help = words_help("those of SLURM_NIC_PLACEMENT, else closest", &["help"]))]
    words: Option<String>,
    /// the program and its arguments
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
    /// the number of this process on its node, from 0, whatever its launcher says
    #[arg(long, value_name = "N", help_heading = PROCESS)]
    #[arg(value_parser = number(0, MAX_TASKS - 1))]
    local_rank: Option<u32>,
    /// how many processes the launcher started on this node
    #[arg(long, value_name = "N", help_heading = PROCESS)]
    #[arg(value_parser = number(1, MAX_TASKS))]
    local_size: Option<u32>,
    #[command(flatten)]
    node: NodeOptions,
    /// bind by --machine or --topology as if it were read from this node
    #[arg(long, help_heading = "Which node (without one of these, this one)")]
    trust_topology: bool,
    #[command(flatten)]
    arguments: Arguments,
    /// this file, with what it includes, instead of the one that Slurm reads: the admin's arguments hold here too
    #[arg(long, value_name = "FILE", help_heading = "What is asked for")]
    plugstack: Option<PathBuf>,
}

const PROCESS: &str = "Which process";

/// A strict word asked for a placement that could not be had.
const NOT_HAD: u8 = 125;
const NOT_STARTED: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Returns only if the program was not started.
pub(super) fn run(options: &ExecOptions, _: &mut Page) -> Result<(), Failure> {
    let words = options.words.as_deref().map(Words::parse).transpose();
    let words = words.map_err(misunderstood)?;
    if words.as_ref().is_some_and(|words| words.help) {
        return Err(misunderstood(
            "`help` starts nothing: `nic-placement exec --help`",
        ));
    }
    options.arguments.add_to(&mut Admin::default())?;
    // it holds whatever goes wrong below
    let strictness = words.as_ref().and_then(|words| words.strictness);
    let strict = Cell::new(strictness.unwrap_or_default());
    let name = name_of(&options.command);
    let mut environment = ProgramEnvironment::of_this_process();
    let before = environment.clone();
    std::panic::set_hook(Box::new(|panic| {
        say(&format!("bug: {panic}; please report this"));
    }));
    listen(true);
    let failures = catch_unwind(AssertUnwindSafe(|| {
        let (wish, off, knows_admin) = intent(options, words.as_ref(), &environment)?;
        let is_placed = wish.places() && off.is_none();
        strict.set(if is_placed && !wish.dry_run {
            wish.strictness
        } else {
            Strictness::BestEffort
        });
        if let Some(why) = off.as_ref().filter(|_| wish.places()) {
            say(&format!("`{name}` runs without placement: {why}"));
        }
        if !is_placed {
            return Ok(Vec::new());
        }
        place::place(options, wish, knows_admin, &mut environment)
    }));
    let failures = match failures {
        Ok(Ok(failures)) => failures,
        Ok(Err(failure)) => {
            log::warn!("{failure}; nothing is set");
            vec![failure.to_string()]
        }
        Err(_) => {
            environment = before.clone();
            vec!["a bug".to_string()]
        }
    };
    let (word, is_strict) = (strict.get(), strict.get() > Strictness::BestEffort);
    if is_strict && !failures.is_empty() {
        let failures = failures.join("; ");
        let said = format!("`{name}` is not started, as `{word}` asks: {failures}");
        return Err(ending(NOT_HAD, said));
    }
    let mut error = become_program(&options.command, environment.entries());
    // execve(2) bounds the bytes of arguments and variables
    if error.kind() == io::ErrorKind::ArgumentListTooLong && !is_strict {
        say(&format!(
            "`{name}` gets no variables of ours: there is no room: {error}"
        ));
        error = become_program(&options.command, before.entries());
    }
    Err(not_started(&options.command, &error))
}

/// With the status of env(1).
pub(super) fn not_started(command: &[OsString], error: &io::Error) -> Failure {
    let status = if error.kind() == io::ErrorKind::NotFound {
        NOT_FOUND
    } else {
        NOT_STARTED
    };
    let name = name_of(command);
    ending(status, format!("cannot start `{name}`: {error}"))
}

/// Becomes the program, which is not placed; returns only if that fails.
pub(super) fn become_as_it_is(command: &[OsString]) -> Failure {
    let error = become_program(command, ProgramEnvironment::of_this_process().entries());
    not_started(command, &error)
}

/// True for the first process of a launcher on this node, and without a launcher.
pub(super) fn is_first_on_node() -> bool {
    rank::find(&ProgramEnvironment::of_this_process().values(), None, None).is_first()
}

fn name_of(command: &[OsString]) -> Cow<'_, str> {
    let name = command.first();
    name.map_or("".into(), |name| name.to_string_lossy())
}

/// The wish, the reason why no process is placed here, and true if the admin's line of plugstack.conf is known. Words beat
/// the environment, as srun's option does.
fn intent(
    options: &ExecOptions,
    words: Option<&Words>,
    environment: &ProgramEnvironment,
) -> Result<(Wish, Option<Off>, bool), Failure> {
    let values = environment.values();
    let partition = values.get(PARTITION).map(String::as_str);
    let (found, knows_admin) = plugstack::admin(options.plugstack.as_deref(), partition, |name| {
        std::env::var_os(name)
    });
    let Found { mut admin, off, .. } = found;
    admin.trust_topology |= options.trust_topology;
    for doubt in options.arguments.add_to(&mut admin)? {
        say(&doubt.to_string());
    }
    let mut wish = launched::wish(admin, &values, words);
    wish.wordless = !wish.reports();
    Ok((wish, off, knows_admin))
}

/// True if this process reports for all of its node.
static TELLS: AtomicBool = AtomicBool::new(false);

struct ToStderr;

impl Log for ToStderr {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() <= Level::Warn && TELLS.load(Ordering::Relaxed)
    }

    fn log(&self, record: &Record) {
        if self.enabled(record.metadata()) {
            say(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// A line on stderr, in one piece: several processes write to one terminal.
fn say(text: &str) {
    let line = one_line(&format!("nic-placement: {text}")).into_owned() + "\n";
    let _ = io::stderr().write_all(line.as_bytes());
}

fn listen(tells: bool) {
    TELLS.store(tells, Ordering::Relaxed);
    if log::set_logger(&ToStderr).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}
