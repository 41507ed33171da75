//! Bounded reads below a root: `/`, a captured tree, or a manifest.

mod contained;
mod open;
#[cfg(test)]
mod tests;

pub use open::{
    Author, Beginning, FileKind, Obstacle, UNLINKED, Unreadable, directory_descriptor, file_kind,
    identity, is_there, kind, open_long, read_configuration, read_file, read_unlinked,
};

use super::manifest::{Entry, Manifest, normalise};
use contained::Contained;
use nic_placement_topology::diagnostic::Diagnostic;
use nic_placement_topology::order::Order;
use std::cell::RefCell;
use std::fs::{self, DirEntry};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A node's `/sys` and `/proc`, with relative paths such as `sys/class/infiniband`.
///
/// Only regular files are read, up to a limit, so no pipe blocks the process and no file fills
/// memory. `read`, `lines` and `list` note a limit that is exceeded.
pub struct Root {
    source: Backing,
    recording: Option<RefCell<Manifest>>,
    notes: RefCell<Vec<Diagnostic>>,
}

enum Backing {
    Live,
    Directory(Contained),
    Manifest(Manifest),
}

impl Root {
    /// Most bytes of a file. The longest known is a `cpulist` that omits every third of 8192 CPUs:
    /// 26 KiB.
    pub const MAX_FILE: usize = 64 * 1024;
    /// Most bytes of a table read by lines: 32,768 routes of `/proc/net/route` (128 bytes each), or
    /// 27,962 of `/proc/net/ipv6_route` (150). A node with a route for each node and pod of a large
    /// cluster has some 10,000.
    pub const MAX_TABLE: usize = 4 * 1024 * 1024;
    /// Most names of a directory; the largest is `/sys/devices/system/cpu`.
    pub const MAX_ENTRIES: usize = 16 * 1024;

    pub fn live() -> Root {
        Root::of(Backing::Live)
    }

    /// A captured tree; links that leave it are not followed.
    pub fn directory(path: &Path, author: Author) -> Result<Root, Unreadable> {
        let check =
            |path: &Path| open::check_directory(path, author).map_err(|problem| problem.of(path));
        check(path)?;
        let tree = Contained::new(path).map_err(|error| Obstacle::System(error).of(path))?;
        check(&tree.base)?;
        Ok(Root::of(Backing::Directory(tree)))
    }

    pub fn manifest(manifest: Manifest) -> Root {
        Root::of(Backing::Manifest(manifest))
    }

    fn of(source: Backing) -> Root {
        Root {
            source,
            recording: None,
            notes: RefCell::default(),
        }
    }

    pub fn record(&mut self) {
        self.recording = Some(RefCell::default());
    }

    pub fn recorded(self) -> Manifest {
        self.recording.map(RefCell::into_inner).unwrap_or_default()
    }

    pub fn is_live(&self) -> bool {
        matches!(self.source, Backing::Live)
    }

    /// Removes and returns the notes on files that were cut or not read.
    pub fn notes(&self) -> Vec<Diagnostic> {
        self.notes.take()
    }

    fn note(&self, path: &str, finding: String) {
        /// Most notes; a broken tree yields one for each file.
        const MAX_NOTES: usize = 32;
        let mut notes = self.notes.borrow_mut();
        if notes.len() < MAX_NOTES {
            notes.push(Diagnostic::new(format!("/{path}"), finding));
        }
    }

    fn record_entry(&self, path: &str, entry: impl FnOnce() -> Entry) {
        if let Some(recording) = &self.recording {
            recording.borrow_mut().insert(path, entry());
        }
    }

    /// A directory's path on disk; `None` in a manifest, and outside a captured tree.
    fn place(&self, path: &str) -> Option<PathBuf> {
        match &self.source {
            Backing::Live => Some(Path::new("/").join(path)),
            Backing::Directory(tree) => tree.directory(path),
            Backing::Manifest(_) => None,
        }
    }

