//! The node file: a step uses it where it is the node as it is, asks no hardware then, and says else why it does not.

use super::files::{is_root, mode, pipe};
use super::*;
use nic_placement_core::topology::LinkLayer;
use node::{Node, uptime};
use std::os::unix::fs::{chown, symlink};

const READ: &str = "; the node is read instead";

fn opens(played: &Played, part: &str) -> bool {
    let all = played.opened("init_post_opt");
    all.iter().any(|path| path.contains(part))
}

#[test]
fn a_node_without_a_file_is_read_and_that_is_no_news_nor_is_one_that_is_not_to_be_read() {
    let node = Node::new("no-node-file");
    fs::write(&node.file, "broken").unwrap();
    let played = node.step().arg("cache=0").play();
    assert!(!played.near().said(&["node file"]), "{played}");
    fs::remove_file(&node.file).unwrap();
    let played = node.step().play();
    played.near();
    played.says_at("debug", &["there is no node file", "the node is read"]);
    assert!(!played.said_at("info", &["node file"]), "{played}");
    assert!(opens(&played, "/ports/1/rate"), "{played}");
}

/// Slurm calls the plugin's first hook in slurmd too, once when it starts.
#[test]
fn slurmd_says_once_that_no_node_file_is_there_where_steps_would_ask_rdma_devices() {
    let node = Node::new("slurmd");
    let warns = |words: &str| {
        let step = Step::in_context("slurmd").word("--root", &node.tree);
        let step = step.arg(&format!("node-file={}", node.file.display()));
        let played = step.with(words).play();
        let warned = played.said_at("info", &["no node file `", "` yet: until"]);
        assert!(!warned || played.log().len() == 1, "{played}");
        warned
    };
    assert!(!warns(""));
    fs::remove_file(&node.file).unwrap();
    assert!(warns(""));
    for quiet in ["cache=0", "disable", "conf=/etc/elsewhere.conf"] {
        assert!(!warns(&format!("--arg {quiet}")), "{quiet}");
    }
    fs::remove_dir_all(node.tree.join("sys/class/infiniband")).unwrap();
    assert!(!warns(""), "no RDMA device");
}

#[test]
fn with_the_file_every_task_gets_the_same_and_no_port_is_asked() {
    let node = Node::new("node-file");
    let read = node.step().arg("cache=0").play();
    read.near();
    let node = node.without_ports();
    let kept = node.step().play();
    let read_from = ["the node from `", "node.cache`, which is", "s old"];
    kept.near().says_at("debug", &read_from);
    for task in 0..8 {
        assert_eq!(kept.whole_env(task), read.whole_env(task), "task {task}");
    }
    // no firmware, nor a GPU's driver
    for part in ["/ports/", "/infiniband/mlx5", "/proc/driver"] {
        assert!(!opens(&kept, part), "{part}\n{kept}");
    }
    // a described node is confirmed by the file too
    let described = node.step().arg("machine=dgx-h100").play();
    assert!(!opens(described.near(), "/ports/"), "{described}");
}

#[test]
fn a_file_that_is_not_of_this_node_as_it_is_is_named_and_the_node_is_read() {
    let class = "sys/class/infiniband";
    let other_boot = |node: &Node| {
        let other = "00000000-0000-4000-8000-000000000000";
        node.edit(|kept| kept.stamp.boot_id = other.to_string());
    };
    let other_device = |node: &Node| {
        let class = node.tree.join(class);
        fs::rename(class.join("mlx5_2"), class.join("mlx5_22")).unwrap();
    };
    let gone = |node: &Node| fs::remove_file(node.tree.join(class).join("mlx5_2")).unwrap();
    let anew = |node: &Node| {
        let link = node.tree.join(class).join("mlx5_2");
        // beside the old one, so that it has another inode
        let beside = link.with_file_name("other");
        symlink(fs::read_link(&link).unwrap(), &beside).unwrap();
        fs::rename(beside, &link).unwrap();
    };
    let truncated = |node: &Node| {
        let bytes = fs::read(&node.file).unwrap();
        fs::write(&node.file, &bytes[..bytes.len() / 2]).unwrap();
    };
    let empty = |node: &Node| fs::write(&node.file, "").unwrap();
    type Case<'c> = (&'c dyn Fn(&Node), &'c str);
    let cases: [Case; 7] = [
        (&other_boot, "before this system was started"),
        (&other_device, "`/sys/class/infiniband/mlx5_22` is new"),
        (&gone, "`/sys/class/infiniband/mlx5_2` is gone"),
        (&anew, "`/sys/class/infiniband/mlx5_2` is not what it was"),
        (&truncated, "it is damaged: its checksum"),
        (&Node::age_version, "file of version `99.0.0-1`, expected `"),
        (&empty, "it is no node file"),
    ];
    for (nth, (change, why)) in cases.into_iter().enumerate() {
        let node = Node::new(&format!("changed-{nth}"));
        change(&node);
        node.step().play().near().says_at("info", &[why, READ]);
    }
}

