//! The machines that the nodes play, and the facts with which the cases compare.

use crate::plugins::unknown_slurm;
use crate::site::Site;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
pub fn cpus_of_node(node: usize) -> BTreeSet<usize> {
    (node * 56..node * 56 + 56)
        .flat_map(|cpu| [cpu, cpu + 112])
        .collect()
}

/// The CPUs near a GPU.
pub fn cpus_near(gpu: usize) -> BTreeSet<usize> {
    cpus_of_node(numa_node_of(gpu))
}

/// Two nodes alike, n0 and n1, and three odd ones; no cgroups.
pub fn plain() -> Cluster {
    let nodes: &[fn(&Site) -> PathBuf] = &[dgx, dgx, link_down, no_rdma, no_gpus];
    // salloc without a command then starts `$SHELL` on the first node, here without a terminal
    let interactive: fn(&Site) -> String = |_| {
        r#"LaunchParameters=use_interactive_step\nInteractiveStepOptions="--interactive --preserve-env $SHELL"\n"#
            .to_string()
    };
    Cluster {
        name: "plain",
        nodes,
        plugstack: our_plugin,
        cgroups: false,
        ram: false,
        preload: None,
        extra: interactive,
        shape: None,
        autodetect: None,
    }
}

/// Two nodes to which slurmctld sends plugstack.conf.
pub fn configless() -> Cluster {
    Cluster {
        name: "configless",
        nodes: &[dgx, dgx],
        extra: |_| r"SlurmctldParameters=enable_configless\n".to_string(),
        ..plain()
    }
}

/// One node whose device cgroups let each task open its own GPUs alone.
pub fn with_cgroups() -> Cluster {
    Cluster {
        name: "cgroups",
        nodes: &[dgx],
        plugstack: our_plugin,
        cgroups: true,
        ram: false,
        preload: None,
        extra: none,
        shape: None,
        autodetect: None,
    }
}

/// One node with four NUMA nodes to a socket and GPUs on every other one: a DGX A100, of which Slurm sees the sockets.
pub fn with_four_numa_nodes_to_a_socket() -> Cluster {
    Cluster {
        name: "nps4",
        nodes: &[dgx_a100],
        plugstack: our_plugin,
        cgroups: false,
        ram: false,
        preload: None,
        extra: none,
        shape: Some("2:64:2"),
        autodetect: None,
    }
}

/// One node whose slurmd has loaded a plugin that exports a hook which ours must not export.
pub fn with_a_prolog_plugin() -> Cluster {
    Cluster {
        name: "prolog",
        nodes: &[dgx],
        plugstack: prolog_plugin,
        cgroups: false,
        ram: false,
        preload: None,
        extra: none,
        shape: None,
        autodetect: None,
    }
}

/// One node that gives each job a namespace and a /tmp of its own.
pub fn with_contained_jobs() -> Cluster {
    let extra: fn(&Site) -> String = |site| {
        let namespaces = match site.release < (25, 11) {
            true => "JobContainerType=job_container/tmpfs",
            false => "NamespaceType=namespace/tmpfs",
        };
        let spank = if site.release < (24, 5) {
            ""
        } else {
            "SlurmdParameters=config_overrides,contain_spank"
        };
        format!("PrologFlags=Contain\\n{namespaces}\\n{spank}\\n")
    };
    Cluster {
        name: "contained",
        nodes: &[dgx],
        plugstack: our_plugin,
        cgroups: true,
        ram: false,
        preload: None,
        extra,
        shape: None,
        autodetect: None,
    }
}

/// One node whose jobs have a step of Slurm's own, which forwards displays and may manage the job's other steps.
pub fn with_a_step_of_slurms_own() -> Cluster {
    Cluster {
        name: "extern",
        nodes: &[dgx],
        plugstack: our_plugin,
        cgroups: true,
        ram: false,
        preload: None,
        extra: |_| "PrologFlags=Contain,X11\\n".to_string(),
        shape: None,
        autodetect: None,
    }
}

/// One node whose jobs have no more memory than they asked for.
pub fn with_little_memory() -> Cluster {
    let extra: fn(&Site) -> String = |_| "SelectTypeParameters=CR_Core_Memory\\n".to_string();
    Cluster {
        name: "memory",
        ram: true,
        extra,
        ..with_cgroups()
    }
}

