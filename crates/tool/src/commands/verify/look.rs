//! One look at the node's processes and what they hold.
//!
//! A process may end meanwhile, and its user wrote its environment. The kernel reads environment and pages under a lock of the
//! process, which one of its threads may hold for ever: a thread of ours reads them, and a process that does not answer is left
//! out.

use super::rdma;
use crate::commands::counters::Open;
use crate::commands::threads;
use nic_placement_core::gpus;
use nic_placement_core::step::STEP_GPUS;
use nic_placement_core::topology::CpuSet;
use nic_placement_node::discover::Root;
use nic_placement_traffic::resources::{Held, Holdings};
use nic_placement_traffic::tasks::{Marked, Numbers, StepId, changed, marked, numbers, variable};
use nic_placement_traffic::verify::Thread;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Time that one process is waited for, and the devices.
const PATIENCE: Duration = Duration::from_secs(2);
/// After so many processes that do not answer the look ends.
const MAX_SILENT: usize = 8;
/// Processes of a node, which has tens of thousands at most; and those of tasks.
const MAX_PROCESSES: usize = 1 << 17;
const MAX_KEPT: usize = 1 << 14;
/// Threads, and descriptors, of one process.
const MAX_OF_ONE: usize = 4096;
/// Bytes of one environment. By default a program's environment and arguments have 2 MiB together; the marker is among a
/// step's variables, in front.
const MAX_ENVIRONMENT: usize = 1 << 20;
/// Smaller numbers are users of the system (login.defs(5), `UID_MIN`).
const FIRST_USER: u32 = 1000;

pub(super) fn numbers_of_this_process() -> Numbers {
    numbers(&environment_of_this_process())
}

/// `NAME=VALUE` with a NUL behind each.
pub(in crate::commands) fn environment_of_this_process() -> Vec<u8> {
    let entry = |(name, value): (OsString, OsString)| {
        [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat()
    };
    std::env::vars_os().flat_map(entry).collect()
}

#[derive(Debug, Clone)]
pub(super) enum Wanted {
    /// all tasks of steps, and all that were placed
    All,
    /// a job's, or a step's
    Job(u64, Option<u64>),
    /// these processes, and what they started
    Processes(Vec<u32>),
}

impl Wanted {
    pub(super) fn step(step: StepId) -> Wanted {
        /// `SLURM_MAX_NORMAL_STEP_ID` of slurm/slurm.h.
        const LAST: u64 = 0xffff_fff0;
        Wanted::Job(step.job, step.step.filter(|step| *step <= LAST))
    }

    fn has(&self, process: &Process) -> bool {
        let step = process.numbers.step;
        let is_of = |job, wanted: Option<u64>| {
            step.is_some_and(|own| {
                own.job == job && own.step.is_some() && (wanted.is_none() || own.step == wanted)
            })
        };
        match self {
            Wanted::All => process.marked.is_some() || step.is_some_and(|step| step.step.is_some()),
            Wanted::Job(job, step) => is_of(*job, *step),
            Wanted::Processes(_) => true,
        }
    }

    /// The numbers in `all` of the processes to look at.
    fn among(&self, root: &Root, mut all: Vec<u32>) -> Vec<u32> {
        if let Wanted::Processes(wanted) = self {
            let parent = |pid: &u32| {
                let status = root.read(&format!("proc/{pid}/status"))?;
                Some((*pid, value(&status, "PPid")?.parse().ok()?))
            };
            let parents: BTreeMap<u32, u32> = all.iter().filter_map(parent).collect();
            all.retain(|pid| {
                let above = std::iter::successors(Some(*pid), |pid| parents.get(pid).copied());
                let mut above = above.take(parents.len() + 1);
                above.any(|pid| wanted.contains(&pid))
            });
        }
        all
    }
}

/// The value in a line `NAME:\tVALUE` of a status file.
fn value<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"))
}

