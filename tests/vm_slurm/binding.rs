//! In the guest, without Slurm: discovery, decision, the system calls that bind, and what the kernel does with them.
//!
//! Each check runs in a process of its own, since it changes what that process is bound to.

use crate::guest::task::Task as Said;
use nic_placement_core::config::{Admin, NodeSource, Words};
use nic_placement_core::libraries::{Evidence, Present};
use nic_placement_core::plan::{Plan, Wish};
use nic_placement_core::step::{Access, GpuGrant, Step, Task};
use nic_placement_core::topology::Scope;
use nic_placement_core::topology::{CpuSet, NodeSet, Topology};
use nic_placement_node as node;
use nic_placement_node::discover::root::Author;
use nic_placement_sys::{self as sys, Balancing, MemoryPolicy};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A check and the machine that it is for: a name, or `any`.
pub type Check = (&'static str, &'static str, fn());

macro_rules! checks {
    ($($machine:literal $check:ident),* $(,)?) => { &[$((stringify!($check), $machine, $check)),*] };
}

/// Names as sentences.
pub const CHECKS: &[Check] = checks![
    "any" each_gpus_program_runs_and_has_its_pages_on_the_gpus_numa_node,
    "any" a_program_that_nobody_binds_may_run_and_allocate_anywhere,
    "any" pages_come_from_the_preferred_node_also_for_a_program_that_runs_on_another,
    "any" preferring_several_nodes_takes_the_nearest_of_them,
    "any" a_node_that_does_not_exist_is_dropped_by_the_kernel_and_reading_back_shows_it,
    "any" a_cpuset_narrows_what_was_asked_for_and_reading_back_shows_it,
    "any" a_fresh_process_has_the_default_policy,
    "dgx" a_node_without_cpus_has_memory_that_could_be_preferred_and_never_is,
    "dgx" a_preferred_node_that_is_full_gives_way_to_others,
];

/// Those of a machine.
pub fn checks_on(machine: &str) -> impl Iterator<Item = &'static Check> {
    let is_here = move |(_, of, _): &&Check| *of == "any" || *of == machine;
    CHECKS.iter().filter(is_here)
}

/// This program with these arguments.
fn own(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments);
    command
}

/// Runs all checks of the machine, each in a process of its own, with a line for each.
pub fn run_all(machine: &str) {
    for (name, _, _) in checks_on(machine) {
        let ran = own(&["check", name]).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).replace('\n', " ");
        let how = if ran.status.success() { "ok" } else { "failed" };
        println!("{how}\t{name}\t{said}");
    }
}

/// Runs one.
pub fn run_one(name: &str) {
    let (_, _, check) = CHECKS.iter().find(|(known, _, _)| *known == name).unwrap();
    check();
}

fn cpus(list: &str) -> CpuSet {
    CpuSet::from_list(list).unwrap()
}

fn nodes(list: &str) -> NodeSet {
    NodeSet::from_list(list).unwrap()
}

fn topology() -> Topology {
    let read = node::read(&NodeSource::Live, Scope::Placement, Author::Anyone);
    read.unwrap().0
}

/// Decides for a task with this GPU alone, binds this process as the plugin does, and becomes the task.
pub fn place(gpu: usize) {
    let words = Words::parse("bind=numa").unwrap();
    let wish = Wish::new(Admin::default(), None, Some(&words));
    let step = Step {
        tasks: 1,
        total_tasks: 1,
        ..Step::default()
    };
    let plan = Plan::new(topology(), wish, step, &|_| None);
    let vendor = plan.node.gpus[gpu].vendor;
    let access = plan.node.gpus.iter().map(|_| Access::Unknown).collect();
    let variables = [(vendor.list_variable(), gpu.to_string())].into();
    let all = sys::affinity().unwrap();
    let task = Task {
        gpus: GpuGrant { variables, access },
        cpus: all.clone(),
        step_cpus: all,
        ..Task::default()
    };
    let evidence = Evidence {
        present: &Present::new(),
        read: &|_| None,
    };
    let placement = plan.task(&task, evidence).placement;
    sys::set_affinity(&placement.cpus).unwrap();
    if !placement.mems.is_empty() {
        sys::prefer_memory(&placement.mems, Balancing::Not).unwrap();
        assert_preferred(placement.mems.clone());
    }
    // the binding must survive execve(2), as it must in slurmstepd
    panic!("{}", own(&["task"]).exec());
}

#[track_caller]
fn assert_preferred(nodes: NodeSet) {
    assert_eq!(sys::memory_policy().unwrap(), MemoryPolicy::Prefer(nodes));
}

