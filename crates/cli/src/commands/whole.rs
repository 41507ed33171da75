//! Writes a file whole or not at all, for readers that come meanwhile.
#![forbid(unsafe_code)]

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The folder and the name of a file.
pub(super) fn split(place: &Path) -> Result<(&Path, &str), String> {
    match (place.parent(), place.file_name().and_then(|name| name.to_str())) {
        (Some(folder), Some(name)) if folder.as_os_str().is_empty() => Ok((Path::new("."), name)),
        (Some(folder), Some(name)) => Ok((folder, name)),
        _ => Err(format!("`{}` is no file's path", place.display())),
    }
}

/// Writes a file that all may read; who reads meanwhile has the old one.
pub(super) fn write(place: &Path, bytes: &[u8]) -> Result<(), String> {
    let (folder, name) = split(place)?;
    write_in(folder, name, bytes).map_err(|error| format!("cannot write `{}`: {error}", place.display()))
}

fn write_in(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = folder.join(format!(".{name}.new"));
    // what one left that was killed
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // not through a link that somebody put there
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
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
