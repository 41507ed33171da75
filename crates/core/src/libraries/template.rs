//! The admin's own variables: `set=NAME=TEMPLATE`, filled from the same map as ours.
//!
//! `{word}` stands for a fact of the node or of the task, `{{` and `}}` for braces.  If this node or task
//! lacks the fact, the variable stays unset: half a value is wrong.
#![forbid(unsafe_code)]

use super::names;
use crate::diagnostic::Shown;
use crate::maps::{self, Format, Subject};
use crate::placement::{NodePlacement, Rail, TaskPlacement};
use crate::topology::{GpuIndex, Topology};

/// Bytes of a value, at most.
const MAX_VALUE: usize = 4096;

/// What a template is filled from.
pub(super) struct Facts<'f> {
    pub(super) topology: &'f Topology,
    pub(super) node: &'f NodePlacement,
    /// `None` for the values that all tasks share
    pub(super) task: Option<&'f TaskPlacement>,
    /// the maps that are kept in files
    pub(super) kept: &'f [KeptMap],
}

/// A fact that a template can name.
#[derive(Debug)]
pub(super) struct Fact {
    /// its word between braces
    pub(super) word: &'static str,
    /// is it one of the task?
    is_per_task: bool,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// this function; `None` or nothing if there is no such fact here
    Value(fn(&Facts) -> Option<String>),
    /// the path of a map that is kept in a file
    MapFile(Format),
}

const fn of_task(word: &'static str, value: fn(&Facts) -> Option<String>) -> Fact {
    Fact { word, is_per_task: true, source: Source::Value(value) }
}

const fn of_node(word: &'static str, value: fn(&Facts) -> Option<String>) -> Fact {
    Fact { word, is_per_task: false, source: Source::Value(value) }
}

const fn map_file(word: &'static str, format: Format) -> Fact {
    Fact { word, is_per_task: true, source: Source::MapFile(format) }
}

pub(super) static FACTS: [Fact; 20] = [
    of_task("nic", |facts| Some(facts.one_rail()?.name.to_string())),
    of_task("port", |facts| Some(facts.one_rail()?.port.to_string())),
    of_task("nic_address", |facts| facts.topology.nic(facts.one_rail()?.nic).address?.described()),
    of_task("nics", |facts| Some(joined(facts.rails()))),
    of_task("nic_names", |facts| Some(names_of(facts.rails().map(|rail| rail.name.as_str())))),
    of_task("gpu", |facts| Some(facts.one_gpu()?.to_string())),
    of_task("gpu_address", |facts| facts.topology.gpu(facts.one_gpu()?).address.described()),
    of_task("gpus", |facts| Some(joined(facts.gpus().iter()))),
    of_task("numa", |facts| {
        let topology = facts.topology;
        let mut nodes = facts.gpus().iter().map(|&gpu| topology.numa_node_of(topology.gpu(gpu).address));
        let first = nodes.next()??;
        nodes.all(|node| node == Some(first)).then(|| first.to_string())
    }),
    of_task("local_id", |facts| Some(facts.task?.local_id.to_string())),
    of_task("task_id", |facts| Some(facts.task?.global_id.to_string())),
    of_node("rails", |facts| Some(joined(facts.node.rails.iter()))),
    of_node("rail_names", |facts| Some(names_of(facts.node.rails.iter().map(|rail| rail.name.as_str())))),
    of_node("rail_count", |facts| Some(facts.node.rails.len().to_string())),
    of_node("machine", |facts| {
        // a slash in the name would change the path
        Some(facts.topology.name.clone()).filter(|name| !name.contains('/'))
    }),
    of_task("map:sglang", |facts| {
        Some(maps::write(Format::Sglang, facts.seen()?).ok()?.trim_end().to_string())
    }),
    of_task("map:vllm", |facts| Some(maps::pairs(facts.seen()?).ok()?.trim_end().to_string())),
    map_file("map_file:json", Format::Json),
    map_file("map_file:sglang", Format::Sglang),
    map_file("map_file:mooncake", Format::Mooncake),
];

