//! The admin's own variables: `set=NAME=TEMPLATE`, filled from the same map as ours.
//!
//! `{word}` stands for a fact of the node or of the task, `{{` and `}}` for braces.  If this node or task
//! lacks the fact, the variable stays unset: half a value is wrong.
#![forbid(unsafe_code)]

use super::names;
use crate::diagnostic::Shown;
use crate::maps::{self, Format, Subject};
use crate::placement::{NodePlacement, TaskPlacement};
use crate::topology::{GpuIndex, Topology};
use std::fmt::Write;

/// Bytes of a value, at most.
const MAX_VALUE: usize = 4096;

/// A fact that a template can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    Nic,
    Port,
    NicAddress,
    Nics,
    NicNames,
    Gpu,
    GpuAddress,
    Gpus,
    Numa,
    LocalId,
    TaskId,
    Rails,
    RailNames,
    RailCount,
    Machine,
    Map(Format),
    MapFile(Format),
}

/// `(word, fact, is it one of the task?, what it is)`
const FACTS: [(&str, Fact, bool, &str); 20] = [
    ("nic", Fact::Nic, true, "the name of the task's NIC, if it has exactly one"),
    ("port", Fact::Port, true, "its port's number"),
    ("nic_address", Fact::NicAddress, true, "its PCI address"),
    ("nics", Fact::Nics, true, "the task's NICs, as mlx5_0:1,mlx5_1:1"),
    ("nic_names", Fact::NicNames, true, "their names alone"),
    ("gpu", Fact::Gpu, true, "the index of the task's GPU in PCI order, if it has exactly one"),
    ("gpu_address", Fact::GpuAddress, true, "its PCI address"),
    ("gpus", Fact::Gpus, true, "the indices of all its GPUs"),
    ("numa", Fact::Numa, true, "the NUMA node of its GPUs, if it is one"),
    ("local_id", Fact::LocalId, true, "the task's number on the node"),
    ("task_id", Fact::TaskId, true, "the task's number in the step"),
    ("rails", Fact::Rails, false, "all NICs of the node that may be used, as mlx5_0:1,mlx5_1:1"),
    ("rail_names", Fact::RailNames, false, "their names alone"),
    ("rail_count", Fact::RailCount, false, "how many ports that are"),
    ("machine", Fact::Machine, false, "what `nic-placement show` calls the node in its first line"),
    (
        "map:sglang",
        Fact::Map(Format::Sglang),
        true,
        "the NICs of all GPUs that the task sees, as SGLang takes them",
    ),
    ("map:vllm", Fact::Map(Format::Vllm), true, "the same for vLLM's VLLM_GPU_NIC_PCIE_MAPPING"),
    (
        "map_file:json",
        Fact::MapFile(Format::Json),
        true,
        "the path of a file with them, as `nic-placement map` writes it",
    ),
    ("map_file:sglang", Fact::MapFile(Format::Sglang), true, "the same for SGLang"),
    (
        "map_file:mooncake",
        Fact::MapFile(Format::Mooncake),
        true,
        "the same for Mooncake's MC_CUSTOM_TOPO_JSON",
    ),
];

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
    Fact(Fact),
}

/// One of the admin's variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    name: String,
    pieces: Vec<Piece>,
}

/// The words that may stand in braces, as messages and documents list them: `(word, what it is)`.
pub fn placeholders() -> impl Iterator<Item = (&'static str, &'static str)> {
    FACTS.iter().map(|&(word, _, _, what)| (word, what))
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
        let is_per_task = |fact: Fact| FACTS.iter().any(|&(_, known, per_task, _)| known == fact && per_task);
        self.pieces.iter().any(|piece| matches!(piece, Piece::Fact(fact) if is_per_task(*fact)))
    }

    /// Does it name a file, which must exist to be named?
    pub fn is_file(&self) -> bool {
        self.name.ends_with("_FILE")
    }

    /// The formats of the kept maps that it names.
    pub fn map_files(&self) -> impl Iterator<Item = Format> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Fact(Fact::MapFile(format)) => Some(*format),
            Piece::Fact(_) | Piece::Text(_) => None,
        })
    }

    /// The value, or the word that has no fact here.
    pub(super) fn fill(
        &self,
        topology: &Topology,
        node: &NodePlacement,
        task: Option<&TaskPlacement>,
        kept: &[KeptMap],
    ) -> Result<String, String> {
        let mut value = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => value.push_str(text),
                Piece::Fact(Fact::MapFile(format)) => {
                    value.push_str(&map_file(*format, topology, task, kept)?)
                }
                Piece::Fact(fact) => {
                    let word = || FACTS.iter().find(|known| known.1 == *fact).map_or("", |known| known.0);
                    let text = look_up(*fact, topology, node, task).filter(|text| !text.is_empty());
                    let text = text.ok_or_else(|| format!("there is no `{{{}}}` here", word()))?;
                    value.push_str(&text);
                }
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
    let words = FACTS.iter().filter(|fact| per_task_too || !fact.2);
    words.map(|fact| format!("{{{}}}", fact.0)).collect::<Vec<_>>().join(" ")
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
        let Some(fact) = FACTS.iter().find(|fact| fact.0 == word) else {
            let word = Shown::word(word, 40);
            return Err(format!("`{{{word}}}` is not known; known: {}", listed(true)));
        };
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(Piece::Fact(fact.1));
    }
    plain.push_str(rest);
    if !plain.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}

