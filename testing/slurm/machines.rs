//! The machines that the nodes play, and the facts with which the cases compare.

use super::plugins::{compile, unknown_slurm};
use super::site::Site;
use super::task::{Set, Task};
use std::fs;
use std::path::{Path, PathBuf};

/// A cluster to be brought up: node nK plays the K-th machine.
pub struct Cluster {
    pub name: &'static str,
    pub nodes: &'static [fn(&Site) -> PathBuf],
    /// the content of plugstack.conf when slurmd starts
    pub plugstack: fn(&Site) -> String,
    pub cgroups: bool,
    /// no job has more memory than it asked for
    pub ram: bool,
    /// a library that slurmd and slurmstepd load before all others
    pub preload: Option<fn(&Site) -> PathBuf>,
    /// more lines of slurm.conf, `\\n` behind each
    pub extra: fn(&Site) -> String,
    /// sockets:cores:threads of all nodes, where not a DGX H100's
    pub shape: Option<&'static str>,
    /// gres.conf's word for finding GPUs; the function returns none where this Slurm has no such word, and the cases are
    /// skipped
    pub autodetect: Option<fn(&Site) -> Option<&'static str>>,
}

/// The compute NIC of each GPU of a DGX H100, GPUs in PCI order.
pub const NIC_OF_GPU: [&str; 8] = [
    "mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11",
];
/// Storage and management NICs, and the Ethernet functions: never for GPU traffic.
pub const OTHER_NICS: [&str; 6] = ["mlx5_1", "mlx5_2", "mlx5_7", "mlx5_8", "irdma0", "irdma1"];

/// A DGX H100 whose `mlx5_4`, the NIC of GPU 2, has lost its link.
pub const LINK_DOWN: &str = "n2";
/// A DGX H100 without RDMA drivers: no /sys/class/infiniband.
pub const NO_RDMA: &str = "n3";
/// A DGX H100 without its GPUs.
pub const NO_GPUS: &str = "n4";

/// `mlx5_3:1`, as UCX writes it.
pub fn ucx_of(gpu: usize) -> String {
    format!("{}:1", NIC_OF_GPU[gpu])
}

/// The NICs of several GPUs, in their order.
pub fn ucx_of_all(gpus: impl IntoIterator<Item = usize>) -> Vec<String> {
    gpus.into_iter().map(ucx_of).collect()
}

/// What NCCL must get on a DGX H100: exactly the compute NICs.
pub fn nccl_list() -> String {
    format!("={}", ucx_of_all(0..8).join(","))
}

/// What NVSHMEM must get: the same, as it spells it.
pub fn nvshmem_list() -> String {
    ucx_of_all(0..8).join(",")
}

/// The NUMA node of a GPU: the first four are on the first socket.
pub fn numa_node_of(gpu: usize) -> usize {
    gpu / 4
}

/// The CPUs of a NUMA node: 56 cores, the second thread of each numbered 112 higher.
pub fn cpus_of_node(node: usize) -> Set {
    let first = node * 56..node * 56 + 56;
    first.flat_map(|cpu| [cpu, cpu + 112]).collect()
}

/// The CPUs near a GPU.
pub fn cpus_near(gpu: usize) -> Set {
    cpus_of_node(numa_node_of(gpu))
}

/// A task of a DGX H100.
impl Task {
    /// The one GPU that it sees, or the first.
    pub fn gpu(&self) -> usize {
        *self
            .gpus()
            .first()
            .unwrap_or_else(|| panic!("no GPU: {self:?}"))
    }

    /// Has it the NICs of the GPUs that the vendor's variable lists, in their order?
    pub fn is_own(&self) -> bool {
        !self.gpus().is_empty() && self.ucx() == ucx_of_all(self.gpus())
    }

    /// Has it the list that NCCL must get?
    pub fn is_listed(&self) -> bool {
        self.env("NCCL_IB_HCA") == Some(&nccl_list())
    }

    /// Is a list of NICs set?
    pub fn has_nics(&self) -> bool {
        !self.lacks(&["UCX_NET_DEVICES", "NCCL_IB_HCA"])
    }

    /// Are all of its CPUs near its GPU?
    pub fn is_near(&self) -> bool {
        self.cpus().is_subset(&cpus_near(self.gpu()))
    }

