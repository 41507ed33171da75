//! A step's variables, node-wide values and files' settings, computed once for all tasks.

use super::files::{Claimed, remembered};
use super::libfabric::{self, Nearest};
use super::marker::{self, Marker};
use super::names::means;
use super::template::Facts;
use super::uniform::{self, NodeList};
use super::{Answer, Answering, LIBRARIES, Library, Present, Query, ReadFile, sockets, ucx};
use crate::diagnostic::Diagnostic;
use crate::order;
use crate::placement::NodePlacement;
use crate::placement::agreement::Agreement;
use crate::step::Step;
use crate::topology::{NicKind, Topology};
use crate::wish::{Template, Wish};
use std::borrow::Cow;
use std::sync::Arc;

pub(super) struct Row {
    pub(super) name: Cow<'static, str>,
    /// true if `env=` and `no-env=` select the variable
    pub(super) wanted: bool,
    source: Source,
}

enum Source {
    Library(Answering),
    Never(Answering),
    /// the admin's template, and its value or error if equal for all tasks
    Template(Template, Option<Result<String, String>>),
}

impl Row {
    /// `None` if the variable is not wanted, or of no use to the task.
    pub(super) fn answer(&self, query: &Query) -> Option<Answer> {
        match &self.source {
            _ if !self.wanted => None,
            Source::Library(answering) | Source::Never(answering) => answering(query),
            Source::Template(template, of_all) => {
                let value = of_all
                    .clone()
                    .unwrap_or_else(|| template.fill(&query.facts()));
                let why = "the admin's `set=`";
                let no = |reason| Answer::no(format!("{why}: {reason}"));
                Some(value.map_or_else(no, |value| Answer::yes(value, why)))
            }
        }
    }
}

pub struct Prepared {
    pub(super) wish: Arc<Wish>,
    /// the command's words that bind processes or name NICs
    pub(super) words: Vec<&'static str>,
    pub(super) rows: Vec<Row>,
    /// the marker's `node=`
    pub(super) digest: String,
    /// the node-wide list of NICs
    pub(super) list: NodeList,
    /// UCX's facts, equal for all tasks; `None` if no task gets a list
    pub(super) ucx: Option<ucx::Shared>,
    /// each GPU's nearest usable Slingshot NIC
    pub(super) slingshot: Vec<Option<Nearest>>,
    /// each GPU's nearest usable EFA device
    pub(super) efa: Vec<Option<Nearest>>,
    pub(super) interface: sockets::Interface,
    claimed_by_site: Vec<(&'static str, Claimed)>,
}

impl Prepared {
    /// Calls `read` only for files of this node that can change a value.
    pub(crate) fn new(
        topology: &Topology,
        node: &NodePlacement,
        wish: Arc<Wish>,
        step: &Step,
        read: ReadFile,
    ) -> Prepared {
        let read: ReadFile = &remembered(read);
        let interface = match sockets::is_wanted(&wish) {
            true => sockets::interface(topology, step.srun.as_deref(), read),
            false => Err("no variable needs it"),
        };
        let value_of_all = |template: &Template| {
            let interface = interface.as_ref().ok().map(|(name, _)| name.as_str());
            let value = template.fill(&Facts {
                node: topology,
                map: node,
                task: None,
                interface,
                files: &[],
            })?;
            match template.is_file() && read(&value).is_none() {
                true => Err(format!("there is no file `{}` here", value.escape_debug())),
                false => Ok(value),
            }
        };
        let rows = rows(&wish, value_of_all);
        let is_wanted = |name| is_wanted(&rows, name);
        let list = uniform::list(topology, &node.rails);
        let has_list = list.is_ok() || !node.degraded.is_empty();
        let has_both = !topology.gpus.is_empty() && !node.rails.is_empty();
        let has_wanted =
            |library: &&&Library| library.variables.iter().any(|(name, _)| is_wanted(name));
        let files = LIBRARIES
            .iter()
            .filter(has_wanted)
            .filter_map(|library| library.files);
        let claims = files
            .filter(|files| has_both && (files.matter)(topology, &wish, has_list))
            .flat_map(|files| {
                files
                    .variables
                    .iter()
                    .filter_map(|name| Some((*name, files.sites(topology, read, name)?)))
            });
        let claimed_by_site: Vec<_> = claims.collect();
        let ucx_has_list = claimed_by_site
            .iter()
            .any(|(name, _)| *name == ucx::NET_DEVICES);
        Prepared {
            digest: Agreement::of(topology, node).digest(),
            ucx: ucx::shared(
                topology,
                node,
                is_wanted(ucx::NET_DEVICES),
                ucx_has_list,
                read,
            ),
            slingshot: libfabric::nearest(topology, &node.left_to_libfabric, NicKind::Slingshot),
            efa: libfabric::nearest(topology, &node.left_to_libfabric, NicKind::Efa),
            list,
            interface,
            claimed_by_site,
            rows,
            words: step.words.clone(),
            wish,
        }
    }

