//! nic-placement on a real kernel with several NUMA nodes: in a guest under qemu it reads the same facts as hwloc.
//!
//! Needs Debian on amd64, gcc and make, and root or a filled cache to fetch qemu and a kernel: see tests/vm/boot.sh.
//! Without them, or with NIC_PLACEMENT_SKIP=vm, it says so and passes.  The boots together take a minute on two idle cores.
//! `BLESS=1 cargo test --test vm` records the guests anew below tests/machines.

#[path = "vm/boot.rs"]
mod boot;
#[path = "vm/boots.rs"]
mod boots;
#[path = "vm/guest.rs"]
mod guest;
#[path = "host/harness.rs"]
mod harness;
#[path = "vm/lstopo.rs"]
mod lstopo;
#[path = "vm/sick.rs"]
mod sick;
#[path = "vm/watched.rs"]
mod watched;

use guest::guests;
use nic_placement_core::topology::{CpuSet, PathType, PciAddress, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What nic-placement prints on the host.
fn here(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_nic-placement"))
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// GPUs and those NICs that are PCI functions.
fn devices(topology: &Topology) -> BTreeSet<PciAddress> {
    let gpus = topology.gpus.iter().map(|gpu| gpu.address);
    gpus.chain(topology.nics.iter().filter_map(|nic| nic.address))
        .collect()
}

#[test]
fn the_program_in_the_guest_gets_its_arguments_and_the_runner_its_output_and_status() {
    for guest in guests() {
        let errors = String::from_utf8_lossy(&guest.ran.stderr);
        assert_eq!(guest.ran.status.code(), Some(7), "{}: {errors}", guest.name);
        assert_eq!(
            String::from_utf8_lossy(&guest.ran.stdout),
            "said: it's $HOME two  blanks\n"
        );
        assert_eq!(errors, "complained\n");
    }
}

#[test]
fn the_guests_are_the_machines_that_their_descriptions_ask_for() {
    for guest in guests() {
        let topology = guest.topology();
        let cpus: Vec<String> = topology
            .numa_nodes
            .iter()
            .map(|node| node.cpus.to_string())
            .collect();
        let software = topology
            .nics
            .iter()
            .filter(|nic| nic.address.is_none())
            .count();
        let counts = (
            topology.gpus.len(),
            topology.nics.len() - software,
            software,
        );
        match guest.name {
            "four-nodes" => assert_eq!(
                (cpus, counts),
                (
                    ["0-1", "2-3", "4-5", "6-7"].map(String::from).to_vec(),
                    (5, 7, 1)
                )
            ),
            "dgx" => assert_eq!(
                (cpus, counts),
                (["0-3", "4-7", ""].map(String::from).to_vec(), (8, 10, 0))
            ),
            other => panic!("no description is called `{other}`"),
        }
        assert_eq!(
            topology.name,
            format!("guest-{}", guest.name),
            "the DMI's product name"
        );
    }
}

#[test]
fn the_guests_kernels_are_told_how_fast_their_clock_is() {
    for guest in guests() {
        let console = guest.answer("console");
        let behind = |mark: &str| -> f64 {
            let number = console
                .split(mark)
                .nth(1)
                .unwrap_or_else(|| panic!("{}: {mark}: {console}", guest.name));
            let digits: String = number
                .chars()
                .take_while(|c| c.is_ascii_digit() || *c == '.')
                .collect();
            digits
                .parse()
                .unwrap_or_else(|_| panic!("{}: {mark}: {console}", guest.name))
        };
        // what it measures by emulated timers it drops if that is a tenth off (arch/x86/kernel/tsc.c,
        // `determine_cpu_tsc_frequencies`); without its word it was 89 to 999 MHz of 2596 on a busy host
        let (told, taken) = (behind("tsc_early_khz="), 1000.0 * behind("tsc: Detected "));
        assert!(
            (taken / told - 1.0).abs() < 0.11,
            "{}: {taken} of {told}: {console}",
            guest.name
        );
    }
}

#[test]
fn numa_nodes_and_their_cpus_are_those_that_lstopo_finds() {
    for guest in guests() {
        let lstopo = lstopo::read(&guest.answer("lstopo.xml"));
        let topology = guest.topology();
        let ours: BTreeMap<u32, CpuSet> = topology
            .numa_nodes
            .iter()
            .map(|node| (node.os_index, node.cpus.clone()))
            .collect();
        assert_eq!(ours, lstopo.numa_nodes, "{}", guest.name);
    }
}

#[test]
fn gpus_and_rdma_nics_are_those_that_lstopo_finds() {
    for guest in guests() {
        let lstopo = lstopo::read(&guest.answer("lstopo.xml"));
        let topology = guest.topology();
        let gpus: BTreeSet<String> = topology
            .gpus
            .iter()
            .map(|gpu| gpu.address.to_string())
            .collect();
        // NVIDIA's are 3D controllers, AMD's processing accelerators
        let is_gpu = |kind: &str| kind == "0302 10de" || kind == "1200 1002";
        let theirs = lstopo
            .functions
            .iter()
            .filter(|(_, function)| is_gpu(&function.kind));
        assert_eq!(
            gpus,
            theirs.map(|(address, _)| address.clone()).collect(),
            "{}",
            guest.name
        );

        let with_function = topology
            .nics
            .iter()
            .filter_map(|nic| Some((nic.name.to_string(), nic.address?.to_string())));
        let theirs = lstopo.functions.iter().flat_map(|(address, function)| {
            function
                .rdma
                .iter()
                .map(|name| (name.clone(), address.clone()))
        });
        let theirs: BTreeMap<String, String> = theirs.collect();
        assert_eq!(
            with_function.collect::<BTreeMap<_, _>>(),
            theirs,
            "{}",
            guest.name
        );
    }
}

#[test]
fn what_stands_above_each_device_and_its_numa_node_and_link_are_what_lstopo_finds() {
    for guest in guests() {
        let lstopo = lstopo::read(&guest.answer("lstopo.xml"));
        let topology = guest.topology();
        for address in devices(&topology) {
            let theirs = &lstopo.functions[&address.to_string()];
            let (bridges, host) = topology.pci.ancestors(address);
            let bridges: Vec<String> = bridges.iter().map(ToString::to_string).collect();
            assert_eq!(bridges, theirs.bridges, "{}: {address}", guest.name);
            assert_eq!(
                host.unwrap().to_string(),
                theirs.host,
                "{}: {address}",
                guest.name
            );
            assert!(
                theirs.numa_node.is_some(),
                "{}: {address}: lstopo knows no node",
                guest.name
            );
            assert_eq!(
                topology.numa_node_of(address),
                theirs.numa_node,
                "{}: {address}",
                guest.name
            );
            let ours = topology
                .pci
                .get(address)
                .unwrap()
                .link
                .current
                .unwrap()
                .mbps() as f64
                / 8000.0;
            assert!(
                (ours - theirs.link).abs() < 0.001,
                "{}: {address}: {ours} {}",
                guest.name,
                theirs.link
            );
        }
    }
}

#[test]
fn the_nearest_nics_of_each_gpu_are_those_that_lstopo_puts_nearest() {
    for guest in guests() {
        let lstopo = lstopo::read(&guest.answer("lstopo.xml"));
        let topology = guest.topology();
        let nics: Vec<PciAddress> = topology.nics.iter().filter_map(|nic| nic.address).collect();
        let mut kinds = BTreeSet::new();
        for gpu in &topology.gpus {
            let kind = |nic: &PciAddress| topology.path_type(gpu.address, *nic);
            let nearest = nics.iter().map(kind).min().unwrap();
            kinds.insert(nearest);
            let ours: Vec<_> = nics.iter().filter(|nic| kind(nic) == nearest).collect();

            let nearness = |nic: &PciAddress| {
                lstopo.functions[&gpu.address.to_string()]
                    .nearness(&lstopo.functions[&nic.to_string()])
            };
            let most = nics.iter().map(nearness).max().unwrap();
            let theirs: Vec<_> = nics.iter().filter(|nic| nearness(nic) == most).collect();
            assert_eq!(ours, theirs, "{}: {}", guest.name, gpu.address);
        }
        if guest.name == "four-nodes" {
            assert!(
                kinds.contains(&PathType::Pix) && kinds.contains(&PathType::Phb),
                "{kinds:?}"
            );
        }
    }
}

#[test]
fn a_snapshot_of_the_guest_shows_here_what_the_guest_showed() {
    for guest in guests() {
        let snapshot = guest.answers.join("node.machine");
        let unpacked = guest.answers.join("unpacked");
        here(&["snapshot", "--unpack", text(&snapshot), text(&unpacked)]);
        // the first line says where the facts are from, which differs
        let facts = |shown: &str| shown.split_once('\n').unwrap().1.to_string();
        for source in [&snapshot, &unpacked] {
            assert_eq!(
                facts(&here(&["show", "--topology", text(source)])),
                facts(&guest.answer("show"))
            );
            assert_eq!(
                here(&["show", "--json", "--topology", text(source)]),
                guest.answer("show.json")
            );
        }
    }
}

#[test]
fn the_recorded_guests_are_what_the_guests_are_today() {
    for guest in guests() {
        let recorded = guest.recorded();
        if std::env::var_os("BLESS").is_some() {
            fs::write(&recorded, guest.answer("node.machine")).unwrap();
        }
        let shown = here(&["show", "--json", "--topology", text(&recorded)]);
        assert_eq!(
            shown,
            guest.answer("show.json"),
            "{}: BLESS=1 records it anew",
            recorded.display()
        );
    }
}

/// Without the network interfaces that UCX's list may have behind its RDMA ports: the guest's are not here.
fn rdma(line: &str) -> String {
    let is_interface = |entry: &str| {
        ["eth", "lo", "ib"]
            .iter()
            .any(|kind| entry.starts_with(kind))
    };
    let word = |word: &str| {
        word.split(',')
            .filter(|entry| !is_interface(entry))
            .collect::<Vec<_>>()
            .join(",")
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn interfaces_are_left_out_of_what_a_process_told_and_nothing_else() {
    let list = "=mlx5_0:1,mlx5_1:1";
    let told = format!("cpus=0-3,8 policy=default nic=mlx5_0:1,eth0,lo list={list}");
    assert_eq!(
        rdma(&told),
        format!("cpus=0-3,8 policy=default nic=mlx5_0:1 list={list}")
    );
}

/// What each process of a launcher told, by its number.
fn told(answer: &str) -> BTreeMap<usize, String> {
    let line = |line: &str| {
        line.split_once(' ')
            .map(|(rank, rest)| (rank.parse().unwrap(), rdma(rest)))
    };
    answer.lines().filter_map(line).collect()
}

#[test]
fn each_process_of_a_launcher_runs_beside_its_gpu_with_exec_and_anywhere_without() {
    for guest in guests() {
        let topology = guest.topology();
        let plan = here(&[
            "plan",
            "--json",
            "--gpus-per-task",
            "1",
            "--topology",
            text(&guest.answers.join("show.json")),
        ]);
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        let expected = |rank: usize| {
            let near = topology.numa_node_of(topology.gpus[rank].address).unwrap();
            let cpus = &topology.numa_node(near).unwrap().cpus;
            let value = |name: &str| {
                plan["tasks"][rank]["env"][name]
                    .as_str()
                    .unwrap_or("-")
                    .to_string()
            };
            let (nic, list) = (value("UCX_NET_DEVICES"), value("NCCL_IB_HCA"));
            // a NUMA node holds as many processes as keep their share of the CPUs there, the first ones
            let node_of = |rank: usize| topology.numa_node_of(topology.gpus[rank].address).unwrap();
            let there = (0..=rank).filter(|&other| node_of(other) == near).count();
            match there * topology.cpus().len() <= cpus.len() * topology.gpus.len() {
                true => rdma(&format!(
                    "cpus={cpus} policy=preferred-many:{near} nic={nic} list={list}"
                )),
                false => rdma(&format!(
                    "cpus={} policy=default nic={nic} list={list}",
                    topology.cpus()
                )),
            }
        };
        let ranks = 0..topology.gpus.len();
        let said = guest.answer("exec.said");
        let all: BTreeMap<usize, String> =
            ranks.clone().map(|rank| (rank, expected(rank))).collect();
        assert_eq!(
            told(&guest.answer("exec.with")),
            all,
            "{}: {said}",
            guest.name
        );
        let anywhere = format!("cpus={} policy=default nic=- list=-", topology.cpus());
        let without: BTreeMap<usize, String> = ranks.map(|rank| (rank, anywhere.clone())).collect();
        assert_eq!(
            told(&guest.answer("exec.without")),
            without,
            "{}",
            guest.name
        );
    }
}
