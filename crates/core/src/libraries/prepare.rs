//! What all tasks of a step share, worked out once: the variables, their node-wide values, the contents of
//! files.
#![forbid(unsafe_code)]

use super::files::Claimed;
use super::libfabric::{self, Nearest};
use super::marker::{self, Marker};
use super::once::Once;
use super::template::{Facts, KeptMap, kept_maps};
use super::uniform::{self, NodeList};
use super::wanted::{Wanted, means};
use super::{Answer, Answering, Asked, LIBRARIES, OfStep, Present, ReadFile, evidence, ucx};
use crate::diagnostic::Diagnostic;
use crate::order;
use crate::placement::NodePlacement;
use crate::topology::{NicKind, Topology};
use std::borrow::Cow;

/// A variable and what answers for it.
pub(super) struct Row {
    pub(super) name: Cow<'static, str>,
    /// do both user and admin want it set?
    pub(super) wanted: bool,
    source: Source,
}

/// What answers for a variable.
#[derive(Clone, Copy)]
enum Source {
    /// a library
    Library(Answering),
    /// the admin's template at this place
    Template(usize),
    /// a library that never has a value
    Never(Answering),
}

impl Row {
    /// The value or none, and why; `None` where there is nothing to say.
    pub(super) fn answer<'p>(&self, asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
        match self.source {
            _ if !self.wanted => None,
            Source::Library(answering) | Source::Never(answering) => answering(asked),
            Source::Template(index) => Some(asked.prepared.fill(index, asked)),
        }
    }
}

/// One step's part of the answers.
pub struct Prepared {
    pub(super) wanted: Wanted,
    pub(super) rows: Vec<Row>,
    /// what the libraries are told that find NICs by themselves
    pub(super) list: NodeList,
    /// UCX's part; `None` where no task gets a list
    pub(super) ucx: Option<ucx::OfStep>,
    /// each GPU's Slingshot NIC
    pub(super) slingshot: Vec<Option<Nearest>>,
    /// each GPU's EFA device
    pub(super) efa: Vec<Option<Nearest>>,
    /// what the site's configuration files say of variables
    claimed_by_site: Vec<(&'static str, Claimed)>,
    /// the values of templates without a fact of a task, or why there is none
    filled: Vec<Option<Result<String, String>>>,
    /// the maps that are kept in files, as far as templates name them
    kept_maps: Vec<KeptMap>,
}

impl Prepared {
    /// Works it out.  `read` reads a site's file on this node; it is called only if the answer can change a
    /// value.
    pub(crate) fn new(topology: &Topology, node: &NodePlacement, wanted: Wanted, read: ReadFile) -> Prepared {
        let once = Once::new(read);
        let read: ReadFile = &|path| once.read(path);
        let rows = rows(&wanted);
        let is_wanted = |name: &str| rows.iter().any(|row| row.wanted && row.name == name);
        let filled = wanted.templates.iter().map(|template| {
            if template.is_per_task() || !is_wanted(template.name()) {
                return None;
            }
            let value = template.fill(&Facts { topology, node, task: None, kept: &[] });
            Some(value.and_then(|value| match template.is_file() && read(&value).is_none() {
                true => Err(format!("there is no file `{}` here", value.escape_debug())),
                false => Ok(value),
            }))
        });
        let list = uniform::list(topology, node);
        let step = OfStep { topology, node, wanted: &wanted, list: &list };
        let claims =
            LIBRARIES.iter().filter(|library| library.variables.iter().any(|(name, _)| is_wanted(name)));
        let claims = claims.filter_map(|library| library.files).filter(|files| (files.matter)(&step));
        let claims = claims.flat_map(|files| {
            files.variables.iter().filter_map(|name| Some((*name, files.sites(topology, read, name)?)))
        });
        let claimed_by_site: Vec<_> = claims.collect();
        let ucx_has_list = claimed_by_site.iter().any(|(name, _)| *name == ucx::NET_DEVICES);
        Prepared {
            ucx: ucx::of_step(topology, node, is_wanted(ucx::NET_DEVICES), ucx_has_list, read),
            slingshot: libfabric::nearest(topology, NicKind::Slingshot),
            efa: libfabric::nearest(topology, NicKind::Efa),
            filled: filled.collect(),
            kept_maps: kept_maps(&wanted.templates, &wanted.map_files, topology, node),
            list,
            claimed_by_site,
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
        let is_own = |row: &&Row| matches!(row.source, Source::Library(_));
        self.rows.iter().filter(is_own).any(|row| row.wanted && row.name == name)
    }

    /// What the site's configuration files say of a variable.
    pub(super) fn claimed_by_site(&self, name: &str) -> Option<Claimed> {
        self.claimed_by_site.iter().find(|(known, _)| *known == name).map(|(_, claim)| claim.clone())
    }

    /// All variables that we read or change, some more than once.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| &*row.name).chain(evidence().map(|name| -> &str { name }))
    }

    /// Names in the user's or the admin's `env=` and `no-env=` of variables that no row sets.
    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        let is_set = |entry: &str| self.rows.iter().any(|row| means(entry, &row.name));
        let without_row = |word: &str, entries: &[String]| {
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
        without_row("no-env", unwanted).into_iter().chain(without_row("env", named)).chain(stays).collect()
    }

    /// What an earlier step of ours published in this environment.
    pub(super) fn earlier(&self, present: &Present) -> Marker {
        let may_be_ours = |name: &str| {
            self.rows.iter().any(|row| row.name == name && !matches!(row.source, Source::Never(_)))
        };
        present.get(marker::NAME).map(|text| Marker::parse(text, may_be_ours)).unwrap_or_default()
    }

    /// The answer of the admin's template for a task.
    fn fill(&self, index: usize, asked: &Asked<'_, '_>) -> Answer<'_> {
        let &Asked { topology, node, task, .. } = asked;
        let why = "the admin's `set=`";
        let filled = match &self.filled[index] {
            Some(Ok(value)) => Ok(Cow::from(value)),
            Some(Err(reason)) => Err(reason.clone()),
            None => {
                let facts = Facts { topology, node, task: Some(task), kept: &self.kept_maps };
                self.wanted.templates[index].fill(&facts).map(Cow::from)
            }
        };
        filled.map_or_else(|reason| Answer::no(format!("{why}: {reason}")), |value| Answer::yes(value, why))
    }
}

/// The variables in the order of reports: those of libraries, the admin's, those that never get a value.  The admin's own
/// template for a variable replaces the library's.
fn rows(wanted: &Wanted) -> Vec<Row> {
    let has_template = |name: &str| wanted.templates.iter().any(|template| template.name() == name);
    let mut rows = Vec::new();
    for library in LIBRARIES {
        for &(name, answering) in library.variables.iter().filter(|(name, _)| !has_template(name)) {
            let first = library.variables[0].0;
            let goes_along = library.companion == Some(name) && wanted.has_beside(name, first);
            let wanted = wanted.has(name, library.word) || goes_along;
            rows.push(Row { name: name.into(), wanted, source: Source::Library(answering) });
        }
    }
    for (index, template) in wanted.templates.iter().enumerate() {
        let name = template.name().to_string();
        let wanted = wanted.has(&name, "site");
        rows.push(Row { name: name.into(), wanted, source: Source::Template(index) });
    }
    let of_none =
        LIBRARIES.iter().filter_map(|library| library.never).filter(|(name, _)| !has_template(name));
    let never = |(name, answering): (&'static str, _)| Row {
        name: name.into(),
        wanted: true,
        source: Source::Never(answering),
    };
    rows.extend(of_none.map(never));
    rows
}