impl<'f> Facts<'f> {
    fn gpus(&self) -> &'f [GpuIndex] {
        self.task.map(|task| task.gpus.as_slice()).unwrap_or_default()
    }

    fn rails(&self) -> impl ExactSizeIterator<Item = &'f Rail> {
        let node = self.node;
        let rails = self.task.map(|task| task.rails.as_slice()).unwrap_or_default();
        rails.iter().map(move |(rail, _)| node.rail(*rail))
    }

    fn one_rail(&self) -> Option<&'f Rail> {
        let mut rails = self.rails();
        rails.next().filter(|_| rails.len() == 0)
    }

    fn one_gpu(&self) -> Option<GpuIndex> {
        if let [gpu] = self.gpus() { Some(*gpu) } else { None }
    }

    /// One process that drives all GPUs which the task sees: in its order.
    fn seen(&self) -> Option<Subject<'f>> {
        let gpus = self.task.map(|task| task.seen.as_slice()).filter(|gpus| !gpus.is_empty())?;
        Some(Subject { topology: self.topology, node: self.node, gpus, cpus: &[], host: "" })
    }

    /// A fact of this task or node.
    fn of(&self, fact: &Fact) -> Result<String, String> {
        match fact.source {
            Source::Value(value) => {
                let text = value(self).filter(|text| !text.is_empty());
                text.ok_or_else(|| format!("there is no `{{{}}}` here", fact.word))
            }
            Source::MapFile(format) => self.map_file(format),
        }
    }

    /// The file's program counts all GPUs of the node, so it serves a task that counts them alike.
    fn map_file(&self, format: Format) -> Result<String, String> {
        let sees_all =
            self.task.is_some_and(|task| task.seen.iter().copied().eq(self.topology.gpu_indices()));
        if !sees_all {
            return Err(
                "the file counts all GPUs of the node, and the task does not see all in PCI order".into()
            );
        }
        let kept = self.kept.iter().find(|(known, _)| *known == format);
        kept.map_or_else(|| Err("there is no such file".to_string()), |(_, path)| path.clone())
    }
}

/// A file in which an engine finds the map of the whole node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapFile {
    /// its format
    pub format: Format,
    /// its path
    pub path: String,
    /// what it says; `None` where it is taken to say what it should
    pub text: Option<String>,
}

/// The path of the kept map in a format, or why there is none to be had.
pub(super) type KeptMap = (Format, Result<String, String>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// the fact at this place of [`FACTS`]
    Fact(usize),
}

/// One of the admin's variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    name: String,
    pieces: Vec<Piece>,
}

impl Template {
    /// Reads `NAME=TEMPLATE`; the second part of the answer warns of a variable that is rarely set well.
    pub fn parse(text: &str) -> Result<(Template, Option<String>), String> {
        let Some((name, rest)) = text.split_once('=') else {
            return Err("expected `set=NAME=TEMPLATE`".to_string());
        };
        if !names::is_name(name) {
            let name = Shown::word(name, 40);
            return Err(format!(
                "`{name}` is no name of a variable: expected a capital, then letters, digits and `_`"
            ));
        }
        if names::is_refused(name) {
            return Err(format!(
                "`{name}` is refused: the loader, the shell, Slurm or the GPUs depend on it"
            ));
        }
        if rest.chars().any(char::is_control) {
            return Err("a control character cannot stand in a value".to_string());
        }
        let template = Template { name: name.to_string(), pieces: pieces(rest)? };
        if template.is_per_task() {
            if names::is_uniform(name) {
                return Err(format!(
                    "`{name}` must be the same in every task of a node: only {} may stand in it",
                    listed(false)
                ));
            }
            if template.is_file() && template.map_files().next().is_none() {
                return Err(format!(
                    "`{name}` names a file, which is looked for once for the node, not for each task"
                ));
            }
        }
        let doubt = names::is_doubtful(name).then(|| {
            format!("`{name}` does not follow from a topology, and is wrong on most fabrics: set as you say, if you mean it")
        });
        Ok((template, doubt))
    }

