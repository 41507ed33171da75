//! The node file: a step uses it where it is the node as it is, asks no hardware then, and says else why it does not.

use super::*;
use nic_placement_core::topology::LinkLayer;
use node::{Node, uptime};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::process::Command;

fn said(played: &harness::Played, level: &str, words: &[&str]) -> bool {
    let lines = played.log().into_iter().filter(|line| line.level == level);
    lines
        .into_iter()
        .any(|line| words.iter().all(|word| line.text.contains(word)))
}

fn opened(played: &harness::Played) -> Vec<String> {
    let events = played.events("init_post_opt").into_iter();
    events
        .filter_map(|event| Some(event.strip_prefix("opened ")?.to_string()))
        .collect()
}

#[test]
fn a_node_without_a_file_is_read_and_that_is_no_news() {
    let node = Node::new("no-node-file");
    fs::remove_file(&node.file).unwrap();
    let played = play!(node.step());
    played.assert_nearest_nics();
    assert!(
        said(
            &played,
            "debug",
            &["there is no node file", "the node is read"]
        ),
        "{played}"
    );
    assert!(!said(&played, "info", &["node file"]), "{played}");
    assert!(
        opened(&played)
            .iter()
            .any(|path| path.ends_with("/ports/1/rate")),
        "{played}"
    );
}

/// Slurm calls the plugin's first hook in slurmd too, once when it starts.
#[test]
fn slurmd_says_once_that_no_node_file_is_there_where_steps_would_ask_rdma_devices() {
    let node = Node::new("slurmd");
    let in_slurmd = || {
        let step = Step::in_context("slurmd").arg(&format!("node-file={}", node.file.display()));
        step.word("--root", node.tree.to_str().unwrap())
    };
    let warned =
        |played: &harness::Played| said(played, "info", &["no node file `", "` yet: until"]);
    let played = play!(in_slurmd());
    assert!(!warned(&played), "there is one\n{played}");
    fs::remove_file(&node.file).unwrap();
    let played = play!(in_slurmd());
    assert!(warned(&played) && played.log().len() == 1, "{played}");
    for quiet in ["cache=0", "disable", "conf=/etc/elsewhere.conf"] {
        let played = play!(in_slurmd().arg(quiet));
        assert!(!warned(&played), "{quiet}\n{played}");
    }
    fs::remove_dir_all(node.tree.join("sys/class/infiniband")).unwrap();
    let played = play!(in_slurmd());
    assert!(!warned(&played), "no RDMA device\n{played}");
}

#[test]
fn with_the_file_every_task_gets_the_same_and_no_port_is_asked() {
    let node = Node::new("node-file");
    let read = play!(node.step().arg("cache=0"));
    read.assert_nearest_nics();
    let node = node.without_ports();
    let kept = play!(node.step());
    kept.assert_nearest_nics();
    for task in 0..8 {
        assert_eq!(kept.whole_env(task), read.whole_env(task), "task {task}");
    }
    assert!(
        said(
            &kept,
            "debug",
            &["the node from `", "node.cache`, which is", "s old"]
        ),
        "{kept}"
    );
    let opened = opened(&kept);
    let asks_firmware =
        |path: &&String| path.contains("/ports/") || path.contains("/infiniband/mlx5");
    assert_eq!(opened.iter().find(asks_firmware), None, "{kept}");
    // nor is there a GPU whose driver is asked
    assert_eq!(
        opened.iter().find(|path| path.contains("/proc/driver")),
        None,
        "{kept}"
    );
    println!("opened with the file: {opened:?}");
}

#[test]
fn cache_0_never_reads_the_file() {
    let node = Node::new("cache-0");
    fs::write(&node.file, "broken").unwrap();
    let played = play!(node.step().arg("cache=0"));
    played.assert_nearest_nics();
    assert!(!played.to_string().contains("node file"), "{played}");
}

