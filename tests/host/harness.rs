//! Builds the fake Slurm of `spank_host.c`, finds the plugin, and plays steps to it; shared by the tests and the bench.
// Each of the crates that include this file uses a part of it.
#![allow(dead_code)]

use nic_placement_cli::commands::snapshot;
use nic_placement_formats::manifest;
use nic_placement_node::platform;
use nic_placement_testing::synthesise::synthesise;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

#[path = "compiler.rs"]
pub mod compiler;
pub use compiler::{c_compiler, compile, manifest_path, private_folder, stderr};
#[path = "played.rs"]
pub mod played;
pub use played::Played;

/// The step's GPU `i` of a DGX H100 has its PCIe switch in common with `mlx5_N`, N being `NIC_OF_GPU[i]`.
pub const NIC_OF_GPU: [u32; 8] = [0, 3, 4, 5, 6, 9, 10, 11];

/// The library as Slurm would load it.
pub fn plugin() -> PathBuf {
    compiler::library("libnic_placement.so", "NIC_PLACEMENT_SO")
}

/// The plugin built so that its hooks panic on request (`make test-libraries`); `None` and a line where it is not built.
pub fn panicking_plugin() -> Option<PathBuf> {
    let built = env::var_os("NIC_PLACEMENT_PANIC_SO").map_or_else(
        || manifest_path("target/panic/debug/libnic_placement.so"),
        PathBuf::from,
    );
    if !built.exists() {
        println!("skipped: no test build: `make test-libraries` makes it");
        return None;
    }
    Some(built)
}

/// The fake Slurm, built once for each test executable; `None` where there is no C compiler.
pub fn host() -> Option<&'static Path> {
    static HOST: OnceLock<Option<PathBuf>> = OnceLock::new();
    HOST.get_or_init(|| {
        c_compiler()?;
        let built = private_folder("spank_host").join("spank_host");
        let source = manifest_path("tests/host/spank_host.c");
        let flags = ["-O1", "-rdynamic", "-o"].map(OsStr::new).into_iter();
        let output = compile(flags.chain([built.as_os_str()]), &source, ["-ldl"]);
        assert!(output.status.success(), "{}", stderr(&output));
        Some(built)
    })
    .as_deref()
}

/// A DGX H100 as a directory that `sysfs=` takes, unpacked once for each test executable.
pub fn dgx_h100() -> &'static Path {
    static TREE: OnceLock<PathBuf> = OnceLock::new();
    TREE.get_or_init(|| unpacked("dgx-h100"))
}

/// A built-in machine as such a directory, unpacked anew.
pub fn unpacked(machine: &str) -> PathBuf {
    machine_in(machine, machine)
}

/// A DGX H100 as such a directory that the caller may spoil, in a folder of this name.
pub fn own_dgx_h100(name: &str) -> PathBuf {
    machine_in("dgx-h100", name)
}

fn machine_in(machine: &str, folder: &str) -> PathBuf {
    let model = platform::model(machine).expect("it is built in");
    laid_out(&manifest::text(&synthesise(&model)), folder)
}

/// A recorded machine of `tests/machines` as such a directory.
pub fn recorded(machine: &str) -> PathBuf {
    let manifest = manifest_path(&format!("tests/machines/{machine}/node.machine"));
    let text = fs::read_to_string(manifest).expect("it is recorded");
    laid_out(&text, machine)
}

/// A machine without IP interfaces, for steps that play no other: what is set must not depend on where the test runs.
fn no_network() -> &'static Path {
    static TREE: OnceLock<PathBuf> = OnceLock::new();
    TREE.get_or_init(|| network("no-network", "", &[]))
}

/// A machine with these routes and these files of `/sys/class/net`, in a folder of this name.
pub fn network(name: &str, routes: &str, interfaces: &[(&str, &str)]) -> PathBuf {
    let tree = private_folder(name);
    let write = |path: String, text: &str| {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("its folder");
        fs::write(path, text).expect("its file");
    };
    let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n";
    write("proc/net/route".to_string(), &format!("{head}{routes}"));
    let all = interfaces.iter();
    all.for_each(|(path, text)| write(format!("sys/class/net/{path}"), text));
    tree
}

/// A snapshot's files in a folder of their own.
fn laid_out(manifest: &str, name: &str) -> PathBuf {
    let tree = private_folder(name).join("tree");
    let manifest = manifest::parse(manifest).expect("a snapshot");
    snapshot::lay_out(&manifest, &tree).expect("its files");
    tree
}

/// A step to be played: the words of `spank_host`'s command line, which its top describes.
#[derive(Clone)]
pub struct Step {
    words: Vec<OsString>,
    /// in place of [`plugin`]
    plugin_file: Option<PathBuf>,
    daemon_env: Vec<(&'static str, &'static str)>,
    /// the program's name for itself, in place of the fake Slurm's
    called: Option<&'static str>,
}

impl Step {
    /// In `context`: `local`, `allocator`, `remote` or `slurmd`.
    pub fn in_context(context: &str) -> Step {
        let words = vec!["--context".into(), context.into()];
        Step {
            words,
            plugin_file: None,
            daemon_env: Vec::new(),
            called: None,
        }
    }

    /// On a compute node that is a DGX H100.
    pub fn on_dgx_h100() -> Step {
        Step::in_context("remote").sysfs(dgx_h100())
    }

