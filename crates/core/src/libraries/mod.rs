//! Variables of communication libraries. Each library has a row in `LIBRARIES`, from its own file
//! or [`recipes`].
//!
//! If eight ranks each list a different NIC in `NCCL_IB_HCA`, NCCL's graph search finds an eighth
//! of the bandwidth that equal lists give. MVAPICH gets no variable. Intel MPI gets only
//! `UCX_NET_DEVICES`, for libfabric's `mlx` provider.

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
pub(crate) use uniform::joined;

use crate::diagnostic::Diagnostic;
use crate::placement::{Change, NodePlacement, TaskPlacement, Variable};
use crate::topology::{GpuVendor, Nic, NicKind, Port, PortState, Topology};
use files::{Claimed, Files, non_empty};
use marker::Marker;
use std::borrow::Cow;
use std::collections::BTreeMap;
use template::Facts;
use wanted::Fabric;

/// Reports list variables in this order.
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

struct Library {
    name: &'static str,
    /// the library's word in `env=`; empty if none is needed
    word: &'static str,
    /// a second word in `env=`, which implies `word`; or empty
    word_for_more: &'static str,
    /// true if `env=default`, the default, includes `word`
    by_default: bool,
    variables: &'static [(&'static str, Answering)],
    /// a variable also set if `env=` names the first of `variables`
    companion: Option<&'static str>,
    /// a variable that we never set, only report with a reason
    never: Option<(&'static str, Answering)>,
    /// the task's other variables on which our values depend
    evidence: &'static [&'static str],
    files: Option<&'static Files>,
    caveat: fn(&Topology, &[Variable]) -> Option<Diagnostic>,
    /// variables (or `PREFIX*`) whose values the topology does not decide: `set=` warns
    doubtful: &'static str,
    /// variables (or `PREFIX*`) that must be equal in all tasks of a node
    uniform: &'static str,
}

impl Library {
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

/// Returns a value, or the reason for none; `None` if the variable is of no use to the task.
type Answering = fn(&Query) -> Option<Answer>;

/// The libraries' variables, without the admin's (`set=`) and `NIC_PLACEMENT`.
pub fn variables() -> impl Iterator<Item = &'static str> {
    LIBRARIES
        .iter()
        .flat_map(|of| of.variables)
        .map(|(name, _)| *name)
}

/// Empty strings, then the variables that we set, report or read, sorted, with repeats. Sorting at
/// run time took 50,000 instructions.
pub const NAMES: [&str; 128] = {
    let (mut names, mut row) = ([""; 128], 0);
    while row < LIBRARIES.len() {
        let (of, mut at) = (LIBRARIES[row], 0);
        while at < of.variables.len() {
            names = with(names, of.variables[at].0);
            at += 1;
        }
        at = 0;
        while at < of.evidence.len() {
            names = with(names, of.evidence[at]);
            at += 1;
        }
        if let Some((name, _)) = of.never {
            names = with(names, name);
        }
        row += 1;
    }
    with(names, marker::NAME)
};

