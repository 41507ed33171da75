//! The path between two PCI functions with its links, for the unit tests of several crates.
#![allow(dead_code, reason = "each crate reads a part")]

use nic_placement_topology::{PathType, PciAddress, Topology};

pub struct Way {
    pub kind: PathType,
    /// PCIe links of known rate
    pub links: Vec<Link>,
    pub crossing: Option<(u32, u32)>,
}

pub struct Link {
    /// under load
    pub mbps: u64,
}

pub trait Between {
    fn way(&self, a: PciAddress, b: PciAddress) -> Way;
}

impl Between for Topology {
    fn way(&self, a: PciAddress, b: PciAddress) -> Way {
        let (a, b) = (self.ascent(a), self.ascent(b));
        let meeting = self.meeting(&a, &b);
        let (links_a, links_b) = meeting.links();
        let links = a.links().iter().take(links_a);
        let links = links.chain(b.links().iter().take(links_b)).flatten();
        Way {
            kind: meeting.kind,
            links: links.map(|&(_, mbps)| Link { mbps }).collect(),
            crossing: meeting.crossing,
        }
    }
}
