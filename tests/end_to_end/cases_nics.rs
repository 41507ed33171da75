//! NICs that may not be chosen: for the whole node, for a job, for one task.

use crate::harness::{Bed, Case, cases};
use crate::machines::{LINK_DOWN, NIC_OF_GPU, link_down, nccl_list, ucx_of};
use crate::report::Task;
use crate::site::Site;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

pub const CASES: &[Case] = cases![
    the_nic_of_the_default_route_is_left_out_of_a_machine_that_nobody_knows,
    a_subnet_names_nics_for_the_admin,
    a_nic_that_is_down_on_one_node_changes_nothing_on_the_other,
    a_nic_that_the_user_may_not_open_is_left_out_for_the_whole_job,
    a_nic_without_a_device_node_is_left_out_for_the_whole_job,
    without_any_rdma_device_node_nothing_is_set_and_the_log_says_so_once,
];

pub const CASES_WITH_CGROUPS: &[Case] =
    cases![a_nic_that_one_tasks_cgroup_denies_is_replaced_for_it_alone_and_nccls_list_stays];

const EACH_GPU: &str = "srun -w n0 -n8 --gpus-per-task=1 @ $report";

/// A DGX H100 with an unknown maker, whose storage NIC is as fast as the fabric.  Only routes and subnets distinguish
/// `mlx5_1` from the others.
fn unknown(site: &Site, name: &str, default_route: bool) -> PathBuf {
    site.machine(name, |tree| {
        let sys = tree.join("sys");
        fs::write(
            sys.join("devices/virtual/dmi/id/product_name"),
            "Some Server\n",
        )
        .expect("the product");
        // what the model says of its NICs
        fs::remove_dir_all(sys.join("nic-placement")).expect("the roles");
        let port = sys.join("class/infiniband/mlx5_1/ports/1");
        fs::write(port.join("rate"), "400 Gb/sec (4X NDR)\n").expect("the rate of mlx5_1");
        fs::create_dir_all(port.join("gids")).expect("the GIDs of mlx5_1");
        fs::write(
            port.join("gids/0"),
            "fe80:0000:0000:0007:0000:0000:0000:0001\n",
        )
        .expect("a GID of mlx5_1");
        fs::create_dir_all(sys.join("class/net")).expect("network interfaces");
        let interface = "../../devices/pci0000:28/0000:28:01.0/0000:29:00.0/net/ibp41s0f0";
        symlink(interface, sys.join("class/net/ibp41s0f0")).expect("the interface of mlx5_1");
        if default_route {
            let table = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                         ibp41s0f0 00000000 0101000A 0003 0 0 100 00000000 0 0 0\n";
            fs::create_dir_all(tree.join("proc/net")).expect("proc/net");
            fs::write(tree.join("proc/net/route"), table).expect("the routes");
        }
    })
}

fn names_mlx5_1(tasks: &[Task]) -> bool {
    let lists: BTreeSet<_> = tasks
        .iter()
        .map(|task| task.env("NCCL_IB_HCA").unwrap_or_default())
        .collect();
    assert_eq!(lists.len(), 1, "one list for all tasks: {lists:?}");
    lists.iter().all(|list| list.contains("mlx5_1:1"))
}

fn the_nic_of_the_default_route_is_left_out_of_a_machine_that_nobody_knows(bed: &Bed) {
    for (name, default_route) in [("unknown", false), ("unknown-routed", true)] {
        let tree = unknown(bed.site, name, default_route);
        bed.plugin(&format!("sysfs={}", tree.display()));
        let (_, placed) = bed.without_and_with("--nic-placement", 8, EACH_GPU);
        assert_eq!(
            names_mlx5_1(&placed),
            !default_route,
            "with a default route: {default_route}"
        );
        assert!(
            placed
                .iter()
                .all(|task| task.ucx() == [ucx_of(task.gpus()[0])])
        );
    }
    let why = "`mlx5_1` is not used: the node's default route leaves by it (`ibp41s0f0`)";
    assert!(bed.log("n0").contains(why), "no line with `{why}`");
}

