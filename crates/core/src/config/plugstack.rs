//! The admin's arguments, behind the plugin's path in plugstack.conf.
#![forbid(unsafe_code)]

use super::options::{self, Place};
use super::words::Words;
use crate::diagnostic::Diagnostic;
use crate::policy::{Pattern, Selection, Through};
use crate::render::wanted::{Fabric, Template};
use crate::topology::PathType;

/// Where the node's facts come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NodeSource {
    /// this node's `/sys` and `/proc`
    #[default]
    Live,
    /// the same files below another directory
    Sysfs(String),
    /// a built-in model
    Machine(String),
    /// a topology file
    Topology(String),
}

/// Which node file a step may use instead of reading the live node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFileUse {
    /// `node-file=`
    pub path: String,
    /// `cache=`, in seconds; 0 for none
    pub max_age: u64,
}

impl Default for NodeFileUse {
    fn default() -> NodeFileUse {
        NodeFileUse { path: "/run/nic-placement/node.json".to_string(), max_age: 900 }
    }
}

/// What the admin said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admin {
    /// `default=`
    pub default: Words,
    /// `topology=`, `machine=` or `sysfs=`
    pub source: NodeSource,
    /// `cache=` and `node-file=`
    pub node_file: NodeFileUse,
    /// `trust-topology`
    pub trust_topology: bool,
    /// `include=` and `exclude=`
    pub selection: Selection,
    /// `rails=`
    pub rails: Vec<Pattern>,
    /// `lets-through=`
    pub through: Through,
    /// `fabric=`
    pub fabric: Fabric,
    /// `set=`, one for each name
    pub templates: Vec<Template>,
}

impl Admin {
    /// Reads the arguments.  What cannot be read is named in a diagnostic and passed over: a typo of the admin's must not
    /// cost the users their jobs.
    pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> (Admin, Vec<Diagnostic>) {
        let mut admin = Admin::default();
        let mut diagnostics = Vec::new();
        for argument in arguments {
            // an argument that holds can be doubtful too
            if let Err(finding) | Ok(Some(finding)) = admin.take(argument) {
                diagnostics.push(about(argument, finding));
            }
        }
        (admin, diagnostics)
    }

    /// Takes one more argument, as the tool does for the ones that it knows too.
    pub fn add(&mut self, argument: &str) -> Result<Option<Diagnostic>, String> {
        let doubt = self.take(argument).map_err(|finding| format!("`{argument}`: {finding}"))?;
        Ok(doubt.map(|doubt| about(argument, doubt)))
    }

    /// Takes one argument; the answer is a doubt about one that was taken, or why it was not.
    fn take(&mut self, argument: &str) -> Result<Option<String>, String> {
        let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
        let Some(spec) = options::at(Place::Plugstack).find(|spec| spec.name == name) else {
            let meant = options::meant(Place::Plugstack, name);
            let meant = meant.map_or(";".to_string(), |name| format!(", did you mean `{name}`?"));
            return Err(format!("unknown argument{meant} known: {}", options::known(Place::Plugstack)));
        };
        if spec.value.is_empty() != value.is_empty() {
            return Err(format!("expected `{}`", spec.spelling()));
        }
        match spec.name {
            "default" => self.default = Words::parse(value).map_err(|bad| bad.to_string())?,
            "include" => self.selection.include.extend(patterns(value)?),
            "exclude" => self.selection.exclude.extend(patterns(value)?),
            "rails" => self.rails.extend(patterns(value)?),
            "lets-through" => lets_through(&mut self.through, value)?,
            "set" => return self.set(value),
            "fabric" => {
                self.fabric = match value {
                    "routed" => Fabric::Routed,
                    "isolated-rails" => Fabric::IsolatedRails,
                    _ => return Err(format!("expected `{}`", spec.spelling())),
                }
            }
            "cache" => {
                let seconds = value.parse().ok().filter(|seconds| *seconds <= MAX_CACHE);
                self.node_file.max_age =
                    seconds.ok_or_else(|| format!("expected `cache=SECONDS`, 0 to {MAX_CACHE}"))?;
            }
            "node-file" if value.starts_with('/') => self.node_file.path = value.to_string(),
            "node-file" => return Err("expected a path that begins with `/`".into()),
            "trust-topology" => self.trust_topology = true,
            name => {
                if self.source != NodeSource::Live {
                    return Err(
                        "only one of `topology=`, `machine=` and `sysfs=` can hold: the first is used".into(),
                    );
                }
                self.source = match name {
                    "topology" => NodeSource::Topology(value.to_string()),
                    "machine" => NodeSource::Machine(value.to_string()),
                    _ => NodeSource::Sysfs(value.to_string()),
                };
            }
        }
        Ok(None)
    }

    /// One `set=NAME=TEMPLATE`; the last one for a name holds.
    fn set(&mut self, text: &str) -> Result<Option<String>, String> {
        let (template, doubt) = Template::parse(text)?;
        let again = self.templates.iter().position(|other| other.name() == template.name());
        let Some(again) = again else {
            if self.templates.len() == MAX_TEMPLATES {
                return Err(format!("more than {MAX_TEMPLATES} variables"));
            }
            self.templates.push(template);
            return Ok(doubt);
        };
        let name = template.name().to_string();
        self.templates[again] = template;
        Ok(Some(format!("`{name}` is set twice: this one holds")))
    }
}

fn about(argument: &str, finding: String) -> Diagnostic {
    let shown: String = argument.chars().take(80).collect();
    Diagnostic::new(format!("plugstack.conf: {shown}"), finding)
}

/// Variables of an admin's own, at most: each costs every task a little.
const MAX_TEMPLATES: usize = 32;

/// Seconds of `cache=`, at most: a day.
const MAX_CACHE: u64 = 24 * 3600;

/// NICs separated by commas.
pub fn patterns(list: &str) -> Result<Vec<Pattern>, String> {
    list.split(',').map(|word| Pattern::parse(word).map_err(|bad| bad.to_string())).collect()
}

/// `PHB:90,SYS:50`; nothing of a list with a mistake is taken.
fn lets_through(through: &mut Through, list: &str) -> Result<(), String> {
    let mut changed = *through;
    for word in list.split(',') {
        let (name, percent) = word.split_once(':').unwrap_or((word, ""));
        let path = PathType::ALL.into_iter().find(|path| path.to_string() == name);
        let percent = percent.parse::<u64>().ok().filter(|percent| (1..=100).contains(percent));
        match (path, percent) {
            (Some(path), Some(percent)) => changed.set(path, percent * 10),
            _ => {
                return Err(format!("`{word}` is not understood: expected a path and 1 to 100, as `SYS:45`"));
            }
        }
    }
    *through = changed;
    Ok(())
}
