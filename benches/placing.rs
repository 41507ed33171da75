//! Measures how long a decision takes: the map alone on machines of growing size, then map, tasks and variables together.
//!
//! ```text
//! cargo bench --bench placing
//! cargo bench --bench placing -- slow        the machines that took longest, alone
//! cargo bench --bench placing -- search      looks for machines that take long
//! ```
//!
//! The figures are CPU time.  Every row alternates with the first row of its table, so that a machine that slows down slows
//! both.  The last column is the ratio.

mod slow;

use nic_placement_core::libraries::{Evidence, Present};
use nic_placement_core::plan::{Plan, TaskPlan, Wish};
use nic_placement_core::step::{Access, GpuGrant, Step, Task};
use nic_placement_core::topology::{
    Gpu, GpuVendor, LinkLayer, LinkRate, Nic, NicKind, NumaNode, PciAddress, PciFunction,
    PciParent, PcieLink, Port, PortState, Provenance, Topology,
};
use nic_placement_node::platform;
use std::hint::black_box;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

const TURNS: usize = 15;

/// A machine with a NUMA node for every four GPUs, and a switch for each of `switches` with its GPUs and NICs.
fn machine(gpus: usize, nics: usize) -> Topology {
    let mut topology = Topology::empty("bench", Provenance::ThisSystem);
    let switches = gpus.min(nics);
    let numa_nodes = switches.div_ceil(4);
    for os_index in 0..numa_nodes as u32 {
        let cpus = (os_index * 16..os_index * 16 + 16).collect();
        topology.numa_nodes.push(NumaNode {
            os_index,
            cpus,
            distances: Vec::new(),
            package: None,
        });
    }
    let link = LinkRate {
        tenths_gt: 320,
        width: 16,
    };
    let link = PcieLink {
        current: Some(link),
        max: Some(link),
    };
    let add = |topology: &mut Topology, address: PciAddress, parent: PciParent, switch: usize| {
        let numa_node = Some((switch / 4) as u32);
        topology.pci.insert(PciFunction {
            numa_node,
            link,
            ..PciFunction::new(address, parent)
        });
    };
    let at = |domain: usize, bus: u8, device: u8| PciAddress {
        domain: domain as u32,
        bus,
        device,
        function: 0,
    };
    for switch in 0..switches {
        let host = PciParent::Host(
            format!("pci{switch:04x}:00")
                .parse()
                .expect("a host bridge"),
        );
        add(&mut topology, at(switch, 0, 1), host, switch);
        add(
            &mut topology,
            at(switch, 1, 0),
            PciParent::Bridge(at(switch, 0, 1)),
            switch,
        );
    }
    let mut below = vec![0u8; switches];
    let mut device = |topology: &mut Topology, switch: usize| {
        below[switch] += 1;
        let port = at(switch, 2, below[switch]);
        add(topology, port, PciParent::Bridge(at(switch, 1, 0)), switch);
        let address = at(switch, 2 + below[switch], 0);
        add(topology, address, PciParent::Bridge(port), switch);
        address
    };
    for gpu in 0..gpus {
        let address = device(&mut topology, gpu * switches / gpus);
        topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
    }
    for nic in 0..nics {
        let address = device(&mut topology, nic * switches / nics);
        let port = Port::new(1, PortState::Active, LinkLayer::InfiniBand, Some(400_000));
        let name = format!("mlx5_{nic}");
        topology.nics.push(Nic {
            address: Some(address),
            ports: vec![port],
            ..Nic::new(name.parse().unwrap(), NicKind::Verbs)
        });
    }
    topology.sort();
    topology
}

/// The decision for a step: the map, then each of `tasks` tasks with its variables; bytes of what they would set.
fn launch(topology: &Topology, tasks: u32) -> usize {
    let wish = Wish {
        enabled: true,
        ..Wish::default()
    };
    let step = Step {
        tasks,
        total_tasks: tasks,
        ..Step::default()
    };
    let nothing = |_: &str| None;
    let plan = Plan::new(topology.clone(), wish, step, &nothing);
    let evidence = Evidence {
        present: &Present::new(),
        read: &nothing,
    };
    let one = |local_id: u32| {
        let gpu = local_id as usize * topology.gpus.len() / tasks as usize;
        let variables = [(GpuVendor::Nvidia.list_variable(), gpu.to_string())].into();
        let gpus = GpuGrant {
            variables,
            access: vec![Access::Unknown; topology.gpus.len()],
        };
        let cpus = topology.cpus();
        let task = Task {
            local_id,
            global_id: local_id,
            gpus,
            step_cpus: cpus.clone(),
            cpus,
            ..Task::default()
        };
        let TaskPlan { variables, .. } = plan.task(&task, evidence);
        variables
            .iter()
            .map(|variable| format!("{:?}", variable.change).len())
            .sum::<usize>()
    };
    plan.map.gpus.len() + (0..tasks).map(one).sum::<usize>()
}

/// Time that this thread has had a CPU.  Where the kernel does not say, the time of the clock.
fn cpu_time() -> Duration {
    // the kernel reckons at each switch (kernel/sched/core.c, `do_sched_yield`), and what it tells is what it reckoned last
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text
        .split_whitespace()
        .next()
        .and_then(|first| first.parse().ok());
    nanoseconds.map_or_else(|| BEGIN.elapsed(), Duration::from_nanos)
}

/// When the program began, for kernels without scheduler statistics.
static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn once(work: impl Fn() -> usize) -> Duration {
    let begin = cpu_time();
    black_box(work());
    cpu_time().saturating_sub(begin)
}

/// What is measured, by its name.
type Row = (String, Box<dyn Fn() -> usize>);