fn a_subnet_names_nics_for_the_admin(bed: &Bed) {
    let tree = unknown(bed.site, "unknown", false);
    for exclude in [
        "",
        "exclude=fe80:0000:0000:0007",
        "exclude=0xfe80000000000007",
        "exclude=fe80:0:0:8",
    ] {
        bed.plugin(&format!("sysfs={} {exclude}", tree.display()));
        let placed = bed.tasks(8, &EACH_GPU.replace('@', "--nic-placement"));
        assert_eq!(
            names_mlx5_1(&placed),
            !exclude.ends_with('7'),
            "with `{exclude}`"
        );
    }
}

fn a_nic_that_is_down_on_one_node_changes_nothing_on_the_other(bed: &Bed) {
    assert!(link_down(bed.site).exists());
    let command = format!("srun -w n0,{LINK_DOWN} --ntasks-per-node=8 --gpus-per-task=1 @ $report");
    let (_, placed) = bed.without_and_with("--nic-placement", 16, &command);
    let nics = |node: &str| -> Vec<String> {
        let mut nics = vec![String::new(); 8];
        for task in placed.iter().filter(|task| task.node() == node) {
            nics[task.gpus()[0]] = task.ucx().join(",");
        }
        nics
    };
    let (whole, broken) = (nics("n0"), nics(LINK_DOWN));
    assert_eq!(whole, (0..8).map(ucx_of).collect::<Vec<_>>());
    let differ: Vec<usize> = (0..8).filter(|&gpu| whole[gpu] != broken[gpu]).collect();
    assert_eq!(
        differ,
        [2],
        "only the GPU whose NIC is down has another: {broken:?}"
    );
    assert!(
        bed.log(LINK_DOWN)
            .contains("`mlx5_4` is not used: its port is down")
    );
    assert!(!bed.log("n0").contains("`mlx5_4` is not used"));
}

/// Runs `command` as root on n0, whose /dev no other node has.
fn on_n0(bed: &Bed, command: &str) {
    assert_eq!(
        bed.run(&format!("srun -w n0 bash -c '{command}'")).code,
        0,
        "`{command}`"
    );
}

/// GPU 0 has lost `mlx5_0`, all others have their own, and NCCL's one list lacks it.
fn assert_mlx5_0_is_replaced(tasks: &[Task]) {
    for task in tasks {
        assert_eq!(
            task.env("NCCL_IB_HCA"),
            Some(nccl_list().replace("mlx5_0:1,", "").as_str()),
            "of {task:?}"
        );
        match task.gpus()[0] {
            0 => assert!(
                task.ucx().len() == 1 && task.ucx() != ["mlx5_0:1"],
                "of {task:?}"
            ),
            gpu => assert_eq!(task.ucx(), [ucx_of(gpu)], "of {task:?}"),
        }
    }
}

fn a_nic_that_the_user_may_not_open_is_left_out_for_the_whole_job(bed: &Bed) {
    let as_nobody = EACH_GPU.replace(
        "srun ",
        "setpriv --reuid=65534 --regid=65534 --clear-groups srun ",
    );
    on_n0(bed, "chmod 600 /dev/infiniband/uverbs0");
    let (_, of_nobody) = bed.without_and_with("--nic-placement", 8, &as_nobody);
    let (_, of_root) = bed.without_and_with("--nic-placement", 8, EACH_GPU);
    let log = bed.log("n0");
    on_n0(bed, "chmod 666 /dev/infiniband/uverbs0");
    assert_mlx5_0_is_replaced(&of_nobody);
    let why = "`mlx5_0` is not used: the job's user may not open `/dev/infiniband/uverbs0`";
    assert_eq!(
        log.matches(why).count(),
        1,
        "once for the node, not for each task"
    );
    assert!(
        of_root
            .iter()
            .all(|task| task.ucx() == [ucx_of(task.gpus()[0])]),
        "root may open it"
    );
}

fn a_nic_without_a_device_node_is_left_out_for_the_whole_job(bed: &Bed) {
    on_n0(bed, "mv /dev/infiniband/uverbs0 /dev/infiniband/gone");
    let (_, placed) = bed.without_and_with("--nic-placement", 8, EACH_GPU);
    let log = bed.log("n0");
    on_n0(bed, "mv /dev/infiniband/gone /dev/infiniband/uverbs0");
    assert_mlx5_0_is_replaced(&placed);
    assert!(log.contains("`mlx5_0` is not used: there is no `/dev/infiniband/uverbs0`"));
}

