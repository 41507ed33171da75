//! The libraries: each has a row of [`LIBRARIES`], in a file of its own or in [`recipes`].
//!
//! One NIC in each task's `NCCL_IB_HCA` would cost NCCL seven eighths of its bandwidth, by its own search.  A library answers with
//! a value or none; [`environment`] decides whose value stands.  MVAPICH gets nothing, and Intel MPI no more than UCX's list
//! (libfabric's `mlx` provider).
#![forbid(unsafe_code)]

mod cray_mpich;
mod deepep;
mod files;
mod libfabric;
pub mod marker;
pub mod names;
pub mod nccl;
mod nvshmem;
mod one_ccl;
mod open_mpi;
mod openmp;
mod prepare;
mod recipes;
mod sockets;
mod template;
mod ucx;
mod ucx_rails;
mod uniform;
pub mod wanted;

pub use prepare::Prepared;

use crate::diagnostic::Diagnostic;
use crate::placement::{Change, NodePlacement, TaskPlacement, Variable};
use crate::topology::{GpuVendor, Nic, NicKind, Port, PortState, Topology};
use files::{Claimed, Files};
use marker::Marker;
use std::borrow::Cow;
use std::collections::BTreeMap;
use template::Facts;

/// The libraries, in the order in which their variables are set and reported.
const LIBRARIES: [&Library; 18] = [
    &ucx::LIBRARY,
    &nccl::LIBRARY,
    &nvshmem::LIBRARY,
    &recipes::ROCSHMEM,
    &deepep::LIBRARY,
    &cray_mpich::LIBRARY,
    &open_mpi::LIBRARY,
    &recipes::MPICH,
    &libfabric::LIBRARY,
    &recipes::MOONCAKE,
    &recipes::MORI,
    &recipes::UCCL,
    &recipes::MSCCLPP,
    &one_ccl::LIBRARY,
    &openmp::LIBRARY,
    &sockets::LIBRARY,
    &ucx_rails::LIBRARY,
    &recipes::EFA,
];

/// All that is known of one library.
struct Library {
    /// its name in messages
    name: &'static str,
    /// its word in `env=`; empty if users ask for it otherwise
    word: &'static str,
    /// the word that asks for more than `word` does; empty without one
    word_for_more: &'static str,
    /// are its variables set without `env=`?
    by_default: bool,
    /// its variables, each with its answer
    variables: &'static [(&'static str, Answering)],
    /// the variable that `env=` allows too if it names the first one
    companion: Option<&'static str>,
    /// a variable that is never set, and the reason
    never: Option<(&'static str, Answering)>,
    /// other variables that change what is set
    evidence: &'static [&'static str],
    /// its configuration files
    files: Option<&'static Files>,
    /// a warning about the values that a task gets
    caveat: fn(&Topology, &[Variable]) -> Option<Diagnostic>,
    /// variables that follow from no topology: names and `BEGINNING*`s
    doubtful: &'static str,
    /// variables that must be equal in every task: names and `BEGINNING*`s
    uniform: &'static str,
}

impl Library {
    /// The defaults of a row.
    const NONE: Library = Library {
        name: "",
        word: "",
        word_for_more: "",
        by_default: false,
        variables: &[],
        companion: None,
        never: None,
        evidence: &[],
        files: None,
        caveat: |_, _| None,
        doubtful: "",
        uniform: "",
    };
}

/// A library's answer for one variable; `None` if this node has nothing for the library.
type Answering = fn(&Query) -> Option<Answer>;

/// The variables that we may set without an admin's `set=`, the marker not counted.
pub fn variables() -> impl Iterator<Item = &'static str> {
    LIBRARIES
        .iter()
        .flat_map(|library| library.variables)
        .map(|(name, _)| *name)
}

/// The variables that we only read, because they affect what we set.
pub fn evidence() -> impl Iterator<Item = &'static str> {
    LIBRARIES
        .iter()
        .flat_map(|library| library.evidence)
        .copied()
        .chain([marker::NAME])
}

/// The variables that list NICs.
pub const LISTS: [&str; 7] = [
    ucx::NET_DEVICES,
    "NCCL_IB_HCA",
    "NVSHMEM_HCA_LIST",
    "FI_VERBS_DEVICE_NAME",
    libfabric::CXI_DEVICE,
    "MC_TE_FILTERS",
    "UCCL_P2P_RDMA_DEV",
];

/// True if a list of NICs is the user's, a configuration file's, or of the admin's `set=`.
pub(crate) fn has_list_of_others(
    variables: &[Variable],
    present: &Present,
    is_admins: impl Fn(&str) -> bool,
) -> bool {
    LISTS
        .iter()
        .any(|name| match variables.iter().find(|of| of.name == *name) {
            Some(
                Variable {
                    of_file: Some(list),
                    ..
                }
                | Variable {
                    change: Change::KeepUsers(list),
                    ..
                },
            ) => !list.is_empty(),
            Some(of) => matches!(of.change, Change::Set(_)) && is_admins(name),
            None => present.get(*name).is_some_and(|list| !list.is_empty()),
        })
}

