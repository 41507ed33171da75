//! A GPU that idles slows its own link down; the map stays the same whichever GPUs idle.

use super::*;
use crate::wish::NicsEach;
use std::collections::BTreeSet;

/// The first generation, with as many lanes as before.
fn slow(topology: &mut Topology, address: PciAddress) {
    let mut function = topology.pci.get(address).unwrap().clone();
    function.link.current = function.link.current.map(|rate| LinkRate {
        tenths_gt: 25,
        ..rate
    });
    topology.pci.insert(function);
}

/// The same machine while these GPUs idle: both ends of their links say so.
fn with_idle(topology: &Topology, idle: impl Fn(usize) -> bool) -> Topology {
    let mut changed = topology.clone();
    for (number, gpu) in topology
        .gpus
        .iter()
        .enumerate()
        .filter(|(number, _)| idle(*number))
    {
        let above = topology
            .pci
            .get(gpu.address)
            .and_then(|function| function.parent.bridge());
        assert!(above.is_some(), "GPU {number} stands below a port");
        std::iter::once(gpu.address)
            .chain(above)
            .for_each(|end| slow(&mut changed, end));
    }
    changed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn gpus_that_idle_have_the_map_that_they_have_at_work(parts in parts(), idle in any::<u8>(), numbered in any::<bool>()) {
        let topology = parts.topology();
        let nics_each = if numbered { NicsEach::Number(1) } else { NicsEach::Auto };
        let request = Wish { nics_per_task: nics_each, ..Wish::default() };
        let changed = with_idle(&topology, |number| idle >> number & 1 == 1);
        prop_assert_eq!(map(&topology, &request), map(&changed, &request));
    }
}

#[test]
fn idle_gpus_do_not_crowd_one_nic_while_another_idles_too() {
    // by the links of the first generation a fourth GPU costs the near NIC nothing
    let parts = Parts {
        gpus: vec![0, 0, 0, 0],
        nics: vec![(0, 200), (2, 200)],
    };
    let topology = parts.topology();
    let used = |topology: &Topology| {
        let node = closest(topology);
        let first = node
            .gpus
            .iter()
            .map(|gpu| node.rail(gpu.choices[0].rail).to_string());
        first.collect::<BTreeSet<String>>().len()
    };
    assert_eq!(used(&topology), 2);
    assert_eq!(used(&with_idle(&topology, |_| true)), 2);
}

#[test]
fn every_built_in_machine_has_one_map_whoever_idles() {
    for model in platform::MODELS {
        let topology = platform::model(model.name).unwrap();
        let has_ports = topology.gpus.iter().all(|gpu| {
            let function = topology.pci.get(gpu.address);
            function
                .and_then(|function| topology.pci.get(function.parent.bridge()?))
                .is_some()
        });
        if has_ports {
            assert_eq!(
                closest(&topology),
                closest(&with_idle(&topology, |gpu| gpu % 2 == 0)),
                "{}",
                model.name
            );
        }
    }
}

#[test]
fn a_gpu_with_fewer_lanes_than_its_slot_has_less_of_its_nic() {
    let parts = Parts {
        gpus: vec![0],
        nics: vec![(0, 400)],
    };
    let mut topology = parts.topology();
    let mbps = |topology: &Topology| closest(topology).gpus[0].choices[0].share_mbps;
    assert_eq!(mbps(&topology), Some(400_000));
    let mut gpu = topology.pci.get(topology.gpus[0].address).unwrap().clone();
    gpu.link.current = Some(LinkRate {
        tenths_gt: 25,
        width: 4,
    });
    topology.pci.insert(gpu);
    assert_eq!(
        mbps(&topology),
        Some(
            LinkRate {
                tenths_gt: 320,
                width: 4
            }
            .mbps()
        )
    );
}
