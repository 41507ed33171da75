//! The calling user: its limits, its variables, the files that its libraries read.

use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::gpus;
use nic_placement_core::libraries::nccl::FILES;
use nic_placement_core::libraries::{self, Evidence, Present, caveats};
use nic_placement_core::placement::Bind;
use nic_placement_core::plan::Plan;
use nic_placement_core::step::{GpuGrant, Task};
use nic_placement_fleet::doctor::facts::Caller;
use nic_placement_launch::judge::{self, Checked};
use nic_placement_node::discover::Root;
use nic_placement_process::files::UsersFiles;
use nic_placement_sys as sys;
use std::collections::BTreeSet;

pub(super) fn here(plan: &Plan) -> Caller {
    let is_root = sys::is_root();
    Caller {
        is_root,
        in_step: std::env::var_os("SLURM_STEP_ID").is_some(),
        memlock: Root::live()
            .read("proc/self/limits")
            .and_then(|limits| memlock(&limits)),
        doubts: Vec::new(),
        nccl: nccl(plan, is_root),
    }
}

/// `Max locked memory         8388608              8388608              bytes`: the first is the limit now.
fn memlock(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        bytes => bytes.parse().ok(),
    }
}

/// NCCL's and RCCL's files, with our variables that they set. Root opens none that a user names.
fn nccl(plan: &Plan, is_root: bool) -> Vec<(String, Vec<String>)> {
    let of_user = libraries::evidence().filter(|_| !is_root);
    let of_user = of_user.filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?)));
    let (files, present) = (UsersFiles::default(), of_user.collect());
    let task = Evidence {
        present: &present,
        read: &|path| files.read(path),
    };
    let sites = (FILES.of_site)(&plan.node).iter().map(ToString::to_string);
    let paths = sites.chain((FILES.of_user)(&plan.node, &task));
    let text = |path: &str| files.read(path).filter(|file| file.unanswered.is_none());
    let of_file = |path: String| {
        let text = text(&path)?.text;
        Some((path, set_in(&text)))
    };
    paths.filter_map(of_file).collect()
}

/// The names of our variables that the text of such a file sets, sorted.
fn set_in(text: &str) -> Vec<String> {
    let lines = (FILES.lines)(text, &|_| None);
    let is_set = |ours: &&str| lines.iter().any(|line| line.name == *ours);
    let names: BTreeSet<_> = libraries::variables().filter(is_set).collect();
    names.into_iter().map(str::to_string).collect()
}

pub(super) fn doubts(plan: &Plan, present: &Present, is_live: bool) -> Vec<Diagnostic> {
    let topology = &*plan.node;
    let interfaces: Vec<String> = match is_live {
        true => Root::live().list("sys/class/net", |_| true),
        false => topology
            .nics
            .iter()
            .flat_map(|nic| nic.netdevs.clone())
            .collect(),
    };
    let given = gpus::VARIABLES
        .into_iter()
        .filter_map(|name| Some((name, present.get(name)?.clone())));
    let variables = given.collect();
    let task = Task {
        gpus: GpuGrant {
            variables,
            access: Vec::new(),
        },
        ..Task::default()
    };
    let evidence = Evidence {
        present,
        read: &|_| None,
    };
    let given = plan.task(&task, evidence).variables;
    let found = judge::lint(&Checked {
        present,
        topology,
        node: &plan.map,
        task: &task,
        tasks: 1,
        words: &[],
        is_bound: plan.wish.bind != Bind::None,
        fabric: plan.wish.admin.fabric,
        interfaces: &interfaces,
    });
    [found, caveats(topology, &given)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_nccls_names_the_variables_that_are_left_to_it() {
        let text = "# NCCL_CROSS_NIC=1\nNCCL_DEBUG=WARN\nNCCL_IB_HCA==mlx5_0,mlx5_1\n";
        assert_eq!(set_in(text), ["NCCL_IB_HCA"]);
    }

    #[test]
    fn the_limit_that_holds_is_the_first() {
        let line =
            |of: &str| format!("Limit  Soft  Hard  Units\nMax locked memory         {of}  bytes\n");
        assert_eq!(memlock(&line("8388608   unlimited")), Some(8 << 20));
        assert_eq!(memlock(&line("unlimited unlimited")), Some(u64::MAX));
        assert_eq!((memlock(""), memlock(&line("odd x"))), (None, None));
    }
}
