//! Rules for every machine: order and names mean nothing, a NIC that fails moves GPUs that did
//! not use it only where the worst-off GPU gains by that, and a NIC that is new and farther than
//! every GPU's own one moves none.

use super::*;
use crate::placement::{GpuPlacement, RailIndex};
use crate::topology::{
    Gpu, GpuVendor, LinkLayer, LinkRate, Nic, NicKind, NumaNode, PciAddress, PciFunction,
    PciParent, PcieLink, Port, PortState, Provenance,
};
use crate::wish::{Admin, NicsEach};
use nic_placement_node::platform;
use proptest::prelude::*;

mod agreement;
mod best;
mod idle;
mod reasons;
mod tasks;

/// A machine of two NUMA nodes with two switches each: what hangs below each switch.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    /// the switch of each GPU
    pub(super) gpus: Vec<u8>,
    /// the switch of each NIC, and its rate in Gbit/s
    pub(super) nics: Vec<(u8, u64)>,
}

fn at(bus: u8, device: u8) -> PciAddress {
    PciAddress {
        domain: 0,
        bus,
        device,
        function: 0,
    }
}

impl Parts {
    pub(super) fn topology(&self) -> Topology {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        for os_index in 0..2 {
            let cpus = (os_index * 4..os_index * 4 + 4).collect();
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
        let function = |address, parent, switch: u8| PciFunction {
            numa_node: Some(u32::from(switch) / 2),
            link,
            ..PciFunction::new(address, parent)
        };
        for switch in 0..4 {
            let bus = switch * 0x40;
            let host = PciParent::Host(format!("pci0000:{bus:02x}").parse().unwrap());
            topology.pci.insert(function(at(bus, 1), host, switch));
            topology.pci.insert(function(
                at(bus + 1, 0),
                PciParent::Bridge(at(bus, 1)),
                switch,
            ));
        }
        let mut used = [0u8; 4];
        let mut below = |topology: &mut Topology, switch: u8| {
            used[usize::from(switch)] += 1;
            let (bus, port) = (switch * 0x40, used[usize::from(switch)]);
            topology.pci.insert(function(
                at(bus + 2, port),
                PciParent::Bridge(at(bus + 1, 0)),
                switch,
            ));
            topology.pci.insert(function(
                at(bus + 2 + port, 0),
                PciParent::Bridge(at(bus + 2, port)),
                switch,
            ));
            at(bus + 2 + port, 0)
        };
        for &switch in &self.gpus {
            let address = below(&mut topology, switch);
            topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
        }
        for (number, &(switch, rate)) in self.nics.iter().enumerate() {
            let address = Some(below(&mut topology, switch));
            let ports = vec![Port::new(
                1,
                PortState::Active,
                LinkLayer::InfiniBand,
                Some(rate * 1000),
            )];
            topology.nics.push(Nic {
                address,
                ports,
                ..Nic::new(format!("mlx5_{number}").parse().unwrap(), NicKind::Verbs)
            });
        }
        topology.sort();
        topology
    }
}

pub(super) fn parts() -> impl Strategy<Value = Parts> {
    let nic = (0u8..4, prop_oneof![5 => Just(400u64), 1 => Just(200)]);
    (
        prop::collection::vec(0u8..4, 1..=5),
        prop::collection::vec(nic, 1..=6),
    )
        .prop_map(|(gpus, nics)| Parts { gpus, nics })
}

/// The rails of each GPU, by name.
pub(super) fn names(node: &NodePlacement) -> Vec<Vec<String>> {
    let names = |gpu: &GpuPlacement| {
        gpu.choices
            .iter()
            .map(|choice| node.rail(choice.rail).to_string())
            .collect()
    };
    node.gpus.iter().map(names).collect()
}

fn closest(topology: &Topology) -> NodePlacement {
    map(topology, &Wish::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_order_in_which_devices_are_found_means_nothing(parts in parts(), seed in any::<u64>()) {
        let topology = parts.topology();
        let mut shuffled = topology.clone();
        let key = |address: PciAddress| (u64::from(address.bus) + 7).wrapping_mul(seed | 1);
        shuffled.gpus.sort_by_key(|gpu| key(gpu.address));
        shuffled.nics.sort_by_key(|nic| nic.address.map(key));
        shuffled.sort();
        prop_assert_eq!(closest(&topology), closest(&shuffled));
    }

    #[test]
    fn names_mean_nothing(parts in parts()) {
        let topology = parts.topology();
        let mut renamed = topology.clone();
        for (number, nic) in renamed.nics.iter_mut().enumerate() {
            nic.name = format!("rocep{}", 90 - number).parse().unwrap();
        }
        let rails = |node: &NodePlacement| -> Vec<Vec<RailIndex>> {
            node.gpus.iter().map(|gpu| gpu.choices.iter().map(|choice| choice.rail).collect()).collect()
        };
        prop_assert_eq!(rails(&closest(&topology)), rails(&closest(&renamed)));
    }

    #[test]
    fn a_nic_that_fails_moves_no_gpu_that_did_not_use_it_unless_the_worst_off_gains(
        parts in parts(), failing in any::<prop::sample::Index>(), is_auto in any::<bool>(),
    ) {
        let topology = parts.topology();
        let nics_each = if is_auto { NicsEach::Auto } else { NicsEach::Number(1) };
        let request = Wish { nics_per_task: nics_each, ..Wish::default() };
        let before = map(&topology, &request);
        let mut degraded = topology.clone();
        let failing = failing.index(degraded.nics.len());
        degraded.nics[failing].ports[0].state = PortState::Down;
        let after = map(&degraded, &request);
        let gone = format!("{}:1", topology.nics[failing].name);
        // what a port had is not known when it is down, and fewer ports may make another rate the
        // fabric's
        let whole = closest::in_order(&after);
        prop_assume!(!after.rails.is_empty() && whole == before.rails);
        let sorted = |mut names: Vec<Vec<String>>| {
            names.iter_mut().for_each(|names| names.sort());
            names
        };
        let (was, is) = (sorted(names(&before)), sorted(names(&after)));
        // of several NICs those are left that work
        let left: Vec<Vec<String>> =
            was.iter().map(|names| names.iter().filter(|name| **name != gone).cloned().collect()).collect();
        let moved = |gpu: &usize| !left[*gpu].is_empty() && left[*gpu] != is[*gpu];
        if (0..was.len()).any(|gpu| moved(&gpu)) {
            // where every GPU keeps the NICs it has left, no choice for the other GPUs gives the
            // worst-off one as much
            let ways = Ways::new(&degraded, &after.rails, &Through::default(), &is.iter().map(Vec::len).collect::<Vec<usize>>());
            let rail = |name: &String| after.rails.iter().position(|rail| rail.to_string() == *name);
            let rails_of = |names: &[Vec<String>]| -> Vec<solve::RailSet> {
                names.iter().map(|names| names.iter().map(|name| rail(name).unwrap()).collect()).collect()
            };
            let fixed = rails_of(&left);
            let free: Vec<usize> = (0..fixed.len()).filter(|&gpu| fixed[gpu].is_empty()).collect();
            let rails = after.rails.len();
            let staying = (0..rails.pow(free.len() as u32)).map(|mut code| {
                let mut answer = fixed.clone();
                for &gpu in &free {
                    answer[gpu] = [code % rails].into_iter().collect();
                    code /= rails;
                }
                solve::Solved::new(&ways.problem, answer).worst_mbps()
            });
            prop_assert!(solve::Solved::new(&ways.problem, rails_of(&is)).worst_mbps() > staying.max().unwrap());
        }
    }

    #[test]
    fn a_nic_beyond_every_gpus_own_one_changes_nothing(gpus in prop::collection::vec(0u8..2, 1..=5)) {
        // all GPUs on the first NUMA node with a NIC each below their switch, the new one on the
        // second
        let parts = Parts { nics: gpus.iter().map(|&switch| (switch, 400)).collect(), gpus };
        let before = closest(&parts.topology());
        let mut more = parts.clone();
        more.nics.push((3, 400));
        prop_assert_eq!(names(&before), names(&closest(&more.topology())));
    }

    #[test]
    fn every_policy_gives_every_gpu_a_nic_where_there_is_one(parts in parts(), each in 0u8..4) {
        let topology = parts.topology();
        let everybody: Vec<GpuIndex> = topology.gpu_indices().collect();
        for policy in [Policy::Closest, Policy::Rail, Policy::Spread, Policy::Numa, Policy::All] {
            let nics_each = if each == 0 { NicsEach::Auto } else { NicsEach::Number(each) };
            let request = Wish { policy, nics_per_task: nics_each, ..Wish::default() };
            let node = map_of(&topology, &request, Some(&everybody), &[]);
            for gpu in &node.gpus {
                prop_assert!(!gpu.choices.is_empty() && !gpu.reason.is_empty());
                let mut rails: Vec<RailIndex> = gpu.choices.iter().map(|choice| choice.rail).collect();
                rails.sort_unstable();
                rails.dedup();
                prop_assert_eq!(rails.len(), gpu.choices.len());
                if matches!(policy, Policy::Closest | Policy::Rail) && each > 0 {
                    prop_assert_eq!(rails.len(), node.rails.len().min(each.into()));
                }
            }
        }
    }
}

/// A DGX H100 of which these NICs are down.
fn dgx(down: &[&str]) -> Topology {
    let mut topology = platform::model("dgx-h100").unwrap();
    for nic in &mut topology.nics {
        if down.contains(&nic.name.as_str()) {
            nic.ports[0].state = PortState::Down;
        }
    }
    topology
}

fn by_rail(topology: &Topology, rails: &[&str]) -> NodePlacement {
    let rails: Vec<Pattern> = rails
        .iter()
        .map(|name| Pattern::parse(name).unwrap())
        .collect();
    map(
        topology,
        &Wish {
            policy: Policy::Rail,
            admin: Admin {
                rails,
                ..Admin::default()
            },
            ..Wish::default()
        },
    )
}

fn first_names(node: &NodePlacement) -> Vec<String> {
    names(node)
        .into_iter()
        .map(|names| names[0].clone())
        .collect()
}

#[test]
fn rails_keep_their_numbers_when_one_breaks_and_its_gpu_falls_back_and_says_so() {
    let whole = by_rail(&dgx(&[]), &[]);
    let degraded = by_rail(&dgx(&["mlx5_4"]), &[]);
    let (mut expected, found) = (first_names(&whole), first_names(&degraded));
    expected[2] = "mlx5_0:1".to_string();
    assert_eq!(found, expected);
    assert!(
        degraded.gpus[2]
            .reason
            .starts_with("rail 2 (mlx5_4:1) is broken; in its place mlx5_0:1 is")
    );
    assert_eq!(
        degraded.gpus[2].shortfall.as_deref(),
        Some("GPU 2: rail 2 (mlx5_4:1) is broken")
    );
    let said: Vec<String> = degraded
        .diagnostics
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(said, ["`mlx5_4:1`: rail 2 is broken: its port is down"]);
}

#[test]
fn rails_keep_their_numbers_when_one_comes_up_at_less_than_its_rate() {
    let with_slow = |slow: &[&str], gbps: u64| {
        let mut node = dgx(&[]);
        let is_slow = |nic: &&mut Nic| slow.contains(&nic.name.as_str());
        node.nics
            .iter_mut()
            .filter(is_slow)
            .for_each(|nic| nic.ports[0].rate_mbps = Some(gbps * 1000));
        by_rail(&node, &[])
    };
    let (mut expected, degraded) = (
        first_names(&with_slow(&[], 400)),
        with_slow(&["mlx5_4"], 200),
    );
    assert_eq!(
        first_names(&degraded),
        expected,
        "half of a near one is as much as half of a neighbour's"
    );
    assert_eq!(
        degraded
            .degraded
            .iter()
            .map(Rail::to_string)
            .collect::<Vec<_>>(),
        ["mlx5_4:1"]
    );
    let far_slower = with_slow(&["mlx5_4"], 100);
    expected[2] = "mlx5_0:1".to_string();
    assert_eq!(first_names(&far_slower), expected);
    let why = "`mlx5_4:1`: rail 2 is broken: it runs at 100 Gb/s, the node's fabric at 400 Gb/s";
    assert_eq!(
        far_slower
            .diagnostics
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        [why]
    );
    // storage's NIC stands beside a compute NIC
    let mut beside = dgx(&[]);
    let compute = beside
        .nics
        .iter()
        .find(|nic| nic.name == "mlx5_4")
        .unwrap()
        .clone();
    let own = compute.address.unwrap();
    let address = PciAddress {
        device: own.device + 1,
        ..own
    };
    beside.pci.insert(PciFunction {
        address,
        ..beside.pci.get(own).unwrap().clone()
    });
    let ports = vec![Port {
        rate_mbps: Some(200_000),
        ..compute.ports[0].clone()
    }];
    beside.nics.push(Nic {
        name: "s0".parse().unwrap(),
        address: Some(address),
        ports,
        role: None,
        ..compute
    });
    beside.sort();
    expected[2] = "mlx5_4:1".to_string();
    assert_eq!(first_names(&by_rail(&beside, &[])), expected);
}

#[test]
fn the_admins_list_is_the_order_of_the_rails() {
    let node = by_rail(&dgx(&[]), &["mlx5_11", "mlx5_10", "mlx5_9", "mlx5_6"]);
    let expected = [
        "mlx5_11", "mlx5_11", "mlx5_10", "mlx5_10", "mlx5_9", "mlx5_9", "mlx5_6", "mlx5_6",
    ];
    assert_eq!(
        first_names(&node),
        expected.map(|name| format!("{name}:1")),
        "neighbours share where rails are few"
    );
}

#[test]
fn several_rails_for_each_gpu_follow_each_other() {
    let topology = Parts {
        gpus: vec![0, 3],
        nics: vec![(0, 400), (1, 400), (2, 400), (3, 400)],
    }
    .topology();
    let node = map(
        &topology,
        &Wish {
            policy: Policy::Rail,
            nics_per_task: NicsEach::Number(2),
            ..Wish::default()
        },
    );
    assert_eq!(
        names(&node),
        [["mlx5_0:1", "mlx5_1:1"], ["mlx5_3:1", "mlx5_2:1"]],
        "the nearer first"
    );
}

#[test]
fn a_job_alone_on_the_node_also_gets_the_nics_of_gpus_that_it_does_not_have() {
    let topology = dgx(&[]);
    let wish = Wish {
        policy: Policy::Spread,
        ..Wish::default()
    };
    let spread = |alone| map_of(&topology, &wish, alone, &[]);
    let two = spread(Some(&[GpuIndex(0), GpuIndex(4)]));
    assert_eq!(
        names(&two)[0],
        ["mlx5_0:1", "mlx5_3:1", "mlx5_4:1", "mlx5_5:1"]
    );
    assert_eq!(
        names(&two)[4],
        ["mlx5_6:1", "mlx5_9:1", "mlx5_10:1", "mlx5_11:1"]
    );
    assert!(names(&two)[1].is_empty() && two.gpus[1].reason == "the job does not have this GPU");
    assert!(
        two.gpus[0]
            .reason
            .ends_with("; with it 3 NICs that would be idle")
    );
    let shared = spread(None);
    assert_eq!(names(&shared), names(&closest(&topology)));
    assert!(
        shared.gpus[0]
            .reason
            .ends_with("since the job may not be alone on the node")
    );
}

#[test]
fn a_gpu_on_c2c_reaches_the_nics_of_its_cpu_at_the_full_rate_and_others_do_not() {
    let share = |name: &str| closest(&platform::model(name).unwrap()).gpus[0].choices[0].share_mbps;
    assert_eq!(share("gb200-nvl72"), Some(400_000));
    assert_eq!(
        share("azure-nd96isr-h100-v5").map(|share| share < 400_000),
        Some(false),
        "stated as PIX"
    );
    let hidden = Parts {
        gpus: vec![0],
        nics: vec![(1, 400)],
    }
    .topology();
    assert_eq!(
        closest(&hidden).gpus[0].choices[0].share_mbps,
        Some(360_000)
    );
}

#[test]
fn of_two_far_nics_the_one_on_the_nearer_numa_node_wins() {
    let mut topology = Parts {
        gpus: vec![0],
        nics: vec![(2, 400), (3, 400)],
    }
    .topology();
    // the second NIC's switch on a third NUMA node, which is nearer to the first than the second is
    for bus in [0xc0, 0xc1, 0xc2, 0xc3] {
        let function = topology
            .pci
            .iter()
            .find(|function| function.address.bus == bus)
            .cloned()
            .unwrap();
        topology.pci.insert(PciFunction {
            numa_node: Some(2),
            ..function
        });
    }
    let cpus = (8..12).collect();
    topology.numa_nodes.push(NumaNode {
        os_index: 2,
        cpus,
        distances: vec![12, 32, 10],
        package: None,
    });
    topology.numa_nodes[0].distances = vec![10, 32, 12];
    topology.numa_nodes[1].distances = vec![32, 10, 32];
    let node = closest(&topology);
    assert_eq!(first_names(&node), ["mlx5_1:1"]);
    let pairs = pairs::pairs(&topology, &node, &Wish::default(), GpuIndex(0));
    assert_eq!(
        pairs[1].why,
        "it is as near (SYS) by name, but between NUMA nodes farther apart"
    );
}

/// A GPU on each of these NUMA nodes, and two NICs on the last: what each GPU gets in Gbit/s.
fn far_from_the_nics(packages: &[Option<u32>], distances: &[&[u32]]) -> Vec<u64> {
    let nodes = packages.len() as u8;
    let mut topology = Parts {
        gpus: vec![0; 2],
        nics: vec![(3, 400), (3, 400)],
    }
    .topology();
    let numa_nodes = packages.iter().zip(0..).map(|(&package, os_index)| {
        let cpus = [os_index].into_iter().collect();
        NumaNode {
            os_index,
            cpus,
            distances: distances
                .get(os_index as usize)
                .map_or(Vec::new(), |row| row.to_vec()),
            package,
        }
    });
    topology.numa_nodes = numa_nodes.collect();
    let buses = |switch: u8| switch * 0x40..=switch * 0x40 + 0x3f;
    for (switch, node) in [(0, 0), (3, u32::from(nodes) - 1)] {
        let below: Vec<PciFunction> = topology
            .pci
            .iter()
            .filter(|function| buses(switch).contains(&function.address.bus))
            .cloned()
            .collect();
        below.into_iter().for_each(|function| {
            topology.pci.insert(PciFunction {
                numa_node: Some(node),
                ..function
            })
        });
    }
    closest(&topology)
        .gpus
        .iter()
        .map(|gpu| gpu.choices[0].share_mbps.unwrap() / 1000)
        .collect()
}

#[test]
fn two_gpus_share_the_connection_of_two_sockets_and_none_within_one() {
    let (one, two, unknown) = ([Some(0), Some(0)], [Some(0), Some(1)], [None, None]);
    assert_eq!(far_from_the_nics(&two, &[]), [90, 90], "two packages");
    assert_eq!(
        far_from_the_nics(&one, &[]),
        [180, 180],
        "two NUMA nodes of one package"
    );
    assert_eq!(
        far_from_the_nics(&two, &[&[10, 12], &[12, 10]]),
        [90, 90],
        "packages count before distances"
    );
    assert_eq!(far_from_the_nics(&one, &[&[10, 17], &[17, 10]]), [180, 180]);
    assert_eq!(
        far_from_the_nics(&unknown, &[&[10, 12], &[12, 10]]),
        [180, 180]
    );
    assert_eq!(
        far_from_the_nics(&unknown, &[&[10, 32], &[32, 10]]),
        [90, 90]
    );
    let four: [&[u32]; 4] = [
        &[10, 12, 32, 32],
        &[12, 10, 32, 32],
        &[32, 32, 10, 12],
        &[32, 32, 12, 10],
    ];
    assert_eq!(
        far_from_the_nics(&[None; 4], &four),
        [90, 90],
        "two nodes of each socket"
    );
}

#[test]
fn every_pair_of_every_built_in_machine_is_explained_once() {
    for model in platform::MODELS {
        let topology = platform::model(model.name).unwrap();
        let node = closest(&topology);
        for gpu in topology.gpu_indices() {
            let pairs = pairs::pairs(&topology, &node, &Wish::default(), gpu);
            assert_eq!(
                pairs.len(),
                node.rails.len() + node.excluded.len(),
                "{}",
                model.name
            );
            assert!(pairs.iter().all(|pair| !pair.why.is_empty()));
            assert_eq!(
                pairs.iter().filter(|pair| pair.chosen).count(),
                node.gpu(gpu).choices.len()
            );
        }
    }
}
