//! NVSHMEM: `NVSHMEM_HCA_LIST`, one list for every task of the node, set only to exclude something.
//!
//! Items are exact names with a port; `^` would invert the list.  NVSHMEM skips inactive ports.  Each processing
//! element computes by the same rule which NIC serves which element, so all lists must be equal (NVSHMEM 3.5:
//! src/modules/transport/ibrc, `parse_hca_list`; src/host/transport/transport.cpp; src/host/topo/topo.cpp).
//! The list would make NVSHMEM ignore `NVSHMEM_HCA_PE_MAPPING`, so we set none beside a user's own mapping.
//!
//! The newest source reads the list only beside `NVSHMEM_ENABLE_NIC_PE_MAPPING`
//! (src/modules/transport/common/transport_ib_common.cpp `nvshmemt_ib_common_parse_hca_filter`; 3.4.5 and 3.5.1 do
//! not ask).  With that switch NVSHMEM deals NICs out by number instead of by nearness (transport.cpp), so it does not
//! go with the node's list.  With one NIC in each element's list (`env=nvshmem-pe`) nothing is left to deal, and we set
//! both; that is right if every element has exactly one.
//!
//! A configuration file wins over the environment, and of several the later one: /etc/nvshmem.conf, `.nvshmem.conf` at home,
//! `NVSHMEM_CONF_FILE` (src/include/bootstrap_host_transport/env_defs_internal.h `nvshmemi_conf_get`,
//! `nvshmemi_getenv_helper`; its README, "Configuration file").  What it sets we leave alone, so that the report tells the
//! truth; and where it overrules the user's variable, the report says so.
//!
//! The newest source picks a GID for each port of RoCE, an IPv4 address of version 2 unless the user says otherwise.  It passes
//! a port without one over if no list names it, and fails if the list that it reads does (transport_ib_common.cpp
//! `nvshmemt_ib_common_enumerate_devices`, `ib_get_gid_index`).  So ports without an address are not in the node's list.
//!
//! We leave `NVSHMEM_HCA_PREFIX` alone: its default differs between releases (`mlx5`, later everything but
//! `smi`), so no value is right for all.  A user's own leaves of our list what contains it (3.4.5:
//! src/modules/transport/ibgda/ibgda.cpp `nvshmemt_init`, strstr), so where that is nothing we set no list.
#![forbid(unsafe_code)]

use super::claimed::{Claimed, Grammar, claimed_in, strongest, unless_claimed};
use super::nccl::HOME;
use super::template::names_of;
use super::uniform::List;
use super::wanted::{Libraries, Wanted};
use super::{Answer, Asked, Evidence, ReadFile};
use crate::placement::{NodePlacement, Rail, RailIndex};
use crate::topology::{GpuVendor, LinkLayer, Topology};

pub(super) const HCA_LIST: &str = "NVSHMEM_HCA_LIST";
pub(super) const PE_MAPPING: &str = "NVSHMEM_HCA_PE_MAPPING";
/// Is the list, or the mapping, read at all?
pub(super) const ENABLE_MAPPING: &str = "NVSHMEM_ENABLE_NIC_PE_MAPPING";
/// A part of the names of NICs that GPU-initiated transports take.
pub(super) const PREFIX: &str = "NVSHMEM_HCA_PREFIX";
/// Names a configuration file of the user's.
pub(super) const CONF_FILE: &str = "NVSHMEM_CONF_FILE";

const SITE: &str = "/etc/nvshmem.conf";

/// What all tasks share.
pub(super) struct Shared {
    list: Answer<'static>,
    /// why the site's file keeps us from setting a list
    site: Option<Claimed>,
}

/// The node's list; `None` if no GPU of the node can run NVSHMEM.
pub(super) fn shared(
    topology: &Topology,
    node: &NodePlacement,
    of_node: &List,
    wanted: &Wanted,
    read: ReadFile,
) -> Option<Shared> {
    if !topology.gpus.iter().any(|gpu| gpu.vendor == GpuVendor::Nvidia) {
        return None;
    }
    let list = match of_node {
        List::Needed(list, left_out) => {
            let (list, silent) = with_addresses(topology, node).unwrap_or((list.clone(), String::new()));
            Answer::yes(list, format!("one list for the whole node, without {left_out}{silent}"))
        }
        List::Not(why) => Answer::no(*why),
    };
    let may_be_set = list.value.is_some() || wanted.libraries.has(Libraries::NVSHMEM_PE);
    let is_read = may_be_set || wanted.judges_files && !node.rails.is_empty();
    let site = if is_read { claimed(read, SITE) } else { None };
    Some(Shared { list, site })
}

