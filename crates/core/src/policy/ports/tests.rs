//! Each piece of evidence alone, each that is too weak alone; a port that is left out changes
//! nothing else.

use super::*;
use crate::policy::tests::{closed, function as change, numa_node, patterns, says, strings};
use crate::topology::*;
use crate::wish::Wish;

mod broken;
mod left_out;
mod suspicion;

const FABRIC: SubnetPrefix = SubnetPrefix(0xfe80_0000_0000_0001);

/// One NUMA node: slot k is a root port with a NIC `mlx5_k` of the fabric's kind, and a GPU if
/// `gpus[k]`.
fn machine(gpus: &[bool]) -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    topology.numa_nodes.push(numa_node(0, 0..8, &[]));
    for (domain, &gpu) in (0..).zip(gpus) {
        let at = |bus: u8| format!("{domain:04x}:{bus:02x}:00.0").parse().unwrap();
        let mut add = |bus: u8, parent, device| {
            topology.pci.insert(PciFunction {
                numa_node: Some(0),
                device,
                ..PciFunction::new(at(bus), parent)
            })
        };
        add(0, PciParent::Host(HostBridge { domain, bus: 0 }), None);
        add(2, PciParent::Bridge(at(0)), Some(0x1021));
        if gpu {
            add(1, PciParent::Bridge(at(0)), Some(0x2330));
            topology.gpus.push(Gpu::new(at(1), GpuVendor::Nvidia));
        }
        let (layer, rate) = (LinkLayer::InfiniBand, Some(400_000));
        let port = Port {
            subnet: Some(FABRIC),
            ..Port::new(1, PortState::Active, layer, rate)
        };
        topology.nics.push(Nic {
            address: Some(at(2)),
            ports: vec![port],
            netdevs: vec![format!("ib{domain}")],
            ..Nic::new(format!("mlx5_{domain}").parse().unwrap(), NicKind::Verbs)
        });
    }
    topology
}

/// Four GPUs with a NIC each, and `mlx5_4` that is near none and looks like the others.
fn with_a_fifth_nic() -> Topology {
    machine(&[true, true, true, true, false])
}

fn port(topology: &mut Topology, nic: usize) -> &mut Port {
    &mut topology.nics[nic].ports[0]
}

fn function(topology: &mut Topology, nic: usize, how: impl Fn(&mut PciFunction)) {
    let address = topology.nics[nic].address.unwrap();
    change(topology, address, how);
}

fn virtual_functions(topology: &mut Topology, nic: usize, number: Option<u32>) {
    function(topology, nic, |function| function.vfs = number);
}

fn default_route(topology: &mut Topology, nic: usize) {
    port(topology, nic).default_route = Some(format!("ib{nic}"));
}

fn other_subnet(topology: &mut Topology, nic: usize) {
    port(topology, nic).subnet = Some(SubnetPrefix(FABRIC.0 + 1));
}

/// A fifth NIC of which a virtual function is handed out as a sixth.
fn with_a_virtual_function() -> Topology {
    let mut topology = with_a_fifth_nic();
    let mut nic = topology.nics[4].clone();
    let address = nic.address.unwrap();
    let mut own = address;
    own.function = 1;
    change(&mut topology, address, |function| {
        (function.address, function.physfn, function.vfs) = (own, Some(address), None);
    });
    (nic.name, nic.address) = ("mlx5_5".parse().unwrap(), Some(own));
    topology.nics.push(nic);
    virtual_functions(&mut topology, 4, Some(1));
    topology
}

/// `mlx5_` of each rail.
fn names(rails: &[Rail]) -> Vec<&str> {
    rails.iter().map(|rail| rail.name.as_str()).collect()
}

fn judged(topology: &Topology) -> NodePlacement {
    judge(topology, &Selection::default(), &[])
}

fn included() -> Selection {
    Selection {
        include: patterns("mlx5_*"),
        ..Selection::default()
    }
}

