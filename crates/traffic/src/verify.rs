//! A task against its plan: NICs, threads' CPUs, pages, variables.

#[cfg(test)]
mod tests;

use super::resources::{By, HeldNic};
use super::tasks::{Marked, Numbers, changed, marked, numbers, variable};
use nic_placement_core::gpus;
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::step::{Access, GpuGrant, STEP_GPUS, Step};
use nic_placement_core::topology::{
    CpuSet, GpuIndex, NicIndex, NicKind, NodeSet, PathType, Topology,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A process, or all of one task.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub numbers: Numbers,
    /// `None`: not placed
    pub marked: Option<Marked>,
    pub changed: BTreeSet<String>,
    /// those of GPUs
    pub variables: BTreeMap<&'static str, String>,
    pub step_gpus: Option<String>,
    pub user: Option<u32>,
    pub processes: Vec<u32>,
    pub threads: Vec<Thread>,
    /// KiB that was written, by NUMA node
    pub memory: BTreeMap<u32, u64>,
    /// open device files, as `nvidia0`
    pub device_files: BTreeSet<String>,
    pub held: BTreeSet<HeldNic>,
}

#[derive(Debug, Clone)]
pub struct Thread {
    pub is_first: bool,
    pub cpus: CpuSet,
}

impl Seen {
    /// Without what /proc has besides.
    pub fn new(environment: &[u8]) -> Seen {
        let value = |name: &'static str| variable(environment, name).map(str::to_string);
        let variables = gpus::VARIABLES.into_iter();
        Seen {
            numbers: numbers(environment),
            marked: marked(environment),
            changed: changed(environment).into_iter().collect(),
            variables: variables
                .filter_map(|name| Some((name, value(name)?)))
                .collect(),
            step_gpus: value(STEP_GPUS),
            ..Seen::default()
        }
    }

    /// Adds another process of the task.
    pub fn join(&mut self, other: Seen) {
        self.changed.extend(other.changed);
        self.processes.extend(other.processes);
        self.threads.extend(other.threads);
        for (node, kib) in other.memory {
            let sum = self.memory.entry(node).or_default();
            *sum = sum.saturating_add(kib);
        }
        self.device_files.extend(other.device_files);
        self.held.extend(other.held);
    }