/// Warnings about the variables of a task.
pub fn caveats(topology: &Topology, variables: &[Variable]) -> Vec<Diagnostic> {
    LIBRARIES
        .iter()
        .filter_map(|library| (library.caveat)(topology, variables))
        .collect()
}

/// A task's variables before we change any: at least those of `Prepared::names`.
pub type Present = BTreeMap<String, String>;

/// A task's environment, and its access to files.
#[derive(Clone, Copy)]
pub struct Evidence<'e> {
    /// its environment
    pub present: &'e Present,
    /// reads a file with the user's rights; called only if the file can change a value
    pub read: ReadFile<'e>,
}

/// Reads a text file by its path; `None` if there is no such file or it is no text.
pub type ReadFile<'r> = &'r dyn Fn(&str) -> Option<FileText>;

/// What was read of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileText {
    /// its text, or the beginning of it
    pub text: String,
    /// is there more than was read?
    pub is_cut: bool,
    /// why it is not known whether there is such a file
    pub unanswered: Option<&'static str>,
}

/// One task, for a library's answer.
#[derive(Clone, Copy)]
struct Query<'a> {
    prepared: &'a Prepared,
    topology: &'a Topology,
    node: &'a NodePlacement,
    task: &'a TaskPlacement,
    evidence: Evidence<'a>,
    earlier: &'a Marker,
    /// the answers for the variables before this one
    answered: &'a [Variable<'a>],
}

impl Query<'_> {
    /// The user's own value of a variable.
    fn users(&self, name: &str) -> Option<&String> {
        self.evidence
            .present
            .get(name)
            .filter(|value| !self.earlier.is_ours(name, value))
    }

    /// Our value of an earlier variable.
    fn ours(&self, name: &str) -> Option<&str> {
        ours(self.answered, name)
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            topology: self.topology,
            node: self.node,
            task: Some(self.task),
            interface: self
                .prepared
                .interface
                .as_ref()
                .ok()
                .map(|(name, _)| name.as_str()),
            files: &self.prepared.wish.admin.map_files,
        }
    }

    /// Does `env=` have this word?
    fn has_word(&self, word: &str) -> bool {
        self.prepared.wish.has_word(word)
    }

    fn has_gpu_of(&self, vendor: GpuVendor) -> bool {
        has_gpu_of(self.topology, vendor)
    }

    /// The node's NICs of this kind.
    fn nics_of(&self, kind: NicKind) -> impl Iterator<Item = &Nic> {
        self.topology
            .nics
            .iter()
            .filter(move |nic| nic.kind == kind)
    }

    /// The value of a variable in the user's configuration files, or in the site's, which count less.
    fn claimed(&self, files: &Files, name: &str) -> Option<Claimed> {
        let users = files.users(self.topology, &self.evidence, name);
        files::strongest([users, self.prepared.claimed_by_site(name)])
    }

    /// The answer for a variable that the user has set, with the value of a file if the library prefers that.
    fn left_to_user(&self, name: &str) -> Answer {
        let overruled = LIBRARIES.iter().find_map(|library| {
            let is_stronger =
                |files: &&Files| files.beat_environment && files.variables.contains(&name);
            let files = library.files.filter(is_stronger)?;
            let Claimed { why, value, .. } = files.all(self.topology, &self.evidence, name)?;
            let why = format!(
                "the user's own value stays, but {why}, which {} prefers",
                library.name
            );
            Some(Answer {
                of_file: Some(value?),
                ..Answer::no(why)
            })
        });
        overruled.unwrap_or_else(|| Answer::no("the user's own value stays"))
    }

    /// The answer, or that of a file which sets the variable.  Without a value of ours only a report or a strict word asks files.
    fn unless_in_files(&self, files: &Files, name: &str, answer: Answer) -> Answer {
        let reports = self.prepared.wish.judges_files();
        let is_judged = reports && !self.node.rails.is_empty() && !self.task.gpus.is_empty();
        let claim = match answer.value {
            Some(_) => self.claimed(files, name),
            None if is_judged => self
                .claimed(files, name)
                .filter(|claim| claim.value.is_some()),
            None => None,
        };
        claim.map_or(answer, Answer::left_to)
    }
}

/// True unless the port is known to carry nothing.
fn works(port: &Port) -> bool {
    matches!(port.state, PortState::Active | PortState::Unknown)
}

/// True if the value begins with the mark; and what follows it.
fn marked(value: &str, mark: char) -> (bool, &str) {
    value
        .strip_prefix(mark)
        .map_or((false, value), |rest| (true, rest))
}

/// True if the node has a GPU of this vendor.
fn has_gpu_of(topology: &Topology, vendor: GpuVendor) -> bool {
    topology.gpus.iter().any(|gpu| gpu.vendor == vendor)
}

