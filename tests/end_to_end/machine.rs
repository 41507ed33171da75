//! Nodes other than a complete DGX H100: odd machines, captured trees, models and topology files.

use super::suite::*;

pub const CASES: &[Case] = cases![
    without_rdma_devices_the_job_runs_and_the_log_says_why_nothing_was_set:
        |bed| assert_nothing_is_set(bed, NO_RDMA, "--gpus-per-task=1", "RDMA"),
    without_gpus_the_job_runs_and_the_log_says_why_nothing_was_set:
        |bed| assert_nothing_is_set(bed, NO_GPUS, "", "GPU"),
    a_captured_tree_gives_variables_but_moves_nothing,
    a_captured_tree_that_the_admin_trusts_moves_tasks_too,
    a_model_never_names_a_nic_that_the_node_lacks,
    a_topology_file_decides_instead_of_what_sys_says,
    the_reports_of_many_nodes_come_through_srun_and_are_compared,
];

/// The job runs the same with the flag as without.  The node's log has one line of ours with `reason` in it, and a node
/// without such devices is no news to an admin.
fn assert_nothing_is_set(bed: &Bed, node: &str, gpus: &str, reason: &str) {
    let (bare, with) = bed.both("", 2, &format!("srun -w {node} -n2 {gpus} @ $report"));
    each(&bare, &with, |bare, task| {
        task.lacks(&["UCX_NET_DEVICES", "NCCL_IB_HCA"]) && task.gpus() == bare.gpus()
    });
    let ours = bed.ours(node);
    let is_so = ours.iter().any(|line| line.contains(reason));
    assert!(is_so, "{reason}: {ours:#?}");
    let is_so = ours.iter().all(|line| line.contains("debug: "));
    assert!(is_so, "{ours:#?}");
}

fn a_captured_tree_gives_variables_but_moves_nothing(bed: &Bed) {
    bed.plugin(&format!("sysfs={}", link_down(bed.site).display()));
    let (bare, placed) = bed.both("", 8, EIGHT);
    each(&bare, &placed, |bare, task| {
        task.binding() == bare.binding() && task.is_own() == (task.gpu() != 2)
    });
}

fn a_captured_tree_that_the_admin_trusts_moves_tasks_too(bed: &Bed) {
    let command = srun("-n8 --gres=gpu:8 --gpu-bind=map_gpu:0,1,2,3,4,5,6,7");
    let usual = bed.with("", 8, &command);
    let tree = link_down(bed.site);
    bed.plugin(&format!("sysfs={} trust-topology", tree.display()));
    let (bare, placed) = bed.both("", 8, &command);
    let mut pairs = bare.iter().zip(&placed);
    assert!(pairs.any(|(bare, task)| bare.cpus() != task.cpus()));
    each(&usual, &placed, |usual, task| {
        task.binding() == usual.binding()
    });
}

fn a_model_never_names_a_nic_that_the_node_lacks(bed: &Bed) {
    bed.plugin("machine=dgx-h100");
    let on = |node| bed.with("", 8, &EIGHT.replace("n0", node));
    all(&on("n0"), |task| task.ucx().len() == 1);
    let is_so = |task: &Task| task.lacks(&["UCX_NET_DEVICES", "NCCL_IB_HCA"]);
    all(&on(NO_RDMA), is_so);
    all(&on(LINK_DOWN), |task| task.ucx() != ["mlx5_4:1"]);
}

fn a_topology_file_decides_instead_of_what_sys_says(bed: &Bed) {
    let nic_of_gpu_1 = || {
        let tasks = bed.with("", 8, EIGHT);
        let task = tasks.iter().find(|task| task.gpus() == [1]).expect("GPU 1");
        task.ucx().join(",")
    };
    assert_eq!(nic_of_gpu_1(), "mlx5_3:1");
    let text = bed.site.topology_file();
    let changed = text.lines().map(|line| match line.contains("\"mlx5_3\"") {
        true => line.replace("\"compute\"", "\"storage\"") + "\n",
        false => format!("{line}\n"),
    });
    let changed: String = changed.collect();
    assert_ne!(text.trim(), changed.trim());
    for (text, is_mlx5_3) in [(&text, true), (&changed, false)] {
        bed.plugin(&format!("topology={}", bed.file("topology.json", text)));
        assert_eq!(nic_of_gpu_1() == "mlx5_3:1", is_mlx5_3);
    }
}

// srun mixes the lines of two nodes that write at once: only `-l` tells whose each is, and the admin's guide has it
fn the_reports_of_many_nodes_come_through_srun_and_are_compared(bed: &Bed) {
    let tool = bed.tool();
    // no node file is here, and a `warn` of it would end each `check` with 3
    bed.plugin("cache=0");
    for _ in 0..8 {
        let reports = format!("srun -K0 -l -w n0,n1 --ntasks-per-node=1 {tool} check --json");
        let ran = bed.run(&format!("{reports} | {tool} audit")).ended(0, 0);
        let is_so = ran
            .stdout
            .starts_with("2 nodes of 1 kind, differing from their kind: 0");
        let is_so = is_so && ran.stderr.is_empty();
        assert!(is_so, "{}{}", ran.stdout, ran.stderr);
    }
    // two reports whose lines stand in turns, as srun may write them
    let alone = format!("srun -w n0 {tool} check --json > report");
    let mixed = format!("{alone}; paste -d '\\n' report report | {tool} audit");
    let ran = bed.run(&mixed).ended(1, 0);
    let is_so = ran.stderr.contains("not all of the input are reports");
    assert!(is_so, "{}", ran.stderr);
}
