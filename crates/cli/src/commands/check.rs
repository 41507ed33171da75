//! `nic-placement check`: what an admin or a user would want to know before a step shows it: Slurm's release, the lines of
//! plugstack.conf, the node, and the variables of this environment.
#![forbid(unsafe_code)]

use super::plugstack::{self, Line};
use super::{Failure, Node, plan};
use nic_placement_core::config::releases::{self, RELEASES};
use nic_placement_core::config::{Admin, NodeSource};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::policy::identity;
use nic_placement_core::render::Present;
use nic_placement_core::render::lint::{self, Subject, lint};
use nic_placement_core::step::{GpuGrant, Step, Task};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is found: good, worth knowing, or to be put right.
struct Report {
    lines: Vec<String>,
    wrong: usize,
}

impl Report {
    fn ok(&mut self, text: impl std::fmt::Display) {
        self.lines.push(format!("ok     {text}"));
    }

    fn note(&mut self, text: impl std::fmt::Display) {
        self.lines.push(format!("note   {text}"));
    }

    fn wrong(&mut self, text: impl std::fmt::Display) {
        self.wrong += 1;
        self.lines.push(format!("wrong  {text}"));
    }
}

pub(super) fn run(mut arguments: lexopt::Parser, output: &mut Vec<u8>) -> Result<(), Failure> {
    use lexopt::prelude::*;
    let mut node = Node::default();
    let (mut version, mut file, mut present) = (None, None, Present::new());
    while let Some(argument) = arguments.next()? {
        match argument {
            Long(name @ ("machine" | "topology")) => {
                let name = name.to_string();
                node.take(&name, arguments.value()?.string()?)?;
            }
            Long("slurm") => version = Some(arguments.value()?.string()?),
            Long("plugstack") => file = Some(PathBuf::from(arguments.value()?)),
            Long("variable") => {
                let text = arguments.value()?.string()?;
                let Some((name, value)) = text.split_once('=') else {
                    let expected = format!("`--variable {text}`: expected NAME=VALUE");
                    return Err(lexopt::Error::from(expected).into());
                };
                present.insert(name.to_string(), value.to_string());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let mut report = Report { lines: Vec::new(), wrong: 0 };
    let live = node.source == NodeSource::Live;
    // another machine's node has neither this one's Slurm nor its environment
    if live || version.is_some() {
        slurm(version.or_else(installed), &mut report);
    }
    let admin = match file.or_else(|| live.then(|| plugstack::place(|name| std::env::var_os(name)))) {
        Some(file) => lines(&file, &mut report),
        None => Admin::default(),
    };
    if live && present.is_empty() {
        let known = lint::READ.into_iter().chain(identity::VARIABLES);
        present = known.filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?))).collect();
    }
    let (topology, diagnostics) = node.read()?;
    let wish = Wish { admin, ..Wish::default() };
    let plan = Plan::new(topology, wish, Step::default(), &|_| Some(String::new()));
    the_node(&plan, &diagnostics, &mut report);
    let topology = &*plan.node;
    let interfaces: Vec<String> = match live {
        true => plugstack::names(Path::new("/sys/class/net")),
        false => topology.nics.iter().flat_map(|nic| nic.netdevs.iter().cloned()).collect(),
    };
    let variables = BTreeMap::from(identity::VARIABLES.map(|name| (name, present.get(name).cloned())));
    let variables = variables.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let task = Task { gpus: GpuGrant { variables, access: Vec::new() }, ..Task::default() };
    let subject = Subject { present: &present, topology, task: &task, tasks: 1, interfaces: &interfaces };
    for finding in lint(&subject) {
        report.note(finding);
    }
    for line in &report.lines {
        writeln!(output, "{line}")?;
    }
    match report.wrong {
        0 => Ok(()),
        1 => Err("check: one thing is wrong".into()),
        more => Err(format!("check: {more} things are wrong").into()),
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
    let shown: String = version.chars().take(60).flat_map(char::escape_debug).collect();
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
        plan::counted(gpus),
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
