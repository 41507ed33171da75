//! One node: its counters before and after, the tasks meanwhile, and the report of both.
#![forbid(unsafe_code)]

use super::print::first_of;
use crate::commands::counters::{Open, Reading};
use crate::commands::processes::{Processes, numbers_of_this_process};
use crate::commands::request::node_in_time;
use crate::commands::watch::Watch;
use crate::commands::{tell, verify};
use nic_placement_core::config::NodeSource;
use nic_placement_core::diagnostic::counted;
use nic_placement_core::policy;
use nic_placement_core::topology::Topology;
use nic_placement_core::wish::Wish;
use nic_placement_traffic::counters::Sample;
use nic_placement_traffic::growth::growth;
use nic_placement_traffic::planned::{self, Origin, PlannedNics};
use nic_placement_traffic::report::{self, FORMAT, Measurement, VERSION};
use nic_placement_traffic::tasks::{Numbers, PlacedTask, tasks};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Time that CMD waits for cards, at most: they answer in microseconds.
const BEFORE: Duration = Duration::from_secs(2);
/// Time that the end waits for them.
const AFTER: Duration = Duration::from_secs(5);
/// Other steps that are named.
const NAMED: usize = 8;

pub(super) struct Before {
    open: Open,
    before: Sample,
    silent: BTreeSet<String>,
    node: Receiver<Option<Topology>>,
}

pub(super) struct Watched {
    of: Before,
    watch: Watch<(Processes, verify::Looks)>,
    begun: Instant,
}

impl Before {
    pub(super) fn read(open: Open, source: NodeSource) -> Before {
        let mut reading = Reading::begin(&open, &BTreeSet::new());
        if !reading.wait(BEFORE) && !reading.is_unasked {
            let names: Vec<&str> = reading.waiting.iter().map(String::as_str).collect();
            tell(&format!(
                "measure: {} did not answer in {} s and is left out; CMD starts",
                names.join(", "),
                BEFORE.as_secs()
            ));
        }
        let (before, silent) = reading.end();
        // it asks the cards too, and CMD's start does not wait for it
        let node = node_in_time(source);
        Before {
            before,
            silent,
            open,
            node,
        }
    }

    pub(super) fn while_it_runs(self) -> Watched {
        let (open, wanted) = (
            Arc::clone(&self.open),
            verify::own(&numbers_of_this_process()),
        );
        let watch = Watch::begin(Arc::new(move || {
            let placed = open().map(|root| Processes::of(&root)).unwrap_or_default();
            (placed, verify::Looks::one(&open, &wanted))
        }));
        Watched {
            of: self,
            watch,
            begun: Instant::now(),
        }
    }
}

impl Watched {
    pub(super) fn report(self, status: u8) -> Measurement {
        let Watched {
            of:
                Before {
                    open,
                    before,
                    mut silent,
                    node,
                },
            watch,
            begun,
        } = self;
        let seconds = begun.elapsed();
        let mut reading = Reading::begin(&open, &silent);
        reading.wait(AFTER);
        let (after, silent_now) = reading.end();
        silent.extend(silent_now);
        let node = node.recv_timeout(AFTER).ok().flatten();
        let (seen, looks) = watch.end();
        let (plan, origin, mut notes) = plan(&seen, node.as_ref());
        let (nics, shares) = report::of_node(&growth(&before, &after, &silent), &plan);
        notes.splice(0..0, report::notes(&nics, &shares, origin));
        let tasks = node
            .clone()
            .map(|node| verify::verdicts(node, &looks))
            .unwrap_or_default();
        let name = open().and_then(|root| root.read("proc/sys/kernel/hostname"));
        Measurement {
            format: FORMAT.to_string(),
            version: VERSION,
            node: name
                .or(node.map(|node| node.name))
                .unwrap_or_else(|| "this node".to_string()),
            seconds: (seconds.as_secs_f64() * 1000.0).round() / 1000.0,
            status: i32::from(status),
            plan: origin,
            shares,
            nics,
            tasks,
            notes,
        }
    }
}

/// True for a task of this step; in a batch script, which starts steps, of this job.
fn is_ours(own: &Numbers, task: &PlacedTask) -> bool {
    /// Smaller numbers are those of steps that srun started (slurm/slurm.h, `SLURM_MAX_NORMAL_STEP_ID`).
    const LAST: u64 = 0xffff_fff0;
    match (own.step, task.marked.numbers.step) {
        (Some(own), Some(other)) if own.step.is_some_and(|step| step <= LAST) => own == other,
        (Some(own), Some(other)) => own.job == other.job,
        (None, None) => true,
        _ => false,
    }
}

fn plan(seen: &Processes, node: Option<&Topology>) -> (PlannedNics, Origin, Vec<String>) {
    let tasks = tasks(&seen.placed);
    let own = numbers_of_this_process();
    let (ours, others): (Vec<&PlacedTask>, Vec<&PlacedTask>) =
        tasks.iter().partition(|task| is_ours(&own, task));
    let map = node.map(|node| planned::of_node(node, &policy::map(node, &Wish::default())));
    let known = node.zip(map.as_ref());
    let published = planned::of_tasks(&ours, known);
    let mut notes = Vec::new();
    let step = |task: &&PlacedTask| match task.marked.numbers.step {
        Some(step) => format!("step {step}"),
        None => format!("process {}", task.pid),
    };
    let steps = Vec::from_iter(others.iter().map(step).collect::<BTreeSet<_>>());
    if !steps.is_empty() {
        let named = first_of(&steps, NAMED);
        notes.push(format!(
            "others ran on this node too, and their bytes are among these: {named}"
        ));
    }
    if !seen.hidden.is_empty() {
        notes.push(format!(
            "{} had processes on this node, which only root may look at: their bytes would be among these",
            counted(seen.hidden.len(), "other user")
        ));
    }
    match (published.is_empty(), map) {
        (false, _) => (published, Origin::Tasks, notes),
        (true, Some(map)) => (map, Origin::Node, notes),
        (true, None) => (PlannedNics::new(), Origin::Nobody, notes),
    }
}
