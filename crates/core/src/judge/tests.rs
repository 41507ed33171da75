//! What a user's own list comes to on machines that everybody knows.
#![forbid(unsafe_code)]

use crate::config::Words;
use crate::plan::{Plan, TaskPlan, Wish};
use crate::platform;
use crate::render::{Evidence, Present};
use crate::step::{Step, Task};
use crate::topology::CpuSet;

/// What comes of these variables for a task with these GPUs of a DGX H100, and what a strict word says.
fn told(gpus: &str, words: &str, values: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    with(gpus, words, "", values, |task| {
        let uses = task.uses.iter().map(|of| format!("{}: {of}", of.reader));
        (uses.collect(), task.shortfalls.clone())
    })
}

fn with<T>(
    gpus: &str,
    words: &str,
    argument: &str,
    values: &[(&str, &str)],
    ask: impl Fn(&TaskPlan) -> T,
) -> T {
    let words = Words::parse(words).unwrap();
    let settings = crate::config::settle(&Words::default(), None, Some(&words));
    let mut wish = Wish { settings, ..Wish::default() };
    if !argument.is_empty() {
        wish.admin.add(argument).unwrap();
    }
    let topology = platform::model("dgx-h100").unwrap();
    let plan = Plan::new(topology, wish, Step::default(), &|_| None);
    let present: Present = values.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let mut task = Task { cpus: CpuSet::from_list("0-3").unwrap(), ..Task::default() };
    task.gpus.variables.insert("CUDA_VISIBLE_DEVICES", gpus.to_string());
    ask(&plan.task(&task, Evidence { present: &present, read: &|_| None }))
}

#[test]
fn without_a_list_of_somebody_elses_there_is_nothing_to_judge() {
    assert_eq!(told("0", "single-numa-node", &[]), (vec![], vec![]));
    assert_eq!(told("0", "single-numa-node", &[("UCX_NET_DEVICES", "all")]), (vec![], vec![]));
    assert_eq!(told("0", "closest", &[("UCX_NET_DEVICES", "")]).0, Vec::<String>::new());
}

#[test]
fn a_far_nic_of_the_users_own_is_told_and_fails_the_strict_words() {
    let values = [("UCX_NET_DEVICES", "mlx5_6:1")];
    let (uses, _) = told("0", "closest", &values);
    assert_eq!(uses, ["UCX: mlx5_6:1 SYS 45 % of mlx5_0:1"]);
    for word in ["restricted", "single-numa-node"] {
        let (_, shortfalls) = told("0", word, &values);
        assert_eq!(
            shortfalls,
            ["mlx5_6:1 of the user's `UCX_NET_DEVICES` is not on NUMA node 0 of its GPU"],
            "{word}"
        );
    }
    assert_eq!(told("0", "strict", &values).1, Vec::<String>::new(), "what was decided is carried out");
}

#[test]
fn the_plans_own_nic_in_the_users_list_is_as_good_as_ours() {
    let (uses, shortfalls) = told("1", "single-numa-node", &[("UCX_NET_DEVICES", "mlx5_3:1")]);
    assert_eq!(uses, ["UCX: mlx5_3:1 PIX"]);
    assert_eq!(shortfalls, Vec::<String>::new());
}

#[test]
fn nccl_takes_the_best_nics_that_its_list_leaves() {
    let uses = |list: &str| told("0", "closest", &[("NCCL_IB_HCA", list)]).0;
    assert_eq!(uses("mlx5"), ["NCCL: mlx5_0:1 PIX"], "the near one of them all");
    assert_eq!(
        uses("^=mlx5_0"),
        ["NCCL: mlx5_3:1 NODE 70 %, mlx5_4:1 NODE 70 %, mlx5_5:1 NODE 70 % of mlx5_0:1"]
    );
    assert_eq!(uses("=mlx5_11"), ["NCCL: mlx5_11:1 SYS 45 % of mlx5_0:1"]);
    assert_eq!(uses("mlx4"), ["NCCL: no NIC of this node that works"]);
}

#[test]
fn a_nic_that_the_plan_leaves_out_is_told_with_the_plans_reason() {
    let (uses, _) = told("0", "closest", &[("UCX_NET_DEVICES", "mlx5_1:1")]);
    assert!(uses[0].starts_with("UCX: mlx5_1:1 ") && uses[0].contains("(left out here: "), "{uses:?}");
}

#[test]
fn several_gpus_are_served_by_what_is_near_to_one_of_them() {
    let (uses, shortfalls) = told("0,1", "restricted", &[("UCX_NET_DEVICES", "mlx5_0:1,mlx5_3:1")]);
    assert_eq!(uses, ["UCX: mlx5_0:1 PIX, mlx5_3:1 PIX"]);
    assert_eq!(shortfalls, Vec::<String>::new());
}

#[test]
fn the_admins_own_list_is_judged_too() {
    let (uses, shortfalls) = with("0", "restricted", "set=UCX_NET_DEVICES=mlx5_11:1", &[], |task| {
        (task.uses.iter().map(ToString::to_string).collect::<Vec<_>>(), task.shortfalls.clone())
    });
    assert_eq!(uses, ["mlx5_11:1 SYS 45 % of mlx5_0:1"]);
    assert_eq!(shortfalls, ["mlx5_11:1 of the admin's `UCX_NET_DEVICES` is not on NUMA node 0 of its GPU"]);
}

#[test]
fn a_list_in_a_configuration_file_is_judged_as_what_the_library_will_use() {
    let words = Words::parse("restricted").unwrap();
    let settings = crate::config::settle(&Words::default(), None, Some(&words));
    let wish = Wish { settings, ..Wish::default() };
    let site = |path: &str| {
        let text = match path {
            "/etc/nccl.conf" => "NCCL_IB_HCA==mlx5_0,mlx5_1 # the site's",
            "/home/u/ucx.conf" => "UCX_NET_DEVICES=mlx5_11:1",
            _ => return None,
        };
        Some(crate::render::FileText { text: text.to_string(), is_cut: false })
    };
    let plan = Plan::new(platform::model("dgx-h100").unwrap(), wish, Step::default(), &site);
    let present: Present = [("HOME".to_string(), "/home/u".to_string())].into();
    let mut task = Task { cpus: CpuSet::from_list("0-3").unwrap(), ..Task::default() };
    task.gpus.variables.insert("CUDA_VISIBLE_DEVICES", "0".to_string());
    // a described node has no interfaces, so UCX's list is made only where these are known
    let task = plan.task(&task, Evidence { present: &present, read: &site });
    let uses: Vec<String> = task.uses.iter().map(|of| format!("{}: {of}", of.reader)).collect();
    assert!(uses.contains(&"NCCL: mlx5_0:1 PIX".to_string()), "{uses:?}");
    let said = task.line("n");
    assert!(said.contains("NCCL_IB_HCA not set: `/etc/nccl.conf` sets it: mlx5_0:1 PIX"), "{said}");
}

#[test]
fn the_line_names_what_will_be_used_beside_what_was_planned() {
    let line = |list: &str| with("0", "closest", "", &[("UCX_NET_DEVICES", list)], |task| task.line("node1"));
    let far = line("mlx5_6:1");
    assert!(far.contains("nic mlx5_0:1 PIX, but UCX: mlx5_6:1 SYS 45 % of mlx5_0:1"), "{far}");
    assert!(
        far.contains("UCX_NET_DEVICES: the user's own value stays: mlx5_6:1 SYS 45 % of mlx5_0:1"),
        "{far}"
    );
    assert!(!line("mlx5_0:1").contains("but UCX"));
}
