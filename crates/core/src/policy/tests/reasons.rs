//! The sentences in which a map tells why.

use super::*;
use crate::topology::{NicIndex, PathType};
use crate::wish::{Admin, NicsEach};

fn machine(gpus: &[u8], nics: &[(u8, u64)]) -> Topology {
    Parts {
        gpus: gpus.to_vec(),
        nics: nics.to_vec(),
    }
    .topology()
}

/// The same machine, where the kernel tells no rate of any port or link.
fn without_rates(topology: &Topology) -> Topology {
    let mut topology = topology.clone();
    topology
        .nics
        .iter_mut()
        .for_each(|nic| nic.ports[0].rate_mbps = None);
    let link = PcieLink {
        current: None,
        max: None,
    };
    let functions: Vec<PciFunction> = topology.pci.iter().cloned().collect();
    functions
        .into_iter()
        .for_each(|function| topology.pci.insert(PciFunction { link, ..function }));
    topology
}

/// The reason of the last GPU.
fn reason(topology: &Topology, nics_each: NicsEach) -> String {
    map(
        topology,
        &Wish {
            nics_per_task: nics_each,
            ..Wish::default()
        },
    )
    .gpus
    .pop()
    .unwrap()
    .reason
}

#[test]
fn a_reason_counts_the_nics_that_are_as_near_and_those_who_share_them() {
    let one = NicsEach::Number(1);
    let two = NicsEach::Number(2);
    for (gpus, nics, each, near, use_of_it, without_rates_it_is) in [
        (
            &[0][..],
            &[0][..],
            one,
            "mlx5_0:1 is the only NIC at PIX",
            "400 Gb/s to itself",
            "no other GPU uses it",
        ),
        (
            &[0],
            &[0, 0],
            one,
            "mlx5_0:1 is one of 2 NICs at PIX, the nearest there are",
            "400 Gb/s to itself",
            "no other GPU uses it",
        ),
        (
            &[0],
            &[0, 0],
            two,
            "mlx5_0:1 and mlx5_1:1 are the only 2 NICs up to PIX",
            "504.1 Gb/s together",
            "no other GPU uses them",
        ),
        (
            &[0],
            &[0, 1, 1],
            two,
            "mlx5_0:1 and mlx5_1:1 are 2 of 3 NICs up to NODE, the nearest there are",
            "504.1 Gb/s together",
            "no other GPU uses them",
        ),
        (
            &[0, 0],
            &[0],
            one,
            "mlx5_0:1 is the only NIC at PIX",
            "200 Gb/s as one of 2 GPUs that share it",
            "2 GPUs share it",
        ),
        (
            &[0, 0],
            &[0, 0],
            two,
            "mlx5_0:1 and mlx5_1:1 are the only 2 NICs up to PIX",
            "400 Gb/s together, mlx5_0:1 serves 2 GPUs, mlx5_1:1 serves 2 GPUs",
            "mlx5_0:1 serves 2 GPUs, mlx5_1:1 serves 2 GPUs",
        ),
    ] {
        let nics: Vec<(u8, u64)> = nics.iter().map(|&switch| (switch, 400)).collect();
        let topology = machine(gpus, &nics);
        assert_eq!(reason(&topology, each), format!("{near}; {use_of_it}"));
        assert_eq!(
            reason(&without_rates(&topology), each),
            format!("{near}; {without_rates_it_is}")
        );
    }
    let crowded = machine(&[0, 0], &[(0, 400), (1, 400)]);
    let why = |what: &str, use_of_it: &str| {
        format!(
            "mlx5_1:1 is at NODE, for mlx5_0:1 is PIX but there it would get {what}; {use_of_it} to itself"
        )
    };
    assert_eq!(
        reason(&crowded, one),
        why("200 Gb/s instead of 360 Gb/s", "360 Gb/s")
    );
    let unknown = why("less", "").replace(";  to itself", "; no other GPU uses it");
    assert_eq!(reason(&without_rates(&crowded), one), unknown);
}

