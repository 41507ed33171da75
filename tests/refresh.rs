//! `refresh` with a real kernel: what `check` says of the file, one refresh at a time; `--watch`: in a network namespace of its own a link goes down, and the file is written anew.

#[path = "tool/answer.rs"]
mod answer;

use answer::{Answer, Place, TOOL, run, tool};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// Not every kernel has the first kind.
const LINK: &str =
    "{ ip link add name d0 type dummy || ip link add name d0 type veth; } 2> /dev/null";

/// A shell's line in a namespace with its own links and a /sys that shows them; `None`, and why, where there can be none.
fn namespace(line: &str) -> Option<Command> {
    // with the first process of its own a namespace loses all others
    let words = "unshare --net --mount --pid --mount-proc --fork --kill-child sh -c";
    let begin = format!("mount -t sysfs none /sys && {LINK}");
    // it ends with this thread, also where a signal ends that
    let ended_with_us = |line: &str| {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .args(words.split(' '))
            .arg(line);
        command
    };
    let probe = ended_with_us(&begin).output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        println!("skipped: no network namespace: {probe:?}");
        return None;
    }
    Some(ended_with_us(&format!("{begin} && {line}")))
}

fn is_root() -> bool {
    let own = fs::metadata("/proc/self").unwrap();
    std::os::unix::fs::MetadataExt::uid(&own) == 0
}

