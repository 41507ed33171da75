//! The C compiler and what comes with it, the libraries that it looks at, and folders for what it builds.
// Each of the crates that include this file uses a part of it.
#![allow(dead_code)]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};

/// A library of the workspace, by its file's name, or the file that a variable names.  Cargo leaves the newest build beside
/// the test executables, in `deps`; the copy one level up may be older, since only `cargo build` renews it.
pub fn library(name: &str, variable: &str) -> PathBuf {
    if let Some(named) = env::var_os(variable) {
        return PathBuf::from(named);
    }
    let executable = env::current_exe().expect("its path");
    let found = executable.ancestors();
    let found = found.skip(1).take(2).map(|folder| folder.join(name));
    let newest = found.filter(|file| file.is_file());
    let newest = newest.max_by_key(|file| fs::metadata(file).and_then(|m| m.modified()).ok());
    newest.unwrap_or_else(|| {
        panic!("`{name}` is built with the tests; `{variable}` names another one")
    })
}

/// The C compiler, or `None` and a line on the test's output.
pub fn c_compiler() -> Option<OsString> {
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.arg("--version");
    let answers = command.output().is_ok_and(|output| output.status.success());
    if !answers {
        println!("skipped: no C compiler `{}`", compiler.to_string_lossy());
    }
    answers.then_some(compiler)
}

/// Runs the C compiler over one file, with every warning an error.
pub fn compile<'a>(
    flags: impl IntoIterator<Item = &'a OsStr>,
    source: &Path,
    libraries: impl IntoIterator<Item = &'static str>,
) -> Output {
    Command::new(c_compiler().expect("asked for before"))
        .env("LC_ALL", "C")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror"])
        .args(flags)
        .arg(source)
        .args(libraries)
        .output()
        .expect("the compiler starts")
}

/// `(kind, name)` of the symbols that `nm` lists, or `None` where there is no `nm`.
pub fn symbols(file: &Path, which: &str) -> Option<Vec<(char, String)>> {
    let Ok(output) = Command::new("nm").args(["-D", which]).arg(file).output() else {
        println!("skipped: there is no `nm`");
        return None;
    };
    assert!(output.status.success(), "{}", stderr(&output));
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let parsed = listing.lines().filter_map(|line| {
        let mut words = line.split_whitespace().rev();
        let name = words.next()?.split('@').next()?.to_string();
        Some((words.next()?.chars().next()?, name))
    });
    Some(parsed.collect())
}

/// A fresh folder of this process, since several test executables run at once; those of processes that ended are
/// removed.
pub fn private_folder(name: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let ended =
            |pid: &str| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists();
        let file = entry.file_name();
        let of_name = file.to_str().and_then(|file| file.strip_prefix(name));
        let process = of_name.and_then(|rest| rest.strip_prefix('-'));
        if process.is_some_and(ended) {
            // another test may be removing it just now
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let folder = all.join(format!("{name}-{}", process::id()));
    // a process id comes round again
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("its folder");
    folder
}

/// A file of the package.
pub fn manifest_path(relative: &str) -> PathBuf {
    Path::new(env!("NIC_PLACEMENT_ROOT")).join(relative)
}

/// What a command said on stderr.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
