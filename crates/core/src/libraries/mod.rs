//! Turns a placement into what programs read: one file for each library, the marker, and the reports.
//!
//! The obvious value is often wrong: one NIC in each task's `NCCL_IB_HCA` would cost NCCL, by its own search,
//! seven eighths of its bandwidth.  So each file states the library's own rule and its source.  Each library
//! answers with a value or none, and why.  This module alone decides whose value stands.  Plain MPICH, Intel
//! MPI and MVAPICH choose by their own rules and get nothing.
#![forbid(unsafe_code)]

mod claimed;
mod cray_mpich;
mod deepep;
mod efa;
mod libfabric;
pub mod lint;
pub mod marker;
mod mooncake;
mod mori;
pub mod names;
mod nccl;
mod nvshmem;
mod once;
mod one_ccl;
mod open_mpi;
mod openmp;
mod prepare;
mod rocshmem;
mod slingshot;
pub mod template;
pub mod text;
mod ucx;
mod uniform;
pub mod uses;
pub mod wanted;

pub use prepare::Prepared;

use crate::placement::{Change, NodePlacement, TaskPlacement, Variable};
use crate::topology::Topology;
use claimed::Claimed;
use marker::{Marker, Publication};
use once::Once;
use prepare::AnsweredBy;
use std::borrow::Cow;
use std::collections::BTreeMap;
use wanted::Libraries;

/// A library's answer for one variable; `None` if this node has nothing for the library.
type Library = for<'p> fn(&Asked<'p, '_>) -> Option<Answer<'p>>;

/// The variables that we may set beside the marker and the admin's own, in the order of reports.
const ROWS: [(&str, Libraries, Library); 18] = [
    (ucx::NET_DEVICES, Libraries::UCX, ucx::net_devices),
    (ucx::PRIORITY, Libraries::UCX, ucx::priority),
    (nccl::IB_HCA, Libraries::NCCL, nccl::ib_hca),
    (nccl::CROSS_NIC, Libraries::NCCL, nccl::cross_nic),
    (nvshmem::HCA_LIST, Libraries::NVSHMEM, nvshmem::hca_list),
    (nvshmem::ENABLE_MAPPING, Libraries::NVSHMEM, nvshmem::enable_mapping),
    (rocshmem::HCA_LIST, Libraries::ROCSHMEM, rocshmem::hca_list),
    (deepep::NIC_NAME, Libraries::DEEPEP, deepep::nic_name),
    (slingshot::NIC_POLICY, Libraries::CRAY_MPICH, cray_mpich::nic_policy),
    (open_mpi::ACCELERATOR_RANK, Libraries::OPEN_MPI, open_mpi::accelerator_rank),
    (slingshot::CXI_DEVICE, Libraries::LIBFABRIC, libfabric::cxi_device),
    (libfabric::VERBS_DEVICE, Libraries::LIBFABRIC, libfabric::verbs_device),
    (mooncake::FILTERS, Libraries::MOONCAKE, mooncake::filters),
    (mori::DEVICES, Libraries::MORI, mori::devices),
    (one_ccl::MNIC, Libraries::ONECCL, one_ccl::mnic),
    // users ask for these by a word of their own
    (openmp::NUM_THREADS, Libraries::NONE, openmp::num_threads),
    (openmp::PLACES, Libraries::NONE, openmp::places),
    (openmp::PROC_BIND, Libraries::NONE, openmp::proc_bind),
];

/// Variables we only read, because they affect what we set.
const EVIDENCE: [&str; 26] = [
    ucx::TLS,
    ucx::ALL_DEVICES,
    ucx::OF_LIBFABRIC,
    ucx::REACHABILITY,
    ucx::CONFIG_DIR,
    nccl::CONF_FILE,
    nccl::HOME,
    nccl::FORCE_MERGE,
    nvshmem::PE_MAPPING,
    nvshmem::PREFIX,
    nvshmem::CONF_FILE,
    rocshmem::USE_HCA,
    cray_mpich::NIC_MAPPING,
    cray_mpich::NUM_NICS,
    cray_mpich::GPU_SUPPORT,
    slingshot::STEP_DEVICES,
    efa::IFACE,
    libfabric::PROVIDER,
    libfabric::VERBS_IFACE,
    mooncake::EXCLUDED,
    mooncake::OF_STORE,
    mooncake::CONFIGURATION,
    one_ccl::NAME,
    openmp::GOMP_CPU_AFFINITY,
    openmp::KMP_AFFINITY,
    marker::NAME,
];

/// The variables that we may set without an admin's `set=`, the marker not counted.
pub fn variables() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|(name, ..)| *name)
}

/// A task's variables before we change any; it may lack those that `Prepared::names` does not name.
pub type Present = BTreeMap<String, String>;

/// What we know of one task beside its placement.
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
    /// why it is not known whether there is such a file: it may be there and set whatever we would set
    pub unanswered: Option<&'static str>,
}

/// What a library is asked about.
struct Asked<'p, 'e> {
    prepared: &'p Prepared,
    topology: &'e Topology,
    node: &'e NodePlacement,
    task: &'e TaskPlacement,
    evidence: Evidence<'e>,
    earlier: &'e Marker,
    /// what UCX's variables have in common
    ucx: ucx::OfTask,
}

