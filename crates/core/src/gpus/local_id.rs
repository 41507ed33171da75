//! `gpu=local-id`: the user promises that each task uses the GPU of its local id, though it sees
//! more.
//!
//! Programs that choose by `SLURM_LOCALID`, such as PyTorch's and DeepSpeed's launchers, keep the
//! promise: task k takes GPU k, even if GPUs outnumber tasks. Contrary evidence voids the promise.

use super::list::CUDA_ORDER;
use super::{of_the_step, unequal};
use crate::order;
use crate::step::{GpuGrant, Step, Task, rule};
use crate::topology::{GpuIndex, GpuVendor, Topology};

/// The GPUs for the step's tasks on this node, by local id; the error names evidence against the
/// promise. This task sees `gpus`.
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
    // a task that sees as many GPUs as the step has sees all. Indices may differ: with
    // `AutoDetect=nvml` `SLURM_STEP_GPUS` counts in PCI order, unlike the device files' numbers
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

/// The reason if a number may not identify one of these GPUs.
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

    /// What local id `local_id` of so many tasks gets on a machine where it sees `visible` of the step's GPUs.
    fn claimed(
        machine: &str,
        tasks: u32,
        local_id: u32,
        visible: &str,
        step: &str,
        bind: &str,
    ) -> String {
        let topology = platform::model(machine).unwrap();
        let step = Step {
            tasks,
            gpus: (!step.is_empty()).then(|| step.to_string()),
            ..Step::default()
        };
        let mut gpus = GpuGrant::default();
        gpus.variables
            .insert("CUDA_VISIBLE_DEVICES", visible.to_string());
        let gpu_bind = (!bind.is_empty()).then(|| bind.to_string());
        let task = Task {
            local_id,
            gpus,
            gpu_bind,
            ..Task::default()
        };
        let seen = identify(&topology, &step, &task.gpus);
        match by_local_id(&topology, &step, &task, &seen.own) {
            Ok(all) => format!("{}", all[local_id as usize]),
            Err(why) => why,
        }
    }

    const ALL: &str = "0,1,2,3,4,5,6,7";

    #[test]
    fn the_kth_task_has_the_kth_gpu_that_it_sees_also_if_there_are_more_gpus() {
        for (local_id, gpu) in [(0, "0"), (3, "3"), (7, "7")] {
            assert_eq!(claimed("dgx-h100", 8, local_id, ALL, ALL, ""), gpu);
        }
        assert_eq!(
            claimed("dgx-h100", 2, 1, ALL, ALL, "gpu:none"),
            "1",
            "not the fifth, as blocks would give"
        );
        assert_eq!(
            claimed("dgx-h100", 2, 1, "6,2", "2,6", "gpu:verbose,none"),
            "2",
            "in the program's order"
        );
        for of_others in [
            "gres/nic:per_task:1",
            "gres/nic:closest",
            "gres/tmp:per_task:10+gres/gpu:none",
        ] {
            assert_eq!(
                claimed("dgx-h100", 8, 3, ALL, ALL, of_others),
                "3",
                "`{of_others}` deals no GPUs"
            );
        }
        assert_eq!(claimed("dgx-h100", 1, 0, ALL, "", ""), "0");
    }

    #[test]
    fn how_the_device_files_are_numbered_makes_no_promise_a_wrong_one() {
        let minors = [2, 3, 0, 1, 6, 7, 4, 5];
        for shift in 0..minors.len() {
            let mut topology = platform::model("dgx-a100").unwrap();
            let minors = minors.iter().cycle().skip(shift);
            topology
                .gpus
                .iter_mut()
                .zip(minors)
                .for_each(|(gpu, minor)| gpu.minor = Some(*minor));
            for (tasks, visible, open) in [
                (2, "0,1", vec![0, 1]),
                (2, "0,1", vec![3, 5]),
                (4, "1,2,4,7", Vec::new()),
                (8, ALL, Vec::new()),
            ] {
                let denied = |gpu| !open.is_empty() && !open.contains(&gpu);
                let access = |gpu| {
                    if denied(gpu) {
                        Access::Denied
                    } else {
                        Access::Allowed
                    }
                };
                let mut gpus = GpuGrant {
                    access: (0..8).map(access).collect(),
                    ..GpuGrant::default()
                };
                gpus.variables
                    .insert("CUDA_VISIBLE_DEVICES", visible.to_string());
                // Slurm's places are those of its own list, and the task counts what it may open
                let of_step = if open.is_empty() {
                    visible.to_string()
                } else {
                    format!("{},{}", open[0], open[1])
                };
                let step = Step {
                    tasks,
                    gpus: Some(of_step),
                    ..Step::default()
                };
                let task = Task {
                    gpus,
                    ..Task::default()
                };
                let seen = identify(&topology, &step, &task.gpus);
                let promised = by_local_id(&topology, &step, &task, &seen.own);
                assert_eq!(
                    promised,
                    Ok(seen.own[..tasks as usize].to_vec()),
                    "{visible}, shifted by {shift}"
                );
            }
        }
    }

    #[test]
    fn what_speaks_against_the_promise_is_named() {
        for (tasks, visible, step, bind, words) in [
            (8, "0", ALL, "", "sees 1 GPUs and the step has 8"),
            (
                8,
                ALL,
                ALL,
                "gpu:per_task:1",
                "Slurm deals the GPUs, by `gpu:per_task:1`",
            ),
            (8, "0,1", ALL, "gres/gpu:closest", "Slurm deals the GPUs"),
            (
                8,
                ALL,
                ALL,
                "gres/nic:closest+gres/gpu:per_task:1",
                "Slurm deals the GPUs",
            ),
            (
                2,
                "0,1",
                "0,1",
                "gres/shard:per_task:1",
                "Slurm deals the GPUs",
            ),
            (9, ALL, ALL, "", "9 tasks are more than the 8 GPUs"),
            (8, "", "", "", "it sees no GPU"),
        ] {
            let why = claimed("dgx-h100", tasks, 0, visible, step, bind);
            assert!(why.contains(words), "{why}");
        }
    }
}
