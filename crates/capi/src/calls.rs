//! The five answers to a request, by the same plan as the plugin's and the tool's.
#![forbid(unsafe_code)]

use crate::failure::{Failure, Kind};
use crate::lines;
use crate::request::{Described, Form, Request};
use nic_placement_core::config::{Admin, Words};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::libraries::marker::{self, Devices};
use nic_placement_core::libraries::{Evidence, FileText, Present};
use nic_placement_core::maps::Subject;
use nic_placement_core::placement::{Change, Variable};
use nic_placement_core::plan::{Plan, TaskPlan, Wish};
use nic_placement_core::step::{Step, Task};
use nic_placement_core::topology::Scope;
use nic_placement_core::topology::{Provenance, Topology};
use nic_placement_launch::caller::callers_author;
use nic_placement_launch::formats::{self, FORMATS};
use nic_placement_launch::judge::uses::{self, Use};
use nic_placement_launch::launched::{self, LaunchedProcess, PARTITION, rank};
use nic_placement_launch::{answers, machine_name::machine_named, plugstack, step};
use nic_placement_node::platform;
use nic_placement_process::admin::{self, Found};
use nic_placement_process::devices;
use nic_placement_process::files::{self, UsersFiles};
use nic_placement_process::session::Session;
use nic_placement_sys as sys;
use std::ffi::OsString;

/// The plan of a step on a node: `nic-placement plan --json`.
pub fn plan(request: &str) -> Result<String, Failure> {
    with_plan(request, |request, plan, tasks, findings| {
        // a file system that does not answer is waited for once
        let files = UsersFiles::default();
        let tasks = tasks.iter().map(|task| {
            let (placed, uses) = placed(request, plan, task, &files);
            answers::task_of(plan, &placed, &uses)
        });
        Ok(answers::plan(plan, tasks.collect(), &findings))
    })
}

/// Which NICs each GPU has: `nic-placement map`.
pub fn map(request: &str) -> Result<String, Failure> {
    let (request, described) = Request::parse(request)?;
    let write = match &request.map {
        None => FORMATS[0].1,
        Some(word) => formats::named(word).ok_or_else(|| {
            let known = FORMATS.map(|(word, ..)| word).join(", ");
            Failure::request(format!("`map`: no format is called so; known: {known}"))
        })?,
    };
    let (mut admin, _) = admin(&request)?;
    let mut knows_admin = true;
    if request.is_here {
        let found;
        (found, knows_admin) = found_here(&request);
        admin = found.admin;
    }
    let wish = wish(&request, admin)?;
    let (session, gpus) = session_of(wish, described, |wish, node, _| {
        if !knows_admin {
            launched::select_as_the_step_did(&mut wish.admin, &request.environment, node);
        }
        let gpus = request.gpus(node)?;
        if gpus.is_empty() {
            return Err(Failure::new(
                Kind::NoAnswer,
                format!("`{}` has no GPU", node.name),
            ));
        }
        Ok((step::for_engines(node, &gpus), gpus))
    })?;
    let (plan, _) = session.plan_here(false);
    let Plan {
        node: topology,
        map: node,
        ..
    } = &*plan;
    let subject = Subject {
        topology,
        node,
        gpus: &gpus,
    };
    write(subject).map_err(|why| Failure::new(Kind::NoAnswer, why))
}

/// One task's placement, with its variables: an entry of the plan's `tasks`.
pub fn task(request: &str) -> Result<String, Failure> {
    of_one(request, |form, plan, task, uses, findings| match form {
        Form::Json => answers::task(plan, task, uses, &findings),
        Form::Lines => lines::task(plan, task),
    })
}

/// The changes to one task's environment.
pub fn render(request: &str) -> Result<String, Failure> {
    of_one(request, |form, _, task, _, _| match form {
        Form::Json => answers::environment(task),
        Form::Lines => lines::environment(task),
    })
}

fn of_one(
    request: &str,
    answer: impl FnOnce(Form, &Plan, &TaskPlan, &[Use], Vec<Diagnostic>) -> String,
) -> Result<String, Failure> {
    with_plan(request, |request, plan, tasks, findings| {
        let (id, count) = (request.task.unwrap_or(0), tasks.len());
        let task = tasks.get(id as usize).ok_or_else(|| {
            let why = format!("`task`: there is no task {id}, the step has {count} here");
            Failure::request(why)
        })?;
        let (placed, uses) = placed(request, plan, task, &UsersFiles::default());
        Ok(answer(request.form, plan, &placed, &uses, findings))
    })
}

