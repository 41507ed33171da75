//! `UCX_TLS`, UCX's transports: `all`, a list, or after `^` a list of exclusions
//! (src/ucs/config/parser.c `ucs_config_sscanf_allow_list`). A space is part of an item.

use super::super::marked;

/// Transports for messages over RDMA devices, each with its aliases (src/ucp/core/ucp_context.c
/// `ucp_tl_aliases`).
const RDMA: [&[&str]; 5] = [
    &["rc_verbs", "ib", "rc", "rc_v"],
    &["rc_mlx5", "ib", "rc", "rc_x"],
    &["ud_verbs", "ib", "ud", "ud_v"],
    &["ud_mlx5", "ib", "ud", "ud_x"],
    &["dc_mlx5", "ib", "dc", "dc_x"],
];
/// RDMA transports for DPUs, EFA, and GPU-initiated RDMA.
const SPECIAL: [&[&str]; 3] = [&["gga_mlx5", "gga"], &["srd"], &["rc_gda"]];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transports {
    pub rdma: bool,
    pub tcp: bool,
    pub gpu_initiated: Gda,
}

/// `rc_gda`, the transport for GPU-initiated RDMA, in `UCX_TLS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gda {
    Named,
    /// admitted by `all`, a `^` list without it, or the alias `ib` (since 1.21)
    LeftIn,
    RuledOut,
}

const ALL: Transports = Transports {
    rdma: true,
    tcp: true,
    gpu_initiated: Gda::LeftIn,
};

/// An item is a transport, an alias, or `\` and a transport's own name. A suffix `:aux` admits the
/// transport only for setting up connections (src/ucp/core/ucp_context.c
/// `ucp_is_resource_in_transports_list`).
pub fn transports(tls: Option<&str>) -> Transports {
    let Some(value) = tls.filter(|value| !value.is_empty() && *value != "all") else {
        return ALL;
    };
    let (excludes, list) = marked(value, '^');
    let names = |transport: &[&str]| {
        list.split(',').any(|item| match item.strip_prefix('\\') {
            Some(strict) => transport[0] == strict,
            None => transport.contains(&item),
        })
    };
    Transports {
        rdma: if excludes {
            !RDMA.into_iter().all(names)
        } else {
            RDMA.into_iter().chain(SPECIAL).any(names)
        },
        tcp: excludes != names(&["tcp"]),
        gpu_initiated: match (excludes, names(SPECIAL[2])) {
            (false, true) => Gda::Named,
            (excludes, false) if excludes || names(&["", "ib"]) => Gda::LeftIn,
            _ => Gda::RuledOut,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_are_named_ruled_out_and_stood_for_by_words() {
        for (rdma, tcp, values) in [
            (true, true, r"|all|\tcp,\rc_mlx5|^rc_x,ud_x,dc_x|^rc:aux"),
            (true, true, "^cuda"),
            (true, false, "rc, tcp,cuda|ib|ud_x|srd|^tcp|^rc,tcp"),
            (false, true, r"tcp|\rc,tcp|^ib|^rc,ud,dc"),
            (false, false, "sm,self|ud:aux,sm|tcpx"),
        ] {
            for value in values.split('|') {
                let found = transports(Some(value));
                assert_eq!((found.rdma, found.tcp), (rdma, tcp), "`{value}`");
            }
        }
        assert_eq!(transports(None), ALL);
        for (gda, values) in [
            (Gda::Named, "rc,rc_gda,cuda"),
            (Gda::LeftIn, "^cuda_ipc|all|ib"),
            (Gda::RuledOut, r"^rc_gda|rc,cuda|\ib"),
        ] {
            for value in values.split('|') {
                assert_eq!(transports(Some(value)).gpu_initiated, gda, "`{value}`");
            }
        }
    }
}
