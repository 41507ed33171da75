//! NICs that may not be chosen: for the whole node, for a job, for one task, and in a container, which a plugin before ours
//! has made of a task's mounts, as pyxis does: there it sees other files and other device nodes.

use super::suite::*;
use crate::slurm::plugins::compile;
use crate::slurm::site::Site;
use std::os::unix::fs::symlink;

pub const CASES: &[Case] = cases![
    the_nic_of_the_default_route_is_left_out_of_a_machine_that_nobody_knows,
    a_subnet_names_nics_for_the_admin,
    a_nic_that_the_user_may_not_open_is_left_out_for_the_whole_job,
    a_nic_without_a_device_node_is_left_out_for_the_whole_job,
    without_any_rdma_device_node_nothing_is_set_and_the_log_says_so_once,
    a_container_s_own_nccl_conf_counts_and_not_the_node_s,
    a_nic_that_a_container_does_not_show_is_replaced,
    in_a_container_without_rdma_devices_no_nic_is_named,
    mounts_of_its_own_alone_change_nothing_for_a_task:
        |bed| all(&contained(bed, "true"), |task| { task.is_own() && task.is_listed() }),
];

pub const WITH_CGROUPS: &[Case] =
    cases![a_nic_that_one_tasks_cgroup_denies_is_replaced_for_it_alone_and_nccls_list_stays];

/// A DGX H100 with an unknown maker, whose storage NIC is as fast as the fabric.  Only routes and subnets distinguish
/// `mlx5_1` from the others.
fn unknown(site: &Site, name: &str, default_route: bool) -> PathBuf {
    site.machine(name, |tree| {
        let write = |path: &str, text: &str| {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file of the tree");
        };
        write("sys/devices/virtual/dmi/id/product_name", "Some Server\n");
        // what the model says of its NICs
        fs::remove_dir_all(tree.join("sys/nic-placement")).expect("the roles");
        let port = "sys/class/infiniband/mlx5_1/ports/1";
        write(&format!("{port}/rate"), "400 Gb/sec (4X NDR)\n");
        write(
            &format!("{port}/gids/0"),
            "fe80:0000:0000:0007:0000:0000:0000:0001\n",
        );
        let interfaces = tree.join("sys/class/net");
        fs::create_dir_all(&interfaces).expect("network interfaces");
        let own = "../../devices/pci0000:28/0000:28:01.0/0000:29:00.0/net/ibp41s0f0";
        symlink(own, interfaces.join("ibp41s0f0")).expect("the interface of mlx5_1");
        if default_route {
            let head = "Iface Destination Gateway Flags RefCnt";
            let route = "ibp41s0f0 00000000 0101000A 0003 0 0 100 00000000 0 0 0";
            write("proc/net/route", &format!("{head}\n{route}\n"));
        }
    })
}

/// Does NCCL's one list name `mlx5_1`?
fn names_mlx5_1(tasks: &[Task]) -> bool {
    let list = |task: &Task| task.env("NCCL_IB_HCA").unwrap_or_default().to_string();
    let lists: BTreeSet<_> = tasks.iter().map(list).collect();
    assert_eq!(lists.len(), 1, "{lists:?}");
    lists.iter().all(|list| list.contains("mlx5_1:1"))
}

fn the_nic_of_the_default_route_is_left_out_of_a_machine_that_nobody_knows(bed: &Bed) {
    for (name, default_route) in [("unknown", false), ("unknown-routed", true)] {
        let tree = unknown(bed.site, name, default_route);
        bed.plugin(&format!("sysfs={}", tree.display()));
        let (_, placed) = bed.both("", 8, EIGHT);
        assert_eq!(names_mlx5_1(&placed), !default_route);
        all(&placed, Task::is_own);
    }
    assert_ne!(bed.logged("n0", "leaves by it (`ibp41s0f0`)"), 0);
}

