//! `env=default+libfabric`: the task's device for libfabric's cxi and verbs providers.
//!
//! `FI_CXI_DEVICE_NAME` lists names from `cxi0` to `cxi99`. One wrong name voids the list
//! (prov/cxi/src/cxip_info.c `cxip_env_validate_device_name`). The provider searches a device's
//! name in the whole value, so `cxi10` admits `cxi1` (prov/cxi/src/cxip_if.c, strstr).
//!
//! `FI_VERBS_DEVICE_NAME` is a prefix of a device's name, from libfabric 2.6 a list of prefixes,
//! ignoring case (prov/verbs/src/verbs_info.c `vrb_init_info`). For MPI's endpoints (FI_EP_MSG) the
//! provider skips devices whose interface has no IP address (`vrb_device_has_ipoib_addr`), or is
//! not in `FI_VERBS_IFACE` (`vrb_getifaddrs`).
//!
//! A device per task suits an MPI that opens one per process. It does not suit NCCL's plug-in,
//! which counts all ranks' devices, nor Cray MPICH, which has its own policy.

use super::{Answer, Library, Present, Query, marked, works};
use super::{files::non_empty, uniform::names_of};
use crate::topology::{Gpu, GpuIndex, Nic, NicIndex, NicKind, Topology};

pub const LIBRARY: Library = Library {
    name: "libfabric",
    word: WORD,
    variables: &[
        (CXI_DEVICE, cxi_device),
        ("FI_VERBS_DEVICE_NAME", verbs_device),
    ],
    evidence: &[STEP_DEVICES, PROVIDER, "FI_VERBS_IFACE"],
    doubtful: PROVIDER,
    ..Library::NONE
};

pub const WORD: &str = "libfabric";

pub const NIC_POLICY: &str = "MPICH_OFI_NIC_POLICY";
pub const CXI_DEVICE: &str = "FI_CXI_DEVICE_NAME";
/// The step's devices (Slurm's src/plugins/switch/hpe_slingshot).
const STEP_DEVICES: &str = "SLINGSHOT_DEVICES";
pub const PROVIDER: &str = "FI_PROVIDER";

/// True if `filter` (`FI_PROVIDER`) admits the core provider. A leading `^` excludes the listed
/// names; without `^`, `verbs;ofi_rxm` means `verbs`. Names match as a whole, blanks included,
/// ignoring case (libfabric 2.5.1: src/fabric.c `ofi_create_filter`, `ofi_apply_prov_init_filter`).
pub fn admits_provider(filter: &str, provider: &str) -> bool {
    let (excludes, names) = marked(filter, '^');
    let core = |name: &str| {
        let core = name.split(';').next().filter(|_| !excludes);
        core.unwrap_or(name).eq_ignore_ascii_case(provider)
    };
    excludes != names.split(',').any(core)
}

pub(super) struct Nearest {
    pub nic: NicIndex,
    /// count of earlier GPUs with the same nearest NICs
    pub turn: usize,
    /// true if no other usable NIC is as near
    pub alone: bool,
    /// true if an unusable NIC is as near or nearer
    pub leads_astray: bool,
}

/// Each GPU's nearest usable NIC; GPUs with the same nearest NICs take turns.
pub fn nearest(node: &Topology, usable: &[NicIndex], kind: NicKind) -> Vec<Option<Nearest>> {
    let works = |nic: &Nic| nic.kind == kind && nic.ports.iter().any(works);
    let mut earlier: Vec<Vec<NicIndex>> = Vec::new();
    let of = |gpu: &Gpu| {
        let path = |nic: &Nic| Some(node.path_type(gpu.address, nic.address?));
        let nics = node.numbered_nics().filter(|(_, nic)| works(nic));
        let paths = nics.filter_map(|(index, nic)| Some((index, path(nic)?)));
        let (near, others): (Vec<_>, Vec<_>) = paths.partition(|(nic, _)| usable.contains(nic));
        let best = near.iter().map(|(_, path)| *path).min()?;
        let tied = near.iter().filter(|(_, path)| *path == best);
        let tied: Vec<NicIndex> = tied.map(|(nic, _)| *nic).collect();
        let turn = earlier.iter().filter(|others| **others == tied).count();
        let nearest = Nearest {
            nic: tied[turn % tied.len()],
            turn,
            alone: tied.len() == 1,
            leads_astray: others.iter().any(|(_, path)| *path <= best),
        };
        earlier.push(tied);
        Some(nearest)
    };
    node.gpus.iter().map(of).collect()
}

