//! Places this process as the plugin places a task.

use super::super::variables::ProgramEnvironment;
use super::{ExecOptions, listen, say};
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
    wish: Wish,
    knows_admin: bool,
    environment: &mut ProgramEnvironment,
) -> Result<Vec<String>, Failure> {
    let present = environment.values();
    let numbering = rank::find(&present, options.local_rank, options.local_size);
    let reports = wish.reports();
    listen(reports || numbering.is_first());

    let words = options.command.iter();
    let words: Vec<&str> = words
        .map(|word| word.to_str().unwrap_or_default())
        .collect();
    let read = node(options, &wish)?;
    let (session, launched) =
        Session::new::<_, Failure>(wish, read, Some(callers_author()), |wish, node, devices| {
            if !knows_admin {
                select_as_the_step_did(&mut wish.admin, &present, node);
            }
            let launched = LaunchedProcess::new(wish, node, devices, &present, &numbering, &words);
            Ok(launched)
        })?;
    let LaunchedProcess {
        mut task,
        note,
        stays_far,
    } = launched;
    let (plan, denied_nics) = session.plan_here(true);
    task.denied_nics = denied_nics;
    let findings = session.findings(&plan);
    let findings = findings.iter().map(ToString::to_string);
    let doubts = numbering.doubt.iter().chain(&note).map(ToString::to_string);
    findings.chain(doubts).for_each(|told| log::warn!("{told}"));

    let files = UsersFiles::default();
    let read = |path: &str| files.read(path);
    let evidence = Evidence {
        present: &present,
        read: &read,
    };
    let mut placed = plan.task(&task, evidence);
    let others = uses::others(&uses::tell(&plan, &mut placed, &present));
    let tell = |text: &String| say(&format!("task {}: {text}", task.global_id));
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
            for doubt in judge::lint(&Checked {
                present: &present,
                topology: node,
                node: map,
                task: &task,
                tasks: step.tasks,
                words: &program::known_of(&judge::WORDS, words.iter().copied()),
                is_bound: placed.placement.moves,
                fabric: wish.admin.fabric,
                interfaces: &interfaces(&read),
            }) {
                say(&format!("{name}: {doubt}"));
            }
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
    let name = |line: &str| Some(line.split_once(':')?.0.trim().to_string());
    devices.lines().skip(2).filter_map(name).collect()
}

/// The node and findings; an error for a description of which this node has no device.
fn node(options: &ExecOptions, wish: &Wish) -> Result<(Topology, Vec<Diagnostic>), Failure> {
    let (author, source) = (callers_author(), options.node.source());
    if source == NodeSource::Live {
        return Ok(node::read(&wish.admin, wish.scope(), author)?);
    }
    let (read, findings) = describe::read_node(&source, Scope::Full)?;
    if matches!(read.provenance, Provenance::Captured(_)) {
        return Ok((read, findings));
    }
    let gpus = read.gpus.clone();
    let (here, findings) = node::confirmed(read, findings, &wish.admin.node_file, author);
    match here.nics.is_empty() && here.gpus == gpus {
        true => Err(format!("none of the devices of `{}` is on this node", here.name).into()),
        false => Ok((here, findings)),
    }
}
