//! `nic-placement verify --bytes` around UCX's test program: it says the bytes that the kernel's counters say.

use super::cases_ucx::are;
use super::nodes::*;
use nic_placement_traffic::bytes::{Figure, NicTraffic, Origin, Traffic};
use nic_placement_traffic::report::NodeReport;

// stderr holds the reports of both nodes, among other lines: they are added up from there
pub const COMMANDS: &str = "\
measure srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/nic-placement verify --bytes \
    --json -- \
    /guest/pair.sh 2> reports; code=$?; cat reports >&2; /guest/nic-placement verify --merge \
    reports \
    > merged 2>&1 && exit $code
measure.bare srun -N2 -n2 --gpus-per-task=1 /guest/nic-placement verify --bytes --json -- \
    /guest/pair.sh
measure.tasks srun -N2 -n8 --ntasks-per-node=4 --gpus-per-task=1 --nic-placement \
    /guest/nic-placement verify --bytes --json -- /guest/pair.sh
measure.top WAIT_FOR=/tmp/top srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pair.sh > \
    topped & step=$!; \
    until grep -q node=n0 topped; do sleep 0.2; done; /guest/nic-placement verify --watch 1 > \
    tables; \
    touch /tmp/top; wait $step; code=$?; cat topped; exit $code
measure.ends srun -N1 -n1 /guest/nic-placement verify --bytes -- sh -c 'exit 7'; [ $? = 7 ]
";

pub const CASES: &[Case] = cases![
    measure_tells_the_bytes_of_each_nic_that_the_kernel_counted,
    with_the_plugin_all_bytes_leave_by_the_planned_nic_and_a_merge_says_so,
    without_a_marker_the_plan_is_the_node_s_and_idle_rails_are_named,
    one_task_of_a_node_measures_and_all_tasks_are_in_its_plan,
    a_watch_shows_the_task_with_its_nic_and_path,
    the_status_of_the_command_is_srun_s:
        |nodes| assert!(nodes.succeeded("measure.ends"), "{}", nodes.said("measure.ends") ),
];

/// The lines that are reports, in the order of the nodes.
pub fn reports(text: &str) -> Vec<NodeReport> {
    let is_report = |line: &&str| line.starts_with("{\"format\":\"nic-placement verify\"");
    let lines = text.lines().filter(is_report);
    lines
        .map(|line| NodeReport::read(line.as_bytes()).unwrap())
        .collect()
}

/// The traffic of both nodes.
fn traffic(nodes: &Nodes, name: &str) -> [Traffic; 2] {
    let mut reports = reports(&nodes.said(name));
    assert_eq!(reports.len(), 2, "{name}: {}", nodes.said(name));
    reports.sort_by(|one, other| one.node.cmp(&other.node));
    let found: Vec<_> = reports
        .iter()
        .map(|report| (report.node.as_str(), report.status))
        .collect();
    assert_eq!(found, NODES.map(|node| (node, Some(0))), "{name}");
    [0, 1].map(|node| reports[node].traffic.clone().unwrap())
}

fn of<'r>(traffic: &'r Traffic, nic: &str) -> &'r NicTraffic {
    let nic = traffic.nics.iter().find(|of| of.name == nic);
    nic.unwrap_or_else(|| panic!("{traffic:?}"))
}

/// Bytes by which the kernel may have counted more: what a step's start and end send is not the command's.
const AROUND: u64 = 16 * 1024;

fn measure_tells_the_bytes_of_each_nic_that_the_kernel_counted(nodes: &Nodes) {
    for name in ["measure", "measure.bare"] {
        let (tasks, sent) = (nodes.tasks(name, 2), nodes.sent(name));
        for (report, node) in traffic(nodes, name).iter().zip(NODES) {
            for nic in (0..5).map(|number| format!("mlx5_{number}")) {
                let told = of(report, &format!("{nic}:1")).rdma;
                let told = told.and_then(Figure::sent).unwrap();
                let counted = sent.by(node, &nic);
                let is_it = told <= counted && counted - told < AROUND;
                assert!(is_it, "{name}: {node}: {nic}: {told} of {counted}");
            }
            let all = report.shares.planned + report.shares.others;
            assert!(are(all, tasks[0].sent()), "{name}: {node}: {all}");
        }
    }
}

fn with_the_plugin_all_bytes_leave_by_the_planned_nic_and_a_merge_says_so(nodes: &Nodes) {
    let tasks = nodes.tasks("measure", 2);
    for (report, task) in traffic(nodes, "measure").iter().zip(&tasks) {
        let own = format!("{}:1", nodes.beside(task.gpu()));
        let planned = report.nics.iter().filter(|nic| nic.planned_for.is_some());
        let planned: Vec<&NicTraffic> = planned.collect();
        let is_own = planned.len() == 1 && planned[0].name == own && report.plan == Origin::Tasks;
        let is_so = is_own && planned[0].planned_for.as_ref().unwrap()[0].contains(" task ");
        assert!(is_so, "{report:?}");
        let shares = &report.shares;
        let is_so = are(shares.planned, task.sent()) && shares.others < AROUND;
        assert!(is_so, "{report:?}");
    }
    let merged = nodes.answer("merged");
    let is_so = merged.contains("2 nodes, 2 of them by the plan");
    assert!(is_so, "{merged}");
    let has = |share| merged.contains(&format!("NICs of the tasks: {share}"));
    let is_so = ["99.", "100.0 %"].into_iter().any(has);
    assert!(is_so, "{merged}");
}

fn without_a_marker_the_plan_is_the_node_s_and_idle_rails_are_named(nodes: &Nodes) {
    for report in traffic(nodes, "measure.bare") {
        // the other socket's
        let is_idle = |nic| report.shares.idle.iter().any(|idle| idle == nic);
        let is_so = ["mlx5_2:1", "mlx5_3:1"].into_iter().all(is_idle);
        assert!(is_so && report.plan == Origin::Node, "{report:?}");
    }
}

fn one_task_of_a_node_measures_and_all_tasks_are_in_its_plan(nodes: &Nodes) {
    let tasks = nodes.tasks("measure.tasks", 8);
    for (report, node) in traffic(nodes, "measure.tasks").iter().zip(NODES) {
        for task in tasks.iter().filter(|task| task.node() == node) {
            let nic = of(report, &format!("{}:1", nodes.beside(task.gpu())));
            assert_eq!(nic.planned_for.as_ref().unwrap().len(), 1, "{report:?}");
        }
    }
}

fn a_watch_shows_the_task_with_its_nic_and_path(nodes: &Nodes) {
    let tasks = nodes.tasks("measure.top", 2);
    let own = format!("{}:1", nodes.beside(tasks[0].gpu()));
    let tables = nodes.answer("tables");
    let line = tables.lines().find(|line| line.starts_with(&own));
    let is_so = line.is_some_and(|line| line.ends_with("task 0"));
    assert!(is_so, "{tables}");
    let (_, task) = tables.split_once("\ntask  ").expect("a table of tasks");
    assert!(task.lines().nth(1).unwrap().contains(&own), "{tables}");
}
