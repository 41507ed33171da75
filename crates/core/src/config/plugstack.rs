//! The admin's arguments, from plugstack.conf and the configuration file.
//!
//! Precedence, lowest first: plugstack.conf, then the file's lines for the cluster, nodes,
//! partitions. The file comes later as it can differ by node, unlike a plugstack.conf that Slurm
//! sends to all nodes (slurm.conf(5), "Configless").

use super::conf::{Audience, Conf};
use super::options::{self, ARGUMENTS, AdminLevel};
use super::words::named;
use crate::diagnostic::{Diagnostic, Shown};
use crate::libraries::wanted::is_variable_name;
use crate::topology::PathType;
use crate::wish::{Admin, Fabric, NodeSource, Pattern, Template, Through, Words, rollout::Rollout};
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginLine {
    pub place: String,
    pub is_required: bool,
    pub path: PathBuf,
    pub arguments: Vec<String>,
    /// true if the file exists; `None` if Slurm's plugin folder is unknown
    pub is_there: Option<bool>,
}

impl PluginLine {
    pub fn is_ours(&self) -> bool {
        self.loads("nic_placement")
    }

    pub fn loads(&self, plugin: &str) -> bool {
        self.path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().contains(plugin))
    }
}

const PLUGSTACK: &str = "plugstack.conf";

/// Parser state for one source of arguments.
struct Layer {
    level: AdminLevel,
    /// `default=` of lower layers
    default: Words,
    /// lists, sources and variables that this layer has set
    named: BTreeSet<String>,
    unknown: usize,
}

impl Layer {
    /// Limit on suggestions: a file may have thousands of wrong words, and every step parses it.
    const MOST_LOOKED_UP: usize = 16;

    fn over(admin: &Admin, level: AdminLevel) -> Layer {
        Layer {
            level,
            default: admin.default.clone(),
            named: BTreeSet::new(),
            unknown: 0,
        }
    }

    /// `why()`, with a suggestion, for the first [`Layer::MOST_LOOKED_UP`] calls; then `short`.
    fn looked_up(&mut self, short: &str, why: impl FnOnce() -> String) -> String {
        self.unknown += 1;
        if self.unknown > Layer::MOST_LOOKED_UP {
            short.to_string()
        } else {
            why()
        }
    }

    fn begins(&mut self, what: &str) -> bool {
        self.named.insert(what.to_string())
    }
}

impl Admin {
    /// Parses plugstack.conf's arguments. A malformed one sets [`Diagnostic::refuses`]: no step is
    /// placed.
    pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> (Admin, Vec<Diagnostic>) {
        let mut admin = Admin::default();
        let arguments = arguments
            .into_iter()
            .map(|argument| (PLUGSTACK.to_string(), argument));
        let findings = admin.take_layer(AdminLevel::Plugstack, arguments);
        (admin, findings)
    }

    pub fn add_conf(
        &mut self,
        conf: &Conf,
        path: &str,
        node: &str,
        partition: Option<&str>,
    ) -> Vec<Diagnostic> {
        let of_audience = |audience: Audience| {
            let lines = conf.lines_for(audience, node, partition);
            self.take_layer(
                audience.level(),
                lines.flat_map(|line| line.arguments(path)),
            )
        };
        Audience::ALL.into_iter().flat_map(of_audience).collect()
    }

    /// Parses `(place, argument)` pairs; returns warnings and refusals.
    pub fn take_layer<'a>(
        &mut self,
        level: AdminLevel,
        arguments: impl IntoIterator<Item = (String, &'a str)>,
    ) -> Vec<Diagnostic> {
        let mut layer = Layer::over(self, level);
        let mut findings = Vec::new();
        for (place, argument) in arguments {
            let found = match self.take(argument, &mut layer) {
                Ok(None) => continue,
                Ok(Some(doubt)) => about(&place, argument, doubt),
                Err(why) => Diagnostic {
                    refuses: true,
                    ..about(&place, argument, why)
                },
            };
            findings.push((argument, found));
        }
        // `fabric=` may follow the argument that needs it
        findings.retain(|(argument, _)| !self.suits_the_fabric(argument));
        findings.into_iter().map(|(_, found)| found).collect()
    }

