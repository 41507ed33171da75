//! Nodes other than a complete DGX H100 under a plain Slurm: odd machines, and a node with device cgroups.

use crate::harness::{Bed, Case, cases, while_another_job_has_gpus};
use crate::machines::{
    LINK_DOWN, NO_GPUS, NO_RDMA, link_down, minors_in_pci_order, nccl_list, ucx_of,
};
use crate::report::Task;

pub const CASES: &[Case] = cases![
    nodes_that_differ_are_placed_each_by_itself,
    without_rdma_devices_the_job_runs_and_the_log_says_why_nothing_was_set,
    without_gpus_the_job_runs_and_the_log_says_why_nothing_was_set,
    a_captured_tree_gives_variables_but_moves_nothing,
    a_captured_tree_that_the_admin_trusts_moves_tasks_too,
    a_model_gives_variables_but_moves_nothing,
    a_model_never_names_a_nic_that_the_node_lacks,
    a_topology_file_decides_instead_of_what_sys_says,
    the_reports_of_many_nodes_come_through_srun_and_are_compared,
];

pub const CASES_WITH_CGROUPS: &[Case] = cases![
    with_constrained_devices_each_task_gets_the_nic_of_the_gpu_it_may_open,
    with_constrained_devices_a_second_job_gets_the_nics_of_its_own_gpus,
    with_constrained_devices_two_gpus_per_task_are_told_apart,
];

fn nodes_that_differ_are_placed_each_by_itself(bed: &Bed) {
    let command = format!("srun -w n0,{LINK_DOWN} --ntasks-per-node=8 --gpus-per-task=1 @ $report");
    let (_, placed) = bed.without_and_with("--nic-placement", 16, &command);
    let (healthy, broken): (Vec<Task>, Vec<Task>) =
        placed.into_iter().partition(|task| task.node() == "n0");
    assert!(
        healthy
            .iter()
            .all(|task| task.ucx() == [ucx_of(task.gpus()[0])])
    );
    for task in &broken {
        let gpu = task.gpus()[0];
        if gpu == 2 {
            assert_ne!(task.ucx(), ["mlx5_4:1"], "the link of `mlx5_4` is down");
            assert_eq!(task.ucx().len(), 1, "of {task:?}");
        } else {
            assert_eq!(task.ucx(), [ucx_of(gpu)], "of {task:?}");
        }
        assert_eq!(
            task.env("NCCL_IB_HCA"),
            Some(nccl_list().replace("mlx5_4:1,", "").as_str())
        );
    }
    assert!(
        healthy
            .iter()
            .all(|task| task.env("NCCL_IB_HCA") == Some(&nccl_list()))
    );
}

/// The job runs the same with the flag as without.  The node's log has one line of ours with `reason` in it.
fn assert_nothing_is_set(bed: &Bed, node: &str, gpus: &str, reason: &str) {
    let command = format!("srun -w {node} -n2 {gpus} @ $report");
    let (without, with) = bed.without_and_with("--nic-placement", 2, &command);
    for (bare, task) in without.iter().zip(&with) {
        assert_eq!(task.env("UCX_NET_DEVICES"), None, "of {task:?}");
        assert_eq!(task.env("NCCL_IB_HCA"), None, "of {task:?}");
        assert_eq!(
            task.env("CUDA_VISIBLE_DEVICES"),
            bare.env("CUDA_VISIBLE_DEVICES")
        );
    }
    let log = bed.log(node);
    let ours: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("nic-placement: "))
        .collect();
    assert!(
        ours.iter().any(|line| line.contains(reason)),
        "no line with `{reason}` among {ours:#?}"
    );
    let loud: Vec<_> = ours
        .iter()
        .filter(|line| !line.contains("debug: "))
        .collect();
    assert!(
        loud.is_empty(),
        "a node without such devices is no news to an admin: {loud:#?}"
    );
}

