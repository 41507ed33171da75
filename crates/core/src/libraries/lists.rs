//! A variable that lists NICs: which ports of a node it admits, by its library's grammar.
#![forbid(unsafe_code)]

use crate::placement::Rail;
use crate::topology::{Nic, NicIndex, NicKind, Port, PortState, Topology};

/// A variable that tells a library which NICs it may use.
pub struct List {
    /// its name
    pub variable: &'static str,
    /// the NICs that it is about
    pub kind: NicKind,
    /// does the library use all that it admits?  Else it uses those that are best for each GPU
    pub uses_all: bool,
    /// is a list that admits every NIC as good as none?  Not if we would have left NICs out of ours
    pub is_idle_where_it_admits_all: bool,
    /// may it name IP interfaces too?  A name without a port that is no NIC's is taken for one
    pub has_interfaces: bool,
    /// does a value admit this port?
    pub admits: fn(&str, &Nic, &Port) -> bool,
}

impl List {
    /// A list of verbs devices, of which the library uses the nearest to each GPU.
    pub(super) const fn nearest(variable: &'static str, admits: fn(&str, &Nic, &Port) -> bool) -> List {
        List {
            variable,
            kind: NicKind::Verbs,
            uses_all: false,
            is_idle_where_it_admits_all: false,
            has_interfaces: false,
            admits,
        }
    }

    /// The ports that a value admits: libraries skip those that are down.
    pub fn admitted(&self, value: &str, topology: &Topology) -> Vec<Rail> {
        let admits = |(nic, port): &(NicIndex, &Port)| (self.admits)(value, topology.nic(*nic), port);
        let rail = |(nic, port): (NicIndex, &Port)| Rail {
            nic,
            name: topology.nic(nic).name.clone(),
            port: port.number,
            rate_mbps: port.rate_mbps,
        };
        self.working(topology).filter(admits).map(rail).collect()
    }

    /// Does a value name IP interfaces alone?
    pub(super) fn names_interfaces_alone(&self, value: &str, topology: &Topology) -> bool {
        let is_interface =
            |entry: &str| !entry.contains(':') && !topology.nics.iter().any(|nic| nic.name == entry);
        self.has_interfaces && !value.starts_with('^') && entries(value).all(is_interface)
    }

    /// How many ports the library would find without a list.
    pub fn found_without(&self, topology: &Topology) -> usize {
        self.working(topology).count()
    }

    fn working<'t>(&self, topology: &'t Topology) -> impl Iterator<Item = (NicIndex, &'t Port)> {
        let nics = topology.numbered_nics().filter(|(_, nic)| nic.kind == self.kind);
        let ports = nics.flat_map(|(nic, of)| of.ports.iter().map(move |port| (nic, port)));
        ports.filter(|(_, port)| works(port))
    }
}

/// Can a port carry anything, as far as is known?
pub(super) fn works(port: &Port) -> bool {
    matches!(port.state, PortState::Active | PortState::Unknown)
}

/// A space is a part of an entry to UCX (src/ucs/config/parser.c, `ucs_config_sscanf_array`), NCCL and NVSHMEM.
pub fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|entry| !entry.is_empty())
}

/// Names without ports, with white space around them taken away.
pub(super) fn is_named(list: &str, nic: &Nic, _: &Port) -> bool {
    entries(list).any(|entry| nic.name == entry.trim())
}

/// Is there a mark before a value, and what follows it?
pub(super) fn marked(value: &str, mark: char) -> (bool, &str) {
    value.strip_prefix(mark).map_or((false, value), |rest| (true, rest))
}

/// `name` or `name:port` as NCCL and NVSHMEM read it: -1 is any port, and what follows a number is no part of it.
pub(super) fn is_port_by_atoi(entry: &str, port: &Port, is_name: impl Fn(&str) -> bool) -> bool {
    let (name, number) = entry.split_once(':').map_or((entry, -1), |(name, number)| (name, atoi(number)));
    is_name(name) && [-1, port.number.into()].contains(&number)
}

