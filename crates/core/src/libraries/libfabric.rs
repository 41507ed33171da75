//! libfabric, on demand (`env=default+libfabric`): the task's own device for the cxi and verbs providers.
//!
//! `FI_CXI_DEVICE_NAME` takes names from `cxi0` to `cxi99`, and one wrong name makes it ignore the whole value
//! (prov/cxi/src/cxip_info.c `cxip_env_validate_device_name`).  A device counts as named if its name stands anywhere in
//! the value (prov/cxi/src/cxip_if.c, strstr): `cxi10` admits `cxi1`, so we do not name it where there is a `cxi1`.
//! Each device must be one that Slurm set up for the step.
//!
//! `FI_VERBS_DEVICE_NAME` takes beginnings of names, in capitals or not, so `mlx5_1` would admit `mlx5_10`: we do not
//! set a name that begins another one.  For MPI's kind of endpoint the provider skips devices whose interface has no
//! IP address, and a list of such a device alone leaves none: we name only devices with an address, where addresses
//! are known (prov/verbs/src/verbs_info.c `vrb_init_info`, `vrb_device_has_ipoib_addr`).  So it does with those whose interface
//! is not in the user's `FI_VERBS_IFACE` (`vrb_getifaddrs`), which chooses a device too.
//!
//! This suits MPI libraries that open one device per process.  It does not suit NCCL's plug-in over
//! libfabric, which counts the devices of all ranks, nor Cray MPICH's own policy.  So it is off by default.
#![forbid(unsafe_code)]

use super::lists::{List, entries};
use super::template::names_of;
use super::wanted::Fabric;
use super::{Answer, Asked, Library, Present};
use crate::topology::{Gpu, GpuIndex, Nic, NicIndex, NicKind, PathType, PortState, Topology};

pub(super) const LIBRARY: Library = Library {
    name: "libfabric",
    word: WORD,
    variables: &[(CXI_DEVICE, cxi_device), (VERBS_DEVICE, verbs_device)],
    evidence: &[STEP_DEVICES, PROVIDER, VERBS_IFACE],
    lists: &[VERBS, CXI],
    doubtful: PROVIDER,
    ..Library::NONE
};

pub(super) const WORD: &str = "libfabric";

/// One beginning of a name, in capitals or not.
const VERBS: List = List {
    uses_all: true,
    is_idle_where_it_admits_all: true,
    ..List::nearest(VERBS_DEVICE, |beginning, nic, _| begins(beginning, &nic.name))
};

/// Devices whose names stand anywhere in the value.
const CXI: List = List {
    kind: NicKind::Slingshot,
    uses_all: true,
    is_idle_where_it_admits_all: true,
    ..List::nearest(CXI_DEVICE, |value, nic, _| {
        let is_read = entries(value).all(is_cxi);
        !is_read || value.contains(nic.name.as_str())
    })
};

/// `cxi0` to `cxi99` (`cxip_env_validate_device_token`).
fn is_cxi(entry: &str) -> bool {
    let number = entry.strip_prefix("cxi").filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    number.is_some_and(|number| number.len() == 1 || number.len() == 2 && !number.starts_with('0'))
}

/// Does a device's name begin so, in capitals or not?
fn begins(beginning: &str, name: &str) -> bool {
    name.get(..beginning.len()).is_some_and(|own| own.eq_ignore_ascii_case(beginning))
}

/// Cray MPICH's choice of a Slingshot device.
pub(super) const NIC_POLICY: &str = "MPICH_OFI_NIC_POLICY";
/// libfabric's choice of one.
pub(super) const CXI_DEVICE: &str = "FI_CXI_DEVICE_NAME";
/// The devices that Slurm set up for the step (src/plugins/switch/hpe_slingshot), separated by commas.
const STEP_DEVICES: &str = "SLINGSHOT_DEVICES";
const VERBS_DEVICE: &str = "FI_VERBS_DEVICE_NAME";
/// The interfaces whose devices may be used.
const VERBS_IFACE: &str = "FI_VERBS_IFACE";
/// Which providers may be used.
pub(super) const PROVIDER: &str = "FI_PROVIDER";

/// A GPU's NIC among those that only libfabric reaches.
pub(super) struct Nearest {
    /// the NIC
    pub(super) nic: NicIndex,
    /// how many GPUs before this one have the same nearest NICs
    pub(super) turn: usize,
    /// is no other NIC as near?
    pub(super) alone: bool,
}

