//! plugstack.conf as Slurm reads it (spank(8), src/common/spank.c): its lines in order, included files among them.

use crate::caller::callers_author;
use nic_placement_core::config::conf::ConfLine;
use nic_placement_core::config::{Admin, Conf, PluginLine};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::policy::pattern::glob;
use nic_placement_node::discover::Root;
use nic_placement_node::discover::root::{self, Author, Obstacle};
use nic_placement_process::admin::{self, Found};
use nic_placement_sys as sys;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const MOST_DEPTH: usize = 8;
/// Files in all, at most: patterns of `include` multiply.
const MOST_FILES: usize = 256;
const MOST_BYTES: usize = 1024 * 1024;

/// The admin's settings for a step of this partition, and whether a line loads the plugin: by the
/// configuration file and the plugin's lines in this file, or in the one that Slurm reads.
pub fn admin(
    file: Option<&Path>,
    partition: Option<&str>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> (Found, bool) {
    let mut lines = read(&file.map_or_else(|| place(variable), Path::to_path_buf)).lines;
    lines.retain(PluginLine::is_ours);
    let arguments = lines
        .iter()
        .flat_map(|line| &line.arguments)
        .map(String::as_str);
    // `nic-placement check` tells the admin what is wrong with them; a process of root's takes
    // only a file of root's
    (
        admin::find(
            arguments,
            || partition.map(str::to_string),
            callers_author(),
        ),
        !lines.is_empty(),
    )
}

/// Faults in all lines of the configuration file at `path`; only lines for `node` refuse placement.
pub fn check_conf(conf: &Conf, path: &str, node: &str) -> Vec<Diagnostic> {
    let of_line = |line: &ConfLine| {
        let is_here = line.is_for_node(node);
        let findings = Admin::default().take_layer(line.audience().level(), line.arguments(path));
        findings.into_iter().map(move |found| Diagnostic {
            refuses: found.refuses && is_here,
            ..found
        })
    };
    conf.lines.iter().flat_map(of_line).collect()
}

/// slurm.conf: of `SLURM_CONF`, else in its usual place, else where a configless slurmd keeps it
/// (slurm.conf(5), "Configless"; src/common/fetch_config.c), else the running slurmd's, else where
/// builds from source have it.
fn slurm_conf(
    variable: impl Fn(&str) -> Option<OsString>,
    is_there: impl Fn(&Path) -> bool,
    running: impl FnOnce() -> Option<PathBuf>,
) -> PathBuf {
    let first = |places: &[&str]| {
        places
            .iter()
            .map(PathBuf::from)
            .find(|place| is_there(place))
    };
    variable("SLURM_CONF")
        .map(PathBuf::from)
        .or_else(|| first(&[USUAL, SENT]))
        .or_else(|| running().filter(|place| is_there(place)))
        .or_else(|| first(&BUILT))
        .unwrap_or_else(|| PathBuf::from(USUAL))
}

/// The file of the slurmd that root started, `-f FILE` (slurmd(8)).  A user's process may have
/// that name, and a set-uid program belongs to root: the real user ID decides (proc_pid_status(5),
/// `Uid`).  A container's, whose path is a file in the container, has a second `NSpid`.
fn of_running_slurmd(root: &Root) -> Option<PathBuf> {
    const MOST: usize = 64 * 1024;
    root.list("proc", |name| {
        name.bytes().all(|byte| byte.is_ascii_digit())
    })
    .into_iter()
    .find_map(|pid| {
        let inner = format!("\nNSpid:\t{pid}\t");
        let is_slurmd = root.read(&format!("proc/{pid}/comm")).as_deref() == Some("slurmd")
            && root
                .read(&format!("proc/{pid}/status"))
                .is_some_and(|status| status.contains("\nUid:\t0\t") && !status.contains(&inner));
        let line = is_slurmd
            .then(|| root.beginning(&format!("proc/{pid}/cmdline"), MOST))
            .flatten()?;
        let mut words = line
            .split(|byte| *byte == 0)
            .filter_map(|word| std::str::from_utf8(word).ok());
        let word = words.find(|word| word.starts_with("-f"))?;
        let file = if word == "-f" {
            words.next()?
        } else {
            &word[2..]
        };
        Some(PathBuf::from(file)).filter(|file| file.is_absolute())
    })
}

/// Root alone looks for the running slurmd, outside of jobs: among 1,600 processes that takes 17
/// ms for each that `exec` places.
fn found_slurm_conf(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let is_in_job = variable("SLURM_JOB_ID").is_some();
    slurm_conf(variable, Path::is_file, || {
        (sys::is_root() && !is_in_job)
            .then(|| of_running_slurmd(&Root::live()))
            .flatten()
    })
}

/// The path of plugstack.conf: what slurm.conf says, else beside slurm.conf.
pub fn place(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let slurm_conf = found_slurm_conf(variable);
    text(&slurm_conf)
        .ok()
        .and_then(|text| value_of(&text, "PlugStackConfig"))
        .map_or(slurm_conf.with_file_name("plugstack.conf"), PathBuf::from)
}

/// The file in which a configless slurmd keeps what it was sent.
const SENT: &str = "/run/slurm/conf/slurm.conf";
/// The path of slurm.conf, unless `SLURM_CONF` names another or slurmd is configless.
const USUAL: &str = "/etc/slurm/slurm.conf";

/// In builds from source: configure's default, and one that guides name.
const BUILT: [&str; 2] = ["/usr/local/etc/slurm.conf", "/opt/slurm/etc/slurm.conf"];

/// `None` if slurm.conf does not say.
pub fn plugin_folders(variable: impl Fn(&str) -> Option<OsString>) -> Option<Vec<PathBuf>> {
    let slurm_conf = found_slurm_conf(variable);
    let folders = value_of(&text(&slurm_conf).ok()?, "PluginDir")?;
    Some(folders.split(':').map(PathBuf::from).collect())
}

fn value_of(text: &str, parameter: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split('#').next()?.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case(parameter)
            .then(|| value.trim().to_string())
    })
}