// srun mixes the lines of two nodes that write at once: only `-l` tells whose each is, and the admin's guide has it
fn the_reports_of_many_nodes_come_through_srun_and_are_compared(bed: &Bed) {
    let tool = bed.site.plugin.with_file_name("nic-placement");
    let tool = tool.display();
    // no node file is here, and a `warn` of it would end each `check` with 3
    bed.plugin("cache=0");
    for _ in 0..8 {
        let reports = format!("srun -K0 -l -w n0,n1 --ntasks-per-node=1 {tool} check --json");
        let ran = bed.run(&format!("{reports} | {tool} audit"));
        assert!(
            ran.stdout.starts_with("2 nodes of 1 kind, 0 differ"),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    }
    // two reports whose lines stand in turns, as srun may write them
    let alone = format!("srun -w n0 {tool} check --json > report");
    let mixed = bed.run(&format!(
        "{alone}; paste -d '\\n' report report | {tool} audit"
    ));
    assert_eq!(mixed.code, 1, "{}", mixed.stdout);
    assert!(
        mixed.stderr.contains("`srun -l` tells whose each is"),
        "{}",
        mixed.stderr
    );
}

fn without_rdma_devices_the_job_runs_and_the_log_says_why_nothing_was_set(bed: &Bed) {
    assert_nothing_is_set(bed, NO_RDMA, "--gpus-per-task=1", "RDMA");
}

fn without_gpus_the_job_runs_and_the_log_says_why_nothing_was_set(bed: &Bed) {
    assert_nothing_is_set(bed, NO_GPUS, "", "GPU");
}

fn a_captured_tree_gives_variables_but_moves_nothing(bed: &Bed) {
    let command = "srun -w n0 -n8 --gpus-per-task=1 @ $report";
    bed.plugin(&format!("sysfs={}", link_down(bed.site).display()));
    let (without, placed) = bed.without_and_with("--nic-placement", 8, command);
    for (bare, task) in without.iter().zip(&placed) {
        assert_eq!(
            (task.cpus(), task.mem()),
            (bare.cpus(), bare.mem()),
            "of {task:?}"
        );
        assert_eq!(
            task.ucx() == [ucx_of(task.gpus()[0])],
            task.gpus() != [2],
            "of {task:?}"
        );
    }
}

fn a_captured_tree_that_the_admin_trusts_moves_tasks_too(bed: &Bed) {
    let command = "srun -w n0 -n8 --gres=gpu:8 --gpu-bind=map_gpu:0,1,2,3,4,5,6,7 @ $report";
    let usual = bed.tasks(8, &command.replace('@', "--nic-placement"));
    bed.plugin(&format!(
        "sysfs={} trust-topology",
        link_down(bed.site).display()
    ));
    let (without, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert!(
        without
            .iter()
            .zip(&placed)
            .any(|(bare, task)| bare.cpus() != task.cpus())
    );
    for (usual, task) in usual.iter().zip(&placed) {
        assert_eq!(
            (task.cpus(), task.mem()),
            (usual.cpus(), usual.mem()),
            "of {task:?}"
        );
    }
}

fn a_model_gives_variables_but_moves_nothing(bed: &Bed) {
    bed.plugin("machine=dgx-h100");
    let command = "srun -w n0 -n8 --gpus-per-task=1 @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement", 8, command);
    for (bare, task) in without.iter().zip(&placed) {
        assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])], "of {task:?}");
        assert_eq!(
            (task.cpus(), task.mem()),
            (bare.cpus(), bare.mem()),
            "of {task:?}"
        );
    }
}

fn a_model_never_names_a_nic_that_the_node_lacks(bed: &Bed) {
    bed.plugin("machine=dgx-h100");
    let command = "srun -w @ -n8 --gpus-per-task=1 --nic-placement $report";
    assert!(
        bed.tasks(8, &command.replace('@', "n0"))
            .iter()
            .all(|task| task.ucx().len() == 1)
    );
    for task in bed.tasks(8, &command.replace('@', NO_RDMA)) {
        assert_eq!(
            (task.env("UCX_NET_DEVICES"), task.env("NCCL_IB_HCA")),
            (None, None),
            "of {task:?}"
        );
    }
    for task in bed.tasks(8, &command.replace('@', LINK_DOWN)) {
        assert_ne!(task.ucx(), ["mlx5_4:1"], "the link of `mlx5_4` is down");
    }
}

