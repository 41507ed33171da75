//! The step that a line of srun would start on each of its idle nodes.

use super::SrunLine;
use super::cores::{Layout, Sockets};
use crate::gpus::slurms_numbers;
use crate::step::grant;
use nic_placement_core::diagnostic::counted;
use nic_placement_core::gpus::by_file;
use nic_placement_core::step::program::{binder, known};
use nic_placement_core::step::{Counted, Step, Task};
use nic_placement_core::topology::{CpuSet, GpuIndex, Topology};

/// By Slurm's rules since 23.11, which gives tasks GPUs near their masks (src/interfaces/gres.c), or the earlier ones.
pub fn plan(line: &SrunLine, node: &Topology, is_later: bool) -> Result<(Step, Vec<Task>), String> {
    let (said_nodes, said_tasks) = (line.number("nodes")?, line.number("ntasks")?);
    let nodes = said_nodes.unwrap_or(1);
    let by_node = line.number("ntasks-per-node")?.map(|each| each * nodes);
    let all = said_tasks.or(by_node).unwrap_or(nodes);
    if all % nodes != 0 || by_node.is_some_and(|tasks| tasks != all) {
        return Err(format!(
            "`-N {nodes}` with {all} tasks: only equally many on each node are modelled"
        ));
    }
    let (tasks, cpus_per_task) = (all / nodes, line.number("cpus-per-task")?);
    let per_task = line.number("gpus-per-task")?;
    if per_task.is_some() && said_nodes.or(said_tasks).or(by_node).is_none() {
        return Err("`--gpus-per-task` needs `-n` beside it".to_string());
    }
    let enough = |kind: &str, wanted: usize, has: usize| match wanted > has {
        true => Err(format!(
            "the tasks of a node ask for {}, and there are {has}",
            counted(wanted, kind)
        )),
        false => Ok(()),
    };
    let all_gpus = line.number("gpus")?.filter(|all| all % nodes == 0);
    let on_node = line.number("gpus-per-node")?.or(line.number("gres")?);
    let of_tasks = per_task.map(|each| each * tasks);
    let on_node = on_node.or(all_gpus.map(|all| all / nodes)).or(of_tasks);
    let on_node =
        on_node.ok_or("the line asks for no GPU, or not for equally many of each node")? as usize;
    enough("GPU", on_node, node.gpus.len())?;
    enough("GPU", of_tasks.unwrap_or(0) as usize, on_node)?;
    // in the order of the device files, as in gres.conf
    let gpus = &by_file(node)[..on_node];
    let sockets = Sockets::of(node).ok_or("the node's cores are not known, or differ")?;
    let threads = sockets.0[0][0].len();
    let hint = line.one_of("hint", &["nomultithread"])?;
    let order = line.one_of(
        "distribution",
        &["block", "cyclic", "block:cyclic", "block:block"],
    )?;
    let cpu_bind = line.one_of("cpu-bind", &["none", "cores", "threads"])?;
    let gpu_bind = line.one_of("gpu-bind", &["none", "closest"])?;
    let layout = Layout {
        sockets: &sockets,
        tasks: tasks as usize,
        each: cpus_per_task.unwrap_or(1) as usize,
        threads: match hint.or(line.one_of("threads-per-core", &["1"])?) {
            Some(_) => 1,
            None => threads,
        },
        by_block: order == Some("block:block"),
        is_later,
    };
    let cpus = sockets.size() * sockets.0.len() * layout.threads;
    enough("CPU", layout.tasks * layout.each, cpus)?;
    let cpus_of = |socket: &Vec<Vec<u32>>| socket.iter().flatten().copied().collect();
    let cpus_of_socket: Vec<CpuSet> = sockets.0.iter().map(cpus_of).collect();
    let socket_of = |gpu: &GpuIndex| {
        let numa = node.numa_node(node.numa_node_of(node.gpu(*gpu).address)?)?;
        cpus_of_socket
            .iter()
            .position(|cpus| cpus.is_subset(&numa.cpus))
    };
    let socket_of: Option<Vec<usize>> = gpus.iter().map(socket_of).collect();
    let socket_of = socket_of.ok_or(
        "a node whose sockets have several NUMA nodes is not modelled: gres.conf may name either",
    )?;
    let mut by_socket = vec![0; sockets.0.len()];
    socket_of.iter().for_each(|socket| by_socket[*socket] += 1);
    let counts = match line.one_of("exclusive", &[""])? {
        Some(_) => Some(layout.picked(&by_socket)),
        None => shared(&layout, &by_socket, per_task),
    };
    let counts = counts
        .ok_or("Slurm's choice of cores for such a line is not modelled: add `--exclusive`")?;
    let step_cpus = sockets.cpus(&counts);
    let masks = match cpu_bind {
        Some("none") => vec![step_cpus.clone(); layout.tasks],
        Some(_) if layout.each % threads != 0 => {
            return Err(format!(
                "`--cpu-bind` is modelled with whole cores a task, as `-c {threads}`"
            ));
        }
        _ => layout.masks(&counts),
    };
    let per_task = per_task.filter(|_| tasks > 1 && gpu_bind.is_none());
    let rule = per_task.map(|each| format!("per_task:{each}"));
    let rule = rule.or(gpu_bind.filter(|rule| *rule != "none").map(str::to_string));
    let mut left: Vec<usize> = (0..gpus.len()).collect();
    let mut gpus_of_task = |task: usize| -> Vec<GpuIndex> {
        let is_near = |gpu: &usize| cpus_of_socket[socket_of[*gpu]].intersects(&masks[task]);
        let own: Vec<usize> = match per_task {
            Some(each) => {
                if is_later {
                    left.sort_by_key(|gpu| (!is_near(gpu), *gpu));
                }
                left.drain(..each as usize).collect()
            }
            None => left
                .iter()
                .copied()
                .filter(|gpu| rule.is_none() || is_near(gpu))
                .collect(),
        };
        own.into_iter().map(|gpu| gpus[gpu]).collect()
    };
    let words = known(line.program.iter().map(String::as_str));
    let used: usize = counts.iter().sum();
    let step = Step {
        tasks,
        total_tasks: all,
        cpus_per_task,
        counted: Some(Counted {
            cpus: (used * threads) as u32,
            cores: used as u32,
        }),
        cpu_bind: cpu_bind.map(str::to_string),
        mem_bind: line
            .one_of("mem-bind", &["none", "local"])?
            .map(str::to_string),
        binder: binder(&words, |_| None),
        words,
        gpus: Some(slurms_numbers(node, gpus)),
        ..Step::default()
    };
    let device = if is_later { "gres/gpu" } else { "gpu" };
    let task = |id: u32| Task {
        local_id: id,
        global_id: id,
        gpus: grant(node, &gpus_of_task(id as usize)),
        cpus: masks[id as usize].clone(),
        step_cpus: step_cpus.clone(),
        masks: masks.clone(),
        threads_per_core: Some(threads),
        gpu_bind: rule.as_ref().map(|rule| format!("{device}:{rule}")),
        ..Task::default()
    };
    Ok((step, (0..tasks).map(task).collect()))
}

/// The step's cores by socket if other jobs may come: no more than it needs, on the sockets of its GPUs, each with as many.
fn shared(layout: &Layout, by_socket: &[usize], per_task: Option<u32>) -> Option<Vec<usize>> {
    let all = layout.cores_of(layout.tasks);
    let used: Vec<usize> = by_socket.iter().copied().filter(|gpus| *gpus > 0).collect();
    let (part, tasks) = (all / used.len(), layout.tasks / used.len());
    let is_even = match per_task {
        _ if used.len() == 1 => true,
        _ if layout.tasks == 1 => part * used.len() == all,
        Some(each) => {
            used.iter().all(|gpus| *gpus == tasks * each as usize)
                && layout.cores_of(tasks) * used.len() == all
        }
        None => false,
    };
    let counts = by_socket
        .iter()
        .map(|gpus| if *gpus > 0 { part } else { 0 });
    (is_even && part <= layout.sockets.size()).then(|| counts.collect())
}
