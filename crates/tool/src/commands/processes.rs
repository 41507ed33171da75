//! The placed processes of the node: one walk over /proc, for `measure` and `top`.
//!
//! A process may end while it is looked at, and its environment is whatever its user wrote.
#![forbid(unsafe_code)]

use nic_placement_core::discover::Root;
use nic_placement_traffic::tasks::{PlacedTask, marked};
use std::collections::BTreeSet;

/// Bytes of one environment, at most.  A program's environment and arguments have 2 MiB by default together; the marker is
/// among what a step sets, and what stands behind the first of them is not read.
const MAX_ENVIRONMENT: usize = 1 << 20;
/// Bytes of all environments, at most: ten thousand processes with 25 KiB each.
const MAX_ALL: usize = 256 << 20;
/// Below this number are the users of the system (login.defs(5), `UID_MIN`).
const FIRST_USER: u32 = 1000;

#[derive(Default)]
pub(super) struct Walked {
    pub(super) placed: Vec<PlacedTask>,
    /// users, not of the system, whose environments are not for us to read
    pub(super) hidden: BTreeSet<u32>,
    pub(super) is_whole: bool,
}

pub(super) fn walk(root: &Root) -> Walked {
    let mut walked = Walked { is_whole: true, ..Walked::default() };
    let names = root.list("proc", |name| name.bytes().all(|byte| byte.is_ascii_digit()));
    walked.is_whole = root.notes().is_empty();
    let mut left = MAX_ALL;
    let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    for pid in pids {
        let user = root.owner(&format!("proc/{pid}"));
        let Some(environment) = root.beginning(&format!("proc/{pid}/environ"), MAX_ENVIRONMENT.min(left))
        else {
            walked.hidden.extend(user.filter(|user| *user >= FIRST_USER));
            continue;
        };
        left -= environment.len();
        if let Some(marked) = marked(&environment) {
            walked.placed.push(PlacedTask { pid, user, processes: 1, marked });
        }
        if left == 0 {
            walked.is_whole = false;
            break;
        }
    }
    walked
}
