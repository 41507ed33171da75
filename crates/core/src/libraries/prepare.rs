//! What all tasks of a step share, worked out once: the variables, their node-wide values, the contents of
//! files.
#![forbid(unsafe_code)]

use super::libfabric::Nearest;
use super::marker::{self, Marker};
use super::once::Once;
use super::template::{KeptMap, kept_maps};
use super::wanted::{Libraries, Wanted, means};
use super::{
    Answer, Asked, EVIDENCE, Library, Present, ROWS, ReadFile, efa, libfabric, mooncake, nccl, nvshmem, ucx,
    uniform,
};
use crate::diagnostic::Diagnostic;
use crate::order;
use crate::placement::NodePlacement;
use crate::topology::{NicKind, Topology};

/// A variable and what answers for it.
pub(super) struct Row {
    pub(super) name: String,
    /// do both user and admin want it set?
    pub(super) wanted: bool,
    pub(super) source: AnsweredBy,
}

/// What answers for a variable.
#[derive(Clone, Copy)]
pub(super) enum AnsweredBy {
    /// a library's file
    Library(Library),
    /// the admin's template at this place
    Template(usize),
    /// a library's file that never has a value
    Never(Library),
}

/// One step's part of the answers.
pub struct Prepared {
    pub(super) wanted: Wanted,
    pub(super) rows: Vec<Row>,
    /// what the libraries are told that find NICs by themselves
    pub(super) of_node: uniform::List,
    pub(super) nccl: nccl::Shared,
    /// what isolated rails need; `None` on another fabric
    pub(super) rails_alone: Option<nccl::Shared>,
    /// NVSHMEM's part; `None` where it cannot run
    pub(super) nvshmem: Option<nvshmem::Shared>,
    pub(super) mooncake: Answer<'static>,
    /// UCX's part; `None` where no task gets a list
    pub(super) ucx: Option<ucx::Shared>,
    /// each GPU's Slingshot NIC
    pub(super) slingshot: Vec<Option<Nearest>>,
    /// each GPU's EFA device
    pub(super) efa: Vec<Option<Nearest>>,
    /// the values of templates without a fact of a task, or why there is none
    filled: Vec<Option<Result<String, String>>>,
    /// the maps that are kept in files, as far as templates name them
    kept_maps: Vec<KeptMap>,
}

impl Prepared {
    /// Works it out.  `read` reads a site's file on this node; it is called only if the answer can change a
    /// value.
    pub fn new(topology: &Topology, node: &NodePlacement, wanted: Wanted, read: ReadFile) -> Prepared {
        let once = Once::new(read);
        let read: ReadFile = &|path| once.read(path);
        let wants = |name: &str, libraries: Libraries| wanted.has(name, libraries);
        // where `env=UCX_NET_DEVICES` sets the list, this goes along: without it UCX's clients can fail to connect
        let goes_along = |name: &str| name == ucx::PRIORITY && wanted.has_beside(name, ucx::NET_DEVICES);
        // the admin's own template for a variable replaces the library's
        let has_template = |name: &str| wanted.templates.iter().any(|template| template.name() == name);
        let libraries = ROWS.iter().filter(|(name, ..)| !has_template(name));
        let mut rows: Vec<Row> = libraries
            .map(|&(name, libraries, library)| Row {
                name: name.to_string(),
                wanted: wants(name, libraries) || goes_along(name),
                source: AnsweredBy::Library(library),
            })
            .collect();
        rows.extend(wanted.templates.iter().enumerate().map(|(index, template)| Row {
            name: template.name().to_string(),
            wanted: wants(template.name(), Libraries::SITE),
            source: AnsweredBy::Template(index),
        }));
        if !has_template(efa::IFACE) {
            let source = AnsweredBy::Never(efa::iface);
            rows.push(Row { name: efa::IFACE.to_string(), wanted: true, source });
        }
        let is_wanted = |name: &str| rows.iter().any(|row| row.wanted && row.name == name);
        let filled = wanted.templates.iter().map(|template| {
            if template.is_per_task() || !is_wanted(template.name()) {
                return None;
            }
            let value = template.fill(topology, node, None, &[]).and_then(|value| {
                let missing = template.is_file() && read(&value).is_none();
                if missing {
                    Err(format!("there is no file `{}` here", value.escape_debug()))
                } else {
                    Ok(value)
                }
            });
            Some(value)
        });
        let nothing = |_: &str| None;
        let read_for = |name: &str| -> ReadFile { if is_wanted(name) { read } else { &nothing } };
        let of_node = uniform::list(topology, node);
        Prepared {
            nccl: nccl::list(topology, node, &of_node, wanted.judges_files, read_for(nccl::IB_HCA)),
            rails_alone: nccl::rails_alone(topology, node, wanted.fabric, read_for(nccl::CROSS_NIC)),
            nvshmem: nvshmem::shared(topology, node, &of_node, &wanted, read_for(nvshmem::HCA_LIST)),
            mooncake: mooncake::list(&of_node, node),
            ucx: ucx::shared(topology, node, is_wanted(ucx::NET_DEVICES), read),
            slingshot: libfabric::nearest(topology, NicKind::Slingshot),
            efa: libfabric::nearest(topology, NicKind::Efa),
            filled: filled.collect(),
            of_node,
            kept_maps: kept_maps(&wanted.templates, &wanted.map_files, topology, node),
            rows,
            wanted,
        }
    }

