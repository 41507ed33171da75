//! Opens untrusted paths without blocking, and only regular files of the required owner.

use std::fmt;
use std::fs::{self, File, FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The required owner of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// any user: the process has the rights of the user that named the file
    Anyone,
    /// root, and only root may write: the process runs as root and obeys the file
    Root,
}

#[derive(Debug)]
pub struct Unreadable {
    pub path: String,
    pub problem: Obstacle,
}

#[derive(Debug)]
pub enum Obstacle {
    System(io::Error),
    /// the kind of file found, and the expected kind
    Kind(&'static str, &'static str),
    /// longer than this number of bytes
    TooLong(usize),
    /// the owner's user id, not root's
    Owner(u32),
    /// a mode that lets group or others write
    Writable(u32),
}

impl Obstacle {
    pub fn is_absent(&self) -> bool {
        matches!(self, Obstacle::System(error) if error.kind() == io::ErrorKind::NotFound)
    }

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

/// An open does not wait (for a pipe's writer or a lease) and sets no controlling terminal;
/// execve(2) closes the file.
const FLAGS: i32 = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
/// [`FLAGS`], and a symbolic link is refused.
pub const UNLINKED: i32 = FLAGS | libc::O_NOFOLLOW;

/// Opens a regular file below `/sys` or `/proc`, where only the kernel makes files.
pub(super) fn open_kernel_file(path: &Path) -> Result<File, Obstacle> {
    open(path, FLAGS)
}

pub(super) fn open_resolved(path: &Path) -> Result<File, Obstacle> {
    is_regular(&fs::symlink_metadata(path)?)?;
    open(path, UNLINKED)
}

/// Opens a regular file; links are followed.
fn open_followed(path: &Path) -> Result<File, Obstacle> {
    // the type first: opening a device can have an effect
    is_regular(&fs::metadata(path)?)?;
    open(path, FLAGS)
}

fn open(path: &Path, flags: i32) -> Result<File, Obstacle> {
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(flags).open(path)?;
    // checks again: another file may have replaced the checked one
    is_regular(&file.metadata()?)?;
    Ok(file)
}

fn is_regular(facts: &Metadata) -> Result<(), Obstacle> {
    match facts.is_file() {
        true => Ok(()),
        false => Err(Obstacle::Kind(kind(facts.file_type()), "a regular file")),
    }
}

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
        Author::Root if facts.uid() != 0 => Err(Obstacle::Owner(facts.uid())),
        Author::Root if facts.mode() & others != 0 => Err(Obstacle::Writable(facts.mode())),
        Author::Anyone | Author::Root => Ok(()),
    }
}

/// Reads a regular file of at most `limit` bytes; links are followed.
///
/// Checks the owner of the open file, not of the directories above: a directory's owner could only
/// put another of root's files at `path`.
pub fn read_file(path: &Path, limit: usize, author: Author) -> Result<Vec<u8>, Unreadable> {
    let read = open_followed(path).and_then(|file| bounded(file, limit, author));
    read.map_err(|problem| problem.of(path))
}

/// As [`read_file`], but a symbolic link is refused.
pub fn read_unlinked(path: &Path, limit: usize, author: Author) -> Result<Vec<u8>, Unreadable> {
    let read = open_resolved(path).and_then(|file| bounded(file, limit, author));
    read.map_err(|problem| problem.of(path))
}

fn bounded(file: File, limit: usize, author: Author) -> Result<Vec<u8>, Obstacle> {
    let facts = file.metadata()?;
    is_by(author, &facts)?;
    let most = limit as u64 + 1;
    let mut bytes = Vec::with_capacity(facts.len().min(most) as usize + 1);
    file.take(most).read_to_end(&mut bytes)?;
    within(limit, bytes)
}

pub(super) fn within(limit: usize, bytes: Vec<u8>) -> Result<Vec<u8>, Obstacle> {
    match bytes.len() > limit {
        true => Err(Obstacle::TooLong(limit)),
        false => Ok(bytes),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    /// with bytes that are not UTF-8 replaced
    pub text: String,
    /// true if the file is longer than the limit
    pub is_cut: bool,
}

/// Reads the first `limit` bytes of a user's or site's configuration file; `None` if it is no
/// readable regular file.
///
/// No owner is checked: the process has the user's rights, or no user chose the path.
pub fn read_configuration(path: &Path, limit: usize) -> Option<Beginning> {
    // procfs makes a file's text again for each read, and std would begin with 32 bytes
    let mut bytes = Vec::with_capacity(4096);
    let mut file = open_followed(path).ok()?.take(limit as u64 + 1);
    file.read_to_end(&mut bytes).ok()?;
    let is_cut = bytes.len() > limit;
    bytes.truncate(limit);
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
    Some(Beginning { text, is_cut })
}

/// True for a file of any kind, and for a dangling link.
pub fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Opens a regular file of any user, to be read in pieces.
pub fn open_long(path: &Path) -> Result<File, Unreadable> {
    open_followed(path).map_err(|problem| problem.of(path))
}

/// The kind of file at a path; links are not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileKind {
    /// no file, or an error
    Nothing,
    Directory,
    /// the link's target
    Link(String),
    File,
}

pub fn file_kind(path: &Path) -> FileKind {
    match fs::symlink_metadata(path).map(|facts| facts.file_type()) {
        Err(_) => FileKind::Nothing,
        Ok(found) if found.is_dir() => FileKind::Directory,
        Ok(found) if found.is_symlink() => {
            let target = fs::read_link(path).ok();
            let target = target.and_then(|target| target.into_os_string().into_string().ok());
            target.map_or(FileKind::Nothing, FileKind::Link)
        }
        Ok(_) => FileKind::File,
    }
}

/// Device and inode of the file at a path; a file has the same in every mount namespace.
pub fn identity(path: &str) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// A descriptor of a directory, not of a link, for look-ups alone (`O_PATH`). The descriptor
/// outlives changes of the mount namespace.
pub fn directory_descriptor(path: &Path) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(flags).open(path)
}

pub(super) fn check_directory(path: &Path, author: Author) -> Result<(), Obstacle> {
    let facts = fs::metadata(path)?;
    if !facts.is_dir() {
        return Err(Obstacle::Kind(kind(facts.file_type()), "a directory"));
    }
    is_by(author, &facts)
}