fn a_subnet_names_nics_for_the_admin(bed: &Bed) {
    let tree = unknown(bed.site, "unknown", false);
    for (exclude, is_named) in [
        ("", true),
        ("exclude=fe80:0000:0000:0007", false),
        ("exclude=0xfe80000000000007", false),
        ("exclude=fe80:0:0:8", true),
    ] {
        bed.plugin(&format!("sysfs={} {exclude}", tree.display()));
        assert_eq!(names_mlx5_1(&bed.with("", 8, EIGHT)), is_named, "{exclude}");
    }
}

/// Runs `command` as root on n0, whose /dev no other node has.
fn on_n0(bed: &Bed, command: &str) {
    bed.run(&format!("srun -w n0 bash -c '{command}'"))
        .ended(0, 0);
}

/// GPU 0 has lost `mlx5_0`, all others have their own, and NCCL's one list lacks it.
fn assert_mlx5_0_is_replaced(tasks: &[Task]) {
    let list = nccl_list().replace("mlx5_0:1,", "");
    all(tasks, |task| {
        task.env("NCCL_IB_HCA") == Some(&*list)
            && task.ucx().len() == 1
            && task.is_own() == (task.gpu() != 0)
    });
}

fn a_nic_that_the_user_may_not_open_is_left_out_for_the_whole_job(bed: &Bed) {
    on_n0(bed, "chmod 600 /dev/infiniband/uverbs0");
    let (_, of_nobody) = bed.both("", 8, &format!("{NOBODY} {EIGHT}"));
    let (_, of_root) = bed.both("", 8, EIGHT);
    on_n0(bed, "chmod 666 /dev/infiniband/uverbs0");
    assert_mlx5_0_is_replaced(&of_nobody);
    // once for the node, not for each task
    let found = bed.logged("n0", "user may not open `/dev/infiniband/uverbs0`");
    assert_eq!(found, 1);
    all(&of_root, Task::is_own);
}

fn a_nic_without_a_device_node_is_left_out_for_the_whole_job(bed: &Bed) {
    on_n0(bed, "mv /dev/infiniband/uverbs0 /dev/infiniband/gone");
    let (_, placed) = bed.both("", 8, EIGHT);
    on_n0(bed, "mv /dev/infiniband/gone /dev/infiniband/uverbs0");
    assert_mlx5_0_is_replaced(&placed);
    assert_ne!(bed.logged("n0", "`mlx5_0` is not used: there is no"), 0);
}

fn without_any_rdma_device_node_nothing_is_set_and_the_log_says_so_once(bed: &Bed) {
    on_n0(bed, "mv /dev/infiniband /dev/gone");
    let (_, placed) = bed.both("", 8, EIGHT);
    on_n0(bed, "mv /dev/gone /dev/infiniband");
    // CPUs and memory are placed all the same
    all(&placed, |task| {
        task.lacks(&["UCX_NET_DEVICES", "NCCL_IB_HCA"]) && task.mem() != "default"
    });
    assert_eq!(bed.logged("n0", "`/dev/infiniband` is missing: no RDMA"), 1);
}

/// Hooks of a plugin that puts a node's second task into its own device cgroup, which denies it a NIC.
const DENYING: &str = r#"#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
extern int spank_get_item(void *spank, int item, ...);
static void put(const char *cgroup, const char *file, const char *text) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", cgroup, file);
    FILE *out = fopen(path, "w");
    if (!out || fputs(text, out) < 0 || fclose(out)) perror(path);
}
int slurm_spank_task_init(void *spank, int count, char **arguments) {
    (void)count, (void)arguments;
    int task = -1;
    spank_get_item(spank, 11 /* S_TASK_ID */, &task);
    FILE *in = task == 1 ? fopen("/proc/self/cgroup", "r") : NULL;
    char line[4096], cgroup[4160], pid[32];
    while (in && fgets(line, sizeof line, in)) {
        char *place = strstr(line, ":devices:");
        if (!place) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(cgroup, sizeof cgroup, "/sys/fs/cgroup/devices%s/denied", place + 9);
        if (mkdir(cgroup, 0755)) perror(cgroup);
        put(cgroup, "devices.deny", "c 240:MINOR rwm");
        snprintf(pid, sizeof pid, "%d", (int)getpid());
        put(cgroup, "cgroup.procs", pid);
    }
    return 0;
}
"#;

