//! The admin's arguments, behind the plugin's path in plugstack.conf and in the configuration file.
//!
//! Each place makes a layer: plugstack.conf, then the file's lines for the cluster, for nodes, for partitions.  A nearer
//! layer counts.  plugstack.conf is the same on all nodes where Slurm itself hands it out (slurm.conf(5), "Configless"), and
//! the file is the node's own, so it is the nearer one.
#![forbid(unsafe_code)]

use super::conf::{Audience, Conf, ConfLine};
use super::options::{self, ARGUMENTS, AdminLevel};
use super::words::named;
use crate::diagnostic::{Diagnostic, Shown};
use crate::libraries::wanted::is_variable_name;
use crate::topology::PathType;
use crate::wish::rollout::Rollout;
use crate::wish::{Admin, Fabric, NodeSource, Pattern, Template, Through, Words};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A line of plugstack.conf that loads a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginLine {
    /// the file and the line's number
    pub place: String,
    /// `required`, rather than `optional`
    pub is_required: bool,
    pub path: PathBuf,
    pub arguments: Vec<String>,
    /// `None` where the folder that Slurm would look in is not known
    pub is_there: Option<bool>,
}

impl PluginLine {
    pub fn is_ours(&self) -> bool {
        self.loads("nic_placement")
    }

    /// True if the name of the file that it loads contains `plugin`.
    pub fn loads(&self, plugin: &str) -> bool {
        self.path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().contains(plugin))
    }
}

const PLUGSTACK: &str = "plugstack.conf";

/// One source of arguments, while it is read.
struct Layer {
    /// the highest level of an argument in it
    level: AdminLevel,
    /// `default=` without this layer
    default: Words,
    /// the lists, sources and variables that it has named: the first naming replaces those of earlier layers
    named: BTreeSet<String>,
    /// number of unknown arguments and words
    unknown: usize,
}

impl Layer {
    /// Unknown arguments and words that are compared with the known ones, at most: another program's file has
    /// thousands, and each step reads it.
    const MOST_LOOKED_UP: usize = 16;

    fn over(admin: &Admin, level: AdminLevel) -> Layer {
        Layer {
            level,
            default: admin.default.clone(),
            named: BTreeSet::new(),
            unknown: 0,
        }
    }

    /// Why an argument or word is not understood: `why`, which compares the known ones, for the first few.
    fn looked_up(&mut self, short: &str, why: impl FnOnce() -> String) -> String {
        self.unknown += 1;
        if self.unknown > Layer::MOST_LOOKED_UP {
            short.to_string()
        } else {
            why()
        }
    }

    /// True if this layer names `what` for the first time.
    fn begins(&mut self, what: &str) -> bool {
        self.named.insert(what.to_string())
    }
}

impl Admin {
    /// Reads the arguments.  One that is not understood is refused by a diagnostic: no step is placed then.
    pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> (Admin, Vec<Diagnostic>) {
        let mut admin = Admin::default();
        let arguments = arguments
            .into_iter()
            .map(|argument| (PLUGSTACK.to_string(), argument));
        let findings = admin.take_layer(AdminLevel::Plugstack, arguments);
        (admin, findings)
    }

    /// Adds what the configuration file at `path` says for a step of this partition on this node.
    pub fn add_conf(
        &mut self,
        conf: &Conf,
        path: &str,
        node: &str,
        partition: Option<&str>,
    ) -> Vec<Diagnostic> {
        let mut findings = Vec::new();
        for audience in Audience::ALL {
            let lines = conf.lines_for(audience, node, partition);
            findings.extend(self.take_layer(
                audience.level(),
                lines.flat_map(|line| line.arguments(path)),
            ));
        }
        findings
    }

    /// Mistakes in all lines of the file at `path`, for all nodes and partitions; only lines for `node` refuse.
    pub fn check_conf(conf: &Conf, path: &str, node: &str) -> Vec<Diagnostic> {
        let of_line = |line: &ConfLine| {
            let is_here = line.is_for_node(node);
            let findings =
                Admin::default().take_layer(line.audience().level(), line.arguments(path));
            findings.into_iter().map(move |found| Diagnostic {
                refuses: found.refuses && is_here,
                ..found
            })
        };
        conf.lines.iter().flat_map(of_line).collect()
    }

    fn take_layer<'a>(
        &mut self,
        level: AdminLevel,
        arguments: impl IntoIterator<Item = (String, &'a str)>,
    ) -> Vec<Diagnostic> {
        let mut layer = Layer::over(self, level);
        let mut findings = Vec::new();
        for (place, argument) in arguments {
            let found = match self.take(argument, &mut layer) {
                Ok(None) => continue,
                // an argument that holds can be doubtful too
                Ok(Some(doubt)) => about(&place, argument, doubt),
                Err(why) => Diagnostic {
                    refuses: true,
                    ..about(&place, argument, why)
                },
            };
            findings.push((argument, found));
        }
        // the fabric may be named after it
        findings.retain(|(argument, _)| !self.suits_the_fabric(argument));
        findings.into_iter().map(|(_, found)| found).collect()
    }