#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    pub(super) numbers: Numbers,
    pub(super) marked: Option<Marked>,
    pub(super) changed: Vec<String>,
    pub(super) variables: BTreeMap<&'static str, String>,
    pub(super) step_gpus: Option<String>,
    pub(super) user: Option<u32>,
    thread_ids: Vec<u32>,
    pub(super) threads: Vec<Thread>,
    /// KiB that it wrote, by NUMA node
    pub(super) memory: BTreeMap<u32, u64>,
    /// open device files, as `nvidia0`
    pub(super) device_files: BTreeSet<String>,
    pub(super) held: BTreeMap<String, Held>,
}

impl Process {
    /// Without what /proc has besides.
    fn by(environment: &[u8]) -> Process {
        let value = |name: &'static str| variable(environment, name).map(str::to_string);
        let of_gpus = gpus::VARIABLES.into_iter();
        let of_gpus = of_gpus.filter_map(|name| Some((name, value(name)?)));
        Process {
            numbers: numbers(environment),
            marked: marked(environment),
            changed: changed(environment),
            variables: of_gpus.collect(),
            step_gpus: value(STEP_GPUS),
            ..Process::default()
        }
    }
}

/// One look, or the sum of several.
#[derive(Debug, Default)]
pub(super) struct Looks {
    pub(super) processes: BTreeMap<u32, Process>,
    /// placed processes that were not wanted: `step 17.3`, or `process 102`
    pub(super) others: BTreeSet<String>,
    /// queue pairs of unknown processes, the most of any look
    pub(super) unowned: Option<u32>,
    /// the reason why nothing is known of any
    pub(super) why: Option<String>,
    pub(super) silent: BTreeSet<u32>,
    /// processes behind the last one of a look that ended early, or that are not kept
    pub(super) left: usize,
    pub(super) hidden: BTreeSet<u32>,
}

impl Looks {
    pub(super) fn one(open: &Open, wanted: &Wanted) -> Looks {
        let mut look = Looks::default();
        // first the devices: a process that has begun since holds nothing yet, and one that has ended is not found
        let holdings = match holdings(open) {
            Ok(holdings) => {
                look.unowned = Some(holdings.unowned);
                holdings
            }
            Err(why) => {
                look.why = Some(why);
                Holdings::default()
            }
        };
        look.gather(PATIENCE, |from| walk(open, wanted, from));
        for process in look.processes.values_mut() {
            let held = process.thread_ids.iter();
            let held = held.filter_map(|thread| holdings.threads.get(thread));
            for (device, held) in held.flatten() {
                process.held.entry(device.clone()).or_default().add(held);
            }
        }
        look
    }

    /// Of a process held at any time counts, and of the rest what was seen last.
    pub(super) fn add(&mut self, later: Looks) {
        let mut left = later.left;
        for (pid, mut process) in later.processes {
            if let Some(known) = self.processes.remove(&pid) {
                for (device, held) in known.held {
                    process.held.entry(device).or_default().most(&held);
                }
                process.device_files.extend(known.device_files);
            }
            left += self.keep(pid, process);
        }
        self.others.extend(later.others);
        self.unowned = self.unowned.max(later.unowned);
        self.why = later.why.or(self.why.take());
        self.silent.extend(later.silent);
        self.left = self.left.max(left);
        self.hidden.extend(later.hidden);
    }

    /// 1 if there is no room for the process.
    fn keep(&mut self, pid: u32, process: Process) -> usize {
        if self.processes.len() >= MAX_KEPT {
            return 1;
        }
        self.processes.insert(pid, process);
        0
    }

