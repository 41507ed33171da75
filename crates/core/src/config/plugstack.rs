//! The admin's arguments, behind the plugin's path in plugstack.conf and in the configuration file.
//!
//! Each place makes a layer: plugstack.conf, then the file's lines for the cluster, for nodes, for partitions.  A nearer
//! layer counts.  plugstack.conf is the same on all nodes where Slurm itself hands it out (slurm.conf(5), "Configless"), and
//! the file is the node's own, so it is the nearer one.
#![forbid(unsafe_code)]

use super::conf::{self, Conf, Whom};
use super::off;
use super::options::{self, Place, Reach};
use super::rollout::Rollout;
use super::words::Words;
use crate::diagnostic::{Diagnostic, Shown};
use crate::libraries::wanted::{Fabric, MapFile, Template, is_variable_name};
use crate::policy::{Pattern, Selection, Through};
use crate::topology::PathType;
use std::collections::BTreeSet;

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
    /// `rollout=`
    pub rollout: Rollout,
    /// `disable`
    pub disabled: bool,
    /// `conf=`
    pub conf: Option<String>,
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
    /// the kept maps that these name, as they are found on the node: no argument
    pub map_files: Vec<MapFile>,
}

/// A place with arguments, and what was said there.
struct Layer {
    /// the narrowest arguments that may stand there
    reach: Reach,
    /// what `default=` says without this layer
    default: Words,
    /// the lists, sources and variables that it has named: the first time it replaces those of the layers before
    said: BTreeSet<String>,
    /// how many arguments and words were unknown
    unknown: usize,
}

impl Layer {
    /// Unknown arguments and words for which it is looked up what was meant, at most: a file of another program's has
    /// thousands, and each step reads it.
    const MOST_LOOKED_UP: usize = 16;

    fn over(admin: &Admin, reach: Reach) -> Layer {
        Layer { reach, default: admin.default.clone(), said: BTreeSet::new(), unknown: 0 }
    }

    /// Why an argument or word is not understood; only for the first few with what was meant.
    fn looked_up(&mut self, short: &str, why: impl FnOnce() -> String) -> String {
        self.unknown += 1;
        if self.unknown > Layer::MOST_LOOKED_UP { short.to_string() } else { why() }
    }

    /// Is this the first time that it is named here?
    fn begins(&mut self, what: &str) -> bool {
        self.said.insert(what.to_string())
    }
}

/// What stands for `topology=`, `machine=` and `sysfs=`, of which one can hold.
const SOURCE: &str = "source";

impl Admin {
    /// Reads the arguments.  What cannot be read is named in a diagnostic and passed over: a typo of the admin's must not
    /// cost the users their jobs.
    pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> (Admin, Vec<Diagnostic>) {
        let mut admin = Admin::default();
        let arguments: Vec<&str> = arguments.into_iter().collect();
        let (off, mut findings): (Vec<&str>, Vec<Diagnostic>) =
            off::unsaid("plugstack.conf", Reach::Plugstack, &arguments).into_iter().unzip();
        let placed = arguments.into_iter().chain(off);
        let placed = placed.map(|argument| ("plugstack.conf".to_string(), argument));
        findings.extend(admin.take_layer(Reach::Plugstack, placed));
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
        for whom in [Whom::Cluster, Whom::Nodes, Whom::Partitions, Whom::Both, Whom::Unclear] {
            let arguments = conf.arguments(whom, node, partition);
            let placed = arguments.map(|argument| (format!("{path}:{}", argument.line), argument.text));
            findings.extend(self.take_layer(whom.reach(), placed));
        }
        findings
    }

    /// What is wrong with any line of the file at `path`, whomever it is for.
    pub fn check_conf(conf: &Conf, path: &str) -> Vec<Diagnostic> {
        let of_line = |(whom, arguments): (Whom, Vec<conf::Argument>)| {
            let placed =
                arguments.iter().map(|argument| (format!("{path}:{}", argument.line), argument.text));
            Admin::default().take_layer(whom.reach(), placed)
        };
        conf.lines().flat_map(of_line).collect()
    }

    fn take_layer<'a>(
        &mut self,
        reach: Reach,
        arguments: impl IntoIterator<Item = (String, &'a str)>,
    ) -> Vec<Diagnostic> {
        let mut layer = Layer::over(self, reach);
        let mut findings = Vec::new();
        for (place, argument) in arguments {
            // an argument that holds can be doubtful too
            if let Err(finding) | Ok(Some(finding)) = self.take(argument, &mut layer) {
                findings.push((place, argument, finding));
            }
        }
        // the fabric may be named after it
        findings.retain(|(_, argument, _)| !self.is_meant(argument));
        findings.into_iter().map(|(place, argument, finding)| about(&place, argument, finding)).collect()
    }

    /// Does the fabric, as the admin describes it, need this setting, which is doubtful elsewhere?
    fn is_meant(&self, argument: &str) -> bool {
        match self.fabric {
            Fabric::IsolatedRails => argument == "set=NCCL_CROSS_NIC=0",
            Fabric::Routed => argument == "set=UCX_IB_ROCE_REACHABILITY_MODE=all",
            Fabric::Unsaid => false,
        }
    }

    /// Takes one more argument, as the tool does for the ones that it knows too.
    pub fn add(&mut self, argument: &str) -> Result<Option<Diagnostic>, String> {
        let mut layer = Layer::over(self, Reach::Plugstack);
        // it goes on where the others ended
        layer.said.extend(["include", "exclude", "rails"].map(str::to_string));
        layer.said.extend(self.templates.iter().map(|template| template.name().to_string()));
        let doubt = self.take(argument, &mut layer).map_err(|finding| format!("`{argument}`: {finding}"))?;
        Ok(doubt.filter(|_| !self.is_meant(argument)).map(|doubt| about("plugstack.conf", argument, doubt)))
    }

