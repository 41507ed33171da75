//! The source archive, which needs no build.

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
        let other = made(
            &second,
            "umask 077; packaging/dist.sh",
            &[("TZ", "Pacific/Auckland")],
        );
        let one = one.join().expect("the first archive");
        assert_same(&one, &other);
        one
    });
    // packages that are built of it know the commit's date
    let name = one
        .keys()
        .find_map(|name| name.strip_suffix(".tar.xz"))
        .expect("the archive");
    let line = format!(
        "tar -xOf target/dist/{name}.tar.xz {name}/packaging/date; git log -1 --format=%ct"
    );
    let dates = Command::new("sh")
        .args(["-c", &line])
        .current_dir(&first)
        .output()
        .unwrap()
        .stdout;
    let dates = String::from_utf8(dates).unwrap();
    let dates: Vec<&str> = dates.lines().collect();
    assert!(
        dates.len() == 2 && dates[0] == dates[1] && dates[0].parse::<u64>().is_ok(),
        "{dates:?}"
    );
    fs::remove_dir_all(first.parent().unwrap()).unwrap();
}
