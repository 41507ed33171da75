//! The GPUs that a task sees, by the lists of runtimes.

use super::*;
use nic_placement_core::gpus::of_the_step;
use nic_placement_core::step::Access;
use nic_placement_node::platform;

pub(crate) fn dgx() -> Topology {
    platform::model("dgx-h100").unwrap()
}

pub(crate) fn grant(list: Option<&str>) -> GpuGrant {
    let variable = list.map(|list| ("CUDA_VISIBLE_DEVICES", list.to_string()));
    GpuGrant {
        variables: variable.into_iter().collect(),
        access: vec![Access::Unknown; 8],
    }
}

pub(crate) fn gpus(found: &TaskGpus) -> Vec<usize> {
    found.own.iter().map(|gpu| gpu.0).collect()
}

#[test]
fn a_process_that_nothing_keeps_from_any_gpu_sees_all_and_the_rest_have_the_reason() {
    let (unknown, mut denied) = (vec![Access::Unknown; 8], vec![Access::Denied; 8]);
    let none = denied.clone();
    denied[3] = Access::Allowed;
    let foreign = "`SLURM_STEP_GPUS` names no GPU";
    for (list, access, of_step, expected, start) in [
        (None, &unknown, None, &[0, 1, 2, 3, 4, 5, 6, 7][..], ""),
        // an empty list is a list
        (Some(""), &unknown, None, &[], ""),
        (Some("6,2"), &unknown, None, &[6, 2], ""),
        (None, &unknown, Some("4,5"), &[4, 5], ""),
        (None, &none, None, &[], ""),
        (None, &denied, None, &[3], "the GPUs that the task"),
        // a step's list that names none here is no leave to see all
        (None, &unknown, Some("99"), &[], foreign),
    ] {
        let mut grant = grant(list);
        grant.access = access.clone();
        let step = Step {
            gpus: of_step.map(str::to_string),
            ..Step::default()
        };
        let found = seen(&dgx(), &step, &grant);
        assert_eq!(gpus(&found), expected, "{list:?} {of_step:?}");
        assert!(found.reason.starts_with(start), "{}", found.reason);
    }
}

#[test]
fn slurms_numbers_of_gpus_are_those_by_which_a_step_names_them() {
    let mut topology = platform::model("dgx-h100").unwrap();
    // two device files in another order than the PCI addresses
    let gpus = (0..).zip(&mut topology.gpus);
    gpus.for_each(|(minor, gpu)| gpu.minor = Some(minor));
    (topology.gpus[2].minor, topology.gpus[3].minor) = (Some(3), Some(2));
    let gpus = [7, 2, 3, 0].map(GpuIndex);
    assert_eq!(slurms_numbers(&topology, &gpus), "7,3,2,0");
    let step = Step {
        gpus: Some("7,3,2,0".to_string()),
        ..Step::default()
    };
    assert_eq!(of_the_step(&topology, &step), gpus);
}
