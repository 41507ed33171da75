//! The machines that are attacked, and what the judge and the generator must know of each.

use crate::judge::{Machine, Set};
use crate::slurm::bed::Bed;
use crate::slurm::machines::{Cluster, dgx, dgx_a100, gpu_folders, minor};
use crate::slurm::site::Site;
use crate::slurm::task::numbers;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A node, as the generator of lines knows it.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// which of `clusters()`
    pub cluster: usize,
    pub node: &'static str,
    pub sockets: u32,
    pub cores_of_socket: u32,
    pub threads: u32,
    pub gpus: u32,
    pub numa_nodes: u32,
}

impl Target {
    pub fn cores(&self) -> u32 {
        self.sockets * self.cores_of_socket
    }
    pub fn cpus(&self) -> u32 {
        self.cores() * self.threads
    }
}

/// `(name, cluster, node, (sockets, cores of each, threads), GPUs, NUMA nodes)`
type Row = (&'static str, usize, &'static str, (u32, u32, u32), u32, u32);

const H100: (u32, u32, u32) = (2, 56, 2);

/// Pairs are dealt over these in turn.
pub const TARGETS: &[Row] = &[
    ("dgx-h100", 0, "n0", H100, 8, 2),
    ("dgx-h100, minors exchanged", 0, "n1", H100, 8, 2),
    ("dgx-a100", 0, "n2", (2, 64, 2), 8, 8),
    (
        "dgx-h100, minors exchanged, device cgroups, gres.conf by minor",
        1,
        "n0",
        H100,
        8,
        2,
    ),
    ("dgx-h100", 0, "n6", H100, 8, 2),
    ("one socket of eight NUMA nodes", 0, "n3", (1, 128, 2), 4, 8),
    (
        "dgx-h100, minors exchanged, device cgroups, gres.conf by PCI address",
        1,
        "n1",
        H100,
        8,
        2,
    ),
    ("GPUs on one socket of two", 0, "n4", (2, 24, 2), 2, 8),
    ("dgx-h100, task/none", 2, "n0", H100, 8, 2),
    ("gb200-nvl72", 0, "n5", (2, 72, 1), 4, 2),
    (
        "dgx-h100, minors shuffled, device cgroups, gres.conf wrong",
        1,
        "n2",
        H100,
        8,
        2,
    ),
    ("dgx-a100, task/none", 2, "n1", (2, 64, 2), 8, 8),
];

pub fn target(index: u64) -> Target {
    let (name, cluster, node, (sockets, cores_of_socket, threads), gpus, numa_nodes) =
        TARGETS[(index % TARGETS.len() as u64) as usize];
    Target {
        name,
        cluster,
        node,
        sockets,
        cores_of_socket,
        threads,
        gpus,
        numa_nodes,
    }
}