/// An answer about the plan as this process can carry it out, for tasks that know what they may not open.
fn with_plan(
    request: &str,
    answer: impl FnOnce(&Request, &Plan, &[Task], Vec<Diagnostic>) -> Result<String, Failure>,
) -> Result<String, Failure> {
    let (request, described) = Request::parse(request)?;
    let (admin, doubts) = admin(&request)?;
    let wish = wish(&request, admin)?;
    let (session, mut tasks) = session_of(wish, described, |_, node, _| {
        // a launcher hands on no more than it has itself
        let cpus = match request.is_here {
            true => sys::affinity().unwrap_or_default(),
            false => node.cpus(),
        };
        let step = request.step(node, cpus)?.step(node);
        step.map_err(Failure::request)
    })?;
    let (plan, denied_nics) = session.plan_here(false);
    for task in &mut tasks {
        task.denied_nics.clone_from(&denied_nics);
    }
    let findings = [doubts, session.findings(&plan)].concat();
    answer(&request, &plan, &tasks, findings)
}

/// What becomes of the process that asks, as `nic-placement exec` places a program.
pub fn process(request: &str) -> Result<String, Failure> {
    let (request, described) = Request::parse(request)?;
    if let Form::Lines = request.form {
        return Err(Failure::request("`as`: this call answers in JSON alone"));
    }
    match (request.local_rank, request.local_size) {
        (Some(rank), Some(size)) if rank >= size => {
            let why = format!("`local_rank` {rank} is not below `local_size` {size}");
            return Err(Failure::request(why));
        }
        _ => {}
    }
    let words = request.words.as_deref().map(Words::parse).transpose();
    let words = words.map_err(|bad| Failure::request(format!("`words`: {bad}")))?;
    let (mut admin, mut doubts) = admin(&request)?;
    let present = &request.environment;
    let (mut off, mut knows_admin) = (None, !request.arguments.is_empty());
    if request.is_here {
        let found;
        (found, knows_admin) = found_here(&request);
        (admin, doubts, off) = (found.admin, found.findings, found.off);
    }
    let mut wish = launched::wish(admin, present, words.as_ref());
    let numbering = rank::find(present, request.local_rank, request.local_size);
    let placed = present
        .get(marker::NAME)
        .and_then(|text| marker::devices(text));
    // a task that the plugin placed, rather than one of the processes that it started
    let is_task = numbering.rank.is_none() || numbering.is_slurms() || numbering.repeats_slurm;
    let why = match (off, &placed) {
        (Some(off), _) => Some(off.to_string()),
        _ if !wish.enabled => Some("`off`".to_string()),
        _ if wish.observe => Some("`observe`".to_string()),
        _ if wish.dry_run => Some("`dry-run`".to_string()),
        (None, Some(_)) if is_task => Some(PLACED.to_string()),
        _ => None,
    };
    let unchanged = |why: &str| {
        let cpus = sys::affinity().unwrap_or_default();
        answers::unchanged(
            &placed.clone().unwrap_or_default(),
            &cpus,
            format!("{why}: nothing changes"),
        )
    };
    if let Some(why) = why {
        return Ok(unchanged(&why));
    }
    wish.wordless = true;
    let (session, launched) = session_of(wish, described, |wish, node, devices| {
        if !knows_admin {
            launched::select_as_the_step_did(&mut wish.admin, present, node);
        }
        Ok(LaunchedProcess::new(
            wish,
            node,
            devices,
            present,
            &numbering,
            &[],
        ))
    })?;
    let LaunchedProcess { mut task, note, .. } = launched;
    let (plan, denied_nics) = session.plan_here(false);
    task.denied_nics = denied_nics;
    let (task, _) = self::placed(&request, &plan, &task, &UsersFiles::default());
    if placed
        .as_ref()
        .is_some_and(|before| is_carried_out(&task, before, present))
    {
        return Ok(unchanged(PLACED));
    }
    let found = [doubts, session.findings(&plan)].concat();
    let notes = found
        .iter()
        .map(ToString::to_string)
        .chain(numbering.doubt)
        .chain(note)
        .collect();
    Ok(answers::process(&plan, &task, notes))
}

