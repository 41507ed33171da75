//! NUMA nodes by distance from a task's GPUs: the first `Rung` has the GPUs' NUMA nodes, each
//! further `Rung` adds the nodes at the next distance, up to the whole machine.
//!
//! The distances are the firmware's (ACPI SLIT, /sys/devices/system/node/nodeN/distance). On an
//! EPYC with four NUMA nodes per socket (NPS4) or a Xeon with sub-NUMA clusters, the second rung is
//! the socket.

use crate::order;
use crate::topology::{CpuSet, NodeSet, Topology};

pub(crate) struct Rung {
    /// the first rung's NUMA nodes, and others at `distance` or nearer
    pub(crate) nodes: NodeSet,
    pub(crate) cpus: CpuSet,
    /// `None` on the first rung, and on a last rung with nodes at unknown distances
    pub(crate) distance: Option<u32>,
}

pub(crate) struct Ladder(Vec<Rung>);

impl Ladder {
    /// `nodes` are the first rung. A distance that adds no CPU adds no rung.
    pub(crate) fn around(node: &Topology, nodes: &NodeSet) -> Ladder {
        let distance = |to: u32| {
            nodes
                .iter()
                .filter_map(|from| node.distance(from, to))
                .min()
        };
        let others = node.numa_nodes.iter().map(|numa_node| numa_node.os_index);
        let others = others.filter(|other| !nodes.contains(*other));
        let others: Vec<_> = others.map(|other| (other, distance(other))).collect();
        let distances = order::set(others.iter().filter_map(|(_, distance)| *distance));
        let mut ladder = vec![Rung {
            nodes: nodes.clone(),
            cpus: node.cpus_of(nodes),
            distance: None,
        }];
        // the final `None` adds the nodes at unknown distances
        for distance in distances.into_iter().map(Some).chain([None]) {
            let is_reached =
                |own: Option<u32>| distance.is_none() || own.is_some() && own <= distance;
            let reached = others.iter().filter(|(_, own)| is_reached(*own));
            let nodes = nodes.union(&reached.map(|(other, _)| *other).collect());
            let cpus = node.cpus_of(&nodes);
            if ladder.last().is_none_or(|below| below.cpus != cpus) {
                ladder.push(Rung {
                    nodes,
                    cpus,
                    distance,
                });
            }
        }
        Ladder(ladder)
    }

    pub(crate) fn rungs(&self) -> &[Rung] {
        &self.0
    }

    /// Index of the lowest rung with all of `cpus`, else of the last rung.
    pub(crate) fn rung_of(&self, cpus: &CpuSet) -> usize {
        let mut rungs = self.0.iter();
        let lowest = rungs.position(|rung| cpus.is_subset(&rung.cpus));
        lowest.unwrap_or(self.0.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::tests::{machine, set};
    use crate::policy::tests::numa_node;

    /// Around these of four NUMA nodes of two CPUs, two on each socket, and one of memory alone.
    fn ladder(known: bool, nodes: &[u32]) -> Ladder {
        let mut topology = machine([2, 2, 2, 1], false, &[]);
        let memory = numa_node(4, 0..0, &[32, 32, 32, 32, 10]);
        topology.numa_nodes.push(memory);
        for node in &mut topology.numa_nodes {
            node.distances.resize(5, 32);
            node.distances.truncate(if known { 5 } else { 0 });
        }
        Ladder::around(&topology, &nodes.iter().copied().collect())
    }

    #[test]
    fn the_second_rung_is_the_socket_where_a_socket_has_several_nodes() {
        let cases: [(_, &[u32], &[&str]); 5] = [
            (true, &[3], &["6-7", "4-7", "0-7"]),
            (true, &[0, 1], &["0-3", "0-7"]),
            (true, &[0, 2], &["0-1,4-5", "0-7"]),
            // without distances near is yes or no
            (false, &[3], &["6-7", "0-7"]),
            // a node without CPUs
            (true, &[4], &["", "0-7"]),
        ];
        for (known, nodes, expected) in cases {
            let ladder = ladder(known, nodes);
            let rungs = ladder.rungs().iter().map(|rung| rung.cpus.to_string());
            assert_eq!(Vec::from_iter(rungs), expected, "{nodes:?}");
        }
    }

    #[test]
    fn a_mask_stands_on_the_lowest_rung_that_holds_all_of_it() {
        let ladder = ladder(true, &[3]);
        // the last is a CPU of no NUMA node
        for (mask, rung) in [("7", 0), ("5-6", 1), ("0", 2), ("0-7", 2), ("900", 2)] {
            assert_eq!(ladder.rung_of(&set(mask)), rung, "{mask}");
        }
    }
}