fn a_nic_that_one_tasks_cgroup_denies_is_replaced_for_it_alone_and_nccls_list_stays(bed: &Bed) {
    // task 1 has GPU 1, whose NIC is `mlx5_3`, which is uverbs3
    assert_eq!(NIC_OF_GPU[1], "mlx5_3");
    for (minor, is_denied) in [("255", false), ("195", true)] {
        let hooks = DENYING.replace("MINOR", minor);
        let deny = compile(bed.site, "deny", &spank("deny", bed.site, &hooks));
        let ours = bed.site.plugstack_line("");
        bed.plugstack(&format!("optional {}\n{ours}", deny.display()));
        let (_, placed) = bed.both("verbose", 4, &srun("-n4 --gpus-per-task=1"));
        // the next best, not none
        all(&placed, |task| {
            let is_nearest = task.ucx() == [ucx_of(task.local())];
            is_nearest == !(is_denied && task.local() == 1)
                && task.ucx().len() == 1
                && task.is_listed()
        });
        let told = bed.logged("n0", "task 1: it may not open mlx5_3");
        assert_eq!(told > 0, is_denied);
    }
}

// ---- in a container ----

/// The tasks of a step with the plugin, in a container that this script makes of the node.
fn contained(bed: &Bed, script: &str) -> Vec<Task> {
    // what it mounts on goes with the cluster's folder
    let folder = bed.machine("n0").join("../..");
    let head = format!("#!/bin/sh\nset -e\nexport TMPDIR={}", folder.display());
    let file = bed.file("container", &format!("{head}\n{script}\n"));
    let text = format!("task_init=own-mounts task_init=run:{file}");
    let made = between(bed.site, &text);
    let run = format!("chmod +x {file}; {EIGHT}");
    bed.plugstack(&made);
    all(&bed.bare(8, &run), Task::is_untouched);
    bed.plugstack(&format!("{made}\n{}", bed.site.plugstack_line("")));
    bed.with("", 8, &run)
}

fn a_container_s_own_nccl_conf_counts_and_not_the_node_s(bed: &Bed) {
    for (text, is_set) in [("NCCL_IB_HCA=mlx5_0", false), ("NCCL_DEBUG=WARN", true)] {
        let etc = format!(
            "own=$(mktemp -d); mount -t tmpfs none $own; cp -a /etc/. $own/; \
             echo {text} > $own/nccl.conf; mount --move $own /etc"
        );
        all(&contained(bed, &etc), |task| {
            task.is_own() && (task.is_listed(), task.lacks(&["NCCL_IB_HCA"])) == (is_set, !is_set)
        });
    }
}

fn a_nic_that_a_container_does_not_show_is_replaced(bed: &Bed) {
    let shown = "all=$(mktemp -d); mount --bind /dev/infiniband $all; mount -t tmpfs none /dev/infiniband; cd $all; \
        for node in *; do [ $node = uverbs0 ] || { : > /dev/infiniband/$node; \
        mount --bind $all/$node /dev/infiniband/$node; }; done";
    assert_mlx5_0_is_replaced(&contained(bed, shown));
    // once for the node
    let found = bed.logged("n0", "`/dev/infiniband/uverbs0` in the task's container");
    assert_eq!(found, 1);
}

fn in_a_container_without_rdma_devices_no_nic_is_named(bed: &Bed) {
    let hidden = "empty=$(mktemp -d); mount --bind /dev $empty; mount -t tmpfs none /dev; cd $empty; \
        for node in *; do [ $node = infiniband ] || [ ! -c $node ] || { : > /dev/$node; \
        mount --bind $empty/$node /dev/$node; }; done";
    let tasks = contained(bed, hidden);
    let is_so = |task: &Task| task.lacks(&["NCCL_IB_HCA", "UCX_NET_DEVICES"]);
    all(&tasks, is_so);
}
