//! One look at the node's processes and what they hold.
//!
//! A process may end while it is looked at, and what it says of itself is whatever its user wrote.  What stands in its memory
//! (environment, pages) is read through a lock of its own, which one of its threads may hold for ever: a thread reads it, and a
//! process that does not answer is left out.
#![forbid(unsafe_code)]

use super::super::counters::Open;
use super::super::processes::{FIRST_USER, MAX_ENVIRONMENT, pids};
use super::super::threads;
use super::rdma;
use nic_placement_core::gpus;
use nic_placement_core::step::STEP_GPUS;
use nic_placement_core::topology::CpuSet;
use nic_placement_node::discover::Root;
use nic_placement_traffic::resources::{Held, Holdings};
use nic_placement_traffic::tasks::{Marked, Numbers, changed, marked, numbers, variable};
use nic_placement_traffic::verify::Thread;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Time that one process is waited for, and the devices.
const PATIENCE: Duration = Duration::from_secs(2);
/// Processes that do not answer, at most: then the look ends.
const MAX_SILENT: usize = 8;
/// Threads and descriptors of one process, at most.
const MAX_THREADS: usize = 4096;
const MAX_DESCRIPTORS: usize = 4096;

/// The processes that are looked at.
#[derive(Debug, Clone)]
pub(in crate::commands) enum Wanted {
    /// all tasks of steps, and all that were placed
    All,
    /// a job's, or a step's
    Job(u64, Option<u64>),
    /// these processes, and what they started
    Processes(Vec<u32>),
}

impl Wanted {
    fn has(&self, told: &Told) -> bool {
        let step = told.numbers.step;
        match self {
            Wanted::All => told.marked.is_some() || step.is_some_and(|step| step.step.is_some()),
            Wanted::Job(job, None) => step.is_some_and(|own| own.job == *job && own.step.is_some()),
            Wanted::Job(job, wanted) => {
                step.is_some_and(|own| own.job == *job && own.step == *wanted)
            }
            Wanted::Processes(_) => true,
        }
    }

    /// The numbers in `all` of the processes to look at.
    fn among(&self, root: &Root, all: Vec<u32>) -> Vec<u32> {
        let Wanted::Processes(wanted) = self else {
            return all;
        };
        let parent = |pid: &u32| {
            let status = root.read(&format!("proc/{pid}/status"))?;
            status
                .lines()
                .find_map(|line| line.strip_prefix("PPid:\t")?.parse().ok())
        };
        let parents: BTreeMap<u32, u32> = all
            .iter()
            .filter_map(|pid| Some((*pid, parent(pid)?)))
            .collect();
        let is_below = |pid: &u32| {
            let above = std::iter::successors(Some(*pid), |pid| parents.get(pid).copied());
            above
                .take(parents.len() + 1)
                .any(|pid| wanted.contains(&pid))
        };
        all.into_iter().filter(is_below).collect()
    }
}

/// Facts of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) numbers: Numbers,
    pub(super) marked: Option<Marked>,
    pub(super) changed: Vec<String>,
    /// variables that say which GPUs it has
    pub(super) variables: BTreeMap<&'static str, String>,
    pub(super) step_gpus: Option<String>,
}

