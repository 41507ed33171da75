//! The lists of NICs that libraries read: by each library's grammar, which ports of a node a list admits.
#![forbid(unsafe_code)]

use crate::placement::Rail;
use crate::topology::{Nic, NicIndex, NicKind, Port, PortState, Topology};

/// A variable that tells a library which NICs it may use.
pub struct List {
    /// its name
    pub variable: &'static str,
    /// the library that reads it
    pub reader: &'static str,
    /// the NICs that it is about
    pub kind: NicKind,
    /// what the library makes of the NICs that it admits
    pub use_of: UseOf,
    /// is a list that admits every NIC as good as none?  Not if we would have left NICs out of ours
    pub is_idle_where_it_admits_all: bool,
    admits: fn(&str, &Nic, &Port) -> bool,
}

/// What a library does with the NICs that its list admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseOf {
    /// it uses all of them
    All,
    /// it uses those that are best for each GPU
    Nearest,
}

/// All of them, each with the source of its rule.
pub const LISTS: [List; 6] = [
    // `[^]name:port,...`, whole names; since 1.21 a name alone means its port (src/ucp/core/ucp_context.c).  The nearest of
    // them for each GPU's memory: one lane for small messages, for large ones also the next if it gives a quarter of that at
    // least, which a NIC behind another socket does not (src/ucs/sys/topo/base/topo.c `ucs_topo_get_distance_sysfs`;
    // src/ucp/wireup/select.c; `UCX_MAX_RNDV_RAILS`, `UCX_MULTI_LANE_MAX_RATIO`)
    List {
        variable: "UCX_NET_DEVICES",
        reader: "UCX",
        kind: NicKind::Verbs,
        use_of: UseOf::Nearest,
        is_idle_where_it_admits_all: true,
        admits: ucx,
    },
    // src/misc/utils.cc, `parseStringList` and `matchIfList`; the best of them for each GPU:
    // src/graph/topo.cc, `ncclTopoGetLocal`
    List {
        variable: "NCCL_IB_HCA",
        reader: "NCCL",
        kind: NicKind::Verbs,
        use_of: UseOf::Nearest,
        is_idle_where_it_admits_all: false,
        admits: nccl,
    },
    // `[^]name[:port],...`, whole names (src/modules/transport/ibrc/ibrc.cpp); the nearest of them for each
    // processing element (src/host/topo/topo.cpp)
    List {
        variable: "NVSHMEM_HCA_LIST",
        reader: "NVSHMEM",
        kind: NicKind::Verbs,
        use_of: UseOf::Nearest,
        is_idle_where_it_admits_all: false,
        admits: negatable,
    },
    // names without ports (mooncake-transfer-engine/src/topology.cpp)
    List {
        variable: "MC_TE_FILTERS",
        reader: "Mooncake",
        kind: NicKind::Verbs,
        use_of: UseOf::Nearest,
        is_idle_where_it_admits_all: false,
        admits: |list, nic, _| entries(list).any(|entry| nic.name == entry.trim()),
    },
    // one beginning of a name, in capitals or not (prov/verbs/src/verbs_info.c, `vrb_init_info`)
    List {
        variable: "FI_VERBS_DEVICE_NAME",
        reader: "libfabric",
        kind: NicKind::Verbs,
        use_of: UseOf::All,
        is_idle_where_it_admits_all: true,
        admits: |list, nic, _| {
            nic.name.get(..list.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(list))
        },
    },
    // a device whose name stands anywhere in the value (prov/cxi/src/cxip_if.c `cxip_query_if_list`, strstr); a value with an
    // entry that can be no name of a device is ignored (prov/cxi/src/cxip_info.c `cxip_env_validate_device_name`)
    List {
        variable: "FI_CXI_DEVICE_NAME",
        reader: "libfabric",
        kind: NicKind::Slingshot,
        use_of: UseOf::All,
        is_idle_where_it_admits_all: true,
        admits: |list, nic, _| {
            let is_read = list.split(',').filter(|entry| !entry.is_empty()).all(is_cxi);
            !is_read || list.contains(nic.name.as_str())
        },
    },
];

/// A port that a list admits.
#[derive(Clone, Copy)]
pub struct Admitted<'t> {
    /// its NIC
    pub nic: NicIndex,
    /// itself
    pub port: &'t Port,
}

impl Admitted<'_> {
    /// The port as the map's rails are written.
    pub fn rail(&self, topology: &Topology) -> Rail {
        let name = topology.nic(self.nic).name.clone();
        Rail { nic: self.nic, name, port: self.port.number, rate_mbps: self.port.rate_mbps }
    }
}

