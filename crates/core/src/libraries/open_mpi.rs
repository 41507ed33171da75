//! Open MPI over libfabric: with `OMPI_MCA_opal_common_ofi_accelerator_rank` a process takes the
//! NIC nearest to its GPU.
//!
//! By default Open MPI takes a NIC near the process's CPUs. Of n NICs equally near the GPU Open MPI
//! takes NIC v modulo n, where v is the variable's value (opal/mca/common/ofi/common_ofi.c
//! `opal_common_ofi_select_provider`, `find_nearest_provider_from_accelerator`). Releases before 6
//! ignore the variable.

use super::{Answer, Library, Query, libfabric};

pub const LIBRARY: Library = Library {
    name: "Open MPI",
    word: "openmpi",
    by_default: true,
    variables: &[(
        "OMPI_MCA_opal_common_ofi_accelerator_rank",
        accelerator_rank,
    )],
    ..Library::NONE
};

/// `None` if no GPU has an EFA or Slingshot NIC.
fn accelerator_rank(query: &Query) -> Option<Answer> {
    let mut kinds = [&query.prepared.slingshot, &query.prepared.efa].into_iter();
    let nearest = kinds.find(|of| of.iter().any(Option::is_some))?;
    let nearest = libfabric::of_all(query, nearest, LIBRARY.name);
    let why = "Open MPI 6 then takes a NIC nearest to the GPU";
    Some(nearest.map_or_else(
        |no| no,
        |nearest| Answer::yes(nearest.turn.to_string(), why),
    ))
}
