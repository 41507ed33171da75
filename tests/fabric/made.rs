//! Made fabrics: switches, NICs and cables, and the file from which ibsim plays them.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fmt::Write;

/// A NIC by its node and its number there, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NicPlace {
    pub node: usize,
    pub nic: usize,
}

/// A port, counted from 1, of one of [`Made::switches`].
type SwitchPlace = (usize, usize);

/// A fabric in which each switch has a name, and each NIC one port.
#[derive(Debug, Clone)]
pub struct Made {
    switches: Vec<String>,
    /// where each NIC's cable ends
    nics: Vec<(NicPlace, Option<SwitchPlace>)>,
    trunks: Vec<(SwitchPlace, SwitchPlace)>,
    /// the switch at which the programs are attached
    start: usize,
}

impl Made {
    /// NIC k of each node on leaf k of its pod; each leaf at each spine.  Without spines each rail is a subnet.
    pub fn rail_optimised(nodes: usize, rails: usize, nodes_of_pod: usize, spines: usize) -> Made {
        let leaf = |place: NicPlace| {
            (
                place.node / nodes_of_pod * rails + place.nic,
                place.node % nodes_of_pod + 1,
            )
        };
        let pods = nodes.div_ceil(nodes_of_pod);
        let names = (0..pods)
            .flat_map(|pod| (0..rails).map(move |rail| format!("leaf{}-{}", pod + 1, rail + 1)));
        Made::with_spines(names.collect(), nodes, rails, leaf, spines)
    }

    /// All NICs of a node on one leaf.
    pub fn fat_tree(nodes: usize, nics: usize, nodes_of_leaf: usize, spines: usize) -> Made {
        let leaf = |place: NicPlace| {
            (
                place.node / nodes_of_leaf,
                place.node % nodes_of_leaf * nics + place.nic + 1,
            )
        };
        let names = (1..=nodes.div_ceil(nodes_of_leaf)).map(|leaf| format!("leaf{leaf}"));
        Made::with_spines(names.collect(), nodes, nics, leaf, spines)
    }

    fn with_spines(
        leaves: Vec<String>,
        nodes: usize,
        nics: usize,
        leaf: impl Fn(NicPlace) -> SwitchPlace,
        spines: usize,
    ) -> Made {
        let places = (0..nodes).flat_map(|node| (0..nics).map(move |nic| NicPlace { node, nic }));
        let nics: Vec<_> = places.map(|place| (place, Some(leaf(place)))).collect();
        let below = nics
            .iter()
            .filter_map(|(_, to)| *to)
            .map(|(_, port)| port)
            .max()
            .unwrap_or(0);
        let trunk =
            |at: usize, spine: usize| ((at, below + 1 + spine), (leaves.len() + spine, at + 1));
        let trunks = (0..leaves.len())
            .flat_map(|at| (0..spines).map(move |spine| (at, spine)))
            .map(|(at, s)| trunk(at, s));
        let trunks = trunks.collect();
        let spines = (1..=spines).map(|spine| format!("spine{spine}"));
        Made {
            switches: leaves.iter().cloned().chain(spines).collect(),
            nics,
            trunks,
            start: 0,
        }
    }

    /// Exchanges the cables of two NICs.
    pub fn exchange(&mut self, one: NicPlace, other: NicPlace) {
        let at = |place| {
            self.nics
                .iter()
                .position(|(known, _)| *known == place)
                .unwrap()
        };
        let (one, other) = (at(one), at(other));
        let ends = (self.nics[one].1, self.nics[other].1);
        (self.nics[other].1, self.nics[one].1) = ends;
    }

    /// Takes a NIC's cable away.
    pub fn unplug(&mut self, place: NicPlace) {
        self.nics
            .iter_mut()
            .filter(|(known, _)| *known == place)
            .for_each(|(_, to)| *to = None);
    }

    /// The same fabric for programs at another switch.
    pub fn starting_at(&self, switch: usize) -> Made {
        Made {
            start: switch,
            ..self.clone()
        }
    }

