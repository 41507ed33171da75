//! Two guests on a wire with a Slurm over both: the boot, the answers, and the bytes that each NIC sent.

use crate::Command;
use crate::boot::{Boot, CANNOT, Watch, released};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Why there are no guests.
pub enum Unfit {
    /// something that this machine lacks, and may lack
    Skip(String),
    /// something that should be there
    Broken(String),
}

/// The nodes' names.
pub const NODES: [&str; 2] = ["n0", "n1"];

/// The answers from both.
pub struct Nodes {
    commands: Vec<Command>,
    /// what n0 left
    out: PathBuf,
    /// each GPU's NIC, by the number of the GPU's device node
    beside: BTreeMap<u32, String>,
}

/// What one command sent: bytes by node and NIC (`mlx5_N` or `eth0`).
pub type Sent = BTreeMap<(String, String), u64>;

/// What a task of pair.sh or pingpong.c said of itself.
#[derive(Debug)]
pub struct Task {
    words: BTreeMap<String, String>,
}

impl Task {
    /// A word of its line.
    pub fn word(&self, name: &str) -> &str {
        self.words.get(name).map_or("-", String::as_str)
    }

    /// The bytes that it has sent, without what carries them.
    pub fn sent(&self) -> u64 {
        self.word("sent").parse().unwrap()
    }

    /// The number of the one GPU that it may open.
    pub fn gpu(&self) -> u32 {
        self.word("gpus")
            .parse()
            .unwrap_or_else(|_| panic!("one GPU: {self:?}"))
    }
}

fn tests() -> PathBuf {
    Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests")
}

