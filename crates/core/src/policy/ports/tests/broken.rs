//! Ports that do not work, or came up slower, among rails that they are like.

use crate::policy::tests::Parts;
use crate::policy::{Selection, ports};
use crate::topology::{PciFunction, PortState, Topology};

/// The ports that do not work, and those that came up at less than their rate.
fn lacking(topology: &Topology) -> (Vec<String>, Vec<String>) {
    let found = ports::judge(topology, &Selection::default(), &[]);
    let [broken, degraded] =
        [found.broken, found.degraded].map(|rails| rails.iter().map(ToString::to_string).collect());
    (broken, degraded)
}

#[test]
fn a_port_is_a_broken_rail_though_the_devices_of_the_working_ones_are_not_known() {
    let mut topology = Parts {
        gpus: vec![0, 1],
        nics: vec![(0, 400), (1, 400)],
    }
    .topology();
    topology.nics[1].ports[0].state = PortState::Down;
    let function = topology
        .pci
        .get(topology.nics[1].address.unwrap())
        .unwrap()
        .clone();
    topology.pci.insert(PciFunction {
        device: Some(0x1021),
        ..function
    });
    assert_eq!(lacking(&topology), (vec!["mlx5_1:1".to_string()], vec![]));
}

#[test]
fn a_port_that_came_up_slower_than_the_other_of_its_card_is_missed_among_the_rails() {
    let mut topology = Parts {
        gpus: vec![0],
        nics: vec![(0, 400), (0, 400), (0, 400), (0, 200)],
    }
    .topology();
    assert_eq!(
        lacking(&topology),
        (vec![], vec![]),
        "a card of its own, and no GPU is nearer to it"
    );
    // now two cards of two functions
    for (first, second) in [(0, 1), (2, 3)] {
        let function = topology
            .pci
            .get(topology.nics[first].address.unwrap())
            .unwrap()
            .clone();
        let mut address = function.address;
        address.function = 1;
        topology.pci.insert(PciFunction {
            address,
            ..function
        });
        topology.nics[second].address = Some(address);
    }
    topology.sort();
    assert_eq!(lacking(&topology), (vec![], vec!["mlx5_3:1".to_string()]));
}
