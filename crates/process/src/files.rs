//! Reads libraries' configuration files: a user's with a time limit, a site's without.

mod mounts;
mod walk;

use nic_placement_core::libraries::FileText;
use nic_placement_node::discover::root::{self, Beginning, FileKind, Root, read_configuration};
use nic_placement_sys::{Known, Question, Reply, Scout, known};
use std::cell::{Cell, RefCell};
use std::path::Path;
use walk::{End, FileSystems, walk};

/// The kernel's network tables, long on a node with many routes.
const TABLES: &str = "/proc/net/";
const INTERFACES: &str = "/sys/class/net/";

/// The beginning of a site's or the kernel's file, read with this process's rights.
pub fn read(path: &str) -> Option<FileText> {
    let limit = if path.starts_with(TABLES) {
        Root::MAX_TABLE
    } else {
        Root::MAX_FILE
    };
    let Beginning { text, is_cut } = read_configuration(Path::new(path), limit)?;
    Some(FileText {
        text,
        is_cut,
        unanswered: None,
    })
}

/// True for the kernel's files about interfaces.
pub fn is_kernels(path: &str) -> bool {
    [TABLES, INTERFACES].iter().any(|top| path.starts_with(top))
}

/// True if a read cannot hang: `path` is in the kernel's /proc/net or /sys, or in /etc, without
/// which no program starts. `..` or links elsewhere in /proc can lead to any file system.
fn answers(path: &str) -> bool {
    [TABLES, "/sys/", "/etc/"]
        .iter()
        .any(|top| path.starts_with(top))
        && path.split('/').all(|name| name != "..")
}

/// Milliseconds that a task waits for all remote file systems together. A server on the same fabric
/// needs 1, a mount by automount(8) some 100.
const PATIENCE: u16 = 1000;

const NO_ANSWER: &str = "its file system did not answer within a second";
const NOT_ASKED: &str = "no process could be started that would look for it";

/// Files that a user names or has at home. [`FileText::unanswered`] is set for a file on FUSE, and
/// for a remote file if `PATIENCE` is over or no `Scout` started.
#[derive(Default)]
pub struct UsersFiles {
    scout: RefCell<LazyScout>,
    /// true once `unanswered` has logged
    told: Cell<bool>,
}

impl UsersFiles {
    /// As the function [`read`], with a time limit.
    pub fn read(&self, path: &str) -> Option<FileText> {
        if answers(path) {
            return read(path);
        }
        // nearly every task lacks the file; the kernel's cache shows that without a wait
        if known(path) == Known::Absent {
            return None;
        }
        let absolute = match path.starts_with('/') {
            true => path.to_string(),
            false => format!("/{}/{path}", Root::live().follow("proc/self/cwd")?),
        };
        let scout = &mut *self.scout.borrow_mut();
        match walk(&absolute, scout) {
            End::Nothing => None,
            End::Local(file) => read(&file),
            End::Remote(file) => match scout.beginning(&file) {
                Ok(text) => text,
                Err(why) => Some(self.unanswered(path, why)),
            },
            End::Unanswered(why) => Some(self.unanswered(path, why)),
        }
    }

    /// A file of unknown text, with the reason `why`. A task logs only its first such file.
    fn unanswered(&self, path: &str, why: &'static str) -> FileText {
        if !self.told.replace(true) {
            log::info!("`{path}` is taken for a file that sets what would be set: {why}");
        }
        FileText {
            unanswered: Some(why),
            ..FileText::default()
        }
    }
}

/// The helper process, started at the first question, or the reason why it does not answer.
#[derive(Default)]
struct LazyScout(Option<Result<Scout, &'static str>>);

impl LazyScout {
    fn ask(&mut self, question: Question, path: &str) -> Result<Reply, &'static str> {
        let send = || Scout::send(Root::MAX_FILE + 1, PATIENCE).map_err(|_| NOT_ASKED);
        let scout = self.0.get_or_insert_with(send);
        let answer = scout.as_mut().map_err(|why| *why)?.ask(question, path);
        if answer.is_none() {
            *scout = Err(NO_ANSWER);
        }
        answer.ok_or(NO_ANSWER)
    }

    fn beginning(&mut self, path: &str) -> Result<Option<FileText>, &'static str> {
        let Reply {
            error, mut bytes, ..
        } = self.ask(Question::Beginning, path)?;
        let is_cut = bytes.len() > Root::MAX_FILE;
        bytes.truncate(Root::MAX_FILE);
        Ok((error == 0).then(|| FileText {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            is_cut,
            unanswered: None,
        }))
    }
}

impl FileSystems for LazyScout {
    fn mounts(&mut self) -> String {
        let table = read_configuration(Path::new("/proc/self/mountinfo"), Root::MAX_TABLE);
        // a cut table could lack a mount
        table
            .filter(|table| !table.is_cut)
            .map(|table| table.text)
            .unwrap_or_default()
    }

    fn local(&mut self, path: &str) -> FileKind {
        root::file_kind(Path::new(path))
    }

    fn remote(&mut self, path: &str) -> Result<FileKind, &'static str> {
        let answer = self.ask(Question::Kind, path)?;
        Ok(match answer {
            _ if answer.is_directory() => FileKind::Directory,
            _ if answer.is_file() => FileKind::File,
            // `bytes`: a symbolic link's target
            Reply { bytes, .. } if !bytes.is_empty() => {
                String::from_utf8(bytes).map_or(FileKind::Nothing, FileKind::Link)
            }
            _ => FileKind::Nothing,
        })
    }

    fn enter(&mut self, path: &str) -> Result<FileKind, &'static str> {
        let answer = self.ask(Question::Enter, path)?;
        Ok(if answer.error == 0 {
            FileKind::Directory
        } else {
            FileKind::Nothing
        })
    }
}
