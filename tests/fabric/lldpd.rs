//! lldpd in network namespaces: two leaves and two nodes, linked as rails.
#![forbid(unsafe_code)]

use super::answer::{Answer, checkout};
use std::path::Path;
use std::process::Command;

/// The links that lldpd.sh makes.
pub const CABLES: [&str; 4] = [
    "node1 eth0 -> leaf1.example.org:swp1",
    "node1 eth1 -> leaf2.example.org:swp1",
    "node2 eth0 -> leaf1.example.org:swp2",
    "node2 eth1 -> leaf2.example.org:swp2",
];

/// What both nodes hear, as `(name of the file, text)`; lldpd.sh leaves these and more in the folder.
pub fn heard(folder: &Path) -> Option<Vec<(String, String)>> {
    for (program, package) in [("/usr/sbin/lldpd", "lldpd"), ("/usr/sbin/ip", "iproute2")] {
        if !Path::new(program).exists() {
            return skipped(&format!("no `{program}`: Debian has it in `{package}`"));
        }
    }
    // namespaces of links, mounts, names and processes: with the first process all others end
    let unshare = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args("-n -m -u -p -f --kill-child --mount-proc".split(' '))
            .args(arguments);
        command
            .output()
            .map(|output| Answer::new("unshare", output))
    };
    match unshare(&["mount", "-t", "tmpfs", "tmpfs", "/run"]) {
        Ok(probe) if probe.status == Some(0) => {}
        Ok(probe) => return skipped(&format!("no namespaces: {}", probe.err.trim_end())),
        Err(error) => return skipped(&format!("no `unshare`: {error}")),
    }
    let script = checkout("tests/fabric/lldpd.sh");
    let words = ["sh", script.to_str().unwrap(), folder.to_str().unwrap()];
    unshare(&words).unwrap().ends(0);
    let read = |node: &str| {
        let file = folder.join(node).with_extension("json");
        let text = std::fs::read_to_string(&file).unwrap();
        (file.to_str().unwrap().to_string(), text)
    };
    Some(["node1", "node2"].map(read).into())
}

fn skipped<T>(why: &str) -> Option<T> {
    println!("skipped: {why}");
    None
}