    /// The variable's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does the value depend on the task?
    pub fn is_per_task(&self) -> bool {
        self.facts().any(|fact| fact.is_per_task)
    }

    fn facts(&self) -> impl Iterator<Item = &'static Fact> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Fact(place) => FACTS.get(*place),
            Piece::Text(_) => None,
        })
    }

    /// Does it name a file, which must exist to be named?
    pub fn is_file(&self) -> bool {
        self.name.ends_with("_FILE")
    }

    /// The formats of the kept maps that it names.
    pub fn map_files(&self) -> impl Iterator<Item = Format> {
        self.facts().filter_map(|fact| match fact.source {
            Source::MapFile(format) => Some(format),
            Source::Value(_) => None,
        })
    }

    /// The value, or the word that has no fact here.
    pub(super) fn fill(&self, facts: &Facts) -> Result<String, String> {
        let mut value = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => value.push_str(text),
                Piece::Fact(place) => value.push_str(&facts.of(&FACTS[*place])?),
            }
        }
        if value.len() > MAX_VALUE || value.chars().any(char::is_control) {
            return Err(format!("its value has control characters or more than {MAX_VALUE} bytes"));
        }
        Ok(value)
    }
}

/// `{nic}, {port}, …`
fn listed(per_task_too: bool) -> String {
    let facts = FACTS.iter().filter(|fact| per_task_too || !fact.is_per_task);
    facts.map(|fact| format!("{{{}}}", fact.word)).collect::<Vec<_>>().join(" ")
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        plain.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        let after = &rest[at + 1..];
        if after.starts_with(brace) {
            plain.push_str(brace);
            rest = &after[1..];
            continue;
        }
        let word = match (brace, after.split_once('}')) {
            ("{", Some((word, behind))) => {
                rest = behind;
                word
            }
            _ => return Err(format!("a single `{brace}`: write it twice where you mean the brace itself")),
        };
        let Some(place) = FACTS.iter().position(|fact| fact.word == word) else {
            let word = Shown::word(word, 40);
            return Err(format!("`{{{word}}}` is not known; known: {}", listed(true)));
        };
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(Piece::Fact(place));
    }
    plain.push_str(rest);
    if !plain.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}

/// The kept maps that the templates name.  One counts where it says, byte for byte, what this step's own map says: a file of
/// another node, time or choice of NICs says something else.
pub(super) fn kept_maps(
    templates: &[Template],
    files: &[MapFile],
    topology: &Topology,
    node: &NodePlacement,
) -> Vec<KeptMap> {
    let mut formats: Vec<Format> = templates.iter().flat_map(Template::map_files).collect();
    formats.dedup();
    let gpus: Vec<GpuIndex> = topology.gpu_indices().collect();
    let subject = Subject { topology, node, gpus: &gpus, cpus: &[], host: "" };
    let path = |format: Format| {
        let file = files.iter().find(|file| file.format == format);
        let file = file.ok_or("there is no such file of root's: `nic-placement refresh` writes it")?;
        let ours = maps::write(format, subject).map_err(|why| why.to_string())?;
        match file.text.as_ref().is_none_or(|text| *text == ours) {
            true => Ok(file.path.clone()),
            false => Err(format!("`{}` is not the map of this step", file.path)),
        }
    };
    formats.into_iter().map(|format| (format, path(format))).collect()
}

fn joined(entries: impl Iterator<Item: ToString>) -> String {
    entries.map(|entry| entry.to_string()).collect::<Vec<_>>().join(",")
}

/// Each name once, in order: ports of one NIC share it.
pub(super) fn names_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut list: Vec<&str> = Vec::new();
    for name in names {
        if !list.contains(&name) {
            list.push(name);
        }
    }
    list.join(",")
}
