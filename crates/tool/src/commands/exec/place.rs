//! Places this process as the plugin places a task.
#![forbid(unsafe_code)]

use super::variables::ProgramEnvironment;
use super::{ExecOptions, Intent, listen, say};
use crate::commands::Failure;
use nic_placement_core::config::NodeSource;
use nic_placement_core::libraries::{Evidence, ReadFile};
use nic_placement_core::placement::CpuDecision;
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::step::{NODE_NAME, program};
use nic_placement_core::topology::Provenance;
use nic_placement_core::topology::Scope;
use nic_placement_formats::describe;
use nic_placement_launch::judge::{self, Checked, uses};
use nic_placement_launch::launched::{LaunchedProcess, rank, select_as_the_step_did};
use nic_placement_process::admin::hostname;
use nic_placement_process::files::UsersFiles;
use nic_placement_process::node;
use nic_placement_process::session::Survey;

/// Returns what could not be had.
pub(super) fn place(
    options: &ExecOptions,
    intent: Intent,
    environment: &mut ProgramEnvironment,
) -> Result<Vec<String>, Failure> {
    let present = environment.values();
    let numbering = rank::find(&present, options.local_rank, options.local_size);
    let reports = intent.wish.settings.verbose || intent.wish.settings.dry_run;
    listen(reports || numbering.is_first());

    let mut survey = survey(options, intent.wish)?;
    if !intent.knows_admin {
        select_as_the_step_did(&mut survey.wish.admin, &present, &survey.node);
    }
    let words: Vec<&str> = options
        .command
        .iter()
        .map(|word| word.to_str().unwrap_or_default())
        .collect();
    let LaunchedProcess {
        step,
        mut task,
        note,
        stays_far,
    } = LaunchedProcess::new(&survey, &present, &numbering, &words);
    let session = survey.plan(step);
    let open = session.opened(true);
    open.findings()
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
    let mut placed = open.place(&mut task, evidence);
    uses::tell(open.plan(), &mut placed, &present);
    if let Some(warning) = &placed.warning {
        say(&format!("task {}: {warning}", task.global_id));
    }
    let failures = open.carry_out(&mut placed, |variables| {
        environment.change(variables);
        Vec::new()
    });
    if reports {
        open.report(&task, &placed, &failures, evidence)
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
            } = open.plan();
            let found = judge::lint(&Checked {
                present: &present,
                topology: node,
                node: map,
                task: &task,
                tasks: step.tasks,
                words: &program::known_of(&judge::WORDS, words.iter().copied()),
                is_bound: matches!(placed.placement.cpus, CpuDecision::Set { .. }),
                fabric: wish.admin.fabric,
                interfaces: &interfaces(&read),
                read: &read,
            });
            found
                .iter()
                .for_each(|doubt| say(&format!("{name}: {doubt}")));
        }
        return Ok(failures);
    }
    if let Some(why) = stays_far {
        say(&format!(
            "task {}: its CPUs stay far from its GPU: {why}",
            task.global_id
        ));
    }
    if !placed.misses_nothing_of_its_own() {
        failures
            .iter()
            .for_each(|failure| say(&format!("task {}: {failure}", task.global_id)));
    }
    Ok(failures)
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

fn survey(options: &ExecOptions, wish: Wish) -> Result<Survey, Failure> {
    let (author, source) = (node::callers_author(), options.node.source());
    if source == NodeSource::Live {
        let scope = wish.scope();
        return Ok(Survey::of_this_node(wish, scope, author)?);
    }
    let (node, findings) = describe::read_node(&source, Scope::Full)?;
    let (node, findings) = match node.provenance {
        Provenance::Model(_) | Provenance::File(_) => {
            node::confirmed(node, findings, &wish.admin.node_file, author)
        }
        Provenance::ThisSystem | Provenance::Captured(_) => (node, findings),
    };
    Ok(Survey::here(wish, node, findings, author))
}
