//! What each library reads: one file for each, which holds all that is known of it, and one row of [`LIBRARIES`].
//!
//! The obvious value is often wrong: one NIC in each task's `NCCL_IB_HCA` would cost NCCL, by its own search, seven eighths of its
//! bandwidth.  A library answers with a value or none, and why; [`environment`] alone decides whose value stands.  MVAPICH chooses
//! by its own rules and gets nothing; so does Intel MPI, but over UCX (libfabric's `mlx` provider) UCX's list rules it.
#![forbid(unsafe_code)]

mod cray_mpich;
mod deepep;
mod efa;
mod files;
mod libfabric;
pub mod marker;
mod mooncake;
mod mori;
mod mpich;
pub mod names;
pub mod nccl;
mod nvshmem;
mod one_ccl;
mod open_mpi;
mod openmp;
mod prepare;
mod rocshmem;
mod sockets;
mod template;
mod uccl;
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

/// The libraries, in the order in which their variables are set and reported.
const LIBRARIES: [&Library; 17] = [
    &ucx::LIBRARY,
    &nccl::LIBRARY,
    &nvshmem::LIBRARY,
    &rocshmem::LIBRARY,
    &deepep::LIBRARY,
    &cray_mpich::LIBRARY,
    &open_mpi::LIBRARY,
    &mpich::LIBRARY,
    &libfabric::LIBRARY,
    &mooncake::LIBRARY,
    &mori::LIBRARY,
    &uccl::LIBRARY,
    &one_ccl::LIBRARY,
    &openmp::LIBRARY,
    &sockets::LIBRARY,
    &ucx_rails::LIBRARY,
    &efa::LIBRARY,
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
    /// the variables that it may be given, and what answers for each
    variables: &'static [(&'static str, Answering)],
    /// of these the one that comes along where `env=` names the first one
    companion: Option<&'static str>,
    /// the variable that only ever gets a reason, and what answers for it
    never: Option<(&'static str, Answering)>,
    /// other variables that change what is set
    evidence: &'static [&'static str],
    /// its configuration files
    files: Option<&'static Files>,
    /// what may go wrong with what a task gets
    caveat: fn(&Topology, &[Variable]) -> Option<Diagnostic>,
    /// variables that follow from no topology: names and `BEGINNING*`s between white space
    doubtful: &'static str,
    /// its variables that must be equal in every task, written alike
    uniform: &'static str,
}

impl Library {
    /// One without anything: each library's own row says what it has.
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
    LIBRARIES.iter().flat_map(|library| library.variables).map(|(name, _)| *name)
}

/// The variables that we only read, because they affect what we set.
pub fn evidence() -> impl Iterator<Item = &'static str> {
    LIBRARIES.iter().flat_map(|library| library.evidence).copied().chain([marker::NAME])
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
    LISTS.iter().any(|name| match variables.iter().find(|of| of.name == *name) {
        Some(Variable { of_file: Some(list), .. } | Variable { change: Change::KeepUsers(list), .. }) => {
            !list.is_empty()
        }
        Some(of) => matches!(of.change, Change::Set(_)) && is_admins(name),
        None => present.get(*name).is_some_and(|list| !list.is_empty()),
    })
}

/// What may go wrong with what a task gets.
pub fn caveats(topology: &Topology, variables: &[Variable]) -> Vec<Diagnostic> {
    LIBRARIES.iter().filter_map(|library| (library.caveat)(topology, variables)).collect()
}

/// A task's variables before we change any; it may lack those that `Prepared::names` does not name.
pub type Present = BTreeMap<String, String>;

/// What we know of one task, apart from its placement.
#[derive(Clone, Copy)]
pub struct Evidence<'e> {
    /// its environment
    pub present: &'e Present,
    /// reads a file with the user's rights; called only if the answer can change a value
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

/// What a library is asked about.
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
        self.evidence.present.get(name).filter(|value| !self.earlier.is_ours(name, value))
    }

    /// The value that a variable before this one gets from us.
    fn ours(&self, name: &str) -> Option<&str> {
        ours(self.answered, name)
    }

    /// Does `env=` have this word?
    fn has_word(&self, word: &str) -> bool {
        self.prepared.wanted.has_word(word)
    }

    fn has_gpu_of(&self, vendor: GpuVendor) -> bool {
        has_gpu_of(self.topology, vendor)
    }

    /// The node's NICs of this kind.
    fn nics_of(&self, kind: NicKind) -> impl Iterator<Item = &Nic> {
        self.topology.nics.iter().filter(move |nic| nic.kind == kind)
    }

    /// What the configuration files say of a variable: the user's, which count more, and the site's.
    fn claimed(&self, files: &Files, name: &str) -> Option<Claimed> {
        let users = files.users(self.topology, &self.evidence, name);
        files::strongest([users, self.prepared.claimed_by_site(name)])
    }

    /// The answer where the user's own value stays, with that of a file which its library prefers.
    fn left_to_user(&self, name: &str) -> Answer {
        let overruled = LIBRARIES.iter().find_map(|library| {
            let is_stronger = |files: &&Files| files.beat_environment && files.variables.contains(&name);
            let files = library.files.filter(is_stronger)?;
            let Claimed { why, value, .. } = files.all(self.topology, &self.evidence, name)?;
            let why = format!("the user's own value stays, but {why}, which {} prefers", library.name);
            Some(Answer { of_file: Some(value?), ..Answer::no(why) })
        });
        overruled.unwrap_or_else(|| Answer::no("the user's own value stays"))
    }

    /// The answer, unless a file takes its place: one over which we would set ours, or whose value is reported or judged.
    fn unless_in_files(&self, files: &Files, name: &str, answer: Answer) -> Answer {
        let reports = self.prepared.wanted.judges_files;
        let is_judged = reports && !self.node.rails.is_empty() && !self.task.gpus.is_empty();
        let claim = match answer.value {
            Some(_) => self.claimed(files, name),
            None if is_judged => self.claimed(files, name).filter(|claim| claim.value.is_some()),
            None => None,
        };
        claim.map_or(answer, Answer::left_to)
    }
}

