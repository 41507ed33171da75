//! `nic-placement verify`: the NICs, CPUs and memory that tasks use against their plan, and the bytes of each NIC.

mod look;
mod merge;
mod print;
mod rdma;
mod tasks;
mod watch;

pub(super) use look::environment_of_this_process;
#[cfg(test)]
pub(super) use print::metric;

use super::counters::{Counted, opener};
use super::exec::{become_as_it_is, is_first_on_node};
use super::misunderstood::misunderstood;
use super::page::Page;
use super::request::{NodeOptions, node_in_time, number};
use super::{Failure, beside, ending, output, tell, threads};
use clap::ValueHint;
use look::{Looks, Wanted, numbers_of_this_process};
use nic_placement_core::topology::Topology;
use nic_placement_program as sys;
use nic_placement_traffic::exposition;
use nic_placement_traffic::report::NodeReport;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use tasks::report;
use watch::{PAUSES, Watch};

/// which NICs, CPUs and memory tasks really use, and the bytes of each NIC
///
/// A task uses the NICs on which its queue pairs are ready to send (rdma-resource(8)); without any, those of its other queue
/// pairs or its registered memory, since the kernel does not tell UCX's connections on ConnectX cards. CPUs are each thread's,
/// memory is what each process wrote, variables are those of the program's start. The plan of an unplaced task is that for its
/// GPUs.
///
/// Without --job, --pid or CMD it looks at the tasks of all steps: root at all users', others at their own. The report on CMD
/// goes to stderr; of several tasks on a node the first (local id 0) reports on all, as long as its CMD runs.
///
/// Bytes are the whole node's, other jobs' too, and TCP's are counted apart. `no counter`: the driver counts none. A card that
/// does not answer in 2 seconds is left out.
#[derive(clap::Args)]
#[command(after_help = "\
Ends with, and after CMD as CMD ends:
  0  all tasks are as planned
  1  one uses another NIC or none, or its first thread has left its CPUs
  2  that cannot be told, a process was not looked at, or the command line was not understood
126 and 127 as env(1): CMD could not be started, was not found

