//! A variable that lists NICs: which ports of a node it admits, by its library's grammar.

use nic_placement_core::placement::Rail;
use nic_placement_core::topology::{Nic, NicIndex, NicKind, Port, PortState, Topology};

type Admits = fn(&str, &Nic, &Port) -> bool;

pub struct List {
    pub library: &'static str,
    pub variable: &'static str,
    pub kind: NicKind,
    /// true if the library uses all that it admits, else the best for each GPU
    pub uses_all: bool,
    /// true if a list that admits every NIC is as good as none, unless ours would leave NICs out
    pub is_idle_where_it_admits_all: bool,
    pub admits: Admits,
}

impl List {
    /// A list of verbs devices, of which the library uses the nearest to each GPU.
    const fn nearest(library: &'static str, variable: &'static str, admits: Admits) -> List {
        List {
            library,
            variable,
            kind: NicKind::Verbs,
            uses_all: false,
            is_idle_where_it_admits_all: false,
            admits,
        }
    }

    const fn all(library: &'static str, variable: &'static str, admits: Admits) -> List {
        List {
            uses_all: true,
            ..List::nearest(library, variable, admits)
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

pub const LISTS: [List; 7] = [
    // the nearest devices for each GPU's memory: one lane for small messages, for large ones another that gives a quarter of
    // it, which a NIC behind another socket does not (src/ucs/sys/topo/base/topo.c `ucs_topo_get_distance_sysfs`;
    // src/ucp/wireup/select.c; `UCX_MAX_RNDV_RAILS`, `UCX_MULTI_LANE_MAX_RATIO`)
    List {
        is_idle_where_it_admits_all: true,
        ..List::nearest("UCX", UCX, is_of_ucx)
    },
    // the best of them for each GPU (src/graph/topo.cc, `ncclTopoGetLocal`)
    List::nearest("NCCL", NCCL, is_of_nccl),
    // the nearest of them for each processing element (src/host/topo/topo.cpp)
    List::nearest("NVSHMEM", "NVSHMEM_HCA_LIST", is_of_nvshmem),
    List {
        is_idle_where_it_admits_all: true,
        ..List::all("libfabric", "FI_VERBS_DEVICE_NAME", |beginning, nic, _| {
            begins(beginning, &nic.name)
        })
    },
    List {
        kind: NicKind::Slingshot,
        is_idle_where_it_admits_all: true,
        ..List::all("libfabric", "FI_CXI_DEVICE_NAME", |value, nic, _| {
            !entries(value).all(is_cxi) || value.contains(nic.name.as_str())
        })
    },
    List::nearest("Mooncake", "MC_TE_FILTERS", is_named),
    List::all("UCCL", "UCCL_P2P_RDMA_DEV", is_named),
];

pub(super) const UCX: &str = "UCX_NET_DEVICES";
pub(super) const NCCL: &str = "NCCL_IB_HCA";

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
/// A list without an entry admits everything.
fn is_of_nccl(value: &str, nic: &Nic, port: &Port) -> bool {
    let (excludes, rest) = marked(value, '^');
    let (is_exact, list) = marked(rest, '=');
    let is_name = |name: &str| match is_exact {
        true => nic.name == name,
        false => nic.name.starts_with(name),
    };
    let is_port = |entry: &str| match entry.split_once("::") {
        Some((name, _)) => is_name(name),
        None => is_port_by_atoi(entry, port, is_name),
    };
    excludes != (entries(list).next().is_none() || entries(list).any(is_port))
}

/// `[^]name[:port],...`, whole names (src/modules/transport/ibrc/ibrc.cpp).
fn is_of_nvshmem(list: &str, nic: &Nic, port: &Port) -> bool {
    let (excludes, rest) = marked(list, '^');
    excludes != entries(rest).any(|entry| is_port_by_atoi(entry, port, |name| nic.name == name))
}

/// `cxi0` to `cxi99` (`cxip_env_validate_device_token`).
fn is_cxi(entry: &str) -> bool {
    let number = entry.strip_prefix("cxi").map(str::parse);
    number.is_some_and(|number| number.is_ok_and(|number: u8| number < 100))
}

pub(super) fn begins(beginning: &str, name: &str) -> bool {
    let own = name.get(..beginning.len());
    own.is_some_and(|own| own.eq_ignore_ascii_case(beginning))
}

/// A space is a part of an entry to UCX (src/ucs/config/parser.c, `ucs_config_sscanf_array`), NCCL and NVSHMEM.
pub(super) fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|entry| !entry.is_empty())
}

/// Names without ports, with white space around them taken away.
fn is_named(list: &str, nic: &Nic, _: &Port) -> bool {
    entries(list).any(|entry| nic.name == entry.trim())
}

pub(super) fn marked(value: &str, mark: char) -> (bool, &str) {
    value
        .strip_prefix(mark)
        .map_or((false, value), |rest| (true, rest))
}

/// `name` or `name:port`, where -1 is any port; what follows that is no part of it.
fn is_port_by_atoi(entry: &str, port: &Port, is_name: impl Fn(&str) -> bool) -> bool {
    let mut fields = entry.split(':');
    let is_name = fields.next().is_some_and(is_name);
    // as C's atoi(3), for which a text without a number is 0
    let number = fields
        .next()
        .map(|number| number.trim().parse().unwrap_or(0));
    is_name && number.is_none_or(|number: i64| [-1, port.number.into()].contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic_placement_core::topology::{LinkLayer, Provenance};

    /// The ports that a value admits, of `mlx5_1` with two ports, `mlx5_10`, `mlx5_2` without a link, and `cxi1`.
    fn admitted(variable: &str, value: &str) -> String {
        use PortState::{Active, Down, Unknown};
        let mut node = Topology::empty("test", Provenance::ThisSystem);
        for (name, kind, states) in [
            ("mlx5_1", NicKind::Verbs, &[Active, Active][..]),
            ("mlx5_10", NicKind::Verbs, &[Active]),
            ("mlx5_2", NicKind::Verbs, &[Down]),
            ("cxi1", NicKind::Slingshot, &[Unknown]),
        ] {
            let port = |(number, state): (u8, &PortState)| {
                Port::new(number, *state, LinkLayer::Ethernet, None)
            };
            node.nics.push(Nic {
                ports: (1..).zip(states).map(port).collect(),
                ..Nic::new(name.parse().unwrap(), kind)
            });
        }
        let mut lists = LISTS.into_iter();
        let list = lists.find(|list| list.variable == variable).unwrap();
        let ports = list.admitted(value, &node);
        let ports: Vec<String> = ports.iter().map(Rail::to_string).collect();
        ports.join(" ")
    }

    #[test]
    fn ucx_takes_whole_names_and_ranges_and_all_but_those_behind_a_caret() {
        for (list, expected) in [
            ("mlx5_1:1,eth0", "mlx5_1:1"),
            // UCX 1.21
            ("mlx5_1", "mlx5_1:1 mlx5_1:2"),
            ("^mlx5_1:1", "mlx5_1:2 mlx5_10:1"),
            ("all", "mlx5_1:1 mlx5_1:2 mlx5_10:1"),
            // a space is a part of the name
            ("mlx5_1:1, mlx5_10:1", "mlx5_1:1"),
            ("mlx5_[0-3]:1", "mlx5_1:1"),
            ("mlx5_[9-12]", "mlx5_10:1"),
            ("mlx5_1:[1-2]", "mlx5_1:1 mlx5_1:2"),
            ("^mlx5_[0-3]:1,mlx5_10:1", "mlx5_1:2"),
        ] {
            assert_eq!(admitted("UCX_NET_DEVICES", list), expected, "`{list}`");
        }
        // `all` behind another is a name, the link of `mlx5_2` is down, and a space before a caret is one too
        let none = "eth0,all|mlx5_2:1|eth0| ^mlx5_1:1| all|mlx5_[3-0]:1|mlx5_[0-]:1|mlx5_[-1]:1|\
                    mlx5_[0-9|[1-99999999999999999999]";
        for list in none.split('|') {
            assert_eq!(admitted("UCX_NET_DEVICES", list), "", "`{list}`");
        }
        assert!(is_in_range("mlx5_[0-3]", "mlx5_0") && !is_in_range("mlx5_[0-3]", "mlx5_01"));
    }

    #[test]
    fn nccl_takes_beginnings_of_names_unless_they_are_called_whole() {
        let (both, all) = ("mlx5_1:1 mlx5_1:2", "mlx5_1:1 mlx5_1:2 mlx5_10:1");
        for (list, expected) in [
            ("mlx5_1", all),
            ("=mlx5_1", both),
            ("=mlx5_1:2", "mlx5_1:2"),
            // rail and plane
            ("mlx5_1:1:0:0", "mlx5_1:1 mlx5_10:1"),
            ("=mlx5_1:2:0:1", "mlx5_1:2"),
            // since 2.30.7
            ("=mlx5_1::0", both),
            ("^mlx5_10", both),
            ("^=mlx5_1", "mlx5_10:1"),
            // an empty list is no filter
            ("=", all),
            ("^", ""),
            ("=mlx5_1:2, mlx5_10:1", "mlx5_1:2"),
            // as atoi(3) reads
            ("=mlx5_1: 2 ,mlx5_10:-1", "mlx5_1:2 mlx5_10:1"),
            // any port
            ("=mlx5_1:-1", both),
        ] {
            assert_eq!(admitted("NCCL_IB_HCA", list), expected, "`{list}`");
        }
    }

    #[test]
    fn the_others_have_their_own_rules() {
        let (both, all) = ("mlx5_1:1 mlx5_1:2", "mlx5_1:1 mlx5_1:2 mlx5_10:1");
        for (name, list, expected) in [
            ("NVSHMEM_HCA_LIST", "mlx5_1:2", "mlx5_1:2"),
            ("NVSHMEM_HCA_LIST", "^mlx5_1", "mlx5_10:1"),
            ("NVSHMEM_HCA_LIST", "mlx5_10:1,mlx5_1 ", "mlx5_10:1"),
            ("MC_TE_FILTERS", "mlx5_1, mlx5_2", both),
            ("MC_TE_FILTERS", "mlx5_10, mlx5_1", all),
            ("FI_VERBS_DEVICE_NAME", "MLX5_1", all),
            // it is no list
            ("FI_VERBS_DEVICE_NAME", "mlx5_1,mlx5_10", ""),
        ] {
            assert_eq!(admitted(name, list), expected, "{name}={list}");
        }
        // a device whose name stands anywhere in the value; libfabric ignores the last four
        let none = ["cxi0,cxi2", "cxi20"].map(|list| admitted("FI_CXI_DEVICE_NAME", list));
        assert_eq!(none, [""; 2]);
        for list in "cxi1|cxi10|cxi0,hsn1|cxi0, cxi2|cxi100|cxi200".split('|') {
            assert_eq!(admitted("FI_CXI_DEVICE_NAME", list), "cxi1:1", "{list}");
        }
    }

    #[test]
    fn the_lists_are_those_whose_nics_no_strict_word_judges() {
        let own = LISTS.map(|list| list.variable);
        assert_eq!(own, nic_placement_core::libraries::LISTS);
    }
}
