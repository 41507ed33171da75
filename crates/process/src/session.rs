//! Placement in stages: read the node, plan, drop NICs that cannot be opened, place a task, set
//! CPUs, memory and variables.
//!
//! The plugin, `nic-placement exec` and the C interface share the stages; the C interface sets
//! nothing.

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

/// A step's plan on a node; the plugin makes it before the tasks exist.
pub struct Session {
    /// without verbs NICs if `/dev/infiniband` is missing
    pub plan: Plan,
    findings: Vec<Diagnostic>,
    /// `None` if this process only plans: no device file is checked
    devices: Option<DeviceFiles>,
}

impl Session {
    /// A session on this node ([`node::read`]). `step` makes the step, and a `T` for the caller.
    pub fn of_this_node<T, E: From<NoTopology>>(
        wish: Wish,
        scope: Scope,
        author: Author,
        step: impl FnOnce(&mut Wish, &Topology, Option<&DeviceFiles>) -> Result<(Step, T), E>,
    ) -> Result<(Session, T), E> {
        let read = node::read(&wish.admin, scope, author)?;
        Session::new(wish, read, Some(author), step)
    }

    /// A session on `node`, already read, with `findings`. Without `author` the process only plans:
    /// all devices count as openable, all map files as existing.
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

    pub fn findings(&self, plan: &Plan) -> Vec<Diagnostic> {
        [self.findings.clone(), plan.diagnostics()].concat()
    }

    pub fn gpus(&self, present: &Present) -> GpuGrant {
        gpus::grant(present, &self.plan.node, self.devices.as_ref())
    }

    pub fn reader(&self) -> ReadFile<'static> {
        reader(self.devices.as_ref(), &self.plan.node)
    }

    /// The plan without NICs that the job cannot open (logged if `tells`), and the NICs that this
    /// task's device cgroup refuses.
    ///
    /// All tasks of a step on a node make the same plan: user and container are the same.
    pub fn plan_here(&self, tells: bool) -> (Cow<'_, Plan>, Vec<NicIndex>) {
        let Some(devices) = &self.devices else {
            return (Cow::Borrowed(&self.plan), Vec::new());
        };
        let closed = devices::closed(devices, &self.plan);
        if tells {
            closed.tell(&self.plan.node);
        }
        // in a container, libraries read other files: the plan is made again
        let plan = match closed.is_in_container || !closed.to_the_job.is_empty() {
            true => Cow::Owned(self.plan.without(closed.to_the_job, self.reader())),
            false => Cow::Borrowed(&self.plan),
        };
        (plan, closed.to_this_task)
    }
}

/// Reads a site's files. A process that only plans reads kernel files, and only in a plan for this
/// node. Each other file counts as empty: it differs for another user or node.
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

/// Sets this process's CPUs and memory, then its variables by `set`, which returns failures. All
/// failures become notes; a dry run changes nothing.
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

/// The lines for `verbose` and `dry-run`; `others` names libraries that use other NICs than
/// planned.
pub fn report(placed: &TaskPlan, present: &Present, others: &str) -> Vec<String> {
    let TaskPlan {
        plan, placement, ..
    } = placed;
    // Slurm sets `NODE_NAME` only in tasks; slurmstepd can inherit an outer step's value
    let name = present
        .get(NODE_NAME)
        .cloned()
        .unwrap_or_else(admin::hostname);
    let would = if plan.wish.dry_run { "dry run: " } else { "" };
    let lines = placed.lines(&name, others).into_iter();
    let lines = lines.map(|line| format!("{would}{line}"));
    let failures = placed.failures().into_iter();
    let failures = failures.map(|failure| format!("task {}: {failure}", placement.global_id));
    // all tasks have the same caveats, so the node's first task reports them
    let found = match placement.local_id {
        0 => caveats(&plan.node, &placed.variables),
        _ => Vec::new(),
    };
    let found = found.iter().map(|found| format!("{name}: {found}"));
    lines.chain(failures).chain(found).collect()
}
