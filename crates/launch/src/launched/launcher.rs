//! The launcher of this process: its name, the CPUs on which it may run, and the environment with which it was started.
//!
//! A launcher's processes start on the CPUs of their launcher, unless it bound them.  So they share its CPUs if they have
//! the same, and each knows it without asking the others, which may be binding themselves just now.

use nic_placement_core::topology::CpuSet;
use nic_placement_node::discover::root::{self, Author};
use nic_placement_sys as sys;
use std::path::Path;

/// Processes between this one and its launcher, at most: shells, wrappers, containers' entry points.
const MAX_ANCESTORS: usize = 32;
/// Bytes of an environment or a status, at most, near the kernel's own bound for execve(2).
const MAX_BYTES: usize = 6 * 1024 * 1024;

pub struct Launcher {
    pub name: String,
    pub cpus: CpuSet,
    /// its environment as it was started, `NAME=VALUE` each; `None` if that is not for us to read
    environment: Option<Vec<u8>>,
}

impl Launcher {
    /// The nearest ancestor without the variable and value by which the launcher numbered this
    /// process; the parent if it numbered by none.
    pub fn find(numbered_by: Option<(&str, &str)>) -> Option<Launcher> {
        let mut process = parent("self")?;
        for _ in 0..MAX_ANCESTORS {
            let environment = bytes(&format!("/proc/{process}/environ"));
            if !environment
                .as_ref()
                .is_some_and(|all| numbered_by.is_some_and(|variable| has(all, variable)))
            {
                let cpus = sys::affinity_of(process).ok()?;
                let name = text(&format!("/proc/{process}/comm"))?
                    .trim_end()
                    .to_string();
                return Some(Launcher {
                    name,
                    cpus,
                    environment,
                });
            }
            process = parent(&process.to_string())?;
        }
        None
    }

    /// `None` if its environment could not be read.
    pub fn had(&self, variables: &[(&str, &str)]) -> Option<bool> {
        let all = self.environment.as_ref()?;
        Some(variables.iter().all(|variable| has(all, *variable)))
    }
}

fn has(environment: &[u8], (name, value): (&str, &str)) -> bool {
    let entry = format!("{name}={value}");
    environment
        .split(|byte| *byte == 0)
        .any(|other| other == entry.as_bytes())
}

/// proc(5): the fourth field of `stat`, behind a name that may hold anything.
fn parent(process: &str) -> Option<i32> {
    let stat = text(&format!("/proc/{process}/stat"))?;
    let fields = &stat[stat.rfind(')')? + 1..];
    fields
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
        .filter(|parent| *parent > 0)
}

fn text(path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&bytes(path)?).into_owned())
}

fn bytes(path: &str) -> Option<Vec<u8>> {
    root::read_file(Path::new(path), MAX_BYTES, Author::Anyone).ok()
}