    /// Is none of them?
    pub fn is_far(&self) -> bool {
        self.cpus().is_disjoint(&cpus_near(self.gpu()))
    }

    /// Is nothing of it ours, its memory policy included?
    pub fn is_as_slurm_has_it(&self) -> bool {
        self.is_untouched() && self.mem() == "default"
    }

    /// The CPUs and the memory policy.
    pub fn binding(&self) -> (Set, &str) {
        (self.cpus(), self.mem())
    }
}

impl Cluster {
    /// Our plugin on nodes that play these, without cgroups.
    pub fn of(name: &'static str, nodes: &'static [fn(&Site) -> PathBuf]) -> Cluster {
        Cluster {
            name,
            nodes,
            plugstack: |site| site.plugstack_line(""),
            cgroups: false,
            ram: false,
            preload: None,
            extra: |_| String::new(),
            shape: None,
            autodetect: None,
        }
    }

    /// Why it cannot be here.
    pub fn lacks(&self, site: &Site) -> Option<&'static str> {
        if self.autodetect.is_some_and(|word| word(site).is_none()) {
            return Some("gres.conf finds no GPUs here");
        }
        // Slurm 22.05 needs systemd's help for the cgroups of version 2
        let devices = Path::new("/sys/fs/cgroup/devices/devices.list");
        (self.cgroups && !devices.exists()).then_some("no cgroup v1 `devices` hierarchy here")
    }
}

/// Two nodes alike, n0 and n1, and three odd ones; no cgroups.
pub fn plain() -> Cluster {
    Cluster {
        // salloc without a command then starts `$SHELL` on the first node, here without a terminal
        extra: |_| {
            let step = "LaunchParameters=use_interactive_step";
            let options = r#"InteractiveStepOptions="--interactive --preserve-env $SHELL""#;
            format!("{step}\\n{options}\\n")
        },
        ..Cluster::of("plain", &[dgx, dgx, link_down, no_rdma, no_gpus])
    }
}

/// Two nodes to which slurmctld sends plugstack.conf.
pub fn configless() -> Cluster {
    Cluster {
        extra: |_| r"SlurmctldParameters=enable_configless\n".to_string(),
        ..Cluster::of("configless", &[dgx, dgx])
    }
}

/// One node whose device cgroups let each task open its own GPUs alone.
pub fn with_cgroups() -> Cluster {
    Cluster {
        cgroups: true,
        ..Cluster::of("cgroups", &[dgx])
    }
}

/// One node with four NUMA nodes to a socket and GPUs on every other one: a DGX A100, of which Slurm sees the sockets.
pub fn with_four_numa_nodes_to_a_socket() -> Cluster {
    Cluster {
        shape: Some("2:64:2"),
        ..Cluster::of("nps4", &[dgx_a100])
    }
}

/// One node whose slurmd has loaded a plugin that exports a hook which ours must not export: its mere presence makes
/// slurmd start a helper process for each job.
pub fn with_a_prolog_plugin() -> Cluster {
    Cluster {
        plugstack: |site| {
            let hook = "int slurm_spank_job_prolog(void) { return 0; }\n";
            let library = compile(site, "prolog", &spank("prolog", site, hook));
            format!("optional {}", library.display())
        },
        ..Cluster::of("prolog", &[dgx])
    }
}

/// A plugin's source in C, stamped for the Slurm that runs.
pub fn spank(name: &str, site: &Site, hooks: &str) -> String {
    let version = site.version();
    let names = format!("const char plugin_name[] = \"{name}\", plugin_type[] = \"spank\";");
    format!("{names}\nconst unsigned plugin_version = {version};\n{hooks}")
}

/// One node that gives each job a namespace and a /tmp of its own.
pub fn with_contained_jobs() -> Cluster {
    Cluster {
        name: "contained",
        extra: |site| {
            let namespaces = match site.release < (25, 11) {
                true => "JobContainerType=job_container/tmpfs",
                false => "NamespaceType=namespace/tmpfs",
            };
            let spank = match site.release < (24, 5) {
                true => "",
                false => "SlurmdParameters=config_overrides,contain_spank",
            };
            format!("PrologFlags=Contain\\n{namespaces}\\n{spank}\\n")
        },
        ..with_cgroups()
    }
}

