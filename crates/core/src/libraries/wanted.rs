//! The words of `env=`, and the variables that user and admin want in a step.

use super::LIBRARIES;
pub use super::names::is_name as is_variable_name;
use super::names::means;
pub use crate::wish::{Fabric, Libraries, MapFile, Template};
use crate::wish::{Strictness, Wish};

/// The words of `env=`, in bit order: default libraries, `site` (`set=`), others, `word_for_more`.
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
    pub const NONE: Libraries = Libraries(0);

    /// The libraries of a word of `env=`; `None` for an unknown word.
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

    pub fn words() -> String {
        ["default", "none"]
            .into_iter()
            .chain(words())
            .collect::<Vec<_>>()
            .join(", ")
    }

    #[must_use]
    pub(crate) fn with(self, others: Libraries) -> Libraries {
        Libraries(self.0 | others.0)
    }

    pub fn has(self, others: Libraries) -> bool {
        self.0 & others.0 == others.0
    }
}

impl Default for Libraries {
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

impl Wish {
    /// True if `word` is empty, or if `env=` has `word`, `name` or `companion_of`; always false if
    /// `no-env=` matches `name`.
    pub(crate) fn wants(&self, name: &str, word: &str, companion_of: Option<&str>) -> bool {
        let is_named = |named: &String| named == name || Some(named.as_str()) == companion_of;
        let is_asked_for =
            word.is_empty() || self.has_word(word) || self.env_names.iter().any(is_named);
        is_asked_for && !self.no_env.iter().any(|unwanted| means(unwanted, name))
    }

    pub(crate) fn has_template(&self, name: &str) -> bool {
        self.admin
            .templates
            .iter()
            .any(|template| template.name() == name)
    }

    pub(super) fn has_word(&self, word: &str) -> bool {
        bit(word).is_some_and(|word| self.libraries.has(word))
    }

    /// True if a report, `restricted` or `single-numa-node` needs the NIC lists in files.
    pub(super) fn judges_files(&self) -> bool {
        self.reports() || self.strictness >= Strictness::Restricted
    }
}