    /// Do both user and admin want this variable set?
    pub(super) fn is_wanted(&self, name: &str) -> bool {
        self.rows.iter().any(|row| row.wanted && row.name == name)
    }

    /// Is it wanted and a library's own, and not the admin's template?
    pub(super) fn is_librarys(&self, name: &str) -> bool {
        let is_own = |row: &Row| matches!(row.source, AnsweredBy::Library(_));
        self.rows.iter().any(|row| row.wanted && row.name == name && is_own(row))
    }

    /// All variables that we read or change, some more than once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row.name.as_str()).chain(EVIDENCE)
    }

    /// Names in the user's or the admin's `env=` and `no-env=` of variables that no row sets.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let is_set = |entry: &str| self.rows.iter().any(|row| means(entry, &row.name));
        let of_nobody = |word: &str, entries: &[String]| {
            let unknown = entries.iter().map(String::as_str).filter(|entry| *entry != marker::NAME);
            let unknown = order::set(unknown.filter(|entry| !is_set(entry)));
            // one line, since a user can name hundreds
            let named: Vec<&str> = unknown.iter().copied().take(3).collect();
            let finding = match (named.len(), unknown.len() - named.len()) {
                (0, _) => return None,
                (1, 0) => "nothing sets this variable: no effect".to_string(),
                (_, 0) => "nothing sets these variables: no effect".to_string(),
                (_, more) => format!("nothing sets these variables, nor {more} more: no effect"),
            };
            Some(Diagnostic::new(format!("{word}={}", named.join("+")), finding))
        };
        let Wanted { unwanted, named, .. } = &self.wanted;
        let stays = unwanted.iter().any(|entry| entry == marker::NAME).then(|| {
            let finding = "by this one nested steps know which values are ours: it stays";
            Diagnostic::new(format!("no-env={}", marker::NAME), finding)
        });
        of_nobody("no-env", unwanted).into_iter().chain(of_nobody("env", named)).chain(stays).collect()
    }

    /// What an earlier step of ours published in this environment.
    pub(super) fn earlier(&self, present: &Present) -> Marker {
        let may_be_ours = |name: &str| {
            self.rows.iter().any(|row| row.name == name && !matches!(row.source, AnsweredBy::Never(_)))
        };
        present.get(marker::NAME).map(|text| Marker::parse(text, may_be_ours)).unwrap_or_default()
    }

    /// The answer of the admin's template for a task.
    pub(super) fn fill(&self, index: usize, asked: &Asked<'_, '_>) -> Answer<'_> {
        let template = &self.wanted.templates[index];
        let why = "the admin's `set=`";
        let explained = |reason: &str| format!("{why}: {reason}");
        match &self.filled[index] {
            Some(Ok(value)) => Answer::yes(value, why),
            Some(Err(reason)) => Answer::no(explained(reason)),
            None => match template.fill(asked.topology, asked.node, Some(asked.task), &self.kept_maps) {
                Ok(value) => Answer::yes(value, why),
                Err(reason) => Answer::no(explained(&reason)),
            },
        }
    }
}
