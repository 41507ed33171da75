//! Machines on which a map takes long: a generator of odd ones, and a search for the worst.

use crate::cpu_time;
use nic_placement_core::placement::NicsEach;
use nic_placement_core::placement::Rail;
use nic_placement_core::policy::{self, Selection};
use nic_placement_core::topology::{
    Gpu, GpuVendor, LinkLayer, LinkRate, Nic, NicIndex, NicKind, NumaNode, PciAddress, PciFunction,
    PciParent, PcieLink, Port, PortState, Provenance, Topology,
};
use nic_placement_core::wish::{Admin, Wish};
use std::hint::black_box;
use std::time::Duration;

/// A small generator of numbers (xorshift64), the same on every machine.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }
}

/// What a machine is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Genes {
    pub gpus: usize,
    pub nics: usize,
    /// switches below which they hang, each on a host bridge of its own
    pub switches: usize,
    /// NUMA nodes, two to a socket
    pub nodes: usize,
    /// 0: at random; 1: in order
    pub order: usize,
    /// how many different links there are: 1 to 4
    pub links: usize,
    /// NICs for each GPU; 0: `auto`
    pub each: usize,
    /// ports that are down
    pub down: usize,
    pub seed: u64,
}

impl Genes {
    const LIMITS: [usize; 8] = [256, 64, 64, 16, 2, 4, 9, 9];

    fn list(&self) -> [usize; 8] {
        let &Genes {
            gpus,
            nics,
            switches,
            nodes,
            order,
            links,
            each,
            down,
            ..
        } = self;
        [gpus, nics, switches, nodes, order, links, each, down]
    }

    /// By the order of the fields.
    pub const fn of(list: [usize; 8], seed: u64) -> Genes {
        let [gpus, nics, switches, nodes, order, links, each, down] = list;
        Genes {
            gpus,
            nics,
            switches,
            nodes,
            order,
            links,
            each,
            down,
            seed,
        }
    }

    /// Any genes.
    fn any(numbers: &mut Numbers, largest: [usize; 2]) -> Genes {
        let mut list = Genes::LIMITS.map(|limit| numbers.below(limit));
        for (value, largest) in list.iter_mut().zip(largest) {
            *value = 1 + numbers.below(largest);
        }
        Genes::of(list, numbers.below(1 << 30) as u64)
    }

    /// The same with one thing changed, or another seed.
    fn mutated(&self, numbers: &mut Numbers, largest: [usize; 2]) -> Genes {
        let mut list = self.list();
        let at = numbers.below(2 * list.len());
        let seed = if at >= list.len() {
            numbers.below(1 << 30) as u64
        } else {
            self.seed
        };
        if let Some(value) = list.get_mut(at) {
            let limit = largest.get(at).copied().unwrap_or(Genes::LIMITS[at]);
            *value = match numbers.below(3) {
                0 => numbers.below(limit),
                1 => *value + 1,
                _ => value.saturating_sub(1),
            };
            *value = if at < 2 {
                (*value).clamp(1, limit)
            } else {
                (*value).min(limit)
            };
        }
        Genes::of(list, seed)
    }

