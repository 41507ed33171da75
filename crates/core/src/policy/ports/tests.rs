//! Each piece of evidence alone, each that is too weak alone; a port that is left out changes
//! nothing else.

use super::*;
use crate::policy::Pattern;
use crate::topology::{
    Gpu, GpuVendor, HostBridge, Nic, NicIndex, NicKind, NumaNode, PciAddress, PciFunction,
    PciParent, Port, PortState, Provenance, SubnetPrefix,
};

mod broken;
mod left_out;
mod suspicion;

const FABRIC: SubnetPrefix = SubnetPrefix(0xfe80_0000_0000_0001);

/// One NUMA node: slot k is a root port with a NIC `mlx5_k` of the fabric's kind, and a GPU if
/// `gpus[k]`.
fn machine(gpus: &[bool]) -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    let cpus = (0..8).collect();
    topology.numa_nodes.push(NumaNode {
        os_index: 0,
        cpus,
        distances: Vec::new(),
        package: None,
    });
    for (slot, &gpu) in gpus.iter().enumerate() {
        let host = PciParent::Host(HostBridge {
            domain: slot as u32,
            bus: 0,
        });
        let at = |bus: u8| PciAddress {
            domain: slot as u32,
            bus,
            device: 0,
            function: 0,
        };
        topology.pci.insert(PciFunction {
            numa_node: Some(0),
            ..PciFunction::new(at(0), host)
        });
        let below = |bus: u8, device: u16| PciFunction {
            numa_node: Some(0),
            device: Some(device),
            ..PciFunction::new(at(bus), PciParent::Bridge(at(0)))
        };
        if gpu {
            topology.pci.insert(below(1, 0x2330));
            topology.gpus.push(Gpu::new(at(1), GpuVendor::Nvidia));
        }
        topology.pci.insert(below(2, 0x1021));
        topology.nics.push(Nic {
            address: Some(at(2)),
            ports: vec![fabric_port(1)],
            netdevs: vec![format!("ib{slot}")],
            ..Nic::new(format!("mlx5_{slot}").parse().unwrap(), NicKind::Verbs)
        });
    }
    topology
}

fn fabric_port(number: u8) -> Port {
    Port {
        subnet: Some(FABRIC),
        ..Port::new(
            number,
            PortState::Active,
            LinkLayer::InfiniBand,
            Some(400_000),
        )
    }
}

/// Four GPUs with a NIC each, and `mlx5_4` that is near none and looks like the others.
fn with_a_fifth_nic() -> Topology {
    machine(&[true, true, true, true, false])
}

fn port(topology: &mut Topology, nic: usize) -> &mut Port {
    &mut topology.nics[nic].ports[0]
}

fn function(topology: &mut Topology, nic: usize, change: impl Fn(&mut PciFunction)) {
    let address = topology.nics[nic].address.unwrap();
    let mut function = topology.pci.get(address).unwrap().clone();
    change(&mut function);
    topology.pci.insert(function);
}

fn default_route(topology: &mut Topology, nic: usize) {
    port(topology, nic).default_route = Some(format!("ib{nic}"));
}

/// Adds a virtual function of the fifth NIC.
fn add_virtual_function(topology: &mut Topology) {
    let mut nic = topology.nics[4].clone();
    let address = nic.address.unwrap();
    let own = PciAddress {
        function: 1,
        ..address
    };
    let mut function = topology.pci.get(address).unwrap().clone();
    (function.address, function.physfn, function.vfs) = (own, Some(address), None);
    topology.pci.insert(function);
    (nic.name, nic.address) = ("mlx5_5".parse().unwrap(), Some(own));
    topology.nics.push(nic);
}

fn names(rails: &[Rail]) -> Vec<&str> {
    rails.iter().map(|rail| rail.name.as_str()).collect()
}

fn judged(topology: &Topology) -> NodePlacement {
    judge(topology, &Selection::default(), &[])
}

fn patterns(words: &str) -> Vec<Pattern> {
    words
        .split_whitespace()
        .map(|word| Pattern::parse(word).unwrap())
        .collect()
}

const FOUR: [&str; 4] = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"];

type Change = fn(&mut Topology);

/// One way to disqualify a NIC.
type Evidence = fn(&mut Topology, &mut Selection, usize);

