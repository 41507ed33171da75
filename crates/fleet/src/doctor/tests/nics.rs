//! Cases of the node and its NICs.

use super::cases::{Case, case};
use super::world::{World, model, with_function, with_nic};
use crate::audit::report::Level::{Fail, Note, Ok, Warn};
use crate::doctor::facts::HostFacts;
use nic_placement_core::topology::{
    Nic, NicKind, PciFunction, PciParent, Port, PortState, Topology,
};

/// That machine after a change of one NIC.
fn changed(name: &str, nic: &str, change: impl FnOnce(&mut Nic)) -> World {
    let mut topology = model(name);
    with_nic(&mut topology, nic, change);
    World::of(topology)
}

fn down(nic: &mut Nic) {
    nic.ports[0].state = PortState::Down;
    nic.ports[0].phys_state = Some("Polling".into());
}

/// Without GPUs, nor what looks like one.
fn no_gpu(topology: &mut Topology) {
    for gpu in std::mem::take(&mut topology.gpus) {
        with_function(topology, gpu.address, |function| {
            function.class = Some(0x020000)
        });
    }
}

pub(super) fn node() -> Vec<Case> {
    let without = |change: fn(&mut Topology)| {
        let mut topology = model("dgx-h100");
        change(&mut topology);
        World::of(topology)
    };
    let dgx =
        || World::of_model("dgx-h100").file("sys/devices/virtual/dmi/id/product_name", "DGXH100");
    let lacks = |change: fn(&mut Topology)| {
        without(change).file("sys/devices/virtual/dmi/id/product_name", "DGXH100")
    };
    vec![
        case(
            "node",
            "as it should be",
            World::of_model("dgx-h100"),
            Ok,
            "8 of 14 NICs",
        ),
        case(
            "node",
            "left to libfabric",
            World::of_model("aws-p5"),
            Ok,
            "among which libfabric chooses",
        ),
        case("node", "no GPU", without(no_gpu), Note, "nothing is set"),
        case(
            "node",
            "a workstation",
            without(|node| node.nics.clear()),
            Note,
            "no RDMA device",
        ),
        case(
            "node",
            "every port down",
            without(|node| {
                node.nics
                    .iter_mut()
                    .for_each(|nic| nic.ports[0].state = PortState::Down)
            }),
            Warn,
            "0 of 14",
        ),
        case("machine", "a DGX", dgx(), Ok, "`dgx-h100`"),
        case(
            "machine",
            "nobody knows it",
            World::of_model("levante"),
            None,
            "",
        ),
        case(
            "machine",
            "a NIC fell off the bus",
            lacks(|node| node.nics.retain(|nic| nic.name.as_str() != "mlx5_4"))
                .patched(|facts| facts.machine.as_mut().unwrap().missing[0].1 = false),
            Fail,
            "mlx5_4",
        ),
        case(
            "machine",
            "a GPU without a driver",
            lacks(|node| {
                node.gpus.remove(3);
            }),
            Warn,
            "on the bus, and no driver shows it",
        ),
        case(
            "machine",
            "a guest's part",
            dgx().patched(|facts| {
                let machine = facts.machine.as_mut().unwrap();
                machine.is_a_clouds = true;
                let missing = crate::doctor::shortfall::Missing {
                    what: "GPU".into(),
                    address: "0000:1b:00.0".parse().unwrap(),
                };
                machine.missing.push((missing, false));
            }),
            Warn,
            "only a part of it",
        ),
        case("odd", "nothing", World::of_model("dgx-h100"), None, ""),
        case(
            "odd",
            "a name that no variable holds",
            World::of_model("dgx-h100").link("sys/class/infiniband/mlx5 0", "../../devices/x"),
            Note,
            "no library's variable could hold",
        ),
    ]
}

/// Three more cards of a kind that is none of the fabric's, with these states.
fn more_cards(states: [PortState; 3]) -> World {
    let mut topology = model("dgx-h100");
    let parent = PciParent::Host("pci0000:28".parse().unwrap());
    for (number, state) in (0..).zip(states) {
        let address = format!("0000:28:{:02x}.0", 0x10 + number).parse().unwrap();
        let function = PciFunction {
            device: Some(0x101d),
            vendor: Some(0x15b3),
            numa_node: Some(0),
            ..PciFunction::new(address, parent)
        };
        topology.pci.insert(function);
        let mut nic = Nic::new(format!("more{number}").parse().unwrap(), NicKind::Verbs);
        nic.address = Some(address);
        let layer = nic_placement_core::topology::LinkLayer::InfiniBand;
        nic.ports.push(Port::new(1, state, layer, Some(200_000)));
        topology.nics.push(nic);
    }
    topology.sort();
    World::of(topology)
}

