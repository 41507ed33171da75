//! The session of docs/admin.md, run from its first command to its last in a clean root.

use super::shown::{shown_commands, shows};
use super::{Root, path, text};
use std::fs;

/// The commands of the guide in their order, each with what it prints.  The last one purges the package.
pub fn the_guide_is_as_it_happens_and_leaves_nothing(root: &Root) {
    let guide = fs::read_to_string(path("docs/admin.md")).expect("the guide");
    let before = root.everything();
    let mut differences = String::new();
    let commands = shown_commands(&guide);
    for (command, shown) in &commands {
        // the bed's Slurm finds the root's own file by a link of another name
        let link = format!("{}/etc/plugstack.conf", root.dir.display());
        let printed = text(&root.run(command)).replace(&link, "/etc/slurm/plugstack.conf");
        let lines: Vec<&str> = printed.lines().collect();
        if !shows(shown, &lines) {
            differences += &format!("$ {command}\n{printed}\n");
        }
    }
    let is_so = differences.is_empty();
    assert!(is_so, "{}: the guide differs:\n{differences}", root.name);
    assert!(commands.len() >= 15, "only {} commands", commands.len());
    assert_eq!(root.everything(), before, "something is left");
}
