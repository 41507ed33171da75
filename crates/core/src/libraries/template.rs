//! The admin's `set=NAME=TEMPLATE`: variables with facts of the node or the task.
//!
//! `{word}` is a fact; `{{` and `}}` are braces. A missing fact leaves the variable unset.

use super::names;
use super::uniform::{joined, left_out, names_of};
use crate::diagnostic::Shown;
use crate::maps::{self, Format, Subject};
use crate::placement::{NodePlacement, Rail, TaskPlacement};
use crate::topology::{GpuIndex, Topology};
use crate::wish::{MapFile, Template};

const MAX_VALUE: usize = 4096;

const INTERFACE: &str = "interface";

pub(super) struct Facts<'f> {
    pub node: &'f Topology,
    pub map: &'f NodePlacement,
    /// `None` for a value that all tasks share
    pub task: Option<&'f TaskPlacement>,
    /// the interface of the route to srun
    pub interface: Option<&'f str>,
    pub files: &'f [MapFile],
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Fact {
    /// `None` or empty if the fact is missing
    Node(fn(&Facts) -> Option<String>),
    Task(fn(&Facts) -> Option<String>),
    /// the path of the map file in this format
    File(Format),
}

use Fact::{File, Node, Task};

pub static FACTS: [(&str, Fact); 22] = [
    (
        "nic",
        Task(|facts| Some(facts.one_rail()?.name.to_string())),
    ),
    (
        "port",
        Task(|facts| Some(facts.one_rail()?.port.to_string())),
    ),
    (
        "nic_address",
        Task(|facts| facts.node.nic(facts.one_rail()?.nic).address?.described()),
    ),
    ("nics", Task(|facts| Some(joined(facts.rails())))),
    (
        "nic_names",
        Task(|facts| Some(names_of(facts.rails().map(|rail| &rail.name)))),
    ),
    ("gpu", Task(|facts| Some(facts.one_gpu()?.to_string()))),
    (
        "gpu_address",
        Task(|facts| facts.node.gpu(facts.one_gpu()?).address.described()),
    ),
    ("gpus", Task(|facts| Some(joined(facts.gpus())))),
    (
        "numa",
        Task(|facts| {
            let numa_node = |gpu: &GpuIndex| facts.node.numa_node_of(facts.node.gpu(*gpu).address);
            let mut nodes = facts.gpus().iter().map(numa_node);
            let first = nodes.next()??;
            let is_first = |node| node == Some(first);
            nodes.all(is_first).then(|| first.to_string())
        }),
    ),
    (
        "local_id",
        Task(|facts| Some(facts.task?.local_id.to_string())),
    ),
    (
        "task_id",
        Task(|facts| Some(facts.task?.global_id.to_string())),
    ),
    ("rails", Node(|facts| Some(joined(&facts.map.rails)))),
    (
        "rail_names",
        Node(|facts| Some(names_of(facts.map.rails.iter().map(|rail| &rail.name)))),
    ),
    (
        "rail_count",
        Node(|facts| Some(facts.map.rails.len().to_string())),
    ),
    (
        "left_out",
        Node(|facts| {
            let rails = &facts.map.rails;
            let nics = left_out(facts.node, rails);
            let nics = nics.filter(|(nic, _)| rails.iter().all(|rail| rail.nic != *nic));
            Some(names_of(nics.map(|(_, nic)| &nic.name)))
        }),
    ),
    // a name with `/` would change a path's directory
    (
        "machine",
        Node(|facts| Some(facts.node.name.clone()).filter(|name| !name.contains('/'))),
    ),
    (INTERFACE, Node(|facts| facts.interface.map(str::to_string))),
    (
        "map:sglang",
        Task(|facts| {
            let map = maps::write(Format::Sglang, facts.seen()?).ok()?;
            Some(map.trim_end().into())
        }),
    ),
    (
        "map:vllm",
        Task(|facts| Some(maps::pairs(facts.seen()?).ok()?.trim_end().into())),
    ),
    ("map_file:json", File(Format::Json)),
    ("map_file:sglang", File(Format::Sglang)),
    ("map_file:mooncake", File(Format::Mooncake)),
];