    /// True if `fabric=` justifies this argument, which is doubtful without it.
    fn suits_the_fabric(&self, argument: &str) -> bool {
        match self.fabric {
            Fabric::IsolatedRails => argument == "set=NCCL_CROSS_NIC=0",
            Fabric::Routed => argument == "set=UCX_IB_ROCE_REACHABILITY_MODE=all",
            Fabric::Unsaid => false,
        }
    }

    /// Takes one argument given outside plugstack.conf: an option of `nic-placement`, or one of the
    /// C API's `arguments`. `Ok` may hold a warning.
    pub fn add(&mut self, argument: &str) -> Result<Option<Diagnostic>, String> {
        let mut layer = Layer::over(self, AdminLevel::Plugstack);
        // lists extend earlier ones; a variable set twice yields a warning
        let variables = self.templates.iter().map(Template::name);
        let lists = ["include", "exclude", "rails"].into_iter();
        layer.named = lists.chain(variables).map(str::to_string).collect();
        let doubt = self
            .take(argument, &mut layer)
            .map_err(|finding| format!("`{argument}`: {finding}"))?;
        Ok(doubt
            .filter(|_| !self.suits_the_fabric(argument))
            .map(|doubt| about(PLUGSTACK, argument, doubt)))
    }

    /// `Ok` may hold a warning, `Err` the reason to refuse the argument.
    fn take(&mut self, argument: &str, layer: &mut Layer) -> Result<Option<String>, String> {
        let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
        let Some(spec) = ARGUMENTS.iter().find(|spec| spec.name == name) else {
            let why = || {
                format!(
                    "unknown argument{}",
                    options::suggestion(ARGUMENTS, name, "`srun --nic-placement=help` lists all")
                )
            };
            return Err(layer.looked_up("unknown argument", why));
        };
        let misfit = || format!("expected `{}`", spec.spelling());
        if layer.level < spec.level {
            return Err(match spec.level {
                AdminLevel::Plugstack => "stands in plugstack.conf alone".into(),
                _ => "not for a partition, which a user's process names: for nodes or the cluster"
                    .into(),
            });
        }
        // switches take `=yes` and `=no`, so that every argument can have a value
        let switch =
            named(&[("yes", true), ("no", false)], value).filter(|_| spec.value.is_empty());
        if switch.is_none() && spec.value.is_empty() != value.is_empty() {
            return Err(misfit());
        }
        match spec.name {
            "default" => {
                let words = Words::parse(value);
                let words =
                    words.map_err(|bad| layer.looked_up("not understood", || bad.to_string()))?;
                self.default = layer.default.overlaid(&words);
            }
            "rollout" => self.rollout = Rollout::parse(value)?,
            // a later layer cannot undo `disable`
            "disable" => self.disabled |= switch.unwrap_or(true),
            "conf" | "node-file" if !value.starts_with('/') => {
                return Err("expected a path that begins with `/`".into());
            }
            "conf" => self.conf = Some(value.to_string()),
            "node-file" => self.node_file.path = value.to_string(),
            "include" => take_patterns(&mut self.selection.include, name, value, layer)?,
            "exclude" => take_patterns(&mut self.selection.exclude, name, value, layer)?,
            "rails" => take_patterns(&mut self.rails, name, value, layer)?,
            "lets-through" => lets_through(&mut self.through, value)?,
            "set" => return self.set_all(value, layer),
            "fabric" => {
                let known = [
                    ("routed", Fabric::Routed),
                    ("isolated-rails", Fabric::IsolatedRails),
                ];
                self.fabric = named(&known, value).ok_or_else(misfit)?;
            }
            "cache" => {
                let seconds = value.parse().ok().filter(|seconds| *seconds <= MAX_CACHE);
                self.node_file.max_age =
                    seconds.ok_or_else(|| format!("{}, 0 to {MAX_CACHE}", misfit()))?;
            }
            "none-is" => {
                let known = [("kept", false), ("unbound", true)];
                self.none_is_unbound = named(&known, value).ok_or_else(misfit)?;
            }
            "trust-topology" => self.trust_topology = switch.unwrap_or(true),
            _ => {
                let source = match name {
                    "topology" => NodeSource::Topology,
                    "machine" => NodeSource::Machine,
                    _ => NodeSource::Sysfs,
                }(value.to_string());
                if !layer.begins("source") && self.source != source {
                    return Err("only one of `topology=`, `machine=` and `sysfs=` can hold".into());
                }
                self.source = source;
            }
        }
        Ok(None)
    }

