//! The one place that reads the node: bounded reads below a root, which is `/`, a captured tree, or a manifest.
#![forbid(unsafe_code)]

use super::manifest::{Entry, Manifest, normalise};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where a node's `/sys` and `/proc` are read.
///
/// Every answer is bounded: a file gives at most [`Root::MAX_FILE`] bytes and a directory at most
/// [`Root::MAX_ENTRIES`] names, so that no file system, however odd, can hold up or fill the process that asks.
/// Paths are relative, such as `sys/class/infiniband`.
pub struct Root {
    source: Backing,
    recording: Option<RefCell<Manifest>>,
}

enum Backing {
    /// this system
    Live,
    /// a captured tree
    Directory(Contained),
    /// a captured tree in memory
    Manifest(Manifest),
}

impl Root {
    /// Bytes of one file, at most.  The longest file read is a `cpulist`: 8192 CPUs, every other one, make 40 KiB.
    pub const MAX_FILE: usize = 64 * 1024;
    /// Names of one directory, at most.  The largest read is `/sys/devices/system/cpu`.
    pub const MAX_ENTRIES: usize = 16 * 1024;

    /// This system.
    pub fn live() -> Root {
        Root { source: Backing::Live, recording: None }
    }

    /// A tree captured from another machine; links in it that leave it are not followed.
    pub fn directory(path: &Path) -> io::Result<Root> {
        let mut resolved = fs::canonicalize(path)?;
        if !resolved.join("sys").is_dir() {
            // an unpacked archive often has one directory above the machine
            let mut below =
                fs::read_dir(&resolved)?.take(Root::MAX_ENTRIES).filter_map(|entry| Some(entry.ok()?.path()));
            resolved = below.find(|path| path.join("sys").is_dir()).unwrap_or(resolved);
        }
        if !resolved.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "not a directory"));
        }
        let contained = Contained { base: resolved, directories: RefCell::default() };
        Ok(Root { source: Backing::Directory(contained), recording: None })
    }

    /// A tree captured as a manifest.
    pub fn manifest(manifest: Manifest) -> Root {
        Root { source: Backing::Manifest(manifest), recording: None }
    }

    /// Keeps what is read from now on, for [`Root::recorded`].
    pub fn record(&mut self) {
        self.recording = Some(RefCell::new(Manifest::default()));
    }

    /// What was read since [`Root::record`].
    pub fn recorded(self) -> Manifest {
        self.recording.map(RefCell::into_inner).unwrap_or_default()
    }

    /// Is this the machine that we run on?
    pub fn is_live(&self) -> bool {
        matches!(self.source, Backing::Live)
    }

    /// A file's text without the white space at its end; `None` where there is none, it cannot be read, or it is longer
    /// than [`Root::MAX_FILE`] or not UTF-8.
    pub fn read(&self, path: &str) -> Option<String> {
        let text = match &self.source {
            Backing::Live => read_bounded(Path::new(&format!("/{path}")))?,
            Backing::Directory(tree) => read_bounded(&tree.resolve(path)?)?,
            Backing::Manifest(manifest) => match manifest.get(path)? {
                Entry::File(text) => text.clone(),
                Entry::Link(_) | Entry::Directory => return None,
            },
        };
        if let Some(recording) = &self.recording {
            recording.borrow_mut().insert(path, Entry::File(text.clone()));
        }
        Some(text)
    }

    /// Where a symbolic link leads: a path relative to the root.
    pub fn follow(&self, path: &str) -> Option<String> {
        let target = match &self.source {
            Backing::Live => fs::read_link(format!("/{path}")).ok()?.to_str()?.to_string(),
            Backing::Directory(tree) => {
                // the link itself is wanted, so only its directory is resolved
                let (directory, name) = path.rsplit_once('/')?;
                let directory = tree.directory(directory)?;
                fs::read_link(directory.join(name)).ok()?.to_str()?.to_string()
            }
            Backing::Manifest(manifest) => match manifest.get(path)? {
                Entry::Link(target) => target.clone(),
                Entry::File(_) | Entry::Directory => return None,
            },
        };
        let resolved = normalise(path, &target)?;
        if let Some(recording) = &self.recording {
            recording.borrow_mut().insert(path, Entry::Link(target));
        }
        Some(resolved)
    }

    /// The names in a directory that `keep` wants, sorted; empty where there is no such directory.
    pub fn list(&self, path: &str, keep: impl Fn(&str) -> bool) -> Vec<String> {
        let directory = |path: &Path| -> Vec<String> {
            let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
            let names = entries
                .take(Root::MAX_ENTRIES)
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            names.filter(|name| keep(name)).collect()
        };
        let mut names = match &self.source {
            Backing::Live => directory(Path::new(&format!("/{path}"))),
            Backing::Directory(tree) => tree.directory(path).map(|path| directory(&path)).unwrap_or_default(),
            Backing::Manifest(manifest) => {
                manifest.list(path).into_iter().filter(|name| keep(name)).collect()
            }
        };
        names.sort();
        if let Some(recording) = &self.recording {
            for name in &names {
                recording.borrow_mut().insert(&format!("{path}/{name}"), Entry::Directory);
            }
        }
        names
    }
}

