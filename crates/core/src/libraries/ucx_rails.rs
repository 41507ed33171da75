//! `env=ucx-rails`: the number of NICs for one large message of UCX.
//!
//! `UCX_MAX_RNDV_RAILS` is 2 by default, whatever the list of devices (UCX 1.11 to 1.23:
//! src/ucp/core/ucp_context.c; src/ucp/rndv, `max_lanes`). In version 2 of UCX's protocols the side
//! that moves a message applies its own number, so tasks' numbers may differ
//! (src/ucp/wireup/select.c `ucp_wireup_add_rma_bw_lanes`).
//!
//! `UCX_MAX_RMA_RAILS` (since 1.14) limits one-sided transfers; the default is 1. NIXL has only
//! one-sided transfers, and sets 2 if the environment has no value (NIXL 1.5:
//! src/plugins/ucx/ucx_utils.cpp, config.cpp `modify`).
//!
//! Our number is the NIC count of one GPU: a task's GPUs send at the same time, and NICs of other
//! GPUs are far.

use super::{Answer, Library, Query, files::Files, ucx};
use crate::topology::GpuIndex;

pub const LIBRARY: Library = Library {
    name: "UCX",
    word: "ucx-rails",
    variables: &[
        (RNDV[0], |query| rails(query, RNDV)),
        (RMA[0], |query| rails(query, RMA)),
    ],
    evidence: &[RNDV[1], RMA[1]],
    files: Some(&FILES),
    ..Library::NONE
};

const RNDV: [&str; 2] = ["UCX_MAX_RNDV_RAILS", "UCX_MAX_RNDV_LANES"];
const RMA: [&str; 2] = ["UCX_MAX_RMA_RAILS", "UCX_MAX_RMA_LANES"];
const DEFAULT: usize = 2;
/// Our limit: before 1.18 a connection has 16 lanes (src/ucp/core/ucp_types.h `UCP_MAX_LANES`).
const MOST: usize = 4;

const FILES: Files = Files {
    variables: &[RNDV[0], RMA[0]],
    matter: |_, wish, _| {
        [RNDV[0], RMA[0]]
            .iter()
            .any(|name| wish.wants(name, LIBRARY.word, None))
    },
    ..ucx::FILES
};

/// The NIC count of the task's GPU with most NICs, at most `MOST`; `None` up to 2, UCX's default
/// for `RNDV`, and NIXL's.
fn rails(query: &Query, [name, older]: [&str; 2]) -> Option<Answer> {
    let choices = |gpu: &GpuIndex| Some(query.map.gpus.get(gpu.0)?.choices.len());
    let most = query.task.gpus.iter().filter_map(choices).max()?;
    if most <= DEFAULT {
        return None;
    }
    let answer = if query.users(older).is_some() {
        Answer::no(format!("the user's `{older}` is its older name"))
    } else {
        let why =
            format!("a GPU of the task has {most} NICs, and UCX sends a message by {DEFAULT}");
        Answer::yes(most.min(MOST).to_string(), why)
    };
    Some(query.unless_in_files(&FILES, name, answer))
}
