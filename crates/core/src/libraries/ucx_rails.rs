//! UCX: by how many devices it sends one large message, on request (`env=ucx-rails`).
//!
//! `UCX_MAX_RNDV_RAILS`: by default two, whatever the list of devices has (UCX 1.11 to 1.23: src/ucp/core/ucp_context.c;
//! src/ucp/rndv/rndv_get.c and rndv_put.c, `max_lanes`).  `UCX_MAX_RNDV_LANES` is its older name.  With protocols of version 2 it
//! holds for each message, by the word of the side that moves it, so tasks may have different numbers (src/ucp/wireup/select.c
//! `ucp_wireup_add_rma_bw_lanes`).
//!
//! `UCX_MAX_RMA_RAILS` is the same for one-sided transfers, since 1.14, by default one.  NIXL sends by these alone, and says 2
//! unless the environment has it (NIXL 1.5: src/plugins/ucx/ucx_utils.cpp, config.cpp `modify`).
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
    variables: &[(RAILS, rndv_rails), (RMA_RAILS, rma_rails)],
    evidence: &[LANES, RMA_LANES],
    files: Some(&FILES),
    ..Library::NONE
};

const RAILS: &str = "UCX_MAX_RNDV_RAILS";
const RMA_RAILS: &str = "UCX_MAX_RMA_RAILS";
const LANES: &str = "UCX_MAX_RNDV_LANES";
const RMA_LANES: &str = "UCX_MAX_RMA_LANES";
const DEFAULT: usize = 2;
/// Before 1.18 a connection has 16 lanes for all that it does (src/ucp/core/ucp_types.h `UCP_MAX_LANES`).
const MOST: usize = 4;

const FILES: Files = Files {
    variables: &[RAILS, RMA_RAILS],
    matter: |_, wanted, _| LIBRARY.variables.iter().any(|(name, _)| wanted.has(name, LIBRARY.word, None)),
    ..ucx::FILES
};

fn rndv_rails(query: &Query) -> Option<Answer> {
    rails(query, RAILS, LANES, "the user's `UCX_MAX_RNDV_LANES` says it by its older name")
}

fn rma_rails(query: &Query) -> Option<Answer> {
    rails(query, RMA_RAILS, RMA_LANES, "the user's `UCX_MAX_RMA_LANES` says it by its older name")
}

/// The most NICs that one of the task's GPUs has; no answer where that is no more than UCX and NIXL use.
fn rails(query: &Query, name: &str, older: &str, says_it: &'static str) -> Option<Answer> {
    let own = query.task.gpus.iter().filter_map(|gpu| query.node.gpus.get(gpu.0));
    let most = own.map(|gpu| gpu.choices.len()).max().filter(|count| *count > DEFAULT)?;
    let why = format!("a GPU of the task has {most} NICs, and UCX sends a message by {DEFAULT} at most");
    let answer = Answer::yes(most.min(MOST).to_string(), why);
    Some(query.unless_in_files(&FILES, name, answer.unless(&[(query.users(older).is_some(), says_it)])))
}
