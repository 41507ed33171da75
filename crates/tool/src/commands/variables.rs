//! The environment of this process, and of the program.

use nic_placement_core::libraries::Present;
use nic_placement_core::placement::{Change, Variable};
use nic_placement_core::step::NODE_NAME;
use nic_placement_launch::launched::rank;
use std::ffi::{OsStr, OsString};

#[derive(Clone)]
pub(super) struct ProgramEnvironment(Vec<(OsString, OsString)>);

impl ProgramEnvironment {
    pub(super) fn of_this_process() -> ProgramEnvironment {
        ProgramEnvironment(std::env::vars_os().collect())
    }

    /// Of one name the first counts, as for getenv(3). Bytes that are not UTF-8 become U+FFFD: such a variable counts as set.
    /// Slurm's name of another node is left out.
    pub(super) fn values(&self) -> Present {
        let mut values = Present::new();
        for (name, value) in &self.0 {
            let name = name.to_string_lossy().into_owned();
            values
                .entry(name)
                .or_insert_with(|| value.to_string_lossy().into_owned());
        }
        if rank::has_brought_a_node(&values) {
            values.remove(NODE_NAME);
        }
        values
    }

    /// All other variables stay as they are, byte for byte.
    pub(super) fn change(&mut self, variables: &[Variable]) {
        for Variable { name, change, .. } in variables {
            let name = OsStr::new(name.as_ref());
            match change {
                Change::Set(value) => {
                    self.0.retain(|(other, _)| other != name);
                    self.0.push((name.to_os_string(), value.into()));
                }
                Change::Remove => self.0.retain(|(other, _)| other != name),
                Change::KeepUsers(_) | Change::Leave => {}
            }
        }
    }

    pub(super) fn entries(&self) -> &[(OsString, OsString)] {
        &self.0
    }
}
