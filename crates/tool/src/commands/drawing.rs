//! `--svg` and `-o`: draws the node to a file or to standard output.

use super::page::Page;
use super::{Failure, devices, output};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::placement::{NodePlacement, TaskPlacement};
use nic_placement_core::plan::{Plan, TaskPlan};
use nic_placement_core::topology::{Bitmap, CpuSet, GpuIndex, NicIndex, PathType, Topology};
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
        let choices = of.choices.iter();
        choices.map(move |choice| (gpu, placement.rail(choice.rail).nic))
    });
    let gpus: Vec<GpuIndex> = topology.gpu_indices().collect();
    scene(topology, placement, chosen.collect(), &gpus)
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
            let is_choice = |gpu: &&GpuIndex| {
                let choices = &map.gpu(**gpu).choices;
                choices.iter().any(|choice| choice.rail == rail)
            };
            let nic = map.rail(rail).nic;
            let users = pairs.len();
            pairs.extend(gpus.iter().filter(is_choice).map(|gpu| (*gpu, nic)));
            if pairs.len() == users {
                // no GPU's own choice: its nearest one speaks for the task
                let nearest = gpus
                    .iter()
                    .min_by_key(|gpu| (path(node, **gpu, nic), **gpu));
                pairs.extend(nearest.map(|gpu| (*gpu, nic)));
            }
        }
    }
    let gpus: Vec<GpuIndex> = tasks.keys().copied().collect();
    let of_node = scene(node, map, pairs, &gpus);
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

fn path(node: &Topology, gpu: GpuIndex, nic: NicIndex) -> Option<PathType> {
    Some(node.path_type(node.gpu(gpu).address, node.nic(nic).address?))
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

/// With these GPUs' nearest NICs among those that libfabric chooses by itself, where there is no pair.
fn scene<'a>(
    topology: &'a Topology,
    placement: &'a NodePlacement,
    mut pairs: Vec<(GpuIndex, NicIndex)>,
    gpus: &[GpuIndex],
) -> Scene<'a> {
    if pairs.is_empty() {
        for &gpu in gpus {
            let nics = placement.left_to_libfabric.iter();
            let nics = nics.map(|&nic| (gpu, nic));
            let path = |pair: &(GpuIndex, NicIndex)| path(topology, pair.0, pair.1);
            let nearest = nics.clone().filter_map(|pair| path(&pair)).min();
            pairs.extend(nics.filter(|pair| nearest.is_some() && path(pair) == nearest));
        }
    }
    let drawn = |(gpu, nic)| {
        let path = path(topology, gpu, nic)?;
        Some(DrawnPair { gpu, nic, path })
    };
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
        pairs: pairs.into_iter().filter_map(drawn).collect(),
        models,
        placement,
        notes: BTreeMap::new(),
    }
}
