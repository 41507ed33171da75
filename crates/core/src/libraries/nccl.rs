//! NCCL and RCCL: `NCCL_IB_HCA`, one exact list for every task of the node, set only to exclude something.
//!
//! NCCL numbers devices by their place in each rank's own list and merges the ranks of a node by that number.
//! So lists that differ between ranks send all traffic through one NIC (src/graph/topo.cc
//! `ncclTopoGetSystem`; NVIDIA/nccl issue 1478: "You should not set NCCL_IB_HCA differently on each rank").
//! With `=` an entry is a whole name; without it `mlx5_1` means `mlx5_10` too.  At most 32 entries
//! (src/misc/utils.cc `parseStringList`).  NCCL skips inactive ports anyway, and network plug-ins
//! (aws-ofi-nccl, on EFA and Slingshot) do not read the list.
//!
//! Where a NIC reaches its own rail alone, `NCCL_CROSS_NIC=0` keeps each connection on one: NCCL cannot see what the
//! fabric connects, and its documents name this value for rails that are not connected (src/graph/search.cc
//! `ncclTopoCompute`; "Environment Variables", NCCL_CROSS_NIC).  It is the same in every task.
//!
//! Known limits: before 2.5.6 NCCL does not know `=`, and before 2.18.5 it looks at 16 devices at most.
//!
//! NCCL fails where `NCCL_NET_FORCE_MERGE` names a NIC that the list leaves out (since 2.24: src/graph/topo.cc
//! `ncclTopoForceMerge`), so then we set none.
//!
//! RCCL recognises machines by their NICs (src/graph/rome_models.cc), and a list can hide the machine's model
//! from it: one more reason to set none unless a NIC must be excluded.
#![forbid(unsafe_code)]

use super::claimed::{Claimed, Grammar, claimed_in, strongest, unless_claimed};
use super::uniform::{self, List};
use super::wanted::Fabric;
use super::{Answer, Asked, Evidence, ReadFile};
use crate::placement::NodePlacement;
use crate::topology::{GpuVendor, Topology};

pub(super) const IB_HCA: &str = "NCCL_IB_HCA";
/// Names the user's own configuration file (src/misc/param.cc `initEnv`), instead of the one in the home directory.
pub(super) const CONF_FILE: &str = "NCCL_CONF_FILE";
/// May a connection enter and leave a node by different NICs?
pub(super) const CROSS_NIC: &str = "NCCL_CROSS_NIC";
/// Groups of NICs that are to be one: `a,b;c,d`, whole names, each with or without a port.
pub(super) const FORCE_MERGE: &str = "NCCL_NET_FORCE_MERGE";
pub(super) const HOME: &str = "HOME";

/// Entries of the list that NCCL reads (`MAX_IB_DEVS`, src/transport/net_ib/common.h); it ignores the rest.
const MAX_ENTRIES: usize = 32;

/// The sites' configuration files.  NCCL and RCCL read them after the user's and never override what is set
/// (src/misc/param.cc `initEnvFunc`, `ncclOsSetEnv`).
const SITE: [&str; 2] = ["/etc/nccl.conf", "/etc/rccl.conf"];

/// What all tasks share of a variable.
pub(super) struct Shared {
    /// the answer where no file gives one
    pub(super) answer: Answer<'static>,
    /// what the site's files say, if the answer has a value or it is to be told what NCCL will use
    site: Option<Claimed>,
    /// what they say of groups of NICs, if a list would be set
    merged: Option<Claimed>,
}

/// What a file of NCCL's says of a variable.
fn claimed(read: ReadFile, file: &str, variable: &str) -> Option<Claimed> {
    claimed_in(read, file, &[variable], Grammar::Nccl)
}

/// The value or none, and why: from the node alone, never from the task.
pub(super) fn list(
    topology: &Topology,
    node: &NodePlacement,
    of_node: &List,
    judges_files: bool,
    read: ReadFile,
) -> Shared {
    let answer = list_without_files(topology, node, of_node);
    let is_read = answer.value.is_some() || judges_files && !node.rails.is_empty();
    let merged = answer.value.as_ref().and_then(|_| sites_file(topology, read, FORCE_MERGE));
    Shared { site: if is_read { sites_file(topology, read, IB_HCA) } else { None }, merged, answer }
}

