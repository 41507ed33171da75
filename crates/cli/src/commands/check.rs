//! `nic-placement check`: what an admin or a user would want to know before a step shows it: Slurm's release, the lines of
//! plugstack.conf, the node, and the variables of this environment.
#![forbid(unsafe_code)]

mod facts;

use super::node::Node;
use super::page::{Page, Style, Text};
use super::plugstack::{self, Line};
use super::{Failure, gpu_list, request};
use crate::audit::report::{Finding, Level};
use crate::describe;
use clap::ValueHint;
use nic_placement_core::config::releases::{self, RELEASES};
use nic_placement_core::config::{Admin, NodeFileUse, NodeSource};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::discover::Scope;
use nic_placement_core::discover::root::Author;
use nic_placement_core::node;
use nic_placement_core::node::kept::{self, Kept, NotUsed};
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::policy::identity;
use nic_placement_core::render::lint::{self, Subject, lint};
use nic_placement_core::render::{FileText, Present, ReadFile};
use nic_placement_core::step::{GpuGrant, Step, Task};
use nic_placement_core::topology::{Gpu, Nic, NicRole, PortState, Topology};
use nic_placement_process::admin::{self, Found, Off};
use nic_placement_sys as sys;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LOOKED_AT: &str = "What is looked at";

/// what is wrong with Slurm's release, plugstack.conf, the node and this environment
///
/// Answers before a step does. Was the plugin tested with the installed release of Slurm? What is wrong with the lines of
/// plugstack.conf (typos, the plugin twice, a path without a file, pyxis after it)? Would a step use the node file, and how old
/// is that? Which NICs may be chosen, and which of them fail? What looks wrong in the variables of this environment? Ends with
/// 1 where something is wrong.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement check
  srun -N 16 --ntasks-per-node=1 nic-placement check --json | nic-placement audit -
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
    /// the findings and the node's facts as versioned JSON, which `nic-placement audit` compares
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// What is found: good, worth knowing, or to be put right.
#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
    code: &'static str,
    about: Option<String>,
}

impl Report {
    fn ok(&mut self, text: impl std::fmt::Display) {
        self.add(Level::Ok, text);
    }

    fn note(&mut self, text: impl std::fmt::Display) {
        self.add(Level::Note, text);
    }

    fn wrong(&mut self, text: impl std::fmt::Display) {
        self.add(Level::Wrong, text);
    }

    /// What the next findings are about: the code of all that follow, and for the next one alone what it names, where its
    /// text also has what changes from hour to hour.
    fn look_at(&mut self, code: &'static str, about: Option<&str>) {
        (self.code, self.about) = (code, about.map(str::to_string));
    }

    fn add(&mut self, level: Level, text: impl std::fmt::Display) {
        let (code, about) = (self.code.to_string(), self.about.take());
        self.findings.push(Finding { level, code, about, text: text.to_string() });
    }

    fn count_of_wrong(&self) -> usize {
        self.findings.iter().filter(|finding| finding.level == Level::Wrong).count()
    }

    fn print(&self, page: &mut Page) {
        for Finding { level, text, .. } in &self.findings {
            match level {
                Level::Ok => page.item("ok     ", text),
                Level::Note => page.item("note   ", text),
                Level::Wrong => page.item(Text::styled("wrong  ", Style::Wrong), text),
            }
        }
    }
}

pub(super) fn run(options: &Options, page: &mut Page) -> Result<(), Failure> {
    let present = request::variables(&options.variable)?;
    let mut report = Report::default();
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
    let (topology, diagnostics) = match is_live {
        true => as_a_step_has_it(&admin, options, &mut report)?,
        false => options.node.read()?,
    };
    let wish = Wish { admin, ..Wish::default() };
    let plan = Plan::new(topology, wish, Step::default(), &|_| Some(FileText::default()));
    the_node(&plan, &diagnostics, &mut report);
    let present = if is_live && present.is_empty() { this_environment() } else { present };
    report.look_at("variable", None);
    the_variables(&plan, &present, is_live, &mut report);
    let wrong = report.count_of_wrong();
    match options.json {
        true => {
            let slurms_name = std::env::var("SLURMD_NODENAME").ok().filter(|_| is_live);
            let root = describe::root_of(&options.node.source());
            page.exact(&facts::report(&plan, root.as_ref(), slurms_name, report.findings).to_json());
        }
        false => report.print(page),
    }
    match wrong {
        0 => Ok(()),
        1 => Err("check: one thing is wrong".into()),
        more => Err(format!("check: {more} things are wrong").into()),
    }
}

