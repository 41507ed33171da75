//! Tasks that a plugin before ours has put into a container, as pyxis does: they see other files and other device nodes.

use crate::harness::{Bed, Case, cases};
use crate::machines::{nccl_list, ucx_of};
use crate::plugins::between;
use crate::report::Task;

pub const CASES: &[Case] = cases![
    a_container_s_own_nccl_conf_counts_and_not_the_node_s,
    a_nic_that_a_container_does_not_show_is_replaced,
    in_a_container_without_rdma_devices_no_nic_is_named,
    mounts_of_its_own_alone_change_nothing_for_a_task,
];

const EACH_GPU: &str = "srun -w n0 -n8 --gpus-per-task=1 @ $report";

/// The tasks of a step with the plugin, in a container that this script makes of the node.
fn contained(bed: &Bed, words: &str, script: &str) -> Vec<Task> {
    // what it mounts on goes with the cluster's folder
    let folder = bed.machine("n0").join("../..");
    let text = format!(
        "#!/bin/sh\nset -e\nexport TMPDIR={}\n{script}\n",
        folder.display()
    );
    let file = bed.file("container", &text);
    let actions = format!("task_init=own-mounts task_init=run:{}", file.display());
    let run = format!(
        "chmod +x {}; {}",
        file.display(),
        EACH_GPU.replace('@', words)
    );
    bed.plugstack(&between(bed.site, &actions));
    let bare = bed.tasks(8, &run.replace(words, ""));
    assert!(
        bare.iter().all(Task::is_untouched),
        "without the plugin: {bare:?}"
    );
    bed.plugstack(&format!(
        "{}\n{}",
        between(bed.site, &actions),
        bed.site.plugstack_line("")
    ));
    bed.tasks(8, &run)
}

/// `/etc` with this file of NCCL's.
fn etc(text: &str) -> String {
    format!(
        "own=$(mktemp -d); mount -t tmpfs none $own; cp -a /etc/. $own/; printf '{text}' > $own/nccl.conf; \
         mount --move $own /etc"
    )
}

fn a_container_s_own_nccl_conf_counts_and_not_the_node_s(bed: &Bed) {
    for (text, list) in [
        ("NCCL_IB_HCA=mlx5_0\\n", None),
        ("NCCL_DEBUG=WARN\\n", Some(nccl_list())),
    ] {
        for task in contained(bed, "--nic-placement", &etc(text)) {
            assert_eq!(task.env("NCCL_IB_HCA"), list.as_deref(), "with {text:?}");
            assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])], "UCX does not read it");
        }
    }
}

/// `/dev/infiniband` without this node.
fn shown(without: &str) -> String {
    format!(
        "all=$(mktemp -d); mount --bind /dev/infiniband $all; mount -t tmpfs none /dev/infiniband; cd $all; \
         for node in *; do [ $node = {without} ] || {{ : > /dev/infiniband/$node; \
         mount --bind $all/$node /dev/infiniband/$node; }}; done"
    )
}

fn a_nic_that_a_container_does_not_show_is_replaced(bed: &Bed) {
    let tasks = contained(bed, "--nic-placement", &shown("uverbs0"));
    for task in &tasks {
        let list = nccl_list().replace("mlx5_0:1,", "");
        assert_eq!(task.env("NCCL_IB_HCA"), Some(list.as_str()), "of {task:?}");
        match task.gpus()[0] {
            0 => assert!(
                task.ucx().len() == 1 && task.ucx() != ["mlx5_0:1"],
                "of {task:?}"
            ),
            gpu => assert_eq!(task.ucx(), [ucx_of(gpu)], "of {task:?}"),
        }
    }
    let why = "`mlx5_0` is not used: there is no `/dev/infiniband/uverbs0` in the task's container";
    assert_eq!(bed.log("n0").matches(why).count(), 1, "once for the node");
}

fn in_a_container_without_rdma_devices_no_nic_is_named(bed: &Bed) {
    let hidden = "empty=$(mktemp -d); mount --bind /dev $empty; mount -t tmpfs none /dev; cd $empty; \
        for node in *; do [ $node = infiniband ] || [ ! -c $node ] || { : > /dev/$node; \
        mount --bind $empty/$node /dev/$node; }; done";
    for task in contained(bed, "--nic-placement", hidden) {
        assert_eq!(
            (task.env("NCCL_IB_HCA"), task.env("UCX_NET_DEVICES")),
            (None, None),
            "of {task:?}"
        );
    }
}

fn mounts_of_its_own_alone_change_nothing_for_a_task(bed: &Bed) {
    for task in contained(bed, "--nic-placement", "true") {
        assert_eq!(
            task.env("NCCL_IB_HCA"),
            Some(nccl_list().as_str()),
            "of {task:?}"
        );
        assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])]);
    }
}
