//! Files that are no files, files of another user's, and files that are too long: no step waits for them or goes by them.

use super::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

pub fn pipe(path: &Path) {
    let _ = fs::remove_file(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

pub fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub fn is_root() -> bool {
    let is = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is {
        println!("skipped: this is not root");
    }
    is
}

/// A step whose only description of the node is this one.
fn described(kind: &str, path: &Path) -> Played {
    let step = Step::in_context("remote").arg("default=closest");
    step.arg(&format!("{kind}={}", path.display())).eight()
}

#[track_caller]
fn refused(kind: &str, path: &Path, why: &str) {
    described(kind, path).untouched().says(&[why]);
}

#[test]
fn what_is_no_file_is_named_and_no_step_waits_for_it() {
    let folder = private_folder("no-files");
    let (fifo, socket) = (folder.join("fifo"), folder.join("socket"));
    pipe(&fifo);
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    refused("topology", &fifo, "pipe: expected a regular file");
    refused("topology", &socket, "socket: expected a regular file");
    let zero = Path::new("/dev/zero");
    refused("topology", zero, "`/dev/zero` is a character device");
    refused("topology", &folder, "is a directory: expected");
    refused("sysfs", &fifo, "pipe: expected a directory");
}

#[test]
fn a_pipe_or_a_circle_of_links_below_sysfs_costs_what_it_stands_for() {
    let tree = harness::own_dgx_h100("pipes-below-sysfs");
    described("sysfs", &tree).near();
    let distance = "sys/devices/system/node/node0/distance";
    for path in [
        distance,
        "proc/net/route",
        "sys/devices/virtual/dmi/id/product_name",
    ] {
        pipe(&tree.join(path));
    }
    symlink("mlx5_99", tree.join("sys/class/infiniband/mlx5_99")).unwrap();
    let played = described("sysfs", &tree);
    played.near().says(&["node0/distance`", "named pipe"]);
}

#[test]
fn a_pipe_as_a_configuration_file_costs_nothing_and_one_that_is_too_long_may_set_nccls_list() {
    let home = private_folder("pipes-at-home");
    let conf = home.join(".nccl.conf");
    pipe(&conf);
    let list = on("").gpu("0").env(0, "NCCL_IB_HCA").unwrap();
    for (variable, value) in [("HOME", &home), ("NCCL_CONF_FILE", &conf)] {
        let played = on("").env(&format!("{variable}={}", value.display()));
        let played = played.gpu("0");
        played.near().has(0, "NCCL_IB_HCA", &list);
    }
    fs::remove_file(&conf).unwrap();
    let long = format!("{}NCCL_IB_HCA=mlx5_0\n", "# a remark\n".repeat(7_000));
    for (text, is_set) in [("# a remark\n", true), (&long, false)] {
        fs::write(&conf, text).unwrap();
        let played = on("--option closest,verbose");
        let played = played.env(&format!("HOME={}", home.display())).gpu("0");
        let found = played.near().env(0, "NCCL_IB_HCA").is_some();
        assert_eq!(found, is_set, "{played}");
        let why = [".nccl.conf", "longer than what is read", "may set it"];
        assert_eq!(played.said(&why), !is_set, "{played}");
    }
}

#[test]
fn a_description_or_a_tree_that_others_may_change_is_refused_as_root() {
    if !is_root() {
        return;
    }
    let tree = harness::own_dgx_h100("owned-tree");
    let file = private_folder("owners").join("topology.json");
    let model = nic_placement_node::platform::model("dgx-h100").expect("it is built in");
    fs::write(&file, nic_placement_formats::file::to_json(&model)).unwrap();
    for good in [0o644, 0o600, 0o755] {
        mode(&file, good);
        let played = described("topology", &file);
        assert!(!played.said(&["others than root"]), "{good:o}\n{played}");
    }
    for (kind, path, name) in [
        ("topology", &file, "topology.json`"),
        ("sysfs", &tree, "tree`"),
    ] {
        for bad in [0o664, 0o646, 0o666, 0o777] {
            mode(path, bad);
            described(kind, path)
                .untouched()
                .says(&[name, "others than root: chmod go-w"]);
        }
        mode(path, 0o755);
        chown(path, Some(65534), None).unwrap();
        let played = described(kind, path);
        played.untouched().says(&[name, "user 65534", "chown root"]);
    }
}