/// A cluster, and the knobs of `cluster.sh` that `Cluster` does not name.
pub struct Attacked {
    pub cluster: Cluster,
    pub knobs: Vec<(&'static str, String)>,
}

/// The clusters, which are up one after another.
pub fn clusters() -> Vec<Attacked> {
    let affinity: &[fn(&Site) -> PathBuf] = &[
        dgx,
        exchanged,
        dgx_a100,
        one_socket,
        gpus_on_one_socket,
        gb200,
        dgx,
    ];
    let cgroups: &[fn(&Site) -> PathBuf] = &[exchanged, exchanged, shuffled];
    let unbound: &[fn(&Site) -> PathBuf] = &[dgx, dgx_a100];
    let cluster = |name, nodes, cgroups, extra, shape| Cluster {
        plugstack,
        cgroups,
        extra,
        shape: Some(shape),
        ..Cluster::of(name, nodes)
    };
    let gres = |nodes: &str| vec![("NICP_GRES", nodes.to_string())];
    vec![
        Attacked {
            cluster: cluster(
                "attacked",
                affinity,
                false,
                |_| partitions(7),
                "n0=2:56:2 n1=2:56:2 n2=2:64:2 n3=1:128:2 n4=2:24:2 n5=2:72:1 n6=2:56:2",
            ),
            knobs: gres("n1=pci n4=minor"),
        },
        Attacked {
            cluster: cluster(
                "attacked-cgroups",
                cgroups,
                true,
                |_| partitions(3),
                "2:56:2",
            ),
            knobs: gres("n0=minor n1=pci"),
        },
        Attacked {
            // the last line counts
            cluster: cluster(
                "attacked-unbound",
                unbound,
                false,
                |_| format!("TaskPlugin=task/none\\n{}", partitions(2)),
                "n0=2:56:2 n1=2:64:2",
            ),
            knobs: Vec::new(),
        },
    ]
}

/// Two partitions to a node, so that a job that waits for one node holds up no other: `pN`, and `qN` for `default=closest`.  The
/// numbers of jobs are of this process's own, because another cluster's cgroups may stand beside ours.
fn partitions(nodes: usize) -> String {
    let of_node = |k| format!("PartitionName=p{k} Nodes=n{k}\\nPartitionName=q{k} Nodes=n{k}\\n");
    format!(
        "FirstJobId={}\\n{}",
        1000 * (std::process::id() % 60_000),
        (0..nodes).map(of_node).collect::<String>()
    )
}

fn plugstack(site: &Site) -> String {
    let file = site.dir.join("nic-placement.conf");
    // an admin's own binding leaves the user's, `--cpu-bind=none` too
    let default = |k: usize| ["closest", "rail,bind=core"][k % 2];
    let lines = (0..7)
        .map(|k| format!("PartitionName=q{k} default={}\n", default(k)))
        .collect::<String>();
    fs::write(&file, lines).expect("the configuration file");
    site.plugstack_line(&format!("conf={}", file.display()))
}

/// Gives the GPUs, in PCI order, these minor numbers.
fn set_minors(tree: &Path, minors: &[usize]) {
    for (gpu, minor) in gpu_folders(tree).iter().zip(minors) {
        let file = gpu.join("information");
        let text = fs::read_to_string(&file).expect("a GPU's `information`");
        let lines = text
            .lines()
            .map(|line| match line.starts_with("Device Minor:") {
                true => format!("Device Minor: \t {minor}\n"),
                false => format!("{line}\n"),
            });
        fs::write(&file, lines.collect::<String>()).expect("a GPU's `information`");
    }
}

/// The first and the last GPU have each other's number, as drivers gave them on real nodes.
fn exchanged(site: &Site) -> PathBuf {
    site.machine("exchanged", |tree| {
        set_minors(tree, &[7, 1, 2, 3, 4, 5, 6, 0])
    })
}

fn shuffled(site: &Site) -> PathBuf {
    site.machine("shuffled", |tree| {
        set_minors(tree, &[2, 4, 0, 6, 1, 7, 3, 5])
    })
}

fn one_socket(site: &Site) -> PathBuf {
    site.machine_of("levante", "one-socket", |tree| {
        for cpu in 0..256 {
            let topology = tree.join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
            fs::write(topology.join("physical_package_id"), "0\n").expect("a CPU's package");
            fs::write(topology.join("core_id"), format!("{}\n", cpu % 128)).expect("a CPU's core");
        }
    })
}

fn gpus_on_one_socket(site: &Site) -> PathBuf {
    site.machine_of("juwels-booster", "gpus-on-one-socket", |tree| {
        for folder in &gpu_folders(tree)[2..] {
            let link = tree
                .join("sys/bus/pci/devices")
                .join(folder.file_name().expect("an address"));
            fs::remove_dir_all(fs::canonicalize(&link).expect("a GPU")).expect("a GPU");
            fs::remove_file(link).expect("a link to a GPU");
            fs::remove_dir_all(folder).expect("a GPU");
        }
    })
}

fn gb200(site: &Site) -> PathBuf {
    site.machine_of("gb200-nvl72", "gb200", |_| {})
}

/// A GPU of a node; a node's are in PCI order, which is CUDA's.
pub struct Gpu {
    pub address: String,
    pub minor: usize,
    pub numa: u32,
}

/// What is true of a node.
pub struct Facts {
    pub machine: Machine,
    pub gpus: Vec<Gpu>,
}

impl Facts {
    /// Read where the node's own /sys comes from.
    pub fn of(bed: &Bed, node: &str) -> Facts {
        let tree = bed.machine(node);
        let read = |path: &Path| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .trim()
                .to_string()
        };
        let system = tree.join("sys/devices/system");
        let mut machine = Machine::default();
        let mut cores: BTreeMap<(String, String), Set> = BTreeMap::new();
        for node in 0..64u32 {
            let folder = system.join(format!("node/node{node}"));
            let cpus: Set = numbers(&read(&folder.join("cpulist")))
                .iter()
                .map(|cpu| *cpu as u32)
                .collect();
            if cpus.is_empty() {
                continue;
            }
            for (other, distance) in read(&folder.join("distance"))
                .split_whitespace()
                .enumerate()
            {
                machine
                    .distances
                    .insert((node, other as u32), distance.parse().expect("a distance"));
            }
            for cpu in &cpus {
                let topology = system.join(format!("cpu/cpu{cpu}/topology"));
                let core =
                    ["physical_package_id", "core_id"].map(|file| read(&topology.join(file)));
                cores.entry(core.into()).or_default().insert(*cpu);
            }
            machine.numa.insert(node, cpus);
        }
        machine.cores = cores.into_values().collect();
        // by their first threads, as Slurm numbers them
        machine.cores.sort();
        let gpu = |folder: PathBuf| {
            // `/proc/driver` is kept beside `/sys`
            let address = folder
                .file_name()
                .expect("an address")
                .to_string_lossy()
                .into_owned();
            let numa = read(
                &tree
                    .join("sys/bus/pci/devices")
                    .join(&address)
                    .join("numa_node"),
            );
            Gpu {
                address,
                minor: minor(&folder),
                numa: numa.parse().expect("a GPU's NUMA node"),
            }
        };
        Facts {
            machine,
            gpus: gpu_folders(&tree).into_iter().map(gpu).collect(),
        }
    }
}
