//! Opens paths at which anything may stand: never waits, and takes only a regular file of the user that is asked for.
#![forbid(unsafe_code)]

use std::fmt;
use std::fs::{self, File, FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The user that must own a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// any user's: the reader's own user named the file, and the reader has no other user's rights
    Anyone,
    /// root's alone: a process of root's goes by what it says
    Root,
}

/// A file or directory that is not read, and why.
#[derive(Debug)]
pub struct Unreadable {
    pub path: String,
    pub problem: Obstacle,
}

#[derive(Debug)]
pub enum Obstacle {
    /// the system's error
    System(io::Error),
    /// the kind of file that was found, unopened, and the one that was expected
    Kind(&'static str, &'static str),
    /// it has more bytes than this
    TooLong(usize),
    /// it belongs to this user, and should be root's
    Owner(u32),
    /// this mode lets others than its owner write to it
    Writable(u32),
}

impl Obstacle {
    pub(super) fn of(self, path: &Path) -> Unreadable {
        Unreadable {
            path: path.display().to_string(),
            problem: self,
        }
    }
}

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Obstacle {
        Obstacle::System(error)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::System(error) => write!(f, "cannot be read: {error}"),
            Obstacle::Kind(found, expected) => write!(f, "is {found}: expected {expected}"),
            Obstacle::TooLong(limit) => write!(f, "is longer than {limit} bytes"),
            Obstacle::Owner(user) => write!(f, "belongs to user {user}, not to root: chown root"),
            Obstacle::Writable(_) => write!(f, "can be written by others than root: chmod go-w"),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unreadable { path, problem } = self;
        match problem {
            Obstacle::System(error) => write!(f, "cannot read `{path}`: {error}"),
            problem => write!(f, "`{path}` {problem}"),
        }
    }
}

impl std::error::Error for Unreadable {}

/// Waits for no pipe's writer and no lease's holder, takes no controlling terminal, and is closed by execve(2).
const FLAGS: i32 = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;

/// Opens a file below `/sys` or `/proc` unchecked: only the kernel makes files there.
pub(super) fn open_kernel_file(path: &Path) -> Result<File, Obstacle> {
    open(path, FLAGS)
}

/// Opens a file whose path has been followed to its end: a link that has taken its place since is not followed.
pub(super) fn open_resolved(path: &Path) -> Result<File, Obstacle> {
    is_regular(&fs::symlink_metadata(path)?)?;
    open(path, FLAGS | libc::O_NOFOLLOW)
}

/// Opens a regular file; links are followed.
fn open_followed(path: &Path) -> Result<File, Obstacle> {
    // opening a device can already have an effect, so the type is asked first
    is_regular(&fs::metadata(path)?)?;
    open(path, FLAGS)
}

fn open(path: &Path, flags: i32) -> Result<File, Obstacle> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    // another file may have taken its place since
    is_regular(&file.metadata()?)?;
    Ok(file)
}

fn is_regular(facts: &Metadata) -> Result<(), Obstacle> {
    match facts.is_file() {
        true => Ok(()),
        false => Err(Obstacle::Kind(kind(facts.file_type()), "a regular file")),
    }
}

/// The words for a type of file in messages.
pub fn kind(file_type: FileType) -> &'static str {
    match file_type {
        of if of.is_file() => "a regular file",
        of if of.is_dir() => "a directory",
        of if of.is_fifo() => "a named pipe",
        of if of.is_socket() => "a socket",
        of if of.is_char_device() => "a character device",
        of if of.is_block_device() => "a block device",
        of if of.is_symlink() => "a symbolic link",
        _ => "something else",
    }
}

fn is_by(author: Author, facts: &Metadata) -> Result<(), Obstacle> {
    let others = libc::S_IWGRP | libc::S_IWOTH;
    match author {
        Author::Anyone => Ok(()),
        Author::Root if facts.uid() != 0 => Err(Obstacle::Owner(facts.uid())),
        Author::Root if facts.mode() & others != 0 => Err(Obstacle::Writable(facts.mode())),
        Author::Root => Ok(()),
    }
}