/// This node from where a step would have it, so that a device that does not answer keeps nobody waiting here either.
fn as_a_step_has_it(
    admin: &Admin,
    options: &Options,
    report: &mut Report,
) -> Result<(Topology, Vec<Diagnostic>), Failure> {
    report.look_at("node-file", Some(&admin.node_file.path));
    let kept = the_node_file(&admin.node_file, report);
    let here = |kept: Option<Kept>| match kept {
        Some(Kept { topology, diagnostics, .. }) => Ok((topology, diagnostics)),
        None => options.node.read(),
    };
    if admin.source == NodeSource::Live {
        return here(kept);
    }
    // as the plugin does, which is root in a step
    match node::read(&admin.source, Scope::Full, Author::Root) {
        Ok((mut described, mut diagnostics)) => {
            let described_elsewhere = !matches!(admin.source, NodeSource::Sysfs(_));
            if described_elsewhere {
                diagnostics.extend(node::confirm(&mut described, &here(kept)?.0));
            }
            Ok((described, diagnostics))
        }
        Err(why) => {
            report.wrong(format_args!("no step gets anything set: {why}"));
            here(kept)
        }
    }
}

/// What the plugin would make of the node file.
fn the_node_file(NodeFileUse { path, max_age }: &NodeFileUse, report: &mut Report) -> Option<Kept> {
    if *max_age == 0 {
        report.note("`cache=0`: each step reads the node itself, and waits for its hardware");
        return None;
    }
    // as the plugin reads it, whoever asks here
    match kept::read(Path::new(path), *max_age, Author::Root, sys::seconds_since_boot()) {
        Ok(kept) => {
            report.ok(format_args!("a step has the node from `{path}`, which is {} s old", kept.age));
            return Some(kept);
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
    None
}

/// The variables of this process that a task's libraries would read.
fn this_environment() -> Present {
    let known = lint::variables().chain(identity::VARIABLES);
    known.filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?))).collect()
}

