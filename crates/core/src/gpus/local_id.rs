//! `gpu=local-id`: the user promises that each task uses the GPU of its local id, though the task
//! sees more.
//!
//! Programs that choose by `SLURM_LOCALID`, such as PyTorch's and DeepSpeed's launchers, keep the
//! promise: task k uses GPU k, even if GPUs outnumber tasks.

use super::list::CUDA_ORDER;
use super::{of_the_step, unequal};
use crate::order;
use crate::step::{GpuGrant, Step, Task, rule};
use crate::topology::{GpuIndex, GpuVendor, Topology};

/// `[local id]`: the task's GPU. The error says why the promise cannot hold. `gpus`: the GPUs that
/// this task sees.
pub fn by_local_id(
    node: &Topology,
    step: &Step,
    task: &Task,
    gpus: &[GpuIndex],
) -> Result<Vec<GpuIndex>, String> {
    let tasks = step.tasks_here();
    if gpus.is_empty() {
        return Err("it sees no GPU".to_string());
    }
    let bind = task.gpu_bind.as_deref();
    if let Some(bind) = bind.filter(|bind| !rule::shows_all(bind)) {
        return Err(format!("Slurm deals the GPUs, by `{}`", super::shown(bind)));
    }
    // if the counts are equal, the task sees all GPUs of the step. GPU numbers are not compared:
    // with `AutoDetect=nvml` `SLURM_STEP_GPUS` counts in PCI order, unlike the device files
    let sees = order::set(gpus.iter().copied()).len();
    let has = of_the_step(node, step).len();
    if has > 0 && sees != has {
        return Err(format!(
            "it sees {sees} GPUs and the step has {has} here, so its tasks may see different ones"
        ));
    }
    if tasks > gpus.len() || task.local_id as usize >= tasks {
        return Err(format!(
            "{tasks} tasks are more than the {} GPUs that they see",
            gpus.len()
        ));
    }
    match uncountable(node, gpus, &task.gpus) {
        Some(why) => Err(why.into()),
        None => Ok(gpus[..tasks].to_vec()),
    }
}

/// The reason, if any, why a GPU number may be ambiguous among `gpus`.
pub fn uncountable(node: &Topology, gpus: &[GpuIndex], grant: &GpuGrant) -> Option<&'static str> {
    let all = || gpus.iter().map(|&gpu| node.gpu(gpu));
    let vendors = order::set(all().map(|gpu| gpu.vendor));
    let order = grant.variables.get(CUDA_ORDER);
    Some(if vendors.len() > 1 {
        "its GPUs are of several vendors, and each counts its own"
    } else if vendors.contains(&GpuVendor::Intel) {
        "a number may mean a stack of its GPUs"
    } else if all().any(|gpu| gpu.mig_instances.is_some()) {
        "a number may mean a MIG instance"
    } else if vendors.contains(&GpuVendor::Nvidia)
        && order.is_none_or(|order| order != "PCI_BUS_ID")
        && unequal(node, gpus).is_some()
    {
        "its GPUs differ, and `CUDA_DEVICE_ORDER` is not `PCI_BUS_ID`"
    } else {
        return None;
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpus::identify;
    use crate::step::{Access, GpuGrant};
    use nic_placement_node::platform;

    /// The promise to a task of so many which sees `visible` of the step's GPUs.
    fn promised(
        (topology, tasks, local_id): (&Topology, u32, u32),
        visible: &str,
        of_step: &str,
        bind: &str,
        open: &[usize],
    ) -> (Result<Vec<GpuIndex>, String>, Vec<GpuIndex>) {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
        let step = with! { Step { tasks, gpus: some(of_step) } };
        let mut gpus = GpuGrant::default();
        let name = "CUDA_VISIBLE_DEVICES";
        gpus.variables.insert(name, visible.to_string());
        if !open.is_empty() {
            let access = |gpu| match open.contains(&gpu) {
                true => Access::Allowed,
                false => Access::Denied,
            };
            gpus.access = (0..8).map(access).collect();
        }
        let task = with! { Task { local_id, gpus, gpu_bind: some(bind) } };
        let seen = identify(topology, &step, &task.gpus).own;
        (by_local_id(topology, &step, &task, &seen), seen)
    }

    const ALL: &str = "0,1,2,3,4,5,6,7";

    #[test]
    fn the_kth_task_has_the_kth_gpu_that_it_sees_also_if_there_are_more_gpus() {
        let h100 = platform::model("dgx-h100").unwrap();
        for (tasks, local_id, visible, of_step, bind, expected) in rows! {
            8, 0, ALL, ALL, "", Ok(0); 8, 3, ALL, ALL, "", Ok(3); 8, 7, ALL, ALL, "", Ok(7);
            // not the fifth, as blocks would give
            2, 1, ALL, ALL, "gpu:none", Ok(1);
            // in the program's order
            2, 1, "6,2", "2,6", "gpu:verbose,none", Ok(2); 1, 0, ALL, "", "", Ok(0);
            // these deal no GPUs
            8, 3, ALL, ALL, "gres/nic:per_task:1", Ok(3); 8, 3, ALL, ALL, "gres/nic:closest", Ok(3);
            8, 3, ALL, ALL, "gres/tmp:per_task:10+gres/gpu:none", Ok(3);
            8, 0, "0", ALL, "", Err("sees 1 GPUs and the");
            8, 0, ALL, ALL, "gpu:per_task:1", Err("GPUs, by `gpu:per_task:1`");
            8, 0, "0,1", ALL, "gres/gpu:closest", Err("Slurm deals the GPUs");
            8, 0, ALL, ALL, "gres/nic:closest+gres/gpu:per_task:1", Err("Slurm deals");
            2, 0, "0,1", "0,1", "gres/shard:per_task:1", Err("Slurm deals");
            9, 0, ALL, ALL, "", Err("9 tasks are more than");
            8, 0, "", "", "", Err("it sees no GPU");
        } {
            let (found, _) = promised((&h100, tasks, local_id), visible, of_step, bind, &[]);
            match (found, expected) {
                (Ok(all), Ok(gpu)) => assert_eq!(all[local_id as usize].0, gpu, "{bind}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
                (found, _) => panic!("{tasks} {local_id} {visible} {bind}: {found:?}"),
            }
        }
    }

    #[test]
    fn how_the_device_files_are_numbered_makes_no_promise_a_wrong_one() {
        let mut topology = platform::model("dgx-a100").unwrap();
        let minors = [2, 3, 0, 1, 6, 7, 4, 5];
        for shift in 0..minors.len() {
            let shifted = minors.iter().cycle().skip(shift);
            let gpus = topology.gpus.iter_mut().zip(shifted);
            gpus.for_each(|(gpu, minor)| gpu.minor = Some(*minor));
            // Slurm's places are those of its own list, and the task counts what it may open
            for (tasks, visible, of_step, open) in rows! {
                2, "0,1", "0,1", &[0, 1][..]; 2, "0,1", "3,5", &[3, 5];
                4, "1,2,4,7", "1,2,4,7", &[]; 8, ALL, ALL, &[];
            } {
                let (found, seen) = promised((&topology, tasks, 0), visible, of_step, "", open);
                let expected = Ok(seen[..tasks as usize].to_vec());
                assert_eq!(found, expected, "{visible}, by {shift}");
            }
        }
    }
}