#[test]
fn a_part_is_called_what_it_is() {
    let part = |rate, nics| reason(&machine(&[0], &vec![(0, rate); nics]), NicsEach::Auto);
    assert!(part(200, 2).contains("are both its nearest NICs (PIX), and NCCL uses both; "));
    assert!(
        part(400, 3).contains("are 2 of its 3 nearest NICs (PIX), and more would help nobody; ")
    );
    let shared = reason(&machine(&[0, 0], &[(0, 200); 5]), NicsEach::Auto);
    assert!(
        shared.contains("are 2 of its 5 nearest NICs (PIX), its even part; "),
        "{shared}"
    );
}

#[test]
fn a_pair_says_why_the_gpu_has_the_nic_or_not() {
    let topology = machine(&[0, 0, 2], &[(0, 400), (0, 400), (1, 400)]);
    let pairs = |topology: &Topology, policy, gpu| {
        let request = Wish {
            policy,
            nics_per_task: NicsEach::Number(1),
            ..Wish::default()
        };
        pairs::pairs(topology, &map(topology, &request), &request, GpuIndex(gpu))
    };
    let whys = |policy, gpu| -> Vec<String> {
        pairs(&topology, policy, gpu)
            .into_iter()
            .map(|pair| format!("{} {}", pair.nic, pair.why))
            .collect()
    };
    let of_two = [
        "mlx5_1 there it would get 200 Gb/s instead of 400 Gb/s",
        "mlx5_2 there it would get 220 Gb/s instead of 400 Gb/s",
    ];
    assert_eq!(whys(Policy::Closest, 0)[1..], of_two);
    let of_others = [0, 1]
        .map(|gpu| format!("mlx5_{gpu} there GPU {gpu} would get 220 Gb/s instead of 400 Gb/s"));
    assert_eq!(whys(Policy::Closest, 2)[1..], of_others);
    let of_rails = [
        "mlx5_1 it is another GPU's rail",
        "mlx5_2 it is another GPU's rail",
    ];
    assert_eq!(whys(Policy::Rail, 0)[1..], of_rails);
    let idle = machine(&[0], &[(0, 400), (0, 400)]);
    assert_eq!(pairs(&idle, Policy::Rail, 0)[1].why, "it is no GPU's rail");
    let spread = Wish {
        policy: Policy::Spread,
        ..Wish::default()
    };
    let node = map_of(&topology, &spread, Some(&[GpuIndex(0)]), &[]);
    let of_nobody = pairs::pairs(&topology, &node, &spread, GpuIndex(2));
    assert!(
        of_nobody
            .iter()
            .all(|pair| pair.why == "the job does not have this GPU"),
        "{of_nobody:?}"
    );
    for pair in pairs(&topology, Policy::Closest, 0) {
        assert!(pair.alone_mbps.is_some());
        assert_eq!(pair.share_mbps, pair.chosen.then_some(400_000));
    }
    for pair in pairs(&without_rates(&topology), Policy::Closest, 0) {
        assert_eq!(
            (pair.alone_mbps, pair.share_mbps),
            (None, None),
            "{}",
            pair.nic
        );
    }
    assert_eq!(
        gbps(400_000) + &gbps(2500) + &gbps(100),
        "400 Gb/s2.5 Gb/s0.1 Gb/s"
    );
}

#[test]
fn under_numa_the_nics_of_the_numa_node_are_told_from_the_nearest_elsewhere() {
    let topology = machine(&[0, 2], &[(0, 400), (1, 400)]);
    let node = map(
        &topology,
        &Wish {
            policy: Policy::Numa,
            ..Wish::default()
        },
    );
    assert_eq!(node.gpus[0].reason, "all 2 good NICs of its NUMA node");
    assert_eq!(
        node.gpus[1].reason,
        "its NUMA node has no good NIC: all that are nearest"
    );
}

