//! A variable that lists NICs: which ports of a node it admits, by its library's grammar.

use nic_placement_core::placement::Rail;
use nic_placement_core::topology::{Nic, NicIndex, NicKind, Port, PortState, Topology};

pub struct List {
    pub variable: &'static str,
    pub kind: NicKind,
    /// true if the library uses all that it admits, else the best for each GPU
    pub uses_all: bool,
    /// true if a list that admits every NIC is as good as none, unless ours would leave NICs out
    pub is_idle_where_it_admits_all: bool,
    pub admits: fn(&str, &Nic, &Port) -> bool,
}

impl List {
    const fn nearest(variable: &'static str, admits: fn(&str, &Nic, &Port) -> bool) -> List {
        List {
            variable,
            kind: NicKind::Verbs,
            uses_all: false,
            is_idle_where_it_admits_all: false,
            admits,
        }
    }

    /// The ports that a value admits: libraries skip those that are down.
    pub fn admitted(&self, value: &str, node: &Topology) -> Vec<Rail> {
        self.working(node)
            .filter(|(nic, port): &(NicIndex, &Port)| (self.admits)(value, node.nic(*nic), port))
            .map(|(nic, port)| Rail {
                nic,
                name: node.nic(nic).name.clone(),
                port: port.number,
                rate_mbps: port.rate_mbps,
            })
            .collect()
    }

    pub fn found_without(&self, node: &Topology) -> usize {
        self.working(node).count()
    }

    fn working<'t>(&self, node: &'t Topology) -> impl Iterator<Item = (NicIndex, &'t Port)> {
        let ports = node
            .numbered_nics()
            .filter(|(_, nic)| nic.kind == self.kind)
            .flat_map(|(nic, of)| of.ports.iter().map(move |port| (nic, port)));
        ports.filter(|(_, port)| matches!(port.state, PortState::Active | PortState::Unknown))
    }
}

pub const LISTS: [(&str, List); 7] = [
    ("UCX", UCX),
    // the best of them for each GPU (src/graph/topo.cc, `ncclTopoGetLocal`)
    ("NCCL", List::nearest("NCCL_IB_HCA", is_of_nccl)),
    // the nearest of them for each processing element (src/host/topo/topo.cpp)
    ("NVSHMEM", List::nearest("NVSHMEM_HCA_LIST", is_of_nvshmem)),
    ("libfabric", VERBS),
    ("libfabric", CXI),
    ("Mooncake", List::nearest("MC_TE_FILTERS", is_named)),
    (
        "UCCL",
        List {
            uses_all: true,
            ..List::nearest("UCCL_P2P_RDMA_DEV", is_named)
        },
    ),
];

/// The nearest devices for each GPU's memory: one lane for small messages, for large ones another
/// that gives a quarter of it, which a NIC behind another socket does not
/// (src/ucs/sys/topo/base/topo.c `ucs_topo_get_distance_sysfs`; src/ucp/wireup/select.c;
/// `UCX_MAX_RNDV_RAILS`, `UCX_MULTI_LANE_MAX_RATIO`).
const UCX: List = List {
    is_idle_where_it_admits_all: true,
    ..List::nearest("UCX_NET_DEVICES", is_of_ucx)
};

/// `all`, or `[^]name[:port],...`, whole names, since 1.22 with ranges as `mlx5_[0-3]:1`; since 1.21 a name alone means its
/// port (src/ucp/core/ucp_context.c).
///
/// `all` counts as the first entry, with `^` before it too; elsewhere it is a name that no device has
/// (src/ucs/config/parser.c `ucs_config_sscanf_allow_list_impl`, `ucs_config_array_expand_range`).
fn is_of_ucx(list: &str, nic: &Nic, port: &Port) -> bool {
    let (excludes, rest) = marked(list, '^');
    // a user's list may have tens of thousands of entries
    let full = format!("{}:{}", nic.name, port.number);
    let is_it = |entry: &str| {
        is_port(entry, nic, port) || is_in_range(entry, &full) || is_in_range(entry, &nic.name)
    };
    entries(rest).next() == Some("all") || excludes != entries(rest).any(is_it)
}

/// `name` or `name:port`; what follows the port is no part of it.
fn is_port(entry: &str, nic: &Nic, port: &Port) -> bool {
    let mut fields = entry.split(':');
    let is_name = fields.next().is_some_and(|name| nic.name == name);
    let mut number = fields.take(1);
    is_name && number.all(|number| number.parse() == Ok(port.number))
}