#[test]
fn a_file_that_is_not_of_this_node_as_it_is_is_named_and_the_node_is_read() {
    type Case<'c> = (&'c str, &'c dyn Fn(&Node), &'c str);
    let cases: [Case; 6] = [
        (
            "other-boot",
            &|node| {
                let other = "00000000-0000-4000-8000-000000000000";
                node.edit(|kept| kept.stamp.boot_id = other.to_string());
            },
            "was written before this system was started",
        ),
        (
            "other-device",
            &|node| {
                let class = node.tree.join("sys/class/infiniband");
                fs::rename(class.join("mlx5_2"), class.join("mlx5_22")).unwrap();
            },
            "`/sys/class/infiniband/mlx5_22` is new",
        ),
        (
            "device-gone",
            &|node| fs::remove_file(node.tree.join("sys/class/infiniband/mlx5_2")).unwrap(),
            "`/sys/class/infiniband/mlx5_2` is gone",
        ),
        (
            "truncated",
            &|node| {
                let bytes = fs::read(&node.file).unwrap();
                fs::write(&node.file, &bytes[..bytes.len() / 2]).unwrap();
            },
            "it is damaged: its checksum is that of other bytes",
        ),
        (
            "unknown-version",
            &Node::age_version,
            "it is a node file of version `99.0.0-1`, expected `",
        ),
        (
            "empty",
            &|node| fs::write(&node.file, "").unwrap(),
            "it is no node file",
        ),
    ];
    for (name, change, why) in cases {
        let node = Node::new(name);
        change(&node);
        let played = play!(node.step());
        played.assert_nearest_nics();
        assert!(
            said(&played, "info", &[why, "; the node is read instead"]),
            "{name}: {why}\n{played}"
        );
    }
}

#[test]
fn a_device_that_was_registered_anew_under_its_name_has_the_node_read() {
    let node = Node::new("anew");
    let link = node.tree.join("sys/class/infiniband/mlx5_2");
    let target = fs::read_link(&link).unwrap();
    // beside the old one, so that it has another inode
    symlink(&target, link.with_file_name("other")).unwrap();
    fs::rename(link.with_file_name("other"), &link).unwrap();
    let played = play!(node.step());
    played.assert_nearest_nics();
    assert!(
        said(
            &played,
            "info",
            &["`/sys/class/infiniband/mlx5_2` is not what it was"]
        ),
        "{played}"
    );
}

#[test]
fn a_file_that_is_too_old_is_named_with_its_age() {
    let node = Node::new("old");
    let age = 60.min(uptime());
    node.refresh(uptime() - age);
    let played = play!(node.step().arg("cache=5"));
    played.assert_nearest_nics();
    let why = [
        "s old, and 5 s may be: a refresh that hangs?",
        "; the node is read instead",
    ];
    assert!(said(&played, "info", &why), "{played}");
    let played = play!(node.step().arg("cache=3600"));
    played.assert_nearest_nics();
    assert!(said(&played, "debug", &["the node from `"]), "{played}");
}

#[test]
fn what_is_no_file_of_roots_is_not_read_and_no_step_waits_for_it() {
    let node = Node::new("no-file");
    let kept = node.file.with_file_name("kept.json");
    fs::rename(&node.file, &kept).unwrap();
    symlink(&kept, &node.file).unwrap();
    let refused = |why: &str| {
        let played = node.step().play()?;
        played.assert_nearest_nics();
        assert!(
            said(&played, "info", &[why, "; the node is read instead"]),
            "{why}\n{played}"
        );
        Some(())
    };
    refused("node.cache` is a symbolic link: expected a regular file");
    fs::remove_file(&node.file).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&node.file)
            .status()
            .unwrap()
            .success()
    );
    refused("node.cache` is a named pipe: expected a regular file");
    fs::remove_file(&node.file).unwrap();
    fs::create_dir(&node.file).unwrap();
    refused("node.cache` is a directory: expected a regular file");
    fs::remove_dir(&node.file).unwrap();
    if !files::is_root() {
        return;
    }
    fs::rename(&kept, &node.file).unwrap();
    for mode in [0o664, 0o646] {
        fs::set_permissions(&node.file, fs::Permissions::from_mode(mode)).unwrap();
        refused("node.cache` can be written by others than root: chmod go-w");
    }
    fs::set_permissions(&node.file, fs::Permissions::from_mode(0o644)).unwrap();
    chown(&node.file, Some(65534), None).unwrap();
    refused("node.cache` belongs to user 65534, not to root: chown root");
}