/// What the request says as an admin, else plugstack.conf, and the configuration file; and whether one of the first two speaks.
fn found_here(request: &Request) -> (Found, bool) {
    let value = |name: &str| request.environment.get(name);
    let partition = value(PARTITION).cloned();
    if request.arguments.is_empty() {
        // the environment may be another user's: by its SLURM_CONF that user would choose root's files
        let counts = |name: &str| name != "SLURM_CONF" || !sys::is_root();
        return plugstack::admin(None, partition.as_deref(), |name| {
            value(name).filter(|_| counts(name)).map(OsString::from)
        });
    }
    let arguments = request.arguments.iter().map(String::as_str);
    (admin::find(arguments, || partition, callers_author()), true)
}

const PLACED: &str = "it is placed already";

/// Has a process with this marker and these variables all that the plan says?  Its CPUs are then kept, which a new marker would
/// not tell: so the old one stays.
fn is_carried_out(plan: &TaskPlan, before: &Devices, present: &Present) -> bool {
    let has = |Variable { name, change, .. }: &Variable| match change {
        Change::Set(value) if name == marker::NAME => marker::devices(value)
            .is_some_and(|now| (now.gpus, now.nics) == (before.gpus.clone(), before.nics.clone())),
        Change::Set(value) => present.get(name.as_ref()) == Some(value),
        Change::Remove => !present.contains_key(name.as_ref()),
        Change::KeepUsers(_) | Change::Leave => true,
    };
    !plan.placement.moves && plan.variables.iter().all(has)
}

fn placed<'p>(
    request: &'p Request,
    plan: &'p Plan,
    task: &Task,
    files: &UsersFiles,
) -> (TaskPlan<'p>, Vec<Use>) {
    let read = |path: &str| of_user(request, files, path);
    let present = &request.environment;
    let mut placed = plan.task(
        task,
        Evidence {
            present,
            read: &read,
        },
    );
    let uses = uses::tell(plan, &mut placed, present);
    (placed, uses)
}

fn admin(request: &Request) -> Result<(Admin, Vec<Diagnostic>), Failure> {
    // a topology that is only described is trusted: no process here is bound by it
    let mut admin = Admin {
        trust_topology: !request.is_here,
        ..Admin::default()
    };
    let mut doubts = Vec::new();
    for argument in &request.arguments {
        let doubt = admin
            .add(argument)
            .map_err(|bad| Failure::request(format!("`arguments`: {bad}")))?;
        doubts.extend(doubt);
    }
    Ok((admin, doubts))
}

fn wish(request: &Request, admin: Admin) -> Result<Wish, Failure> {
    let wish = step::wish(request.words.as_deref(), admin);
    wish.map_err(|bad| Failure::request(format!("`words`: {bad}")))
}

/// The plan of the wish on this node or a described one, and what else `step` makes of it.
fn session_of<T>(
    wish: Wish,
    described: Option<Described>,
    step: impl FnOnce(&mut Wish, &Topology, Option<&devices::DeviceFiles>) -> Result<(Step, T), Failure>,
) -> Result<(Session, T), Failure> {
    match described {
        None => Session::of_this_node(wish, Scope::Full, callers_author(), step),
        Some(described) => Session::new(wish, (topology(described)?, Vec::new()), None, step),
    }
}

fn topology(described: Described) -> Result<Topology, Failure> {
    match described {
        Described::Machine(said) => machine_named(&said)
            .and_then(|name| platform::model(name).ok_or_else(|| name.to_string()))
            .map_err(|why| Failure::new(Kind::Node, format!("`node`: `{said}`: {why}"))),
        Described::Topology(document) => {
            let topology = document.topology(Provenance::File("the request".to_string()));
            topology.map_err(|bad| Failure::new(Kind::Node, format!("`node`: {bad}")))
        }
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
    fn a_request_chooses_no_slurm_conf_for_root() {
        let folder =
            std::env::temp_dir().join(format!("nic-placement-capi-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let line = "optional libnic_placement.so disable\n";
        std::fs::write(folder.join("plugstack.conf"), line).unwrap();
        let named = folder.join("slurm.conf");
        std::fs::write(&named, "").unwrap();
        // a job: the slurmd that may run here is not looked for
        let request = format!(
            r#"{{"format": "nic-placement request", "version": 1, "words": "closest",
            "environment": {{"SLURM_CONF": "{}", "SLURM_JOB_ID": "1"}}}}"#,
            named.display()
        );
        let answer = process(&request).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(answer.contains("disabled by"), !sys::is_root(), "{answer}");
    }
}
