//! Where a task may run and where its memory comes from, never beyond what Slurm gave the step.
#![forbid(unsafe_code)]

use crate::placement::{Bind, CpuDecision, MemDecision};
use crate::step::{Step, Task};
use crate::topology::{NodeSet, Topology};

/// What is known when a task is bound.
pub struct Situation<'a> {
    /// the node
    pub topology: &'a Topology,
    /// the step
    pub step: &'a Step,
    /// the task
    pub task: &'a Task,
    /// its GPUs: positions in the topology
    pub gpus: &'a [usize],
    /// what the user and the admin want bound
    pub bind: Bind,
    /// may facts that are not this system's bind (the admin's `trust-topology`)?
    pub trust: bool,
}

/// Decides both; memory follows the CPUs.
pub fn bind(situation: &Situation) -> (CpuDecision, MemDecision) {
    let cpus = cpus(situation);
    let mems = mems(situation, &cpus);
    (cpus, mems)
}

/// NUMA nodes to be near to: those of the task's GPUs; or why there are none.
fn nodes_to_be_near(situation: &Situation) -> Result<NodeSet, String> {
    let Situation { topology, gpus, trust, .. } = situation;
    if !topology.provenance.is_this_system() && !trust {
        return Err(format!("the topology is not this system's: {}", topology.provenance));
    }
    if gpus.is_empty() {
        return Err("no GPU to be near to".to_string());
    }
    let nodes = gpus.iter().map(|&gpu| topology.numa_node_of(topology.gpus[gpu].address));
    nodes.collect::<Option<NodeSet>>().ok_or_else(|| "the kernel names no NUMA node for its GPU".to_string())
}

fn cpus(situation: &Situation) -> CpuDecision {
    let Situation { topology, step, task, .. } = situation;
    let keep = |why: String| CpuDecision::Keep { cpus: task.cpus.clone(), why };
    if let Some(how) = &step.cpu_bind {
        return keep(format!("`--cpu-bind={how}` was asked for"));
    }
    if situation.bind == Bind::None {
        return keep("`bind=none`".to_string());
    }
    let nodes = match nodes_to_be_near(situation) {
        Ok(nodes) => nodes,
        Err(why) => return keep(why),
    };
    if nodes.len() > 1 {
        return keep(format!("its GPUs span NUMA nodes {nodes}"));
    }
    let near = topology.cpus_of(&nodes);
    if task.cpus.is_empty() {
        return keep("its affinity could not be read".to_string());
    }
    if near.is_empty() {
        return keep(format!("NUMA node {nodes} of its GPU has no CPU"));
    }
    if task.cpus.is_subset(&near) {
        return keep(format!("already on NUMA node {nodes}, with its GPU"));
    }
    let part = task.cpus.intersection(&near);
    if !part.is_empty() {
        return CpuDecision::Set { cpus: part, why: format!("narrowed to NUMA node {nodes}, with its GPU") };
    }
    let step_near = task.step_cpus.intersection(&near);
    if !step_near.is_empty() {
        let why = format!("moved to the step's CPUs on NUMA node {nodes}, with its GPU");
        return CpuDecision::Set { cpus: step_near, why };
    }
    let why = format!(
        "the step has no CPU on NUMA node {nodes} of its GPU; `-m block:block` or `--gpu-bind=closest` may give it one"
    );
    CpuDecision::OutOfReach { cpus: task.cpus.clone(), why }
}

