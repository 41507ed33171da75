//! Configuration files of libraries. If a file sets a variable, we leave it unset.

use super::{Evidence, FileText, Present, ReadFile};
use crate::topology::Topology;
use crate::wish::Wish;
use std::cell::RefCell;
use std::collections::BTreeMap;

pub struct Files {
    /// the site's paths, strongest first
    pub of_site: fn(&Topology) -> &'static [&'static str],
    pub of_user: fn(&Topology, &Evidence) -> Vec<String>,
    pub lines: for<'t> fn(&'t str, ReadFile) -> Vec<Line<'t>>,
    /// true if a name's last line counts, else the first
    pub last_counts: bool,
    /// true if the files overrule the environment
    pub beat_environment: bool,
    pub variables: &'static [&'static str],
    /// if a file sets one of these, we set none of `variables`
    pub rivals: &'static [&'static str],
    /// false if no file can change a value; the `bool`: the node may get a list of NICs
    pub matter: fn(&Topology, &Wish, bool) -> bool,
}

pub struct Line<'t> {
    pub name: &'t str,
    /// `None` if the line exceeds the library's buffer
    pub value: Option<&'t str>,
    /// true if the section is for this machine; `None` if unknown
    pub holds: Option<bool>,
}

/// A file that sets a variable, or may set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claimed {
    /// the reason not to set the variable
    pub why: String,
    /// the file's value, if this machine certainly uses it
    pub value: Option<String>,
    /// true if weaker files do not count
    decides: bool,
}

/// The first claim with `decides`, else the first; claims come strongest first.
pub fn strongest(claims: impl IntoIterator<Item = Option<Claimed>>) -> Option<Claimed> {
    let claims: Vec<Claimed> = claims.into_iter().flatten().collect();
    let decider = claims.iter().position(|claim| claim.decides);
    claims.into_iter().nth(decider.unwrap_or(0))
}

impl Files {
    pub(super) fn sites(&self, node: &Topology, read: ReadFile, name: &str) -> Option<Claimed> {
        strongest(
            (self.of_site)(node)
                .iter()
                .map(|file| self.claimed(read, file, name)),
        )
    }

    pub(super) fn users(&self, node: &Topology, task: &Evidence, name: &str) -> Option<Claimed> {
        let files = (self.of_user)(node, task);
        strongest(files.iter().map(|file| self.claimed(task.read, file, name)))
    }

    fn claimed(&self, read: ReadFile, file: &str, name: &str) -> Option<Claimed> {
        let found = if file.starts_with(UNKNOWN_HOME) {
            FileText {
                unanswered: Some("the task has no `HOME`, and `/etc/passwd` no such user"),
                ..FileText::default()
            }
        } else {
            read(file)?
        };
        let lines = (self.lines)(&found.text, read);
        let names = |name: &str| lines.iter().any(|line| line.name == name);
        let mut own = lines
            .iter()
            .filter(|line| line.name == name && line.holds != Some(false));
        let line = if self.last_counts {
            own.next_back()
        } else {
            own.next()
        };
        // users mean NAME by ` NAME=value`; the library may not
        let seems_to_set = |line: &str| {
            line.split_once('=')
                .is_some_and(|(seen, _)| seen.trim() == name)
        };
        let mut text = found.text.trim_start_matches(MARK).lines();
        let (mut value, mut decides) = (None, true);
        let why = if let Some(why) = found.unanswered {
            format!("may set it: {why}")
        } else if let Some(line) = line {
            // the unread rest of a cut file may set the name again
            let is_last = !(found.is_cut && self.last_counts);
            value = line.value.filter(|_| line.holds.is_some() && is_last);
            match line.holds {
                Some(_) => "sets it",
                None => "may set it, in a section for some machines",
            }
            .into()
        } else if found.is_cut {
            "is longer than what is read of it here, and may set it".into()
        } else {
            decides = false;
            if let Some(rival) = self.rivals.iter().find(|rival| names(rival)) {
                format!("sets `{rival}`")
            } else if !names(name) && text.any(seems_to_set) {
                "seems to set it, in a line that its library reads otherwise".into()
            } else {
                return None;
            }
        };
        Some(Claimed {
            why: format!("`{}` {why}", file.escape_debug()),
            value: value.map(str::to_string),
            decides,
        })
    }
}