const fn with(mut names: [&'static str; 128], name: &'static str) -> [&'static str; 128] {
    let mut at = 1;
    while at < names.len() && is_before(names[at].as_bytes(), name.as_bytes()) {
        names[at - 1] = names[at];
        at += 1;
    }
    names[at - 1] = name;
    names
}

const fn is_before(one: &[u8], other: &[u8]) -> bool {
    match (one, other) {
        ([a, one @ ..], [b, other @ ..]) if *a == *b => is_before(one, other),
        ([a, ..], [b, ..]) => *a < *b,
        _ => one.len() < other.len(),
    }
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

/// True if the user, a configuration file or the admin's `set=` lists NICs.
pub(crate) fn has_list_of_others(
    variables: &[Variable],
    present: &Present,
    is_admins: impl Fn(&str) -> bool,
) -> bool {
    LISTS.iter().any(|name| {
        let Some(of) = variables.iter().find(|of| of.name == *name) else {
            return non_empty(present, name).is_some();
        };
        match (&of.of_file, &of.change) {
            (Some(list), _) | (_, Change::KeepUsers(list)) => !list.is_empty(),
            (_, change) => matches!(change, Change::Set(_)) && is_admins(name),
        }
    })
}

pub fn caveats(node: &Topology, variables: &[Variable]) -> Vec<Diagnostic> {
    LIBRARIES
        .iter()
        .filter_map(|of| (of.caveat)(node, variables))
        .collect()
}

/// A task's variables before our changes, at least those of `Plan::evidence_variables`.
pub type Present = BTreeMap<String, String>;

#[derive(Clone, Copy)]
pub struct Evidence<'e> {
    pub present: &'e Present,
    /// reads a file with the user's rights; called only if the file can change a value
    pub read: ReadFile<'e>,
}

/// The file at a path; `None` if it does not exist or is not text.
pub type ReadFile<'r> = &'r dyn Fn(&str) -> Option<FileText>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileText {
    pub text: String,
    /// true if the file is longer than `text`
    pub is_cut: bool,
    /// the reason why the text is unknown; the file may exist
    pub unanswered: Option<&'static str>,
}

#[derive(Clone, Copy)]
struct Query<'a> {
    prepared: &'a Prepared,
    node: &'a Topology,
    map: &'a NodePlacement,
    task: &'a TaskPlacement,
    evidence: Evidence<'a>,
    earlier: &'a Marker,
    /// the variables of earlier rows
    answered: &'a [Variable<'a>],
}

impl Query<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        self.evidence.present.get(name).map(String::as_str)
    }

    /// The value, unless we set it in an outer step.
    fn users(&self, name: &str) -> Option<&str> {
        self.value(name)
            .filter(|value| !self.earlier.is_ours(name, value))
    }

    /// The value that we set in an earlier row.
    fn ours(&self, name: &str) -> Option<&str> {
        ours(self.answered, name)
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            node: self.node,
            map: self.map,
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

    fn is_isolated(&self) -> bool {
        self.prepared.wish.admin.fabric == Fabric::IsolatedRails
    }

    fn has_word(&self, word: &str) -> bool {
        self.prepared.wish.has_word(word)
    }

    fn has_gpu_of(&self, vendor: GpuVendor) -> bool {
        has_gpu_of(self.node, vendor)
    }

    fn nics_of(&self, kind: NicKind) -> impl Iterator<Item = &Nic> {
        self.node.nics.iter().filter(move |nic| nic.kind == kind)
    }

    fn claimed(&self, files: &Files, name: &str) -> Option<Claimed> {
        let users = files.users(self.node, &self.evidence, name);
        files::strongest([users, self.prepared.claimed_by_site(name)])
    }

    /// Keeps the user's value; `of_file` is the value of a file that overrules the environment.
    fn left_to_user(&self, name: &str) -> Answer {
        const STAYS: &str = "the user's own value stays";
        let preferred = |library: &&Library| {
            let files = library.files?;
            if !files.beat_environment || !files.variables.contains(&name) {
                return None;
            }
            let users = files.users(self.node, &self.evidence, name);
            let sites = files.sites(self.node, self.evidence.read, name);
            let Claimed { why, value, .. } = files::strongest([users, sites])?;
            let why = format!("{STAYS}, but {why}, which {} prefers", library.name);
            Some(Answer {
                of_file: Some(value?),
                ..Answer::no(why)
            })
        };
        LIBRARIES
            .iter()
            .find_map(preferred)
            .unwrap_or_else(|| Answer::no(STAYS))
    }

    /// `answer`, or no value if a file may set the variable. If `answer` has no value, files are
    /// read only under `judges_files`.
    fn unless_in_files(&self, files: &Files, name: &str, answer: Answer) -> Answer {
        let has_value = answer.value.is_some();
        let is_judged = self.prepared.wish.judges_files()
            && !self.map.rails.is_empty()
            && !self.task.gpus.is_empty();
        if !has_value && !is_judged {
            return answer;
        }
        self.claimed(files, name)
            .filter(|claim| has_value || claim.value.is_some())
            .map_or(answer, Answer::left_to)
    }
}

