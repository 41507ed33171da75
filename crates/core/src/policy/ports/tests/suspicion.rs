//! What the fabric is: ports with evidence against them have no say in it.

use super::*;
use crate::placement::Policy;
use crate::policy::map;
use crate::policy::tests::{machine as two_sockets, names as names_of_gpus, wish};
use crate::wish::NicsEach;

/// What speaks against one NIC.
type Against = fn(&mut Topology, usize);

/// Two GPUs with a NIC each, and three NICs beside them with this evidence against each, changed
/// alike.
fn beside_three(evidence: Against, change: fn(&mut Port)) -> NodePlacement {
    let mut topology = machine(&[true, true, false, false, false]);
    for nic in 2..5 {
        change(port(&mut topology, nic));
        evidence(&mut topology, nic);
    }
    judged(&topology)
}

#[test]
fn ports_of_virtual_machines_and_of_the_default_route_do_not_decide_what_the_fabric_is_however_many_they_are()
 {
    let ethernet = |evidence| beside_three(evidence, |port| port.link_layer = LinkLayer::Ethernet);
    let faster = |evidence| beside_three(evidence, |port| port.rate_mbps = Some(810_000));
    let twice = |evidence| beside_three(evidence, |port| port.rate_mbps = Some(800_000));
    let virtual_functions: Against = |topology, nic| virtual_functions(topology, nic, Some(8));
    for evidence in [default_route, virtual_functions] {
        let slow = ethernet(evidence);
        let speaks = "it speaks Ethernet, ";
        assert!(slow.excluded.iter().all(|out| out.why.starts_with(speaks)));
        // the GPUs' own NICs are not slow
        for found in [slow, faster(evidence), twice(evidence)] {
            assert_eq!(names(&found.rails), FIVE[..2]);
        }
    }
    // without evidence against them they are the fabric
    assert_eq!(names(&ethernet(|_, _| ()).rails), FIVE[2..]);
    assert_eq!(names(&faster(|_, _| ()).rails), FIVE[2..]);
    // a near NIC of half the rate gives as much as a far one
    let half = twice(|_, _| ());
    assert_eq!(half.rails.len(), 5);
    let why = &half.diagnostics[0].finding;
    for fact in "at 400 Gb/s|fabric at 800 Gb/s|near to GPU 0|`exclude=mlx5_0`".split('|') {
        assert!(why.contains(fact), "{why}");
    }
}

#[test]
fn ports_that_the_admin_includes_have_their_say_in_the_fabrics_rate_whatever_speaks_against_them() {
    let mut topology = with_a_fifth_nic();
    (0..3).for_each(|nic| default_route(&mut topology, nic));
    port(&mut topology, 3).state = PortState::Down;
    port(&mut topology, 3).rate_mbps = Some(10_000);
    port(&mut topology, 4).rate_mbps = Some(200_000);
    let found = judge(&topology, &included(), &[]);
    let others = [FIVE[0], FIVE[1], FIVE[2], FIVE[4]];
    assert_eq!(names(&found.rails), others);
    assert_eq!(names(&found.broken), ["mlx5_3"]);
    // what it would carry if it worked
    assert_eq!(found.broken[0].rate_mbps, Some(400_000));
}

#[test]
fn a_port_of_virtual_machines_that_goes_down_is_no_broken_rail_and_moves_no_gpu() {
    // two NICs as near to GPU 0, of which one is others'
    let mut topology = two_sockets(&[0, 1, 2], &[(0, 400), (0, 400), (1, 400), (2, 400)]);
    virtual_functions(&mut topology, 1, Some(8));
    for state in [PortState::Active, PortState::Down] {
        port(&mut topology, 1).state = state;
        let node = map(&topology, &wish(Policy::Rail, NicsEach::Auto));
        let own = [["mlx5_0:1"], ["mlx5_2:1"], ["mlx5_3:1"]];
        assert_eq!(names_of_gpus(&node), own);
        assert_eq!(node.broken, []);
    }
    // it is missed where it would be a rail if it worked: the admin includes it, it has no virtual
    // functions, or no other is as near and nothing else speaks against it
    let missed = judge(&topology, &included(), &[]).broken;
    assert_eq!(names(&missed), ["mlx5_1"]);
    virtual_functions(&mut topology, 1, None);
    assert_eq!(names(&judged(&topology).broken), ["mlx5_1"]);
    let mut needed = machine(&[true, true, true]);
    virtual_functions(&mut needed, 1, Some(8));
    port(&mut needed, 1).state = PortState::Down;
    assert_eq!(names(&judged(&needed).broken), ["mlx5_1"]);
    default_route(&mut needed, 1);
    assert_eq!(judged(&needed).broken, []);
}
