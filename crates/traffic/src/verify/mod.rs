//! What each task of a node does, against its plan: the NICs that it uses, its threads' CPUs, its pages, its variables.
#![forbid(unsafe_code)]

mod binding;
#[cfg(test)]
mod tests;

pub use binding::{CpuVerdict, MemoryVerdict, OtherThreads, Thread};

use super::resources::Held;
use super::tasks::{Numbers, StepId};
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::topology::{CpuSet, GpuIndex, Nic, NicIndex, NicKind, PathType, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A task, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenTask {
    pub numbers: Numbers,
    pub user: Option<u32>,
    pub processes: Vec<u32>,
    /// its GPUs, as far as they are known; why not, else
    pub gpus: Result<Vec<GpuIndex>, String>,
    /// the NICs that its marker names; `None` where it was not placed
    pub planned: Option<Vec<String>>,
    /// the CPUs to which it was bound
    pub bound: Option<CpuSet>,
    /// what its processes held at any time, by device; else why that is not known
    pub held: Result<BTreeMap<String, Held>, String>,
    pub threads: Vec<Thread>,
    /// KiB that its processes wrote, by NUMA node
    pub memory: BTreeMap<u32, u64>,
    /// variables of ours that have another value
    pub changed: Vec<String>,
}

/// From the best to the worst, but for [`Verdict::Unknown`], which says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    AsPlanned,
    /// another NIC than planned, and none is nearer
    AsNear,
    Unknown,
    /// a NIC is planned and none is used: TCP or shared memory carries the bytes, or nothing does yet
    NoNic,
    NearerExists,
    /// the other socket's
    Far,
    /// a NIC that the plan leaves out
    LeftOut,
}

impl Verdict {
    pub const ALL: [Verdict; 7] = [
        Verdict::AsPlanned,
        Verdict::AsNear,
        Verdict::Unknown,
        Verdict::NoNic,
        Verdict::NearerExists,
        Verdict::Far,
        Verdict::LeftOut,
    ];

    /// As people read it, and as the label of a metric.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Verdict::AsPlanned => ("as planned", "as-planned"),
            Verdict::AsNear => ("as near", "as-near"),
            Verdict::Unknown => ("cannot tell", "unknown"),
            Verdict::NoNic => ("none: TCP?", "no-nic"),
            Verdict::NearerExists => ("nearer exists", "nearer-exists"),
            Verdict::Far => ("far", "far"),
            Verdict::LeftOut => ("left out", "left-out"),
        }
    }

    pub fn is_bad(self) -> bool {
        self > Verdict::Unknown
    }
}

/// How it is known that a NIC is used, from the best evidence to the weakest; only the best that a task has counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// connected queue pairs
    QueuePairs,
    /// queue pairs that need no connection; UCX has some on each NIC of its list
    Datagrams,
    /// registered memory: the queue pairs may be of the kind that the kernel does not tell
    Memory,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedNic {
    /// `mlx5_0:1`, or `mlx5_0` where the port is not known
    pub nic: String,
    pub by: By,
    /// queue pairs, or pieces of memory
    pub count: u32,
    /// from the nearest of the task's GPUs
    pub path: Option<String>,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskVerdict {
    pub job: Option<u64>,
    pub step: Option<u64>,
    pub local_id: Option<u32>,
    pub task: Option<u32>,
    pub user: Option<u32>,
    pub processes: Vec<u32>,
    pub gpus: Vec<usize>,
    pub is_placed: bool,
    pub planned: Vec<String>,
    pub used: Vec<UsedNic>,
    /// devices that are open and not used
    pub opened: Vec<String>,
    pub verdict: Verdict,
    pub why: Option<String>,
    pub cpus: CpuVerdict,
    pub memory: MemoryVerdict,
    pub changed: Vec<String>,
}

impl TaskVerdict {
    pub fn numbers(&self) -> Numbers {
        let step = self.job.map(|job| StepId {
            job,
            step: self.step,
        });
        Numbers {
            step,
            local: self.local_id,
            rank: self.task,
        }
    }

    /// Is the task where it was put, with its NICs and the CPUs of its first thread?
    pub fn is_bad(&self) -> bool {
        self.verdict.is_bad() || self.cpus.is_moved()
    }
}

/// The node, and what its plan is without words of a user's.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    pub topology: &'a Topology,
    pub map: &'a NodePlacement,
}

impl Node<'_> {
    fn path(&self, gpus: &[GpuIndex], nic: NicIndex) -> Option<PathType> {
        let nic = self.topology.nic(nic).address?;
        gpus.iter()
            .map(|gpu| {
                self.topology
                    .path_type(self.topology.gpu(*gpu).address, nic)
            })
            .min()
    }

    /// The NICs of these GPUs by the map.
    fn nics_of(&self, gpus: &[GpuIndex]) -> Vec<String> {
        let choices = gpus.iter().flat_map(|gpu| &self.map.gpu(*gpu).choices);
        let mut nics = Vec::new();
        for choice in choices {
            let nic = self.map.rail(choice.rail).to_string();
            if !nics.contains(&nic) {
                nics.push(nic);
            }
        }
        nics
    }

    /// What a NIC is to a task whose plan has it not.
    fn other(&self, gpus: &[GpuIndex], nic: NicIndex, port: Option<u32>) -> Verdict {
        let is_it = |number: u8| port.is_none_or(|port| port == u32::from(number));
        if !self
            .map
            .rails
            .iter()
            .any(|rail| rail.nic == nic && is_it(rail.port))
        {
            return Verdict::LeftOut;
        }
        let Some(path) = self.path(gpus, nic) else {
            return Verdict::Unknown;
        };
        let nearest = self
            .map
            .rails
            .iter()
            .filter_map(|rail| self.path(gpus, rail.nic))
            .min();
        match nearest.is_some_and(|nearest| nearest < path) {
            true if path == PathType::Sys => Verdict::Far,
            true => Verdict::NearerExists,
            false => Verdict::AsNear,
        }
    }
}