/// The node's list without rails of RoCE whose interface has no address, and ` and ` with their names; `None` where all have
/// one, or none is known to.
fn with_addresses(topology: &Topology, node: &NodePlacement) -> Option<(String, String)> {
    let has_none = |rail: &&Rail| {
        topology.port(rail.at()).is_some_and(|port| {
            port.link_layer == LinkLayer::Ethernet && port.networks.is_empty() && !port.routes_elsewhere
        })
    };
    let (without, with): (Vec<&Rail>, Vec<&Rail>) = node.rails.iter().partition(has_none);
    if with.is_empty() || without.is_empty() {
        return None;
    }
    let list: Vec<String> = with.iter().map(ToString::to_string).collect();
    let names = names_of(without.iter().map(|rail| rail.name.as_str())).replace(',', " ");
    Some((list.join(","), format!(" and {names} (no address)")))
}

/// Why a file keeps us from setting a list: it has one, or a mapping, which a list would switch off.
fn claimed(read: ReadFile, file: &str) -> Option<Claimed> {
    claimed_in(read, file, &[HCA_LIST, PE_MAPPING], Grammar::Nvshmem)
}

/// The same of the user's own files, which we read with the user's rights.
fn users_file(evidence: &Evidence) -> Option<Claimed> {
    let variable = |name: &str| evidence.present.get(name).filter(|value| !value.is_empty());
    let at_home = variable(HOME).map(|home| format!("{home}/.nvshmem.conf"));
    let files = variable(CONF_FILE).cloned().into_iter().chain(at_home);
    strongest(files.map(|file| claimed(evidence.read, &file)))
}

/// The value that a file gives the list in place of the user's variable, and why that has no effect.
pub(super) fn overruled(name: &str, evidence: &Evidence) -> Option<(String, String)> {
    if name != HCA_LIST {
        return None;
    }
    let claims = strongest([users_file(evidence), claimed(evidence.read, SITE)]);
    let Claimed { why, value, .. } = claims?;
    Some((value?, format!("the user's own value stays, but {why}, which NVSHMEM prefers")))
}

/// The task's one NIC, if that is asked for.
fn own_nic(asked: &Asked<'_, '_>) -> Option<RailIndex> {
    let is_asked_for = asked.prepared.wanted.libraries.has(Libraries::NVSHMEM_PE);
    match asked.task.rails.as_slice() {
        [(rail, _)] if is_asked_for && !asked.task.gpus.is_empty() => Some(*rail),
        _ => None,
    }
}

/// Is this in the name of a NIC that would be listed?
fn leaves_some(asked: &Asked, prefix: &str) -> bool {
    let has = |rail: &Rail| rail.name.contains(prefix);
    match own_nic(asked) {
        Some(rail) => has(asked.node.rail(rail)),
        None => asked.node.rails.iter().any(has),
    }
}

/// The node's list, or on request the task's one NIC.
pub(super) fn hca_list<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let shared = asked.prepared.nvshmem.as_ref()?;
    if asked.users(PE_MAPPING).is_some() {
        return Some(Answer::no("the user's `NVSHMEM_HCA_PE_MAPPING` would be ignored beside it"));
    }
    // a list of what is left out, in the newest source, begins with `^`
    let admits = |prefix: &String| prefix.starts_with('^') || leaves_some(asked, prefix);
    if !asked.users(PREFIX).is_none_or(admits) {
        return Some(Answer::no("the user's `NVSHMEM_HCA_PREFIX` is in no name of these NICs"));
    }
    let answer = match own_nic(asked) {
        Some(rail) => {
            Answer::yes(asked.node.rail(rail).to_string(), "its GPU's NIC, as `env=nvshmem-pe` asks")
        }
        None => shared.list.borrowed(),
    };
    let claim = || strongest([users_file(&asked.evidence), shared.site.clone()]);
    Some(unless_claimed(answer, asked.judges_files(), claim))
}

/// The switch without which the newest releases do not read the task's one NIC.
pub(super) fn enable_mapping<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    own_nic(asked)?;
    let has_one = asked.users(HCA_LIST).is_none() && asked.prepared.is_wanted(HCA_LIST);
    let list = hca_list(asked).filter(|_| has_one)?;
    list.value.map(|_| Answer::yes("1", "the newest releases read `NVSHMEM_HCA_LIST` only beside it"))
}
