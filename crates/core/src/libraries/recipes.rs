//! Libraries of one variable, a row each: its value as `set=` would write it, and the condition that it needs.
#![forbid(unsafe_code)]

use super::{Answer, Library, Query, libfabric, template, uniform};
use crate::placement::GpuPlacement;
use crate::topology::{GpuIndex, GpuVendor, NicIndex, NicKind};
use std::borrow::Cow;

/// Exact device names without ports; `^` would invert the list.  Each processing element looks for its nearest NIC among these
/// (ROCm/rocm-systems, projects/rocshmem: `GDABackend::open_ib_device` and its list of environment variables).
pub(super) static ROCSHMEM: Library = Library {
    name: "rocSHMEM",
    word: "rocshmem",
    by_default: true,
    variables: &[("ROCSHMEM_HCA_LIST", |query| {
        answer(query, &ROCSHMEM, AMD, "{rail_names}", leaves_out)
    })],
    evidence: &["ROCSHMEM_USE_IB_HCA"],
    uniform: "ROCSHMEM_HCA_LIST",
    ..Library::NONE
};

/// MPICH over libfabric.  Without the switch it goes by the CPUs of the process; with it ranks that have the same nearest NICs take
/// these in turn.  It is built for CUDA alone (pmodels/mpich's src/mpid/ch4/netmod/ofi/ofi_nic.c `refine_nic_close_by_gpu`: in
/// 5.1.0a1; 5.0.2 and earlier releases do not read it).
pub(super) static MPICH: Library = Library {
    name: "MPICH",
    word: "mpich",
    variables: &[("MPIR_CVAR_CH4_OFI_NIC_GPU_AFFINITY", |query| {
        answer(query, &MPICH, Some(GpuVendor::Nvidia), "1", has_one_nearest)
    })],
    evidence: &["MPIR_CVAR_CH4_OFI_PREF_NIC"],
    // its descendants' own
    doubtful: "I_MPI_* MV2_*",
    ..Library::NONE
};

/// Mooncake's transfer engine uses only these devices, those of the memory's NUMA node first: exact names without ports
/// (mooncake-transfer-engine/src/topology.cpp `getIbvDeviceWhitelist`, `listInfiniBandDevices`).
///
/// The newer engine (`MC_USE_TENT`) passes over other lists of the user's beside it (tent/src/platform/cpu_probe.cpp
/// `filterInfiniBandDevices`; tent/src/common/config.cpp `ConfigHelper::loadFromEnv`).  The older one uses what is in both lists, the
/// store's and this (mooncake-store/src/client_service.cpp `get_auto_discover_filters`).
pub(super) static MOONCAKE: Library = Library {
    name: "Mooncake",
    word: "mooncake",
    variables: &[("MC_TE_FILTERS", |query| {
        answer(query, &MOONCAKE, None, "{rail_names}", leaves_out)
    })],
    evidence: &["MC_TE_FILTERS_EXCLUDE", "MC_MS_FILTERS", "MC_TENT_CONF"],
    uniform: "MC_TE_FILTERS",
    ..Library::NONE
};

/// MORI numbers devices by the order of a plain list; with `^` the order stays, and the named devices go with all their ports
/// (src/application/transport/rdma/rdma.cpp `RdmaContext::Initialize`).  So a NIC of which one port may be used stays.
pub(super) static MORI: Library = Library {
    name: "MORI",
    word: "mori",
    variables: &[("MORI_RDMA_DEVICES", |query| {
        answer(query, &MORI, AMD, "^{left_out}", leaves_out)
    })],
    uniform: "MORI_RDMA_DEVICES",
    ..Library::NONE
};

/// UCCL's point-to-point engine uses all of these names, without ports, for every GPU of the process (uccl-project/uccl's
/// p2p/rdma/rdma_device.cc `get_best_dev_idx`).  Without the variable it goes by the distances on the bus, which a virtual machine
/// hides, and knows no NIC of storage's.
pub(super) static UCCL: Library = Library {
    name: "UCCL",
    word: "uccl",
    variables: &[("UCCL_P2P_RDMA_DEV", |query| {
        answer(query, &UCCL, None, "{nic_names}", has_one_gpu)
    })],
    ..Library::NONE
};

/// MSCCL++ gives task k of a node entry k of this list, or verbs device k, which can be a storage NIC (microsoft/mscclpp's
/// src/core/executor/executor.cc).  With fewer entries it throws (src/core/ib.cc `getHcaDevices`).
pub(super) static MSCCLPP: Library = Library {
    name: "MSCCL++",
    word: "mscclpp",
    variables: &[("MSCCLPP_HCA_DEVICES", |query| {
        answer(query, &MSCCLPP, None, "{rail_names}", has_own_entry)
    })],
    uniform: "MSCCLPP_HCA_DEVICES",
    ..Library::NONE
};