/// Each kind of evidence, and its message.
const EVIDENCE: [(&str, Evidence); 18] = [
    ("`exclude=mlx5_", |topology, selection, nic| {
        selection.exclude = patterns(&topology.nics[nic].name);
    }),
    ("`exclude=10.9.0.0/16`", |topology, selection, nic| {
        port(topology, nic).networks = vec!["10.9.1.0/24".parse().unwrap()];
        selection.exclude = patterns("10.9.0.0/16");
    }),
    (
        "`exclude=0xfe80000000000009`",
        |topology, selection, nic| {
            port(topology, nic).subnet = Some(SubnetPrefix(0xfe80_0000_0000_0009));
            selection.exclude = patterns("0xfe80000000000009");
        },
    ),
    (
        "storage NIC (model or topology file)",
        |topology, _, nic| {
            topology.nics[nic].role = Some(NicRole::Storage);
        },
    ),
    (
        "management NIC (model or topology file)",
        |topology, _, nic| {
            topology.nics[nic].role = Some(NicRole::Management);
        },
    ),
    ("its port is down", |topology, _, nic| {
        port(topology, nic).state = PortState::Down
    }),
    ("its port says rate 0", |topology, _, nic| {
        port(topology, nic).rate_mbps = Some(0)
    }),
    (
        "it speaks Ethernet, the node's fabric InfiniBand",
        |topology, _, nic| {
            port(topology, nic).link_layer = LinkLayer::Ethernet;
        },
    ),
    (
        "it runs at 200 Gb/s, the node's fabric at 400 Gb/s",
        |topology, _, nic| {
            port(topology, nic).rate_mbps = Some(200_000);
        },
    ),
    (
        "the node's default route leaves by it (`ib4`)",
        |topology, _, nic| default_route(topology, nic),
    ),
    (
        "it is on the subnet fe80:0000:0000:0002, the node's fabric on fe80:0000:0000:0001",
        |topology, _, nic| {
            port(topology, nic).subnet = Some(SubnetPrefix(0xfe80_0000_0000_0002));
        },
    ),
    (
        "8 virtual functions of it are given to others, who share its port",
        |topology, _, nic| {
            function(topology, nic, |function| function.vfs = Some(8));
        },
    ),
    (
        "a virtual function of it is given to others, who share its port",
        |topology, _, nic| {
            function(topology, nic, |function| function.vfs = Some(1));
        },
    ),
    (
        "the job's user may not open `/dev/infiniband/uverbs4`",
        |_, selection, nic| {
            let why = format!("the job's user may not open `/dev/infiniband/uverbs{nic}`");
            selection.unopenable = vec![(NicIndex(nic), why)];
        },
    ),
    (
        "it has no uverbs device, and others have",
        |topology, _, nic| {
            let others = topology.nics.iter_mut().enumerate();
            others.for_each(|(n, other)| other.uverbs = (n != nic).then(|| format!("uverbs{n}")));
        },
    ),
    (
        "no PCI function of it is known: a software device, or the file names none",
        |topology, _, nic| topology.nics[nic].address = None,
    ),
    (
        "it manages the NVSwitches and leads to no other node",
        |topology, _, nic| {
            function(topology, nic, |function| {
                function.subsystem = Some((0x15b3, 0x0087))
            });
        },
    ),
    (
        "its interface is in another network namespace: a container has it",
        |topology, _, nic| {
            port(topology, nic).other_namespace = true;
        },
    ),
];

#[test]
fn each_piece_of_evidence_alone_leaves_a_nic_out_and_says_why() {
    let plain = judged(&with_a_fifth_nic());
    assert_eq!(
        names(&plain.rails),
        ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4"]
    );
    for (said, evidence) in EVIDENCE {
        let (mut topology, mut selection) = (with_a_fifth_nic(), Selection::default());
        evidence(&mut topology, &mut selection, 4);
        let judged = judge(&topology, &selection, &[]);
        assert_eq!(names(&judged.rails), FOUR, "{said}");
        let [left_out] = judged.excluded.as_slice() else {
            panic!("{said}: {:?}", judged.excluded)
        };
        assert_eq!(left_out.name, "mlx5_4");
        assert!(
            left_out.why.starts_with(said),
            "`{}` instead of `{said}`",
            left_out.why
        );
        assert_eq!(judged.diagnostics, [], "{said}");
    }
}

#[test]
fn a_physical_function_stays_the_hosts_where_its_virtual_one_is_handed_out() {
    let mut topology = with_a_fifth_nic();
    add_virtual_function(&mut topology);
    function(&mut topology, 4, |function| function.vfs = Some(1));
    let judged = judged(&topology);
    assert_eq!(
        names(&judged.rails),
        ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_5"]
    );
    assert_eq!(
        judged.excluded[0].why,
        "its virtual function `mlx5_5` is handed out here, and both share its port"
    );
    // a virtual function that cannot be chosen does not cost the port
    port(&mut topology, 5).state = PortState::Down;
    assert!(names(&judge(&topology, &Selection::default(), &[]).rails).contains(&"mlx5_4"));
}