/// The NIC nearest to all GPUs that the task sees; else an error, since a library may take GPU 0's
/// NIC before the program chooses its GPU.
pub fn of_all<'p>(
    query: &Query,
    nearest: &'p [Option<Nearest>],
    library: &str,
) -> Result<&'p Nearest, Answer> {
    let gpus = &query.task.seen;
    let mut of = gpus.iter().map(|gpu| nearest.get(gpu.0)?.as_ref());
    let first = of.next().flatten();
    let is_shared = |first: &&Nearest| {
        let is_same = |other: &Nearest| other.alone && other.nic == first.nic;
        gpus.len() == 1 || (first.alone && of.all(|other| other.is_some_and(is_same)))
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

/// True for the step's devices: all, unless Slurm lists some.
pub fn is_the_steps(present: &Present) -> impl Fn(&str) -> bool {
    let step = non_empty(present, STEP_DEVICES);
    move |name| step.is_none_or(|list| list.split(',').any(|listed| listed == name))
}

/// `None` without Slingshot NICs.
fn cxi_device(query: &Query) -> Option<Answer> {
    let slingshot = || query.nics_of(NicKind::Slingshot);
    slingshot().next()?;
    let nearest = |gpu: &GpuIndex| query.prepared.slingshot.get(gpu.0)?.as_ref();
    let nearest = query.task.gpus.iter().filter_map(nearest);
    let names = names_of(nearest.map(|nearest| &query.node.nic(nearest.nic).name));
    let is_named = |name: &str| names.split(',').any(|named| named == name);
    Some(Answer::yes(&*names, ON_REQUEST).unless(&[
        (
            query.users(NIC_POLICY).is_some(),
            "the user's `MPICH_OFI_NIC_POLICY` chooses the device",
        ),
        (query.is_isolated(), ISOLATED),
        (names.is_empty(), "the task has no GPU with a Slingshot NIC"),
        (
            !names.split(',').all(is_the_steps(query.evidence.present)),
            "`SLINGSHOT_DEVICES`, the step's devices, does not have the nearest one",
        ),
        (
            slingshot().any(|nic| !is_named(&nic.name) && names.contains(nic.name.as_str())),
            "libfabric would take it for another NIC too, whose name is a part of this one's",
        ),
    ]))
}

const ISOLATED: &str = "the fabric's rails are isolated, so no task may be held to its own";
const ON_REQUEST: &str = "its GPU's NIC, as `env=libfabric` asks";

/// `None` without verbs NICs.
fn verbs_device(query: &Query) -> Option<Answer> {
    let verbs = || query.nics_of(NicKind::Verbs);
    verbs().next()?;
    let name = names_of(query.task.rails.iter().map(|of| &query.map.rail(of.0).name));
    let begins = |nic: &Nic| {
        let prefix = nic.name.get(..name.len());
        prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(&name))
    };
    let has_address = |nic: &Nic| nic.ports.iter().any(|port| !port.networks.is_empty());
    Some(Answer::yes(&*name, ON_REQUEST).unless(&[
        (query.is_isolated(), ISOLATED),
        (
            query.task.gpus.is_empty() || name.is_empty(),
            "the task has no GPU with a NIC",
        ),
        (
            query.users("FI_VERBS_IFACE").is_some(),
            "the user's `FI_VERBS_IFACE` chooses the device",
        ),
        // before libfabric 2.6 a comma is part of the name
        (
            name.contains(','),
            "it takes one name, and the task has several NICs",
        ),
        (
            verbs().any(|nic| nic.name != *name && begins(nic)),
            "it takes names by their beginning, and this one begins another NIC's too",
        ),
        (
            verbs().any(has_address) && verbs().any(|nic| nic.name == *name && !has_address(nic)),
            "its interface has no IP address, and libfabric skips such a device",
        ),
    ]))
}