    /// Collects the steps of walks over the processes: if a process does not answer, a new walk begins behind it.
    fn gather(&mut self, patience: Duration, walk: impl Fn(u32) -> Receiver<Step>) {
        let (mut at, mut behind) = (0, 0);
        while self.silent.len() < MAX_SILENT {
            let steps = walk(at + u32::from(at > 0));
            loop {
                match steps.recv_timeout(patience) {
                    Ok(Step::Begins(pid, left)) => (at, behind) = (pid, left),
                    Ok(Step::Hidden(user)) => drop(self.hidden.insert(user)),
                    Ok(Step::Other(name)) => drop(self.others.insert(name)),
                    Ok(Step::Is(pid, process)) => self.left += self.keep(pid, *process),
                    Err(RecvTimeoutError::Disconnected) => {
                        self.left += behind;
                        return;
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                }
            }
            self.silent.insert(at);
        }
        self.left += behind;
    }
}

enum Step {
    /// a process, and the number of those behind it
    Begins(u32, usize),
    Hidden(u32),
    Other(String),
    Is(u32, Box<Process>),
}

fn holdings(open: &Open) -> Result<Holdings, String> {
    if !open().is_some_and(|root| root.is_live()) {
        return Err("these files are of another node, whose kernel cannot be asked".to_string());
    }
    let answer = threads::answer_of(rdma::held).recv_timeout(PATIENCE);
    answer.unwrap_or_else(|_| {
        let seconds = PATIENCE.as_secs();
        Err(format!(
            "the NICs' drivers have not answered in {seconds} s"
        ))
    })
}

fn walk(open: &Open, wanted: &Wanted, from: u32) -> Receiver<Step> {
    let (sender, steps) = channel();
    let (open, wanted) = (Arc::clone(open), wanted.clone());
    threads::started(move || {
        let Some(root) = open() else { return };
        let (all, more) = numbers_in(&root, "proc", MAX_PROCESSES);
        let mut pids = wanted.among(&root, all);
        pids.retain(|pid| *pid >= from && !(root.is_live() && *pid == std::process::id()));
        for (behind, pid) in (0..pids.len()).rev().zip(pids) {
            if one(&root, &wanted, pid, behind + more, &sender).is_none() {
                return;
            }
        }
    });
    steps
}

/// The least numbers that name entries of a directory, and how many more there are.
fn numbers_in(root: &Root, path: &str, most: usize) -> (Vec<u32>, usize) {
    let mut numbers = root.numbers(path);
    numbers.sort_unstable();
    let more = numbers.len().saturating_sub(most);
    numbers.truncate(most);
    (numbers, more)
}

/// `None` where nothing waits for the answers any more.
fn one(root: &Root, wanted: &Wanted, pid: u32, behind: usize, steps: &Sender<Step>) -> Option<()> {
    let send = |step| steps.send(step).ok();
    send(Step::Begins(pid, behind))?;
    let user = root.owner(&format!("proc/{pid}"));
    let Some(environment) = root.beginning(&format!("proc/{pid}/environ"), MAX_ENVIRONMENT) else {
        return match user.filter(|user| *user >= FIRST_USER) {
            Some(user) => send(Step::Hidden(user)),
            None => Some(()),
        };
    };
    let mut process = Process::by(&environment);
    process.user = user;
    let step = match wanted.has(&process) {
        true => filled(root, pid, process).map(|process| Step::Is(pid, Box::new(process))),
        false => process.marked.map(|_| {
            let step = process.numbers.step.map(|step| format!("step {step}"));
            Step::Other(step.unwrap_or_else(|| format!("process {pid}")))
        }),
    };
    step.map_or(Some(()), send)
}

/// The process with its threads, files and pages; `None` for one that has ended and that its parent has not waited for.
fn filled(root: &Root, pid: u32, mut process: Process) -> Option<Process> {
    (process.thread_ids, _) = numbers_in(root, &format!("proc/{pid}/task"), MAX_OF_ONE);
    let threads = process.thread_ids.iter();
    process.threads = threads.filter_map(|id| thread(root, pid, *id)).collect();
    if process.threads.is_empty() {
        return None;
    }
    let (descriptors, _) = numbers_in(root, &format!("proc/{pid}/fd"), MAX_OF_ONE);
    let device_files = descriptors.iter().filter_map(|descriptor| {
        let path = root.follow(&format!("proc/{pid}/fd/{descriptor}"))?;
        Some(path.strip_prefix("dev/")?.to_string())
    });
    process.device_files = device_files.collect();
    process.memory = memory(root, pid);
    Some(process)
}

/// `None` for one that has ended; a process's first thread stays until the others have.
fn thread(root: &Root, pid: u32, thread: u32) -> Option<Thread> {
    let status = root.read(&format!("proc/{pid}/task/{thread}/status"))?;
    if value(&status, "State")?.starts_with(['Z', 'X']) {
        return None;
    }
    Some(Thread {
        is_first: thread == pid,
        name: value(&status, "Name")?.to_string(),
        cpus: CpuSet::from_list(value(&status, "Cpus_allowed_list")?).ok()?,
    })
}

/// KiB that the process wrote itself (`anon=`), by NUMA node: a file's pages may have been there before it. The kernel
/// escapes a user's text in a file's name (fs/proc/task_mmu.c, `show_numa_map`).
fn memory(root: &Root, pid: u32) -> BTreeMap<u32, u64> {
    let mut kib = BTreeMap::new();
    root.lines(&format!("proc/{pid}/numa_maps"), |line| {
        let words = || line.split(' ').filter_map(|word| word.split_once('='));
        if !words().any(|(name, _)| name == "anon") {
            return;
        }
        let size = words().find(|(name, _)| *name == "kernelpagesize_kB");
        let size: u64 = size.and_then(|(_, size)| size.parse().ok()).unwrap_or(4);
        for (name, count) in words() {
            let node = name.strip_prefix('N').map(str::parse::<u32>);
            if let (Some(Ok(node)), Ok(count)) = (node, count.parse::<u64>()) {
                let sum: &mut u64 = kib.entry(node).or_default();
                *sum = sum.saturating_add(count.saturating_mul(size));
            }
        }
    });
    kib
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_answer_is_left_out_and_those_behind_it_are_seen() {
        let kept = std::cell::RefCell::new(Vec::new());
        let mut look = Looks::default();
        look.gather(Duration::from_millis(20), |from| {
            let (sender, steps) = channel();
            for pid in [3, 5, 9].into_iter().filter(|pid| *pid >= from) {
                sender.send(Step::Begins(pid, 0)).unwrap();
                if pid == 5 {
                    // as a thread that waits for the lock of the process's memory
                    kept.borrow_mut().push(sender);
                    return steps;
                }
                sender.send(Step::Is(pid, Box::default())).unwrap();
            }
            steps
        });
        assert_eq!(look.processes.keys().collect::<Vec<_>>(), [&3, &9]);
        assert_eq!(look.silent, BTreeSet::from([5]));
    }

    #[test]
    fn of_too_many_entries_the_least_are_read_and_the_others_are_counted() {
        let text = "# nic-placement machine 1\nproc/9/x = 1\nproc/10/x = 1\nproc/2/x = 1\nproc/self/x = 1\n";
        let root = Root::manifest(nic_placement_formats::manifest::parse(text).unwrap());
        assert_eq!(numbers_in(&root, "proc", 2), (vec![2, 9], 1));
    }

    #[test]
    fn where_no_process_answers_the_look_ends_and_those_left_are_counted() {
        let kept = std::cell::RefCell::new(Vec::new());
        let mut look = Looks::default();
        look.gather(Duration::from_millis(1), |from| {
            let (sender, steps) = channel();
            let pid = from.max(1);
            let step = Step::Begins(pid, 100 - pid as usize);
            sender.send(step).unwrap();
            kept.borrow_mut().push(sender);
            steps
        });
        assert_eq!((look.silent.len(), look.left), (MAX_SILENT, 92));
    }
}