struct Watcher {
    child: Child,
    place: Place,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watcher {
    /// Starts `line` in a namespace; `$W` in it is the watcher's command line, `$F` its folder.
    /// The file is there then.
    fn start(name: &str, line: &str, every: &str) -> Option<Watcher> {
        let place = Place::new(&format!("watch-{name}"));
        let node = place.at("node.json");
        let watch = format!("{TOOL} refresh --watch --every {every} --output {node}");
        let mut command = namespace(line)?;
        command
            .env("W", watch)
            .env("F", &place.0)
            .stdin(Stdio::null());
        let said = fs::File::create(place.at("said")).unwrap();
        command.stdout(said.try_clone().unwrap()).stderr(said);
        let child = command.spawn().unwrap();
        let watcher = Watcher { child, place };
        watcher.waits(None, 20);
        Some(watcher)
    }

    fn written(&self) -> Option<SystemTime> {
        fs::metadata(self.place.at("node.json"))
            .ok()?
            .modified()
            .ok()
    }

    /// The time after `since` until a file is there that is newer, within so many seconds.
    #[track_caller]
    fn waits(&self, since: Option<SystemTime>, seconds: u64) -> Duration {
        let begun = Instant::now();
        while self.written() <= since {
            assert!(
                begun.elapsed().as_secs() < seconds,
                "{}",
                self.place.read("said")
            );
            sleep(Duration::from_millis(5));
        }
        begun.elapsed()
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
    sleep(Duration::from_secs(1));
    let first = watcher.written();
    sleep(Duration::from_millis(1500));
    assert_eq!(watcher.written(), first, "{}", watcher.place.read("said"));
    watcher.place.file("down", "");
    // the timer alone would write it after 300 s
    let took = watcher.waits(first, 30);
    println!("the file was written {took:?} after the link went down");
}

#[test]
fn without_a_change_the_time_writes_the_file() {
    let Some(watcher) = Watcher::start("time", "$W", "1") else {
        return;
    };
    for _ in 0..2 {
        watcher.waits(watcher.written(), 10);
    }
}

#[test]
fn a_refresh_beside_one_that_has_not_ended_or_whose_lock_is_a_pipe_is_refused() {
    let place = Place::new("refresh");
    let refresh = format!("refresh -o {}", place.at("node.json"));
    run(&refresh).ends(0);
    let lock = place.at(".node.json.lock");
    let mut held = Command::new("flock");
    held.args(["--no-fork", &lock, "sh", "-c", "echo held; exec sleep 30"]);
    let mut held = held.stdout(Stdio::piped()).spawn().expect("util-linux");
    std::io::Read::read_exact(held.stdout.as_mut().unwrap(), &mut [0; 4]).unwrap();
    let refused = run(&refresh);
    let _ = held.kill();
    let _ = held.wait();
    refused
        .ends(1)
        .says(&["another refresh writes", "has not ended"]);
    fs::remove_file(&lock).unwrap();
    Answer::of(Command::new("mkfifo").arg(&lock)).ends(0);
    // a refresh that waits is ended, with 124
    let mut limited = Command::new("timeout");
    let answer = Answer::of(limited.args(["60", TOOL]).args(refresh.split(' ')));
    answer
        .ends(1)
        .says(&[".node.json.lock` is no regular file"]);
}

#[test]
fn check_says_from_where_a_step_has_the_node_and_how_old_that_is() {
    let place = Place::new("check");
    let file = place.at("node.json");
    let check = |cache: &str| {
        let line = format!("optional libnic_placement.so node-file={file} {cache}\n");
        run(&format!(
            "check --plugstack {}",
            place.file("plugstack.conf", line)
        ))
    };
    check("").says(&["ok node-file no RDMA device"]);
    run(&format!("refresh --output {file}"));
    match is_root() {
        true => check("").says(&["ok node-file a step has", " s old"]),
        false => check("").says(&["not to root: chown root"]),
    };
    check("cache=0").says(&["note node-file `cache=0`: each step"]);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    check("").says(&["warn node-file each step reads"]);
}

/// A file that the plugin, as root, would refuse is told, though the user that runs `check` may read it.
#[test]
fn check_reads_a_topology_file_as_root_would() {
    let place = Place::new("owner");
    let file = place.file("node.json", run("show --machine dgx-h100 --json").out);
    let line = format!("optional libnic_placement.so topology={file}\n");
    let check = format!("check --plugstack {}", place.file("plugstack.conf", line));
    if is_root() {
        run(&check).says(&["node `dgx-h100`: 8 GPUs"]);
    }
    Place::mode(&file, 0o666);
    run(&check).says(&["warn configuration no step gets", "node.json"]);
}

#[test]
fn the_map_that_plugstack_conf_names_is_kept_beside_the_node_file() {
    let place = Place::new("refresh-map");
    let slurm_conf = place.file("slurm.conf", "");
    let refresh = |arguments: &str, more: &str| {
        let line = format!("optional /usr/lib/slurm/libnic_placement.so {arguments}\n");
        place.file("plugstack.conf", line);
        let words = format!("refresh --output {} {more}", place.at("node.json"));
        let mut tool = tool();
        tool.args(words.split_whitespace());
        Answer::of(tool.env("SLURM_CONF", &slurm_conf))
    };
    let map = place.at("node.map-json.json");
    let named = "machine=dgx-h100 set=MY_MAP={map_file:json}";
    // metrics that cannot be written keep no map from being kept
    let nowhere = place.at("nowhere/node.prom");
    let answer = refresh(named, &format!("--textfile {nowhere}"));
    assert_ne!(
        answer.says(&["nowhere/node.prom`"]).status,
        Some(0),
        "{answer}"
    );
    assert!(fs::exists(&map).unwrap(), "{answer}");
    fs::remove_file(&map).unwrap();
    refresh(named, "").ends(0);
    // the admin says that this node has eight GPUs
    let text = fs::read_to_string(&map).unwrap();
    let parts = ["\"format\": \"nic-placement map\"", "\"index\": 7"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    fs::remove_file(&map).unwrap();
    // no line names one
    refresh("machine=dgx-h100", "").ends(0);
    assert!(!fs::exists(&map).unwrap());
    // the first NIC of the model that is on this node: none, and SGLang takes no map without
    refresh("machine=dgx-h100 set=MY_MAP={map_file:sglang}", "").ends(0);
    assert!(!fs::exists(place.at("node.map-sglang.json")).unwrap());
}

// rootless podman, Apptainer's --fakeroot: the host's root has no ID there, so its files belong to user 65534
#[test]
fn in_a_user_namespace_the_hosts_configuration_is_no_strangers() {
    if !is_root() {
        return println!("skipped: this is not root");
    }
    let place = Place::new("userns");
    Answer::of(Command::new("cp").args([TOOL, &place.at("nic-placement")])).ends(0);
    let conf = place.file("nic.conf", "exclude=mlx5_0\n");
    let line = format!("optional libnic_placement.so conf={conf}\n");
    let plugstack = place.file("plugstack.conf", line);
    for map in ["--map-root-user", "--user"] {
        let mut command = Command::new("setpriv");
        let user = "--reuid=65534 --regid=65534 --clear-groups unshare";
        command
            .args(user.split(' '))
            .args([map, &place.at("nic-placement")]);
        command.args(["exec", "verbose", "--plugstack", &plugstack, "--", "true"]);
        let answer = command
            .current_dir("/")
            .output()
            .map(|output| Answer::new(map, output));
        match answer {
            Ok(answer) if !answer.err.contains("unshare: ") => {
                answer.says(&["task 0 "]).lacks(&["without placement"]);
            }
            _ => return println!("skipped: no user namespace here"),
        }
    }
}

#[test]
fn the_usual_folder_is_made_and_no_other() {
    let line = "mount -t tmpfs none /run && $T refresh && test -s /run/nic-placement/node.cache && \
        ! $T refresh -o /run/other/node.json && test ! -e /run/other";
    let Some(mut command) = namespace(line) else {
        return;
    };
    let answer = Answer::of(command.env("T", TOOL));
    answer.ends(0).says(&["the folder `/run/other` does not"]);
}