/// Our value of a variable.
fn ours<'v>(variables: &'v [Variable], name: &str) -> Option<&'v str> {
    variables
        .iter()
        .find_map(|variable| match &variable.change {
            Change::Set(value) if variable.name == name => Some(value.as_str()),
            _ => None,
        })
}

/// A library's answer for one variable.
struct Answer {
    value: Option<String>,
    why: Cow<'static, str>,
    /// the value of the configuration file that the variable is left to
    of_file: Option<String>,
}

impl Answer {
    fn yes(value: impl Into<String>, why: impl Into<Cow<'static, str>>) -> Answer {
        Answer {
            value: Some(value.into()),
            ..Answer::no(why)
        }
    }

    fn no(why: impl Into<Cow<'static, str>>) -> Answer {
        Answer {
            value: None,
            why: why.into(),
            of_file: None,
        }
    }

    /// No value, with the reason beside the first condition that holds; else this answer.
    fn unless(self, conditions: &[(bool, &'static str)]) -> Answer {
        let reason = conditions.iter().find(|(holds, _)| *holds);
        reason.map_or(self, |(_, why)| Answer::no(*why))
    }

    fn left_to(Claimed { why, value, .. }: Claimed) -> Answer {
        Answer {
            of_file: value,
            ..Answer::no(why)
        }
    }
}

/// The changes to one task's environment, the marker last.
pub(crate) fn environment<'p>(
    prepared: &'p Prepared,
    topology: &Topology,
    node: &NodePlacement,
    task: &TaskPlacement,
    evidence: Evidence,
) -> Vec<Variable<'p>> {
    let evidence = Evidence {
        read: &files::remembered(evidence.read),
        ..evidence
    };
    let earlier = prepared.earlier(evidence.present);
    let mut line = marker::line(topology, node, task, &prepared.digest);
    let mut variables = Vec::with_capacity(prepared.rows.len() + 1);
    for row in &prepared.rows {
        let answered = &variables;
        let query = Query {
            prepared,
            topology,
            node,
            task,
            evidence,
            earlier: &earlier,
            answered,
        };
        let users = query.users(&row.name);
        let is_outer_steps = users.is_none() && evidence.present.contains_key(&*row.name);
        let (change, answer) = match users {
            Some(_) if !row.wanted => continue,
            Some(users) => (
                Change::KeepUsers(users.clone()),
                query.left_to_user(&row.name),
            ),
            None => match row.answer(&query) {
                Some(Answer {
                    value: Some(value),
                    why,
                    of_file,
                }) => {
                    marker::add(&mut line, &row.name, &value);
                    (
                        Change::Set(value),
                        Answer {
                            value: None,
                            why,
                            of_file,
                        },
                    )
                }
                Some(answer) if is_outer_steps => (Change::Remove, answer),
                Some(answer) => (Change::Leave, answer),
                None if is_outer_steps => (
                    Change::Remove,
                    Answer::no("an outer step's value, which is not wanted here"),
                ),
                None => continue,
            },
        };
        let Answer { why, of_file, .. } = answer;
        variables.push(Variable {
            name: Cow::from(&*row.name),
            change,
            of_file,
            why,
        });
    }
    variables.push(publication(line, evidence.present));
    variables
}

/// The marker, unless a variable of the user's has its name.
fn publication<'p>(line: String, present: &Present) -> Variable<'p> {
    let (change, why) = match present
        .get(marker::NAME)
        .filter(|text| !marker::is_published(text))
    {
        Some(users) => (
            Change::KeepUsers(users.clone()),
            "the user's own variable of that name stays, so nothing is published, and a step inside this one will take our \
             values for the user's: unset it",
        ),
        None => (
            Change::Set(line),
            "tells programs and nested steps what was decided",
        ),
    };
    Variable {
        name: marker::NAME.into(),
        change,
        of_file: None,
        why: why.into(),
    }
}

/// The removal of an outer step's values, for a step without placement.
pub fn withdrawal<'n>(names: &[&'n str], present: &Present) -> Vec<Variable<'n>> {
    let Some(text) = present
        .get(marker::NAME)
        .filter(|text| marker::is_published(text))
    else {
        return Vec::new();
    };
    let earlier = Marker::parse(text, |name| name != marker::NAME && names.contains(&name));
    let is_ours = |name: &&str| {
        present
            .get(*name)
            .is_some_and(|value| earlier.is_ours(name, value))
    };
    let removed = |name: &'n str| {
        let why = "an outer step's value, which is wrong for the tasks of an inner one".into();
        Variable {
            name: name.into(),
            change: Change::Remove,
            of_file: None,
            why,
        }
    };
    names
        .iter()
        .copied()
        .filter(is_ours)
        .chain([marker::NAME])
        .map(removed)
        .collect()
}

#[cfg(test)]
mod tests;