    /// True if the fabric, as the admin describes it, needs this argument, which is doubtful elsewhere.
    fn suits_the_fabric(&self, argument: &str) -> bool {
        match self.fabric {
            Fabric::IsolatedRails => argument == "set=NCCL_CROSS_NIC=0",
            Fabric::Routed => argument == "set=UCX_IB_ROCE_REACHABILITY_MODE=all",
            Fabric::Unsaid => false,
        }
    }

    /// Takes one more argument: the tool has options of the same names.
    pub fn add(&mut self, argument: &str) -> Result<Option<Diagnostic>, String> {
        let mut layer = Layer::over(self, AdminLevel::Plugstack);
        // its lists continue those of the other arguments
        layer
            .named
            .extend(["include", "exclude", "rails"].map(str::to_string));
        layer.named.extend(
            self.templates
                .iter()
                .map(|template| template.name().to_string()),
        );
        let doubt = self
            .take(argument, &mut layer)
            .map_err(|finding| format!("`{argument}`: {finding}"))?;
        Ok(doubt
            .filter(|_| !self.suits_the_fabric(argument))
            .map(|doubt| about(PLUGSTACK, argument, doubt)))
    }

    /// Takes one argument; returns a doubt about an argument that holds, or why it does not hold.
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
        // a switch needs no value, and may have one so that an admin can give every word a value
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
            // once a layer disables, no later one enables again
            "disable" => self.disabled |= switch.unwrap_or(true),
            "conf" if value.starts_with('/') => self.conf = Some(value.to_string()),
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
            "node-file" if value.starts_with('/') => self.node_file.path = value.to_string(),
            "node-file" | "conf" => return Err("expected a path that begins with `/`".into()),
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
                // the same line may be there twice
                if !layer.begins("source") && self.source != source {
                    return Err("only one of `topology=`, `machine=` and `sysfs=` can hold".into());
                }
                self.source = source;
            }
        }
        Ok(None)
    }

    /// `set=NAME=TEMPLATE`, or several with `;` between them, so that one `set=` can hold them all.
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

    /// Takes a `set=`; the last one for a variable holds.
    fn set(&mut self, text: &str, layer: &mut Layer) -> Result<Option<String>, String> {
        let (template, doubt) = Template::parse(text)?;
        let names_a_file = template.is_file() || template.map_files().next().is_some();
        if names_a_file && layer.level < AdminLevel::Node {
            return Err(format!(
                "`{}` names a file, which root looks for: not for a partition, which a user's process names",
                template.name()
            ));
        }
        let is_first = layer.begins(template.name());
        let twice = format!("`{}` is set twice: this one holds", template.name());
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
        Ok(if is_first { doubt } else { Some(twice) })
    }
}

/// Takes the NICs of one argument.  A nearer layer's list replaces the others', and grows with each argument of that
/// layer.
fn take_patterns(
    list: &mut Vec<Pattern>,
    name: &str,
    value: &str,
    layer: &mut Layer,
) -> Result<(), String> {
    let more = patterns(value)?;
    let kept = if layer.named.contains(name) {
        list.len()
    } else {
        0
    };
    if kept + more.len() > MAX_PATTERNS {
        return Err(too_many_patterns());
    }
    if layer.begins(name) {
        list.clear();
    }
    list.extend(more);
    Ok(())
}

fn too_many_patterns() -> String {
    format!("more than {MAX_PATTERNS} NICs: name several at once with `*` and `?`, or their subnet")
}

/// The parts of `A=1;B=2`; a `;` that no `NAME=` follows belongs to a value.
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

/// Variables of an admin's own, at most: each costs every task a little.
const MAX_TEMPLATES: usize = 32;

/// Seconds of `cache=`, at most: a day.
const MAX_CACHE: u64 = 24 * 3600;

/// NICs of one list, at most: each is looked for among all NICs of the node, by every step.
const MAX_PATTERNS: usize = 256;

/// NICs separated by commas.
pub fn patterns(list: &str) -> Result<Vec<Pattern>, String> {
    if list.split(',').nth(MAX_PATTERNS).is_some() {
        return Err(too_many_patterns());
    }
    list.split(',')
        .map(|word| Pattern::parse(word).map_err(|bad| bad.to_string()))
        .collect()
}

/// `PHB:90,SYS:50`; nothing of a list with a mistake is taken.
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
        let percent = percent
            .parse::<u64>()
            .ok()
            .filter(|percent| (1..=100).contains(percent));
        changed.set(path, percent.ok_or_else(misfit)? * 10);
    }
    *through = changed;
    Ok(())
}