/// Is the name one of `BEGINNING[FIRST-LAST]END`?
fn is_in_range(entry: &str, name: &str) -> bool {
    let number = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| text.parse::<u64>().ok())?
    };
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

/// `[^][=]name[:port[:rail[:plane]]],...`, the last two and an empty port since 2.30.7.  `^` excludes, with `=` a name is a whole
/// one, without it the beginning of one: `mlx5_1` means `mlx5_10` too (src/misc/utils.cc, `parseStringList`, `matchIfList`).
pub(super) struct NameList<'l> {
    pub(super) excludes: bool,
    is_exact: bool,
    pub(super) entries: &'l str,
}

impl NameList<'_> {
    pub(super) fn new(value: &str) -> NameList<'_> {
        let (excludes, rest) = marked(value, '^');
        let (is_exact, entries) = marked(rest, '=');
        NameList {
            excludes,
            is_exact,
            entries,
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries
            .split(',')
            .filter_map(|entry| entry.split(':').next())
    }

    pub(super) fn means(&self, name: &str, device: &str) -> bool {
        if self.is_exact {
            device == name
        } else {
            device.starts_with(name)
        }
    }
}

/// A list without an entry admits everything.
fn is_of_nccl(value: &str, nic: &Nic, port: &Port) -> bool {
    let list = NameList::new(value);
    let is_port = |entry: &str| match entry.split_once("::") {
        Some((name, _)) => list.means(name, &nic.name),
        None => is_port_by_atoi(entry, port, |name| list.means(name, &nic.name)),
    };
    let is_empty = entries(list.entries).next().is_none();
    list.excludes != (is_empty || entries(list.entries).any(is_port))
}

/// `[^]name[:port],...`, whole names (src/modules/transport/ibrc/ibrc.cpp).
fn is_of_nvshmem(list: &str, nic: &Nic, port: &Port) -> bool {
    let (excludes, rest) = marked(list, '^');
    excludes != entries(rest).any(|entry| is_port_by_atoi(entry, port, |name| nic.name == name))
}

const VERBS: List = List {
    uses_all: true,
    is_idle_where_it_admits_all: true,
    ..List::nearest("FI_VERBS_DEVICE_NAME", |beginning, nic, _| {
        begins(beginning, &nic.name)
    })
};

const CXI: List = List {
    kind: NicKind::Slingshot,
    uses_all: true,
    is_idle_where_it_admits_all: true,
    ..List::nearest("FI_CXI_DEVICE_NAME", |value, nic, _| {
        let is_read = entries(value).all(is_cxi);
        !is_read || value.contains(nic.name.as_str())
    })
};

/// `cxi0` to `cxi99` (`cxip_env_validate_device_token`).
fn is_cxi(entry: &str) -> bool {
    matches!(
        entry.strip_prefix("cxi").map(str::as_bytes),
        Some([b'0'..=b'9'] | [b'1'..=b'9', b'0'..=b'9'])
    )
}

pub(super) fn begins(beginning: &str, name: &str) -> bool {
    let own = name.get(..beginning.len());
    own.is_some_and(|own| own.eq_ignore_ascii_case(beginning))
}

/// A space is a part of an entry to UCX (src/ucs/config/parser.c, `ucs_config_sscanf_array`), NCCL and NVSHMEM.
pub(super) fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|entry| !entry.is_empty())
}

fn is_named(list: &str, nic: &Nic, _: &Port) -> bool {
    entries(list).any(|entry| nic.name == entry.trim())
}

fn marked(value: &str, mark: char) -> (bool, &str) {
    value
        .strip_prefix(mark)
        .map_or((false, value), |rest| (true, rest))
}

/// `name` or `name:port` as NCCL and NVSHMEM read it: -1 is any port, and what follows a number is no part of it.
fn is_port_by_atoi(entry: &str, port: &Port, is_name: impl Fn(&str) -> bool) -> bool {
    let (name, number) = entry
        .split_once(':')
        .map_or((entry, -1), |(name, number)| (name, atoi(number)));
    is_name(name) && [-1, port.number.into()].contains(&number)
}

