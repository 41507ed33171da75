//! Rails by cable, on generated fabrics: healthy ones of any size, and with cables that are wrong.

mod any;
mod reports;

use super::CableLayout;
use super::cabling::{Cable, Cabling, NicPort, SwitchPort};
use super::faults::CableFault;
use super::rails::{FabricRails, RailReach};
use std::collections::{BTreeMap, BTreeSet};

/// A cable as a test changes it: node, NIC, leaf.
type Plugs = Vec<(String, String, String)>;

/// A fabric whose nodes have NIC k on leaf k of their pod.
fn plugs(pods: usize, nodes: usize, nics: usize) -> Plugs {
    let mut plugs = Plugs::new();
    for node in 0..pods * nodes {
        plugs.extend((0..nics).map(|nic| {
            let leaf = format!("leaf{}-{nic}", node / nodes);
            (format!("n{node}"), format!("mlx5_{nic}"), leaf)
        }));
    }
    plugs
}

fn end(switch: &str, port: impl ToString) -> SwitchPort {
    SwitchPort {
        switch: switch.into(),
        port: port.to_string(),
    }
}

fn nic_port(node: &str, nic: &str) -> NicPort {
    NicPort {
        node: node.into(),
        nic: nic.into(),
        port: 1,
        guid: Some(format!("{node}{nic}")),
    }
}

/// The cabling, with a spine above all leaves if rails are to reach each other.
fn cabling(plugs: &Plugs, has_spine: bool) -> Cabling {
    let mut cabling = Cabling::default();
    for (number, (node, nic, leaf)) in plugs.iter().enumerate() {
        let (nic, to) = (nic_port(node, nic), end(leaf, number));
        cabling.cables.insert(Cable { nic, to });
        cabling.whole.insert(leaf.clone());
        if has_spine {
            cabling.trunks.insert((leaf.clone(), "spine".to_string()));
        }
    }
    cabling
}

fn rails(plugs: &Plugs) -> FabricRails {
    FabricRails::of(&cabling(plugs, true), &BTreeMap::new())
}

fn named(fault: &CableFault) -> BTreeSet<(&str, &str)> {
    let cables = fault.iter();
    cables.map(|of| (&*of.node, &*of.nic)).collect()
}

fn exchange(plugs: &mut Plugs, a: usize, b: usize) {
    let leaf = plugs[a].2.clone();
    plugs[a].2 = std::mem::replace(&mut plugs[b].2, leaf);
}

/// The number of a node's cable in the list.
fn at(plugs: &Plugs, node: &str, nic: &str) -> usize {
    let mut plugs = plugs.iter();
    plugs.position(|of| of.0 == node && of.1 == nic).unwrap()
}

fn assert_nothing(found: &FabricRails) {
    let wrong = (found.faults.len(), found.notes.len(), found.lines.len());
    assert_eq!(wrong, (0, 0, 0), "{found:#?}");
}

fn only_fault(found: &FabricRails) -> &CableFault {
    match found.faults.as_slice() {
        [fault] => fault,
        faults => panic!("{faults:#?}"),
    }
}

/// The lines for the configuration file.
fn lines(found: &FabricRails) -> Vec<&str> {
    found.lines.keys().map(String::as_str).collect()
}

#[test]
fn of_two_nodes_that_differ_it_is_not_known_which_is_wrong() {
    let mut plugs = plugs(1, 2, 8);
    let (a, b) = (at(&plugs, "n1", "mlx5_2"), at(&plugs, "n1", "mlx5_3"));
    exchange(&mut plugs, a, b);
    let found = rails(&plugs);
    assert_eq!((found.faults.len(), found.notes.len()), (0, 1));
    assert!(found.notes[0].starts_with("n[0-1]: mlx5_2 mlx5_3: "));
}

#[test]
fn nics_of_one_node_that_are_exchanged_are_one_fault_with_the_line_for_those_who_mean_it() {
    let mut plugs = plugs(2, 8, 8);
    let (a, b) = (at(&plugs, "n7", "mlx5_2"), at(&plugs, "n7", "mlx5_3"));
    exchange(&mut plugs, a, b);
    let found = rails(&plugs);
    let fault = only_fault(&found);
    assert_eq!(fault.len(), 2);
    let cable = &fault[0];
    let ends = [cable.on.as_deref(), cable.belongs.as_deref()];
    assert_eq!(ends, ["leaf0-3", "leaf0-2"].map(Some));
    assert_eq!([cable.on_rail, cable.rail], [Some(3), Some(2)]);
    let line = "NodeName=n7 rails=mlx5_0,mlx5_1,mlx5_3,mlx5_2,mlx5_4,mlx5_5,mlx5_6,mlx5_7";
    assert_eq!(lines(&found), [line]);
    assert_eq!((found.rails[2].right, found.rails[2].ports), (15, 16));
    let mut plugs = self::plugs(1, 5, 8);
    for nic in 0..8 {
        let number = at(&plugs, "n4", &format!("mlx5_{nic}"));
        plugs[number].2 = format!("leaf0-{}", 7 - nic);
    }
    let found = rails(&plugs);
    let fault = only_fault(&found);
    assert_eq!(fault.len(), 8);
    assert!(lines(&found)[0].starts_with("NodeName=n4 rails=mlx5_7,mlx5_6,"));
}

