//! Guests under qemu, for the programs that boot some: the boot (`tests/vm/boot.sh`), the watch over it, and the answers.
#![allow(dead_code, unused_imports, unused_macros)] // each program uses a part

pub mod boot;
#[path = "../cases.rs"]
pub mod cases;
#[path = "../task.rs"]
pub mod task;
pub mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use task::{Set, Task, numbers};

/// A GPU-like function of a guest, by the kernel's own files.
pub struct Gpu {
    /// N of its device node
    pub number: usize,
    /// CPUs of its NUMA node
    pub cpus: Set,
    pub numa_node: usize,
    /// its folder below /sys/devices
    pub path: PathBuf,
}

/// A NIC of a guest that is a PCI function.
pub struct Nic {
    pub name: String,
    pub numa_node: usize,
    /// is its first port an active InfiniBand port?
    pub good: bool,
    pub path: PathBuf,
}

/// The answers from a guest.
pub struct Guest {
    /// the name of its description
    pub name: &'static str,
    /// the lines of shell that were run there, each behind its name
    commands: String,
    /// in PCI order
    pub gpus: Vec<Gpu>,
    pub nics: Vec<Nic>,
    pub out: PathBuf,
}

impl Guest {
    /// The answers that a guest left in this folder.
    pub fn of(name: &'static str, commands: String, out: PathBuf) -> Guest {
        let number = |word: &String| word.parse().expect("a number");
        let gpu = |words: Vec<String>| Gpu {
            number: number(&words[0]),
            cpus: numbers(&words[2]),
            numa_node: number(&words[3]),
            path: PathBuf::from(&words[4]),
        };
        let nic = |words: Vec<String>| Nic {
            name: words[0].clone(),
            numa_node: number(&words[1]),
            good: words[2] == "4" && words[3] == "InfiniBand",
            path: PathBuf::from(&words[4]),
        };
        // clients' guests say less
        let rows = |name| {
            words_of(&out.join(name))
                .into_iter()
                .filter(|words| words.len() > 4)
        };
        Guest {
            name,
            commands,
            gpus: rows("gpus").map(gpu).collect(),
            nics: rows("nics").map(nic).collect(),
            out,
        }
    }

    /// A file that was left in the guest.
    pub fn answer(&self, name: &str) -> String {
        let path = self.out.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The lines that were run, and their names.
    pub fn commands(&self) -> impl Iterator<Item = (&str, &str)> {
        self.commands.lines().flat_map(|line| line.split_once(' '))
    }

    /// All that a command wrote.
    pub fn said(&self, name: &str) -> String {
        // libmlx5 is there, since UCX is linked with it, and does not know these devices
        let errors = self.answer(&format!("{name}.stderr"));
        let foreign = |line: &&str| !line.starts_with("libibverbs: Warning: Driver mlx5");
        let errors: Vec<&str> = errors.lines().filter(foreign).collect();
        self.answer(name) + &errors.join("\n")
    }

    /// Did it end with 0?
    pub fn succeeded(&self, name: &str) -> bool {
        self.answer(&format!("{name}.status")).trim() == "0"
    }

    /// The tasks that a command's steps had; it must have succeeded, with so many.
    #[track_caller]
    pub fn tasks(&self, name: &str, count: usize) -> Vec<Task> {
        let tasks = Task::all_in(&self.said(name));
        let is_so = self.succeeded(name) && tasks.len() == count;
        assert!(is_so, "{name}: {}", self.said(name));
        tasks
    }

    /// Positions of the GPUs that a task really has.  With ConstrainDevices, these are the GPUs that it can open; else those
    /// that the vendor's variable counts in PCI order.
    pub fn gpus_of(&self, task: &Task) -> Set {
        let open = task.open();
        if open.is_empty() || open.len() == self.gpus.len() {
            return numbers(self.list_of(task));
        }
        let of = |number: usize| self.gpus.iter().position(|gpu| gpu.number == number);
        open.into_iter()
            .map(|number| of(number).expect("a GPU"))
            .collect()
    }

    /// The list in the variable of the GPUs' vendor.
    pub fn list_of<'a>(&self, task: &'a Task) -> &'a str {
        let name = match self.name {
            "four-nodes" => "ROCR_VISIBLE_DEVICES",
            _ => "CUDA_VISIBLE_DEVICES",
        };
        task.env(name).unwrap_or_default()
    }

    /// The one GPU that a task has.
    pub fn gpu_of(&self, task: &Task) -> &Gpu {
        let gpus = self.gpus_of(task);
        assert_eq!(gpus.len(), 1, "{task:?}");
        &self.gpus[*gpus.first().expect("one")]
    }

    /// Tasks of one GPU that may run on no CPU near it.
    pub fn far(&self, tasks: &[Task]) -> usize {
        let is_far = |task: &&Task| task.cpus().is_disjoint(&self.gpu_of(task).cpus);
        tasks.iter().filter(is_far).count()
    }

    /// True if the task's CPUs, policy and pages are on its GPU's NUMA node.
    pub fn is_near(&self, task: &Task) -> bool {
        let gpu = self.gpu_of(task);
        task.cpus().is_subset(&gpu.cpus)
            && task.mem() == format!("preferred-many:{}", gpu.numa_node)
            && self.has_near_pages(task)
    }

    /// True if all of its pages are there.
    pub fn has_near_pages(&self, task: &Task) -> bool {
        task.node_of_its_pages() == Some(self.gpu_of(task).numa_node)
    }

    /// One-GPU tasks that have some pages on another NUMA node.
    pub fn with_far_pages(&self, tasks: &[Task]) -> usize {
        tasks
            .iter()
            .filter(|task| !self.has_near_pages(task))
            .count()
    }

    /// Names, with the port, of the good NICs that share most of the bus with a GPU.  If none is below the same host bridge,
    /// those of its NUMA node.
    pub fn nearest_nics(&self, gpu: &Gpu) -> Vec<String> {
        // `/`, sys, devices: these all share
        let shared = |nic: &Nic| common(&nic.path, &gpu.path).max(3);
        let nearness = |nic: &Nic| (shared(nic), nic.numa_node == gpu.numa_node);
        let good = || self.nics.iter().filter(|nic| nic.good);
        let most = good().map(nearness).max().expect("a good NIC");
        let nearest = good().filter(|nic| nearness(nic) == most);
        nearest.map(|nic| format!("{}:1", nic.name)).collect()
    }

    /// True if each of a task's NICs is nearest to one of its GPUs, and each GPU has one.
    pub fn has_nearest_nics(&self, task: &Task) -> bool {
        let (ucx, gpus) = (task.ucx(), self.gpus_of(task));
        let near = gpus.iter().map(|gpu| self.nearest_nics(&self.gpus[*gpu]));
        let near: Vec<Vec<String>> = near.collect();
        let has = |nics: &[String], nic: &&str| nics.iter().any(|near| near == nic);
        near.iter().all(|nics| ucx.iter().any(|nic| has(nics, nic)))
            && ucx.iter().all(|nic| has(&near.concat(), nic))
    }
}

/// The number of folders that two paths share.
pub fn common(one: &Path, other: &Path) -> usize {
    let pairs = one.iter().zip(other);
    pairs.take_while(|(one, other)| one == other).count()
}

/// The words of each line of a file.
pub fn words_of(file: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let words = |line: &str| line.split_whitespace().map(String::from).collect();
    text.lines().map(words).collect()
}
