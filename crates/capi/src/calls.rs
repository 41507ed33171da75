//! The four answers to a request, by the same plan as the plugin's and the tool's.
#![forbid(unsafe_code)]

use crate::failure::{Failure, Kind};
use crate::lines;
use crate::request::{Described, Form, Request};
use nic_placement_core::config::{Admin, Words};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::discover::Scope;
use nic_placement_core::libraries::{Evidence, FileText, Present};
use nic_placement_core::maps::{self, FORMATS, Format, Subject};
use nic_placement_core::placement::{Bind, Change};
use nic_placement_core::plan::{Plan, TaskPlan, Wish};
use nic_placement_core::platform;
use nic_placement_core::step::{Step, Task};
use nic_placement_core::topology::{NicIndex, Provenance, Topology};
use nic_placement_launch::{answers, step};
use nic_placement_process::files::{self, UsersFiles};
use nic_placement_process::nics::{self, Devices};
use nic_placement_process::{maps as kept, node};
use nic_placement_sys as sys;

/// The plan of a step on a node: `nic-placement plan --json`.
pub fn plan(request: &str) -> Result<String, Failure> {
    let (request, described) = Request::parse(request)?;
    let Planned { plan, tasks, diagnostics } = planned(&request, described)?;
    Ok(answers::plan(&plan, &all(&request, &plan, &tasks), &diagnostics))
}

/// Which NICs each GPU has: `nic-placement map`.
pub fn map(request: &str) -> Result<String, Failure> {
    let (request, described) = Request::parse(request)?;
    let format = match &request.map {
        None => Format::Json,
        Some(word) => Format::named(word).ok_or_else(|| {
            let known = FORMATS.map(|(word, ..)| word).join(", ");
            Failure::request(format!("`map`: no format is called so; known: {known}"))
        })?,
    };
    let host = request.host.as_deref().unwrap_or("localhost");
    if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte)) {
        return Err(Failure::request("`host`: expected a node's name"));
    }
    binds_cores_alone(&request)?;
    let (wish, _) = wish(&request)?;
    let (topology, _) = topology(described, &wish.admin)?;
    let gpus = request.gpus(&topology)?;
    if gpus.is_empty() {
        return Err(Failure::new(Kind::NoAnswer, format!("`{}` has no GPU", topology.name)));
    }
    let (plan, cpus) =
        step::for_engines(topology, wish, &gpus, format.is_of_processes(), &|path| of_site(&request, path));
    let plan = opened(&request, plan).0;
    let Plan { node: topology, map: node, .. } = &plan;
    let subject = Subject { topology, node, gpus: &gpus, cpus: &cpus, host };
    maps::write(format, subject).map_err(|why| Failure::new(Kind::NoAnswer, why))
}

/// One task's placement, with its variables: an entry of the plan's `tasks`.
pub fn task(request: &str) -> Result<String, Failure> {
    let (request, described) = Request::parse(request)?;
    let Planned { plan, tasks, diagnostics } = planned(&request, described)?;
    let task = placed(&request, &plan, one(&request, &tasks)?, &UsersFiles::default());
    Ok(match request.form {
        Form::Json => answers::task(&plan, &task, &diagnostics),
        Form::Lines => lines::task(&plan, &task),
    })
}

/// The changes to one task's environment.
pub fn render(request: &str) -> Result<String, Failure> {
    let (request, described) = Request::parse(request)?;
    let Planned { plan, tasks, .. } = planned(&request, described)?;
    let task = placed(&request, &plan, one(&request, &tasks)?, &UsersFiles::default());
    Ok(match request.form {
        Form::Json => answers::environment(&task),
        Form::Lines => lines::environment(&task),
    })
}

struct Planned {
    plan: Plan,
    tasks: Vec<Task>,
    diagnostics: Vec<Diagnostic>,
}

fn planned(request: &Request, described: Option<Described>) -> Result<Planned, Failure> {
    let (mut wish, mut diagnostics) = wish(request)?;
    let (topology, odd) = topology(described, &wish.admin)?;
    match request.is_here {
        true => kept::find(&mut wish.admin, node::callers_author()),
        false => kept::take_to_exist(&mut wish.admin),
    }
    diagnostics.extend(odd);
    // a launcher hands on no more than it has itself
    let cpus = match request.is_here {
        true => sys::affinity().unwrap_or_default(),
        false => topology.cpus(),
    };
    let (step, mut tasks): (Step, Vec<Task>) =
        request.step(&topology, cpus)?.step(&topology).map_err(Failure::request)?;
    let plan = Plan::new(topology, wish, step, &|path| of_site(request, path));
    let (plan, denied) = opened(request, plan);
    tasks.iter_mut().for_each(|task| task.denied_nics.clone_from(&denied));
    diagnostics.extend(plan.diagnostics());
    Ok(Planned { plan, tasks, diagnostics })
}

fn one<'t>(request: &Request, tasks: &'t [Task]) -> Result<&'t Task, Failure> {
    let (id, count) = (request.task.unwrap_or(0), tasks.len());
    let task = tasks.get(id as usize);
    task.ok_or_else(|| Failure::request(format!("`task`: there is no task {id}, the step has {count} here")))
}

