//! UCX's list of transports, `UCX_TLS`: `all` means all, a list means these alone, `^` before the list means all but these
//! (src/ucs/config/parser.c `ucs_config_sscanf_allow_list`).  A space is a part of an item.
#![forbid(unsafe_code)]

use super::super::marked;

/// Transports over RDMA devices that a program's messages can use, and behind each the words that stand for it among others
/// (src/ucp/core/ucp_context.c `ucp_tl_aliases`).
const RDMA: [&[&str]; 5] = [
    &["rc_verbs", "ib", "rc", "rc_v"],
    &["rc_mlx5", "ib", "rc", "rc_x"],
    &["ud_verbs", "ib", "ud", "ud_v"],
    &["ud_mlx5", "ib", "ud", "ud_x"],
    &["dc_mlx5", "ib", "dc", "dc_x"],
];
/// Transports over RDMA devices for special uses: on DPUs, on EFA, for GPUs that send by themselves.
const SPECIAL: [&[&str]; 3] = [&["gga_mlx5", "gga"], &["srd"], &[GPU_INITIATED]];
const GPU_INITIATED: &str = "rc_gda";

/// Which of the transports that use network devices a program leaves to UCX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transports {
    /// transports over RDMA devices
    pub(super) rdma: bool,
    pub(super) tcp: bool,
    pub(super) gpu_initiated: Gda,
}

/// What becomes of `rc_gda`, by which GPUs send by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gda {
    /// the value names it
    Named,
    /// the value does not rule it out; `ib` stands for it too, from 1.21 on
    LeftIn,
    RuledOut,
}

/// All of them, as UCX has it without a word of the user's.
const ALL: Transports = Transports {
    rdma: true,
    tcp: true,
    gpu_initiated: Gda::LeftIn,
};

/// What `UCX_TLS` leaves.
///
/// An item is a transport, a word that stands for several, or a transport's own name after `\`; `:aux` behind it means only
/// what it needs to make connections (src/ucp/core/ucp_context.c `ucp_is_resource_in_transports_list`).
pub(super) fn transports(tls: Option<&str>) -> Transports {
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
    let has_rdma = match excludes {
        true => !RDMA.into_iter().all(names),
        false => RDMA.into_iter().chain(SPECIAL).any(names),
    };
    Transports {
        rdma: has_rdma,
        tcp: excludes != names(&["tcp"]),
        gpu_initiated: match (excludes, names(SPECIAL[2])) {
            (false, true) => Gda::Named,
            (true, false) => Gda::LeftIn,
            (false, false) if names(&["", "ib"]) => Gda::LeftIn,
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
