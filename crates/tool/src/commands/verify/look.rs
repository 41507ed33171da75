//! One look at the node's processes and what they hold.
//!
//! A process may end meanwhile, and its user wrote its environment. The kernel reads environment and pages under a lock of the
//! process, which one of its threads may hold for ever: a thread of ours reads them, and a process that does not answer is left
//! out.

use super::rdma;
use crate::commands::counters::Open;
use crate::commands::threads;
use nic_placement_core::diagnostic::counted;
use nic_placement_core::topology::CpuSet;
use nic_placement_node::discover::Root;
use nic_placement_traffic::resources::Holdings;
use nic_placement_traffic::tasks::{Numbers, numbers};
use nic_placement_traffic::verify::{Node, Seen, TaskVerdict, Thread, judge};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Time that one process is waited for, and the devices.
const PATIENCE: Duration = Duration::from_secs(2);
/// After so many processes that do not answer the look ends.
const MAX_SILENT: usize = 8;
/// Processes of tasks.
const MAX_KEPT: usize = 1 << 14;
/// Threads, and descriptors, of one process.
const MAX_OF_ONE: usize = 4096;
/// Bytes of one environment. By default a program's environment and arguments have 2 MiB together; the marker is among a
/// step's variables, in front.
const MAX_ENVIRONMENT: usize = 1 << 20;
/// Smaller numbers are users of the system (login.defs(5), `UID_MIN`).
const FIRST_USER: u32 = 1000;

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
    /// The tasks of this process's step; without one the processes that it started.
    pub(super) fn of_this_process() -> Wanted {
        let Numbers { job, step, .. } = numbers(&environment_of_this_process());
        job.map_or(Wanted::Processes(vec![std::process::id()]), |job| {
            Wanted::Job(job, step.filter(|step| *step <= Numbers::LAST_STEP))
        })
    }

    fn has(&self, process: &Seen) -> bool {
        let Numbers { job, step, .. } = process.numbers;
        match self {
            Wanted::All => process.marked.is_some() || step.is_some(),
            Wanted::Job(wanted, None) => job == Some(*wanted) && step.is_some(),
            Wanted::Job(wanted, of) => job == Some(*wanted) && step == *of,
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

#[derive(Debug, Default)]
pub(super) struct Looks {
    pub(super) processes: BTreeMap<u32, Seen>,
    /// true if the kernel does not tell the owner of some queue pairs
    has_unowned: Option<bool>,
    /// the reason why nothing is known of any
    why: Option<String>,
    silent: BTreeSet<u32>,
    /// processes behind the last one of a look that ended early, or that are not kept
    left: usize,
    /// other users with processes that are not for this one to look at
    hidden: BTreeSet<u32>,
}

impl Looks {
    pub(super) fn one(open: &Open, wanted: &Wanted) -> Looks {
        let mut look = Looks::default();
        // first the devices: a process that has begun since holds nothing yet, and one that has ended is not found
        let holdings = match holdings(open) {
            Ok(holdings) => {
                look.has_unowned = Some(holdings.has_unowned);
                holdings
            }
            Err(why) => {
                look.why = Some(why);
                Holdings::default()
            }
        };
        let holdings = Arc::new(holdings);
        look.gather(PATIENCE, |from| walk(open, wanted, &holdings, from));
        look
    }

    /// Of a process held at any time counts, and of the rest what was seen last.
    pub(super) fn add(&mut self, later: Looks) {
        let mut left = later.left;
        for (pid, mut process) in later.processes {
            if let Some(known) = self.processes.remove(&pid) {
                process.held.extend(known.held);
                process.device_files.extend(known.device_files);
            }
            left += self.keep(pid, process);
        }
        self.has_unowned = self.has_unowned.max(later.has_unowned);
        self.why = later.why.or(self.why.take());
        self.silent.extend(later.silent);
        self.left = self.left.max(left);
        self.hidden.extend(later.hidden);
    }

    /// 1 if there is no room for the process.
    fn keep(&mut self, pid: u32, process: Seen) -> usize {
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

    pub(super) fn not_looked_at(&self) -> usize {
        self.silent.len() + self.left
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.silent.is_empty() {
            let named: Vec<String> = self.silent.iter().map(ToString::to_string).collect();
            let named = named.join(", ");
            notes.push(format!(
                "left out, since they did not answer: processes {named}"
            ));
        }
        if self.left > 0 {
            notes.push(format!("not looked at: {} other processes", self.left));
        }
        if !self.hidden.is_empty() {
            let users = counted(self.hidden.len(), "other user");
            notes.push(format!("processes of {users} are only for root to look at"));
        }
        notes.extend(self.why.clone().filter(|_| self.has_unowned.is_none()));
        notes
    }

    /// The verdicts, in the order of jobs, steps and local ids. Slurm's numbers and the marker tell tasks apart; an unplaced
    /// process in no step is a task of its own.
    pub(super) fn verdicts(&self, node: Node<'_>) -> Vec<TaskVerdict> {
        let mut tasks: BTreeMap<_, Seen> = BTreeMap::new();
        for (pid, process) in &self.processes {
            let is_alone = process.numbers.job.is_none() && process.marked.is_none();
            let (marked, alone) = (process.marked.clone(), is_alone.then_some(pid));
            let process = process.clone();
            match tasks.entry((process.numbers, marked, process.user, alone)) {
                Entry::Occupied(mut task) => task.get_mut().join(process),
                Entry::Vacant(task) => drop(task.insert(process)),
            }
        }
        let why = self.why.as_deref().unwrap_or_default();
        let tasks = tasks.into_values();
        tasks
            .map(|task| judge(node, task, self.has_unowned.ok_or(why)))
            .collect()
    }
}

enum Step {
    /// a process, and the number of those behind it
    Begins(u32, usize),
    Hidden(u32),
    Is(u32, Box<Seen>),
}

fn holdings(open: &Open) -> Result<Holdings, String> {
    if !open().is_some_and(|root| root.is_live()) {
        return Err("these files are of another node, whose kernel cannot be asked".to_string());
    }
    let answer = threads::answer_of(rdma::held).recv_timeout(PATIENCE);
    answer.unwrap_or_else(|_| Err("the NICs' drivers do not answer".to_string()))
}

fn walk(open: &Open, wanted: &Wanted, holdings: &Arc<Holdings>, from: u32) -> Receiver<Step> {
    let (sender, steps) = channel();
    let (open, wanted, holdings) = (Arc::clone(open), wanted.clone(), Arc::clone(holdings));
    threads::started(move || {
        let Some(root) = open() else { return };
        let mut all = root.numbers("proc");
        all.sort_unstable();
        let mut pids = wanted.among(&root, all);
        pids.retain(|pid| *pid >= from && !(root.is_live() && *pid == std::process::id()));
        for (behind, pid) in (0..pids.len()).rev().zip(pids) {
            if sender.send(Step::Begins(pid, behind)).is_err() {
                return;
            }
            // this fails where nothing waits for the answers any more
            let _ = one(&root, &wanted, &holdings, pid).map(|step| sender.send(step));
        }
    });
    steps
}

/// `None` for a process that is not wanted, and for one that has ended and that its parent has not waited for.
fn one(root: &Root, wanted: &Wanted, holdings: &Holdings, pid: u32) -> Option<Step> {
    let below = format!("proc/{pid}");
    let user = root.owner(&below);
    let Some(environment) = root.beginning(&format!("{below}/environ"), MAX_ENVIRONMENT) else {
        return user.filter(|user| *user >= FIRST_USER).map(Step::Hidden);
    };
    let mut process = Seen::new(&environment);
    if !wanted.has(&process) {
        return None;
    }
    (process.user, process.processes) = (user, vec![pid]);
    let numbers = |path: &str| root.numbers(path).into_iter().take(MAX_OF_ONE);
    for id in numbers(&format!("{below}/task")) {
        let held = holdings.threads.get(&id).into_iter().flatten();
        process.held.extend(held.cloned());
        process.threads.extend(thread(root, pid, id));
    }
    if process.threads.is_empty() {
        return None;
    }
    for descriptor in numbers(&format!("{below}/fd")) {
        let path = root.follow(&format!("{below}/fd/{descriptor}"));
        let file = path.as_deref().and_then(|path| path.strip_prefix("dev/"));
        process.device_files.extend(file.map(str::to_string));
    }
    process.memory = memory(root, pid);
    Some(Step::Is(pid, Box::new(process)))
}

/// `None` for one that has ended; a process's first thread stays until the others have.
fn thread(root: &Root, pid: u32, thread: u32) -> Option<Thread> {
    let status = root.read(&format!("proc/{pid}/task/{thread}/status"))?;
    if value(&status, "State")?.starts_with(['Z', 'X']) {
        return None;
    }
    Some(Thread {
        is_first: thread == pid,
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
    fn a_process_that_does_not_answer_is_left_out_and_where_none_does_those_left_are_counted() {
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
