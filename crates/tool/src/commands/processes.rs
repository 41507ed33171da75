//! The placed processes of the node: one walk over /proc, for `measure` and `top`.
//!
//! A process may end while it is looked at, and its environment is whatever its user wrote.
#![forbid(unsafe_code)]

use super::watch::Seen;
use nic_placement_node::discover::Root;
use nic_placement_traffic::tasks::{Numbers, PlacedTask, marked, numbers};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

/// Bytes of one environment, at most.  By default a program's environment and arguments have 2 MiB together; the marker
/// is among a step's variables, and text behind the limit is not read.
pub(super) const MAX_ENVIRONMENT: usize = 1 << 20;
/// Bytes of all environments, at most: ten thousand processes with 25 KiB each.
const MAX_ALL: usize = 256 << 20;
/// Processes that are kept of several looks, at most.
const MAX_KEPT: usize = 16 * 1024;
/// Below this number are the users of the system (login.defs(5), `UID_MIN`).
pub(super) const FIRST_USER: u32 = 1000;

/// Sorted.
pub(super) fn pids(root: &Root) -> Vec<u32> {
    let names = root.list("proc", |name| {
        name.bytes().all(|byte| byte.is_ascii_digit())
    });
    let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

#[derive(Default)]
pub(super) struct Processes {
    /// tasks with a marker
    pub(super) placed: BTreeSet<PlacedTask>,
    /// users, not of the system, whose environments we may not read
    pub(super) hidden: BTreeSet<u32>,
    /// true if there are more than were looked at
    pub(super) is_cut: bool,
}

impl Processes {
    /// The processes that may be looked at now.
    pub(super) fn of(root: &Root) -> Processes {
        let mut found = Processes::default();
        let all = pids(root);
        found.is_cut = !root.notes().is_empty();
        let mut left = MAX_ALL;
        for pid in all {
            let user = root.owner(&format!("proc/{pid}"));
            let path = format!("proc/{pid}/environ");
            let Some(environment) = root.beginning(&path, MAX_ENVIRONMENT.min(left)) else {
                found.hidden.extend(user.filter(|user| *user >= FIRST_USER));
                continue;
            };
            left -= environment.len();
            let task = |marked| PlacedTask {
                pid,
                user,
                processes: 1,
                marked,
            };
            found.placed.extend(marked(&environment).map(task));
            if left == 0 {
                found.is_cut = true;
                break;
            }
        }
        found
    }
}

pub(super) fn numbers_of_this_process() -> Numbers {
    numbers(&environment_of_this_process())
}

/// `NAME=VALUE` each with a NUL behind it.
pub(super) fn environment_of_this_process() -> Vec<u8> {
    let mut environment = Vec::new();
    for (name, value) in std::env::vars_os() {
        environment.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
    }
    environment
}

impl Seen for Processes {
    fn add(&mut self, later: Processes) {
        self.hidden.extend(later.hidden);
        let room = MAX_KEPT.saturating_sub(self.placed.len());
        self.placed.extend(later.placed.into_iter().take(room));
    }
}