#[test]
fn the_fabric_is_what_carries_most_and_of_equal_ones_what_has_more_ports() {
    let fabric = |rates: [&[u64]; 2]| {
        let nics: Vec<(u8, u64)> = rates.concat().into_iter().map(|rate| (0, rate)).collect();
        let mut topology = machine(&[0], &nics);
        topology.nics[..rates[0].len()]
            .iter_mut()
            .for_each(|nic| nic.ports[0].link_layer = LinkLayer::Ethernet);
        let node = map(&topology, &Wish::default());
        topology.nic(node.rails[0].nic).ports[0].link_layer
    };
    assert_eq!(
        fabric([&[100, 100, 100], &[400]]),
        LinkLayer::InfiniBand,
        "fewer ports, and more bandwidth"
    );
    assert_eq!(
        fabric([&[200, 200], &[400]]),
        LinkLayer::Ethernet,
        "as much, and more ports"
    );
    assert_eq!(fabric([&[400], &[400]]), LinkLayer::InfiniBand);
}

#[test]
fn a_nic_that_is_only_farther_and_one_that_is_left_for_steadiness_are_called_so() {
    let mut through = Through::default();
    through.set(PathType::Node, 1000);
    let request = Wish {
        nics_per_task: NicsEach::Number(1),
        admin: Admin {
            through,
            ..Admin::default()
        },
        ..Wish::default()
    };
    let why = |topology: &Topology, gpu: usize, nic: &str| {
        let pairs = pairs::pairs(topology, &map(topology, &request), &request, GpuIndex(gpu));
        pairs.into_iter().find(|pair| pair.nic == nic).unwrap().why
    };
    let farther = machine(&[0], &[(0, 400), (1, 400)]);
    assert_eq!(
        why(&farther, 0, "mlx5_1"),
        "it is farther: NODE instead of PIX"
    );
    let mut broken = machine(&[0, 3, 2], &[(0, 400), (1, 400), (0, 400)]);
    broken.nics[0].ports[0].state = PortState::Down;
    let steady = "this GPU stays where it is when all NICs work, so that nodes pair alike";
    assert_eq!(why(&broken, 1, "mlx5_1"), steady);
}

#[test]
fn a_gpu_whose_rails_are_all_broken_gets_as_many_others_as_were_asked_for() {
    let mut topology = machine(&[0, 3], &[(0, 400), (1, 400), (2, 400), (3, 400)]);
    topology.nics[..2]
        .iter_mut()
        .for_each(|nic| nic.ports[0].state = PortState::Down);
    let counts = |nics_each| -> Vec<usize> {
        let node = map(
            &topology,
            &Wish {
                policy: Policy::Rail,
                nics_per_task: nics_each,
                ..Wish::default()
            },
        );
        node.gpus.iter().map(|gpu| gpu.choices.len()).collect()
    };
    assert_eq!(counts(NicsEach::Number(2)), [2, 2]);
    assert_eq!(counts(NicsEach::Auto), [1, 2], "one in place of its part");
}

#[test]
fn a_job_of_no_gpu_of_the_node_gets_no_idle_nic() {
    let topology = machine(&[0], &[(0, 400), (1, 400)]);
    let wish = Wish {
        policy: Policy::Spread,
        ..Wish::default()
    };
    let spread = |alone| map_of(&topology, &wish, alone, &[]);
    assert_eq!(spread(Some(&[])), spread(None));
    let bare = map_of(&machine(&[0], &[]), &wish, Some(&[GpuIndex(0)]), &[]);
    assert!(bare.gpus[0].choices.is_empty());
}

