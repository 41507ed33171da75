//! What the fabric is: ports with evidence against them have no say in it.

use super::*;
use crate::placement::Policy;
use crate::policy::map;
use crate::policy::tests::{Parts, names as names_of_gpus};
use crate::wish::Wish;

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
    let evidence: [(&str, Against); 2] = [
        ("default route", default_route),
        ("virtual functions", |topology, nic| {
            function(topology, nic, |function| function.vfs = Some(8))
        }),
    ];
    for (what, evidence) in evidence {
        let ethernet = beside_three(evidence, |port| port.link_layer = LinkLayer::Ethernet);
        assert_eq!(names(&ethernet.rails), ["mlx5_0", "mlx5_1"], "{what}");
        let why = "it speaks Ethernet, the node's fabric InfiniBand";
        assert!(
            ethernet.excluded.iter().all(|excluded| excluded.why == why),
            "{:?}",
            ethernet.excluded
        );
        let faster = beside_three(evidence, |port| port.rate_mbps = Some(800_000));
        assert_eq!(
            names(&faster.rails),
            ["mlx5_0", "mlx5_1"],
            "{what}: the GPUs' own NICs are not slow"
        );
    }
    // without evidence against them they are the fabric
    let ethernet = beside_three(|_, _| (), |port| port.link_layer = LinkLayer::Ethernet);
    assert_eq!(names(&ethernet.rails), ["mlx5_2", "mlx5_3", "mlx5_4"]);
    let faster = beside_three(|_, _| (), |port| port.rate_mbps = Some(810_000));
    assert_eq!(names(&faster.rails), ["mlx5_2", "mlx5_3", "mlx5_4"]);
    let half = beside_three(|_, _| (), |port| port.rate_mbps = Some(800_000));
    assert_eq!(
        half.rails.len(),
        5,
        "a near NIC of half the rate gives as much as a far one"
    );
    let why = "it runs at 400 Gb/s, the node's fabric at 800 Gb/s; but no other NIC is as near to GPU 0: it is used, and \
               `exclude=mlx5_0` would leave it out";
    assert_eq!(half.diagnostics[0].finding, why);
}

#[test]
fn ports_that_the_admin_includes_have_their_say_in_the_fabrics_rate_whatever_speaks_against_them() {
    let mut topology = with_a_fifth_nic();
    (0..3).for_each(|nic| default_route(&mut topology, nic));
    port(&mut topology, 3).state = PortState::Down;
    port(&mut topology, 3).rate_mbps = Some(10_000);
    port(&mut topology, 4).rate_mbps = Some(200_000);
    let found = judge(
        &topology,
        &Selection {
            include: patterns("mlx5_*"),
            ..Selection::default()
        },
        &[],
    );
    assert_eq!(
        names(&found.rails),
        ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_4"]
    );
    let broken: Vec<_> = found
        .broken
        .iter()
        .map(|rail| (rail.name.as_str(), rail.rate_mbps))
        .collect();
    assert_eq!(
        broken,
        [("mlx5_3", Some(400_000))],
        "what it would carry if it worked"
    );
}

#[test]
fn a_port_of_virtual_machines_that_goes_down_is_no_broken_rail_and_moves_no_gpu() {
    // two NICs as near to GPU 0, of which one is others'
    let nics = vec![(0, 400), (0, 400), (1, 400), (2, 400)];
    let mut topology = Parts {
        gpus: vec![0, 1, 2],
        nics,
    }
    .topology();
    function(&mut topology, 1, |function| function.vfs = Some(8));
    let by_rail = |topology: &Topology| {
        names_of_gpus(&map(
            topology,
            &Wish {
                policy: Policy::Rail,
                ..Wish::default()
            },
        ))
    };
    let own = [["mlx5_0:1"], ["mlx5_2:1"], ["mlx5_3:1"]];
    assert_eq!(by_rail(&topology), own);
    port(&mut topology, 1).state = PortState::Down;
    assert_eq!(by_rail(&topology), own);
    assert_eq!(judged(&topology).broken, []);
    // it is missed where it would be a rail if it worked: the admin includes it, it has no virtual
    // functions, or no other is as near and nothing else speaks against it
    let included = Selection {
        include: patterns("mlx5_*"),
        ..Selection::default()
    };
    assert_eq!(names(&judge(&topology, &included, &[]).broken), ["mlx5_1"]);
    function(&mut topology, 1, |function| function.vfs = None);
    assert_eq!(names(&judged(&topology).broken), ["mlx5_1"]);
    let mut needed = machine(&[true, true, true]);
    function(&mut needed, 1, |function| function.vfs = Some(8));
    port(&mut needed, 1).state = PortState::Down;
    assert_eq!(names(&judged(&needed).broken), ["mlx5_1"]);
    default_route(&mut needed, 1);
    assert_eq!(judged(&needed).broken, []);
}