#[test]
fn a_virtual_function_whose_interface_a_container_has_does_not_cost_the_host_its_physical_one() {
    let mut topology = with_a_fifth_nic();
    add_virtual_function(&mut topology);
    function(&mut topology, 4, |function| function.vfs = Some(1));
    port(&mut topology, 5).other_namespace = true;
    let judged = judged(&topology);
    assert_eq!(
        names(&judged.rails),
        ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4"]
    );
    // in a container all of the host's are away, and programs can use them there
    for nic in 0..6 {
        port(&mut topology, nic).other_namespace = true;
    }
    assert!(names(&judge(&topology, &Selection::default(), &[]).rails).contains(&"mlx5_5"));
}

#[test]
fn roce_ports_differ_by_their_ipv4_networks() {
    let mut topology = with_a_fifth_nic();
    for nic in 0..5 {
        port(&mut topology, nic).link_layer = LinkLayer::Ethernet;
        let network = if nic == 4 {
            "192.168.0.0/24"
        } else {
            "10.1.0.0/16"
        };
        port(&mut topology, nic).networks = vec![network.parse().unwrap()];
    }
    let judged = judged(&topology);
    assert_eq!(names(&judged.rails), FOUR);
    assert_eq!(
        judged.excluded[0].why,
        "it is on the subnet 192.168.0.0/24, the node's fabric on 10.1.0.0/16"
    );
}

#[test]
fn one_weak_piece_does_not_take_the_nearest_nic_from_a_gpu_and_the_report_says_so() {
    let weak: [(&str, Change); 3] = [
        (
            "the node's default route leaves by it (`ib2`)",
            |topology| default_route(topology, 2),
        ),
        (
            "it is on the subnet fe80:0000:0000:0002, the node's fabric on fe80:0000:0000:0001",
            |topology| port(topology, 2).subnet = Some(SubnetPrefix(0xfe80_0000_0000_0002)),
        ),
        (
            "4 virtual functions of it are given to others, who share its port",
            |topology| {
                function(topology, 2, |function| function.vfs = Some(4));
            },
        ),
    ];
    for (said, evidence) in weak {
        let mut topology = with_a_fifth_nic();
        evidence(&mut topology);
        let found = judged(&topology);
        assert_eq!(found.rails.len(), 5, "{said}");
        assert_eq!(
            found
                .diagnostics
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            [format!(
                "`mlx5_2:1`: {said}; but no other NIC is as near to GPU 2: it is used, and `exclude=mlx5_2` would leave it out"
            )]
        );
        // with a second piece of evidence it goes
        let mut both = topology.clone();
        function(&mut both, 2, |function| function.device = Some(0xa2dc));
        let left_out = judged(&both);
        assert_eq!(
            names(&left_out.rails),
            ["mlx5_0", "mlx5_1", "mlx5_3", "mlx5_4"],
            "{said}"
        );
        let why = format!("{said}, and it is another device (a2dc) than the fabric's (1021)");
        assert_eq!(left_out.excluded[0].why, why);
        // but not on a known machine
        topology.nics[2].role = Some(NicRole::Compute);
        assert_eq!(judged(&topology).rails.len(), 5, "{said}");
    }
    let mut two_pieces = with_a_fifth_nic();
    default_route(&mut two_pieces, 2);
    port(&mut two_pieces, 2).subnet = Some(SubnetPrefix(0xfe80_0000_0000_0002));
    let judged = judged(&two_pieces);
    assert_eq!(
        judged.excluded[0].why,
        "the node's default route leaves by it (`ib2`), and it is on the subnet fe80:0000:0000:0002, the node's \
         fabric on fe80:0000:0000:0001"
    );
}

#[test]
fn evidence_against_every_nic_is_evidence_against_none() {
    let mut one = machine(&[true]);
    default_route(&mut one, 0);
    let judged_one = judged(&one);
    assert_eq!(names(&judged_one.rails), ["mlx5_0"]);
    assert!(
        judged_one.diagnostics[0]
            .to_string()
            .contains("but there is no better NIC")
    );
    let mut all = machine(&[true, true, false, false]);
    (0..4).for_each(|nic| function(&mut all, nic, |function| function.vfs = Some(8)));
    assert_eq!(judged(&all).rails.len(), 4);
}