fn placed<'p>(request: &'p Request, plan: &'p Plan, task: &Task, files: &UsersFiles) -> TaskPlan<'p> {
    let present: &Present = &request.environment;
    plan.task(task, Evidence { present, read: &|path| of_user(request, files, path) })
}

/// Every task, without the values that it keeps: a plan does not tell them, and thousands of tasks may have a megabyte each.
fn all<'p>(request: &'p Request, plan: &'p Plan, tasks: &[Task]) -> Vec<TaskPlan<'p>> {
    let without_kept = |mut task: TaskPlan<'p>| {
        for variable in &mut task.variables {
            if let Change::KeepUsers(value) = &mut variable.change {
                *value = String::new();
            }
        }
        task
    };
    // a file system that does not answer is waited for once
    let files = UsersFiles::default();
    tasks.iter().map(|task| without_kept(placed(request, plan, task, &files))).collect()
}

/// As the command: a map makes `bind=core` of whatever is asked.
fn binds_cores_alone(request: &Request) -> Result<(), Failure> {
    // what cannot be read is told with the rest
    let words = request.words.as_deref().and_then(|text| Words::parse(text).ok());
    match words.and_then(|words| words.bind) {
        None | Some(Bind::Core) => Ok(()),
        Some(_) => {
            let why = "`words`: a map knows `bind=core` alone: each process gets cores of its own";
            Err(Failure::request(why))
        }
    }
}

fn wish(request: &Request) -> Result<(Wish, Vec<Diagnostic>), Failure> {
    // a topology that is only described is trusted: no process here is bound by it
    let mut admin = Admin { trust_topology: !request.is_here, ..Admin::default() };
    let mut doubts = Vec::new();
    for argument in &request.arguments {
        let doubt = admin.add(argument).map_err(|bad| Failure::request(format!("`arguments`: {bad}")))?;
        doubts.extend(doubt);
    }
    let wish = step::wish(request.words.as_deref(), admin);
    Ok((wish.map_err(|bad| Failure::request(format!("`words`: {bad}")))?, doubts))
}

fn topology(described: Option<Described>, admin: &Admin) -> Result<(Topology, Vec<Diagnostic>), Failure> {
    match described {
        None => node::read(admin, Scope::Full, node::callers_author())
            .map_err(|why| Failure::new(Kind::Node, why)),
        Some(Described::Machine(name)) => {
            let known = || platform::names().collect::<Vec<_>>().join(", ");
            let model = platform::model(&name).ok_or_else(|| {
                let why = format!("`node`: no built-in machine is called so; known: {}", known());
                Failure::new(Kind::Node, why)
            })?;
            Ok((model, Vec::new()))
        }
        Some(Described::Topology(document)) => {
            let provenance = Provenance::File("the request".to_string());
            let topology = document.topology(provenance);
            Ok((topology.map_err(|bad| Failure::new(Kind::Node, format!("`node`: {bad}")))?, Vec::new()))
        }
    }
}

/// The plan without what this process may not open, and what it may not open alone.  Another node is not asked.
fn opened(request: &Request, plan: Plan) -> (Plan, Vec<NicIndex>) {
    if !request.is_here {
        return (plan, Vec::new());
    }
    let devices = Devices::open();
    let plan = nics::without_missing(plan, &devices);
    let closed = nics::closed(&devices, &plan);
    let plan = nics::without_closed(&plan, &closed, false).unwrap_or(plan);
    (plan, closed.to_this_task)
}

/// A file of the site's, which no user names.  Of another node every configuration counts as empty, every file of a `set=`
/// as there.
fn of_site(request: &Request, path: &str) -> Option<FileText> {
    match request.is_here {
        true => files::read(path),
        false => Some(FileText::default()),
    }
}

/// A file that a task's environment may name: root opens none.
fn of_user(request: &Request, files: &UsersFiles, path: &str) -> Option<FileText> {
    match request.is_here {
        true if sys::is_root() && !files::is_kernels(path) => None,
        true => files.read(path),
        false => Some(FileText::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_of_a_plan_hold_no_copy_of_what_the_launcher_set() {
        let list = "mlx5_0,".repeat(10_000);
        let request = format!(
            r#"{{"format": "nic-placement request", "version": 1, "node": {{"machine": "dgx-h100"}}, "tasks": 4,
            "environment": {{"NCCL_IB_HCA": "{list}", "UCX_NET_DEVICES": "{list}"}}}}"#
        );
        let (request, described) = Request::parse(&request).unwrap();
        let Planned { plan, tasks, .. } = planned(&request, described).unwrap();
        let kept = |task: &TaskPlan| -> Vec<usize> {
            let kept = task.variables.iter().filter_map(|variable| match &variable.change {
                Change::KeepUsers(value) => Some(value.len()),
                _ => None,
            });
            kept.collect()
        };
        for task in all(&request, &plan, &tasks) {
            assert_eq!(kept(&task), [0, 0]);
        }
    }
}
