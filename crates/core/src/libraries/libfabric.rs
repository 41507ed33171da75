//! libfabric, on demand (`env=default+libfabric`): the task's own device for the cxi and verbs providers.
//!
//! `FI_CXI_DEVICE_NAME` takes names from `cxi0` to `cxi99`, and is ignored with one wrong name (prov/cxi/src/cxip_info.c
//! `cxip_env_validate_device_name`).  A device counts as named if its name stands anywhere in the value: `cxi10` admits `cxi1`
//! (prov/cxi/src/cxip_if.c, strstr).
//!
//! `FI_VERBS_DEVICE_NAME` takes the beginning of one name, in capitals or not (prov/verbs/src/verbs_info.c `vrb_init_info`).  For
//! MPI's kind of endpoint the provider skips devices whose interface has no IP address (`vrb_device_has_ipoib_addr`), or is not in
//! the user's `FI_VERBS_IFACE` (`vrb_getifaddrs`).
//!
//! This suits MPI libraries that open one device per process, not NCCL's plug-in, which counts the devices of all ranks, nor Cray
//! MPICH's own policy.
#![forbid(unsafe_code)]

use super::uniform::names_of;
use super::wanted::Fabric;
use super::{Answer, Library, Present, Query, marked, works};
use crate::topology::{Gpu, Nic, NicIndex, NicKind, Topology};

pub(super) const LIBRARY: Library = Library {
    name: "libfabric",
    word: WORD,
    variables: &[(CXI_DEVICE, cxi_device), (VERBS_DEVICE, verbs_device)],
    evidence: &[STEP_DEVICES, PROVIDER, VERBS_IFACE],
    doubtful: PROVIDER,
    ..Library::NONE
};

pub(super) const WORD: &str = "libfabric";

fn begins(beginning: &str, name: &str) -> bool {
    name.get(..beginning.len())
        .is_some_and(|own| own.eq_ignore_ascii_case(beginning))
}

/// Cray MPICH's choice of a device.
pub(super) const NIC_POLICY: &str = "MPICH_OFI_NIC_POLICY";
pub(super) const CXI_DEVICE: &str = "FI_CXI_DEVICE_NAME";
/// The devices that Slurm set up for the step (src/plugins/switch/hpe_slingshot).
const STEP_DEVICES: &str = "SLINGSHOT_DEVICES";
const VERBS_DEVICE: &str = "FI_VERBS_DEVICE_NAME";
const VERBS_IFACE: &str = "FI_VERBS_IFACE";
pub(super) const PROVIDER: &str = "FI_PROVIDER";

/// True if `FI_PROVIDER` admits this core provider.  Names match whole, in any case, with their blanks; of
/// `verbs;ofi_rxm` the first part counts, and `^` excludes all names of the list (libfabric 2.5.1: src/fabric.c
/// `ofi_create_filter`, `ofi_apply_prov_init_filter`).
pub(super) fn admits_provider(filter: &str, provider: &str) -> bool {
    let (excludes, names) = marked(filter, '^');
    let core = |name: &str| match name.split_once(';') {
        Some((first, _)) if !excludes => first.eq_ignore_ascii_case(provider),
        _ => name.eq_ignore_ascii_case(provider),
    };
    excludes != names.split(',').any(core)
}

/// A GPU's NIC among those that only libfabric reaches.
pub(super) struct Nearest {
    /// the NIC
    pub(super) nic: NicIndex,
    /// how many GPUs before this one have the same nearest NICs
    pub(super) turn: usize,
    /// is no other NIC as near?
    pub(super) alone: bool,
    /// true if another NIC is as near and is left out
    pub(super) leads_astray: bool,
}

/// Each GPU's nearest NIC of those that may be used; GPUs take equally near ones in turn.
pub(super) fn nearest(
    topology: &Topology,
    usable: &[NicIndex],
    kind: NicKind,
) -> Vec<Option<Nearest>> {
    let is_usable = |nic: &NicIndex| usable.contains(nic);
    let all = || {
        let nics = topology
            .numbered_nics()
            .filter(|(_, nic)| nic.kind == kind && nic.ports.iter().any(works));
        nics.filter_map(|(index, nic)| Some((index, nic.address?)))
    };
    let nics = || all().filter(|(nic, _)| is_usable(nic));
    let mut earlier: Vec<Vec<NicIndex>> = Vec::new();
    let of = |gpu: &Gpu| {
        let path = |address| topology.path_type(gpu.address, address);
        let best = nics().map(|(_, address)| path(address)).min()?;
        let tied = nics().filter(|(_, address)| path(*address) == best);
        let tied: Vec<NicIndex> = tied.map(|(index, _)| index).collect();
        let turn = earlier.iter().filter(|others| **others == tied).count();
        let leads_astray = all().any(|(nic, address)| !is_usable(&nic) && path(address) <= best);
        let nearest = Nearest {
            nic: tied[turn % tied.len()],
            turn,
            alone: tied.len() == 1,
            leads_astray,
        };
        earlier.push(tied);
        Some(nearest)
    };
    topology.gpus.iter().map(of).collect()
}

