//! The one place that reads the node: bounded reads below a root, which is `/`, a captured tree, or a manifest.
#![forbid(unsafe_code)]

mod contained;
mod open;
#[cfg(test)]
mod tests;

pub use open::{
    Author, Beginning, Obstacle, Standing, Unreadable, directory_descriptor, identity, is_there,
    kind, open_long, open_to_lock, read_configuration, read_file, read_unlinked, standing,
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

/// A node's `/sys` and `/proc`.
///
/// Every answer is bounded, so that no file system can hold up or fill the process, and what a bound cuts off leaves a
/// note.  Paths are relative, such as `sys/class/infiniband`.
pub struct Root {
    source: Backing,
    recording: Option<RefCell<Manifest>>,
    notes: RefCell<Vec<Diagnostic>>,
}

enum Backing {
    Live,
    /// captured
    Directory(Contained),
    Manifest(Manifest),
}

impl Root {
    /// Bytes of one file, at most.  The longest file read is a `cpulist`: 8192 CPUs, every other one, make 40 KiB.
    pub const MAX_FILE: usize = 64 * 1024;
    /// Bytes of a table that is read line by line, at most: 32,768 routes of `/proc/net/route` with 128 bytes each,
    /// 27,962 of `/proc/net/ipv6_route` with 150.  A node with a route for each node and pod of a large cluster has
    /// some 10,000.
    pub const MAX_TABLE: usize = 4 * 1024 * 1024;
    /// Names of one directory, at most.  The largest read is `/sys/devices/system/cpu`.
    pub const MAX_ENTRIES: usize = 16 * 1024;

    pub fn live() -> Root {
        Root::of(Backing::Live)
    }

    /// A tree captured from another machine; links in it that leave it are not followed.
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

    /// Keeps what is read from now on, for [`Root::recorded`].
    pub fn record(&mut self) {
        self.recording = Some(RefCell::new(Manifest::default()));
    }

    /// The files read since [`Root::record`].
    pub fn recorded(self) -> Manifest {
        self.recording.map(RefCell::into_inner).unwrap_or_default()
    }

    pub fn is_live(&self) -> bool {
        matches!(self.source, Backing::Live)
    }

    /// Notes, since the last call, on files that were not read, or not to their end.
    pub fn notes(&self) -> Vec<Diagnostic> {
        self.notes.take()
    }

    fn note(&self, path: &str, finding: String) {
        /// Notes, at most: a broken tree can make one for each of its files.
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

    /// The place of a directory on disk; `None` in a manifest, and for one outside of a captured tree.
    fn place(&self, path: &str) -> Option<PathBuf> {
        match &self.source {
            Backing::Live => Some(Path::new("/").join(path)),
            Backing::Directory(tree) => tree.directory(path),
            Backing::Manifest(_) => None,
        }
    }

    /// `None` if there is no file to read.
    fn open(&self, path: &str) -> Option<Box<dyn Read + '_>> {
        let opened = match &self.source {
            Backing::Live => open::open_kernel_file(Path::new(&format!("/{path}"))),
            Backing::Directory(tree) => open::open_resolved(&tree.resolve(path)?),
            Backing::Manifest(manifest) => return Some(Box::new(text(manifest, path)?.as_bytes())),
        };
        opened
            .map_err(|problem| self.pass_over(path, &problem))
            .ok()
            .map(|file| Box::new(file) as _)
    }

    fn pass_over(&self, path: &str, problem: &Obstacle) {
        // that a file is not there, or that its driver has nothing to say, is a fact
        if !matches!(problem, Obstacle::System(_)) {
            self.note(path, format!("it {problem}: not read"));
        }
    }

    /// A file's text without the white space at its end; `None` if it cannot be read, is longer than [`Root::MAX_FILE`]
    /// or not UTF-8.
    pub fn read(&self, path: &str) -> Option<String> {
        let text = match &self.source {
            Backing::Manifest(manifest) => text(manifest, path)?.to_string(),
            Backing::Live | Backing::Directory(_) => {
                let is_attribute = self.is_live() && path.starts_with("sys/");
                let bytes = read_all(self.open(path)?, is_attribute);
                let bytes = bytes
                    .map_err(|problem| self.pass_over(path, &problem))
                    .ok()?;
                std::str::from_utf8(&bytes).ok()?.trim_end().to_string()
            }
        };
        self.record_entry(path, || Entry::File(text.clone()));
        Some(text)
    }

    /// A file's first bytes, at most `most`; `None` if there is no file.  They are not recorded: a snapshot is for
    /// people to read.
    pub fn beginning(&self, path: &str, most: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?
            .take(most as u64)
            .read_to_end(&mut bytes)
            .ok()?;
        Some(bytes)
    }

    /// The number of the user to whom a directory belongs; `None` where that cannot be read.
    pub fn owner(&self, path: &str) -> Option<u32> {
        Some(fs::symlink_metadata(self.place(path)?).ok()?.uid())
    }

    /// Gives `take` each line of a file, without the white space at its end, so that memory does not grow with the
    /// file.  No line is cut; those behind the first [`Root::MAX_TABLE`] bytes are not read.
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
            // one byte more tells a line that fits from one that does not
            match reader
                .by_ref()
                .take(left as u64 + 1)
                .read_until(b'\n', &mut line)
            {
                Ok(0) => break,
                Ok(count) if count > left => {
                    self.note(
                        path,
                        format!("longer than {} bytes: not read to its end", Root::MAX_TABLE),
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

    /// Where a symbolic link leads: a path relative to the root.  In a captured tree it is followed only once.
    pub fn follow(&self, path: &str) -> Option<String> {
        let target = match &self.source {
            Backing::Live => fs::read_link(format!("/{path}"))
                .ok()?
                .to_str()?
                .to_string(),
            Backing::Directory(tree) => {
                // the link itself is wanted, so only its directory is resolved
                let (directory, name) = path.rsplit_once('/')?;
                let directory = tree.directory(directory)?;
                fs::read_link(directory.join(name))
                    .ok()?
                    .to_str()?
                    .to_string()
            }
            Backing::Manifest(manifest) => match manifest.get(path)? {
                Entry::Link(target) => target.clone(),
                Entry::File(_) | Entry::Directory => return None,
            },
        };
        let resolved = normalise(path, &target)?;
        // no link of the kernel's leads over another; what is read below one cannot stand in a manifest, which has no such paths
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

    /// The names in a directory that `keep` wants, with their inodes and sorted by them: a name below `/sys` that goes
    /// and comes again has another inode.  In a manifest the inodes are 0, and the names are sorted.
    pub fn numbered(&self, path: &str, keep: impl Fn(&str) -> bool) -> Vec<(String, u64)> {
        if let Backing::Manifest(_) = &self.source {
            return self
                .list(path, keep)
                .into_iter()
                .map(|name| (name, 0))
                .collect();
        }
        let (mut numbered, _) =
            self.entries(path, |name, entry| keep(&name).then(|| (name, entry.ino())));
        numbered.order_by_key(|(_, inode)| *inode);
        numbered
    }

    /// The numbers that name entries of a directory, in any order.
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

    /// The names in a directory that `keep` wants, sorted; empty where there is no such directory.
    pub fn list(&self, path: &str, keep: impl Fn(&str) -> bool) -> Vec<String> {
        let (mut names, is_cut) = match &self.source {
            Backing::Manifest(manifest) => (manifest.list(path), false),
            Backing::Live | Backing::Directory(_) => self.entries(path, |name, _| Some(name)),
        };
        if is_cut {
            self.note(
                path,
                format!(
                    "more than {} entries: the others are not seen",
                    Root::MAX_ENTRIES
                ),
            );
        }
        names.retain(|name| keep(name));
        names.order();
        for name in &names {
            self.record_entry(&format!("{path}/{name}"), || Entry::Directory);
        }
        names
    }

    /// `take` of the entries of a directory on disk, and whether there are more than are read.
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
    // One read gives all of a sysfs attribute (a page at most), and a short read is its end.  procfs gives at one read as
    // many lines as fit into a page, and the next read gives more.
    if !is_attribute || count == page.len() {
        file.take((Root::MAX_FILE + 1 - count) as u64)
            .read_to_end(&mut bytes)?;
    }
    if bytes.len() > Root::MAX_FILE {
        Err(Obstacle::TooLong(Root::MAX_FILE))
    } else {
        Ok(bytes)
    }
}
