//! The story of a placed process: its node is read, a plan is made, what cannot be opened is dropped, a task is placed and
//! the decision carried out.
//!
//! The plugin, `nic-placement exec` and the C interface all go this way.  They differ in what they pass: the step, the task,
//! which files are to be trusted, and how a variable is set.

use crate::devices::{self, DeviceFiles};
use crate::{admin, bind, files, gpus, maps, node};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::libraries::{FileText, Present, ReadFile, caveats};
use nic_placement_core::placement::Variable;
use nic_placement_core::plan::{Plan, TaskPlan, Wish};
use nic_placement_core::step::{GpuGrant, NODE_NAME, Step};
use nic_placement_core::topology::{NicIndex, Scope, Topology};
use nic_placement_node::NoTopology;
use nic_placement_node::discover::root::Author;
use std::borrow::Cow;

/// A step's plan on a node, before any of its tasks is there.
pub struct Session {
    /// without the NICs that are missing on this node
    pub plan: Plan,
    findings: Vec<Diagnostic>,
    /// `None` if this process only plans: no device is asked
    devices: Option<DeviceFiles>,
}

impl Session {
    /// On this node, read as the admin says from files of `author`; with what else `step` makes of it.
    pub fn of_this_node<T, E: From<NoTopology>>(
        wish: Wish,
        scope: Scope,
        author: Author,
        step: impl FnOnce(&mut Wish, &Topology, Option<&DeviceFiles>) -> Result<(Step, T), E>,
    ) -> Result<(Session, T), E> {
        let read = node::read(&wish.admin, scope, author)?;
        Session::new(wish, read, Some(author), step)
    }

    /// On a node with what was odd about it.  Without an `author` this process only plans: all devices can be opened, and the
    /// files of a `set=` are there.
    pub fn new<T, E>(
        mut wish: Wish,
        (node, findings): (Topology, Vec<Diagnostic>),
        author: Option<Author>,
        step: impl FnOnce(&mut Wish, &Topology, Option<&DeviceFiles>) -> Result<(Step, T), E>,
    ) -> Result<(Session, T), E> {
        maps::find(&mut wish.admin, author);
        let devices = author.map(|_| DeviceFiles::open(&node));
        let (step, with) = step(&mut wish, &node, devices.as_ref())?;
        let read = reader(devices.as_ref(), &node);
        let mut plan = Plan::new(node, wish, step, read);
        if let Some(devices) = &devices {
            plan = devices::without_missing(plan, devices, read);
        }
        let session = Session {
            plan,
            findings,
            devices,
        };
        Ok((session, with))
    }

    /// Findings about the node, the wish and the map of a plan.
    pub fn findings(&self, plan: &Plan) -> Vec<Diagnostic> {
        [self.findings.clone(), plan.diagnostics()].concat()
    }

    pub fn gpus(&self, present: &Present) -> GpuGrant {
        gpus::grant(present, &self.plan.node, self.devices.as_ref())
    }

    pub fn reader(&self) -> ReadFile<'static> {
        reader(self.devices.as_ref(), &self.plan.node)
    }

    /// The plan as this process of the job can carry it out, and the NICs that this task may not open, though others of its
    /// job may; `tells` logs what the job cannot open.
    ///
    /// The kernel refuses all tasks of a job alike what their user may not open, and all tasks of a node are in one
    /// container: so each task makes the same plan.
    pub fn plan_here(&self, tells: bool) -> (Cow<'_, Plan>, Vec<NicIndex>) {
        let Some(devices) = &self.devices else {
            return (Cow::Borrowed(&self.plan), Vec::new());
        };
        let closed = devices::closed(devices, &self.plan);
        if tells {
            closed.tell(&self.plan.node);
        }
        // libraries in a container read its own files
        let plan = match closed.is_in_container || !closed.to_the_job.is_empty() {
            true => Cow::Owned(self.plan.without(closed.to_the_job, self.reader())),
            false => Cow::Borrowed(&self.plan),
        };
        (plan, closed.to_this_task)
    }
}

/// Reads a site's files, which no user names.  If this process only plans, every configuration counts as empty: its
/// user's say nothing about another user's, and this node's nothing about another node.
fn reader(devices: Option<&DeviceFiles>, node: &Topology) -> ReadFile<'static> {
    match devices {
        Some(_) => &files::read,
        None if node.provenance.is_this_system() => &|path| match files::is_kernels(path) {
            true => files::read(path),
            false => Some(FileText::default()),
        },
        None => &|_| Some(FileText::default()),
    }
}

/// Binds this process and sets its variables by `set`, which returns failures; a dry run does neither.  Its notes tell what
/// came of it.
pub fn carry_out(placed: &mut TaskPlan, set: impl FnOnce(&[Variable]) -> Vec<String>) {
    if placed.plan.wish.dry_run {
        return;
    }
    let placement = &mut placed.placement;
    let no_room = std::mem::take(&mut placement.notes.failures);
    bind::apply(placement, &placed.plan.node);
    placement.notes.failures.extend(set(&placed.variables));
    placement.notes.failures.extend(no_room);
}

/// The lines of `verbose` and `dry-run` for the user; `others` are the NICs of lists that are not ours.
pub fn report(placed: &TaskPlan, present: &Present, others: &str) -> Vec<String> {
    let TaskPlan {
        plan, placement, ..
    } = placed;
    // slurmd names the node for the task, and only there: before it this is the name of an outer step's node
    let name = present
        .get(NODE_NAME)
        .cloned()
        .unwrap_or_else(admin::hostname);
    let would = if plan.wish.dry_run { "dry run: " } else { "" };
    let lines = placed.lines(&name, others).into_iter();
    let lines = lines.map(|line| format!("{would}{line}"));
    let failures = placed.failures().into_iter();
    let failures = failures.map(|failure| format!("task {}: {failure}", placement.global_id));
    // the same in all tasks: told once for each node
    let found = match placement.local_id {
        0 => caveats(&plan.node, &placed.variables),
        _ => Vec::new(),
    };
    let found = found.iter().map(|found| format!("{name}: {found}"));
    lines.chain(failures).chain(found).collect()
}
