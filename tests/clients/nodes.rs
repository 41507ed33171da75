//! Two guests on a wire with a Slurm over both: the boot, and the bytes that each NIC sent.

pub(super) use super::Case;
use crate::guest::boot::{Boot, here, judged, plugin, released, temporary};
use crate::guest::cases::Unfit;
pub(crate) use crate::guest::cases::cases;
pub use crate::guest::task::{Task, all, each};
use crate::guest::watch::Watch;
use crate::guest::{Guest, common, words_of};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;

/// The nodes' names.
pub const NODES: [&str; 2] = ["n0", "n1"];

/// The answers that n0 left of both.
pub struct Nodes {
    n0: Guest,
    /// each GPU's NIC, by the number of the GPU's device node
    beside: BTreeMap<usize, String>,
}

impl Deref for Nodes {
    type Target = Guest;

    fn deref(&self) -> &Guest {
        &self.n0
    }
}

/// The bytes of one command, by node and NIC (`mlx5_N` or `eth0`).
pub struct Sent(pub BTreeMap<(String, String), u64>);

impl Sent {
    /// The bytes that left a NIC of a node.
    pub fn by(&self, node: &str, nic: &str) -> u64 {
        self.0[&(node.to_string(), nic.to_string())]
    }

    /// All bytes of the NICs that are so.
    pub fn sum(&self, is: impl Fn(&str, &str) -> bool) -> u64 {
        let of = self.0.iter().filter(|((node, nic), _)| is(node, nic));
        of.map(|(_, bytes)| *bytes).sum()
    }
}

/// A task of pair.sh or pingpong.c.
impl Task {
    /// The bytes that it has sent, without those that carry them.
    pub fn sent(&self) -> u64 {
        self.said("sent").parse().expect("bytes")
    }

    /// The number of the one GPU that it may open.
    pub fn gpu(&self) -> usize {
        let one = self.said("gpus").parse();
        one.unwrap_or_else(|_| panic!("one GPU: {self:?}"))
    }

    /// Does UCX's list begin so?
    pub fn lists(&self, nics: &str) -> bool {
        self.said("ucx").starts_with(nics)
    }
}

/// Makes the guests' root with these objects; qemu's words for the folders that the guests see besides.
fn made_root(root: &Path, objects: [&Path; 2]) -> Result<String, Unfit> {
    let mut script = Command::new(here().join("tests/clients/root.sh"));
    let ran = script.arg(root).args(objects).output();
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
             -device virtio-9p-pci,fsdev={tag},mount_tag={tag},bus=pcie.0 "
        )
    });
    Ok(words.collect())
}

impl Nodes {
    /// Boots both and runs the commands.
    pub fn boot(commands: String) -> Result<Nodes, Unfit> {
        let [root, wire] = ["clients-root", "clients-wire"].map(temporary);
        for folder in [&root, &wire] {
            let _ = fs::remove_dir_all(folder);
            fs::create_dir_all(folder).map_err(|error| Unfit::Broken(error.to_string()))?;
        }
        let shares = made_root(&root, [&plugin(), &released("nic-placement")])?;
        let boots = [1, 2].map(|side| {
            let mut arguments = vec![side.to_string()];
            arguments.extend((side == 1).then(|| commands.trim_end().to_string()));
            let program = here().join("tests/clients/node.sh");
            Boot {
                arguments,
                also: format!("{}:rdma:ip", root.display()),
                more: vec![
                    ("VM_WIRE", format!("{}/{side}", wire.display())),
                    ("VM_THREADS", "multi".to_string()),
                    ("VM_LIMIT", "5400".to_string()),
                    ("VM_QEMU", shares.clone()),
                ],
                ..Boot::of(
                    "../clients/node",
                    program,
                    &format!("clients-{}", NODES[side - 1]),
                )
            }
        });
        let ran = Watch::usual().run(&boots);
        if let Some(failed) = ran.failed {
            judged(NODES[failed], &ran.outputs[failed])?;
        }
        let out = boots[0].out.clone();
        let beside = beside(&words_of(&out.join("gpus")), &words_of(&out.join("nics")));
        let n0 = Guest::of("clients", commands, out);
        Ok(Nodes { n0, beside })
    }

    /// The release of /other/NAME in the guests (others.sh), if they have it, and `rdma` where UCX knows that.
    pub fn other(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.out.join("others")).unwrap_or_default();
        let of = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(' ')?.to_string());
        text.lines().find_map(of)
    }

    /// The bytes that left each NIC while a command ran.
    pub fn sent(&self, name: &str) -> Sent {
        let count = |when| -> BTreeMap<(String, String), u64> {
            let words = words_of(&self.out.join(format!("{name}.{when}"))).into_iter();
            let row = |words: Vec<String>| {
                let [node, nic, bytes] = words.try_into().expect("three words");
                ((node, nic), bytes.parse().expect("bytes"))
            };
            words.map(row).collect()
        };
        let mut after = count("after");
        for (nic, before) in count("before") {
            *after.get_mut(&nic).expect("it is there still") -= before;
        }
        Sent(after)
    }

    /// The NIC beside a GPU, by the kernel's tree alone.
    pub fn beside(&self, gpu: usize) -> &str {
        &self.beside[&gpu]
    }

    /// The bytes of each command, for people: KiB by NIC, of n0 and n1.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for (name, line) in self.commands() {
            let sent = self.sent(name).0;
            text.push_str(&format!("$ {line}   ({name})\n"));
            for node in NODES {
                let of = sent.iter().filter(|((on, _), _)| on == node);
                let kib = |bytes: &u64| *bytes as f64 / 1024.0;
                let cells = of.map(|((_, nic), bytes)| format!("{nic} {:>7.1}", kib(bytes)));
                let cells: Vec<String> = cells.collect();
                text.push_str(&format!("    {node}  KiB  {}\n", cells.join("  ")));
            }
        }
        text + &self.answer("times")
    }
}

/// For each GPU the NIC whose folder in /sys shares most with the GPU's: the one behind the same switch.
fn beside(gpus: &[Vec<String>], nics: &[Vec<String>]) -> BTreeMap<usize, String> {
    let nic = |gpu: &Vec<String>| {
        let shared = |nic: &&Vec<String>| common(Path::new(&nic[1]), Path::new(&gpu[4]));
        nics.iter().max_by_key(shared).expect("a NIC")[0].clone()
    };
    let number = |gpu: &Vec<String>| gpu[0].parse().expect("a number");
    gpus.iter().map(|gpu| (number(gpu), nic(gpu))).collect()
}
