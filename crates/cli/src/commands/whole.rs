//! Writes a file whole or not at all, for readers that come meanwhile.
#![forbid(unsafe_code)]

use nic_placement_core::discover::root;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;

/// The folder and the name of a file.
pub(super) fn split(place: &Path) -> Result<(&Path, &str), String> {
    match (place.parent(), place.file_name().and_then(|name| name.to_str())) {
        (Some(folder), Some(name)) if folder.as_os_str().is_empty() => Ok((Path::new("."), name)),
        (Some(folder), Some(name)) => Ok((folder, name)),
        _ => Err(format!("`{}` is no file's path", place.display())),
    }
}

/// Only a regular file, or nothing, may stand where one is to be.
///
/// cp(1) writes through a link and into a device, install(1) puts a file in the place of either.  As root the first spoils
/// what a link in another's folder leads to, and the second `/dev/null` or `/dev/stdout`.
pub(super) fn check(place: &Path) -> Result<(), String> {
    let shown = place.display();
    match fs::symlink_metadata(place) {
        Ok(there) if there.is_file() => Ok(()),
        Ok(there) if there.is_symlink() => Err(format!(
            "`{shown}` is a symbolic link: name the file itself, only a regular file is replaced"
        )),
        Ok(there) => {
            Err(format!("`{shown}` is {}: only a regular file is replaced", root::kind(there.file_type())))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("cannot write `{shown}`: {error}")),
    }
}

/// Writes a file that all may read; who reads meanwhile has the old one.
pub(super) fn write(place: &Path, bytes: &[u8]) -> Result<(), String> {
    check(place)?;
    let (folder, name) = split(place)?;
    write_in(folder, name, bytes).map_err(|error| format!("cannot write `{}`: {error}", place.display()))
}

fn write_in(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (new, mut file) = begin(folder, name)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.set_permissions(Permissions::from_mode(0o644)))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, folder.join(name)));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// A file of this process alone beside the one that is to be: another may be writing the same just now.
fn begin(folder: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    /// Files of this name that are in the way, at most: left by ones that were killed, or of a process that has this number
    /// in a container of its own.
    const MAX_IN_THE_WAY: u32 = 1000;
    for number in 0..MAX_IN_THE_WAY {
        let new = folder.join(format!(".{name}.{}-{number}.new", process::id()));
        // not through a link that somebody put there
        match OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((new, opened?)),
        }
    }
    let left = format!("`{}` has {MAX_IN_THE_WAY} files `.{name}.*.new`: remove them", folder.display());
    Err(io::Error::other(left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("nic-placement-whole-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn each_of_several_writers_writes_the_file_whole() {
        let folder = folder("writers");
        let place = folder.join("node.json");
        let text = |writer: u8| vec![b'a' + writer; 64 * 1024];
        thread::scope(|scope| {
            for writer in 0..4 {
                let place = &place;
                scope.spawn(move || {
                    for _ in 0..50 {
                        write(place, &text(writer)).unwrap();
                        let read = fs::read(place).unwrap();
                        assert!((0..4).any(|writer| read == text(writer)), "{} bytes", read.len());
                    }
                });
            }
        });
        assert_eq!(names(&folder), ["node.json"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_one_left_that_was_killed_is_in_nobody_s_way() {
        let folder = folder("killed");
        let left = format!(".node.json.{}-0.new", process::id());
        fs::write(folder.join(&left), "half").unwrap();
        write(&folder.join("node.json"), b"whole").unwrap();
        assert_eq!(fs::read(folder.join("node.json")).unwrap(), b"whole");
        // it may be another's that still writes
        assert_eq!(fs::read(folder.join(&left)).unwrap(), b"half");
        fs::remove_dir_all(&folder).unwrap();
    }
}
