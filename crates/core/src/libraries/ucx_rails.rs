//! UCX, on request (`env=ucx-rails`): the number of devices for one large message.
//!
//! `UCX_MAX_RNDV_RAILS`: by default two, whatever the list of devices has (UCX 1.11 to 1.23:
//! src/ucp/core/ucp_context.c; src/ucp/rndv, `max_lanes`).  With protocols of version 2 the side that moves a message
//! applies its own number, so tasks may differ (src/ucp/wireup/select.c `ucp_wireup_add_rma_bw_lanes`).
//!
//! `UCX_MAX_RMA_RAILS`: the same for one-sided transfers, since 1.14, by default one.  NIXL sends by these alone, and says 2
//! unless the environment has it (NIXL 1.5: src/plugins/ucx/ucx_utils.cpp, config.cpp `modify`).
//!
//! The NICs of one GPU count: GPUs of a task send at the same time, and another GPU's NICs are far.
#![forbid(unsafe_code)]

use super::files::Files;
use super::ucx;
use super::{Answer, Library, Query};

pub(super) const LIBRARY: Library = Library {
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

/// The names, and their older ones.
const RNDV: [&str; 2] = ["UCX_MAX_RNDV_RAILS", "UCX_MAX_RNDV_LANES"];
const RMA: [&str; 2] = ["UCX_MAX_RMA_RAILS", "UCX_MAX_RMA_LANES"];
const DEFAULT: usize = 2;
/// Before 1.18 a connection has 16 lanes for all that it does (src/ucp/core/ucp_types.h `UCP_MAX_LANES`).
const MOST: usize = 4;

const FILES: Files = Files {
    variables: &[RNDV[0], RMA[0]],
    matter: |_, wish, _| {
        [RNDV, RMA]
            .iter()
            .any(|[name, _]| wish.wants(name, LIBRARY.word, None))
    },
    ..ucx::FILES
};

/// The most NICs of one of the task's GPUs; no answer if UCX and NIXL use as many.
fn rails(query: &Query, [name, older]: [&str; 2]) -> Option<Answer> {
    let own = query
        .task
        .gpus
        .iter()
        .filter_map(|gpu| query.node.gpus.get(gpu.0));
    let most = own
        .map(|gpu| gpu.choices.len())
        .max()
        .filter(|count| *count > DEFAULT)?;
    let answer = match query.users(older) {
        Some(_) => Answer::no(format!("the user's `{older}` is its older name")),
        None => {
            let why =
                format!("a GPU of the task has {most} NICs, and UCX sends a message by {DEFAULT}");
            Answer::yes(most.min(MOST).to_string(), why)
        }
    };
    Some(query.unless_in_files(&FILES, name, answer))
}
