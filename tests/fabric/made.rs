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
            let pod = place.node / nodes_of_pod;
            (pod * rails + place.nic, place.node % nodes_of_pod + 1)
        };
        let name = |leaf: usize| format!("leaf{}-{}", leaf / rails + 1, leaf % rails + 1);
        let names = (0..nodes.div_ceil(nodes_of_pod) * rails).map(name);
        Made::with_spines(names.collect(), nodes, rails, leaf, spines)
    }

    /// All NICs of a node on one leaf.
    pub fn fat_tree(nodes: usize, nics: usize, nodes_of_leaf: usize, spines: usize) -> Made {
        let leaf = |place: NicPlace| {
            let port = place.node % nodes_of_leaf * nics + place.nic + 1;
            (place.node / nodes_of_leaf, port)
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
        let ports = nics.iter().filter_map(|(_, to)| Some(to.as_ref()?.1));
        let below = ports.max().unwrap_or(0);
        let pairs = (0..leaves.len()).flat_map(|at| (0..spines).map(move |spine| (at, spine)));
        let trunk = |(at, spine)| ((at, below + 1 + spine), (leaves.len() + spine, at + 1));
        let trunks = pairs.map(trunk).collect();
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
        let mut nics = self.nics.iter_mut();
        nics.find(|(known, _)| *known == place).unwrap().1 = None;
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
            let nic = format!("node{} mlx5_{}", place.node + 1, place.nic);
            Some(format!("{nic} -> {}:{port}", self.switches[switch]))
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
        let trunks = self.trunks.iter();
        let of_trunks = trunks.flat_map(|((one, _), (other, _))| [*one, *other]);
        let of_nics = self.nics.iter().filter_map(|(_, to)| Some(to.as_ref()?.0));
        of_nics.chain(of_trunks).collect::<BTreeSet<usize>>().len()
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
                let own = format!("\"H-{nth}\"[1]\t\t# \"{name}\" lid {lid} 4xHDR");
                ports[switch].push((port, own));
                let to = format!("\"{}\" lid {} 4xHDR", self.description(switch), switch + 1);
                let head = format!("[1]({:x}) \t\"S-{switch}\"[{port}]", guid + 1);
                let _ = writeln!(nics, "{head}\t\t# lid {lid} lmc 0 {to}");
            }
            nics.push('\n');
        }
        for (one, other) in &self.trunks {
            for ((at, port), (to, far)) in [(one, other), (other, one)] {
                let name = self.description(*to);
                let line = format!("\"S-{to}\"[{far}]\t\t# \"{name}\" lid {} 4xHDR", to + 1);
                ports[*at].push((*port, line));
            }
        }
        let mut net = String::new();
        // ibsim attaches programs to the first device of its file
        let others = (0..self.switches.len()).filter(|at| *at != self.start);
        for at in std::iter::once(self.start).chain(others) {
            ports[at].sort();
            let most = ports[at].iter().map(|(port, _)| *port).max().unwrap_or(1);
            let (guid, name) = (0x90_0000 + 0x1000 * at, self.description(at));
            let head = format!("switchguid={guid:#x}\nSwitch\t{most} \"S-{at}\"");
            let _ = writeln!(
                net,
                "{head}\t\t# \"{name}\" enhanced port 0 lid {} lmc 0",
                at + 1
            );
            for (port, line) in &ports[at] {
                let _ = writeln!(net, "[{port}]\t{line}");
            }
            net.push('\n');
        }
        net + &nics
    }

    fn description(&self, switch: usize) -> String {
        format!("MF0;{}:MQM8700/U1", self.switches[switch])
    }
}
