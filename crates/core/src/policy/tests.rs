//! Rules for every machine: order and names mean nothing, a NIC that fails moves GPUs that did
//! not use it only where the worst-off GPU gains by that, and a NIC that is new and farther than
//! every GPU's own one moves none.

use super::*;
use crate::topology::*;
use crate::wish::NicsEach;
use nic_placement_node::platform;
use proptest::prelude::*;
use std::ops::Range;

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

pub(super) fn machine(gpus: &[u8], nics: &[(u8, u64)]) -> Topology {
    let (gpus, nics) = (gpus.to_vec(), nics.to_vec());
    Parts { gpus, nics }.topology()
}

fn at(bus: u8, device: u8) -> PciAddress {
    PciAddress {
        domain: 0,
        bus,
        device,
        function: 0,
    }
}

/// A NUMA node with these CPUs and distances.
pub(super) fn numa_node(os_index: u32, cpus: Range<u32>, distances: &[u32]) -> NumaNode {
    NumaNode {
        os_index,
        cpus: cpus.collect(),
        distances: distances.to_vec(),
        package: None,
    }
}

/// The cells of a row, which ` | ` separates.
pub(super) fn cells<const N: usize>(row: &str) -> [&str; N] {
    let cells: Vec<&str> = row.split(" | ").collect();
    cells.try_into().expect("a cell for each column")
}

/// Checks the beginning of a text, a part, and its end.
#[track_caller]
pub(super) fn says(text: &str, [start, part, end]: [&str; 3]) {
    let is_right = text.starts_with(start) && text.contains(part) && text.ends_with(end);
    assert!(is_right, "{text}");
}

const GEN5: LinkRate = LinkRate {
    tenths_gt: 320,
    width: 16,
};

impl Parts {
    pub(super) fn topology(&self) -> Topology {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        for os_index in 0..2 {
            let cpus = os_index * 4..os_index * 4 + 4;
            topology.numa_nodes.push(numa_node(os_index, cpus, &[]));
        }
        let (current, max) = (Some(GEN5), Some(GEN5));
        let function = |address, parent, switch: u8| PciFunction {
            numa_node: Some(u32::from(switch) / 2),
            link: PcieLink { current, max },
            ..PciFunction::new(address, parent)
        };
        for switch in 0..4 {
            let bus = switch * 0x40;
            let host = PciParent::Host(format!("pci0000:{bus:02x}").parse().unwrap());
            let port = PciParent::Bridge(at(bus, 1));
            topology.pci.insert(function(at(bus, 1), host, switch));
            topology.pci.insert(function(at(bus + 1, 0), port, switch));
        }
        let mut used = [0u8; 4];
        let mut below = |topology: &mut Topology, switch: u8| {
            used[usize::from(switch)] += 1;
            let (bus, port) = (switch * 0x40, used[usize::from(switch)]);
            for (address, above) in [
                (at(bus + 2, port), at(bus + 1, 0)),
                (at(bus + 2 + port, 0), at(bus + 2, port)),
            ] {
                let above = PciParent::Bridge(above);
                topology.pci.insert(function(address, above, switch));
            }
            at(bus + 2 + port, 0)
        };
        for &switch in &self.gpus {
            let address = below(&mut topology, switch);
            topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
        }
        for (number, &(switch, gbps)) in self.nics.iter().enumerate() {
            let (layer, rate) = (LinkLayer::InfiniBand, Some(gbps * 1000));
            let address = Some(below(&mut topology, switch));
            topology.nics.push(Nic {
                address,
                ports: vec![Port::new(1, PortState::Active, layer, rate)],
                ..Nic::new(format!("mlx5_{number}").parse().unwrap(), NicKind::Verbs)
            });
        }
        topology.sort();
        topology
    }
}

pub(super) fn parts() -> impl Strategy<Value = Parts> {
    let nic = (0u8..4, prop_oneof![5 => Just(400u64), 1 => Just(200)]);
    let nics = prop::collection::vec(nic, 1..=6);
    let gpus = prop::collection::vec(0u8..4, 1..=5);
    (gpus, nics).prop_map(|(gpus, nics)| Parts { gpus, nics })
}

pub(super) fn function(
    topology: &mut Topology,
    address: PciAddress,
    change: impl FnOnce(&mut PciFunction),
) {
    let mut function = topology.pci.get(address).unwrap().clone();
    change(&mut function);
    topology.pci.insert(function);
}