fn a_topology_file_decides_instead_of_what_sys_says(bed: &Bed) {
    let command = "srun -w n0 -n8 --gpus-per-task=1 --nic-placement $report";
    let of_gpu_1 = |tasks: Vec<Task>| {
        tasks
            .iter()
            .find(|task| task.gpus() == [1])
            .unwrap()
            .ucx()
            .join(",")
    };
    assert_eq!(of_gpu_1(bed.tasks(8, command)), "mlx5_3:1");
    let text = bed.site.topology_file();
    let changed: Vec<String> = text
        .lines()
        .map(|line| match line.contains("\"mlx5_3\"") {
            true => line.replace("\"compute\"", "\"storage\""),
            false => line.to_string(),
        })
        .collect();
    assert_ne!(
        text.lines().collect::<Vec<_>>(),
        changed,
        "the file says that `mlx5_3` is a compute NIC"
    );
    for (text, is_mlx5_3) in [(text, true), (changed.join("\n"), false)] {
        bed.plugin(&format!(
            "topology={}",
            bed.file("topology.json", &text).display()
        ));
        let nic = of_gpu_1(bed.tasks(8, command));
        assert_eq!(nic == "mlx5_3:1", is_mlx5_3, "GPU 1 has `{nic}`");
    }
}

/// The GPUs that a task can really open, as positions in PCI order.
fn open_gpus(bed: &Bed, task: &Task) -> Vec<usize> {
    let minors = minors_in_pci_order(bed.site);
    let mut gpus: Vec<usize> = task
        .open()
        .iter()
        .map(|minor| minors.iter().position(|known| known == minor).unwrap())
        .collect();
    gpus.sort();
    gpus
}

/// Each task has the NICs of as many GPUs as it may open.
pub fn assert_nics_are_those_of_the_open_gpus(bed: &Bed, tasks: &[Task], gpus_each: usize) {
    for task in tasks {
        let gpus = open_gpus(bed, task);
        assert_eq!(gpus.len(), gpus_each, "the device cgroup of {task:?}");
        let expected: Vec<String> = gpus.iter().map(|&gpu| ucx_of(gpu)).collect();
        assert_eq!(task.ucx(), expected, "of {task:?}");
        assert_eq!(
            task.env("NCCL_IB_HCA"),
            Some(nccl_list().as_str()),
            "of {task:?}"
        );
    }
}

fn with_constrained_devices_each_task_gets_the_nic_of_the_gpu_it_may_open(bed: &Bed) {
    let command = "srun -w n0 -n8 --gpus-per-task=1 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert!(
        placed.iter().all(|task| task.gpus() == [0]),
        "each task counts its one GPU from 0"
    );
    assert_nics_are_those_of_the_open_gpus(bed, &placed, 1);
    let mut nics: Vec<&str> = placed.iter().flat_map(Task::ucx).collect();
    nics.sort();
    nics.dedup();
    assert_eq!(nics.len(), 8);
}

fn with_constrained_devices_a_second_job_gets_the_nics_of_its_own_gpus(bed: &Bed) {
    let command = while_another_job_has_gpus(3, "srun -w n0 -n4 --gpus-per-task=1 @ $report");
    let (_, placed) = bed.without_and_with("--nic-placement", 4, &command);
    assert_nics_are_those_of_the_open_gpus(bed, &placed, 1);
}

fn with_constrained_devices_two_gpus_per_task_are_told_apart(bed: &Bed) {
    let (_, placed) = bed.without_and_with(
        "--nic-placement",
        4,
        "srun -w n0 -n4 --gpus-per-task=2 @ $report",
    );
    assert_nics_are_those_of_the_open_gpus(bed, &placed, 2);
}