/// Reads at most `limit` bytes of a regular file that an admin or a user wrote: a node's description, a list.
///
/// The owner of the open file is checked, so no other can take its place.  The owners of the directories above are not
/// checked: they can only be used to put another file of root's in its place.
pub fn read_file(path: &Path, limit: usize, author: Author) -> Result<Vec<u8>, Unreadable> {
    open_followed(path)
        .and_then(|file| bounded(file, limit, author))
        .map_err(|problem| problem.of(path))
}

/// As [`read_file`], for a file at `path` itself: one that a link leads to is refused.
pub fn read_unlinked(path: &Path, limit: usize, author: Author) -> Result<Vec<u8>, Unreadable> {
    open_resolved(path)
        .and_then(|file| bounded(file, limit, author))
        .map_err(|problem| problem.of(path))
}

fn bounded(file: File, limit: usize, author: Author) -> Result<Vec<u8>, Obstacle> {
    let facts = file.metadata()?;
    is_by(author, &facts)?;
    let most = limit as u64 + 1;
    let mut bytes = Vec::with_capacity(facts.len().min(most) as usize + 1);
    file.take(most).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        Err(Obstacle::TooLong(limit))
    } else {
        Ok(bytes)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    /// with bytes that are not UTF-8 replaced: a line may still mean something
    pub text: String,
    /// true if the file has more
    pub is_cut: bool,
}

/// Reads a configuration file of a user's or a site's, `limit` bytes at most; `None` where there is no such regular file.
///
/// For processes with the user's own rights, and for paths that no user chose.
pub fn read_configuration(path: &Path, limit: usize) -> Option<Beginning> {
    // an empty one would ask the kernel for 32 bytes, then for 64 and so on, and procfs makes its table for each
    let mut bytes = Vec::with_capacity(4096);
    open_followed(path)
        .ok()?
        .take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .ok()?;
    let is_cut = bytes.len() > limit;
    bytes.truncate(limit);
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
    Some(Beginning { text, is_cut })
}

/// True if anything is at `path`, even a link that leads nowhere.  Nothing is opened.
pub fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Opens a regular file of any user's that is too long to be held, for a caller that reads it piece by piece.
pub fn open_long(path: &Path) -> Result<File, Unreadable> {
    open_followed(path).map_err(|problem| problem.of(path))
}

/// Opens a file that is only locked, and makes it if there is none.  A folder that others may write to can hold
/// anything: no link is followed, no pipe's reader waited for, and only a regular file taken.
pub fn open_to_lock(path: &Path) -> io::Result<File> {
    let refuse = || {
        Err(io::Error::other(format!(
            "`{}` is no regular file: remove it",
            path.display()
        )))
    };
    // opening a device can already have an effect
    if fs::symlink_metadata(path).is_ok_and(|facts| !facts.is_file()) {
        return refuse();
    }
    let mut options = fs::OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(FLAGS | libc::O_NOFOLLOW);
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        refuse()
    }
}

/// The kind of file at a path; a link is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// no file, as far as this process may look
    Nothing,
    Directory,
    /// the link's target
    Link(String),
    File,
}

pub fn standing(path: &Path) -> Standing {
    match fs::symlink_metadata(path).map(|facts| facts.file_type()) {
        Err(_) => Standing::Nothing,
        Ok(found) if found.is_dir() => Standing::Directory,
        Ok(found) if found.is_symlink() => {
            match fs::read_link(path).map(|target| target.to_str().map(String::from)) {
                Ok(Some(target)) => Standing::Link(target),
                _ => Standing::Nothing,
            }
        }
        Ok(_) => Standing::File,
    }
}

/// The device and inode to which a path leads: the same for the same file or directory, also in another mount namespace.
pub fn identity(path: &str) -> Option<(u64, u64)> {
    fs::metadata(path)
        .ok()
        .map(|found| (found.dev(), found.ino()))
}

/// A descriptor of a directory, no link to one, that serves only to look names up below it (`O_PATH`), kept while the
/// mount namespace of the process may change.
pub fn directory_descriptor(path: &Path) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
}

/// Refuses what is no directory, or can be written by others than its author.
pub(super) fn check_directory(path: &Path, author: Author) -> Result<(), Obstacle> {
    let facts = fs::metadata(path)?;
    if !facts.is_dir() {
        return Err(Obstacle::Kind(kind(facts.file_type()), "a directory"));
    }
    is_by(author, &facts)
}
