//! `{map_file:FORMAT}`: the file that `refresh` keeps is named to a task that sees all GPUs, where it is this step's map.

use super::*;
use node::{Node, uptime};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

const SET: &str = "set=SGLANG_IB={map_file:sglang}";
/// The number of the task that sees all GPUs; those before it have one each.
const WHOLE: usize = 8;
const MAP: &str = r#"{"0":"mlx5_0","1":"mlx5_3","2":"mlx5_4","3":"mlx5_5","4":"mlx5_6","5":"mlx5_9","6":"mlx5_10","7":"mlx5_11"}
"#;

/// A DGX H100 with its map, as root's refresh writes it.
fn kept(name: &str) -> (Node, PathBuf) {
    let node = Node::new(name);
    let file = node.file.with_extension("map-sglang.json");
    fs::write(&file, MAP).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    (node, file)
}

fn step(node: &Node) -> Step {
    node.step()
        .task("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7")
        .arg(SET)
}

#[test]
fn a_task_that_sees_all_gpus_is_told_where_the_map_is_and_one_that_sees_less_is_not() {
    let (node, file) = kept("map-file");
    let played = play!(step(&node));
    played.assert_nearest_nics();
    assert_eq!(
        played.env(WHOLE, "SGLANG_IB").as_deref(),
        file.to_str(),
        "{played}"
    );
    for task in 0..WHOLE {
        assert_eq!(
            played.env(task, "SGLANG_IB"),
            None,
            "task {task} counts other GPUs\n{played}"
        );
    }
    let without = play!(node.step().task("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7"));
    assert_eq!(without.env(WHOLE, "SGLANG_IB"), None, "{without}");
    let opened = without
        .events("init_post_opt")
        .into_iter()
        .any(|event| event.contains("map-sglang"));
    assert!(!opened, "nobody asked for it\n{without}");
}

#[test]
fn a_node_that_is_read_without_its_file_has_the_same_map() {
    let (node, file) = kept("map-file-live");
    let played = play!(step(&node).arg("cache=0"));
    assert_eq!(
        played.env(WHOLE, "SGLANG_IB").as_deref(),
        file.to_str(),
        "{played}"
    );
}

#[test]
fn a_file_that_is_not_this_steps_map_is_not_named() {
    type Change = dyn Fn(&Node, &PathBuf);
    let cases: [(&str, &Change, &str); 4] = [
        (
            "map-absent",
            &|_, file| fs::remove_file(file).unwrap(),
            "cache=900",
        ),
        (
            "map-other",
            &|_, file| fs::write(file, MAP.replace("mlx5_11", "mlx5_2")).unwrap(),
            "cache=900",
        ),
        ("map-excluded", &|_, _| (), "exclude=mlx5_11"),
        (
            "map-older",
            &|node, _| {
                // a port that went down since the map was written
                let port = node.tree.join("sys/class/infiniband/mlx5_11/ports/1/state");
                fs::write(port, "1: DOWN\n").unwrap();
                node.refresh(uptime());
            },
            "cache=900",
        ),
    ];
    for (name, change, argument) in cases {
        let (node, file) = kept(name);
        change(&node, &file);
        let played = play!(step(&node).arg(argument));
        played.assert_nothing_failed();
        assert_eq!(played.env(WHOLE, "SGLANG_IB"), None, "{name}\n{played}");
        assert!(
            played.env(WHOLE, "UCX_NET_DEVICES").is_some(),
            "{name}\n{played}"
        );
    }
}

#[test]
fn a_file_that_another_could_change_is_not_named_though_it_says_the_same() {
    let refused = |node: &Node, why: &str| {
        let played = step(node).play()?;
        played.assert_nearest_nics();
        assert_eq!(played.env(WHOLE, "SGLANG_IB"), None, "{why}\n{played}");
        assert!(played.to_string().contains(why), "{why}\n{played}");
        Some(())
    };
    let (node, file) = kept("map-link");
    let elsewhere = file.with_file_name("elsewhere.json");
    fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    if refused(
        &node,
        "is a symbolic link: expected a regular file: no task is told of it",
    )
    .is_none()
    {
        return;
    }
    if !files::is_root() {
        return;
    }
    let (node, file) = kept("map-mode");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    refused(
        &node,
        "can be written by others than root: chmod go-w: no task is told of it",
    );
    let (node, file) = kept("map-owner");
    chown(&file, Some(65534), None).unwrap();
    refused(
        &node,
        "belongs to user 65534, not to root: chown root: no task is told of it",
    );
}
