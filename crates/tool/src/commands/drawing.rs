//! `--svg` and `-o`: draws the node to a file or to standard output.

use super::page::Page;
use super::{Failure, devices, output};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::placement::{NodePlacement, TaskPlacement};
use nic_placement_core::plan::{Plan, TaskPlan};
use nic_placement_core::topology::{Bitmap, CpuSet, GpuIndex, NicIndex, Topology};
use nic_placement_formats::picture::{self, DrawnPair, Scene};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct Drawing {
    /// a picture: where GPUs and NICs stand, and a coloured line from each GPU to its NICs
    #[arg(long, conflicts_with = "json")]
    svg: bool,
    /// where to write the picture: FILE.svg
    ///
    /// A regular file there is replaced when the new one is whole. Anything else, also a symbolic link, is refused.
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
}

impl Drawing {
    pub(super) fn is_wanted(&self) -> bool {
        self.svg || self.output.is_some()
    }

    pub(super) fn draw(&self, scene: &Scene, page: &mut Page) -> Result<(), Failure> {
        let svg = picture::svg(scene);
        let Some(file) = &self.output else {
            return output::deliver(&svg, None, page);
        };
        let ending = file.extension().unwrap_or_default().to_ascii_lowercase();
        if ending == "png" || !self.svg && ending != "svg" {
            let file = file.display();
            return Err(Failure::from(format!(
                "`{file}`: the name of a picture ends with .svg (`rsvg-convert -o FILE.png FILE.svg` makes a PNG of it)"
            )));
        }
        output::deliver(&svg, Some(file), page)
    }
}

pub(super) fn of_node<'a>(topology: &'a Topology, placement: &'a NodePlacement) -> Scene<'a> {
    let chosen = placement.numbered_gpus().flat_map(|(gpu, of)| {
        of.choices.iter().map(move |choice| {
            let rail = placement.rail(choice.rail);
            DrawnPair {
                gpu,
                nic: rail.nic,
                port: rail.port,
                path: choice.path,
            }
        })
    });
    let mut pairs: Vec<DrawnPair> = chosen.collect();
    if pairs.is_empty() {
        let gpus = topology.gpu_indices();
        pairs.extend(gpus.flat_map(|gpu| left_to_libfabric(topology, placement, gpu)));
    }
    scene(topology, placement, pairs)
}

/// The NICs nearest to a GPU among those that libfabric chooses by itself.
fn left_to_libfabric(
    topology: &Topology,
    placement: &NodePlacement,
    gpu: GpuIndex,
) -> Vec<DrawnPair> {
    let from = topology.gpu(gpu).address;
    let pair = |&nic: &NicIndex| {
        let path = topology.path_type(from, topology.nic(nic).address?);
        Some(DrawnPair {
            gpu,
            nic,
            port: 1,
            path,
        })
    };
    let pairs = placement.left_to_libfabric.iter().filter_map(pair);
    let nearest = pairs.clone().map(|pair| pair.path).min();
    pairs.filter(|pair| Some(pair.path) == nearest).collect()
}

/// The tasks of a step: each GPU with the NICs that its tasks got for it.
pub(super) fn of_plan<'a>(plan: &'a Plan, placed: &[TaskPlan]) -> Scene<'a> {
    let Plan { node, map, .. } = plan;
    let mut pairs = Vec::new();
    let mut tasks: BTreeMap<GpuIndex, Vec<&TaskPlan>> = BTreeMap::new();
    for task in placed {
        let gpus = &task.placement.gpus;
        gpus.iter()
            .for_each(|gpu| tasks.entry(*gpu).or_default().push(task));
        for &(rail, _) in &task.placement.rails {
            let is_choice = |gpu: &GpuIndex| {
                let choices = &map.gpu(*gpu).choices;
                choices.iter().any(|choice| choice.rail == rail)
            };
            let rail = map.rail(rail);
            let Some(address) = node.nic(rail.nic).address else {
                continue;
            };
            let path = |gpu: GpuIndex| node.path_type(node.gpu(gpu).address, address);
            let mut users: Vec<GpuIndex> = gpus.iter().copied().filter(is_choice).collect();
            if users.is_empty() {
                // no GPU's own choice: its nearest one speaks for the task
                users.extend(gpus.iter().copied().min_by_key(|&gpu| (path(gpu), gpu)));
            }
            pairs.extend(users.into_iter().map(|gpu| DrawnPair {
                gpu,
                nic: rail.nic,
                port: rail.port,
                path: path(gpu),
            }));
        }
    }
    if pairs.is_empty() {
        let gpus = tasks.keys().copied();
        pairs.extend(gpus.flat_map(|gpu| left_to_libfabric(node, map, gpu)));
    }
    let of_node = scene(node, map, pairs);
    let notes = tasks
        .into_iter()
        .map(|(gpu, tasks)| (gpu, note(node, &tasks)));
    let count = counted(placed.len(), "task");
    Scene {
        subtitle: format!("{} · {count}", of_node.subtitle),
        notes: notes.collect(),
        ..of_node
    }
}

/// The CPUs of a task.  A text without addresses names the CPUs of some GPUs, not those of the node, where another GPU's task stays.
pub(super) fn known_cpus<'a>(node: &Topology, placement: &'a TaskPlacement) -> Option<&'a CpuSet> {
    let is_known = |&gpu: &GpuIndex| {
        let address = node.gpu(gpu).address;
        !address.is_invented() || node.numa_node_of(address).is_some()
    };
    let cpus = &placement.cpus;
    (!cpus.is_empty() && placement.gpus.iter().all(is_known)).then_some(cpus)
}

/// `task 3 · cpus 0-55,112-167 · memory 0`
fn note(node: &Topology, tasks: &[&TaskPlan]) -> String {
    let numbers: Bitmap = tasks.iter().map(|task| task.placement.global_id).collect();
    let word = if tasks.len() == 1 { "task" } else { "tasks" };
    let [task] = tasks else {
        return format!("{word} {numbers}");
    };
    let cpus = known_cpus(node, &task.placement).map(|cpus| format!(" · cpus {cpus}"));
    let memory = Some(&task.placement.mems).filter(|nodes| !nodes.is_empty());
    let memory = memory.map(|nodes| format!(" · memory {nodes}"));
    let (cpus, memory) = (cpus.unwrap_or_default(), memory.unwrap_or_default());
    format!("{word} {numbers}{cpus}{memory}")
}

fn scene<'a>(
    topology: &'a Topology,
    placement: &'a NodePlacement,
    pairs: Vec<DrawnPair>,
) -> Scene<'a> {
    let models = topology.gpus.iter();
    let models: Vec<Option<&str>> = models
        .map(|gpu| devices::gpu_model(topology, gpu))
        .collect();
    let model = Scene::common_model(&models).map(|model| format!(" {model}"));
    let subtitle = format!(
        "{}{}, {} · {} · policy {}",
        counted(topology.gpus.len(), "GPU"),
        model.unwrap_or_default(),
        counted(topology.nics.len(), "NIC"),
        topology.provenance,
        placement.policy
    );
    Scene {
        topology,
        subtitle,
        pairs,
        models,
        placement,
        notes: BTreeMap::new(),
    }
}