    fn open(&self, path: &str) -> Option<Box<dyn Read + '_>> {
        let opened = match &self.source {
            Backing::Live => open::open_kernel_file(Path::new(&format!("/{path}"))),
            Backing::Directory(tree) => open::open_resolved(&tree.resolve(path)?),
            Backing::Manifest(manifest) => return Some(Box::new(text(manifest, path)?.as_bytes())),
        };
        Some(Box::new(self.or_note(path, opened)?))
    }

    /// Notes why a file is not read. A failed system call (a missing file, a driver's error) leaves
    /// no note.
    fn or_note<T>(&self, path: &str, read: Result<T, Obstacle>) -> Option<T> {
        match read {
            Ok(read) => return Some(read),
            Err(Obstacle::System(_)) => {}
            Err(problem) => self.note(path, format!("it {problem}: not read")),
        }
        None
    }

    /// A file's text without white space at its end; `None` if it cannot be read, exceeds
    /// [`Root::MAX_FILE`], or is not UTF-8.
    pub fn read(&self, path: &str) -> Option<String> {
        let text = match &self.source {
            Backing::Manifest(manifest) => text(manifest, path)?.to_string(),
            Backing::Live | Backing::Directory(_) => {
                let is_attribute = self.is_live() && path.starts_with("sys/");
                let bytes = self.or_note(path, read_all(self.open(path)?, is_attribute))?;
                std::str::from_utf8(&bytes).ok()?.trim_end().to_string()
            }
        };
        self.record_entry(path, || Entry::File(text.clone()));
        Some(text)
    }

    /// A file's first `most` bytes, maybe binary. Recordings, which people read, omit them.
    pub fn beginning(&self, path: &str, most: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = self.open(path)?.take(most as u64);
        file.read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    pub fn owner(&self, path: &str) -> Option<u32> {
        Some(fs::symlink_metadata(self.place(path)?).ok()?.uid())
    }

    /// Calls `take` with each line of a file, less white space at the line's end. Memory does not
    /// grow with the file; lines beyond [`Root::MAX_TABLE`] bytes are not read.
    pub fn lines(&self, path: &str, mut take: impl FnMut(&str)) {
        let Some(opened) = self.open(path) else {
            return;
        };
        let mut recorded = self.recording.as_ref().map(|_| String::new());
        let mut reader = BufReader::with_capacity(Root::MAX_FILE, opened);
        let mut left = Root::MAX_TABLE;
        let mut line = Vec::new();
        loop {
            line.clear();
            // one byte more shows that a line does not fit
            let mut rest = reader.by_ref().take(left as u64 + 1);
            match rest.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(count) if count > left => {
                    let most = Root::MAX_TABLE;
                    self.note(
                        path,
                        format!("longer than {most} bytes: not read to its end"),
                    );
                    break;
                }
                Ok(count) => left -= count,
                Err(error) => {
                    self.note(path, format!("not read to its end: {error}"));
                    break;
                }
            }
            let text = String::from_utf8_lossy(&line);
            take(text.trim_end());
            if let Some(recorded) = &mut recorded {
                recorded.push_str(text.trim_end());
                recorded.push('\n');
            }
        }
        if let Some(recorded) = recorded {
            self.record_entry(path, || Entry::File(recorded.trim_end().to_string()));
        }
    }

    /// A symbolic link's target as a path below the root; `None` if that path has another link.
    pub fn follow(&self, path: &str) -> Option<String> {
        let on_disk = |link: PathBuf| {
            fs::read_link(link)
                .ok()?
                .into_os_string()
                .into_string()
                .ok()
        };
        let target = match &self.source {
            Backing::Live => on_disk(Path::new("/").join(path))?,
            Backing::Directory(tree) => {
                let (directory, name) = path.rsplit_once('/')?;
                on_disk(tree.directory(directory)?.join(name))?
            }
            Backing::Manifest(manifest) => match manifest.get(path)? {
                Entry::Link(target) => target.clone(),
                Entry::File(_) | Entry::Directory => return None,
            },
        };
        let resolved = normalise(path, &target)?;
        // a sysfs link's target has no other link in its path; a manifest has no entries below a
        // link
        let is_over_another = match &self.source {
            Backing::Live => false,
            Backing::Directory(tree) => tree.is_over_link(&resolved),
            Backing::Manifest(manifest) => manifest.is_over_link(&resolved),
        };
        if is_over_another {
            return None;
        }
        self.record_entry(path, || Entry::Link(target));
        Some(resolved)
    }

    /// A directory's names that `keep` accepts, with inodes, sorted by inode. A sysfs entry that is
    /// removed and added again has a new inode. All inodes of a manifest are 0.
    pub fn numbered(&self, path: &str, keep: impl Fn(&str) -> bool) -> Vec<(String, u64)> {
        if let Backing::Manifest(_) = &self.source {
            let names = self.list(path, keep).into_iter();
            return names.map(|name| (name, 0)).collect();
        }
        let numbered = |name: String, entry: &DirEntry| keep(&name).then(|| (name, entry.ino()));
        let (mut numbered, _) = self.entries(path, numbered);
        numbered.order_by_key(|(_, inode)| *inode);
        numbered
    }

    /// A directory's names that are numbers, in any order.
    pub fn numbers(&self, path: &str) -> Vec<u32> {
        let number = |name: &str| name.parse().ok();
        match (&self.source, self.place(path).map(fs::read_dir)) {
            (Backing::Manifest(manifest), _) => {
                let names = manifest.list(path);
                names.iter().filter_map(|name| number(name)).collect()
            }
            (_, Some(Ok(entries))) => entries
                .filter_map(|entry| number(entry.ok()?.file_name().to_str()?))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// A directory's names that `keep` accepts, sorted.
    pub fn list(&self, path: &str, keep: impl Fn(&str) -> bool) -> Vec<String> {
        let (mut names, is_cut) = match &self.source {
            Backing::Manifest(manifest) => (manifest.list(path), false),
            Backing::Live | Backing::Directory(_) => self.entries(path, |name, _| Some(name)),
        };
        if is_cut {
            let most = Root::MAX_ENTRIES;
            self.note(
                path,
                format!("more than {most} entries: the others are not seen"),
            );
        }
        names.retain(|name| keep(name));
        names.order();
        for name in &names {
            self.record_entry(&format!("{path}/{name}"), || Entry::Directory);
        }
        names
    }

    /// Results of `take` for at most [`Root::MAX_ENTRIES`] entries; true if there are more.
    fn entries<T>(
        &self,
        path: &str,
        take: impl Fn(String, &DirEntry) -> Option<T>,
    ) -> (Vec<T>, bool) {
        let Some(Ok(mut entries)) = self.place(path).map(fs::read_dir) else {
            return (Vec::new(), false);
        };
        let found = entries
            .by_ref()
            .take(Root::MAX_ENTRIES)
            .filter_map(|entry| {
                let entry = entry.ok()?;
                take(entry.file_name().into_string().ok()?, &entry)
            });
        (found.collect(), entries.next().is_some())
    }
}

fn text<'m>(manifest: &'m Manifest, path: &str) -> Option<&'m str> {
    match manifest.get(path)? {
        Entry::File(text) => Some(text),
        Entry::Link(_) | Entry::Directory => None,
    }
}

fn read_all(mut file: impl Read, is_attribute: bool) -> Result<Vec<u8>, Obstacle> {
    let mut page = [0u8; 4096];
    let count = loop {
        match file.read(&mut page) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            answer => break answer?,
        }
    };
    let mut bytes = page[..count].to_vec();
    // one read returns a whole sysfs attribute, at most a page; for a procfs file, only the lines
    // that fit into a page
    if !is_attribute || count == page.len() {
        file.take((Root::MAX_FILE + 1 - count) as u64)
            .read_to_end(&mut bytes)?;
    }
    open::within(Root::MAX_FILE, bytes)
}
