//! A task against its plan: NICs, threads' CPUs, pages, variables.

mod binding;
#[cfg(test)]
mod tests;

pub use binding::{CpuVerdict, MemoryVerdict, OtherThreads, Thread};

use super::resources::Held;
use super::tasks::{Numbers, StepId};
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::topology::{CpuSet, GpuIndex, NicIndex, NicKind, PathType, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub struct SeenTask {
    pub numbers: Numbers,
    pub user: Option<u32>,
    pub processes: Vec<u32>,
    pub gpus: Result<Vec<GpuIndex>, String>,
    /// the NICs that its marker names; `None`: not placed
    pub planned: Option<Vec<String>>,
    pub bound: Option<CpuSet>,
    /// by device, what its processes held, or why that is not known
    pub held: Result<BTreeMap<String, Held>, String>,
    pub threads: Vec<Thread>,
    /// KiB that its processes wrote, by NUMA node
    pub memory: BTreeMap<u32, u64>,
    pub changed: Vec<String>,
}

/// From the best to the worst, but for [`Verdict::Unknown`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    AsPlanned,
    /// another NIC than planned, and none is nearer
    AsNear,
    Unknown,
    /// a NIC is planned and none is used: TCP or shared memory carries the bytes, or nothing yet
    NoNic,
    NearerExists,
    Far,
    LeftOut,
}

impl Verdict {
    /// For people, and for the label of a metric.
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

/// Evidence that a NIC is used, the best first: only a task's best counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    QueuePairs,
    /// queue pairs that need no connection; UCX has some on each NIC of its list
    Datagrams,
    /// registered memory: the kernel may not list the queue pairs
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
    pub opened: Vec<String>,
    pub verdict: Verdict,
    pub why: Option<String>,
    pub cpus: CpuVerdict,
    pub memory: MemoryVerdict,
    pub changed: Vec<String>,
}

impl TaskVerdict {
    pub fn numbers(&self) -> Numbers {
        let step = self.step;
        Numbers {
            step: self.job.map(|job| StepId { job, step }),
            local: self.local_id,
            rank: self.task,
        }
    }

    /// True if it uses other NICs than its own, or its first thread other CPUs.
    pub fn is_bad(&self) -> bool {
        self.verdict.is_bad() || self.cpus.first_left
    }
}

/// The node, and its plan without words of a user's.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    pub topology: &'a Topology,
    pub map: &'a NodePlacement,
}

