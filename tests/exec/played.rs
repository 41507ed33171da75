//! A node that is played, and the tasks that report on it.

use crate::harness;
pub use crate::task::{Task, all, each};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// Variables that a report shows.
const VARIABLES: &str =
    "UCX_NET_DEVICES NCCL_IB_HCA NVSHMEM_HCA_LIST NIC_PLACEMENT OMP_NUM_THREADS REPORTED_RANK";

/// The node's CPUs, and those of each socket.
pub const ALL: &str = "0-223";
pub const NEAR: [&str; 2] = ["0-55,112-167", "56-111,168-223"];

/// A DGX H100 with its CPUs.
pub struct Node {
    folder: PathBuf,
}

/// The RDMA ports of each one's list for UCX.
pub fn nics(tasks: &[Task]) -> Vec<String> {
    tasks.iter().map(|task| task.ucx().join(",")).collect()
}

pub fn cpus(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.word("cpus")).collect()
}

pub fn rank(task: &Task) -> usize {
    task.word("REPORTED_RANK").parse().expect("a number")
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
    let state = format!("-DSTATE=\"{}\"", folder.join("cpus").display());
    let so = folder.join("fakecpu.so");
    let flags = ["-O1", "-shared", "-fPIC", &state, "-o"].map(OsStr::new);
    let flags = flags.into_iter().chain([so.as_os_str()]);
    let shim = harness::compile(flags, &slurm("fakecpu.c"), ["-ldl", "-pthread"]);
    assert!(shim.status.success(), "{}", harness::stderr(&shim));
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-o"]).arg(folder.join("report"));
    cc.arg(slurm("report.c")).arg(&so);
    assert!(cc.status().is_ok_and(|status| status.success()), "report.c");
    let tree = harness::own_dgx_h100("exec-tree");
    let mut prepare = Command::new(slurm("machine.sh"));
    let prepared = prepare.arg("prepare").arg(tree);
    let prepared = prepared.arg(folder.join("node")).output().unwrap();
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
        format!("{} {VARIABLES}", self.folder.join("report").display())
    }

    /// A shell's line that starts `exec` as each of `size` processes of a launcher, one after another.
    ///
    /// `before` stands before `exec`, with the number in `$LOCAL_RANK`; the shell is the launcher.
    pub fn launched(&self, size: usize, before: &str, words: &str) -> String {
        let (last, report) = (size - 1, self.report());
        // a subshell for each, so that the launcher itself has none of their variables
        let variables = format!("LOCAL_RANK=$n LOCAL_WORLD_SIZE={size} REPORTED_RANK=$n");
        let exec = format!("{before} exec nic-placement exec {words} -- {report}");
        format!("for n in $(seq 0 {last}); do (export {variables}; {exec}) || exit; done")
    }

    /// One process, whose variables and words these are.
    pub fn one(&self, variables: &str, words: &str) -> Task {
        let exec = format!("nic-placement exec {words} -- {}", self.report());
        self.reports(&[], &format!("REPORTED_RANK=0 {variables} {exec}"))
            .remove(0)
    }

    /// Runs a line of a shell's on the node, with these variables and nothing of this process's but `PATH` and `HOME`; the
    /// tool is `nic-placement`.
    pub fn run(&self, variables: &[(&str, &str)], line: &str) -> Output {
        let tool = Path::new(env!("CARGO_BIN_EXE_nic-placement"));
        let tool = tool.parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let shim = self.folder.join("fakecpu.so");
        let line = format!("export LD_PRELOAD={}; {line}", shim.display());
        let mut command = Command::new("unshare");
        command.arg("--mount");
        command.arg(harness::manifest_path("tests/slurm/machine.sh"));
        command.arg("alone").arg(self.folder.join("node"));
        command.args(["no", "sh", "-c", &line]);
        command.env_clear();
        command.env("PATH", format!("{}:{path}", tool.display()));
        command.envs(std::env::var_os("HOME").map(|home| ("HOME", home)));
        // without it that of a slurmd that runs here counts
        command.env("SLURM_CONF", "/nowhere/slurm.conf");
        command.envs(variables.iter().copied()).stdin(Stdio::null());
        command.output().expect("util-linux")
    }

    /// The stderr of such a line.
    pub fn said(&self, variables: &[(&str, &str)], line: &str) -> String {
        harness::stderr(&self.run(variables, line))
    }

    /// Runs such a line, and reads the reports of its processes, by their numbers.
    #[track_caller]
    pub fn reports(&self, variables: &[(&str, &str)], line: &str) -> Vec<Task> {
        let output = self.run(variables, line);
        let mut tasks = Task::all_in(&String::from_utf8_lossy(&output.stdout));
        let is_well = output.status.success() && !tasks.is_empty();
        assert!(is_well, "{line}: {output:?}");
        tasks.sort_by_key(rank);
        tasks
    }
}