pub(super) fn ports() -> Vec<Case> {
    use PortState::{Active, Down};
    let half = || {
        let mut topology = model("dgx-h100");
        ["mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5"]
            .iter()
            .for_each(|name| with_nic(&mut topology, name, down));
        World::of(topology)
    };
    let disabled = |nic: &mut Nic| {
        down(nic);
        nic.ports[0].phys_state = Some("Disabled".into());
    };
    let no_rate = |nic: &mut Nic| nic.ports[0].rate_mbps = Some(0);
    let dgx = || World::of_model("dgx-h100");
    let no_uverbs = changed("dgx-h100", "mlx5_9", |nic| nic.uverbs = None);
    let mut none = model("dgx-h100");
    none.nics.iter_mut().for_each(|nic| nic.uverbs = None);
    let none = World::of(none);
    let mads = |count: usize| {
        (0..count).fold(dgx(), |world, number| {
            world.file(
                &format!("sys/class/infiniband_mad/umad{number}/ibdev"),
                "mlx5_0",
            )
        })
    };
    vec![
        case("nic-broken", "all work", dgx(), Ok, "ports that work: 8"),
        case(
            "nic-broken",
            "one down",
            changed("dgx-h100", "mlx5_4", down),
            Fail,
            "it is down, Polling",
        ),
        case(
            "nic-broken",
            "rate 0",
            changed("dgx-h100", "mlx5_4", no_rate),
            Fail,
            "it is active at rate 0, ",
        ),
        case(
            "nic-broken",
            "switched off",
            changed("dgx-h100", "mlx5_4", disabled),
            Warn,
            "switched it off",
        ),
        case(
            "nic-broken",
            "no subnet manager",
            changed("dgx-h100", "mlx5_4", |nic| {
                nic.ports[0].state = PortState::Init
            }),
            Warn,
            "no subnet manager",
        ),
        case(
            "nic-broken",
            "half of them down",
            half(),
            Warn,
            "meant to be",
        ),
        case("nic-slower", "one rate", dgx(), None, ""),
        case(
            "nic-slower",
            "half a rate",
            changed("levante", "mlx5_0", |nic| {
                nic.ports[0].rate_mbps = Some(100_000)
            }),
            Warn,
            "others of its device at more",
        ),
        case(
            "ports-per-card",
            "all down alike",
            more_cards([Down; 3]),
            Ok,
            "",
        ),
        case(
            "ports-per-card",
            "one up, two down",
            more_cards([Active, Down, Down]),
            Ok,
            "",
        ),
        case(
            "ports-per-card",
            "one down, two up",
            more_cards([Active, Down, Active]),
            Warn,
            "more1",
        ),
        case(
            "ports-per-card",
            "what another check tells",
            changed("dgx-h100", "mlx5_4", down),
            Ok,
            "",
        ),
        case("device-node", "all there", dgx(), Ok, "14 RDMA devices"),
        case(
            "device-node",
            "one without",
            no_uverbs,
            Fail,
            "`mlx5_9` has no device node",
        ),
        case(
            "device-node",
            "nothing told",
            World::described(model("dgx-h100")),
            None,
            "",
        ),
        case(
            "device-node",
            "no umad for a port",
            mads(1),
            Warn,
            "management nodes",
        ),
        case(
            "device-node",
            "no ib_uverbs",
            none.patched(|facts| facts.is_live = true),
            Warn,
            "not loaded",
        ),
    ]
}

/// All interfaces but so many hear a switch.
fn hear(facts: &mut HostFacts, but: usize) {
    let all = facts.nics.values().flat_map(|nic| &nic.interfaces);
    facts.heard = Some(
        all.skip(but)
            .map(|interface| interface.name.clone())
            .collect(),
    );
}

/// A node of RoCE, or EFA, whose interfaces say this; the first of them another thing.
fn interfaces(name: &str, others: [&str; 2], first: [&str; 2]) -> World {
    let mut topology = model(name);
    for (number, nic) in topology.nics.iter_mut().enumerate() {
        if nic.netdevs.is_empty() {
            nic.netdevs.push(format!("x{number}"));
        }
    }
    let all: Vec<(String, nic_placement_core::topology::PciAddress)> = topology
        .nics
        .iter()
        .filter_map(|nic| Some((nic.netdevs[0].clone(), nic.address?)))
        .collect();
    let mut world = World::of(topology);
    for (number, (interface, address)) in all.iter().enumerate() {
        let [state, mtu] = if number == 0 { first } else { others };
        let place = format!("{}/net/{interface}", world.function(*address));
        let target = format!("../../{}", place.strip_prefix("sys/").unwrap());
        world = world.link(&format!("sys/class/net/{interface}"), &target);
        world = world
            .file(&format!("{place}/operstate"), state)
            .file(&format!("{place}/mtu"), mtu);
        if state == "unknown" {
            world = world.file(&format!("{place}/carrier"), "0");
        }
    }
    world
}

