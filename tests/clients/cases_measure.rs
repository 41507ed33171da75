//! `nic-placement verify --bytes` around UCX's test program: it says the bytes that the kernel's counters say.

use crate::cases_ucx::{are, by};
use crate::nodes::{NODES, Nodes};
use crate::{Case, Command, cases};
use nic_placement_traffic::bytes::{Figure, NicTraffic, Origin, Traffic};
use nic_placement_traffic::report::NodeReport;

// stderr holds the reports of both nodes, among other lines: they are added up from there
pub const COMMANDS: &[Command] = &[
    (
        "measure",
        "srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/nic-placement verify --bytes --json -- \
         /guest/pair.sh 2> reports; code=$?; cat reports >&2; /guest/nic-placement verify --merge reports \
         > merged 2>&1 && exit $code",
    ),
    (
        "measure.bare",
        "srun -N2 -n2 --gpus-per-task=1 /guest/nic-placement verify --bytes --json -- /guest/pair.sh",
    ),
    (
        "measure.tasks",
        "srun -N2 -n8 --ntasks-per-node=4 --gpus-per-task=1 --nic-placement \
         /guest/nic-placement verify --bytes --json -- /guest/pair.sh",
    ),
    (
        "measure.top",
        "WAIT_FOR=/tmp/top srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pair.sh > topped & step=$!; \
         until grep -q node=n0 topped; do sleep 0.2; done; /guest/nic-placement verify --watch 1 > tables; \
         touch /tmp/top; wait $step; code=$?; cat topped; exit $code",
    ),
    (
        "measure.ends",
        "srun -N1 -n1 /guest/nic-placement verify --bytes -- sh -c 'exit 7'; [ $? = 7 ]",
    ),
];

pub const CASES: &[Case] = cases![
    measure_tells_the_bytes_of_each_nic_that_the_kernel_counted,
    with_the_plugin_all_bytes_leave_by_the_planned_nic_and_a_merge_says_so,
    without_a_marker_the_plan_is_the_node_s_and_idle_rails_are_named,
    one_task_of_a_node_measures_and_all_tasks_are_in_its_plan,
    a_watch_shows_the_task_with_its_nic_and_path,
    the_status_of_the_command_is_srun_s,
];

/// The lines that are reports, in the order of the nodes.
fn reports(text: &str) -> Vec<(NodeReport, Traffic)> {
    let lines = text
        .lines()
        .filter(|line| line.starts_with("{\"format\":\"nic-placement verify\""));
    let read = |line: &str| NodeReport::read(line.as_bytes()).unwrap();
    let mut reports: Vec<_> = lines
        .map(read)
        .map(|report| (report.clone(), report.traffic.unwrap()))
        .collect();
    reports.sort_by(|(one, _), (other, _)| one.node.cmp(&other.node));
    reports
}

fn of<'r>(traffic: &'r Traffic, nic: &str) -> &'r NicTraffic {
    let mut nics = traffic.nics.iter();
    nics.find(|of| of.name == nic)
        .unwrap_or_else(|| panic!("{nic}: {traffic:?}"))
}

/// Bytes by which the kernel may have counted more: what a step's start and end send is not the command's.
const AROUND: u64 = 16 * 1024;

fn measure_tells_the_bytes_of_each_nic_that_the_kernel_counted(nodes: &Nodes) {
    for name in ["measure", "measure.bare"] {
        let (tasks, sent) = (nodes.tasks(name, 2), nodes.sent(name));
        let reports = reports(&nodes.said(name));
        assert_eq!(reports.len(), 2, "{name}: {}", nodes.said(name));
        for ((of_node, report), node) in reports.iter().zip(NODES) {
            assert_eq!((of_node.node.as_str(), of_node.status), (node, Some(0)));
            for nic in (0..5).map(|number| format!("mlx5_{number}")) {
                let told = of(report, &format!("{nic}:1")).rdma;
                let told = told.and_then(Figure::bytes).unwrap().sent;
                let counted = by(&sent, node, &nic);
                let is_it = told <= counted && counted - told < AROUND;
                assert!(
                    is_it,
                    "{name}: {node}: {nic}: {told}, the kernel says {counted}"
                );
            }
            let all = report.shares.planned + report.shares.others;
            assert!(are(all, tasks[0].sent()), "{name}: {node}: {all}");
        }
    }
}

fn with_the_plugin_all_bytes_leave_by_the_planned_nic_and_a_merge_says_so(nodes: &Nodes) {
    let tasks = nodes.tasks("measure", 2);
    for ((_, report), task) in reports(&nodes.said("measure")).iter().zip(&tasks) {
        assert_eq!(report.plan, Origin::Tasks, "{report:?}");
        let own = format!("{}:1", nodes.beside(task.gpu()));
        let planned: Vec<&NicTraffic> = report.nics.iter().filter(|nic| nic.is_planned).collect();
        assert_eq!(planned.len(), 1, "{report:?}");
        assert_eq!(planned[0].name, own);
        assert!(planned[0].tasks[0].contains(" task "), "{report:?}");
        assert!(are(report.shares.planned, task.sent()), "{report:?}");
        assert!(report.shares.others < AROUND, "{report:?}");
    }
    let merged = nodes.answer("merged");
    assert!(
        merged.contains("2 nodes, 2 of them by the plan of their tasks"),
        "{merged}"
    );
    let all =
        ["99.", "100.0 %", ">99.9 %"].map(|share| format!("by the NICs of the tasks: {share}"));
    assert!(all.iter().any(|all| merged.contains(all)), "{merged}");
}

fn without_a_marker_the_plan_is_the_node_s_and_idle_rails_are_named(nodes: &Nodes) {
    for (_, report) in reports(&nodes.said("measure.bare")) {
        assert_eq!(report.plan, Origin::Node, "{report:?}");
        let idle = &report.shares.idle;
        let has = |nic: &str| idle.iter().any(|idle| idle == nic);
        assert!(
            has("mlx5_2:1") && has("mlx5_3:1"),
            "the other socket's: {report:?}"
        );
    }
}

fn one_task_of_a_node_measures_and_all_tasks_are_in_its_plan(nodes: &Nodes) {
    let tasks = nodes.tasks("measure.tasks", 8);
    let reports = reports(&nodes.said("measure.tasks"));
    assert_eq!(reports.len(), 2, "one for each node: {reports:?}");
    for ((_, report), node) in reports.iter().zip(NODES) {
        for task in tasks.iter().filter(|task| task.word("node") == node) {
            let nic = of(report, &format!("{}:1", nodes.beside(task.gpu())));
            assert_eq!(nic.tasks.len(), 1, "{report:?}");
        }
    }
}

fn a_watch_shows_the_task_with_its_nic_and_path(nodes: &Nodes) {
    let tasks = nodes.tasks("measure.top", 2);
    let own = format!("{}:1", nodes.beside(tasks[0].gpu()));
    let tables = nodes.answer("tables");
    let line = |begin: &str| {
        tables
            .lines()
            .find(|line| line.starts_with(begin))
            .unwrap_or_else(|| panic!("{begin}: {tables}"))
    };
    assert!(line(&own).ends_with("task 0"), "{tables}");
    let (_, task) = tables.split_once("\ntask  ").expect("a table of tasks");
    assert!(task.lines().nth(1).unwrap().contains(&own), "{tables}");
}

fn the_status_of_the_command_is_srun_s(nodes: &Nodes) {
    assert!(
        nodes.succeeded("measure.ends"),
        "{}",
        nodes.said("measure.ends")
    );
}
