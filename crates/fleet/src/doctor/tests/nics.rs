//! Cases of the node and its NICs.

use super::cases::{Case, cases};
use super::world::{World, model, with_function, with_nic};
use crate::audit::report::Level::{Fail, Note, Ok, Warn};
use crate::doctor::facts::{HostFacts, Missing};
use nic_placement_core::topology::{Nic, PortState, Topology};

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
        with_function(topology, gpu.address, |of| of.class = Some(0x020000));
    }
}

fn of_a_guest(facts: &mut HostFacts) {
    let machine = facts.machine.as_mut().unwrap();
    machine.is_a_clouds = true;
    machine.missing.push(Missing {
        what: "GPU".into(),
        address: "0000:1b:00.0".parse().unwrap(),
        is_on_the_bus: false,
    });
}

pub(super) fn node() -> Vec<Case> {
    let without = |change: fn(&mut Topology)| {
        let mut topology = model("dgx-h100");
        change(&mut topology);
        World::of(topology)
    };
    let named = |world: World| world.file("sys/devices/virtual/dmi/id/product_name", "DGXH100");
    let dgx = || named(World::of_model("dgx-h100"));
    let lacks = |change: fn(&mut Topology)| named(without(change));
    cases! {
        check "node" {
            "as it should be": Ok "8 of 14 NICs", World::of_model("dgx-h100");
            "left to libfabric": Ok "among which libfabric chooses", World::of_model("aws-p5");
            "no GPU": Note "nothing is set", without(no_gpu);
            "a workstation": Note "no RDMA device", without(|node| node.nics.clear());
            "every port down": Warn "0 of 14", without(|node| node.nics.iter_mut().for_each(down));
        }
        check "machine" {
            "a DGX": Ok "`dgx-h100`", dgx();
            "nobody knows it": None "", World::of_model("levante");
            "a NIC fell off the bus": Fail "mlx5_4",
                lacks(|node| node.nics.retain(|nic| nic.name.as_str() != "mlx5_4"))
                    .patched(|facts| facts.machine.as_mut().unwrap().missing[0].is_on_the_bus = false);
            "a GPU without a driver": Warn "on the bus, and no driver shows it",
                lacks(|node| { node.gpus.remove(3); });
            "a guest's part": Warn "only a part of it", dgx().patched(of_a_guest);
        }
        check "odd" {
            "nothing": None "", World::of_model("dgx-h100");
            "a name that no variable holds": Note "no library's variable could hold",
                World::of_model("dgx-h100").link("sys/class/infiniband/mlx5 0", "../../devices/x");
        }
    }
}

pub(super) fn ports() -> Vec<Case> {
    let half = || {
        let mut topology = model("dgx-h100");
        for name in ["mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5"] {
            with_nic(&mut topology, name, down);
        }
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
    cases! {
        check "nic-broken" {
            "all work": Ok "ports that work: 8", dgx();
            "one down": Fail "it is down, Polling", changed("dgx-h100", "mlx5_4", down);
            "rate 0": Fail "it is active at rate 0, ", changed("dgx-h100", "mlx5_4", no_rate);
            "switched off": Warn "switched it off", changed("dgx-h100", "mlx5_4", disabled);
            "no subnet manager": Warn "no subnet manager",
                changed("dgx-h100", "mlx5_4", |nic| { nic.ports[0].state = PortState::Init });
            "half of them down": Warn "meant to be", half();
        }
        check "nic-slower" {
            "one rate": None "", dgx();
            "half a rate": Warn "others of its device at more",
                changed("levante", "mlx5_0", |nic| { nic.ports[0].rate_mbps = Some(100_000) });
        }
        check "device-node" {
            "all there": Ok "14 RDMA devices", dgx();
            "one without": Fail "`mlx5_9` has no device node", no_uverbs;
            "nothing told": None "", World::described(model("dgx-h100"));
            "no ib_uverbs": Warn "not loaded", none.patched(|facts| facts.is_live = true);
        }
    }
}

/// A node of RoCE, or EFA, whose interfaces say this; the first of them another thing.
fn interfaces(name: &str, others: [&str; 2], first: [&str; 2]) -> World {
    let mut topology = model(name);
    for (number, nic) in topology.nics.iter_mut().enumerate() {
        if nic.netdevs.is_empty() {
            nic.netdevs.push(format!("x{number}"));
        }
    }
    let nics = topology.nics.clone();
    let mut world = World::of(topology);
    for (number, nic) in nics.iter().enumerate() {
        let [state, mtu] = if number == 0 { first } else { others };
        let interface = &nic.netdevs[0];
        let place = format!("{}/net/{interface}", world.function(nic.address.unwrap()));
        let target = format!("../../{}", place.strip_prefix("sys/").unwrap());
        world = world.link(&format!("sys/class/net/{interface}"), &target);
        for (name, text) in [("operstate", state), ("mtu", mtu)] {
            world = world.file(&format!("{place}/{name}"), text);
        }
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
    let storage = "sys/devices/pci0000:81/0000:81:01.0/0000:82:00.0";
    let (v1, v2) = (Some("IB/RoCE v1"), Some("RoCE v2"));
    cases! {
        check "port-interface" {
            "all up": Ok "8 active ports", gke(["up", "9000"], ["up", "9000"]);
            "one down": Fail "passes nothing", gke(["up", "9000"], ["down", "9000"]);
            "all down": Warn "meant to be down", gke(["down", "9000"], ["down", "9000"]);
            "a NIC that no job uses": Warn "no job uses it",
                interfaces("dgx-h100", ["up", "9000"], ["up", "9000"])
                    .file(&format!("{storage}/net/ens6f0/operstate"), "down");
            "no carrier": Fail "passes nothing", gke(["up", "1"], ["unknown", "1"]);
            "IPoIB is switched off": None "",
                interfaces("azure-nd96isr-h100-v5", ["down", "2044"], ["down", "2044"]);
            "in a container": None "", World::of_model("gke-a3-ultra");
            "EFA": Ok "32 active", interfaces("aws-p5", ["up", "1500"], ["up", "1500"]);
            "one EFA down": Fail "passes nothing",
                interfaces("aws-p5", ["up", "1500"], ["down", "1500"]);
            "EFA without an interface": None "", World::of_model("aws-p5");
        }
        check "roce-gid" {
            "version 2": Ok "8 ports", gids(v2, v2);
            "one of version 1": Warn "no router passes", gids(v2, v1);
            "one without": Warn "other ports have", gids(v2, None);
            "a container tells none": Note "container", gids(None, None);
            "InfiniBand": None "", World::of_model("dgx-h100");
        }
        check "roce-mtu" {
            "large": Ok "9000", gke(["up", "9000"], ["up", "9000"]);
            "small alike": Note "1500", gke(["up", "1500"], ["up", "1500"]);
            "one differs": Warn "most ports like it have 9000", gke(["up", "9000"], ["up", "1500"]);
        }
    }
}