fn list_without_files(topology: &Topology, node: &NodePlacement, of_node: &List) -> Answer<'static> {
    if topology.gpus.is_empty() {
        return Answer::no("the node has no GPU");
    }
    let (list, left_out) = match of_node {
        List::Needed(list, left_out) => (list, left_out),
        List::Not(why) => return Answer::no(*why),
    };
    if node.rails.len() > MAX_ENTRIES {
        let ports = node.rails.len();
        return Answer::no(format!(
            "{ports} ports may be used, and NCCL reads a list of {MAX_ENTRIES} at most"
        ));
    }
    let model = if has_amd(topology) { "; with fewer NICs RCCL may not recognise the machine" } else { "" };
    Answer::yes(format!("={list}"), format!("one list for the whole node, without {left_out}{model}"))
}

/// What a fabric of isolated rails needs; no answer on another.
pub(super) fn rails_alone(
    topology: &Topology,
    node: &NodePlacement,
    fabric: Fabric,
    read: ReadFile,
) -> Option<Shared> {
    if fabric != Fabric::IsolatedRails || topology.gpus.is_empty() || node.rails.is_empty() {
        return None;
    }
    let answer = Answer::yes("0", "the fabric's rails are isolated, so no connection may change them");
    Some(Shared { answer, site: sites_file(topology, read, CROSS_NIC), merged: None })
}

/// The same for every task, unless a file sets it.
pub(super) fn cross_nic<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    Some(unless_in_files(asked, asked.prepared.rails_alone.as_ref()?, CROSS_NIC))
}

/// What the site's configuration files say of a variable.
fn sites_file(topology: &Topology, read: ReadFile, name: &str) -> Option<Claimed> {
    let files = if has_amd(topology) { &SITE[..] } else { &SITE[..1] };
    strongest(files.iter().map(|file| claimed(read, file, name)))
}

/// The node's answer, unless a file sets the variable, or NCCL would miss a NIC.
pub(super) fn ib_hca<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let answer = unless_in_files(asked, &asked.prepared.nccl, IB_HCA);
    let missed = answer.value.as_ref().and_then(|_| merged_though_left_out(asked));
    Some(match missed {
        Some(name) => Answer::no(format!("`{FORCE_MERGE}` names {name}, without which NCCL would fail")),
        None => answer,
    })
}

/// The first NIC of a group that is to be one, and that the list leaves out.
fn merged_though_left_out(asked: &Asked) -> Option<String> {
    let Asked { prepared, topology, node, evidence, .. } = asked;
    let in_files = || {
        let claims = [users_file(topology, evidence, FORCE_MERGE), prepared.nccl.merged.clone()];
        strongest(claims).and_then(|claimed| claimed.value)
    };
    let groups = evidence.present.get(FORCE_MERGE).cloned().or_else(in_files)?;
    let names = groups.split([';', ',']).filter_map(|entry| entry.split(':').next());
    // NCCL's name for the other way to a NIC (src/transport/net_ib/init.cc, `Data Direct`)
    let mut names = names.map(|name| name.strip_suffix("_dma").unwrap_or(name));
    let is_left_out = |name: &&str| {
        uniform::left_out(topology, node).any(|(_, nic)| nic.name == *name)
            && node.rails.iter().all(|rail| rail.name != *name)
    };
    names.find(is_left_out).map(str::to_string)
}

/// The answer, unless a file sets the variable: NCCL would prefer ours to it.  The user's file counts more than the site's.
fn unless_in_files<'p>(asked: &Asked<'p, '_>, shared: &'p Shared, name: &str) -> Answer<'p> {
    unless_claimed(shared.answer.borrowed(), asked.judges_files(), || {
        strongest([users_file(asked.topology, &asked.evidence, name), shared.site.clone()])
    })
}

/// What the user's configuration files say of the variable; we read them with the user's rights.
///
/// RCCL of before NCCL 2.23 does not know `NCCL_CONF_FILE`, and reads its own file whatever that says.  Up to 2.29 NCCL asks the system for the home directory, then `HOME`, into which Slurm puts the same.
fn users_file(topology: &Topology, evidence: &Evidence, name: &str) -> Option<Claimed> {
    let variable = |name: &str| evidence.present.get(name).filter(|value| !value.is_empty());
    let at_home = |file: &str| variable(HOME).map(|home| format!("{home}/{file}"));
    let nccls = variable(CONF_FILE).cloned().or_else(|| at_home(".nccl.conf"));
    let rccls = at_home(".rccl.conf").filter(|_| has_amd(topology));
    strongest(nccls.into_iter().chain(rccls).map(|file| claimed(evidence.read, &file, name)))
}

fn has_amd(topology: &Topology) -> bool {
    topology.gpus.iter().any(|gpu| gpu.vendor == GpuVendor::Amd)
}
