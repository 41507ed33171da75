//! Compares this project's map with the rules of other programs, on every built-in machine.  If a collection of real
//! matrices lies beside the checkout, on each of those too.
//!
//! ```text
//! cargo bench --bench rules
//! ```
//!
//! The rules deal the same good NICs, one to each GPU.  A GPU's share is the least of what its path lets through and of what
//! the other GPUs on its NIC, and those between the same two sockets, leave to it.  Maps are compared from the worst-off GPU
//! to the best-off; the figures are what the worst-off and the second worst-off get, against this project's map.  Nothing
//! here measures hardware.

#[path = "../tests/corpus/optimum.rs"]
mod optimum;
#[path = "../tests/corpus/plans.rs"]
#[allow(dead_code, reason = "the test's own part")]
mod plans;

use nic_placement_core::placement::{NicsEach, NodePlacement, Rail};
use nic_placement_core::policy::{self, Through};
use nic_placement_core::topology::{Gpu, PathType, Topology};
use nic_placement_core::wish::Wish;
use nic_placement_node::platform;
use std::path::Path;
use std::process::ExitCode;

/// A machine to whose GPUs NICs are dealt.
struct Machine {
    name: String,
    /// `[gpu][rail]`
    paths: Vec<Vec<PathType>>,
    ways: optimum::Paths,
    ours: Vec<usize>,
}

/// Deals each GPU a NIC.
type Rule = fn(&Machine) -> Vec<usize>;

const RULES: [(&str, Rule); 7] = [
    ("the first NIC for all", first),
    ("GPU index modulo NICs", modulo),
    ("blocks of GPUs", blocks),
    ("same NUMA node, in turn", same_numa_in_turn),
    ("NCCL's choice for a ring's first channel", nccl),
    ("nearest, with the fewest users so far", greedy),
    ("nic-placement", |machine| machine.ours.clone()),
];

fn first(machine: &Machine) -> Vec<usize> {
    vec![0; machine.paths.len()]
}

fn modulo(machine: &Machine) -> Vec<usize> {
    (0..machine.paths.len())
        .map(|gpu| gpu % machine.paths[gpu].len())
        .collect()
}

/// NVIDIA's bindpcie: the list of devices at local rank x devices / GPUs.
fn blocks(machine: &Machine) -> Vec<usize> {
    let gpus = machine.paths.len();
    (0..gpus)
        .map(|gpu| gpu * machine.paths[gpu].len() / gpus)
        .collect()
}

/// ParaStation's and Open MPI's rule for bound processes: the NICs of the process's NUMA node in turn; if it has none, all in
/// turn.
fn same_numa_in_turn(machine: &Machine) -> Vec<usize> {
    let local = |gpu: usize| -> Vec<usize> {
        let paths = &machine.paths[gpu];
        let near: Vec<usize> = (0..paths.len())
            .filter(|&rail| paths[rail] < PathType::Sys)
            .collect();
        if near.is_empty() {
            (0..paths.len()).collect()
        } else {
            near
        }
    };
    (0..machine.paths.len())
        .map(|gpu| {
            let rails = local(gpu);
            let before = (0..gpu).filter(|&other| local(other) == rails).count();
            rails[before % rails.len()]
        })
        .collect()
}

/// NCCL 2.30, src/graph/topo.cc, `ncclTopoGetLocalNet`: takes the NICs with most bandwidth, and of these the nearest.  If
/// several are left, it takes the one at the GPU's number modulo the GPUs near them.  If their number is a power of two, it
/// reverses the bits of that number.
fn nccl(machine: &Machine) -> Vec<usize> {
    let local_rails = |gpu: usize| -> Vec<usize> {
        let key = |rail: usize| {
            (
                u64::MAX - machine.ways.values[gpu][rail],
                machine.paths[gpu][rail],
            )
        };
        let best = (0..machine.paths[gpu].len()).map(key).min();
        (0..machine.paths[gpu].len())
            .filter(|&rail| Some(key(rail)) == best)
            .collect()
    };
    let local_gpus = |rail: usize| -> usize {
        let key = |gpu: usize| {
            (
                u64::MAX - machine.ways.values[gpu][rail],
                machine.paths[gpu][rail],
            )
        };
        let best = (0..machine.paths.len()).map(key).min();
        (0..machine.paths.len())
            .filter(|&gpu| Some(key(gpu)) == best)
            .count()
    };
    (0..machine.paths.len())
        .map(|gpu| {
            let rails = local_rails(gpu);
            let number = gpu % local_gpus(rails[0]).max(1);
            let mirrored = match rails.len().is_power_of_two() {
                true if rails.len() > 1 => {
                    let bits = rails.len().trailing_zeros();
                    (number as u64 % rails.len() as u64).reverse_bits() as usize
                        >> (u64::BITS - bits)
                }
                _ => number,
            };
            rails[mirrored % rails.len()]
        })
        .collect()
}