    /// The GPUs of a task that was not placed, by its open device files: those that it may open are not seen from outside.
    fn gpus(&self, topology: &Topology) -> Result<Vec<GpuIndex>, &'static str> {
        let is_open = |gpu: GpuIndex| {
            let file = topology.gpu(gpu).device_node();
            file.is_some_and(|file| self.device_files.contains(&file))
        };
        let claimed =
            |step: Step, variables: &BTreeMap<&'static str, String>, open: &[GpuIndex]| {
                let access = topology.gpu_indices().map(|gpu| match open {
                    [] => Access::Unknown,
                    open if open.contains(&gpu) => Access::Allowed,
                    _ => Access::Denied,
                });
                let (access, variables) = (access.collect(), variables.clone());
                gpus::identify(topology, &step, &GpuGrant { variables, access }).own
            };
        let open: Vec<GpuIndex> = topology.gpu_indices().filter(|gpu| is_open(*gpu)).collect();
        let listed = claimed(Step::default(), &self.variables, &[]);
        if !open.is_empty() {
            // without a device cgroup its numbers count all GPUs, and with one those that it may open
            let is_among = listed.iter().all(|gpu| open.contains(gpu));
            let listed = listed.into_iter().filter(|_| is_among).collect();
            let among = claimed(Step::default(), &self.variables, &open);
            let mut all = [listed, among, open].into_iter();
            return Ok(all.find(|of| !of.is_empty()).unwrap_or_default());
        }
        // Slurm's numbers of a task's own may count from 0
        let gpus = self.step_gpus.clone();
        let step = Step {
            gpus,
            ..Step::default()
        };
        let of_step = claimed(step, &BTreeMap::new(), &[]);
        match [0, of_step.len()].contains(&listed.len()) && !of_step.is_empty() {
            true => Ok(of_step),
            false => {
                Err("it has no GPU open, and Slurm's numbers do not tell from outside which it has")
            }
        }
    }
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
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsedNic {
    /// `mlx5_0:1`, or `mlx5_0` where the port is not known
    pub nic: String,
    pub by: By,
    /// from the nearest of the task's GPUs
    pub path: Option<String>,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskVerdict {
    #[serde(flatten)]
    pub numbers: Numbers,
    pub processes: Vec<u32>,
    pub gpus: Vec<usize>,
    pub is_placed: bool,
    pub planned: Vec<String>,
    pub used: Vec<UsedNic>,
    pub verdict: Verdict,
    pub why: Option<String>,
    pub cpus: CpuVerdict,
    /// percent of what it wrote, on the NUMA nodes of its GPUs, rounded down
    pub near_memory: Option<u64>,
    pub changed: BTreeSet<String>,
}

impl TaskVerdict {
    /// True if it uses other NICs than its own, or a first thread other CPUs.
    pub fn is_bad(&self) -> bool {
        self.verdict > Verdict::Unknown || self.cpus.left_for.is_some()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuVerdict {
    /// the CPUs that were set, if any were
    pub set: Option<String>,
    /// the CPUs of a process's first thread that has left those
    pub left_for: Option<String>,
    pub threads: usize,
    /// threads without a CPU near the GPUs
    pub far: usize,
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

    fn judged(&self, gpus: &[GpuIndex], planned: &[String], used: &HeldNic) -> UsedNic {
        let HeldNic { by, device, port } = used;
        let nic = port.map_or(device.clone(), |port| format!("{device}:{port}"));
        let is_it = |planned: &String| match port {
            Some(_) => *planned == nic,
            None => planned.split(':').next() == Some(device),
        };
        let index = self.topology.nic_index(device);
        let path = index.and_then(|index| self.path(gpus, index));
        UsedNic {
            by: *by,
            path: path.map(|path| path.to_string()),
            verdict: match index {
                _ if planned.iter().any(is_it) => Verdict::AsPlanned,
                Some(index) => self.other(gpus, index, *port),
                None => Verdict::Unknown,
            },
            nic,
        }
    }
}

/// `has_unowned`: the kernel does not tell the owner of some queue pairs; else the reason why nothing is known of any.
pub fn judge(node: Node<'_>, task: Seen, has_unowned: Result<bool, &str>) -> TaskVerdict {
    let topology = node.topology;
    let is_placed = task.marked.is_some();
    let (found, planned, bound) = match &task.marked {
        Some(Marked { gpus, nics, cpus }) => {
            let gpus = gpus.iter().filter_map(|gpu| topology.gpu_index(*gpu));
            (Ok(gpus.collect()), Some(nics.clone()), cpus.clone())
        }
        None => (task.gpus(topology), None, None),
    };
    let gpus = found.clone().unwrap_or_default();
    let planned = planned.unwrap_or_else(|| node.nics_of(&gpus));
    let best = task.held.first().map(|held| held.by);
    let used = task.held.iter().filter(|held| Some(held.by) == best);
    let used = used.map(|held| node.judged(&gpus, &planned, held));
    let used: Vec<UsedNic> = used.collect();
    let worst = used.iter().map(|used| used.verdict).max();
    // libfabric chooses among Slingshot's NICs, which are no RDMA devices of the kernel's
    let mut nics = topology.nics.iter();
    let is_untold = planned.is_empty() && nics.any(|nic| nic.kind == NicKind::Slingshot);
    let (verdict, why) = match (worst, has_unowned, found) {
        (_, Err(why), _) => (Verdict::Unknown, why),
        (Some(Verdict::LeftOut), ..) => (Verdict::LeftOut, ""),
        // a plan of its own needs no GPU
        (_, _, Err(why)) => (Verdict::Unknown, why),
        (Some(Verdict::Unknown), ..) => (
            Verdict::Unknown,
            "a NIC that it uses is not known on this node",
        ),
        (Some(worst), ..) => (worst, ""),
        (None, ..) if is_untold => (
            Verdict::Unknown,
            "the kernel does not tell which processes use Slingshot's NICs",
        ),
        (None, ..) if planned.is_empty() => (Verdict::AsPlanned, ""),
        (None, Ok(true), _) => (
            Verdict::Unknown,
            "the kernel does not tell whose some queue pairs on this node are",
        ),
        (None, ..) => (Verdict::NoNic, ""),
    };
    let gpus_near = gpus.iter();
    let near = gpus_near.filter_map(|gpu| topology.numa_node_of(topology.gpu(*gpu).address));
    let near: NodeSet = near.collect();
    TaskVerdict {
        numbers: task.numbers,
        gpus: gpus.iter().map(|gpu| gpu.0).collect(),
        is_placed,
        planned,
        used,
        verdict,
        why: Some(why.to_string()).filter(|why| !why.is_empty()),
        cpus: cpus(bound.as_ref(), &topology.cpus_of(&near), &task.threads),
        near_memory: near_memory(&near, &task.memory),
        changed: task.changed,
        processes: task.processes,
    }
}

fn cpus(bound: Option<&CpuSet>, near: &CpuSet, threads: &[Thread]) -> CpuVerdict {
    let is_far = |thread: &&Thread| !near.is_empty() && !thread.cpus.intersects(near);
    let has_left = |thread: &&Thread| {
        thread.is_first && bound.is_some_and(|bound| !thread.cpus.is_subset(bound))
    };
    let left = threads.iter().find(has_left);
    CpuVerdict {
        set: bound.map(ToString::to_string),
        left_for: left.map(|thread| thread.cpus.to_string()),
        threads: threads.len(),
        far: threads.iter().filter(is_far).count(),
    }
}

fn near_memory(near: &NodeSet, kib: &BTreeMap<u32, u64>) -> Option<u64> {
    let (mut of_near, mut all) = (0u128, 0u128);
    for (node, kib) in kib {
        all += u128::from(*kib);
        of_near += u128::from(near.contains(*node)) * u128::from(*kib);
    }
    let share = (of_near * 100).checked_div(all);
    share.filter(|_| !near.is_empty())?.try_into().ok()
}