const FIVE: [&str; 5] = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4"];

/// The message of each kind of evidence, and whether a port that the admin includes goes too: one
/// that cannot work or that the admin also excludes.
const EVIDENCE: [(&str, bool); 21] = [
    ("`exclude=mlx5_", true),
    ("`exclude=10.9.0.0/16`", true),
    ("`exclude=0xfe80000000000009`", true),
    ("storage NIC", false),
    ("management NIC", false),
    ("its port is down", true),
    ("its port says rate 0", true),
    ("it speaks Ethernet, ", false),
    ("it runs at 200 Gb/s, ", false),
    (ROUTE, false),
    (SUBNET, false),
    ("8 virtual functions of it are ", false),
    ("a virtual function of it ", false),
    ("closed", true),
    ("it has no uverbs device, ", true),
    ("no PCI function of it ", true),
    ("it manages the NVSwitches", false),
    ("its interface is in another ", false),
    ("programs use EFA through", true),
    ("programs use Slingshot through", true),
    ("it is no RDMA device", true),
];

/// Disqualifies a NIC by the evidence with this message.
fn disqualify(said: &str, topology: &mut Topology, selection: &mut Selection, at: usize) {
    let nic = &mut topology.nics[at];
    match said {
        "`exclude=mlx5_" => selection.exclude = patterns(&nic.name),
        "`exclude=10.9.0.0/16`" => {
            nic.ports[0].networks = vec!["10.9.1.0/24".parse().unwrap()];
            selection.exclude = patterns("10.9.0.0/16");
        }
        "`exclude=0xfe80000000000009`" => {
            nic.ports[0].subnet = Some(SubnetPrefix(0xfe80_0000_0000_0009));
            selection.exclude = patterns("0xfe80000000000009");
        }
        "storage NIC" => nic.role = Some(NicRole::Storage),
        "management NIC" => nic.role = Some(NicRole::Management),
        "its port is down" => nic.ports[0].state = PortState::Down,
        "its port says rate 0" => nic.ports[0].rate_mbps = Some(0),
        "it speaks Ethernet, " => nic.ports[0].link_layer = LinkLayer::Ethernet,
        "it runs at 200 Gb/s, " => nic.ports[0].rate_mbps = Some(200_000),
        ROUTE => default_route(topology, at),
        SUBNET => other_subnet(topology, at),
        "8 virtual functions of it are " => virtual_functions(topology, at, Some(8)),
        "a virtual function of it " => virtual_functions(topology, at, Some(1)),
        "closed" => *selection = closed(Wish::default(), &[at]).admin.selection,
        "it has no uverbs device, " => {
            let others = topology.nics.iter_mut().enumerate();
            others.for_each(|(n, other)| other.uverbs = (n != at).then(|| format!("uverbs{n}")));
        }
        "no PCI function of it " => nic.address = None,
        "it manages the NVSwitches" => {
            function(topology, at, |of| of.subsystem = Some((0x15b3, 0x0087)))
        }
        "its interface is in another " => nic.ports[0].other_namespace = true,
        "programs use EFA through" => nic.kind = NicKind::Efa,
        "programs use Slingshot through" => nic.kind = NicKind::Slingshot,
        "it is no RDMA device" => nic.kind = NicKind::Ethernet,
        _ => panic!("`{said}`"),
    }
}

const ROUTE: &str = "the node's default route leaves";
const SUBNET: &str = "it is on the subnet ";

