//! The variables that user and admin want in a step, and the fabric that they state.
#![forbid(unsafe_code)]

use super::LIBRARIES;
pub use super::names::is_name as is_variable_name;
use super::names::means;
pub use super::template::{MapFile, Template};

/// A set of words of `env=`: a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Libraries(u32);

/// The words that ask for variables: a library's own, the admin's `set=`, and those for more of a library.
fn words() -> impl Iterator<Item = &'static str> {
    let own = |by_default: bool| {
        let libraries = LIBRARIES
            .iter()
            .filter(move |library| library.by_default == by_default);
        libraries.map(|library| library.word)
    };
    let more = LIBRARIES.iter().map(|library| library.word_for_more);
    own(true)
        .chain(["site"])
        .chain(own(false))
        .chain(more)
        .filter(|word| !word.is_empty())
}

fn bit(word: &str) -> Option<Libraries> {
    words()
        .position(|known| known == word)
        .map(|place| Libraries(1 << place))
}

impl Libraries {
    /// no word
    pub const NONE: Libraries = Libraries(0);

    /// What a word of `env=` asks for.
    pub fn named(word: &str) -> Option<Libraries> {
        let with_more = LIBRARIES
            .iter()
            .find(|library| library.word_for_more == word);
        match word {
            "none" => Some(Libraries::NONE),
            "default" => Some(Libraries::default()),
            word => Some(
                bit(word)?.with(
                    with_more
                        .and_then(|library| bit(library.word))
                        .unwrap_or(Libraries::NONE),
                ),
            ),
        }
    }

    /// The words of `env=`, as messages list them.
    pub fn words() -> String {
        ["default", "none"]
            .into_iter()
            .chain(words())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The union.
    #[must_use]
    pub(crate) fn with(self, others: Libraries) -> Libraries {
        Libraries(self.0 | others.0)
    }

    /// Are all of `others` among these?
    pub fn has(self, others: Libraries) -> bool {
        self.0 & others.0 == others.0
    }
}

impl Default for Libraries {
    /// The set without `env=`.
    fn default() -> Libraries {
        let by_default = LIBRARIES
            .iter()
            .filter(|library| library.by_default)
            .map(|library| library.word);
        by_default
            .chain(["site"])
            .filter_map(bit)
            .fold(Libraries::NONE, Libraries::with)
    }
}

/// Which NICs can reach which (the admin's `fabric=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fabric {
    /// the admin does not say: the subnets tell what libraries take for reachable
    #[default]
    Unsaid,
    /// every NIC reaches every NIC
    Routed,
    /// a NIC reaches the NICs of its own rail alone
    IsolatedRails,
}

/// Everything wanted in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// what `env=` asks for
    pub libraries: Libraries,
    /// other variables that may be set (`env=NAME`)
    pub named: Vec<String>,
    /// variables that are not to be set (`no-env=`), names and beginnings with a star
    pub unwanted: Vec<String>,
    /// what the fabric connects
    pub fabric: Fabric,
    /// the admin's own variables
    pub templates: Vec<Template>,
    /// does a report or a strict word judge what libraries will use, so that files are always read?
    pub judges_files: bool,
    /// the files that the templates may name
    pub map_files: Vec<MapFile>,
    /// the address of the step's srun, to which the routes lead
    pub srun: Option<String>,
    /// words of the program's command that matter
    pub words: Vec<&'static str>,
}

impl Wanted {
    /// True if the variable is asked for by `word`, by name or as a companion, and neither unwanted nor held back.
    pub(crate) fn has(&self, name: &str, word: &str, companion_of: Option<&str>) -> bool {
        let is_named = |named: &String| named == name || Some(named.as_str()) == companion_of;
        let is_asked_for =
            word.is_empty() || self.has_word(word) || self.named.iter().any(is_named);
        is_asked_for && !self.unwanted.iter().any(|unwanted| means(unwanted, name))
    }

    /// Has the admin a `set=` for this variable?
    pub(super) fn has_template(&self, name: &str) -> bool {
        self.templates
            .iter()
            .any(|template| template.name() == name)
    }

    /// Does `env=` have this word?
    pub(super) fn has_word(&self, word: &str) -> bool {
        bit(word).is_some_and(|word| self.libraries.has(word))
    }
}