/// ai-dynamo's modelexpress and NVIDIA's k8s-launch-kit: each GPU takes the least used of its nearest NICs.
fn greedy(machine: &Machine) -> Vec<usize> {
    let mut users = vec![0; machine.paths[0].len()];
    machine
        .paths
        .iter()
        .map(|paths| {
            let rail = (0..paths.len())
                .min_by_key(|&rail| (paths[rail], users[rail], rail))
                .unwrap_or(0);
            users[rail] += 1;
            rail
        })
        .collect()
}

fn machine(name: &str, topology: &Topology) -> Option<Machine> {
    let node: NodePlacement = policy::map(
        topology,
        &Wish {
            nics_per_task: NicsEach::Number(1),
            ..Wish::default()
        },
    );
    if topology.gpus.is_empty() || node.rails.is_empty() {
        return None;
    }
    let path = |gpu: &Gpu, rail: &Rail| {
        let nic = topology.nic(rail.nic).address?;
        Some(topology.path_type(gpu.address, nic))
    };
    let row = |gpu| {
        node.rails
            .iter()
            .map(|rail| path(gpu, rail).unwrap_or(PathType::Sys))
            .collect()
    };
    let paths: Vec<Vec<PathType>> = topology.gpus.iter().map(row).collect();
    Some(Machine {
        name: name.to_string(),
        ways: plans::ways(topology, &node, |path| Through::default().of(path)),
        paths,
        ours: node.gpus.iter().map(|gpu| gpu.choices[0].rail.0).collect(),
    })
}

fn table(title: &str, machines: &[Machine]) {
    let gpus = machines
        .iter()
        .map(|machine| machine.paths.len())
        .sum::<usize>();
    println!("\n{title}: {} machines, {gpus} GPUs", machines.len());
    println!(
        "{:<42} {:>9} {:>11} {:>10} {:>9} {:>7}",
        "rule", "as good", "worst, mean", "worst, min", "2nd, mean", "better"
    );
    for (name, rule) in RULES {
        let (mut as_good, mut better, mut worst, mut second, mut least) = (0, 0, 0.0, 0.0, 1.0f64);
        for machine in machines {
            let (theirs, ours) = (
                machine.ways.shares(&rule(machine)),
                machine.ways.shares(&machine.ours),
            );
            as_good += usize::from(theirs == ours);
            better += usize::from(theirs > ours);
            let ratio = |at: usize| theirs[at] as f64 / ours[at] as f64;
            worst += ratio(0);
            least = least.min(ratio(0));
            second += ratio(ours.len().min(2) - 1);
        }
        let count = machines.len() as f64;
        println!(
            "{name:<42} {:>9} {:>11.2} {least:>10.2} {:>9.2} {better:>7}",
            format!("{as_good}/{}", machines.len()),
            worst / count,
            second / count,
        );
    }
}

fn main() -> ExitCode {
    println!(
        "what the worst-off GPU of a machine gets by the rule, and the second worst-off, against nic-placement's map"
    );
    let models: Vec<Machine> = platform::names()
        .filter_map(|name| machine(name, &platform::model(name)?))
        .collect();
    table("built-in machines with NICs that may be chosen", &models);
    let corpus = Path::new(env!("NIC_PLACEMENT_ROOT"))
        .parent()
        .map(|parent| parent.join("shared/corpus"));
    let matrices = corpus
        .filter(|corpus| corpus.is_dir())
        .map(|corpus| plans::matrices(&corpus));
    match matrices {
        None => println!("\nmatrices of real machines: skipped, no collection beside the checkout"),
        Some(Err(problem)) => {
            eprintln!("rules: {problem}");
            return ExitCode::FAILURE;
        }
        Some(Ok(matrices)) => {
            let machines: Vec<Machine> = matrices
                .iter()
                .filter_map(|(name, topology)| machine(name, topology))
                .collect();
            table(
                "matrices of `nvidia-smi topo -m` from real machines",
                &machines,
            );
            for machine in &machines {
                if !matches!(
                    machine.ways.better(&machine.ways.shares(&machine.ours)),
                    Ok(None)
                ) {
                    eprintln!("rules: {}: our map is not the best", machine.name);
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}