#[derive(Default)]
pub struct PluginLines {
    /// lines that load plugins, in the order in which Slurm loads them
    pub lines: Vec<PluginLine>,
    pub findings: Vec<Diagnostic>,
    pub files: Vec<PathBuf>,
    /// patterns of `include` that mean no file, each with its place
    pub unmatched: Vec<(String, String)>,
    looked_at: usize,
}

pub fn read(file: &Path) -> PluginLines {
    let mut read = PluginLines::default();
    read.include(file, 0);
    read
}

fn text(file: &Path) -> Result<String, String> {
    let bytes =
        root::read_file(file, MOST_BYTES, Author::Anyone).map_err(|unreadable| match unreadable
            .problem
        {
            problem @ Obstacle::System(_) => problem.to_string(),
            problem => format!("it {problem}"),
        })?;
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_string())
}

impl PluginLines {
    fn include(&mut self, file: &Path, depth: usize) {
        let shown = file.display().to_string();
        self.looked_at += 1;
        if self.looked_at > MOST_FILES {
            // said once: what stands behind it is no news
            if self.looked_at == MOST_FILES + 1 {
                self.findings.push(Diagnostic::new(
                    shown,
                    format!(
                        "more than {MOST_FILES} files include each other: the others are not read"
                    ),
                ));
            }
            return;
        }
        if depth > MOST_DEPTH {
            return self
                .findings
                .push(Diagnostic::new(shown, "files include each other: not read"));
        }
        let text = match text(file) {
            Ok(text) => text,
            Err(problem) => return self.findings.push(Diagnostic::new(shown, problem)),
        };
        self.files.push(file.to_path_buf());
        for (number, line) in text.lines().enumerate() {
            let place = format!("{shown}:{}", number + 1);
            let mut words = line
                .split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace();
            match (words.next(), words.next()) {
                (None, _) => {}
                (Some("include"), Some(pattern)) => {
                    let files = matches(&file.parent().unwrap_or(Path::new("/")).join(pattern));
                    if files.is_empty() {
                        self.unmatched.push((place, pattern.to_string()));
                    }
                    files.iter().for_each(|file| self.include(file, depth + 1));
                }
                (Some(kind @ ("required" | "optional")), Some(path)) => {
                    self.lines.push(PluginLine {
                        place,
                        is_required: kind == "required",
                        path: PathBuf::from(path),
                        arguments: words.map(str::to_string).collect(),
                        is_there: None,
                    })
                }
                (Some(word), _) => self.findings.push(Diagnostic::new(
                    place,
                    format!(
                        "`{}`: expected `optional PATH`, `required PATH` or `include PATTERN`",
                        word.escape_debug()
                    ),
                )),
            }
        }
    }
}

