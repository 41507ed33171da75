//! A step and its tasks as the tool's command line or a launcher describes them, without Slurm.

use crate::gpus;
use nic_placement_core::config::{Admin, Words};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::plan::Wish;
use nic_placement_core::step::{Access, GpuGrant, Starter, Step, Task, TaskGpus};
use nic_placement_core::topology::{CpuSet, GpuIndex, GpuVendor, NodeSet, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Tasks on one node, at most: Slurm's own bound is the number of CPUs times `MaxTasksPerNode` (512 by default).
pub const MAX_TASKS: u32 = 4096;

#[derive(Clone, Debug)]
pub enum GpuSplit {
    All,
    /// so many for each task, in order, as `--gpus-per-task`
    Each(u32),
    /// a list for each task, in the order of local ids
    Listed(Vec<Vec<GpuIndex>>),
}

pub struct StepRequest {
    pub starter: Starter,
    pub gpus: Vec<GpuIndex>,
    pub split: GpuSplit,
    /// `None`: one task for each GPU, or group of them
    pub tasks: Option<u32>,
    /// `None` for an even share
    pub cpus_per_task: Option<u32>,
    /// CPUs of all tasks together; each starts on all of them
    pub cpus: CpuSet,
    pub alone_on_node: bool,
}

impl StepRequest {
    pub fn step(&self, node: &Topology) -> Result<(Step, Vec<Task>), String> {
        let count = self.count()?;
        let step = Step {
            starter: self.starter,
            tasks: count,
            uncounted: false,
            total_tasks: count,
            gpus: (!self.gpus.is_empty()).then(|| gpus::slurms_numbers(node, &self.gpus)),
            cpus_per_task: self.cpus_per_task,
            alone_on_node: self.alone_on_node,
            ..Step::default()
        };
        let firsts = self.firsts(node);
        let task = |id: u32| Task {
            local_id: id,
            global_id: id,
            gpus: grant(node, self.gpus_of(id)),
            known: self.known(id, &firsts),
            cpus: self.cpus.clone(),
            step_cpus: self.cpus.clone(),
            gpu_bind: match self.split {
                GpuSplit::Each(each) => Some(format!("gpu:per_task:{each}")),
                GpuSplit::All | GpuSplit::Listed(_) => None,
            },
            ..Task::default()
        };
        Ok((step, (0..count).map(task).collect()))
    }

    fn count(&self) -> Result<u32, String> {
        let gpus = self.gpus.len();
        let default = match &self.split {
            GpuSplit::Each(each @ 1..) => gpus as u32 / each,
            GpuSplit::All | GpuSplit::Each(0) => gpus as u32,
            GpuSplit::Listed(lists) => lists.len() as u32,
        };
        let count = self.tasks.unwrap_or(default.max(1));
        if count == 0 || count > MAX_TASKS {
            return Err(format!("{count} tasks: expected 1 to {MAX_TASKS}"));
        }
        let enough = |kind, each: u32, has: usize| {
            let wanted = u64::from(count) * u64::from(each);
            match wanted > has as u64 {
                true => Err(format!(
                    "{} of {} each need {wanted} {kind}s, the allocation has {has}",
                    counted(count as usize, "task"),
                    counted(each as usize, kind)
                )),
                false => Ok(count),
            }
        };
        if let GpuSplit::Each(each) = self.split {
            enough("GPU", each, gpus)?;
        }
        // launchers overcommit CPUs, and a file may name too few or none
        let asked = self.tasks.or(self.cpus_per_task).is_some() && self.starter == Starter::Slurm;
        match asked && !self.cpus.is_empty() {
            true => enough("CPU", self.cpus_per_task.unwrap_or(1), self.cpus.len()),
            false => Ok(count),
        }
    }

    fn gpus_of(&self, id: u32) -> &[GpuIndex] {
        match &self.split {
            GpuSplit::All => &self.gpus,
            GpuSplit::Each(each) => {
                let from = (id * each) as usize;
                self.gpus
                    .get(from..from + *each as usize)
                    .unwrap_or_default()
            }
            GpuSplit::Listed(lists) => lists
                .get(id as usize)
                .map(Vec::as_slice)
                .unwrap_or_default(),
        }
    }

    /// A list is a fact: variables that would say the same are not read.
    fn known(&self, id: u32, firsts: &Option<Vec<GpuIndex>>) -> Option<TaskGpus> {
        let GpuSplit::Listed(_) = self.split else {
            return None;
        };
        let gpus = self.gpus_of(id).to_vec();
        let reason = if gpus.is_empty() {
            "its launcher gives it none"
        } else {
            "its launcher names them"
        };
        Some(TaskGpus {
            by_local_id: firsts.clone(),
            ..TaskGpus::new(gpus, reason)
        })
    }

    /// One GPU of each task, on the NUMA node of all of its GPUs; `None` if two tasks share a GPU.
    fn firsts(&self, node: &Topology) -> Option<Vec<GpuIndex>> {
        let GpuSplit::Listed(lists) = &self.split else {
            return None;
        };
        let (mut taken, mut firsts) = (BTreeSet::new(), Vec::with_capacity(lists.len()));
        for list in lists {
            if list
                .iter()
                .map(|&gpu| node.numa_node_of(node.gpu(gpu).address))
                .collect::<Option<NodeSet>>()?
                .len()
                != 1
                || !list.iter().all(|gpu| taken.insert(*gpu))
            {
                return None;
            }
            firsts.extend(list.first());
        }
        Some(firsts)
    }
}

pub fn grant(node: &Topology, gpus: &[GpuIndex]) -> GpuGrant {
    let number_of = |vendor: GpuVendor, gpu: GpuIndex| {
        let in_pci_order = node.gpus[..gpu.0]
            .iter()
            .filter(|other| other.vendor == vendor)
            .count();
        node.gpu(gpu)
            .runtime_index
            .map_or(in_pci_order, |index| index as usize)
    };
    let mut variables: BTreeMap<&'static str, String> = BTreeMap::new();
    for &gpu in gpus {
        let vendor = node.gpu(gpu).vendor;
        let list = variables.entry(vendor.list_variable()).or_default();
        if !list.is_empty() {
            list.push(',');
        }
        list.push_str(&number_of(vendor, gpu).to_string());
        if vendor == GpuVendor::Intel {
            // else Level Zero counts each stack of a GPU as a device, and a number is another GPU's
            variables.insert("ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE".to_string());
        }
    }
    GpuGrant {
        variables,
        access: vec![Access::Unknown; node.gpus.len()],
    }
}

pub fn for_engines(node: &Topology, gpus: &[GpuIndex]) -> Step {
    let tasks = gpus.len() as u32;
    let gpus = Some(gpus::slurms_numbers(node, gpus));
    Step {
        tasks,
        total_tasks: tasks,
        gpus,
        alone_on_node: true,
        ..Step::default()
    }
}

/// The wish of these words, which must ask for a placement, and not for what only a process of its own can have.
pub fn wish(words: Option<&str>, admin: Admin) -> Result<Wish, String> {
    let words = Words::parse(words.unwrap_or_default()).map_err(|bad| bad.to_string())?;
    let wish = Wish::new(admin, None, Some(&words));
    if wish.enabled && !(words.observe || words.help || words.verbose || words.dry_run) {
        return Ok(wish);
    }
    Err("plans nothing: expected a policy, strictness or binding, as `rail,strict`".to_string())
}