/// The NIC of each GPU: the nearest; GPUs take equally near ones in turn.
pub(super) fn nearest(topology: &Topology, kind: NicKind) -> Vec<Option<Nearest>> {
    let active = |port: PortState| matches!(port, PortState::Active | PortState::Unknown);
    let nics = || {
        let nics = topology.numbered_nics().filter(|(_, nic)| nic.kind == kind);
        nics.filter(|(_, nic)| nic.ports.iter().any(|port| active(port.state)))
            .filter_map(|(index, nic)| Some((index, nic.address?)))
    };
    let mut seen: Vec<(Vec<NicIndex>, usize)> = Vec::new();
    let of = |gpu: &Gpu| {
        let reached: Vec<(NicIndex, PathType)> =
            nics().map(|(index, address)| (index, topology.path_type(gpu.address, address))).collect();
        let best = reached.iter().map(|(_, path)| *path).min()?;
        let tied: Vec<NicIndex> =
            reached.iter().filter(|(_, path)| *path == best).map(|(index, _)| *index).collect();
        let turn = match seen.iter_mut().find(|(others, _)| *others == tied) {
            Some((_, turn)) => {
                *turn += 1;
                *turn
            }
            None => {
                seen.push((tied.clone(), 0));
                0
            }
        };
        Some(Nearest { nic: tied[turn % tied.len()], turn, alone: tied.len() == 1 })
    };
    topology.gpus.iter().map(of).collect()
}

/// The NIC of all GPUs that a task sees: of its one GPU, or the one that all of them share.
///
/// A library that looks for the GPU at its start takes GPU 0's, if the program chooses its GPU later.
pub(super) fn of_all<'p>(nearest: &'p [Option<Nearest>], gpus: &[GpuIndex]) -> Option<&'p Nearest> {
    let mut of = gpus.iter().map(|gpu| nearest.get(gpu.0)?.as_ref());
    let first = of.next()??;
    let same = |other: Option<&Nearest>| other.is_some_and(|other| other.alone && other.nic == first.nic);
    (gpus.len() == 1 || (first.alone && of.all(same))).then_some(first)
}

/// The devices that the step may use: all if Slurm names none.
pub(super) fn is_the_steps(present: &Present) -> impl Fn(&str) -> bool {
    let step = present.get(STEP_DEVICES).filter(|list| !list.is_empty());
    move |name| step.is_none_or(|list| list.split(',').any(|listed| listed == name))
}

/// The Slingshot NICs of the task's GPUs; no answer if the node has none.
fn cxi_device<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let slingshot = || asked.topology.nics.iter().filter(|nic| nic.kind == NicKind::Slingshot);
    slingshot().next()?;
    let nearest = asked.task.gpus.iter().filter_map(|&gpu| asked.prepared.slingshot.get(gpu.0)?.as_ref());
    let names = names_of(nearest.map(|nearest| asked.topology.nic(nearest.nic).name.as_str()));
    let is_named = |name: &str| names.split(',').any(|named| named == name);
    let is_the_steps = is_the_steps(asked.evidence.present);
    let conditions = [
        (asked.users(NIC_POLICY).is_some(), "the user's `MPICH_OFI_NIC_POLICY` chooses the device"),
        (asked.prepared.wanted.fabric == Fabric::IsolatedRails, ISOLATED),
        (names.is_empty(), "the task has no GPU with a Slingshot NIC"),
        (
            !names.split(',').all(is_the_steps),
            "`SLINGSHOT_DEVICES`, the step's devices, does not have the nearest one",
        ),
        (
            slingshot().any(|nic| !is_named(&nic.name) && names.contains(nic.name.as_str())),
            "libfabric would take it for another NIC too, whose name is a part of this one's",
        ),
    ];
    Some(Answer::unless(&conditions, || Answer::yes(names.clone(), ON_REQUEST)))
}

const ISOLATED: &str = "the fabric's rails are isolated, so no task may be held to its own";
const ON_REQUEST: &str = "its GPU's NIC, as `env=libfabric` asks";

/// The verbs devices of the task's GPUs; no answer if the node has none.
fn verbs_device<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let verbs = || asked.topology.nics.iter().filter(|nic| nic.kind == NicKind::Verbs);
    verbs().next()?;
    let name = names_of(asked.task.rails.iter().map(|(rail, _)| asked.node.rail(*rail).name.as_str()));
    let has_address = |nic: &Nic| nic.ports.iter().any(|port| !port.networks.is_empty());
    let conditions = [
        (asked.prepared.wanted.fabric == Fabric::IsolatedRails, ISOLATED),
        (asked.task.gpus.is_empty() || name.is_empty(), "the task has no GPU with a NIC"),
        (asked.users(VERBS_IFACE).is_some(), "the user's `FI_VERBS_IFACE` chooses the device"),
        // the whole value is one beginning of a name, so a comma in it matches no device (prov/verbs/src/verbs_info.c,
        // `vrb_init_info`: strncasecmp)
        (name.contains(','), "it takes one name, and the task has several NICs"),
        (
            verbs().any(|nic| nic.name != *name && begins(&name, &nic.name)),
            "it takes names by their beginning, and this one begins another NIC's too",
        ),
        (
            verbs().any(has_address) && verbs().any(|nic| nic.name == *name && !has_address(nic)),
            "its interface has no IP address, and libfabric skips such a device",
        ),
    ];
    Some(Answer::unless(&conditions, || Answer::yes(name.clone(), ON_REQUEST)))
}
