//! A captured tree on disk: a directory that no path below it leaves.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(super) struct Contained {
    /// with all symbolic links in its own path resolved
    pub(super) base: PathBuf,
    /// directories below it by their paths, resolved: most files that are read have their directory in common
    directories: RefCell<BTreeMap<String, Option<PathBuf>>>,
}

impl Contained {
    /// The tree at `path`, or the first right below it: an archive often has one directory above the machine.
    pub(super) fn new(path: &Path) -> io::Result<Contained> {
        let named = fs::canonicalize(path)?;
        let is_tree = |path: &PathBuf| path.join("sys").is_dir();
        let mut base = None;
        if !is_tree(&named) {
            let entries = fs::read_dir(&named)?.take(super::Root::MAX_ENTRIES);
            let trees = entries
                .filter_map(|entry| Some(entry.ok()?.path()))
                .filter(is_tree);
            let inside = trees.filter_map(|path| fs::canonicalize(path).ok());
            base = inside.filter(|path| path.starts_with(&named)).min();
        }
        Ok(Contained {
            base: base.unwrap_or(named),
            directories: RefCell::default(),
        })
    }

    /// The real place of a directory, if it is below the base.
    ///
    /// It is resolved from the parent's, which is mostly known: a whole path costs the kernel a look at each part.
    pub(super) fn directory(&self, path: &str) -> Option<PathBuf> {
        /// Parts of a path, at most; the deepest that is read has 25.
        const MAX_PARTS: usize = 64;
        if let Some(known) = self.directories.borrow().get(path) {
            return known.clone();
        }
        let resolve = |place: PathBuf| {
            fs::canonicalize(place)
                .ok()
                .filter(|place| place.starts_with(&self.base))
        };
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
        self.directories
            .borrow_mut()
            .insert(path.to_string(), resolved.clone());
        resolved
    }

    pub(super) fn is_over_link(&self, path: &str) -> bool {
        let is_link = |part: &str| {
            fs::symlink_metadata(self.base.join(part)).is_ok_and(|facts| facts.is_symlink())
        };
        match self.directory(path) {
            Some(real) => real != self.base.join(path),
            // it is not there, or outside
            None => {
                let above = path.match_indices('/').map(|(at, _)| &path[..at]);
                above.chain([path]).any(is_link)
            }
        }
    }

    /// The real place of a file, if it is below the base.
    pub(super) fn resolve(&self, path: &str) -> Option<PathBuf> {
        let (directory, name) = path.rsplit_once('/')?;
        let place = self.directory(directory)?.join(name);
        match fs::symlink_metadata(&place).ok()?.is_symlink() {
            true => fs::canonicalize(place)
                .ok()
                .filter(|place| place.starts_with(&self.base)),
            false => Some(place),
        }
    }
}