    /// On a machine with the IP interfaces of such a folder ([`network`]).
    pub fn network(self, tree: &Path) -> Step {
        self.word("--network", tree)
    }

    /// With the admin's files and the node's name of such a folder.
    pub fn site(self, tree: &Path) -> Step {
        self.word("--site", tree)
    }

    /// With another build of the plugin.
    pub fn plugin_file(mut self, file: &Path) -> Step {
        self.plugin_file = Some(file.to_path_buf());
        self
    }

    /// With a plugstack argument.
    pub fn arg(self, word: &str) -> Step {
        self.word("--arg", word)
    }

    /// With the plugstack argument `sysfs=`.
    pub fn sysfs(self, tree: &Path) -> Step {
        self.arg(&format!("sysfs={}", tree.display()))
    }

    /// With these words, none of which has a blank in it: `--gpu LIST` is a task that sees these,
    /// `--each N` one for each of N GPUs.
    pub fn with(mut self, words: &str) -> Step {
        let mut words = words.split(' ').filter(|word| !word.is_empty());
        while let Some(name) = words.next() {
            let mut value = || words.next().expect("a value");
            self = match name {
                "--option-bare" => self.bare_option(),
                "--gpu" => self.task(&format!("CUDA_VISIBLE_DEVICES={}", value())),
                "--each" => (0..value().parse().expect("a number")).fold(self, |step, gpu: u32| {
                    step.task(&format!("CUDA_VISIBLE_DEVICES={gpu}"))
                }),
                _ => self.word(name, value()),
            };
        }
        self
    }

    /// With `--nic-placement=text`.
    pub fn option(self, text: &str) -> Step {
        self.word("--option", text)
    }

    /// With `--nic-placement` alone.
    pub fn bare_option(mut self) -> Step {
        self.words.push("--option-bare".into());
        self
    }

    /// With a variable that the user set.
    pub fn env(self, assignment: &str) -> Step {
        self.word("--env", assignment)
    }

    /// With a variable of the daemon, which is not the user's.
    pub fn daemon_env(mut self, name: &'static str, value: &'static str) -> Step {
        self.daemon_env.push((name, value));
        self
    }

    /// In a program that was called so, as `argv[0]` says.
    pub fn called(mut self, name: &'static str) -> Step {
        self.called = Some(name);
        self
    }

    /// With one more task; `changes` are what Slurm sets for it alone.
    pub fn task(self, changes: &str) -> Step {
        self.word("--task", changes)
    }

    /// With a task for each of the eight GPUs.
    pub fn task_per_gpu(self) -> Step {
        self.with("--each 8")
    }

    /// With any other option of `spank_host`.
    pub fn word(mut self, name: &str, value: impl AsRef<OsStr>) -> Step {
        self.words.extend([name.into(), value.as_ref().into()]);
        self
    }

    /// The command that plays it, in an environment of its own.
    pub fn command(&self, host: &Path) -> Command {
        let mut command = Command::new(host);
        command.arg0(self.called.map_or(host.as_os_str(), OsStr::new));
        command.env_clear().envs(self.daemon_env.iter().copied());
        command.arg("--so");
        command.arg(self.plugin_file.clone().unwrap_or_else(plugin));
        for name in ["--network", "--site"] {
            command.arg(name).arg(no_network());
        }
        command.args(&self.words);
        command
    }

    /// Plays it.  Whatever the step, the plugin must keep to Slurm's rules.
    pub fn play(&self) -> Played {
        let host = host().expect("a C compiler");
        let output = within(LIMIT, self.command(host));
        let played = Played {
            status: output.status.code(),
            words: format!("{:?} {:?}", self.words, self.daemon_env),
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
        };
        assert_eq!(stderr(&output), "", "on stderr itself\n{played}");
        assert!(played.status.is_some(), "{}\n{played}", output.status);
        let is_so = !played.text.contains(": host: ");
        assert!(is_so, "no rule of Slurm's\n{played}");
        played
    }

    /// Plays it with a task for each of the eight GPUs.
    pub fn eight(self) -> Played {
        self.task_per_gpu().play()
    }

    /// Plays it with one task, which has these GPUs.
    pub fn gpu(self, list: &str) -> Played {
        self.with(&format!("--gpu {list}")).play()
    }
}

/// How long a step may take: a thousand times what it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a command to its end; one that hangs fails the test instead of hanging it.
fn within(limit: Duration, mut command: Command) -> Output {
    let collect = |mut from: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).expect("a pipe can be read");
            bytes
        })
    };
    // in a group of its own, since what hangs may be a task that it forked
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().expect("the fake Slurm starts");
    let stdout = collect(Box::new(child.stdout.take().expect("a pipe")));
    let stderr = collect(Box::new(child.stderr.take().expect("a pipe")));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if begun.elapsed() > limit {
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-9", "--", &group]).status();
            let (_, said) = (child.wait(), stdout.join().unwrap_or_default());
            let said = String::from_utf8_lossy(&said);
            panic!("the step hangs after {limit:?}\n{said}");
        }
        thread::sleep(Duration::from_millis(1));
    };
    let [stdout, stderr] =
        [stdout, stderr].map(|bytes| bytes.join().expect("what it says is read"));
    Output {
        status,
        stdout,
        stderr,
    }
}
