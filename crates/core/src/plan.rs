//! A [`Plan`] is made from a node, a wish and a step, and gives each task its [`TaskPlan`].
//!
//! The plugin and the tool use the same plan, so the tool shows what a step gets. This crate makes
//! no system call: the caller reads a task's facts and carries out the decision.

mod room;
mod task;
mod text;

use crate::diagnostic::Diagnostic;
use crate::gpus;
use crate::libraries::{self, Evidence, Prepared, ReadFile};
use crate::placement::{NodePlacement, Rail, TaskPlacement, Variable};
use crate::policy::{self, strictness};
use crate::step::{Step, Task};
use crate::topology::{NicIndex, Scope, Topology};
pub use crate::wish::Wish;
use crate::wish::{Bind, Policy, Selection, Strictness};
use std::borrow::Cow;
use std::sync::Arc;

impl Wish {
    pub fn scope(&self) -> Scope {
        match self.admin.selection == Selection::default() {
            _ if self.bind == Bind::Core || self.omp || self.policy == Policy::Spread => {
                Scope::Cores
            }
            false => Scope::Selection,
            true => Scope::Placement,
        }
    }
}

#[derive(Clone)]
pub struct Plan {
    pub node: Arc<Topology>,
    pub wish: Arc<Wish>,
    pub step: Step,
    pub map: NodePlacement,
    prepared: Arc<Prepared>,
}

impl Plan {
    /// `read` is called only for files of this node that can change a variable.
    pub fn new(node: Topology, wish: Wish, step: Step, read: ReadFile) -> Plan {
        Plan::of(Arc::new(node), Arc::new(wish), step, read, &[])
    }

    /// The plan of a step. `were`: the rails of the plan before [`Plan::without`]; else empty.
    fn of(node: Arc<Topology>, wish: Arc<Wish>, step: Step, read: ReadFile, were: &[Rail]) -> Plan {
        let alone = step.alone_on_node.then(|| gpus::of_the_step(&node, &step));
        let map = policy::map_of(&node, &wish, alone.as_deref(), were);
        let prepared = Arc::new(Prepared::new(&node, &map, Arc::clone(&wish), &step, read));
        Plan {
            node,
            wish,
            step,
            map,
            prepared,
        }
    }

    /// The plan without `nics`, which the job may not open, each with the reason.
    pub fn without(&self, nics: Vec<(NicIndex, String)>, read: ReadFile) -> Plan {
        let mut wish = Wish::clone(&self.wish);
        wish.admin.selection.unopenable.extend(nics);
        let (node, step) = (Arc::clone(&self.node), self.step.clone());
        Plan::of(node, Arc::new(wish), step, read, &self.map.rails)
    }

    pub fn task(&self, task: &Task, evidence: Evidence) -> TaskPlan<'_> {
        let Plan {
            node,
            wish,
            step,
            map,
            prepared,
        } = self;
        let mut placement = task::placement(node, map, wish, step, task);
        let mut variables = libraries::environment(prepared, node, map, &placement, evidence);
        let is_admins = |name: &str| wish.has_template(name);
        let judges_nics = !libraries::has_list_of_others(&variables, evidence.present, is_admins);
        let strictness = wish.strictness;
        placement.notes.shortfalls =
            strictness::shortfalls(node, map, &placement, judges_nics, strictness);
        let lacks = |room| room::is_lacking(&variables, evidence.present, room);
        if task.room.is_some_and(lacks) {
            let failure = format!("no variable is set: {}", room::WHY);
            placement.notes.failures.push(failure);
            for variable in &mut variables {
                room::withdraw(variable, evidence.present);
            }
        }
        TaskPlan {
            plan: self,
            placement,
            variables,
        }
    }

    pub fn is_strict(&self) -> bool {
        self.wish.strictness > Strictness::BestEffort
    }

    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        [self.prepared.diagnostics(), self.map.diagnostics.clone()].concat()
    }

    /// Names of the variables to copy into a task's [`Evidence`], with `more`, sorted.
    pub fn evidence_variables(&self, more: &[&'static str]) -> Vec<Cow<'static, str>> {
        let names = libraries::NAMES.into_iter().filter(|name| !name.is_empty());
        let mut names: Vec<_> = names.map(Cow::from).collect();
        let templates = self.wish.admin.templates.iter();
        let templates = templates.map(|template| template.name().to_string().into());
        let more = gpus::VARIABLES.iter().chain(more).copied();
        for name in more.map(Cow::from).chain(templates) {
            if let Err(at) = names.binary_search(&name) {
                names.insert(at, name);
            }
        }
        names
    }
}

pub struct TaskPlan<'p> {
    pub plan: &'p Plan,
    pub placement: TaskPlacement,
    pub variables: Vec<Variable<'p>>,
}

impl TaskPlan<'_> {
    pub fn failures(&self) -> Vec<String> {
        let notes = &self.placement.notes;
        [&notes.shortfalls[..], &notes.failures].concat()
    }

    pub fn fails(&self) -> bool {
        !self.placement.notes.shortfalls.is_empty() && self.plan.is_strict()
    }

    pub fn accepts_no_nic(&self) -> bool {
        self.placement.rails.is_empty() && self.plan.wish.strictness == Strictness::BestEffort
    }
}

#[cfg(test)]
mod tests;
