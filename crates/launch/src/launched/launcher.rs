//! The launcher of this process: its name, the CPUs on which it may run, and the environment with which it was started.
//!
//! A launcher did not bind a process that has its CPUs, nor the others, whose masks are not read: they may be binding
//! themselves just now.

use nic_placement_core::topology::CpuSet;
use nic_placement_node::discover::Root;
use nic_placement_sys as sys;
use std::os::unix::process::parent_id;
use std::thread::sleep;
use std::time::Duration;

/// Processes between this one and its launcher, at most: shells, wrappers, containers' entry points.
const MAX_ANCESTORS: usize = 32;
/// Bytes of an environment, at most, near the kernel's own bound for execve(2).
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
        let root = Root::live();
        let mut process = parent_id() as i32;
        for _ in 0..MAX_ANCESTORS {
            // proc_pid_status(5): a name's line end is escaped there
            let status = root.read(&format!("proc/{process}/status"))?;
            let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
            let environment = root.beginning(&format!("proc/{process}/environ"), MAX_BYTES);
            let is_numbered =
                |all: &Vec<u8>| numbered_by.is_some_and(|variable| has(all, variable));
            if !environment.as_ref().is_some_and(is_numbered) {
                return Some(Launcher {
                    name: field("Name:")?.trim().to_string(),
                    cpus: cpus_of(process)?,
                    environment,
                });
            }
            process = field("PPid:")?.trim().parse().ok()?;
        }
        None
    }

    /// `None` if its environment could not be read.
    pub fn had(&self, variables: &[(&str, &str)]) -> Option<bool> {
        let all = self.environment.as_ref()?;
        Some(variables.iter().all(|variable| has(all, *variable)))
    }
}

/// A mask that lacks one of our CPUs counts once it stays for 250 ms, or after 5 s: hwloc (topology-x86.c) binds itself to each
/// CPU in turn, in MPICH's `hydra_pmi_proxy` (5.0.2) while ranks start.
fn cpus_of(launcher: i32) -> Option<CpuSet> {
    let own = sys::affinity().ok()?;
    let mut cpus = sys::affinity_of(launcher).ok()?;
    let mut same = 0;
    for _ in 0..1000 {
        if same == 50 || own.is_subset(&cpus) {
            break;
        }
        sleep(Duration::from_millis(5));
        let now = sys::affinity_of(launcher).ok()?;
        same = if now == cpus { same + 1 } else { 0 };
        cpus = now;
    }
    Some(cpus)
}

fn has(environment: &[u8], (name, value): (&str, &str)) -> bool {
    let entry = format!("{name}={value}");
    environment
        .split(|byte| *byte == 0)
        .any(|other| other == entry.as_bytes())
}