/// The files of a pattern, in the order of glob(3): by name.
fn matches(pattern: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy();
    let Ok(place) = std::path::absolute(folder) else {
        return Vec::new();
    };
    let place = place.to_string_lossy();
    let found = Root::live().list(&place, |found| {
        // as in glob(3), a star does not mean hidden files
        glob(name.as_bytes(), found.as_bytes())
            && (!found.starts_with('.') || name.starts_with('.'))
    });
    found.into_iter().map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that goes with the test.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let name = format!("nic-placement-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Place(path)
        }

        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn every_line_of_the_file_can_be_checked_for_all_its_readers() {
        let text = "PartitionName=p topology=/a\nNodeName=x defualt=off\ndefault=closest\n";
        let (conf, _) = Conf::parse(text.as_bytes(), "/c").unwrap();
        let [first, second] = check_conf(&conf, "/c", "n").try_into().unwrap();
        // `x` is elsewhere
        assert_eq!((first.refuses, second.refuses), (true, false));
        let [first, second] = [first, second].map(|found| found.to_string());
        assert!(first.contains("/c:1: topology=/a"), "{first}");
        assert!(second.contains("/c:2: defualt=off"), "{second}");
        assert!(second.contains("did you mean `default`?"), "{second}");
    }

    #[test]
    fn slurm_conf_is_found_and_says_where_plugstack_conf_is_which_is_else_beside_it() {
        let site = "/opt/site/slurm.conf";
        let (usual, sent) = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf");
        let named = Some("/site/slurm.conf");
        for (named, there, expected) in [
            (named, &[usual, sent][..], "/site/slurm.conf"),
            (None, &[usual, sent], usual),
            (None, &[sent], sent),
            (None, &[site, BUILT[0]], site),
            (None, &[BUILT[1]], BUILT[1]),
            (None, &[], usual),
        ] {
            let is_there = |path: &Path| there.iter().any(|there| path == Path::new(there));
            let named = |_: &str| named.map(OsString::from);
            let found = slurm_conf(named, is_there, || Some(site.into()));
            assert_eq!(found, Path::new(expected));
        }
        let folder = Place::new("plugstack");
        let conf = folder.0.join("slurm.conf").into_os_string();
        let place = || place(|name| (name == "SLURM_CONF").then(|| conf.clone()));
        assert_eq!(place(), folder.0.join("plugstack.conf"));
        let text = "ClusterName=x\nplugstackconfig = /elsewhere.conf # as ever\n";
        folder.file("slurm.conf", text);
        assert_eq!(place(), Path::new("/elsewhere.conf"));
    }

    #[test]
    fn the_running_slurmd_is_one_that_root_started() {
        let place = Place::new("slurmd");
        let process = |pid: u32, comm: &str, line: &str, user: u32| {
            place.file(&format!("proc/{pid}/comm"), comm);
            place.file(&format!("proc/{pid}/cmdline"), line);
            // real, effective, saved and file system's user: the last three of a set-uid program are its owner
            let status = format!("Name:\tslurmd\nUid:\t{user}\t0\t0\t0\nNSpid:\t{pid}\n");
            place.file(&format!("proc/{pid}/status"), &status);
        };
        let found = || of_running_slurmd(&Root::directory(&place.0, Author::Anyone).unwrap());
        let users = "slurmd\0-D\0-f\0/home/user/slurm.conf\0";
        process(7, "slurmd\n", users, 1000);
        assert_eq!(found(), None, "a user's set-uid process");
        process(8, "slurmd\n", "slurmd\0-D\0", 0);
        process(9, "sleep\n", "sleep\0-f\0/x\0", 0);
        assert_eq!(found(), None);
        process(8, "slurmd\n", "slurmd\0-D\0-f/opt/slurm.conf\0", 0);
        assert_eq!(found(), Some(PathBuf::from("/opt/slurm.conf")));
        place.file(
            "proc/8/status",
            "Name:\tslurmd\nUid:\t0\t0\t0\t0\nNSpid:\t8\t1\n",
        );
        assert_eq!(found(), None, "a container's");
    }

    #[test]
    fn a_pipe_is_named_and_not_waited_for() {
        let folder = Place::new("plugstack-pipe");
        let pipe = folder.0.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let (answer, answered) = std::sync::mpsc::channel();
        let file = pipe.clone();
        std::thread::spawn(move || {
            let beside = place(|_| Some(file.clone().into_os_string()));
            answer.send((beside, read(&file).findings))
        });
        let found = answered.recv_timeout(std::time::Duration::from_secs(30));
        let (beside, findings) = found.expect("it waits");
        assert_eq!(beside, pipe.with_file_name("plugstack.conf"));
        let start = format!("`{}`: it is a named pipe", pipe.display());
        assert!(findings[0].to_string().starts_with(&start));
    }

    #[test]
    fn files_that_include_each_other_or_themselves_end() {
        let folder = Place::new("patterns");
        for file in 0..20 {
            folder.file(&format!("{file}.conf"), "include *.conf\n");
        }
        let itself = folder.0.join("circle");
        folder.file("circle", &format!("include {}\n", itself.display()));
        for (file, part) in [
            (folder.0.join("0.conf"), "more than 256 files include"),
            (itself, "files include each other: not"),
        ] {
            let found = read(&file);
            assert!(found.lines.is_empty());
            let last = found.findings.last().unwrap().to_string();
            assert!(last.contains(part), "{last}");
        }
    }
}
