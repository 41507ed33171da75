//! Files that are no files, files of another user's, and files that are too long: no step waits for them or goes by them.

use super::*;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

pub fn pipe(path: &Path) {
    let _ = fs::remove_file(path);
    fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder is ours");
    assert!(
        Command::new("mkfifo")
            .arg(path)
            .status()
            .expect("coreutils")
            .success()
    );
}

pub fn said(played: &harness::Played, words: &[&str]) -> bool {
    played
        .log()
        .iter()
        .any(|line| words.iter().all(|word| line.text.contains(word)))
}

pub fn is_root() -> bool {
    let is =
        fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is {
        println!("skipped: only root is held to root's files");
    }
    is
}

/// A step whose only description of the node is `argument`, which must be refused with these words.
macro_rules! refused {
    ($argument:expr, $words:expr) => {
        let argument = $argument;
        let played = play!(
            Step::in_context("remote")
                .arg("default=closest")
                .arg(&argument)
                .task_per_gpu()
        );
        played.assert_untouched();
        assert!(
            said(&played, &$words),
            "`{argument}`: {:?}\n{played}",
            $words
        );
    };
}

#[test]
fn what_is_no_file_is_named_and_no_step_waits_for_it() {
    let folder = private_folder("no-files");
    let (fifo, socket) = (folder.join("fifo"), folder.join("socket"));
    pipe(&fifo);
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    refused!(
        format!("topology={}", fifo.display()),
        ["fifo` is a named pipe: expected a regular file"]
    );
    refused!(
        format!("topology={}", socket.display()),
        ["socket` is a socket: expected a regular file"]
    );
    refused!(
        "topology=/dev/zero".to_string(),
        ["`/dev/zero` is a character device: expected a regular file"]
    );
    refused!(
        format!("topology={}", folder.display()),
        ["is a directory: expected a regular file"]
    );
    refused!(
        format!("sysfs={}", fifo.display()),
        ["fifo` is a named pipe: expected a directory"]
    );
}

#[test]
fn a_pipe_or_a_circle_of_links_below_sysfs_costs_what_it_stands_for() {
    let tree = harness::own_dgx_h100("pipes-below-sysfs");
    let node = tree.join("sys/devices/system/node/node0");
    let step = || {
        Step::in_context("remote")
            .sysfs(&tree)
            .arg("default=closest")
            .task_per_gpu()
    };
    play!(step()).assert_nearest_nics();
    pipe(&node.join("distance"));
    pipe(&tree.join("proc/net/route"));
    pipe(&tree.join("sys/devices/virtual/dmi/id/product_name"));
    let circle = tree.join("sys/class/infiniband/mlx5_99");
    symlink("mlx5_99", &circle).unwrap();
    let played = play!(step());
    played.assert_nearest_nics();
    assert!(
        said(&played, &["node0/distance`", "named pipe"]),
        "{played}"
    );
}

#[test]
fn a_pipe_as_a_configuration_file_costs_nothing() {
    let home = private_folder("pipes-at-home");
    pipe(&home.join(".nccl.conf"));
    let whole = play!(default_on().task_per_gpu());
    for variable in ["HOME", "NCCL_CONF_FILE"] {
        let value = if variable == "HOME" {
            home.clone()
        } else {
            home.join(".nccl.conf")
        };
        let played = play!(
            default_on()
                .env(&format!("{variable}={}", value.display()))
                .task_per_gpu()
        );
        played.assert_nearest_nics();
        assert_eq!(
            played.env(0, "NCCL_IB_HCA"),
            whole.env(0, "NCCL_IB_HCA"),
            "{played}"
        );
    }
}

#[test]
fn a_users_configuration_that_is_too_long_to_be_read_keeps_nccls_list_from_being_set() {
    let home = private_folder("long-at-home");
    let conf = home.join(".nccl.conf");
    let step = |options: &str| {
        default_on()
            .option(options)
            .env(&format!("HOME={}", home.display()))
            .task("CUDA_VISIBLE_DEVICES=0")
    };
    let long = format!("{}NCCL_IB_HCA=mlx5_0\n", "# a remark\n".repeat(7_000));
    for (text, is_set) in [("# a remark\n", true), (long.as_str(), false)] {
        fs::write(&conf, text).unwrap();
        let played = play!(step("closest,verbose"));
        played.assert_nearest_nics();
        assert_eq!(
            played.env(0, "NCCL_IB_HCA").is_some(),
            is_set,
            "{} bytes\n{played}",
            text.len()
        );
        let why = "longer than what is read of it here, and may set it";
        assert_eq!(said(&played, &[".nccl.conf", why]), !is_set, "{played}");
    }
}

#[test]
fn a_description_that_others_may_change_is_refused_as_root() {
    if !is_root() {
        return;
    }
    let folder = private_folder("owners");
    let file = folder.join("topology.json");
    let described = nic_placement_node::platform::model("dgx-h100").expect("it is built in");
    fs::write(&file, nic_placement_formats::file::to_json(&described)).unwrap();
    let argument = format!("topology={}", file.display());
    let step = || {
        Step::in_context("remote")
            .arg("default=closest")
            .arg(&argument)
            .task_per_gpu()
    };
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap()
    };
    for good in [0o644, 0o600, 0o755] {
        mode(&file, good);
        let played = play!(step());
        assert!(!said(&played, &["others than root"]), "{good:o}\n{played}");
    }
    for bad in [0o664, 0o646, 0o666] {
        mode(&file, bad);
        refused!(
            argument.clone(),
            ["topology.json` can be written by others than root: chmod go-w"]
        );
    }
    mode(&file, 0o644);
    chown(&file, Some(65534), None).unwrap();
    refused!(
        argument.clone(),
        ["topology.json` belongs to user 65534, not to root: chown root"]
    );
}

#[test]
fn a_tree_that_others_may_change_is_refused_as_root() {
    if !is_root() {
        return;
    }
    let tree = harness::own_dgx_h100("owned-tree");
    let argument = format!("sysfs={}", tree.display());
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o777)).unwrap();
    refused!(
        argument.clone(),
        ["tree` can be written by others than root: chmod go-w"]
    );
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o755)).unwrap();
    chown(&tree, Some(65534), None).unwrap();
    refused!(
        argument,
        ["tree` belongs to user 65534, not to root: chown root"]
    );
}
