//! A line of srun as the step that it would start on each of its idle nodes.
#![forbid(unsafe_code)]

use super::Line;
use super::cores::{Layout, Sockets};
use crate::gpus::slurms_numbers;
use crate::step::{BadStep, grant};
use nic_placement_core::config::releases::Release;
use nic_placement_core::gpus::by_file;
use nic_placement_core::step::program::{binder, known};
use nic_placement_core::step::{Counted, Starter, Step, Task};
use nic_placement_core::topology::{CpuSet, GpuIndex, Topology};

/// A step as Slurm would start it on each of `nodes`.
pub struct Planned {
    pub nodes: u32,
    pub step: Step,
    pub tasks: Vec<Task>,
}

/// The step of this line by the rules of a release of Slurm.
pub fn plan(line: &Line, node: &Topology, release: &Release) -> Result<Planned, String> {
    // 23.11 gives tasks the GPUs near their masks, before GPUs by their numbers (src/interfaces/gres.c)
    let is_later = (release.major, release.minor) >= (23, 11);
    let (nodes, tasks) = counts(line)?;
    let cpus_each = line.cpus_per_task.unwrap_or(1);
    let sockets =
        Sockets::of(node).ok_or("the node's sockets and cores are not known, or differ")?;
    let (gpus, each) = gpus(line, node, nodes, tasks)?;
    let layout = Layout {
        tasks: tasks as usize,
        each: cpus_each as usize,
        one_thread: line.one_thread,
        by: line.by,
        bind: line.cpu_bind.as_deref(),
    };
    let size = sockets.cores[0].len() * sockets.cores.len();
    let has = size * if line.one_thread { 1 } else { sockets.threads };
    if layout.tasks * layout.each > has {
        return Err(BadStep::TooFew("CPU", tasks, cpus_each, has).to_string());
    }
    let socket_of: Vec<usize> = gpus
        .iter()
        .map(|&gpu| socket_of(node, &sockets, gpu))
        .collect::<Option<_>>()
        .ok_or("the sockets of the GPUs are not known")?;
    let mut by_socket = vec![0; sockets.cores.len()];
    socket_of.iter().for_each(|&socket| by_socket[socket] += 1);
    let spans = by_socket.iter().filter(|count| **count > 0).count() > 1;
    let near: Vec<bool> = by_socket.iter().map(|count| *count > 0 || spans).collect();
    let cores = match line.exclusive {
        true => layout.picked(&sockets, &near, is_later),
        false => shared(line, &layout, &sockets, &by_socket, each)?,
    };
    let masks = layout.masks(&sockets, &cores);
    let masks = masks.ok_or("such a `--cpu-bind` is not modelled with so many CPUs a task")?;
    let all = sockets.cpus(&cores);
    let (rule, dealt) = dealt(line, &gpus, &masks, each, is_later, |gpu| {
        sockets.cores[socket_of[gpu]]
            .iter()
            .flatten()
            .copied()
            .collect()
    })?;
    let words = known(line.program.iter().map(String::as_str));
    let step = Step {
        starter: Starter::Slurm,
        tasks,
        total_tasks: tasks * nodes,
        cpus_per_task: line.cpus_per_task,
        counted: Some(Counted {
            cpus: (cores.iter().sum::<usize>() * sockets.threads) as u32,
            cores: cores.iter().sum::<usize>() as u32,
        }),
        cpu_bind: line.cpu_bind.clone(),
        mem_bind: line.mem_bind.clone(),
        binder: binder(&words, |_| None),
        words,
        gpus: Some(slurms_numbers(node, &gpus)),
        job_cores: line.exclusive.then_some(size),
        alone_on_node: line.exclusive,
        ..Step::default()
    };
    let task = |(id, gpus): (usize, &Vec<GpuIndex>)| Task {
        local_id: id as u32,
        global_id: id as u32,
        gpus: grant(node, gpus),
        cpus: masks[id].clone(),
        step_cpus: all.clone(),
        masks: masks.clone(),
        threads_per_core: Some(sockets.threads),
        gpu_bind: rule.clone(),
        ..Task::default()
    };
    let tasks = dealt.iter().enumerate().map(task).collect();
    Ok(Planned { nodes, step, tasks })
}

