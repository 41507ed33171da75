//! `nic-placement check`: what an admin or a user would want to know before a step shows it: Slurm's release, the lines of
//! plugstack.conf, the node, and the variables of this environment.
#![forbid(unsafe_code)]

use super::node::Node;
use super::page::{Page, Style, Text};
use super::plugstack::{self, Line};
use super::{Failure, gpu_list, request};
use clap::ValueHint;
use nic_placement_core::config::releases::{self, RELEASES};
use nic_placement_core::config::{Admin, NodeFileUse, NodeSource};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::discover::root::Author;
use nic_placement_core::node::kept::{self, Kept, NotUsed};
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::policy::identity;
use nic_placement_core::render::lint::{self, Subject, lint};
use nic_placement_core::render::{FileText, Present};
use nic_placement_core::step::{GpuGrant, Step, Task};
use nic_placement_core::topology::Topology;
use nic_placement_sys as sys;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LOOKED_AT: &str = "What is looked at";

/// what is wrong with Slurm's release, plugstack.conf, the node and this environment
///
/// Tells before a step shows it whether the plugin was tested with the installed release of Slurm, what is wrong with the
/// lines of plugstack.conf (typos, the plugin twice, a path without a file, pyxis behind it), whether a step has the node from
/// the node file and how old that is, whether the node's NICs may be chosen and which of them fail, and what looks wrong in the variables of this environment. Ends with 1 where something is
/// wrong.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement check
  nic-placement check --plugstack 90-nic-placement.conf --variable NCCL_IB_HCA=mlx5_1")]
pub(super) struct Options {
    #[command(flatten)]
    node: Node,
    /// this file, with what it includes, instead of the one that Slurm reads
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = LOOKED_AT)]
    plugstack: Option<PathBuf>,
    /// what srun --version prints, instead of asking it
    #[arg(long, value_name = "TEXT", help_heading = LOOKED_AT)]
    slurm: Option<String>,
    /// a variable to look at, instead of this environment; again for more
    #[arg(long, value_name = "NAME=VALUE", action = clap::ArgAction::Append, help_heading = LOOKED_AT)]
    variable: Vec<String>,
}

/// What is found: good, worth knowing, or to be put right.
struct Report<'p> {
    page: &'p mut Page,
    wrong: usize,
}

impl Report<'_> {
    fn ok(&mut self, text: impl std::fmt::Display) {
        self.page.item("ok     ", text);
    }

    fn note(&mut self, text: impl std::fmt::Display) {
        self.page.item("note   ", text);
    }

    fn wrong(&mut self, text: impl std::fmt::Display) {
        self.wrong += 1;
        self.page.item(Text::styled("wrong  ", Style::Wrong), text);
    }
}

pub(super) fn run(options: &Options, page: &mut Page) -> Result<(), Failure> {
    let present = request::variables(&options.variable)?;
    let mut report = Report { page, wrong: 0 };
    let is_live = options.node.source() == NodeSource::Live;
    // another machine's node has neither this one's Slurm nor its environment
    if is_live || options.slurm.is_some() {
        slurm(options.slurm.clone().or_else(installed), &mut report);
    }
    let slurms_file = || is_live.then(|| plugstack::place(|name| std::env::var_os(name)));
    let admin = match options.plugstack.clone().or_else(slurms_file) {
        Some(file) => lines(&file, &mut report),
        None => Admin::default(),
    };
    if is_live {
        the_node_file(&admin.node_file, &mut report);
    }
    let (topology, diagnostics) = options.node.read()?;
    let wish = Wish { admin, ..Wish::default() };
    let plan = Plan::new(topology, wish, Step::default(), &|_| Some(FileText::default()));
    the_node(&plan, &diagnostics, &mut report);
    let present = if is_live && present.is_empty() { this_environment() } else { present };
    the_variables(&plan.node, &present, is_live, &mut report);
    match report.wrong {
        0 => Ok(()),
        1 => Err("check: one thing is wrong".into()),
        more => Err(format!("check: {more} things are wrong").into()),
    }
}

/// Where a step would have the node from.
fn the_node_file(NodeFileUse { path, max_age }: &NodeFileUse, report: &mut Report) {
    if *max_age == 0 {
        return report.note("`cache=0`: each step reads the node itself, and waits for its hardware");
    }
    // as the plugin reads it, whoever asks here
    match kept::read(Path::new(path), *max_age, Author::Root, sys::seconds_since_boot()) {
        Ok(Kept { age, .. }) => {
            report.ok(format_args!("a step has the node from `{path}`, which is {age} s old"));
        }
        Err(NotUsed::Absent(_)) => report.note(format_args!(
            "each step reads the node itself, and waits for its hardware: `{path}` is not there, which \
             `nic-placement refresh` writes"
        )),
        Err(why @ (NotUsed::Changed(_) | NotUsed::OtherBoot)) => {
            report.note(format_args!("each step reads the node itself: {why}"));
        }
        Err(why) => report.wrong(format_args!("each step reads the node itself: {why}")),
    }
}