fn mems(situation: &Situation, cpus: &CpuDecision) -> MemDecision {
    let Situation { topology, step, .. } = situation;
    let keep = |why: String| MemDecision::Keep { why };
    if let Some(how) = &step.mem_bind {
        return keep(format!("`--mem-bind={how}` was asked for"));
    }
    if situation.bind != Bind::CpuMem {
        return keep(if situation.bind == Bind::Cpu { "`bind=cpu`" } else { "`bind=none`" }.to_string());
    }
    let nodes = match nodes_to_be_near(situation) {
        Ok(nodes) => nodes,
        Err(why) => return keep(why),
    };
    // Memory serves the CPUs too: a task that must run far from its GPU keeps its memory beside it.  This also leaves out
    // nodes without CPUs, which hold GPU memory on Grace.
    let nodes: NodeSet = nodes
        .iter()
        .filter(|&node| topology.numa_node(node).is_some_and(|node| node.cpus.intersects(cpus.cpus())))
        .collect();
    if nodes.is_empty() {
        return keep("it does not run near its GPU".to_string());
    }
    MemDecision::Prefer { why: format!("NUMA node {nodes} of its GPU first"), nodes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{CpuSet, Gpu, GpuVendor, NumaNode, PciFunction, PciParent, Provenance};

    /// Two NUMA nodes of eight CPUs, a GPU on each, and GPU memory that shows as a node without CPUs.
    fn node() -> Topology {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        for (os_index, cpus) in [(0, "0-7"), (1, "8-15"), (2, "")] {
            let cpus = CpuSet::from_list(cpus).unwrap();
            topology.numa_nodes.push(NumaNode { os_index, cpus, distances: Vec::new() });
        }
        for (address, node) in
            [("10:00.0", Some(0)), ("20:00.0", Some(1)), ("30:00.0", Some(2)), ("40:00.0", None)]
        {
            let address = address.parse().unwrap();
            let parent = PciParent::Host("pci0000:00".parse().unwrap());
            topology.pci.insert(PciFunction { numa_node: node, ..PciFunction::new(address, parent) });
            topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
        }
        topology
    }

    struct Case {
        gpus: &'static [usize],
        cpus: &'static str,
        step_cpus: &'static str,
        step: Step,
        bind: Bind,
        provenance: Provenance,
        trust: bool,
    }

    fn case(gpus: &'static [usize], cpus: &'static str, step_cpus: &'static str) -> Case {
        let (step, provenance) = (Step::default(), Provenance::ThisSystem);
        Case { gpus, cpus, step_cpus, step, bind: Bind::CpuMem, provenance, trust: false }
    }

    /// `cpus/nodes`, each empty where nothing changes.
    fn outcome(case: Case) -> String {
        let mut topology = node();
        topology.provenance = case.provenance;
        let task = Task {
            cpus: CpuSet::from_list(case.cpus).unwrap(),
            step_cpus: CpuSet::from_list(case.step_cpus).unwrap(),
            ..Task::default()
        };
        let (cpus, mems) = bind(&Situation {
            topology: &topology,
            step: &case.step,
            task: &task,
            gpus: case.gpus,
            bind: case.bind,
            trust: case.trust,
        });
        let cpus = match cpus {
            CpuDecision::Set { cpus, .. } => cpus.to_string(),
            CpuDecision::Keep { .. } => String::new(),
            CpuDecision::OutOfReach { .. } => "out of reach".to_string(),
        };
        match mems {
            MemDecision::Prefer { nodes, .. } => format!("{cpus}/{nodes}"),
            MemDecision::Keep { .. } => format!("{cpus}/"),
        }
    }

    #[test]
    fn a_task_that_is_near_its_gpu_stays_where_it_is() {
        assert_eq!(outcome(case(&[0], "2-3", "0-15")), "/0");
        assert_eq!(outcome(case(&[1], "8-15", "0-15")), "/1");
    }

    #[test]
    fn a_task_that_is_partly_near_is_narrowed() {
        assert_eq!(outcome(case(&[0], "4-11", "4-11")), "4-7/0");
    }

    #[test]
    fn a_task_on_the_wrong_socket_moves_to_what_the_step_owns_on_the_right_one() {
        assert_eq!(outcome(case(&[1], "0-3", "0-3,8-11")), "8-11/1");
    }

    #[test]
    fn a_step_without_a_cpu_near_the_gpu_is_left_alone_and_told_what_would_help() {
        let mut topology = node();
        topology.provenance = Provenance::ThisSystem;
        assert_eq!(outcome(case(&[1], "0-3", "0-7")), "out of reach/");
        let task = Task {
            cpus: CpuSet::from_list("0-3").unwrap(),
            step_cpus: CpuSet::from_list("0-7").unwrap(),
            ..Task::default()
        };
        let step = Step::default();
        let situation = Situation {
            topology: &topology,
            step: &step,
            task: &task,
            gpus: &[1],
            bind: Bind::CpuMem,
            trust: false,
        };
        assert!(bind(&situation).0.why().contains("-m block:block"));
    }

    #[test]
    fn gpus_on_both_sockets_a_cpuless_node_and_an_unknown_node_bind_nothing() {
        assert_eq!(outcome(case(&[0, 1], "0-3", "0-15")), "/0", "memory stays with the CPUs it runs on");
        assert_eq!(outcome(case(&[2], "0-3", "0-15")), "/");
        assert_eq!(outcome(case(&[3], "0-3", "0-15")), "/");
        assert_eq!(outcome(case(&[], "0-3", "0-15")), "/");
    }

    #[test]
    fn what_the_user_bound_stays_bound() {
        let explicit = |cpu: Option<&str>, mem: Option<&str>| Step {
            cpu_bind: cpu.map(str::to_string),
            mem_bind: mem.map(str::to_string),
            ..Step::default()
        };
        let with = |step: Step| Case { step, ..case(&[1], "4-11", "4-11") };
        assert_eq!(outcome(with(explicit(Some("cores"), None))), "/1");
        assert_eq!(outcome(with(explicit(Some("none"), Some("local")))), "/");
        assert_eq!(outcome(with(explicit(None, Some("local")))), "8-11/");
        assert_eq!(outcome(Case { bind: Bind::None, ..case(&[1], "4-11", "4-11") }), "/");
        assert_eq!(outcome(Case { bind: Bind::Cpu, ..case(&[1], "4-11", "4-11") }), "8-11/");
    }

    #[test]
    fn facts_that_are_not_this_systems_bind_nothing_unless_the_admin_trusts_them() {
        let model = || Provenance::Model("dgx-h100".to_string());
        assert_eq!(outcome(Case { provenance: model(), ..case(&[1], "4-11", "4-11") }), "/");
        assert_eq!(
            outcome(Case { provenance: model(), trust: true, ..case(&[1], "4-11", "4-11") }),
            "8-11/1"
        );
    }
}
