//! NCCL and RCCL: `NCCL_IB_HCA`, one exact list for every task of the node, set only to exclude something.
//!
//! NCCL numbers devices by their place in each rank's own list and merges the ranks of a node by that number.
//! So lists that differ between ranks send all traffic through one NIC (src/graph/topo.cc
//! `ncclTopoGetSystem`; NVIDIA/nccl issue 1478: "You should not set NCCL_IB_HCA differently on each rank").
//! With `=` an entry is a whole name; without it `mlx5_1` means `mlx5_10` too.  At most 32 entries
//! (src/misc/utils.cc `parseStringList`).  NCCL skips inactive ports anyway, and network plug-ins
//! (aws-ofi-nccl, on EFA and Slingshot) do not read the list.
//!
//! RCCL recognises machines by their NICs (src/graph/rome_models.cc), and a list can hide the machine's model
//! from it: one more reason to set none unless a NIC must be excluded.
#![forbid(unsafe_code)]

use super::uniform::{self, List};
use super::{Answer, Asked, Evidence, ReadFile};
use crate::placement::NodePlacement;
use crate::topology::{GpuVendor, Topology};

pub(super) const IB_HCA: &str = "NCCL_IB_HCA";
/// Names the user's own configuration file (src/misc/param.cc `initEnv`), instead of the one in the home directory.
pub(super) const CONF_FILE: &str = "NCCL_CONF_FILE";
pub(super) const HOME: &str = "HOME";

/// Entries of the list that NCCL reads (`MAX_IB_DEVS`, src/transport/net_ib/common.h); it ignores the rest.
const MAX_ENTRIES: usize = 32;

/// The sites' configuration files.  NCCL and RCCL read them after the environment and never override it
/// (src/misc/param.cc).
const SITE: [&str; 2] = ["/etc/nccl.conf", "/etc/rccl.conf"];

/// Why a configuration file keeps us from setting the variable; `None` if it does not.  Lines are
/// `NAME=VALUE`, and `#` begins a comment.
///
/// NCCL wants the name at the line's very beginning; we accept white space before it, since the user meant to
/// set it.
pub(super) fn claimed(read: ReadFile, file: &str, variable: &str) -> Option<String> {
    let found = read(file)?;
    let mut names = found.text.lines().filter_map(|line| line.split('#').next()?.split_once('='));
    let file = file.escape_debug();
    if names.any(|(name, _)| name.trim() == variable) {
        return Some(format!("`{file}` sets it"));
    }
    // the library reads the whole file
    found.is_cut.then(|| format!("`{file}` is longer than what is read of it here, and may set it"))
}

/// The value or none, and why: from the node alone, never from the task.
pub(super) fn list(topology: &Topology, node: &NodePlacement, read: ReadFile) -> Answer<'static> {
    if topology.gpus.is_empty() {
        return Answer::no("the node has no GPU");
    }
    let (list, left_out) = match uniform::list(topology, node) {
        List::Needed(list, left_out) => (list, left_out),
        List::Not(why) => return Answer::no(why),
    };
    if node.rails.len() > MAX_ENTRIES {
        let ports = node.rails.len();
        return Answer::no(format!(
            "{ports} ports may be used, and NCCL reads a list of {MAX_ENTRIES} at most"
        ));
    }
    let files = if has_amd(topology) { &SITE[..] } else { &SITE[..1] };
    if let Some(why) = files.iter().find_map(|file| claimed(read, file, IB_HCA)) {
        return Answer::no(why);
    }
    let model = if has_amd(topology) { "; with fewer NICs RCCL may not recognise the machine" } else { "" };
    Answer::yes(format!("={list}"), format!("one list for the whole node, without {left_out}{model}"))
}

/// The node's answer, unless the user's own file sets the variable: NCCL would prefer ours to it.
pub(super) fn ib_hca<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let answer = &asked.prepared.nccl;
    if answer.value.is_some() {
        if let Some(why) = users_file(asked.topology, &asked.evidence) {
            return Some(Answer::no(why));
        }
    }
    Some(answer.borrowed())
}

/// Why the user's configuration file keeps us from setting the variable; we read it with the user's rights.
///
/// NCCL asks the system for the home directory; Slurm puts the same into `HOME`.
fn users_file(topology: &Topology, evidence: &Evidence) -> Option<String> {
    let variable = |name: &str| evidence.present.get(name).filter(|value| !value.is_empty());
    let at_home = |file: &str| variable(HOME).map(|home| format!("{home}/{file}"));
    let nccls = variable(CONF_FILE).cloned().or_else(|| at_home(".nccl.conf"));
    let rccls = at_home(".rccl.conf").filter(|_| has_amd(topology) && variable(CONF_FILE).is_none());
    let mut files = nccls.into_iter().chain(rccls);
    files.find_map(|file| claimed(evidence.read, &file, IB_HCA))
}

fn has_amd(topology: &Topology) -> bool {
    topology.gpus.iter().any(|gpu| gpu.vendor == GpuVendor::Amd)
}