/// Can a port carry anything, as far as is known?
fn works(port: &Port) -> bool {
    matches!(port.state, PortState::Active | PortState::Unknown)
}

/// Is there a mark before a value, and what follows it?
fn marked(value: &str, mark: char) -> (bool, &str) {
    value.strip_prefix(mark).map_or((false, value), |rest| (true, rest))
}

/// Has the node a GPU of this vendor?
fn has_gpu_of(topology: &Topology, vendor: GpuVendor) -> bool {
    topology.gpus.iter().any(|gpu| gpu.vendor == vendor)
}

/// The value that we give a variable.
fn ours<'v>(variables: &'v [Variable], name: &str) -> Option<&'v str> {
    variables.iter().find_map(|variable| match &variable.change {
        Change::Set(value) if variable.name == name => Some(value.as_str()),
        _ => None,
    })
}

/// What a library answers for one variable.
struct Answer {
    value: Option<String>,
    why: Cow<'static, str>,
    /// the value that a configuration file gives, if the variable is left to that
    of_file: Option<String>,
}

impl Answer {
    fn yes(value: impl Into<String>, why: impl Into<Cow<'static, str>>) -> Answer {
        Answer { value: Some(value.into()), ..Answer::no(why) }
    }

    fn no(why: impl Into<Cow<'static, str>>) -> Answer {
        Answer { value: None, why: why.into(), of_file: None }
    }

    /// This answer, unless one of these conditions holds: then none, for the reason behind it.
    fn unless(self, conditions: &[(bool, &'static str)]) -> Answer {
        let reason = conditions.iter().find(|(holds, _)| *holds);
        reason.map_or(self, |(_, why)| Answer::no(*why))
    }

    fn left_to(Claimed { why, value, .. }: Claimed) -> Answer {
        Answer { of_file: value, ..Answer::no(why) }
    }
}

/// The changes to one task's environment, the marker last, each with its reason.
pub(crate) fn environment<'p>(
    prepared: &'p Prepared,
    topology: &Topology,
    node: &NodePlacement,
    task: &TaskPlacement,
    evidence: Evidence,
) -> Vec<Variable<'p>> {
    let evidence = Evidence { read: &files::remembered(evidence.read), ..evidence };
    let earlier = prepared.earlier(evidence.present);
    let mut line = marker::line(topology, node, task);
    let mut variables = Vec::with_capacity(prepared.rows.len() + 1);
    for row in &prepared.rows {
        let answered = &variables;
        let query = Query { prepared, topology, node, task, evidence, earlier: &earlier, answered };
        let users = query.users(&row.name);
        let is_outer_steps = users.is_none() && evidence.present.contains_key(&*row.name);
        let (change, answer) = match users {
            Some(_) if !row.wanted => continue,
            Some(users) => (Change::KeepUsers(users.clone()), query.left_to_user(&row.name)),
            None => match row.answer(&query) {
                Some(Answer { value: Some(value), why, of_file }) => {
                    marker::add(&mut line, &row.name, &value);
                    (Change::Set(value), Answer { value: None, why, of_file })
                }
                Some(answer) if is_outer_steps => (Change::Remove, answer),
                Some(answer) => (Change::Leave, answer),
                None if is_outer_steps => {
                    (Change::Remove, Answer::no("an outer step's value, which is not wanted here"))
                }
                None => continue,
            },
        };
        let Answer { why, of_file, .. } = answer;
        variables.push(Variable { name: Cow::from(&*row.name), change, of_file, why });
    }
    variables.push(publication(line, evidence.present));
    variables
}

/// The marker, unless the user has a variable of their own that is called so.
fn publication<'p>(line: String, present: &Present) -> Variable<'p> {
    let (change, why) = match present.get(marker::NAME).filter(|text| !marker::is_published(text)) {
        Some(users) => (
            Change::KeepUsers(users.clone()),
            "the user's own variable of that name stays, so nothing is published, and a step inside this one will take our \
             values for the user's: unset it",
        ),
        None => (Change::Set(line), "tells programs and nested steps what was decided"),
    };
    Variable { name: marker::NAME.into(), change, of_file: None, why: why.into() }
}

/// The changes that undo our earlier values if placement is off.
pub fn withdrawal<'n>(names: &[&'n str], present: &Present) -> Vec<Variable<'n>> {
    let Some(text) = present.get(marker::NAME).filter(|text| marker::is_published(text)) else {
        return Vec::new();
    };
    let earlier = Marker::parse(text, |name| name != marker::NAME && names.contains(&name));
    let is_ours = |name: &&str| present.get(*name).is_some_and(|value| earlier.is_ours(name, value));
    let removed = |name: &'n str| {
        let why = "an outer step's value, which is wrong for the tasks of an inner one".into();
        Variable { name: name.into(), change: Change::Remove, of_file: None, why }
    };
    names.iter().copied().filter(is_ours).chain([marker::NAME]).map(removed).collect()
}

#[cfg(test)]
mod tests;