pub(super) fn without(mut topology: Topology, down: &[&str]) -> Topology {
    for nic in &mut topology.nics {
        if down.contains(&nic.name.as_str()) {
            nic.ports[0].state = PortState::Down;
        }
    }
    topology
}

pub(super) fn model(name: &str, down: &[&str]) -> Topology {
    without(platform::model(name).unwrap(), down)
}

fn dgx(down: &[&str]) -> Topology {
    model("dgx-h100", down)
}

pub(super) fn wish(policy: Policy, nics_per_task: NicsEach) -> Wish {
    Wish {
        policy,
        nics_per_task,
        ..Wish::default()
    }
}

/// A wish by which no task may open these NICs.
pub(super) fn closed(mut wish: Wish, nics: &[usize]) -> Wish {
    let closed = nics.iter().map(|&nic| (NicIndex(nic), "closed".into()));
    wish.admin.selection.unopenable = closed.collect();
    wish
}

pub(super) fn patterns(words: &str) -> Vec<Pattern> {
    let words = words.split_whitespace();
    words.map(|word| Pattern::parse(word).unwrap()).collect()
}

pub(super) fn strings<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

/// The rails of each GPU, by name.
pub(super) fn names(node: &NodePlacement) -> Vec<Vec<String>> {
    let name = |choice: &RailUse| node.rail(choice.rail).to_string();
    let of = |gpu: &GpuPlacement| gpu.choices.iter().map(name).collect();
    node.gpus.iter().map(of).collect()
}

/// The numbers of each GPU's rails.
pub(super) fn rails(node: &NodePlacement) -> Vec<Vec<usize>> {
    let of = |gpu: &GpuPlacement| gpu.choices.iter().map(|choice| choice.rail.0).collect();
    node.gpus.iter().map(of).collect()
}

