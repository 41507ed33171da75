//! Configuration files of libraries. We set no variable that such a file sets.

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
    /// true if a name's last line counts, false if the first
    pub last_counts: bool,
    /// true if the files overrule the environment
    pub beat_environment: bool,
    pub variables: &'static [&'static str],
    /// if a file sets one of these, we set none of `variables`
    pub rivals: &'static [&'static str],
    /// false if no file can change what we set; the `bool` is true if the node may get a list of
    /// NICs
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

/// The first claim with `decides`, else the first. `claims` are ordered, strongest first.
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
        // by ` NAME=value` users mean NAME, but the library may read another name
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

/// The lines in which `pair` finds a name. A line of `buffer` bytes or more has no value: libraries
/// read it in pieces.
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

pub const UNKNOWN_HOME: &str = "~";

/// Some editors' byte order mark; some libraries read it as a part of the first name.
pub const MARK: char = '\u{feff}';

/// The text before a comment character that follows white space, else all of it.
pub fn before_comment(text: &str, comment: char) -> &str {
    let mut parts = text.match_indices(comment).map(|(at, _)| &text[..at]);
    parts
        .find(|part| part.ends_with(char::is_whitespace))
        .unwrap_or(text)
}

/// Opens each configuration file once.
pub fn remembered<'r>(read: ReadFile<'r>) -> impl Fn(&str) -> Option<FileText> + 'r {
    let known: RefCell<BTreeMap<String, Option<FileText>>> = RefCell::default();
    move |path| {
        // not remembered: the kernel's tables are long
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
    use super::super::{nccl, nvshmem, tests::file_text, ucx};
    use super::*;

    /// The file with the value of `LIST`, in the grammar of files that set `LIST` and `OTHER`.
    fn claimed(text: &str, grammar: Files, processor: &str) -> Option<Claimed> {
        let rivals = &["OTHER"];
        let read = |path: &str| {
            let is_it = path == "/etc/a.conf";
            Some(file_text(if is_it { text } else { processor }))
        };
        Files { rivals, ..grammar }.claimed(&read, "/etc/a.conf", "LIST")
    }

    /// The value of `LIST`; `no` where the file does not set it, `unknown` where it may.
    fn value(text: &str, grammar: Files, processor: &str) -> String {
        match claimed(text, grammar, processor) {
            None => "no".to_string(),
            Some(Claimed { value, .. }) => value.unwrap_or("unknown".to_string()),
        }
    }

    const NCCL: Files = nccl::FILES;
    const NVSHMEM: Files = nvshmem::FILES;
    const INI: Files = ucx::FILES;

    #[test]
    fn a_file_gives_its_value_as_its_library_reads_it() {
        let long = format!("LIST={}", "mlx5_0,".repeat(40));
        for (text, nccl, nvshmem, ini) in [
            ("LISTS=1", "no", "no", "no"),
            ("#LIST=no\n", "no", "no", "no"),
            ("OTHER=1", "unknown", "unknown", "unknown"),
            // of several lines NCCL takes the first, the others take the last
            ("LIST=a\nLIST=b\n", "a", "b", "b"),
            ("LIST=a\n…", "a", "unknown", "unknown"),
            // a comment behind a value
            ("LIST==b # c", "=b # c", "=b", "=b # c"),
            ("LIST = b#1 # c", "unknown", "b#1", "b#1 # c"),
            ("LIST = b;1 ; c", "unknown", "b;1 ; c", "b;1"),
            // an indented line is another name to NCCL, and the rest of a value above it to UCX
            (" LIST=b", "unknown", "b", "b"),
            ("TLS=rc\n LIST=b", "unknown", "b", "unknown"),
            ("LIST=a\n b", "a", "a", "b"),
            ("LIST=a\n#OTHER=1\n b", "a", "a", "b"),
            ("LIST=a\n  \n\t\n  # b\n  ;b\n", "a", "a", "a"),
            ("\u{feff}LIST=b", "unknown", "unknown", "b"),
            // UCX reads it in pieces
            (&long, &long[5..], &long[5..], "unknown"),
        ] {
            let found = [NCCL, NVSHMEM, INI].map(|grammar| value(text, grammar, ""));
            assert_eq!(found, [nccl, nvshmem, ini], "{text}");
        }
    }

    #[test]
    fn a_section_for_another_processor_sets_nothing_and_one_for_this_maker_may() {
        const VERA: &str = "[Vera Rubin]\nCPU model=Vera\nLIST=4\n[end]\nLIST_B=1\n";
        const INTEL: &str = "vendor_id\t: GenuineIntel\nmodel\t: 143\n";
        const OLYMPUS: &str = "CPU implementer\t: 0x4e\nCPU part\t: 0x010\n";
        const TWICE: &str = "[a]\nLIST=1\nCPU model=Vera\nLIST=2\n[a]\nLIST=3\n";
        const AMD: &str = "vendor_id\t: AuthenticAMD\n";
        for (text, processor, expected) in [
            (VERA, INTEL, "no"),
            (VERA, AMD, "no"),
            (VERA, "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n", "no"),
            (VERA, OLYMPUS, "unknown"),
            (VERA, "cpu\t\t: POWER9\n", "unknown"),
            (VERA, "", "unknown"),
            ("[a]\nCPU vendor=amd\nLIST=4", AMD, "unknown"),
            ("[a]\nCPU vendor = Intel\nLIST=4", AMD, "no"),
            ("[a]\nCPU model: Milan\nLIST=4", AMD, "unknown"),
            ("[a]\nCPU model=M*\nLIST=4", AMD, "unknown"),
            ("[a]\nCPU model=Arcturus\nLIST=4", AMD, "unknown"),
            ("[a]\nProduct name=*\nLIST=4", AMD, "unknown"),
            ("LIST=1\n[Grace]\nCPU model=Grace\nLIST=2", "", "unknown"),
            ("[ours]\nLIST: 1 ; comment", "", "1"),
            // a section ends with the line that has its condition
            (TWICE, INTEL, "1"),
            ("[a]\nCPU model=Vera\n[b]\nLIST=5\n", INTEL, "5"),
        ] {
            assert_eq!(value(text, INI, processor), expected, "{text} {processor}");
        }
        let may = claimed(VERA, INI, "").unwrap().why;
        assert!(may.starts_with("`/etc/a.conf` may set it, in a section"));
    }

    #[test]
    fn a_file_of_which_nothing_is_known_may_set_the_variable_whatever_weaker_files_say() {
        let read = |file: &str| {
            let unanswered = (file == "/home/a").then_some("no answer");
            let text = file_text("LIST=mlx5_0");
            Some(FileText { unanswered, ..text })
        };
        let claims = ["/home/a", "/etc/a"].map(|file| NCCL.claimed(&read, file, "LIST"));
        let strongest = strongest(claims).unwrap();
        assert_eq!(strongest.why, "`/home/a` may set it: no answer");
        assert_eq!(strongest.value, None);
    }
}
