//! lldpd in network namespaces: two leaves and two nodes, linked as rails.
#![forbid(unsafe_code)]

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
            println!("skipped: no `{program}`: Debian has it in `{package}`");
            return None;
        }
    }
    // namespaces of links, mounts, names and processes: with the first process all others end
    let unshare = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["-n", "-m", "-u", "-p", "-f", "--kill-child", "--mount-proc"])
            .args(arguments);
        command.output()
    };
    match unshare(&["mount", "-t", "tmpfs", "tmpfs", "/run"]) {
        Ok(probe) if probe.status.success() => {}
        Ok(probe) => {
            println!(
                "skipped: no namespaces: {}",
                String::from_utf8_lossy(&probe.stderr).trim_end()
            );
            return None;
        }
        Err(error) => {
            println!("skipped: no `unshare`: {error}");
            return None;
        }
    }
    let script = Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/fabric/lldpd.sh");
    let output = unshare(&["sh", script.to_str().unwrap(), folder.to_str().unwrap()]).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let read = |node: &str| {
        let file = folder.join(node).with_extension("json");
        (
            file.to_str().unwrap().to_string(),
            std::fs::read_to_string(file).unwrap(),
        )
    };
    Some(["node1", "node2"].map(read).into())
}
