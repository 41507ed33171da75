//! `refresh` with a real kernel: what `check` says of the file, one refresh at a time; `--watch`: in a network namespace of its own a link goes down, and the file is written anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// Not every kernel has the first kind.
const LINK: &str =
    "{ ip link add name d0 type dummy || ip link add name d0 type veth; } 2> /dev/null";

/// A shell's line in a namespace with its own links and a /sys that shows them; `None`, and why, where there can be none.
fn namespace(line: &str) -> Option<Command> {
    // with the first process of its own a namespace loses all others
    let words = [
        "--net",
        "--mount",
        "--pid",
        "--mount-proc",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
    ];
    let line = format!("mount -t sysfs none /sys && {LINK} && {line}");
    // it ends with this thread, also where a signal ends that
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "unshare"])
        .args(words)
        .arg(line);
    let mut probe = Command::new("unshare");
    let probe = probe
        .args(words)
        .arg(format!("mount -t sysfs none /sys && {LINK}"))
        .output();
    match probe {
        Ok(output) if output.status.success() => Some(command),
        Ok(output) => {
            println!(
                "skipped: no network namespace: {}",
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
            None
        }
        Err(error) => {
            println!("skipped: no `unshare`: {error}");
            None
        }
    }
}

struct Watcher {
    child: Child,
    folder: PathBuf,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Watcher {
    /// Starts `line` in a namespace; `$W` in it is the watcher's command line, `$F` its folder.
    fn start(name: &str, line: &str, every: &str) -> Option<Watcher> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("watch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let watch = format!(
            "{} refresh --watch --every {every} --output {}",
            env!("CARGO_BIN_EXE_nic-placement"),
            folder.join("node.json").display()
        );
        let mut command = namespace(line)?;
        command
            .env("W", watch)
            .env("F", &folder)
            .stdin(Stdio::null());
        let said = fs::File::create(folder.join("said")).unwrap();
        let child = command
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .spawn()
            .unwrap();
        Some(Watcher { child, folder })
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.join("said")).unwrap_or_default()
    }

    fn written(&self, name: &str) -> Option<SystemTime> {
        fs::metadata(self.folder.join(name)).ok()?.modified().ok()
    }

    /// How long after `since` a file is there that is newer.
    fn newer(&self, since: Option<SystemTime>, patience: Duration) -> Option<Duration> {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            if self.written("node.json") > since {
                return Some(begun.elapsed());
            }
            sleep(Duration::from_millis(5));
        }
        None
    }

    fn ask(&self, for_what: &str) {
        fs::write(self.folder.join(for_what), "").unwrap();
    }
}

/// What the namespace does: a link, the watcher, and what is asked by a file.
const LINE: &str = "ip link set d0 up && { $W & } && \
    while [ ! -e $F/down ]; do sleep 0.01; done && ip link set d0 down && \
    while [ ! -e $F/gone ]; do sleep 0.01; done && ip link del d0 && wait";

#[test]
fn a_link_that_goes_down_is_in_the_file_at_once_and_nothing_else_writes_it() {
    let Some(watcher) = Watcher::start("link", LINE, "300") else {
        return;
    };
    assert!(
        watcher.newer(None, Duration::from_secs(20)).is_some(),
        "no file\n{}",
        watcher.said()
    );
    sleep(Duration::from_secs(1));
    let first = watcher.written("node.json");
    sleep(Duration::from_millis(1500));
    assert_eq!(
        watcher.written("node.json"),
        first,
        "nothing has changed\n{}",
        watcher.said()
    );
    watcher.ask("down");
    // the timer alone would write it after 300 s
    let took = watcher.newer(first, Duration::from_secs(30));
    println!("the file was written {took:?} after the link went down");
    assert!(took.is_some(), "{}", watcher.said());
}

#[test]
fn without_a_change_the_time_writes_the_file() {
    let Some(watcher) = Watcher::start("time", "$W", "1") else {
        return;
    };
    assert!(
        watcher.newer(None, Duration::from_secs(20)).is_some(),
        "no file\n{}",
        watcher.said()
    );
    for _ in 0..2 {
        let last = watcher.written("node.json");
        assert!(
            watcher.newer(last, Duration::from_secs(10)).is_some(),
            "{}",
            watcher.said()
        );
    }
}

