//! `nic-placement verify`: the NICs, CPUs and memory that tasks use against their plan, and the bytes of each NIC.

mod look;
mod print;
mod rdma;

pub(super) use look::environment_of_this_process;
#[cfg(test)]
pub(super) use print::metric;

use super::counters::{Counted, Open, opener};
use super::exec::{become_as_it_is, is_first_on_node};
use super::input::{documents, or_stdin};
use super::page::Page;
use super::request::{NodeOptions, node_in_time, number, whole_node};
use super::{Failure, beside, ending, output, tell, threads};
use clap::ValueHint;
use look::{Looks, Wanted};
use nic_placement_core::config::Admin;
use nic_placement_core::topology::Topology;
use nic_placement_fleet::audit::stream::StreamPiece;
use nic_placement_traffic::bytes::{self, Readings, Traffic};
use nic_placement_traffic::exposition;
use nic_placement_traffic::report::NodeReport;
use nic_placement_traffic::verify::Node;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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
/// Bytes are the whole node's, other jobs' too, and TCP's are counted apart. `no counter`: the driver counts none. `no answer`:
/// the card said nothing for 2 seconds.
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
  srun --jobid 1234 --overlap --ntasks-per-node=1 nic-placement verify --job 1234
  srun -n16 -e reports/%N --nic-placement nic-placement verify --bytes --json -- ./train
  nic-placement verify --merge reports/*")]
pub(super) struct VerifyOptions {
    /// a job, as 1234, or a step of it, as 1234.0
    #[arg(long, value_name = "JOB", value_parser = job, conflicts_with_all = ["pid", "command"])]
    job: Option<(u64, Option<u64>)>,
    /// a process, and what it started; again for more
    #[arg(long, value_name = "PID", action = clap::ArgAction::Append, conflicts_with = "command")]
    #[arg(value_parser = number(1, 1 << 22))]
    pid: Vec<u32>,
    /// add up the reports of several nodes instead, of standard input without a FILE
    ///
    /// output of --json, in any order, also mixed with other lines or labelled by srun -l.
    #[arg(long, value_name = "FILE", num_args = 0.., conflicts_with_all = ["command", "json"])]
    merge: Option<Vec<PathBuf>>,
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
    /// one line of versioned JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
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
/// Between two looks: often at first, when tasks start; beside CMD later seldom, to take little of the tasks' CPU time.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(300),
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

fn job(text: &str) -> Result<(u64, Option<u64>), String> {
    let (job, step) = match text.split_once('.') {
        Some((job, step)) => (job.parse(), step.parse().map(Some)),
        None => (text.parse(), Ok(None)),
    };
    let both = job.ok().zip(step.ok());
    both.ok_or("expected a job as 1234, or a step as 1234.0".to_string())
}

pub(super) fn run(options: &VerifyOptions, page: &mut Page) -> Result<(), Failure> {
    if let Some(files) = &options.merge {
        return merge(files, page);
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

/// Adds up the reports in files and mixed streams.
fn merge(files: &[PathBuf], page: &mut Page) -> Result<(), Failure> {
    let (mut reports, mut twice, mut passed_over) = (BTreeMap::new(), BTreeSet::new(), 0usize);
    let mut take = |(_, piece): StreamPiece<'_>| {
        let Some(report) = piece.ok().and_then(NodeReport::read) else {
            passed_over += 1;
            return;
        };
        match reports.entry(report.node.clone()) {
            Entry::Occupied(node) => drop(twice.insert(node.key().clone())),
            Entry::Vacant(node) => drop(node.insert(report)),
        }
    };
    for path in or_stdin(files) {
        documents(path, &mut take)?;
    }
    if reports.is_empty() {
        return Err("verify: no report: `verify --json` of this version prints one".into());
    }
    if passed_over > 0 {
        tell(&format!(
            "note: {passed_over} other pieces of text were passed over"
        ));
    }
    print::merged(&reports, &twice, page);
    Ok(())
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
    let of = || (Some(&node), options.node.admin());
    let is_shown = options.watch.is_some() && io::stdout().is_terminal() && !options.json;
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
            let readings = lately.as_mut().map(|lately| lately.readings(BEFORE));
            let mut page = Page::of(&io::stdout());
            let passed = begun.elapsed().as_secs();
            page.line(format!("verify: {passed} s; Ctrl-C ends"));
            print::report(&report(&open, of(), &now, readings), &mut page);
            // ECMA-48: to the first place, and clear
            let screen = [b"\x1b[H\x1b[2J", page.as_bytes()].concat();
            io::stdout().write_all(&screen)?;
            io::stdout().flush()?;
        }
        looks.add(now);
        if have_ended {
            break;
        }
    }
    let readings = counted.as_mut().map(|counted| counted.readings(AFTER));
    Ok(report(&open, of(), &looks, readings))
}

fn beside_command(options: &VerifyOptions) -> Result<(), Failure> {
    if !is_first_on_node() {
        return Err(become_as_it_is(&options.command));
    }
    let source = options.node.source();
    let open = opener(&source);
    let wanted = Wanted::of_this_process();
    let look = Arc::new(move |open: &Open| Looks::one(open, &wanted));
    let before = || {
        let counted = options.counts().then(|| Counted::begin(&open, BEFORE));
        let all = Arc::new(Mutex::new(Looks::default()));
        let (seen, look, open) = (Arc::clone(&all), Arc::clone(&look), Arc::clone(&open));
        threads::started(move || {
            for pause in PAUSES.iter().chain(std::iter::repeat(&PAUSES[3])) {
                // outside of the lock, for which the end waits
                let now = look(&open);
                seen.lock().unwrap_or_else(PoisonError::into_inner).add(now);
                thread::sleep(*pause);
            }
        });
        // it asks the cards too, and CMD does not wait for it
        (counted, node_in_time(source), all)
    };
    let ended = |(counted, node, all): (Option<Counted>, Receiver<_>, Arc<Mutex<Looks>>),
                 status| {
        let readings = counted.map(|mut counted| counted.readings(AFTER));
        let node: Option<Topology> = node.recv_timeout(AFTER).ok().flatten();
        // other tasks of the node may still be there; by a thread: the memory of one may be locked
        let (last, opened) = (Arc::clone(&look), Arc::clone(&open));
        let last = threads::answer_of(move || last(&opened)).recv_timeout(BEFORE);
        let mut looks = std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner));
        last.into_iter().for_each(|now| looks.add(now));
        let mut report = report(
            &open,
            (node.as_ref(), options.node.admin()),
            &looks,
            readings,
        );
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
    beside::run(&options.command, before, ended)
}

/// The report to the page, and the file that was asked for.
fn deliver(options: &VerifyOptions, report: &NodeReport, page: &mut Page) -> Result<(), Failure> {
    match options.json {
        true => page.exact(&report.to_json()),
        false => print::report(report, page),
    }
    if let Some(file) = &options.textfile {
        let text = exposition::write(&[print::metric(report)]);
        output::write(file, text.as_bytes())?;
    }
    Ok(())
}

/// The verdicts on the tasks that were seen, and the bytes of the readings.
fn report(
    open: &Open,
    (node, admin): (Option<&Topology>, Admin),
    looks: &Looks,
    readings: Option<Readings>,
) -> NodeReport {
    let name = open().and_then(|root| root.read("proc/sys/kernel/hostname"));
    let mut report = NodeReport::new(name.unwrap_or("this node".to_string()), Vec::new());
    report.not_looked_at = looks.not_looked_at();
    // `check` reports what is wrong with the admin's file
    let plan = node.ok_or("its NICs do not answer".to_string());
    let plan = plan.and_then(|node| {
        whole_node(node.clone(), admin).or_else(|_| whole_node(node.clone(), Admin::default()))
    });
    let plan = match plan {
        Ok(plan) => plan,
        Err(why) => {
            report.notes.push(format!("the node was not read: {why}"));
            return report;
        }
    };
    let of = Node {
        topology: &plan.node,
        map: &plan.map,
    };
    report.tasks = looks.verdicts(of);
    if let Some(readings) = &readings {
        let (planned, origin) = bytes::plan(of, &report.tasks);
        let traffic = Traffic::new(readings, &planned, origin);
        report.notes.extend(traffic.notes());
        report.traffic = Some(traffic);
    }
    report.notes.extend(looks.notes());
    report
}