#[test]
fn each_piece_of_evidence_alone_leaves_a_nic_out_unless_the_admin_includes_it_and_says_why() {
    assert_eq!(names(&judged(&with_a_fifth_nic()).rails), FIVE);
    for (said, always) in EVIDENCE {
        let (mut topology, mut selection) = (with_a_fifth_nic(), Selection::default());
        disqualify(said, &mut topology, &mut selection, 4);
        let judged = judge(&topology, &selection, &[]);
        assert_eq!(names(&judged.rails), FIVE[..4], "{said}");
        let left_out = &judged.excluded[0];
        assert_eq!((judged.excluded.len(), &*left_out.name), (1, "mlx5_4"));
        says(&left_out.why, [said, "", ""]);
        assert_eq!(judged.diagnostics, [], "{said}");
        selection.include = patterns("mlx5_*");
        let rails = judge(&topology, &selection, &[]).rails;
        assert_eq!(rails.len(), if always { 4 } else { 5 }, "{said}");
    }
}

#[test]
fn a_physical_function_stays_the_hosts_where_its_virtual_one_is_handed_out_and_works() {
    let topology = with_a_virtual_function();
    let here = judged(&topology);
    assert_eq!(names(&here.rails)[4..], ["mlx5_5"]);
    assert!(here.excluded[0].why.contains("`mlx5_5` is handed out here"));
    // a virtual function that cannot be chosen, or whose interface a container has, does not cost
    // the port
    let mut down = topology.clone();
    port(&mut down, 5).state = PortState::Down;
    assert!(names(&judged(&down).rails).contains(&"mlx5_4"));
    let mut away = topology;
    port(&mut away, 5).other_namespace = true;
    assert_eq!(names(&judged(&away).rails), FIVE);
    // in a container all of the host's are away, and programs can use them there
    for nic in 0..6 {
        port(&mut away, nic).other_namespace = true;
    }
    assert!(names(&judged(&away).rails).contains(&"mlx5_5"));
}

#[test]
fn roce_ports_differ_by_their_ipv4_networks() {
    let mut topology = with_a_fifth_nic();
    for nic in 0..5 {
        let port = port(&mut topology, nic);
        port.link_layer = LinkLayer::Ethernet;
        port.networks = vec!["10.1.0.0/16".parse().unwrap()];
    }
    port(&mut topology, 4).networks = vec!["192.168.0.0/24".parse().unwrap()];
    let judged = judged(&topology);
    assert_eq!(names(&judged.rails), FIVE[..4]);
    let parts = ["", "subnet 192.168.0.0/24, ", " on 10.1.0.0/16"];
    says(&judged.excluded[0].why, parts);
}

#[test]
fn one_weak_piece_does_not_take_the_nearest_nic_from_a_gpu_and_the_report_says_so() {
    for said in [ROUTE, SUBNET, "8 virtual functions of it are "] {
        let mut topology = with_a_fifth_nic();
        disqualify(said, &mut topology, &mut Selection::default(), 2);
        let found = judged(&topology);
        let counts = (found.rails.len(), found.diagnostics.len());
        assert_eq!(counts, (5, 1), "{said}");
        let told = found.diagnostics[0].to_string();
        let start = format!("`mlx5_2:1`: {said}");
        says(&told, [&start, " as near to GPU 2: it is", ""]);
        assert!(told.contains("`exclude=mlx5_2`"), "{told}");
        // with a second piece of evidence it goes
        let mut both = topology.clone();
        function(&mut both, 2, |function| function.device = Some(0xa2dc));
        let left_out = judged(&both);
        let others = [FIVE[0], FIVE[1], FIVE[3], FIVE[4]];
        assert_eq!(names(&left_out.rails), others, "{said}");
        says(&left_out.excluded[0].why, [said, "device (a2dc) than", ""]);
        // but not on a known machine
        topology.nics[2].role = Some(NicRole::Compute);
        assert_eq!(judged(&topology).rails.len(), 5, "{said}");
    }
    let mut two_pieces = with_a_fifth_nic();
    default_route(&mut two_pieces, 2);
    other_subnet(&mut two_pieces, 2);
    let why = &judged(&two_pieces).excluded[0].why;
    let is_told = why.contains(ROUTE) && why.contains(&format!(", and {SUBNET}"));
    assert!(is_told, "{why}");
}

