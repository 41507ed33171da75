//! `nic-placement refresh`: reads the node, which may wait for hardware, and writes the node file, so that no step has to.
#![forbid(unsafe_code)]

mod watch;

use super::Failure;
use super::page::Page;
use clap::ValueHint;
use nic_placement_core::config::NodeFileUse;
use nic_placement_core::discover::Root;
use nic_placement_core::node::{file, kept};
use nic_placement_sys as sys;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// read the node and write the node file, which steps read instead of asking hardware
///
/// The state and rate of an RDMA port are questions to the card's firmware. On a card that is sick one of them can take a
/// minute, in which nothing ends the process that asks. So this asks them outside of any job: at boot, by a timer, by Slurm's
/// HealthCheckProgram. A step uses the file if it was written since the system was started, not too long ago, and the devices
/// are those that it names; else it reads the node itself. The plugin trusts the file only if root wrote it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement refresh
  nic-placement refresh --watch
  nic-placement refresh --output node.json; nic-placement show --topology node.json")]
pub(super) struct Options {
    /// where to write it, instead of /run/nic-placement/node.json
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// go on: write it again within a second of a change, and regularly
    ///
    /// Changes are those of which the kernel tells: links that come up or go down, and, since Linux 6.12, RDMA devices. The state of
    /// an InfiniBand port without an interface is not among them.
    #[arg(long, help_heading = "The node's agent")]
    watch: bool,
    /// how often to write it where nothing changes (default 300)
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "watch",
        default_value = "300",
        hide_default_value = true,
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        help_heading = "The node's agent"
    )]
    every: u64,
}

pub(super) fn run(options: &Options, _: &mut Page) -> Result<(), Failure> {
    let place = options.output.clone().unwrap_or_else(|| NodeFileUse::default().path.into());
    match options.watch {
        true => watch::watch(&place, Duration::from_secs(options.every)),
        false => refresh(&place),
    }
}

fn refresh(place: &Path) -> Result<(), Failure> {
    let shown = place.display();
    let (folder, name) = match (place.parent(), place.file_name().and_then(|name| name.to_str())) {
        (Some(folder), Some(name)) if folder.as_os_str().is_empty() => (Path::new("."), name),
        (Some(folder), Some(name)) => (folder, name),
        _ => return Err(format!("`{shown}` is no file's path").into()),
    };
    let cannot = |error: io::Error| format!("cannot write `{shown}`: {error}");
    make_folder(folder).map_err(cannot)?;
    let _lock = lock(&folder.join(format!(".{name}.lock"))).map_err(cannot)?.ok_or_else(|| {
        format!("another refresh writes `{shown}` and has not ended: hardware that does not answer?")
    })?;
    // the age counts from before the first question: what is read may be as old as that
    let (node, diagnostics) = kept::make(&Root::live(), sys::seconds_since_boot(), now())?;
    diagnostics.iter().for_each(|diagnostic| super::tell(&diagnostic.to_string()));
    write(folder, name, file::to_json(&node).as_bytes()).map_err(cannot)?;
    Ok(())
}

/// The folder, readable for all; one that is there stays as it is.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().mode(0o755).create(folder)?;
    // whatever the umask said
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

/// Held until it is dropped; `None` where another process holds it.  A process that waits for hardware keeps it, so that no
/// second one comes to wait beside it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    // not through a link, which in a folder that others may write to leads anywhere
    if path.is_symlink() {
        return Err(io::Error::other(format!("`{}` is a symbolic link", path.display())));
    }
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    Ok(sys::try_lock(&file)?.then_some(file))
}

/// Whole or not at all: who reads meanwhile has the old file.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = folder.join(format!(".{name}.new"));
    // what a refresh left that was killed; the lock says that none is at it
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
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

/// The time in UTC, as `2026-11-22 02:30:01 UTC`.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    utc(since.as_secs())
}

/// Seconds since 1970 as date and time; the days by Howard Hinnant's `civil_from_days`.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_shown_as_a_date() {
        for (seconds, shown) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_795_314_601, "2026-11-22 02:30:01 UTC"),
        ] {
            assert_eq!(utc(seconds), shown);
        }
    }

    #[test]
    fn a_file_is_written_whole_readable_for_all_and_by_one_at_a_time() {
        let folder = std::env::temp_dir().join(format!("nic-placement-refresh-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        make_folder(&folder).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&folder), 0o755);
        // left by one that was killed
        fs::write(folder.join(".node.json.new"), "half").unwrap();
        for text in ["first", "second"] {
            write(&folder, "node.json", text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(folder.join("node.json")).unwrap(), text);
        }
        assert_eq!(mode(&folder.join("node.json")), 0o644);
        let place = folder.join(".node.json.lock");
        let held = lock(&place).unwrap();
        assert!(held.is_some() && lock(&place).unwrap().is_none());
        drop(held);
        assert!(lock(&place).unwrap().is_some());
        fs::remove_dir_all(&folder).unwrap();
    }
}
