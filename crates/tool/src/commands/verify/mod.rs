//! `nic-placement verify`: what each process of a job does, against the plan of its task.
#![forbid(unsafe_code)]

mod look;
mod print;
mod rdma;
mod tasks;

pub(super) use print::{metric, summary};
pub(super) use tasks::{Looks, own, verdicts};

use super::counters::{Open, opener};
use super::exec::{become_as_it_is, is_first_on_node};
use super::page::Page;
use super::processes::numbers_of_this_process;
use super::request::{NodeOptions, node_in_time, number};
use super::watch::{PAUSES, Seen, Watch};
use super::{Ending, Failure, beside, output, tell};
use clap::ValueHint;
use look::Wanted;
use nic_placement_core::config::NodeSource;
use nic_placement_core::topology::Topology;
use nic_placement_program as sys;
use nic_placement_traffic::exposition;
use nic_placement_traffic::verify::{FORMAT, NodeVerdicts, VERSION, status};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// which NICs, CPUs and memory the tasks of a job really use, against their plan
///
/// The NICs are those on which the kernel says that a task's processes have queue pairs (rdma-resource(8)). A NIC is used where
/// one is connected and ready to send; of a task that has none such, where it has others, or registered memory: the connections
/// of UCX on ConnectX cards are not told. Of an unplaced task the plan is that for its GPUs. The CPUs are those of each thread,
/// the memory is what each process wrote itself, and the variables are as they were when the program started.
///
/// Without --job, --pid or CMD all tasks of steps are looked at. Root sees all, a user those of one's own.
#[derive(clap::Args)]
#[command(after_help = "\
Ends with, and after CMD as CMD ends:
  0  all tasks are as planned
  1  one uses another NIC or none, or its first thread has left its CPUs
  2  that cannot be told, or the command line was not understood

Examples:
  nic-placement verify --job 1234
  srun --jobid 1234 --overlap --ntasks-per-node=1 nic-placement verify --job 1234 --brief
  srun -n16 --nic-placement nic-placement verify -- ./train")]
pub(super) struct VerifyOptions {
    /// a job, as 1234, or a step of it, as 1234.0
    #[arg(long, value_name = "JOB", value_parser = job, conflicts_with_all = ["pid", "command"])]
    job: Option<(u64, Option<u64>)>,
    /// a process, and what it started; again for more
    #[arg(long, value_name = "PID", action = clap::ArgAction::Append, conflicts_with = "command")]
    #[arg(allow_negative_numbers = true, value_parser = number(1, 1 << 22))]
    pid: Vec<u32>,
    /// a program, which is run and looked at until it ends; of several tasks on a node the first looks at all
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
    /// look again and again for so many seconds, or until the tasks have ended, and tell what was seen at any time
    #[arg(long, value_name = "SECONDS", conflicts_with = "command")]
    #[arg(allow_negative_numbers = true, value_parser = number(1, 86_400))]
    watch: Option<u32>,
    /// a line for each job
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    brief: bool,
    /// one line of versioned JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// write the number of tasks by job and verdict for Prometheus' node exporter too: a file that ends with .prom
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    textfile: Option<PathBuf>,
    #[command(flatten)]
    node: NodeOptions,
}

/// Time that the node is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

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
    if let Some(file) = &options.textfile {
        super::refresh::textfile::check(file)?;
    }
    let source = options.node.source();
    let open = opener(&source);
    if !options.command.is_empty() {
        return beside_command(options, open, source);
    }
    let wanted = match (&options.job, &options.pid[..]) {
        (Some((job, step)), _) => Wanted::Job(*job, *step),
        (None, []) => Wanted::All,
        (None, pids) => Wanted::Processes(pids.to_vec()),
    };
    let end = Instant::now() + Duration::from_secs(options.watch.unwrap_or(0).into());
    let mut looks = Looks::one(&open, &wanted);
    for pause in PAUSES[..2].iter().chain(std::iter::repeat(&PAUSES[1])) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        thread::sleep(left.min(*pause));
        let now = Looks::one(&open, &wanted);
        let have_ended = now.is_empty() && !looks.is_empty();
        looks.add(now);
        if have_ended {
            break;
        }
    }
    let node = node(source)
        .ok_or("verify: the node was not read: its NICs do not answer, or nothing describes it")?;
    let report = report(&open, node, &looks);
    put(options, &report, page)?;
    match status(&report.tasks) {
        0 => Ok(()),
        status => Err(Ending {
            status,
            said: String::new(),
        }
        .into()),
    }
}

fn beside_command(options: &VerifyOptions, open: Open, source: NodeSource) -> Result<(), Failure> {
    if !is_first_on_node() {
        return Err(become_as_it_is(&options.command));
    }
    let started = |(), pid| {
        let wanted = match own(&numbers_of_this_process()) {
            Wanted::All => Wanted::Processes(vec![pid]),
            step => step,
        };
        let open = Arc::clone(&open);
        Watch::begin(Arc::new(move || Looks::one(&open, &wanted)))
    };
    let ended = |watch: Watch<Looks>, _| {
        let looks = watch.end();
        let Some(node) = node(source) else {
            return tell("verify: no report: the node was not read");
        };
        let stderr = io::stderr();
        let columns = sys::terminal_columns(stderr.as_fd());
        let mut page = Page::new(false, stderr.is_terminal()).with_columns(columns);
        let put = put(options, &report(&open, node, &looks), &mut page);
        // in one piece, which other tasks' lines do not divide
        let written = put.and_then(|()| Ok(stderr.lock().write_all(page.as_bytes())?));
        if let Err(why) = written {
            tell(&format!("verify: no report: {why}"));
        }
    };
    beside::run("verify", &options.command, || (), started, ended)
}

fn node(source: NodeSource) -> Option<Topology> {
    node_in_time(source).recv_timeout(PATIENCE).ok().flatten()
}

fn report(open: &Open, node: Topology, looks: &Looks) -> NodeVerdicts {
    let name = open().and_then(|root| root.read("proc/sys/kernel/hostname"));
    let name = name.unwrap_or_else(|| node.name.clone());
    let notes = looks.notes();
    let tasks = verdicts(node, looks);
    NodeVerdicts {
        format: FORMAT.to_string(),
        version: VERSION,
        node: name,
        tasks,
        notes,
    }
}

fn put(options: &VerifyOptions, report: &NodeVerdicts, page: &mut Page) -> Result<(), Failure> {
    match (options.json, options.brief) {
        (true, _) => page.exact(&report.to_json()),
        (false, true) => print::brief(report, page),
        (false, false) => print::tables(report, page),
    }
    match &options.textfile {
        Some(file) => Ok(output::write(
            file,
            exposition::write(&[metric(report)]).as_bytes(),
        )?),
        None => Ok(()),
    }
}