#[test]
fn subnets_mean_something_only_where_one_has_most_ports() {
    let subnets = |numbers: &[u8]| {
        let mut topology = machine(&vec![false; numbers.len()]);
        for (nic, number) in numbers.iter().enumerate() {
            port(&mut topology, nic).subnet =
                Some(SubnetPrefix(0xfe80_0000_0000_0000 + u64::from(*number)));
        }
        let judged = judged(&topology);
        (
            judged.rails.len(),
            judged
                .diagnostics
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
        )
    };
    // each rail a subnet of its own; two planes; nothing unusual
    for numbers in [&[1u8, 2, 3, 4][..], &[1, 1, 2, 2], &[1, 1, 1, 1], &[1]] {
        assert_eq!(subnets(numbers), (numbers.len(), vec![]), "{numbers:?}");
    }
    assert_eq!(subnets(&[1, 1, 2]), (2, vec![]));
    let undecided = "`mlx5_1:1`: on another subnet than mlx5_0:1, and nothing says which of the two is the fabric: \
                     both are used";
    assert_eq!(subnets(&[1, 2]), (2, vec![undecided.to_string()]));
}

#[test]
fn what_the_admin_includes_is_used_whatever_speaks_against_it() {
    for (said, evidence) in EVIDENCE {
        let (mut topology, mut selection) = (with_a_fifth_nic(), Selection::default());
        evidence(&mut topology, &mut selection, 4);
        selection.include = patterns("mlx5_*");
        // except ports that cannot work or that the admin also excludes
        let never = [
            "exclude=",
            "port is down",
            "rate 0",
            "may not open",
            "no uverbs",
            "no PCI function",
        ];
        let expected = if never.iter().any(|never| said.contains(never)) {
            4
        } else {
            5
        };
        assert_eq!(
            judge(&topology, &selection, &[]).rails.len(),
            expected,
            "{said}"
        );
    }
}

#[test]
fn a_nic_that_fails_is_a_broken_rail_and_keeps_its_reason() {
    let mut topology = with_a_fifth_nic();
    port(&mut topology, 1).state = PortState::Down;
    port(&mut topology, 1).rate_mbps = Some(10_000);
    port(&mut topology, 2).rate_mbps = Some(0);
    let selection = Selection {
        unopenable: vec![(NicIndex(3), "closed".to_string())],
        ..Selection::default()
    };
    let found = judge(&topology, &selection, &[]);
    assert_eq!(names(&found.rails), ["mlx5_0", "mlx5_4"]);
    assert_eq!(names(&found.broken), ["mlx5_1", "mlx5_2", "mlx5_3"]);
    assert!(
        found
            .broken
            .iter()
            .all(|rail| rail.rate_mbps == Some(400_000))
    );
    let reasons: Vec<&str> = found
        .excluded
        .iter()
        .map(|excluded| excluded.why.as_str())
        .collect();
    assert_eq!(
        reasons,
        ["its port is down", "its port says rate 0", "closed"]
    );
}

#[test]
fn a_port_that_was_never_a_rail_does_not_break_one() {
    let down = |change: fn(&mut Topology)| {
        let mut topology = machine(&[true, true, true, false]);
        topology.nics[3].ports[0].state = PortState::Down;
        change(&mut topology);
        let judged = judged(&topology);
        (judged.rails.len(), judged.broken.len())
    };
    assert_eq!(
        down(|_| {}),
        (3, 0),
        "farther from every GPU than the rails are"
    );
    let nearer = |topology: &mut Topology| {
        let gpu = topology.gpus[0].address;
        topology.stated_paths.insert(
            (gpu, topology.nics[3].address.unwrap()),
            crate::topology::PathType::Pix,
        );
    };
    let as_near: [(&str, usize, Change); 5] = [
        ("like the rails", 1, |_| {}),
        ("another device", 0, |topology| {
            function(topology, 3, |function| function.device = Some(0x1017))
        }),
        ("another link layer", 0, |topology| {
            port(topology, 3).link_layer = LinkLayer::Ethernet
        }),
        ("a storage NIC", 0, |topology| {
            topology.nics[3].role = Some(NicRole::Storage)
        }),
        ("a second port", 0, |topology| port(topology, 3).number = 2),
    ];
    for (what, expected, change) in as_near {
        let mut topology = machine(&[true, true, true, false]);
        port(&mut topology, 3).state = PortState::Down;
        nearer(&mut topology);
        change(&mut topology);
        assert_eq!(judged(&topology).broken.len(), expected, "{what}");
    }
    // with every port down there is no rail, so none counts as broken
    let mut topology = machine(&[true, true]);
    (0..2).for_each(|nic| port(&mut topology, nic).state = PortState::Down);
    assert_eq!(judged(&topology).broken, []);
}

#[test]
fn more_ports_than_ucx_can_use_are_cut_and_said() {
    let judged = judged(&machine(&[false; 70]));
    assert_eq!((judged.rails.len(), judged.excluded.len()), (64, 6));
    assert_eq!(
        judged.diagnostics[0].finding,
        "70 usable ports: only the first 64 are used"
    );
}