fn works(port: &Port) -> bool {
    matches!(port.state, PortState::Active | PortState::Unknown)
}

/// `(true, rest)` if `value` begins with `mark`, else `(false, value)`.
fn marked(value: &str, mark: char) -> (bool, &str) {
    let rest = value.strip_prefix(mark);
    (rest.is_some(), rest.unwrap_or(value))
}

fn has_gpu_of(node: &Topology, vendor: GpuVendor) -> bool {
    node.gpus.iter().any(|gpu| gpu.vendor == vendor)
}

fn ours<'v>(variables: &'v [Variable], name: &str) -> Option<&'v str> {
    variables.iter().find_map(|of| match &of.change {
        Change::Set(value) if of.name == name => Some(value.as_str()),
        _ => None,
    })
}

struct Answer {
    value: Option<String>,
    why: Cow<'static, str>,
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

    /// `self`, or no value with the reason of the first condition that holds.
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

/// The changes to one task's environment, [`marker::NAME`] last.
pub(crate) fn environment<'p>(
    prepared: &'p Prepared,
    node: &Topology,
    map: &NodePlacement,
    task: &TaskPlacement,
    evidence: Evidence,
) -> Vec<Variable<'p>> {
    let evidence = Evidence {
        read: &files::remembered(evidence.read),
        ..evidence
    };
    let earlier = prepared.earlier(evidence.present);
    let mut line = marker::line(node, map, task, &prepared.digest);
    let mut variables = Vec::with_capacity(prepared.rows.len() + 1);
    for row in &prepared.rows {
        let query = Query {
            prepared,
            node,
            map,
            task,
            evidence,
            earlier: &earlier,
            answered: &variables,
        };
        let (change, answer) = match query.users(&row.name) {
            Some(_) if !row.wanted => continue,
            Some(users) => (
                Change::KeepUsers(users.into()),
                query.left_to_user(&row.name),
            ),
            None => {
                let is_outer_steps = evidence.present.contains_key(&*row.name);
                let unwanted = || Answer::no("an outer step's value, which is not wanted here");
                let answer = row.answer(&query);
                let Some(mut answer) = answer.or_else(|| is_outer_steps.then(unwanted)) else {
                    continue;
                };
                let change = match answer.value.take() {
                    Some(value) => {
                        marker::add(&mut line, &row.name, &value);
                        Change::Set(value)
                    }
                    None if is_outer_steps => Change::Remove,
                    None => Change::Leave,
                };
                (change, answer)
            }
        };
        variables.push(Variable {
            of_file: answer.of_file,
            ..variable(&row.name, change, answer.why)
        });
    }
    variables.push(publication(line, evidence.present));
    variables
}

fn publication<'p>(line: String, present: &Present) -> Variable<'p> {
    let is_users = |text: &&String| !marker::is_published(text);
    match present.get(marker::NAME).filter(is_users) {
        None => variable(
            marker::NAME,
            Change::Set(line),
            "tells programs and nested steps what was decided",
        ),
        Some(users) => variable(
            marker::NAME,
            Change::KeepUsers(users.clone()),
            "the user's own variable of that name stays, so nothing is published, and a step inside this one will take our \
             values for the user's: unset it",
        ),
    }
}

fn variable<'n>(name: &'n str, change: Change, why: impl Into<Cow<'n, str>>) -> Variable<'n> {
    Variable {
        name: name.into(),
        change,
        of_file: None,
        why: why.into(),
    }
}

/// Removes an outer step's values, for a step without placement.
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
    let why = "an outer step's value, which is wrong for the tasks of an inner one";
    names
        .iter()
        .copied()
        .filter(is_ours)
        .chain([marker::NAME])
        .map(|name| variable(name, Change::Remove, why))
        .collect()
}

#[cfg(test)]
mod tests;