/// The nearest NIC of all GPUs that the task sees: a library may ask for GPU 0's before the program chooses its GPU.
pub(super) fn of_all<'p>(
    query: &Query,
    nearest: &'p [Option<Nearest>],
    library: &str,
) -> Result<&'p Nearest, Answer> {
    let gpus = &query.task.seen;
    let mut of = gpus.iter().map(|gpu| nearest.get(gpu.0)?.as_ref());
    let first = of.next().flatten();
    let is_shared = |first: &&Nearest| {
        let same = |other: Option<&Nearest>| {
            other.is_some_and(|other| other.alone && other.nic == first.nic)
        };
        gpus.len() == 1 || (first.alone && of.all(same))
    };
    Err(Answer::no(match first.filter(is_shared) {
        _ if query.task.gpus.is_empty() => format!("a task without GPUs is left to {library}"),
        None => format!(
            "its GPUs have several nearest NICs, and {library} may ask before the program chooses one"
        ),
        Some(nearest) if nearest.leads_astray => "a NIC that is left out is as near".to_string(),
        Some(nearest) => return Ok(nearest),
    }))
}

/// True for devices that the step may use: all if Slurm names none.
pub(super) fn is_the_steps(present: &Present) -> impl Fn(&str) -> bool {
    let step = present.get(STEP_DEVICES).filter(|list| !list.is_empty());
    move |name| step.is_none_or(|list| list.split(',').any(|listed| listed == name))
}

/// No answer if the node has no Slingshot NIC.
fn cxi_device(query: &Query) -> Option<Answer> {
    query.nics_of(NicKind::Slingshot).next()?;
    let nearest = query
        .task
        .gpus
        .iter()
        .filter_map(|&gpu| query.prepared.slingshot.get(gpu.0)?.as_ref());
    let names = names_of(nearest.map(|nearest| &query.topology.nic(nearest.nic).name));
    let is_named = |name: &str| names.split(',').any(|named| named == name);
    let mut others = query
        .nics_of(NicKind::Slingshot)
        .filter(|nic| !is_named(&nic.name));
    Some(Answer::yes(&*names, ON_REQUEST).unless(&[
        (
            query.users(NIC_POLICY).is_some(),
            "the user's `MPICH_OFI_NIC_POLICY` chooses the device",
        ),
        (
            query.prepared.wish.admin.fabric == Fabric::IsolatedRails,
            ISOLATED,
        ),
        (names.is_empty(), "the task has no GPU with a Slingshot NIC"),
        (
            !names.split(',').all(is_the_steps(query.evidence.present)),
            "`SLINGSHOT_DEVICES`, the step's devices, does not have the nearest one",
        ),
        (
            others.any(|nic| names.contains(nic.name.as_str())),
            "libfabric would take it for another NIC too, whose name is a part of this one's",
        ),
    ]))
}

const ISOLATED: &str = "the fabric's rails are isolated, so no task may be held to its own";
const ON_REQUEST: &str = "its GPU's NIC, as `env=libfabric` asks";

/// No answer if the node has no verbs device.
fn verbs_device(query: &Query) -> Option<Answer> {
    let verbs = || query.nics_of(NicKind::Verbs);
    verbs().next()?;
    let name = names_of(
        query
            .task
            .rails
            .iter()
            .map(|(rail, _)| &query.node.rail(*rail).name),
    );
    let has_address = |nic: &Nic| nic.ports.iter().any(|port| !port.networks.is_empty());
    Some(Answer::yes(&*name, ON_REQUEST).unless(&[
        (
            query.prepared.wish.admin.fabric == Fabric::IsolatedRails,
            ISOLATED,
        ),
        (
            query.task.gpus.is_empty() || name.is_empty(),
            "the task has no GPU with a NIC",
        ),
        (
            query.users(VERBS_IFACE).is_some(),
            "the user's `FI_VERBS_IFACE` chooses the device",
        ),
        // a comma would be a part of the name
        (
            name.contains(','),
            "it takes one name, and the task has several NICs",
        ),
        (
            verbs().any(|nic| nic.name != *name && begins(&name, &nic.name)),
            "it takes names by their beginning, and this one begins another NIC's too",
        ),
        (
            verbs().any(has_address) && verbs().any(|nic| nic.name == *name && !has_address(nic)),
            "its interface has no IP address, and libfabric skips such a device",
        ),
    ]))
}
