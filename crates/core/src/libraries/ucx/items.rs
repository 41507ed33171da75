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

/// The transport for GPU-initiated RDMA, `rc_gda`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gda {
    Named,
    /// not excluded, or listed by its alias `ib` (since 1.21)
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
        for (value, rdma, tcp) in [
            ("", true, true),
            ("all", true, true),
            ("tcp", false, true),
            ("rc, tcp,cuda", true, false),
            (r"\tcp,\rc_mlx5", true, true),
            (r"\rc,tcp", false, true),
            ("ib", true, false),
            ("sm,self", false, false),
            ("ud_x", true, false),
            ("ud:aux,sm", false, false),
            ("srd", true, false),
            ("tcpx", false, false),
            ("^tcp", true, false),
            ("^ib", false, true),
            ("^rc,tcp", true, false),
            ("^rc,ud,dc", false, true),
            ("^rc_x,ud_x,dc_x", true, true),
            ("^rc:aux", true, true),
            ("^cuda", true, true),
        ] {
            let found = transports(Some(value));
            assert_eq!((found.rdma, found.tcp), (rdma, tcp), "`{value}`");
        }
        assert_eq!(transports(None), ALL);
        for (value, gda) in [
            ("rc,rc_gda,cuda", Gda::Named),
            ("^cuda_ipc", Gda::LeftIn),
            ("all", Gda::LeftIn),
            ("ib", Gda::LeftIn),
            ("^rc_gda", Gda::RuledOut),
            ("rc,cuda", Gda::RuledOut),
            (r"\ib", Gda::RuledOut),
        ] {
            assert_eq!(transports(Some(value)).gpu_initiated, gda, "`{value}`");
        }
    }
}
