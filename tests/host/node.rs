//! A machine that the plugin takes for the one it runs on, with a node file of it; shared by the tests and the bench.
// Each of the crates that include this file uses a part of it.
#![allow(dead_code)]

use crate::harness::{self, Step};
use nic_placement_core::topology::Provenance;
use nic_placement_formats::node_file;
use nic_placement_node::cache::{self, NodeFile};
use nic_placement_node::discover::Root;
use nic_placement_node::discover::root::Author;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// What the kernel calls this run of itself.
pub const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A DGX H100 that the plugin takes for this machine, and the file that a refresh wrote of it.
pub struct Node {
    /// its files
    pub tree: PathBuf,
    /// the node file of it
    pub file: PathBuf,
}

/// Seconds since this system was started.
pub fn uptime() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    text.split('.').next().unwrap().parse().unwrap()
}

impl Node {
    pub fn new(name: &str) -> Node {
        let tree = harness::own_dgx_h100(name);
        let place = |path: &str| tree.join(path.trim_start_matches('/'));
        fs::create_dir_all(place(BOOT_ID).parent().unwrap()).unwrap();
        fs::copy(BOOT_ID, place(BOOT_ID)).unwrap();
        // the device nodes, as files that every user may open
        fs::create_dir_all(place("dev/infiniband")).unwrap();
        for name in fs::read_dir(place("sys/class/infiniband_verbs")).unwrap() {
            fs::write(place("dev/infiniband").join(name.unwrap().file_name()), "").unwrap();
        }
        (0..8).for_each(|gpu| fs::write(place(&format!("dev/nvidia{gpu}")), "").unwrap());
        fs::create_dir_all(place("proc/net")).unwrap();
        let head = "Iface\tDestination\tGateway\tFlags\n";
        fs::write(place("proc/net/route"), head).unwrap();
        let node = Node {
            file: tree.parent().unwrap().join("node.cache"),
            tree,
        };
        node.refresh(uptime());
        node
    }

    /// Writes the file as if it were then.
    pub fn refresh(&self, boottime: u64) {
        let root = Root::directory(&self.tree, Author::Anyone).unwrap();
        let (node, _) = node_file::make(&root, boottime, "then".to_string()).unwrap();
        fs::write(&self.file, node_file::to_bytes(&node)).unwrap();
        fs::set_permissions(&self.file, fs::Permissions::from_mode(0o644)).unwrap();
    }

    pub fn step(&self) -> Step {
        let step = Step::in_context("remote").with("--arg default=closest,bind=none --each 8");
        let step = step.arg(&format!("node-file={}", self.file.display()));
        step.word("--root", &self.tree).with("--tell-files 1")
    }

    /// Takes the ports from the tree: a step that looks for their state finds none, and no NIC that may be chosen.
    pub fn without_ports(self) -> Node {
        for name in fs::read_dir(self.tree.join("sys/class/infiniband")).unwrap() {
            fs::remove_dir_all(name.unwrap().path().join("ports")).unwrap();
        }
        self
    }

    /// A port that went down since the map was written.
    pub fn lose_port(&self, nic: &str) {
        let port = format!("sys/class/infiniband/{nic}/ports/1/state");
        fs::write(self.tree.join(port), "1: DOWN\n").unwrap();
        self.refresh(uptime());
    }

    /// Changes what the file says.
    pub fn edit(&self, change: impl Fn(&mut NodeFile)) {
        let bytes = fs::read(&self.file).unwrap();
        let mut node = cache::from_bytes(&bytes, Provenance::ThisSystem).unwrap();
        change(&mut node);
        fs::write(&self.file, node_file::to_bytes(&node)).unwrap();
    }

    /// Makes it another version's.
    pub fn age_version(&self) {
        let text = "nic-placement node file 99.0.0-1\nits words";
        fs::write(&self.file, text).unwrap();
    }
}