impl<'f> Facts<'f> {
    fn gpus(&self) -> &'f [GpuIndex] {
        self.task.map_or(&[], |task| &task.gpus)
    }

    fn rails(&self) -> impl ExactSizeIterator<Item = &'f Rail> {
        let map = self.map;
        let rails = self.task.map_or(&[][..], |task| &task.rails);
        rails.iter().map(move |(rail, _)| map.rail(*rail))
    }

    fn one_rail(&self) -> Option<&'f Rail> {
        let mut rails = self.rails();
        rails.next().filter(|_| rails.len() == 0)
    }

    fn one_gpu(&self) -> Option<GpuIndex> {
        match self.gpus() {
            [gpu] => Some(*gpu),
            _ => None,
        }
    }

    fn seen(&self) -> Option<Subject<'f>> {
        let gpus = self.task?.seen.as_slice();
        (!gpus.is_empty()).then_some(Subject {
            topology: self.node,
            node: self.map,
            gpus,
        })
    }

    fn of(&self, (word, fact): &(&str, Fact)) -> Result<String, String> {
        let none = || format!("there is no `{{{word}}}` here");
        let format = match fact {
            Node(value) | Task(value) => {
                let value = value(self).filter(|text| !text.is_empty());
                return value.ok_or_else(none);
            }
            File(format) => *format,
        };
        let sees_all = |of: &TaskPlacement| of.seen.iter().copied().eq(self.node.gpu_indices());
        if !self.task.is_some_and(sees_all) {
            return Err(
                "the file counts all GPUs of the node, and the task does not see all in PCI order"
                    .into(),
            );
        }
        let file = self.files.iter().find(|file| file.format == format);
        let file =
            file.ok_or("there is no such file of root's: `nic-placement refresh` writes it")?;
        let ours = maps::write(format, self.seen().ok_or_else(none)?);
        let ours = ours.map_err(|why| why.to_string())?;
        // the file may be stale, or made for other NICs
        if file.text.as_ref().is_none_or(|text| *text == ours) {
            Ok(file.path.clone())
        } else {
            Err(format!("`{}` is not the map of this step", file.path))
        }
    }
}

impl Template {
    /// Parses `NAME=TEMPLATE`; the second value warns of a doubtful name.
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
            return Err(format!(
                "`{name}` must be the same in every task of a node: only {} may stand in it",
                listed(false)
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

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_per_task(&self) -> bool {
        self.facts().any(|(_, fact)| !matches!(fact, Node(_)))
    }

    fn facts(&self) -> impl Iterator<Item = &'static (&'static str, Fact)> {
        pieces(&self.text)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|piece| match piece {
                Piece::Fact(fact) => Some(fact),
                Piece::Text(_) => None,
            })
    }

    /// True if the value is a path: the variable is set only if the file exists.
    pub fn is_file(&self) -> bool {
        self.name.ends_with("_FILE")
    }

    pub(super) fn has_interface(&self) -> bool {
        self.facts().any(|(word, _)| *word == INTERFACE)
    }

    pub fn map_files(&self) -> impl Iterator<Item = Format> {
        self.facts().filter_map(|(_, fact)| match fact {
            File(format) => Some(*format),
            _ => None,
        })
    }

    pub(super) fn fill(&self, facts: &Facts) -> Result<String, String> {
        fill(&self.text, facts)
    }
}

pub fn fill(template: &str, facts: &Facts) -> Result<String, String> {
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

fn listed(per_task_too: bool) -> String {
    let facts = FACTS.iter();
    let facts = facts.filter(|(_, fact)| per_task_too || matches!(fact, Node(_)));
    let words: Vec<String> = facts.map(|(word, _)| format!("{{{word}}}")).collect();
    words.join(" ")
}

enum Piece<'t> {
    Text(&'t str),
    Fact(&'static (&'static str, Fact)),
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
            let Some(fact) = FACTS.iter().find(|(known, _)| *known == word) else {
                let (word, known) = (Shown::word(word, 40), listed(true));
                return Err(format!("`{{{word}}}` is not known; known: {known}"));
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