fn atoi(text: &str) -> i64 {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = &digits[..digits.bytes().take_while(u8::is_ascii_digit).count()];
    let number: i64 = digits.parse().unwrap_or(0);
    if text.starts_with('-') {
        -number
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic_placement_core::topology::{LinkLayer, Provenance};

    /// The names of ports that a value admits, of `mlx5_1` with two ports, `mlx5_10`, `mlx5_2` without a link, and `cxi1`.
    fn admitted(variable: &str, value: &str) -> Vec<String> {
        let mut node = Topology::empty("test", Provenance::ThisSystem);
        for (name, kind, ports) in [
            (
                "mlx5_1",
                NicKind::Verbs,
                &[PortState::Active, PortState::Active][..],
            ),
            ("mlx5_10", NicKind::Verbs, &[PortState::Active]),
            ("mlx5_2", NicKind::Verbs, &[PortState::Down]),
            ("cxi1", NicKind::Slingshot, &[PortState::Unknown]),
        ] {
            let ports = (1..)
                .zip(ports)
                .map(|(number, state)| Port::new(number, *state, LinkLayer::Ethernet, None));
            node.nics.push(Nic {
                ports: ports.collect(),
                ..Nic::new(name.parse().unwrap(), kind)
            });
        }
        let (_, list) = LISTS
            .into_iter()
            .find(|(_, list)| list.variable == variable)
            .unwrap();
        let ports = list.admitted(value, &node);
        ports.iter().map(Rail::to_string).collect()
    }

    #[test]
    fn ucx_takes_whole_names_and_all_but_those_behind_a_caret() {
        assert_eq!(admitted("UCX_NET_DEVICES", "mlx5_1:1,eth0"), ["mlx5_1:1"]);
        assert_eq!(
            admitted("UCX_NET_DEVICES", "mlx5_1"),
            ["mlx5_1:1", "mlx5_1:2"],
            "UCX 1.21"
        );
        assert_eq!(
            admitted("UCX_NET_DEVICES", "^mlx5_1:1"),
            ["mlx5_1:2", "mlx5_10:1"]
        );
        assert_eq!(
            admitted("UCX_NET_DEVICES", "all"),
            ["mlx5_1:1", "mlx5_1:2", "mlx5_10:1"]
        );
        assert_eq!(
            admitted("UCX_NET_DEVICES", "eth0,all"),
            [""; 0],
            "there it is a name"
        );
        assert_eq!(
            admitted("UCX_NET_DEVICES", "mlx5_2:1"),
            Vec::<String>::new(),
            "its link is down"
        );
        assert_eq!(admitted("UCX_NET_DEVICES", "eth0"), Vec::<String>::new());
    }

    #[test]
    fn a_space_is_a_part_of_the_name_for_ucx_nccl_and_nvshmem() {
        assert_eq!(
            admitted("UCX_NET_DEVICES", "mlx5_1:1, mlx5_10:1"),
            ["mlx5_1:1"]
        );
        assert_eq!(
            admitted("UCX_NET_DEVICES", " ^mlx5_1:1"),
            [""; 0],
            "no caret, but a name"
        );
        assert_eq!(admitted("UCX_NET_DEVICES", " all"), [""; 0]);
        assert_eq!(
            admitted("NCCL_IB_HCA", "=mlx5_1:2, mlx5_10:1"),
            ["mlx5_1:2"]
        );
        assert_eq!(
            admitted("NCCL_IB_HCA", "=mlx5_1: 2 ,mlx5_10:-1"),
            ["mlx5_1:2", "mlx5_10:1"],
            "atoi"
        );
        assert_eq!(
            admitted("NCCL_IB_HCA", "=mlx5_1:-1"),
            ["mlx5_1:1", "mlx5_1:2"],
            "any port"
        );
        assert_eq!(
            admitted("NCCL_IB_HCA", "=mlx5_1:2:0:1"),
            ["mlx5_1:2"],
            "a rail and a plane"
        );
        assert_eq!(
            admitted("NCCL_IB_HCA", "=mlx5_1::0"),
            ["mlx5_1:1", "mlx5_1:2"],
            "since 2.30.7"
        );
        assert_eq!(
            admitted("NVSHMEM_HCA_LIST", "mlx5_10:1,mlx5_1 "),
            ["mlx5_10:1"]
        );
        assert_eq!(admitted("MC_TE_FILTERS", "mlx5_10, mlx5_1").len(), 3);
    }

    #[test]
    fn ucx_has_ranges_of_numbers() {
        assert_eq!(admitted("UCX_NET_DEVICES", "mlx5_[0-3]:1"), ["mlx5_1:1"]);
        assert_eq!(admitted("UCX_NET_DEVICES", "mlx5_[9-12]"), ["mlx5_10:1"]);
        assert_eq!(
            admitted("UCX_NET_DEVICES", "mlx5_1:[1-2]"),
            ["mlx5_1:1", "mlx5_1:2"]
        );
        assert_eq!(
            admitted("UCX_NET_DEVICES", "^mlx5_[0-3]:1,mlx5_10:1"),
            ["mlx5_1:2"]
        );
        for none in [
            "mlx5_[3-0]:1",
            "mlx5_[0-]:1",
            "mlx5_[-1]:1",
            "mlx5_[0-9",
            "[1-99999999999999999999]",
        ] {
            assert_eq!(admitted("UCX_NET_DEVICES", none), [""; 0], "{none}");
        }
    }

    #[test]
    fn nccl_takes_beginnings_of_names_unless_they_are_called_whole() {
        assert_eq!(
            admitted("NCCL_IB_HCA", "mlx5_1"),
            ["mlx5_1:1", "mlx5_1:2", "mlx5_10:1"]
        );
        assert_eq!(admitted("NCCL_IB_HCA", "=mlx5_1"), ["mlx5_1:1", "mlx5_1:2"]);
        assert_eq!(admitted("NCCL_IB_HCA", "=mlx5_1:2"), ["mlx5_1:2"]);
        assert_eq!(
            admitted("NCCL_IB_HCA", "mlx5_1:1:0:0"),
            ["mlx5_1:1", "mlx5_10:1"],
            "rail and plane"
        );
        assert_eq!(
            admitted("NCCL_IB_HCA", "^mlx5_10"),
            ["mlx5_1:1", "mlx5_1:2"]
        );
        assert_eq!(admitted("NCCL_IB_HCA", "^=mlx5_1"), ["mlx5_10:1"]);
        assert_eq!(
            admitted("NCCL_IB_HCA", "=").len(),
            3,
            "an empty list is no filter"
        );
        assert_eq!(admitted("NCCL_IB_HCA", "^"), Vec::<String>::new());
    }

    #[test]
    fn the_others_have_their_own_rules() {
        assert_eq!(admitted("NVSHMEM_HCA_LIST", "mlx5_1:2"), ["mlx5_1:2"]);
        assert_eq!(admitted("NVSHMEM_HCA_LIST", "^mlx5_1"), ["mlx5_10:1"]);
        assert_eq!(
            admitted("MC_TE_FILTERS", "mlx5_1, mlx5_2"),
            ["mlx5_1:1", "mlx5_1:2"]
        );
        assert_eq!(admitted("FI_VERBS_DEVICE_NAME", "MLX5_1").len(), 3);
        assert_eq!(
            admitted("FI_VERBS_DEVICE_NAME", "mlx5_1,mlx5_10").len(),
            0,
            "it is no list"
        );
        assert_eq!(admitted("FI_CXI_DEVICE_NAME", "cxi1"), ["cxi1:1"]);
    }

    #[test]
    fn libfabric_takes_a_cxi_device_whose_name_stands_anywhere_in_the_value() {
        assert_eq!(admitted("FI_CXI_DEVICE_NAME", "cxi10"), ["cxi1:1"]);
        assert_eq!(admitted("FI_CXI_DEVICE_NAME", "cxi0,cxi2"), [""; 0]);
        assert_eq!(admitted("FI_CXI_DEVICE_NAME", "cxi20"), [""; 0]);
        for ignored in ["cxi0,hsn1", "cxi0, cxi2", "cxi00", "cxi100", "cxi200"] {
            assert_eq!(
                admitted("FI_CXI_DEVICE_NAME", ignored),
                ["cxi1:1"],
                "{ignored}"
            );
        }
    }

    #[test]
    fn a_number_in_a_range_has_no_zeros_before_it() {
        assert!(is_in_range("mlx5_[0-3]", "mlx5_0") && !is_in_range("mlx5_[0-3]", "mlx5_01"));
    }

    #[test]
    fn the_lists_are_those_whose_nics_no_strict_word_judges() {
        let own = LISTS.map(|(_, list)| list.variable);
        assert_eq!(own, nic_placement_core::libraries::LISTS);
    }
}
