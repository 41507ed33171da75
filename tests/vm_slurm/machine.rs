//! A guest with Slurm in it: the commands, the boot, and the answers.

use crate::boot::{Boot, CANNOT, released};
use crate::report::{Task, numbers};
use nic_placement_core::topology::{CpuSet, GpuVendor};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why there is no guest.
pub enum Unfit {
    /// something that this machine lacks, and may lack
    Skip(String),
    /// something that should be there
    Broken(String),
}

/// A GPU-like function of the guest, by the kernel's own files.
pub struct Gpu {
    /// N of its device node
    pub number: u32,
    /// CPUs of its NUMA node
    pub cpus: CpuSet,
    pub numa_node: u32,
    /// its folder below /sys/devices
    path: PathBuf,
}

/// A NIC of the guest that is a PCI function.
pub struct Nic {
    pub name: String,
    pub numa_node: u32,
    /// is its first port an active InfiniBand port?
    pub good: bool,
    path: PathBuf,
}

/// The answers from a guest.
pub struct Machine {
    /// the name of its description
    pub name: &'static str,
    /// what was run there
    commands: &'static [(&'static str, &'static str)],
    /// in PCI order
    pub gpus: Vec<Gpu>,
    pub nics: Vec<Nic>,
    out: PathBuf,
}

/// The plugin under test: as `make test` names it, or the release build's.
fn plugin() -> PathBuf {
    std::env::var_os("NIC_PLACEMENT_SO").map_or(released("libnic_placement.so"), PathBuf::from)
}

/// Slurm, the plugin and this program as the base of a guest's root file system.
pub fn root() -> Result<PathBuf, Unfit> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm-slurm-root");
    let _ = fs::remove_dir_all(&folder);
    let ran = Command::new(Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/vm_slurm/root.sh"))
        .args([&folder, &plugin(), &std::env::current_exe().unwrap()])
        .output()
        .map_err(|error| Unfit::Broken(format!("root.sh: {error}")))?;
    let said = String::from_utf8_lossy(&ran.stderr).trim().to_string();
    match ran.status.code() {
        Some(0) => Ok(folder),
        Some(CANNOT) => Err(Unfit::Skip(said)),
        _ => Err(Unfit::Broken(format!("root.sh: {said}"))),
    }
}

