//! `--svg` and `-o`: the node as a picture, to a file or to standard output.
#![forbid(unsafe_code)]

use super::page::Page;
use super::{Failure, output};
use clap::ValueHint;
use nic_placement_core::diagnostic::counted;
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::plan::{Plan, TaskPlan};
use nic_placement_core::topology::{Bitmap, GpuIndex, Topology};
use nic_placement_formats::picture::{self, DrawnPair, Scene};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct Drawing {
    /// a picture: where GPUs and NICs stand, and a coloured line from each GPU to its NICs
    #[arg(long, conflicts_with = "json")]
    svg: bool,
    /// where to write the picture: FILE.svg or FILE.png
    ///
    /// A regular file there is replaced when the new one is whole. Anything else, also a symbolic link, is refused.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "json")]
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
        if ending == "png" {
            // before the fonts are read
            output::check(file)?;
            let mut fonts = Database::new();
            fonts.load_system_fonts();
            output::write_own(file, &png(&svg, fonts)?)?;
        } else if self.svg || ending == "svg" {
            output::deliver(&svg, Some(file), page)?;
        } else {
            return Err(Failure::from(format!(
                "`{}`: the name of a picture ends with .svg or .png (`rsvg-convert -f pdf` makes a PDF of an SVG)",
                file.display()
            )));
        }
        Ok(())
    }
}

/// Dots for a pixel: so many have the screens of today.
const ZOOM: f32 = 2.0;

/// Dots of a side, at most: a thousand devices would else take 1 GB of memory.
const MOST: f32 = 16384.0;

/// The picture in dots, in the first of the SVG's fonts that this machine has, else any.
fn png(svg: &str, mut fonts: Database) -> Result<Vec<u8>, String> {
    let is_there = |name: &str| {
        fonts
            .faces()
            .any(|face| face.families.iter().any(|(family, _)| family == name))
    };
    if !["DejaVu Sans", "Verdana", "Helvetica", "Arial"]
        .into_iter()
        .any(is_there)
    {
        let Some(any) = fonts.faces().next().map(|face| face.families[0].0.clone()) else {
            return Err("a PNG needs a font, and this machine has none: install one (Debian: fonts-dejavu-core), or write \
                        FILE.svg"
                .to_string());
        };
        fonts.set_sans_serif_family(any);
    }
    let options = Options {
        fontdb: fonts.into(),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(|error| format!("no picture: {error}"))?;
    let sides = [tree.size().width(), tree.size().height()];
    let zoom = sides
        .into_iter()
        .map(|side| MOST / side)
        .fold(ZOOM, f32::min);
    let [width, height] = sides.map(|side| (side * zoom) as u32);
    let mut dots = Pixmap::new(width, height)
        .ok_or_else(|| format!("no picture of {width} x {height} dots"))?;
    resvg::render(&tree, Transform::from_scale(zoom, zoom), &mut dots.as_mut());
    dots.encode_png()
        .map_err(|error| format!("no PNG: {error}"))
}

/// A node, and the NICs that each GPU would use.
pub(super) fn of_node<'a>(topology: &'a Topology, placement: &'a NodePlacement) -> Scene<'a> {
    let pairs = placement.numbered_gpus().flat_map(|(gpu, of)| {
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
    Scene {
        topology,
        subtitle: subtitle(topology, placement),
        pairs: pairs.collect(),
        placement,
        notes: BTreeMap::new(),
    }
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
            let of_map = |gpu: &GpuIndex| {
                map.gpu(*gpu)
                    .choices
                    .iter()
                    .any(|choice| choice.rail == rail)
            };
            let rail = map.rail(rail);
            let Some(address) = node.nic(rail.nic).address else {
                continue;
            };
            let path = |gpu: GpuIndex| node.path_type(node.gpu(gpu).address, address);
            let mut users: Vec<GpuIndex> = gpus.iter().copied().filter(of_map).collect();
            if users.is_empty() {
                // no GPU's own choice: its nearest one speaks for the task
                users.extend(gpus.iter().copied().min_by_key(|&gpu| (path(gpu), gpu)));
            }
            let pair = |gpu| DrawnPair {
                gpu,
                nic: rail.nic,
                port: rail.port,
                path: path(gpu),
            };
            pairs.extend(users.into_iter().map(pair));
        }
    }
    let notes = tasks
        .into_iter()
        .map(|(gpu, tasks)| (gpu, note(&tasks)))
        .collect();
    let count = counted(placed.len(), "task");
    let subtitle = format!("{} · {count}", subtitle(node, map));
    Scene {
        topology: node,
        subtitle,
        pairs,
        placement: map,
        notes,
    }
}

/// `task 3 · cpus 0-55,112-167 · memory 0`
fn note(tasks: &[&TaskPlan]) -> String {
    let numbers: Bitmap = tasks.iter().map(|task| task.placement.global_id).collect();
    let word = if tasks.len() == 1 { "task" } else { "tasks" };
    let [task] = tasks else {
        return format!("{word} {numbers}");
    };
    let cpus = match task.placement.cpus.cpus() {
        none if none.is_empty() => String::new(),
        cpus => format!(" · cpus {cpus}"),
    };
    let memory = task
        .placement
        .mems
        .nodes()
        .map(|nodes| format!(" · memory {nodes}"))
        .unwrap_or_default();
    format!("{word} {numbers}{cpus}{memory}")
}

fn subtitle(topology: &Topology, placement: &NodePlacement) -> String {
    let gpus = counted(topology.gpus.len(), "GPU");
    let nics = counted(topology.nics.len(), "NIC");
    let model = Scene::common_model(topology)
        .map(|model| format!(" {model}"))
        .unwrap_or_default();
    format!(
        "{gpus}{model}, {nics} · {} · policy {}",
        topology.provenance, placement.policy
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"><text y="15">i</text></svg>"#;

    #[test]
    fn a_png_without_any_font_says_what_to_install() {
        let said = png(SVG, Database::new()).unwrap_err();
        assert!(
            said.contains("fonts-dejavu-core") && said.contains("FILE.svg"),
            "{said}"
        );
    }

    #[test]
    fn a_long_picture_has_fewer_dots_for_a_pixel() {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        let Ok(file) = png(&SVG.replace("\"20\"", "\"32768\""), fonts) else {
            return println!("skipped: there is no font");
        };
        assert_eq!(file[16..24], [0, 0, 0, 15, 0, 0, 64, 0], "15 by 16384");
    }
}