/// A descriptor of a directory that serves only to look names up below it (`O_PATH`), kept while the mount namespace of
/// the process may change.
pub fn directory_descriptor(path: &Path) -> io::Result<fs::File> {
    // O_PATH and O_DIRECTORY by value: only `sys` knows libc.  Both are the same on x86-64 and every other
    // architecture of Linux but alpha, parisc, sparc (O_PATH) and arm, m68k, powerpc, aarch64 (O_DIRECTORY), so only
    // O_PATH is used; names below a file that is no directory are simply not found.
    const O_PATH: i32 = 0o10000000;
    fs::OpenOptions::new().read(true).custom_flags(O_PATH).open(path)
}

/// Reads a file that describes a node; `limit` bytes at most.
pub fn read_file(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    // opening a pipe would wait for its writer
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {limit} bytes")));
    }
    Ok(bytes)
}

/// Reads a configuration file of a user's or a site's, `limit` bytes at most; `None` where there is no such regular file.
///
/// What is not a regular file is not opened, and where a pipe takes its place in that moment, opening does not wait for its
/// writer.  For processes with the user's own rights, and for paths that no user chose.
pub fn read_configuration(path: &Path, limit: usize) -> Option<String> {
    // by value, as O_PATH above; the same on all of those architectures but alpha, parisc and sparc
    const O_NONBLOCK: i32 = 0o4000;
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = fs::OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes).ok()?;
    // what is cut or not UTF-8 is read as far as it goes: a line of it may still name a variable
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text without the white space at its end.
fn read_bounded(path: &Path) -> Option<String> {
    let mut file = fs::File::open(path).ok()?;
    // One read gives all of a sysfs attribute (a page at most), and a short read is its end.
    let mut page = [0u8; 4096];
    let count = file.read(&mut page).ok()?;
    let text = |bytes: &[u8]| Some(std::str::from_utf8(bytes).ok()?.trim_end().to_string());
    if count < page.len() {
        return text(&page[..count]);
    }
    let mut bytes = page.to_vec();
    file.take(Root::MAX_FILE as u64 + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() > Root::MAX_FILE { None } else { text(&bytes) }
}

/// A directory that no path leaves.
struct Contained {
    /// the directory, with all symbolic links in its own path resolved
    base: PathBuf,
    /// what paths of directories below it resolve to: most files that are read have their directory in common
    directories: RefCell<BTreeMap<String, Option<PathBuf>>>,
}

impl Contained {
    /// The real place of a directory, if it is below the base.
    ///
    /// From the place of the directory above it, which is known for most: to resolve a whole path asks the kernel about
    /// each of its parts again.
    fn directory(&self, path: &str) -> Option<PathBuf> {
        /// Parts of a path, at most; the deepest that is read has 25.
        const MAX_PARTS: usize = 64;
        if let Some(known) = self.directories.borrow().get(path) {
            return known.clone();
        }
        let resolve =
            |place: PathBuf| fs::canonicalize(place).ok().filter(|place| place.starts_with(&self.base));
        let resolved = match path.rsplit_once('/') {
            Some((above, name))
                if !matches!(name, "" | "." | "..") && path.split('/').count() <= MAX_PARTS =>
            {
                self.directory(above).and_then(|above| {
                    let place = above.join(name);
                    match fs::symlink_metadata(&place).ok()?.is_symlink() {
                        true => resolve(place),
                        false => Some(place),
                    }
                })
            }
            _ => resolve(self.base.join(path)),
        };
        self.directories.borrow_mut().insert(path.to_string(), resolved.clone());
        resolved
    }

    /// The real place of a file, if it is below the base.
    fn resolve(&self, path: &str) -> Option<PathBuf> {
        let (directory, name) = path.rsplit_once('/')?;
        let place = self.directory(directory)?.join(name);
        match fs::symlink_metadata(&place).ok()?.is_symlink() {
            true => fs::canonicalize(place).ok().filter(|place| place.starts_with(&self.base)),
            false => Some(place),
        }
    }
}
