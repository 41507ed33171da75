//! Homes on file systems that answer late or never: no task waits for long, and what is not known counts as the user's own choice.

use super::*;
use files::{is_root, said};
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
        let (program, place, log) = (
            folder.join("deaf"),
            folder.join("place"),
            folder.join("log"),
        );
        fs::create_dir(&place).expect("the folder is ours");
        let flags = ["-o".as_ref(), program.as_os_str()];
        let output = harness::compile(flags, &harness::manifest_path("tests/slurm/deaf.c"), []);
        assert!(
            output.status.success(),
            "deaf.c does not compile:\n{}",
            harness::stderr(&output)
        );
        let mut daemon = Command::new(&program);
        daemon
            .arg(kind)
            .args([&place, &log])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
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
    let step = default_on()
        .env(&format!("HOME={}", home.display()))
        .task("CUDA_VISIBLE_DEVICES=0");
    if words.is_empty() {
        step
    } else {
        step.option(words)
    }
}

/// Plays it within so many seconds.
fn quickly(step: &Step, seconds: u64) -> Option<Played> {
    let begun = Instant::now();
    let played = step.play()?;
    assert!(
        begun.elapsed() < Duration::from_secs(seconds),
        "{:?}\n{played}",
        begun.elapsed()
    );
    Some(played)
}

/// Are there processes that began with this variable?
fn are_left(variable: &str) -> bool {
    let of = |process: fs::DirEntry| fs::read(process.path().join("environ")).unwrap_or_default();
    let mut all = fs::read_dir("/proc").expect("/proc").flatten().map(of);
    all.any(|environment| {
        environment
            .split(|byte| *byte == 0)
            .any(|each| each == variable.as_bytes())
    })
}

#[test]
fn a_file_there_that_is_named_through_the_kernels_or_a_sites_folder_holds_up_no_task() {
    let Some(deaf) = Deaf::mounted("deaf-through", "fuse", &[]) else {
        return;
    };
    let file = deaf.place.join("alice/nccl.conf");
    for through in [
        "/etc/..",
        "/sys/../",
        "/proc/net/../../..",
        "/proc/self/root",
        "/etc/./ssl/../..",
    ] {
        let named = format!("NCCL_CONF_FILE={through}{}", file.display());
        let step = default_on()
            .env(&named)
            .task("CUDA_VISIBLE_DEVICES=0")
            .option("closest,verbose");
        let played = quickly(&step, 10).expect("a compiler");
        played.assert_nothing_failed();
        assert_eq!(
            played.env(0, "NCCL_IB_HCA"),
            None,
            "`{through}` may lead to a file that sets it\n{played}"
        );
        assert_eq!(deaf.asked(), "", "`{through}`\n{played}");
    }
}

#[test]
fn a_home_on_fuse_whose_daemon_sleeps_is_asked_nothing_and_holds_up_no_task() {
    let Some(deaf) = Deaf::mounted("deaf-fuse", "fuse", &[]) else {
        return;
    };
    for home in [deaf.place.clone(), deaf.place.join("alice")] {
        for words in ["", "closest,verbose", "closest,strict"] {
            let played = quickly(&at_home(&home, words), 10).expect("a compiler");
            played.assert_nothing_failed();
            for name in ["NCCL_IB_HCA", "UCX_NET_DEVICES"] {
                assert_eq!(played.env(0, name), None, "{name}\n{played}");
            }
            let why = [".nccl.conf` may set it", "it is on a FUSE file system"];
            assert_eq!(
                said(&played, &why),
                words.contains("verbose"),
                "{words}\n{played}"
            );
        }
    }
    let file = deaf.place.join("nccl.conf");
    let named = [
        format!("NCCL_CONF_FILE={}", file.display()),
        format!("NCCL_TOPO_FILE={}", file.display()),
    ];
    let step = named.iter().fold(
        at_home(Path::new("/nowhere"), "closest,verbose"),
        |step, name| step.env(name),
    );
    let played = quickly(&step, 10).expect("a compiler");
    assert_eq!(played.env(0, "NCCL_IB_HCA"), None, "{played}");
    assert!(
        played.env(0, "UCX_NET_DEVICES").is_some(),
        "UCX reads none of them\n{played}"
    );
    assert_eq!(deaf.asked(), "");
}

#[test]
fn a_link_to_fuse_is_not_followed_and_a_home_of_this_node_loses_nothing_beside_it() {
    let Some(deaf) = Deaf::mounted("deaf-link", "fuse", &[]) else {
        return;
    };
    let home = private_folder("deaf-link-home");
    let whole = quickly(&at_home(&home, ""), 10).expect("a compiler");
    whole.assert_nearest_nics();
    assert!(whole.env(0, "NCCL_IB_HCA").is_some(), "{whole}");
    fs::write(home.join(".nccl.conf"), "NCCL_IB_HCA=mlx5_0\n").unwrap();
    let of_file = quickly(&at_home(&home, ""), 10).expect("a compiler");
    of_file.assert_nearest_nics();
    assert_eq!(of_file.env(0, "NCCL_IB_HCA"), None, "{of_file}");
    fs::remove_file(home.join(".nccl.conf")).unwrap();
    std::os::unix::fs::symlink(deaf.place.join("nccl.conf"), home.join(".nccl.conf")).unwrap();
    let linked = quickly(&at_home(&home, ""), 10).expect("a compiler");
    linked.assert_nearest_nics();
    assert_eq!(linked.env(0, "NCCL_IB_HCA"), None, "{linked}");
    assert_eq!(deaf.asked(), "");
}

#[test]
fn a_home_that_is_mounted_when_it_is_asked_for_first_loses_nothing() {
    for (text, is_set) in [
        ("", true),
        ("NCCL_DEBUG=WARN", true),
        ("NCCL_IB_HCA=mlx5_0", false),
    ] {
        let Some(deaf) = Deaf::mounted("deaf-late", "autofs", &["200", text]) else {
            return;
        };
        let played = quickly(&at_home(&deaf.place.join("alice"), "closest,verbose"), 10)
            .expect("a compiler");
        played.assert_nearest_nics();
        assert_eq!(
            played.env(0, "NCCL_IB_HCA").is_some(),
            is_set,
            "{text}\n{played}"
        );
        assert_eq!(
            said(&played, &["alice/.nccl.conf` sets it"]),
            !is_set,
            "{text}\n{played}"
        );
        assert_ne!(deaf.asked(), "");
    }
}

#[test]
fn a_home_of_another_machine_that_never_answers_is_waited_for_a_second_and_no_process_is_left() {
    let Some(deaf) = Deaf::mounted("deaf-never", "autofs", &[]) else {
        return;
    };
    let step = at_home(&deaf.place.join("alice"), "closest,verbose")
        .daemon_env("PLAYED_FOR", "deaf-never");
    let played = quickly(&step, 10).expect("a compiler");
    played.assert_nothing_failed();
    for name in ["NCCL_IB_HCA", "UCX_NET_DEVICES"] {
        assert_eq!(played.env(0, name), None, "{name}\n{played}");
    }
    assert!(
        said(
            &played,
            &[".nccl.conf` may set it", "did not answer within a second"]
        ),
        "{played}"
    );
    assert_eq!(
        deaf.asked().lines().count(),
        1,
        "one look, not one for each file"
    );
    assert!(!are_left("PLAYED_FOR=deaf-never"));
}