impl Node<'_> {
    fn path(&self, gpus: &[GpuIndex], nic: NicIndex) -> Option<PathType> {
        let nic = self.topology.nic(nic).address?;
        gpus.iter()
            .map(|gpu| self.topology.gpu(*gpu).address)
            .map(|gpu| self.topology.path_type(gpu, nic))
            .min()
    }

    fn nics_of(&self, gpus: &[GpuIndex]) -> Vec<String> {
        let mut nics = Vec::new();
        for choice in gpus.iter().flat_map(|gpu| &self.map.gpu(*gpu).choices) {
            let nic = self.map.rail(choice.rail).to_string();
            if !nics.contains(&nic) {
                nics.push(nic);
            }
        }
        nics
    }

    fn other(&self, gpus: &[GpuIndex], nic: NicIndex, port: Option<u32>) -> Verdict {
        let mut rails = self.map.rails.iter();
        if !rails.any(|of| of.nic == nic && port.is_none_or(|port| port == u32::from(of.port))) {
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

    fn judged(&self, gpus: &[GpuIndex], planned: &[String], used: Used) -> UsedNic {
        let Used {
            device,
            port,
            by,
            count,
        } = used;
        let nic = port.map_or(device.clone(), |port| format!("{device}:{port}"));
        let is_it = |planned: &String| match port {
            Some(_) => *planned == nic,
            None => planned.split(':').next() == Some(&device),
        };
        let index = self.topology.nic_index(&device);
        let path = index.and_then(|index| self.path(gpus, index));
        UsedNic {
            by,
            count,
            path: path.map(|path| path.to_string()),
            verdict: match index {
                _ if planned.iter().any(is_it) => Verdict::AsPlanned,
                Some(index) => self.other(gpus, index, port),
                None => Verdict::Unknown,
            },
            nic,
        }
    }
}

struct Used {
    device: String,
    port: Option<u32>,
    by: By,
    count: u32,
}

fn used(held: &BTreeMap<String, Held>) -> Vec<Used> {
    let ports = |by: By, of: fn(&Held) -> &BTreeMap<u32, u32>| -> Vec<Used> {
        held.iter()
            .flat_map(|(device, held)| of(held).iter().map(move |of| (device, of)))
            .map(|(device, (port, count))| Used {
                device: device.clone(),
                port: Some(*port),
                by,
                count: *count,
            })
            .collect()
    };
    let connected = ports(By::QueuePairs, |held| &held.connected);
    let unconnected = ports(By::Datagrams, |held| &held.unconnected);
    if let Some(best) = [connected, unconnected]
        .into_iter()
        .find(|of| !of.is_empty())
    {
        return best;
    }
    held.iter()
        .filter(|(_, held)| held.regions > 0)
        .map(|(device, held)| Used {
            device: device.clone(),
            port: None,
            by: By::Memory,
            count: held.regions,
        })
        .collect()
}

/// The kernel does not tell the owner of `unowned` queue pairs.
pub fn judge(node: Node<'_>, task: &SeenTask, unowned: u32) -> TaskVerdict {
    let gpus = task.gpus.clone().unwrap_or_default();
    let planned = task.planned.clone().unwrap_or_else(|| node.nics_of(&gpus));
    let held = task.held.clone().unwrap_or_default();
    let used = used(&held).into_iter();
    let used: Vec<UsedNic> = used
        .map(|used| node.judged(&gpus, &planned, used))
        .collect();
    let worst = used.iter().map(|used| used.verdict).max();
    // libfabric chooses among Slingshot's NICs, which are no RDMA devices of the kernel's
    let mut nics = node.topology.nics.iter();
    let is_untold = planned.is_empty() && nics.any(|nic| nic.kind == NicKind::Slingshot);
    let (verdict, why) = match (worst, &task.held, &task.gpus) {
        (_, Err(why), _) => (Verdict::Unknown, why.clone()),
        (Some(Verdict::LeftOut), ..) => (Verdict::LeftOut, String::new()),
        // a plan of its own needs no GPU
        (_, _, Err(why)) if task.planned.is_none() => (Verdict::Unknown, why.clone()),
        (Some(Verdict::Unknown), ..) => {
            let why = "a NIC that it uses is not known on this node";
            (Verdict::Unknown, why.to_string())
        }
        (Some(worst), ..) => (worst, String::new()),
        (None, ..) if is_untold => {
            let why = "the kernel does not tell which processes use Slingshot's NICs";
            (Verdict::Unknown, why.to_string())
        }
        (None, ..) if planned.is_empty() => (Verdict::AsPlanned, String::new()),
        (None, ..) if unowned > 0 => (
            Verdict::Unknown,
            format!(
                "of {unowned} queue pairs on this node the kernel does not tell whose they are"
            ),
        ),
        (None, ..) => (Verdict::NoNic, String::new()),
    };
    let is_used = |device: &str| {
        used.iter().any(|used| {
            used.nic == device
                || used.by != By::Memory && used.nic.split(':').next() == Some(device)
        })
    };
    let opened = held.keys().filter(|device| !is_used(device));
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
        opened: opened.cloned().collect(),
        used,
        verdict,
        why: Some(why).filter(|why| !why.is_empty()),
        cpus: binding::cpus(node.topology, task.bound.as_ref(), &near, &task.threads),
        memory: binding::memory(&near, &task.memory),
        changed: task.changed.clone(),
    }
}