/// A task's line from a process of its own.
fn said(arguments: &[&str]) -> Said {
    let ran = own(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {errors}");
    Said::all_in(&String::from_utf8_lossy(&ran.stdout)).remove(0)
}

/// A program's memory, if this thread starts it now.
fn touched(megabytes: usize) -> Said {
    said(&["task", &format!("megabytes={megabytes}")])
}

fn each_gpus_program_runs_and_has_its_pages_on_the_gpus_numa_node() {
    for (index, gpu) in topology().gpus.iter().enumerate() {
        // from the kernel itself, without our discovery
        let folder = format!("/sys/bus/pci/devices/{}", gpu.address);
        let read = |name| fs::read_to_string(format!("{folder}/{name}")).unwrap();
        let read = |name| read(name).trim().to_string();
        let said = said(&["place", &index.to_string()]);
        let node = read("numa_node");
        assert_eq!(said.word("cpus"), read("local_cpulist"), "GPU {index}");
        assert_eq!(said.mem(), format!("preferred-many:{node}"), "GPU {index}");
        assert_eq!(said.node_of_its_pages(), node.parse().ok(), "{said:?}");
    }
}

fn a_program_that_nobody_binds_may_run_and_allocate_anywhere() {
    let said = said(&["task"]);
    let mems = format!("0-{}", topology().numa_nodes.len() - 1);
    let words = ["cpus", "policy", "mems"].map(|word| said.word(word));
    assert_eq!(words, ["0-7", "default", &mems]);
}

fn pages_come_from_the_preferred_node_also_for_a_program_that_runs_on_another() {
    // CPU 0 is on NUMA node 0 of both machines
    sys::set_affinity(&cpus("0")).unwrap();
    assert_eq!(touched(4).node_of_its_pages(), Some(0));
    sys::prefer_memory(&nodes("1"), Balancing::Not).unwrap();
    let said = touched(4);
    let found = (said.mem(), said.node_of_its_pages());
    assert_eq!(found, ("preferred-many:1", Some(1)));
}

fn preferring_several_nodes_takes_the_nearest_of_them() {
    let last_cpu = cpus("7");
    sys::set_affinity(&last_cpu).unwrap();
    let own = topology().nodes_of(&last_cpu).first().unwrap();
    let several: NodeSet = [0, own].into_iter().collect();
    // a kernel before 6.9 does not know that its balancing could go on beside such a policy
    for balancing in [Balancing::AsWithoutPolicy, Balancing::Not] {
        sys::prefer_memory(&several, balancing).unwrap();
        assert_preferred(several.clone());
        assert_eq!(touched(4).node_of_its_pages(), Some(own as usize));
    }
}

fn a_node_that_does_not_exist_is_dropped_by_the_kernel_and_reading_back_shows_it() {
    sys::prefer_memory(&nodes("1,9"), Balancing::Not).unwrap();
    assert_preferred(nodes("1"));
    assert_eq!(touched(4).mem(), "preferred-many:1");
    let error = sys::prefer_memory(&nodes("9"), Balancing::Not).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert_preferred(nodes("1"));
}

fn a_cpuset_narrows_what_was_asked_for_and_reading_back_shows_it() {
    let root = "/sys/fs/cgroup";
    let folder = format!("{root}/narrow");
    let write = |folder: &str, file: &str, text: &str| {
        fs::write(format!("{folder}/{file}"), text).unwrap();
    };
    let own = std::process::id().to_string();
    write(root, "cgroup.subtree_control", "+cpuset");
    fs::create_dir(&folder).unwrap();
    write(&folder, "cpuset.cpus", "0-1");
    write(&folder, "cpuset.mems", "0");
    write(&folder, "cgroup.procs", &own);

    // it succeeds and gives less
    sys::set_affinity(&cpus("0-7")).unwrap();
    assert_eq!(sys::affinity().unwrap(), cpus("0-1"));
    assert!(sys::set_affinity(&cpus("6-7")).is_err());
    sys::prefer_memory(&nodes("0-1"), Balancing::Not).unwrap();
    assert_preferred(nodes("0"));
    assert!(sys::prefer_memory(&nodes("1"), Balancing::Not).is_err());
    let said = touched(4);
    let (cpus, mems) = (said.word("cpus"), said.word("mems"));
    let words = (cpus, mems, said.node_of_its_pages());
    assert_eq!(words, ("0-1", "0", Some(0)));

    write(root, "cgroup.procs", &own);
    fs::remove_dir(&folder).unwrap();
    write(root, "cgroup.subtree_control", "-cpuset");
}

fn a_fresh_process_has_the_default_policy() {
    assert_eq!(sys::memory_policy().unwrap(), MemoryPolicy::Default);
    assert_eq!(touched(1).mem(), "default");
    assert_eq!(sys::affinity().unwrap(), cpus("0-7"));
}

fn a_node_without_cpus_has_memory_that_could_be_preferred_and_never_is() {
    let topology = topology();
    assert!(topology.numa_node(2).unwrap().cpus.is_empty());
    for gpu in 0..topology.gpus.len() {
        let said = said(&["place", &gpu.to_string()]);
        let has_it = said.policy().1.contains(&2) || said.pages().contains_key(&2);
        assert!(!has_it, "GPU {gpu}: {said:?}");
    }
    // the kernel would do it
    sys::prefer_memory(&nodes("2"), Balancing::Not).unwrap();
    assert_eq!(touched(4).node_of_its_pages(), Some(2));
}

fn a_preferred_node_that_is_full_gives_way_to_others() {
    // the node has 128 MB
    sys::prefer_memory(&nodes("2"), Balancing::Not).unwrap();
    let said = touched(160);
    let is_so = said.pages().contains_key(&2) && said.pages().len() > 1;
    assert!(is_so, "{said:?}");
}
