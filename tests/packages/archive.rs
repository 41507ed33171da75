//! The source archive, which needs no build.

use super::Answer;
use super::release::{assert_same, clones, made};
use std::fs;
use std::process::Command;
use std::thread;

#[test]
fn a_commit_gives_the_same_archive_in_another_folder_under_another_umask() {
    let Some([first, second]) = clones("archive") else {
        return;
    };
    let one = thread::scope(|scope| {
        let one = scope.spawn(|| made(&first, "umask 022; packaging/dist.sh", &[("TZ", "UTC")]));
        let elsewhere = [("TZ", "Pacific/Auckland")];
        let other = made(&second, "umask 077; packaging/dist.sh", &elsewhere);
        let one = one.join().expect("the first archive");
        assert_same(&one, &other);
        one
    });
    // packages that are built of it know the commit's date
    let name = one.keys().find_map(|name| name.strip_suffix(".tar.xz"));
    let name = name.expect("the archive");
    let line = format!(
        "tar -xOf target/dist/{name}.tar.xz {name}/packaging/date; git log -1 --format=%ct"
    );
    let dates = Answer::of(Command::new("sh").args(["-c", &line]).current_dir(&first)).out;
    let dates: Vec<u64> = dates.lines().map(|date| date.parse().unwrap()).collect();
    assert!(dates.len() == 2 && dates[0] == dates[1], "{dates:?}");
    fs::remove_dir_all(first.parent().unwrap()).unwrap();
}