/// The lines with a name. Libraries read a line of `buffer` bytes or more in pieces: no value.
pub fn pairs<'t>(
    text: &'t str,
    buffer: usize,
    pair: fn(&'t str) -> Option<(&'t str, &'t str)>,
) -> Vec<Line<'t>> {
    let line = |line: &'t str| {
        let (name, value) = pair(line)?;
        Some(Line {
            name,
            value: (line.len() < buffer).then_some(value),
            holds: Some(true),
        })
    };
    text.lines().filter_map(line).collect()
}

/// An unknown home.
pub const UNKNOWN_HOME: &str = "~";

/// The byte order mark of some editors; some libraries take it for a part of the first name.
pub const MARK: char = '\u{feff}';

/// The text before a comment character that follows white space.
pub fn before_comment(text: &str, comment: char) -> &str {
    let mut parts = text.match_indices(comment).map(|(at, _)| &text[..at]);
    parts
        .find(|part| part.ends_with(char::is_whitespace))
        .unwrap_or(text)
}

/// A reader that opens each configuration file once.
pub fn remembered<'r>(read: ReadFile<'r>) -> impl Fn(&str) -> Option<FileText> + 'r {
    let known: RefCell<BTreeMap<String, Option<FileText>>> = RefCell::default();
    move |path| {
        // the kernel's tables are long, and needed once
        if path.starts_with("/proc/") || path.starts_with("/sys/") {
            return read(path);
        }
        known
            .borrow_mut()
            .entry(path.into())
            .or_insert_with(|| read(path))
            .clone()
    }
}