#[test]
fn a_refresh_beside_one_that_has_not_ended_is_refused() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("refresh-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let refresh = || {
        let output = folder.join("node.json");
        let tool = env!("CARGO_BIN_EXE_nic-placement");
        Command::new(tool)
            .args(["refresh", "-o"])
            .arg(output)
            .output()
            .unwrap()
    };
    assert!(refresh().status.success());
    let lock = folder.join(".node.json.lock");
    let mut held = Command::new("flock");
    held.arg("--no-fork")
        .arg(&lock)
        .args(["sh", "-c", "echo held; exec sleep 30"]);
    let mut held = held.stdout(Stdio::piped()).spawn().expect("util-linux");
    std::io::Read::read_exact(held.stdout.as_mut().unwrap(), &mut [0; 4]).unwrap();
    let refused = refresh();
    let _ = held.kill();
    let _ = held.wait();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("another refresh writes") && said.contains("has not ended"),
        "{said}"
    );
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn check_says_from_where_a_step_has_the_node_and_how_old_that_is() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("check-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (file, lines) = (folder.join("node.json"), folder.join("plugstack.conf"));
    let tool = |arguments: &[&str]| {
        let tool = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
        let output = { tool }.args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let check = |cache: &str| {
        let line = format!(
            "optional libnic_placement.so node-file={} {cache}\n",
            file.display()
        );
        fs::write(&lines, line).unwrap();
        tool(&["check", "--plugstack", lines.to_str().unwrap()])
    };
    let said = check("");
    assert!(
        said.contains("ok node-file no RDMA device is here, whose firmware a step would ask"),
        "{said}"
    );
    tool(&["refresh", "--output", file.to_str().unwrap()]);
    let is_root = std::os::unix::fs::MetadataExt::uid(&fs::metadata(&file).unwrap()) == 0;
    let said = check("");
    match is_root {
        true => {
            assert!(
                said.contains("ok node-file a step has the node from `") && said.contains(" s old"),
                "{said}"
            )
        }
        false => assert!(said.contains("not to root: chown root"), "{said}"),
    }
    let said = check("cache=0");
    assert!(
        said.contains("note node-file `cache=0`: each step reads the node itself"),
        "{said}"
    );
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let said = check("");
    assert!(
        said.contains("warn node-file each step reads the node itself: "),
        "{said}"
    );
    fs::remove_dir_all(&folder).unwrap();
}

/// A file that the plugin, as root, would refuse is told, though the user that runs `check` may read it.
#[test]
fn check_reads_a_topology_file_as_root_would() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("owner-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (file, lines) = (folder.join("node.json"), folder.join("plugstack.conf"));
    let tool = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_nic-placement"))
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    fs::write(&file, tool(&["show", "--machine", "dgx-h100", "--json"])).unwrap();
    fs::write(
        &lines,
        format!("optional libnic_placement.so topology={}\n", file.display()),
    )
    .unwrap();
    let check = || tool(&["check", "--plugstack", lines.to_str().unwrap()]);
    let is_root = std::os::unix::fs::MetadataExt::uid(&fs::metadata(&file).unwrap()) == 0;
    if is_root {
        assert!(check().contains("node `dgx-h100`: 8 GPUs"), "{}", check());
    }
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let said = check();
    assert!(
        said.contains("warn configuration no step gets anything set: ")
            && said.contains("node.json"),
        "{said}"
    );
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_map_that_plugstack_conf_names_is_kept_beside_the_node_file() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("refresh-map-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let refresh = |arguments: &str| {
        let line = format!("optional /usr/lib/slurm/libnic_placement.so {arguments}\n");
        fs::write(folder.join("plugstack.conf"), line).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
        command
            .arg("refresh")
            .arg("--output")
            .arg(folder.join("node.json"));
        let output = command
            .arg("--plugstack")
            .arg(folder.join("plugstack.conf"))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        fs::read_to_string(folder.join("node.map-json.json")).ok()
    };
    let said = "machine=dgx-h100 set=MY_MAP={map_file:json}";
    let text = refresh(said).expect("the admin says that this node has eight GPUs");
    assert!(
        text.contains("\"format\": \"nic-placement map\"") && text.contains("\"index\": 7"),
        "{text}"
    );
    fs::remove_file(folder.join("node.map-json.json")).unwrap();
    assert_eq!(refresh("machine=dgx-h100"), None, "nobody names one");
    // the first NIC of the model that is on this node: none, and SGLang takes no map without
    refresh("machine=dgx-h100 set=MY_MAP={map_file:sglang}");
    assert!(!folder.join("node.map-sglang.json").exists());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn metrics_that_cannot_be_written_keep_no_map_from_being_kept() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("refresh-last-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let line = "optional libnic_placement.so machine=dgx-h100 set=MY_MAP={map_file:json}\n";
    fs::write(folder.join("plugstack.conf"), line).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
    command
        .arg("refresh")
        .arg("--output")
        .arg(folder.join("node.json"));
    command
        .arg("--plugstack")
        .arg(folder.join("plugstack.conf"));
    let output = command
        .arg("--textfile")
        .arg(folder.join("nowhere/node.prom"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("nowhere/node.prom`"),
        "{said}"
    );
    assert!(folder.join("node.map-json.json").exists(), "{said}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_pipe_in_the_place_of_the_lock_is_not_waited_for() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("refresh-pipe-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(folder.join(".node.json.lock"))
            .status()
            .unwrap()
            .success()
    );
    // a refresh that waits is ended, with 124
    let mut command = Command::new("timeout");
    command.args([
        "60",
        env!("CARGO_BIN_EXE_nic-placement"),
        "refresh",
        "--output",
    ]);
    let output = command.arg(folder.join("node.json")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(".node.json.lock` is no regular file: remove it"),
        "{said}"
    );
    fs::remove_dir_all(&folder).unwrap();
}

// rootless podman, Apptainer's --fakeroot: the host's root has no ID there, so its files belong to user 65534
#[test]
fn in_a_user_namespace_the_hosts_configuration_is_no_strangers() {
    let folder = std::env::temp_dir().join(format!("nic-placement-userns-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let tool = folder.join("nic-placement");
    assert!(
        Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_nic-placement"))
            .arg(&tool)
            .status()
            .unwrap()
            .success()
    );
    fs::write(folder.join("nic.conf"), "exclude=mlx5_0\n").unwrap();
    let line = format!(
        "optional libnic_placement.so conf={}\n",
        folder.join("nic.conf").display()
    );
    fs::write(folder.join("plugstack.conf"), line).unwrap();
    if std::os::unix::fs::MetadataExt::uid(&fs::metadata(&folder).unwrap()) != 0 {
        return println!("skipped: only root has files that are root's");
    }
    let said = |map: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "unshare",
            ])
            .args(map);
        command
            .arg(&tool)
            .args(["exec", "verbose", "--plugstack"])
            .arg(folder.join("plugstack.conf"));
        let output = command
            .args(["--", "true"])
            .current_dir("/")
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (!said.contains("unshare: ")).then_some(said)
    };
    match (said(&["--map-root-user"]), said(&["--user"])) {
        (Some(root), Some(other)) => {
            assert!(
                root.contains("task 0 ") && !root.contains("without placement"),
                "{root}"
            );
            assert!(
                other.contains("task 0 ") && !other.contains("without placement"),
                "{other}"
            );
        }
        _ => println!("skipped: users may make no user namespace here"),
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_usual_folder_is_made_and_no_other() {
    let line = "mount -t tmpfs none /run && $T refresh && test -s /run/nic-placement/node.cache && \
        ! $T refresh -o /run/other/node.json && test ! -e /run/other";
    let Some(mut command) = namespace(line) else {
        return;
    };
    let output = command
        .env("T", env!("CARGO_BIN_EXE_nic-placement"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("the folder `/run/other` does not exist"),
        "{output:?}"
    );
}
