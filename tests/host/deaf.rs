//! Homes on file systems that answer late or never: no task waits for long, and what is not known counts as the user's own choice.

use super::*;
use files::is_root;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A file system of tests/slurm/deaf.c, gone when this is dropped.
struct Deaf {
    daemon: Child,
    place: PathBuf,
    log: PathBuf,
}

impl Deaf {
    /// `None` where it cannot be mounted.
    fn mounted(name: &str, kind: &str, words: &[&str]) -> Option<Deaf> {
        harness::c_compiler().filter(|_| is_root())?;
        let folder = private_folder(name);
        let [program, place, log] = ["deaf", "place", "log"].map(|name| folder.join(name));
        fs::create_dir(&place).expect("the folder is ours");
        let flags = ["-o".as_ref(), program.as_os_str()];
        let output = harness::compile(flags, &harness::manifest_path("tests/slurm/deaf.c"), []);
        assert!(output.status.success(), "{}", harness::stderr(&output));
        let mut daemon = Command::new(&program);
        daemon.arg(kind).args([&place, &log]).args(words);
        daemon.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut daemon = daemon.spawn().expect("it was compiled");
        let mut line = String::new();
        let said = daemon.stdout.take().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).expect("a pipe");
        let deaf = Deaf { daemon, place, log };
        if line != "mounted\n" {
            println!("skipped: no `{kind}` can be mounted here");
            return None;
        }
        Some(deaf)
    }

    /// What it was asked.
    fn asked(&self) -> String {
        fs::read_to_string(&self.log).expect("its log")
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        drop(self.daemon.stdin.take());
        let _ = self.daemon.wait();
    }
}

fn at_home(home: &Path, words: &str) -> Step {
    on(words)
        .env(&format!("HOME={}", home.display()))
        .with("--gpu 0")
}

/// Plays it within ten seconds.
fn quickly(step: &Step) -> Played {
    let begun = Instant::now();
    let played = step.play();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}\n{played}");
    played
}

/// Are there processes that began with this variable?
fn are_left(variable: &str) -> bool {
    let of = |process: fs::DirEntry| fs::read(process.path().join("environ")).unwrap_or_default();
    let mut all = fs::read_dir("/proc").expect("/proc").flatten().map(of);
    all.any(|environment| {
        let mut parts = environment.split(|byte| *byte == 0);
        parts.any(|each| each == variable.as_bytes())
    })
}

const VERBOSE: &str = "--option closest,verbose";
const LISTS: [&str; 2] = ["NCCL_IB_HCA", "UCX_NET_DEVICES"];

#[test]
fn a_file_there_that_is_named_through_the_kernels_or_a_sites_folder_holds_up_no_task() {
    let deaf = Deaf::mounted("deaf-through", "fuse", &[]);
    let Some(deaf) = deaf else { return };
    let file = deaf.place.join("alice/nccl.conf");
    let all = "/etc/.. /sys/../ /proc/net/../../.. /proc/self/root /etc/./ssl/../..";
    for through in all.split(' ') {
        let named = format!("NCCL_CONF_FILE={through}{}", file.display());
        let played = quickly(&on(VERBOSE).env(&named).with("--gpu 0"));
        // it may lead to a file that sets it
        played.ok().gets(0, "-NCCL_IB_HCA");
        assert_eq!(deaf.asked(), "", "{played}");
    }
}

#[test]
fn a_home_on_fuse_whose_daemon_sleeps_is_asked_nothing_and_holds_up_no_task() {
    let deaf = Deaf::mounted("deaf-fuse", "fuse", &[]);
    let Some(deaf) = deaf else { return };
    for home in [deaf.place.clone(), deaf.place.join("alice")] {
        for words in ["", VERBOSE, "--option closest,strict"] {
            let played = quickly(&at_home(&home, words));
            played.ok().lacks(0, &LISTS);
            let why = [".nccl.conf` may set it", "on a FUSE file system"];
            assert_eq!(played.said(&why), words == VERBOSE, "{played}");
        }
    }
    let file = deaf.place.join("nccl.conf");
    let named =
        ["NCCL_CONF_FILE", "NCCL_TOPO_FILE"].map(|name| format!("{name}={}", file.display()));
    let step = at_home(Path::new("/nowhere"), VERBOSE);
    let step = step.env(&named[0]).env(&named[1]);
    let played = quickly(&step);
    // UCX reads none of them
    let set = LISTS.map(|name| played.env(0, name).is_some());
    assert_eq!(set, [false, true], "{played}");
    assert_eq!(deaf.asked(), "");
}

#[test]
fn a_link_to_fuse_is_not_followed_and_a_home_of_this_node_loses_nothing_beside_it() {
    let deaf = Deaf::mounted("deaf-link", "fuse", &[]);
    let Some(deaf) = deaf else { return };
    let home = private_folder("deaf-link-home");
    let conf = home.join(".nccl.conf");
    let has_list = || {
        let played = quickly(&at_home(&home, ""));
        played.near().env(0, "NCCL_IB_HCA").is_some()
    };
    assert!(has_list());
    fs::write(&conf, "NCCL_IB_HCA=mlx5_0\n").unwrap();
    assert!(!has_list());
    fs::remove_file(&conf).unwrap();
    std::os::unix::fs::symlink(deaf.place.join("nccl.conf"), &conf).unwrap();
    assert!(!has_list());
    assert_eq!(deaf.asked(), "");
}

#[test]
fn a_home_that_is_mounted_when_it_is_asked_for_first_loses_nothing() {
    for (text, is_set) in [
        ("", true),
        ("NCCL_DEBUG=WARN", true),
        ("NCCL_IB_HCA=mlx5_0", false),
    ] {
        let deaf = Deaf::mounted("deaf-late", "autofs", &["200", text]);
        let Some(deaf) = deaf else { return };
        let played = quickly(&at_home(&deaf.place.join("alice"), VERBOSE));
        let found = played.near().env(0, "NCCL_IB_HCA").is_some();
        assert_eq!(found, is_set, "{played}");
        let found = played.said(&["alice/.nccl.conf` sets it"]);
        assert_eq!(found, !is_set, "{played}");
        assert_ne!(deaf.asked(), "");
    }
}

#[test]
fn a_home_of_another_machine_that_never_answers_is_waited_for_a_second_and_no_process_is_left() {
    let deaf = Deaf::mounted("deaf-never", "autofs", &[]);
    let Some(deaf) = deaf else { return };
    let step = at_home(&deaf.place.join("alice"), VERBOSE);
    let played = quickly(&step.daemon_env("PLAYED_FOR", "deaf-never"));
    let why = [".nccl.conf` may set it", "answer within a second"];
    played.ok().lacks(0, &LISTS).says(&why);
    // one look, not one for each file
    assert_eq!(deaf.asked().lines().count(), 1);
    assert!(!are_left("PLAYED_FOR=deaf-never"));
}