pub(super) fn roce() -> Vec<Case> {
    let gke = |others, first| interfaces("gke-a3-ultra", others, first);
    let gids = |others: Option<&str>, first: Option<&str>| {
        let mut topology = model("gke-a3-ultra");
        for (number, nic) in topology.nics.iter_mut().enumerate() {
            nic.ports[0].gid_type = if number == 0 { first } else { others }.map(str::to_string);
        }
        World::of(topology)
    };
    let (v1, v2) = (Some("IB/RoCE v1"), Some("RoCE v2"));
    vec![
        case(
            "port-interface",
            "all up",
            gke(["up", "9000"], ["up", "9000"]),
            Ok,
            "8 active ports",
        ),
        case(
            "port-interface",
            "one down",
            gke(["up", "9000"], ["down", "9000"]),
            Fail,
            "operstate down",
        ),
        case(
            "port-interface",
            "all down",
            gke(["down", "9000"], ["down", "9000"]),
            Warn,
            "meant to be down",
        ),
        case(
            "port-interface",
            "a NIC that no job uses",
            interfaces("dgx-h100", ["up", "9000"], ["up", "9000"]).file(
                "sys/devices/pci0000:81/0000:81:01.0/0000:82:00.0/net/ens6f0/operstate",
                "down",
            ),
            Warn,
            "no job uses it",
        ),
        case(
            "port-interface",
            "no carrier",
            gke(["up", "1"], ["unknown", "1"]),
            Fail,
            "carrier 0",
        ),
        case(
            "port-interface",
            "IPoIB is switched off",
            interfaces("azure-nd96isr-h100-v5", ["down", "2044"], ["down", "2044"]),
            None,
            "",
        ),
        case(
            "port-interface",
            "in a container",
            World::of_model("gke-a3-ultra"),
            None,
            "",
        ),
        case(
            "efa-carrier",
            "up",
            interfaces("aws-p5", ["up", "1500"], ["up", "1500"]),
            Ok,
            "32 active",
        ),
        case(
            "efa-carrier",
            "one down",
            interfaces("aws-p5", ["up", "1500"], ["down", "1500"]),
            Fail,
            "down",
        ),
        case(
            "efa-carrier",
            "no interface",
            World::of_model("aws-p5"),
            None,
            "",
        ),
        case("roce-gid", "version 2", gids(v2, v2), Ok, "8 ports"),
        case(
            "roce-gid",
            "one of version 1",
            gids(v2, v1),
            Warn,
            "no router passes",
        ),
        case(
            "roce-gid",
            "one without",
            gids(v2, None),
            Warn,
            "other ports have",
        ),
        case(
            "roce-gid",
            "a container tells none",
            gids(None, None),
            Note,
            "container",
        ),
        case(
            "roce-gid",
            "InfiniBand",
            World::of_model("dgx-h100"),
            None,
            "",
        ),
        case(
            "lldp",
            "all hear",
            gke(["up", "9000"], ["up", "9000"]).patched(|of| hear(of, 0)),
            Ok,
            "8 ports hear",
        ),
        case(
            "lldp",
            "one does not",
            gke(["up", "9000"], ["up", "9000"]).patched(|of| hear(of, 1)),
            Note,
            "hears no",
        ),
        case(
            "lldp",
            "one without a link",
            gke(["up", "9000"], ["down", "9000"]).patched(|of| hear(of, 1)),
            Ok,
            "7",
        ),
        case(
            "lldp",
            "none hears",
            gke(["up", "9000"], ["up", "9000"]).patched(|of| hear(of, 99)),
            None,
            "",
        ),
        case(
            "lldp",
            "no agent",
            gke(["up", "9000"], ["up", "9000"]),
            None,
            "",
        ),
        case(
            "roce-mtu",
            "large",
            gke(["up", "9000"], ["up", "9000"]),
            Ok,
            "9000",
        ),
        case(
            "roce-mtu",
            "small alike",
            gke(["up", "1500"], ["up", "1500"]),
            Note,
            "1500",
        ),
        case(
            "roce-mtu",
            "one differs",
            gke(["up", "9000"], ["up", "1500"]),
            Warn,
            "most ports like it have 9000",
        ),
    ]
}
