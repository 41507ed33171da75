//! The story in one place: node + step + settings -> plan.  The plugin and the tool both call it.
#![forbid(unsafe_code)]

use crate::config::{Admin, Settings, Source};
use crate::diagnostic::Diagnostic;
use crate::discover::{Manifest, Root, Scope, discover, root};
use crate::placement::{NodePlacement, TaskPlacement, Variable};
use crate::platform;
use crate::policy;
use crate::render::{self, Present};
use crate::step::{Step, Task};
use crate::topology::{Provenance, Topology, file};
use std::fmt;
use std::path::Path;

/// Why there is no topology.
#[derive(Debug)]
pub enum NoTopology {
    /// the file or directory cannot be read
    Unreadable(String, std::io::Error),
    /// the file is not a topology
    Bad(String, String),
    /// there is no such model
    NoModel(String),
}

impl fmt::Display for NoTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoTopology::Unreadable(path, error) => write!(f, "cannot read `{path}`: {error}"),
            NoTopology::Bad(path, problem) => write!(f, "`{path}` is no topology: {problem}"),
            NoTopology::NoModel(name) => {
                let known: Vec<&str> = platform::names().collect();
                write!(f, "no built-in machine is called `{name}`; known: {}", known.join(", "))
            }
        }
    }
}

impl std::error::Error for NoTopology {}

/// The node, from wherever the admin or the user of the tool wants it read.
pub fn read_node(source: &Source, scope: Scope) -> Result<(Topology, Vec<Diagnostic>), NoTopology> {
    match source {
        Source::Live => Ok(discover(&Root::live(), scope, Provenance::ThisSystem)),
        Source::Sysfs(path) => {
            let root = Root::directory(Path::new(path))
                .map_err(|error| NoTopology::Unreadable(path.clone(), error))?;
            Ok(discover(&root, scope, Provenance::Captured(path.clone())))
        }
        Source::Machine(name) => platform::model(name)
            .map(|topology| (topology, Vec::new()))
            .ok_or(NoTopology::NoModel(name.clone())),
        Source::Topology(path) => {
            let unreadable = |error| NoTopology::Unreadable(path.clone(), error);
            if Path::new(path).is_dir() {
                return read_node(&Source::Sysfs(path.clone()), scope);
            }
            let text = root::read_file(Path::new(path), Manifest::MAX_BYTES).map_err(unreadable)?;
            parse(path, &text, scope).map_err(|problem| NoTopology::Bad(path.clone(), problem))
        }
    }
}

/// Any text that describes a node.
fn parse(name: &str, text: &str, scope: Scope) -> Result<(Topology, Vec<Diagnostic>), String> {
    if Manifest::is_manifest(text) {
        let manifest = Manifest::parse(text).map_err(|bad| bad.to_string())?;
        return Ok(discover(&Root::manifest(manifest), scope, Provenance::Captured(name.to_string())));
    }
    let topology =
        file::from_json(text, Provenance::File(name.to_string())).map_err(|bad| bad.to_string())?;
    Ok((topology, Vec::new()))
}

/// Takes from a described node what is not on this one: a library that is told of a NIC that does not exist has none.
/// Ports get the state and rate that they have here and now.
pub fn confirm(topology: &mut Topology, live: &Topology) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    topology.nics.retain_mut(|nic| {
        let Some(here) = live.nics.iter().find(|here| here.name == nic.name) else {
            diagnostics.push(Diagnostic::new(&nic.name, "described, but not on this node: left out"));
            return false;
        };
        nic.ports = here.ports.clone();
        true
    });
    diagnostics
}

/// The node-wide map.
pub fn place_node(topology: &Topology, admin: &Admin, settings: Settings) -> NodePlacement {
    policy::place(topology, settings.policy, &admin.selection)
}

/// One task's share of it, and what becomes of its environment.
pub fn place_task(
    topology: &Topology,
    node: &NodePlacement,
    admin: &Admin,
    settings: Settings,
    step: &Step,
    task: &Task,
    present: &Present,
) -> (TaskPlacement, Vec<Variable>) {
    let mut placement = policy::task::place(topology, node, step, task, settings.bind, admin.trust_topology);
    let (variables, reasons) = render::environment(topology, node, &placement, present);
    placement.reasons.extend(reasons);
    (placement, variables)
}