impl Told {
    fn by(environment: &[u8]) -> Told {
        let value = |name: &'static str| variable(environment, name).map(str::to_string);
        let of_gpus = gpus::VARIABLES
            .into_iter()
            .filter_map(|name| Some((name, value(name)?)));
        Told {
            numbers: numbers(environment),
            marked: marked(environment),
            changed: changed(environment),
            variables: of_gpus.collect(),
            step_gpus: value(STEP_GPUS),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) told: Told,
    pub(super) user: Option<u32>,
    pub(super) thread_ids: Vec<u32>,
    pub(super) threads: Vec<Thread>,
    /// KiB that it wrote, by NUMA node
    pub(super) memory: BTreeMap<u32, u64>,
    /// open device files, as `nvidia0`
    pub(super) device_files: BTreeSet<String>,
    pub(super) held: BTreeMap<String, Held>,
}

pub(super) struct Look {
    pub(super) processes: BTreeMap<u32, Process>,
    /// queue pairs of unknown processes; else the reason why nothing is known of any
    pub(super) unowned: Result<u32, String>,
    pub(super) silent: BTreeSet<u32>,
    /// users whose processes this one may not look at
    pub(super) hidden: BTreeSet<u32>,
}

enum Step {
    Begins(u32),
    Hidden(u32),
    Is(u32, Box<Process>),
}

pub(super) fn look(open: &Open, wanted: &Wanted) -> Look {
    // first the devices: a process that has begun since holds nothing yet, and one that has ended is not found
    let holdings = holdings(open);
    let mut look = Look {
        processes: BTreeMap::new(),
        unowned: holdings
            .as_ref()
            .map(|all| all.unowned)
            .map_err(Clone::clone),
        silent: BTreeSet::new(),
        hidden: BTreeSet::new(),
    };
    gather(&mut look, PATIENCE, |from| walk(open, wanted, from));
    if let Ok(Holdings { threads, .. }) = holdings {
        for process in look.processes.values_mut() {
            for held in process
                .thread_ids
                .iter()
                .filter_map(|thread| threads.get(thread))
            {
                for (device, held) in held {
                    process.held.entry(device.clone()).or_default().add(held);
                }
            }
        }
    }
    look
}

/// Collects the steps of walks over the processes: if a process does not answer, a new walk begins behind it.
fn gather(look: &mut Look, patience: Duration, walk: impl Fn(u32) -> Receiver<Step>) {
    let mut from = 0;
    while look.silent.len() < MAX_SILENT {
        let steps = walk(from);
        let mut at = from;
        loop {
            match steps.recv_timeout(patience) {
                Ok(Step::Begins(pid)) => at = pid,
                Ok(Step::Hidden(user)) => drop(look.hidden.insert(user)),
                Ok(Step::Is(pid, process)) => drop(look.processes.insert(pid, *process)),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        look.silent.insert(at);
        from = at + 1;
    }
}

fn holdings(open: &Open) -> Result<Holdings, String> {
    if !open().is_some_and(|root| root.is_live()) {
        return Err("these files are of another node, whose kernel cannot be asked".to_string());
    }
    let silent = |_| {
        format!(
            "the NICs' drivers have not answered in {} s",
            PATIENCE.as_secs()
        )
    };
    threads::answer_of(rdma::held)
        .recv_timeout(PATIENCE)
        .map_err(silent)?
}

fn walk(open: &Open, wanted: &Wanted, from: u32) -> Receiver<Step> {
    let (sender, steps) = channel();
    let (open, wanted) = (Arc::clone(open), wanted.clone());
    threads::started(move || {
        let Some(root) = open() else { return };
        let own = if root.is_live() {
            std::process::id()
        } else {
            0
        };
        for pid in wanted
            .among(&root, pids(&root))
            .into_iter()
            .filter(|pid| *pid >= from && *pid != own)
        {
            // this fails where nothing waits for the answer any more
            if one(&root, &wanted, pid, &sender).is_none() {
                return;
            }
        }
    });
    steps
}

/// `None` where nothing waits for the answers any more.
fn one(root: &Root, wanted: &Wanted, pid: u32, steps: &Sender<Step>) -> Option<()> {
    steps.send(Step::Begins(pid)).ok()?;
    let user = root.owner(&format!("proc/{pid}"));
    match root.beginning(&format!("proc/{pid}/environ"), MAX_ENVIRONMENT) {
        None => match user.filter(|user| *user >= FIRST_USER) {
            Some(user) => steps.send(Step::Hidden(user)).ok(),
            None => Some(()),
        },
        Some(environment) => {
            let told = Told::by(&environment);
            let process = wanted
                .has(&told)
                .then(|| process(root, pid, user, told))
                .flatten();
            process.map_or(Some(()), |process| {
                steps.send(Step::Is(pid, Box::new(process))).ok()
            })
        }
    }
}

/// `None` for one that has ended and that its parent has not waited for.
fn process(root: &Root, pid: u32, user: Option<u32>, told: Told) -> Option<Process> {
    let mut names = root.list(&format!("proc/{pid}/task"), |_| true);
    names.truncate(MAX_THREADS);
    let thread_ids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    let threads: Vec<Thread> = thread_ids
        .iter()
        .filter_map(|id| thread(root, pid, *id))
        .collect();
    if threads.is_empty() {
        return None;
    }
    let descriptors = root
        .list(&format!("proc/{pid}/fd"), |_| true)
        .into_iter()
        .take(MAX_DESCRIPTORS);
    let leads =
        descriptors.filter_map(|descriptor| root.follow(&format!("proc/{pid}/fd/{descriptor}")));
    let device_files = leads
        .filter_map(|path| Some(path.strip_prefix("dev/")?.to_string()))
        .collect();
    let memory = memory(root, pid);
    Some(Process {
        told,
        user,
        thread_ids,
        threads,
        memory,
        device_files,
        held: BTreeMap::new(),
    })
}

/// `None` for one that has ended; a process's first thread stays until the others have.
fn thread(root: &Root, pid: u32, thread: u32) -> Option<Thread> {
    let status = root.read(&format!("proc/{pid}/task/{thread}/status"))?;
    let value = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"))
    };
    if value("State")?.starts_with(['Z', 'X']) {
        return None;
    }
    let cpus = CpuSet::from_list(value("Cpus_allowed_list")?).ok()?;
    Some(Thread {
        is_first: thread == pid,
        name: value("Name")?.to_string(),
        cpus,
    })
}

/// KiB that the process wrote itself (`anon=`), by NUMA node: a file's pages may have been there before it.  The kernel
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
        for (node, count) in words().filter_map(|(name, count)| {
            Some((
                name.strip_prefix('N')?.parse::<u32>().ok()?,
                count.parse::<u64>().ok()?,
            ))
        }) {
            let sum: &mut u64 = kib.entry(node).or_default();
            *sum = sum.saturating_add(count.saturating_mul(size));
        }
    });
    kib
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Look {
        Look {
            processes: BTreeMap::new(),
            unowned: Ok(0),
            silent: BTreeSet::new(),
            hidden: BTreeSet::new(),
        }
    }

    #[test]
    fn a_process_that_does_not_answer_is_left_out_and_those_behind_it_are_seen() {
        let process = || Process {
            told: Told::by(b""),
            user: None,
            thread_ids: Vec::new(),
            threads: Vec::new(),
            memory: BTreeMap::new(),
            device_files: BTreeSet::new(),
            held: BTreeMap::new(),
        };
        let kept = std::cell::RefCell::new(Vec::new());
        let mut look = nothing();
        gather(&mut look, Duration::from_millis(20), |from| {
            let (sender, steps) = channel();
            for pid in [3, 5, 9].into_iter().filter(|pid| *pid >= from) {
                sender.send(Step::Begins(pid)).unwrap();
                if pid == 5 {
                    // as a thread that waits for the lock of the process's memory
                    kept.borrow_mut().push(sender);
                    return steps;
                }
                sender.send(Step::Is(pid, Box::new(process()))).unwrap();
            }
            steps
        });
        assert_eq!(look.processes.keys().collect::<Vec<_>>(), [&3, &9]);
        assert_eq!(look.silent, BTreeSet::from([5]));
    }

    #[test]
    fn where_no_process_answers_the_look_ends() {
        let kept = std::cell::RefCell::new(Vec::new());
        let mut look = nothing();
        gather(&mut look, Duration::from_millis(1), |from| {
            let (sender, steps) = channel();
            sender.send(Step::Begins(from)).unwrap();
            kept.borrow_mut().push(sender);
            steps
        });
        assert_eq!(look.silent.len(), MAX_SILENT);
    }
}