const POLICIES: [Policy; 5] = {
    use Policy::*;
    [Closest, Rail, Spread, Numa, All]
};

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
        prop_assert_eq!(rails(&closest(&topology)), rails(&closest(&renamed)));
    }

    #[test]
    fn a_nic_that_fails_moves_no_gpu_that_did_not_use_it_unless_the_worst_off_gains(
        parts in parts(), failing in any::<prop::sample::Index>(), is_auto in any::<bool>(),
    ) {
        let topology = parts.topology();
        let nics_each = if is_auto { NicsEach::Auto } else { NicsEach::Number(1) };
        let request = wish(Policy::Closest, nics_each);
        let before = map(&topology, &request);
        let failing = topology.nics[failing.index(topology.nics.len())].name.as_str();
        let degraded = without(topology.clone(), &[failing]);
        let after = map(&degraded, &request);
        let gone = format!("{failing}:1");
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
            let ways = Paths::new(&degraded, &after.rails, &Through::default(), &is.iter().map(Vec::len).collect::<Vec<usize>>());
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
        for policy in POLICIES {
            let nics_each = if each == 0 { NicsEach::Auto } else { NicsEach::Number(each) };
            let node = map_of(&topology, &wish(policy, nics_each), Some(&everybody), &[]);
            for (gpu, mut rails) in node.gpus.iter().zip(rails(&node)) {
                prop_assert!(!gpu.choices.is_empty() && !gpu.reason.is_empty());
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

fn by_rail(topology: &Topology, rails: &str) -> NodePlacement {
    let mut wish = wish(Policy::Rail, NicsEach::Auto);
    wish.admin.rails = patterns(rails);
    map(topology, &wish)
}

fn first_names(node: &NodePlacement) -> Vec<String> {
    let names = names(node).into_iter();
    names.map(|mut names| names.remove(0)).collect()
}

#[test]
fn rails_keep_their_numbers_when_one_breaks_and_its_gpu_falls_back_and_says_so() {
    let whole = by_rail(&dgx(&[]), "");
    let degraded = by_rail(&dgx(&["mlx5_4"]), "");
    let mut expected = first_names(&whole);
    expected[2] = "mlx5_0:1".to_string();
    assert_eq!(first_names(&degraded), expected);
    let (broken, gpu) = ("rail 2 (mlx5_4:1) is broken", &degraded.gpus[2]);
    let reason = format!("{broken}; in its place mlx5_0:1 is");
    assert!(gpu.reason.starts_with(&reason), "{}", gpu.reason);
    assert_eq!(gpu.shortfall, Some(format!("GPU 2: {broken}")));
    let said = strings(&degraded.diagnostics);
    assert_eq!(said, ["`mlx5_4:1`: rail 2 is broken: its port is down"]);
}

#[test]
fn rails_keep_their_numbers_when_one_comes_up_at_less_than_its_rate() {
    let with_slow = |gbps: u64| {
        let mut node = dgx(&[]);
        let slow = node.nic_index("mlx5_4").unwrap();
        node.nics[slow.0].ports[0].rate_mbps = Some(gbps * 1000);
        by_rail(&node, "")
    };
    let (mut expected, degraded) = (first_names(&with_slow(400)), with_slow(200));
    // half of a near one is as much as half of a neighbour's
    assert_eq!(first_names(&degraded), expected);
    assert_eq!(strings(&degraded.degraded), ["mlx5_4:1"]);
    let far_slower = with_slow(100);
    expected[2] = "mlx5_0:1".to_string();
    assert_eq!(first_names(&far_slower), expected);
    assert_eq!(far_slower.diagnostics.len(), 1);
    let why = far_slower.diagnostics[0].to_string();
    says(&why, ["`mlx5_4:1`: rail 2 is broken", "at 100 Gb/s", ""]);
    assert!(why.contains("fabric at 400 Gb/s"), "{why}");
    // storage's NIC stands beside a compute NIC
    let mut beside = dgx(&[]);
    let compute = beside.nics[beside.nic_index("mlx5_4").unwrap().0].clone();
    let own = compute.address.unwrap();
    let mut address = own;
    address.device += 1;
    function(&mut beside, own, |function| function.address = address);
    let mut storage = Nic {
        name: "s0".parse().unwrap(),
        address: Some(address),
        role: None,
        ..compute
    };
    storage.ports[0].rate_mbps = Some(200_000);
    beside.nics.push(storage);
    beside.sort();
    expected[2] = "mlx5_4:1".to_string();
    assert_eq!(first_names(&by_rail(&beside, "")), expected);
}

#[test]
fn the_admins_list_is_the_order_of_the_rails() {
    let node = by_rail(&dgx(&[]), "mlx5_11 mlx5_10 mlx5_9 mlx5_6");
    // neighbours share where rails are few
    let expected = [11, 11, 10, 10, 9, 9, 6, 6].map(|nic| format!("mlx5_{nic}:1"));
    assert_eq!(first_names(&node), expected);
}

#[test]
fn a_gpu_whose_nic_works_moves_where_another_one_broke_if_the_worst_off_gains_by_it() {
    let node = machine(&[0, 1, 0, 2], &[2, 1, 3, 1].map(|switch| (switch, 400)));
    let one = wish(Policy::Closest, NicsEach::Number(1));
    let first = |topology: &_| names(&map(topology, &one)).concat().join(" ");
    assert_eq!(first(&node), "mlx5_1:1 mlx5_1:1 mlx5_3:1 mlx5_0:1");
    let degraded = without(node, &["mlx5_3"]);
    // the third GPU lost its own, and the second gives way to it
    assert_eq!(first(&degraded), "mlx5_1:1 mlx5_2:1 mlx5_1:1 mlx5_0:1");
}

#[test]
fn several_rails_for_each_gpu_follow_each_other() {
    let topology = machine(&[0, 3], &[0, 1, 2, 3].map(|switch| (switch, 400)));
    let node = map(&topology, &wish(Policy::Rail, NicsEach::Number(2)));
    assert_eq!(rails(&node), [[0, 1], [3, 2]], "the nearer first");
}

#[test]
fn a_job_alone_on_the_node_also_gets_the_nics_of_gpus_that_it_does_not_have() {
    let topology = dgx(&[]);
    let spread = |alone| map_of(&topology, &wish(Policy::Spread, NicsEach::Auto), alone, &[]);
    let two = spread(Some(&[GpuIndex(0), GpuIndex(4)]));
    let of = |gpu: usize| names(&two)[gpu].join(" ");
    assert_eq!(of(0), "mlx5_0:1 mlx5_3:1 mlx5_4:1 mlx5_5:1");
    assert_eq!(of(4), "mlx5_6:1 mlx5_9:1 mlx5_10:1 mlx5_11:1");
    assert_eq!(of(1), "");
    let why = |node: &NodePlacement, gpu: usize| node.gpus[gpu].reason.clone();
    assert!(why(&two, 1).contains("does not have this GPU"));
    assert!(why(&two, 0).ends_with("3 NICs that would be idle"));
    let shared = spread(None);
    assert_eq!(names(&shared), names(&closest(&topology)));
    assert!(why(&shared, 0).ends_with("be alone on the node"));
}

#[test]
fn a_gpu_on_c2c_reaches_the_nics_of_its_cpu_at_the_full_rate_and_others_do_not() {
    let share = |topology: &Topology| closest(topology).gpus[0].choices[0].share_mbps.unwrap();
    assert_eq!(share(&model("gb200-nvl72", &[])), 400_000);
    let stated_as_pix = model("azure-nd96isr-h100-v5", &[]);
    assert!(share(&stated_as_pix) >= 400_000);
    assert_eq!(share(&machine(&[0], &[(1, 400)])), 360_000);
}

#[test]
fn of_two_far_nics_the_one_on_the_nearer_numa_node_wins() {
    let mut topology = machine(&[0], &[(2, 400), (3, 400)]);
    // the second NIC's switch on a third NUMA node, which is nearer to the first than the second is
    move_switch(&mut topology, 3, 2);
    topology.numa_nodes.push(numa_node(2, 8..12, &[12, 32, 10]));
    topology.numa_nodes[0].distances = vec![10, 32, 12];
    topology.numa_nodes[1].distances = vec![32, 10, 32];
    let node = closest(&topology);
    assert_eq!(first_names(&node), ["mlx5_1:1"]);
    let pairs = pairs::pairs(&topology, &node, &Wish::default(), GpuIndex(0));
    assert!(pairs[1].why.contains("between NUMA nodes farther apart"));
}

/// Puts all that hangs below a switch on this NUMA node.
fn move_switch(topology: &mut Topology, switch: u8, node: u32) {
    let buses = switch * 0x40..=switch * 0x40 + 0x3f;
    let moved: Vec<PciFunction> = topology.pci.iter().cloned().collect();
    for moved in moved {
        if buses.contains(&moved.address.bus) {
            let node = Some(node);
            function(topology, moved.address, |moved| moved.numa_node = node);
        }
    }
}

#[test]
fn two_gpus_share_the_connection_of_two_sockets_and_none_within_one() {
    let (one, two, unknown) = ([Some(0), Some(0)], [Some(0), Some(1)], [None, None]);
    // two GPUs on the first of these NUMA nodes, and two NICs on the last, where the two halves of
    // the nodes are so far from each other
    for (packages, far, gbps) in [
        (&two[..], None, 90),
        // two NUMA nodes of one package
        (&one, None, 180),
        // packages count before distances
        (&two, Some(12), 90),
        (&one, Some(17), 180),
        (&unknown, Some(12), 180),
        (&unknown, Some(32), 90),
        // two nodes of each socket
        (&[None; 4], Some(32), 90),
    ] {
        let mut topology = machine(&[0, 0], &[(3, 400), (3, 400)]);
        let half = packages.len() as u32 / 2;
        let distance = |one: u32, other: u32| match far {
            _ if one == other => Some(10),
            Some(_) if one / half == other / half => Some(12),
            far => far,
        };
        let numa_nodes = (0..).zip(packages).map(|(node, &package)| {
            let distances = far.iter().flat_map(|_| 0..2 * half);
            let distances = distances.filter_map(|other| distance(node, other));
            let distances: Vec<u32> = distances.collect();
            let node = numa_node(node, node..node + 1, &distances);
            NumaNode { package, ..node }
        });
        topology.numa_nodes = numa_nodes.collect();
        move_switch(&mut topology, 3, packages.len() as u32 - 1);
        for gpu in closest(&topology).gpus {
            let share = gpu.choices[0].share_mbps;
            assert_eq!(share.unwrap() / 1000, gbps, "{packages:?} {far:?}");
        }
    }
}

#[test]
fn every_pair_of_every_built_in_machine_is_explained_once() {
    for known in platform::MODELS {
        let topology = model(known.name, &[]);
        let node = closest(&topology);
        for gpu in topology.gpu_indices() {
            let pairs = pairs::pairs(&topology, &node, &Wish::default(), gpu);
            let all = node.rails.len() + node.excluded.len();
            assert_eq!(pairs.len(), all, "{}", known.name);
            assert!(pairs.iter().all(|pair| !pair.why.is_empty()));
            let chosen = pairs.iter().filter(|pair| pair.chosen).count();
            assert_eq!(chosen, node.gpu(gpu).choices.len());
        }
    }
}
