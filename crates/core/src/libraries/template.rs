//! The admin's own variables: `set=NAME=TEMPLATE`, filled from the same map as ours.
//!
//! `{word}` stands for a fact of the node or of the task, `{{` and `}}` for braces.  Without the fact the variable stays unset.
#![forbid(unsafe_code)]

use super::names;
use super::uniform::{left_out, names_of};
use crate::diagnostic::Shown;
use crate::maps::{self, Format, Subject};
use crate::placement::{NodePlacement, Rail, TaskPlacement};
use crate::topology::{GpuIndex, Topology};
use crate::wish::{MapFile, Template};

/// Bytes of a value, at most.
const MAX_VALUE: usize = 4096;

const INTERFACE: &str = "interface";

/// The sources of a template's facts.
pub(super) struct Facts<'f> {
    pub(super) topology: &'f Topology,
    pub(super) node: &'f NodePlacement,
    /// `None` for the values that all tasks share
    pub(super) task: Option<&'f TaskPlacement>,
    /// the interface by which the node meets others
    pub(super) interface: Option<&'f str>,
    /// the maps of the node in files
    pub(super) files: &'f [MapFile],
}

/// A fact that a template can name.
#[derive(Debug)]
pub(super) struct Fact {
    /// its word between braces
    pub(super) word: &'static str,
    is_per_task: bool,
    /// `None` or nothing if there is no such fact here
    value: fn(&Facts) -> Option<String>,
    /// in place of a value: the path of the map that is kept in this format
    map_file: Option<Format>,
}

const fn of_task(word: &'static str, value: fn(&Facts) -> Option<String>) -> Fact {
    Fact {
        word,
        is_per_task: true,
        value,
        map_file: None,
    }
}

const fn of_node(word: &'static str, value: fn(&Facts) -> Option<String>) -> Fact {
    Fact {
        is_per_task: false,
        ..of_task(word, value)
    }
}

const fn map_file(word: &'static str, format: Format) -> Fact {
    Fact {
        map_file: Some(format),
        ..of_task(word, |_| None)
    }
}

pub(super) static FACTS: [Fact; 22] = [
    of_task("nic", |facts| Some(facts.one_rail()?.name.to_string())),
    of_task("port", |facts| Some(facts.one_rail()?.port.to_string())),
    of_task("nic_address", |facts| {
        facts
            .topology
            .nic(facts.one_rail()?.nic)
            .address?
            .described()
    }),
    of_task("nics", |facts| Some(joined(facts.rails()))),
    of_task("nic_names", |facts| {
        Some(names_of(facts.rails().map(|rail| &rail.name)))
    }),
    of_task("gpu", |facts| Some(facts.one_gpu()?.to_string())),
    of_task("gpu_address", |facts| {
        facts.topology.gpu(facts.one_gpu()?).address.described()
    }),
    of_task("gpus", |facts| Some(joined(facts.gpus().iter()))),
    of_task("numa", |facts| {
        let topology = facts.topology;
        let mut nodes = facts
            .gpus()
            .iter()
            .map(|&gpu| topology.numa_node_of(topology.gpu(gpu).address));
        let first = nodes.next()??;
        nodes
            .all(|node| node == Some(first))
            .then(|| first.to_string())
    }),
    of_task("local_id", |facts| Some(facts.task?.local_id.to_string())),
    of_task("task_id", |facts| Some(facts.task?.global_id.to_string())),
    of_node("rails", |facts| Some(joined(facts.node.rails.iter()))),
    of_node("rail_names", |facts| {
        Some(names_of(facts.node.rails.iter().map(|rail| &rail.name)))
    }),
    of_node("rail_count", |facts| {
        Some(facts.node.rails.len().to_string())
    }),
    of_node("left_out", |facts| {
        let rails = &facts.node.rails;
        let nics = left_out(facts.topology, rails)
            .filter(|(nic, _)| rails.iter().all(|rail| rail.nic != *nic));
        Some(names_of(nics.map(|(_, nic)| &nic.name)))
    }),
    // a slash in the name would change the path
    of_node("machine", |facts| {
        Some(facts.topology.name.clone()).filter(|name| !name.contains('/'))
    }),
    of_node(INTERFACE, |facts| facts.interface.map(str::to_string)),
    of_task("map:sglang", |facts| {
        Some(
            maps::write(Format::Sglang, facts.seen()?)
                .ok()?
                .trim_end()
                .into(),
        )
    }),
    of_task("map:vllm", |facts| {
        Some(maps::pairs(facts.seen()?).ok()?.trim_end().into())
    }),
    map_file("map_file:json", Format::Json),
    map_file("map_file:sglang", Format::Sglang),
    map_file("map_file:mooncake", Format::Mooncake),
];