#[test]
fn a_cable_on_a_switch_above_the_leaves_and_a_port_without_a_link_are_faults() {
    let mut plugs = plugs(1, 4, 4);
    let number = at(&plugs, "n2", "mlx5_1");
    plugs[number].2 = "spine".into();
    let found = rails(&plugs);
    let fault = only_fault(&found);
    let cable = (fault.len(), fault[0].on_rail, fault[0].rail);
    assert_eq!(cable, (1, None, Some(1)));
    // and so is a port without a link
    plugs.remove(number);
    let found = rails(&plugs);
    let fault = only_fault(&found);
    let belongs = fault[0].belongs.as_deref();
    assert_eq!((&fault[0].on, belongs), (&None, Some("leaf0-1")));
}

#[test]
fn nics_for_storage_that_share_a_switch_are_no_rails_and_make_no_noise() {
    let mut plugs = plugs(2, 8, 8);
    for node in 0..16 {
        for nic in 8..10 {
            // half of the nodes have them the other way round
            let leaf = format!("storage{}", (node + nic) % 2);
            plugs.push((format!("n{node}"), format!("mlx5_{nic}"), leaf));
        }
    }
    let assert_rails = |plugs: &Plugs| {
        let found = rails(plugs);
        let layout = (found.layout, found.rails.len());
        assert_eq!(layout, (CableLayout::RailOptimised, 8));
        assert_nothing(&found);
    };
    assert_rails(&plugs);
    for plug in plugs.iter_mut().filter(|plug| plug.2.starts_with('s')) {
        plug.2 = "storage".into();
    }
    assert_rails(&plugs);
}

#[test]
fn all_nics_of_a_node_on_one_switch_make_no_rails_and_one_elsewhere_is_named() {
    let mut plugs = plugs(4, 4, 8);
    for plug in &mut plugs {
        plug.2.truncate(5);
    }
    let found = rails(&plugs);
    let layout = (found.layout, found.rails.len(), &found.reach);
    assert_eq!(layout, (CableLayout::OneLeaf, 0, &RailReach::NoRails));
    assert_nothing(&found);
    let number = at(&plugs, "n2", "mlx5_5");
    plugs[number].2 = "leaf3".into();
    let found = rails(&plugs);
    assert_eq!(only_fault(&found).len(), 1);
}

#[test]
fn two_nics_to_each_switch_are_groups_and_cables_in_no_order_are_not_recognised() {
    let mut plugs = plugs(2, 4, 8);
    for (number, plug) in plugs.iter_mut().enumerate() {
        plug.2 = format!("{}-{}", &plug.2[..5], number % 8 / 2);
    }
    let found = rails(&plugs);
    let layout = (found.layout, found.rails.len());
    assert_eq!(layout, (CableLayout::Grouped, 4));
    assert_nothing(&found);
    let mut plugs = self::plugs(1, 12, 8);
    for (number, plug) in plugs.iter_mut().enumerate() {
        let leaf = (number * 7919 + number / 8 * 104_729 + number / 3) % 6;
        plug.2 = format!("leaf{leaf}");
    }
    let found = rails(&plugs);
    let layout = (found.layout, &found.faults);
    assert_eq!(layout, (CableLayout::NotRecognised, &Vec::new()));
}

#[test]
fn a_rail_whose_pods_end_elsewhere_than_the_others_is_right() {
    let mut plugs = plugs(2, 8, 8);
    for node in 6..8 {
        let number = at(&plugs, &format!("n{node}"), "mlx5_0");
        plugs[number].2 = "leaf1-0".into();
    }
    let found = rails(&plugs);
    assert_nothing(&found);
    assert_eq!((found.rails[0].right, found.rails[0].ports), (16, 16));
}

#[test]
fn nodes_of_another_kind_on_the_same_switches_get_a_line_with_their_order() {
    let mut plugs = plugs(1, 8, 4);
    for node in 20..24 {
        for nic in 0..4 {
            let leaf = format!("leaf0-{}", (nic + 1) % 4);
            plugs.push((format!("n{node}"), format!("ib{nic}"), leaf));
        }
    }
    let found = rails(&plugs);
    assert_eq!((&found.faults, found.rails.len()), (&Vec::new(), 4));
    let line = "NodeName=n[20-23] rails=ib3,ib0,ib1,ib2";
    assert_eq!(lines(&found)[0], line);
}

