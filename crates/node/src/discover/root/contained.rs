//! A captured tree on disk; no path leaves it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(super) struct Contained {
    /// a path without symbolic links
    pub(super) base: PathBuf,
    /// resolved directories by path: most files share a directory
    directories: RefCell<BTreeMap<String, Option<PathBuf>>>,
}

impl Contained {
    /// The tree at `path`. If `path` has no `sys`, as in many archives, the first subdirectory by
    /// name that has one.
    pub(super) fn new(path: &Path) -> io::Result<Contained> {
        let named = fs::canonicalize(path)?;
        let is_tree = |path: &PathBuf| path.join("sys").is_dir();
        let mut base = None;
        if !is_tree(&named) {
            let entries = fs::read_dir(&named)?.take(super::Root::MAX_ENTRIES);
            let trees = entries.filter_map(|entry| Some(entry.ok()?.path()));
            let trees = trees.filter(is_tree);
            let inside = trees.filter_map(|path| fs::canonicalize(path).ok());
            base = inside.filter(|path| path.starts_with(&named)).min();
        }
        Ok(Contained {
            base: base.unwrap_or(named),
            directories: RefCell::default(),
        })
    }

    /// A directory's path without links, if that path is below the base.
    ///
    /// Resolves only the last name; `directories` has the parent. `canonicalize` would look up
    /// every name.
    pub(super) fn directory(&self, path: &str) -> Option<PathBuf> {
        /// Most names in a path resolved by recursion; discovery's deepest has 25.
        const MAX_PARTS: usize = 64;
        if let Some(known) = self.directories.borrow().get(path) {
            return known.clone();
        }
        let resolved = match path.rsplit_once('/') {
            Some((above, name))
                if !matches!(name, "" | "." | "..") && path.split('/').count() <= MAX_PARTS =>
            {
                self.directory(above)
                    .and_then(|above| self.inside(above.join(name)))
            }
            _ => self.real(self.base.join(path)),
        };
        let mut directories = self.directories.borrow_mut();
        directories.insert(path.to_string(), resolved.clone());
        resolved
    }

    /// A path without links, if it is below the base.
    fn real(&self, place: PathBuf) -> Option<PathBuf> {
        let place = fs::canonicalize(place).ok()?;
        place.starts_with(&self.base).then_some(place)
    }

    /// As [`Contained::real`], for a path of which only the last name may be a link.
    fn inside(&self, place: PathBuf) -> Option<PathBuf> {
        match fs::symlink_metadata(&place).ok()?.is_symlink() {
            true => self.real(place),
            false => Some(place),
        }
    }

    pub(super) fn is_over_link(&self, path: &str) -> bool {
        let is_link = |part: &str| {
            fs::symlink_metadata(self.base.join(part)).is_ok_and(|facts| facts.is_symlink())
        };
        match self.directory(path) {
            Some(real) => real != self.base.join(path),
            // missing, or outside the tree
            None => {
                let above = path.match_indices('/').map(|(at, _)| &path[..at]);
                above.chain([path]).any(is_link)
            }
        }
    }

    /// A file's path without links, if that path is below the base.
    pub(super) fn resolve(&self, path: &str) -> Option<PathBuf> {
        let (directory, name) = path.rsplit_once('/')?;
        self.inside(self.directory(directory)?.join(name))
    }
}
