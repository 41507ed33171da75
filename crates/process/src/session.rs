//! The story of a placed process: its node is read, a plan is made, what cannot be opened is dropped, a task is placed and
//! the decision carried out.
//!
//! The plugin, `nic-placement exec` and the C interface all go this way.  They differ in what they pass: the step, the task,
//! which files are to be trusted, and how a variable is set.
#![forbid(unsafe_code)]

use crate::devices::{self, Devices};
use crate::{admin, bind, files, gpus, maps, node};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::discover::Scope;
use nic_placement_core::discover::root::Author;
use nic_placement_core::libraries::{Evidence, FileText, Present, ReadFile, caveats};
use nic_placement_core::node::NoTopology;
use nic_placement_core::placement::Variable;
use nic_placement_core::plan::{Plan, TaskPlan, Wish};
use nic_placement_core::step::{GpuGrant, NODE_NAME, Step, Task};
use nic_placement_core::topology::{NicIndex, Topology};

/// A plan without its step.
pub struct Survey {
    pub wish: Wish,
    pub node: Topology,
    findings: Vec<Diagnostic>,
    /// `None` if this process only plans: no device is asked
    devices: Option<Devices>,
}

impl Survey {
    /// This node, read as the admin says from files of `author`.
    pub fn of_this_node(wish: Wish, scope: Scope, author: Author) -> Result<Survey, NoTopology> {
        let (node, findings) = node::read(&wish.admin, scope, author)?;
        Ok(Survey::here(wish, node, findings, author))
    }

    /// This node by a description of it, with what was odd about that.
    pub fn here(
        mut wish: Wish,
        node: Topology,
        findings: Vec<Diagnostic>,
        author: Author,
    ) -> Survey {
        maps::find(&mut wish.admin, author);
        let devices = Some(Devices::open(&node));
        Survey {
            wish,
            node,
            findings,
            devices,
        }
    }

    /// A node for which this process only plans: all its devices can be opened, and the files of a `set=` are there.
    pub fn unvisited(mut wish: Wish, node: Topology) -> Survey {
        maps::take_to_exist(&mut wish.admin);
        Survey {
            wish,
            node,
            findings: Vec::new(),
            devices: None,
        }
    }

    /// The evidence about this process's GPUs; it has these variables and may be in a container.
    pub fn gpus(&self, present: &Present) -> GpuGrant {
        let grant = gpus::grant(present, &self.node, self.devices.as_ref());
        gpus::without_absent(grant, &self.node)
    }

    pub fn plan(self, step: Step) -> Session {
        let Survey {
            wish,
            node,
            findings,
            devices,
        } = self;
        let read = reader(devices.as_ref(), &node);
        let plan = Plan::new(node, wish, step, read);
        let missing = devices
            .as_ref()
            .map(|devices| devices::missing(devices, &plan))
            .unwrap_or_default();
        let plan = if missing.is_empty() {
            plan
        } else {
            plan.without(missing, read)
        };
        Session {
            plan,
            devices,
            findings,
        }
    }
}

/// Reads a site's files, which no user names.  If this process only plans, every configuration counts as empty: its
/// user's say nothing about another user's, and this node's nothing about another node.
fn reader(devices: Option<&Devices>, node: &Topology) -> ReadFile<'static> {
    match devices {
        Some(_) => &files::read,
        None if node.provenance.is_this_system() => &|path| match files::is_kernels(path) {
            true => files::read(path),
            false => Some(FileText::default()),
        },
        None => &|_| Some(FileText::default()),
    }
}

/// A step's plan on a node, before any of its tasks is there.
pub struct Session {
    /// without the NICs that are missing on this node
    pub plan: Plan,
    findings: Vec<Diagnostic>,
    devices: Option<Devices>,
}

impl Session {
    /// Findings about the node, the wish and the map.
    pub fn findings(&self) -> Vec<Diagnostic> {
        [self.findings.clone(), self.plan.diagnostics()].concat()
    }

    pub fn gpus(&self, present: &Present) -> GpuGrant {
        gpus::grant(present, &self.plan.node, self.devices.as_ref())
    }

    pub fn reader(&self) -> ReadFile<'static> {
        reader(self.devices.as_ref(), &self.plan.node)
    }

    /// The plan as this process of the job can carry it out; `tells` logs what the job cannot open.
    ///
    /// The kernel refuses all tasks of a job alike what their user may not open, and all tasks of a node are in one
    /// container: so each task makes the same plan.
    pub fn opened(&self, tells: bool) -> OpenPlan<'_> {
        let Some(devices) = &self.devices else {
            return OpenPlan {
                session: self,
                narrowed: None,
                denied: Vec::new(),
            };
        };
        let closed = devices::closed(devices, &self.plan);
        if tells {
            closed.tell(&self.plan.node);
        }
        // libraries in a container read its own files
        let differs = closed.is_in_container || !closed.to_the_job.is_empty();
        let narrowed = differs.then(|| self.plan.without(closed.to_the_job, self.reader()));
        OpenPlan {
            session: self,
            narrowed,
            denied: closed.to_this_task,
        }
    }
}

/// A plan of NICs that the job may open.
pub struct OpenPlan<'s> {
    session: &'s Session,
    /// the plan, if it is not the session's
    narrowed: Option<Plan>,
    /// NICs that this task may not open, though others of its job may
    denied: Vec<NicIndex>,
}

impl OpenPlan<'_> {
    pub fn plan(&self) -> &Plan {
        self.narrowed.as_ref().unwrap_or(&self.session.plan)
    }

    pub fn findings(&self) -> Vec<Diagnostic> {
        [self.session.findings.clone(), self.plan().diagnostics()].concat()
    }

    /// Places a task, which thereby knows the NICs that this process may not open.
    pub fn place(&self, task: &mut Task, evidence: Evidence) -> TaskPlan<'_> {
        task.denied_nics.clone_from(&self.denied);
        self.plan().task(task, evidence)
    }

    /// Binds this process and sets its variables by `set`, which returns failures; a dry run does neither.  Returns
    /// what the task could not have.
    pub fn carry_out(
        &self,
        placed: &mut TaskPlan,
        set: impl FnOnce(&[Variable]) -> Vec<String>,
    ) -> Vec<String> {
        let mut failures = placed.shortfalls.clone();
        if !self.plan().wish.dry_run {
            failures.extend(bind::apply(&mut placed.placement, &self.plan().node));
            failures.extend(set(&placed.variables));
        }
        failures
    }

    /// The lines of `verbose` and `dry-run` for the user.
    pub fn report(
        &self,
        task: &Task,
        placed: &TaskPlan,
        failures: &[String],
        evidence: Evidence,
    ) -> Vec<String> {
        // slurmd names the node for the task, and only there: before it this is the name of an outer step's node
        let name = evidence
            .present
            .get(NODE_NAME)
            .cloned()
            .unwrap_or_else(admin::hostname);
        let would = if self.plan().wish.dry_run {
            "dry run: "
        } else {
            ""
        };
        let mut lines: Vec<String> = placed
            .lines(&name)
            .iter()
            .map(|line| format!("{would}{line}"))
            .collect();
        lines.extend(
            failures
                .iter()
                .map(|failure| format!("task {}: {failure}", task.global_id)),
        );
        // the same in all tasks: told once for each node
        if task.local_id == 0 {
            let found = caveats(&self.plan().node, &placed.variables);
            lines.extend(found.iter().map(|found| format!("{name}: {found}")));
        }
        lines
    }
}