impl List {
    /// The ports that a value admits and that can carry anything: the libraries skip those that are down.
    pub fn admitted<'t>(&self, value: &str, topology: &'t Topology) -> Vec<Admitted<'t>> {
        self.working(topology)
            .filter(|Admitted { nic, port }| (self.admits)(value, topology.nic(*nic), port))
            .collect()
    }

    /// Does it name IP interfaces alone?  Only UCX's list is one of interfaces too; a name without a port that is no NIC's is
    /// taken for one.
    pub fn names_interfaces_alone(&self, value: &str, topology: &Topology) -> bool {
        let is_interface =
            |entry: &str| !entry.contains(':') && !topology.nics.iter().any(|nic| nic.name == entry);
        self.reader == "UCX" && !value.starts_with('^') && entries(value).all(is_interface)
    }

    /// How many ports the library would find without a list.
    pub fn found_without(&self, topology: &Topology) -> usize {
        self.working(topology).count()
    }

    fn working<'t>(&self, topology: &'t Topology) -> impl Iterator<Item = Admitted<'t>> {
        let nics = topology.numbered_nics().filter(|(_, nic)| nic.kind == self.kind);
        let ports = nics.flat_map(|(nic, of)| of.ports.iter().map(move |port| Admitted { nic, port }));
        ports.filter(|admitted| matches!(admitted.port.state, PortState::Active | PortState::Unknown))
    }
}

/// A space is a part of an entry: none of UCX (src/ucs/config/parser.c, `ucs_config_sscanf_array`), NCCL and NVSHMEM takes
/// it away.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|entry| !entry.is_empty())
}

/// The number at the beginning of a text, as C's `atoi` reads it.
fn atoi(text: &str) -> i64 {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (minus, digits) =
        text.strip_prefix('-').map_or((1, text.strip_prefix('+').unwrap_or(text)), |rest| (-1, rest));
    let digits = &digits[..digits.bytes().take_while(u8::is_ascii_digit).count()];
    minus * digits.parse().unwrap_or(0)
}

/// `cxi0` to `cxi99` (`cxip_env_validate_device_token`).
fn is_cxi(entry: &str) -> bool {
    let number = entry.strip_prefix("cxi").filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    number.is_some_and(|number| number.len() == 1 || number.len() == 2 && !number.starts_with('0'))
}

/// `name` or `name:port` as NCCL and NVSHMEM read it: -1 is any port, and what follows a number is no part of it.
fn is_port_by_atoi(entry: &str, port: &Port, is_name: impl Fn(&str) -> bool) -> bool {
    let (name, number) = entry.split_once(':').map_or((entry, -1), |(name, number)| (name, atoi(number)));
    is_name(name) && [-1, port.number.into()].contains(&number)
}

/// `name` or `name:port`; what follows the port is no part of it.
fn is_port(entry: &str, port: &Port, is_name: impl Fn(&str) -> bool) -> bool {
    let mut fields = entry.split(':');
    let is_nic = fields.next().is_some_and(is_name);
    is_nic && fields.next().is_none_or(|number| number.parse() == Ok(port.number))
}

fn negatable(list: &str, nic: &Nic, port: &Port) -> bool {
    let (without, rest) = list.strip_prefix('^').map_or((false, list), |rest| (true, rest));
    without != entries(rest).any(|entry| is_port_by_atoi(entry, port, |name| nic.name == name))
}

/// `all`, or `[^]name[:port],...`, since 1.22 with ranges as `mlx5_[0-3]:1`.
///
/// `all` counts as the first entry, with `^` before it too; elsewhere it is a name that no device has
/// (src/ucs/config/parser.c `ucs_config_sscanf_allow_list_impl`, `ucs_config_array_expand_range`).
fn ucx(list: &str, nic: &Nic, port: &Port) -> bool {
    let (without, rest) = list.strip_prefix('^').map_or((false, list), |rest| (true, rest));
    // a user's list may have tens of thousands of entries
    let whole = format!("{}:{}", nic.name, port.number);
    let is_it = |entry: &str| {
        is_port(entry, port, |name| nic.name == name)
            || is_in_range(entry, &whole)
            || is_in_range(entry, &nic.name)
    };
    entries(rest).next() == Some("all") || without != entries(rest).any(is_it)
}

/// Is the name one of `BEGINNING[FIRST-LAST]END`?
fn is_in_range(entry: &str, name: &str) -> bool {
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let parts = || {
        let (beginning, rest) = entry.split_once('[')?;
        let (range, end) = rest.split_once(']')?;
        let (first, last) = range.split_once('-')?;
        let own = name.strip_prefix(beginning)?.strip_suffix(end)?;
        let is_written_so = own == "0" || !own.starts_with('0');
        Some(is_written_so && (number(first)?..=number(last)?).contains(&number(own)?))
    };
    parts().unwrap_or(false)
}

/// `[^][=]name[:port],...`; without `=` a name is the beginning of one; a list without an entry admits everything.
fn nccl(list: &str, nic: &Nic, port: &Port) -> bool {
    let (without, rest) = list.strip_prefix('^').map_or((false, list), |rest| (true, rest));
    let (exact, rest) = rest.strip_prefix('=').map_or((false, rest), |rest| (true, rest));
    let is_name = |name: &str| if exact { nic.name == name } else { nic.name.starts_with(name) };
    let admits_all = entries(rest).next().is_none();
    without != (admits_all || entries(rest).any(|entry| is_port_by_atoi(entry, port, is_name)))
}

#[cfg(test)]
mod tests {
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
        let list = LISTS.iter().find(|list| list.variable == variable).unwrap();
        let ports = list.admitted(value, &topology);
        ports.iter().map(|admitted| admitted.rail(&topology).to_string()).collect()
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
        assert!(is_in_range("mlx5_[0-3]", "mlx5_0") && !is_in_range("mlx5_[0-3]", "mlx5_01"));
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