/// aws-ofi-nccl groups the devices by all GPUs of the node, and every peer must find the same number of devices in a group
/// (src/nccl_ofi_topo.cpp; its issue 1061: "Unexpected number of remote rails"), so no shorter list is right.
pub(super) static EFA: Library = Library {
    name: "EFA",
    never: Some(("FI_EFA_IFACE", |query| {
        query.nics_of(NicKind::Efa).next()?;
        Some(Answer::no(
            "EFA's plug-in for NCCL groups the devices by GPU itself, and breaks where some are hidden",
        ))
    })),
    evidence: &["FI_EFA_IFACE"],
    doubtful: "FI_EFA_*",
    uniform: "FI_EFA_*",
    ..Library::NONE
};

const AMD: Option<GpuVendor> = Some(GpuVendor::Amd);

/// The reason for a row's value; or that for none, without one where the library has nothing to do with the node.
type Met = Result<Cow<'static, str>, Option<Answer>>;

/// The answer of a row for GPUs of this vendor or of any.  A user's value for a name in the row's `evidence` keeps it from a value.
fn answer(
    query: &Query,
    row: &Library,
    gpus: Option<GpuVendor>,
    value: &str,
    condition: fn(&Query) -> Met,
) -> Option<Answer> {
    if gpus.is_some_and(|vendor| !query.has_gpu_of(vendor)) {
        return None;
    }
    let chooses = |name: &&&str| query.users(name).is_some_and(|value| may_choose(value));
    match (condition(query), row.evidence.iter().find(chooses)) {
        (Err(None), _) => None,
        (_, Some(rival)) => Some(Answer::no(format!("the user's `{rival}` chooses the NIC"))),
        (Err(no), _) => no,
        (Ok(why), _) => {
            let value = template::fill(value, &query.facts());
            Some(value.map_or_else(
                |_| Answer::no("there is no NIC to name in it"),
                |value| Answer::yes(value, why),
            ))
        }
    }
}

/// Can this value choose a NIC?  Mooncake's configuration is JSON, or the path of a file, which is not read.
fn may_choose(value: &str) -> bool {
    let lists = || {
        ["rdma_whitelist", "rdma_blacklist"]
            .iter()
            .any(|key| value.contains(key))
    };
    !value.is_empty() && (!value.trim_start().starts_with('{') || lists())
}

fn leaves_out(query: &Query) -> Met {
    let list = query.prepared.list.as_ref();
    list.map(|(_, why)| why.clone().into())
        .map_err(|why| Some(Answer::no(*why)))
}

fn has_one_gpu(query: &Query) -> Met {
    let why_not =
        "the task does not see exactly one GPU, and UCCL uses the list for all that it sees";
    either(
        query.task.seen.len() == 1,
        "its GPU's NICs, as `env=uccl` asks",
        why_not,
    )
}

/// It looks at the GPU of the process's CUDA context, or at the first one, so all GPUs of the task must share their nearest NIC.
fn has_one_nearest(query: &Query) -> Met {
    let kinds = [NicKind::Slingshot, NicKind::Efa, NicKind::Verbs];
    let kind = kinds
        .into_iter()
        .find(|kind| query.nics_of(*kind).next().is_some())
        .ok_or(None)?;
    let rails = query.node.rails.iter().map(|rail| rail.nic);
    let usable: Vec<NicIndex> = rails
        .chain(query.node.left_to_libfabric.iter().copied())
        .collect();
    libfabric::of_all(
        query,
        &libfabric::nearest(query.topology, &usable, kind),
        MPICH.name,
    )?;
    Ok("MPICH 5.1 then takes a NIC nearest to the GPU".into())
}

/// The GPU is the one that the task sees, or of several the one of its number on the node.
fn has_own_entry(query: &Query) -> Met {
    let (node, seen) = (query.node, &query.task.seen);
    let number = query.task.local_id as usize;
    let gpu = if let [gpu] = seen[..] {
        Some(gpu)
    } else {
        seen.get(number).copied()
    };
    let names = uniform::names_of(node.rails.iter().map(|rail| &rail.name));
    let mut names = names.split(',');
    let best = |gpu: &GpuPlacement| {
        gpu.choices
            .first()
            .map(|choice| node.rail(choice.rail).name.as_str())
    };
    let is_own =
        gpu == Some(GpuIndex(number)) && node.gpus.iter().all(|gpu| best(gpu) == names.next());
    let why_not = "MSCCL++ would take the entry of the task's number on the node, which is not the NIC of its GPU";
    either(
        is_own,
        "task k of the node takes entry k, as `env=mscclpp` asks",
        why_not,
    )
}

fn either(is_met: bool, why: &'static str, why_not: &'static str) -> Met {
    if is_met {
        Ok(why.into())
    } else {
        Err(Some(Answer::no(why_not)))
    }
}
