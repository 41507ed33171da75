//! The GPUs that a task sees, by the lists of runtimes.

use super::*;
use nic_placement_core::gpus::of_the_step;
use nic_placement_core::step::Access;
use nic_placement_node::platform;

pub(crate) fn dgx() -> Topology {
    platform::model("dgx-h100").unwrap()
}

pub(crate) fn grant(list: Option<&str>) -> GpuGrant {
    let variables = list
        .map(|list| ("CUDA_VISIBLE_DEVICES", list.to_string()))
        .into_iter()
        .collect();
    GpuGrant {
        variables,
        access: vec![Access::Unknown; 8],
    }
}

pub(crate) fn gpus(found: &TaskGpus) -> Vec<usize> {
    found.own.iter().map(|gpu| gpu.0).collect()
}

#[test]
fn a_process_that_nothing_keeps_from_any_gpu_sees_all() {
    let topology = dgx();
    let seen = |grant: &GpuGrant, step: &Step| gpus(&super::seen(&topology, step, grant));
    assert_eq!(
        seen(&grant(None), &Step::default()),
        [0, 1, 2, 3, 4, 5, 6, 7]
    );
    assert_eq!(
        seen(&grant(Some("")), &Step::default()),
        [0; 0],
        "an empty list is a list"
    );
    assert_eq!(seen(&grant(Some("6,2")), &Step::default()), [6, 2]);
    let step = Step {
        gpus: Some("4,5".to_string()),
        ..Step::default()
    };
    assert_eq!(seen(&grant(None), &step), [4, 5]);
    let mut denied = grant(None);
    denied.access = vec![Access::Denied; 8];
    assert_eq!(seen(&denied, &Step::default()), [0; 0]);
    denied.access[3] = Access::Allowed;
    assert_eq!(seen(&denied, &Step::default()), [3]);
}

#[test]
fn what_keeps_a_process_from_gpus_is_what_is_said() {
    let topology = dgx();
    let mut one = grant(None);
    one.access = vec![Access::Denied; 8];
    one.access[3] = Access::Allowed;
    let found = seen(&topology, &Step::default(), &one);
    assert_eq!(
        (gpus(&found).as_slice(), found.reason.as_str()),
        (&[3][..], "the GPUs that the task may open")
    );
    // a step's list that names none here is no leave to see all
    let step = Step {
        gpus: Some("99".to_string()),
        ..Step::default()
    };
    let found = seen(&topology, &step, &grant(None));
    assert_eq!(gpus(&found), [0; 0]);
    assert!(
        found.reason.starts_with("`SLURM_STEP_GPUS` names no GPU"),
        "{}",
        found.reason
    );
}

#[test]
fn slurms_numbers_of_gpus_are_those_by_which_a_step_names_them() {
    let mut topology = platform::model("dgx-h100").unwrap();
    // two device files in another order than the PCI addresses
    (0..)
        .zip(&mut topology.gpus)
        .for_each(|(minor, gpu)| gpu.minor = Some(minor));
    (topology.gpus[2].minor, topology.gpus[3].minor) = (Some(3), Some(2));
    let gpus = [7, 2, 3, 0].map(GpuIndex);
    assert_eq!(slurms_numbers(&topology, &gpus), "7,3,2,0");
    let step = Step {
        gpus: Some("7,3,2,0".to_string()),
        ..Step::default()
    };
    assert_eq!(of_the_step(&topology, &step), gpus);
}