fn look_up(
    fact: Fact,
    topology: &Topology,
    node: &NodePlacement,
    task: Option<&TaskPlacement>,
) -> Option<String> {
    let gpus = task.map(|task| task.gpus.as_slice()).unwrap_or_default();
    let rails = task.map(|task| task.rails.as_slice()).unwrap_or_default();
    let one_rail = || match rails {
        [(rail, _)] => Some(node.rail(*rail)),
        _ => None,
    };
    let one_gpu = || match gpus {
        [gpu] => Some(*gpu),
        _ => None,
    };
    match fact {
        Fact::Nic => Some(one_rail()?.name.to_string()),
        Fact::Port => Some(one_rail()?.port.to_string()),
        Fact::NicAddress => topology.nic(one_rail()?.nic).address?.described(),
        Fact::Nics => Some(joined(rails.iter().map(|(rail, _)| node.rail(*rail).to_string()))),
        Fact::NicNames => Some(names_of(rails.iter().map(|(rail, _)| node.rail(*rail).name.as_str()))),
        Fact::Gpu => Some(one_gpu()?.to_string()),
        Fact::GpuAddress => topology.gpu(one_gpu()?).address.described(),
        Fact::Gpus => Some(joined(gpus.iter().map(GpuIndex::to_string))),
        Fact::Numa => {
            let mut nodes = gpus.iter().map(|&gpu| topology.numa_node_of(topology.gpu(gpu).address));
            let first = nodes.next()??;
            nodes.all(|node| node == Some(first)).then(|| first.to_string())
        }
        Fact::LocalId => Some(task?.local_id.to_string()),
        Fact::TaskId => Some(task?.global_id.to_string()),
        Fact::Rails => Some(joined(node.rails.iter().map(ToString::to_string))),
        Fact::RailNames => Some(names_of(node.rails.iter().map(|rail| rail.name.as_str()))),
        Fact::RailCount => Some(node.rails.len().to_string()),
        // a slash in the name would change the path
        Fact::Map(format) => map(format, topology, node, task.map_or(&[], |task| &task.seen)),
        // it has reasons of its own
        Fact::MapFile(_) => None,
        Fact::Machine => Some(topology.name.clone()).filter(|name| !name.contains('/')),
    }
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

/// The file's program counts all GPUs of the node, so it serves a task that counts them alike.
fn map_file(
    format: Format,
    topology: &Topology,
    task: Option<&TaskPlacement>,
    kept: &[KeptMap],
) -> Result<String, String> {
    let sees_all = task.is_some_and(|task| task.seen.iter().copied().eq(topology.gpu_indices()));
    if !sees_all {
        return Err("the file counts all GPUs of the node, and the task does not see all in PCI order".into());
    }
    let kept = kept.iter().find(|(known, _)| *known == format);
    kept.map_or_else(|| Err("there is no such file".to_string()), |(_, path)| path.clone())
}

/// One process that drives all GPUs which the task sees: in its order.
fn map(format: Format, topology: &Topology, node: &NodePlacement, gpus: &[GpuIndex]) -> Option<String> {
    if gpus.is_empty() {
        return None;
    }
    let subject = Subject { topology, node, gpus, cpus: &[], host: "" };
    let text = match format {
        Format::Vllm => maps::pairs(subject),
        format => maps::write(format, subject),
    };
    Some(text.ok()?.trim_end().to_string())
}

fn joined(entries: impl Iterator<Item = String>) -> String {
    let mut list = String::new();
    for entry in entries {
        let comma = if list.is_empty() { "" } else { "," };
        // writing to a string cannot fail
        let _ = write!(list, "{comma}{entry}");
    }
    list
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