fn without_any_rdma_device_node_nothing_is_set_and_the_log_says_so_once(bed: &Bed) {
    on_n0(bed, "mv /dev/infiniband /dev/gone");
    let (_, placed) = bed.without_and_with("--nic-placement", 8, EACH_GPU);
    let log = bed.log("n0");
    on_n0(bed, "mv /dev/gone /dev/infiniband");
    for task in &placed {
        assert_eq!(
            (task.env("UCX_NET_DEVICES"), task.env("NCCL_IB_HCA")),
            (None, None),
            "of {task:?}"
        );
        assert!(
            !task.mem().starts_with("default"),
            "CPUs and memory are placed all the same: {task:?}"
        );
    }
    assert_eq!(
        log.matches("`/dev/infiniband` is missing: no RDMA device")
            .count(),
        1
    );
}

/// A plugin that puts a node's second task into its own device cgroup, which denies it a NIC.
fn denying_plugin(site: &Site, uverbs: usize) -> PathBuf {
    let source = site.dir.join("deny.c");
    let (major, minor) = site.release;
    let text = format!(
        r#"#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
const char plugin_name[] = "deny", plugin_type[] = "spank";
const unsigned plugin_version = {};
extern int spank_get_item(void *spank, int item, ...);
static void put(const char *cgroup, const char *file, const char *text) {{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", cgroup, file);
    FILE *out = fopen(path, "w");
    if (!out || fputs(text, out) < 0 || fclose(out)) perror(path);
}}
int slurm_spank_task_init(void *spank, int count, char **arguments) {{
    (void)count, (void)arguments;
    int task = -1;
    spank_get_item(spank, 11 /* S_TASK_ID */, &task);
    FILE *in = task == 1 ? fopen("/proc/self/cgroup", "r") : NULL;
    char line[4096], cgroup[4160], pid[32];
    while (in && fgets(line, sizeof line, in)) {{
        char *place = strstr(line, ":devices:");
        if (!place) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(cgroup, sizeof cgroup, "/sys/fs/cgroup/devices%s/denied", place + 9);
        if (mkdir(cgroup, 0755)) perror(cgroup);
        put(cgroup, "devices.deny", "c 240:{} rwm");
        snprintf(pid, sizeof pid, "%d", (int)getpid());
        put(cgroup, "cgroup.procs", pid);
    }}
    return 0;
}}
"#,
        major << 16 | minor << 8,
        192 + uverbs
    );
    fs::write(&source, text).expect("deny.c");
    let library = source.with_extension("so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "`cc` of deny.c");
    library
}

fn a_nic_that_one_tasks_cgroup_denies_is_replaced_for_it_alone_and_nccls_list_stays(bed: &Bed) {
    let command = "srun -w n0 -n4 --gpus-per-task=1 @ $report";
    let ours = bed.site.plugstack_line("");
    // task 1 has GPU 1, whose NIC is `mlx5_3`, which is uverbs3
    assert_eq!(NIC_OF_GPU[1], "mlx5_3");
    for denied in [false, true] {
        let deny = denying_plugin(bed.site, if denied { 3 } else { 63 });
        bed.plugstack(&format!("optional {}\n{ours}", deny.display()));
        let (_, placed) = bed.without_and_with("--nic-placement=verbose", 4, command);
        for (number, task) in placed.iter().enumerate() {
            let nearest = task.ucx() == [ucx_of(number)];
            assert_eq!(
                nearest,
                !(denied && number == 1),
                "task {number}, denied: {denied}: {task:?}"
            );
            assert_eq!(task.ucx().len(), 1, "the next best, not none: {task:?}");
            assert_eq!(
                task.env("NCCL_IB_HCA"),
                Some(nccl_list().as_str()),
                "one list for all: {task:?}"
            );
        }
        let warning = "task 1: it may not open mlx5_3";
        assert_eq!(bed.log("n0").contains(warning), denied, "`{warning}`");
    }
}