pub fn non_empty<'p>(present: &'p Present, name: &str) -> Option<&'p String> {
    present.get(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::{nccl, nvshmem, ucx};
    use super::*;

    /// Each library's grammar, of files that set `LIST` and `OTHER`.
    fn grammars() -> [Files; 3] {
        [nccl::FILES, nvshmem::FILES, ucx::FILES].map(|files| Files {
            rivals: &["OTHER"],
            ..files
        })
    }

    const NCCL: usize = 0;
    const NVSHMEM: usize = 1;
    const INI: usize = 2;

    fn value(text: &str, grammar: usize) -> Option<Option<String>> {
        claimed(text, grammar, "").map(|claimed| claimed.value)
    }

    fn claimed(text: &str, grammar: usize, processor: &str) -> Option<Claimed> {
        let read = |path: &str| {
            let text = if path == "/etc/a.conf" {
                text
            } else {
                processor
            };
            Some(FileText {
                text: text.to_string(),
                is_cut: text.ends_with('…'),
                unanswered: None,
            })
        };
        grammars()[grammar].claimed(&read, "/etc/a.conf", "LIST")
    }

    fn some(text: &str) -> Option<Option<String>> {
        Some(Some(text.to_string()))
    }

    #[test]
    fn a_file_gives_its_value_unless_that_may_be_for_another_machine() {
        assert_eq!(value("LIST: mlx5_0:1 ; comment", INI), some("mlx5_0:1"));
        assert_eq!(
            value("[Grace]\nCPU model=Grace\nLIST=mlx5_0:1", INI),
            Some(None)
        );
        assert_eq!(
            value(
                "LIST=mlx5_0:1\n[Grace]\nCPU model=Grace\nLIST=mlx5_1:1",
                INI
            ),
            Some(None)
        );
        assert_eq!(
            value("[ours]\nLIST=mlx5_0:1", INI),
            some("mlx5_0:1"),
            "a section without a condition"
        );
        assert_eq!(value("OTHER=1", NVSHMEM), Some(None));
        assert_eq!(value("LISTS=1", NCCL), None);
    }

    #[test]
    fn a_section_for_another_processor_sets_nothing_and_one_for_this_maker_may() {
        let vera = "[Vera Rubin]\nCPU model=Vera\nLIST=4\n[end]\nOTHER=1\nLIST_B=1\n";
        let told = |text: &str, processor: &str| {
            let claimed = claimed(&text.replace("OTHER=1\n", ""), INI, processor)?;
            Some(if claimed.why == "`/etc/a.conf` sets it" {
                claimed.value
            } else {
                None
            })
        };
        let (intel, amd) = (
            "vendor_id\t: GenuineIntel\nmodel\t: 143\n",
            "vendor_id\t: AuthenticAMD\n",
        );
        for (processor, is_told) in [
            (intel, false),
            (amd, false),
            ("CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n", false),
            ("CPU implementer\t: 0x4e\nCPU part\t: 0x010\n", true),
            ("cpu\t\t: POWER9\n", true),
            ("", true),
        ] {
            assert_eq!(
                told(vera, processor),
                is_told.then_some(None),
                "{processor:?}"
            );
        }
        for (line, on_amd) in [
            ("CPU vendor=amd", Some(None)),
            ("CPU vendor = Intel", None),
            ("CPU model: Milan", Some(None)),
            ("CPU model=M*", Some(None)),
            ("CPU model=Arcturus", Some(None)),
            ("Product name=*", Some(None)),
        ] {
            assert_eq!(told(&format!("[a]\n{line}\nLIST=4"), amd), on_amd, "{line}");
        }
        let may = claimed(vera, INI, "")
            .map(|claimed| claimed.why)
            .unwrap_or_default();
        assert_eq!(
            may,
            "`/etc/a.conf` may set it, in a section for some machines"
        );
        let order = "[a]\nLIST=1\nCPU model=Vera\nLIST=2\n[a]\nLIST=3\n";
        assert_eq!(
            told(order, intel),
            Some(some("1").unwrap()),
            "a section ends with that line"
        );
        assert_eq!(
            told("[a]\nCPU model=Vera\n[b]\nLIST=5\n", intel),
            Some(some("5").unwrap())
        );
    }

    #[test]
    fn a_file_of_which_nothing_is_known_may_set_the_variable_whatever_weaker_files_say() {
        let read = |file: &str| match file {
            "/home/a" => Some(FileText {
                unanswered: Some("no answer"),
                ..FileText::default()
            }),
            _ => Some(FileText {
                text: "LIST=mlx5_0".to_string(),
                ..FileText::default()
            }),
        };
        let claims =
            ["/home/a", "/etc/a"].map(|file| grammars()[NCCL].claimed(&read, file, "LIST"));
        let strongest = strongest(claims).unwrap();
        assert_eq!(
            (strongest.why.as_str(), strongest.value),
            ("`/home/a` may set it: no answer", None)
        );
    }

    #[test]
    fn of_several_lines_nccl_takes_the_first_and_the_others_take_the_last() {
        for (grammar, text) in [(NCCL, "a"), (NVSHMEM, "b"), (INI, "b")] {
            assert_eq!(
                value("LIST=a\nLIST=b\n", grammar),
                some(text),
                "{grammar:?}"
            );
        }
        assert_eq!(value("LIST=a\n…", NCCL), some("a"));
        assert_eq!(
            value("LIST=a\n…", INI),
            Some(None),
            "it may be set once more"
        );
    }

    #[test]
    fn a_comment_behind_a_value_is_each_librarys_own() {
        assert_eq!(
            value("LIST==mlx5_0 # the first", NCCL),
            some("=mlx5_0 # the first")
        );
        assert_eq!(
            value("LIST = mlx5_0#1 # the first", NVSHMEM),
            some("mlx5_0#1")
        );
        assert_eq!(value("LIST = mlx5_0;1 ; the first", INI), some("mlx5_0;1"));
        for grammar in [NCCL, NVSHMEM, INI] {
            assert_eq!(value("#LIST=no\n", grammar), None, "{grammar:?}");
        }
    }

    #[test]
    fn an_indented_line_without_a_value_gives_the_name_above_it_none() {
        for nothing in ["  ", "\t", "  # the first", "  ;mlx5_1"] {
            assert_eq!(
                value(&format!("LIST=mlx5_0\n{nothing}\n"), INI),
                some("mlx5_0"),
                "{nothing:?}"
            );
        }
        assert_eq!(
            value("LIST=mlx5_0\n#OTHER=1\n mlx5_1", INI),
            some("mlx5_1"),
            "a comment is no name"
        );
    }

    #[test]
    fn a_line_that_means_another_name_to_its_library_tells_no_value_but_stays_the_users_word() {
        assert_eq!(value(" LIST=mlx5_0", NCCL), Some(None));
        assert_eq!(value(" LIST=mlx5_0", NVSHMEM), some("mlx5_0"));
        assert_eq!(
            value(" LIST=mlx5_0", INI),
            some("mlx5_0"),
            "there is no name above it"
        );
        assert_eq!(
            value("TLS=rc\n LIST=mlx5_0", INI),
            Some(None),
            "the rest of `TLS`"
        );
        assert_eq!(
            value("LIST=mlx5_0\n mlx5_1", INI),
            some("mlx5_1"),
            "its next value"
        );
        assert_eq!(value("\u{feff}LIST=mlx5_0", NCCL), Some(None));
        assert_eq!(
            value(&format!("LIST={}", "mlx5_0,".repeat(40)), INI),
            Some(None),
            "it is read in pieces"
        );
    }
}