    fn set_all(&mut self, text: &str, layer: &mut Layer) -> Result<Option<String>, String> {
        let (mut refused, mut doubts) = (Vec::new(), Vec::new());
        for one in assignments(text) {
            if refused.len() == Layer::MOST_LOOKED_UP {
                refused.push("what follows is not read".to_string());
                break;
            }
            match self.set(&one, layer) {
                Ok(doubt) => doubts.extend(doubt),
                Err(why) => refused.push(why),
            }
        }
        if !refused.is_empty() {
            return Err([refused, doubts].concat().join("; "));
        }
        Ok((!doubts.is_empty()).then(|| doubts.join("; ")))
    }

    fn set(&mut self, text: &str, layer: &mut Layer) -> Result<Option<String>, String> {
        let (template, doubt) = Template::parse(text)?;
        let names_a_file = template.is_file() || template.map_files().next().is_some();
        if names_a_file && layer.level < AdminLevel::Node {
            return Err(format!(
                "`{}` names a file, which root looks for: not for a partition, which a user's process names",
                template.name()
            ));
        }
        let doubt = match layer.begins(template.name()) {
            true => doubt,
            false => Some(format!(
                "`{}` is set twice: this one holds",
                template.name()
            )),
        };
        let is_full = self.templates.len() == MAX_TEMPLATES;
        match self
            .templates
            .iter_mut()
            .find(|other| other.name() == template.name())
        {
            Some(earlier) => *earlier = template,
            None if is_full => return Err(format!("more than {MAX_TEMPLATES} variables")),
            None => self.templates.push(template),
        }
        Ok(doubt)
    }
}

/// Extends `list`. A layer's first argument `name` replaces the list of lower layers.
fn take_patterns(
    list: &mut Vec<Pattern>,
    name: &str,
    value: &str,
    layer: &mut Layer,
) -> Result<(), String> {
    let more = patterns(value)?;
    let is_more = layer.named.contains(name);
    let kept = if is_more { list.len() } else { 0 };
    if kept + more.len() > MAX_PATTERNS {
        return Err(too_many_patterns());
    }
    list.truncate(kept);
    layer.begins(name);
    list.extend(more);
    Ok(())
}

fn too_many_patterns() -> String {
    format!("more than {MAX_PATTERNS} NICs: name several at once with `*` and `?`, or their subnet")
}

/// Splits `A=1;B=2`. A `;` without `NAME=` after it is part of the value.
fn assignments(text: &str) -> Vec<String> {
    let begins_one = |part: &str| {
        part.split_once('=')
            .is_some_and(|(name, _)| is_variable_name(name))
    };
    let mut assignments: Vec<String> = Vec::new();
    for part in text.split(';') {
        match assignments.last_mut().filter(|_| !begins_one(part)) {
            Some(last) => *last += &format!(";{part}"),
            None => assignments.push(part.to_string()),
        }
    }
    assignments
}

fn about(place: &str, argument: &str, finding: String) -> Diagnostic {
    let shown = Shown::message(argument, 80);
    Diagnostic::new(format!("{place}: {shown}"), finding)
}

/// Limit on variables of `set=`: each variable costs time in every task.
const MAX_TEMPLATES: usize = 32;

const MAX_CACHE: u64 = 24 * 3600;

/// Limit on patterns in one list: every step compares each with all NICs of the node.
const MAX_PATTERNS: usize = 256;

pub fn patterns(list: &str) -> Result<Vec<Pattern>, String> {
    if list.split(',').nth(MAX_PATTERNS).is_some() {
        return Err(too_many_patterns());
    }
    list.split(',')
        .map(|word| Pattern::parse(word).map_err(|bad| bad.to_string()))
        .collect()
}

/// Parses `PHB:90,SYS:50`; one bad entry refuses the list.
fn lets_through(through: &mut Through, list: &str) -> Result<(), String> {
    let mut changed = *through;
    for word in list.split(',') {
        let misfit =
            || format!("`{word}` is not understood: expected a path and 1 to 100, as `SYS:45`");
        let (name, percent) = word.split_once(':').ok_or_else(misfit)?;
        let path = PathType::ALL
            .into_iter()
            .find(|path| path.to_string() == name)
            .ok_or_else(misfit)?;
        let percent: u64 = percent.parse().map_err(|_| misfit())?;
        if !(1..=100).contains(&percent) {
            return Err(misfit());
        }
        changed.set(path, percent * 10);
    }
    *through = changed;
    Ok(())
}