    /// Takes one argument; the answer is a doubt about one that was taken, or why it was not.
    fn take(&mut self, argument: &str, layer: &mut Layer) -> Result<Option<String>, String> {
        let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
        let Some(spec) = options::at(Place::Plugstack).find(|spec| spec.name == name) else {
            return Err(layer.looked_up("unknown argument", || {
                let meant = options::meant(Place::Plugstack, name);
                let meant = meant.map_or(";".to_string(), |name| format!(", did you mean `{name}`?"));
                format!("unknown argument{meant} known: {}", options::known(Place::Plugstack))
            }));
        };
        match spec.reach {
            Reach::Plugstack if layer.reach < Reach::Plugstack => {
                return Err("stands in plugstack.conf alone".into());
            }
            Reach::Node if layer.reach < Reach::Node => {
                return Err(
                    "not for a partition, which a user's process names: for nodes or the cluster".into()
                );
            }
            _ => {}
        }
        let switch = spec.value.is_empty().then(|| yes_or_no(value)).flatten();
        if switch.is_none() && spec.value.is_empty() != value.is_empty() {
            return Err(format!("expected `{}`", spec.spelling()));
        }
        match spec.name {
            "default" => {
                let words = Words::parse(value)
                    .map_err(|bad| layer.looked_up("not understood", || bad.to_string()))?;
                self.default = layer.default.overlaid(&words);
            }
            "rollout" => {
                let rollout = Rollout::parse(value);
                self.rollout =
                    rollout.ok_or("expected `rollout=PERCENT%[,observe]`, as `rollout=10%`".to_string())?;
            }
            // once a layer disables, no later one enables again
            "disable" => self.disabled |= switch.unwrap_or(true),
            "conf" if value.starts_with('/') => self.conf = Some(value.to_string()),
            "include" => take_patterns(&mut self.selection.include, name, value, layer)?,
            "exclude" => take_patterns(&mut self.selection.exclude, name, value, layer)?,
            "rails" => take_patterns(&mut self.rails, name, value, layer)?,
            "lets-through" => lets_through(&mut self.through, value)?,
            "set" => return self.set_all(value, layer),
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
            "node-file" | "conf" => return Err("expected a path that begins with `/`".into()),
            "trust-topology" => self.trust_topology = switch.unwrap_or(true),
            name => {
                if !layer.begins(SOURCE) {
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

    /// `set=NAME=TEMPLATE`, or several with `;` between them, so that one `set=` can hold them all.
    fn set_all(&mut self, text: &str, layer: &mut Layer) -> Result<Option<String>, String> {
        let mut refused = Vec::new();
        let mut doubts = Vec::new();
        for one in assignments(text) {
            if refused.len() == Layer::MOST_LOOKED_UP {
                refused.push("what follows is not read".to_string());
                break;
            }
            match self.set(one, layer) {
                Ok(doubt) => doubts.extend(doubt),
                Err(why) => refused.push(why),
            }
        }
        match refused.is_empty() {
            true => Ok((!doubts.is_empty()).then(|| doubts.join("; "))),
            false => Err([refused, doubts].concat().join("; ")),
        }
    }

    /// One `NAME=TEMPLATE`; the last one for a name holds.
    fn set(&mut self, text: &str, layer: &mut Layer) -> Result<Option<String>, String> {
        let (template, doubt) = Template::parse(text)?;
        let names_a_file = template.is_file() || template.map_files().next().is_some();
        if names_a_file && layer.reach < Reach::Node {
            return Err(format!(
                "`{}` names a file, which root looks for: not for a partition, which a user's process names",
                template.name()
            ));
        }
        let name = template.name().to_string();
        let is_first = layer.begins(&name);
        let again = self.templates.iter().position(|other| other.name() == name);
        let Some(again) = again else {
            if self.templates.len() == MAX_TEMPLATES {
                return Err(format!("more than {MAX_TEMPLATES} variables"));
            }
            self.templates.push(template);
            return Ok(doubt);
        };
        self.templates[again] = template;
        match is_first {
            true => Ok(doubt),
            false => Ok(Some(format!("`{name}` is set twice: this one holds"))),
        }
    }
}

/// Takes the NICs of one argument.  A list of a nearer layer replaces the others', and goes on over the arguments of its own.
fn take_patterns(list: &mut Vec<Pattern>, name: &str, value: &str, layer: &mut Layer) -> Result<(), String> {
    let more = patterns(value)?;
    let kept = if layer.said.contains(name) { list.len() } else { 0 };
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

/// `yes` or `no` behind a word that needs neither, so that an admin may give every word a value.
fn yes_or_no(value: &str) -> Option<bool> {
    match value {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// The parts of `A=1;B=2`; a `;` that no `NAME=` follows belongs to a value.
fn assignments(text: &str) -> Vec<&str> {
    // no name has a `;`: one look from each to the next, and not to the end
    let begins = |rest: &str| {
        let end = rest.find(['=', ';']).filter(|end| rest[*end..].starts_with('='));
        end.is_some_and(|end| is_variable_name(&rest[..end]))
    };
    let cuts = text.match_indices(';').map(|(at, _)| at).filter(|at| begins(&text[at + 1..]));
    let mut parts = Vec::new();
    let mut start = 0;
    for cut in cuts {
        parts.push(&text[start..cut]);
        start = cut + 1;
    }
    parts.push(&text[start..]);
    parts
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