/// One node whose jobs have a step of Slurm's own, which forwards displays and may manage the job's other steps.
pub fn with_a_step_of_slurms_own() -> Cluster {
    Cluster {
        name: "extern",
        extra: |_| "PrologFlags=Contain,X11\\n".to_string(),
        ..with_cgroups()
    }
}

/// One node whose jobs have no more memory than they asked for.
pub fn with_little_memory() -> Cluster {
    Cluster {
        name: "memory",
        ram: true,
        extra: |_| "SelectTypeParameters=CR_Core_Memory\\n".to_string(),
        ..with_cgroups()
    }
}

/// One node whose GPUs slurmd finds by itself; gres.conf names none.
pub fn whose_gpus_slurm_finds() -> Cluster {
    Cluster {
        autodetect: Some(|site| match site.release {
            release if release < (24, 11) => None,
            release if release < (26, 5) => Some("nvidia"),
            _ => Some("full"),
        }),
        ..Cluster::of("autodetect", &[with_the_drivers_files])
    }
}

/// One node whose slurmd and slurmstepd are of a release that the plugin does not know.
pub fn of_an_unknown_release() -> Cluster {
    Cluster {
        preload: Some(unknown_slurm),
        ..Cluster::of("unknown", &[dgx])
    }
}

/// The files in which the NVIDIA driver tells of a node's GPUs, in PCI order.
pub fn gpu_folders(tree: &Path) -> Vec<PathBuf> {
    let gpus = fs::read_dir(tree.join("proc/driver/nvidia/gpus")).expect("the GPUs");
    let mut folders: Vec<PathBuf> = gpus.map(|entry| entry.expect("a GPU").path()).collect();
    folders.sort();
    folders
}

/// The `/dev/nvidiaN` number of a GPU.
pub fn minor(folder: &Path) -> usize {
    let text = fs::read_to_string(folder.join("information")).expect("a GPU's `information`");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Device Minor:"));
    line.expect("a minor").trim().parse().expect("a number")
}

pub fn dgx(site: &Site) -> PathBuf {
    site.machine("dgx-h100", |_| {})
}

/// As `dgx`, with the file in which slurmd looks for the CPUs near a GPU (src/plugins/gpu/nvidia/gpu_nvidia.c).
fn with_the_drivers_files(site: &Site) -> PathBuf {
    site.machine("drivers", |tree| {
        for (gpu, folder) in gpu_folders(tree).iter().enumerate() {
            let address = folder.file_name().expect("an address");
            let function = tree.join("sys/bus/pci/drivers/nvidia").join(address);
            fs::create_dir_all(&function).expect("a function of the driver");
            let cpus = ["0-55,112-167\n", "56-111,168-223\n"][numa_node_of(gpu)];
            fs::write(function.join("local_cpulist"), cpus).expect("its CPUs");
        }
    })
}

pub fn dgx_a100(site: &Site) -> PathBuf {
    site.machine_of("dgx-a100", "dgx-a100", |_| {})
}

pub fn link_down(site: &Site) -> PathBuf {
    site.machine("link-down", |tree| {
        let port = tree.join("sys/class/infiniband/mlx5_4/ports/1");
        fs::write(port.join("state"), "1: DOWN\n").expect("the port of mlx5_4");
    })
}

pub fn no_rdma(site: &Site) -> PathBuf {
    site.machine("no-rdma", |tree| {
        fs::remove_dir_all(tree.join("sys/class/infiniband")).expect("the RDMA devices");
    })
}

pub fn no_gpus(site: &Site) -> PathBuf {
    site.machine("no-gpus", |tree| {
        fs::remove_dir_all(tree.join("proc/driver/nvidia")).expect("the driver's files");
        let links = fs::read_dir(tree.join("sys/bus/pci/devices")).expect("PCI functions");
        for link in links.map(|entry| entry.expect("a name").path()) {
            let read = |file| fs::read_to_string(link.join(file)).unwrap_or_default();
            if read("vendor").trim() == "0x10de" && read("class").starts_with("0x03") {
                let function = fs::canonicalize(&link).expect("a PCI function");
                fs::remove_file(&link).expect("a link");
                fs::remove_dir_all(function).expect("a PCI function");
            }
        }
    })
}