/// Medians of each row, measured in turns.
fn measure(rows: &[Row]) {
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); rows.len()];
    for _ in 0..TURNS {
        for ((_, work), times) in rows.iter().zip(&mut times) {
            times.push(once(work));
        }
    }
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            times.sort();
            times[TURNS / 2].as_secs_f64() * 1e6
        })
        .collect();
    for ((name, _), median) in rows.iter().zip(&medians) {
        println!("{name:<52} {median:>10.0} {:>8.1}", median / medians[0]);
    }
}

/// The worst that the search has found, and machines of the largest size.
const SLOW: [(&str, slow::Genes); 18] = [
    (
        "64 GPUs, 64 NICs in order, one down",
        genes([64, 64, 64, 16, 1, 1, 1, 1], 1),
    ),
    (
        "64 GPUs, 64 NICs at random",
        genes([64, 64, 32, 16, 0, 1, 1, 0], 1),
    ),
    (
        "64 GPUs, 64 NICs at random, one down",
        genes([64, 64, 32, 16, 0, 1, 1, 1], 1),
    ),
    (
        "found, 224 GPUs, 49 NICs, 8 each",
        genes([224, 49, 47, 10, 0, 4, 8, 6], 240_188_297),
    ),
    (
        "found, 228 GPUs, 40 NICs, 8 each",
        genes([228, 40, 27, 15, 0, 3, 8, 2], 631_640_369),
    ),
    (
        "found, 241 GPUs, 57 NICs, 4 each",
        genes([241, 57, 48, 9, 0, 1, 4, 3], 926_864_507),
    ),
    (
        "found, 223 GPUs, 18 NICs, 7 each",
        genes([223, 18, 47, 11, 0, 4, 7, 6], 240_188_297),
    ),
    (
        "found, 170 GPUs, 35 NICs, 8 each",
        genes([170, 35, 58, 14, 1, 3, 8, 0], 868_915_997),
    ),
    (
        "found, 221 GPUs, 47 NICs, 7 each",
        genes([221, 47, 47, 8, 1, 2, 7, 2], 649_897_713),
    ),
    (
        "found, 210 GPUs, 41 NICs, 8 each",
        genes([210, 41, 28, 7, 0, 1, 8, 1], 316_121_111),
    ),
    (
        "found, 88 GPUs, 64 NICs, 1 each",
        genes([88, 64, 56, 13, 2, 0, 1, 3], 210_368_550),
    ),
    (
        "found, 241 GPUs, 56 NICs, 4 each",
        genes([241, 56, 49, 9, 0, 1, 4, 2], 582_153_368),
    ),
    (
        "found, 234 GPUs, 51 NICs, auto",
        genes([234, 51, 59, 11, 0, 0, 0, 6], 735_865_855),
    ),
    (
        "256 GPUs, 64 NICs, 8 each, at random",
        genes([256, 64, 45, 8, 0, 3, 8, 5], 7),
    ),
    (
        "256 GPUs, 64 NICs, in order",
        genes([256, 64, 64, 16, 1, 1, 1, 0], 1),
    ),
    (
        "16 GPUs, 16 NICs, 2 each, at random",
        genes([16, 16, 8, 4, 0, 3, 2, 0], 5),
    ),
    (
        "found, 15 GPUs, 16 NICs, 2 each",
        genes([15, 16, 39, 12, 0, 1, 2, 6], 41_998_488),
    ),
    (
        "found, 10 GPUs, 8 NICs, 2 each",
        genes([10, 8, 41, 9, 1, 2, 2, 6], 231_971_810),
    ),
];

const fn genes(list: [usize; 8], seed: u64) -> slow::Genes {
    slow::Genes::of(list, seed)
}

fn slow_machines() {
    println!(
        "\n{:<44} {:>9} {:>9}",
        "slow machines, the least of nine turns", "step us", "task us"
    );
    for (name, genes) in SLOW {
        let cost = slow::cost(&genes, 9);
        println!(
            "{name:<44} {:>9} {:>9}",
            cost.step.as_micros(),
            cost.task.as_micros()
        );
    }
}

fn main() {
    let is_asked = |word: &str| std::env::args().any(|other| other == word);
    if is_asked("search") {
        return slow::search(6, 150);
    }
    if is_asked("slow") {
        return slow_machines();
    }
    println!("{:<52} {:>10} {:>8}", "the map alone", "us", "ratio");
    let sizes = [
        (2, 2),
        (4, 4),
        (8, 8),
        (16, 16),
        (32, 32),
        (64, 64),
        (8, 4),
        (16, 8),
        (64, 8),
        (8, 12),
        (8, 1),
    ];
    let rows = sizes.map(|(gpus, nics)| {
        let topology = machine(gpus, nics);
        (
            format!("{gpus} GPUs, {nics} NICs"),
            Box::new(move || launch(&topology, 0)) as Box<dyn Fn() -> usize>,
        )
    });
    measure(&rows);
    println!(
        "\n{:<52} {:>10} {:>8}",
        "a launch on one node: map, tasks, variables", "us", "ratio"
    );
    let dgx = platform::model("dgx-h100").expect("a built-in machine");
    let large = machine(64, 64);
    // 0: the map alone
    let on_dgx = [8, 0, 1, 64, 512].map(|tasks| {
        let dgx = dgx.clone();
        (
            format!("DGX H100, {tasks} tasks"),
            Box::new(move || launch(&dgx, tasks)) as Box<dyn Fn() -> usize>,
        )
    });
    let mut rows = Vec::from(on_dgx);
    rows.push((
        "64 GPUs, 64 NICs, 256 tasks".to_string(),
        Box::new(move || launch(&large, 256)),
    ));
    measure(&rows);
    slow_machines();
}