    /// `node1 mlx5_0 -> leaf1-1:1`, sorted as text.
    pub fn cables(&self) -> Vec<String> {
        let cables = self.nics.iter().filter_map(|(place, to)| {
            let (switch, port) = (*to)?;
            Some(format!(
                "node{} mlx5_{} -> {}:{port}",
                place.node + 1,
                place.nic,
                self.switches[switch]
            ))
        });
        let mut cables: Vec<String> = cables.collect();
        cables.sort();
        cables
    }

    pub fn trunks(&self) -> usize {
        self.trunks.len()
    }

    /// Devices and ports, for ibsim's limits.
    pub fn sizes(&self) -> (usize, usize) {
        let ports = self.switches.len() * 255 + self.nics.len() * 2;
        (self.switches.len() + self.nics.len(), ports)
    }

    /// Switches with a cable.
    pub fn linked_switches(&self) -> usize {
        let of_trunks = self
            .trunks
            .iter()
            .flat_map(|((one, _), (other, _))| [*one, *other]);
        let linked: BTreeSet<usize> = self
            .nics
            .iter()
            .filter_map(|(_, to)| to.map(|(at, _)| at))
            .chain(of_trunks)
            .collect();
        linked.len()
    }

    /// The file of ibsim, which is in the form of `ibnetdiscover`.  It takes LIDs, widths and speeds from the comments; Debian's
    /// knows speeds up to HDR.
    pub fn net(&self) -> String {
        let mut ports: Vec<Vec<(usize, String)>> = vec![Vec::new(); self.switches.len()];
        let mut nics = String::new();
        for (nth, (place, to)) in self.nics.iter().enumerate() {
            let name = format!("node{} mlx5_{}", place.node + 1, place.nic);
            let (guid, lid) = (0xa_0000_0000_u64 + 16 * nth as u64, 1000 + nth);
            let _ = writeln!(nics, "caguid={guid:#x}\nCa\t1 \"H-{nth}\"\t\t# \"{name}\"");
            if let Some((switch, port)) = *to {
                ports[switch].push((
                    port,
                    format!("\"H-{nth}\"[1]\t\t# \"{name}\" lid {lid} 4xHDR"),
                ));
                let at = format!("\"{}\" lid {} 4xHDR", self.description(switch), switch + 1);
                let _ = writeln!(
                    nics,
                    "[1]({:x}) \t\"S-{switch}\"[{port}]\t\t# lid {lid} lmc 0 {at}",
                    guid + 1
                );
            }
            nics.push('\n');
        }
        for ((one, port), (other, far)) in &self.trunks {
            for ((at, port), (to, far)) in
                [((one, port), (other, far)), ((other, far), (one, port))]
            {
                let to_name = self.description(*to);
                ports[*at].push((
                    *port,
                    format!("\"S-{to}\"[{far}]\t\t# \"{to_name}\" lid {} 4xHDR", to + 1),
                ));
            }
        }
        let mut net = String::new();
        // ibsim attaches programs to the first device of its file
        let order = std::iter::once(self.start)
            .chain((0..self.switches.len()).filter(|at| *at != self.start));
        for at in order {
            ports[at].sort();
            let most = ports[at].iter().map(|(port, _)| *port).max().unwrap_or(1);
            let (guid, name) = (0x90_0000 + 0x1000 * at, self.description(at));
            let _ = writeln!(
                net,
                "switchguid={guid:#x}\nSwitch\t{most} \"S-{at}\"\t\t# \"{name}\" enhanced port 0 lid {} lmc 0",
                at + 1
            );
            ports[at].iter().for_each(|(port, line)| {
                let _ = writeln!(net, "[{port}]\t{line}");
            });
            net.push('\n');
        }
        net + &nics
    }

    fn description(&self, switch: usize) -> String {
        format!("MF0;{}:MQM8700/U1", self.switches[switch])
    }
}
