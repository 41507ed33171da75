//! A node that is played, and what processes on it tell of themselves.

use crate::harness;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// Variables that a report shows.
const VARIABLES: [&str; 6] = [
    "UCX_NET_DEVICES",
    "NCCL_IB_HCA",
    "NVSHMEM_HCA_LIST",
    "NIC_PLACEMENT",
    "OMP_NUM_THREADS",
    "REPORTED_RANK",
];

/// A DGX H100 with its CPUs.
pub struct Node {
    folder: PathBuf,
}

/// What a process told of itself.
pub struct Report(BTreeMap<String, String>);

impl Report {
    pub fn of(&self, name: &str) -> &str {
        self.0.get(name).map_or("-", String::as_str)
    }

    /// The RDMA ports of UCX's list, which may have network interfaces besides; `-` where it has none.
    pub fn ports(&self) -> &str {
        let list = self.of("UCX_NET_DEVICES");
        list.find(",eth")
            .or(list.find(",lo"))
            .map_or(list, |end| &list[..end])
    }

    pub fn rank(&self) -> usize {
        self.of("REPORTED_RANK").parse().unwrap()
    }
}

/// The node, made once; `None`, and why, where it cannot be played.
pub fn node() -> Option<&'static Node> {
    static NODE: OnceLock<Result<Node, String>> = OnceLock::new();
    let node = NODE.get_or_init(|| {
        let node = make();
        if let Err(reason) = &node {
            // not `eprintln!`: the test harness hides its text while tests pass
            let _ = writeln!(std::io::stderr(), "skipped: no played node: {reason}");
        }
        node
    });
    node.as_ref().ok()
}

fn make() -> Result<Node, String> {
    harness::c_compiler().ok_or("no C compiler")?;
    let folder = harness::private_folder("exec-node");
    let slurm = |name: &str| harness::manifest_path(&format!("tests/slurm/{name}"));
    let (so, report) = (folder.join("fakecpu.so"), folder.join("report"));
    let state = format!("-DSTATE=\"{}\"", folder.join("cpus").display());
    let flags = ["-O1", "-shared", "-fPIC", &state, "-o"].map(OsStr::new);
    let of_shim = harness::compile(
        flags.into_iter().chain([so.as_os_str()]),
        &slurm("fakecpu.c"),
        ["-ldl", "-pthread"],
    );
    assert!(of_shim.status.success(), "{}", harness::stderr(&of_shim));
    let built = Command::new("cc")
        .args(["-O1", "-o"])
        .arg(&report)
        .arg(slurm("report.c"))
        .arg(&so)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "report.c");
    let tree = harness::own_dgx_h100("exec-tree");
    let prepared = Command::new(slurm("machine.sh"))
        .arg("prepare")
        .arg(tree)
        .arg(folder.join("node"))
        .output()
        .unwrap();
    assert!(prepared.status.success(), "{}", harness::stderr(&prepared));
    let node = Node { folder };
    let entered = node.run(&[], "true");
    match entered.status.success() {
        true => Ok(node),
        false => Err(harness::stderr(&entered).trim_end().replace('\n', "; ")),
    }
}

impl Node {
    /// The words that report a process; its number is in `$REPORTED_RANK`.
    pub fn report(&self) -> String {
        format!(
            "{} {}",
            self.folder.join("report").display(),
            VARIABLES.join(" ")
        )
    }

    /// Runs a line of a shell's on the node, with these variables and nothing of this process's but `PATH` and `HOME`; the
    /// tool is `nic-placement`.
    pub fn run(&self, variables: &[(&str, &str)], line: &str) -> Output {
        let tool = Path::new(env!("CARGO_BIN_EXE_nic-placement"))
            .parent()
            .unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let line = format!(
            "export LD_PRELOAD={}; {line}",
            self.folder.join("fakecpu.so").display()
        );
        let mut command = Command::new("unshare");
        command
            .arg("--mount")
            .arg(harness::manifest_path("tests/slurm/machine.sh"));
        command
            .arg("enter")
            .arg(self.folder.join("node"))
            .args(["no", "sh", "-c", &line]);
        command
            .env_clear()
            .env("PATH", format!("{}:{path}", tool.display()));
        command
            .envs(std::env::var_os("HOME").map(|home| ("HOME", home)))
            .envs(variables.iter().copied());
        command.stdin(Stdio::null()).output().expect("util-linux")
    }

    /// Runs such a line, and reads the reports of its processes, by their numbers.
    pub fn reports(&self, variables: &[(&str, &str)], line: &str) -> Vec<Report> {
        let output = self.run(variables, line);
        let text = String::from_utf8_lossy(&output.stdout);
        let word = |word: &str| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_string(), value.to_string()))
        };
        let lines = text.lines().filter(|line| line.contains("\tcpus="));
        let mut reports: Vec<Report> = lines
            .map(|line| Report(line.split('\t').filter_map(word).collect()))
            .collect();
        let said = harness::stderr(&output);
        assert!(
            output.status.success() && !reports.is_empty(),
            "{line}: {}\n{text}\n{said}",
            output.status
        );
        reports.sort_by_key(Report::rank);
        reports
    }
}