impl Machine {
    /// Boots the guest and runs the commands, each a name and a line of shell in which `$task` is task.rs.
    pub fn boot(
        name: &'static str,
        constrain: &str,
        commands: &'static [(&str, &str)],
        root: &Path,
    ) -> Result<Machine, Unfit> {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("vm-slurm-{name}"));
        let program = std::env::current_exe()
            .unwrap()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let lines: Vec<String> = commands
            .iter()
            .map(|(name, line)| format!("{name} {line}"))
            .collect();
        let boot = Boot {
            machine: name,
            program: Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/vm_slurm/node.sh"),
            arguments: vec![
                name.to_string(),
                program,
                constrain.to_string(),
                lines.join("\n"),
            ],
            also: root.display().to_string(),
            out: out.clone(),
            more: Vec::new(),
        };
        let ran = boot.run();
        let said = String::from_utf8_lossy(&ran.stderr).trim().to_string();
        match ran.status.code() {
            Some(0) => Ok(Machine::of(name, commands, out)),
            Some(CANNOT) => Err(Unfit::Skip(format!("no guest under qemu: {said}"))),
            code => Err(Unfit::Broken(format!(
                "{name}: the guest ended with {code:?}: {said}"
            ))),
        }
    }

    /// The answers that a guest left in this folder.
    pub fn of(name: &'static str, commands: &'static [(&str, &str)], out: PathBuf) -> Machine {
        Machine {
            name,
            commands,
            gpus: gpus(&out),
            nics: nics(&out),
            out,
        }
    }

    /// A file that was left in the guest.
    pub fn answer(&self, name: &str) -> String {
        let path = self.out.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The line that was run under this name.
    pub fn command(&self, name: &str) -> &'static str {
        self.commands
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap()
            .1
    }

    /// The tasks that a command's steps had; it must have succeeded, with so many.
    pub fn tasks(&self, name: &str, count: usize) -> Vec<Task> {
        let said = || {
            format!(
                "{}\n{}",
                self.answer(name),
                self.answer(&format!("{name}.stderr"))
            )
        };
        assert_eq!(
            self.answer(&format!("{name}.status")).trim(),
            "0",
            "{name}: {}",
            said()
        );
        let tasks = Task::all_in(&self.answer(name));
        assert_eq!(tasks.len(), count, "{name}: {}", said());
        tasks
    }

    /// Positions of the GPUs that a task really has.  With ConstrainDevices, these are the GPUs that it can open; else those
    /// that the vendor's variable counts in PCI order.
    pub fn gpus_of(&self, task: &Task) -> Vec<usize> {
        let open = task.open();
        if open.len() < self.gpus.len() && !open.is_empty() {
            let mut gpus: Vec<usize> = open.iter().map(|number| self.of_number(*number)).collect();
            gpus.sort();
            return gpus;
        }
        numbers(self.list_of(task))
            .iter()
            .map(|index| *index as usize)
            .collect()
    }

    /// What the variable of the GPUs' vendor lists.
    pub fn list_of<'a>(&self, task: &'a Task) -> &'a str {
        let vendor = if self.name == "four-nodes" {
            GpuVendor::Amd
        } else {
            GpuVendor::Nvidia
        };
        task.env(vendor.list_variable()).unwrap_or_default()
    }

    fn of_number(&self, number: u32) -> usize {
        self.gpus
            .iter()
            .position(|gpu| gpu.number == number)
            .unwrap()
    }

    /// The one GPU that a task has.
    pub fn gpu_of(&self, task: &Task) -> &Gpu {
        let gpus = self.gpus_of(task);
        assert_eq!(gpus.len(), 1, "the GPUs of {task:?}");
        &self.gpus[gpus[0]]
    }

    /// How many tasks Slurm alone puts away from their GPU.  Known for two releases: 22.05 deals CPUs and GPUs in different
    /// orders, and 24.11 gives a task a GPU of its socket.  For others nothing is expected.
    pub fn assert_dealt(&self, tasks: &[Task], with_22_05: usize, with_24_11: usize) {
        let release = self.answer("release");
        let far = self.far(tasks);
        if release.contains("22.05") {
            assert_eq!(far, with_22_05, "{release}");
        } else if release.contains("24.11") {
            assert_eq!(far, with_24_11, "{release}");
        }
    }

    /// Tasks of one GPU that may run on no CPU near it.
    pub fn far(&self, tasks: &[Task]) -> usize {
        tasks
            .iter()
            .filter(|task| !task.cpus().intersects(&self.gpu_of(task).cpus))
            .count()
    }

    /// One-GPU tasks that have some pages on another NUMA node.
    pub fn with_far_pages(&self, tasks: &[Task]) -> usize {
        tasks
            .iter()
            .filter(|task| task.node_of_its_pages() != Some(self.gpu_of(task).numa_node))
            .count()
    }

    /// Names, with the port, of the good NICs that share most of the bus with a GPU.  If none is below the same host bridge,
    /// those of its NUMA node.
    pub fn nearest_nics(&self, gpu: &Gpu) -> Vec<String> {
        let shared = |nic: &Nic| {
            nic.path
                .iter()
                .zip(&gpu.path)
                .take_while(|(one, other)| one == other)
                .count()
        };
        // `/`, sys, devices: what all share
        let nearness = |nic: &Nic| (shared(nic).max(3), nic.numa_node == gpu.numa_node);
        let good = || self.nics.iter().filter(|nic| nic.good);
        let most = good().map(nearness).max().unwrap();
        good()
            .filter(|nic| nearness(nic) == most)
            .map(|nic| format!("{}:1", nic.name))
            .collect()
    }
}

fn lines(out: &Path, name: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(out.join(name)).unwrap_or_default();
    text.lines()
        .map(|line| line.split_whitespace().map(String::from).collect())
        .collect()
}

fn gpus(out: &Path) -> Vec<Gpu> {
    let gpu = |words: Vec<String>| Gpu {
        number: words[0].parse().unwrap(),
        cpus: CpuSet::from_list(&words[2]).unwrap(),
        numa_node: words[3].parse().unwrap(),
        path: PathBuf::from(&words[4]),
    };
    lines(out, "gpus").into_iter().map(gpu).collect()
}

fn nics(out: &Path) -> Vec<Nic> {
    let nic = |words: Vec<String>| Nic {
        name: words[0].clone(),
        numa_node: words[1].parse().unwrap(),
        good: words[2] == "4" && words[3] == "InfiniBand",
        path: PathBuf::from(&words[4]),
    };
    lines(out, "nics").into_iter().map(nic).collect()
}
