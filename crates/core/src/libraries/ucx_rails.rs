//! UCX: `UCX_MAX_RNDV_RAILS`, by how many devices UCX sends one large message, on request (`env=ucx-rails`).
//!
//! By default two, whatever the list of devices has (UCX 1.11 to 1.22: src/ucp/core/ucp_context.c; src/ucp/rndv/rndv_get.c and
//! rndv_put.c, `max_lanes`).  `UCX_MAX_RNDV_LANES` is its older name.  With protocols of version 2 it holds for each message, by the
//! word of the side that moves it, so tasks may have different numbers (src/ucp/wireup/select.c `ucp_wireup_add_rma_bw_lanes`).
//!
//! What counts is the NICs of one GPU: several GPUs of a task use all of theirs at the same time, and a message by the NICs
//! of another GPU would take the far way.
#![forbid(unsafe_code)]

use super::files::Files;
use super::ucx;
use super::{Answer, Library, Query};

pub(super) const LIBRARY: Library = Library {
    name: "UCX",
    word: "ucx-rails",
    variables: &[(RAILS, rails)],
    evidence: &[LANES],
    files: Some(&FILES),
    ..Library::NONE
};

const RAILS: &str = "UCX_MAX_RNDV_RAILS";
const LANES: &str = "UCX_MAX_RNDV_LANES";
const DEFAULT: usize = 2;
/// Before 1.18 a connection has 16 lanes for all that it does (src/ucp/core/ucp_types.h `UCP_MAX_LANES`).
const MOST: usize = 4;

const FILES: Files =
    Files { variables: &[RAILS], matter: |_, wanted, _| wanted.has(RAILS, LIBRARY.word, None), ..ucx::FILES };

/// The most NICs that one of the task's GPUs has; no answer where that is no more than UCX uses.
fn rails(query: &Query) -> Option<Answer> {
    let own = query.task.gpus.iter().filter_map(|gpu| query.node.gpus.get(gpu.0));
    let most = own.map(|gpu| gpu.choices.len()).max().filter(|count| *count > DEFAULT)?;
    let why = format!("a GPU of the task has {most} NICs, and UCX sends a message by {DEFAULT}");
    let answer = Answer::yes(most.min(MOST).to_string(), why).unless(&[(
        query.users(LANES).is_some(),
        "the user's `UCX_MAX_RNDV_LANES` says it by its older name",
    )]);
    Some(query.unless_in_files(&FILES, RAILS, answer))
}
