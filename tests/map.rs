//! `nic-placement map` read by the launchers themselves: Open MPI's mpirun with a rankfile, MPICH's mpiexec with its words.
//!
//! The node is a description with two GPUs, each on a NUMA node that is one of this machine's CPUs.

use nic_placement_core::topology::{
    CpuSet, Gpu, GpuVendor, LinkLayer, Nic, NicKind, NumaNode, Port, PortState, Provenance, Topology, file,
};
use nic_placement_core::topology::{HostBridge, PciFunction, PciParent};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two CPUs on which this test may run; `None` where it has but one.
fn two_cpus() -> Option<[u32; 2]> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let cpus: Vec<u32> = CpuSet::from_list(line.trim()).unwrap().iter().collect();
    match cpus.as_slice() {
        [first, .., last] => Some([*first, *last]),
        _ => None,
    }
}

fn function(topology: &mut Topology, address: &str, numa_node: u32) {
    let address = address.parse().unwrap();
    let parent = PciParent::Host(HostBridge { domain: 0, bus: (0x10 * (numa_node + 1)) as u8 });
    topology.pci.insert(PciFunction { numa_node: Some(numa_node), ..PciFunction::new(address, parent) });
}

/// Each of two NUMA nodes has a CPU, a GPU and a NIC.
fn described(cpus: [u32; 2], name: &str) -> PathBuf {
    let mut topology = Topology::empty("two-cpus", Provenance::ThisSystem);
    for (node, cpu) in (0u32..).zip(cpus) {
        let cpus: CpuSet = [cpu].into_iter().collect();
        let distances = if node == 0 { vec![10, 20] } else { vec![20, 10] };
        topology.numa_nodes.push(NumaNode { os_index: node, cpus, distances, package: None });
        let (gpu, nic) = (format!("0000:{}1:00.0", node + 1), format!("0000:{}2:00.0", node + 1));
        function(&mut topology, &gpu, node);
        function(&mut topology, &nic, node);
        topology.gpus.push(Gpu::new(gpu.parse().unwrap(), GpuVendor::Nvidia));
        let port = Port::new(1, PortState::Active, LinkLayer::InfiniBand, Some(400_000));
        topology.nics.push(Nic {
            address: nic.parse().ok(),
            ports: vec![port],
            ..Nic::new(format!("mlx5_{node}").parse().unwrap(), NicKind::Verbs)
        });
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("map-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("node.json"), file::to_json(&topology)).unwrap();
    folder
}

fn map(folder: &Path, arguments: &[&str]) -> String {
    let topology = folder.join("node.json");
    let output = Command::new(env!("CARGO_BIN_EXE_nic-placement"))
        .args(["map", "--topology", topology.to_str().unwrap()])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The CPU of each rank, as a launcher's processes print it: `RANK CPU`.
fn ranks(mut launcher: Command, variable: &str) -> Option<Vec<String>> {
    let program = format!("echo ${variable} $(grep Cpus_allowed_list /proc/self/status | cut -f2)");
    let output = match launcher.args(["-n", "2", "sh", "-c", &program]).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {:?}: {error}", launcher.get_program());
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect();
    lines.sort();
    Some(lines)
}

fn expected(cpus: [u32; 2], gpus: [usize; 2]) -> Vec<String> {
    (0..2).map(|rank| format!("{rank} {}", cpus[gpus[rank]])).collect()
}

#[test]
fn open_mpi_binds_each_rank_beside_its_gpu_by_the_rankfile() {
    let Some(cpus) = two_cpus() else { return println!("skipped: one CPU alone") };
    let folder = described(cpus, "openmpi");
    for gpus in [[0, 1], [1, 0]] {
        let list = format!("{},{}", gpus[0], gpus[1]);
        let file = folder.join("rankfile");
        map(&folder, &["--format", "openmpi", "--gpus", &list, "-o", file.to_str().unwrap()]);
        let mut launcher = Command::new("mpirun.openmpi");
        launcher.args(["--allow-run-as-root", "--oversubscribe", "--mca", "rmaps_rank_file_physical", "1"]);
        launcher.arg("--rankfile").arg(&file);
        let Some(found) = ranks(launcher, "OMPI_COMM_WORLD_RANK") else { return };
        assert_eq!(found, expected(cpus, gpus));
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn mpich_binds_each_rank_beside_its_gpu_by_the_words() {
    let Some(cpus) = two_cpus() else { return println!("skipped: one CPU alone") };
    let folder = described(cpus, "mpich");
    for gpus in [[0, 1], [1, 0]] {
        let words = map(&folder, &["--format", "mpich", "--gpus", &format!("{},{}", gpus[0], gpus[1])]);
        let mut launcher = Command::new("mpiexec.hydra");
        launcher.args(words.split_whitespace());
        let Some(found) = ranks(launcher, "PMI_RANK") else { return };
        assert_eq!(found, expected(cpus, gpus));
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_is_written_whole_and_a_node_without_gpus_has_no_map() {
    let folder = described([0, 1], "file");
    let file = folder.join("mooncake.json");
    map(&folder, &["--format", "mooncake", "-o", file.to_str().unwrap()]);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(r#""cuda:1": [["mlx5_1"], ["mlx5_0"]]"#), "{text}");
    // a link with the name of the new file leads to another file, which is not written
    let (other, link) = (folder.join("other"), folder.join("mooncake.new"));
    fs::write(&other, "other").unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    map(&folder, &["--format", "mooncake", "-o", file.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&link).unwrap(), "other");
    assert!(file.symlink_metadata().unwrap().is_file());
    let none = Command::new(env!("CARGO_BIN_EXE_nic-placement"))
        .args(["map", "--topology", "/nonexistent.json"])
        .output()
        .unwrap();
    assert_eq!(none.status.code(), Some(1));
    fs::remove_dir_all(&folder).unwrap();
}
