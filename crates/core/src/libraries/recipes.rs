//! Libraries with one variable each: its condition, and its value as a `set=` template.

use super::{Answer, Library, Query, libfabric, template, uniform};
use crate::placement::GpuPlacement;
use crate::topology::{GpuIndex, GpuVendor, NicKind};
use std::borrow::Cow;

/// rocSHMEM reads exact names without ports; `^` inverts the list. Each processing element takes
/// the nearest NIC of the list (ROCm/rocm-systems, projects/rocshmem: `GDABackend::open_ib_device`,
/// and the documented environment variables).
pub static ROCSHMEM: Library = Library {
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

/// With `1` MPICH over libfabric takes NICs near the process's CUDA GPU, not its CPUs. Ranks with
/// the same nearest NICs share them round-robin (pmodels/mpich's
/// src/mpid/ch4/netmod/ofi/ofi_nic.c `refine_nic_close_by_gpu`: in 5.1.0a1, not in 5.0.2).
pub static MPICH: Library = Library {
    name: "MPICH",
    word: "mpich",
    variables: &[("MPIR_CVAR_CH4_OFI_NIC_GPU_AFFINITY", |query| {
        answer(query, &MPICH, Some(GpuVendor::Nvidia), "1", has_one_nearest)
    })],
    evidence: &["MPIR_CVAR_CH4_OFI_PREF_NIC"],
    // names of MPIs that derive from MPICH: Intel MPI, MVAPICH
    doubtful: "I_MPI_* MV2_*",
    ..Library::NONE
};

/// Mooncake's transfer engine uses only the listed devices, first those on the memory's NUMA node.
/// Items are exact names without ports (mooncake-transfer-engine/src/topology.cpp
/// `getIbvDeviceWhitelist`, `listInfiniBandDevices`).
///
/// Beside this list the newer engine (`MC_USE_TENT`) ignores the user's other lists
/// (tent/src/platform/cpu_probe.cpp `filterInfiniBandDevices`; tent/src/common/config.cpp
/// `ConfigHelper::loadFromEnv`); the older engine uses only devices that are also in the list of
/// Mooncake's store (mooncake-store/src/client_service.cpp `get_auto_discover_filters`).
pub static MOONCAKE: Library = Library {
    name: "Mooncake",
    word: "mooncake",
    variables: &[("MC_TE_FILTERS", |query| {
        answer(query, &MOONCAKE, None, "{rail_names}", leaves_out)
    })],
    evidence: &["MC_TE_FILTERS_EXCLUDE", "MC_MS_FILTERS", "MC_TENT_CONF"],
    uniform: "MC_TE_FILTERS",
    ..Library::NONE
};

/// A plain list would renumber MORI's devices, so our list names, after `^`, NICs to leave out.
/// MORI leaves out whole NICs (src/application/transport/rdma/rdma.cpp `RdmaContext::Initialize`),
/// so a NIC with one good port stays.
pub static MORI: Library = Library {
    name: "MORI",
    word: "mori",
    variables: &[("MORI_RDMA_DEVICES", |query| {
        answer(query, &MORI, AMD, "^{left_out}", leaves_out)
    })],
    uniform: "MORI_RDMA_DEVICES",
    ..Library::NONE
};

/// UCCL's point-to-point engine uses the listed NICs (names without ports) for every GPU of the
/// process (uccl-project/uccl's p2p/rdma/rdma_device.cc `get_best_dev_idx`). By default UCCL takes
/// the nearest NIC on the PCI bus, even a storage NIC; a VM hides this bus.
pub static UCCL: Library = Library {
    name: "UCCL",
    word: "uccl",
    variables: &[("UCCL_P2P_RDMA_DEV", |query| {
        answer(query, &UCCL, None, "{nic_names}", has_one_gpu)
    })],
    ..Library::NONE
};

/// Task k of a node uses entry k of the list; without a list verbs device k, possibly a storage NIC
/// (microsoft/mscclpp's src/core/executor/executor.cc). Without entry k MSCCL++ throws
/// (src/core/ib.cc `getHcaDevices`).
pub static MSCCLPP: Library = Library {
    name: "MSCCL++",
    word: "mscclpp",
    variables: &[("MSCCLPP_HCA_DEVICES", |query| {
        answer(query, &MSCCLPP, None, "{rail_names}", has_own_entry)
    })],
    uniform: "MSCCLPP_HCA_DEVICES",
    ..Library::NONE
};

/// EFA gets no list: aws-ofi-nccl groups devices by the node's GPUs, and all peers need groups of
/// equal size (src/nccl_ofi_topo.cpp; its issue 1061: "Unexpected number of remote rails").
pub static EFA: Library = Library {
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

/// The reason for the value, or for none; `Err(None)` if the variable is of no use on the node.
type Met = Result<Cow<'static, str>, Option<Answer>>;

/// `None` without GPUs of the vendor; no value if a user's variable of `evidence` chooses NICs.
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
    let chooses = |name: &&&str| query.users(name).is_some_and(may_choose);
    match (condition(query), row.evidence.iter().find(chooses)) {
        (Err(None), _) => None,
        (_, Some(rival)) => Some(Answer::no(format!("the user's `{rival}` chooses the NIC"))),
        (Err(no), _) => no,
        (Ok(why), _) => Some(match template::fill(value, &query.facts()) {
            Ok(value) => Answer::yes(value, why),
            Err(_) => Answer::no("there is no NIC to name in it"),
        }),
    }
}

/// False for an empty value, and for JSON without a NIC list: `MC_TENT_CONF` is JSON or a path.
fn may_choose(value: &str) -> bool {
    let lists = || value.contains("rdma_whitelist") || value.contains("rdma_blacklist");
    !value.is_empty() && (!value.trim_start().starts_with('{') || lists())
}

fn leaves_out(query: &Query) -> Met {
    match &query.prepared.list {
        Ok((_, why)) => Ok(why.clone().into()),
        Err(why) => Err(Some(Answer::no(*why))),
    }
}

fn has_one_gpu(query: &Query) -> Met {
    either(
        query.task.seen.len() == 1,
        "its GPU's NICs, as `env=uccl` asks",
        "the task does not see exactly one GPU, and UCCL uses the list for all that it sees",
    )
}

/// `Ok` if [`libfabric::of_all`] finds a NIC: MPICH takes the NIC of CUDA's current or first GPU.
fn has_one_nearest(query: &Query) -> Met {
    let mut kinds = [NicKind::Slingshot, NicKind::Efa, NicKind::Verbs].into_iter();
    let has = |kind: &NicKind| query.nics_of(*kind).next().is_some();
    let kind = kinds.find(has).ok_or(None)?;
    let mut usable = query.map.left_to_libfabric.clone();
    usable.extend(query.map.rails.iter().map(|rail| rail.nic));
    let nearest = libfabric::nearest(query.node, &usable, kind);
    libfabric::of_all(query, &nearest, MPICH.name)?;
    Ok("MPICH 5.1 then takes a NIC nearest to the GPU".into())
}

/// `Ok` if entry k is GPU k's best NIC for every k, and the task's GPU number is its local id. A
/// task that sees several GPUs uses the GPU at its local id.
fn has_own_entry(query: &Query) -> Met {
    let (map, seen) = (query.map, &query.task.seen);
    let number = query.task.local_id as usize;
    let gpu = match seen[..] {
        [gpu] => Some(gpu),
        _ => seen.get(number).copied(),
    };
    let names = uniform::names_of(map.rails.iter().map(|rail| &rail.name));
    let mut names = names.split(',');
    let best = |gpu: &GpuPlacement| Some(map.rail(gpu.choices.first()?.rail).name.as_str());
    let is_own =
        gpu == Some(GpuIndex(number)) && map.gpus.iter().all(|gpu| best(gpu) == names.next());
    either(
        is_own,
        "task k of the node takes entry k, as `env=mscclpp` asks",
        "MSCCL++ would take the entry of the task's number on the node, which is not the NIC of its GPU",
    )
}

fn either(is_met: bool, why: &'static str, why_not: &'static str) -> Met {
    if is_met {
        Ok(why.into())
    } else {
        Err(Some(Answer::no(why_not)))
    }
}
