//! Places this process as the plugin places a task.

use super::variables::ProgramEnvironment;
use super::{ExecOptions, Intent, listen, name_of, say};
use crate::commands::Failure;
use nic_placement_core::config::NodeSource;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::libraries::{Evidence, ReadFile};
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::step::{NODE_NAME, program};
use nic_placement_core::topology::{Provenance, Scope, Topology};
use nic_placement_formats::describe;
use nic_placement_launch::caller::callers_author;
use nic_placement_launch::judge::{self, Checked, uses};
use nic_placement_launch::launched::{LaunchedProcess, rank, select_as_the_step_did};
use nic_placement_process::admin::hostname;
use nic_placement_process::files::UsersFiles;
use nic_placement_process::node;
use nic_placement_process::session::{Session, carry_out, report};

/// Returns what could not be had.
pub(super) fn place(
    options: &ExecOptions,
    intent: Intent,
    environment: &mut ProgramEnvironment,
) -> Result<Vec<String>, Failure> {
    let present = environment.values();
    let numbering = rank::find(&present, options.local_rank, options.local_size);
    let reports = intent.wish.reports();
    listen(reports || numbering.is_first());

    let words: Vec<&str> = options
        .command
        .iter()
        .map(|word| word.to_str().unwrap_or_default())
        .collect();
    let mut wish = intent.wish;
    let (read, is_elsewhere) = node(options, &wish)?;
    wish.dry_run |= is_elsewhere;
    wish.admin.trust_topology |= is_elsewhere;
    let author = (!is_elsewhere).then(callers_author);
    let (session, launched) =
        Session::new::<_, Failure>(wish, read, author, |wish, node, devices| {
            if !intent.knows_admin {
                select_as_the_step_did(&mut wish.admin, &present, node);
            }
            let (mut step, mut launched) =
                LaunchedProcess::new(wish, node, devices, &present, &numbering, &words);
            if is_elsewhere {
                // this machine's CPUs are not that one's
                step.cpu_bind = None;
                launched.task.cpus = node.cpus();
                launched.task.step_cpus = node.cpus();
            }
            Ok((step, launched))
        })?;
    let LaunchedProcess {
        mut task,
        note,
        stays_far,
    } = launched;
    let (plan, denied_nics) = session.plan_here(true);
    task.denied_nics = denied_nics;
    session
        .findings(&plan)
        .iter()
        .for_each(|finding| log::warn!("{finding}"));
    numbering
        .doubt
        .iter()
        .chain(&note)
        .for_each(|note| log::warn!("{note}"));

    let files = UsersFiles::default();
    let read = |path: &str| files.read(path);
    let evidence = Evidence {
        present: &present,
        read: &read,
    };
    let mut placed = plan.task(&task, evidence);
    let others = uses::others(&uses::tell(&plan, &mut placed, &present));
    let tell = |text: &String| say(&format!("task {}: {text}", task.global_id));
    if is_elsewhere {
        let (name, machine) = (name_of(&options.command), &plan.node.name);
        let why = format!("none of the devices of `{machine}` is on this node");
        let first = format!("{why}: `{name}` runs as it is; on a `{machine}` it would get");
        let most = match numbering.is_first() || options.local_rank.is_some() {
            _ if reports => usize::MAX,
            true => 5,
            false => 0,
        };
        let lines = placed.lines(machine, &others);
        let lines = [first].into_iter().chain(lines);
        lines.take(most).for_each(|line| say(&line));
        return Ok(vec![why]);
    }
    placed.placement.notes.warning.iter().for_each(tell);
    carry_out(&mut placed, |variables| {
        environment.change(variables);
        Vec::new()
    });
    if reports {
        report(&placed, &present, &others)
            .iter()
            .for_each(|line| say(line));
        // the user's variables are the same in all tasks
        if task.local_id == 0 {
            let name = present.get(NODE_NAME).cloned().unwrap_or_else(hostname);
            let Plan {
                node,
                wish,
                step,
                map,
                ..
            } = &*plan;
            let found = judge::lint(&Checked {
                present: &present,
                topology: node,
                node: map,
                task: &task,
                tasks: step.tasks,
                words: &program::known_of(&judge::WORDS, words.iter().copied()),
                is_bound: placed.placement.moves,
                fabric: wish.admin.fabric,
                interfaces: &interfaces(&read),
            });
            found
                .iter()
                .for_each(|doubt| say(&format!("{name}: {doubt}")));
        }
        return Ok(placed.failures());
    }
    if let Some(why) = stays_far {
        tell(&format!("its CPUs stay far from its GPU: {why}"));
    }
    if !placed.accepts_no_nic() {
        placed.failures().iter().for_each(tell);
    }
    Ok(placed.failures())
}

/// The network interfaces that this process sees (the kernel's net/core/net-procfs.c: two lines of headings, then `name:`).
fn interfaces(read: ReadFile) -> Vec<String> {
    let devices = read("/proc/net/dev").unwrap_or_default().text;
    let names = devices
        .lines()
        .skip(2)
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_string()));
    names.collect()
}

/// The node and findings; true if it is a description of which this node has no device.
fn node(
    options: &ExecOptions,
    wish: &Wish,
) -> Result<((Topology, Vec<Diagnostic>), bool), Failure> {
    let (author, source) = (callers_author(), options.node.source());
    if source == NodeSource::Live {
        return Ok((node::read(&wish.admin, wish.scope(), author)?, false));
    }
    let (node, findings) = describe::read_node(&source, Scope::Full)?;
    if matches!(node.provenance, Provenance::Captured(_)) {
        return Ok(((node, findings), false));
    }
    let here = node::confirmed(
        node.clone(),
        findings.clone(),
        &wish.admin.node_file,
        author,
    );
    match here.0.nics.is_empty() && here.0.gpus == node.gpus {
        true => Ok(((node, findings), true)),
        false => Ok((here, false)),
    }
}
