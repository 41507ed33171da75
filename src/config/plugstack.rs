//! The admin's arguments, behind the plugin's path in plugstack.conf.
#![forbid(unsafe_code)]

use super::options::{self, Place};
use super::words::Words;
use crate::diagnostic::Diagnostic;
use crate::policy::{Pattern, Selection, Through};
use crate::topology::PathType;

/// Where the node's facts come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Source {
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

/// What the admin said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admin {
    /// `default=`
    pub default: Words,
    /// `topology=`, `machine=` or `sysfs=`
    pub source: Source,
    /// `trust-topology`
    pub trust_topology: bool,
    /// `include=` and `exclude=`
    pub selection: Selection,
    /// `rails=`
    pub rails: Vec<Pattern>,
    /// `lets-through=`
    pub through: Through,
    /// `panic=`, in test builds only
    pub panic: Option<String>,
}

impl Admin {
    /// Reads the arguments.  What cannot be read is named in a diagnostic and passed over: a typo of the admin's must not
    /// cost the users their jobs.
    pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> (Admin, Vec<Diagnostic>) {
        let mut admin = Admin::default();
        let mut diagnostics = Vec::new();
        for argument in arguments {
            if let Err(finding) = admin.take(argument) {
                let shown: String = argument.chars().take(80).collect();
                diagnostics.push(Diagnostic::new(format!("plugstack.conf: {shown}"), finding));
            }
        }
        (admin, diagnostics)
    }

    fn take(&mut self, argument: &str) -> Result<(), String> {
        let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
        if cfg!(feature = "panic-in-hooks") && name == "panic" {
            self.panic = Some(value.to_string());
            return Ok(());
        }
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
            "trust-topology" => self.trust_topology = true,
            name => {
                if self.source != Source::Live {
                    return Err(
                        "only one of `topology=`, `machine=` and `sysfs=` can hold: the first is used".into(),
                    );
                }
                self.source = match name {
                    "topology" => Source::Topology(value.to_string()),
                    "machine" => Source::Machine(value.to_string()),
                    _ => Source::Sysfs(value.to_string()),
                };
            }
        }
        Ok(())
    }
}

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
