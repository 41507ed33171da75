//! Ports that do not work, or came up slower, among rails that they are like.

use super::*;
use crate::policy::tests::{machine, without};

/// The ports that do not work, and those that came up at less than their rate.
fn lacking(topology: &Topology) -> [String; 2] {
    let found = judged(topology);
    [found.broken, found.degraded].map(|rails| strings(&rails).concat())
}

#[test]
fn a_port_is_a_broken_rail_though_the_devices_of_the_working_ones_are_not_known() {
    let mut topology = without(machine(&[0, 1], &[(0, 400), (1, 400)]), &["mlx5_1"]);
    function(&mut topology, 1, |function| function.device = Some(0x1021));
    assert_eq!(lacking(&topology), ["mlx5_1:1", ""]);
}

#[test]
fn a_port_that_came_up_slower_than_the_other_of_its_card_is_missed_among_the_rails() {
    let mut topology = machine(&[0], &[400, 400, 400, 200].map(|gbps| (0, gbps)));
    // a card of its own, and no GPU is nearer to it
    assert_eq!(lacking(&topology), ["", ""]);
    // a card of two functions beside cards of one, and beside one that has both
    for (first, second, missed) in [(2, 3, ""), (0, 1, "mlx5_3:1")] {
        let address = topology.nics[first].address.unwrap();
        let mut other = address;
        other.function = 1;
        change(&mut topology, address, |function| function.address = other);
        topology.nics[second].address = Some(other);
        let mut sorted = topology.clone();
        sorted.sort();
        assert_eq!(lacking(&sorted), ["", missed]);
    }
}