/// The number at the beginning of a text, as C's `atoi` reads it.
fn atoi(text: &str) -> i64 {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (minus, digits) =
        text.strip_prefix('-').map_or((1, text.strip_prefix('+').unwrap_or(text)), |rest| (-1, rest));
    let digits = &digits[..digits.bytes().take_while(u8::is_ascii_digit).count()];
    minus * digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::LIBRARIES;
    use super::*;
    use crate::topology::{LinkLayer, Provenance};

    /// The names of ports that a value admits, of `mlx5_1` with two ports, `mlx5_10`, `mlx5_2` without a link, and `cxi1`.
    fn admitted(variable: &str, value: &str) -> Vec<String> {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        for (name, kind, ports) in [
            ("mlx5_1", NicKind::Verbs, &[PortState::Active, PortState::Active][..]),
            ("mlx5_10", NicKind::Verbs, &[PortState::Active]),
            ("mlx5_2", NicKind::Verbs, &[PortState::Down]),
            ("cxi1", NicKind::Slingshot, &[PortState::Unknown]),
        ] {
            let ports =
                (1..).zip(ports).map(|(number, state)| Port::new(number, *state, LinkLayer::Ethernet, None));
            topology.nics.push(Nic { ports: ports.collect(), ..Nic::new(name.parse().unwrap(), kind) });
        }
        let list = LIBRARIES
            .iter()
            .flat_map(|library| library.lists)
            .find(|list| list.variable == variable)
            .unwrap();
        let ports = list.admitted(value, &topology);
        ports.iter().map(Rail::to_string).collect()
    }

    #[test]
    fn ucx_takes_whole_names_and_all_but_those_behind_a_caret() {
        assert_eq!(admitted("UCX_NET_DEVICES", "mlx5_1:1,eth0"), ["mlx5_1:1"]);
        assert_eq!(admitted("UCX_NET_DEVICES", "mlx5_1"), ["mlx5_1:1", "mlx5_1:2"], "UCX 1.21");
        assert_eq!(admitted("UCX_NET_DEVICES", "^mlx5_1:1"), ["mlx5_1:2", "mlx5_10:1"]);
        assert_eq!(admitted("UCX_NET_DEVICES", "all"), ["mlx5_1:1", "mlx5_1:2", "mlx5_10:1"]);
        assert_eq!(admitted("UCX_NET_DEVICES", "eth0,all"), [""; 0], "there it is a name");
        assert_eq!(admitted("UCX_NET_DEVICES", "mlx5_2:1"), Vec::<String>::new(), "its link is down");
        assert_eq!(admitted("UCX_NET_DEVICES", "eth0"), Vec::<String>::new());
    }

    #[test]
    fn a_space_is_a_part_of_the_name_for_ucx_nccl_and_nvshmem() {
        assert_eq!(admitted("UCX_NET_DEVICES", "mlx5_1:1, mlx5_10:1"), ["mlx5_1:1"]);
        assert_eq!(admitted("UCX_NET_DEVICES", " ^mlx5_1:1"), [""; 0], "no caret, but a name");
        assert_eq!(admitted("UCX_NET_DEVICES", " all"), [""; 0]);
        assert_eq!(admitted("NCCL_IB_HCA", "=mlx5_1:2, mlx5_10:1"), ["mlx5_1:2"]);
        assert_eq!(admitted("NCCL_IB_HCA", "=mlx5_1: 2 ,mlx5_10:-1"), ["mlx5_1:2", "mlx5_10:1"], "atoi");
        assert_eq!(admitted("NCCL_IB_HCA", "=mlx5_1:-1"), ["mlx5_1:1", "mlx5_1:2"], "any port");
        assert_eq!(admitted("NCCL_IB_HCA", "=mlx5_1:2:0:1"), ["mlx5_1:2"], "a rail and a plane");
        assert_eq!(admitted("NCCL_IB_HCA", "=mlx5_1::0"), ["mlx5_1:1", "mlx5_1:2"], "since 2.30.7");
        assert_eq!(admitted("NVSHMEM_HCA_LIST", "mlx5_10:1,mlx5_1 "), ["mlx5_10:1"]);
        assert_eq!(admitted("MC_TE_FILTERS", "mlx5_10, mlx5_1").len(), 3);
    }

    #[test]
    fn ucx_has_ranges_of_numbers() {
        assert_eq!(admitted("UCX_NET_DEVICES", "mlx5_[0-3]:1"), ["mlx5_1:1"]);
        assert_eq!(admitted("UCX_NET_DEVICES", "mlx5_[9-12]"), ["mlx5_10:1"]);
        assert_eq!(admitted("UCX_NET_DEVICES", "mlx5_1:[1-2]"), ["mlx5_1:1", "mlx5_1:2"]);
        assert_eq!(admitted("UCX_NET_DEVICES", "^mlx5_[0-3]:1,mlx5_10:1"), ["mlx5_1:2"]);
        for none in ["mlx5_[3-0]:1", "mlx5_[0-]:1", "mlx5_[-1]:1", "mlx5_[0-9", "[1-99999999999999999999]"] {
            assert_eq!(admitted("UCX_NET_DEVICES", none), [""; 0], "{none}");
        }
    }

    #[test]
    fn nccl_takes_beginnings_of_names_unless_they_are_called_whole() {
        assert_eq!(admitted("NCCL_IB_HCA", "mlx5_1"), ["mlx5_1:1", "mlx5_1:2", "mlx5_10:1"]);
        assert_eq!(admitted("NCCL_IB_HCA", "=mlx5_1"), ["mlx5_1:1", "mlx5_1:2"]);
        assert_eq!(admitted("NCCL_IB_HCA", "=mlx5_1:2"), ["mlx5_1:2"]);
        assert_eq!(admitted("NCCL_IB_HCA", "mlx5_1:1:0:0"), ["mlx5_1:1", "mlx5_10:1"], "rail and plane");
        assert_eq!(admitted("NCCL_IB_HCA", "^mlx5_10"), ["mlx5_1:1", "mlx5_1:2"]);
        assert_eq!(admitted("NCCL_IB_HCA", "^=mlx5_1"), ["mlx5_10:1"]);
        assert_eq!(admitted("NCCL_IB_HCA", "=").len(), 3, "an empty list is no filter");
        assert_eq!(admitted("NCCL_IB_HCA", "^"), Vec::<String>::new());
    }

    #[test]
    fn the_others_have_their_own_rules() {
        assert_eq!(admitted("NVSHMEM_HCA_LIST", "mlx5_1:2"), ["mlx5_1:2"]);
        assert_eq!(admitted("NVSHMEM_HCA_LIST", "^mlx5_1"), ["mlx5_10:1"]);
        assert_eq!(admitted("MC_TE_FILTERS", "mlx5_1, mlx5_2"), ["mlx5_1:1", "mlx5_1:2"]);
        assert_eq!(admitted("FI_VERBS_DEVICE_NAME", "MLX5_1").len(), 3);
        assert_eq!(admitted("FI_VERBS_DEVICE_NAME", "mlx5_1,mlx5_10").len(), 0, "it is no list");
        assert_eq!(admitted("FI_CXI_DEVICE_NAME", "cxi1"), ["cxi1:1"]);
    }

    #[test]
    fn libfabric_takes_a_cxi_device_whose_name_stands_anywhere_in_the_value() {
        assert_eq!(admitted("FI_CXI_DEVICE_NAME", "cxi10"), ["cxi1:1"]);
        assert_eq!(admitted("FI_CXI_DEVICE_NAME", "cxi0,cxi2"), [""; 0]);
        assert_eq!(admitted("FI_CXI_DEVICE_NAME", "cxi20"), [""; 0]);
        for ignored in ["cxi0,hsn1", "cxi0, cxi2", "cxi00", "cxi100", "cxi200"] {
            assert_eq!(admitted("FI_CXI_DEVICE_NAME", ignored), ["cxi1:1"], "{ignored}");
        }
    }
}