/// The variables of this process that a task's libraries would read.
fn this_environment() -> Present {
    let known = lint::READ.into_iter().chain(identity::VARIABLES);
    known.filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?))).collect()
}

fn the_variables(topology: &Topology, present: &Present, is_live: bool, report: &mut Report) {
    let interfaces: Vec<String> = match is_live {
        true => plugstack::names(Path::new("/sys/class/net")),
        false => topology.nics.iter().flat_map(|nic| nic.netdevs.iter().cloned()).collect(),
    };
    let variables = BTreeMap::from(identity::VARIABLES.map(|name| (name, present.get(name).cloned())));
    let variables = variables.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let task = Task { gpus: GpuGrant { variables, access: Vec::new() }, ..Task::default() };
    let subject = Subject { present, topology, task: &task, tasks: 1, interfaces: &interfaces };
    for finding in lint(&subject) {
        report.note(finding);
    }
}

/// What Slurm's programs say here: srun wants a slurm.conf to say it, slurmd and sinfo do not.
fn installed() -> Option<String> {
    ["srun", "slurmd", "sinfo"].into_iter().find_map(|program| {
        let mut asked = Command::new(program);
        let printed = asked.arg("-V").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&printed.stdout).trim().to_string();
        (!text.is_empty()).then_some(text)
    })
}

fn slurm(version: Option<String>, report: &mut Report) {
    let Some(version) = version else {
        return report.note("Slurm: none of its programs tells its release here");
    };
    let shown: String = version.chars().take(60).collect();
    match releases::of_version(&version) {
        Some(release) => match release.tested {
            Some(tested) => {
                report.ok(format_args!("Slurm `{shown}`: release {}, tested with {tested}", release.name()));
            }
            None => report.note(format_args!(
                "Slurm `{shown}`: the plugin answers to release {}, and was not tested with it",
                release.name()
            )),
        },
        None => {
            let (first, last) = (RELEASES[0].name(), RELEASES[RELEASES.len() - 1].name());
            report.wrong(format_args!(
                "Slurm `{shown}`: no release that the plugin knows ({first} to {last}): Slurm will refuse it"
            ));
        }
    }
}

/// The plugin's line of plugstack.conf and those around it; returns what that line says.
fn lines(file: &Path, report: &mut Report) -> Admin {
    let (lines, findings) = plugstack::read(file);
    let unread = !findings.is_empty();
    for finding in findings {
        report.wrong(finding);
    }
    let ours: Vec<usize> =
        (0..lines.len()).filter(|&at| lines[at].file_name().contains("nic_placement")).collect();
    let Some(&first) = ours.first() else {
        if unread {
            return Admin::default();
        }
        report.note(format_args!("`{}`: no line loads the plugin", file.display()));
        return Admin::default();
    };
    let line = &lines[first];
    let (admin, diagnostics) = Admin::parse(line.arguments.iter().map(String::as_str));
    for diagnostic in &diagnostics {
        report.wrong(diagnostic);
    }
    for &again in &ours[1..] {
        report.wrong(format_args!(
            "`{}`: the plugin is listed twice: the option of the second is disabled, and each of srun's users is told",
            lines[again].place
        ));
    }
    if line.required {
        report.note(format_args!(
            "`{}`: `required`: if the plugin does not load, nobody can submit a job; `optional` is enough",
            line.place
        ));
    }
    if line.path.is_absolute() && !line.path.exists() {
        report.wrong(format_args!("`{}`: there is no `{}`", line.place, line.path.display()));
    }
    let container = lines[first..].iter().find(|line| line.file_name().contains("pyxis"));
    match container {
        Some(Line { place, .. }) => report.wrong(format_args!(
            "`{place}`: pyxis stands after the plugin: a container's environment, the same for all tasks, may replace what \
             is set; list nic-placement after pyxis, as `90-nic-placement.conf`"
        )),
        None if diagnostics.is_empty() => report.ok(format_args!("`{}`: loads `{}`", line.place, line.path.display())),
        None => {}
    }
    admin
}

/// The node as the plugin would see it with that line.
fn the_node(plan: &Plan, diagnostics: &[Diagnostic], report: &mut Report) {
    let (topology, node) = (&*plan.node, &plan.map);
    let (gpus, nics) = (topology.gpus.len(), topology.nics.len());
    let facts = format!(
        "node `{}`: {}, {} of {nics} NICs may be chosen",
        topology.name,
        gpu_list::counted(gpus),
        node.rails.len()
    );
    match (gpus, node.rails.len()) {
        (0, _) => report.note(format_args!("{facts}: without a GPU nothing is set")),
        (_, 0) if topology.is_left_to_libfabric() => {
            report.ok(format_args!("{facts}: they are left to libfabric's own providers"));
        }
        (_, 0) => report.wrong(format_args!("{facts}: `nic-placement show` says why")),
        _ => report.ok(facts),
    }
    for rail in &node.broken {
        report.wrong(format_args!(
            "`{rail}` would be used if it worked: `nic-placement show` says what is wrong"
        ));
    }
    for diagnostic in diagnostics.iter().chain(&node.diagnostics).chain(&identity::lint(topology)) {
        report.note(diagnostic);
    }
}