#[test]
fn servers_of_a_file_system_and_many_nodes_with_few_nics_on_switches_of_their_own_are_on_no_rail() {
    let mut plugs = plugs(2, 4, 4);
    for server in 0..3 {
        for nic in 0..2 {
            let switch = format!("storage{nic}");
            plugs.push((format!("oss{server}"), format!("mlx5_{nic}"), switch));
        }
    }
    // a login node has a NIC on a rail
    plugs.push(("login1".into(), "mlx5_0".into(), "leaf0-0".into()));
    let found = rails(&plugs);
    assert_nothing(&found);
    let ports: Vec<usize> = found.rails.iter().map(|rail| rail.ports).collect();
    assert_eq!(ports, [8; 4]);
    assert_eq!(found.reach, RailReach::Together);
    let login = found.cables.iter().find(|of| of.node == "login1");
    assert_eq!(login.unwrap().on_rail, Some(0));
    let mut plugs = self::plugs(1, 4, 8);
    for node in 100..180 {
        for nic in 0..2 {
            let switch = format!("other{nic}");
            plugs.push((format!("c{node}"), format!("mlx5_{nic}"), switch));
        }
    }
    let found = rails(&plugs);
    assert_nothing(&found);
    let layout = (found.layout, found.rails.len(), found.rails[0].ports);
    assert_eq!(layout, (CableLayout::RailOptimised, 8, 4));
}

#[test]
fn two_planes_of_each_nic_are_rails_of_their_own_and_no_line_names_a_nic_twice() {
    let mut cabling = cabling(&Plugs::new(), false);
    for node in 0..4 {
        for (nic, plane) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            // the planes of one NIC are exchanged
            let is_odd = node == 3 && nic == 0;
            let switch = format!("leaf{nic}-{}", if is_odd { 1 - plane } else { plane });
            let guid = Some(format!("{node} {nic} {plane}"));
            let mut nic = nic_port(&format!("n{node}"), &format!("mlx5_{nic}"));
            (nic.port, nic.guid) = (plane + 1, guid);
            let to = end(&switch, 1);
            cabling.cables.insert(Cable { nic, to });
        }
    }
    let found = FabricRails::of(&cabling, &BTreeMap::new());
    let nics = found.rails.iter().map(|rail| rail.nics.join(" "));
    assert!(nics.eq(["mlx5_0:1", "mlx5_0:2", "mlx5_1:1", "mlx5_1:2"]));
    let fault = only_fault(&found);
    let both = BTreeSet::from([("n3", "mlx5_0:1"), ("n3", "mlx5_0:2")]);
    assert_eq!(named(fault), both);
    let mut lines = lines(&found).into_iter();
    assert!(lines.all(|line| !line.contains("rails=mlx")));
}

#[test]
fn rails_without_a_switch_above_them_are_isolated_and_with_some_they_reach_each_other_partly() {
    let plugs = plugs(1, 4, 4);
    let found = FabricRails::of(&cabling(&plugs, false), &BTreeMap::new());
    assert_eq!(found.reach, RailReach::Isolated);
    assert_eq!(lines(&found)[0], "fabric=isolated-rails");
    // some of them are connected
    let mut partly = cabling(&plugs, false);
    for rail in 0..4 {
        let ends = (format!("leaf0-{rail}"), format!("spine{}", rail / 2));
        partly.trunks.insert(ends);
    }
    let found = FabricRails::of(&partly, &BTreeMap::new());
    assert_eq!(found.reach, RailReach::Partly);
    // a text that was cut has one leaf's cables, and not its links
    let mut untold = cabling(&plugs, false);
    untold.whole.remove("leaf0-1");
    let found = FabricRails::of(&untold, &BTreeMap::new());
    assert_eq!(found.reach, RailReach::NotKnown);
    assert_nothing(&found);
}

#[test]
fn two_cables_of_a_thousand_nodes_in_sixteen_pods_are_found() {
    let mut plugs = plugs(16, 64, 8);
    let (a, b) = (at(&plugs, "n7", "mlx5_2"), at(&plugs, "n900", "mlx5_3"));
    exchange(&mut plugs, a, b);
    let cabling = cabling(&plugs, true);
    let found = FabricRails::of(&cabling, &BTreeMap::new());
    assert_eq!(found.faults.len(), 1);
}

#[test]
fn switches_of_one_name_are_told_apart_and_a_port_on_two_switches_is_on_neither() {
    let mut cabling = cabling(&plugs(1, 4, 2), true);
    for leaf in ["leaf0-0", "leaf0-1"] {
        cabling.switches.insert(leaf.into(), "Quantum".into());
    }
    let found = FabricRails::of(&cabling, &BTreeMap::new());
    let leaves = found.rails.iter().flat_map(|rail| &rail.leaves);
    assert!(leaves.eq(["Quantum (leaf0-0)", "Quantum (leaf0-1)"]));
    let plugs = plugs(1, 4, 4);
    let mut cabling = self::cabling(&plugs, true);
    let (nic, to) = (nic_port("n1", "mlx5_2"), end("leaf0-3", 1));
    cabling.cables.insert(Cable { nic, to });
    let found = FabricRails::of(&cabling, &BTreeMap::new());
    assert!(found.faults.is_empty());
    assert!(found.notes[0].starts_with("n1 mlx5_2:1: sources name several switches"));
    assert_eq!((found.rails[2].right, found.rails[2].ports), (3, 4));
}