#[test]
fn evidence_against_every_nic_is_evidence_against_none() {
    let mut one = machine(&[true]);
    default_route(&mut one, 0);
    let one = judged(&one);
    assert_eq!(names(&one.rails), ["mlx5_0"]);
    let why = &one.diagnostics[0].finding;
    says(why, ["", "there is no better NIC", ""]);
    let mut all = machine(&[true, true, false, false]);
    (0..4).for_each(|nic| virtual_functions(&mut all, nic, Some(8)));
    assert_eq!(judged(&all).rails.len(), 4);
}

#[test]
fn subnets_mean_something_only_where_one_has_most_ports() {
    for (numbers, rails, said) in [
        // each rail a subnet of its own; two planes; nothing unusual
        (&[1, 2, 3, 4][..], 4, 0),
        (&[1, 1, 2, 2], 4, 0),
        (&[1, 1, 1, 1], 4, 0),
        (&[1], 1, 0),
        (&[1, 1, 2], 2, 0),
        // nothing says which of the two is the fabric
        (&[1, 2], 2, 1),
    ] {
        let mut topology = machine(&vec![false; numbers.len()]);
        for (nic, number) in numbers.iter().enumerate() {
            port(&mut topology, nic).subnet = Some(SubnetPrefix(FABRIC.0 + number));
        }
        let judged = judged(&topology);
        let told = strings(&judged.diagnostics);
        let counts = (judged.rails.len(), told.len());
        assert_eq!(counts, (rails, said), "{numbers:?}");
        let both = "`mlx5_1:1`: on another subnet than mlx5_0:1, ";
        assert!(told.iter().all(|told| told.starts_with(both)), "{told:?}");
    }
}

#[test]
fn a_nic_that_fails_is_a_broken_rail_and_keeps_its_reason() {
    let mut topology = with_a_fifth_nic();
    port(&mut topology, 1).state = PortState::Down;
    port(&mut topology, 1).rate_mbps = Some(10_000);
    port(&mut topology, 2).rate_mbps = Some(0);
    let selection = closed(Wish::default(), &[3]).admin.selection;
    let found = judge(&topology, &selection, &[]);
    assert_eq!(names(&found.rails), ["mlx5_0", "mlx5_4"]);
    assert_eq!(names(&found.broken), ["mlx5_1", "mlx5_2", "mlx5_3"]);
    let rates = found.broken.iter().map(|rail| rail.rate_mbps);
    assert_eq!(rates.collect::<Vec<_>>(), [Some(400_000); 3]);
    let reasons: Vec<&str> = found.excluded.iter().map(|out| out.why.as_str()).collect();
    let expected = "its port is down; its port says rate 0; closed";
    assert_eq!(reasons.join("; "), expected);
}

#[test]
fn a_port_that_was_never_a_rail_does_not_break_one() {
    let cases =
        "farther|like the rails|another device|it speaks Ethernet, |storage NIC|second port";
    for case in cases.split('|') {
        let mut topology = machine(&[true, true, true, false]);
        port(&mut topology, 3).state = PortState::Down;
        let way = (topology.gpus[0].address, topology.nics[3].address.unwrap());
        topology.stated_paths.insert(way, PathType::Pix);
        match case {
            "farther" => topology.stated_paths.clear(),
            "like the rails" => {}
            "another device" => function(&mut topology, 3, |of| of.device = Some(0x1017)),
            "second port" => port(&mut topology, 3).number = 2,
            said => disqualify(said, &mut topology, &mut Selection::default(), 3),
        }
        let found = judged(&topology);
        let expected = usize::from(case == "like the rails");
        let counts = (found.rails.len(), found.broken.len());
        assert_eq!(counts, (3, expected), "{case}");
    }
    // with every port down there is no rail, so none counts as broken
    let mut topology = machine(&[true, true]);
    (0..2).for_each(|nic| port(&mut topology, nic).state = PortState::Down);
    assert_eq!(judged(&topology).broken, []);
}