/// Nodes, and tasks on each.
fn counts(line: &Line) -> Result<(u32, u32), String> {
    let by_gpus = line
        .gpus
        .zip(line.tasks_per_gpu)
        .map(|(gpus, each)| gpus * each);
    let nodes = line
        .nodes
        .unwrap_or_else(|| match (line.tasks, line.tasks_per_node) {
            (Some(all), Some(each)) => all.div_ceil(each),
            _ => 1,
        });
    let here = line.tasks_per_node.map(|each| each * nodes);
    let on_gpus = line.gpus_per_node.zip(line.tasks_per_gpu);
    let on_gpus = on_gpus.map(|(gpus, each)| gpus * each * nodes);
    let all = line.tasks.or(here).or(by_gpus).or(on_gpus).unwrap_or(nodes);
    match all % nodes == 0 && all > 0 && here.is_none_or(|here| here == all) {
        true => Ok((nodes, all / nodes)),
        false => Err(format!(
            "{all} tasks on {nodes} nodes: only nodes with equally many are modelled"
        )),
    }
}

/// The step's GPUs on the node in the order of their device files, and each task's number of its own.
fn gpus(
    line: &Line,
    node: &Topology,
    nodes: u32,
    tasks: u32,
) -> Result<(Vec<GpuIndex>, Option<u32>), String> {
    let each = line.gpus_per_task;
    let here = match (line.gpus_per_node, line.gpus, each) {
        (Some(here), None, _) => here,
        (None, Some(all), _) if all % nodes == 0 => all / nodes,
        (None, None, Some(each)) => each * tasks,
        (None, None, None) => return Err("the line asks for no GPU: nothing is placed".to_string()),
        _ => {
            return Err(
                "`--gpus` is modelled alone, and with equally many GPUs on each node".to_string(),
            );
        }
    };
    if let Some(each) = each.filter(|each| each * tasks > here) {
        return Err(BadStep::TooFew("GPU", tasks, each, here as usize).to_string());
    }
    let mut gpus = by_file(node);
    if here as usize > gpus.len() {
        let count = gpus.len();
        return Err(match each {
            Some(each) => BadStep::TooFew("GPU", tasks, each, count).to_string(),
            None => format!("the line asks for {here} GPUs, `{}` has {count}", node.name),
        });
    }
    gpus.truncate(here as usize);
    Ok((gpus, each))
}

fn socket_of(node: &Topology, sockets: &Sockets, gpu: GpuIndex) -> Option<usize> {
    let numa = node.numa_node(node.numa_node_of(node.gpu(gpu).address)?)?;
    let is_there =
        |cores: &Vec<Vec<u32>>| cores.iter().flatten().any(|cpu| numa.cpus.contains(*cpu));
    sockets.cores.iter().position(is_there)
}

