//! `{map_file:FORMAT}`: the file that `refresh` keeps is named to a task that sees all GPUs, where it is this step's map.

use super::files::{is_root, mode};
use super::*;
use node::Node;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

/// The number of the task that sees all GPUs; those before it have one each.
const WHOLE: usize = 8;
const MAP: &str = r#"{"0":"mlx5_0","1":"mlx5_3","2":"mlx5_4","3":"mlx5_5","4":"mlx5_6","5":"mlx5_9","6":"mlx5_10","7":"mlx5_11"}
"#;
const NAME: &str = "SGLANG_IB";

/// A DGX H100 with its map, as root's refresh writes it.
fn kept(name: &str) -> (Node, PathBuf) {
    let node = Node::new(name);
    let file = node.file.with_extension("map-sglang.json");
    fs::write(&file, MAP).unwrap();
    mode(&file, 0o644);
    (node, file)
}

fn play(node: &Node, words: &str) -> Played {
    node.step().with("--gpu 0,1,2,3,4,5,6,7").with(words).play()
}

const SET: &str = "--arg set=SGLANG_IB={map_file:sglang} --arg";

#[test]
fn a_task_that_sees_all_gpus_is_told_where_the_map_is_and_one_that_sees_less_is_not() {
    let (node, file) = kept("map-file");
    // a node that is read without its file has the same map
    for cache in ["900", "0"] {
        let played = play(&node, &format!("{SET} cache={cache}"));
        played.near().has(WHOLE, NAME, file.to_str().unwrap());
        // the other tasks count other GPUs
        (0..WHOLE).for_each(|task| _ = played.lacks(task, &[NAME]));
    }
    let without = play(&node, "");
    without.lacks(WHOLE, &[NAME]);
    let opened = without.opened("init_post_opt");
    let is_so = !opened.iter().any(|path| path.contains("map-sglang"));
    assert!(is_so, "{without}");
}

#[test]
fn a_file_that_is_not_this_steps_map_is_not_named() {
    let (other, age) = (MAP.replace("mlx5_11", "mlx5_2"), "cache=900");
    type Change<'c> = &'c dyn Fn(&Node, &Path);
    let cases: [(&str, Change, &str); 4] = [
        ("absent", &|_, file| fs::remove_file(file).unwrap(), age),
        ("other", &|_, file| fs::write(file, &other).unwrap(), age),
        ("excluded", &|_, _| (), "exclude=mlx5_11"),
        ("older", &|node, _| node.lose_port("mlx5_11"), age),
    ];
    for (name, change, argument) in cases {
        let (node, file) = kept(&format!("map-{name}"));
        change(&node, &file);
        let played = play(&node, &format!("{SET} {argument}"));
        played.ok().lacks(WHOLE, &[NAME]);
        assert!(played.env(WHOLE, "UCX_NET_DEVICES").is_some(), "{played}");
    }
}

#[test]
fn a_file_that_another_could_change_is_not_named_though_it_says_the_same() {
    let link = |file: &Path| {
        let elsewhere = file.with_file_name("elsewhere.json");
        fs::rename(file, &elsewhere).unwrap();
        symlink(&elsewhere, file).unwrap();
    };
    let open = |file: &Path| mode(file, 0o666);
    let other = |file: &Path| chown(file, Some(65534), None).unwrap();
    type Change<'c> = &'c dyn Fn(&Path);
    let cases: [(&str, Change, &str); 3] = [
        ("map-link", &link, "is a symbolic link: expected"),
        ("map-mode", &open, "others than root: chmod go-w"),
        ("map-owner", &other, "not to root: chown root"),
    ];
    for (name, change, why) in cases.into_iter().take(if is_root() { 3 } else { 1 }) {
        let (node, file) = kept(name);
        change(&file);
        let played = play(&node, &format!("{SET} cache=900"));
        played.near();
        played.lacks(WHOLE, &[NAME]).says(&[why, "no task is told"]);
    }
}
