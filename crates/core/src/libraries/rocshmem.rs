//! rocSHMEM: `ROCSHMEM_HCA_LIST`, one list for every task of the node, set only to exclude something.
//!
//! Exact device names without ports; `^` would invert the list.  What is not in it is discarded before each
//! processing element looks for its nearest NIC (ROCm/rocm-systems, projects/rocshmem: `GDABackend::open_ib_device`
//! and its list of environment variables).  `ROCSHMEM_USE_IB_HCA` forces a device and needs no list.
#![forbid(unsafe_code)]

use super::{Answer, Library, Query, uniform};
use crate::topology::GpuVendor;

pub(super) const LIBRARY: Library = Library {
    name: "rocSHMEM",
    word: "rocshmem",
    by_default: true,
    variables: &[(HCA_LIST, hca_list)],
    evidence: &[USE_HCA],
    uniform: HCA_LIST,
    ..Library::NONE
};

const HCA_LIST: &str = "ROCSHMEM_HCA_LIST";
const USE_HCA: &str = "ROCSHMEM_USE_IB_HCA";

fn hca_list(query: &Query) -> Option<Answer> {
    let is_forced = query.users(USE_HCA).is_some();
    let answer =
        || uniform::names(query).unless(&[(is_forced, "the user's `ROCSHMEM_USE_IB_HCA` names the device")]);
    query.has_gpu_of(GpuVendor::Amd).then(answer)
}