Examples:
  nic-placement verify --job 1234
  nic-placement verify --watch
  srun --jobid 1234 --overlap --ntasks-per-node=1 nic-placement verify --job 1234 --brief
  srun -n16 --nic-placement nic-placement verify --bytes --json -o reports/ -- ./train
  nic-placement verify --merge reports/*.json")]
pub(super) struct VerifyOptions {
    /// a job, as 1234, or a step of it, as 1234.0
    #[arg(long, value_name = "JOB", value_parser = job, conflicts_with_all = ["pid", "command"])]
    job: Option<(u64, Option<u64>)>,
    /// a process, and what it started; again for more
    #[arg(long, value_name = "PID", action = clap::ArgAction::Append, conflicts_with = "command")]
    #[arg(value_parser = number(1, 1 << 22))]
    pid: Vec<u32>,
    /// add up the reports of several nodes instead; - for standard input
    ///
    /// output of --json, in any order, also mixed with other lines or labelled by srun -l.
    #[arg(long, conflicts_with_all = ["command", "json"], help_heading = "Several nodes")]
    merge: bool,
    /// what to add up
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// a program, which is run and looked at until it ends
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
    /// count the bytes of each NIC too: while CMD runs, else for 2 seconds
    #[arg(long)]
    bytes: bool,
    /// look again and again, count bytes, and tell what was seen at any time
    ///
    /// For so many seconds, or until the tasks have ended; else on a terminal until Ctrl-C, elsewhere for 2 seconds. A terminal shows
    /// each look.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, conflicts_with = "command")]
    #[arg(value_parser = number(1, 86_400))]
    watch: Option<Option<u32>>,
    /// a line for each job
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    brief: bool,
    /// one line of versioned JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// where to write the report: a file, or a folder, in which it is called after the node
    ///
    /// A path that ends with / is a folder, and is made if need be. A regular file is replaced when the new one is whole. Anything
    /// else, also a symbolic link, is refused. What cannot be written is said before CMD starts, and goes to stderr.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::AnyPath, help_heading = "Output")]
    output: Option<PathBuf>,
    /// write the number of tasks by job and verdict for Prometheus' node exporter too: a file that ends with .prom
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    textfile: Option<PathBuf>,
    #[command(flatten)]
    node: NodeOptions,
}

impl VerifyOptions {
    fn counts(&self) -> bool {
        self.bytes || self.watch.is_some()
    }
}

/// Cards answer in microseconds; CMD waits for them.
const BEFORE: Duration = Duration::from_secs(2);
const AFTER: Duration = Duration::from_secs(5);

fn job(text: &str) -> Result<(u64, Option<u64>), String> {
    let (job, step) = text
        .split_once('.')
        .map_or((text, None), |(job, step)| (job, Some(step)));
    let number = |text: &str| {
        text.parse()
            .map_err(|_| "expected a job as 1234, or a step as 1234.0".to_string())
    };
    Ok((number(job)?, step.map(number).transpose()?))
}

pub(super) fn run(options: &VerifyOptions, page: &mut Page) -> Result<(), Failure> {
    if options.merge {
        return merge::run(&options.files, options.output.as_deref(), page);
    }
    if let [first, ..] = &options.files[..] {
        let first = first.display();
        return Err(misunderstood(format!(
            "verify: `--` stands before the program, as `verify -- {first}`; `--merge {first}` adds up reports"
        )));
    }
    if let Some(file) = &options.textfile {
        super::refresh::textfile::check(file)?;
    }
    if !options.command.is_empty() {
        return beside_command(options);
    }
    let report = watch(options)?;
    deliver(options, &report, page)?;
    match report.verdict() {
        0 => Ok(()),
        status => Err(ending(status, "")),
    }
}

/// Looks once, or for as long as the options say.
fn watch(options: &VerifyOptions) -> Result<NodeReport, Failure> {
    let source = options.node.source();
    let open = opener(&source);
    let wanted = match (&options.job, &options.pid[..]) {
        (Some((job, step)), _) => Wanted::Job(*job, *step),
        (None, []) => Wanted::All,
        (None, pids) => Wanted::Processes(pids.to_vec()),
    };
    let node = node_in_time(source);
    let mut counted = options.counts().then(|| Counted::begin(&open, BEFORE));
    let mut lately = counted.clone();
    let mut looks = Looks::one(&open, &wanted);
    let node = node.recv_timeout(AFTER).ok().flatten();
    let node = node
        .ok_or("verify: the node was not read: its NICs do not answer, or nothing describes it")?;
    let is_shown = options.watch.is_some()
        && io::stdout().is_terminal()
        && !(options.json || options.output.is_some());
    let seconds = match options.watch {
        Some(Some(seconds)) => u64::from(seconds),
        Some(None) if is_shown => u64::MAX,
        _ if options.counts() => PAUSES[1].as_secs(),
        _ => 0,
    };
    let begun = Instant::now();
    let left = || Duration::from_secs(seconds).saturating_sub(begun.elapsed());
    for pause in PAUSES[..2].iter().chain(std::iter::repeat(&PAUSES[1])) {
        if left().is_zero() {
            break;
        }
        thread::sleep(left().min(*pause));
        let now = Looks::one(&open, &wanted);
        let have_ended =
            seconds != u64::MAX && now.processes.is_empty() && !looks.processes.is_empty();
        if is_shown {
            let (seconds, processes) = (begun.elapsed().as_secs(), now.processes.len());
            let readings = lately.as_mut().map(|lately| lately.readings(BEFORE));
            let mut page = Page::of(&io::stdout());
            page.line(format_args!(
                "verify: {seconds} s, processes of tasks: {processes}; Ctrl-C ends"
            ));
            print::report(&report(&open, Some(&node), &now, readings), &mut page);
            show(&page)?;
        }
        looks.add(now);
        if have_ended {
            break;
        }
    }
    let readings = counted.as_mut().map(|counted| counted.readings(AFTER));
    Ok(report(&open, Some(&node), &looks, readings))
}

/// Clears the terminal and prints the part of a page that fits on it, without a mode of the terminal that would outlive us.
fn show(page: &Page) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    let room = usize::from(sys::terminal_lines(stdout.as_fd()).unwrap_or(24)).max(4) - 2;
    let text = String::from_utf8_lossy(page.as_bytes());
    let mut lines = text.split_inclusive('\n');
    // ECMA-48: to the first place, and clear
    let mut screen = "\x1b[H\x1b[2J".to_string();
    screen.extend(lines.by_ref().take(room));
    match lines.count() {
        0 => {}
        more => screen += &format!("… {more} more lines: `verify --bytes` prints all\n"),
    }
    let written = stdout.write_all(screen.as_bytes());
    Ok(written
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("verify: cannot write: {error}"))?)
}

struct Begun {
    node: Receiver<Option<Topology>>,
    counted: Option<Counted>,
    watch: Option<Watch>,
}

fn beside_command(options: &VerifyOptions) -> Result<(), Failure> {
    if !is_first_on_node() {
        return Err(become_as_it_is(&options.command));
    }
    let source = options.node.source();
    let open = opener(&source);
    let before = || {
        warn_of_place(options);
        let counted = options.counts().then(|| Counted::begin(&open, BEFORE));
        Begun {
            counted,
            // it asks the cards too, and CMD does not wait for it
            node: node_in_time(source),
            watch: None,
        }
    };
    let started = |begun: Begun, pid| {
        let wanted = numbers_of_this_process()
            .step
            .map_or(Wanted::Processes(vec![pid]), Wanted::step);
        let open = Arc::clone(&open);
        let watch = Watch::begin(Arc::new(move || Looks::one(&open, &wanted)));
        Begun {
            watch: Some(watch),
            ..begun
        }
    };
    let ended = |begun: Begun, status| {
        let mut counted = begun.counted;
        let readings = counted.as_mut().map(|counted| counted.readings(AFTER));
        let node = begun.node.recv_timeout(AFTER).ok().flatten();
        let looks = begun.watch.map(Watch::end).unwrap_or_default();
        let mut report = report(&open, node.as_ref(), &looks, readings);
        report.status = Some(status);
        let stderr = io::stderr();
        let mut page = Page::of(&stderr);
        let delivered = deliver(options, &report, &mut page);
        // in one piece, which other tasks' lines do not divide
        let written = delivered.and_then(|()| Ok(stderr.lock().write_all(page.as_bytes())?));
        if let Err(why) = written {
            tell(&format!("verify: no report: {why}"));
        }
    };
    beside::run("verify", &options.command, before, started, ended)
}

/// Warns at the start that the report has no place, so that the user can end a job that is run for it. CMD itself may make
/// the place yet. A file system that does not answer delays no job.
fn warn_of_place(options: &VerifyOptions) {
    let Some(output) = options.output.clone() else {
        return;
    };
    let json = options.json;
    let answer = threads::answer_of(move || {
        output::file_for(&output, "", json).and_then(|file| output::could_write(&file))
    });
    let why = match answer.recv_timeout(BEFORE) {
        Ok(Ok(())) | Err(RecvTimeoutError::Disconnected) => return,
        Ok(Err(why)) => why,
        Err(RecvTimeoutError::Timeout) => format!(
            "the place of the report has not answered within {} s",
            BEFORE.as_secs()
        ),
    };
    tell(&format!(
        "verify: {why}: CMD runs; if the report still cannot be written at the end, it goes to stderr"
    ));
}

/// Writes the files that were asked for, and without `--output` the report to the page.
fn deliver(options: &VerifyOptions, report: &NodeReport, page: &mut Page) -> Result<(), Failure> {
    let print = |page: &mut Page| match (options.json, options.brief) {
        (true, _) => page.exact(&report.to_json()),
        (false, true) => print::brief(report, page),
        (false, false) => print::report(report, page),
    };
    match &options.output {
        None => print(page),
        Some(output) => {
            let mut text = Page::default();
            print(&mut text);
            let written = output::file_for(output, &report.node, options.json)
                .and_then(|file| output::write_own(&file, text.as_bytes()));
            // CMD has run, perhaps for days: its report is not lost for want of a place
            if let Err(why) = written {
                tell(&format!("verify: {why}: this is the report"));
                print(page);
            }
        }
    }
    if let Some(file) = &options.textfile {
        let text = exposition::write(&[print::metric(report)]);
        output::write(file, text.as_bytes())?;
    }
    Ok(())
}