#[test]
fn what_an_admin_names_in_vain_and_ports_beyond_the_limit_are_told() {
    let said = |node: &NodePlacement| -> Vec<String> {
        node.diagnostics.iter().map(ToString::to_string).collect()
    };
    let one = machine(&[0], &[(0, 400)]);
    let pattern = |word| vec![Pattern::parse(word).unwrap()];
    let selection = Selection {
        include: pattern("mlx5_*"),
        exclude: pattern("mlx9_*"),
        ..Selection::default()
    };
    let node = map(
        &one,
        &Wish {
            admin: Admin {
                selection: selection.clone(),
                ..Admin::default()
            },
            ..Wish::default()
        },
    );
    assert_eq!(said(&node), ["`mlx9_*`: means no NIC of this node"]);
    let many = |ports: u8| {
        closest(&machine(
            &[0],
            &(0..ports).map(|port| (port % 4, 400)).collect::<Vec<_>>(),
        ))
    };
    assert_eq!(
        (
            many(64).rails.len(),
            said(&many(64)).len(),
            many(64).excluded.len()
        ),
        (64, 0, 0)
    );
    let more = many(65);
    assert_eq!((more.rails.len(), more.excluded.len()), (64, 1));
    assert!(
        said(&more)[0].contains("65 usable ports: only the first 64 are used"),
        "{:?}",
        said(&more)
    );
    assert_eq!(
        more.excluded[0].why,
        "it is beyond the 64 ports that UCX can use"
    );
}

/// The maps of a step, and of a task of it that may not open some NICs, with their reasons in words
/// or without them.
fn maps(
    topology: &Topology,
    wish: &Wish,
    alone: Option<&[GpuIndex]>,
    closed: &[usize],
    wordless: bool,
) -> [NodePlacement; 2] {
    let mut wish = Wish {
        wordless,
        ..wish.clone()
    };
    let step = map_of(topology, &wish, alone, &[]);
    let unopenable = closed
        .iter()
        .map(|&nic| (NicIndex(nic), "closed".to_string()))
        .collect();
    wish.admin.selection.unopenable = unopenable;
    let task = map_of(topology, &wish, alone, &step.rails);
    [step, task]
}

/// Checks that a map without words differs from one with them in its reasons alone.
fn differ_in_words_alone(
    topology: &Topology,
    wish: &Wish,
    alone: Option<&[GpuIndex]>,
    closed: &[usize],
) {
    let [worded, wordless] =
        [false, true].map(|wordless| maps(topology, wish, alone, closed, wordless));
    for (mut worded, wordless) in worded.into_iter().zip(wordless) {
        assert!(worded.gpus.iter().all(|gpu| !gpu.reason.is_empty()));
        worded.gpus.iter_mut().for_each(|gpu| gpu.reason.clear());
        assert_eq!(worded, wordless, "{:?}", wish.policy);
    }
}

const POLICIES: [Policy; 5] = [
    Policy::Closest,
    Policy::Rail,
    Policy::Spread,
    Policy::Numa,
    Policy::All,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_map_without_words_is_the_same_map(parts in parts(), each in 0u8..4, closed in 0usize..6) {
        let topology = parts.topology();
        let nics_each = if each == 0 { NicsEach::Auto } else { NicsEach::Number(each) };
        let alone: Vec<GpuIndex> = topology.gpu_indices().collect();
        for policy in POLICIES {
            let request = Wish { policy, nics_per_task: nics_each, ..Wish::default() };
            differ_in_words_alone(&topology, &request, Some(&alone), &[closed % topology.nics.len()]);
        }
    }
}

#[test]
fn a_large_map_without_words_is_the_same_map() {
    let gpus = (0..180).map(|gpu| (gpu * 7 % 4) as u8).collect();
    let topology = Parts {
        gpus,
        nics: (0..60).map(|nic| (nic % 4, 400)).collect(),
    }
    .topology();
    // a small job, so that `spread` finds NICs that are idle
    let alone = [GpuIndex(0), GpuIndex(1), GpuIndex(50)];
    for (policy, each) in POLICIES
        .into_iter()
        .zip([4, 1, 2, 1, 1])
        .chain([(Policy::Closest, 1)])
    {
        let nics_each = NicsEach::Number(each);
        let request = Wish {
            policy,
            nics_per_task: nics_each,
            ..Wish::default()
        };
        differ_in_words_alone(&topology, &request, Some(&alone), &[0, 1, 17]);
    }
    let request = Wish {
        nics_per_task: NicsEach::Auto,
        ..Wish::default()
    };
    differ_in_words_alone(&topology, &request, None, &[5, 6]);
}
