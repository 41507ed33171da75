//! Writes a file whole or not at all, for readers that come meanwhile.

use super::Failure;
use super::page::Page;
use nic_placement_node::discover::root;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process;

pub(super) fn split(place: &Path) -> Result<(&Path, &str), String> {
    let (folder, name) = parts(place)?;
    let name = name.to_str();
    let name = name.ok_or_else(|| format!("`{}` is not UTF-8", place.display()))?;
    Ok((folder, name))
}

fn parts(place: &Path) -> Result<(&Path, &OsStr), String> {
    // `file_name` does not see the slash by which a folder is meant
    let is_folder = place.as_os_str().as_bytes().ends_with(b"/");
    match (place.parent(), place.file_name()) {
        (Some(folder), Some(name)) if !is_folder => Ok(match folder.as_os_str().is_empty() {
            true => (Path::new("."), name),
            false => (folder, name),
        }),
        _ => Err(format!("`{}` is no file's path", place.display())),
    }
}

/// Refuses a place that holds anything but a regular file.
///
/// As root, to write through a link (cp(1)) spoils the target of another's link, and to replace a device (install(1)) `/dev/null`.
pub(super) fn check(place: &Path) -> Result<(), String> {
    there(place).map(drop)
}

fn there(place: &Path) -> Result<Option<Metadata>, String> {
    let shown = place.display();
    match fs::symlink_metadata(place) {
        Ok(there) if there.is_file() => Ok(Some(there)),
        Ok(there) if there.is_symlink() => Err(format!(
            "`{shown}` is a symbolic link: name the file itself, only a regular file is replaced"
        )),
        Ok(there) => Err(format!(
            "`{shown}` is {}: only a regular file is replaced",
            root::kind(there.file_type())
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot write `{shown}`: {error}")),
    }
}

/// Writes a file that all may read, as steps and engines must, whatever the umask and the old file say.
pub(super) fn write(place: &Path, bytes: &[u8]) -> Result<(), String> {
    check(place)?;
    replace(place, bytes, Some(0o644), None)
}

/// As `write`, for a user's own file: the old file's mode names its readers, else the umask, as in a shell.
pub(super) fn write_own(place: &Path, bytes: &[u8]) -> Result<(), String> {
    let old = there(place)?;
    let mode = old.as_ref().map(|old| old.mode() & 0o777);
    replace(place, bytes, mode, old)
}

/// To a user's file, else to standard output.
pub(super) fn deliver(text: &str, output: Option<&Path>, page: &mut Page) -> Result<(), Failure> {
    match output {
        Some(file) => write_own(file, text.as_bytes())?,
        None => page.exact(text),
    }
    Ok(())
}

/// Writes a file of this mode beside `place`, and renames it: until it is whole, readers have the old one.
fn replace(
    place: &Path,
    bytes: &[u8],
    mode: Option<u32>,
    owner: Option<Metadata>,
) -> Result<(), String> {
    let (folder, name) = parts(place)?;
    let written = begin(folder, name, mode.unwrap_or(0o666)).and_then(|(new, mut file)| {
        if let Some(owner) = owner {
            // a file that root writes anew stays its user's; others than root may not, and then it is theirs
            let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
        }
        let set = |mode| file.set_permissions(Permissions::from_mode(mode));
        let written = mode
            .map_or(Ok(()), set)
            .and_then(|()| file.write_all(bytes))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&new, place));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    });
    written.map_err(|error| format!("cannot write `{}`: {error}", place.display()))
}

/// A file of this process alone: another may be writing the same now.
fn begin(folder: &Path, name: &OsStr, mode: u32) -> io::Result<(PathBuf, File)> {
    let open = |number| {
        let mut new = OsString::from(".");
        new.push(name);
        new.push(format!(".{}-{number}.new", process::id()));
        let new = folder.join(new);
        // `create_new`, since another user may have put a link there, which must not be followed
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        options.open(&new).map(|file| (new, file))
    };
    // files of killed processes, or of one with this number in its own container
    let is_free = |opened: &io::Result<_>| !matches!(opened, Err(error) if error.kind() == io::ErrorKind::AlreadyExists);
    (0..1000).map(open).find(is_free).unwrap_or_else(|| open(0))
}

/// Opens or makes a lock file.  Others may write to its folder: links, pipes and devices are refused.
pub(super) fn open_to_lock(path: &Path) -> io::Result<File> {
    let regular = |facts: Metadata| match facts.is_file() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "`{}` is no regular file: remove it",
            path.display()
        ))),
    };
    // opening a device can have an effect
    fs::symlink_metadata(path).map_or(Ok(()), regular)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).custom_flags(root::UNLINKED);
    let file = options.open(path)?;
    regular(file.metadata()?)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    fn folder(name: &str) -> PathBuf {
        let name = format!("nic-placement-whole-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
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
                        let is_whole = (0..4).any(|writer| read == text(writer));
                        assert!(is_whole, "{} bytes", read.len());
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

    #[test]
    fn only_a_regular_file_is_opened_to_be_locked_and_nothing_is_waited_for() {
        let folder = folder("lock");
        let elsewhere = folder.join("elsewhere");
        symlink(&elsewhere, folder.join("link")).unwrap();
        let pipe = Command::new("mkfifo").arg(folder.join("pipe")).status();
        assert!(pipe.unwrap().success());
        fs::create_dir(folder.join("folder")).unwrap();
        for name in ["link", "pipe", "folder"] {
            let path = folder.join(name);
            let (answer, answered) = mpsc::channel();
            thread::spawn(move || answer.send(open_to_lock(&path).unwrap_err().to_string()));
            let refused = answered.recv_timeout(Duration::from_secs(30)).unwrap();
            let said = format!("/{name}` is no regular file");
            assert!(refused.contains(&said), "{refused}");
        }
        assert!(!elsewhere.exists(), "nothing was made where the link leads");
        for _ in 0..2 {
            let file = open_to_lock(&folder.join("file")).unwrap();
            let facts = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
            let facts = fs::read_to_string(facts).unwrap();
            let flags = facts.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = i64::from_str_radix(flags.unwrap().trim(), 8).unwrap();
            assert_eq!(flags & 0o2000000, 0o2000000, "closed by execve(2)");
            assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