/// Makes the guests' root with these objects; qemu's words for the folders that the guests see besides.
fn made_root(root: &Path, objects: &[&Path]) -> Result<String, Unfit> {
    let ran = std::process::Command::new(tests().join("clients/root.sh"))
        .arg(root)
        .args(objects)
        .output();
    let ran = ran.map_err(|error| Unfit::Broken(format!("root.sh: {error}")))?;
    judged("root.sh", &ran)?;
    // such as a release of UCX that cannot be had
    eprint!("{}", String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let shares = said
        .lines()
        .filter_map(|line| line.strip_prefix("share ")?.split_once(' '));
    let words = shares.map(|(tag, folder)| {
        format!(
            "-fsdev local,id={tag},path={folder},security_model=none,readonly=on \
             -device virtio-9p-pci,fsdev={tag},mount_tag={tag},bus=pcie.0"
        )
    });
    Ok(words.collect::<Vec<_>>().join(" "))
}

fn judged(name: &str, ran: &Output) -> Result<(), Unfit> {
    let said = String::from_utf8_lossy(&ran.stderr).trim().to_string();
    match ran.status.code() {
        Some(0) => Ok(()),
        Some(CANNOT) => Err(Unfit::Skip(said)),
        code => Err(Unfit::Broken(format!("{name} ended with {code:?}: {said}"))),
    }
}

impl Nodes {
    /// Boots both and runs the commands, each a name and a line of shell.
    pub fn boot(commands: Vec<Command>) -> Result<Nodes, Unfit> {
        let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (root, wire) = (
            temporary.join("clients-root"),
            temporary.join("clients-wire"),
        );
        for folder in [&root, &wire] {
            let _ = fs::remove_dir_all(folder);
            fs::create_dir_all(folder).map_err(|error| Unfit::Broken(error.to_string()))?;
        }
        let plugin = std::env::var_os("NIC_PLACEMENT_SO")
            .map_or(released("libnic_placement.so"), PathBuf::from);
        let shares = made_root(&root, &[&plugin, &released("nic-placement")])?;
        let lines: Vec<String> = commands
            .iter()
            .map(|(name, line)| format!("{name} {line}"))
            .collect();
        let boot = |side: usize| {
            let mut arguments = vec![side.to_string()];
            arguments.extend((side == 1).then(|| lines.join("\n")));
            Boot {
                machine: "../clients/node",
                program: tests().join("clients/node.sh"),
                arguments,
                also: format!("{}:rdma:ip", root.display()),
                out: temporary.join(format!("clients-{}", NODES[side - 1])),
                more: vec![
                    ("VM_WIRE", format!("{}/{side}", wire.display())),
                    ("VM_THREADS", "multi".to_string()),
                    ("VM_LIMIT", "5400".to_string()),
                    ("VM_QEMU", shares.clone()),
                ],
            }
        };
        let boots = [boot(1), boot(2)];
        let ran = Watch::usual().run(&boots);
        if let Some(failed) = ran.failed {
            judged(NODES[failed], &ran.outputs[failed])?;
        }
        let out = boots[0].out.clone();
        let beside = beside(&lines_of(&out.join("gpus")), &lines_of(&out.join("nics")));
        Ok(Nodes {
            commands,
            out,
            beside,
        })
    }

    /// A file that was left in n0.
    pub fn answer(&self, name: &str) -> String {
        let path = self.out.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// What the guests have as /other/NAME (others.sh), if they have it: its release, and `rdma` where UCX knows that.
    pub fn other(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.out.join("others")).unwrap_or_default();
        let of = |line: &str| {
            line.split_once(' ')
                .map(|(name, release)| (name.to_string(), release.to_string()))
        };
        let mut others = text.lines().filter_map(of);
        others
            .find(|(other, _)| other == name)
            .map(|(_, release)| release)
    }

    /// What a command wrote to both streams.
    pub fn said(&self, name: &str) -> String {
        // libmlx5 is there, since UCX is linked with it, and does not know these devices
        let errors = self.answer(&format!("{name}.stderr"));
        let errors = errors
            .lines()
            .filter(|line| !line.starts_with("libibverbs: Warning: Driver mlx5"));
        self.answer(name) + &errors.collect::<Vec<_>>().join("\n")
    }

    /// Did it end with 0?
    pub fn succeeded(&self, name: &str) -> bool {
        self.answer(&format!("{name}.status")).trim() == "0"
    }

    /// The tasks that a command's steps had, in the order of nodes and local ids; it must have succeeded, with so many.
    pub fn tasks(&self, name: &str, count: usize) -> Vec<Task> {
        let said = self.said(name);
        assert!(self.succeeded(name), "{name}: {said}");
        let word = |word: &str| {
            word.split_once('=')
                .map(|(name, value)| (name.to_string(), value.to_string()))
        };
        let lines = said.lines().filter_map(|line| line.strip_prefix("task "));
        let mut tasks: Vec<Task> = lines
            .map(|line| Task {
                words: line.split(' ').filter_map(word).collect(),
            })
            .collect();
        tasks.sort_by_key(|task| {
            (
                task.word("node").to_string(),
                task.word("local").to_string(),
            )
        });
        assert_eq!(tasks.len(), count, "{name}: {said}");
        tasks
    }

    /// What left each NIC while a command ran.
    pub fn sent(&self, name: &str) -> Sent {
        let count = |when: &str| -> Sent {
            let text = self.answer(&format!("{name}.{when}"));
            let words = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            words
                .map(|words| {
                    (
                        (words[0].to_string(), words[1].to_string()),
                        words[2].parse().unwrap(),
                    )
                })
                .collect()
        };
        let mut after = count("after");
        for (nic, before) in count("before") {
            *after.get_mut(&nic).unwrap() -= before;
        }
        after
    }

    /// The NIC beside a GPU, by the kernel's tree alone.
    pub fn beside(&self, gpu: u32) -> &str {
        &self.beside[&gpu]
    }

    /// What each command sent, for people: KiB by NIC, of n0 and n1.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for (name, line) in &self.commands {
            let sent = self.sent(name);
            text.push_str(&format!("$ {line}   ({name})\n"));
            for node in NODES {
                let of = sent.iter().filter(|((on, _), _)| on == node);
                let cells: Vec<String> = of
                    .map(|((_, nic), bytes)| format!("{nic} {:>7.1}", *bytes as f64 / 1024.0))
                    .collect();
                text.push_str(&format!("    {node}  KiB  {}\n", cells.join("  ")));
            }
        }
        text + &self.answer("times")
    }
}

fn lines_of(file: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .map(|line| line.split_whitespace().map(String::from).collect())
        .collect()
}

/// For each GPU the NIC whose folder in /sys shares most with the GPU's: the one behind the same switch.
fn beside(gpus: &[Vec<String>], nics: &[Vec<String>]) -> BTreeMap<u32, String> {
    let shared = |one: &str, other: &str| {
        Path::new(one)
            .iter()
            .zip(Path::new(other).iter())
            .take_while(|(one, other)| one == other)
            .count()
    };
    let nic = |gpu: &Vec<String>| {
        nics.iter()
            .max_by_key(|nic| shared(&nic[1], &gpu[4]))
            .unwrap()[0]
            .clone()
    };
    gpus.iter()
        .map(|gpu| (gpu[0].parse().unwrap(), nic(gpu)))
        .collect()
}
