//! The calling user: its limits and its variables.

use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::gpus;
use nic_placement_core::libraries::{Evidence, Present, caveats};
use nic_placement_core::placement::Bind;
use nic_placement_core::plan::Plan;
use nic_placement_core::step::{GpuGrant, Task};
use nic_placement_fleet::doctor::facts::Caller;
use nic_placement_launch::judge::{self, Checked};
use nic_placement_node::discover::Root;
use nic_placement_sys as sys;

pub(super) fn here() -> Caller {
    let limits = Root::live().read("proc/self/limits");
    Caller {
        is_root: sys::is_root(),
        in_step: std::env::var_os("SLURM_STEP_ID").is_some(),
        memlock: limits.and_then(|limits| memlock(&limits)),
        doubts: Vec::new(),
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
    fn the_limit_that_holds_is_the_first() {
        let line =
            |of: &str| format!("Limit  Soft  Hard  Units\nMax locked memory         {of}  bytes\n");
        assert_eq!(memlock(&line("8388608   unlimited")), Some(8 << 20));
        assert_eq!(memlock(&line("unlimited unlimited")), Some(u64::MAX));
        assert_eq!((memlock(""), memlock(&line("odd x"))), (None, None));
    }
}