    /// The machine.
    pub fn topology(&self) -> Topology {
        let mut numbers = Numbers::new(self.seed);
        let mut topology = Topology::empty("bench", Provenance::ThisSystem);
        let (switches, nodes) = (self.switches.max(1), self.nodes.max(1));
        let distance = |a: usize, b: usize| match (a == b, a / 2 == b / 2) {
            (true, _) => 10,
            (_, true) => 12,
            _ => 32,
        };
        for node in 0..nodes {
            let cpus = [node as u32].into_iter().collect();
            let distances = (0..nodes).map(|other| distance(node, other)).collect();
            topology.numa_nodes.push(NumaNode {
                os_index: node as u32,
                cpus,
                distances,
                package: None,
            });
        }
        let link = |numbers: &mut Numbers| {
            let widths = [(320, 16), (160, 16), (320, 8), (160, 8)];
            let (tenths_gt, width) = widths[numbers.below(self.links.clamp(1, 4))];
            let rate = Some(LinkRate { tenths_gt, width });
            PcieLink {
                current: rate,
                max: rate,
            }
        };
        let at = |switch: usize, bus: usize, device: usize| PciAddress {
            domain: switch as u32,
            bus: bus as u8,
            device: device as u8,
            function: 0,
        };
        for switch in 0..switches {
            let numa_node = Some((switch * nodes / switches) as u32);
            let host = PciParent::Host(
                format!("pci{switch:04x}:00")
                    .parse()
                    .expect("a host bridge"),
            );
            for (address, parent) in [
                (at(switch, 0, 1), host),
                (at(switch, 1, 0), PciParent::Bridge(at(switch, 0, 1))),
            ] {
                let link = link(&mut numbers);
                topology.pci.insert(PciFunction {
                    numa_node,
                    link,
                    ..PciFunction::new(address, parent)
                });
            }
        }
        let mut below = vec![0usize; switches];
        let mut device = |topology: &mut Topology, switch: usize, link: PcieLink| {
            below[switch] += 1;
            let count = below[switch];
            let numa_node = Some((switch * nodes / switches) as u32);
            let address = at(switch, 2 + count / 32, count % 32);
            let parent = PciParent::Bridge(at(switch, 1, 0));
            topology.pci.insert(PciFunction {
                numa_node,
                link,
                ..PciFunction::new(address, parent)
            });
            address
        };
        for gpu in 0..self.gpus {
            let switch = if self.order == 0 {
                numbers.below(switches)
            } else {
                gpu * switches / self.gpus
            };
            let link = link(&mut numbers);
            let address = device(&mut topology, switch, link);
            topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
        }
        for nic in 0..self.nics {
            let switch = if self.order == 0 {
                numbers.below(switches)
            } else {
                nic * switches / self.nics
            };
            let link = link(&mut numbers);
            let address = Some(device(&mut topology, switch, link));
            let state = if nic < self.down {
                PortState::Down
            } else {
                PortState::Active
            };
            let ports = vec![Port::new(1, state, LinkLayer::InfiniBand, Some(400_000))];
            let name = format!("mlx5_{nic}").parse().expect("a name");
            topology.nics.push(Nic {
                address,
                ports,
                ..Nic::new(name, NicKind::Verbs)
            });
        }
        topology.sort();
        topology
    }

    fn nics_each(&self) -> NicsEach {
        if self.each == 0 {
            NicsEach::Auto
        } else {
            NicsEach::Number(self.each.min(8) as u8)
        }
    }
}

/// What one machine costs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// CPU time of the map in the step's process
    pub step: Duration,
    /// and of the map without two NICs, in a task
    pub task: Duration,
}

/// The least of some measurements: what disturbs only adds.
pub fn cost(genes: &Genes, turns: usize) -> Cost {
    let topology = genes.topology();
    let nics_each = genes.nics_each();
    // a step words its reasons only for `verbose`, `dry-run` or slurmd's debug log
    let of_step = Wish {
        nics_per_task: nics_each,
        wordless: true,
        ..Wish::default()
    };
    let node = policy::map(&topology, &of_step);
    let unopenable = (0..topology.nics.len().min(2))
        .map(|nic| (NicIndex(nic), String::new()))
        .collect();
    let selection = Selection {
        unopenable,
        ..Selection::default()
    };
    let of_task = Wish {
        admin: Admin {
            selection,
            ..Admin::default()
        },
        ..of_step.clone()
    };
    let least = |wish: &Wish, were: &[Rail]| {
        let one = |_| {
            let begin = cpu_time();
            black_box(policy::map_of(&topology, wish, None, were));
            cpu_time().saturating_sub(begin)
        };
        (0..turns).map(one).min().unwrap_or_default()
    };
    Cost {
        step: least(&of_step, &[]),
        task: least(&of_task, &node.rails),
    }
}

/// Looks for machines that take long, from several beginnings, each time going on with the slower one.
pub fn search(rounds: u64, steps: usize) {
    println!(
        "{:<10} {:>8} {:>8}  genes",
        "looked for", "step us", "task us"
    );
    for what in ["step", "task"] {
        for round in 0..rounds {
            let mut numbers = Numbers::new(round + 1);
            let rate = |cost: &Cost| if what == "step" { cost.step } else { cost.task };
            let mut genes = Genes::any(&mut numbers, [256, 64]);
            let mut known = cost(&genes, 2);
            for _ in 0..steps {
                let other = genes.mutated(&mut numbers, [256, 64]);
                let found = cost(&other, 2);
                if rate(&found) >= rate(&known) {
                    (genes, known) = (other, found);
                }
            }
            let known = cost(&genes, 9);
            let us = |time: Duration| time.as_micros();
            println!(
                "{what:<10} {:>8} {:>8}  {:?}, {}",
                us(known.step),
                us(known.task),
                genes.list(),
                genes.seed
            );
        }
    }
}