#[test]
fn a_described_node_is_confirmed_by_the_file_too() {
    let node = Node::new("described").without_ports();
    let played = play!(node.step().arg("machine=dgx-h100"));
    played.assert_nearest_nics();
    assert_eq!(
        opened(&played).iter().find(|path| path.contains("/ports/")),
        None,
        "{played}"
    );
}

#[test]
fn a_roce_link_that_went_down_since_is_not_used_and_an_infiniband_port_is_as_the_file_says() {
    let node = Node::new("links");
    node.edit(|kept| {
        let is_infiniband = kept
            .topology
            .nics
            .iter()
            .any(|nic| nic.ports[0].link_layer == LinkLayer::InfiniBand);
        assert!(is_infiniband, "the model's fabric");
    });
    let place = |path: &str| node.tree.join("sys/class").join(path);
    // makes RoCE of it
    for name in fs::read_dir(place("infiniband")).unwrap() {
        let name = name.unwrap().file_name().into_string().unwrap();
        let port = place(&format!("infiniband/{name}/ports/1"));
        fs::write(port.join("link_layer"), "Ethernet\n").unwrap();
        let device =
            fs::canonicalize(place(&format!("infiniband/{name}/device"))).unwrap_or_else(|_| {
                fs::canonicalize(place(&format!("infiniband/{name}")))
                    .unwrap()
                    .join("../..")
            });
        let interface = format!("net_{name}");
        let own = device.join("net").join(&interface);
        let _ = fs::remove_dir_all(device.join("net"));
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("operstate"), "up\n").unwrap();
        fs::create_dir_all(place("net")).unwrap();
        let _ = fs::remove_file(place(&format!("net/{interface}")));
        symlink(&own, place(&format!("net/{interface}"))).unwrap();
    }
    node.refresh(uptime());
    let up = play!(node.step());
    up.assert_nothing_failed();
    assert_eq!(
        up.env(0, "UCX_NET_DEVICES")
            .as_deref()
            .map(|nics| nics.starts_with("mlx5_0:1")),
        Some(true),
        "{up}"
    );
    fs::write(
        fs::canonicalize(place("net/net_mlx5_0"))
            .unwrap()
            .join("operstate"),
        "down\n",
    )
    .unwrap();
    let down = play!(node.step());
    down.assert_nothing_failed();
    assert!(
        said(
            &down,
            "info",
            &["`mlx5_0` port 1: the link of `net_mlx5_0` is down"]
        ),
        "{down}"
    );
    let nics = down.env(0, "UCX_NET_DEVICES").unwrap_or_default();
    assert!(!nics.contains("mlx5_0:1"), "{nics}\n{down}");
    assert_eq!(
        opened(&down).iter().find(|path| path.contains("/ports/")),
        None,
        "{down}"
    );
}

#[test]
fn no_line_is_made_that_slurms_log_drops_and_warnings_are_told() {
    let node = Node::new("quiet-log");
    node.age_version();
    let kinds = |level: &str| {
        let played = node.step().word("--log-level", level).play()?;
        let lines = played.log();
        let told =
            ["info", "verbose", "debug"].map(|kind| lines.iter().any(|line| line.level == kind));
        let is_in_vain = played.to_string().contains("dropped: debug");
        Some((told, is_in_vain))
    };
    let Some(at_info) = kinds("3") else { return };
    assert_eq!(
        at_info,
        ([true, false, false], false),
        "a warning, and no line in vain"
    );
    assert_eq!(kinds("4"), Some(([true, true, false], false)));
    assert_eq!(kinds("5"), Some(([true, true, true], false)));
    assert_eq!(kinds("2"), Some(([false, false, false], false)));
}