/// By which NICs, ports included where they are known, a task's bytes go: by the best evidence that it has.
fn used(held: &BTreeMap<String, Held>) -> Vec<(String, Option<u32>, By, u32)> {
    let ports = |by: By, of: fn(&Held) -> &BTreeMap<u32, u32>| {
        let each = held
            .iter()
            .flat_map(move |(device, held)| of(held).iter().map(move |of| (device, of)));
        each.map(move |(device, (port, count))| (device.clone(), Some(*port), by, *count))
    };
    let connected = Vec::from_iter(ports(By::QueuePairs, |held| &held.connected));
    if !connected.is_empty() {
        return connected;
    }
    let unconnected = Vec::from_iter(ports(By::Datagrams, |held| &held.unconnected));
    if !unconnected.is_empty() {
        return unconnected;
    }
    let with_memory = held.iter().filter(|(_, held)| held.regions > 0);
    with_memory
        .map(|(device, held)| (device.clone(), None, By::Memory, held.regions))
        .collect()
}

fn judged_nic(
    node: Node<'_>,
    gpus: &[GpuIndex],
    planned: &[String],
    (device, port, by, count): (String, Option<u32>, By, u32),
) -> UsedNic {
    let nic = port.map_or(device.clone(), |port| format!("{device}:{port}"));
    let is_planned = planned.iter().any(|planned| match port {
        Some(_) => *planned == nic,
        None => planned
            .split_once(':')
            .is_some_and(|(name, _)| name == device),
    });
    let index = node.topology.nic_index(&device);
    let verdict = match index {
        _ if is_planned => Verdict::AsPlanned,
        Some(index) => node.other(gpus, index, port),
        None => Verdict::Unknown,
    };
    let path = index
        .and_then(|index| node.path(gpus, index))
        .map(|path| path.to_string());
    UsedNic {
        nic,
        by,
        count,
        path,
        verdict,
    }
}

/// libfabric chooses among these, and they are no RDMA devices of the kernel's.
fn is_untold(nic: &Nic) -> bool {
    nic.kind == NicKind::Slingshot
}

/// Judges a task.  Of `unowned` queue pairs on the node the kernel does not tell whose they are.
pub fn judge(node: Node<'_>, task: &SeenTask, unowned: u32) -> TaskVerdict {
    let gpus = task.gpus.clone().unwrap_or_default();
    let planned = task.planned.clone().unwrap_or_else(|| node.nics_of(&gpus));
    let none = BTreeMap::new();
    let held = task.held.as_ref().unwrap_or(&none);
    let used: Vec<UsedNic> = used(held)
        .into_iter()
        .map(|used| judged_nic(node, &gpus, &planned, used))
        .collect();
    let worst = used.iter().map(|used| used.verdict).max();
    let (verdict, why) = match (worst, &task.held, &task.gpus) {
        (_, Err(why), _) => (Verdict::Unknown, Some(why.clone())),
        (Some(Verdict::LeftOut), ..) => (Verdict::LeftOut, None),
        // a plan of its own needs no GPU
        (_, _, Err(why)) if task.planned.is_none() => (Verdict::Unknown, Some(why.clone())),
        (Some(Verdict::Unknown), ..) => (
            Verdict::Unknown,
            Some("a NIC that it uses is not known on this node".to_string()),
        ),
        (Some(worst), ..) => (worst, None),
        (None, ..) if planned.is_empty() && node.topology.nics.iter().any(is_untold) => (
            Verdict::Unknown,
            Some("the kernel does not tell which processes use Slingshot's NICs".to_string()),
        ),
        (None, ..) if planned.is_empty() => (Verdict::AsPlanned, None),
        (None, ..) if unowned > 0 => {
            let why = format!(
                "of {unowned} queue pairs on this node the kernel does not tell whose they are"
            );
            (Verdict::Unknown, Some(why))
        }
        (None, ..) => (Verdict::NoNic, None),
    };
    let is_used = |device: &str| {
        used.iter()
            .any(|used| used.nic.split(':').next() == Some(device) && used.by != By::Memory)
            || used.iter().any(|used| used.nic == device)
    };
    let opened = held
        .keys()
        .filter(|device| !is_used(device))
        .cloned()
        .collect();
    let near = binding::near(node.topology, &gpus);
    let Numbers { step, local, rank } = task.numbers;
    TaskVerdict {
        job: step.map(|step| step.job),
        step: step.and_then(|step| step.step),
        local_id: local,
        task: rank,
        user: task.user,
        processes: task.processes.clone(),
        gpus: gpus.iter().map(|gpu| gpu.0).collect(),
        is_placed: task.planned.is_some(),
        planned,
        used,
        opened,
        verdict,
        why,
        cpus: binding::cpus(node.topology, task.bound.as_ref(), &near, &task.threads),
        memory: binding::memory(&near, &task.memory),
        changed: task.changed.clone(),
    }
}