/// The cores by socket of a step whose job shares the node: of the sockets of its GPUs, and no more than it needs.
fn shared(
    line: &Line,
    layout: &Layout,
    sockets: &Sockets,
    by_socket: &[usize],
    each: Option<u32>,
) -> Result<Vec<usize>, String> {
    let all = layout.cores_of(layout.tasks, sockets);
    let size = sockets.cores[0].len();
    let not_modelled = Err(
        "how Slurm chooses cores for this line is not modelled without `--exclusive`".to_string(),
    );
    let per_gpu = each
        .map(|each| (1, each as usize))
        .or(line.tasks_per_gpu.map(|count| (count as usize, 1)));
    let used: Vec<usize> = by_socket
        .iter()
        .copied()
        .filter(|count| *count > 0)
        .collect();
    if let [_] = used[..] {
        let counts = by_socket
            .iter()
            .map(|count| if *count > 0 { all } else { 0 });
        return if all <= size {
            Ok(counts.collect())
        } else {
            not_modelled
        };
    }
    if let Some((tasks, gpus)) = per_gpu {
        let is_even = used.iter().all(|count| *count == used[0]) && used[0] % gpus == 0;
        let here = used[0] / gpus * tasks;
        let cores = layout.cores_of(here, sockets);
        if !is_even
            || cores * used.len() != all
            || cores > size
            || here * used.len() != layout.tasks
        {
            return not_modelled;
        }
        return Ok(by_socket
            .iter()
            .map(|count| if *count > 0 { cores } else { 0 })
            .collect());
    }
    if line.one_thread
        || line.gpus.is_some()
        || line.by == super::Distribution::FullCyclic
        || used.len() < sockets.cores.len()
    {
        return not_modelled;
    }
    let mut left = all;
    let part = match (layout.tasks, layout.each) {
        (1, _) if all % used.len() == 0 => all / used.len(),
        (1, _) => return not_modelled,
        (_, 1) if line.by == super::Distribution::Cyclic => {
            return Ok(layout.picked(sockets, &vec![true; used.len()], true));
        }
        // all CPUs of a task on one socket
        (_, each) => {
            let whole = size * sockets.threads / each * each;
            if whole % sockets.threads != 0 {
                return not_modelled;
            }
            whole / sockets.threads
        }
    };
    let mut counts = Vec::new();
    for _ in by_socket {
        counts.push(part.min(left));
        left -= part.min(left);
    }
    if left > 0 { not_modelled } else { Ok(counts) }
}

/// The rule for GPUs in a task's environment, and each task's GPUs.
fn dealt(
    line: &Line,
    gpus: &[GpuIndex],
    masks: &[CpuSet],
    each: Option<u32>,
    is_later: bool,
    cpus_of: impl Fn(usize) -> CpuSet,
) -> Result<(Option<String>, Vec<Vec<GpuIndex>>), String> {
    let implied = each.map(|each| format!("per_task:{each}"));
    let implied = implied.or(line.tasks_per_gpu.map(|count| format!("single:{count}")));
    let rule = line
        .gpu_bind
        .clone()
        .or(implied.filter(|_| masks.len() > 1))
        .filter(|rule| rule != "none");
    let Some(rule) = rule else {
        return Ok((None, vec![gpus.to_vec(); masks.len()]));
    };
    let bad = || format!("`--gpu-bind={rule}` names no GPUs of the step");
    let (kind, list) = rule.split_once(':').unwrap_or((&rule, ""));
    let number = || {
        list.parse()
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(bad)
    };
    let mut users = vec![0; gpus.len()];
    let mut dealt = Vec::new();
    for (id, mask) in masks.iter().enumerate() {
        let near: Vec<usize> = (0..gpus.len())
            .filter(|&gpu| cpus_of(gpu).intersects(mask))
            .collect();
        let near = if near.is_empty() {
            (0..gpus.len()).collect()
        } else {
            near
        };
        let own: Vec<usize> = match kind {
            "closest" => near,
            "map_gpu" => {
                let map: Vec<usize> = list
                    .split(',')
                    .map(|gpu| gpu.parse().ok())
                    .collect::<Option<_>>()
                    .ok_or_else(bad)?;
                vec![map[id % map.len()]]
            }
            "single" if !is_later => vec![near[id / number()? % near.len()]],
            "per_task" if !is_later => (0..number()?)
                .map(|at| id * list.parse().unwrap_or(0) + at)
                .collect(),
            _ => {
                let (most, wanted) = if kind == "single" {
                    (number()?, 1)
                } else {
                    (1, number()?)
                };
                let all = near
                    .iter()
                    .copied()
                    .chain((0..gpus.len()).filter(|gpu| !near.contains(gpu)));
                let own: Vec<usize> = all.filter(|gpu| users[*gpu] < most).take(wanted).collect();
                own.iter().for_each(|gpu| users[*gpu] += 1);
                if own.len() < wanted {
                    return Err(bad());
                }
                own
            }
        };
        let own = own
            .into_iter()
            .map(|gpu| gpus.get(gpu).copied())
            .collect::<Option<Vec<_>>>();
        dealt.push(own.ok_or_else(bad)?);
    }
    let prefix = if is_later { "gres/gpu" } else { "gpu" };
    Ok((Some(format!("{prefix}:{rule}")), dealt))
}
