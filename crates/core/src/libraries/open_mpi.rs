//! Open MPI over libfabric: `OMPI_MCA_opal_common_ofi_accelerator_rank`, which makes it take the NIC nearest to the GPU.
//!
//! Without it Open MPI goes by the CPUs of the process.  The number tells processes with equally near NICs apart: each
//! takes the NIC of its number, counted round (opal/mca/common/ofi/common_ofi.c `opal_common_ofi_select_provider`,
//! `find_nearest_provider_from_accelerator`).  Releases before 6 do not know the variable.
#![forbid(unsafe_code)]

use super::{Answer, Library, Query, libfabric};

pub(super) const LIBRARY: Library = Library {
    name: "Open MPI",
    word: "openmpi",
    by_default: true,
    variables: &[(ACCELERATOR_RANK, accelerator_rank)],
    ..Library::NONE
};

const ACCELERATOR_RANK: &str = "OMPI_MCA_opal_common_ofi_accelerator_rank";

/// The task's place; no answer on nodes without EFA and Slingshot, or without a GPU.
fn accelerator_rank(query: &Query) -> Option<Answer> {
    let kinds = [&query.prepared.slingshot, &query.prepared.efa];
    let nearest = kinds
        .into_iter()
        .find(|of| of.iter().any(Option::is_some))?;
    Some(match libfabric::of_all(query, nearest, LIBRARY.name) {
        Ok(nearest) => Answer::yes(
            nearest.turn.to_string(),
            "Open MPI 6 then takes a NIC nearest to the GPU",
        ),
        Err(no) => no,
    })
}
