//! `UCX_TLS`: which of the transports that use network devices a program leaves to UCX.
//!
//! `all` means all; a list means these alone; `^` before the list means all but these.  An item is a transport, a
//! word that stands for several, or a transport's own name after `\`; `:aux` behind it means only what it needs to
//! make connections.  (UCX: src/ucp/core/ucp_context.c `ucp_tl_aliases`, `ucp_is_resource_in_transports_list`;
//! src/ucs/config/parser.c `ucs_config_sscanf_allow_list`.)
#![forbid(unsafe_code)]

/// A transport over RDMA devices that a program's messages can use, and the words that stand for it among others.
const RDMA: [(&str, &[&str]); 5] = [
    ("rc_verbs", &["ib", "rc", "rc_v"]),
    ("rc_mlx5", &["ib", "rc", "rc_x"]),
    ("ud_verbs", &["ib", "ud", "ud_v"]),
    ("ud_mlx5", &["ib", "ud", "ud_x"]),
    ("dc_mlx5", &["ib", "dc", "dc_x"]),
];
/// Transports over RDMA devices for special uses: on DPUs, on EFA, for GPUs that send by themselves.
const SPECIAL: [(&str, &[&str]); 3] = [("gga_mlx5", &["gga"]), ("srd", &[]), (GPU_INITIATED, &[])];
const TCP: (&str, &[&str]) = ("tcp", &[]);
/// The transport by which GPUs send by themselves.
const GPU_INITIATED: &str = "rc_gda";

/// What is left to UCX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Transports {
    /// transports over RDMA devices
    pub(in super::super) rdma: bool,
    /// tcp
    pub(in super::super) tcp: bool,
    /// is the transport asked for by its own name by which GPUs send by themselves?
    pub(in super::super) gpu_initiated: bool,
}

/// All of them, as UCX has it without a word of the user's.
const ALL: Transports = Transports { rdma: true, tcp: true, gpu_initiated: false };

/// What the variable's value leaves.
pub(in super::super) fn left(variable: Option<&str>) -> Transports {
    let Some(value) = variable.map(str::trim).filter(|value| !value.is_empty() && *value != "all") else {
        return ALL;
    };
    let (negated, list) = value.strip_prefix('^').map_or((false, value), |list| (true, list));
    let names = |(own, words): (&str, &[&str])| {
        list.split(',').map(str::trim).any(|item| match item.strip_prefix('\\') {
            Some(strict) => strict == own,
            None => item == own || words.contains(&item),
        })
    };
    match negated {
        true => Transports { rdma: !RDMA.into_iter().all(names), tcp: !names(TCP), gpu_initiated: false },
        false => Transports {
            rdma: RDMA.into_iter().chain(SPECIAL).any(names),
            tcp: names(TCP),
            gpu_initiated: names((GPU_INITIATED, &[])),
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
            ("rc, tcp,cuda", true, true),
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
            let expected = Transports { rdma, tcp, gpu_initiated: false };
            assert_eq!(left(Some(value)), expected, "`{value}`");
        }
        assert_eq!(left(None), ALL);
        assert!(left(Some("rc,rc_gda,cuda")).gpu_initiated);
        assert!(!left(Some("ib")).gpu_initiated && !left(Some("^rc_gda")).gpu_initiated);
    }
}