impl Asked<'_, '_> {
    /// The user's own value of a variable.
    fn users(&self, name: &str) -> Option<&String> {
        self.evidence.present.get(name).filter(|value| !self.earlier.is_ours(name, value))
    }

    /// Is it to be told what the task will use by a library's files, on a node with NICs that may be chosen?
    fn judges_files(&self) -> bool {
        self.prepared.wanted.judges_files && !self.node.rails.is_empty() && !self.task.gpus.is_empty()
    }
}

/// What a library answers for one variable.
struct Answer<'a> {
    value: Option<Cow<'a, str>>,
    why: Cow<'a, str>,
    /// the value that a configuration file gives, if the variable is left to that
    of_file: Option<Cow<'a, str>>,
}

impl<'a> Answer<'a> {
    fn yes(value: impl Into<Cow<'a, str>>, why: impl Into<Cow<'a, str>>) -> Answer<'a> {
        Answer { value: Some(value.into()), why: why.into(), of_file: None }
    }

    fn no(why: impl Into<Cow<'a, str>>) -> Answer<'a> {
        Answer { value: None, why: why.into(), of_file: None }
    }

    fn left_to(Claimed { why, value, .. }: Claimed) -> Answer<'a> {
        Answer { value: None, why: why.into(), of_file: value.map(Cow::from) }
    }

    /// The same answer, its texts borrowed.
    fn borrowed(&self) -> Answer<'_> {
        let borrowed = |text: &'_ Option<Cow<'a, str>>| text.as_deref().map(str::to_string).map(Cow::from);
        let value = self.value.as_ref().map(|value| Cow::Borrowed(value.as_ref()));
        Answer { value, why: Cow::Borrowed(&self.why), of_file: borrowed(&self.of_file) }
    }
}

/// The changes to one task's environment, the marker last, each with its reason.
pub fn environment<'p>(
    prepared: &'p Prepared,
    topology: &Topology,
    node: &NodePlacement,
    task: &TaskPlacement,
    evidence: Evidence,
) -> Vec<Variable<'p>> {
    let once = Once::new(evidence.read);
    let evidence = Evidence { read: &|path| once.read(path), ..evidence };
    let earlier = prepared.earlier(evidence.present);
    let asked =
        Asked { prepared, topology, node, task, evidence, earlier: &earlier, ucx: ucx::OfTask::default() };
    let mut published = Publication::new(topology, node, task);
    let mut variables = Vec::with_capacity(prepared.rows.len() + 1);
    for row in &prepared.rows {
        let name = Cow::from(row.name.as_str());
        let users = asked.users(&row.name);
        let ours = users.is_none() && evidence.present.contains_key(&row.name);
        if let Some(users) = users {
            if row.wanted {
                let (of_file, why) = match nvshmem::overruled(&row.name, &asked.evidence) {
                    Some((value, why)) => (Some(value), why.into()),
                    None => (None, "the user's own value stays".into()),
                };
                variables.push(Variable { name, change: Change::KeepUsers(users.clone()), of_file, why });
            }
            continue;
        }
        let answer = match (row.wanted, row.source) {
            (false, _) => None,
            (true, AnsweredBy::Library(library) | AnsweredBy::Never(library)) => library(&asked),
            (true, AnsweredBy::Template(index)) => Some(prepared.fill(index, &asked)),
        };
        let Answer { value, why, of_file } = match answer {
            Some(answer) => answer,
            None if ours => Answer::no("an outer step's value, which is not wanted here"),
            None => continue,
        };
        let change = match value {
            Some(value) => {
                published.add(&row.name, &value);
                asked.ucx.note(&row.name, &value);
                Change::Set(value.into_owned())
            }
            None if ours => Change::Remove,
            None => Change::Leave,
        };
        let of_file = of_file.map(Cow::into_owned);
        variables.push(Variable { name, change, of_file, why });
    }
    variables.push(publication(published, evidence.present));
    variables
}

/// The marker, unless the user has a variable of their own that is called so.
fn publication<'p>(published: Publication, present: &Present) -> Variable<'p> {
    let (change, why) = match present.get(marker::NAME).filter(|text| !marker::is_published(text)) {
        Some(users) => (
            Change::KeepUsers(users.clone()),
            "the user's own variable of that name stays, so nothing is published, and a step inside this one will take our \
             values for the user's: unset it",
        ),
        None => (Change::Set(published.into_line()), "tells programs and nested steps what was decided"),
    };
    Variable { name: marker::NAME.into(), change, of_file: None, why: why.into() }
}

/// The changes that undo our earlier values if placement is off: an outer step's NIC is wrong for an inner
/// step's tasks.
pub fn withdrawal<'n>(names: &[&'n str], present: &Present) -> Vec<Variable<'n>> {
    let text = present.get(marker::NAME).filter(|text| marker::is_published(text));
    let Some(text) = text else { return Vec::new() };
    let earlier = Marker::parse(text, |name| name != marker::NAME && names.contains(&name));
    let ours =
        names.iter().filter(|name| present.get(**name).is_some_and(|value| earlier.is_ours(name, value)));
    let why = "an outer step's value, which is wrong for the tasks of an inner one";
    let marker: &'n str = marker::NAME;
    let removed = ours.copied().chain([marker]);
    let remove = |name: &'n str| Variable {
        name: name.into(),
        change: Change::Remove,
        of_file: None,
        why: why.into(),
    };
    removed.map(remove).collect()
}

#[cfg(test)]
mod tests;
