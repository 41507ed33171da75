//! `nic-placement measure`: runs a program and says by which NICs the node's bytes left meanwhile, beside the plan.
#![forbid(unsafe_code)]

mod node;
mod print;

pub(super) use print::figure;

use super::counters::opener;
use super::exec::{become_as_it_is, is_first_on_node};
use super::input::{open, or_stdin};
use super::misunderstood::misunderstood;
use super::page::Page;
use super::request::NodeOptions;
use super::{Failure, beside, output, tell, threads};
use clap::ValueHint;
use nic_placement_fleet::audit::stream::{self, StreamPiece};
use nic_placement_program as sys;
use nic_placement_traffic::merge::{self, Merged};
use nic_placement_traffic::report::Measurement;
use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// run a program and count the bytes of each NIC meanwhile
///
/// Reads the counters of all NICs, runs CMD, reads them again, and says on stderr what left by which NIC: by those of the
/// tasks' GPUs, by others, by none. The plan is what the plugin published in the tasks of this step on this node; if no task
/// was placed, it is what `plan` says of all GPUs. CMD has its own input, output, and signals, and its end is ours. Of several
/// tasks on a node the first, of local id 0, measures, for as long as its own CMD runs; the others become CMD.
///
/// Counters count for the whole node, other jobs too. The driver decides what is counted: `no counter` stands where it counts
/// no bytes. TCP is counted by the interface, beside RDMA. A card that does not answer in 2 seconds is left out, and CMD starts.
#[derive(clap::Args)]
#[command(after_help = "\
Ends as CMD ends, with 128 and its number where a signal ended CMD. Before that:
  126  CMD was found and could not be started
  127  CMD was not found
  2    the command line was not understood

Examples:
  srun -N2 --ntasks-per-node=1 nic-placement measure -- ./launcher
  srun -n16 --nic-placement nic-placement measure --json -o reports/ -- ./train
  nic-placement measure --merge reports/*.json")]
pub(super) struct MeasureOptions {
    /// add up the reports of several nodes instead; - for standard input
    ///
    /// What --json has written, in any order, also mixed with other lines or labelled by srun -l.
    #[arg(long, conflicts_with = "command", help_heading = "Several nodes")]
    merge: bool,
    /// what to add up
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// the program and its arguments
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
    /// one line of versioned JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// where to write the report, instead of stderr: a file, or a folder, in which it is called after the node
    ///
    /// A path that ends with / is a folder, and is made if need be. A regular file is replaced when the new one is whole. Anything
    /// else, also a symbolic link, is refused. What cannot be written is said before CMD starts, and goes to stderr.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::AnyPath, help_heading = "Output")]
    output: Option<PathBuf>,
    #[command(flatten)]
    node: NodeOptions,
}

pub(super) fn run(options: &MeasureOptions, page: &mut Page) -> Result<(), Failure> {
    if options.merge {
        return merge(options, page);
    }
    if let [first, ..] = options.files.as_slice() {
        return Err(misunderstood(format!(
            "measure: `--` stands before the program, as `measure -- {0}`; `--merge {0}` adds up reports",
            first.display()
        )));
    }
    if options.command.is_empty() {
        return Err(misunderstood(
            "measure: expected `-- CMD`, or `--merge FILE…`",
        ));
    }
    if !is_first_on_node() {
        return Err(become_as_it_is(&options.command));
    }
    let source = options.node.source();
    let open = opener(&source);
    let before = || {
        warn_of_place(options);
        node::Before::read(open, source)
    };
    let started = |before: node::Before, _| before.while_it_runs();
    let ended = |watched: node::Watched, status| {
        if let Err(why) = deliver(options, &watched.report(status)) {
            tell(&format!("measure: no report: {why}"));
        }
    };
    beside::run("measure", &options.command, before, started, ended)
}

/// Warns at the start that the report has no place, so that the user can end a job that is run for it.  CMD itself may
/// make the place yet.
///
/// A file system that does not answer holds no job up.
fn warn_of_place(options: &MeasureOptions) {
    const PATIENCE: Duration = Duration::from_secs(2);
    let Some(output) = options.output.clone() else {
        return;
    };
    let json = options.json;
    let answer = threads::answer_of(move || {
        output::file_for(&output, "", json).and_then(|file| output::could_write(&file))
    });
    let why = match answer.recv_timeout(PATIENCE) {
        Ok(Ok(())) | Err(RecvTimeoutError::Disconnected) => return,
        Ok(Err(why)) => why,
        Err(RecvTimeoutError::Timeout) => {
            format!(
                "the place of the report has not answered within {} s",
                PATIENCE.as_secs()
            )
        }
    };
    tell(&format!(
        "measure: {why}: CMD runs, and if that stays so, the report goes to stderr"
    ));
}

fn deliver(options: &MeasureOptions, report: &Measurement) -> Result<(), String> {
    let text = |page: &mut Page| match options.json {
        true => page.exact(&report.to_json()),
        false => print::report(report, page),
    };
    if let Some(output) = &options.output {
        let mut page = Page::new(false, false);
        text(&mut page);
        let written = output::file_for(output, &report.node, options.json)
            .and_then(|file| output::write_own(&file, page.as_bytes()));
        match written {
            Ok(()) => return Ok(()),
            // CMD has run, perhaps for days: what was counted is not lost for want of a place
            Err(why) => tell(&format!("measure: {why}: this is the report")),
        }
    }
    let stderr = io::stderr();
    let columns = sys::terminal_columns(stderr.as_fd());
    let mut page = Page::new(false, stderr.is_terminal()).with_columns(columns);
    text(&mut page);
    // in one piece, which other tasks' lines do not divide
    stderr
        .lock()
        .write_all(page.as_bytes())
        .map_err(|error| error.to_string())
}

fn merge(options: &MeasureOptions, page: &mut Page) -> Result<(), Failure> {
    let (mut merged, mut passed_over) = (Merged::default(), 0usize);
    let files = or_stdin(&options.files);
    for path in &files {
        add_all(open(path)?, &mut merged, &mut passed_over)
            .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    }
    if merged.nodes == 0 {
        let place = match files.as_slice() {
            [one] => format!("`{}`", one.display()),
            several => format!("{} files", several.len()),
        };
        return Err(
            format!("measure: no report in {place}: `measure --json -- CMD` prints one").into(),
        );
    }
    if passed_over > 0 {
        tell(&format!(
            "note: {passed_over} other pieces of text were passed over"
        ));
    }
    let mut text = Page::new(false, false);
    let to = if options.output.is_some() {
        &mut text
    } else {
        page
    };
    match options.json {
        true => to.exact(&merged.to_json()),
        false => print::merged(&merged, to),
    }
    match &options.output {
        Some(output) => Ok(output::write_own(output, text.as_bytes())?),
        None => Ok(()),
    }
}

fn add_all(
    input: Box<dyn BufRead>,
    merged: &mut Merged,
    passed_over: &mut usize,
) -> io::Result<()> {
    let mut failure = None;
    let mut take = |(_, piece): StreamPiece<'_>| {
        let added = piece
            .map_err(str::to_string)
            .and_then(merge::read)
            .and_then(|report| {
                merged
                    .add(report)
                    .map_err(|why| failure.insert(why).clone())
            });
        *passed_over += usize::from(added.is_err());
    };
    stream::read(input, &mut take)?;
    failure.map_or(Ok(()), |why| Err(io::Error::other(why)))
}
