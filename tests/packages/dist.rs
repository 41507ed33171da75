//! The whole release, built twice: half an hour of two cores.

use super::release::{assert_same, clones, made};
use std::fs;

pub fn two_folders_give_the_same_release_on_two_days() {
    let Some([first, second]) = clones("dist") else {
        return;
    };
    let dist =
        "make --silent dist MAINTAINER='Nobody <nobody@example.org>' HOMEPAGE=https://example.org";
    let tools = super::path("target/portable/tools").display().to_string();
    let one = made(&first, dist, &[("NICP_TOOLS", &tools)]);
    for kind in [".deb", ".rpm"] {
        let count = one.keys().filter(|name| name.ends_with(kind)).count();
        assert_eq!(count, 4, "{:?}", one.keys());
    }
    // another home of cargo too; its crates are not fetched again.  rustc's allocator hangs under faketime: it writes no date
    let line = format!(
        "set -e; mkdir home programs
         cp -a \"${{OLD_HOME:-$HOME/.cargo}}/registry\" home/
         for program in cargo rustc; do
             printf '#!/bin/sh\\nunset LD_PRELOAD\\nexec %s \"$@\"\\n' \"$(command -v $program)\" > programs/$program
             chmod 755 programs/$program
         done
         export CARGO_HOME=\"$PWD/home\" PATH=\"$PWD/programs:$PATH\"
         exec faketime -f +100d {dist}"
    );
    let home = std::env::var("CARGO_HOME").unwrap_or_default();
    let elsewhere = [("NICP_TOOLS", &*tools), ("OLD_HOME", &home)];
    assert_same(&one, &made(&second, &line, &elsewhere));
    fs::remove_dir_all(first.parent().unwrap()).unwrap();
}