fn the_variables(plan: &Plan, present: &Present, is_live: bool, report: &mut Report) {
    let topology = &*plan.node;
    let interfaces: Vec<String> = match is_live {
        true => plugstack::names(Path::new("/sys/class/net")),
        false => topology.nics.iter().flat_map(|nic| nic.netdevs.iter().cloned()).collect(),
    };
    let variables = BTreeMap::from(identity::VARIABLES.map(|name| (name, present.get(name).cloned())));
    let variables = variables.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let task = Task { gpus: GpuGrant { variables, access: Vec::new() }, ..Task::default() };
    // another machine's files are not here to be looked at
    let there = |_: &str| Some(FileText::default());
    let here = |path: &str| Path::new(path).is_file().then(FileText::default);
    let read: ReadFile = if is_live { &here } else { &there };
    let subject =
        Subject { present, topology, node: &plan.map, task: &task, tasks: 1, interfaces: &interfaces, read };
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
    report.look_at("slurm", None);
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

/// What the plugin's line and the configuration file say together for a step on this node, read as root reads it.
fn as_on_this_node(arguments: &[String], report: &mut Report) -> Admin {
    let Found { admin, findings, file, off } =
        admin::find(arguments.iter().map(String::as_str), || None, Author::Root);
    let everywhere = file.iter().flat_map(|(conf, path)| Admin::check_conf(conf, path));
    let elsewhere: Vec<Diagnostic> = everywhere.filter(|finding| !findings.contains(finding)).collect();
    findings.iter().chain(&elsewhere).for_each(|finding| report.wrong(finding));
    match off {
        Some(why @ Off::Refused(_)) => report.wrong(why),
        Some(why) => report.note(format_args!("no step is placed here, whoever asks: {why}")),
        None => {}
    }
    admin
}

/// The plugin's line of plugstack.conf and those around it; returns what that line says.
fn lines(file: &Path, report: &mut Report) -> Admin {
    report.look_at("plugstack", None);
    let (lines, findings) = plugstack::read(file);
    let unread = !findings.is_empty();
    for finding in findings {
        report.wrong(finding);
    }
    let ours: Vec<usize> =
        (0..lines.len()).filter(|&at| lines[at].file_name().contains("nic_placement")).collect();
    let Some(&first) = ours.first() else {
        if unread {
            return as_on_this_node(&[], report);
        }
        report.note(format_args!("`{}`: no line loads the plugin", file.display()));
        return as_on_this_node(&[], report);
    };
    let line = &lines[first];
    let (_, diagnostics) = Admin::parse(line.arguments.iter().map(String::as_str));
    let admin = as_on_this_node(&line.arguments, report);
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
    report.look_at("node", None);
    match (gpus, node.rails.len()) {
        (0, _) => report.note(format_args!("{facts}: without a GPU nothing is set")),
        (_, 0) if topology.is_left_to_libfabric() => {
            report.ok(format_args!("{facts}: they are left to libfabric's own providers"));
        }
        (_, 0) => report.wrong(format_args!("{facts}: `nic-placement show` says why")),
        _ => report.ok(facts),
    }
    report.look_at("nic-broken", None);
    for rail in &node.broken {
        report.wrong(format_args!(
            "`{rail}` would be used if it worked: `nic-placement show` says what is wrong"
        ));
    }
    report.look_at("nic-slower", None);
    for slower in slower_rails(plan) {
        report.note(slower);
    }
    report.look_at("odd", None);
    for diagnostic in diagnostics.iter().chain(&node.diagnostics).chain(&identity::lint(topology)) {
        report.note(diagnostic);
    }
}

/// Ports that are left out because they are slower than the fabric, though a GPU has no rail as near: a link that came up at
/// half its rate, or a node that was built so.
///
/// On one bad node among good ones it is right to leave them out: the slowest would set the pace of all.  Where all nodes
/// are alike bandwidth is lost.  No node can tell which it is.
fn slower_rails(plan: &Plan) -> Vec<String> {
    let (topology, node) = (&*plan.node, &plan.map);
    let path = |gpu: &Gpu, nic: &Nic| nic.address.map(|address| topology.path_type(gpu.address, address));
    let slowest = node.rails.iter().filter_map(|rail| rail.rate_mbps).min();
    let lacks_a_rail_as_near = |gpu: &Gpu, nic: &Nic| {
        let nearest = node.rails.iter().filter_map(|rail| path(gpu, topology.nic(rail.nic))).min();
        path(gpu, nic).is_some() && path(gpu, nic) < nearest
    };
    let mut found = Vec::new();
    for excluded in &node.excluded {
        let Some(nic) = topology.nics.iter().find(|nic| nic.name == excluded.name) else { continue };
        let port = nic.ports.iter().find(|port| Some(port.number) == excluded.port);
        let works = port.filter(|port| port.state == PortState::Active && port.rate_mbps < slowest);
        let is_slower = works.is_some_and(|port| port.rate_mbps.is_some());
        let is_compute = nic.role.is_none_or(|role| role == NicRole::Compute);
        if is_slower && is_compute && topology.gpus.iter().any(|gpu| lacks_a_rail_as_near(gpu, nic)) {
            found.push(format!(
                "`{}` is left out: {}: right if this node alone has such a port; if all have, `include={}` takes it",
                excluded.name, excluded.why, excluded.name
            ));
        }
    }
    found
}