#[test]
fn a_file_that_is_too_old_is_named_with_its_age() {
    let node = Node::new("old");
    node.refresh(uptime() - 60.min(uptime()));
    let played = node.step().arg("cache=5").play();
    played.near();
    played.says_at("info", &["s old, and 5 s may be", READ]);
    let played = node.step().arg("cache=3600").play();
    played.near().says_at("debug", &["the node from `"]);
}

#[test]
fn what_is_no_file_of_roots_is_not_read_and_no_step_waits_for_it() {
    let node = Node::new("no-file");
    let kept = node.file.with_file_name("kept.json");
    fs::rename(&node.file, &kept).unwrap();
    symlink(&kept, &node.file).unwrap();
    let refused = |why: &[&str]| {
        let played = node.step().play();
        played.near().says_at("info", &[why, &[READ]].concat());
    };
    refused(&["node.cache` is a symbolic link: expected"]);
    pipe(&node.file);
    refused(&["node.cache` is a named pipe: expected"]);
    fs::remove_file(&node.file).unwrap();
    fs::create_dir(&node.file).unwrap();
    refused(&["node.cache` is a directory: expected"]);
    fs::remove_dir(&node.file).unwrap();
    if !is_root() {
        return;
    }
    fs::rename(&kept, &node.file).unwrap();
    for bad in [0o664, 0o646] {
        mode(&node.file, bad);
        refused(&["node.cache`", "others than root: chmod go-w"]);
    }
    mode(&node.file, 0o644);
    chown(&node.file, Some(65534), None).unwrap();
    refused(&["node.cache`", "user 65534", "chown root"]);
}

#[test]
fn a_roce_link_that_went_down_since_is_not_used_and_an_infiniband_port_is_as_the_file_says() {
    let node = Node::new("links");
    node.edit(|kept| {
        let layers = kept.topology.nics.iter().map(|nic| nic.ports[0].link_layer);
        let layers: Vec<_> = layers.collect();
        assert!(layers.contains(&LinkLayer::InfiniBand));
    });
    let place = |path: &str| node.tree.join("sys/class").join(path);
    fs::create_dir_all(place("net")).unwrap();
    // makes RoCE of it
    for name in fs::read_dir(place("infiniband")).unwrap() {
        let name = name.unwrap().file_name().into_string().unwrap();
        let port = place(&format!("infiniband/{name}/ports/1"));
        fs::write(port.join("link_layer"), "Ethernet\n").unwrap();
        let nic = place(&format!("infiniband/{name}"));
        let device = fs::canonicalize(nic.join("device"))
            .unwrap_or_else(|_| fs::canonicalize(nic).unwrap().join("../.."));
        let interface = format!("net_{name}");
        let own = device.join("net").join(&interface);
        let _ = fs::remove_dir_all(device.join("net"));
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("operstate"), "up\n").unwrap();
        let link = place(&format!("net/{interface}"));
        let _ = fs::remove_file(&link);
        symlink(&own, link).unwrap();
    }
    node.refresh(uptime());
    let first = |played: &Played| {
        let nics = played.ok().env(0, "UCX_NET_DEVICES").unwrap_or_default();
        nics.starts_with("mlx5_0:1")
    };
    assert!(first(&node.step().play()));
    let link = fs::canonicalize(place("net/net_mlx5_0")).unwrap();
    fs::write(link.join("operstate"), "down\n").unwrap();
    let down = node.step().play();
    let is_down = "`mlx5_0` port 1: the link of `net_mlx5_0` is down";
    down.says_at("info", &[is_down]);
    assert!(!first(&down) && !opens(&down, "/ports/"), "{down}");
}

#[test]
fn no_line_is_made_that_slurms_log_drops_and_warnings_are_told() {
    let node = Node::new("quiet-log");
    node.age_version();
    for (level, told) in [
        ("2", [false, false, false]),
        ("3", [true, false, false]),
        ("4", [true, true, false]),
        ("5", [true, true, true]),
    ] {
        let played = node.step().word("--log-level", level).play();
        let found = ["info", "verbose", "debug"].map(|kind| !played.told(kind).is_empty());
        assert_eq!(found, told, "{played}");
        assert!(!played.text.contains("dropped: debug"), "{played}");
    }
}
