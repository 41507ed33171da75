//! A folder of this process's own, and changes to it that can be undone and never leave it.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Component, Path, PathBuf};

/// What a change puts somewhere.
pub enum Thing<'a> {
    File(&'a [u8]),
    Link(&'a Path),
    Folder,
    /// neither a file nor a folder
    Socket,
    Nothing,
}

/// A folder that goes with it.
pub struct Place {
    path: PathBuf,
    /// `(what was changed, where that is which stood there)`, the last change at the end
    changes: Vec<(PathBuf, Option<PathBuf>)>,
}

impl Place {
    /// An empty one; each thread has its own.
    pub fn new(name: &str) -> Place {
        let thread = format!("{:?}", std::thread::current().id());
        let number: String = thread.chars().filter(char::is_ascii_digit).collect();
        let name = format!("nic-placement-fuzz-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("before")).expect("a folder for temporary files");
        Place {
            path: fs::canonicalize(path).expect("it was made"),
            changes: Vec::new(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file with the folders above it, for good.
    pub fn lay(&self, path: &str, text: &[u8]) {
        let path = self.path.join(path);
        fs::create_dir_all(path.parent().expect("it is below")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Puts a thing at a path below the folder until `undo`; `false` where no such thing can be there.
    ///
    /// A link that a change before made is not followed: it may lead to the files of the user that runs this.
    pub fn put(&mut self, path: &Path, thing: Thing) -> bool {
        let path = self.path.join(path);
        let Some(folder) = path
            .parent()
            .filter(|folder| folder.starts_with(&self.path))
        else {
            return false;
        };
        let Some(name) = path.file_name() else {
            return false;
        };
        if path.components().any(|part| part == Component::ParentDir) {
            return false;
        }
        // nothing stands below the links that were laid for good
        let may_be_over_link = self
            .changes
            .iter()
            .any(|(changed, _)| folder.starts_with(changed));
        let is_real = match may_be_over_link {
            true => fs::canonicalize(folder).is_ok_and(|real| real == folder),
            false => folder.is_dir(),
        };
        if !is_real || path != folder.join(name) {
            return false;
        }
        let before = fs::symlink_metadata(&path).is_ok().then(|| {
            let before = self.path.join(format!("before/{}", self.changes.len()));
            fs::rename(&path, &before).expect("both are here");
            before
        });
        self.changes.push((path.clone(), before));
        match thing {
            Thing::File(text) => fs::write(&path, text).is_ok(),
            Thing::Link(target) => symlink(target, &path).is_ok(),
            Thing::Folder => fs::create_dir(&path).is_ok(),
            Thing::Socket => UnixListener::bind(&path).is_ok(),
            Thing::Nothing => true,
        }
    }

    /// Everything as it was before the first `put`.
    pub fn undo(&mut self) {
        while let Some((path, before)) = self.changes.pop() {
            match fs::symlink_metadata(&path) {
                Ok(facts) if facts.is_dir() => fs::remove_dir_all(&path).expect("ours"),
                Ok(_) => fs::remove_file(&path).expect("ours"),
                Err(_) => {}
            }
            if let Some(before) = before {
                fs::rename(before, path).expect("both are here");
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
