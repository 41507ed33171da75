//! Tasks in containers that Slurm starts by itself (`srun --container`, a bundle of the Open Container Initiative), and tasks that a
//! plugin of the kind `runtime/` starts.

use crate::harness::{Bed, Case, cases, skip, while_another_job_has_gpus};
use crate::machines::{nccl_list, ucx_of_all};

pub const CASES: &[Case] = cases![
    tasks_in_a_bundle_have_the_variables_of_their_gpus,
    a_runtime_plugin_gets_what_was_set_and_what_it_changes_afterwards_counts,
];

/// A bundle whose root is made of this node's own folders; Slurm fills in the program and its environment.
fn bundle(bed: &Bed) -> String {
    let dir = bed.file("bundle", "");
    std::fs::remove_file(&dir).expect("the place of the bundle");
    let root = dir.join("rootfs");
    for folder in ["usr", "proc", "dev"] {
        std::fs::create_dir_all(root.join(folder)).expect("a folder of the bundle");
    }
    for link in ["bin", "lib", "lib64", "sbin"] {
        std::os::unix::fs::symlink(format!("usr/{link}"), root.join(link))
            .expect("a link of the bundle");
    }
    let cluster = dir
        .parent()
        .expect("the cluster's folder")
        .display()
        .to_string();
    let bind = |place: &str| {
        format!(
            r#"{{"destination":"{place}","type":"none","source":"{place}","options":["rbind"]}}"#
        )
    };
    let mounts = [
        r#"{"destination":"/proc","type":"proc","source":"proc"}"#.to_string(),
        bind("/usr"),
        bind("/dev"),
        bind(&cluster),
    ];
    let config = format!(
        r#"{{"ociVersion":"1.0.0","root":{{"path":"rootfs","readonly":false}},
            "process":{{"user":{{"uid":0,"gid":0}},"args":["true"],"env":[],"cwd":"/"}},
            "mounts":[{}],"linux":{{"namespaces":[{{"type":"mount"}}]}}}}"#,
        mounts.join(",")
    );
    std::fs::write(dir.join("config.json"), config).expect("the bundle's config.json");
    dir.display().to_string()
}

fn tasks_in_a_bundle_have_the_variables_of_their_gpus(bed: &Bed) {
    if !["usr/bin/runc", "usr/sbin/runc"]
        .iter()
        .any(|place| bed.site.root.join(place).exists())
    {
        skip("no `runc` here: `tests/slurm/install.sh` installs it");
    }
    let bundle = bundle(bed);
    // Slurm 22.05 starts one task of a step and node in a bundle
    let step = format!("srun -w n0 -n1 -c4 --gres=gpu:1 --container={bundle} @ $report");
    let (_, placed) =
        bed.without_and_with("--nic-placement", 1, &while_another_job_has_gpus(3, &step));
    let task = &placed[0];
    if bed.site.release < (23, 2) {
        // it writes the bundle's environment before it starts the task, which has not even its rank
        assert!(
            task.is_untouched() && task.env("CUDA_VISIBLE_DEVICES").is_none(),
            "{task:?}"
        );
        skip("Slurm 22.05 gives a bundle no environment of its task");
    }
    assert_eq!(task.ucx().len(), 1, "of {task:?}");
    assert!(
        ucx_of_all(3..8).contains(&task.ucx()[0].to_string()),
        "not of the other job: {task:?}"
    );
    assert_eq!(
        task.env("NCCL_IB_HCA"),
        Some(nccl_list().as_str()),
        "of {task:?}"
    );
}

/// Slurm calls it after our last hook (26.11: src/slurmd/slurmstepd/task.c, `exec_task`).
fn a_runtime_plugin_gets_what_was_set_and_what_it_changes_afterwards_counts(bed: &Bed) {
    if !bed
        .site
        .root
        .join("usr/lib/slurm/runtime_played.so")
        .exists()
    {
        skip("no runtime plugin: `tests/slurm/from-source.sh` builds one into a Slurm of 26.11");
    }
    for (way, keeps_variables, keeps_cpus) in [
        ("wrapped", true, true),
        ("cleared", false, true),
        ("elsewhere", true, false),
    ] {
        // a task without an environment has no rank to be told by
        let rank = if keeps_variables {
            ""
        } else {
            "| sed s/rank=-/rank=0/"
        };
        let step = format!(
            "env NICP_RUNTIME={way} srun --runtime=played -w n0 -n1 -c4 --gpus-per-task=1 @ $report {rank}"
        );
        let (bare, placed) = bed.without_and_with("--nic-placement=bind=core", 1, &step);
        assert_eq!(
            placed[0].ucx().len(),
            if keeps_variables { 1 } else { 0 },
            "{way}: {placed:?}"
        );
        assert_eq!(
            placed[0].cpus().len() < 224,
            keeps_cpus,
            "{way}: {placed:?}"
        );
        assert_eq!(
            bare[0].cpus().len() < 224,
            keeps_cpus,
            "{way} without the plugin: {bare:?}"
        );
    }
}