impl<'f> Facts<'f> {
    fn gpus(&self) -> &'f [GpuIndex] {
        self.task
            .map(|task| task.gpus.as_slice())
            .unwrap_or_default()
    }

    fn rails(&self) -> impl ExactSizeIterator<Item = &'f Rail> {
        let node = self.node;
        let rails = self
            .task
            .map(|task| task.rails.as_slice())
            .unwrap_or_default();
        rails.iter().map(move |(rail, _)| node.rail(*rail))
    }

    fn one_rail(&self) -> Option<&'f Rail> {
        let mut rails = self.rails();
        rails.next().filter(|_| rails.len() == 0)
    }

    fn one_gpu(&self) -> Option<GpuIndex> {
        if let [gpu] = self.gpus() {
            Some(*gpu)
        } else {
            None
        }
    }

    /// The GPUs that the task sees, in its order.
    fn seen(&self) -> Option<Subject<'f>> {
        let gpus = self
            .task
            .map(|task| task.seen.as_slice())
            .filter(|gpus| !gpus.is_empty())?;
        Some(Subject {
            topology: self.topology,
            node: self.node,
            gpus,
        })
    }

    /// A fact of this task or node, or why there is none.
    fn of(&self, fact: &Fact) -> Result<String, String> {
        let none = || format!("there is no `{{{}}}` here", fact.word);
        let Some(format) = fact.map_file else {
            return (fact.value)(self)
                .filter(|text| !text.is_empty())
                .ok_or_else(none);
        };
        // the engine that reads the file counts all GPUs of the node
        if !self
            .task
            .is_some_and(|task| task.seen.iter().copied().eq(self.topology.gpu_indices()))
        {
            return Err(
                "the file counts all GPUs of the node, and the task does not see all in PCI order"
                    .into(),
            );
        }
        let file = self.files.iter().find(|file| file.format == format);
        let file =
            file.ok_or("there is no such file of root's: `nic-placement refresh` writes it")?;
        let ours =
            maps::write(format, self.seen().ok_or_else(none)?).map_err(|why| why.to_string())?;
        // a file of another node, time or choice of NICs says something else
        match file.text.as_ref().is_none_or(|text| *text == ours) {
            true => Ok(file.path.clone()),
            false => Err(format!("`{}` is not the map of this step", file.path)),
        }
    }
}

impl Template {
    /// Reads `NAME=TEMPLATE`; the second part of the answer warns of a variable that is rarely set well.
    pub fn parse(text: &str) -> Result<(Template, Option<String>), String> {
        let (name, text) = text.split_once('=').ok_or("expected `set=NAME=TEMPLATE`")?;
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
        if text.chars().any(char::is_control) {
            return Err("a control character cannot stand in a value".to_string());
        }
        pieces(text)?;
        let template = Template {
            name: name.to_string(),
            text: text.to_string(),
        };
        if template.is_per_task() && names::is_uniform(name) {
            let facts = listed(false);
            return Err(format!(
                "`{name}` must be the same in every task of a node: only {facts} may stand in it"
            ));
        }
        if template.is_per_task() && template.is_file() && template.map_files().next().is_none() {
            return Err(format!(
                "`{name}` names a file, which is looked for once for the node, not for each task"
            ));
        }
        let doubt = (names::is_doubtful(name) && !template.has_interface()).then(|| {
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
        let pieces = pieces(&self.text).unwrap_or_default();
        pieces.into_iter().filter_map(|piece| match piece {
            Piece::Fact(fact) => Some(fact),
            Piece::Text(_) => None,
        })
    }

    /// Does it name a file, which must exist to be named?
    pub fn is_file(&self) -> bool {
        self.name.ends_with("_FILE")
    }

    /// Does it name the interface by which the node meets others?
    pub(super) fn has_interface(&self) -> bool {
        self.facts().any(|fact| fact.word == INTERFACE)
    }

    /// The formats of the kept maps that it names.
    pub fn map_files(&self) -> impl Iterator<Item = Format> {
        self.facts().filter_map(|fact| fact.map_file)
    }

    pub(super) fn fill(&self, facts: &Facts) -> Result<String, String> {
        fill(&self.text, facts)
    }
}

/// The value of a template, or the word that has no fact here.
pub(super) fn fill(template: &str, facts: &Facts) -> Result<String, String> {
    let mut value = String::new();
    for piece in pieces(template)? {
        match piece {
            Piece::Text(text) => value += text,
            Piece::Fact(fact) => value += &facts.of(fact)?,
        }
    }
    if value.len() > MAX_VALUE || value.chars().any(char::is_control) {
        return Err(format!(
            "its value has control characters or more than {MAX_VALUE} bytes"
        ));
    }
    Ok(value)
}

/// `{nic} {port} …`
fn listed(per_task_too: bool) -> String {
    let facts = FACTS
        .iter()
        .filter(|fact| per_task_too || !fact.is_per_task);
    facts
        .map(|fact| format!("{{{}}}", fact.word))
        .collect::<Vec<_>>()
        .join(" ")
}

enum Piece<'t> {
    Text(&'t str),
    Fact(&'static Fact),
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (brace, after) = (&rest[at..=at], &rest[at + 1..]);
        pieces.push(Piece::Text(&rest[..at]));
        rest = if let Some(after) = after.strip_prefix(brace) {
            pieces.push(Piece::Text(brace));
            after
        } else if let ("{", Some((word, after))) = (brace, after.split_once('}')) {
            let Some(fact) = FACTS.iter().find(|fact| fact.word == word) else {
                let word = Shown::word(word, 40);
                return Err(format!(
                    "`{{{word}}}` is not known; known: {}",
                    listed(true)
                ));
            };
            pieces.push(Piece::Fact(fact));
            after
        } else {
            return Err(format!(
                "a single `{brace}`: write it twice where you mean the brace itself"
            ));
        };
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

fn joined(entries: impl Iterator<Item: ToString>) -> String {
    entries
        .map(|entry| entry.to_string())
        .collect::<Vec<_>>()
        .join(",")
}