/// One node whose GPUs slurmd finds by itself; gres.conf names none.
pub fn whose_gpus_slurm_finds() -> Cluster {
    Cluster {
        name: "autodetect",
        nodes: &[with_the_drivers_files],
        plugstack: our_plugin,
        cgroups: false,
        ram: false,
        preload: None,
        extra: none,
        shape: None,
        autodetect: Some(|site| match site.release {
            release if release < (24, 11) => None,
            release if release < (26, 5) => Some("nvidia"),
            _ => Some("full"),
        }),
    }
}

/// One node whose slurmd and slurmstepd are of a release that the plugin does not know.
pub fn of_an_unknown_release() -> Cluster {
    let preload = Some(unknown_slurm as fn(&Site) -> PathBuf);
    Cluster {
        name: "unknown",
        nodes: &[dgx],
        plugstack: our_plugin,
        cgroups: false,
        ram: false,
        preload,
        extra: none,
        shape: None,
        autodetect: None,
    }
}

fn none(_: &Site) -> String {
    String::new()
}

fn our_plugin(site: &Site) -> String {
    site.plugstack_line("")
}

/// A plugin that exports a hook; its mere presence makes slurmd start a helper process for each job.
fn prolog_plugin(site: &Site) -> String {
    let (major, minor) = site.release;
    let source = site.dir.join("prolog.c");
    let text = format!(
        "const char plugin_name[] = \"prolog\", plugin_type[] = \"spank\";\n\
         const unsigned plugin_version = {};\n\
         int slurm_spank_job_prolog(void) {{ return 0; }}\n",
        major << 16 | minor << 8
    );
    fs::write(&source, text).expect("prolog.c");
    let library = source.with_extension("so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "`cc` of prolog.c"
    );
    format!("optional {}", library.display())
}

/// The `/dev/nvidiaN` numbers of the DGX H100's GPUs, GPUs in PCI order.
pub fn minors_in_pci_order(site: &Site) -> Vec<usize> {
    let gpus = dgx(site).join("proc/driver/nvidia/gpus");
    let mut addresses: Vec<PathBuf> = fs::read_dir(&gpus)
        .expect("the GPUs of the DGX H100")
        .map(|entry| entry.unwrap().path())
        .collect();
    addresses.sort();
    let minor = |address: &PathBuf| {
        let text = fs::read_to_string(address.join("information")).expect("a GPU's `information`");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Device Minor:"))
            .expect("`Device Minor`");
        line.trim().parse().expect("a minor number")
    };
    addresses.iter().map(minor).collect()
}

pub fn dgx(site: &Site) -> PathBuf {
    site.machine("dgx-h100", |_| {})
}

/// As `dgx`, with the file in which slurmd looks for the CPUs near a GPU (src/plugins/gpu/nvidia/gpu_nvidia.c).
fn with_the_drivers_files(site: &Site) -> PathBuf {
    site.machine("drivers", |tree| {
        let gpus = fs::read_dir(tree.join("proc/driver/nvidia/gpus")).expect("the GPUs");
        let mut addresses: Vec<_> = gpus
            .map(|entry| entry.expect("a GPU").file_name())
            .collect();
        addresses.sort();
        for (gpu, address) in addresses.iter().enumerate() {
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
        fs::remove_dir_all(tree.join("proc/driver/nvidia")).expect("what the NVIDIA driver tells");
        let devices = tree.join("sys/bus/pci/devices");
        for link in fs::read_dir(&devices)
            .expect("PCI functions")
            .map(|entry| entry.unwrap().path())
        {
            let vendor = fs::read_to_string(link.join("vendor")).unwrap_or_default();
            let class = fs::read_to_string(link.join("class")).unwrap_or_default();
            if vendor.trim() == "0x10de" && class.starts_with("0x03") {
                remove_function(&link);
            }
        }
    })
}

fn remove_function(link: &Path) {
    let function = fs::canonicalize(link).expect("a PCI function");
    fs::remove_file(link).expect("a link to a PCI function");
    fs::remove_dir_all(function).expect("a PCI function");
}
