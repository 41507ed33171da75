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
            total_tasks: count,
            gpus: (!self.gpus.is_empty()).then(|| gpus::slurms_numbers(node, &self.gpus)),
            cpus_per_task: self.cpus_per_task,
            alone_on_node: self.alone_on_node,
            ..Step::default()
        };
        // a list is a fact: variables that would say the same are not read
        let is_known = matches!(self.split, GpuSplit::Listed(_));
        let (lists, gpu_bind): (Vec<&[GpuIndex]>, _) = match &self.split {
            GpuSplit::All => (vec![&self.gpus; count as usize], None),
            GpuSplit::Each(0) => (
                vec![&[]; count as usize],
                Some("gpu:per_task:0".to_string()),
            ),
            GpuSplit::Each(each) => {
                let lists = self.gpus.chunks(*each as usize).take(count as usize);
                (lists.collect(), Some(format!("gpu:per_task:{each}")))
            }
            GpuSplit::Listed(lists) => (lists.iter().map(Vec::as_slice).collect(), None),
        };
        let firsts = firsts(node, &lists);
        let known = |gpus: &[GpuIndex]| TaskGpus {
            by_local_id: firsts.clone(),
            ..TaskGpus::new(
                gpus.to_vec(),
                match gpus.is_empty() {
                    true => "its launcher gives it none",
                    false => "its launcher names them",
                },
            )
        };
        let task = |(id, gpus): (u32, &[GpuIndex])| Task {
            local_id: id,
            global_id: id,
            gpus: grant(node, gpus),
            known: is_known.then(|| known(gpus)),
            cpus: self.cpus.clone(),
            step_cpus: self.cpus.clone(),
            gpu_bind: gpu_bind.clone(),
            ..Task::default()
        };
        Ok((
            step,
            (0..count).zip(lists.iter().copied()).map(task).collect(),
        ))
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
}

/// One GPU of each task, on the NUMA node of all of its GPUs; `None` if two tasks share a GPU.
fn firsts(node: &Topology, lists: &[&[GpuIndex]]) -> Option<Vec<GpuIndex>> {
    let mut taken = BTreeSet::new();
    let first = |list: &&[GpuIndex]| {
        let near = list
            .iter()
            .map(|gpu| node.numa_node_of(node.gpu(*gpu).address));
        let is_one = near.collect::<Option<NodeSet>>()?.len() == 1;
        let is_free = is_one && list.iter().all(|gpu| taken.insert(*gpu));
        list.first().copied().filter(|_| is_free)
    };
    lists.iter().map(first).collect()
}

pub fn grant(node: &Topology, gpus: &[GpuIndex]) -> GpuGrant {
    let mut variables: BTreeMap<&'static str, String> = BTreeMap::new();
    for &gpu in gpus {
        let vendor = node.gpu(gpu).vendor;
        let before = node.gpus[..gpu.0].iter();
        let in_pci_order = before.filter(|other| other.vendor == vendor).count() as u32;
        let number = node.gpu(gpu).runtime_index.unwrap_or(in_pci_order);
        let list = variables.entry(vendor.list_variable());
        list.and_modify(|list| *list += &format!(",{number}"))
            .or_insert(number.to_string());
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