    pub(super) fn is_wanted(&self, name: &str) -> bool {
        is_wanted(&self.rows, name)
    }

    /// True if the variable is wanted and the admin's `set=` lacks it.
    pub(super) fn is_librarys(&self, name: &str) -> bool {
        self.is_wanted(name) && !self.wish.has_template(name)
    }

    pub(super) fn claimed_by_site(&self, name: &str) -> Option<Claimed> {
        self.claimed_by_site
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, claim)| claim.clone())
    }

    /// Findings on names in `env=` and `no-env=` that have no effect, and on two vLLM variables.
    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        let (unwanted, named) = (&self.wish.no_env, &self.wish.env_names);
        let is_set = |entry: &str| self.rows.iter().any(|row| means(entry, &row.name));
        let mut found = Vec::new();
        for (word, entries) in [("no-env", unwanted), ("env", named)] {
            let entries = entries.iter().map(String::as_str);
            let idle = order::set(entries.filter(|entry| *entry != marker::NAME && !is_set(entry)));
            let idle: Vec<&str> = idle.into_iter().collect();
            // one line, since a user can name hundreds
            let (first, rest) = idle.split_at(idle.len().min(3));
            let finding = match (first, rest.len()) {
                ([], _) => continue,
                ([_], _) => "nothing sets this variable: no effect".to_string(),
                (_, 0) => "nothing sets these variables: no effect".to_string(),
                (_, more) => format!("nothing sets these variables, nor {more} more: no effect"),
            };
            found.push(Diagnostic::new(
                format!("{word}={}", first.join("+")),
                finding,
            ));
        }
        if unwanted.iter().any(|entry| entry == marker::NAME) {
            let finding = "by this one nested steps know which values are ours: it stays";
            found.push(Diagnostic::new(format!("no-env={}", marker::NAME), finding));
        }
        // vllm/v1/executor/vllm_net_devices.py `set_worker_net_device`
        let pair = ["VLLM_GPU_NIC_PCIE_MAPPING", "VLLM_NIC_SELECTION_VARS"];
        if let [true, false] | [false, true] = pair.map(|name| self.is_wanted(name)) {
            let finding = "vLLM ends with an error where it has one of the two: set both";
            found.push(Diagnostic::new(format!("set={}", pair.join(", ")), finding));
        }
        found
    }

    pub(super) fn earlier(&self, present: &Present) -> Marker {
        let may_be_ours = |name: &str| {
            self.rows
                .iter()
                .any(|row| row.name == name && !matches!(row.source, Source::Never(_)))
        };
        present
            .get(marker::NAME)
            .map(|text| Marker::parse(text, may_be_ours))
            .unwrap_or_default()
    }
}

fn is_wanted(rows: &[Row], name: &str) -> bool {
    rows.iter().any(|row| row.wanted && row.name == name)
}

/// The variables in report order. An admin's template replaces the library's row.
fn rows(wish: &Wish, value_of_all: impl Fn(&Template) -> Result<String, String>) -> Vec<Row> {
    let mut rows = Vec::new();
    for library in LIBRARIES {
        for &(name, answering) in library
            .variables
            .iter()
            .filter(|(name, _)| !wish.has_template(name))
        {
            let first = library.variables[0].0;
            let companion_of = library
                .companion
                .filter(|companion| *companion == name)
                .map(|_| first);
            let wanted = wish.wants(name, library.word, companion_of);
            rows.push(Row {
                name: name.into(),
                wanted,
                source: Source::Library(answering),
            });
        }
    }
    for template in &wish.admin.templates {
        let name = template.name().to_string();
        let wanted = wish.wants(&name, "site", None);
        let of_all = (wanted && !template.is_per_task()).then(|| value_of_all(template));
        rows.push(Row {
            name: name.into(),
            wanted,
            source: Source::Template(template.clone(), of_all),
        });
    }
    for (name, answering) in LIBRARIES.iter().filter_map(|library| library.never) {
        if !wish.has_template(name) {
            rows.push(Row {
                name: name.into(),
                wanted: true,
                source: Source::Never(answering),
            });
        }
    }
    rows
}
