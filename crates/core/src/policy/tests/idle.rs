//! A GPU that idles slows its own link down; the map stays the same whichever GPUs idle.

use super::*;
use std::collections::BTreeSet;

/// The same machine while these GPUs idle: both ends of their links say the first generation, with
/// as many lanes as before. `None` if a GPU stands below no port.
fn with_idle(topology: &Topology, idle: impl Fn(usize) -> bool) -> Option<Topology> {
    let mut changed = topology.clone();
    for (number, gpu) in topology.gpus.iter().enumerate() {
        let above = topology.pci.get(gpu.address)?.parent.bridge();
        topology.pci.get(above?)?;
        let ends = [gpu.address].into_iter().chain(above);
        for end in ends.filter(|_| idle(number)) {
            function(&mut changed, end, |end| {
                let slow = end.link.current.as_mut();
                slow.into_iter().for_each(|rate| rate.tenths_gt = 25);
            });
        }
    }
    Some(changed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn gpus_that_idle_have_the_map_that_they_have_at_work(parts in parts(), idle in any::<u8>(), numbered in any::<bool>()) {
        let topology = parts.topology();
        let nics_each = if numbered { NicsEach::Number(1) } else { NicsEach::Auto };
        let request = wish(Policy::Closest, nics_each);
        let changed = with_idle(&topology, |number| idle >> number & 1 == 1).unwrap();
        prop_assert_eq!(map(&topology, &request), map(&changed, &request));
    }
}

#[test]
fn idle_gpus_do_not_crowd_one_nic_while_another_idles_too() {
    // by the links of the first generation a fourth GPU costs the near NIC nothing
    let topology = machine(&[0, 0, 0, 0], &[(0, 200), (2, 200)]);
    for topology in [with_idle(&topology, |_| true).unwrap(), topology] {
        let used: BTreeSet<String> = first_names(&closest(&topology)).into_iter().collect();
        assert_eq!(used.len(), 2);
    }
}

#[test]
fn every_built_in_machine_has_one_map_whoever_idles() {
    for known in platform::MODELS {
        let topology = model(known.name, &[]);
        if let Some(idle) = with_idle(&topology, |gpu| gpu % 2 == 0) {
            assert_eq!(closest(&topology), closest(&idle), "{}", known.name);
        }
    }
}

#[test]
fn the_fewer_lanes_of_a_nic_are_shared_and_those_of_a_gpu_limit_its_share() {
    let mut topology = machine(&[0, 0], &[(0, 400)]);
    let narrow = LinkRate { width: 8, ..GEN5 };
    let nic = topology.nics[0].address.unwrap();
    function(&mut topology, nic, |nic| nic.link.current = Some(narrow));
    for gpu in closest(&topology).gpus {
        assert_eq!(gpu.choices[0].share_mbps, Some(narrow.mbps() / 2));
    }
    let mut topology = machine(&[0], &[(0, 400)]);
    let mbps = |topology: &Topology| closest(topology).gpus[0].choices[0].share_mbps;
    assert_eq!(mbps(&topology), Some(400_000));
    let narrow = LinkRate { width: 4, ..GEN5 };
    let (gpu, mut idle) = (topology.gpus[0].address, narrow);
    idle.tenths_gt = 25;
    function(&mut topology, gpu, |gpu| gpu.link.current = Some(idle));
    assert_eq!(mbps(&topology), Some(narrow.mbps()));
}
